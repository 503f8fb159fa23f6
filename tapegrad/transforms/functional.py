"""Transformations of functions: `grad`, `value_and_grad`, `elementwise_grad`, `jit`.

Each takes a function and returns a function.  `grad` runs its function at every call (`transforms.plain`); `jit` records it
once and replays it after (`transforms.replay`).  NumPy in, NumPy out.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

import numpy as np

from ..array.differentiable import Differentiable
from ..array.inplace import unshared
from ..array.record import normalise
from ..array.typing import Argnums, KernelPolicy, OfFirst, OfFirstTwo, OfSecond, Unknown
from ..autograd import nested
from ..autograd.recording import RealPart, refuse_complex
from ..common.errors import OptionError, StructureError
from ..common.keywords import answers
from ..common.tree import conjugated, flatten
from ..nopython.api import by_numba
from ..program.evaluation import Evaluation, applied
from ..tape.places import placed_name
from ..tape.store import thread_state
from .argnums import by_position, from_front, is_number
from .keep import kept
from .replay.answers import MISS, of_gradients, values_of
from .replay.kernels import JitOptions, checked_policy

if TYPE_CHECKING:
    from ..kernel.of_tape import TapeKernel
    from ..program.finish import FinishedTape
    from .replay.stats import Stats

Via = Literal["record", "numba"]
R = TypeVar("R", bound=Any, covariant=True)
X = TypeVar("X", bound=Any)
Y = TypeVar("Y", bound=Any)


class Transformed(Generic[R]):
    """What a transformation returns: a function with results of type `R`, and its statistics.

    Attributes
    ----------
    __wrapped__ : callable
        The user's function.
    """

    if TYPE_CHECKING:

        __name__: str
        __wrapped__: Callable[..., Any]

        # Of what is called with a number that is not an int, an array, or a container the derivative is one, too.
        @overload
        def __call__(self: Transformed[Unknown], *args: Any, **kwargs: Any) -> Any: ...
        @overload
        def __call__(self: Transformed[Differentiable], *args: Any, **kwargs: Any) -> Any: ...
        @overload
        def __call__(self: Transformed[int], *args: Any, **kwargs: Any) -> float: ...
        @overload
        def __call__(self, *args: Any, **kwargs: Any) -> R: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    else:

        def __call__(self, *args, **kwargs):
            replayed = self._replayed
            answer = replayed.quick(args, kwargs) if replayed.recent else MISS
            return self._answered(args, kwargs) if answer is MISS else answer

    _made_of: tuple[tuple[Any, ...], dict[str, Any]]
    _ahead = 0  # how many arguments go ahead of those of the function

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        self = super().__new__(cls)
        self._made_of = args, kwargs
        return self

    def __repr__(self):
        return f"<{'tg.jit of ' if self._replayed.jit is not None else ''}{type(self).__name__.strip('_')} of {placed_name(self.__wrapped__)}>"

    def __reduce__(self):
        """A copy, here or in another process, is made of the same function (or its copy), and records for itself."""
        with contextlib.suppress(AttributeError, KeyError):
            if operator.attrgetter(self.__qualname__)(sys.modules[self.__module__]) is self:
                return self.__qualname__
        return _made, (type(self), *self._made_of)

    def __init__(self, function, argnums, has_aux=False, scalar=True):
        if not callable(function):
            raise StructureError(f"expected a function to differentiate, got {type(function).__name__}")
        # What is under jit, whatever is made of it is.
        options = options_of(function)
        if isinstance(function, Jitted):
            function = function.__wrapped__
        functools.update_wrapper(self, function, updated=())
        argnums = from_front(function, by_position(function, argnums))
        self._one = is_number(argnums)
        some = argnums or isinstance(self, Jitted)
        if not self._one and not (isinstance(argnums, (tuple, list)) and some and all(map(is_number, argnums))):
            raise StructureError(f"argnums={argnums!r} is not the position of an argument, or a tuple of them")
        self._argnums = (int(argnums),) if self._one else tuple(int(a) for a in argnums)
        from .replay.function import Replayed  # it loads what replays

        self._replayed = Replayed(function, self._argnums, has_aux, scalar, jit=options, planned=self._planned)
        self._has_aux = has_aux

    def _planned(self, kept, structure):
        """How calls like the last one are answered (`Replayed`), or None."""
        return None

    def _asked(self, args, kwargs):
        """What a recording is asked for (`Replayed.call`): a function, or None for what the transformation differentiates."""
        return None

    def _answered(self, args, kwargs):
        """The answer the long way: `_ordinary`, or, inside of another derivative and recorded there, `_inside`."""
        more = kwargs or len(args) > len(self._replayed.argnums)
        answer = unshared(self._somewhere, args, kwargs, self._replayed.argnums) if more else self._somewhere(args, kwargs)
        return answer if self._replayed.jit is None else self._looked_at(answer, args, kwargs)

    def _looked_at(self, answer, args, kwargs):
        """`answer`; where numbers that are not finite are looked for (`detect_anomaly`) and a recording has given one, the function is run plainly."""
        checking = thread_state().checking
        if checking is not None and not nested.is_nested(args, kwargs):
            plain = not_under_jit(self)
            checking.again(answer, args, kwargs, getattr(plain, "_answered", lambda args, kwargs: plain(*args, **kwargs)), self.__wrapped__, self._ahead)
        return answer

    def _somewhere(self, args, kwargs, kept=()):
        """`_ordinary` or `_inside`."""
        if nested.is_nested(args, kwargs):
            return self._inside(args, kwargs)
        return nested.beside(self._ordinary, self._inside, args, kwargs, kept=kept)

    def recorded_as(self, transformation: Callable[..., Any]) -> Transformed[Any] | None:
        """Of a function under `jit`, what a transformation that knows nothing of it makes of the function, recorded; else None."""
        options = self._replayed.jit
        return None if options is None else under_jit(transformation(not_under_jit(self)), options)

    def __get__(self, thing: Any, owner: type | None = None) -> Any:
        """As a method: that of `thing`, which has recordings of its own."""
        if thing is None:
            return self
        if self._replayed.jit is not None and not isinstance(getattr(thing, "__dict__", None), dict):
            raise StructureError(
                f"{self.__name__} is under tg.jit, but what is recorded of a method is kept in the __dict__ of its instance, and "
                f"{type(thing).__name__} has none; put tg.jit around a function that is given the instance"
            )
        (function, *args), kwargs = self._made_of
        return kept(thing, self, lambda thing: type(self)(bound(function, thing), *args, **kwargs))

    def stats(self) -> Stats:
        """What has been recorded and replayed so far: a `Stats`, readable with ``print``."""
        return self._replayed.stats

    def tape(self, *args: Any, **kwargs: Any) -> FinishedTape:
        """The finished tape that answers a call with these arguments: ``print(g.tape(x))`` lists it.

        Examples
        --------
        >>> import tapegrad as tg
        >>> g = tg.grad(lambda x, y: x * y + 1.0)
        >>> len(g.tape(2.0, 3.0))
        2
        """
        return self._replayed.tape(args, kwargs, self._asked(args, kwargs))

    def kernel(self, *args: Any, **kwargs: Any) -> TapeKernel:
        """The kernel of the tape that answers a call with these arguments, compiled now if it is none yet.

        Its ``source()``, ``llvm()``, ``asm()``, ``nbytes`` (of the workspace) and ``seconds`` (by stage of compilation)
        can be looked at.

        Raises
        ------
        UnsupportedFunctionError
            Some instruction has no machine code; it is named with its line.

        Examples
        --------
        >>> import numpy as np, tapegrad as tg
        >>> g = tg.grad(lambda x: np.sum(np.exp(x)))
        >>> print(g.kernel(np.zeros(3)).source())  # doctest: +ELLIPSIS
        x0: float64[3]
        ...
        """
        return self._replayed.kernel(args, kwargs, self._asked(args, kwargs))


class OfValues(Transformed[R]):
    """What answers with the results of the recorded function, and no derivatives of it."""

    def _ordinary(self, args, kwargs):
        return self._replayed.call(args, kwargs, backward=False).value()

    def _planned(self, kept, structure):
        kernel = kept.kernels.get(False)
        return kernel and (kernel, None, (kept.tape.structure, values_of(kept.tape)))


class Jitted(OfValues[R]):
    """What `jit` returns of a function that is no transformation: the function itself, recorded."""

    def __init__(self, function, options):
        super().__init__(function, ())
        self._replayed.jit = options

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        answer = self._replayed.quick(args, kwargs)
        if answer is not MISS:
            return answer
        if any(isinstance(leaf, Differentiable) for leaf in flatten((args, kwargs))[0]):
            # Part of something that is being recorded, or differentiated.
            return self._inside(args, kwargs)
        return self._looked_at(nested.beside(self._ordinary, self._inside, args, kwargs), args, kwargs)

    def _inside(self, args, kwargs):
        return self.__wrapped__(*args, **kwargs)


def bound(function, thing):
    """`function` as a method of `thing`."""
    return function.__get__(thing) if isinstance(function, Transformed) else types.MethodType(function, thing)


def options_of(function):
    """How a function is to be recorded (`jit`), or None; of ours that stand for another, as of that one."""
    while str(type(function).__module__).startswith("tapegrad."):
        if isinstance(function, Transformed) and function._replayed.jit is not None:
            return function._replayed.jit
        function = getattr(function, "__wrapped__", None)
    return None


def under_jit(function, options):
    """`function` recorded: a transformation made anew, or a `Jitted`."""
    if isinstance(function, Jitted) or not isinstance(function, Transformed):
        return Jitted(getattr(function, "__wrapped__", function) if isinstance(function, Jitted) else function, options)
    return of_another(function, lambda inner: under_jit(inner, options) if isinstance(inner, Jitted) else Jitted(inner, options))


def not_under_jit(function):
    """`function` as it was before it was given to `jit`."""
    if isinstance(function, Jitted):
        return function.__wrapped__
    if not isinstance(function, Transformed):
        return function
    return of_another(function, not_under_jit)


def of_another(function, change):
    """The transformation `function`, made anew of what `change` makes of its function."""
    (inner, *args), kwargs = function._made_of
    return type(function)(change(inner), *args, **kwargs)


@overload
def jit(fun: Callable[..., X], *, kernel: KernelPolicy | None = None, fastmath: bool = False) -> Jitted[X]: ...
@overload
def jit(fun: None = None, *, kernel: KernelPolicy | None = None, fastmath: bool = False) -> Callable[[Callable[..., X]], Jitted[X]]: ...
@answers(
    static_argnums="leave it out: what is no float and no array of floats is static by itself",
    static_argnames="leave it out: what is no float and no array of floats is static by itself",
    donate_argnums="leave it out: arguments are only read", backend="leave it out: there is one device", device="leave it out: there is one device",
)  # fmt: skip
def jit(
    fun: Callable[..., Any] | None = None, *, kernel: KernelPolicy | None = None, fastmath: bool = False
) -> Transformed[Any] | Callable[[Callable[..., Any]], Transformed[Any]]:
    """`fun` recorded once for each kind of arguments and each path, and answered by machine code after.

    Without `jit` a transformation such as `grad` runs its function at every call.  ``tg.jit(tg.grad(f))`` runs `f` to be
    recorded, and then no more: what `f` reads besides its arguments is part of what was recorded, and what it does besides
    (printing, counting) has happened.  ``tg.grad(tg.jit(f))`` means the same.

    Parameters
    ----------
    fun : callable
        A function, or what any transformation returned.  Without it `jit` returns a decorator, for functions and methods.
    kernel : {"auto", "always", "never"}, optional
        When recordings become machine code.  "auto": the first path at its first call, or by
        another thread, while sweeps answer, if that is predicted to take more than two seconds; later paths by that thread,
        when it pays.  "always": every path at its first call.  "never": sweeps answer.
        By default what ``tg.config.kernel`` says (from the environment variable ``TAPEGRAD_KERNEL``, else "auto").
    fastmath : bool
        Allow ``a * b + c`` to be rounded once, and sums and products to be made in another order.  That is often faster, and
        the results differ from those of plain calls by rounding.

    Returns
    -------
    callable
        Called with arrays and floats: NumPy out.  Called with tensors or dual numbers it is `fun` itself.

    Raises
    ------
    StructureError
        `fun` cannot be called, or returns None or text.
    OptionError
        `kernel` is no policy.

    Warns
    -----
    PathWarning
        The function cannot be recorded, or would have to be at nearly every call; it is run plainly then.

    Notes
    -----
    Branches, indices and sizes that Python takes from values are guarded: where one falls otherwise, the function is recorded
    on its new path, and both are kept.  Of what the function reads besides its arguments each call looks at what is cheap to
    look at; the page "Derivatives of functions" lists it.  A function with an instruction that has no machine code
    (``stats()`` names it) is answered by sweeps.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> @tg.jit
    ... def f(x):
    ...     total = 0.0
    ...     for k in range(len(x)):
    ...         total = total + np.sin(x[k]) * k
    ...     return total
    >>> round(f(np.ones(10)), 6)
    37.866194
    >>> tg.grad(f)(np.zeros(3))
    array([0., 1., 2.])
    >>> g = tg.jit(tg.grad(lambda x: np.sum(x ** 2)))
    >>> g(np.array([1.0, 2.0])), g(np.array([3.0, 4.0])), g.stats().records
    (array([2., 4.]), array([6., 8.]), 1)
    """
    options = JitOptions(checked_policy(kernel), fastmath)
    if fun is None:
        return lambda function: under_jit(function, options)
    if not callable(fun):
        raise StructureError(f"expected a function for tg.jit, got {type(fun).__name__}")
    return under_jit(fun, options)


def _made(kind, args, kwargs):
    return kind(*args, **kwargs)


def chosen(argnums, argnum, kernel=None):
    """`argnums`, or its name in HIPS autograd, `argnum`; `kernel` is refused."""
    if kernel is not None:
        raise OptionError(f"kernel={kernel!r} is an option of tg.jit: put tg.jit(..., kernel={kernel!r}) around this transformation")
    if argnum is None:
        return argnums
    if argnums != 0:
        raise StructureError(f"argnums={argnums!r} and argnum={argnum!r} are two names of the same; give one")
    return argnum


class ValueAndGrad(Transformed[Any]):
    _has_value = True

    def _planned(self, kept, structure):
        answer = of_gradients(kept.tape, structure, self._argnums, self._one, self._has_aux, self._has_value)
        return kept.executable(), None, answer

    def _ordinary(self, args, kwargs):
        outcome = self._replayed.call(args, kwargs)
        return self._picked(outcome.value(), self._gradients(outcome.gradients, args))

    def _inside(self, args, kwargs):
        self._replayed.check_positions(args)
        return applied(self._body, self.__wrapped__, args, self._argnums, kwargs, self._one)

    def _body(self, e):
        gradients = e.contained(e.gradients(self._has_aux, self._replayed.scalar))
        return self._picked(e.value(), gradients)

    def _picked(self, value, gradient):
        return value, gradient

    def _gradients(self, gradients, args):
        """Gradients of the wanted arguments, in their containers."""
        if len(gradients) == 1 and self._one and type(args[self._argnums[0]]) in (float, np.ndarray):
            # What nearly all calls are.
            return normalise(gradients[0])
        structures = [flatten(args[k])[1] for k in sorted({*self._argnums})]
        return Evaluation(None, self._argnums, self._one, structures).contained(map(normalise, gradients))


def _made_via(via, kind, fun, argnums, has_aux):
    if via == "record":
        return kind(fun, argnums, has_aux)
    if via != "numba" or has_aux or issubclass(kind, _ConjugateValueAndGrad):
        raise OptionError(f'via={via!r}: it is "record" or "numba", and "numba" is for functions that return one real number, without has_aux')
    return by_numba(fun, argnums, kind._has_value, kind(getattr(fun, "py_func", fun), argnums))


class _Grad(ValueAndGrad):
    _has_value = False

    def _picked(self, value, gradient):
        return (gradient, value[1]) if self._has_aux else gradient


class _ElementwiseGrad(_Grad):
    def _picked(self, value, gradient):
        refuse_complex(flatten(value)[1])
        return super()._picked(value, gradient)


class _ConjugateValueAndGrad(ValueAndGrad):
    def _planned(self, kept, structure):
        return None

    def _picked(self, value, gradient):
        return super()._picked(value, conjugated(gradient))


class _ConjugateGrad(_ConjugateValueAndGrad, _Grad):
    pass


@overload
def value_and_grad(fun: OfFirst[X], argnums: Literal[0] = 0, has_aux: Literal[False] = False) -> Transformed[tuple[float, X]]: ...
@overload
def value_and_grad(fun: OfSecond[X], argnums: Literal[1], has_aux: Literal[False] = False) -> Transformed[tuple[float, X]]: ...
@overload
def value_and_grad(
    fun: OfFirstTwo[X, Y], argnums: tuple[Literal[0], Literal[1]], has_aux: Literal[False] = False
) -> Transformed[tuple[float, tuple[X, Y]]]: ...
@overload
def value_and_grad(
    fun: Callable[..., Any], argnums: tuple[int, ...], has_aux: Literal[False] = False
) -> Transformed[tuple[float, tuple[Any, ...]]]: ...
@overload
def value_and_grad(fun: OfFirst[X], argnums: Literal[0] = 0, *, has_aux: Literal[True]) -> Transformed[tuple[tuple[float, Any], X]]: ...
@overload
def value_and_grad(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, argnum: Argnums | None = None,
    conjugate: bool = False, via: Via = "record",
) -> Transformed[tuple[Any, Any]]: ...  # fmt: skip
def value_and_grad(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, argnum: Argnums | None = None,
    kernel: None = None, conjugate: bool = False, via: Via = "record",
) -> Transformed[Any]:  # fmt: skip
    """The value of a scalar function together with its gradient.

    Parameters
    ----------
    fun : callable
        Returns a float or an array of one, whose shape the value keeps (or a pair of that and anything else, with `has_aux`).
    argnums : int or sequence of int
        Positions of the arguments to differentiate; they may be containers (dicts, lists, tuples,
        namedtuples, dataclasses) of floats and arrays, whose gradients come in the same containers.
        Also called `argnum`, as in HIPS autograd.
    has_aux : bool
        Whether `fun` returns a pair of which only the first part is differentiated.
    kernel : None
        An option of `jit`; here it is refused.
    conjugate : bool
        Of complex arguments the conjugate of the gradient ``dL/dRe + i dL/dIm``, as in JAX and HIPS autograd.
    via : {"record", "numba"}
        ``"numba"``: `fun` is compiled by Numba and differentiated from its source, loops and all, with no recording, as by
        `njit_value_and_grad`.  It takes what that takes: numbers, arrays, tuples.

    Returns
    -------
    callable
        ``(value, gradient)`` of the same arguments; ``((value, aux), gradient)`` with `has_aux`.

    Raises
    ------
    NonScalarOutputError
        `fun` returns more than one number; see `jacobian`, `elementwise_grad`.
    StructureError
        `argnums` names no argument, an argument to differentiate is no number or array, or `fun` returns None or text.
    DtypeError
        An argument is an array of integers; or `fun` returns a truth value or integers.
    HigherOrderError
        An argument, or a number that `fun` uses, is itself being differentiated.
    UnsupportedInNumbaError
        With ``via="numba"``: `fun` does something that is not followed there; the message has its line.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> g = tg.value_and_grad(lambda x: np.sum(x ** 2))
    >>> g(np.array([1.0, 2.0]))
    (5.0, array([2., 4.]))
    """
    return _made_via(via, _ConjugateValueAndGrad if conjugate else ValueAndGrad, fun, chosen(argnums, argnum, kernel), has_aux)


@overload
def grad(fun: OfFirst[X], argnums: Literal[0] = 0, has_aux: Literal[False] = False) -> Transformed[X]: ...
@overload
def grad(fun: OfSecond[X], argnums: Literal[1], has_aux: Literal[False] = False) -> Transformed[X]: ...
@overload
def grad(fun: OfFirstTwo[X, Y], argnums: tuple[Literal[0], Literal[1]], has_aux: Literal[False] = False) -> Transformed[tuple[X, Y]]: ...
@overload
def grad(fun: Callable[..., Any], argnums: tuple[int, ...], has_aux: Literal[False] = False) -> Transformed[tuple[Any, ...]]: ...
@overload
def grad(fun: OfFirst[X], argnums: Literal[0] = 0, *, has_aux: Literal[True]) -> Transformed[tuple[X, Any]]: ...
@overload
def grad(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, argnum: Argnums | None = None,
    conjugate: bool = False, holomorphic: bool = False, via: Via = "record",
) -> Transformed[Any]: ...  # fmt: skip
def grad(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, argnum: Argnums | None = None,
    kernel: None = None, conjugate: bool = False, holomorphic: bool = False, via: Via = "record",
) -> Transformed[Any]:  # fmt: skip
    """The gradient of a scalar function.

    Parameters
    ----------
    fun : callable
        Plain Python and NumPy, loops and branches included; returns a float or an array of one (or a pair of that and anything else, with `has_aux`).
    argnums : int, str, or sequence of them
        Which arguments to differentiate, by position or name: floats, arrays, or containers of them. Also called `argnum`.
    has_aux : bool
        Whether `fun` returns a pair of which only the first part is differentiated.
    kernel : None
        An option of `jit`; here it is refused.
    conjugate : bool
        Of complex arguments the conjugate of the gradient ``dL/dRe + i dL/dIm``, as in JAX and HIPS autograd.
    via : {"record", "numba"}
        ``"numba"``: compiled by Numba and differentiated from its source, as by `njit_grad`.
    holomorphic : bool
        `fun` returns a complex number, and is holomorphic: its complex derivative.

    Returns
    -------
    callable
        The gradient at the same arguments, in the shape of the argument; ``(gradient, aux)`` with `has_aux`.

    Raises
    ------
    NonScalarOutputError, StructureError, DtypeError, HigherOrderError
        `fun` returns more than one number (see `jacobian`), or an argument or a result is no float: the message names it.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.grad(lambda x: x ** 3)(2.0)
    12.0
    """
    argnums = chosen(argnums, argnum, kernel)
    if holomorphic:
        fun = RealPart(fun, has_aux)
    return _made_via(via, _ConjugateGrad if conjugate or holomorphic else _Grad, fun, argnums, has_aux)


@overload
def elementwise_grad(fun: OfFirst[X], argnums: Literal[0] = 0) -> Transformed[X]: ...
@overload
def elementwise_grad(fun: OfSecond[X], argnums: Literal[1]) -> Transformed[X]: ...
@overload
def elementwise_grad(fun: OfFirstTwo[X, Y], argnums: tuple[Literal[0], Literal[1]]) -> Transformed[tuple[X, Y]]: ...
@overload
def elementwise_grad(fun: Callable[..., Any], argnums: tuple[int, ...]) -> Transformed[tuple[Any, ...]]: ...
@overload
def elementwise_grad(fun: Callable[..., Any], argnums: Argnums = 0, *, argnum: Argnums | None = None) -> Transformed[Any]: ...  # fmt: skip
def elementwise_grad(
    fun: Callable[..., Any], argnums: Argnums = 0, *, argnum: Argnums | None = None, kernel: None = None
) -> Transformed[Any]:
    """The derivative of each element of the result with respect to its element of the argument, summed otherwise.

    This is the gradient of the sum of all results: the sums of the columns of the Jacobian.  For a function that works element by element it
    is the derivative at every element.

    Parameters
    ----------
    fun : callable
        Returns numbers, arrays, or containers of them.
    argnums : int, str, or sequence of them
        Which arguments to differentiate, by position or name. Also called `argnum`.
    kernel : None
        An option of `jit`; here it is refused.

    Returns
    -------
    callable
        Gives an array of the shape of the argument.

    Raises
    ------
    StructureError, DtypeError, HigherOrderError
        An argument or result is no float: the message names it.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> tg.elementwise_grad(lambda x: x ** 3)(np.array([1.0, 2.0]))
    array([ 3., 12.])
    """
    return _ElementwiseGrad(fun, chosen(argnums, argnum, kernel), scalar=False)

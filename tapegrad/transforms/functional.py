"""Transformations of functions: `grad`, `value_and_grad`, `elementwise_grad`, `jit`.

Each takes a function and returns a function.  `grad` runs its function at every call (`transforms.plain`); `jit` records it
once and replays it after (`transforms.replay`).  NumPy in, NumPy out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar, overload

from ..array.record import normalise
from ..array.typing import Argnums, KernelPolicy, OfFirst, OfFirstTwo, OfSecond
from ..autograd.recording import RealPart, refuse_complex
from ..common.errors import OptionError, StructureError
from ..common.public import answers
from ..common.tree import conjugated, flatten
from ..nopython.api import by_numba
from ..program.evaluation import Evaluation
from .argnums import check_function
from .replay.answers import of_gradients
from .replay.kernels import JitOptions, checked_policy
from .transformed import Jitted, Transformed, under_jit

Via = Literal["record", "numba"]
#: What overloads say of `has_aux` and `argnums`.
No = Literal[False]
FirstTwo = tuple[Literal[0], Literal[1]]
R = TypeVar("R", bound=Any, covariant=True)
X = TypeVar("X", bound=Any)
Y = TypeVar("Y", bound=Any)
#: For who knows `jit` from elsewhere.
_STATIC = "leave it out: what is no float and no array of floats is static by itself"


@overload
def jit(fun: Callable[..., X], *, kernel: KernelPolicy | None = None, fastmath: bool = False) -> Jitted[X]: ...
@overload
def jit(fun: None = None, *, kernel: KernelPolicy | None = None, fastmath: bool = False) -> Callable[[Callable[..., X]], Jitted[X]]: ...
@answers(
    static_argnums=_STATIC, static_argnames=_STATIC,
    donate_argnums="leave it out: arguments are only read", backend="leave it out: there is one device", device="leave it out: there is one device",
)  # fmt: skip
def jit(
    fun: Callable[..., Any] | None = None, *, kernel: KernelPolicy | None = None, fastmath: bool = False
) -> Transformed[Any] | Callable[[Callable[..., Any]], Transformed[Any]]:
    """Record `fun` once for each kind of arguments and each path, and answer later calls by machine code.

    Without `jit`, a transformation such as `grad` runs its function at every call.  ``tg.jit(tg.grad(f))`` runs `f` only to
    record it: what `f` reads besides its arguments is part of the recording, and its side effects
    (printing, counting) are not repeated.  ``tg.grad(tg.jit(f))`` means the same.

    Parameters
    ----------
    fun : callable
        A function, or the result of any transformation.  Without it, `jit` returns a decorator for functions and methods.
    kernel : {"auto", "always", "never"}, optional
        When recordings become machine code.  "auto": the first path at its first call or, if that is predicted to take
        more than two seconds, in another thread while sweeps answer; later paths in that thread, when it pays.
        "always": every path at its first call.  "never": sweeps answer.
        The default is ``tg.config.kernel`` (from the environment variable ``TAPEGRAD_KERNEL``, else "auto").
    fastmath : bool
        Allow ``a * b + c`` to be rounded once, and sums and products to be reordered.  That is often faster, but
        the results differ from those of plain calls by rounding.

    Returns
    -------
    callable
        Called with arrays and floats, it returns NumPy data.  Called with tensors or dual numbers, it acts as `fun` itself.

    Raises
    ------
    StructureError
        `fun` is not callable, or returns None or text.
    OptionError
        `kernel` is not a policy.

    Warns
    -----
    PathWarning
        The function cannot be recorded, or would be recorded at nearly every call; it then runs as without `jit`.

    Notes
    -----
    Branches, indices and sizes that Python takes from values are guarded: if one comes out differently, the function is recorded
    on its new path, and both recordings are kept.  Of the things that the function reads besides its arguments, each call checks
    those that are cheap to check; the page "Derivatives of functions" lists them.  If an instruction has no machine code
    (``stats()`` names it), sweeps answer.

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
    check_function(fun, " for tg.jit")
    return under_jit(fun, options)


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

    def __init__(self, function, argnums, has_aux=False, scalar=True, conjugate=False):
        super().__init__(function, argnums, has_aux, scalar)
        self._conjugate = conjugate

    def _planned(self, kept, structure):
        if self._conjugate:
            return None
        answer = of_gradients(kept.tape, structure, self._argnums, self._one, self._has_aux, self._has_value)
        return kept.executable(), None, answer

    def _ordinary(self, args, kwargs):
        outcome = (self._replays or self._replayed).call(args, kwargs)
        gradients = self._gradients(outcome.gradients, args)
        return self._picked(outcome.value(), conjugated(gradients) if self._conjugate else gradients)

    def body(self, e):
        gradients = e.contained(e.gradients(self._has_aux, self._scalar))
        return self._picked(e.value(), conjugated(gradients) if self._conjugate else gradients)

    def _picked(self, value, gradient):
        return value, gradient

    def _gradients(self, gradients, args):
        """Gradients of the wanted arguments, in their containers."""
        if len(gradients) == 1 and self._one and type(args[self._argnums[0]]) is type(gradients[0]):
            # A number or an array, as nearly always.
            return gradients[0] if type(gradients[0]) is float else normalise(gradients[0])
        structures = [flatten(args[k])[1] for k in sorted({*self._argnums})]
        return Evaluation(None, self._argnums, self._one, structures).contained(map(normalise, gradients))


def _made_via(via, kind, fun, argnums, has_aux, conjugate):
    if via == "record":
        return kind(fun, argnums, has_aux, conjugate=conjugate)
    if via != "numba" or has_aux or conjugate:
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


@overload
def value_and_grad(fun: OfFirst[X], argnums: Literal[0] = 0, has_aux: No = False) -> Transformed[tuple[float, X]]: ...
@overload
def value_and_grad(fun: OfSecond[X], argnums: Literal[1], has_aux: No = False) -> Transformed[tuple[float, X]]: ...
@overload
def value_and_grad(fun: OfFirstTwo[X, Y], argnums: FirstTwo, has_aux: No = False) -> Transformed[tuple[float, tuple[X, Y]]]: ...
@overload
def value_and_grad(fun: Callable[..., Any], argnums: tuple[int, ...], has_aux: No = False) -> Transformed[tuple[float, tuple[Any, ...]]]: ...
@overload
def value_and_grad(fun: OfFirst[X], argnums: Literal[0] = 0, *, has_aux: Literal[True]) -> Transformed[tuple[tuple[float, Any], X]]: ...
@overload
def value_and_grad(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, argnum: Argnums | None = None,
    conjugate: bool = False, via: Via = "record",
) -> Transformed[tuple[Any, Any]]: ...  # fmt: skip
@answers(static_argnums=_STATIC, static_argnames=_STATIC, kernels="put tg.jit(..., kernel=...) around it")
def value_and_grad(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, argnum: Argnums | None = None,
    kernel: None = None, conjugate: bool = False, via: Via = "record",
) -> Transformed[Any]:  # fmt: skip
    """Make a function that returns the value of a scalar function together with its gradient.

    Parameters
    ----------
    fun : callable
        Returns a float or an array of one element, whose shape the value keeps (with `has_aux`, a pair of that and anything else).
    argnums : int or sequence of int
        Positions of the arguments to differentiate; they may be containers (dicts, lists, tuples,
        namedtuples, dataclasses) of floats and arrays, whose gradients come in the same containers.
        Also called `argnum`, as in HIPS autograd.
    has_aux : bool
        Whether `fun` returns a pair, of which only the first part is differentiated.
    kernel : None
        An option of `jit`; here it is refused.
    conjugate : bool
        Whether to return, for complex arguments, the conjugate of the gradient ``dL/dRe + i dL/dIm``, as in JAX and HIPS autograd.
    via : {"record", "numba"}
        ``"numba"``: Numba compiles `fun`, which is differentiated from its source, loops included, without recording, as by
        `njit_value_and_grad`.  It takes the same arguments: numbers, arrays, tuples.

    Returns
    -------
    callable
        Takes the arguments of `fun` and returns ``(value, gradient)``, or ``((value, aux), gradient)`` with `has_aux`.

    Raises
    ------
    NonScalarOutputError
        `fun` returns more than one number; see `jacobian`, `elementwise_grad`.
    StructureError
        `argnums` names no argument, an argument to differentiate is not a number or array, or `fun` returns None or text.
    DtypeError
        An argument is an array of integers; or `fun` returns a truth value or integers.
    HigherOrderError
        An argument, or a number that `fun` uses, is itself being differentiated.
    UnsupportedInNumbaError
        With ``via="numba"``: `fun` does something that is not supported there; the message gives its line.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> g = tg.value_and_grad(lambda x: np.sum(x ** 2))
    >>> g(np.array([1.0, 2.0]))
    (5.0, array([2., 4.]))
    """
    return _made_via(via, ValueAndGrad, fun, chosen(argnums, argnum, kernel), has_aux, conjugate)


@overload
def grad(fun: OfFirst[X], argnums: Literal[0] = 0, has_aux: No = False) -> Transformed[X]: ...
@overload
def grad(fun: OfSecond[X], argnums: Literal[1], has_aux: No = False) -> Transformed[X]: ...
@overload
def grad(fun: OfFirstTwo[X, Y], argnums: FirstTwo, has_aux: No = False) -> Transformed[tuple[X, Y]]: ...
@overload
def grad(fun: Callable[..., Any], argnums: tuple[int, ...], has_aux: No = False) -> Transformed[tuple[Any, ...]]: ...
@overload
def grad(fun: OfFirst[X], argnums: Literal[0] = 0, *, has_aux: Literal[True]) -> Transformed[tuple[X, Any]]: ...
@overload
def grad(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, argnum: Argnums | None = None,
    conjugate: bool = False, holomorphic: bool = False, via: Via = "record",
) -> Transformed[Any]: ...  # fmt: skip
@answers(static_argnums=_STATIC, static_argnames=_STATIC, kernels="put tg.jit(..., kernel=...) around it")
def grad(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, argnum: Argnums | None = None,
    kernel: None = None, conjugate: bool = False, holomorphic: bool = False, via: Via = "record",
) -> Transformed[Any]:  # fmt: skip
    """Make a function that returns the gradient of a scalar function.

    Parameters
    ----------
    fun : callable
        Plain Python and NumPy, including loops and branches; returns a float or an array of one element (with `has_aux`, a pair of that
        and anything else).
    argnums : int, str, or sequence of them
        Which arguments to differentiate, by position or name: floats, arrays, or containers of them. Also called `argnum`.
    has_aux : bool
        Whether `fun` returns a pair, of which only the first part is differentiated.
    kernel : None
        An option of `jit`; here it is refused.
    conjugate : bool
        Whether to return, for complex arguments, the conjugate of the gradient ``dL/dRe + i dL/dIm``, as in JAX and HIPS autograd.
    via : {"record", "numba"}
        ``"numba"``: Numba compiles `fun`, which is differentiated from its source, as by `njit_grad`.
    holomorphic : bool
        Whether `fun` is holomorphic and returns a complex number: the result is then its complex derivative.

    Returns
    -------
    callable
        Takes the arguments of `fun` and returns the gradient, in the shape of the argument; ``(gradient, aux)`` with `has_aux`.

    Raises
    ------
    NonScalarOutputError, StructureError, DtypeError, HigherOrderError
        `fun` returns more than one number (see `jacobian`), or an argument or a result is not a float; the message names it.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.grad(lambda x: x ** 3)(2.0)
    12.0
    """
    argnums = chosen(argnums, argnum, kernel)
    return _made_via(via, _Grad, RealPart(fun, has_aux) if holomorphic else fun, argnums, has_aux, conjugate or holomorphic)


@overload
def elementwise_grad(fun: OfFirst[X], argnums: Literal[0] = 0) -> Transformed[X]: ...
@overload
def elementwise_grad(fun: OfSecond[X], argnums: Literal[1]) -> Transformed[X]: ...
@overload
def elementwise_grad(fun: OfFirstTwo[X, Y], argnums: FirstTwo) -> Transformed[tuple[X, Y]]: ...
@overload
def elementwise_grad(fun: Callable[..., Any], argnums: tuple[int, ...]) -> Transformed[tuple[Any, ...]]: ...
@overload
def elementwise_grad(fun: Callable[..., Any], argnums: Argnums = 0, *, argnum: Argnums | None = None) -> Transformed[Any]: ...  # fmt: skip
def elementwise_grad(fun: Callable[..., Any], argnums: Argnums = 0, *, argnum: Argnums | None = None, kernel: None = None) -> Transformed[Any]:
    """Make a function that returns the gradient of the sum of all results: the column sums of the Jacobian.

    For a function that works element by element, this is the derivative of each element of the result with respect to its element
    of the argument.

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
        Takes the arguments of `fun` and returns an array of the shape of the argument.

    Raises
    ------
    StructureError, DtypeError, HigherOrderError
        An argument or result is not a float; the message names it.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> tg.elementwise_grad(lambda x: x ** 3)(np.array([1.0, 2.0]))
    array([ 3., 12.])
    """
    return _ElementwiseGrad(fun, chosen(argnums, argnum, kernel), scalar=False)

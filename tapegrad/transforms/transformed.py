"""What transformations return: a function with recordings and statistics of its own, and what `jit` makes of one.

A `Transformed` answers a call in one of three ways: `Replayed.quick`, as it answered one like it; `_ordinary`, by a call of its function or by a
replay; `_inside`, recorded on the tape of the derivative that it is called in.

Transformations that are a *body*, a function of an `Evaluation`, are run at once, inside of another derivative, and under `jit`:

=================== ============================= ============================== ====================================================
class               at once                       inside of another derivative   under `jit`
=================== ============================= ============================== ====================================================
`RecordedWhole`     on tensors, on a tape         on the tensors that are there  the same, recorded with all that the body computes
`OfDirections`      by compiled sweeps over the   on the tensors that are there  the function is recorded; the body asks its kernels
                    tape of the function                                         for directions, and is one indexing of their results
=================== ============================= ============================== ====================================================

A new transformation is one function ``body(evaluation)`` and ``RecordedWhole(function, argnums, body)``.  `OfDirections` is for
bodies that only arrange: matrices of many directions, which would be long tapes.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from ..array.differentiable import Differentiable
from ..array.operators import unshared
from ..array.record import current_body
from ..array.typing import Unknown
from ..autograd import nested
from ..common.errors import HigherOrderError, StructureError, TapeMismatchError
from ..common.tree import flatten
from ..program.evaluation import Evaluation, applied
from ..tape.places import placed_name
from ..tape.store import thread_state
from .argnums import check_function, check_given, resolved
from .keep import kept
from .replay.answers import MISS, values_of, written
from .replay.directions import of_directions

if TYPE_CHECKING:
    from ..kernel.kernel import TapeKernel
    from ..program.finish import FinishedTape
    from .replay.running import Stats

R = TypeVar("R", bound=Any, covariant=True)


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
            replayed = self._replays
            answer = replayed.quick(args, kwargs) if replayed is not None and replayed.recent else MISS
            return self._answered(args, kwargs) if answer is MISS else answer

    _made_of: tuple[tuple[Any, ...], dict[str, Any]]
    _ahead = 0  # how many arguments go ahead of those of the function
    _replays: Any = None  # what `_replayed` has made

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        self = super().__new__(cls)
        self._made_of = args, kwargs
        return self

    def __repr__(self):
        return f"<{'tg.jit of ' if self._jit is not None else ''}{type(self).__name__.strip('_')} of {placed_name(self.__wrapped__)}>"

    def __reduce__(self):
        """A copy, here or in another process, is made of the same function (or its copy), and records for itself."""
        with contextlib.suppress(AttributeError, KeyError):
            if operator.attrgetter(self.__qualname__)(sys.modules[self.__module__]) is self:
                return self.__qualname__
        # (What is called is not copied, its arguments are.)
        return _made, (type(self), *self._made_of)

    def __init__(self, function, argnums, has_aux=False, scalar=True):
        check_function(function, " to differentiate")
        # What is under jit, whatever is made of it is.
        self._jit = options_of(function)
        if isinstance(function, Jitted):
            function = function.__wrapped__
        functools.update_wrapper(self, function, updated=())
        self._one, self._argnums = (False, ()) if isinstance(self, Jitted) else resolved(function, argnums)
        self._has_aux, self._scalar = has_aux, scalar

    @property
    def _numbers(self):
        """The positions of what is differentiated, with what goes ahead."""
        return (*range(self._ahead), *(k + self._ahead for k in self._argnums)) if self._ahead else self._argnums

    @property
    def _replayed(self):
        """What runs or replays the function: made when it is first asked for, which inside of another derivative it is not."""
        return self._replays if self._replays is not None else vars(self).setdefault("_replays", self._made_replayed())

    @property
    def _function(self):
        """What is evaluated and recorded: the function, or what is made of it."""
        return self.__wrapped__

    def _made_replayed(self):
        from .replay.function import Replayed  # it loads what replays

        return Replayed(self._function, self._argnums, self._has_aux, self._scalar, jit=self._jit, planned=self._planned)

    def _planned(self, kept, structure):
        """How calls like the last one are answered (`Replayed`), or None."""
        return None

    def _asked(self, args, kwargs):
        """What a recording is asked for (`Replayed.call`): a function, or None for what the transformation differentiates."""
        return None

    def _answered(self, args, kwargs):
        """The answer the long way: `_ordinary`, or, inside of another derivative and recorded there, `_inside`."""
        more = kwargs or len(args) > len(self._argnums) + self._ahead
        answer = unshared(self._somewhere, args, kwargs, self._numbers) if more else self._somewhere(args, kwargs)
        return answer if self._jit is None else self._looked_at(answer, args, kwargs)

    def _inside(self, args, kwargs):
        """The answer on the tensors that are there: what the `body` of the transformation computes of the evaluation."""
        check_given(self._numbers, args)
        return applied(self.body, self._function, args[self._ahead :], self._argnums, kwargs, self._one, args[: self._ahead])

    def _looked_at(self, answer, args, kwargs):
        """`answer`; where numbers that are not finite are looked for (`detect_anomaly`) and a recording has given one, the function is run plainly."""
        checking = thread_state().checking
        if checking is not None and not nested.is_nested(args, kwargs):
            plain = not_under_jit(self)
            plainly = getattr(plain, "_answered", lambda args, kwargs: plain(*args, **kwargs))
            checking.again(answer, args, kwargs, plainly, self.__wrapped__, self._ahead, lambda: self._replayed.anomaly(args, kwargs))
        return answer

    def _somewhere(self, args, kwargs, kept=()):
        """`_ordinary` or `_inside`."""
        if nested.is_nested(args, kwargs):
            return self._inside(args, kwargs)
        # (As of `nested.beside`: a plain call of nothing takes a hundred such calls.)
        try:
            return self._ordinary(args, kwargs)
        except TapeMismatchError:
            return nested.once_more(self._inside, args, kwargs, kept=kept)

    def recorded_as(self, transformation: Callable[..., Any]) -> Transformed[Any] | None:
        """Of a function under `jit`, what a transformation that knows nothing of it makes of the function, recorded; else None."""
        options = self._jit
        return None if options is None else under_jit(transformation(not_under_jit(self)), options)

    def __get__(self, thing: Any, owner: type | None = None) -> Any:
        """As a method: that of `thing`, which has recordings of its own."""
        if thing is None:
            return self
        if self._jit is not None and not isinstance(getattr(thing, "__dict__", None), dict):
            raise StructureError(
                f"{self.__name__} is under tg.jit, which keeps the recordings of a method in the __dict__ of its instance, and "
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
        kernel = kept.kernels.made.get(False)
        return kernel and (kernel, None, (kept.tape.structure, values_of(kept.tape)))


class Jitted(OfValues[R]):
    """What `jit` returns of a function that is no transformation: the function itself, recorded."""

    def __init__(self, function, options):
        super().__init__(function, ())
        self._jit = options

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        answer = (self._replays or self._replayed).quick(args, kwargs)
        if answer is not MISS:
            return answer
        if current_body() or any(isinstance(leaf, Differentiable) for leaf in flatten((args, kwargs))[0]):
            # Part of something that is being recorded, or differentiated.
            return self._inside(args, kwargs)
        return self._looked_at(nested.beside(self._ordinary, self._inside, args, kwargs), args, kwargs)

    def _inside(self, args, kwargs):
        return self.__wrapped__(*args, **kwargs)


class BodyProgram:
    """A transformation of a function as a function: its `body` on tensors, inside of another derivative or where it is recorded whole.

    Parameters
    ----------
    function : callable
    argnums : sequence of int
        The arguments that are differentiated.
    one : bool
        As of an `Evaluation`.
    body : callable
        ``body(evaluation, *ahead)``: containers.
    ahead : int
        How many arguments go ahead of those of the function, and are the body's.
    """

    def __init__(self, function, argnums, one, body, ahead=0):
        functools.update_wrapper(self, function, updated=())
        self.function, self.argnums, self.one, self.body, self.ahead = function, argnums, one, body, ahead

    def __call__(self, *args, **kwargs):
        return applied(self.body, self.function, args[self.ahead :], self.argnums, kwargs, self.one, args[: self.ahead])


class RecordedWhole(OfValues[Any]):
    """A transformation that is its body, whichever way it is called: under `jit` that is recorded whole.

    Parameters
    ----------
    function, argnums
        As of `grad`.
    body, ahead
        As of a `BodyProgram`.
    """

    def __init__(self, function, argnums, body, ahead=0):
        super().__init__(function, argnums)
        if len({*self._argnums}) < len(self._argnums):
            raise StructureError(f"argnums={argnums!r} names an argument twice")
        self.body, self._ahead = body, ahead

    def _made_replayed(self):
        from .replay.function import Replayed

        program = BodyProgram(self.__wrapped__, self._argnums, self._one, self.body, self._ahead)
        return Replayed(program, self._numbers, scalar=False, adjoints=False, jit=self._jit, planned=self._planned)


class OfDirections(Transformed[Any]):
    """A transformation whose ``body(evaluation)`` asks for derivatives in several directions and arranges them.

    Under `jit` it is the function that is recorded, and what is asked for comes from kernels of its derivatives in a few directions at a time.
    A call may name an array `out`, to which the answer is written (of a sparse array the values), and which is returned.
    """

    def __call__(self, *args, out=None, **kwargs):
        replayed = self._replays
        answer = replayed.quick(args, kwargs, out) if replayed is not None and replayed.recent else MISS
        if answer is not MISS:
            return answer
        if out is None:
            return self._answered(args, kwargs)
        if nested.is_nested(args, kwargs):
            raise HigherOrderError(
                "out= is memory that carries no derivative: inside of another derivative, and of tensors that require a gradient, call without it"
            )
        return written(self._answered(args, kwargs), out)

    def _evaluation(self, walk, structure):
        """That by a walk, for arguments of this structure."""
        return Evaluation(walk, self._argnums, self._one, [structure.parts[0].parts[k] for k in sorted({*self._argnums})])

    def _asked(self, args, kwargs):
        structure = flatten((args, kwargs))[1]
        return lambda walk: self.body(self._evaluation(walk, structure))

    def _ordinary(self, args, kwargs):
        return self._replayed.call(args, kwargs, self._asked(args, kwargs)).gradients

    def _planned(self, kept, structure):
        return of_directions(kept, lambda walk: self.body(self._evaluation(walk, structure)))


def bound(function, thing):
    """`function` as a method of `thing`."""
    return function.__get__(thing) if isinstance(function, Transformed) else types.MethodType(function, thing)


def options_of(function):
    """How a function is to be recorded (`jit`), or None; of ours that stand for another, as of that one."""
    while str(type(function).__module__).startswith("tapegrad."):
        if isinstance(function, Transformed) and function._jit is not None:
            return function._jit
        function = getattr(function, "__wrapped__", None)
    return None


def under_jit(function, options):
    """`function` recorded: a transformation made anew, or a `Jitted`."""
    if isinstance(function, Jitted) or not isinstance(function, Transformed):
        return Jitted(function, options)
    return of_another(function, lambda inner: Jitted(inner, options))


def not_under_jit(function):
    """`function` as it was before it was given to `jit`."""
    if isinstance(function, Jitted):
        return function.__wrapped__
    return of_another(function, not_under_jit) if isinstance(function, Transformed) else function


def of_another(function, change):
    """The transformation `function`, made anew of what `change` makes of its function."""
    (inner, *args), kwargs = function._made_of
    return type(function)(change(inner), *args, **kwargs)


def _made(kind, args, kwargs):
    return kind(*args, **kwargs)

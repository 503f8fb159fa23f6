"""Transformations that are a body, a function of an `Evaluation`: how it is run at once, inside of another derivative, and under `jit`.

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

import functools
from typing import Any

from ..autograd import nested
from ..common.errors import HigherOrderError, StructureError
from ..common.tree import flatten
from ..program.evaluation import Evaluation, applied
from .argnums import check_given
from .replay.answers import MISS, written
from .replay.gathered import of_directions
from .transformed import OfValues, Transformed


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
        self._ahead = ahead
        self._program = BodyProgram(self.__wrapped__, self._argnums, self._one, body, ahead)

    def _made_replayed(self):
        from .replay.function import Replayed

        return Replayed(self._program, self._numbers, scalar=False, adjoints=False, jit=self._jit, planned=self._planned)

    def _inside(self, args, kwargs):
        check_given(self._numbers, args)
        return self._program(*args, **kwargs)


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

    def _inside(self, args, kwargs):
        check_given(self._argnums, args)
        return applied(self.body, self._replayed.function, args, self._argnums, kwargs, self._one)

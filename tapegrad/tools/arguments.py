"""A function that is looked at: which arguments are numbers, leaves of these, its results, and what it does with values on the way."""

from _thread import get_ident
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..array.creation import from_numpy
from ..array.record import tracked
from ..array.tensor import Tensor
from ..autograd.tape import Tape
from ..common.errors import StructureError
from ..common.observers import listening
from ..common.tree import flatten
from ..tape.places import caller_place


def differentiable(a):
    """Whether an argument is a number or an array that derivatives are taken in."""
    return type(a) is float or isinstance(a, (np.ndarray, np.floating, Tensor)) and a.dtype.char in "df"


class Arguments:
    """A function and its arguments.

    Attributes
    ----------
    argnums : list of int
        Which arguments are numbers or arrays that derivatives are taken in.
    points : list
        Their values.
    leaves : list of Tensor
        Of the values, with their dtypes and strides.
    """

    def __init__(self, what: str, f: Callable[..., Any], args: Sequence[Any]) -> None:
        self.f, self.args, self.argnums = f, args, [k for k, a in enumerate(args) if differentiable(a)]
        self.points = [args[k]._v if isinstance(args[k], Tensor) else args[k] for k in self.argnums]
        if not self.points:
            raise StructureError(f"{what}: no argument is a float or an array of floats, so there is nothing to differentiate")
        self.leaves = [from_numpy(np.asarray(p)).requires_grad_(True) for p in self.points]

    def arguments_at(self, points: Iterable[Any]) -> list[Any]:
        """All arguments, with `points` where something is differentiated."""
        return [*(dict(enumerate(self.args)) | dict(zip(self.argnums, points))).values()]

    def results_at(self, points: Iterable[Any]) -> list[Any]:
        """The numbers and arrays that the function returns there, in order."""
        return flatten(self.f(*self.arguments_at(points)))[0]


class WatchedRun(Arguments):
    """A function that has run once on a tape.

    ``seen(run, how, operands, keywords)`` is called where this thread uses values of tensors with a derivative and gives a result without
    (`common.observers`).

    Attributes
    ----------
    tape, store
        The tape.
    events : list of (int, Place, object)
        Before which slot and where values were used so, and what `seen` said of it.
    results : list
        Its numbers and arrays.
    """

    def __init__(self, what: str, f: Callable[..., Any], args: Any, seen: Callable[..., Any]) -> None:
        super().__init__(what, f, args)
        self.tape, self.events = Tape(), []
        self.store = self.tape.store
        ident = get_ident()

        def listener(how, operands, kwargs):
            if get_ident() == ident and any(isinstance(t, Tensor) and tracked(t) for t in operands):
                self.events.append((self.store.length, caller_place(), seen(self, how, operands, kwargs)))

        with listening(listener), self.tape:
            self.results = self.results_at(self.leaves)

    def tracked(self) -> list[Tensor]:
        """The results that depend on an argument."""
        return [r for r in self.results if isinstance(r, Tensor) and tracked(r)]

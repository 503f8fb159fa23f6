"""`explain_jumps`: whether a derivative is the one that is wanted where a function decides.

A derivative is that of the path which was taken.  Where a decision (a branch, `where`, `floor`, an `argmax`, the end of a loop) is close to
another outcome, the function may be another one on the other side: its value may jump, which no derivative sees, or its slope.

The function runs on a tape while a listener notes each comparison with what it compares; other decisions are instructions of the tape.
The margin of a decision (the difference of the two sides, the distance to the next integer) is recorded on the same tape, so
one knows in which direction the other outcome is nearest, and how far.  The place where it changes is found by bisection; value and
gradient on its two sides say what the decision does.  Many small jumps, each of which is nothing (a sum over paths that end at a
barrier, a bisection), are found by what the derivative predicts over a stretch and what the value does there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import count, takewhile
from typing import Any, NamedTuple

import numpy as np

from ..array.record import tracked
from ..array.tensor import Tensor
from ..autograd.anomaly import detect_anomaly
from ..autograd.reading import Region, slot_on
from ..autograd.tape import adjoints_of, entries_of
from ..common.errors import OptionError
from ..common.printing import Printed
from ..tape.layout import CONTINUES
from ..tape.places import inner_frames
from ..tape.store import thread_state
from .arguments import Arguments, WatchedRun

#: A jump, or a change of slope, beside the value, or the slopes; in a solver's own decisions, which keep to its tolerance.
RELATIVE, OF_SOLVERS = 1e-3, 1e-2
#: By how much prediction and value differ over a stretch with many small jumps, beside the change that is predicted.
MISSED = 0.05
#: How many places are looked at, the nearest first, and samples of a stretch with many jumps.
MOST, SAMPLES = 12, 32
#: What a jump is told with, by kind; the worst first.
ADVICE = {
    "value jumps": "the derivative leaves that out: smooth the decision (a sigmoid over a width), differentiate the likelihood instead of the path, or, of a "
    "root or an optimum, call tg.implicit.root or argmin",
    "slope jumps": "the derivative is that of this side",
    "harmless": "value and slopes are the same on both sides",
}


@dataclass
class Jump:
    """One place at which a function decides.

    Attributes
    ----------
    kind : {"value jumps", "slope jumps", "harmless"}
    what, place : str
        The operation, and its line.
    distance : float
        How far it is, in the arguments, to where it decides otherwise.
    size : float
        By how much the value jumps; for "slope jumps" the largest change of a derivative.
    sides : tuple of two float
        The value on this and on the other side; for "slope jumps" the derivative in the direction of the other side.
    many : bool
        Whether these are many small jumps: `size` is what the derivative misses over a stretch of the width `distance`, `sides` the change that it predicts
        and that of the value.
    bends : bool
        Whether the slope does not jump, but its own derivative does: `size` is by how much.
    """

    kind: str
    what: str
    place: str
    distance: float
    size: float
    sides: tuple[float, float]
    many: bool = False
    bends: bool = False

    def __str__(self):
        here, there = self.sides
        how = f"{self.kind} by {self.size:.3g}, from {here:.6g} to {there:.6g}, {self.distance:.3g} away"
        if self.many:
            how = f"value jumps many times over a stretch of {self.distance:.3g}: it changes by {there:.6g}, and derivatives predict {here:.6g}"
        elif self.bends:
            how = how.replace(self.kind, "slope bends, its own derivative jumps")
        elif self.kind == "harmless":
            how = f"{self.kind}, though {self.distance:.3g} away it decides otherwise"
        return f"{self.what} at {self.place}: {how}; {ADVICE[self.kind]}"


@dataclass(repr=False)
class Jumps(Printed):
    """The report of `explain_jumps`; prints in plain words.

    Attributes
    ----------
    jumps : list of Jump
        Value jumps first, then slopes, then what is harmless; the nearest first.
    """

    jumps: list[Jump]

    def __str__(self):
        return "\n".join(map(str, self.jumps)) if self.jumps else "no decision of the function is near another outcome"


def explain_jumps(f: Callable[..., Any], *args: Any, near: float = 0.1) -> Jumps:
    """Find where value or slope of a function jumps near a point: its derivative may not be the one that is wanted.

    Parameters
    ----------
    f : callable
        Returns a number, an array (whose sum is examined), or containers of them.
    *args
        The point; floats and arrays of floats are varied.
    near : float
        Radius of the search, relative to the norm of the point (or to 1, if the norm is less).

    Returns
    -------
    Jumps
        ``print`` it.  For each decision with another outcome nearby: the line, the distance, what jumps and by how much, and what to do.

    Raises
    ------
    StructureError
        If no argument is a float or an array of floats.
    OptionError
        If `near` is not a positive number.

    Notes
    -----
    The search evaluates value and gradient for each of some forty halvings, for a dozen places at most.  It looks for a decision in the
    direction in which it is nearest, and if nothing changes there, in the opposite one.

    Examples
    --------
    >>> import tapegrad as tg
    >>> def payoff(spot):
    ...     return spot - 1.0 if spot < 1.3 else 0.0
    >>> print(str(tg.explain_jumps(payoff, 1.29)).partition(";")[0])  # doctest: +ELLIPSIS
    comparison (less) at ...:2: value jumps by 0.3, from 0.3 to 0, 0.01 away
    """
    if not near > 0.0:
        raise OptionError(f"near={near!r}: give a positive number, how far around the point is looked beside its length")
    line = _Moved(f, args)
    here = line.run(line.x, looking=True)
    reach = near * max(float(np.linalg.norm(line.x)), 1.0)
    found = sorted(decision for decision in here.nearest.values() if decision[0] <= reach)
    jumps = [jump for decision in found[:MOST] if (jump := _jump(line, here, *decision, reach)) is not None]
    return Jumps(sorted(jumps, key=lambda jump: (list(ADVICE).index(jump.kind), jump.distance)))


class _Looked(NamedTuple):
    """An evaluation: value, gradient, by place what was decided there, and of the event that is nearest to another outcome how far and where that is.

    (In `nearest`: distance, place, whether a solver decides, direction; empty unless `_Moved.run` looks for it.)
    """

    value: float
    gradient: np.ndarray
    outcomes: dict[tuple[str, str], list[bytes]]
    nearest: dict[tuple[str, str], tuple[float, tuple[str, str], bool, np.ndarray]]


class _Moved(Arguments):
    """The function as one of a vector."""

    def __init__(self, f, args):
        super().__init__("explain_jumps", f, args)
        self.x = np.concatenate([np.reshape(p, -1) for p in self.points]).astype(float)

    def run(self, x, looking=False):
        """Value, gradient and decisions at `x`; if `looking`, how near they are to other outcomes, which takes a sweep for each or two."""
        parts = np.split(x.copy(), np.cumsum([np.size(p) for p in self.points]))
        full = self.arguments_at(part.reshape(np.shape(p))[()] for part, p in zip(parts, self.points))
        with _Noted() as noted:
            run = WatchedRun("explain_jumps", self.f, full, lambda _, how, *used: (how, _of_solver(), _margins(how, *used)))
        store, stretch = run.store, Region(run.store)
        events = [((how, str(place)), solver, margins) for _, place, (how, solver, margins) in run.events]
        with run.tape:
            for _, slot, name, values in (decision for decision in noted.decisions if decision[0] is store):
                while stretch.at(slot).op == CONTINUES:
                    slot += 1
                read = stretch.read(slot)
                of = dict(read.slots)
                operands = [stretch.tensor(of[k], v) if k in of else v for k, v in enumerate(values)]
                events.append(((name, str(store.place(slot))), False, _margins(name, operands, read.attrs)))
        entries, alive, outcomes, nearest = entries_of(store), store.leaf_at(), {}, {}

        def gradient(seeds):
            adjoints = adjoints_of(entries, alive, seeds) if seeds else {}
            return np.concatenate([np.reshape(adjoints.get(slot_on(store, leaf), np.zeros(leaf.shape)), -1) for leaf in run.leaves])

        for key, solver, outcome, margin in ((key, solver, *pair) for key, solver, margins in events for pair in margins):
            outcomes.setdefault(key, []).append(np.asarray(outcome).tobytes())
            slot, margins = slot_on(store, margin), np.ravel(margin._v)
            # The nearest to zero; but what is zero everywhere, as x[0] - x[0], has no slope.
            for at in np.argsort(np.abs(margins))[:2].tolist() if looking and slot is not None else ():
                seed = np.zeros(margins.size)
                seed[at] = -1.0 if margins[at] > 0.0 else 1.0
                slope = gradient({slot: seed.reshape(margin.shape)})
                norm = float(np.linalg.norm(slope))
                if norm and abs(margins[at]) / norm < (nearest[key][0] if key in nearest else np.inf):
                    nearest[key] = float(abs(margins[at])) / norm, key, solver, slope / norm
        value = sum(float(np.sum(getattr(r, "_v", r))) for r in run.results if isinstance(r, (Tensor, float, np.ndarray, np.generic)))
        # (On the other side of a decision nothing may depend on the arguments.)
        whole = gradient({slot_on(store, r): np.ones(r.shape) for r in run.tracked()})
        return _Looked(value, whole, outcomes, nearest)


class _Noted(detect_anomaly):
    """Notes the operands of operations that may decide, of which a tape keeps what their derivatives take."""

    def __init__(self):
        super().__init__()
        #: The store, the slot from which on the instruction will be written there, its name, and values of its operands.
        self.decisions = []

    def result(self, name, values, value, frame):
        if name in {*_STEPS, *_ENDS, *_WHOLE, *_BETWEEN}:
            store = thread_state().store
            self.decisions.append((store, store.length, name, values))

    def again(self, *_):
        """What compiled code has answered is no part of the tape."""


def _of_solver():
    """Whether the decision is made by a solver of this package's (`tapegrad.scipy`, `tapegrad.optimize`), which keeps to a tolerance."""
    return any(frame.f_globals.get("__name__", "").startswith(("tapegrad.scipy.", "tapegrad.optimize.")) for frame in inner_frames())


#: Functions of one number: their outcome, and where the one next to a number begins.
_STEPS = {
    "floor": (np.floor, np.rint), "ceil": (np.ceil, np.rint), "trunc": (np.trunc, np.rint), ".item()": (np.floor, np.rint),
    "rint": (np.rint, lambda v: np.floor(v) + 0.5), **dict.fromkeys(("sign", "absolute", "heaviside"), (np.sign, np.zeros_like)),
}  # fmt: skip
#: Functions of an order: which places of it they tell, and which elements decide.
_ENDS = {
    **dict.fromkeys(("max", "numpy.argmax"), (-1, slice(-2, None))), **dict.fromkeys(("min", "numpy.argmin"), (0, slice(0, 2))),
    "numpy.argsort": (slice(None), slice(None)),
}  # fmt: skip
_WHOLE = {"floor_divide", "remainder", "fmod"}
_BETWEEN = {"maximum", "minimum", "fmax", "fmin", "clip"}


@np.errstate(all="ignore")
def _margins(name, operands, attrs):
    """Of a decision by values: its outcome, and a tensor that is zero where that changes; one for each bound of `clip`, none if it is no decision."""
    t, *others = operands
    if name in _WHOLE:
        name, t, others = "floor", t / others[0], []
    found = []
    if name in _BETWEEN or name.startswith("comparison"):
        found = [(np.sign(margin._v), margin) for margin in (t - other for other in others) if isinstance(margin, Tensor)]
    elif isinstance(t, Tensor) and name in _STEPS:
        outcome, nearest = _STEPS[name]
        found = [(outcome(t._v), t - nearest(t._v))]
    elif isinstance(t, Tensor) and t.ndim and name in _ENDS:
        told, ends = _ENDS[name]
        axis = others[0] if others else attrs.get("axis", -1 if name == "numpy.argsort" else None)
        axes = list(range(t.ndim)) if axis is None else np.atleast_1d(axis).tolist()
        t = np.moveaxis(t, axes, list(range(-len(axes), 0))).reshape(*np.delete(t.shape, axes).tolist(), -1)
        order = np.argsort(t._v, axis=-1, kind="stable")
        found = [(order[..., told], np.diff(np.take_along_axis(t, order[..., ends], -1), axis=-1))]
    return [(outcome, margin) for outcome, margin in found if tracked(margin) and margin.dtype.kind == "f"]


def _jump(line, here, distance, key, solver, direction, reach):
    """What a decision does where it changes; None if it does not change within reach."""
    scale = max(float(np.linalg.norm(line.x)), 1.0)
    first = max(1.5 * distance, 1e-9 * scale)

    def same(run):
        return run.outcomes.get(key) == here.outcomes[key]

    for towards in (direction, -direction):
        at = cache(lambda t, towards=towards: line.run(line.x + t * towards))
        steps = takewhile(lambda step: step <= 4.0 * reach, (first * 8.0**k for k in count()))
        high = next((step for step in steps if not same(at(step))), None)
        if high is not None:
            break
    else:
        return None
    low = 0.0
    while high - low > 1e-10 * (scale + high):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if same(at(middle)) else (low, middle)
    before, after, delta = at(low), at(high), 1e-5 * scale
    tolerance, value = OF_SOLVERS if solver else RELATIVE, max(abs(run.value) for run in (here, before, after))
    slopes, jumped = [float(run.gradient @ towards) for run in (before, after)], after.value - before.value
    size = abs(jumped - 0.5 * sum(slopes) * (high - low))
    if size > tolerance * value and size > 10.0 * max(map(abs, slopes)) * (high - low):
        return Jump("value jumps", *key, high, size, (before.value, after.value))
    width = min(reach, max(10.0 * high, 1e-2 * reach))
    if not solver and (missed := _missed(at, key, towards, width)):
        return Jump("value jumps", *key, width, abs(missed[1] - missed[0]), missed, many=True)
    change = float(np.max(np.abs(after.gradient - before.gradient)))
    largest = max(float(np.max(np.abs(run.gradient))) for run in (here, before, after))
    if change > tolerance * largest:
        return Jump("slope jumps", *key, high, change, tuple(slopes))
    further = at(low - delta), at(high + delta)
    bends = (slopes[0] - float(further[0].gradient @ towards)) / delta, (float(further[1].gradient @ towards) - slopes[1]) / delta
    alone = [run.outcomes.get(key) for run in further] == [run.outcomes.get(key) for run in (before, after)]
    if alone and not solver and abs(bends[1] - bends[0]) > 1e-2 * max(map(abs, bends)) + 1e-6 * largest / scale:
        return Jump("slope jumps", *key, high, abs(bends[1] - bends[0]), bends, bends=True)
    return Jump("harmless", *key, high, 0.0, (before.value, after.value))


def _missed(at, key, towards, width):
    """Of a decision that changes many times over a stretch, where derivatives do not predict the value: change predicted, change found; else None."""
    runs = [at((k / SAMPLES - 0.5) * width) for k in range(SAMPLES + 1)]
    if sum(one.outcomes.get(key) != other.outcomes.get(key) for one, other in zip(runs, runs[1:])) < 3:
        return None
    slopes, found = np.array([float(run.gradient @ towards) for run in runs]), runs[-1].value - runs[0].value
    fine, coarse = (float(np.trapezoid(slopes[::k], dx=k * width / SAMPLES)) for k in (1, 2))
    # A kink is predicted twice as well by twice as many samples; a jump is not.
    return (fine, found) if abs(found - fine) > max(MISSED * max(abs(found), abs(fine)), 0.7 * abs(found - coarse)) else None

"""`explain_jumps`: whether a derivative is the one that is wanted where a function decides.

A derivative is that of the path which was taken.  Where a decision (a branch, `where`, `floor`, an `argmax`, the end of a loop) is close to
another outcome, the function may be another one on the other side: its value may jump, which no derivative sees, or its slope.

The function runs on a tape while a listener notes each comparison with what it compares; other decisions are instructions of the tape.
The margin of a decision (the difference of the two sides, the distance to the next integer) has a gradient by the same tape, so
one knows in which direction the other outcome is nearest, and how far.  The place where it changes is found by bisection; value and
gradient on its two sides say what the decision does.  Many small jumps, each of which is nothing (a sum over paths that end at a
barrier, a bisection), are found by what the derivative predicts over a stretch and what the value does there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..array.record import tracked
from ..array.tensor import Tensor
from ..autograd.anomaly import detect_anomaly
from ..autograd.backward import slot_on
from ..autograd.inspect import adjoints_of, entries_of, values
from ..autograd.reading import Region
from ..common.errors import OptionError
from ..tape.places import PACKAGE, caller_place
from ..tape.store import thread_state
from .arguments import WatchedRun, differentiable

#: A jump, or a change of slope, beside the value, or the slopes; in a solver's own decisions, which keep to its tolerance.
RELATIVE, OF_SOLVERS = 1e-3, 1e-2
#: By how much prediction and value differ over a stretch with many small jumps, beside the change that is predicted.
MISSED = 0.05
#: How many places are looked at, the nearest first; halvings of the stretch in which a decision changes, and samples of one with many jumps.
MOST, HALVINGS, SAMPLES = 12, 40, 32
ORDER = ("value jumps", "slope jumps", "harmless")
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
        if self.many:
            how = f"value jumps many times over a stretch of {self.distance:.3g}: it changes by {there:.6g}, and derivatives predict {here:.6g}"
        elif self.bends:
            how = f"slope bends, its own derivative jumps by {self.size:.3g}, from {here:.6g} to {there:.6g}, {self.distance:.3g} away"
        elif self.kind == "harmless":
            how = f"{self.kind}, though {self.distance:.3g} away it decides otherwise"
        else:
            how = f"{self.kind} by {self.size:.3g}, from {here:.6g} to {there:.6g}, {self.distance:.3g} away"
        return f"{self.what} at {self.place}: {how}; {ADVICE[self.kind]}"


@dataclass
class Jumps:
    """The report of `explain_jumps`; prints in plain words.

    Attributes
    ----------
    jumps : list of Jump
        Value jumps first, then slopes, then what is harmless; the nearest first.
    """

    jumps: list[Jump]

    def __str__(self):
        return "\n".join(map(str, self.jumps)) if self.jumps else "no decision of the function is near another outcome"

    __repr__ = __str__


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
    here = line.run(line.x)
    reach = near * max(float(np.linalg.norm(line.x)), 1.0)
    found = sorted(((d.distance, key) for key, d in here.nearest.items() if d.distance <= reach), key=lambda each: each[0])
    jumps = [jump for distance, key in found[:MOST] if (jump := _jump(line, here, here.nearest[key], reach)) is not None]
    return Jumps(sorted(jumps, key=lambda jump: (ORDER.index(jump.kind), jump.distance)))


@dataclass
class _Decision:
    """One place: the event that is nearest to another outcome there, and where the other outcome is."""

    key: tuple[str, str]
    solver: bool
    distance: float
    towards: np.ndarray


class _Looked(NamedTuple):
    """An evaluation: value, gradient, and what was decided at each place."""

    value: float
    gradient: np.ndarray
    outcomes: dict[tuple[str, str], bytes]
    nearest: dict[tuple[str, str], _Decision]


class _Moved:
    """The function as one of a vector."""

    def __init__(self, f, args):
        self.f, self.args = f, args
        self.numbers = [k for k, a in enumerate(args) if differentiable(a)]
        parts = [np.asarray(args[k]._v if isinstance(args[k], Tensor) else args[k], float) for k in self.numbers]
        self.shapes, self.x = [part.shape for part in parts], np.concatenate([np.zeros(0), *(part.reshape(-1) for part in parts)])

    def run(self, x):
        """Value, gradient and decisions at `x`."""
        full, parts, events = list(self.args), np.split(x.copy(), np.cumsum([int(np.prod(shape)) for shape in self.shapes])), []
        for k, shape, part in zip(self.numbers, self.shapes, parts):
            full[k] = part.reshape(shape) if shape else float(part[0])

        def seen(how, operands, kwargs):
            margin = _margin(how, operands, kwargs)
            if margin is not None:
                events.append(((how, str(caller_place(3))), _of_solver(), *margin))

        noted = _Noted()
        run = WatchedRun("explain_jumps", self.f, full, seen, noted)
        results = [r._v if isinstance(r, Tensor) else r for r in run.results if isinstance(r, (Tensor, float, np.ndarray, np.generic))]
        # (On the other side of a decision nothing may depend on the arguments.)
        seeds = {slot_on(run.store, r): np.ones(r.shape) for r in run.tracked()}
        return self._seen(run.store, run.leaves, sum(float(np.sum(r)) for r in results), seeds, events, noted.operands)

    def _seen(self, store, leaves, value, live, events, noted):
        entries, alive = entries_of(store), store.leaf_at()

        def gradient(seeds):
            adjoints = adjoints_of(entries, alive, seeds) if seeds else {}
            return np.concatenate([np.reshape(adjoints.get(slot_on(store, leaf), np.zeros(leaf.shape)), -1) for leaf in leaves])

        outcomes, nearest = {}, {}
        of_tensors = ((key, solver, outcome, m._v, [(slot_on(store, m), np.shape(m._v), 1.0, None)]) for key, solver, outcome, m in events)
        for key, solver, outcome, margin, sides in (*of_tensors, *_on_tape(store, entries, noted)):
            outcomes.setdefault(key, []).append(np.asarray(outcome).tobytes())
            margin = np.reshape(margin, -1)
            if not np.isfinite(margin).any():
                continue
            at = int(np.argmin(np.where(np.isfinite(margin), np.abs(margin), np.inf)))
            seeds = {}
            for slot, shape, sign, places in sides:
                seeds.setdefault(slot, np.zeros(shape)).flat[at if places is None else places.flat[at]] += sign
            slope = gradient(seeds)
            steepness, m = float(np.linalg.norm(slope)), float(margin[at])
            if steepness > 0.0 and np.isfinite(steepness):
                distance = abs(m) / steepness
                if key not in nearest or distance < nearest[key].distance:
                    nearest[key] = _Decision(key, solver, distance, slope / steepness * (-1.0 if m > 0.0 else 1.0))
        return _Looked(value, gradient(live), {key: b"|".join(parts) for key, parts in outcomes.items()}, nearest)


class _Noted(detect_anomaly):
    """Notes the operands of operations that may decide, of which a tape keeps what their derivatives take."""

    def __init__(self):
        super().__init__()
        #: By store, and slot of the instruction that will be written there.
        self.operands = {}

    def result(self, name, values, value, frame):
        if name in _STEPS or name in _BETWEEN:
            store = thread_state().store
            self.operands[id(store), store.length] = values

    def again(self, *_):
        """What compiled code has answered is no part of the tape."""


def _of_solver():
    """Whether the decision is made by a solver of this package's (`tapegrad.scipy`, `tapegrad.optimize`), which keeps to a tolerance."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        if frame.f_globals.get("__name__", "").startswith(("tapegrad.scipy.", "tapegrad.optimize.")):
            return True
        frame = frame.f_back
    return False


def _margin(how, operands, kwargs):
    """Of a decision by values: its outcome, and a tensor that is zero where that changes; None if it is none."""
    if how.startswith("comparison"):
        margin = operands[0] - operands[1]
        return (np.sign(margin._v), margin) if isinstance(margin, Tensor) and tracked(margin) and margin.dtype.kind == "f" else None
    name, t = how.removeprefix("numpy."), operands[0]
    if not (isinstance(t, Tensor) and t.dtype.kind == "f"):
        return None
    value = np.asarray(t._v)
    if name == ".item()":
        return np.floor(value), t - np.rint(value)
    if name not in ("argmax", "argmin", "argsort") or not value.ndim:
        return None
    axis = operands[1] if len(operands) > 1 else kwargs.get("axis", -1 if name == "argsort" else None)
    if axis is None:
        t, value, axis = t.reshape(-1), value.reshape(-1), 0
    order = np.argsort(value, axis=axis, kind="stable")
    ends = {"argmax": slice(-2, None), "argmin": slice(0, 2), "argsort": slice(None)}[name]
    order = np.moveaxis(np.moveaxis(order, axis, 0)[ends], 0, axis)
    return order, np.diff(np.take_along_axis(t, order, axis), axis=axis)


_STEPS = {
    **dict.fromkeys(("floor", "ceil", "trunc"), np.rint), "rint": lambda v: np.floor(v) + 0.5,
    **dict.fromkeys(("sign", "absolute", "heaviside"), np.zeros_like),
}  # fmt: skip
_BETWEEN = {"maximum", "minimum", "fmax", "fmin", "clip", "max", "min", "floor_divide", "remainder", "fmod"}
_OUTCOMES = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint}


def _on_tape(store, entries, noted):
    """Decisions that are instructions: key, False, outcome, margin, and of which operands it is the difference."""
    primals, stretch = None, Region(store, plain=True)
    for e in entries:
        name = e.row.name if e.row is not None else ""
        if name not in _STEPS and name not in _BETWEEN:
            continue
        read = stretch.read(e.slot)
        of = dict(read.slots)
        operands = noted.get((id(store), e.slot))
        if operands is None:
            primals = values(store) if primals is None else primals
            operands = [primals[of[k]] if k in of else v for k, v in enumerate(read.operands)]
        operands = [np.asarray(v, float) for v in operands]
        slots = [(of.get(k), operand.shape) for k, operand in enumerate(operands)]
        for outcome, margin, signs in _margins(name, operands, read.attrs):
            sides = [(slots[k][0], slots[k][1], sign, places) for k, sign, places in signs if slots[k][0]]
            if sides:
                yield (name, str(store.place(e.slot))), False, outcome, margin, sides


def _margins(name, operands, attrs):
    """Outcome, margin, and (operand, sign, places of its elements) of an instruction."""
    a = operands[0]
    if name in _STEPS:
        yield _OUTCOMES.get(name, np.sign)(a), a - _STEPS[name](a), [(0, 1.0, None)]
    elif name in ("max", "min"):
        axes = list(range(a.ndim)) if attrs.get("axis") is None else np.atleast_1d(attrs["axis"]).tolist()
        numbers = np.moveaxis(np.arange(a.size).reshape(a.shape), axes, range(-len(axes), 0))
        numbers = numbers.reshape(*numbers.shape[: a.ndim - len(axes)], -1)
        if numbers.shape[-1] > 1:
            flat = a.reshape(-1)[numbers]
            order = np.argsort(flat, axis=-1, kind="stable")[..., -2:] if name == "max" else np.argsort(flat, axis=-1, kind="stable")[..., :2]
            low, high = (np.take_along_axis(numbers, order[..., k : k + 1], -1)[..., 0] for k in (0, 1))
            yield (high if name == "max" else low), a.reshape(-1)[high] - a.reshape(-1)[low], [(0, 1.0, high), (0, -1.0, low)]
    else:
        whole = name in ("floor_divide", "remainder", "fmod")
        for k, b in enumerate(operands[1:], 1):
            with np.errstate(all="ignore"):
                margin = a / b - np.rint(a / b) if whole else a - b
            outcome = np.floor(a / b) if whole else np.sign(margin)
            if whole and np.size(b) > 1:
                continue
            places = [np.broadcast_to(np.arange(x.size).reshape(x.shape), margin.shape) for x in (a, b)]
            yield outcome, margin, [(0, 1.0 / float(b) if whole else 1.0, places[0]), *([] if whole else [(k, -1.0, places[1])])]


def _jump(line, here, decision, reach):
    """What a decision does where it changes; None if it does not change within reach."""
    key, scale = decision.key, max(float(np.linalg.norm(line.x)), 1.0)
    for towards in (decision.towards, -decision.towards):
        step = max(1.5 * decision.distance, 1e-9 * scale)
        while step <= 4.0 * reach and (there := line.run(line.x + step * towards)).outcomes.get(key) == here.outcomes[key]:
            step *= 8.0
        if step <= 4.0 * reach:
            break
    else:
        return None
    low, high, before, after = 0.0, step, here, there
    for _ in range(HALVINGS):
        if high - low <= 1e-10 * scale:
            break
        middle = 0.5 * (low + high)
        run = line.run(line.x + middle * towards)
        if run.outcomes.get(key) == here.outcomes[key]:
            low, before = middle, run
        else:
            high, after = middle, run
    tolerance, value = OF_SOLVERS if decision.solver else RELATIVE, max(abs(here.value), abs(before.value), abs(after.value))
    slopes = float(before.gradient @ towards), float(after.gradient @ towards)
    size = abs(after.value - before.value - 0.5 * sum(slopes) * (high - low))
    if size > tolerance * value and size > 10.0 * max(map(abs, slopes)) * (high - low):
        return Jump("value jumps", *key, high, size, (before.value, after.value))
    missed = None if decision.solver else _missed(line, key, towards, min(reach, max(10.0 * high, 1e-2 * reach)))
    if missed is not None:
        width, predicted, found = missed
        return Jump("value jumps", *key, width, abs(found - predicted), (predicted, found), many=True)
    change = float(np.max(np.abs(after.gradient - before.gradient)))
    largest = max(float(np.max(np.abs(run.gradient))) for run in (here, before, after))
    if change > tolerance * largest:
        return Jump("slope jumps", *key, high, change, slopes)
    delta = 1e-5 * scale
    further = [line.run(line.x + t * towards) for t in (low - delta, high + delta)]
    bends = (slopes[0] - float(further[0].gradient @ towards)) / delta, (float(further[1].gradient @ towards) - slopes[1]) / delta
    same = further[0].outcomes.get(key) == before.outcomes.get(key) and further[1].outcomes.get(key) == after.outcomes.get(key)
    if same and not decision.solver and abs(bends[1] - bends[0]) > 1e-2 * max(map(abs, bends)) + 1e-6 * largest / scale:
        return Jump("slope jumps", *key, high, abs(bends[1] - bends[0]), bends, bends=True)
    return Jump("harmless", *key, high, 0.0, (before.value, after.value))


def _missed(line, key, towards, width):
    """Of a decision that changes many times over a stretch, where derivatives do not predict the value: width, change predicted, change found; else None."""
    runs = [line.run(line.x + (k / SAMPLES - 0.5) * width * towards) for k in range(SAMPLES + 1)]
    if sum(one.outcomes.get(key) != other.outcomes.get(key) for one, other in zip(runs, runs[1:])) < 3:
        return None
    slopes, found = np.array([float(run.gradient @ towards) for run in runs]), runs[-1].value - runs[0].value
    fine, coarse = (float(np.trapezoid(slopes[::k], dx=k * width / SAMPLES)) for k in (1, 2))
    # A kink is predicted twice as well by twice as many samples; a jump is not.
    if abs(found - fine) <= max(MISSED * max(abs(found), abs(fine)), 0.7 * abs(found - coarse)):
        return None
    return width, fine, found

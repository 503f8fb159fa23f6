"""Which way is cheaper to the Jacobian of a recorded function, predicted before anything is run.

The prediction counts what is done for each seed, of which there is one for each element of the inputs (forward mode) or of the
outputs (reverse mode): between inputs and outputs scalar instructions, array instructions, their elements and
the multiplications of matrix routines, as if every seed reached all
of them.  Five constants make nanoseconds of these counts.  Nothing is timed, so two runs choose
alike; modes that cost the same are a tie, which reverse mode wins (it computes no values again).

The third way is the *product* of the Jacobians of both sides of the narrowest cut, if that is narrower than
inputs and outputs: a seed goes down from each of its numbers, and one up, so that each of them goes through everything once; then
they are multiplied.

Behind each instruction stand the values that are there and still read later, or are results: those are a *cut*, whatever the
graph is like.  By the chain rule the Jacobian is the product of that of the results by these values and that of these values
by the arguments, with one seed for each number of the cut, not for each of the arguments or results.  Of ``np.exp(-np.sum(x * x) * t)``::

    slots  instruction         live behind it
    1      leaf x              n numbers
    2      multiply(%1, %1)    n
    3      sum(%2)             1    the narrowest cut
    4      negative(%3)        1
    ...                        m

A value that goes around a waist, as in ``... + x``, is live there, so that there is no waist.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..interpreter.signature import Signature
from ..tape.layout import ARRAY_LEAF, CONTINUES, FIRST_ARRAY, SCALAR

#: Nanoseconds of each count.  `python -m benchmarks choice` says whether they choose well.
NANOSECONDS = {
    "pass": 800.0,  # one pass over the tape: to seed it, and to collect
    "scalar": 5.0,  # a scalar instruction
    "array": 40.0,  # an array instruction
    "element": 0.14,  # an element that it reads or writes
    "flop": 0.03,  # a multiplication in a matrix routine
}

#: Passes in whose time a cut is found, and what is on both sides of it counted.
LOOKING = 400


@dataclass(frozen=True)
class WorkEstimate:
    """What lies between inputs and outputs; one seed goes through all of it."""

    scalars: int
    arrays: int
    elements: int
    flops: int

    @property
    def instructions(self):
        """How many instructions there are."""
        return self.scalars + self.arrays

    @property
    def operations(self):
        """Scalar operations on the derivatives of one seed."""
        return self.scalars + self.elements + self.flops


def work(ops):
    """The `WorkEstimate` of instructions with these opcodes (`NumberWalk.visited`)."""
    scalars = int(np.count_nonzero(ops < FIRST_ARRAY))
    arrays = elements = flops = 0
    counts = np.bincount(ops[(ops >= FIRST_ARRAY) & (ops < ARRAY_LEAF)] - FIRST_ARRAY)
    for number in np.flatnonzero(counts).tolist():
        count = int(counts[number])
        signature = Signature.ALL[number]
        row, first = signature.row, signature.metas[0]
        if row.effect == "view" and signature.out is SCALAR:
            # The read of one element: in a replay of most functions it is an argument.
            continue
        arrays += count
        if row.effect == "product":
            flops += count * signature.out.size * first.shape[-1]
        elif row.effect == "dense" and row.primitive is None:
            # Matrix routines of about as many multiplications as their first operand has elements, times its last extent.
            flops += count * first.size * first.shape[-1]
        elif row.effect == "view":
            elements += count * signature.out.size
        else:
            elements += count * max(signature.out.size, *(m.size for m in signature.metas))
    return WorkEstimate(scalars, arrays, elements, flops)


@dataclass(frozen=True)
class Cost:
    """What one mode costs.

    Attributes
    ----------
    seeds : int
        Seeds to carry, each in a pass over the tape.
    operations : int
        Scalar operations on tangents or adjoints.
    nanoseconds : float
        Predicted.
    """

    seeds: int
    operations: int
    nanoseconds: float


@dataclass(frozen=True)
class Prediction:
    """The predicted costs of both modes and of the product at a cut (None: there is no narrow one), the cheapest, and why."""

    work: WorkEstimate
    forward: Cost
    reverse: Cost
    product: Cost | None
    cut: Cut | None
    mode: str
    reason: str


def _cost(work, seeds, at_once):
    counts = {"element": seeds * work.elements, "flop": seeds * work.flops}
    if at_once:
        # Python makes ready, calls the rule of each array instruction, for all seeds, and has arrays of all scalar ones made; NumPy
        # goes through the elements several times, in memory that is new.
        counts |= {"pass": 80 + 65 * work.arrays, "scalar": (250 + seeds) * work.scalars, "element": 8 * seeds * work.elements}
    else:
        counts |= {"pass": 20 + seeds, "scalar": seeds * work.scalars, "array": seeds * work.arrays}
    return Cost(seeds, seeds * work.operations, sum(NANOSECONDS[name] * count for name, count in counts.items()))


def predict(recording, thorough=False):
    """Which mode will be cheaper for the Jacobian of a recorded function.

    Parameters
    ----------
    recording : NumberWalk
    thorough : bool
        Whether a cut is looked for even where there is a cheaper way in any case.

    Returns
    -------
    Prediction
    """
    counted, (inputs, outputs) = work(recording.visited()), (sum(p.size for p in ports) for ports in (recording.inputs, recording.outputs))
    ways = {
        "reverse": (_cost(counted, outputs, False), "reverse mode", "outputs"),
        "forward": (_cost(counted, inputs, recording.at_once), "forward mode", "inputs"),
    }
    # What runs the function at each call looks for the cut at each call: a small one is done before.
    looking = LOOKING * NANOSECONDS["pass"] * recording.at_once
    cut = narrowest(recording) if thorough or looking < min(cost.nanoseconds for cost, *_ in ways.values()) else None
    if cut is not None and not 0 < cut.width < min(inputs, outputs, recording.widest + 1):
        cut = None
    if cut is not None:
        ways["product"] = _of_product(recording, cut, inputs * outputs, looking), "the product at a cut", "numbers on each side"
    # Of those that cost the same the first.
    order = sorted(ways, key=lambda mode: ways[mode][0].nanoseconds)
    texts = [
        f"{name} needs {_number(c.seeds)} pass{'es' if c.seeds != 1 else ''} for {_number(c.seeds)} {what}, about "
        f"{_number(c.operations)} operations, {_number(c.nanoseconds / 1e3)} µs"
        for c, name, what in map(ways.get, order)
    ]
    costs = {mode: cost for mode, (cost, *_) in ways.items()}
    reason = f"{ways[order[0]][1]} is expected to be cheaper: {'; '.join(texts)}"
    return Prediction(counted, costs["forward"], costs["reverse"], costs.get("product"), cut, order[0], reason)


def _of_product(recording, cut, size, looking):
    """What the product at a cut costs: to look for it, sweeps on both sides, and `size` sums of products."""
    between = recording.between()
    ops = recording.records()["op"]
    lower, upper = (work(ops[between[side]]) for side in (between <= cut.position, between > cut.position))
    down, up = _cost(lower, cut.width, False), _cost(upper, cut.width, recording.at_once)
    nanoseconds = looking + NANOSECONDS["element"] * size + NANOSECONDS["flop"] * size * cut.width
    return Cost(cut.width, down.operations + up.operations + size * cut.width, down.nanoseconds + up.nanoseconds + nanoseconds)


def _number(value):
    return f"{value:.0f}" if value < 10000 else f"{value:.2g}"


# ---- cuts ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """The values that are live behind an instruction.

    Attributes
    ----------
    position : int
        Slot of the instruction.
    values : tuple of (int, Meta)
        Slot and description of each value.
    """

    position: int
    values: tuple

    @property
    def width(self):
        """How many numbers they are."""
        return sum(meta.size for _, meta in self.values)


def last_readers(recording):
    """The last slot that reads each slot, of those between inputs and outputs; 0 if there is none."""
    records = recording.records()[: recording.high + 1]
    between = recording.between()
    last = np.zeros(len(records), np.int64)
    for name in ("a", "b"):
        np.maximum.at(last, records[name][between], between)
    # Operands behind the second stand in the records before.
    continued = np.flatnonzero(records["op"] == CONTINUES)
    further = records[continued].view(np.int64).reshape(-1, 4)[:, 2:]
    for operands in (records["a"][continued], records["b"][continued], *further.T):
        np.maximum.at(last, operands, continued)
    return last


def described(records, slot):
    """The description of what the instruction of `slot` computes."""
    signature = Signature.of(int(records["op"][slot]))
    return SCALAR if signature is None else signature.out


def narrowest(recording):
    """The narrowest cut of a `NumberWalk` (of several that are, the last), or None if there are none."""
    records, between = recording.records(), recording.between()
    if not len(between):
        return None
    last = last_readers(recording)
    last[[p.slot for p in recording.outputs if p.slot]] = len(last)
    metas = {slot: meta for p in recording.inputs for _, _, slot, meta in p.pieces}
    first = np.arange(len(last))
    first[list(metas)] = 0
    size = np.zeros(len(last), np.int64)
    size[between] = 1
    for slot in between[records["op"][between] >= FIRST_ARRAY].tolist():
        metas[slot] = described(records, slot)
    size[list(metas)] = [meta.size for meta in metas.values()]
    change = np.zeros(len(last) + 1, np.int64)
    live = (size > 0) & (last > first)
    np.add.at(change, first[live], size[live])
    np.subtract.at(change, last[live], size[live])
    width = np.cumsum(change)[between]
    position = int(between[len(width) - 1 - np.argmin(width[::-1])])
    slots = np.flatnonzero(live & (first <= position) & (position < last)).tolist()
    return Cut(position, tuple([(slot, metas.get(slot, SCALAR)) for slot in slots]))

"""Which mode is cheaper for the Jacobian of a recorded function, predicted before anything is run.

The prediction counts what a sweep does: chunks of seeds, and between inputs and
outputs scalar instructions for each chunk, array instructions, their elements and
the multiplications of matrix routines for each seed, as if every seed reached all
of them.  Five constants make nanoseconds of these counts.  Nothing is timed, so two runs choose
alike; modes that cost the same are a tie, which reverse mode wins (down the tape
there is no search for last readers).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..interpreter.plan import Signature
from ..tape.layout import ARRAY_LEAF, FIRST_ARRAY, MARK

#: Nanoseconds of each count.  `python -m benchmarks choice` says whether they choose well.
NANOSECONDS = {
    "chunk": 15000.0,  # one sweep over the tape: to make ready, to seed, to collect
    "scalar": 10.0,  # a scalar instruction, or the read of one element, in a chunk: all its seeds at once
    "array": 28.0,  # an array instruction, for each seed
    "element": 0.14,  # an element that it reads or writes
    "flop": 0.03,  # a multiplication in a matrix routine
}


@dataclass(frozen=True)
class Work:
    """What lies between inputs and outputs; one seed goes through all of it."""

    scalars: int
    arrays: int
    elements: int
    flops: int
    reads: int = 0

    @property
    def instructions(self):
        """How many instructions there are."""
        return self.scalars + self.reads + self.arrays

    def operations(self, seeds, lanes):
        """Scalar operations on the derivatives of `seeds` seeds, where scalar instructions work on all lanes of a chunk."""
        return -(-seeds // lanes) * lanes * self.scalars + seeds * (self.elements + self.flops)


def work(recording):
    """The `Work` of a `Recording`."""
    ops = recording.store.records()["op"][: recording.high + 1]
    ops = ops[recording.marks[: len(ops)] == MARK]
    scalars = int(np.count_nonzero(ops < FIRST_ARRAY))
    arrays = reads = elements = flops = 0
    numbers, counts = np.unique(ops[(ops >= FIRST_ARRAY) & (ops < ARRAY_LEAF)] - FIRST_ARRAY, return_counts=True)
    for number, count in zip(numbers.tolist(), counts.tolist()):
        signature = Signature.ALL[number]
        row, first = signature.row, signature.metas[0]
        if signature.reads:
            reads += count
            continue
        arrays += count
        if row.effect == "product":
            flops += count * signature.out.size * first.shape[-1]
        elif row.effect == "dense" and row.primitive is None:
            # Matrix routines of about as many multiplications as their first operand has elements, times its last extent.
            flops += count * first.size * first.shape[-1]
        else:
            elements += count * max(signature.out.size, *(m.size for m in signature.metas))
    return Work(scalars, arrays, elements, flops, reads)


@dataclass(frozen=True)
class Cost:
    """What one mode costs.

    Attributes
    ----------
    seeds, lanes, passes : int
        Seeds to carry, seeds carried at once, sweeps over the tape.
    operations : int
        Scalar operations on tangents or adjoints.
    nanoseconds : float
        Predicted.
    """

    seeds: int
    lanes: int
    passes: int
    operations: int
    nanoseconds: float


@dataclass(frozen=True)
class Prediction:
    """The predicted costs of both modes, the cheaper one, and why in a sentence."""

    work: Work
    forward: Cost
    reverse: Cost
    mode: str
    reason: str


def _cost(recording, work, ports):
    seeds = sum(p.size for p in ports)
    lanes = recording.lanes(seeds)
    passes = -(-seeds // lanes)
    counts = {
        "chunk": passes, "scalar": passes * (work.scalars + work.reads),
        "array": seeds * work.arrays, "element": seeds * work.elements, "flop": seeds * work.flops,
    }  # fmt: skip
    time = sum(NANOSECONDS[name] * count for name, count in counts.items())
    return Cost(seeds, lanes, passes, work.operations(seeds, lanes), time)


def predict(recording):
    """Which mode will be cheaper for the Jacobian of a recorded function.

    Parameters
    ----------
    recording : Recording

    Returns
    -------
    Prediction
    """
    counted = work(recording)
    forward, reverse = (_cost(recording, counted, ports) for ports in (recording.inputs, recording.outputs))
    mode = "forward" if forward.nanoseconds < reverse.nanoseconds else "reverse"
    texts = {
        name: f"{name} mode needs {_number(c.passes)} pass{'es' if c.passes != 1 else ''} of {c.lanes} for "
        f"{_number(c.seeds)} {what}, about {_number(c.operations)} operations, {_number(c.nanoseconds / 1e3)} µs"
        for name, what, c in (("forward", "inputs", forward), ("reverse", "outputs", reverse))
    }
    other = "reverse" if mode == "forward" else "forward"
    return Prediction(counted, forward, reverse, mode, f"{mode} mode is expected to be cheaper: {texts[mode]}; {texts[other]}")


def _number(value):
    return f"{value:.0f}" if value < 10000 else f"{value:.2g}"

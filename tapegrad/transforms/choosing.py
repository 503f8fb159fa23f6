"""Which mode is cheaper for the Jacobian of a recorded function, predicted before anything is run.

The prediction counts what is done for each seed, of which there is one for each element of the inputs (forward mode) or of the
outputs (reverse mode): between inputs and outputs scalar instructions, array instructions, their elements and
the multiplications of matrix routines, as if every seed reached all
of them.  Five constants make nanoseconds of these counts.  Nothing is timed, so two runs choose
alike; modes that cost the same are a tie, which reverse mode wins (it computes no values again).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..interpreter.plan import Signature
from ..tape.layout import ARRAY_LEAF, FIRST_ARRAY
from ..tape.meta import SCALAR

#: Nanoseconds of each count.  `python -m benchmarks choice` says whether they choose well.
NANOSECONDS = {
    "pass": 800.0,  # one pass over the tape: to seed it, and to collect
    "scalar": 5.0,  # a scalar instruction
    "array": 40.0,  # an array instruction
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

    @property
    def instructions(self):
        """How many instructions there are."""
        return self.scalars + self.arrays

    @property
    def operations(self):
        """Scalar operations on the derivatives of one seed."""
        return self.scalars + self.elements + self.flops


def work(recording):
    """The `Work` of a `Recording`."""
    ops = recording.visited()
    scalars = int(np.count_nonzero(ops < FIRST_ARRAY))
    arrays = elements = flops = 0
    numbers, counts = np.unique(ops[(ops >= FIRST_ARRAY) & (ops < ARRAY_LEAF)] - FIRST_ARRAY, return_counts=True)
    for number, count in zip(numbers.tolist(), counts.tolist()):
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
    return Work(scalars, arrays, elements, flops)


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
    """The predicted costs of both modes, the cheaper one, and why in a sentence."""

    work: Work
    forward: Cost
    reverse: Cost
    mode: str
    reason: str


def _cost(work, ports, at_once):
    seeds = sum(p.size for p in ports)
    counts = {"element": seeds * work.elements, "flop": seeds * work.flops}
    if at_once:
        # Python makes ready, calls the rule of each array instruction, for all seeds, and has arrays of all scalar ones made.
        counts |= {"pass": 100 + 80 * work.arrays, "scalar": (250 + seeds) * work.scalars}
    else:
        counts |= {"pass": 20 + seeds, "scalar": seeds * work.scalars, "array": seeds * work.arrays}
    return Cost(seeds, seeds * work.operations, sum(NANOSECONDS[name] * count for name, count in counts.items()))


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
    forward = _cost(counted, recording.inputs, recording.at_once)
    reverse = _cost(counted, recording.outputs, False)
    mode = "forward" if forward.nanoseconds < reverse.nanoseconds else "reverse"
    texts = {
        name: f"{name} mode needs {_number(c.seeds)} pass{'es' if c.seeds != 1 else ''} for "
        f"{_number(c.seeds)} {what}, about {_number(c.operations)} operations, {_number(c.nanoseconds / 1e3)} µs"
        for name, what, c in (("forward", "inputs", forward), ("reverse", "outputs", reverse))
    }
    other = "reverse" if mode == "forward" else "forward"
    return Prediction(counted, forward, reverse, mode, f"{mode} mode is expected to be cheaper: {texts[mode]}; {texts[other]}")


def _number(value):
    return f"{value:.0f}" if value < 10000 else f"{value:.2g}"

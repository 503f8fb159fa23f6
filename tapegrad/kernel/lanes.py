"""The kernel of a tape's derivatives in several directions at a time."""

from __future__ import annotations

from .adjoint import adjoint
from .emit import Options
from .of_tape import TapeKernel
from .tangents import tangents


class LanesKernel(TapeKernel):
    """Values of a tape, and derivatives in several directions.

    Parameters
    ----------
    tape : FinishedTape
    forward : bool
        Tangents of the outputs for directions of the wanted inputs; else adjoints of these for
        adjoints of the outputs.
    lanes : int
        How many at a time: the first axis of directions and of results.
    options, limit
        As of `TapeKernel`.
    """

    def __init__(self, tape, forward, lanes, options=Options(), limit=None):
        self.forward, self.lanes = forward, lanes
        super().__init__(tape, True, options, limit)

    def _derived(self):
        return tangents(self.tape, self.lanes) if self.forward else adjoint(self.tape, lanes=self.lanes)

    def __str__(self):
        return super().__str__().replace("gradients", f"{self.lanes} {'tangents' if self.forward else 'adjoints'}", 1)

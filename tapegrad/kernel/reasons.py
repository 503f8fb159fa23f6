"""Why a tape has no kernel."""

from __future__ import annotations


class NotLowered(Exception):
    """A tape, or its derivative, cannot be lowered to machine code; the sweeps answer instead.

    Parameters
    ----------
    what : str
        The instruction and what it lacks.
    place : Place or None
        Where it was recorded.
    """

    def __init__(self, what, place=None):
        self.what, self.place = what, place
        super().__init__(what if place is None else f"{what}, recorded at {place}")

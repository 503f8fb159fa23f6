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
    slot : int
        Its slot, for those who know the tape to find the place; 0 if it is not known.
    """

    def __init__(self, what, place=None, slot=0):
        self.what, self.place, self.slot = what, place, slot
        super().__init__(what if place is None else f"{what}, recorded at {place}")

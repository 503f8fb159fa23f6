"""Where a recording is narrow: few numbers, through which everything goes that the results get from the arguments.

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

from ..interpreter.plan import Signature
from ..tape.layout import ARRAY_LEAF, CONTINUES, FIRST_ARRAY
from ..tape.meta import SCALAR


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
    op = int(records["op"][slot])
    return Signature.ALL[op - FIRST_ARRAY].out if FIRST_ARRAY <= op < ARRAY_LEAF else SCALAR


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

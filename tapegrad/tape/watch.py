"""Constant arrays that a tape keeps but does not own, and whether they have changed since.

A rule reads the constant operand of ``A @ t`` during the backward pass; if the
user has changed `A` in place by then, the gradient would be wrong without a
word.  So its contents are summed up when it is used (`stamp`) and compared, by
one compiled pass over all of them, when the tape is swept.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

#: Up to so many bytes an array is its own stamp.
SHORT = 4096
#: How a watched array is compared (`Watched`).
SAME, STAMPED, LEFT = 0, 1, 2


def stamp(array):
    """A digest of the contents of an array, as bytes: changes when they do.

    A short array is its own digest; of a larger one it is that of `native.digest`, whatever its layout.
    """
    if array.nbytes <= SHORT:
        return array.tobytes()
    from ..codegen.digest import digest  # compiled

    flat = np.ascontiguousarray(array)
    return digest(flat.ctypes.data, flat.nbytes).to_bytes(8, "little", signed=True)


class Watched:
    """The constant arrays of one store, in parallel lists that compiled code reads.

    `slots` are the instructions that need them, `owners` what the user passed;
    `kinds` how they are compared: `SAME` if the stamp is the content itself, `STAMPED` if it
    has to be made again, `LEFT` if the array is watched no longer.  Slots ascend.
    """

    __slots__ = ("slots", "arrays", "stamps", "kinds", "owners")

    def __init__(self):
        self.slots, self.arrays, self.stamps, self.kinds, self.owners = [], [], [], [], []

    def __len__(self):
        return len(self.slots)

    def add(self, slot, array, mark, owner):
        """Watch `array`, whose stamp is `mark`, for instruction `slot`."""
        self.slots.append(slot)
        self.arrays.append(array)
        self.stamps.append(mark)
        self.kinds.append(SAME if array.nbytes <= SHORT and array.flags.c_contiguous else STAMPED)
        self.owners.append(owner)

    def forget(self, low, visited):
        """Watch no longer for the visited slots of the stretch that starts at `low`."""
        start, stop = bisect_left(self.slots, low), bisect_left(self.slots, low + len(visited))
        if start == stop:
            return
        slots = np.array(self.slots[start:stop])
        for k in (start + np.flatnonzero(visited[slots - low])).tolist():
            self.arrays[k] = self.stamps[k] = self.owners[k] = None
            self.kinds[k] = LEFT

    def keep(self, wanted, renumber=None):
        """What is left of it when only instructions with ``wanted[slot]`` stay."""
        left = Watched()
        for slot, array, mark, owner in zip(self.slots, self.arrays, self.stamps, self.owners):
            if wanted[slot] and array is not None:
                left.add(slot if renumber is None else int(renumber[slot]), array, mark, owner)
        return left

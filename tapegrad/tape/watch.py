"""Constant arrays that a tape keeps but does not own, and whether they have changed since.

A rule reads the constant operand of ``A @ t`` during the backward pass; if the
user has changed `A` in place by then, the gradient would be wrong without a
word.  So its contents are summed up when it is used (`stamp`) and compared, by
one compiled pass over all of them, when the tape is swept.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

#: Lanes of a stamp: a prime number, so that moved rows land in other lanes.
LANES = 509


#: `stamp` of a large contiguous array in compiled code, once that is loaded (`sweep.native`).
compiled_stamp = None


def stamp(array):
    """A digest of the contents of an array, as bytes: changes when they do.

    An array of at most ``8 * LANES`` bytes is its own digest; the words of a
    larger one are summed in interleaved lanes, which moving rows or elements
    about changes too, and the last words are mixed in.
    """
    if array.nbytes <= 8 * LANES:
        return array.tobytes()
    if compiled_stamp is not None and array.flags.c_contiguous:
        return compiled_stamp(array)
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.itemsize == 8:
        words, rest = flat.view(np.uint64), b""
    else:
        data = flat.view(np.uint8)
        words, rest = data[: data.size // 8 * 8].view(np.uint64), data[data.size // 8 * 8 :].tobytes()
    lanes = np.add.reduce(words[: words.size // LANES * LANES].reshape(-1, LANES), 0)
    lanes ^= words[-LANES:]
    return lanes.tobytes() + rest


class Watched:
    """The constant arrays of one store, in parallel lists that compiled code reads.

    `slots` are the instructions that need them, `owners` what the user passed;
    `words` the number of 8-byte words summed up in lanes, 0 if the stamp is the
    content itself, 1 if the array is not contiguous and left to NumPy, 2 if it
    is watched no longer.  Slots ascend.
    """

    __slots__ = ("slots", "arrays", "stamps", "words", "owners")

    def __init__(self):
        self.slots, self.arrays, self.stamps, self.words, self.owners = [], [], [], [], []

    def __len__(self):
        return len(self.slots)

    def add(self, slot, array, mark, owner):
        """Watch `array`, whose stamp is `mark`, for instruction `slot`."""
        self.slots.append(slot)
        self.arrays.append(array)
        self.stamps.append(mark)
        contiguous = array.flags.c_contiguous
        self.words.append((0 if array.nbytes <= 8 * LANES else array.nbytes // 8) if contiguous else 1)
        self.owners.append(owner)

    def forget(self, low, visited):
        """Watch no longer for the visited slots of the stretch that starts at `low`."""
        start, stop = bisect_left(self.slots, low), bisect_left(self.slots, low + len(visited))
        if start == stop:
            return
        slots = np.array(self.slots[start:stop])
        for k in (start + np.flatnonzero(visited[slots - low])).tolist():
            self.arrays[k] = self.stamps[k] = self.owners[k] = None
            self.words[k] = 2

    def keep(self, wanted, renumber=None):
        """What is left of it when only instructions with ``wanted[slot]`` stay."""
        left = Watched()
        for slot, array, mark, owner in zip(self.slots, self.arrays, self.stamps, self.owners):
            if wanted[slot] and array is not None:
                left.add(slot if renumber is None else int(renumber[slot]), array, mark, owner)
        return left

"""Arrays that a tape keeps but does not own, and whether they have changed since.

A rule reads the constant operand of ``A @ t`` during the backward pass; if the
user has changed `A` in place by then, the gradient would be wrong without a
word.  So the tape keeps a copy of a short array (`copy_of`), and of a tensor that has been written to before.
The contents of others are summed up when they are used (`stamp`) and compared, by
one compiled pass over all of them, when the tape is swept; before a tensor is written to for the first time, they are copied (`Watched.spare`).

The memory of leaves and results is the tape's own, and is not looked at, unless it is `EXPOSED`: shared with an array
that outside code can write to.  From then on it is watched as constants are.  What was recorded before is
compared with the stamp that the memory had when it was handed out (`exposed_since`).
"""

import weakref
from bisect import bisect_left

import numpy as np

from ..common.registry import registry

#: Up to so many bytes an array is its own stamp, or is copied.
SHORT = 4096
#: A part of memory is small if the whole is so many times as large, or more.
PART = 8
#: How a watched array is compared (`Watched`).
SAME, STAMPED, LEFT = 0, 1, 2


def stamp(array):
    """A digest of the contents of an array, as bytes: changes when they do.

    A short array is its own digest; of a larger one it is that of `codegen.memory`, whatever its layout.
    """
    if array.nbytes <= SHORT:
        return array.tobytes()
    return registry.walks.digest(np.ascontiguousarray(array)).to_bytes(8, "little", signed=True)


def copy_of(array, most=SHORT):
    """A copy of an array, laid out as it is; None if it spans more than so many bytes."""
    if array.flags.c_contiguous:
        return array.copy() if array.nbytes <= most else None
    spans = [stride * (extent - 1) for stride, extent in zip(array.strides, array.shape)]
    nbytes = sum(map(abs, spans)) + array.itemsize
    if nbytes > most:
        return None
    copy = np.ndarray(array.shape, array.dtype, np.empty(nbytes, np.uint8), -sum(s for s in spans if s < 0), array.strides)
    copy[...] = array
    return copy


def apart(array):
    """What a tape keeps of an array that looks at the memory of another: a copy of a small part, or it would keep the whole.

    (And each write to the whole would have to copy that first: ``x[i + 1] = x[i] + h * f(x[i])``.)
    """
    most = getattr(array.base, "nbytes", 0) // PART
    copy = copy_of(array, most) if array.nbytes <= most else None
    # (Of nothing, and along axes of extent 1, strides may be any: the description of the operand has those.)
    return array if copy is None or copy.strides != array.strides else copy


def owner_of(array):
    """The array that owns the memory of `array`."""
    base = array.base
    while base is not None:
        if type(base) is memoryview:
            base = base.obj
        if not isinstance(base, np.ndarray):
            break
        array, base = base, base.base
    return array


def sealed(array):
    """A read-only view that cannot be made writeable again."""
    return np.asarray(memoryview(array).toreadonly())


class Exposure:
    """Memory that outside code can write to: the array that owns it, its number in order, and its stamp then.

    Without a stamp nothing had been recorded of it.
    """

    __slots__ = ("owner", "number", "mark")

    #: The number made so far.
    count = 0

    def __init__(self, owner, mark):
        Exposure.count += 1
        key = id(owner)
        self.owner, self.number, self.mark = weakref.ref(owner, lambda _: EXPOSED.pop(key, None)), Exposure.count, mark
        EXPOSED[key] = self


#: id of the owner -> Exposure.
EXPOSED: dict[int, Exposure] = {}


def expose(array, recorded=True):
    """Note that outside code can write to the memory of `array`, of which something may have been `recorded`."""
    owner = owner_of(array)
    if id(owner) not in EXPOSED:
        Exposure(owner, stamp(owner) if recorded else None)


def exposed_since(number):
    """The owners of memory that was exposed after exposure `number`, and has changed since it was."""
    if Exposure.count == number:
        return []
    exposed = [(e.owner(), e.mark) for e in list(EXPOSED.values()) if e.number > number and e.mark is not None]
    return [owner for owner, mark in exposed if owner is not None and stamp(owner) != mark]


class Watched:
    """The watched arrays of one store, in parallel lists that compiled code reads.

    `slots` are the instructions that need them, `owners` what the user passed;
    `kinds` how they are compared: `SAME` if the stamp is the content itself, `STAMPED` if it
    has to be made again, `LEFT` if the array is watched no longer.  Slots ascend.
    `born` is the number of exposures there were when the store was made.
    """

    __slots__ = ("slots", "arrays", "stamps", "kinds", "owners", "born")

    def __init__(self):
        self.slots, self.arrays, self.stamps, self.kinds, self.owners = [], [], [], [], []
        self.born = Exposure.count

    def __len__(self):
        return len(self.slots)

    def add(self, slot, array, mark, owner):
        """Watch `array`, whose stamp is `mark`, for instruction `slot`."""
        self.slots.append(slot)
        self.arrays.append(array)
        self.stamps.append(mark)
        self.kinds.append(SAME if array.nbytes <= SHORT and array.flags.c_contiguous else STAMPED)
        self.owners.append(owner)

    def spare(self, memory, objects):
        """Before `memory` is written to: what it holds goes on as copies, watched and among the saved `objects`."""
        for arrays in (objects, self.arrays):
            for k, array in enumerate(arrays):
                if array.__class__ is np.ndarray and np.may_share_memory(array, memory):
                    arrays[k] = copy_of(array, np.inf)

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
        left.born = self.born
        for slot, array, mark, owner in zip(self.slots, self.arrays, self.stamps, self.owners):
            if wanted[slot] and array is not None:
                left.add(slot if renumber is None else int(renumber[slot]), array, mark, owner)
        return left

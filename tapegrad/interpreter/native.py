"""The bridge from Python objects to the compiled walks.

A walk holds no lock and reads no object.  What it needs of the values that instructions have saved are addresses: before it
starts, `locate` finds those of the stretch that it is going to visit.  Their table lives as long as the sweep, so nothing has
to be told when a value is let go or replaced.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from bisect import bisect_left, bisect_right
from functools import cache

import numpy as np

from ..codegen.addresses import data_address
from ..codegen.compile import plain_address
from ..codegen.scalars import reverse_switch
from ..common.errors import require
from ..tape.layout import ARRAY_LEAF, CLEARED, MARK, RECORD, SCALAR_LEAF
from ..tape.watch import stamp
from . import program as P
from . import walk
from .plan import Signature

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise RuntimeError("tapegrad needs a Python with the global interpreter lock")


@cache
def steps():
    """The compiled steps of array instructions, imported when a tape first has some."""
    from . import steps

    return steps


@cache
def run_address():
    """Address of `interpreter.steps.run`."""
    return plain_address(steps().run)


_table = None, 0


def table_address():
    """Address of the signatures' table (moves when the table grows)."""
    global _table
    table, address = _table
    if table is not Signature.TABLE:
        table = Signature.TABLE
        _table = table, (address := data_address(table))
    return address


def refuse_unknown(records, at):
    """Raise if a walk over the records at this address returned `at` because of an instruction that it does not know."""
    if at <= P.UNKNOWN:
        slot = P.UNKNOWN - at
        op = ctypes.c_int32.from_address(records + RECORD.size * slot).value
        require(False, f"compiled code met instruction %{slot}, whose opcode {op} it does not know")


def new_marks(store):
    """Zeroed marks, one byte per slot, padded to whole words."""
    return np.zeros(len(store.tokens) + 16, np.uint8)


#: What `live_marks` counts for an object that only a list refers to: asked in the same way, for it depends on who asks.
(_ALONE,) = map(sys.getrefcount, [object()])


def live_marks(store):
    """Marks of the slots whose tensors are alive (leaves and continuations excluded), and how many."""
    ops = store.records()["op"]
    references = np.fromiter(map(sys.getrefcount, store.tokens), np.int64, len(ops))
    held = (references != _ALONE) & (ops > SCALAR_LEAF) & ((ops < ARRAY_LEAF) | (ops >= CLEARED))
    marks = new_marks(store)
    marks[: len(ops)][held] = MARK
    return marks, int(np.count_nonzero(held))


def live_slots(store):
    """The slots of the instructions, and of leaves that are numbers, whose tensors are alive."""
    tokens = store.tokens
    return [slot for slot, count in enumerate(map(sys.getrefcount, tokens)) if count != _ALONE and tokens[slot] is not None]


def mark(store, marks, high, roots, refuse=0):
    """Mark ancestors of the `roots` marked slots at or below `high`.

    Returns (count, lowest, cleared); with `refuse` it stops at a cleared
    instruction and returns its slot, else `cleared` is -1.
    """
    address = store.flush()
    packed = walk.mark(address, data_address(marks), table_address(), high, roots, refuse)
    if packed < 0:
        return 0, high, -1 - packed
    return packed >> 32, packed & 0xFFFFFFFF, -1


def ancestors(store, roots):
    """Marks of the ancestors of slots `roots`, with what `mark` returns."""
    marks = new_marks(store)
    for slot in roots:
        marks[slot] = MARK
    return marks, *mark(store, marks, max(roots), len(set(roots)), 1)


def pack(store, base, count):
    """Pack the staged instructions of `store` into records (`Store.flush`)."""
    walk.pack(store.address, base, count, store.ops, store.lefts, store.rights, store.offsets, store.tokens)


def table_of_saved(store):
    """A word for each of the store's objects, to have the address of its data (`locate`), and behind them doubles for the floats among them."""
    return np.empty(2 * len(store.objects), np.int64)


def locate(store, saved, marks, low, high):
    """Find what the marked instructions from `low` to `high` have saved; `marks` is an address, 0: what all of them have."""
    savers, addresses = store.savers, data_address(saved)
    first, end = bisect_left(savers, low), bisect_right(savers, high)
    if first < end:
        walk.locate(
            store.flush(), marks, table_address(), savers, first, end, store.objects, addresses, addresses + saved.nbytes // 2
        )


def saved_by(store, low, high):
    """The table of what all instructions from `low` to `high` have saved."""
    saved = table_of_saved(store)
    locate(store, saved, 0, low, high)
    return saved


def first_changed(watched, marks, low, high):
    """Position of the first watched array of a marked slot from `low` to `high` that has changed, or -1."""
    at, end = bisect_left(watched.slots, low), bisect_right(watched.slots, high)
    while at < end:
        at = steps().first_changed(
            watched.slots, watched.arrays, watched.stamps, watched.kinds, at, end, data_address(marks), high,
        )
        if at < 0:
            break
        if stamp(watched.arrays[at]) != watched.stamps[at]:
            return at
        at += 1
    return -1


def _ranges(store, marks, low, high, marked):
    """Bytes saved by the other instructions, and merged ranges of what the (un)marked ones saved."""
    ranges = np.empty(2 * (high - low + 1) + 2, np.int64)
    count = steps().saved_values(
        store.flush(), data_address(marks), table_address(), low, high, marked, store.objects, None, data_address(ranges),
    )
    pairs = ranges[1 : 1 + 2 * count].reshape(-1, 2)
    if count > 1:
        first = np.concatenate([[True], pairs[1:, 0] != pairs[:-1, 1]])
        last = np.concatenate([first[1:], [True]])
        pairs = np.stack([pairs[first, 0], pairs[last, 1]], axis=1)
    return int(ranges[0]), pairs.tolist()


def saved_ranges(store, marks, low, high):
    """Ranges of `store.objects` that the marked instructions from `low` to `high` have saved."""
    return _ranges(store, marks, low, high, 1)[1]


def dead_values(store, marks):
    """Bytes saved by marked instructions, and the ranges of `store.objects` that unmarked ones have saved."""
    return _ranges(store, marks, 1, len(store.tokens) - 1, 0)


#: Scratch memory of sweeps that have ended; a sweep in a hook of another takes its own.
_SCRATCH = []


#: The most slots for which the memory of a sweep is kept for the next one.
MOST_KEPT = 1 << 16
_ROOMS = []


class Room:
    """Memory for the reverse sweep of one call: adjoints, marks and scratch, for up to `size` slots; kept in `_ROOMS`."""

    def __init__(self, size):
        self.size = size
        self.adjoint = np.zeros(size)
        self.words = self.adjoint.view(np.int64)
        self.marks = np.zeros(size + 16, np.uint8)
        self.scratch = np.empty(P.SCRATCH, np.uint8)
        self.addresses = tuple(data_address(array) for array in (self.adjoint, self.marks, self.scratch))

    @classmethod
    def of(cls, count):
        """One for `count` slots."""
        if _ROOMS and (room := _ROOMS.pop()).size >= count:
            return room
        return cls(max(count, 1024))

    def close(self):
        """Give it back."""
        if self.size <= MOST_KEPT:
            _ROOMS.append(self)


def swept(store, root, leaves, let_go, least=0):
    """The adjoints of `leaves` (slots and values) by a sweep from the number at slot `root`; None if it may not be made so.

    The adjoint of a leaf that it does not come to is None.

    It is one that nobody watches: the caller has seen that there are no hooks, and no rules in Python.  A store
    of which something that a rule reads has been cleared, or was changed in place, is left to `autograd.backward`, which says so.

    Parameters
    ----------
    let_go : callable
        ``let_go(store)`` is called with the slot of each instruction whose large saved values the sweep has passed.
    least : int
        With fewer instructions than that it is not made.
    """
    records, table = store.flush(), table_address()
    room = Room.of(root + 1)
    adjoint, marks, scratch = room.addresses
    try:
        Signature.compile_pending()
        switch, run = reverse_switch(store.special), run_address() if Signature.ALL else 0
        try:
            low = walk.straight(records, adjoint, marks, root, table, switch, run, scratch, 1 if store.savers else 0, least)
            if low > 0:
                if store.watched.slots and first_changed(store.watched, room.marks, low, root) >= 0:
                    return None
                saved, at, release = table_of_saved(store), root, None
                locate(store, saved, marks, low, root)
                saved_at = data_address(saved)
                while at >= low:
                    at = walk.reverse(records, adjoint, marks, at, low, switch, run, table, saved_at, scratch, 1)
                    if at >= 0:
                        break
                    refuse_unknown(records, at)
                    if release is None:
                        release = let_go(store)
                    release(-1 - at)
                    at = -2 - at
            elif low == -1:
                return None
            else:
                refuse_unknown(records, low)
            gradients = []
            for slot, value in leaves:
                if slot > root or not room.marks.item(slot):
                    gradients.append(None)
                elif type(value) is float:
                    gradients.append(room.adjoint.item(slot))
                elif not room.words.item(slot):
                    gradients.append(np.zeros(value.shape, value.dtype))
                else:
                    gradient = np.empty(value.shape, value.dtype)
                    address, room.words[slot] = room.words.item(slot), 0
                    steps().take(data_address(gradient), address, gradient.nbytes)
                    gradients.append(gradient)
        except BaseException:
            steps().free_all(records, adjoint, marks, table, root)
            raise
        return gradients
    finally:
        room.close()


class Adjoints:
    """The adjoints of a reverse sweep, one word per slot.

    Parameters
    ----------
    adjoint : ndarray of float64
        A scalar's adjoint, or the address of an array's.
    """

    def __init__(self, adjoint):
        self.adjoint = adjoint
        self.words = adjoint.view(np.int64)

    def add(self, slot, value):
        """Add `value` (float or C-contiguous ndarray) to the adjoint of `slot`."""
        if type(value) is float:
            self.adjoint[slot] += value
            return
        if self.words[slot]:
            value = value + self.peek(slot, value.shape, value.dtype)
            self.drop(slot)
        packed = np.array([data_address(value), value.nbytes], np.int64)
        self.words[slot] = steps().duplicate(data_address(packed))

    def replace(self, slot, value):
        """Set the adjoint of `slot`."""
        if type(value) is float:
            self.adjoint[slot] = value
        else:
            self.drop(slot)
            self.add(slot, value)

    def drop(self, slot):
        """Free the adjoint buffer of an array slot, if it has one."""
        if self.words[slot]:
            waste = np.empty(0, np.uint8)
            steps().take(data_address(waste), self.words[slot], 0)
            self.words[slot] = 0

    def peek(self, slot, shape, dtype):
        """A copy of the adjoint of an array slot (zeros if there is none)."""
        result = np.zeros(shape, dtype)
        if self.words[slot] and result.nbytes:
            ctypes.memmove(data_address(result), int(self.words[slot]), result.nbytes)
        return result

    def take(self, slot, shape, dtype):
        """The adjoint of an array slot, given away by the sweep."""
        address = int(self.words[slot])
        if not address:
            return np.zeros(shape, dtype)
        result = np.empty(shape, dtype)
        self.words[slot] = 0
        steps().take(data_address(result), address, result.nbytes)
        return result


class Sweep(Adjoints):
    """One reverse sweep in progress over one store: adjoints, marks, scratch.

    Attributes
    ----------
    adjoint : ndarray of float64
        One word per slot: a scalar adjoint, or the address of an array's.
    """

    def __init__(self, store, marks, high):
        self.store = store
        self.marks = marks
        self.high = high
        super().__init__(np.zeros(high + 1))
        try:
            self.scratch = _SCRATCH.pop()
        except IndexError:
            self.scratch = np.empty(P.SCRATCH, np.uint8)
        self._addresses = (data_address(self.adjoint), data_address(marks))
        self._saved = table_of_saved(store)
        self._scratch_address = data_address(self.scratch)
        self.switch = reverse_switch(store.special)
        self.array_run = run_address() if Signature.ALL else 0
        Signature.compile_pending()

    def locate(self, high, low):
        """Find what the instructions from `high` to `low` have saved, before they are swept; again if a user's code ran since then."""
        locate(self.store, self._saved, self._addresses[1], low, high)

    def run(self, high, low, stop_at_large):
        """Sweep from `high` to `low`, whose saved values are located; returns the next slot to visit."""
        adjoint, marks = self._addresses
        # A hook may have recorded, and so moved the records.
        at = walk.reverse(
            self.store.flush(), adjoint, marks, high, low, self.switch, self.array_run, table_address(), data_address(self._saved),
            self._scratch_address, stop_at_large,
        )
        refuse_unknown(self.store.address, at)
        return at

    def free_all(self):
        """Free the adjoints of a sweep that was broken off."""
        adjoint, marks = self._addresses
        steps().free_all(self.store.flush(), adjoint, marks, table_address(), self.high)

    def close(self):
        """Give the scratch memory back."""
        _SCRATCH.append(self.scratch)

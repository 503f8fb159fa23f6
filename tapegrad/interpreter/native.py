"""The bridge from Python objects to the compiled walks.

A walk holds no lock and reads no object.  What it needs of the values that instructions have saved are addresses: before it
starts, `locate` finds those of the stretch that it is going to visit.  Their table lives as long as the sweep, so nothing has
to be told when a value is let go or replaced.
"""

import ctypes
import struct
import weakref
from bisect import bisect_left, bisect_right
from functools import cache

import numpy as np

from ..codegen.compile import plain_address
from ..codegen.memory import BLOCKS
from ..codegen.of_rows import reverse_switch
from ..codegen.python_api import data_address
from ..common.errors import GradientError, require
from ..rules.table import ROWS
from ..tape.layout import ARRAY_LEAF, CLEARED, FIRST_ARRAY, MARK, RECORD, SCALAR_LEAF
from ..tape.watch import stamp
from . import program as P
from . import walk
from .fields import live
from .signature import Signature


@cache
def steps():
    """The compiled steps of array instructions, imported when a tape first has some."""
    from . import steps

    return steps


@cache
def run_address():
    """Address of `interpreter.steps.run`."""
    return plain_address(steps().run)


def table_address():
    """Address of the signatures' table (moves when the table grows)."""
    return data_address(Signature.TABLE)


def refuse_unknown(records, at):
    """Raise if a walk over the records at this address returned `at` because of an instruction that it does not know, or that has failed."""
    if at <= P.NO_MEMORY:
        raise MemoryError(f"there is no memory for the adjoints of the operands of instruction %{P.NO_MEMORY - at}")
    if at <= P.UNKNOWN:
        slot = P.UNKNOWN - at
        op = ctypes.c_int32.from_address(records + RECORD.size * slot).value
        if op >= FIRST_ARRAY:
            raise GradientError(
                f"the program of instruction %{slot} has ended before its end: a loop takes a path there that was not recorded, or there is no "
                "memory for its iterations; record the function at this point"
            )
        require(False, f"compiled code met instruction %{slot}, whose opcode {op} it does not know")


def new_marks(store):
    """Zeroed marks, one byte per slot, padded to whole words."""
    return np.zeros(store.length + 16, np.uint8)


def live_marks(store):
    """Marks of the slots whose tensors are alive (leaves and continuations excluded), and how many."""
    ops, marks = store.records()["op"], new_marks(store)
    slots = np.unique(np.array(live_slots(store), np.int64))
    ops = ops[slots]
    held = slots[(ops > SCALAR_LEAF) & ((ops < ARRAY_LEAF) | (ops >= CLEARED))]
    marks[held] = MARK
    return marks, len(held)


def live_slots(store):
    """The slots that tensors which are alive lie in."""
    return [t._i for t in live(store)]


def mark(store, marks, high, roots, refuse=0):
    """Mark ancestors of the `roots` marked slots at or below `high`.

    Returns (count, lowest, cleared); with `refuse` it stops at a cleared
    instruction and returns its slot, else `cleared` is -1.
    """
    marks, table = data_address(marks), table_address()
    packed = walk.mark(store.address, marks, table, high, roots, refuse)
    if packed < 0:
        return 0, high, -1 - packed
    return packed >> 32, packed & 0xFFFFFFFF, -1


def ancestors(store, roots):
    """Marks of the ancestors of slots `roots`, with what `mark` returns."""
    marks = new_marks(store)
    for slot in roots:
        marks[slot] = MARK
    return marks, *mark(store, marks, max(roots), len(set(roots)), 1)


def table_of_saved(store):
    """A word for each of the store's objects, to have the address of its data (`locate`), and behind them doubles for the floats among them."""
    return np.empty(2 * len(store.objects), np.int64)


def locate(store, saved, marks, low, high):
    """Find what the marked instructions from `low` to `high` have saved; `marks` is an address."""
    savers, addresses = store.savers, data_address(saved)
    first, end = bisect_left(savers, low), bisect_right(savers, high)
    if first < end:
        table = table_address()
        walk.locate(
            store.address, marks, table, savers, first, end, store.objects, addresses, addresses + saved.nbytes // 2
        )


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


def saved_ranges(store, marks, low, high, marked):
    """Of the instructions from `low` to `high` merged ranges of `store.objects` that the marked (1) or unmarked (0) ones have saved; bytes of the others."""
    ranges = np.empty(2 * (high - low + 1) + 2, np.int64)
    run, marks, table, room = steps().saved_values, data_address(marks), table_address(), data_address(ranges)
    count = run(store.address, marks, table, low, high, marked, store.objects, None, room)
    return ranges[1 : 1 + 2 * count].reshape(-1, 2).tolist(), int(ranges[0])


class Sweep:
    """A reverse sweep laid out: its words (`program.W_RECORDS` ...), and the memory that they refer to.

    Parameters
    ----------
    count : int
        How many slots it has room for.
    marks : ndarray, optional
        A byte for each, behind which there is room for a word.
    words : int
        How many words there are.

    Attributes
    ----------
    adjoint : ndarray of float64
        One word per slot: a scalar's adjoint, or the address of an array's.
    """

    def __init__(self, count, marks=None, words=P.WORDS):
        self.adjoint = np.zeros(count)
        self.words = self.adjoint.view(np.int64)
        self.marks = np.zeros(count + 16, np.uint8) if marks is None else marks
        self.scratch, self.saved, self.store, self.buffer, self.made_of = np.empty(P.SCRATCH, np.uint8), None, None, None, None
        self.scratch[P.KEPT_AT : P.KEPT_AT + 8] = 0
        p = self.parameters = np.zeros(words, np.int64)
        p[P.W_ADJOINT], p[P.W_MARKS], p[P.W_SCRATCH] = map(data_address, (self.adjoint, self.marks, self.scratch))
        p[P.W_SLOTS] = count
        self.pointer = data_address(p)

    def keep_blocks(self):
        """Keep the memory of large arrays from one sweep to the next, as long as this lives."""
        blocks = np.zeros(2 * BLOCKS, np.int64)
        self.scratch[P.KEPT_AT : P.KEPT_AT + 8] = np.array([data_address(blocks)]).view(np.uint8)
        weakref.finalize(self, _free_blocks, blocks).atexit = False

    # -- adjoints ------------------------------------------------------------------
    def add(self, slot, value):
        """Add `value` (float or C-contiguous ndarray) to the adjoint of `slot`."""
        if type(value) is float:
            self.adjoint[slot] += value
            return
        if self.words[slot]:
            value = value + self.peek(slot, value.shape, value.dtype)
            self.drop(slot)
        block = steps().duplicate(data_address(value), value.nbytes)
        if not block:
            raise MemoryError(f"there is no memory for the adjoint of instruction %{slot}, {value.nbytes} bytes")
        self.words[slot] = block

    def replace(self, slot, value):
        """Set the adjoint of `slot`."""
        if type(value) is float:
            self.adjoint[slot] = value
        else:
            self.drop(slot)
            self.add(slot, value)

    def drop(self, slot):
        """Free the adjoint buffer of an array slot, if it has one."""
        self.take(slot, 0, np.uint8)

    def peek(self, slot, shape, dtype, taken=False):
        """A copy of the adjoint of an array slot (zeros if there is none)."""
        result, address = np.zeros(shape, dtype), self.words.item(slot)
        if address:
            steps().fetch(data_address(result), address, result.nbytes, taken)
        return result

    def take(self, slot, shape, dtype):
        """The adjoint of an array slot, given away by the sweep."""
        result, self.words[slot] = self.peek(slot, shape, dtype, True), 0
        return result

    # -- sweeping ------------------------------------------------------------------
    def over(self, records, special):
        """Write where the records are, and the code for what is on them."""
        # (Each row and each signature is counted once its code is there.)
        made_of = records, special, len(ROWS), Signature.made
        if made_of != self.made_of:
            run = run_address() if Signature.made else 0
            _WHERE.pack_into(self.parameters, 0, records, reverse_switch(special), run, table_address())
            self.made_of = made_of

    def over_store(self, store):
        """`over` the records of a store; where they are now they stay, though others may be written elsewhere meanwhile."""
        if store.pending:
            waiting, store.pending = store.pending, []
            try:
                Signature.ready(waiting)
            except BaseException:
                store.pending += waiting
                raise
        self.store, self.saved, self.buffer = store, None, store.buffer
        self.over(store.address, store.special)
        return self

    def reads(self, saved):
        """Let it read saved values at these addresses."""
        self.saved, self.parameters[P.W_SAVED] = saved, data_address(saved)

    def locate(self, high, low):
        """Find what the instructions of a store from `high` to `low` have saved; again if a user's code has run since then."""
        if self.saved is None:
            self.reads(table_of_saved(self.store))
        locate(self.store, self.saved, self.parameters.item(P.W_MARKS), low, high)

    def go(self, high, low, let_go=None):
        """Sweep a store from `high` to `low`; `let_go` is called with each slot on the way whose saved values are large."""
        self.locate(high, low)
        while (at := self.run(high, low, let_go is not None)) < 0:
            let_go(-1 - at)
            high = -2 - at

    def run(self, high, low, stop_at_large=False):
        """Sweep from `high` to `low`, whose saved values are located; as of `walk.reverse`."""
        at = walk.reverse(self.pointer, high, low, stop_at_large)
        refuse_unknown(self.store.address, at)
        return at

    def free_all(self):
        """Free the adjoints of a sweep that was broken off."""
        if self.store is not None:
            self.over_store(self.store)
        steps().free_all(self.pointer)


def _free_blocks(blocks):
    steps().free_kept(data_address(blocks))


_WHERE = struct.Struct("4q")
#: The most slots for which the memory of a sweep is kept for the next one.
MOST_KEPT = 1 << 17
_KEPT = []


def swept(store, root, leaves, let_go, least=0):
    """The adjoints of `leaves` (slots and values) by a sweep from the number at slot `root`; None if it may not be made so.

    The adjoint of a leaf that it does not come to is None.

    It is unwatched: the caller has seen that there are no hooks, and no rules in Python.  A store
    of which something that a rule reads has been cleared, or was changed in place, is left to `autograd.backward`, which says so.

    Parameters
    ----------
    let_go : callable
        ``let_go(store)`` is called with the slot of each instruction whose large saved values the sweep has passed.
    least : int
        With fewer instructions than that it is not made.
    """
    try:
        sweep = _KEPT.pop()
    except IndexError:
        sweep = None
    if sweep is None or len(sweep.adjoint) <= root:
        sweep = Sweep(max(root + 1, 1024))
    # What ends meanwhile may run a finalizer that records: the store stays in its place.
    store.pinned += 1
    sweep.over_store(store)
    try:
        try:
            low = walk.straight(sweep.pointer, root, 1 if store.savers else 0, least)
            if low == -1 or low > 0 and store.watched.slots and first_changed(store.watched, sweep.marks, low, root) >= 0:
                return None
            if low > 0:
                sweep.go(root, low, let_go(store))
            if low < 0:
                refuse_unknown(store.address, low)
            gradients = []
            for slot, value in leaves:
                if slot > root or not sweep.marks.item(slot):
                    gradients.append(None)
                elif type(value) is float:
                    gradients.append(sweep.adjoint.item(slot))
                else:
                    gradients.append(sweep.take(slot, value.shape, value.dtype))
        except BaseException:
            sweep.parameters[P.W_SLOTS] = root + 1
            sweep.free_all()
            raise
        return gradients
    finally:
        store.unpin()
        if len(sweep.adjoint) <= MOST_KEPT:
            sweep.store = sweep.saved = sweep.buffer = None
            _KEPT.append(sweep)

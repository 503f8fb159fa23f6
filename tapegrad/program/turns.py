"""The turns of a loop whose body is a tape: forward with what reverse mode needs, and back.

The body is one or several *paths*, tapes of one form (`Path`): each takes the carry, the element of the arrays that are gone along, and
captured values, and gives the next carry and a result.  All of these are vectors of float64.  A turn runs on the path whose
guards hold; the one of the last turn is tried first.  A path of which `stops` is true ends the loop.

On the way forward the carry is kept before every `stride`-th turn, in so many rows as there is room for; where the number of turns is
not known, every second one is let go of when the rows are full, and the stride doubles (so that it fits at the end, whatever
the number).  The way back takes a stretch of turns whose carries and paths are all kept (`transforms.loops.loop` computes
those between two kept ones again), and calls the adjoints of the paths, in reverse order.

Where tables hold addresses, each is a *base* (which of the vectors) and an offset in bytes.
"""

from __future__ import annotations

import numpy as np

from ..codegen.compile import compiled, helper
from ..codegen.memory import copy_bytes, double_at, load_byte, load_int, set_double_at, store_byte, store_int
from ..interpreter.native import data_address
from .executable import run
from .status import FINE

#: What a call of `advance` ends with: so many turns as were asked for, or less; a path that stops; no path's guards hold; something that
#: compiled code does not know.
MORE, STOPPED, NO_PATH, UNKNOWN = range(4)

#: Words: the next turn, and how many there may be; the paths (number, address of a table of their words), and which was taken last;
#: two rows for carries, and bytes of one; the arrays that are gone along, and the step from turn to turn, in bytes; results, and theirs;
#: captured values; rows kept, their capacity, number, stride and room; a byte for the path of each turn, and for how many
#: turns there is room; scratch for tables of addresses; of the way back: rows of adjoints of the carry, adjoints of results and
#: of the arrays (steps as theirs), of captured values (sums, one turn's, how many); the turn at which
#: it has begun.
(
    T_TURN, T_LIMIT, T_PATHS, T_TABLE, T_RECENT, T_ROWS, T_WIDTH, T_XS, T_XSTEP, T_YS, T_YSTEP, T_CAPTURED, T_CAPACITY, T_KEPT, T_STRIDE,
    T_STORE, T_LOG, T_LOGGED, T_SCRATCH, T_ADJOINTS, T_YBAR, T_XBAR, T_SUMS, T_PART, T_COUNT, T_START, T_BASES,
) = range(27)  # fmt: skip
#: Bases: carry, element, captured, next carry, result; adjoints of next carry, result, carry, element, captured.
CARRY, ELEMENT, CAPTURED, NEXT, RESULT, NEXT_BAR, RESULT_BAR, CARRY_BAR, ELEMENT_BAR, CAPTURED_BAR = range(10)
WORDS = T_BASES + 10
#: Words of a path: its executable, whether it stops; then lists, with their lengths: (base, offset) of inputs and of outputs, and
#: (base, offset, address, bytes) of constants.
P_EXECUTABLE, P_STOPS, P_LISTS = range(3)


@helper
def _table(p, words, at, table):
    """Write a table of addresses; returns where the list has ended."""
    count = load_int(words + 8 * at)
    at += 1
    for k in range(count):
        base, offset = load_int(words + 8 * at), load_int(words + 8 * at + 8)
        store_int(table + 8 * k, load_int(p + 8 * (T_BASES + base)) + offset)
        at += 2
    return at


@helper
def _turn(p, words):
    """One turn on a path; returns the status."""
    inputs = load_int(p + 8 * T_SCRATCH)
    outputs = inputs + 8 * load_int(words + 8 * P_LISTS)
    at = _table(p, words, P_LISTS, inputs)
    at = _table(p, words, at, outputs)
    count = load_int(words + 8 * at)
    at += 1
    for _ in range(count):
        target = load_int(p + 8 * (T_BASES + load_int(words + 8 * at))) + load_int(words + 8 * at + 8)
        copy_bytes(target, load_int(words + 8 * at + 16), load_int(words + 8 * at + 24))
        at += 4
    return run(load_int(words + 8 * P_EXECUTABLE), inputs, outputs)


@helper
def _keep(p, turn, row, width):
    """Keep the carry before this turn, if it is the turn of one that is kept."""
    capacity, stride = load_int(p + 8 * T_CAPACITY), load_int(p + 8 * T_STRIDE)
    turn -= load_int(p + 8 * T_START)
    if capacity == 0 or turn % stride != 0:
        return
    kept, store = load_int(p + 8 * T_KEPT), load_int(p + 8 * T_STORE)
    if kept == capacity:
        for k in range(1, (kept + 1) // 2):
            copy_bytes(store + k * width, store + 2 * k * width, width)
        kept = (kept + 1) // 2
        stride *= 2
        store_int(p + 8 * T_STRIDE, stride)
        store_int(p + 8 * T_KEPT, kept)
        if turn % stride != 0:
            return
    copy_bytes(store + kept * width, row, width)
    store_int(p + 8 * T_KEPT, kept + 1)


@compiled("int64(int64)")
def advance(p):
    """Run turns; returns why it has ended."""
    turn, limit, width = load_int(p + 8 * T_TURN), load_int(p + 8 * T_LIMIT), load_int(p + 8 * T_WIDTH)
    paths, table, recent = load_int(p + 8 * T_PATHS), load_int(p + 8 * T_TABLE), load_int(p + 8 * T_RECENT)
    rows, bases, logged = load_int(p + 8 * T_ROWS), p + 8 * T_BASES, load_int(p + 8 * T_LOGGED)
    store_int(bases + 8 * CAPTURED, load_int(p + 8 * T_CAPTURED))
    why, begin = MORE, load_int(p + 8 * T_START)
    while turn < limit:
        row = rows + (turn & 1) * width
        _keep(p, turn, row, width)
        store_int(bases + 8 * CARRY, row)
        store_int(bases + 8 * NEXT, rows + (1 - (turn & 1)) * width)
        store_int(bases + 8 * ELEMENT, load_int(p + 8 * T_XS) + turn * load_int(p + 8 * T_XSTEP))
        store_int(bases + 8 * RESULT, load_int(p + 8 * T_YS) + turn * load_int(p + 8 * T_YSTEP))
        tried, status = 0, 0
        while tried < paths:
            words = load_int(table + 8 * recent)
            status = _turn(p, words)
            if status < 0:
                break
            tried += 1
            recent += 1
            if recent == paths:
                recent = 0
        if tried == paths or status != FINE:
            why = NO_PATH if tried == paths else UNKNOWN
            break
        if turn - begin < logged:
            store_byte(load_int(p + 8 * T_LOG) + turn - begin, recent)
        turn += 1
        if load_int(words + 8 * P_STOPS) != 0:
            why = STOPPED
            break
    store_int(p + 8 * T_TURN, turn)
    store_int(p + 8 * T_RECENT, recent)
    return why


@compiled("int64(int64)")
def pull(p):
    """The way back over the turns from `T_LIMIT` - 1 down to `T_TURN`; rows and log begin at `T_TURN`."""
    low, turn, width = load_int(p + 8 * T_TURN), load_int(p + 8 * T_LIMIT), load_int(p + 8 * T_WIDTH)
    table, store, log = load_int(p + 8 * T_TABLE), load_int(p + 8 * T_STORE), load_int(p + 8 * T_LOG)
    rows, bases, count = load_int(p + 8 * T_ADJOINTS), p + 8 * T_BASES, load_int(p + 8 * T_COUNT)
    sums, part = load_int(p + 8 * T_SUMS), load_int(p + 8 * T_PART)
    store_int(bases + 8 * CAPTURED, load_int(p + 8 * T_CAPTURED))
    store_int(bases + 8 * CAPTURED_BAR, part)
    while turn > low:
        turn -= 1
        store_int(bases + 8 * CARRY, store + (turn - low) * width)
        store_int(bases + 8 * NEXT_BAR, rows + (1 - (turn & 1)) * width)
        store_int(bases + 8 * CARRY_BAR, rows + (turn & 1) * width)
        store_int(bases + 8 * ELEMENT, load_int(p + 8 * T_XS) + turn * load_int(p + 8 * T_XSTEP))
        store_int(bases + 8 * ELEMENT_BAR, load_int(p + 8 * T_XBAR) + turn * load_int(p + 8 * T_XSTEP))
        store_int(bases + 8 * RESULT_BAR, load_int(p + 8 * T_YBAR) + turn * load_int(p + 8 * T_YSTEP))
        status = _turn(p, load_int(table + 8 * load_byte(log + turn - low)))
        if status != FINE:
            return UNKNOWN
        for k in range(count):
            set_double_at(sums, k, double_at(sums, k) + double_at(part, k))
    return MORE


def words_of(executable, stops, inputs, outputs, constants):
    """The words of a path, and what they refer to, to be kept."""
    words = [executable.pointer, stops, len(inputs), *sum(inputs, ()), len(outputs), *sum(outputs, ()), len(constants)]
    for base, offset, array in constants:
        words += [base, offset, data_address(array), array.nbytes]
    return np.array(words, np.int64), executable, [array for *_, array in constants]

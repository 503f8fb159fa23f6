"""The walks that carry several seeds at once, compiled by Numba when first needed.

`tangents`   goes up a tape that is already recorded and carries tangents.
`adjoints`   goes down and carries adjoints, as `interpreter.walk.reverse` carries one.

Every slot has `lanes` words of 8 bytes side by side: for a scalar slot the
numbers themselves, which the scalar switch handles as one vector; for an array
slot the addresses of as many malloc'ed C-contiguous buffers, 0 where the lane
is zero.  The program of an array instruction (`interpreter.program`) is run once for
each lane that is not zero, over the saved values that all lanes share.  The
byte `hot` of a slot is 0 if all its lanes are zero; then its words are zeros
too, always.  So a sweep costs what its seeds reach, and what it leaves behind
is ready for the next chunk of seeds without being cleared.

The read of one element of an array of float64, and the vector made of numbers,
need no program: loops over numbers are full of them, so the walks do them
themselves (the last word of a row of `Signature.TABLE` says which they are).

Buffers of tangents are freed behind the last instruction that reads them, those
of adjoints by the instruction whose result they belong to.
"""

from __future__ import annotations

from ..codegen.compile import compiled, helper
from ..codegen.memory import (
    allocate,
    allocate_zeros,
    call5_int,
    call6_int,
    call7,
    copy_bytes,
    load_byte,
    load_double,
    load_int,
    load_int32,
    release,
    store_byte,
    store_double,
    store_float,
    store_int,
    store_int32,
)
from ..tape.layout import ARRAY_LEAF, CONSTANT, FIRST_ARRAY, MARK
from . import program as P
from .access import SIZE, operand_slot

#: Words per row of the table of tangent programs (`interpreter.tangent`).
VARIANTS = 4


@helper
def _load_saved(records, row, regs, i, addresses):
    position = load_int(records + SIZE * i + CONSTANT)
    for k in range(load_int(row + P.ROW_SAVES)):
        store_int(regs + 8 * (1 + k), load_int(addresses + 8 * (position + k)))


@helper
def _free_lanes(word, lanes):
    for lane in range(lanes):
        if load_int(word + 8 * lane) != 0:
            release(load_int(word + 8 * lane))
            store_int(word + 8 * lane, 0)


@helper
def _read(records, words, i, lanes):
    """Tangents of an element that instruction `i` reads; their bits, or-ed."""
    source = words + 8 * lanes * load_int32(records + SIZE * i + 4)
    target, at, nonzero = words + 8 * lanes * i, 8 * load_int(records + SIZE * i + CONSTANT), 0
    for lane in range(lanes):
        array = load_int(source + 8 * lane)
        bits = load_int(array + at) if array != 0 else 0
        store_int(target + 8 * lane, bits)
        nonzero |= bits
    return nonzero


@helper
def _add_to_read(records, words, i, lanes, nbytes):
    """Add the adjoints of instruction `i` to those of the element that it reads, in an array of `nbytes`."""
    target = words + 8 * lanes * load_int32(records + SIZE * i + 4)
    source, at = words + 8 * lanes * i, 8 * load_int(records + SIZE * i + CONSTANT)
    for lane in range(lanes):
        value = load_double(source + 8 * lane)
        store_int(source + 8 * lane, 0)
        if value == 0.0:
            continue
        if load_int(target + 8 * lane) == 0:
            store_int(target + 8 * lane, allocate_zeros(nbytes, 1))
        where = load_int(target + 8 * lane) + at
        store_double(where, load_double(where) + value)


@helper
def _join(records, words, i, lanes, live, count):
    """Tangents of a vector that instruction `i` makes of `count` numbers; not zero if there are any."""
    target = words + 8 * lanes * i
    for lane in range(lanes):
        if live >> lane & 1:
            store_int(target + 8 * lane, allocate(8 * count))
    for k in range(count):
        source = words + 8 * lanes * operand_slot(records, i, k)
        for lane in range(lanes):
            if live >> lane & 1:
                store_int(load_int(target + 8 * lane) + 8 * k, load_int(source + 8 * lane))
    return live


@helper
def _spread(records, words, hot, i, lanes, count):
    """Add the adjoints of a vector that instruction `i` makes of `count` numbers to theirs, and free them."""
    source = words + 8 * lanes * i
    for k in range(count):
        slot, some = operand_slot(records, i, k), 0
        if slot == 0:
            continue
        target = words + 8 * lanes * slot
        for lane in range(lanes):
            array = load_int(source + 8 * lane)
            if array != 0:
                value = load_double(array + 8 * k)
                store_double(target + 8 * lane, load_double(target + 8 * lane) + value)
                some |= value != 0.0
        if some:
            store_byte(hot + slot, 1)
    _free_lanes(source, lanes)


@helper
def _is_array(records, table, slot):
    """Whether the words of a slot are addresses."""
    op = load_int32(records + SIZE * slot)
    if op < FIRST_ARRAY:
        return 0
    return 1 if op >= ARRAY_LEAF or load_int(table + P.ROW_BYTES * (op - FIRST_ARRAY) + P.ROW_SCALAR) == 0 else 0


@compiled(f"int64({', '.join(['int64'] * 15)})")
def tangents(records, words, hot, marks, low, high, lanes, switch, run, table, programs, last, addresses, zeros, scratch):
    """Carry tangents from `low` up to `high`, through the slots whose mark is 1.

    `programs` is the table of tangent programs by signature and hot operands,
    `last` the last reader of every slot, `addresses` the table of `walk.locate`,
    `zeros` a block as large as any operand.
    Returns `high` + 1 or more at the end, or ``-1 - i`` at an instruction that
    has no program yet, with what to plan in ``scratch``, or ``UNKNOWN - i``.
    """
    regs = scratch + P.REGISTERS_AT
    store_int(regs + 8 * P.ZEROS, zeros)
    i = low
    while i <= high:
        if load_byte(marks + i) != MARK:
            # Eight unmarked instructions at a time.
            if i & 7 == 0 and load_int(marks + i) == 0:
                i += 8
            else:
                i += 1
            continue
        op = load_int32(records + SIZE * i)
        if op < FIRST_ARRAY:
            after = call6_int(switch, records, words, i, high, hot, marks)
            if after == i:
                return P.UNKNOWN - i
            i = after
            continue
        if op >= ARRAY_LEAF:
            i += 1
            continue
        row = table + P.ROW_BYTES * (op - FIRST_ARRAY)
        operands, scalar = load_int(row + P.ROW_OPERANDS), load_int(row + P.ROW_SCALAR)
        active, live = 0, 0
        for k in range(operands):
            slot = operand_slot(records, i, k)
            if load_byte(hot + slot) != 0:
                active |= 1 << k if operands <= 2 else 3
                for lane in range(lanes):
                    if load_int(words + 8 * (lanes * slot + lane)) != 0:
                        live |= 1 << lane
        mine = words + 8 * lanes * i
        if active == 0:
            if scalar != 0 and load_byte(hot + i) != 0:
                for lane in range(lanes):
                    store_double(mine + 8 * lane, 0.0)
            store_byte(hot + i, 0)
            i += 1
            continue
        nonzero = 0
        direct = load_int(row + P.ROW_DIRECT)
        if direct > 0:
            nonzero = _read(records, words, i, lanes)
        elif direct < 0:
            nonzero = _join(records, words, i, lanes, live, -direct)
        else:
            program = load_int(programs + 8 * (VARIANTS * (op - FIRST_ARRAY) + active))
            if program == 0:
                store_int(scratch, active)
                return -1 - i
            _load_saved(records, row, regs, i, addresses)
            for lane in range(lanes):
                word = mine + 8 * lane
                if scalar != 0:
                    store_double(word, 0.0)
                if live >> lane & 1:
                    store_int(regs, word)
                    call7(run, program, regs, records, words + 8 * lane, 8 * lanes, i, scratch)
                    nonzero |= load_int(word)
        store_byte(hot + i, 1 if nonzero != 0 else 0)
        for k in range(operands):
            slot = operand_slot(records, i, k)
            if load_int32(last + 4 * slot) == i and _is_array(records, table, slot) != 0:
                _free_lanes(words + 8 * lanes * slot, lanes)
                store_byte(hot + slot, 0)
        i += 1
    return i


@compiled(f"int64({', '.join(['int64'] * 11)})")
def adjoints(records, words, hot, high, low, lanes, switch, run, table, addresses, scratch):
    """Carry adjoints from `high` down to `low`; returns ``low - 1``, or ``UNKNOWN - i``."""
    regs = scratch + P.REGISTERS_AT
    i = high
    while i >= low:
        if load_byte(hot + i) == 0:
            if i & 7 == 7 and load_int(hot + i - 7) == 0:
                i -= 8
            else:
                i -= 1
            continue
        op = load_int32(records + SIZE * i)
        if op < FIRST_ARRAY:
            after = call5_int(switch, records, words, i, low, hot)
            if after == i:
                return P.UNKNOWN - i
            i = after
            continue
        if op >= ARRAY_LEAF:
            i -= 1
            continue
        row = table + P.ROW_BYTES * (op - FIRST_ARRAY)
        scalar = load_int(row + P.ROW_SCALAR)
        direct = load_int(row + P.ROW_DIRECT)
        if direct != 0:
            if direct > 0:
                _add_to_read(records, words, i, lanes, direct)
                store_byte(hot + operand_slot(records, i, 0), 1)
            else:
                _spread(records, words, hot, i, lanes, -direct)
            store_byte(hot + i, 0)
            i -= 1
            continue
        _load_saved(records, row, regs, i, addresses)
        for lane in range(lanes):
            word = words + 8 * (lanes * i + lane)
            if scalar != 0:
                if load_double(word) == 0.0:
                    continue
                seed = word
            else:
                seed = load_int(word)
                if seed == 0:
                    continue
            store_int(regs, seed)
            call7(run, load_int(row + P.ROW_PROGRAM), regs, records, words + 8 * lane, 8 * lanes, i, scratch)
            if scalar == 0 and load_int(regs) != 0:
                release(load_int(regs))
            store_int(word, 0)
        store_byte(hot + i, 0)
        for k in range(load_int(row + P.ROW_OPERANDS)):
            store_byte(hot + operand_slot(records, i, k), 1)
        i -= 1
    return low - 1


@compiled("void(int64, int64, int64, int64, int64, int64)")
def last_readers(records, marks, table, last, low, high):
    """Write, for every slot, the last marked instruction that reads it (0: none)."""
    for i in range(high, low - 1, -1):
        if load_byte(marks + i) != MARK:
            continue
        op = load_int32(records + SIZE * i)
        if op >= ARRAY_LEAF:
            continue
        operands = 2
        if op >= FIRST_ARRAY:
            operands = load_int(table + P.ROW_BYTES * (op - FIRST_ARRAY) + P.ROW_OPERANDS)
        for k in range(operands):
            where = last + 4 * operand_slot(records, i, k)
            if load_int32(where) == 0:
                store_int32(where, i)


@compiled("void(int64, int64, int64, int64, int64, int64, int64, int64)")
def seed_units(words, hot, slot, lanes, lane, count, element, kind):
    """Seed `count` lanes, from `lane`, with the unit vectors from `element` on.

    `kind` is 0 for a scalar slot, else the bytes of the array times 16 plus those of an element.
    """
    store_byte(hot + slot, 1)
    for k in range(count):
        word = words + 8 * (lanes * slot + lane + k)
        if kind == 0:
            store_double(word, load_double(word) + 1.0)
        else:
            if load_int(word) == 0:
                store_int(word, allocate_zeros(kind >> 4, 1))
            if kind & 15 == 8:
                store_double(load_int(word) + 8 * (element + k), 1.0)
            else:
                store_float(load_int(word) + 4 * (element + k), 1.0)


@compiled("void(int64, int64, int64, int64, int64, int64, int64)")
def seed_one(words, hot, slot, lanes, lane, source, nbytes):
    """Add a copy of an array to one lane that is zero (`nbytes` > 0), or one double."""
    store_byte(hot + slot, 1)
    word = words + 8 * (lanes * slot + lane)
    if nbytes == 0:
        store_double(word, load_double(word) + load_double(source))
    else:
        target = allocate(nbytes)
        copy_bytes(target, source, nbytes)
        store_int(word, target)


@compiled("void(int64, int64, int64, int64, int64, int64)")
def collect(words, lanes, ports, number, start, count):
    """Copy the first `count` lanes of some slots to rows `start` and following of one matrix each.

    `ports` has four words for each: slot, bytes of the array (0: a scalar),
    address of the matrix, bytes of its rows.  Array lanes that are zero are left alone.
    """
    for k in range(number):
        slot, nbytes = load_int(ports + 32 * k), load_int(ports + 32 * k + 8)
        stride = load_int(ports + 32 * k + 24)
        target, word = load_int(ports + 32 * k + 16) + stride * start, words + 8 * lanes * slot
        for lane in range(count):
            if nbytes == 0:
                store_double(target + stride * lane, load_double(word + 8 * lane))
            elif load_int(word + 8 * lane) != 0:
                copy_bytes(target + stride * lane, load_int(word + 8 * lane), nbytes)


@compiled("void(int64, int64, int64, int64, int64, int64, int64)")
def forget(records, words, hot, table, slots, number, lanes):
    """Free the buffers of some slots, or zero their numbers."""
    for k in range(number):
        slot = load_int(slots + 8 * k)
        if load_byte(hot + slot) == 0:
            continue
        if _is_array(records, table, slot) != 0:
            _free_lanes(words + 8 * lanes * slot, lanes)
        else:
            for lane in range(lanes):
                store_double(words + 8 * (lanes * slot + lane), 0.0)
        store_byte(hot + slot, 0)


@compiled("void(int64, int64, int64, int64, int64, int64)")
def forget_all(records, words, hot, table, high, lanes):
    """Free every buffer of a sweep."""
    for i in range(1, high + 1):
        if load_byte(hot + i) != 0:
            if _is_array(records, table, i) != 0:
                _free_lanes(words + 8 * lanes * i, lanes)
            store_byte(hot + i, 0)

"""The steps of array instructions, compiled by Numba when a tape first has some.

`run` interprets the program of one instruction (`interpreter.program`); `interpreter.walk`
calls it by address.  The rest looks after the buffers of array adjoints.
"""

import numpy as np

from ..codegen.compile import compiled, helper, inlined
from ..codegen.memory import (
    BLOCKS,
    copy_bytes,
    differ,
    double_at,
    float_at,
    free_block,
    int_at,
    load_byte,
    load_double,
    load_int,
    load_int32,
    load_number,
    new_block,
    set_double_at,
    set_float_at,
    store_byte,
    store_double,
    store_int,
    store_number,
)
from ..codegen.python_api import (
    DATA,
    LENGTH,
    STRIDED,
    as_int,
    bytes_address,
    bytes_size,
    forget,
    get_buffer,
    list_item,
    release_buffer,
    ten_words,
)
from ..tape.layout import ARRAY_LEAF, CONSTANT, FIRST_ARRAY
from ..tape.watch import LEFT, STAMPED
from . import program as P
from .calls import SIZE, call_loop, operand_slot


@helper
def _add_into(target, source, nbytes, size):
    if size == 8:
        for j in range(nbytes // 8):
            set_double_at(target, j, double_at(target, j) + double_at(source, j))
    else:
        for j in range(nbytes // 4):
            set_float_at(target, j, float_at(target, j) + float_at(source, j))


@helper
def _rounded(x, size):
    """`x` in the precision of its dtype, as every step of NumPy's scans is."""
    return x if size == 8 else float(np.float32(x))


@helper
def _product(x, y):
    """``x * y`` with absolute zero: what is not finite beside it does not matter."""
    return 0.0 if x == 0.0 or y == 0.0 else x * y


@helper
def _count(around, ndims, width):
    """How many lines there are: for each dimension around them so many words, the extent and strides of operands."""
    lines = 1
    for d in range(ndims):
        lines *= load_int(around + 8 * width * d)
    return lines


@inlined
def _begin(a, b, c, around, ndims, width, line):
    """Where a line begins in each of three operands, or (`width` 3) of two."""
    for d in range(ndims - 1, -1, -1):
        row = around + 8 * width * d
        extent = load_int(row)
        at = line % extent
        line //= extent
        a += at * load_int(row + 8)
        b += at * load_int(row + 16)
        if width > 3:
            c += at * load_int(row + 24)
    return a, b, c


@helper
def _all_finite(data, nbytes, size):
    # Exponents of all ones, counted in integers so that the loop is vectorised.
    bad = 0
    if size == 8:
        for j in range(nbytes // 8):
            bad += (int_at(data, j) & 0x7FF0000000000000) == 0x7FF0000000000000
    else:
        for j in range(nbytes // 4):
            x = float_at(data, j)
            bad += x - x != 0.0
    return bad == 0


@helper
def _repair(regs, p):
    """Compute a matrix product again if it is not finite: zero times anything is zero in it."""
    target, size = load_int(regs + 8 * load_int(p + 64)), load_int(p + 72)
    m, inner, n, nbatch = load_int(p + 80), load_int(p + 88), load_int(p + 96), load_int(p + 104)
    count = _count(p + 112, nbatch, 3)
    if _all_finite(target, size * count * m * n, size):
        return
    first, second = load_int(regs + 8 * load_int(p)) + load_int(p + 8), load_int(regs + 8 * load_int(p + 32)) + load_int(p + 40)
    for j in range(count):
        a, b, _ = _begin(first, second, 0, p + 112, nbatch, 3, j)
        for row in range(m):
            for column in range(n):
                total = 0.0
                for k in range(inner):
                    at = a + row * load_int(p + 16) + k * load_int(p + 24)
                    bt = b + k * load_int(p + 48) + column * load_int(p + 56)
                    total += _product(load_number(at, size), load_number(bt, size))
                store_number(target, size, total)
                target += size


@helper
def _scan(regs, p):
    """Sums, products or recurrences along lines; only the last read factors, with absolute zero."""
    source = load_int(regs + 8 * load_int(p)) + load_int(p + 8)
    factor = load_int(regs + 8 * load_int(p + 16)) + load_int(p + 24)
    target = load_int(regs + 8 * load_int(p + 32))
    size, how, n = load_int(p + 40), load_int(p + 48), load_int(p + 56)
    nouter = load_int(p + 88)
    for line in range(_count(p + 96, nouter, 4)):
        a, b, c = _begin(source, factor, target, p + 96, nouter, 4, line)
        carry = 1.0 if how == P.PRODUCTS else 0.0
        for _ in range(n):
            total = load_number(a, size)
            if how == P.RECURRENCE:
                total += _rounded(_product(load_number(b, size), carry), size)
            elif how == P.PRODUCTS:
                total *= carry
            else:
                total += carry
            total = _rounded(total, size)
            carry = _rounded(_product(load_number(b, size), total), size) if how == P.LAGGED else total
            store_number(c, size, total)
            a += load_int(p + 64)
            b += load_int(p + 72)
            c += load_int(p + 80)


@helper
def _indexed(code, source, index, target, count, size):
    for j in range(count):
        at = size * load_int(index + 8 * j)
        if code == P.SCATTER:
            store_number(target + at, size, load_number(target + at, size) + load_number(source + size * j, size))
        elif code == P.GATHER:
            copy_bytes(target + size * j, source + at, size)
        else:
            store_number(target + at, size, 0.0)


@compiled("int64(int64, int64, int64, int64, int64, int64)")
def run(program, regs, records, words, i, scratch):
    """Run the program of array instruction `i`; register 0 holds its adjoint, `words` a word for the adjoint of each slot.

    Returns 0, or `P.CALL_FAILED`, or `P.NO_BLOCK` if there was no memory.
    """
    top, failed = P.FIRST_TEMPORARY, 0
    # Of values there are no words, and no blocks.
    kept = load_int(scratch + P.KEPT_AT) if words != 0 else 0
    p = program
    while True:
        code = load_int(p)
        q = p + 16
        if code == P.CALL:
            call_loop(regs, q, scratch + 512)
        elif code == P.DEMAND:
            if load_double(load_int(regs + 8 * load_int(q))) != 1.0:
                failed = P.CALL_FAILED
                break
        elif code == P.ALLOC or code == P.SHIFT or code == P.CONST:
            reg, value = load_int(q), load_int(q + 8)
            if code == P.ALLOC:
                value = new_block(kept, value, load_int(q + 16))
                if value == 0:
                    failed = P.NO_BLOCK
                    break
            elif code == P.SHIFT:
                value = load_int(regs + 8 * value) + load_int(records + SIZE * i + CONSTANT) * load_int(q + 16)
            store_int(regs + 8 * reg, value)
            while top <= reg:
                store_byte(scratch + top, 1 if code == P.ALLOC and top == reg else 0)
                top += 1
        elif code == P.MOVE or code == P.ADD:
            slot = operand_slot(records, i, load_int(q))
            reg, nbytes, size = load_int(q + 8), load_int(q + 16), load_int(q + 24)
            source, target = load_int(regs + 8 * reg), load_int(words + 8 * slot)
            if target != 0:
                _add_into(target, source, nbytes, size)
            elif code == P.MOVE:
                store_int(words + 8 * slot, source)
                store_int(regs + 8 * reg, 0)
            else:
                target = new_block(kept, nbytes, 0)
                if target == 0:
                    failed = P.NO_BLOCK
                    break
                copy_bytes(target, source, nbytes)
                store_int(words + 8 * slot, target)
        elif code == P.TARGET:
            where = words + 8 * operand_slot(records, i, load_int(q))
            if load_int(where) == 0:
                store_int(where, new_block(kept, load_int(q + 16), 1))
                if load_int(where) == 0:
                    failed = P.NO_BLOCK
                    break
            store_int(regs + 8 * load_int(q + 8), load_int(where))
        elif code == P.SCALAR:
            where = words + 8 * operand_slot(records, i, load_int(q))
            store_double(where, load_double(where) + load_double(load_int(regs + 8 * load_int(q + 8))))
        elif code == P.SCAN:
            _scan(regs, q)
        elif code == P.REPAIR:
            _repair(regs, q)
        elif code == P.SCATTER or code == P.GATHER:
            _indexed(code, load_int(regs + 8 * load_int(q)), load_int(regs + 8 * load_int(q + 8)),
                     load_int(regs + 8 * load_int(q + 16)), load_int(q + 24), load_int(q + 32))
        elif code == P.ZERO_AT:
            _indexed(code, 0, load_int(regs + 8 * load_int(q + 8)), load_int(regs + 8 * load_int(q)),
                     load_int(q + 16), load_int(q + 24))
        else:
            break
        p = q + 8 * load_int(p + 8)
    for reg in range(P.FIRST_TEMPORARY, top):
        if load_byte(scratch + reg) != 0:
            free_block(kept, load_int(regs + 8 * reg))
    return failed


@compiled("void(int64)")
def free_all(words):
    """Free the array adjoints of a sweep."""
    records, adjoint = load_int(words + 8 * P.W_RECORDS), load_int(words + 8 * P.W_ADJOINT)
    marks, table = load_int(words + 8 * P.W_MARKS), load_int(words + 8 * P.W_TABLE)
    kept = load_int(load_int(words + 8 * P.W_SCRATCH) + P.KEPT_AT)
    for i in range(load_int(words + 8 * P.W_SLOTS) - 1, 0, -1):
        op = load_int32(records + SIZE * i)
        if load_byte(marks + i) == 0 or op < FIRST_ARRAY or op > ARRAY_LEAF:
            continue
        scalar = op < ARRAY_LEAF and load_int(table + P.ROW_BYTES * (op - FIRST_ARRAY) + P.ROW_SCALAR) != 0
        if not scalar and load_int(adjoint + 8 * i) != 0:
            free_block(kept, load_int(adjoint + 8 * i))
            store_int(adjoint + 8 * i, 0)


@compiled("int64(int64, int64, int64, int64, int64, int64, object, object, int64)")
def saved_values(records, marks, table, low, high, marked, objects, nothing, ranges):
    """List the saved values of instructions from `low` to `high` that are marked (1) or not (0).

    `ranges` receives the bytes saved by the others, then pairs of positions
    (start, stop) in `objects`, of neighbours together; returns the number of pairs.  `nothing` is
    None: what it stands for has been let go already.
    """
    others, listed = 0, 0
    for i in range(low, high + 1):
        op = load_int32(records + SIZE * i)
        if op < FIRST_ARRAY or op >= ARRAY_LEAF:
            continue
        row = table + P.ROW_BYTES * (op - FIRST_ARRAY)
        saved = load_int(row + P.ROW_SAVES)
        if saved == 0:
            continue
        if (load_byte(marks + i) != 0) != (marked != 0):
            others += load_int(row + P.ROW_SAVED)
            continue
        start = load_int(records + SIZE * i + CONSTANT)
        if list_item(objects, start) != nothing:
            if listed == 0 or load_int(ranges + 16 * listed) != start:
                store_int(ranges + 8 + 16 * listed, start)
                listed += 1
            store_int(ranges + 16 * listed, start + saved)
    store_int(ranges, others)
    return listed


@compiled("int64(int64, int64)")
def duplicate(source, nbytes):
    """The address of a copy in a new block, 0 if there is no memory."""
    target = new_block(0, nbytes, 0)
    if target != 0:
        copy_bytes(target, source, nbytes)
    return target


@compiled("void(int64, int64, int64, int64)")
def fetch(target, address, nbytes, freed):
    """Copy `nbytes` from a block to `target`; the block may be freed then."""
    copy_bytes(target, address, nbytes)
    if freed:
        free_block(0, address)


@compiled("void(int64)")
def free_kept(kept):
    """Free the blocks that a sweep has kept."""
    for k in range(BLOCKS):
        if load_int(kept + 16 * k) != 0:
            store_int(kept + 16 * k, 0)
            free_block(0, load_int(kept + 16 * k + 8))


@helper
def _holds(array, content):
    """Whether a C-contiguous array still has the content, given as bytes; it may have been resized."""
    view = ten_words()
    if get_buffer(array, view, STRIDED) != 0:
        forget()
        return False
    same = load_int(view + LENGTH) == bytes_size(content) and differ(load_int(view + DATA), bytes_address(content), bytes_size(content)) == 0
    release_buffer(view)
    return same


@compiled("int64(object, object, object, object, int64, int64, int64, int64)")
def first_changed(slots, arrays, stamps, kinds, at, count, marks, high):
    """First watched array, from position `at`, that has changed or is to be stamped again; -1: none.  The lists are those of `tape.watch`."""
    for k in range(at, count):
        slot = as_int(list_item(slots, k))
        if slot > high or load_byte(marks + slot) == 0:
            continue
        kind = as_int(list_item(kinds, k))
        if kind == LEFT:
            continue
        if kind == STAMPED:
            return k
        if not _holds(list_item(arrays, k), list_item(stamps, k)):
            return k
    return -1

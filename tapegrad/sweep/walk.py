"""The walks over a tape, compiled by Numba.

Importing this module compiles (or loads from the cache) four functions; that
happens at the first backward pass, not when tapegrad is imported.

`mark`      finds the ancestors of a root: the instructions a backward pass will
            visit, whether one of them was cleared, and the lowest of them.
`reverse`   the reverse sweep: visits marked instructions from high to low and
            adds each one's contributions to the adjoints of its operands.
            Runs of scalar instructions go to one generated switch
            (`native.scalars`), array instructions run their program
            (`sweep.program`).  Both fit on a screen; what makes them long is
            the list of steps in `_run`.
`free_all`  frees the adjoints of a sweep that was broken off.
`alive`     reads the reference counts of the tokens on a tape.

The adjoint of every slot is one 8-byte word: the number itself for a scalar
slot, the address of a malloc'ed C-contiguous buffer (0: none yet) for an array.
"""

from __future__ import annotations

from ..native.compile import compiled
from ..native.memory import (
    allocate,
    allocate_zeros,
    call2,
    call4,
    call4_int,
    copy_bytes,
    load_byte,
    load_double,
    load_float,
    load_int,
    load_int32,
    release,
    store_byte,
    store_double,
    store_float,
    store_int,
    store_int32,
)
from ..tape.layout import ARRAY_LEAF, CLEARED, CONSTANT, FIRST_ARRAY, RECORD, SCALAR_LEAF, VALUE
from . import program as P

import numba

SIZE = RECORD.size
#: Words per row of Signature.TABLE.
WORDS = 8

_helper = numba.njit(nogil=True, inline="never", no_cpython_wrapper=True)


@_helper
def operand_slot(records, i, k):
    """Slot of operand `k` of instruction `i`; those after the second are in continuations before it."""
    if k < 2:
        return load_int32(records + SIZE * i + 4 + 4 * k)
    k -= 2
    base = records + SIZE * (i - 1 - k // 4)
    k %= 4
    if k < 2:
        return load_int32(base + 4 + 4 * k)
    return load_int(base + 16 + 8 * (k - 2))


@_helper
def _add_into(target, source, nbytes, char):
    if char == 0:
        for j in range(0, nbytes, 8):
            store_double(target + j, load_double(target + j) + load_double(source + j))
    else:
        for j in range(0, nbytes, 4):
            store_float(target + j, load_float(target + j) + load_float(source + j))


@_helper
def _gufunc(regs, p, scratch):
    """Call a NumPy inner loop over the batch dimensions."""
    loop, data, nargs = load_int(p), load_int(p + 8), load_int(p + 16)
    args = p + 24
    ndims = load_int(args + 16 * nargs)
    dims = args + 16 * nargs + 8
    nsteps = load_int(dims + 8 * ndims)
    steps = dims + 8 * ndims + 8
    batch = steps + 8 * nsteps
    nbatch = load_int(batch)
    batch += 8
    counts = scratch + 8 * nargs
    for k in range(nargs):
        store_int(scratch + 8 * k, load_int(regs + 8 * load_int(args + 16 * k)) + load_int(args + 16 * k + 8))
    for d in range(nbatch):
        store_int(counts + 8 * d, 0)
    while True:
        call4(loop, scratch, dims, steps, data)
        d = nbatch - 1
        while d >= 0:
            row = batch + 8 * d * (nargs + 1)
            n = load_int(row)
            count = load_int(counts + 8 * d) + 1
            for k in range(nargs):
                store_int(scratch + 8 * k, load_int(scratch + 8 * k) + load_int(row + 8 + 8 * k))
            store_int(counts + 8 * d, count)
            if count < n:
                break
            store_int(counts + 8 * d, 0)
            for k in range(nargs):
                store_int(scratch + 8 * k, load_int(scratch + 8 * k) - n * load_int(row + 8 + 8 * k))
            d -= 1
        if d < 0:
            return


@_helper
def _scan_line(source, target, char, how, exclusive, n, s, t):
    total = float(how)  # the identity: 0 for sums, 1 for products
    for _ in range(n):
        x = load_double(source) if char == 0 else float(load_float(source))
        after = total * x if how == 1 else total + x
        y = total if exclusive else after
        if char == 0:
            store_double(target, y)
        else:
            store_float(target, y)
        total = after
        source += s
        target += t


@_helper
def _scan(regs, p, scratch):
    source = load_int(regs + 8 * load_int(p)) + load_int(p + 8)
    target = load_int(regs + 8 * load_int(p + 16))
    char, how, exclusive, n = load_int(p + 24), load_int(p + 32), load_int(p + 40), load_int(p + 48)
    s, t, nouter = load_int(p + 56), load_int(p + 64), load_int(p + 72)
    outer = p + 80
    lines = 1
    for d in range(nouter):
        lines *= load_int(outer + 24 * d)
    for line in range(lines):
        a, b, rest = source, target, line
        for d in range(nouter - 1, -1, -1):
            extent = load_int(outer + 24 * d)
            q = rest % extent
            rest //= extent
            a += q * load_int(outer + 24 * d + 8)
            b += q * load_int(outer + 24 * d + 16)
        _scan_line(a, b, char, how, exclusive, n, s, t)


@_helper
def _indexed(code, source, index, target, count, char):
    size = 8 if char == 0 else 4
    for j in range(count):
        at = size * load_int(index + 8 * j)
        if code == P.SCATTER:
            if char == 0:
                store_double(target + at, load_double(target + at) + load_double(source + 8 * j))
            else:
                store_float(target + at, load_float(target + at) + load_float(source + 4 * j))
        elif code == P.GATHER:
            copy_bytes(target + size * j, source + at, size)
        elif char == 0:
            store_double(target + at, 0.0)
        else:
            store_float(target + at, 0.0)


@_helper
def _run(program, regs, records, adjoint, i, scratch):
    """Run the program of array instruction `i`; register 0 holds its adjoint."""
    top = P.FIRST_TEMPORARY
    p = program
    while True:
        code = load_int(p)
        q = p + 16
        if code == P.CALL:
            call2(load_int(q), regs, q + 8)
        elif code == P.ALLOC:
            reg, nbytes = load_int(q), load_int(q + 8)
            store_int(regs + 8 * reg, allocate_zeros(nbytes, 1) if load_int(q + 16) else allocate(nbytes))
            while top <= reg:
                store_byte(scratch + top, 1 if top == reg else 0)
                top += 1
        elif code == P.MOVE or code == P.ADD:
            slot = operand_slot(records, i, load_int(q))
            reg, nbytes, char = load_int(q + 8), load_int(q + 16), load_int(q + 24)
            source, target = load_int(regs + 8 * reg), load_int(adjoint + 8 * slot)
            if target != 0:
                _add_into(target, source, nbytes, char)
            elif code == P.MOVE:
                store_int(adjoint + 8 * slot, source)
                store_int(regs + 8 * reg, 0)
            else:
                target = allocate(nbytes)
                copy_bytes(target, source, nbytes)
                store_int(adjoint + 8 * slot, target)
        elif code == P.TARGET:
            where = adjoint + 8 * operand_slot(records, i, load_int(q))
            if load_int(where) == 0:
                store_int(where, allocate_zeros(load_int(q + 16), 1))
            store_int(regs + 8 * load_int(q + 8), load_int(where))
        elif code == P.SCALAR:
            where = adjoint + 8 * operand_slot(records, i, load_int(q))
            store_double(where, load_double(where) + load_double(load_int(regs + 8 * load_int(q + 8))))
        elif code == P.FILL:
            target, count = load_int(regs + 8 * load_int(q)), load_int(q + 8)
            value = load_double(q + 16)
            for j in range(count):
                if load_int(q + 24) == 0:
                    store_double(target + 8 * j, value)
                else:
                    store_float(target + 4 * j, value)
        elif code == P.SHIFT:
            reg = load_int(q)
            dynamic = load_int(records + SIZE * i + CONSTANT)
            store_int(regs + 8 * reg, load_int(regs + 8 * load_int(q + 8)) + dynamic * load_int(q + 16))
            while top <= reg:
                store_byte(scratch + top, 0)
                top += 1
        elif code == P.GUFUNC:
            _gufunc(regs, q, scratch + 512)
        elif code == P.SCAN:
            _scan(regs, q, scratch + 512)
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
            release(load_int(regs + 8 * reg))


@_helper
def _data_of(thing, float_type):
    """Address of the data of a Python float or an ndarray (both fields are public C structs)."""
    return thing + 16 if load_int(thing + 8) == float_type else load_int(thing + 16)


@compiled("void(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def pack(records, base, count, ops, lefts, rights, offsets, tokens, float_type, tuple_type):
    """Pack staged instructions into records: reads Python ints, floats and tuples by their public C layouts.

    The lists are given by the addresses of their item arrays, then come the
    addresses of the types float and tuple.
    """
    tokens += 8 * base
    record = records + SIZE * base
    for k in range(count):
        op = load_int32(load_int(ops + 8 * k) + 24)
        left, right, token = load_int(lefts + 8 * k), load_int(rights + 8 * k), load_int(tokens + 8 * k)
        store_int32(record, op)
        store_int32(record + 12, load_int32(load_int(offsets + 8 * k) + 24))
        store_double(record + VALUE, load_double(token + 16) if load_int(token + 8) == float_type else 0.0)
        kind = load_int(left + 8)
        constant = 0.0
        if kind == tuple_type:
            store_int32(record + 4, load_int32(load_int(left + 24) + 24))
            store_int32(record + 8, load_int32(load_int(left + 32) + 24))
            third = load_double(load_int(left + 40) + 16)
            if op >= FIRST_ARRAY:
                store_int(record + CONSTANT, int(third))
            else:
                store_double(record + CONSTANT, third)
        else:
            a, b = 0, 0
            if kind == float_type:
                constant = load_double(left + 16)
            else:
                a = load_int32(left + 24)
            if load_int(right + 8) == float_type:
                constant = load_double(right + 16)
            else:
                b = load_int32(right + 24)
            store_int32(record + 4, a)
            store_int32(record + 8, b)
            store_double(record + CONSTANT, constant)
        record += SIZE


@compiled("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def reverse(records, adjoint, marks, high, low, switch, table, objects, float_type, scratch, stop_at_large):
    """Sweep marked instructions from `high` down to `low`.

    Returns the next instruction to visit: ``low - 1`` at the end, or earlier if
    `stop_at_large` and the instruction just visited had large saved values.
    """
    regs = scratch + 4096
    i = high
    while i >= low:
        # Eight unmarked instructions at a time.
        if load_byte(marks + i) == 0:
            if i & 7 == 7 and load_int(marks + i - 7) == 0:
                i -= 8
            else:
                i -= 1
            continue
        op = load_int32(records + SIZE * i)
        if op < FIRST_ARRAY:
            i = call4_int(switch, records, adjoint, i, low)
            continue
        if op >= ARRAY_LEAF:
            i -= 1
            continue
        row = table + 8 * WORDS * (op - FIRST_ARRAY)
        word = adjoint + 8 * i
        scalar = load_int(row + 24)
        if scalar != 0:
            seed = word
            idle = load_double(word) == 0.0
        else:
            seed = load_int(word)
            idle = seed == 0
        if not idle:
            saved = load_int(row + 8)
            position = load_int(records + SIZE * i + CONSTANT)
            for k in range(saved):
                thing = load_int(objects + 8 * (position + k))
                store_int(regs + 8 * (1 + k), _data_of(thing, float_type))
            store_int(regs, seed)
            _run(load_int(row), regs, records, adjoint, i, scratch)
            if scalar == 0:
                left = load_int(regs)
                if left != 0:
                    release(left)
                store_int(word, 0)
        i -= 1
        if stop_at_large and load_int(row + 32) != 0:
            return i
    return i


@compiled("int64(int64, int64, int64, int64, int64)")
def mark(records, marks, table, high, refuse):
    """Mark the ancestors of the marked roots at or below `high`.

    Returns ``count << 32 | lowest``: how many instructions are marked, and the
    lowest of them; or, with `refuse`, ``-1 - i`` if it met the cleared instruction `i`.
    """
    pending = 0
    for i in range(high, 0, -1):
        if load_byte(marks + i) == 1:
            pending += 1
    count, lowest = 0, high
    i = high
    while i > 0 and pending > 0:
        kind = load_byte(marks + i)
        if kind != 1:
            # Eight unmarked instructions at a time.
            if i & 7 == 7 and load_int(marks + i - 7) == 0:
                i -= 8
            else:
                i -= 1
            continue
        pending -= 1
        op = load_int32(records + SIZE * i)
        if op >= CLEARED:
            if refuse:
                return -1 - i
            i -= 1
            continue
        operands = 2
        if op >= FIRST_ARRAY:
            operands = load_int(table + 8 * WORDS * (op - FIRST_ARRAY) + 16)
        count += 1
        lowest = i
        for k in range(operands):
            slot = operand_slot(records, i, k)
            if load_byte(marks + slot) == 0 and slot != 0:
                kind = load_int32(records + SIZE * slot)
                if kind == SCALAR_LEAF or kind == ARRAY_LEAF:
                    store_byte(marks + slot, 2)
                else:
                    store_byte(marks + slot, 1)
                    pending += 1
        i -= 1
    return (count << 32) | lowest


@compiled("void(int64, int64, int64, int64, int64)")
def free_all(records, adjoint, marks, table, high):
    """Free the array adjoints at or below `high`."""
    for i in range(high, 0, -1):
        op = load_int32(records + SIZE * i)
        if load_byte(marks + i) == 0 or op < FIRST_ARRAY or op > ARRAY_LEAF:
            continue
        scalar = op < ARRAY_LEAF and load_int(table + 8 * WORDS * (op - FIRST_ARRAY) + 24) != 0
        if not scalar and load_int(adjoint + 8 * i) != 0:
            release(load_int(adjoint + 8 * i))
            store_int(adjoint + 8 * i, 0)


@compiled("int64(int64, int64, int64, int64)")
def alive(records, items, count, marks):
    """Mark every instruction whose token (an object in a list) is referred to from outside.

    `items` is the address of the list's array of pointers; an object that only
    the list refers to has the reference count 1.  Returns how many live.
    """
    found = 0
    for i in range(1, count):
        op = load_int32(records + SIZE * i)
        if load_int32(load_int(items + 8 * i)) != 1 and op > SCALAR_LEAF and (op < ARRAY_LEAF or op >= CLEARED):
            store_byte(marks + i, 1)
            found += 1
    return found


@compiled("int64(int64, int64, int64, int64, int64, int64, int64)")
def dead_values(records, marks, table, count, objects, nothing, found):
    """List the saved values of unmarked instructions that are not let go yet.

    `found` receives the bytes saved by marked instructions, then pairs of
    positions (start, stop) in `objects`; returns the number of pairs.
    `nothing` is the address of None.
    """
    kept, dead = 0, 0
    for i in range(1, count):
        op = load_int32(records + SIZE * i)
        if op < FIRST_ARRAY or op >= ARRAY_LEAF:
            continue
        row = table + 8 * WORDS * (op - FIRST_ARRAY)
        saved = load_int(row + 8)
        if saved == 0:
            continue
        if load_byte(marks + i) != 0:
            kept += load_int(row + 48)
            continue
        start = load_int(records + SIZE * i + CONSTANT)
        if load_int(objects + 8 * start) != nothing:
            store_int(found + 8 + 16 * dead, start)
            store_int(found + 16 + 16 * dead, start + saved)
            dead += 1
    store_int(found, kept)
    return dead


@compiled("int64(int64)")
def duplicate(packed):
    """A malloc'ed copy: `packed` is the address of ``(source, nbytes)``; returns its address."""
    source, nbytes = load_int(packed), load_int(packed + 8)
    target = allocate(max(nbytes, 1))
    copy_bytes(target, source, nbytes)
    return target


@compiled("void(int64, int64, int64)")
def take(target, address, nbytes):
    """Copy `nbytes` from a malloc'ed buffer to `target` and free it."""
    copy_bytes(target, address, nbytes)
    release(address)

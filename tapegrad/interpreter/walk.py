"""The walks over a tape, compiled by Numba.

Importing this module compiles (or loads from the cache) five functions; that
happens at the first backward pass, not when tapegrad is imported.

`locate`    finds where the values are that a stretch of instructions has saved, for
            walks that hold no lock and so read no objects.
`mark`      finds the ancestors of a root: the instructions a backward pass will
            visit, whether one of them was cleared, and the lowest of them.
`reverse`   the reverse sweep: visits marked instructions from high to low and
            adds each one's contributions to the adjoints of its operands.
            Runs of scalar instructions go to one generated switch
            (`codegen.of_rows`), array instructions to `interpreter.steps.run`.
`straight`  both, of the unwatched sweep.
`upwards`   pushes the tangents of numbers from operands to results.

The adjoint of every slot is one 8-byte word: the number itself for a scalar
slot, the address of a C-contiguous block (`codegen.memory.new_block`; 0: none yet) for an array.
"""

from ..codegen.compile import compiled, inlined
from ..codegen.memory import (
    call4_int,
    call6_int,
    fill,
    free_block,
    load_byte,
    load_double,
    load_int,
    load_int32,
    store_byte,
    store_double,
    store_int,
)
from ..codegen.python_api import address_of, as_double, as_int, has_buffer, is_number, list_item
from ..tape.layout import ARRAY_LEAF, CLEARED, CONSTANT, FIRST_ARRAY, LEAF_MARK, MARK, SCALAR_LEAF
from . import program as P
from .calls import SIZE, operand_slot


@compiled("void(int64, int64, int64, object, int64, int64, object, int64, int64)")
def locate(records, marks, table, savers, first, end, objects, addresses, numbers):
    """Find the values that instructions have saved: of ``savers[first:end]`` those that are marked.

    `addresses` has a word for each of the `objects`: the address of an array's data, or, of a float, that of
    its double among the `numbers`.  It is 0 for what no walk reads: values let go, and what rules in Python keep.
    """
    for j in range(first, end):
        i = as_int(list_item(savers, j))
        op = load_int32(records + SIZE * i)
        # A saver whose recording was interrupted gave its slot to the next one.
        if op < FIRST_ARRAY or op >= ARRAY_LEAF or load_byte(marks + i) == 0:
            continue
        position = load_int(records + SIZE * i + CONSTANT)
        for k in range(position, position + load_int(table + P.ROW_BYTES * (op - FIRST_ARRAY) + P.ROW_SAVES)):
            saved, address = list_item(objects, k), 0
            if has_buffer(saved) != 0:
                address = address_of(saved)
            elif is_number(saved) != 0:
                address = numbers + 8 * k
                store_double(address, as_double(saved))
            store_int(addresses + 8 * k, address)


@inlined
def _below(marks, i):
    """The slot to look at after an unmarked one: eight at a time."""
    return i - 8 if i & 7 == 7 and load_int(marks + i - 7) == 0 else i - 1


@compiled("int64(int64, int64, int64, int64)")
def reverse(words, high, low, stop_at_large):
    """Sweep marked instructions from `high` down to `low`, as the `words` of a sweep say (`program.W_RECORDS` ...).

    Returns ``low - 1`` at the end; or, with `stop_at_large`, ``-1 - i`` as soon
    as it has visited an instruction `i` whose saved values are large; or ``UNKNOWN - i``, or ``NO_MEMORY - i``.
    """
    records, adjoint, marks = load_int(words + 8 * P.W_RECORDS), load_int(words + 8 * P.W_ADJOINT), load_int(words + 8 * P.W_MARKS)
    switch, run, table = load_int(words + 8 * P.W_SWITCH), load_int(words + 8 * P.W_RUN), load_int(words + 8 * P.W_TABLE)
    addresses, scratch = load_int(words + 8 * P.W_SAVED), load_int(words + 8 * P.W_SCRATCH)
    regs = scratch + P.REGISTERS_AT
    i = high
    while i >= low:
        if load_byte(marks + i) == 0:
            i = _below(marks, i)
            continue
        op = load_int32(records + SIZE * i)
        if op < FIRST_ARRAY:
            after = call4_int(switch, records, adjoint, i, low)
            if after == i:
                return P.UNKNOWN - i
            i = after
            continue
        if op >= ARRAY_LEAF:
            i -= 1
            continue
        row = table + P.ROW_BYTES * (op - FIRST_ARRAY)
        word = adjoint + 8 * i
        scalar = load_int(row + P.ROW_SCALAR)
        if scalar != 0:
            seed = word
            idle = load_double(word) == 0.0
        else:
            seed = load_int(word)
            idle = seed == 0
        if not idle:
            saved = load_int(row + P.ROW_SAVES)
            position = load_int(records + SIZE * i + CONSTANT)
            for k in range(saved):
                store_int(regs + 8 * (1 + k), load_int(addresses + 8 * (position + k)))
            store_int(regs, seed)
            failed = call6_int(run, load_int(row + P.ROW_PROGRAM), regs, records, adjoint, i, scratch)
            if scalar == 0:
                left = load_int(regs)
                if left != 0:
                    free_block(load_int(scratch + P.KEPT_AT), left)
                store_int(word, 0)
            if failed != 0:
                return (P.NO_MEMORY if failed == P.NO_BLOCK else P.UNKNOWN) - i
        if stop_at_large and load_int(row + P.ROW_LARGE) != 0:
            return -1 - i
        i -= 1
    return low - 1


@compiled("int64(int64, int64, int64, int64, int64, int64)")
def mark(records, marks, table, high, pending, refuse):
    """Mark the ancestors of the `pending` marked roots at or below `high`.

    Returns ``count << 32 | lowest``: how many instructions are marked, and the
    lowest of them; or, with `refuse`, ``-1 - i`` if it met the cleared instruction `i`.
    """
    count, lowest = 0, high
    i = high
    while i > 0 and pending > 0:
        if load_byte(marks + i) != MARK:
            i = _below(marks, i)
            continue
        pending -= 1
        op = load_int32(records + SIZE * i)
        if op >= CLEARED:
            if refuse:
                return -1 - i
            i -= 1
            continue
        if op == SCALAR_LEAF or op == ARRAY_LEAF:
            store_byte(marks + i, LEAF_MARK)
            i -= 1
            continue
        operands = 2
        if op >= FIRST_ARRAY:
            operands = load_int(table + P.ROW_BYTES * (op - FIRST_ARRAY) + P.ROW_OPERANDS)
        count += 1
        lowest = i
        for k in range(operands):
            slot = operand_slot(records, i, k)
            if load_byte(marks + slot) == 0 and slot != 0:
                kind = load_int32(records + SIZE * slot)
                if kind == SCALAR_LEAF or kind == ARRAY_LEAF:
                    store_byte(marks + slot, LEAF_MARK)
                else:
                    store_byte(marks + slot, MARK)
                    pending += 1
        i -= 1
    return (count << 32) | lowest


@compiled("int64(int64, int64, int64, int64)")
def straight(words, root, saved, least):
    """Begin a sweep from the number at slot `root`: clear adjoints and marks up to there, mark its ancestors, seed it.

    If nothing is `saved`, sweep at once.  Returns 0 if that is done, else the lowest ancestor; -1 if one was cleared, or if there
    are fewer than `least`; or ``UNKNOWN - i``.
    """
    adjoint, marks = load_int(words + 8 * P.W_ADJOINT), load_int(words + 8 * P.W_MARKS)
    fill(adjoint, 0, 8 * (root + 1))
    fill(marks, 0, 8 * (root // 8 + 2))
    store_byte(marks + root, MARK)
    packed = mark(load_int(words + 8 * P.W_RECORDS), marks, load_int(words + 8 * P.W_TABLE), root, 1, 1)
    if packed < 0 or packed >> 32 < least:
        return -1
    low = packed & 0xFFFFFFFF
    store_double(adjoint + 8 * root, 1.0)
    if saved:
        return low
    at = reverse(words, root, low, 0)
    return at if at < 0 else 0


@compiled("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def upwards(records, order, at, count, known, partials, tangents, lanes, base):
    """Push tangents up the slots in ``order[at:count]``, as long as their partial derivatives are `known`; returns how far.

    The `tangents` of a number are a row of `lanes`, and follow those of the slot before; what is at or below `base` has none.
    """
    while at < count and load_byte(known + at) != 0:
        i = load_int(order + 8 * at)
        target = tangents + 8 * lanes * (i - base)
        for k in range(2):
            partial = load_double(partials + 16 * at + 8 * k)
            source = tangents + 8 * lanes * max(load_int32(records + SIZE * i + 4 + 4 * k) - base, 0)
            # Zero is absolute, on either side.
            if partial != 0.0:
                for lane in range(0, 8 * lanes, 8):
                    tangent = load_double(source + lane)
                    if tangent != 0.0:
                        store_double(target + lane, load_double(target + lane) + partial * tangent)
        at += 1
    return at

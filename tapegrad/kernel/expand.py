"""From scalar instructions and templates to the scalar instructions of their adjoints or tangents.

Records are those of a tape (`tape.layout`), but that in the place of where each was recorded stands the forward slot it was made for:
of its eight int32 numbers the first are opcode, two operands (0: the constant stands in), that slot; of its four doubles the last is the constant.
`derive` walks a run of forward instructions from the start to the end for tangents, from the end to the start for
adjoints; ``word[l, i]`` is the slot of tangent or adjoint l of slot i, 0 if there is none yet.

A template is a few instructions over these operands::

    0              none: the constant stands in
    1, 2, 3        x, y, z: operands and result of the forward instruction
    4              its adjoint; or the tangent of x
    5              the tangent of y
    6 + k          the template's k-th instruction

and contributions ``(operand 0 or 1, value, sign)``, added in order.

Then what repeats is computed once, what is constant becomes a constant, and dead instructions are dropped (`kernel.writing.close`):
`number_values` is one walk up the instructions, with a hash table of those it has seen (value numbering).
"""

import numpy as np

from ..codegen.array_functions import HIGH, compiled_on_arrays, mix
from ..codegen.compile import inlined
from ..tape.layout import FIRST_ARRAY, SCALAR_LEAF

#: The operand that is a template's first instruction.
OWN_LINES = 6


@inlined
def operand(ref, a, b, i, w, v, constant):
    """What an operand of a template stands for that is no instruction of its own: a constant, or one of 1 to 5."""
    return a if ref == 1 else b if ref == 2 else i if ref == 3 else w if ref == 4 else v if ref == 5 else constant


@compiled_on_arrays(
    "int64(int64, int64, int64, int32[::1], float64[::1], int64, int64[:, ::1], int32[::1], int64[::1], float64[::1], "
    "int64[::1], int64[:, ::1], float64[::1], int64[::1], int64[:, ::1], int64, int64, int64)"
)
def derive(
    forward, low, high, records, numbers, count, word, template, pools, pool,
    starts, instructions, literals, ends, contributions, add, subtract, negative,
):  # fmt: skip
    """Append the tangents, or the adjoints, of the instructions `low` to `high` to the records; returns the new `count`.

    Rows of `instructions` are lines (`templates.TemplateColumns`), with the literal constant beside them; rows of `contributions`
    (operand, value, sign).  The expressions of its inline constant are in the pool from ``pools[i]`` on.
    A contribution to the tangent of the result is made of the tangent of the operand it names.
    """
    for n in range(high - low + 1):
        i = low + n if forward else high - n
        t = template[i]
        if t == 0:
            continue
        a, b = records[8 * i + 1], records[8 * i + 2]
        for lane in range(len(word)):
            w, v = (word[lane, a], word[lane, b]) if forward else (word[lane, i], 0)
            if w == 0 and v == 0:
                continue
            base = count
            for k in range(starts[t], starts[t + 1]):
                ref, other, where = instructions[k, 1], instructions[k, 2], instructions[k, 3]
                records[8 * count], records[8 * count + 3] = instructions[k, 0], i
                records[8 * count + 1] = operand(ref, a, b, i, w, v, 0) if ref < OWN_LINES else base + ref - OWN_LINES
                records[8 * count + 2] = operand(other, a, b, i, w, v, 0) if other < OWN_LINES else base + other - OWN_LINES
                numbers[4 * count + 3] = pool[pools[i] + where] if where >= 0 else literals[k]
                count += 1
            for k in range(ends[t], ends[t + 1]):
                left = contributions[k, 0] == 0
                if forward and (w if left else v) == 0:
                    # Made for nothing, and dropped with what is not needed.
                    continue
                target = i if forward else a if left else b
                ref = contributions[k, 1]
                value = operand(ref, 0, 0, 0, w, v, 0) if ref < OWN_LINES else base + ref - OWN_LINES
                positive = contributions[k, 2] > 0
                before = word[lane, target]
                if before == 0 and positive:
                    word[lane, target] = value
                    continue
                records[8 * count], records[8 * count + 3] = negative if before == 0 else add if positive else subtract, i
                records[8 * count + 1], records[8 * count + 2] = (value, 0) if before == 0 else (before, value)
                numbers[4 * count + 3] = 0.0
                word[lane, target] = count
                count += 1
    return count


@compiled_on_arrays("void(int64, int64, int64, int32[::1], float64[::1], int64[::1], int8[::1], int32[::1], int64[::1], int32[::1])")
def number_values(first, count, interleaved, records, numbers, bits, fixed, alias, opcodes, table):
    """Fold and share scalar instructions from slot `first` on; those before it are shared with.

    ``alias[i]`` becomes the slot that stands for slot i.  Where `fixed`, a slot is a leaf
    whose constant is its value; an instruction that turns out to be one becomes such a
    leaf.  `numbers` and `bits` are the same memory as `records`.  If they are `interleaved`, no slot before `first` stands for one that is made
    for an earlier one.  `table` is all zeros, its size a power of two of at least ``2 * count``.
    """
    add, subtract, multiply, negative, absolute = opcodes[0], opcodes[1], opcodes[2], opcodes[3], opcodes[4]
    mask = table.size - 1
    for i in range(1, count):
        op = records[8 * i]
        alias[i] = i
        if op >= FIRST_ARRAY or op <= SCALAR_LEAF and fixed[i] == 0:
            continue
        a, b = alias[records[8 * i + 1]], alias[records[8 * i + 2]]
        if i >= first and op != SCALAR_LEAF:
            of_a, of_b = a == 0 or fixed[a] == 1, b == 0 or fixed[b] == 1
            x, y = numbers[4 * (i if a == 0 else a) + 3], numbers[4 * (i if b == 0 else b) + 3]
            product = op == multiply or op == absolute
            if of_a and of_b and (product or op == add or op == subtract or op == negative):
                if product:
                    value = 0.0 if op == absolute and (x == 0.0 or y == 0.0) else x * y
                else:
                    value = x + y if op == add else x - y if op == subtract else -x
                op = records[8 * i] = SCALAR_LEAF
                fixed[i], numbers[4 * i + 3] = 1, value
                a = b = 0
            elif product and (of_a and x == 1.0 or of_b and y == 1.0):
                alias[i] = b if of_a else a
                continue
            elif op == absolute and (of_a and 0.0 < abs(x) < np.inf or of_b and 0.0 < abs(y) < np.inf):
                # Only what is not finite times zero is something else than the product.
                op = records[8 * i] = multiply
            elif (op == add or op == multiply) and 0 < b < a:
                a, b = b, a
            records[8 * i + 1], records[8 * i + 2] = a, b
        key, latest = bits[4 * i + 3], records[8 * i + 3] if interleaved else first
        bucket = (mix((a << 32) ^ (b << 8) ^ op, key) >> HIGH) & mask
        while True:
            j = table[bucket]
            if j == 0:
                table[bucket] = i
                break
            if records[8 * j] == op and records[8 * j + 1] == a and records[8 * j + 2] == b and bits[4 * j + 3] == key:
                if i >= first and (j >= first or j <= latest or op == SCALAR_LEAF):
                    alias[i] = j
                break
            bucket = (bucket + 1) & mask

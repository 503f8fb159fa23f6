"""From scalar instructions and templates to the scalar instructions of their adjoints or tangents.

Columns are parallel arrays with one entry a slot: opcode, two operands (0: the
constant stands in), constant, and the forward slot it was made for.  `derive` walks a run of forward
instructions from the start to the end for tangents, from the end to the start for
adjoints; ``word[l, i]`` is the slot of tangent or adjoint l of slot i, 0 if there is none yet.

A template is a few instructions over these operands::

    0              none: the constant stands in
    1, 2, 3        x, y, z: operands and result of the forward instruction
    4              its adjoint; or the tangent of x
    5              the tangent of y
    6 + k          the template's k-th instruction

and contributions ``(operand 0 or 1, value, sign)``, added in order.
"""

from __future__ import annotations

from ...codegen.array_functions import compiled_on_arrays


@compiled_on_arrays(
    "int64(int64, int64, int64, int32[::1], int32[::1], int32[::1], float64[::1], int32[::1], int64, int64[:, ::1], int32[::1], "
    "int64[::1], float64[::1], int64[::1], int32[:, ::1], float64[::1], int64[::1], int32[:, ::1], int64, int64, int64)"
)
def derive(
    forward, low, high, ops, lefts, rights, constants, origins, count, word, template, pools, pool,
    starts, instructions, literals, ends, contributions, add, subtract, negative,
):  # fmt: skip
    """Append the tangents, or the adjoints, of the instructions `low` to `high` to the columns; returns the new `count`.

    Rows of `instructions` are (opcode, left, right, offset in the pool or -1), with
    the literal constant beside them; rows of `contributions` (operand, value, sign).
    A contribution to the tangent of the result is made of the tangent of the operand it names.
    """
    for n in range(high - low + 1):
        i = low + n if forward else high - n
        t = template[i]
        if t < 0:
            continue
        for lane in range(len(word)):
            w, v = (word[lane, lefts[i]], word[lane, rights[i]]) if forward else (word[lane, i], 0)
            if w == 0 and v == 0:
                continue
            base = count
            for k in range(starts[t], starts[t + 1]):
                for side in range(2):
                    ref = instructions[k, 1 + side]
                    if ref == 0:
                        slot = 0
                    elif ref == 1:
                        slot = lefts[i]
                    elif ref == 2:
                        slot = rights[i]
                    elif ref == 3:
                        slot = i
                    elif ref == 4:
                        slot = w
                    elif ref == 5:
                        slot = v
                    else:
                        slot = base + ref - 6
                    if side == 0:
                        lefts[count] = slot
                    else:
                        rights[count] = slot
                where = instructions[k, 3]
                ops[count] = instructions[k, 0]
                constants[count] = pool[pools[i] + where] if where >= 0 else literals[k]
                origins[count] = i
                count += 1
            for k in range(ends[t], ends[t + 1]):
                left = contributions[k, 0] == 0
                if forward and (w if left else v) == 0:
                    # Made for nothing, and dropped with what is not needed.
                    continue
                target = i if forward else lefts[i] if left else rights[i]
                ref = contributions[k, 1]
                value = w if ref == 4 else v if ref == 5 else base + ref - 6
                positive = contributions[k, 2] > 0
                before = word[lane, target]
                if before == 0 and positive:
                    word[lane, target] = value
                    continue
                ops[count] = negative if before == 0 else add if positive else subtract
                lefts[count] = value if before == 0 else before
                rights[count] = 0 if before == 0 else value
                constants[count] = 0.0
                origins[count] = i
                word[lane, target] = count
                count += 1
    return count

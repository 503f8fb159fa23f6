"""From scalar instructions and templates to the scalar instructions of their adjoints or tangents.

Columns are parallel arrays with one entry a slot: opcode, two operands (0: the
constant stands in), constant, and the forward slot it was made for.  `expand`
walks a run of forward instructions from the end to the start; `word[i]` is the
slot of the adjoint of slot i, 0 if there is none yet.  `advance` walks a run from the
start to the end; ``word[l, i]`` is the slot of tangent l of slot i.

A template is a few instructions over these operands::

    0, 1, 2        x, y, z: operands and result of the forward instruction
    3              its adjoint; or the tangent of x
    4              the tangent of y
    5 + k          the template's k-th instruction
    -1             none: the constant stands in

and contributions ``(operand 0 or 1, value, sign)``, added in order.
"""

from __future__ import annotations

from ...codegen.array_functions import compiled_on_arrays
from ...interpreter.access import helper

_COLUMNS = "int32[::1], int32[::1], int32[::1], float64[::1], int32[::1]"


@helper
def _written(i, t, w, v, ops, lefts, rights, constants, origins, count, pools, pool, starts, instructions, literals):
    """Append the instructions of template `t` for instruction `i`; returns the new count."""
    base = count
    for k in range(starts[t], starts[t + 1]):
        for side in range(2):
            ref = instructions[k, 1 + side]
            if ref < 0:
                slot = 0
            elif ref == 0:
                slot = lefts[i]
            elif ref == 1:
                slot = rights[i]
            elif ref == 2:
                slot = i
            elif ref == 3:
                slot = w
            elif ref == 4:
                slot = v
            else:
                slot = base + ref - 5
            if side == 0:
                lefts[count] = slot
            else:
                rights[count] = slot
        where = instructions[k, 3]
        ops[count] = instructions[k, 0]
        constants[count] = pool[pools[i] + where] if where >= 0 else literals[k]
        origins[count] = i
        count += 1
    return count


@compiled_on_arrays(
    f"int64(int64, int64, {_COLUMNS}, int64, int64[::1], int32[::1], int64[::1], float64[::1], "
    "int64[::1], int32[:, ::1], float64[::1], int64[::1], int32[:, ::1], int64, int64, int64)"
)
def expand(
    low, high, ops, lefts, rights, constants, origins, count, word, template, pools, pool,
    starts, instructions, literals, ends, contributions, add, subtract, negative,
):  # fmt: skip
    """Append the adjoints of the instructions `low` to `high` to the columns; returns the new `count`.

    Rows of `instructions` are (opcode, left, right, offset in the pool or -1), with
    the literal constant beside them; rows of `contributions` (operand, value, sign).
    """
    for i in range(high, low - 1, -1):
        w = word[i]
        t = template[i]
        if w == 0 or t < 0:
            continue
        base = count
        count = _written(
            i, t, w, 0, ops, lefts, rights, constants, origins, count, pools, pool, starts, instructions, literals
        )
        for k in range(ends[t], ends[t + 1]):
            target = lefts[i] if contributions[k, 0] == 0 else rights[i]
            ref = contributions[k, 1]
            value = w if ref == 3 else base + ref - 5
            positive = contributions[k, 2] > 0
            adjoint = word[target]
            if adjoint == 0 and positive:
                word[target] = value
                continue
            ops[count] = negative if adjoint == 0 else add if positive else subtract
            lefts[count] = value if adjoint == 0 else adjoint
            rights[count] = 0 if adjoint == 0 else value
            constants[count] = 0.0
            origins[count] = i
            word[target] = count
            count += 1
    return count


@compiled_on_arrays(
    f"int64(int64, int64, {_COLUMNS}, int64, int64[:, ::1], int32[::1], int64[::1], float64[::1], "
    "int64[::1], int32[:, ::1], float64[::1], int64[::1], int32[:, ::1], int64, int64, int64)"
)
def advance(
    low, high, ops, lefts, rights, constants, origins, count, word, template, pools, pool,
    starts, instructions, literals, ends, contributions, add, subtract, negative,
):  # fmt: skip
    """Append the tangents of the instructions `low` to `high` to the columns; returns the new `count`.

    The value of a contribution to the tangent of the result is made of the tangent of the operand it names.
    """
    for i in range(low, high + 1):
        t = template[i]
        if t < 0:
            continue
        for lane in range(len(word)):
            of_x, of_y = word[lane, lefts[i]], word[lane, rights[i]]
            if of_x == 0 and of_y == 0:
                continue
            base = count
            count = _written(
                i, t, of_x, of_y, ops, lefts, rights, constants, origins, count, pools, pool, starts, instructions, literals
            )
            tangent = 0
            for k in range(ends[t], ends[t + 1]):
                if (of_x if contributions[k, 0] == 0 else of_y) == 0:
                    # Made for nothing, and dropped with what is not needed.
                    continue
                ref = contributions[k, 1]
                value = of_x if ref == 3 else of_y if ref == 4 else base + ref - 5
                positive = contributions[k, 2] > 0
                if tangent == 0 and positive:
                    tangent = value
                    continue
                ops[count] = negative if tangent == 0 else add if positive else subtract
                lefts[count] = value if tangent == 0 else tangent
                rights[count] = 0 if tangent == 0 else value
                constants[count] = 0.0
                origins[count] = i
                tangent = count
                count += 1
            word[lane, i] = tangent
    return count

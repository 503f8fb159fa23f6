"""The compiled passes over records that make a finished tape of a recording (`program.finish`), and mark slots of any tape.

Each goes over a stretch of instructions; what stands between two of them, entries of a recording, Python looks at.
"""

from ..codegen.compile import compiled
from ..codegen.memory import copy_bytes, int_at, load_byte, load_int, load_int32, store_byte, store_int32
from ..codegen.python_api import data_address
from ..interpreter import program as P
from ..interpreter.calls import SIZE, operand_slot
from ..tape.layout import ARRAY_LEAF, CONSTANT, FIRST_ARRAY, SCALAR_LEAF

__all__ = ["data_address", "number", "spread"]

#: Odd numbers without a pattern.
_MIX, _MIX_A, _MIX_B = 0x9E3779B97F4A7C1, 0x165667B19E3779F9, 0x27D4EB2F165667C5


@compiled("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def number(records, needed, new, first, end, made, origins, count, table, mask):
    """Write the needed instructions from `first` to `end` that have no new slot to the records `made`, behind the first `count`.

    The same one on the same operands is written once: `table`, of ``mask + 1`` slots, 0 where it is empty, finds it by its content.
    Returns how many records there are then.
    """
    for i in range(first, end):
        if load_byte(needed + i) == 0 or load_int32(new + 4 * i) != 0:
            continue
        old = records + SIZE * i
        op, bits = load_int32(old), load_int(old + CONSTANT)
        a, b = load_int32(new + 4 * load_int32(old + 4)), load_int32(new + 4 * load_int32(old + 8))
        at = (bits ^ op) * _MIX + a * _MIX_A + b * _MIX_B
        at = ((at >> 32) ^ at) * _MIX
        at = (at >> 24) & mask
        slot = load_int32(table + 4 * at)
        while slot != 0:
            known = made + SIZE * slot
            if load_int32(known) == op and load_int32(known + 4) == a and load_int32(known + 8) == b and load_int(known + CONSTANT) == bits:
                break
            at = (at + 1) & mask
            slot = load_int32(table + 4 * at)
        if slot == 0:
            slot, count = count, count + 1
            store_int32(table + 4 * at, slot)
            copy_bytes(made + SIZE * slot, old, SIZE)
            store_int32(made + SIZE * slot + 4, a)
            store_int32(made + SIZE * slot + 8, b)
            store_int32(origins + 4 * slot, i)
        store_int32(new + 4 * i, slot)
    return count


@compiled("void(int64, int64, int64, int64, int64, int64, int64)")
def mark(records, low, first, last, marks, table, step):
    """Mark, from slot `first` to `last`, what depends on the marked slots (`step` is 1) or what these depend on (-1): a byte for each from slot `low` on."""
    for n in range((last - first) * step + 1):
        i = first + n * step
        op = load_int32(records + SIZE * i)
        if op <= SCALAR_LEAF or ARRAY_LEAF <= op < 2 * ARRAY_LEAF:
            continue
        operands = 2
        if FIRST_ARRAY <= op < ARRAY_LEAF:
            operands = int_at(table + P.ROW_BYTES * (op - FIRST_ARRAY) + P.ROW_OPERANDS, 0)
        for k in range(operands):
            slot = operand_slot(records, i, k)
            if slot >= low and load_byte(marks + (slot if step > 0 else i) - low) != 0:
                store_byte(marks + (i if step > 0 else slot) - low, 1)


def spread(records, marks, low, high, entries, step, table=0):
    """Mark, of the slots from `low` to `high`, what depends on those marked already (`step` is 1), or what these depend on (-1).

    `marks` has a byte for each; `entries` are those of a recording, of which the records say nothing, in the order of the walk:
    slots, and their operands (what is no slot is below 1).
    """
    address, (at, last) = data_address(marks), (low, high) if step > 0 else (high, low)
    for slot, operands in entries:
        if at != slot:
            mark(records, low, at, slot, address, table, step)
        at = slot + step
        if step > 0:
            marks[slot - low] |= any([marks[o - low] for o in operands if o >= (low or 1)])
        elif marks[slot - low]:
            for o in operands:
                if o >= (low or 1):
                    marks[o - low] = 1
    mark(records, low, at, last, address, table, step)

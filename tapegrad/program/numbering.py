"""The compiled passes over the records of a recording that make a finished tape of it: see `program.finish`.

Each goes over a stretch of scalar instructions; what stands between two of them, entries and leaves, Python looks at.
"""

from ..codegen.compile import compiled
from ..codegen.memory import copy_bytes, load_byte, load_int, load_int32, store_byte, store_int32
from ..codegen.python_api import data_address
from ..tape.layout import CONSTANT, FIRST_ARRAY, RECORD

__all__ = ["data_address", "need", "number", "spread"]

_SIZE = RECORD.size
#: Odd numbers without a pattern.
_MIX, _MIX_A, _MIX_B = 0x9E3779B97F4A7C1, 0x165667B19E3779F9, 0x27D4EB2F165667C5


@compiled("void(int64, int64, int64, int64)")
def need(records, needed, first, end):
    """Mark what the marked instructions from `first` to `end` read."""
    for i in range(end - 1, first - 1, -1):
        if load_byte(needed + i) != 0 and load_int32(records + _SIZE * i) < FIRST_ARRAY:
            store_byte(needed + load_int32(records + _SIZE * i + 4), 1)
            store_byte(needed + load_int32(records + _SIZE * i + 8), 1)


@compiled("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def number(records, needed, new, first, end, made, origins, count, table, mask):
    """Write the needed instructions from `first` to `end` that have no new slot to the records `made`, behind the first `count`.

    The same one on the same operands is written once: `table`, of ``mask + 1`` slots, 0 where it is empty, finds it by its content.
    Returns how many records there are then.
    """
    for i in range(first, end):
        if load_byte(needed + i) == 0 or load_int32(new + 4 * i) != 0:
            continue
        old = records + _SIZE * i
        op, bits = load_int32(old), load_int(old + CONSTANT)
        a, b = load_int32(new + 4 * load_int32(old + 4)), load_int32(new + 4 * load_int32(old + 8))
        at = (bits ^ op) * _MIX + a * _MIX_A + b * _MIX_B
        at = ((at >> 32) ^ at) * _MIX
        at = (at >> 24) & mask
        slot = load_int32(table + 4 * at)
        while slot != 0:
            known = made + _SIZE * slot
            if load_int32(known) == op and load_int32(known + 4) == a and load_int32(known + 8) == b and load_int(known + CONSTANT) == bits:
                break
            at = (at + 1) & mask
            slot = load_int32(table + 4 * at)
        if slot == 0:
            slot, count = count, count + 1
            store_int32(table + 4 * at, slot)
            copy_bytes(made + _SIZE * slot, old, _SIZE)
            store_int32(made + _SIZE * slot + 4, a)
            store_int32(made + _SIZE * slot + 8, b)
            store_int32(origins + 4 * slot, i)
        store_int32(new + 4 * i, slot)
    return count


@compiled("void(int64, int64, int64, int64)")
def spread(records, active, first, end):
    """Mark what reads a marked slot, of the instructions from `first` to `end`."""
    for i in range(first, end):
        record = records + _SIZE * i
        if load_int32(record) < FIRST_ARRAY:
            if load_byte(active + load_int32(record + 4)) != 0 or load_byte(active + load_int32(record + 8)) != 0:
                store_byte(active + i, 1)

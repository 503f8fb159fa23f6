"""What all compiled walks need to read a record: its size, and its operands."""

from __future__ import annotations

from ..codegen.compile import helper
from ..codegen.memory import load_int, load_int32
from ..tape.layout import RECORD

SIZE = RECORD.size


@helper
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

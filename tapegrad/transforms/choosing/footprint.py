"""The most bytes that the buffers of a sweep with many seeds take at once, counted without running it.

These buffers come from the C library, where no memory profiler of Python sees
them.  One walk follows them as the sweep would make and free them (see
`interpreter.lanes`), as if every seed reached everything: so it is an upper bound.
"""

from __future__ import annotations

import numpy as np

from ...codegen.compile import compiled, helper
from ...codegen.memory import load_byte, load_int, load_int32, store_byte
from ...interpreter import lanes as walks
from ...interpreter import program as P
from ...interpreter.access import SIZE, operand_slot
from ...interpreter.native import data_address, table_address
from ...tape.layout import ARRAY_LEAF, FIRST_ARRAY, MARK


@helper
def _operands(records, table, i):
    op = load_int32(records + SIZE * i)
    return 2 if op < FIRST_ARRAY else load_int(table + P.ROW_BYTES * (op - FIRST_ARRAY) + P.ROW_OPERANDS)


@helper
def _nbytes(records, table, leaves, slot):
    """Bytes of one buffer of a slot; 0 for a number."""
    op = load_int32(records + SIZE * slot)
    if op >= ARRAY_LEAF:
        return load_int(leaves + 8 * slot)
    row = table + P.ROW_BYTES * (op - FIRST_ARRAY)
    return 0 if op < FIRST_ARRAY or load_int(row + P.ROW_SCALAR) != 0 else load_int(row + P.ROW_RESULT)


@compiled("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def _most(records, marks, table, leaves, alive, last, low, high, up):
    """The most bytes alive at once; `alive` has 1 for slots seeded or kept, `last` their last readers."""
    now = 0
    for i in range(1, high + 1):
        if load_byte(alive + i) != 0:
            now += _nbytes(records, table, leaves, i)
    most = now
    for j in range(high + 1 - low):
        i = low + j if up else high - j
        if load_byte(marks + i) != MARK or load_int32(records + SIZE * i) >= ARRAY_LEAF:
            continue
        if up:
            if load_byte(alive + i) == 0:
                store_byte(alive + i, 1)
                now += _nbytes(records, table, leaves, i)
                most = max(most, now)
        for k in range(_operands(records, table, i)):
            slot = operand_slot(records, i, k)
            if slot == 0:
                continue
            if up:
                if load_int32(last + 4 * slot) == i and load_byte(alive + slot) == 1:
                    store_byte(alive + slot, 0)
                    now -= _nbytes(records, table, leaves, slot)
            elif load_byte(alive + slot) == 0 and load_byte(marks + slot) != 0:
                store_byte(alive + slot, 1)
                now += _nbytes(records, table, leaves, slot)
                most = max(most, now)
        if not up and load_byte(alive + i) == 1:
            store_byte(alive + i, 0)
            now -= _nbytes(records, table, leaves, i)
    return most


def footprint(recording, forward):
    """Bytes that the tangents (forward) or adjoints of one chunk of seeds take, at most.

    Parameters
    ----------
    recording : Recording
    forward : bool

    Returns
    -------
    int
    """
    store, low, high = recording.store, recording.low, recording.high
    sources = recording.inputs if forward else recording.outputs
    lanes = recording.lanes(sum(p.size for p in sources))
    leaves, alive = np.zeros(high + 1, np.int64), np.zeros(high + 1, np.uint8)
    last = np.zeros(high + 1, np.int32)
    for p in recording.inputs:
        if p.slot and p.shape:
            leaves[p.slot] = p.meta.nbytes
    records, table = store.flush(), table_address()
    walks.last_readers(records, data_address(recording.marks), table, data_address(last), low, high)
    for p in recording.inputs + recording.outputs:
        if forward:
            last[p.slot] = 0
    alive[[p.slot for p in sources]] = 1
    alive[0] = 0
    return lanes * _most(
        records, data_address(recording.marks), table, data_address(leaves), data_address(alive), data_address(last),
        low, high, int(forward),
    )

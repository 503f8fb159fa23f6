"""How often each kind of instruction runs in a sweep with many seeds, counted without running it.

A set of up to 64 seeds is one word; one walk carries these sets along the tape
as the sweep would carry the tangents or adjoints, and counts.
"""

from __future__ import annotations

import numpy as np

from ..native.compile import compiled
from ..native.memory import load_byte, load_int, load_int32, store_int
from ..tape.layout import ARRAY_LEAF, FIRST_ARRAY
from .access import SIZE, WORDS, helper, operand_slot
from .native import data_address, table_address
from .plan import Signature

SEEDS = 64
#: Sets that are counted, at most; more are sampled evenly.
MOST_SETS = 8


@helper
def _groups(word, lanes):
    """How many groups of `lanes` bits are not zero."""
    found = 0
    for k in range(0, 64, lanes):
        part = word >> k
        if lanes < 64:
            part &= (1 << lanes) - 1
        if part != 0:
            found += 1
    return found


@compiled("void(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def _count(records, marks, table, sets, first, last, lanes, scalars, arrays):
    """Carry sets of seeds from `first` to `last` and count, by opcode, the chunks that reach a
    scalar instruction, and by signature the seeds that reach an array instruction."""
    up = 1 if first <= last else -1
    for i in range(first, last + up, up):
        if load_byte(marks + i) != 1:
            continue
        op = load_int32(records + SIZE * i)
        if op >= ARRAY_LEAF:
            continue
        operands = 2
        if op >= FIRST_ARRAY:
            operands = load_int(table + 8 * WORDS * (op - FIRST_ARRAY) + 16)
        word = load_int(sets + 8 * i)
        for k in range(operands):
            where = sets + 8 * operand_slot(records, i, k)
            if up == 1:
                word |= load_int(where)
            else:
                store_int(where, load_int(where) | word)
        if up == 1:
            store_int(sets + 8 * i, word)
        if word != 0:
            where = scalars + 8 * op if op < FIRST_ARRAY else arrays + 8 * (op - FIRST_ARRAY)
            store_int(where, load_int(where) + _groups(word, lanes if op < FIRST_ARRAY else 1))


def count(recording, forward, lanes):
    """Executions of a whole sweep over `recording`, by opcode.

    Returns
    -------
    dict of int to float
        Opcode -> chunks of `lanes` seeds that reach such scalar instructions.
    dict of int to float
        Number of a signature -> seeds that reach such array instructions.
    """
    from ..recording import pieces_of

    store = recording.store
    sources = recording.inputs if forward else recording.outputs
    total = sum(p.size for p in sources)
    pieces = pieces_of(sources)
    starts = list(range(0, total, SEEDS))
    chosen = starts
    if len(starts) > MOST_SETS:
        chosen = [starts[k * (len(starts) - 1) // (MOST_SETS - 1)] for k in range(MOST_SETS)]
    scalars, arrays = np.zeros(FIRST_ARRAY, np.int64), np.zeros(len(Signature.ALL) + 1, np.int64)
    address, marks = store.flush(), data_address(recording.marks)
    low, high = recording.low, recording.high
    seen = 0
    for start in chosen:
        sets = np.zeros(high + 1, np.int64)
        for begin, size, slot, _ in pieces:
            first, last = max(start, begin), min(start + SEEDS, begin + size)
            if first < last:
                bits = ((1 << (last - first)) - 1) << (first - start)
                sets.view(np.uint64)[slot] |= np.uint64(bits)
        seen += min(SEEDS, total - start)
        stretch = (low, high) if forward else (high, low)
        found = data_address(scalars), data_address(arrays)
        _count(address, marks, table_address(), data_address(sets), *stretch, lanes, *found)
    scale = total / seen if seen else 0.0
    return (
        {op: float(scalars[op]) * scale for op in scalars.nonzero()[0].tolist()},
        {number: float(arrays[number]) * scale for number in arrays.nonzero()[0].tolist()},
    )

"""How often each kind of instruction runs in a sweep with many seeds, counted without running it.

A set of up to 64 seeds is one word; one walk carries these sets along the tape
as the sweep would carry the tangents or adjoints, and counts.  A set says which
seeds reach a slot, not which of its elements, with two exceptions that loops
over numbers are made of: of the unit tangents of an input, each reaches only
the reads of its own element, and of the unit adjoints of an output that is a
vector joined from numbers or vectors, each reaches only its own part.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from ...autograd.recording import pieces_of
from ...codegen.compile import compiled, helper
from ...codegen.memory import load_byte, load_int, load_int32, store_int
from ...interpreter import program as P
from ...interpreter.access import SIZE, operand_slot
from ...interpreter.native import data_address, table_address
from ...interpreter.plan import Signature
from ...tape.layout import ARRAY_LEAF, CONSTANT, FIRST_ARRAY, MARK
from ...tape.meta import SCALAR

SEEDS = 64
#: Sets that are counted, at most; more are sampled evenly.
MOST_SETS = 8


@helper
def _groups(word, lanes):
    """How many groups of `lanes` bits are not zero."""
    total = 0
    for k in range(0, 64, lanes):
        part = word >> k
        if lanes < 64:
            part &= (1 << lanes) - 1
        if part != 0:
            total += 1
    return total


#: An instruction that reads one element; one that writes one.
READ, WRITE = 1, 2
#: Added to the number of a seed, so that 0 says that there is none.
SOME = 1 << 40


@helper
def _range(first, count):
    """The set of the seeds from `first` on, of those that are among these 64."""
    last, first = min(first + count, 64), max(first, 0)
    if first >= last:
        return 0
    return -1 << first if last == 64 else (1 << last) - (1 << first)


@helper
def _add(sets, slot, bits):
    store_int(sets + 8 * slot, load_int(sets + 8 * slot) | bits)


@helper
def _part(sets, units, direct, slot, first, seeds):
    """Make `seeds` the unit seeds of a vector, from `first` on."""
    if load_int(units + 8 * slot) == 0:
        store_int(units + 8 * slot, SOME + first)
        store_int(direct + 8 * slot, seeds)
    else:
        # One that is two parts has two seeds for each element: they all go everywhere.
        _add(sets, slot, seeds)


@helper
def _down(records, i, operands, kind, sets, units, direct):
    """Give the seeds of instruction `i` to its operands."""
    mine, rest, unit = load_int(direct + 8 * i), load_int(sets + 8 * i), load_int(units + 8 * i) - SOME
    if kind <= READ or mine == 0:
        rest |= mine
        mine = 0
    for k in range(operands):
        slot = operand_slot(records, i, k)
        _add(sets, slot, rest)
        if mine == 0:
            continue
        if kind == WRITE:
            if k == 0:
                _part(sets, units, direct, slot, unit, mine)
            else:
                _add(sets, slot, _range(unit + load_int(records + SIZE * i + CONSTANT), 1))
            continue
        size = load_int(kind + 8 * k)
        if size == 0:
            _add(sets, slot, _range(unit, 1))
        else:
            # It has a buffer for every seed, if only of zeros.
            _part(sets, units, direct, slot, unit, mine)
        unit += max(size, 1)


@compiled(f"void({', '.join(['int64'] * 12)})")
def _count(records, marks, table, kinds, sets, units, direct, first, last, lanes, scalars, arrays):
    """Carry sets of seeds from `first` to `last` and count, by opcode, the chunks that reach a
    scalar instruction, and by signature the seeds that reach an array instruction.

    `kinds` has by signature READ, WRITE, the address of the sizes of the parts that it
    joins (0 for a number), or 0.  `direct` has by slot the seeds that are unit vectors
    there, `units` the number of the one of element 0, plus SOME, and `sets` all others.
    """
    up = 1 if first <= last else -1
    for i in range(first, last + up, up):
        if load_byte(marks + i) != MARK:
            continue
        op = load_int32(records + SIZE * i)
        if op >= ARRAY_LEAF:
            continue
        operands, kind = 2, 0
        if op >= FIRST_ARRAY:
            operands = load_int(table + P.ROW_BYTES * (op - FIRST_ARRAY) + P.ROW_OPERANDS)
            kind = load_int(kinds + 8 * (op - FIRST_ARRAY))
        word = load_int(sets + 8 * i) | load_int(direct + 8 * i)
        if up == 1:
            for k in range(operands):
                slot = operand_slot(records, i, k)
                word |= load_int(sets + 8 * slot) | load_int(direct + 8 * slot)
            slot, after = operand_slot(records, i, 0), word
            if kind == READ and load_int(units + 8 * slot) != 0:
                unit = load_int(units + 8 * slot) - SOME
                after = load_int(sets + 8 * slot) | _range(unit + load_int(records + SIZE * i + CONSTANT), 1)
            store_int(sets + 8 * i, after)
        else:
            _down(records, i, operands, kind, sets, units, direct)
        if word != 0:
            where = scalars + 8 * op if op < FIRST_ARRAY else arrays + 8 * (op - FIRST_ARRAY)
            store_int(where, load_int(where) + _groups(word, lanes if op < FIRST_ARRAY else 1))


class Kinds:
    """By signature READ, WRITE, the address of the sizes of the parts that it joins, or 0."""

    TABLE = np.zeros(64, np.int64)
    _SEEN = 0

    @classmethod
    def table(cls):
        """The table, with an entry for every signature."""
        with Signature.LOCK:
            if len(Signature.TABLE) > len(cls.TABLE):
                cls.TABLE = np.concatenate([cls.TABLE, np.zeros(len(Signature.TABLE) - len(cls.TABLE), np.int64)])
            for signature in filter(None, map(Signature.ALL.get, Signature.since(cls._SEEN))):
                cls.TABLE[signature.number] = cls._kind(signature)
            cls._SEEN = Signature.made
            return cls.TABLE

    @classmethod
    def _kind(cls, signature):
        name, metas = signature.row.name, signature.metas
        if signature.reads:
            return READ
        if name == "setitem" and len(metas) == 2 and metas[1] is SCALAR and dict(signature.attrs)["shape"] == ():
            return WRITE
        if signature.joins or (
            name == "concatenate" and len(signature.out.shape) == 1 and len(signature.slots) == len(metas)
        ):
            signature.sizes = np.array([0 if m is SCALAR else m.size for m in metas], np.int64)
            return data_address(signature.sizes)
        return 0


def count(recording, forward, lanes):
    """Executions of a whole sweep over `recording`, by opcode.

    Returns
    -------
    dict of int to float
        Opcode -> chunks of `lanes` seeds that reach such scalar instructions.
    dict of int to float
        Number of a signature -> seeds that reach such array instructions.
    """
    store = recording.store
    sources = recording.inputs if forward else recording.outputs
    total = sum(p.size for p in sources)
    pieces = pieces_of(sources)
    starts = list(range(0, total, SEEDS))
    chosen = starts
    if len(starts) > MOST_SETS:
        chosen = [starts[k * (len(starts) - 1) // (MOST_SETS - 1)] for k in range(MOST_SETS)]
    scalars, arrays = np.zeros(FIRST_ARRAY, np.int64), np.zeros(len(Signature.TABLE), np.int64)
    address, marks = store.flush(), data_address(recording.marks)
    low, high = recording.low, recording.high
    once = Counter(slot for _, _, slot, _ in pieces)
    kinds, seen = Kinds.table(), 0
    for start in chosen:
        sets, units, direct = np.zeros((3, high + 1), np.int64)
        for begin, size, slot, _ in pieces:
            first, last = max(start, begin), min(start + SEEDS, begin + size)
            if first < last:
                bits = ((1 << (last - first)) - 1) << (first - start)
                # A slot that is two outputs has two seeds for each element.
                where = sets if once[slot] > 1 else direct
                where.view(np.uint64)[slot] |= np.uint64(bits)
                units[slot] = 0 if once[slot] > 1 else SOME + begin - start
        seen += min(SEEDS, total - start)
        stretch = (low, high) if forward else (high, low)
        totals = data_address(scalars), data_address(arrays)
        addresses = [data_address(a) for a in (kinds, sets, units, direct)]
        _count(address, marks, table_address(), *addresses, *stretch, lanes, *totals)
    scale = total / seen if seen else 0.0
    return (
        {op: float(scalars[op]) * scale for op in scalars.nonzero()[0].tolist()},
        {number: float(arrays[number]) * scale for number in arrays.nonzero()[0].tolist()},
    )


def instructions(recording):
    """How many instructions lie between inputs and outputs.

    Returns
    -------
    dict of int to int
        Opcode -> scalar instructions.
    dict of int to int
        Number of a signature -> array instructions.
    """
    store, high = recording.store, recording.high
    scalars, arrays = np.zeros(FIRST_ARRAY, np.int64), np.zeros(len(Signature.TABLE), np.int64)
    # One seed that reaches everything.
    sets, units, direct = np.zeros((3, high + 1), np.int64)
    sets[[slot for _, _, slot, _ in pieces_of(recording.inputs)]] = 1
    sets[0] = 0
    kinds = np.zeros_like(arrays)
    addresses = [data_address(a) for a in (kinds, sets, units, direct)]
    totals = data_address(scalars), data_address(arrays)
    _count(
        store.flush(), data_address(recording.marks), table_address(), *addresses, recording.low, high, SEEDS, *totals
    )
    return (
        {op: int(scalars[op]) for op in scalars.nonzero()[0].tolist()},
        {number: int(arrays[number]) for number in arrays.nonzero()[0].tolist()},
    )

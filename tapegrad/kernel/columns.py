"""A finished tape as columns: one entry an instruction, leaves and continuations left out.

What an instruction does is a number, its *code*: two instructions of the same code
differ only in which values they read, in their integer attribute and in the numbers
of guards.  An operand is a *reference*: a number from 0 on is the instruction whose
result it is, a number below is something from outside, counted from -1.  The tape of ``np.sin(x[0]) * 2.0 + x[0]``::

    slots  code                  operands       outside
    2      sin                   -1             -1  element 0 of argument 0
    3      multiply by constant  0, -2          -2  the number 2.0
    4      add                   1, -1

Scalar instructions cost no Python each, entries of the recording (`program.finish.Item`) a few
microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..common.host_functions import HostFunction
from ..program.finish import Item
from ..program.through import Rules
from ..program.trace import GUARD, HOST, ROW, SHAPE, Entry, HostCall, HostOperand, by_value
from ..rules.table import FIRST_ROW, ROWS
from ..tape.layout import ARRAY_LEAF, FIRST_ARRAY, SCALAR_LEAF, meta_of

#: Kinds of outside references: a number, an element of an argument, a whole argument, an array constant.
NUMBER, ELEMENT, ARGUMENT, ARRAY = range(4)
#: Codes of entries are counted from here; those of scalar instructions are ``4 * opcode + constants``.
ENTRIES = 4 * FIRST_ARRAY


@dataclass(eq=False)
class Columns:
    """The instructions of a tape.

    Attributes
    ----------
    tape : FinishedTape
    slots : ndarray of int64
        Slot of each instruction.
    code : ndarray of int32
    first : ndarray of int64
        Where the operands of each instruction begin in `operands` (and an end).
    operands : ndarray of int64
        References.
    integer : ndarray of int64
        Integer attribute of an entry, or the number of a guard.
    item : ndarray of int64
        Position of an entry among the tape's items, -1 for scalar instructions.
    kind, which, at, number : ndarray
        Of what comes from outside: its kind, the argument or array constant, the flat
        position of an element, the float of a number.
    reference : ndarray of int64
        Reference to the value of each slot.
    """

    tape: object
    slots: np.ndarray
    code: np.ndarray
    first: np.ndarray
    operands: np.ndarray
    integer: np.ndarray
    item: np.ndarray
    kind: np.ndarray
    which: np.ndarray
    at: np.ndarray
    number: np.ndarray
    reference: np.ndarray

    def __len__(self):
        return len(self.slots)

    def pairs(self):
        """The instructions that compute the first two operands of each one, as int32; -1 where there is none."""
        count = np.diff(self.first)
        pairs = np.full((len(self), 2), -1, np.int32)
        for k in range(2):
            has = np.flatnonzero(count > k)
            pairs[has, k] = self.operands[self.first[has] + k]
        return np.maximum(pairs, -1)


#: What comes from outside: see `Columns`.
_OUTSIDE = np.dtype([("kind", np.int8), ("which", np.int64), ("at", np.int64), ("number", np.float64)])


class _OutsideNumbers:
    """Numbers outside references."""

    def __init__(self):
        self.rows = np.empty(0, _OUTSIDE)

    def add(self, kind, which=0, at=0, number=0.0):
        """References to new things: as many as the longest of these arrays has, else one."""
        new = np.empty(np.broadcast(kind, which, at, number, [0]).size, _OUTSIDE)
        new["kind"], new["which"], new["at"], new["number"] = kind, which, at, number
        first, self.rows = len(self.rows), np.concatenate([self.rows, new])
        return -1 - np.arange(first, len(self.rows))


def distinct(numbers):
    """The numbers that occur, ascending: `np.unique` without its options imports `numpy.ma`, half the time of a small kernel."""
    return np.unique(numbers, return_index=True)[0]


def joined(sets):
    """The numbers that occur in any of `sets`, as lists of those that sets with common members join; all ascending."""
    parent = {}

    def root(number):
        while parent.setdefault(number, number) != number:
            number = parent[number]
        return number

    for numbers in sets:
        last = root(numbers[-1])
        for number in numbers:
            parent[root(number)] = last
    groups = {}
    for number in sorted(parent):
        groups.setdefault(root(number), []).append(number)
    return list(groups.values())


def columns(tape):
    """The columns of `tape`.

    Parameters
    ----------
    tape : FinishedTape

    Returns
    -------
    Columns

    """
    tape = replace(tape, items=[_computed(item) for item in tape.items])
    records = tape.records
    op = records["op"]
    scalar = (op > SCALAR_LEAF) & (op < ARRAY_LEAF)
    present = scalar.copy()
    item_slots = np.array([item.slot for item in tape.items], np.int64)
    present[item_slots] = True
    slots = np.flatnonzero(present)
    number_of = np.cumsum(present) - 1

    outside = _OutsideNumbers()
    reference = np.where(present, number_of, 0)
    is_number = _leaves(tape, outside, reference, op)
    constants = _constants(tape, outside)

    # The number of operands of each instruction.
    is_scalar = scalar[slots]
    at = slots[is_scalar]
    own = np.array([row.arity for row in ROWS])[op[at] - FIRST_ROW]
    count = np.zeros(len(slots), np.int64)
    count[is_scalar] = own
    numbers = number_of[item_slots]
    count[numbers] = [len(item.operands) for item in tape.items]
    first = np.concatenate([[0], np.cumsum(count)])

    operands = np.zeros(first[-1], np.int64)
    code = np.zeros(len(slots), np.int32)
    starts = first[:-1][is_scalar]
    fixed = np.zeros(len(at), np.int64)
    a, b = records["a"][at].astype(np.int64), records["b"][at].astype(np.int64)
    inline = _inline(records["constant"][at], (own == 3) | (own == 2) & ((a == 0) | (b == 0)), outside)
    zero = outside.add(NUMBER)[0]
    missing = np.where(own == 3, zero, inline)
    for k, slot in ((0, a), (1, b)):
        has = own > k
        refs = np.where(slot == 0, missing, reference[slot])
        operands[(starts + k + (own == 3))[has]] = refs[has]
        fixed |= (has & is_number[slot]) << k
    operands[starts[own == 3]] = inline[own == 3]
    code[is_scalar] = 4 * op[at] + fixed

    integer = np.zeros(len(slots), np.int64)
    item_of = np.full(len(slots), -1, np.int64)
    item_of[numbers] = np.arange(len(tape.items))
    codes = {}
    references = reference.tolist()
    begins = first[numbers].tolist()
    for item, n, begin in zip(tape.items, numbers.tolist(), begins):
        operands[begin : begin + len(item.operands)] = [references[o] if o > 0 else constants[-1 - o] for o in item.operands]
        code[n] = codes.setdefault(_description(tape, item), ENTRIES + len(codes))
        integer[n] = item.number if item.entry.kind == GUARD else item.entry.integer
    return Columns(tape, slots, code, first, operands, integer, item_of, *(np.ascontiguousarray(outside.rows[name]) for name in _OUTSIDE.names), reference)


def _computed(item):
    """The function that computes the value of an entry: a call of a user's primitive is the value that was recorded beside it, or a function in Python."""
    if item.entry.kind != ROW or item.entry.function.primitive is None:
        return item
    entry, operands = by_value(item.entry, item.operands), item.operands[1:]
    if entry is None:
        layout = tuple(HostOperand(k) for k in range(len(operands))), {}
        entry = Entry(HOST, HostCall(Rules.of(item.entry).computed(), layout), (), operands, False, 0, item.entry.meta)
    return Item(item.slot, entry, entry.operands)


def _leaves(tape, outside, reference, op):
    """References to leaves; returns for each slot whether it is a number, as 0 is, which stands for the inline constant."""
    # A captured value is a constant.
    captured = op == SCALAR_LEAF
    if tape.elements:
        which, at, slots = np.array(tape.elements, np.int64).T
        reference[slots] = outside.add(ELEMENT, which, at)
        captured[slots] = False
    for k, slot in enumerate(tape.leaves):
        if slot:
            reference[slot] = outside.add(ARGUMENT, k)[0]
    reference[captured] = outside.add(NUMBER, number=tape.records["value"][captured])
    captured[0] = True
    return captured


def _constants(tape, outside):
    """References to the tape's constants."""
    numbers = [np.ndim(constant) == 0 and np.asarray(constant).dtype.char == "d" for constant in tape.constants]
    kinds, floats = np.where(numbers, NUMBER, ARRAY), [float(c) if is_number else 0.0 for c, is_number in zip(tape.constants, numbers)]
    return outside.add(kinds, np.where(numbers, 0, np.arange(len(numbers))), 0, floats).tolist()


def _inline(values, used, outside):
    """References to inline constants, equal bits once; 0 where none is used."""
    result = np.zeros(len(values), np.int64)
    bits, inverse = np.unique(np.ascontiguousarray(values[used]).view(np.int64), return_inverse=True)
    result[used] = outside.add(NUMBER, number=bits.view(np.float64))[inverse]
    return result


def _description(tape, item):
    """The key that entries share which do the same to different operands."""
    entry = item.entry
    metas = tuple([tape.metas[o] if o > 0 else meta_of(tape.constants[-1 - o]) for o in item.operands])
    fixed = tuple([o <= 0 for o in item.operands])
    if entry.kind == GUARD:
        return (GUARD, entry.function, entry.seen if entry.function in ("bool", SHAPE) else len(entry.seen), metas)
    if entry.kind == HOST:
        function, ufunc = entry.function.function, entry.function.ufunc
        if ufunc is None:
            recomputed = isinstance(function, HostFunction) and not function.data
            ufunc = function.name if recomputed else entry.function
        return (HOST, ufunc, metas, fixed, entry.meta)
    return (entry.function, entry.attrs, metas, fixed, entry.meta)

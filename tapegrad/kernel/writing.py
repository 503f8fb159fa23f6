"""A tape that grows by derivative instructions, not yet tidied.

Slots of the forward tape keep their numbers; what is made comes after them, in
columns (opcode, operands, constant, forward slot it is made for) and entries.
Nothing is computed: an entry has a description of its result, no value.
"""

from dataclasses import replace

import numpy as np

from ..program.finish import Item, continuations, key_of
from ..program.trace import GUARD, HOST, ROW, Entry, HostCall, HostOperand
from ..rules import BY_NAME
from ..rules.table import described
from ..tape.layout import ARRAY_LEAF, CONTINUES, SCALAR_LEAF, TRACED
from ..tape.meta import SCALAR, laid_out, meta_of
from ..tape.store import RECORD_DTYPE

STACK, CONCATENATE, SELECT, CLONE = (BY_NAME[name] for name in ("stack", "concatenate", "select", "clone"))
#: Positions in a record, and attributes of one element.
_OP, _A, _B, _VALUE, _CONSTANT = (RECORD_DTYPE.names.index(name) for name in ("op", "a", "b", "value", "constant"))
_ELEMENT = (("shape", ()), ("strides", ()))


class Writer:
    """The columns and entries.

    Parameters
    ----------
    tape : FinishedTape
    interleaved : bool
        Whether what is made will come right after what it is made for.
    again : bool
        Whether what is made will be swept and differentiated: zero is absolute in its products, and entries have room for operands.

    Attributes
    ----------
    ops, lefts, rights, constants, origins : ndarray
        Columns, of which the first `count` entries are used.
    entries : list of Item
        What is made.
    values : list
        Floats and arrays, named by negative numbers from -1; those of the tape first.
    guards : list of ReplayGuard
        What is decided in what is made.
    inputs : list of (int, Meta, list of (int, int))
        Further arguments: slot of the leaf or 0, description, (position, slot) of elements.
    placed : dict
        What a window of zeros holds that arrays were placed in: slot, attributes and offset of the window -> term (`kernel.terms`).
    origin : int
        The forward slot that instructions are made for.
    """

    def __init__(self, tape, interleaved=False, again=False):
        self.tape, self.interleaved, self.again = tape, interleaved, again
        records = tape.records
        self.first = self.count = len(records)
        self.ops, self.lefts, self.rights, self.constants = (
            np.ascontiguousarray(records[name]) for name in ("op", "a", "b", "constant")
        )
        self.origins = np.arange(self.count, dtype=np.int32)
        self.entries, self.values, self.inputs, self.guards = [], list(tape.constants), [], []
        self.metas, self.placed = {}, {}
        self.origin = 0
        self._numbers = {}
        self._known = {self._key(i.entry, i.operands): i.slot for i in tape.items}

    def reserve(self, more):
        """Make room for `more` instructions."""
        size = len(self.ops)
        if self.count + more > size:
            grown = max(self.count + more, size + size // 2 + 64)
            for name in ("ops", "lefts", "rights", "constants", "origins"):
                column = getattr(self, name)
                setattr(self, name, np.concatenate([column, np.zeros(grown - size, column.dtype)]))

    def _append(self, op, a, b, constant):
        if self.count == len(self.ops):
            self.reserve(1)
        slot = self.count
        self.ops[slot], self.lefts[slot], self.rights[slot], self.constants[slot] = op, a, b, constant
        self.origins[slot] = self.origin
        self.count = slot + 1
        return slot

    def scalar(self, row, a, b=0, constant=0.0):
        """A scalar instruction; returns its slot."""
        return self._append(row.opcode, a, b, constant)

    def fixed(self, number):
        """A leaf that is a constant (for what has no inline constant)."""
        return self._append(SCALAR_LEAF, 0, 0, number)

    def number_of(self, slot):
        """The value of a leaf made by `fixed`; else None."""
        is_fixed = slot >= self.first and slot not in self.metas and self.ops[slot] == SCALAR_LEAF
        return float(self.constants[slot]) if is_fixed else None

    def argument(self, meta, whole=True):
        """A further argument; returns the slot of its leaf (0 for an array that is not read whole)."""
        slot = self._append(ARRAY_LEAF, 0, 0, 0.0) if whole and meta is not SCALAR else 0
        self.inputs.append((slot, meta, []))
        self.metas[slot] = meta
        return self.element(0) if meta is SCALAR else slot

    def element(self, position):
        """The leaf of one element of the argument made last."""
        slot = self._append(SCALAR_LEAF, 0, 0, 0.0)
        self.inputs[-1][2].append((position, slot))
        self.metas[slot] = SCALAR
        return slot

    def entry(self, row, operands, attrs=(), integer=0, result=None):
        """An instruction on arrays; its row says shape and dtype of the result, if they are not given.  Returns its slot."""
        if result is None:
            result = described(row, attrs, tuple([self.meta(o) for o in operands]), integer)
        return self._entry(Entry(ROW, row, attrs, operands, True, integer, laid_out(*result)), operands)

    def host(self, function, operands, shape, char):
        """A call of a ufunc, or of a function of arrays in Python, that has no derivative."""
        layout = (tuple(HostOperand(k) for k in range(len(operands))), {})
        return self._entry(Entry(HOST, HostCall(function, layout), (), operands, False, 0, laid_out(shape, char)), operands)

    def _key(self, entry, operands):
        key = key_of(entry, operands)
        # Unless it is differentiated again, the result is one, whether a derivative passes through it or not.
        return key if self.again or entry.kind != ROW else key[:-1]

    def _entry(self, entry, operands):
        key = self._key(entry, operands)
        slot = None if key is None else self._known.get(key)
        if slot is None or self.interleaved and self.origin < slot < self.first:
            for _ in range(continuations(entry, operands) if self.again else 0):
                self.metas[self._append(CONTINUES, 0, 0, 0.0)] = None
            slot = self._known[key] = self._append(TRACED, 0, 0, 0.0)
            self.entries.append(Item(slot, entry, operands))
            self.metas[slot] = entry.meta
        return slot

    def written(self, tape, inputs):
        """Write another tape behind; `inputs` are references, and so is what is returned, for each output (None: it is a constant)."""
        new = {0: 0}

        def reference(slot):
            return new[slot] if slot >= 0 else self.constant(tape.constants[-1 - slot])

        new.update((slot, inputs[k]) for k, slot in enumerate(tape.leaves) if slot)
        for k, position, slot in tape.elements:
            new[slot] = inputs[k] if tape.inputs[k] is SCALAR else self.entry(SELECT, (inputs[k],), _ELEMENT, position)
        items = {item.slot: item for item in tape.items}
        for slot, record in enumerate(tape.records.tolist()):
            item, op = items.get(slot), record[_OP]
            if slot in new or op == CONTINUES:
                continue
            if item is None and op == SCALAR_LEAF:
                new[slot] = self.fixed(record[_VALUE])
            elif item is None:
                new[slot] = self._append(op, *(self._number(new[record[k]]) for k in (_A, _B)), record[_CONSTANT])
            else:
                operands, entry = tuple(map(reference, item.operands)), item.entry
                if entry.kind == GUARD:
                    # An argument there that is a constant here may be another constant.
                    (operand,) = operands = operands if operands[0] > 0 else (self.entry(CLONE, operands),)
                    new[slot] = self._append(TRACED, 0, 0, 0.0)
                    self.metas[new[slot]] = None
                    self.entries.append(Item(new[slot], entry, operands, len(self.tape.guards) + len(self.guards)))
                    self.guards.append(replace(tape.guards[item.number], slot=operand))
                    continue
                new[slot] = self._entry(Entry(entry.kind, entry.function, entry.attrs, operands, entry.differentiable, entry.integer, entry.meta), operands)
        return [reference(slot) if slot else None if what is None else self.constant(what) for slot, what in tape.outputs]

    def _number(self, reference):
        """The slot of a number: a scalar instruction names no constants."""
        return self.fixed(float(self.values[-1 - reference])) if reference < 0 else reference

    def constant(self, value):
        """The negative number that names a constant float or array."""
        if isinstance(value, float):
            key = (value, np.copysign(1.0, value)) if value == value else "nan"
            number = self._numbers.get(key)
            if number is None:
                self.values.append(value)
                number = self._numbers[key] = -len(self.values)
            return number
        self.values.append(value)
        return -len(self.values)

    def meta(self, slot):
        """The description of the value of a slot or constant."""
        if slot < 0:
            return meta_of(self.values[-1 - slot])
        return self.tape.metas[slot] if slot < self.first else self.metas.get(slot, SCALAR)


def with_flat_stacks(tape):
    """The tape with each join of stacked numbers as one stack: only for sweeps they are made of a few operands each."""
    numbers, items = {}, []
    for item in tape.items:
        row, operands = item.entry.function, item.operands
        if row is CONCATENATE and all(o in numbers for o in operands):
            operands = tuple(number for o in operands for number in numbers[o])
            item = Item(item.slot, Entry(ROW, STACK, (("axis", 0),), operands, True, 0, item.entry.meta), operands)
            row = STACK
        if row is STACK and len(item.entry.meta.shape) == 1 and item.entry.meta.char == "d":
            numbers[item.slot] = operands
        items.append(item)
    return replace(tape, items=items)

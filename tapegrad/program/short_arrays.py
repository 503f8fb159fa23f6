"""Short arrays that are made of numbers become numbers again, in a finished tape.

``np.array([a, b])`` of `tapegrad.numpy` is an array where NumPy's own is one of objects, and what is computed with it are instructions
on arrays of two elements.  In a tape each of these is dearer than two on numbers: it is laid out by itself, its derivative is planned
from its rule, and no loop is found in which it stands.  So what is element by element of stacks of numbers is written out::

    16  stack     8, 15                      16  multiply  0.025, 8
    17  multiply  0.025, 16                  17  multiply  0.025, 15
    18  add       const, 17                  18  add       10, 16
    19  select    18, offset=0               19  add       0, 17
    20  multiply  7, 19                      20  multiply  7, 18

Only operations of which NumPy gives the same bits for numbers and arrays; a stack that something else reads is made where it is read.
"""

from dataclasses import replace

import numpy as np

from ..rules.table import BY_NAME
from ..tape.layout import ARRAY_LEAF, CONTINUES, SCALAR_LEAF, TRACED
from ..tape.meta import SCALAR
from .trace import GUARD, ROW, Entry

#: Elements of a short array.
SHORT = 8
_EXACT = {BY_NAME[name] for name in ("add", "subtract", "multiply", "divide", "negative")}
_STACK, _SELECT = BY_NAME["stack"], BY_NAME["select"]


def written_out(tape, item_of, continuations):
    """`tape` with its short arrays written out; itself if there are none.

    `item_of` makes an item, and `continuations` says how many records come before one (`program.finish`).
    """
    stacks = {item.slot for item in tape.items if _numbers(tape, item)}
    if not any(_by_element(item) and not stacks.isdisjoint(item.operands) for item in tape.items):
        return tape
    return _OfNumbers(tape, item_of, continuations).run()


def _short(item):
    meta = item.entry.meta
    return item.entry.kind == ROW and item.entry.differentiable and meta is not None and meta.char == "d" and meta.ndim == 1 and meta.size <= SHORT


def _numbers(tape, item):
    """Whether an item is a short array of numbers."""
    return item.entry.function is _STACK and _short(item) and all(o <= 0 or tape.metas[o] is SCALAR for o in item.operands)


def _by_element(item):
    return item.entry.function in _EXACT and _short(item)


class _OfNumbers:
    """Writes the new tape, slot by slot."""

    def __init__(self, tape, item_of, continuations):
        self.tape, self.item_of, self.continuations = tape, item_of, continuations
        #: New records with their origins and descriptions, runs of them; and how many there are.
        self.records, self.origins, self.metas, self.count = [tape.records[:1]], [tape.origins[:1]], [None], 1
        #: By old slot the new one; of short arrays that are not made yet, 0, and their elements: new slots, or numbers.
        self.new, self.elements = np.zeros(len(tape.records), np.int32), {}
        self.items, self.constants, self.stacks, self.numbers = [], list(tape.constants), {}, {}
        self.guards = list(tape.guards)

    def run(self):
        tape, last = self.tape, 0
        for item in tape.items:
            first = item.slot - self.continuations(item.entry, item.operands)
            self._numbers(last + 1, first)
            last = item.slot
            self._item(item)
        self._numbers(last + 1, len(tape.records))
        outputs = [(self._slot(slot), what) if slot else (slot, what) for slot, what in tape.outputs]
        return replace(
            tape, records=np.concatenate([r.view(np.int64) for r in self.records]).view(tape.records.dtype),
            origins=np.concatenate(self.origins), metas=self.metas, items=self.items,
            constants=self.constants, guards=self.guards, outputs=outputs, leaves=[int(self.new[s]) for s in tape.leaves],
            elements=[(k, position, int(self.new[s])) for k, position, s in tape.elements],
        )  # fmt: skip

    # -- records ------------------------------------------------------------------------
    def _numbers(self, first, end):
        """What is not an entry: numbers, and arguments."""
        if first >= end:
            return
        tape, records = self.tape, self.tape.records[first:end].copy()
        self.new[first:end] = range(self.count, self.count + end - first)
        computed = records["op"] > SCALAR_LEAF
        computed &= records["op"] < ARRAY_LEAF
        for side in ("a", "b"):
            where = np.flatnonzero(computed & (records[side] != 0))
            old = records[side][where]
            records[side][where] = self.new[old]
        self.records.append(records), self.origins.append(tape.origins[first:end]), self.metas.extend(tape.metas[first:end])
        self.count += end - first

    def _record(self, old, op, meta, a=0, b=0, constant=0.0, value=0.0):
        record = self.tape.records[old : old + 1].copy()
        record["op"], record["a"], record["b"], record["value"] = op, a, b, value
        record["constant"] = constant
        self.records.append(record), self.origins.append(self.tape.origins[old : old + 1]), self.metas.append(meta)
        self.count += 1
        return self.count - 1

    def _number(self, value, old):
        """The slot of a number that does not change."""
        if value not in self.numbers:
            self.numbers[value] = self._record(old, SCALAR_LEAF, SCALAR, value=value)
        return self.numbers[value]

    # -- entries ------------------------------------------------------------------------
    def _item(self, item):
        entry, slot = item.entry, item.slot
        if _numbers(self.tape, item):
            self.elements[slot] = [int(self.new[o]) if o > 0 else float(self.constants[-1 - o]) for o in item.operands]
            return
        if entry.function is _SELECT and entry.kind == ROW and entry.meta is SCALAR and entry.differentiable and item.operands[0] in self.elements:
            element = self.elements[item.operands[0]][entry.integer]
            self.new[slot] = element if type(element) is int else self._number(element, slot)
            return
        if _by_element(item) and any(o in self.elements for o in item.operands):
            operands = [self._elements_of(o, entry.meta) for o in item.operands]
            if None not in operands:
                self.elements[slot] = [self._computed(entry.function, parts, slot) for parts in zip(*operands)]
                return
        operands = tuple([self._slot(o) if o > 0 else o for o in item.operands])
        self.new[slot] = self._entry(entry, operands, slot, item.number)
        if entry.kind == GUARD:
            self.guards[item.number] = replace(self.guards[item.number], slot=operands[0])

    def _entry(self, entry, operands, old, number=-1):
        for _ in range(self.continuations(entry, operands)):
            self._record(old, CONTINUES, None)
        slot = self._record(old, TRACED, entry.meta)
        item = self.item_of(slot, entry, operands)
        item.number = number
        self.items.append(item)
        return slot

    def _elements_of(self, operand, meta):
        """What the elements of a result are computed from; None if that is not known one by one."""
        if operand in self.elements:
            parts = self.elements[operand]
            return parts if len(parts) == meta.size else None
        if operand > 0:
            return [int(self.new[operand])] * meta.size if self.tape.metas[operand] is SCALAR else None
        constant = self.tape.constants[-1 - operand]
        if type(constant) is float:
            return [constant] * meta.size
        array = np.asarray(constant)
        return array.tolist() if array.dtype == float and array.shape == meta.shape else None

    def _computed(self, row, parts, old):
        """An element: a new slot, or the number that it always is."""
        slots, numbers = [p if type(p) is int else 0 for p in parts], [p for p in parts if type(p) is not int]
        if not any(slots):
            with np.errstate(all="ignore"):
                return float(row.value(*map(np.float64, parts)))
        return self._record(old, row.opcode, SCALAR, *slots, *[0] * (2 - len(slots)), *numbers)

    def _slot(self, old):
        """The new slot of an old one, which is made now if it is a short array that was written out."""
        if old not in self.elements or self.new[old]:
            return int(self.new[old])
        operands = []
        for element in self.elements[old]:
            if type(element) is not int:
                if element not in self.stacks:
                    self.constants.append(element)
                    self.stacks[element] = -len(self.constants)
                element = self.stacks[element]
            operands.append(element)
        entry = Entry(ROW, _STACK, (("axis", 0),), tuple(operands), True, 0, self.tape.metas[old])
        self.new[old] = self._entry(entry, tuple(operands), old)
        return int(self.new[old])

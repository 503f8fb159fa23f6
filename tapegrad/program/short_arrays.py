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

import numpy as np

from ..rules.table import BY_NAME
from ..tape.layout import SCALAR, SCALAR_LEAF
from .trace import ROW, Entry

#: Elements of a short array.
SHORT = 8
_EXACT = {BY_NAME[name] for name in ("add", "subtract", "multiply", "divide", "negative")}
_STACK, _SELECT = BY_NAME["stack"], BY_NAME["select"]


def _short(entry):
    meta = entry.meta
    return entry.kind == ROW and entry.differentiable and meta is not None and meta.char == "d" and meta.ndim == 1 and meta.size <= SHORT


def _by_element(entry):
    return entry.function in _EXACT and _short(entry)


def computes_with_short(entries, needed):
    """Whether one of the `needed` entries computes, element by element, with a short array of numbers."""
    stacks = {slot for slot, entry in entries.items() if entry.function is _STACK and needed[slot] and _short(entry)}
    return bool(stacks) and any(needed[slot] and _by_element(entry) and not stacks.isdisjoint(entry.operands) for slot, entry in entries.items())


class ShortArrays:
    """What a finisher (`program.finish`) does with short arrays of numbers; attributes as there."""

    def __init__(self):
        #: By old slot the elements of what was written out, new slots or numbers; new slots of what is computed of these.
        self.short, self.shared = {}, {}

    def written_out(self, slot, entry):
        """Whether an entry is a short array of numbers, or an element of one: then it is made if something else reads it."""
        new, short, operands = self.new, self.short, entry.operands
        if entry.function is _STACK and _short(entry):
            numbers = [new[o] if o > 0 else o for o in operands]
            if all(n <= 0 or self.meta(n) is SCALAR for n in numbers):
                short[slot] = [n if n > 0 else float(self.constants[-1 - n]) for n in numbers]
        elif entry.function is _SELECT and entry.kind == ROW and entry.meta is SCALAR and entry.differentiable and operands[0] in short:
            element = short[operands[0]][entry.integer]
            new[slot] = element if type(element) is int else self._added(slot, SCALAR_LEAF, value=element)
        elif _by_element(entry) and any(o in short for o in operands):
            elements = [self._elements_of(o, entry.meta) for o in operands]
            if None not in elements:
                short[slot] = [self._computed(entry.function, parts, slot) for parts in zip(*elements)]
        return slot in short or new[slot] > 0

    def _added(self, old, op, a=0, b=0, constant=0.0, value=0.0):
        """The slot of a number, made once."""
        key = op, a, b, constant.hex(), value.hex()
        if key not in self.shared:
            self.shared[key] = self.add(op, value, SCALAR, old, a, b, constant)
        return self.shared[key]

    def _elements_of(self, operand, meta):
        """What the elements of a result are computed from; None if that is not known one by one."""
        if operand in self.short:
            parts = self.short[operand]
            return parts if len(parts) == meta.size else None
        number = self.new[operand] if operand > 0 else operand
        if number > 0:
            return [number] * meta.size if self.meta(number) is SCALAR else None
        constant = self.constants[-1 - number]
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
        return self._added(old, row.opcode, *slots, *[0] * (2 - len(slots)), *numbers)

    def slot(self, old):
        """The new slot of an old one, or the number of a constant; a short array that was written out is made now."""
        if old in self.short and not self.new[old]:
            operands = tuple([element if type(element) is int else self.constants.add(element) for element in self.short[old]])
            entry = Entry(ROW, _STACK, (("axis", 0),), operands, True, 0, self.entries[old].meta)
            self.new[old] = self.item(old, entry, operands)
        return self.new[old] if old > 0 else old

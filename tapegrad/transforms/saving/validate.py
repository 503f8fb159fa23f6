"""What must hold of a tape from a file before it is run.

Compiled programs believe what they are told: that operands come earlier, that a
window lies in its array, that positions are in range.  In a recording that is so
because NumPy has done it all once; of a file it is shown here, with what every row
gives by its own rule (`transforms.saving.abstract`).
"""

from __future__ import annotations

import math
from itertools import zip_longest

import numpy as np

from ...common.errors import REPORT, TapeFileError, said_by
from ...common.host_functions import HostFunction
from ...common.tree import parts_of
from ...program.trace import FAILS, GUARD, HOST, ROW, SHAPE, Operand, ResultOf
from ...rules import BY_NAME
from ...rules.scalars import scalar_rows
from ...tape.layout import ARRAY_LEAF, CONTINUES, SCALAR_LEAF, TRACED
from ...tape.meta import SCALAR, meta_of
from .abstract import planned
from .archive import CHARS, need

_RESHAPE = BY_NAME["reshape"]


class Validation:
    """Of a tape that is to be replayed, with values of at most `limit` bytes."""

    def __init__(self, tape, limit):
        self.tape, self.limit = tape, limit
        self.items = {item.slot: item for item in tape.items}
        self.ops = tape.records["op"].tolist()
        #: Descriptions of operations that fit, each planned once.
        self.known = set()

    def run(self):
        """Raise `TapeFileError` unless it can be; completes it."""
        tape = self.tape
        metas = [i.entry.meta for i in tape.items if i.entry.kind != GUARD] + list(tape.inputs)
        nbytes = tape.nbytes_of_values = tape.records.nbytes + sum(m.nbytes for m in metas)
        need(nbytes <= self.limit, f"its values take {nbytes} bytes; the limit, max_bytes, is {self.limit}")
        self._leaves()
        self._scalars()
        slots = [item.slot for item in tape.items]
        need(slots == sorted(set(slots)), "entries that are not in order")
        need(set(slots) == {k for k, op in enumerate(self.ops) if op == TRACED}, "entries that are not in the records")
        continued = 0
        for item in tape.items:
            try:
                continued += self._entry(item)
            except Exception as error:
                what = said_by(error).removesuffix(REPORT)
                raise TapeFileError(f"the entry {item.entry.name} in slot {item.slot}: {what}") from error
        need(continued == self.ops.count(CONTINUES), "records of further operands")
        for slot, _ in tape.outputs:
            need(not slot or self._meta(slot) is not None, f"the output {slot}")
        need(tape.structure is not None and tape.structure.count == len(tape.outputs), "the structure of its results")

    def _meta(self, slot):
        """Description of an operand."""
        if slot < 0:
            need(-slot <= len(self.tape.constants), f"the constant {-slot}")
            constant = self.tape.constants[-1 - slot]
            return SCALAR if type(constant) is float else meta_of(constant)
        need(0 < slot < len(self.ops), f"the slot {slot}")
        return self.tape.metas[slot]

    def _leaves(self):
        tape, ops = self.tape, self.ops
        need(ops[0] == 0 and ops.count(0) == 1, "the first record")
        used = [slot for slot in tape.leaves if slot]
        need(sorted(used) == [k for k, op in enumerate(ops) if op == ARRAY_LEAF], "array arguments")
        for meta in tape.inputs:
            need(meta is SCALAR or meta.char in "df", "an argument that is not of a float dtype")
        need(all(tape.inputs[k] is not SCALAR for k, slot in enumerate(tape.leaves) if slot), "a scalar argument")
        for element in tape.elements:
            need(len(element) == 3, "an element")
            k, position, slot = element
            need(k < len(tape.inputs) and tape.inputs[k].char == "d", "an element of no argument")
            need(position < tape.inputs[k].size, f"element {position} of {tape.inputs[k].size}")
            need(0 < slot < len(ops) and ops[slot] == SCALAR_LEAF, "an element that is no leaf")
        slots = [slot for _, _, slot in tape.elements]
        need(len(set(slots)) == len(slots), "a leaf that is two elements")

    def _scalars(self):
        """Scalar instructions: rows of the switch, on numbers (which come earlier: `save._records`)."""
        records = self.tape.records
        other = np.isin(records["op"], [0, SCALAR_LEAF, ARRAY_LEAF, CONTINUES, TRACED])
        operands = np.stack([records["a"], records["b"]])
        need(not operands[:, other].any(), "operands of a leaf")
        need(np.isin(records["op"][~other], [row.opcode for row in scalar_rows(True)]).all(), "a record of a row that is no scalar one")
        numbers = np.array([slot == 0 or meta is SCALAR for slot, meta in enumerate(self.tape.metas)])
        need(numbers[operands[:, ~other]].all(), "a scalar instruction on an array")

    def _entry(self, item):
        """Check one entry; returns how many records before it hold further operands."""
        entry, operands = item.entry, item.operands
        need(all(o < item.slot and o for o in operands), f"the operands {operands}")
        metas = [self._meta(o) for o in operands]
        need(None not in metas, f"the operands {operands}")
        if entry.kind == GUARD:
            need(len(operands) == 1 and operands[0] > 0, "a guard on a constant")
            if entry.function in (SHAPE, FAILS):
                expected = np.array(metas[0].shape, np.int64).tobytes() if entry.function == SHAPE else b"\0"
                need(entry.seen == expected, "another shape was seen, or a failure")
                return 0
            truth = entry.function == "bool"
            need(not truth or metas[0].size == 1, "the truth of an array")
            need(len(entry.seen) == (1 if truth else metas[0].nbytes), f"{len(entry.seen)} bytes were seen")
            need(not truth or entry.seen[0] < 2, "a truth value")
            return 0
        need(entry.meta is SCALAR or entry.meta.shape != () or entry.kind == HOST or entry.meta.char != "d", "a scalar")
        if entry.kind == HOST:
            self._host(entry, metas)
            return 0
        row = entry.function
        key = row, tuple(metas), entry.attrs, tuple(map(str, entry.attrs)), entry.integer, entry.meta, entry.differentiable
        if key not in self.known:
            planned(row, metas, dict(entry.attrs), entry.integer, entry.meta, self.limit, entry.differentiable)
            self.known.add(key)
        if row.index is not None:
            self._positions(row, operands, metas, entry.meta)
        count = len(row.slots(len(operands)))
        count = (count + 1) // 4 if count > 2 else 0
        need(all(op == CONTINUES for op in self.ops[item.slot - count : item.slot]), "records of further operands")
        return count

    def _host(self, entry, metas):
        """A function without derivative: a replay compares what NumPy gives, but for plain calls of ufuncs, which it compiles."""
        host, function = entry.function, entry.function.function
        need(not entry.differentiable and not entry.integer, "a derivative of a function that has none")
        need(all(o < len(metas) for o in parts_of(host.layout, Operand)), "an operand of a function")
        if host.ufunc is not None:
            shape = np.broadcast_shapes(*(metas[k].shape for k in host.layout[0]))
            need(shape == entry.meta.shape, f"its shape is {shape}, not {entry.meta.shape}")
        while isinstance(function, ResultOf):
            function = function.function
        shapes = [part.shape if isinstance(part, np.ndarray) else metas[part].shape for part in parts_of(host.layout, (Operand, np.ndarray))]
        cells = max(_cells(function, host.layout, shapes), sum(map(math.prod, shapes)))
        # In between there may be a few arrays of eight bytes an element.
        need(32 * cells <= self.limit, f"it may make arrays of {cells} elements; raise max_bytes")

    def _positions(self, row, operands, metas, out):
        """Flat positions must be in range; those that are computed are looked at when they are."""
        # Of what is added or written they are in the result, else in the operand.
        limit = out.size if row.adds or row.effect == "write" else metas[0].size
        index, once = operands[row.index], row.effect == "write" and not row.adds
        if index < 0:
            positions = self.tape.constants[-1 - index]
            need(positions.flags.c_contiguous, "positions")
            need(not positions.size or positions.min() >= 0 and positions.max() < limit, f"positions outside {limit} elements")
            need(not once or len(np.unique(positions)) == positions.size, "an element assigned to twice")
            return
        need(not once, "an assignment at positions that are computed")
        item = self.items.get(index)
        while item is not None and item.entry.kind == ROW and item.entry.function is _RESHAPE:
            item = self.items.get(item.operands[0])
        need(item is not None and item.entry.kind == HOST and item.entry.function.ufunc is None, "positions of no known origin")
        host = item.entry.function
        host.limit = limit if host.limit is None else min(limit, host.limit)


def _cells(function, layout, shapes):
    """Elements of the largest array that a function without derivative makes of arrays of these shapes."""
    if not isinstance(function, HostFunction):
        need(not any(type(part) is str for part in layout[0][:2]), "a text in place of an array")
        return _broadcast(shapes)
    name, data = function.name, function.data
    if name == "taken":
        shape, axis, _ = data
        lines = 1 if axis is None else _size(shape) // max(1, shape[axis])
        return max(_size(shape), lines * math.prod(shapes[0]))
    if name in ("along_axis", "columns"):
        order = shapes[0] if name == "along_axis" else (*shapes[0][:-1], 1, *shapes[0][-1:])
        _size(data[0])
        return math.prod(max(pair) for pair in zip_longest(reversed(data[0]), reversed(order), fillvalue=1))
    if name == "cast":
        need(type(data[0]) is str and len(data[0]) <= 3 and np.dtype(data[0]).char in CHARS, f"the dtype {data[0]!r}")
    if name == "ranked":
        _, n, position = data
        return _broadcast([(math.prod(shapes[0]) // n,), np.shape(position)])
    need(next(parts_of(data, np.ndarray), None) is None, "an array among the data of a function")
    return _broadcast(shapes)


def _broadcast(shapes):
    try:
        return math.prod(np.broadcast_shapes(*shapes))
    except ValueError:
        # It does not broadcast its arguments, or raises.
        return 0


def _size(shape):
    need(type(shape) is tuple and all(type(n) is int and n >= 0 for n in shape), f"the shape {shape!r}")
    return math.prod(shape)

"""What must hold of a tape from a file before it is planned and run.

Compiled programs believe what they are told: that operands come earlier, that a
window lies in its array, that positions are in range.  In a recording that is so
because NumPy has done it all once; of a file it is shown here.  The shape of
every result comes from `transforms.saving.shapes`.
"""

from __future__ import annotations

import numpy as np

from ...common.errors import TapeFileError, said_by
from ...program.finish import active_slots
from ...program.trace import FAILS, GUARD, HOST, ROW, SHAPE, Operand, parts_of
from ...rules import BY_NAME
from ...rules.scalars import scalar_rows
from ...tape.layout import ARRAY_LEAF, CONTINUES, FIRST_ARRAY, SCALAR_LEAF, TRACED
from ...tape.meta import SCALAR, meta_of
from .budget import check_host, of_values
from .shapes import INDEX, Misfit, require, result


def check(tape, taken):
    """Raise `TapeFileError` unless `tape` can be replayed in the bytes it declares, of which `taken` are; completes it."""
    try:
        _Check(tape, taken).run()
    except Misfit as error:
        raise TapeFileError(said_by(error)) from None


class _Check:
    def __init__(self, tape, taken):
        self.tape, self.taken, self.declared = tape, taken, tape.declared
        self.items = {item.slot: item for item in tape.items}
        self.ops = tape.records["op"].tolist()

    def run(self):
        tape = self.tape
        self._memory()
        self._leaves()
        self._scalars()
        slots = [item.slot for item in tape.items]
        require(slots == sorted(set(slots)), "entries that are not in order")
        require(set(slots) == {k for k, op in enumerate(self.ops) if op == TRACED}, "entries that are not in the records")
        continued = 0
        for item in tape.items:
            try:
                continued += self._entry(item)
            except Misfit as error:
                raise Misfit(f"the entry {item.entry.name} in slot {item.slot}: {said_by(error)}") from None
        require(continued == self.ops.count(CONTINUES), "records of further operands")
        for slot, _ in tape.outputs:
            require(not slot or self._meta(slot) is not None, f"the output {slot}")
        require(tape.structure is not None and tape.structure.count == len(tape.outputs), "the structure of its results")
        tape.active = active_slots(tape)

    def _meta(self, slot):
        """Description of an operand."""
        if slot < 0:
            require(-slot <= len(self.tape.constants), f"the constant {-slot}")
            constant = self.tape.constants[-1 - slot]
            return SCALAR if type(constant) is float else meta_of(constant)
        require(0 < slot < len(self.ops), f"the slot {slot}")
        return self.tape.metas[slot]

    def _memory(self):
        need = self.taken + of_values(self.tape)
        require(need <= self.declared, f"it needs {need} bytes and declares {self.declared}")

    def _leaves(self):
        tape, ops = self.tape, self.ops
        require(ops[0] == 0 and ops.count(0) == 1, "the first record")
        used = [slot for slot in tape.leaves if slot]
        require(len(set(used)) == len(used), "an argument read twice")
        require(sorted(used) == [k for k, op in enumerate(ops) if op == ARRAY_LEAF], "array arguments")
        for meta in tape.inputs:
            require(meta is SCALAR or meta.char in "df", "an argument that is not of a float dtype")
        require(all(tape.inputs[k] is not SCALAR for k, slot in enumerate(tape.leaves) if slot), "a scalar argument")
        for element in tape.elements:
            require(len(element) == 3, "an element")
            k, position, slot = element
            require(k < len(tape.inputs) and tape.inputs[k].char == "d", "an element of no argument")
            require(position < tape.inputs[k].size, f"element {position} of {tape.inputs[k].size}")
            require(0 < slot < len(ops) and ops[slot] == SCALAR_LEAF, "an element that is no leaf")
        slots = [slot for _, _, slot in tape.elements]
        require(len(set(slots)) == len(slots), "a leaf that is two elements")

    def _scalars(self):
        """Scalar instructions: rows of the switch, on scalars that come earlier."""
        tape = self.tape
        known = {row.opcode: row for row in scalar_rows(True)}
        lefts, rights = tape.records["a"].tolist(), tape.records["b"].tolist()
        special = False
        for k, op in enumerate(self.ops):
            if op in (0, SCALAR_LEAF, ARRAY_LEAF, CONTINUES, TRACED):
                require(not lefts[k] and not rights[k], "operands of a leaf")
                continue
            require(op < FIRST_ARRAY and op in known, f"the row of record {k}, which is no scalar one")
            special = special or known[op].calls_scipy
            for slot in (lefts[k], rights[k]):
                require(slot < k and (not slot or tape.metas[slot] is SCALAR), f"operand {slot} of record {k}")
        tape.special = special

    def _entry(self, item):
        """Check one entry; returns how many records before it hold further operands."""
        entry, operands = item.entry, item.operands
        require(all(o < item.slot and o for o in operands), f"the operands {operands}")
        metas = [self._meta(o) for o in operands]
        require(None not in metas, f"the operands {operands}")
        if entry.kind == GUARD:
            require(len(operands) == 1 and operands[0] > 0, "a guard on a constant")
            if entry.function == SHAPE:
                require(entry.seen == np.array(metas[0].shape, np.int64).tobytes(), "another shape was seen")
                return 0
            if entry.function == FAILS:
                require(entry.seen == b"\0", "a failure was seen")
                return 0
            truth = entry.function == "bool"
            require(not truth or metas[0].size == 1, "the truth of an array")
            require(len(entry.seen) == (1 if truth else metas[0].nbytes), f"{len(entry.seen)} bytes were seen")
            require(not truth or entry.seen[0] < 2, "a truth value")
            return 0
        require(entry.meta is SCALAR or entry.meta.shape != () or entry.kind == HOST or entry.meta.char != "d", "a scalar")
        if entry.kind == HOST:
            require(not entry.differentiable and not entry.integer, "a derivative of a function that has none")
            require(all(o < len(operands) for o in parts_of(entry.function.layout, Operand)), "an operand of a function")
            check_host(entry.function.function, entry.function.layout, metas, self.declared)
            return 0
        row = entry.function
        shape, chars = result(row, metas, dict(entry.attrs), entry.integer)
        require(shape == entry.meta.shape, f"its shape is {shape}, not {entry.meta.shape}")
        require(entry.meta.char in chars, f"its dtype is {sorted(chars)}, not {entry.meta.char}")
        if row.name in INDEX:
            self._positions(row, operands, metas, dict(entry.attrs))
        count = len(row.slots(len(operands)))
        count = (count + 1) // 4 if count > 2 else 0
        require(all(op == CONTINUES for op in self.ops[item.slot - count : item.slot]), "records of further operands")
        return count

    def _positions(self, row, operands, metas, attrs):
        """Flat positions must be in range; those that are computed are looked at when they are."""
        limit = int(np.prod(attrs["shape"], dtype=np.int64)) if row.name == "scatter" else metas[0].size
        index = operands[INDEX[row.name]]
        if index < 0:
            positions = self.tape.constants[-1 - index]
            require(positions.flags.c_contiguous, "positions")
            require(not positions.size or positions.min() >= 0 and positions.max() < limit, f"positions outside {limit} elements")
            require(row.name != "put" or len(np.unique(positions)) == positions.size, "an element assigned to twice")
            return
        require(row.name != "put", "an assignment at positions that are computed")
        item = self.items.get(index)
        while item is not None and item.entry.kind == ROW and item.entry.function is BY_NAME["reshape"]:
            item = self.items.get(item.operands[0])
        require(item is not None and item.entry.kind == HOST and item.entry.function.ufunc is None, "positions of no known origin")
        host = item.entry.function
        host.limit = limit if host.limit is None else min(limit, host.limit)

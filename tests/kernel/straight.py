"""A finished tape as a loop program without rolling: one statement for each scalar, `Arrays` for the rest."""

import numpy as np

from tapegrad.kernel import ir
from tapegrad.kernel.arrays import Arrays, as_seen
from tapegrad.kernel.ir import ArrayRef, whole
from tapegrad.program.trace import FAILS, GUARD, SHAPE
from tapegrad.rules import ROWS
from tapegrad.rules import lang as L
from tapegrad.tape.layout import ARRAY_LEAF, CONTINUES, SCALAR_LEAF, TRACED

_ROW_OF = {row.opcode: row for row in ROWS}


class _Straight:
    def __init__(self, tape):
        self.tape, self.body, self.values = tape, [], {}
        self.arrays = Arrays(len(tape.guards))
        self.inputs = [ir.Buffer(ir.INPUT, m.size, m.char, k) for k, m in enumerate(tape.inputs)]
        self.fresh = set()
        #: Slot of the last reader of each slot; outputs are read at the end.
        self.last = {}
        records = tape.records
        for slot in range(len(records)):
            if records["op"][slot] < ARRAY_LEAF:
                for o in (records["a"][slot], records["b"][slot]):
                    self.last[int(o)] = slot
        for item in tape.items:
            for o in item.operands:
                self.last[o] = item.slot
        for slot, _ in tape.outputs:
            self.last[slot] = len(records)

    def run(self):
        tape = self.tape
        for k, position, slot in tape.elements:
            self._add(slot, ir.Load(self.inputs[k], ir.Index(position)))
        for k, slot in enumerate(tape.leaves):
            if slot:
                meta = tape.inputs[k]
                self.values[slot] = whole(self.inputs[k], meta.shape) if meta.shape else self._add(slot, ir.Load(self.inputs[k], ir.Index()))
        items = {item.slot: item for item in tape.items}
        for slot, op in enumerate(tape.records["op"].tolist()):
            if slot == 0 or op in (ARRAY_LEAF, CONTINUES) or slot in self.values:
                continue
            if op == SCALAR_LEAF:
                self._add(slot, ir.constant(tape.records["value"][slot]))
                continue
            if op == TRACED:
                self._item(items[slot])
            else:
                self._scalar(slot, _ROW_OF[op])
        outputs = []
        for k, (slot, what) in enumerate(tape.outputs):
            value = self.values[slot] if slot else self._constant(what)
            shape = value.shape if isinstance(value, ArrayRef) else ()
            outputs.append(ir.Buffer(ir.OUTPUT, int(np.prod(shape, dtype=np.int64)), value.char, k))
            self._copy(value, whole(outputs[-1], shape))
        return ir.LoopProgram(self.inputs, outputs, self.body, len(tape.guards))

    def _copy(self, value, target):
        from tapegrad.kernel.arrays_planner import LoopPlanner

        plan = LoopPlanner([value], _Meta(target), self.body)
        plan.deliver(plan.operands[0], target)

    def _add(self, slot, value):
        self.body.append(value)
        self.values[slot] = value
        return value

    def _constant(self, value):
        found = self.arrays.constant(value)
        if isinstance(found, ir.Value):
            self.body.append(found)
        return found

    def _scalar(self, slot, row):
        record = self.tape.records[slot]
        c = L.Expr.lift(float(record["constant"]))
        x, y = (L.arg(self.values[int(o)]) if o else c for o in (record["a"], record["b"]))
        expr = row.expr(float(record["constant"]) != 0.0, x, y) if row.name == "where" else row.expr(*(x, y)[: row.arity])
        self._add(slot, ir.Let(L.Expr.lift(expr)))

    def _operand(self, slot):
        return self.values[slot] if slot > 0 else self._constant(self.tape.constants[-1 - slot])

    def _item(self, item):
        tape = self.tape
        operands = [self._operand(o) for o in item.operands]
        if item.entry.kind == GUARD:
            self._guard(tape.guards[item.number], operands[0], item.number)
            return
        reuse = [k for k, o in enumerate(operands) if isinstance(o, ArrayRef) and self._dead(o.buffer, item.slot)]
        statements, result = self.arrays.emit(item, operands, reuse=reuse)
        self.body += statements
        self.values[item.slot] = result
        if isinstance(result, ArrayRef) and all(not isinstance(o, ArrayRef) or o.buffer is not result.buffer for o in operands):
            self.fresh.add(result.buffer)

    def _dead(self, buffer, slot):
        """Whether nothing reads a buffer that this program made after `slot`."""
        sharing = [s for s, v in self.values.items() if buffer in _buffers(v)]
        return buffer in self.fresh and all(self.last.get(s, 0) <= slot for s in sharing)

    def _guard(self, guard, value, number):
        if guard.how == "bool":
            if value.char != "?":
                value = ir.Let(L.ne(L.arg(value), 0.0), "?")
                self.body.append(value)
            self.body.append(ir.Guard(number, value, bool(guard.seen[0])))
        elif guard.how not in (SHAPE, FAILS):
            if isinstance(value, ArrayRef):
                statements, holds = self.arrays.same(value, guard.seen)
            else:
                data = np.frombuffer(guard.seen, np.dtype(value.char))
                before = ir.Load(ir.Buffer(ir.CONSTANT, 1, value.char, data=data), ir.Index())
                holds = ir.Let(as_seen(L.arg(value), L.arg(before), value.char), "?")
                statements = [before, holds]
            self.body += [*statements, ir.Guard(number, holds, True)]


def _buffers(value):
    return {value.buffer} if isinstance(value, ArrayRef) else ()


class _Meta:
    def __init__(self, ref):
        self.shape, self.char = ref.shape, ref.char


def straight(tape):
    """The loop program of `tape`."""
    return _Straight(tape).run()

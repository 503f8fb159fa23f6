"""A finished tape in print: what a replay does, one line a slot.

The columns are those of a tape's listing (`tapegrad.autograd.tape`), without values,
which each replay computes anew: slot, primitive, operands, shape, and where the
instruction was recorded.  Inputs are named ``argument k``, or ``argument k[i]``
for one element (flat position `i`); guards are lines too, with what was seen.
"""

import numpy as np

from ..common.printing import table
from ..rules.table import by_opcode
from ..tape.layout import ARRAY_LEAF, CONTINUES, SCALAR_LEAF, TRACED
from .trace import FAILS, GUARD, ROW, SHAPE

#: What to write in place of what a guard looks at, by how it was read: so that it is one path for any value.
_ADVICE = {
    "bool": "such a choice is one path with tg.cond or np.where",
    "index": "a number that it computes is a position there; let it be one in a tensor (a = tg.tensor(a), outside)",
    SHAPE: "a shape depends on values there; np.where(mask, x, 0.0) has one shape, x[mask] has many",
}

HEAD = ("slot", "primitive", "operands", "shape", "recorded at")


def listing(tape):
    """The text of ``str(tape)``."""
    results = [f"%{slot}" if slot else _constant(what) for slot, what in tape.outputs]
    return f"{table(HEAD, rows(tape))}\nresult: {', '.join(results)}"


def rows(tape):
    """One row a slot, in the columns of `HEAD`."""
    items = {item.slot: item for item in tape.items}
    inputs = {slot: f"argument {k}" for k, slot in enumerate(tape.leaves) if slot}
    for k, position, slot in tape.elements:
        inputs[slot] = f"argument {k}" + (f"[{position}]" if tape.inputs[k].shape else "")
    ops, lefts, rights, constants = (tape.records[name].tolist() for name in ("op", "a", "b", "constant"))
    values = tape.records["value"]
    lines = []
    for slot in range(1, len(ops)):
        op = ops[slot]
        if op == CONTINUES:
            continue
        place = tape.place(slot).short
        if op in (SCALAR_LEAF, ARRAY_LEAF):
            name, operands = ("leaf", inputs[slot]) if slot in inputs else ("constant", f"{values[slot]:.6g}")
            lines.append((f"%{slot}", name, operands, _shape(tape.metas[slot]), ""))
        elif op == TRACED:
            lines.append((f"%{slot}", *_item(tape, items[slot]), place))
        else:
            row, slots = by_opcode(op), [lefts[slot], rights[slot]]
            operands = [f"%{s}" if s else f"{constants[slot]:.6g}" for s in slots[: max(1, min(row.arity, 2))]]
            if row.name == "where":
                # The condition is the inline constant.
                operands = [str(bool(constants[slot])), *(f"%{s}" for s in slots)]
            lines.append((f"%{slot}", row.name, ", ".join(operands), "scalar", place))
    return lines


def _item(tape, item):
    """Primitive, operands and shape of an entry."""
    entry = item.entry
    # (A call of a primitive whose value was recorded through has nothing that computes it.)
    operands = [f"%{o}" if o > 0 else _constant(tape.constants[-1 - o]) for o in item.operands if o]
    if entry.kind == GUARD:
        how = item.entry.function
        guard = tape.guards[item.number]
        seen = str(bool(guard.seen[0])) if how in ("bool", FAILS) else f"{len(guard.seen)} bytes"
        return f"guard {how}", f"{operands[0]} == {seen}", ""
    if entry.kind == ROW:
        operands += [f"{name}={value}" for name, value in entry.attrs]
        if entry.function.dynamic:
            operands.append(f"{entry.function.dynamic}={entry.integer}")
    return entry.name, ", ".join(operands), _shape(entry.meta)


def _constant(value):
    return f"{float(value):.6g}" if np.ndim(value) == 0 and not isinstance(value, str) else "const"


def _shape(meta):
    return "x".join(map(str, meta.shape)) or "scalar"


def advice(how):
    """What happens where a guard differs from call to call that was read so, and what to write for it."""
    return _ADVICE.get(how, f"{how} takes a value there, and each value is a path; compare it, by `if`, tg.cond or np.where")

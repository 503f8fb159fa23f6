"""The first gradient of a short tape, in plain Python.

To load the compiled walks takes ten milliseconds, which a few instructions do
not need.  While nobody has loaded them, a tape of scalar instructions is swept
here at the point at which it was recorded: the values are in its records, and
adjoints come from the same rules with the same arithmetic as in the compiled
switch (`codegen.scalars`), so that the bits are the same.  Guards are compared as
in a replay.  The next call replays.
"""

from __future__ import annotations

import numpy as np

from ..array.closures import adjoints_on_floats
from ..array.record import normalise
from ..rules.table import by_opcode
from ..tape.layout import FIRST_ARRAY, SCALAR_LEAF
from ..tape.meta import SCALAR
from ..tape.store import SHORT
from .trace import GUARD, HOST

_COMPARISONS = frozenset([np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal])


def plain_answer(tape):
    """Results and gradients of a tape at the point at which it was recorded.

    Parameters
    ----------
    tape : FinishedTape

    Returns
    -------
    (list, list) or None
        Values of the outputs; an array for each wanted argument, None for each
        other one.  None if this takes the compiled walks: the tape is long or
        has array instructions, one of its rows has no form on floats, or a guard
        does not see what it saw.
    """
    if len(tape.records) > SHORT or not all(slot == 0 or meta is SCALAR for slot, meta in tape.outputs):
        return None
    values = tape.records["value"].tolist()
    if not _guards_hold(tape, values):
        return None
    try:
        adjoints = _swept(tape, values)
    except (ArithmeticError, ValueError):
        return None
    if adjoints is None:
        return None
    gradients = [np.zeros(meta.shape, meta.char) if wanted else None for meta, wanted in zip(tape.inputs, tape.wanted)]
    for k, position, slot in tape.elements:
        if gradients[k] is not None:
            gradients[k].reshape(-1)[position] += adjoints[slot]
    return [values[slot] if slot else constant for slot, constant in tape.outputs], gradients


def _guards_hold(tape, values):
    """Whether nothing but guards on scalars and comparisons of them is between the instructions, and all hold."""
    outcomes = {}
    for item in tape.items:
        entry = item.entry
        if entry.kind not in (GUARD, HOST):
            # An instruction on arrays, or a call.
            return False
        operands = [outcomes.get(o, values[o]) if o > 0 else normalise(tape.constants[-1 - o]) for o in item.operands]
        if not all(type(value) in (float, bool) for value in operands):
            return False
        if entry.kind == GUARD:
            seen = bool(operands[0]) if entry.function == "bool" else operands[0]
            if np.asarray(seen).tobytes() != entry.seen:
                return False
        elif entry.function.ufunc in _COMPARISONS and entry.meta.char == "?":
            outcomes[item.slot] = bool(entry.function.ufunc(*operands))
        else:
            return False
    return True


def _swept(tape, values):
    """The adjoint of every slot, or None."""
    ops, lefts, rights, constants = (tape.records[name].tolist() for name in ("op", "a", "b", "constant"))
    adjoints = [0.0] * len(ops)
    for slot, _ in tape.outputs:
        if slot:
            adjoints[slot] += 1.0
    active = tape.active.tolist()
    for i in range(len(ops) - 1, 0, -1):
        w, op = adjoints[i], ops[i]
        if w == 0.0 or not active[i] or op == SCALAR_LEAF:
            continue
        rule = adjoints_on_floats(by_opcode(op)) if op < FIRST_ARRAY else None
        if rule is None:
            return None
        slots = lefts[i], rights[i]
        operands = [values[slot] if slot else constants[i] for slot in slots[: by_opcode(op).arity]]
        for slot, added in zip(slots, rule(*operands, values[i], w)):
            if added is not None:
                adjoints[slot] += added
    return adjoints

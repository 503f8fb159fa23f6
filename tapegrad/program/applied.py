"""A finished tape as a function of tensors and dual numbers.

Arrays are replayed by compiled code (`FinishedTape`).  Of what carries a derivative each instruction is applied once more
(`array.record.apply`), and recorded by what differentiates, records or maps the call.  So every transformation takes a tape, at
every nesting, as it takes any function.  A guard compares what it sees with what was seen, and raises where that is something else.
"""

import contextlib

import numpy as np

from ..array.differentiable import Differentiable, below
from ..array.record import apply, computed, normalise, trace_of
from ..autograd.custom.calls import packed
from ..common.errors import GuardError
from ..common.tree import flatten
from ..rules import ROWS
from ..rules.table import BY_NAME, FIRST_ROW
from ..tape.layout import FIRST_ARRAY, SCALAR
from ..tape.modes import no_grad
from .trace import FAILS, GUARD, ROW, SHAPE, filled

_ELEMENT = (("shape", ()), ("strides", ()))


def applied(tape, arguments):
    """The results of `tape`, in a list, at these arguments: normalised values, tensors or dual numbers.

    Raises
    ------
    GuardError
        The recorded path does not hold here.
    """
    ops, lefts, rights, numbers, constants = (tape.records[name].tolist() for name in ("op", "a", "b", "value", "constant"))
    # What no instruction computes is an argument, or a constant.
    values, items = dict(enumerate(numbers)), {item.slot: item for item in tape.items}
    values.update((slot, arguments[k]) for k, slot in enumerate(tape.leaves) if slot)
    for k, position, slot in tape.elements:
        whole = tape.inputs[k] is SCALAR
        values[slot] = arguments[k] if whole else apply(BY_NAME["select"], (arguments[k],), _ELEMENT, integer=position)

    def value(slot):
        return values[slot] if slot > 0 else tape.constants[-1 - slot]

    for slot, op in enumerate(ops):
        item = items.get(slot)
        if item is not None:
            entry, operands = item.entry, [value(o) if o else None for o in item.operands]
            if entry.kind == GUARD:
                _check(tape.guards[item.number], operands[0])
            else:
                values[slot] = _row(tape, slot, entry, operands) if entry.kind == ROW else _called(entry.function, operands)
        elif FIRST_ROW <= op < FIRST_ARRAY:
            row, inline = ROWS[op - FIRST_ROW], constants[slot]
            if row.name == "where":
                # The condition is the inline constant.
                values[slot] = apply(row, (np.asarray(bool(inline)), values[lefts[slot]], values[rights[slot]]))
            else:
                values[slot] = apply(row, [values[o] if o else inline for o in (lefts[slot], rights[slot])[: row.arity]])
    return [value(slot) if slot else constant for slot, constant in tape.outputs]


def _row(tape, slot, entry, operands):
    row, attrs = entry.function, entry.attrs
    if row.primitive is not None:
        call = dict(attrs)["call"]
        results = row.primitive(*call.contained(call.arguments(operands)), **call.static)
        return packed(flatten(results)[0]) if call.several else results
    with contextlib.nullcontext() if entry.differentiable else no_grad():
        try:
            return apply(row, operands if entry.differentiable else list(map(below, operands)), attrs, integer=entry.integer)
        except np.linalg.LinAlgError as error:
            raise GuardError(f"the recorded path does not hold here: {row.name} at {tape.place(slot)} fails, {error}") from error


def _called(host, operands):
    """The result of a function without derivative."""
    operands = list(map(below, operands))
    with np.errstate(all="ignore"):
        value = computed(host, [getattr(o, "_v", o) for o in operands], operands)
    trace = trace_of(operands)
    if trace is None:
        return normalise(value)
    args, kwargs = filled(host.layout, operands)
    return trace.host(host.function, args, kwargs, value)


def _check(guard, what):
    """Raise unless a guard sees what was seen; who records the call guards the same."""
    if guard.how == FAILS:
        return
    if guard.how == SHAPE:
        seen = np.array(np.shape(what), np.int64)
    elif guard.how == "bool":
        seen = np.asarray(bool(what))
    else:
        seen = np.asarray(what._let_out(guard.how) if isinstance(what, Differentiable) else what)
    if seen.tobytes() != guard.seen:
        raise GuardError(f"the recorded path does not hold here: {guard}; record the function at this point")

"""Parallel loops: those of a program that are spread over threads.

A loop at the top of a program is spread if its iterations do not see each other, apart from sums, and if they take long enough.
Before and after, with four chunks::

    for i in range(1000000) with a1 from a0:          chunk k:  for i in range(250000 k, 250000 (k + 1)) with a1 from 0:
        a2 = x0[i]                                                  a2 = x0[i]
        a3 = a2 * a2                                                a3 = a2 * a2
        y1[i] = a3                                                  y1[i] = a3
        a4 = a1 + a3                                                a4 = a1 + a3
        next a1 = a4                                                next a1 = a4
                                                                    sum[k] = a4
    y0[0] = a4                                        a4 = a0 + sum[0] + sum[1] + sum[2] + sum[3]
                                                      y0[0] = a4

The chunks depend on the program alone, and are added up in order, so that the number of threads does not change a bit.
Independence of iterations is proved from positions (`passes.statements.apart`).  Any other loop stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import ir
from .passes.statements import apart

#: Nanoseconds, about: of a cheap operation in a vector, of another function, of an access to what caches hold, and to what they do not.
_CHEAP, _FUNCTION, _NEAR, _FAR = 0.015, 2.5, 0.06, 0.25
#: Bytes that caches hold, at least.
_CACHED = 1 << 21
#: Nanoseconds that a loop takes to be spread, and that a chunk takes, at least; chunks of a loop, at most.
_WORTH, _CHUNK, _MOST = 150_000, 25_000, 128
#: The initial value of a chunk's carry, by the operation of the carry.
NEUTRAL = {"add": -0.0, "and": 1.0}


@dataclass(eq=False)
class Spread:
    """A spread loop: iterations of a chunk, number of chunks, and by which operation each carry goes on."""

    size: int
    chunks: int
    operations: list


def spread(program):
    """The loops of a program that are spread: ``{id: Spread}``."""
    found = {}
    for k, statement in enumerate(program.body):
        if isinstance(statement, ir.Loop) and not statement.ragged:
            buffers = {buffer for inner in ir.walk(statement.body) for buffer, *_ in ir.touched(inner)}
            held = sum(buffer.nbytes for buffer in buffers if buffer.within is not statement)
            taken = _nanoseconds(statement, _NEAR if held < _CACHED else _FAR)
            chunks = min(int(taken / _CHUNK), _MOST, statement.extent)
            if chunks > 1 and taken >= _WORTH:
                operations = operations_of(statement, program.body[k + 1 :])
                if operations is not None and _apart(statement):
                    size = -(-statement.extent // chunks)
                    found[id(statement)] = Spread(size, -(-statement.extent // size), operations)
    return found


def _nanoseconds(statement, access):
    """The cost of a statement, given that of an access to memory."""
    if isinstance(statement, ir.Loop):
        return statement.total * sum(_nanoseconds(inner, access) for inner in statement.body)
    if isinstance(statement, ir.Let):
        return sum(_CHEAP if node.op in ir.CHEAP else _FUNCTION for node in ir.nodes(statement.expr) if node.op not in ("arg", "const"))
    return access


def operations_of(loop, after=()):
    """The operation of each carry, or None if one has none, or if statements after the loop read anything but its result."""
    statements = list(ir.walk(loop.body))
    if any(isinstance(s, (ir.Guard, ir.Run)) or isinstance(s, ir.Loop) and s.ragged for s in statements):
        return None
    readers = {}
    for statement in [*statements, loop]:
        for value in ir.operands(statement):
            readers.setdefault(id(value), []).append(statement)
    operations = [_operation(carry, loop, readers) for carry in loop.carries]
    results = {id(carry.next) for carry in loop.carries}
    inside = {id(s) for s in ir.own([loop])} - results
    read = {id(value) for statement in ir.walk(after) for value in ir.operands(statement)}
    # Two carries that become the same value would both begin with a part of it.
    return None if None in operations or inside & read or len(results) < len(loop.carries) else operations


def _operation(carry, loop, readers):
    """The operation of a carry: the carry is one operand of its next value, and used nowhere else; None otherwise."""
    if not carry.reorder or carry.next.char != carry.char:
        return None
    value, operation = carry, None
    while True:
        if len(readers.get(id(value), ())) != 1:
            return None
        (reader,) = readers[id(value)]
        if reader is loop:
            return operation if value is carry.next and value is not carry else None
        if isinstance(reader, ir.Let):
            step = _step(reader.expr, value)
            if step is None or operation not in (None, step) or value is carry.next:
                return None
            value, operation = reader, step
        elif isinstance(reader, ir.Loop):
            # It goes on as a carry of an inner loop, and then as what that becomes.
            inner = [c for c in reader.carries if value in (c.init, c.next)]
            step = _operation(inner[0], reader, {**readers, id(inner[0].next): [reader]}) if len(inner) == 1 else None
            if step is None or operation not in (None, step):
                return None
            value, operation = inner[0].next, step
            readers = {**readers, id(value): [r for r in readers[id(value)] if r is not reader]}
        else:
            return None


def _step(expr, value):
    """The operation if an expression is `value` and others joined by one, with `value` once; else None."""
    operation = None
    while not (expr.op == "arg" and expr.args[0] is value):
        if expr.op not in NEUTRAL or operation not in (None, expr.op):
            return None
        operation, sides = expr.op, [a for a in expr.args if any(n.op == "arg" and n.args[0] is value for n in ir.nodes(a))]
        if len(sides) != 1:
            return None
        expr = sides[0]
    return operation


def _apart(loop):
    """Whether no iteration reads or writes an element that another one writes; what each has for itself does not count."""
    places = {}
    for statement in ir.walk(loop.body):
        for buffer, index, stores in ir.touched(statement):
            if buffer.within is not loop:
                places.setdefault(buffer, []).append((index, stores))
    return all(apart([index for index, _ in touched], loop) for touched in places.values() if any(stores for _, stores in touched))

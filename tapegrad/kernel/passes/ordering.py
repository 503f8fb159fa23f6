"""In a small program gradients come before values.

A caller that goes on with the gradient, as an optimiser does, waits for it; the value it
only keeps.  But a sum that a loop adds up is a long chain of additions, and if it
stands first, no store of the gradient leaves the processor before the chain is through.
So in a program that LLVM writes out without loops (`SMALL`) what only values need goes to the end.

::

    for i in range(9) with a0 from 0.0:        for i in range(9):
        ...                                        ...
        a2 = a0 + a1 * a1                          y1[-i + 8] = ...     the gradient
        next a0 = a2                           for i in range(9) with a0 from 0.0:
    y0[0] = a2                                     ...
    for i in range(9):                             a2 = a0 + a1 * a1
        ...                                        next a0 = a2
        y1[-i + 8] = ...                       y0[0] = a2               the value

"""

from __future__ import annotations

from .. import ir
from ..cut import costs
from .rewriting import written

#: Cost of a loop, all iterations together, up to which LLVM writes it out.
SMALL = 240


def order(program):
    """Put what outputs marked `finite`, the gradients, need before all else, in place."""
    if not any(buffer.finite for buffer in program.outputs) or not _small(program):
        return program
    first, last, wanted = [], [], set()
    for top in reversed(program.body):
        inside = list(ir.walk([top]))
        if any(isinstance(s, ir.Store) and s.buffer.finite for s in inside) or not wanted.isdisjoint(ir.own([top])):
            first.append(top)
            wanted.update(value for statement in inside for value in ir.operands(statement))
        else:
            last.append(top)
    # What is written by both might be written twice, in this order.
    if not written(first) & written(last):
        program.body = first[::-1] + last[::-1]
    return program


def _small(program):
    """Whether all is written out, and memory only gives inputs and takes outputs."""
    cost = costs(program.body)
    for top in program.body:
        if isinstance(top, ir.Loop) and (top.ragged or cost[id(top)] * top.extent > SMALL):
            return False
    for statement in ir.walk(program.body):
        if isinstance(statement, ir.Run) or isinstance(statement, ir.Guard) and statement.early:
            return False
        if isinstance(statement, ir.Load) and statement.buffer.role not in (ir.INPUT, ir.CONSTANT):
            return False
        if isinstance(statement, ir.Store) and statement.buffer.role != ir.OUTPUT:
            return False
    return True


"""Passes that know what the outputs are: symmetric matrices are computed by half, and gradients come before values.

`halve` cuts matrix products short whose result is known to be symmetric, and copies what they leave out.

The outputs of the program, side by side, are the matrix: output k has all its rows and some of its
columns.  A product of two matrices that is only ever an addend of outputs, element by element, need not be computed
far above the diagonal: its rows are cut into blocks, and of each only the columns up to
its last row are computed.  At the end what is above the diagonal blocks is copied from below.
What was not computed is whatever was in memory before; it goes nowhere but to elements that
are written over.  In three blocks of rows, # computed and < copied from below the diagonal::

    # < <
    # # <
    # # #

`TapeKernel` calls `halve` for the rows of a Hessian (`CompileOptions.symmetric`): its columns are found by
tangents of the gradient, whose products of matrices are of this kind.

`order` puts gradients before values in a small program.  A caller that goes on with the gradient, as an optimiser does, waits
for it; the value it only keeps.  But a sum that a loop adds up is a long chain of additions, and if it stands first, no store of
the gradient leaves the processor before the chain is through. So in a program that LLVM writes out without loops (`SMALL`) what
only values need goes to the end.

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

import itertools
import math

from ...common.reached import reached
from .. import ir
from ..arrays_planner import part, strides
from ..cut import costs
from .statements import written

#: Blocks of rows, at most, and rows of one, at least.
BLOCKS, LEAST = 8, 32
#: Multiplications from which on a product is worth it.
WORTH = 1 << 20


def halve(program):
    """Halve the work of making the outputs of `program`, a symmetric matrix, in place."""
    rows = math.isqrt(sum(b.size for b in program.outputs))
    if rows < 2 * LEAST or sum(b.size for b in program.outputs) != rows * rows or any(b.size % rows for b in program.outputs):
        return program
    # Of each output the columns that it has: their number, and how many are left of it.
    counts = [buffer.size // rows for buffer in program.outputs]
    parts = list(zip(program.outputs, counts, itertools.accumulate(counts, initial=0)))
    goes = _Destinations(program)
    products = {}
    for run in [s for s in program.body if isinstance(s, ir.Run) and s.product is not None]:
        target = goes.of(run)
        products.update((run, (count, left)) for output, count, left in parts if output is target and _fills(run, rows, count))
    if not products or not all(goes.ends(b) for b in program.outputs):
        return program
    size = max(LEAST, -(-rows // BLOCKS))
    edges = [(start, min(start + size, rows)) for start in range(0, rows, size)]
    body = []
    for statement in program.body:
        if statement in products:
            count, left = products[statement]
            body += [part(statement, start, stop, min(count, stop - left)) for start, stop in edges if stop > left]
        else:
            body.append(statement)
    for (start, stop), one, other in itertools.product(edges[1:], parts, parts):
        body += _mirrored(one, other, start, stop)
    program.body = body
    return program


def _fills(run, rows, columns):
    """Whether a product is a matrix of this shape, row by row, and large."""
    m, k, n = run.product
    _, buffer, index = next(operand for operand in run.operands if operand[1] in run.writes)
    laid_out = strides(run)[4:] == [columns, 1] and index.same(ir.Index())
    return (m, n) == (rows, columns) and laid_out and m * k * n >= WORTH and buffer.size == rows * columns


def _mirrored(one, other, start, stop):
    """Loops that copy the rows from `start` to `stop` of `one`, as far as they are left of `start`, to the columns of `other`."""
    (source, width, before), (target, count, left) = one, other
    first, last = max(start, left), min(stop, left + count)
    across, down = min(width, start - before), last - first
    if across <= 0 or down <= 0:
        return []
    outer, inner = ir.Loop(across), ir.Loop(down)
    load = ir.Load(source, ir.Index(first * width, ((outer, 1), (inner, width))))
    inner.body = [load, ir.Store(target, ir.Index(before * count + first - left, ((outer, count), (inner, 1))), load)]
    outer.body = [inner]
    return [outer]


class _Destinations:
    """Where what is read from memory goes."""

    def __init__(self, program):
        self.users, self.loads, self.writers, self.read = {}, {}, {}, set()
        for statement in ir.walk(program.body):
            for value in ir.operands(statement):
                self.users.setdefault(value, []).append(statement)
            for buffer, index, stores in ir.touched(statement):
                if stores or index is not None:
                    (self.writers if stores else self.loads).setdefault(buffer, []).append(statement)
                else:
                    self.read.add(buffer)

    def of(self, run):
        """The output to whose same elements all goes that `run` writes; None if there is no such one."""
        (buffer,) = run.writes
        if buffer in self.read or self.writers[buffer] != [run] and buffer.role != ir.OUTPUT:
            return None
        targets = {target for load in self.loads.get(buffer, ()) for target in self._targets(load)}
        if buffer.role == ir.OUTPUT:
            targets.add(buffer)
        return targets.pop() if len(targets) == 1 else None

    def ends(self, buffer):
        """Whether an output is read for nothing but its own same elements."""
        return buffer not in self.read and all(self._targets(load) == {buffer} for load in self.loads.get(buffer, ()))

    def _targets(self, load):
        """The outputs to whose element of the same number the value of `load` goes; None among them for anything else."""

        def target(user, value):
            fits = isinstance(user, ir.Store) and user.value is value and user.index.plus is not value
            return user.buffer if fits and user.buffer.role == ir.OUTPUT and user.index.same(load.index) else None

        values = reached([load], lambda value: [user for user in self.users.get(value, ()) if isinstance(user, ir.Let)])
        return {target(user, value) for value in values for user in self.users.get(value, ()) if not isinstance(user, ir.Let)}


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
    roles = {ir.Load: (ir.INPUT, ir.CONSTANT), ir.Store: (ir.OUTPUT,)}
    for statement in ir.walk(program.body):
        if isinstance(statement, ir.Run) or isinstance(statement, ir.Guard) and statement.early:
            return False
        if type(statement) in roles and statement.buffer.role not in roles[type(statement)]:
            return False
    return True

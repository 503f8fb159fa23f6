"""Iterations are written out: at the ends of neighbouring loops of nearly equal extent, which become one, and of short loops.

A loop over n elements and one over the n - 1 differences of neighbours, or a window of an array and its
neighbour, ``y[:-1]`` and ``y[1:]``, cannot be one loop as they are: the extents differ, or the second reads
what the first stores one iteration later.  But iteration i of the second can be beside iteration i + k of the
first.  What has no partner then, at the beginning of the first loop and at the end of one of them, is written
out beside the loops (*peeled*), and what is left is of equal extent::

    for i in range(n):                         y[0] = ...
        y[i] = ...                             for i in range(n - 1):
    for i in range(n):                             y[i + 1] = ...
        y[i + 1] = y[i + 1] + ...              for i in range(n - 1):
                                                   y[i + 1] = y[i + 1] + ...
                                               y[n] = y[n] + ...

Nothing is moved: all iterations are executed in the order in which they were.  Whether the rests may become one
loop is for `fusing` to find out.

`unroll` writes out short loops over elements that a constant table names, so that it is known what these elements are::

    for i in range(2):                         a2 = x0[5]
        a0 = c0[i]                             y0[0] = a2
        a1 = x0[a0]                            a3 = x0[3]
        y0[i] = a1                             y0[1] = a3

So what was stored before may be what is loaded, and stores wait for no others.
"""

import numpy as np

from .. import ir
from .fusing import accesses, fuse, operations_of, shifts
from .rewriting import Copying, resolve
from .simplifying import simplify

#: Iterations that are peeled at one end, at most.
MOST = 2
#: Iterations of a loop, at least.
LONG = 32
#: Statements of a loop, at most.
LENGTH = 200
#: How often loops that are one already may meet others.
ROUNDS = 4


def peel(program):
    """Peel iterations of loops of `program`, in place, and fuse what meets; returns whether there was anything."""
    new = {}
    if not _peeled(program.body, new):
        return False
    simplify(program, new)
    fuse(program)
    return True


def _peeled(body, new):
    changed, before, parts = False, None, {}
    for statement in body:
        if not isinstance(statement, ir.Loop):
            continue
        changed |= _peeled(statement.body, new)
        if not _plain(statement):
            before = None
            continue
        apart = None if before is None else _apart(before, statement)
        if apart is None:
            before = statement
            continue
        extent = min(before.extent - apart, statement.extent)
        parts[before], parts[statement] = _cut(before, apart, extent, new), _cut(statement, 0, extent, new)
        # A loop is peeled once.
        before = None
    if parts:
        body[:] = [part for statement in body for part in parts.get(statement, (statement,))]
    return changed or bool(parts)


def _plain(loop):
    """Whether a loop can be peeled, and another could join it."""
    fits = not loop.ragged and loop.extent >= LONG and len(loop.body) <= LENGTH and all(carry.reorder for carry in loop.carries)
    return fits and not any(isinstance(s, (ir.Loop, ir.Run, ir.Guard)) for s in loop.body)


def _apart(first, second):
    """By how many iterations `first` has to be ahead for them to be one loop; None if they cannot be, or are best left alone."""
    if abs(first.extent - second.extent) > MOST:
        return None
    own = ir.own([first])
    if any(not own.isdisjoint(ir.operands(statement)) for statement in ir.walk([second])):
        return None
    touched, shared, met = {}, False, set()
    for buffer, index, stores in accesses(first.body):
        touched.setdefault(buffer, []).append((index, stores))
    for buffer, index, stores in accesses(second.body):
        for other, wrote in touched.get(buffer, ()):
            shared = True
            if stores or wrote:
                shift = shifts(other, first, index, second, ())
                if shift[0] <= shift[1]:
                    met.update(shift)
    apart = max(0, *met) if met else 0
    if not shared or apart > MOST or apart == 0 and first.extent == second.extent:
        return None
    if met - {apart} and not ir.CHEAP.issuperset(operations_of([*first.body, *second.body])):
        # Iterations would wait for one another, and what is dear could not be vectorised.
        return None
    return apart


def _cut(loop, start, extent, new):
    """The first `start` iterations of `loop` by themselves, a loop over `extent` iterations, and the others by themselves."""
    copying, result = Copying(new), []
    now = copying.iterations(loop, range(start), [resolve(carry.init, new) for carry in loop.carries], result)
    result.append(copying.loop(loop, extent, start, now))
    copying.iterations(loop, range(start + extent, loop.extent), [carry.next for carry in result[-1].carries], result)
    new.update(copying.copies)
    return result


#: Statements that a loop becomes, at most.
UNROLLED = 128


def unroll(program):
    """Unroll such loops of `program`, in place; returns what stands for their values (`simplify`)."""
    new, body = {}, []
    for statement in program.body:
        if not _unrolls(statement):
            body.append(statement)
            continue
        copying, straight = Copying(new), []
        copying.iterations(statement, range(statement.extent), [], straight)
        for part in straight:
            if _named(part) and not part.index.plus.index.steps:
                named = part.index.plus
                part.index = ir.Index(part.index.base + int(np.ravel(named.buffer.data)[named.index.base]))
        body += straight
        new.update(copying.copies)
    program.body = body
    return new


def _unrolls(loop):
    small = isinstance(loop, ir.Loop) and not loop.ragged and not loop.carries and loop.extent * len(loop.body) <= UNROLLED
    return small and all(isinstance(s, (ir.Load, ir.Store)) for s in loop.body) and any(map(_named, loop.body))


def _named(statement):
    """Whether the element is that which a constant, which stays what it is, has the number of."""
    index, plus = statement.index, statement.index.plus
    if index.table is not None or not isinstance(plus, ir.Load) or plus.buffer.role != ir.CONSTANT or plus.buffer.data.flags.writeable:
        return False
    return plus.index.table is None and plus.index.plus is None

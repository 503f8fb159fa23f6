"""Loops over several rows become a loop for each row, where others go over one.

Arrays of few long rows, ``(11, n)``, bring three kinds of loops: over a row, over
windows of several rows, which count through (fills, copies), and nests of one over the other.
None of them has the extent of another, so none joins another (`fusing`), and what
one stores for the next goes through memory.  Here

    a nest whose outer loop is short   is written out: its inner loops, one after the other
    a short loop that counts through   several times a length that others have is cut at its multiples
    short loops inside a long one      are written out, too, so that each element is known by itself, if elements of
                                       the long one lie side by side

but only if another loop of the same body goes along one such row of an array that they touch.
With n = 1000::

    for i in range(2000):                      for i in range(1000):
        t0[i] = 0.0                                t0[i] = 0.0
    for i in range(1000):                      for i in range(1000):
        t0[i + 1000] = a0                          t0[i + 1000] = 0.0
                                               for i in range(1000):
                                                   t0[i + 1000] = a0

Nothing is moved: statements are executed in the order in which they were.
"""

from __future__ import annotations

from .. import ir
from .rewriting import Copying, resolve

#: Rows, at most.
ROWS = 16
#: Iterations of a row, at least.
LONG = 32
#: Statements that a loop may become.
MOST = 200
#: Statements of a loop that is cut, at most: fills and copies, and little more.
FEW = 8


def split(program):
    """Split loops of `program`, in place.

    Returns
    -------
    dict or None
        Replacements of values, to be given to `simplify`; None if nothing was split.
    """
    new = {}
    return new if _split(program.body, new) else None


def _split(body, new):
    changed = False
    for statement in body:
        if isinstance(statement, ir.Loop):
            changed |= _split(statement.body, new)
    # What was split may show that others should be.
    while True:
        rows = _rows(body)
        parts = {s: _parts(s, rows, new) for s in body if rows and isinstance(s, ir.Loop) and not s.ragged}
        if not any(parts.values()):
            return changed
        changed = True
        body[:] = [part for statement in body for part in parts.get(statement) or [statement]]


def _rows(body):
    """For buffers the extents of loops that go along a part of them."""
    rows = {}
    for loop in body:
        if isinstance(loop, ir.Loop) and not loop.ragged and loop.extent >= LONG:
            for statement in loop.body:
                if isinstance(statement, (ir.Load, ir.Store)) and statement.buffer.size > loop.extent:
                    if statement.index.table is None and statement.index.steps in (((loop, 1),), ((loop, -1),)):
                        rows.setdefault(statement.buffer, set()).add(loop.extent)
    return rows


def _parts(loop, rows, new):
    """What `loop` becomes, or None."""
    inside = list(ir.walk(loop.body))
    if any(isinstance(s, ir.Run) or isinstance(s, ir.Loop) and s.ragged for s in inside):
        return None
    inner = [s for s in loop.body if isinstance(s, ir.Loop)]
    touched = {s.buffer for s in inside if isinstance(s, (ir.Load, ir.Store))}
    lengths = set().union(*(rows.get(buffer, ()) for buffer in touched))
    if not inner:
        length = max((n for n in lengths if loop.extent % n == 0 and 1 < loop.extent // n <= ROWS), default=None)
        return None if length is None or len(inside) > FEW else _cut(loop, length, new)
    if loop.extent <= ROWS and len(inside) * loop.extent <= MOST and all(s.extent in lengths for s in inner):
        return _each(loop, new)
    short = all(s.extent <= ROWS for s in inside if isinstance(s, ir.Loop))
    if loop.extent in lengths and short and _along(loop, inner) and _written_size(loop.body) <= MOST:
        loop.body = _without_loops(loop.body, new)
        return [loop]
    return None


def _along(loop, inner):
    """Whether what `inner` loops touch lies side by side in the iterations of `loop`; else they may be the better vectors."""
    accesses = (s for s in ir.walk(inner) if isinstance(s, (ir.Load, ir.Store)))
    return all(abs(dict(s.index.steps).get(loop, 0)) <= 1 for s in accesses)


def _written_size(body):
    return sum(s.extent * _written_size(s.body) if isinstance(s, ir.Loop) else 1 for s in body)


def _without_loops(body, new):
    """`body` with its loops written out."""
    result = []
    for statement in body:
        if isinstance(statement, ir.Loop):
            copying = Copying(new)
            result += copying.written_out(statement)
            new.update(copying.copies)
        else:
            result.append(statement)
    return result


def _each(loop, new):
    """The iterations of `loop`, one after the other; loops inside stay loops."""
    copying, result = Copying(new), []
    copying.iterations(loop, range(loop.extent), [resolve(carry.init, new) for carry in loop.carries], result)
    new.update(copying.copies)
    return result


def _cut(loop, length, new):
    """Loops of `length` iterations each that are `loop` together."""
    copying, result, now = Copying(new), [], None
    for first in range(0, loop.extent, length):
        result.append(copying.loop(loop, length, first, now))
        now = [carry.next for carry in result[-1].carries]
    new.update(copying.copies)
    return result

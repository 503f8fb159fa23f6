"""Homes: where values live that are read in other iterations, or in other loops.

A stored template has one element (an array: one row) for each execution.  Homes
that one operand reads in turn are parts of one buffer, a *pool*; what the operand
reads from outside lies before them, copied at the beginning.  Of ``a, b = u, v`` and then five times
``a, b = b, f(a)`` the operand of f reads u, v, and then what f gave two iterations ago::

    element    0    1    2     3     4     5     6          f in iteration i reads element i, and stores element i + 2
    t0         u    v    f(u)  f(v)  ...
               copied    the home of f

Without the pool its first two reads and the others would be different operands, and the loop could not be one.
`build` calls `lay_out` before anything else.
"""

from __future__ import annotations

import numpy as np

from . import ir
from .columns import ARGUMENT, ARRAY, distinct
from .copies import pieces
from .reasons import NotLowered

#: Bytes that homes may take together.
MOST = 1 << 30


def lay_out(builder):
    """Give every stored template its home, and every `Pooled` its spot.

    Parameters
    ----------
    builder : build._Builder
        Its program gets the copies of what pools hold from outside.
    """
    references = builder.references
    stored = [builder.meta(t).nbytes * len(t.members) for t in references.templates if t.stored]
    if sum(stored) > MOST:
        raise NotLowered(f"values that are needed later take {sum(stored) >> 20} MiB")
    group = {}

    def find(number):
        while group.setdefault(number, number) != number:
            number = group[number]
        return number

    owned = {what: distinct(what.owners) for what in references.pooled}
    for owners in owned.values():
        first = find(int(owners[-1]))
        for number in owners.tolist():
            group[find(number)] = first
    pools = {}
    for number in sorted(group):
        pools.setdefault(find(number), []).append(number)
    offsets = {}
    for members in pools.values():
        _pool(builder, members, offsets)
    for t in references.templates:
        if t.stored and t.home is None:
            meta = builder.meta(t)
            t.home = ir.Buffer(ir.TEMPORARY, len(t.members) * meta.size, meta.char)
    for what, owners in owned.items():
        t = references.templates[owners[-1]]
        bases = np.array([offsets[number] for number in owners.tolist()], np.int64)
        elements = bases[np.searchsorted(owners, what.owners)] + what.ranks * builder.meta(t).size
        what.pool, what.spot = t.home, what.body.fit(elements, references.tables)


def _pool(builder, members, offsets):
    """One buffer for the templates and outside references `members`, ascending."""
    references = builder.references
    templates = [references.templates[number] for number in members if number >= 0]
    outside = [number for number in members if number < 0]
    meta = builder.meta(templates[0])
    buffer = ir.Buffer(ir.TEMPORARY, 0, meta.char)
    for number in reversed(outside):
        offsets[number] = buffer.size
        buffer.size += meta.size
    for t in templates:
        t.home, t.offset = buffer, buffer.size
        offsets[t.number] = buffer.size
        buffer.size += len(t.members) * meta.size
    refs = np.array(outside[::-1], np.int64)
    if not len(refs):
        return
    if builder.columns.kind[-1 - refs[0]] in (ARGUMENT, ARRAY):
        for r in refs.tolist():
            builder.bring(builder.outside(r), builder.row(buffer, offsets[r], meta))
    else:
        builder.copy(pieces(references, refs), (buffer, 0))

"""Spill buffers: where values live that are read in other iterations, or in other loops.

A stored template has one element (an array: one row) for each execution.  Homes
that one operand reads in turn are parts of one buffer, a *pool*; what the operand
reads from outside lies before them, copied at the beginning.  Of ``a, b = u, v`` and then five times
``a, b = b, f(a)`` the operand of f reads u, v, and then what f gave two iterations ago::

    element    0    1    2     3     4     5     6          f in iteration i reads element i, and stores element i + 2
    t0         u    v    f(u)  f(v)  ...
               copied    the spill buffer of f

Without the pool its first two reads and the others would be different operands, and the loop could not be one.
`build` calls `lay_out` before anything else.
"""

from __future__ import annotations

import numpy as np

from . import ir
from .columns import ARGUMENT, ARRAY, distinct, joined
from .reasons import NotLowered

#: Bytes that spill buffers may take together.
MOST = 1 << 30


def lay_out(builder):
    """Give every stored template its spill buffer, and every `Phi` its spot.

    Parameters
    ----------
    builder : build._Builder
        Its program gets the copies of what pools hold from outside.
    """
    references = builder.references
    stored = [builder.meta(t).nbytes * len(t.members) for t in references.templates if t.stored]
    if sum(stored) > MOST:
        raise NotLowered(f"values that are needed later take {sum(stored) >> 20} MiB")
    owned = {what: distinct(what.owners) for what in references.pooled}
    offsets, buffers = {}, {}
    for members in joined(owners.tolist() for owners in owned.values()):
        buffers |= dict.fromkeys(members, _pool(builder, members, offsets))
    for t in references.templates:
        if t.stored and t.spill is None:
            meta = builder.meta(t)
            t.spill = ir.Buffer(ir.TEMPORARY, len(t.members) * meta.size, meta.char)
    for what, owners in owned.items():
        # All of them have one description, and any may be from outside.
        meta, what.buffer = builder.meta_of_owner(int(owners[0])), buffers[int(owners[0])]
        bases = np.array([offsets[number] for number in owners.tolist()], np.int64)
        elements = bases[np.searchsorted(owners, what.owners)] + what.ranks * meta.size
        what.shape, what.spot = meta.shape, what.body.fit(elements, references.tables)


def _pool(builder, members, offsets):
    """One buffer for the templates and outside references `members`, ascending."""
    references, kind = builder.references, builder.columns.kind
    meta = builder.meta_of_owner(members[0])
    buffer = ir.Buffer(ir.TEMPORARY, 0, meta.char)
    outside = [number for number in reversed(members) if number < 0]
    whole = [number for number in outside if kind[-1 - number] in (ARGUMENT, ARRAY)]
    scalars = [number for number in outside if kind[-1 - number] not in (ARGUMENT, ARRAY)]
    for number in scalars + whole:
        offsets[number] = buffer.size
        buffer.size += meta.size
    for t in [references.templates[number] for number in members if number >= 0]:
        t.spill, t.offset = buffer, buffer.size
        offsets[t.number] = buffer.size
        buffer.size += len(t.members) * meta.size
    for number in whole:
        builder.bring(builder.value(references.single(number)), builder.row(buffer, offsets[number], meta.shape))
    if scalars:
        builder.copy(references.gathered(np.array(scalars, np.int64), references.root, 0, -1), buffer, 0)
    return buffer

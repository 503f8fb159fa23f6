"""Short loops over elements that a table names become straight statements, for which it is known what these elements are.

Where the table is a constant::

    for i in range(2):                         a2 = x0[5]
        a0 = c0[i]                             y0[0] = a2
        a1 = x0[a0]                            a3 = x0[3]
        y0[i] = a1                             y0[1] = a3

So what was stored before may be what is loaded, and stores wait for no others.
"""

from __future__ import annotations

import numpy as np

from .. import ir
from .rewriting import Copying

#: Statements that a loop becomes, at most.
MOST = 128


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
    small = isinstance(loop, ir.Loop) and not loop.ragged and not loop.carries and loop.extent * len(loop.body) <= MOST
    return small and all(isinstance(s, (ir.Load, ir.Store)) for s in loop.body) and any(map(_named, loop.body))


def _named(statement):
    """Whether the element is that which a constant, which stays what it is, has the number of."""
    index, plus = statement.index, statement.index.plus
    if index.table is not None or not isinstance(plus, ir.Load) or plus.buffer.role != ir.CONSTANT or plus.buffer.data.flags.writeable:
        return False
    return plus.index.table is None and plus.index.plus is None

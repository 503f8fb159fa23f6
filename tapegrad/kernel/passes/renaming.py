"""A temporary that is copied to an output, or to another temporary, becomes what it is copied to.

::

    for i in range(n):                         for i in range(n):
        a0 = ...                                   a0 = ...
        t0[i] = a0                                 y0[i] = a0
    for i in range(n):
        a1 = t0[i]
        y0[i] = a1

Not if the temporary is written again later, or the target is touched before.
"""

from __future__ import annotations

from collections import Counter

from .. import ir


def rename(program):
    """Let what is stored to a temporary only to be copied be stored where it is copied to, in place."""
    uses, last, first, read, readers = {}, {}, {}, {}, Counter()
    for position, top in enumerate(program.body):
        for statement in ir.walk([top]):
            readers.update(ir.operands(statement))
            for buffer, _, stores in ir.touched(statement):
                uses.setdefault(buffer, []).append(statement)
                first.setdefault(buffer, position)
                read[buffer] = position
                if stores:
                    last[buffer] = position
    kept = []
    for position, top in enumerate(program.body):
        source, target = _copied(top)
        # What goes on changing takes the place of what is not used any more.
        goes_on = source is not None and len(uses[target]) != 1
        if (
            source is None or first[target] != position or last.get(source, position) >= position or source.size != target.size
            or goes_on and read[source] > position
        ):
            kept.append(top)
            continue
        for statement in uses[source]:
            if isinstance(statement, ir.Run):
                statement.operands = [(r, target if b is source else b, i) for r, b, i in statement.operands]
                statement.reads = {target if b is source else b for b in statement.reads}
                statement.writes = {target if b is source else b for b in statement.writes}
            else:
                statement.buffer = target
        if readers[top.body[0]] > 1:
            # Others read what was copied last.
            top.body[0].index = ir.Index(top.extent - 1)
            kept.append(top.body[0])
        last[target] = max(last[source], last[target]) if goes_on else last[source]
        read[target], first[target] = max(read[source], read[target]), first[source]
        uses[target] += uses.pop(source)
    program.body = kept
    return program


def _copied(loop):
    """Temporary and what it is copied to if `loop` does nothing but copy all of one to the other."""
    if isinstance(loop, ir.Loop) and len(loop.body) == 2 and not loop.ragged and not loop.carries:
        load, store = loop.body
        if (
            isinstance(load, ir.Load)
            and isinstance(store, ir.Store)
            and store.value is load
            and load.buffer.role == ir.TEMPORARY
            and store.buffer.role in (ir.OUTPUT, ir.TEMPORARY)
            and load.buffer.char == store.buffer.char
            and load.index.same(store.index)
            and load.index.same(ir.Index(0, ((loop, 1),)))
            and loop.extent == load.buffer.size
        ):
            return load.buffer, store.buffer
    return None, None

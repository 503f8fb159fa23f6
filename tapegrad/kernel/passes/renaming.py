"""Temporaries are renamed or made smaller.

One that is copied to an output, or to another temporary, becomes what it is copied to (`rename`)::

    for i in range(n):                         for i in range(n):
        a0 = ...                                   a0 = ...
        t0[i] = a0                                 y0[i] = a0
    for i in range(n):
        a1 = t0[i]
        y0[i] = a1

Not if the temporary is written again later, or the target is touched before.

A large one of which every iteration of a loop uses a part of its own becomes as large as that part (`contract`)::

    t0: float64[1000000]                             t0: float64[50]

    for i in range(20000):                           for i in range(20000):
        for j in range(50):                              for j in range(50):
            a0 = ...                                         a0 = ...
            t0[50*i + j] = a0                                t0[j] = a0
        for j in range(50):                              for j in range(50):
            a1 = t0[50*i - j + 49]                           a1 = t0[-j + 49]

So it stays in the cache.  A loop that is spread over threads has one for each chunk (`kernel.spreading`), for which it is small
enough.
"""

from collections import Counter

from .. import ir
from .accesses import apart, span


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


#: Bytes from which on a temporary is large, and how many parts are still less than the whole: twice the chunks of a loop.
_LARGE, _PARTS = 1 << 16, 256


def contract(program):
    """Let temporaries be smaller, in place."""
    uses = {}
    for top in program.body:
        for statement in ir.walk([top]):
            for buffer, index, _ in ir.touched(statement):
                if buffer.role == ir.TEMPORARY and buffer.nbytes > _LARGE:
                    uses.setdefault(buffer, []).append((top, statement, index))
    for buffer, places in uses.items():
        loop, indices = places[0][0], [index for _, _, index in places]
        if not isinstance(loop, ir.Loop) or loop.ragged or any(top is not loop for top, _, _ in places) or not apart(indices, loop):
            continue
        spans = [span(index, (loop,)) for index in indices]
        low, high = min(s[0] for s in spans), max(s[1] for s in spans)
        if (high - low + 1) * min(loop.extent, _PARTS) < buffer.size:
            buffer.size, buffer.within = high - low + 1, loop
            for _, statement, index in places:
                statement.index = ir.Index(index.base - low, tuple(step for step in index.steps if step[0] is not loop))
    return program

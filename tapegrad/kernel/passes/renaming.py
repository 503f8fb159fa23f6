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
enough.  One that has many rows, of which only the one written last is read, has one row::

    t0: float64[50000000]                            t0: float64[1000000]

    for i in range(49):                              for i in range(49):
        for j in range(1000000):                         for j in range(1000000):
            a0 = t0[1000000*i + j]                           a0 = t0[j]
            a1 = ...                                         a1 = ...
            t0[1000000*i + j + 1000000] = a1                 t0[j] = a1

That is seen by following one column through all iterations.
"""

from collections import Counter

from .. import ir
from .statements import apart, span


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
    if isinstance(loop, ir.Loop) and [type(s) for s in loop.body] == [ir.Load, ir.Store] and not loop.ragged and not loop.carries:
        load, store = loop.body
        one, other = load.buffer, store.buffer
        renamed = one.role == ir.TEMPORARY and other.role in (ir.OUTPUT, ir.TEMPORARY) and one.char == other.char and one.size == loop.extent
        if renamed and store.value is load and load.index.same(store.index) and load.index.same(ir.Index(0, ((loop, 1),))):
            return one, other
    return None, None


#: Bytes from which on a temporary is large, and how many parts are still less than the whole: twice the chunks of a loop.
_LARGE, _PARTS = 1 << 16, 256


#: Accesses of one column that are followed, at most.
_FOLLOWED = 1 << 16


class _Column:
    """One column of a temporary of rows, followed through the program.

    Attributes
    ----------
    last : int or None
        The row that was written last.
    """

    def __init__(self, buffer, row, inside):
        self.buffer, self.row, self.inside, self.last, self.left, self.at = buffer, row, inside, None, _FOLLOWED, {}

    def follow(self, body):
        """Whether all reads are of the row that was written last."""
        for statement in body:
            if isinstance(statement, ir.Loop):
                if statement in self.inside:
                    # Of a loop over columns one iteration.
                    for k in range(1 if self.inside[statement] else statement.extent):
                        self.at[statement] = k
                        if not self.follow(statement.body):
                            return False
            elif getattr(statement, "buffer", None) is self.buffer:
                self.left -= 1
                row = (statement.index.base + sum(step * self.at[loop] for loop, step in statement.index.steps)) // self.row
                if isinstance(statement, ir.Store):
                    self.last = row
                elif row != self.last:
                    return False
                if not self.left:
                    return False
        return True


def _large(body, around, uses):
    """What touches each large temporary, in `body` and the loops in it: statements with their index and the loops around them."""
    for statement in body:
        for buffer, index, _ in ir.touched(statement):
            if buffer.role == ir.TEMPORARY and buffer.nbytes > _LARGE:
                uses.setdefault(buffer, []).append((statement, index, around))
        if isinstance(statement, ir.Loop):
            _large(statement.body, (*around, statement), uses)
    return uses


def _one_row(program):
    """Let a temporary of rows, of which only the one written last is read, have one row."""
    for buffer, uses in _large(program.body, (), {}).items():
        tops = {around[:1] for *_, around in uses}
        if len(tops) == 1 and (top := tops.pop()) and apart([index for _, index, _ in uses], *top):
            # Iterations that share nothing may be done by several threads.
            continue
        inside, rows = {}, set()
        for statement, index, around in uses:
            simple = index is not None and index.table is None and index.plus is None and isinstance(statement, (ir.Load, ir.Store))
            columns = [loop for loop, step in index.steps if step == 1] if simple else []
            if len(columns) != 1 or any(loop.ragged for loop in around):
                break
            row = columns[0].extent
            rows.add(row)
            if len(rows) > 1 or any(step % row for loop, step in index.steps if loop is not columns[0]) or index.base % row:
                break
            inside.update((loop, loop is columns[0] or inside.get(loop, False)) for loop in around)
        else:
            (row,) = rows
            if buffer.size > row and _Column(buffer, row, inside).follow(program.body):
                buffer.size = row
                for statement, index, _ in uses:
                    statement.index = ir.Index(0, tuple(step for step in index.steps if step[1] == 1))


def contract(program):
    """Let temporaries be smaller, in place."""
    for buffer, uses in _large(program.body, (), {}).items():
        tops, indices = {around[:1] for *_, around in uses}, [index for _, index, _ in uses]
        (loop,) = tops.pop() if len(tops) == 1 and () not in tops else (None,)
        if loop is None or loop.ragged or not apart(indices, loop):
            continue
        spans = [span(index, (loop,)) for index in indices]
        low, high = min(s[0] for s in spans), max(s[1] for s in spans)
        if (high - low + 1) * min(loop.extent, _PARTS) < buffer.size:
            buffer.size, buffer.within = high - low + 1, loop
            for statement, index, _ in uses:
                statement.index = ir.Index(index.base - low, tuple(step for step in index.steps if step[0] is not loop))
    _one_row(program)
    return program

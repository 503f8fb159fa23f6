"""Small changes to statements that the passes share: other operands, other counters, copies.

No pass itself.  Values are replaced through a dict `new`, whose replacements may be replaced in turn (`resolve`);
counters through a dict `loops` from a loop to ``(other, factor, offset)`` (`reindexed`).
"""

from __future__ import annotations

from collections import ChainMap

from ...common.errors import require
from ...rules import lang as L
from .. import ir


def resolve(value, new):
    """What `value` is by now, `new` being replacements by replacements."""
    while value in new:
        value = new[value]
    return value


def rebuilt(expr, leaf):
    """`expr` with each of its operands v replaced by the expression ``leaf(v)``; exact simplifications are made."""
    done = {}
    for node in ir.nodes(expr):
        if node.op == "const":
            result = node
        elif node.op == "arg":
            result = leaf(node.args[0])
        else:
            args = tuple(done[id(arg)] for arg in node.args)
            same = all(one is two for one, two in zip(args, node.args))
            result = node if same else L.simplify(node.op, args)
        done[id(node)] = result
    return done[id(expr)]


def reindexed(index, new=None, loops=None):
    """`index` with `plus` resolved, and with counters of other loops.

    Parameters
    ----------
    new : dict, optional
        Replacements of values.
    loops : dict, optional
        For each loop whose counter is another's: the triple (other loop or None, factor, offset) by which
        ``counter = factor * other + offset``.
    """
    plus = index.plus
    if plus is not None and new:
        plus = resolve(plus, new)
    if not loops or not any(loop in loops for loop, _ in index.steps):
        return index if plus is index.plus else ir.Index(index.base, index.steps, index.table, plus)
    base, steps = index.base, {}
    for loop, step in index.steps:
        other, factor, offset = loops.get(loop, (loop, 1, 0))
        base += step * offset
        if other is not None:
            steps[other] = steps.get(other, 0) + step * factor
    return ir.Index(base, tuple((loop, step) for loop, step in steps.items() if step), index.table, plus)


def reindex(body, loops):
    """Replace counters in all of `body`, in place (see `reindexed`)."""
    for statement in ir.walk(body):
        if isinstance(statement, (ir.Load, ir.Store)):
            statement.index = reindexed(statement.index, loops=loops)
        elif isinstance(statement, ir.Guard):
            if not isinstance(statement.number, int):
                statement.number = reindexed(statement.number, loops=loops)
        elif isinstance(statement, ir.Run):
            statement.operands = [(r, b, reindexed(index, loops=loops)) for r, b, index in statement.operands]
            if statement.integer is not None:
                statement.integer = reindexed(statement.integer, loops=loops)
        elif isinstance(statement, ir.Loop) and statement.which is not None:
            statement.which = reindexed(statement.which, loops=loops)


def written(body):
    """Buffers that `body` writes."""
    buffers = set()
    for statement in ir.walk(body):
        if isinstance(statement, ir.Store):
            buffers.add(statement.buffer)
        elif isinstance(statement, ir.Run):
            buffers |= statement.writes
    return buffers


class Copying:
    """Copies of statements, among which are no ragged loop and no `Run`.

    Parameters
    ----------
    new : dict
        Values that others stand for already.

    Attributes
    ----------
    copies : dict
        Values, and the last copies of them.
    loops : dict
        Counters that stand for others (see `reindexed`).
    """

    def __init__(self, new):
        self.copies, self.loops = {}, {}
        self.new = ChainMap(self.copies, new)

    def body(self, body, flat=False):
        """Copies of the statements of `body`; if `flat`, its loops are written out."""
        result = []
        for statement in body:
            if isinstance(statement, ir.Loop):
                result += self.written_out(statement) if flat else [self.loop(statement, statement.extent)]
                continue
            copy = self.single(statement)
            result.append(copy)
            if isinstance(statement, ir.Value):
                self.copies[statement] = copy
        return result

    def single(self, statement):
        """A copy of a statement that is not a loop."""
        new = self.new
        if isinstance(statement, ir.Let):
            return ir.Let(rebuilt(statement.expr, lambda value: L.arg(resolve(value, new))), statement.char)
        if isinstance(statement, ir.Load):
            return ir.Load(statement.buffer, reindexed(statement.index, new, self.loops))
        if isinstance(statement, ir.Store):
            return ir.Store(statement.buffer, reindexed(statement.index, new, self.loops), resolve(statement.value, new))
        require(isinstance(statement, ir.Guard), f"a statement of another kind: {statement}")
        number = statement.number if isinstance(statement.number, int) else reindexed(statement.number, new, self.loops)
        seen = resolve(statement.seen, new) if isinstance(statement.seen, ir.Load) else statement.seen
        return ir.Guard(number, resolve(statement.value, new), seen, statement.early)

    def loop(self, loop, extent, first=0, inits=None):
        """A loop over `extent` iterations of `loop`, from `first` on."""
        inits = [carry.init for carry in loop.carries] if inits is None else inits
        copy = ir.Loop(extent)
        copy.carries = [ir.Carry(resolve(init, self.new), reorder=c.reorder) for c, init in zip(loop.carries, inits)]
        self.copies.update(zip(loop.carries, copy.carries))
        self.loops[loop] = copy, 1, first
        copy.body = self.body(loop.body)
        for carry, own in zip(loop.carries, copy.carries):
            own.next = resolve(carry.next, self.new)
        return copy

    def written_out(self, loop):
        """All iterations of `loop`, and of the loops in it, one after the other."""
        result = []
        self.iterations(loop, range(loop.extent), [resolve(carry.init, self.new) for carry in loop.carries], result, flat=True)
        return result

    def iterations(self, loop, numbers, now, result, flat=False):
        """Append the iterations `numbers` of `loop` to `result`.

        `now` are the values of its carries before them; returns those after them.
        """
        for k in numbers:
            self.copies.update(zip(loop.carries, now))
            self.loops[loop] = None, 1, k
            result += self.body(loop.body, flat)
            now = [resolve(carry.next, self.new) for carry in loop.carries]
        return now

"""Small changes to statements that the passes share: other operands, other counters.

No pass itself.  Values are replaced through a dict `new`, whose replacements may be replaced in turn (`resolve`);
counters through a dict `loops` from a loop to ``(other, factor, offset)`` (`reindexed`).
"""

from collections import ChainMap
from copy import copy

from ...rules import lang as L
from .. import ir


def resolve(value, new):
    """What `value` is by now, `new` being replacements by replacements."""
    while value in new:
        value = new[value]
    return value


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


def rewrite(statement, new, loops=None):
    """Let a statement use other values and counters, in place; a loop, where it begins and what it goes on with.

    `new` and `loops` are as those of `reindexed`.
    """
    if isinstance(statement, ir.Let):
        if new:
            statement.expr = L.rewritten(statement.expr, lambda value: L.arg(resolve(value, new)))
    elif isinstance(statement, (ir.Load, ir.Store)):
        statement.index = reindexed(statement.index, new, loops)
        if isinstance(statement, ir.Store):
            statement.value = resolve(statement.value, new)
    elif isinstance(statement, ir.Guard):
        statement.value = resolve(statement.value, new)
        if not isinstance(statement.number, int):
            statement.number = reindexed(statement.number, new, loops)
    elif isinstance(statement, ir.Run):
        statement.operands = [(register, buffer, reindexed(index, new, loops)) for register, buffer, index in statement.operands]
    else:
        if statement.which is not None:
            statement.which = reindexed(statement.which, new, loops)
        for carry in statement.carries:
            carry.init, carry.next = resolve(carry.init, new), resolve(carry.next, new)


def written(body):
    """Buffers that `body` writes."""
    return {buffer for statement in ir.walk(body) for buffer, _, stores in ir.touched(statement) if stores}


class Copying:
    """Copies of what is in a loop that has no guards and no loops inside.

    Parameters
    ----------
    new : dict
        Values that others stand for already.

    Attributes
    ----------
    copies : dict
        Values, and the last copies of them.
    """

    def __init__(self, new):
        self.copies = {}
        self.new = ChainMap(self.copies, new)

    def body(self, loop, counter):
        """Copies of the statements of `loop`; `counter` as in `reindexed`."""
        result = []
        for statement in loop.body:
            result.append(copy(statement))
            rewrite(result[-1], self.new, {loop: counter})
            self.copies[statement] = result[-1]
        return result

    def loop(self, loop, extent, first, inits):
        """A loop over `extent` iterations of `loop`, from `first` on."""
        other = ir.Loop(extent)
        other.carries = [ir.Carry(resolve(init, self.new), reorder=c.reorder) for c, init in zip(loop.carries, inits)]
        self.copies.update(zip(loop.carries, other.carries))
        other.body = self.body(loop, (other, 1, first))
        for carry, own in zip(loop.carries, other.carries):
            own.next = resolve(carry.next, self.new)
        return other

    def iterations(self, loop, numbers, now, result):
        """Append the iterations `numbers` of `loop` to `result`; `now` are the values of its carries before them."""
        for k in numbers:
            self.copies.update(zip(loop.carries, now))
            result += self.body(loop, (None, 1, k))
            now = [resolve(carry.next, self.new) for carry in loop.carries]
        return now

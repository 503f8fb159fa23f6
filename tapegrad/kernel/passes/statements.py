"""What the passes share, no pass itself: which elements statements touch, and small changes to statements.

`simplifying` knows by a `Memory` which element holds which value, `fusing` asks for `span`,
`renaming.contract` and `kernel.spreading` whether iterations are `apart`.

Values are replaced through a dict `new`, whose replacements may be replaced in turn (`resolve`);
counters through a dict `loops` from a loop to ``(other, factor, offset)`` (`reindexed`).
"""

from collections import ChainMap
from copy import copy

import numpy as np

from ...rules import lang as L
from .. import ir


def form(index):
    """What indices have in common that differ at most in `base`."""
    table = None if index.table is None else id(index.table)
    return frozenset(index.steps), table, index.plus


def span(index, without=()):
    """Least and greatest element named by `index`, the counters of loops in `without` being 0; None if unknown."""
    if index.plus is not None:
        return None
    low = high = index.base
    for loop, step in index.steps:
        if loop not in without:
            most = step * (loop.total - 1)
            low, high = low + min(most, 0), high + max(most, 0)
    if index.table is not None:
        part = index.table[max(low, 0) : high + 1]
        return int(np.min(part)), int(np.max(part))
    return low, high


def apart(indices, loop):
    """Whether by these indices (None: all elements), taken together, no iteration of a loop names an element that another one names.

    So it is if all go forward by the same step, and within an iteration stay inside of that step.
    """
    if any(index is None or index.table is not None or index.plus is not None for index in indices):
        return False
    steps, spans = {dict(index.steps).get(loop, 0) for index in indices}, [span(index, (loop,)) for index in indices]
    return len(steps) == 1 and max(high for _, high in spans) - min(low for low, _ in spans) < abs(*steps)


#: Single elements of a buffer that are told apart when a loop writes some.
SINGLE = 32


class Memory:
    """Values of elements, as known at one place of a body.

    Elements are grouped by the form of their index; within a group different bases are different elements,
    unless the index goes through a table.
    """

    def __init__(self):
        self.groups = {}

    def get(self, buffer, index):
        """The value of an element, or None."""
        groups = self.groups.get(buffer)
        if not groups:
            return None
        group = groups.get(form(index))
        return None if group is None else group.get(index.base, (None, None))[1]

    def put(self, buffer, index, value):
        """Remember the value of an element."""
        groups = self.groups.setdefault(buffer, {})
        groups.setdefault(form(index), {})[index.base] = index, value

    def store(self, buffer, index):
        """Something is written to an element (None: to any): forget what may be the same one."""
        groups = self.groups.get(buffer)
        if not groups:
            return
        if index is None:
            groups.clear()
            return
        own = form(index)
        there = span(index)
        for key, group in list(groups.items()):
            if key == own and index.table is None:
                group.pop(index.base, None)
            elif there is None or not group or key[1] is not None or key[2] is not None:
                del groups[key]
            elif not key[0] and len(group) <= SINGLE:
                for base in [base for base in group if there[0] <= base <= there[1]]:
                    del group[base]
            else:
                first, last = span(group[min(group)][0]), span(group[max(group)][0])
                if there[0] <= last[1] and first[0] <= there[1]:
                    del groups[key]


# ---- changes ------------------------------------------------------------------------------


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

"""In a small program gradients come before values.

A caller that goes on with the gradient, as an optimiser does, waits for it; the value it
only keeps.  But a sum that a loop adds up is a long chain of additions, and if it
stands first, no store of the gradient leaves the processor before the chain is through.
So in a program that LLVM writes out without loops (`SMALL`) what only values need goes to the end.

The loop forward often ends with what the way back begins with.  Where that is not a
carried value it is computed again outside of the loop: once loops are
written out LLVM sees that both are one, so nothing is computed twice::

    for i in range(9) with a0 from 0.0:        for i in range(9):
        a1 = x0[i]                                 a3 = x0[i]
        a2 = a0 + a1 * a1                          y1[i] = 2.0 * a3     the gradient
        next a0 = a2                           for i in range(9) with a0 from 0.0:
    y0[0] = a2                                     ...
    for i in range(9):                         y0[0] = a2               the value
        a3 = x0[i]
        y1[i] = 2.0 * a3
"""

from __future__ import annotations

from ...rules import lang as L
from .. import ir
from ..cut import costs
from .rewriting import rebuilt, reindexed, resolve, written

#: Cost of a loop, all iterations together, up to which LLVM writes it out.
SMALL = 240
#: Statements, at most, for one value of a last iteration.
MOST = 12


def order(program):
    """Put what outputs marked `finite`, the gradients, need before all else, in place."""
    if _small(program):
        _Ordering(program).run()
    return program


def _small(program):
    """Whether all is written out, and memory only gives inputs and takes outputs."""
    cost = costs(program.body)
    for top in program.body:
        if isinstance(top, ir.Loop) and (top.ragged or cost[id(top)] * top.extent > SMALL):
            return False
    for statement in ir.walk(program.body):
        if isinstance(statement, ir.Run) or isinstance(statement, ir.Guard) and statement.early:
            return False
        if isinstance(statement, ir.Load) and statement.buffer.role not in (ir.INPUT, ir.CONSTANT):
            return False
        if isinstance(statement, ir.Store) and statement.buffer.role != ir.OUTPUT:
            return False
    return True


class _Ordering:
    """One walk from the end to the beginning: what comes is urgent if a gradient is stored in it, or if what is urgent uses it.

    Attributes
    ----------
    wanted : set of Value
        Used by urgent statements.
    copies : dict
        Loop -> {value of its last iteration: the same, computed outside}, in the order of computation.
    """

    def __init__(self, program):
        self.program = program
        self.wanted, self.copies = set(), {}

    def run(self):
        body = self.program.body
        urgent = {top for top in reversed(body) if self.decided(top)}
        moved = [top for top in body if top not in urgent]
        # What is written by both might be written twice, in this order.
        if body[len(urgent) :] == moved or written(list(urgent)) & written(moved):
            return
        new = {value: made for made_of in self.copies.values() for value, made in made_of.items()}
        first = []
        for top in body:
            for each in [top] if top in urgent else self.copies.get(top, {}).values():
                _replace(each, new)
                first.append(each)
        self.program.body = first + moved

    def decided(self, top):
        """Whether a statement of the outermost body is urgent; notes what it needs."""
        inside = list(ir.walk([top]))
        if not any(isinstance(s, ir.Store) and s.buffer.finite for s in inside):
            if not isinstance(top, ir.Loop):
                if top not in self.wanted:
                    return False
            elif not self.wanted.intersection([*inside, *_carries(inside)]) or self.last(top):
                return False
        for statement in inside:
            self.wanted.update(ir.operands(statement))
        for carry in _carries(inside):
            self.wanted |= {carry.init, carry.next}
        return True

    def last(self, loop):
        """Compute what is wanted of the last iteration of `loop` outside of it; whether that can be done."""
        own, made = set(loop.body), {}
        inside = list(ir.walk([loop]))
        within = {*inside, *_carries(inside)}
        if self.wanted & (within - own):
            return False

        def value(wanted):
            if wanted not in within:
                return wanted
            copy = made.get(wanted)
            if copy is None:
                if wanted not in own or len(made) == MOST:
                    raise _Stays
                if isinstance(wanted, ir.Load) and wanted.index.plus is None:
                    copy = ir.Load(wanted.buffer, reindexed(wanted.index, loops={loop: (None, 0, loop.extent - 1)}))
                elif isinstance(wanted, ir.Let):
                    copy = ir.Let(rebuilt(wanted.expr, lambda operand: L.arg(value(operand))), wanted.char)
                else:
                    raise _Stays
                made[wanted] = copy
            return copy

        try:
            for each in loop.body:
                if each in self.wanted:
                    value(each)
        except _Stays:
            return False
        for each in made.values():
            self.wanted.update(ir.operands(each))
        self.copies[loop] = made
        return True


class _Stays(Exception):
    """A value that only its loop can compute."""


def _carries(statements):
    return [carry for loop in statements if isinstance(loop, ir.Loop) for carry in loop.carries]


def _replace(top, new):
    """Let `top` use other values, in place."""
    for statement in ir.walk([top]):
        if isinstance(statement, ir.Loop):
            for carry in statement.carries:
                carry.init, carry.next = resolve(carry.init, new), resolve(carry.next, new)
        elif isinstance(statement, ir.Let):
            statement.expr = rebuilt(statement.expr, lambda value: L.arg(resolve(value, new)))
        elif isinstance(statement, ir.Guard):
            statement.value = resolve(statement.value, new)
            if isinstance(statement.seen, ir.Load):
                statement.seen = resolve(statement.seen, new)
            if not isinstance(statement.number, int):
                statement.number = reindexed(statement.number, new)
        else:
            statement.index = reindexed(statement.index, new)
            if isinstance(statement, ir.Store):
                statement.value = resolve(statement.value, new)

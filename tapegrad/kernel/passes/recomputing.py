"""Values computed again where they are used, rather than stored and loaded.

A typical case is the forward part of a derivative: a loop stores intermediate
results that the loop of the adjoint part loads.  Where such a value is a few
cheap operations away from what that loop can load anyway (inputs, constants,
and temporaries that stay), the operations are repeated there, and if that holds
for all loads of the temporary, it is gone.

::

    for i in range(n):                         for i in range(n):
        a0 = x0[i]                                 a0 = x0[i]
        a1 = a0 * a0                               a1 = a0 * a0
        t0[i] = a1                                 t0[i] = a1           (not read: left to `prune`)
        ...                                        ...
    for i in range(n):                         for i in range(n):
        a2 = t0[-i + n - 1]                        a2 = x0[-i + n - 1]
        ...                                        a3 = a2 * a2
                                                   ...

Temporaries are decided in the order in which the storing loop computes them, so
that what is found out about one serves those after it: in a step of an
integrator it is enough to keep the state.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...rules import lang as L
from .. import ir
from .statements import reindexed

#: New operations and loads, at most, for one load saved.
MOST = 6

#: Iterations outside of the storing loop, at most, that are checked to compute the same.
PEELED = 4


@dataclass(eq=False)
class _Temporary:
    """How a temporary is used: the store in a loop, stores outside of loops, and loads with their loops."""

    store: ir.Store | None = None
    loop: ir.Loop | None = None
    position: int = -1
    single: list = field(default_factory=list)
    loads: list = field(default_factory=list)
    odd: bool = False

    @property
    def step(self):
        return self.store.index.steps[0][1]


class _NotWorthwhile(Exception):
    """It does not pay, or cannot be done."""


def recompute(program):
    """Recompute what is cheap.

    Returns
    -------
    dict
        Replacements of loads, to be given to `simplify`.
    """
    return _Recomputing(program).run()


class _Recomputing:
    def __init__(self, program):
        self.program = program
        self.temporaries, self.homes, self.kept, self.gone = {}, {}, set(), set()
        self.new, self.copies, self.inserted = {}, {}, {}
        #: Of statements at the top their position; of those in loops the loop at the top (None: in one inside of it), and their place there.
        self.position, self.owner, self.rank = {statement: position for position, statement in enumerate(program.body)}, {}, {}
        for statement, position in self.position.items():
            self.scan([statement], None, position, 0)

    def scan(self, body, loop, position, depth):
        for rank, statement in enumerate(body):
            if isinstance(statement, ir.Loop):
                self.owner.update(dict.fromkeys(statement.carries, None if depth else statement))
                self.scan(statement.body, loop or statement, position, depth + 1)
                continue
            if depth:
                self.owner[statement], self.rank[statement] = loop if depth == 1 else None, rank
            self.touch(statement, loop, position, depth)

    def touch(self, statement, loop, position, depth):
        for buffer, index, stores in ir.touched(statement):
            if buffer.role != ir.TEMPORARY:
                continue
            about = self.temporaries.setdefault(buffer, _Temporary())
            simple = index is not None and index.table is None and index.plus is None
            if not simple or depth > 1 or loop is not None and loop.ragged:
                about.odd = True
            elif not stores:
                about.loads.append((statement, loop, position))
            elif loop is None:
                about.single.append((statement, position))
            elif about.store is not None or len(index.steps) != 1:
                about.odd = True
            else:
                about.store, about.loop, about.position = statement, loop, position
                self.homes.setdefault(statement.value, statement)

    def usable(self, buffer):
        """Whether elements are written once, by one loop and some single stores."""
        about = self.temporaries[buffer]
        if about.odd or about.store is None:
            return False
        at = [divmod(store.index.base - about.store.index.base, about.step) for store, _ in about.single]
        return not any(rest == 0 and 0 <= k < about.loop.extent for k, rest in at)

    # -- one temporary after the other --------------------------------------------------
    def run(self):
        usable = [buffer for buffer in self.temporaries if self.usable(buffer)]
        self.usable_buffers = set(usable)
        usable.sort(key=lambda b: (self.temporaries[b].position, self.rank.get(self.temporaries[b].store.value, -1)))
        for buffer in usable:
            if buffer in self.kept or not self.temporaries[buffer].loads:
                continue
            tried = _Trial(self)
            try:
                loads = self.temporaries[buffer].loads
                values = {load: self.again(load, loop, position, buffer, tried) for load, loop, position in loads}
            except _NotWorthwhile:
                self.kept.add(buffer)
                continue
            self.new.update(values)
            self.gone.add(buffer)
            tried.accept()
        body = []
        for position, statement in enumerate(self.program.body):
            if statement in self.inserted:
                statement.body[:0] = self.inserted[statement]
            body += [*self.inserted.get(position, ()), statement]
        self.program.body = body
        return self.new

    def again(self, load, loop, position, buffer, tried):
        """The value of `load`, computed where it stands."""
        about = self.temporaries[buffer]
        source = about.loop
        if position <= about.position:
            raise _NotWorthwhile
        steps = dict(load.index.steps)
        own = steps.pop(loop, 0)
        offset = load.index.base - about.store.index.base
        if steps or offset % about.step or own % about.step:
            raise _NotWorthwhile
        factor, offset = own // about.step, offset // about.step
        ends = {offset, offset + factor * (loop.extent - 1 if loop is not None else 0)}
        outside = [*range(min(ends), 0), *range(max(source.extent, min(ends)), max(ends) + 1)]
        if len(outside) > PEELED:
            raise _NotWorthwhile
        for k in outside:
            self.alike(about, k, position)
        where = loop if loop is not None else position
        tried.begin(source, where, (loop, factor, offset), not outside)
        return tried.value(about.store.value, allowed=False)

    def alike(self, about, k, position):
        """Check that the element of iteration k, outside of the loop, is what the loop would have computed."""
        element = about.store.index.base + k * about.step
        store, stored = next((pair for pair in about.single if pair[0].index.base == element), (None, None))
        if store is None or stored > position or not self.matches(about.store.value, store.value, about.loop, k):
            raise _NotWorthwhile

    def matches(self, value, other, loop, k):
        """Whether `value` in iteration k of `loop` is computed as `other` is."""
        if self.owner.get(value) is not loop or value is other:
            return value is other and self.owner.get(value) is not loop
        if isinstance(value, ir.Load) and isinstance(other, ir.Load):
            same = value.buffer is other.buffer and value.buffer.role in (ir.INPUT, ir.CONSTANT)
            return same and reindexed(value.index, loops={loop: (None, 0, k)}).same(other.index)

        def alike(one, two):
            if one.op != two.op or one.op == "const":
                return one.op == two.op and one.args == two.args
            return all((self.matches(x, y, loop, k) if one.op == "arg" else alike(x, y)) for x, y in zip(one.args, two.args))

        lets = isinstance(value, ir.Let) and isinstance(other, ir.Let)
        return lets and value.char == other.char and alike(value.expr, other.expr)


class _Trial:
    """Copies made for one temporary, kept only if all of its loads can do without it."""

    def __init__(self, work):
        self.work = work
        self.made = {}
        self.statements = []
        self.used = set()

    def begin(self, source, where, counter, homes):
        """Copies are made for `where`; `homes`: whether other temporaries have the elements that may be asked for."""
        self.source, self.where, self.counter, self.homes = source, where, counter, homes
        self.left = MOST

    def accept(self):
        self.work.copies.update(self.made)
        self.work.kept |= self.used
        for where, statement in self.statements:
            self.work.inserted.setdefault(where, []).append(statement)

    def add(self, key, statement):
        self.made[key], statement.slot = statement, key[0].slot
        self.statements.append((self.where, statement))
        return statement

    def spend(self, amount):
        self.left -= amount
        if self.left < 0:
            raise _NotWorthwhile

    def value(self, value, allowed=True):
        """A copy of `value` of the storing loop; from its home in memory only if `allowed`."""
        work, source = self.work, self.source
        owner = work.owner.get(value, False)
        if owner is not source:
            # Something computed before the storing loop; what is inside of other loops of it cannot be had.
            if owner is None or work.position.get(owner if owner else value, 0) > work.position[source]:
                raise _NotWorthwhile
            return value
        key = value, self.where, self.counter, self.homes
        copy = self.made.get(key) or work.copies.get(key)
        if copy is not None:
            return copy
        home = self.home(value)
        if allowed and self.homes and home is not None:
            buffer, index = home
            self.spend(1)
            self.used.add(buffer)
            return self.add(key, ir.Load(buffer, reindexed(index, loops={source: self.counter})))
        if isinstance(value, ir.Load) and value.buffer.role in (ir.INPUT, ir.CONSTANT) and value.index.plus is None:
            self.spend(1)
            return self.add(key, ir.Load(value.buffer, reindexed(value.index, loops={source: self.counter})))
        if not isinstance(value, ir.Let):
            raise _NotWorthwhile
        operations = [node.op for node in ir.nodes(value.expr)]
        if not ir.CHEAP.issuperset(operations):
            raise _NotWorthwhile
        self.spend(sum(op not in ("arg", "const") for op in operations))
        expr = L.rewritten(value.expr, lambda operand: L.arg(self.value(operand)))
        return self.add(key, ir.Let(expr, value.char))

    def home(self, value):
        """Buffer and index at which `value` can be loaded, if it stays in memory."""
        work, carried = self.work, isinstance(value, ir.Carry)
        store = work.homes.get(value.next if carried else value)
        if store is None or store.buffer in work.gone or store.buffer not in work.usable_buffers:
            return None
        index, about = store.index, work.temporaries[store.buffer]
        if carried:
            # In the first iteration it is what was stored before the loop.
            index = ir.Index(index.base - index.steps[0][1], index.steps)
            if [(s.value, position < about.position) for s, position in about.single if s.index.base == index.base] != [(value.init, True)]:
                return None
        return store.buffer, index

"""Loop programs made at random, in which every value is used where it may be."""

import numpy as np

from tapegrad.kernel import ir
from tapegrad.rules import lang as L
from tests.kernel.programs import Writer, a, at, constant, temporary

_UNARY = [L.exp, L.sin, L.sqrt, L.abs, L.sign, L.sigmoid, lambda x: -x, lambda x: 1.0 - x, lambda x: x * 0.25]
_BINARY = [lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: L.select(x < y, x, y), L.arctan2]
_SIZE = 24


class _Maker:
    """Writes one program; `values` are those that may be used at this point."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.w = Writer()
        w, rng = self.w, self.rng
        self.sources = [w.input(_SIZE), w.input(_SIZE, "f"), w.input(_SIZE, "?"), constant(rng.normal(size=_SIZE))]
        self.small = w.input(_SIZE, "q")
        self.outputs = [w.output(_SIZE), w.output(_SIZE, "f"), w.output(_SIZE, "q")]
        self.scratch = [temporary(_SIZE), temporary(_SIZE), temporary(_SIZE, "f")]
        w.zero(*self.outputs, *self.scratch)
        self.values, self.loops, self.budget = [w.let(0.5), w.let(2.0, "f")], [], 60

    def pick(self, things):
        return things[self.rng.integers(len(things))]

    def number(self):
        return self.pick([v for v in self.values if v.char in "df"][-8:])

    def index(self, computed=True):
        """An element of a buffer: a fixed one, one by the counters, one by a table, or one by a loaded number."""
        chosen = [loop for loop in self.loops if self.rng.random() < 0.7]
        steps, base, top = [], 0, 0
        for loop in chosen:
            room = (_SIZE - 1 - top) // max(1, loop.total - 1)
            step = int(self.rng.integers(0, min(room, 3) + 1))
            if step:
                reach = step * (loop.total - 1)
                top += reach
                if self.rng.random() < 0.3:
                    base, step = base + reach, -step
                steps.append((loop, step))
        table, plus = self.rng.permutation(_SIZE) if self.rng.random() < 0.2 else None, None
        if computed and self.rng.random() < 0.15 and top < _SIZE - 3:
            # The numbers are at most 2.
            plus, top = self.w.add(ir.Load(self.small, self.index(False))), top + 2
            table = None if table is None else np.minimum(table, _SIZE - 3)
        base += int(self.rng.integers(0, _SIZE - top))
        return ir.Index(base, tuple(steps), table, plus)

    def body(self, depth):
        known = len(self.values)
        for _ in range(self.rng.integers(2, 7)):
            self.budget -= 1
            kind = self.rng.random()
            if kind < 0.25:
                buffer = self.pick([*self.sources, *self.scratch, self.outputs[0]])
                self.values.append(self.w.add(ir.Load(buffer, self.index())))
            elif kind < 0.6:
                self.let()
            elif kind < 0.78:
                self.w.add(ir.Store(self.pick([*self.scratch, *self.outputs]), self.index(), self.number()))
            elif kind < 0.83:
                condition = self.w.let(a(self.number()) > float(self.rng.normal()) - 1.0, "?")
                self.values.append(condition)
                self.w.guard(condition, bool(self.rng.random() < 0.97), early=bool(self.rng.random() < 0.2))
            elif kind < 0.86:
                # Some number of guard for each iteration, and what was seen loaded from memory: the value itself.
                seen = self.w.add(ir.Load(self.sources[0], ir.Index(3)))
                again = self.w.add(ir.Load(self.sources[0], ir.Index(3 if self.rng.random() < 0.98 else 4)))
                guard = self.w.guard(again, seen)
                guard.number = self.index(False)
            elif depth < 3 and self.budget > 0:
                self.loop(depth)
        if depth:
            # Now and then what was computed in a loop is used after it.
            kept = self.values[-1:] if self.rng.random() < 0.5 else []
            self.values[known:] = kept if len(self.values) > known else []

    def let(self):
        char = "d" if self.rng.random() < 0.75 else "f"
        if self.rng.random() < 0.5:
            expr = self.pick(_UNARY)(a(self.number()))
        else:
            expr = self.pick(_BINARY)(a(self.number()), a(self.number()))
        # Bounded, so that conversions to integers have a meaning.
        self.values.append(self.w.let(L.select(L.abs(expr) < 1e3, expr, 0.5), char))

    def loop(self, depth):
        rng = self.rng
        extent, which = int(rng.integers(1, 5)), None
        if self.loops and not self.loops[-1].ragged and len(self.loops) == 1 and rng.random() < 0.4:
            extent, which = rng.integers(1, 4, self.loops[-1].extent), at(0, (self.loops[-1], 1))
        inits = [self.pick([v for v in self.values if v.char in "df"]) for _ in range(rng.integers(0, 3))]
        with self.w.loop(extent, *inits, which=which) as loop:
            self.loops.append(loop)
            self.values += loop.carries
            self.body(depth + 1)
            for carry in loop.carries:
                same = [v for v in self.values if v.char == carry.char]
                carry.next = self.pick(same)
            self.loops.pop()


def program(seed):
    """The program of a seed."""
    maker = _Maker(seed)
    while maker.budget > 0:
        maker.body(0)
    return maker.w.program()


def arguments(seed):
    """Inputs of all programs."""
    rng = np.random.default_rng(1000 + seed)
    return rng.normal(size=_SIZE), rng.normal(size=_SIZE).astype("f"), rng.random(_SIZE) < 0.5, rng.integers(0, 3, _SIZE)

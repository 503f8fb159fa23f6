"""Random loop programs, and a comparison of what they compute before and after a pass."""

import copy

import numpy as np

from tapegrad.kernel import ir
from tapegrad.rules import lang as L
from tests.kernel.interpret import interpret
from tests.kernel.programs import Writer, a, constant

SIZE = 24


class Generated:
    """A random program: loops of few different extents over shared buffers, nests, carries, guards, scalars."""

    extents = [1, 6, 6, 6, 6, 6, 7]
    #: Coefficients of the counters of loops around the innermost.
    outer_steps = [1, 0, 2]

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.w = w = Writer()
        self.inputs = [w.input(SIZE) for _ in range(2)]
        self.outputs = [w.output(SIZE) for _ in range(3)]
        self.temporaries = [ir.Buffer(ir.TEMPORARY, SIZE) for _ in range(2)]
        w.zero(self.outputs[0], *self.temporaries)
        self.constants = [constant(self.random.normal(size=SIZE))]
        self.tables = [self.random.permutation(SIZE), self.random.integers(0, SIZE, SIZE)]
        self.scalars = [w.load(self.inputs[0], 3), w.let(1.5)]
        for _ in range(int(self.random.integers(3, 14))):
            if self.random.random() < 0.3:
                self.statement(self.scalars, [])
            else:
                self.loop(list(self.scalars), [])
        # What temporaries hold shows in the end, mostly.
        for output, temporary in zip(self.outputs[1:], self.temporaries[: 1 + (self.random.random() < 0.7)]):
            with w.loop(SIZE) as loop:
                w.store(w.load(temporary, 0, (loop, 1)), output, 0, (loop, 1))
        for k, value in enumerate(self.scalars[:SIZE]):
            w.store(value, self.outputs[0], k)
        self.program = w.program()

    def pick(self, values):
        return values[int(self.random.integers(len(values)))]

    def loop(self, values, around):
        w, draw = self.w, self.random
        carries = int(draw.integers(0, 3)) if draw.random() < 0.2 else 0
        extent = self.pick(self.extents)
        which = None
        if draw.random() < 0.1 and not around:
            extent, which = np.array([int(draw.integers(1, 7))]), ir.Index()
        with w.loop(extent, *[self.pick(values) for _ in range(carries)], which=which) as loop:
            inside = values + loop.carries
            for _ in range(int(draw.integers(2, 8) if draw.random() < 0.9 else 20)):
                if len(around) < 2 and draw.random() < 0.15:
                    self.loop(inside, [*around, loop])
                else:
                    self.statement(inside, [*around, loop])
            for carry in loop.carries:
                carry.next = self.pick(inside)
        # Values of the last iteration.
        self.scalars += inside[-1:] if not around else []

    def index(self, around):
        """Base, steps and table of an element within every buffer."""
        draw = self.random
        steps, low, high = [], 0, 0
        for loop in around:
            step = int(draw.choice([1, 1, 1, 1, -1, 2, 0])) if loop is around[-1] else int(draw.choice(self.outer_steps))
            most = step * (loop.total - 1)
            if step and high + max(most, 0) - low - min(most, 0) < SIZE:
                steps.append((loop, step))
                low, high = low + min(most, 0), high + max(most, 0)
        # Bases near each other, so that accesses meet.
        base = min(-low + self.offset(), SIZE - 1 - high)
        return base, tuple(steps), self.pick(self.tables) if draw.random() < 0.1 else None

    def offset(self):
        """Where accesses begin."""
        return int(self.random.integers(0, 3))

    def statement(self, values, around):
        w, draw = self.w, self.random
        kind = draw.random()
        base, steps, table = self.index(around)
        if kind < 0.4:
            buffer = self.pick(self.inputs + 3 * self.temporaries + self.outputs[:1] + self.constants)
            values.append(w.load(buffer, base, *steps, table=table))
        elif kind < 0.6:
            x, y = a(self.pick(values)), a(self.pick(values))
            expr = self.pick([0.5 * x + 0.25 * y, 0.5 * (x - y), L.select(x < y, x, 0.5 * y), 1.0 * x, L.sin(x), -x])
            values.append(w.let(expr))
        elif kind < 0.97:
            w.store(self.pick(values), self.pick(self.temporaries * 3 + self.outputs[:1]), base, *steps, table=table)
        else:
            early = draw.random() < 0.3
            w.guard(w.let(L.ne(a(self.pick(values)), L.Expr.lift(1e9)), "?"), early=bool(early))


class Rows(Generated):
    """A random program on arrays of rows of six: loops over a row, over several, and over windows that are one shorter."""

    extents = [2, 3, 6, 6, 6, 6, 5, 5, 12, 18]
    outer_steps = [6, 6, 1, 0]

    def offset(self):
        return 6 * int(self.random.integers(0, 4)) + int(self.random.random() < 0.2)


class Windows:
    """A random program of loops over windows of few arrays, ``y[:-1]``, ``y[1:]`` and the whole, in place.

    Each loop computes from elements near its own, stores to one or two, and may add up a sum.
    """

    def __init__(self, seed):
        self.random = draw = np.random.default_rng(seed)
        self.w = w = Writer()
        inputs = [w.input(SIZE) for _ in range(2)]
        outputs = [w.output(SIZE) for _ in range(2)]
        temporaries = [ir.Buffer(ir.TEMPORARY, SIZE) for _ in range(2)]
        sums, written = w.output(SIZE), []
        w.zero(*outputs, *temporaries, sums)
        extents = [SIZE - 1, SIZE - 1, SIZE - 1, SIZE - 2, SIZE]
        for number in range(int(draw.integers(2, 7))):
            extent = int(draw.choice(extents))
            adds = draw.random() < 0.3
            with w.loop(extent, *[w.let(0.5)] * adds, reorder=True) as i:
                at = lambda: (int(draw.integers(0, SIZE - extent + 1)), (i, 1))
                value = a(w.load(inputs[int(draw.integers(2))], *at()))
                for _ in range(int(draw.integers(0, 3))):
                    sources = inputs + 2 * (written or inputs)
                    value = a(w.let(0.5 * value + 0.25 * a(w.load(sources[int(draw.integers(len(sources)))], *at()))))
                for _ in range(int(draw.integers(1, 3))):
                    target, place = (outputs + temporaries)[int(draw.integers(4))], at()
                    if draw.random() < 0.5:
                        value = a(w.let(a(w.load(target, *place)) + value))
                    w.store(w.let(value), target, *place)
                    written.append(target)
                for carry in i.carries:
                    carry.next = w.let(a(carry) + value)
            for carry in i.carries:
                w.store(carry.next, sums, number)
        for output, temporary in zip(outputs, temporaries):
            with w.loop(SIZE) as i:
                both = w.let(a(w.load(output, 0, (i, 1))) + 2.0 * a(w.load(temporary, 0, (i, 1))))
                w.store(both, output, 0, (i, 1))
        self.program = w.program()


def results(program, seed):
    """Status and outputs of the interpreter."""
    random = np.random.default_rng(seed)
    inputs = [random.normal(size=b.size) for b in program.inputs]
    outputs = [np.full(b.size, 7.0) for b in program.outputs]
    return interpret(program, inputs, outputs), outputs


def unchanged(program, change, seed=0, **tolerance):
    """Assert that `change` leaves what `program` computes; returns the changed program."""
    return unchanged_by_each(program, [change], seed, **tolerance)[0]


def unchanged_by_each(program, changes, seed=0, **tolerance):
    """The same of several changes, each of the program as it was."""
    expected, before = results(program, seed)
    programs = []
    for change in changes:
        programs.append(change(copy.deepcopy(program)))
        found, after = results(programs[-1], seed)
        assert found == expected, change.__name__
        for one, two in zip(after, before):
            np.testing.assert_allclose(one, two, **(tolerance or {"rtol": 0.0}), err_msg=change.__name__)
    return programs

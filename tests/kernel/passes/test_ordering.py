"""Gradients before values, in programs that are written out without loops."""

import re

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.kernel import ir
from tapegrad.kernel.passes.halving import order
from tapegrad.rules import lang as L
from tests.kernel.passes.generated import unchanged
from tests.kernel.programs import Writer, a


def rosenbrock(x):
    total = 0.0
    for i in range(len(x) - 1):
        total = total + 100.0 * (x[i + 1] - x[i] * x[i]) ** 2 + (1.0 - x[i]) ** 2
    return total


def places(program):
    """For each output in turn, the places in the outermost body of statements that store to it."""
    return [
        [k for k, top in enumerate(program.body) for s in ir.walk([top]) if isinstance(s, ir.Store) and s.buffer is buffer]
        for buffer in program.outputs
    ]


def operations(kernel):
    """Floating point operations in the machine code of a kernel."""
    return len(re.findall(r"= f(?:add|sub|mul|div|neg) ", kernel.llvm()))


def chain(extent=5, last=None, carried=False, guard=False):
    """A sum of squares in a loop, and after it a gradient that needs what `last` makes of the last element, or the sum."""
    w = Writer()
    x, y, g = w.input(extent), w.output(1), w.output(extent, finite=True)
    with w.loop(extent, w.let(0.0)) as i:
        element = w.load(x, 0, (i, 1))
        seen = element if last is None else last(w, element)
        i.carries[0].next = w.let(a(i.carries[0]) + a(element) * a(seen))
        if guard:
            w.guard(w.let(a(element) < 100.0, "?"))
    w.store(i.carries[0].next, y)
    end = w.load(x, extent - 1)
    begin = w.let(a(end if last is None else last(w, end)) + (a(i.carries[0].next) if carried else 1.0))
    with w.loop(extent, begin) as j:
        w.store(j.carries[0], g, extent - 1, (j, -1))
        j.carries[0].next = w.let(2.0 * a(w.load(x, extent - 1, (j, -1))) - a(j.carries[0]))
    return w.program()


def loops(program):
    return [k for k, top in enumerate(program.body) if isinstance(top, ir.Loop)]


@pytest.mark.parametrize("last", [None, lambda w, e: w.let(a(w.let(3.0 * a(e))) - a(e))], ids=["loaded", "computed"])
@pytest.mark.parametrize("guard", [False, True])
def test_the_value_comes_last(last, guard):
    program = unchanged(chain(last=last, guard=guard), order)
    value, gradient = places(program)
    first, second = loops(program)
    assert gradient == [first] and first < second < min(value)


def test_what_needs_the_sum_waits_for_it():
    program = unchanged(chain(carried=True), order)
    assert places(program)[1] == loops(program)[1:]


@pytest.mark.parametrize("extent", [5, 200])
def test_other_programs_stay_as_they_are(extent):
    program = chain(extent)
    # Small, but of no gradient; or too large.
    program.outputs[1].finite = extent == 200
    before = list(program.body)
    assert order(program).body == before


def test_memory_keeps_its_order():
    w = Writer()
    x, y, g, t = w.input(2), w.output(1), w.output(1, finite=True), ir.Buffer(ir.TEMPORARY, 1)
    w.store(w.load(x), y)
    w.store(w.load(x, 1), t)
    w.store(w.load(t), g)
    program = w.program()
    before = list(program.body)
    assert order(program).body == before


def drawn(seed, size=6):
    """Loops and single statements over inputs and outputs, some of these gradients; values of last iterations are used."""
    random = np.random.default_rng(seed)
    pick = lambda values: values[int(random.integers(len(values)))]
    w = Writer()
    x, outputs = w.input(size), [w.output(size, finite=bool(k % 2)) for k in range(4)]
    values, places = [w.load(x), w.let(1.5)], [iter(range(size)) for _ in outputs]

    def statement(values, *step):
        kind = random.random()
        if kind < 0.25:
            values.append(w.load(x, 0, *step))
        elif kind < 0.9:
            u, v = a(pick(values)), a(pick(values))
            values.append(w.let(pick([0.5 * u + 0.25 * v, 0.5 * (u - v), L.select(u < v, u, 0.5 * v), L.sin(u)])))
        else:
            w.guard(w.let(L.ne(a(pick(values)), L.Expr.lift(1e9)), "?"))

    def store(values):
        k = int(random.integers(4))
        at = next(places[k], None)
        if at is not None:
            w.store(pick(values), outputs[k], at)

    for _ in range(int(random.integers(2, 6))):
        for _ in range(int(random.integers(0, 4))):
            statement(values)
        store(values)
        with w.loop(size, *[pick(values) for _ in range(int(random.integers(0, 3)))]) as loop:
            inside = values + loop.carries
            for _ in range(int(random.integers(1, 6))):
                statement(inside, (loop, 1))
            if random.random() < 0.2:
                with w.loop(2, pick(inside)) as nested:
                    deep = inside + nested.carries
                    statement(deep, (loop, 1))
                    nested.carries[0].next = deep[-1]
                inside.append(deep[-1])
            if random.random() < 0.4:
                w.store(pick(inside), pick(outputs), 0, (loop, 1))
            for carry in loop.carries:
                carry.next = pick(inside)
        values += inside[len(values) + len(loop.carries) :][-2:] + loop.carries[:1]
    store(values)
    return w.program()


def test_random_programs_compute_the_same():
    moved = copied = 0
    for seed in range(150):
        program = drawn(seed)
        before = len(program.body), [s for top in program.body for s in ir.walk([top]) if isinstance(s, ir.Store)]
        after = unchanged(program, order)
        moved += [s.buffer.number for s in ir.walk(after.body) if isinstance(s, ir.Store)] != [s.buffer.number for s in before[1]]
        copied += len(after.body) > before[0]
    assert moved > 20 and copied == 0


def test_nothing_is_computed_twice(monkeypatch):
    """Machine code of Rosenbrock's function has as many operations in both orders, and the value is its last part."""
    new = tg.compile(rosenbrock, np.zeros(10)).kernel
    monkeypatch.setattr("tapegrad.kernel.kernel.order", lambda program: program)
    old = tg.compile(rosenbrock, np.zeros(10)).kernel
    for kernel, ordered in (new, True), (old, False):
        value, gradient = places(kernel.program)
        assert (max(gradient) < min(value)) == ordered
    assert operations(new) <= operations(old)

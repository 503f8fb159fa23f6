"""Which loops become one."""

import copy
import sys

import numpy as np
import pytest

from tapegrad.kernel import ir
from tapegrad.kernel.passes import run_passes
from tapegrad.kernel.passes.fusing import fuse, in_order
from tapegrad.rules import lang as L
from tests.kernel.passes.generated import unchanged
from tests.kernel.programs import Writer, a, at

N = 10


def loops(program):
    return sum(isinstance(statement, ir.Loop) for statement in ir.walk(program.body))


def chain(*shifts, make=lambda u: 2.0 * u):
    """Loops each of which reads what the one before it stored, `shift` elements further."""
    w = Writer()
    source, y = w.input(N + 4), w.output(N + 4)
    for shift in shifts:
        target = w.output(N + 4)
        with w.loop(N) as i:
            w.store(w.let(make(a(w.load(source, 2 + shift, (i, 1))))), target, 2, (i, 1))
        source = target
    with w.loop(N + 4) as i:
        w.store(w.load(source, 0, (i, 1)), y, 0, (i, 1))
    return w.program()


@pytest.mark.parametrize("shifts, expected", [((0, 0, 0, 0), 1), ((1, 0, 0), 1), ((0, 1), 2), ((0, 0, 2, 0), 2), ((0, -1), 1)])
def test_what_was_stored_in_the_same_iteration_or_before(shifts, expected):
    program = unchanged(chain(*shifts), fuse)
    assert loops(program) == expected + 1


def test_serial_loops_read_what_was_stored_before():
    """What a sum reads may have been stored by its own loop one iteration earlier; what comes later may not."""
    for shift, expected in ((-1, 1), (0, 1), (1, 2)):
        w = Writer()
        x, z = w.input(N), w.output(1)
        t = w.output(N + 2)
        with w.loop(N) as i:
            w.store(w.let(2.0 * a(w.load(x, 0, (i, 1)))), t, 1, (i, 1))
        with w.loop(N, w.let(0.0)) as j:
            j.carries[0].next = w.let(a(j.carries[0]) + a(w.load(t, 1 + shift, (j, 1))))
        w.store(j.carries[0].next, z)
        assert loops(unchanged(w.program(), fuse)) == expected


def test_a_loop_over_what_another_wrote_backwards():
    """Spilled from the end, copied from the beginning: one loop, backwards, and no temporary."""
    w = Writer()
    x, y = w.input(N), w.output(N)
    t = ir.Buffer(ir.TEMPORARY, N)
    with w.loop(N, w.let(0.0)) as i:
        i.carries[0].next = w.let(a(i.carries[0]) + a(w.load(x, N - 1, (i, -1))))
        w.store(i.carries[0].next, t, 0, (i, 1))
    with w.loop(N) as j:
        w.store(w.let(2.0 * a(w.load(t, N - 1, (j, -1)))), y, 0, (j, 1))
    program = unchanged(w.program(), run_passes)
    assert loops(program) == 1
    assert not any(s.buffer.role == ir.TEMPORARY for s in ir.walk(program.body) if isinstance(s, ir.Store))


def test_serial_loops_do_not_take_dear_ones():
    """A sum in the order of the program keeps its loop from being vectorised: an exponential stays out of it."""
    for make, expected in ((L.exp, 2), (lambda u: 2.0 * u, 1)):
        w = Writer()
        x, y, z = w.input(N), w.output(N), w.output(1)
        with w.loop(N, w.let(0.0)) as i:
            i.carries[0].next = w.let(a(i.carries[0]) + a(w.load(x, 0, (i, 1))))
        with w.loop(N) as j:
            w.store(w.let(make(a(w.load(x, 0, (j, 1))))), y, 0, (j, 1))
        w.store(i.carries[0].next, z)
        assert loops(unchanged(w.program(), fuse)) == expected


def test_what_uses_the_last_value_of_a_loop_comes_after_it():
    w = Writer()
    x, y = w.input(N), w.output(N)
    with w.loop(N, w.let(0.0), reorder=True) as i:
        i.carries[0].next = w.let(a(i.carries[0]) + a(w.load(x, 0, (i, 1))))
    with w.loop(N) as j:
        w.store(w.let(a(w.load(x, 0, (j, 1))) / a(i.carries[0].next)), y, 0, (j, 1))
    assert loops(unchanged(w.program(), run_passes)) == 2


def test_statements_between_loops_move():
    """A scalar between two loops that the second needs does not keep them apart, if it can come before both."""
    w = Writer()
    x, y, z = w.input(N), w.output(N), w.output(N)
    with w.loop(N) as i:
        w.store(w.let(2.0 * a(w.load(x, 0, (i, 1)))), y, 0, (i, 1))
    scale = w.let(L.exp(a(w.load(x, 3))))
    with w.loop(N) as j:
        w.store(w.let(a(scale) * a(w.load(x, 0, (j, 1)))), z, 0, (j, 1))
    assert loops(unchanged(w.program(), fuse)) == 1


def test_early_guards_are_not_passed():
    w = Writer()
    x, y, z = w.input(N), w.output(N), w.output(N)
    with w.loop(N) as i:
        w.store(w.load(x, 0, (i, 1)), y, 0, (i, 1))
    w.guard(w.let(a(w.load(y, 0)) < a(w.load(x, 1)), "?"), True, early=True)
    with w.loop(N) as j:
        w.store(w.load(x, 0, (j, 1)), z, 0, (j, 1))
    program = fuse(w.program())
    kinds = [type(s).__name__ for s in program.body if not isinstance(s, (ir.Load, ir.Let))]
    assert kinds == ["Loop", "Guard", "Loop"]


def test_nests_are_fused_inside_too():
    w = Writer()
    x, y = w.input(60), w.output(60)
    source = x
    for target in (ir.Buffer(ir.TEMPORARY, 60), y):
        with w.loop(6) as i:
            with w.loop(10) as j:
                w.store(w.let(2.0 * a(w.load(source, 0, (i, 10), (j, 1)))), target, 0, (i, 10), (j, 1))
        source = target
    assert loops(unchanged(w.program(), fuse)) == 2


def test_order_of_elements_by_enumeration():
    """`in_order` against all pairs of iterations."""
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(400):
        extent, inner = int(random.integers(1, 6)), [ir.Loop(int(random.integers(1, 4))) for _ in range(2)]
        one, two = ir.Loop(extent), ir.Loop(extent)
        first = at(int(random.integers(0, 5)), (one, int(random.integers(-3, 4))), (inner[0], int(random.integers(1, 3))))
        step = dict(first.steps)[one] if random.random() < 0.7 else int(random.integers(-3, 4))
        second = at(int(random.integers(0, 5)), (two, step), (inner[1], int(random.integers(1, 3))))
        touched = []
        for index, loop, deep in ((first, one, inner[0]), (second, two, inner[1])):
            steps = dict(index.steps)
            touched.append([{index.base + steps[loop] * i + steps[deep] * k for k in range(deep.extent)} for i in range(extent)])
        wrong = any(touched[0][later] & touched[1][i] for i in range(extent) for later in range(i + 1, extent))
        first, second = (ir.Index(x.base, tuple((k, s) for k, s in x.steps if s)) for x in (first, second))
        if in_order(first, one, second, two, set(inner)):
            assert not wrong
        else:
            refused += not wrong
    assert refused < 120


def lines(change, size):
    """Lines of Python run by `change` on a chain of `size` loops."""
    program = chain(*[0] * size)
    count = 0

    def tracer(frame, event, arg):
        nonlocal count
        count += event == "line"
        return tracer

    sys.settrace(tracer)
    try:
        change(program)
    finally:
        sys.settrace(None)
    return count


def test_work_is_linear_in_the_number_of_statements():
    assert lines(run_passes, 160) < 5 * lines(run_passes, 40)


def test_copies_of_programs_are_independent():
    """The comparison of these tests changes a copy only."""
    program = chain(0, 0)
    before = loops(program)
    fuse(copy.deepcopy(program))
    assert loops(program) == before

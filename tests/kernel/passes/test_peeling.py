"""Loops that differ by an iteration, in extent or in what they touch: which become one."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.kernel import ir
from tapegrad.kernel.passes import run_passes
from tapegrad.kernel.passes.fusing import LONG, peel
from tapegrad.rules import lang as L
from tests.kernel.passes.generated import unchanged
from tests.kernel.passes.test_fusing import loops
from tests.kernel.programs import Writer, a, rosenbrock

N = LONG + 8


def extents(program):
    return [s.extent for s in ir.walk(program.body) if isinstance(s, ir.Loop)]


def windows(shift, extent=N - 1, between=None, sums=False, reorder=True):
    """One loop writes ``y[i]``, the next adds to ``y[i + shift]``."""
    w = Writer()
    x, y, z = w.input(N + 2), w.output(N + 4), w.output(2)
    inits = [w.let(0.25), w.let(0.5)] if sums else []
    with w.loop(N - 1, *inits[:1], reorder=reorder) as i:
        u = w.let(2.0 * a(w.load(x, 0, (i, 1))))
        w.store(u, y, 0, (i, 1))
        for carry in i.carries:
            carry.next = w.let(a(carry) + a(u))
    if between:
        between(w, y, z, i)
    with w.loop(extent, *inits[1:], reorder=reorder) as j:
        v = w.let(3.0 * a(w.load(x, 1, (j, 1))))
        w.store(w.let(a(w.load(y, shift, (j, 1))) + a(v)), y, shift, (j, 1))
        for carry in j.carries:
            carry.next = w.let(a(carry) + a(v))
    for k, loop in enumerate((i, j) if sums else ()):
        w.store(loop.carries[0].next, z, k)
    return w.program()


@pytest.mark.parametrize("shift, extent", [(1, N - 1), (2, N - 1), (0, N - 2), (0, N), (0, N + 1), (1, N - 2), (1, N), (2, N + 1)])
@pytest.mark.parametrize("sums", [False, True])
def test_loops_that_differ_by_an_iteration_are_one(shift, extent, sums):
    program = unchanged(windows(shift, extent, sums=sums), run_passes, rtol=1e-13)
    assert extents(program) == [min(N - 1 - shift, extent)]


@pytest.mark.parametrize("shift, extent", [(3, N - 1), (0, N + 3), (0, N - 5)])
def test_what_is_too_far_apart_stays(shift, extent):
    assert not peel(windows(shift, extent))


def test_short_loops_and_loops_of_other_arrays_stay():
    w = Writer()
    x, y = w.input(N), w.output(N)
    with w.loop(LONG - 1) as i:
        w.store(w.load(x, 0, (i, 1)), y, 0, (i, 1))
    with w.loop(LONG - 2) as j:
        w.store(w.load(y, 0, (j, 1)), y, 1, (j, 1))
    assert not peel(w.program())
    w = Writer()
    x, y, u, v = w.input(N), w.output(N), w.input(N), w.output(N)
    for n, one, other in ((N, x, y), (N - 1, u, v)):
        with w.loop(n) as i:
            w.store(w.load(one, 0, (i, 1)), other, 0, (i, 1))
    assert not peel(w.program())


def test_dear_operations_stay_where_iterations_do_not_wait_for_one_another():
    """`t[j]` and `t[j + 1]` are read: as one loop each iteration would wait for the one before."""
    for cheap in (True, False):
        w = Writer()
        x, t, y = w.input(N), w.output(N), w.output(N)
        with w.loop(N - 1) as i:
            u = w.load(x, 0, (i, 1))
            w.store(u if cheap else w.let(L.exp(a(u))), t, 0, (i, 1))
        with w.loop(N - 2) as j:
            w.store(w.let(a(w.load(t, 1, (j, 1))) * a(w.load(t, 0, (j, 1)))), y, 0, (j, 1))
        assert peel(w.program()) is cheap


def test_sums_in_the_order_of_the_program_are_two_loops():
    assert extents(unchanged(windows(1, sums=True, reorder=False), run_passes)) == [N - 1, N - 1]


def test_what_uses_the_sum_of_the_first_comes_after_it():
    w = Writer()
    x, y = w.input(N), w.output(N)
    with w.loop(N - 1, w.let(0.0), reorder=True) as i:
        i.carries[0].next = w.let(a(i.carries[0]) + a(w.load(x, 0, (i, 1))))
        w.store(i.carries[0].next, y, 0, (i, 1))
    with w.loop(N - 1) as j:
        w.store(w.let(a(i.carries[0].next) * a(w.load(y, 1, (j, 1)))), y, 1, (j, 1))
    assert extents(unchanged(w.program(), run_passes)) == [N - 1, N - 1]


def test_what_stands_between_keeps_its_place():
    """An element is read, and written, after the first loop and before the second."""

    def between(w, y, z, first):
        w.store(w.load(y, 5), z, 1)
        w.store(w.let(7.0), y, 6)

    unchanged(windows(1, between=between), run_passes)


def test_accesses_that_meet_in_different_iterations_are_one_loop():
    """One of two reads the element before the other."""
    w = Writer()
    x, y = w.input(N), w.output(N)
    t = w.output(N)
    with w.loop(N - 1) as i:
        w.store(w.load(x, 0, (i, 1)), t, 0, (i, 1))
    with w.loop(N - 1) as j:
        w.store(w.let(a(w.load(t, 1, (j, 1))) + a(w.load(t, 0, (j, 1)))), y, 0, (j, 1))
    assert extents(unchanged(w.program(), run_passes)) == [N - 2]


def test_loops_by_hand_that_run_backwards():
    """The adjoint of a loop in Python counts down."""
    program = unchanged(rosenbrock(N), run_passes, rtol=1e-13)
    assert loops(program) <= 2


ON_ARRAYS = {
    "Rosenbrock": lambda x: np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2),
    "with a penalty": lambda x: np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2) + np.sum((1.0 - x) ** 2),
    "differences": lambda x: np.sum(np.diff(x) ** 2) + 0.1 * np.sum(np.exp(-x * x)),
    "curvature": lambda x: np.sum((x[2:] - 2.0 * x[1:-1] + x[:-2]) ** 2) + np.sum((x - 1.0) ** 2),
}  # fmt: skip


@pytest.mark.parametrize("name", ON_ARRAYS)
@pytest.mark.parametrize("n", [LONG + 2, LONG + 4, 3 * LONG])
def test_functions_of_neighbours_are_one_loop(name, n):
    f = ON_ARRAYS[name]
    g = tg.jit(tg.value_and_grad(f), kernel="always")
    assert len(extents(g.kernel(np.ones(n)).program)) == 1 or n == LONG + 2
    for x in np.random.default_rng(0).normal(size=(6, n)):
        value, found = g(x)
        expected, gradient = tg.value_and_grad(f)(x)
        np.testing.assert_allclose(found, gradient, rtol=1e-11, atol=1e-12)
        assert value == pytest.approx(expected, rel=1e-13)
    assert g.stats().kernel_calls

"""Loops of which the second reads what the first stores in another iteration."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.kernel import ir
from tapegrad.kernel.passes import run_passes
from tests.kernel.passes.generated import unchanged
from tests.kernel.passes.test_fusing import loops
from tests.kernel.programs import Writer, a, rosenbrock

N = 40


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


@pytest.mark.parametrize("shift", [1, 2])
@pytest.mark.parametrize("sums", [False, True])
def test_a_window_and_its_neighbour_are_two_loops(shift, sums):
    program = unchanged(windows(shift, sums=sums), run_passes, rtol=1e-13)
    assert extents(program) == [N - 1, N - 1]


@pytest.mark.parametrize("shift, extent", [(0, N - 1), (3, N - 1), (1, N - 2), (1, N)])
def test_windows_that_meet_at_once_are_one_loop(shift, extent):
    """Together; far apart; not of one extent."""
    program = unchanged(windows(shift, extent), run_passes, rtol=1e-13)
    assert extents(program) == ([N - 1] if shift == 0 else [N - 1, extent])


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


def test_accesses_that_meet_in_different_iterations():
    """One of two reads the element before the other."""
    w = Writer()
    x, y = w.input(N), w.output(N)
    t = w.output(N)
    with w.loop(N - 1) as i:
        w.store(w.load(x, 0, (i, 1)), t, 0, (i, 1))
    with w.loop(N - 1) as j:
        w.store(w.let(a(w.load(t, 1, (j, 1))) + a(w.load(t, 0, (j, 1)))), y, 0, (j, 1))
    assert extents(unchanged(w.program(), run_passes)) == [N - 1, N - 1]


def test_loops_by_hand_that_run_backwards():
    """The adjoint of a loop in Python counts down."""
    program = unchanged(rosenbrock(N), run_passes, rtol=1e-13)
    assert loops(program) <= 2


@pytest.mark.parametrize("n", [33, 34, 96])
def test_the_gradient_of_rosenbrock_is_two_loops(n):
    def f(x):
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    g = tg.jit(tg.value_and_grad(f), kernel="always")
    assert extents(g.kernel(np.ones(n)).program) == [n - 1, n - 1]
    for x in np.random.default_rng(0).normal(size=(6, n)):
        value, found = g(x)
        expected = np.zeros(n)
        expected[:-1] = -400.0 * x[:-1] * (x[1:] - x[:-1] ** 2) - 2.0 * (1.0 - x[:-1])
        expected[1:] += 200.0 * (x[1:] - x[:-1] ** 2)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        assert value == pytest.approx(f(x), rel=1e-13)
    assert g.stats().kernel_calls

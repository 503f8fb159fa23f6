"""Machine code of hand-made loop programs agrees with the reference interpreter."""

import numpy as np
import pytest

from tapegrad.kernel import ir
from tapegrad.rules import lang as L
from tests.kernel.compare import agree
from tests.kernel.programs import Writer, a, at, constant, rosenbrock, temporary

rng = np.random.default_rng(5)


@pytest.mark.parametrize("n", [2, 3, 50])
def test_rosenbrock(n):
    x = rng.normal(size=n)
    _, (value, gradient) = agree(rosenbrock(n), x, rtol=1e-12)
    np.testing.assert_allclose(value, np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))
    step = 1e-6 * np.eye(n)[0]
    f = lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)  # noqa: E731
    np.testing.assert_allclose(gradient[0], (f(x + step) - f(x - step)) / 2e-6, rtol=1e-5)


def test_nested_loops_carry_values_through_one_another():
    w = Writer()
    x, y, last = w.input(12), w.output(3), w.output(2)
    total = w.let(1.0)
    with w.loop(3, total) as i:
        with w.loop(4, i.carries[0]) as j:
            element = w.load(x, 0, (i, 4), (j, 1))
            j.carries[0].next = w.let(a(j.carries[0]) * 0.5 + a(element))
        i.carries[0].next = w.let(a(j.carries[0].next) - 1.0)
        w.store(j.carries[0].next, y, 2, (i, -1))
    w.store(i.carries[0].next, last, 0)
    w.store(element, last, 1)
    agree(w.program(), rng.normal(size=12))


def test_two_values_that_change_places():
    w = Writer()
    y = w.output(2)
    with w.loop(5, w.let(1.0), w.let(2.0)) as i:
        left, right = i.carries
        left.next, right.next = right, left
    w.store(left, y, 0)
    w.store(left.next, y, 1)
    _, (found,) = agree(w.program())
    np.testing.assert_array_equal(found, [1.0, 2.0])


def test_ragged_loops_go_on_counting():
    extents = np.array([2, 1, 4, 3])
    w = Writer()
    x, y, sums = w.input(10), w.output(10), w.output(4)
    with w.loop(4) as i:
        start = w.let(0.0)
        with w.loop(extents, start, which=at(0, (i, 1))) as j:
            element = w.load(x, 0, (j, 1))
            j.carries[0].next = w.let(a(j.carries[0]) + a(element))
            w.store(j.carries[0].next, y, 9, (j, -1))
        w.store(j.carries[0].next, sums, 0, (i, 1))
    x = rng.normal(size=10)
    _, (_, found) = agree(w.program(), x)
    np.testing.assert_allclose(found, np.add.reduceat(x, [0, 2, 3, 7]))


def test_ragged_loops_in_ragged_loops():
    w = Writer()
    x, y = w.input(9), w.output(9)
    with w.loop(2) as i:
        with w.loop(np.array([1, 3]), which=at(1, (i, -1))) as j:
            with w.loop(np.array([2, 1, 2, 4]), which=at(0, (j, 1))) as k:
                w.store(w.let(a(w.load(x, 0, (k, 1))) * 2.0), y, 0, (k, 1))
    x = rng.normal(size=9)
    _, (found,) = agree(w.program(), x)
    np.testing.assert_array_equal(found, 2.0 * x)


def test_tables_of_elements():
    w = Writer()
    x, y = w.input(6), w.output(4)
    with w.loop(2) as i:
        with w.loop(2) as j:
            found = w.load(x, 0, (i, 2), (j, 1), table=[5, 0, 3, 3])
            w.store(found, y, 0, (j, 1), (i, 2), table=[3, 1, 0, 2])
    fixed = w.load(x, 2, table=[0, 0, 4])
    w.store(fixed, y, 1)
    x = rng.normal(size=6)
    _, (found,) = agree(w.program(), x)
    np.testing.assert_array_equal(found, [x[3], x[4], x[3], x[5]])


def test_constants_in_memory_and_in_the_code():
    w = Writer()
    y, numbers, marks = w.output(4), constant([1.5, -2.0, 4.0]), constant(np.array([True, False, True]))
    w.store(w.load(numbers, 2), y, 3)
    with w.loop(3) as i:
        chosen = L.select(a(w.load(marks, 0, (i, 1))), a(w.load(numbers, 2, (i, -1))), 0.25)
        w.store(w.let(chosen), y, 0, (i, 1))
    _, (found,) = agree(w.program())
    np.testing.assert_array_equal(found, [4.0, 0.25, 1.5, 4.0])


def test_temporaries_share_memory_and_zeroed_ones_are_zero():
    n = 5000  # large enough that memory is used again
    w = Writer()
    x, y = w.input(n), w.output(n)
    last = x
    for k in range(6):
        target = y if k == 5 else temporary(n)
        sums = temporary(n, zeroed=True)
        with w.loop(n // 2) as i:
            w.store(w.load(last, 0, (i, 2)), sums, 0, (i, 2))
        with w.loop(n) as i:
            w.store(w.let(a(w.load(last, 0, (i, 1))) + 0.5 * a(w.load(sums, 0, (i, 1)))), target, 0, (i, 1))
        last = target
    machine, _ = agree(w.program(), rng.normal(size=n))
    assert machine.nbytes < 3 * 8 * n + 200


@pytest.mark.parametrize("char", ["f", "d"])
def test_arithmetic_is_done_in_the_type_of_the_let(char):
    w = Writer()
    x, y = w.input(7, char), w.output(7, char)
    with w.loop(7) as i:
        element = w.load(x, 0, (i, 1))
        w.store(w.let(a(element) * 0.1 + L.exp(-a(element)), char), y, 0, (i, 1))
    agree(w.program(), np.linspace(0.1, 3.0, 7).astype(char), rtol=2e-7 if char == "f" else 1e-14)


def test_conversions_between_types():
    w = Writer()
    f, q, t, b = w.input(4, "f"), w.input(4, "q"), w.input(4, "?"), w.input(4, "B")
    outs = {c: w.output(4, c) for c in "dfq?i"}
    with w.loop(4) as i:
        step = (i, 1)
        values = [w.load(buffer, 0, step) for buffer in (f, q, t, b)]
        for v in values:
            for char, out in outs.items():
                w.store(v, out, 0, step)
        total = w.let(a(values[0]) + a(values[1]) + a(values[2]) + a(values[3]))
        w.store(total, outs["d"], 0, step)
        w.store(w.let(a(total), "f"), outs["f"], 0, step)
        w.store(w.let(a(values[1]) * 3.0 + a(values[3]), "q"), outs["q"], 0, step)
        w.store(w.let((a(values[1]) > 2.0) & a(values[2]), "?"), outs["?"], 0, step)
        w.store(w.let(L.abs(a(values[1])) - L.sign(a(values[1])), "i"), outs["i"], 0, step)
    inputs = np.array([0.1, 2.7, -3.5, 0.0], "f"), np.array([5, -7, 2**60, 3]), np.array([1, 0, 1, 1], "?"), np.array([255, 0, 3, 9], "B")
    agree(w.program(), *inputs)


def test_every_function_of_the_language():
    w = Writer()
    x, z = w.input(5), w.input(5)
    unary = [*L.UNARY, *L.SCIPY_UNARY]
    binary = [*L.BINARY, *L.SCIPY_BINARY, *L.COMPILED_BINARY]
    y = w.output(5 * (len(unary) + len(binary)))
    with w.loop(5) as i:
        v, u = w.load(x, 0, (i, 1)), w.load(z, 0, (i, 1))
        for k, name in enumerate([*unary, *binary]):
            found = getattr(L, name)(a(v)) if k < len(unary) else getattr(L, name)(a(u) if name != "polygamma" else L.Expr.lift(2.0), a(v))
            w.store(w.let(found), y, k, (i, len(unary) + len(binary)))
    agree(w.program(), np.array([0.15, 0.4, 0.6, 0.77, 0.9]), np.array([1.0, 2.0, 1.5, 2.5, 3.0]), rtol=5e-12)

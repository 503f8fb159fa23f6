"""What the recorded gradient consists of: few instructions, in place, plain where zero need not be absolute."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.recorded import Recorded, uniform
from tapegrad.interpreter.rule_array import Windowed
from tests.rules.checker import generator


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def names(tape):
    return [item.entry.name for item in tape.items]


def test_windows_are_added_in_place():
    """Three slices of one array: one array of zeros, to which the others are added."""
    x = generator(1).standard_normal(50)
    found = names(tg.hvp(rosenbrock).tape(x, np.ones(50)))
    assert found.count("place") == 1 and found.count("add_window") == 2
    # Elements and whole arrays beside a window.
    for parts, expected in ((lambda x: x[3] * x[5], [0, 0, 1, 1]), (lambda x: x[3] ** 2, [0, 0, 2, 0])):
        found = names(tg.hvp(lambda x, parts=parts: np.sum(x[2:] ** 3) + np.sum(np.exp(x)) + parts(x)).tape(x, x))
        assert [found.count(name) for name in ("place", "scatter", "add_window", "add_at")] == expected


def test_the_kernel_of_a_product_passes_over_memory_twice():
    """Arguments, the product and one array between: what a gradient needs, and little more."""
    n = 1000
    source = tg.hvp(rosenbrock).kernel(np.ones(n), np.ones(n)).source()
    head, body = source.split("\n\n", 1)
    assert [line[:2] for line in head.splitlines() if not line.startswith("t")] == ["x0", "x1", "y0"]
    assert sum(line.startswith("t") for line in head.splitlines()) <= 1
    assert body.count("for i in") <= 2 and body.count("mul0") <= 3


def test_products_with_one_number_are_plain():
    """Also where it is repeated for each element; its array is never made."""
    tape = tg.hvp(rosenbrock).tape(np.ones(1000), np.ones(1000))
    assert tape.nbytes < 5000
    assert names(tape).count("absolute_product") == 3


@pytest.mark.parametrize("kernel", ["never", "always"])
def test_zero_stays_absolute(kernel):
    """0 times infinity, 0 times nan, and a number times zero; gradients of gradients in each nesting."""
    x = np.array([0.0, 1.0, 4.0, 2.0])
    v = np.array([1.0, 0.0, 2.0, -1.0])

    def f(x):
        safe = np.where(x > 0.0, np.sqrt(x) * x, 0.0)
        return np.sum(2.0 * safe[1:] + 3.0 * safe[:-1]) + 0.0 * np.sum(x[1:] ** 3)

    expected = np.where(x > 0.0, 0.75 / np.sqrt(np.where(x > 0.0, x, 1.0)), 0.0) * v * np.array([3.0, 5.0, 5.0, 2.0])
    product = tg.jit(tg.hvp(f), kernel=kernel)
    nested = tg.jit(tg.grad(lambda x: np.sum(tg.grad(f)(x) * v)), kernel=kernel)
    mixed = tg.jit(tg.grad(lambda x: tg.jvp(f, (x,), (v,))[1]), kernel=kernel)
    for _ in range(7):
        np.testing.assert_allclose(product(x, v), expected, rtol=1e-14)
        np.testing.assert_allclose(nested(x), expected, rtol=1e-14)
        np.testing.assert_allclose(mixed(x), expected, rtol=1e-14)
    np.testing.assert_allclose(tg.jvp(tg.grad(f), (x,), (v,))[1], expected, rtol=1e-14)
    assert (product.stats().kernel_calls > 0) == (kernel == "always")


def test_infinities_come_through_plain_products():
    """A product with a number other than zero is not finite where the other factor is not."""
    product = tg.hvp(lambda x: np.sum(3.0 * (2.0 * x[1:]) ** 2))
    for v in (np.array([0.0, np.inf, 1.0]), np.array([np.nan, 0.0, -np.inf])):
        np.testing.assert_array_equal(product(np.ones(3), v), [0.0, *(24.0 * v[1:])])


@pytest.mark.parametrize("char", ["d", "f"])
def test_contributions_of_lanes(char):
    """Several directions through windows, repeated elements and broadcasts, beside each of them alone."""
    x = np.linspace(0.2, 1.0, 6).astype(char)

    def f(x):
        wide = np.broadcast_to(x[1:3], (4, 2))
        return np.sum(wide[1:] ** 3 * x[0]) + np.sum(x[[1, 1, 4]] ** 3) + np.sum(x[::2] ** 4) + np.sum(x) ** 2

    product = tg.hvp(f)
    several = generator(2).standard_normal((3, 6)).astype(char)
    tolerance = 1e-12 if char == "d" else 1e-4
    for _ in range(3):
        together = product(x, several)
        assert together.dtype.char == char
        for one, v in zip(together, several):
            np.testing.assert_allclose(one, product(x, v), rtol=tolerance)
    np.testing.assert_allclose(together, several @ tg.hessian(f)(x), rtol=tolerance)


def test_a_window_that_is_all_of_an_array_is_no_window():
    x = Recorded(np.arange(6.0))
    assert x.place((2, 3), (1,), 0).shape == (2, 3)
    assert isinstance(x.place((7,), (1,), 1), Windowed) and isinstance(x.place((6,), (-1,), 5), Windowed)
    repeated = Recorded(np.ones((4, 3))).place((3,), (0, 1), 0)
    np.testing.assert_array_equal(repeated.a, [4.0, 4.0, 4.0])
    assert uniform(np.broadcast_to(1.0, (3, 2))) and not uniform(np.ones(3)) and not uniform(np.ones(0))

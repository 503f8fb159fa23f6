"""Custom rules at second order: recorded where they can be, refused by name where not."""

import math

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import HigherOrderError
from tests.rules.checker import leaf, plain

X, Y = np.array([0.3, -1.2, 2.0]), np.array([1.0, 0.5, -0.7])
grad = tg.autograd.grad


def value(x, y):
    return x**2 * np.sin(y)


def second(f, x, y, u):
    """``(d/dx, d/dy)`` of ``u . df/dx``."""
    a, b = leaf(x), leaf(y)
    (g,) = grad(np.sum(f(a, b)), a, create_graph=True)
    return [plain(t) for t in grad(np.sum(g * u), [a, b])]


EXPECTED = second(value, X, Y, Y)


def by_vjp():
    return tg.custom_vjp(tg.primitive(value), lambda g, result, x, y: (2 * x * np.sin(y) * g, x**2 * np.cos(y) * g))


def by_jvp():
    return tg.custom_jvp(
        tg.primitive(value), lambda t, result, x, y: 2 * x * np.sin(y) * t[0] + x**2 * np.cos(y) * t[1]
    )


def by_class():
    class Product(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return value(x, y)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return 2 * x * np.sin(y) * g, x**2 * np.cos(y) * g

    return Product.apply


EVERY = pytest.mark.parametrize(
    "make", [by_vjp, by_jvp, by_class, lambda: tg.checkpoint(value)], ids=["vjp", "jvp", "class", "checkpoint"]
)


@EVERY
def test_rules_in_numpy_are_differentiated(make):
    for found, expected in zip(second(make(), X, Y, Y), EXPECTED):
        np.testing.assert_allclose(found, expected, rtol=1e-13)


@EVERY
def test_in_functional_derivatives(make):
    f = make()
    for k in range(4):
        expected = tg.hvp(lambda x: np.sum(value(x, Y) * x))(X + k, Y)
        found = tg.grad(lambda x: np.sum(tg.grad(lambda x: np.sum(f(x, Y) * x))(x) * Y))(X + k)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_several_results():
    both = tg.custom_vjp(
        tg.primitive(lambda x: (x**2, np.sin(x))), lambda g, result, x: 2 * x * g[0] + np.cos(x) * g[1]
    )

    def f(x):
        one, other = both(x)
        return np.sum(one * other)

    x = leaf(X)
    (g,) = grad(f(x), x, create_graph=True)
    found = plain(grad(np.sum(g * Y), x)[0])
    expected = (2 * np.sin(X) + 4 * X * np.cos(X) - X**2 * np.sin(X)) * Y
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def first_order(x):
    return x**3


def with_math():
    return tg.custom_vjp(tg.primitive(first_order), lambda g, result, x: g * 3.0 * math.pow(x, 2)), "'first_order'"


def with_array_of_values():
    return tg.custom_vjp(tg.primitive(first_order), lambda g, result, x: g * 3.0 * np.array([x])[0] ** 2), "'first_order'"


def with_numba():
    import numba

    rule = numba.njit(lambda g, result, x: g * 3.0 * x**2)
    return tg.custom_vjp(tg.primitive(first_order), rule), "'first_order'"


def with_kept_value():
    class Cube(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.slope = 3.0 * x**2
            return x**3

        @staticmethod
        def backward(ctx, g):
            return g * ctx.slope

    return Cube.apply, "Cube.backward"


def with_saved_value():
    class Cube(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(3.0 * x**2)
            return x**3

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    return Cube.apply, "Cube.backward"


def test_a_rule_may_make_an_array_of_numbers_on_the_tape():
    f, _ = with_array_of_values()
    x = leaf(2.0)
    assert grad(grad(f(x), x, create_graph=True)[0], x)[0].item() == 12.0


@pytest.mark.parametrize("make", [with_math, with_numba, with_kept_value, with_saved_value])
def test_first_order_rules_are_refused_by_name(make):
    f, name = make()
    x = leaf(2.0)
    assert grad(f(x), x)[0].item() == 12.0
    with pytest.raises(HigherOrderError, match=name):
        grad(f(x), x, create_graph=True)
    with pytest.raises(HigherOrderError, match=name):
        tg.hessian(lambda x: f(x) * x)(2.0)
    assert tg.grad(f)(2.0) == 12.0

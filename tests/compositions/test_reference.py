"""The reference of the compositions is right by closed forms."""

import math

import numpy as onp
import pytest

from tests.compositions.reference import Decisions, Dual, Level, numpy, tg
from tests.compositions.running import difference, expected, rounded_away

np = numpy
X = 0.7


def same(ours, theirs):
    onp.testing.assert_allclose(onp.array(ours, float), theirs, rtol=1e-14, atol=1e-14)


def derivatives(f, order):
    """The derivatives of `f` at X by levels in one another."""
    values = []
    for _ in range(order):
        f = tg.grad(f)
        values.append(f(X))
    return values


CLOSED = {
    "sin": (np.sin, [math.cos(X), -math.sin(X), -math.cos(X), math.sin(X)]),
    "cos": (np.cos, [-math.sin(X), -math.cos(X), math.sin(X), math.cos(X)]),
    "exp": (np.exp, 4 * [math.exp(X)]),
    "log": (np.log, [1 / X, -1 / X**2, 2 / X**3, -6 / X**4]),
    "log1p": (np.log1p, [1 / (1 + X), -1 / (1 + X) ** 2, 2 / (1 + X) ** 3, -6 / (1 + X) ** 4]),
    "sqrt": (np.sqrt, [0.5 * X**-0.5, -0.25 * X**-1.5, 0.375 * X**-2.5, -0.9375 * X**-3.5]),
    "tanh": (np.tanh, [1 - math.tanh(X) ** 2, -2 * math.tanh(X) * (1 - math.tanh(X) ** 2)]),
    "arctan": (np.arctan, [1 / (1 + X * X), -2 * X / (1 + X * X) ** 2, (6 * X * X - 2) / (1 + X * X) ** 3]),
    "cube": (lambda x: x**3, [3 * X**2, 6 * X, 6.0, 0.0]),
    "power of floats": (lambda x: x**2.5, [2.5 * X**1.5, 3.75 * X**0.5]),
    "exponent": (lambda x: 2.0**x, [math.log(2) * 2**X, math.log(2) ** 2 * 2**X]),
    "quotient": (lambda x: 1.0 / (2.0 - x), [(2 - X) ** -2, 2 * (2 - X) ** -3, 6 * (2 - X) ** -4]),
    "abs": (lambda x: np.abs(-x) * x, [2 * X, 2.0, 0.0]),
    "maximum": (lambda x: np.maximum(x * x, 0.1) + np.minimum(x, 0.2), [2 * X, 2.0]),
    "mod": (lambda x: (x * 3.0) % 0.5 + x // 0.3, [3.0, 0.0]),
    "clip, where": (lambda x: np.clip(x * x, 0.0, 5.0) + np.where(x > 0.5, x**3, x), [2 * X + 3 * X * X, 2 + 6 * X]),
    "complex": (lambda x: np.real(np.exp(1j * x) * (1 + 2j)), [-math.sin(X) - 2 * math.cos(X), -math.cos(X) + 2 * math.sin(X)]),
    "absolute value of complex": (lambda x: np.abs(x + 2j) ** 2, [2 * X, 2.0]),
    "captured": (lambda x: tg.grad(lambda y: y * y * x)(x), [4 * X, 4.0]),
    "not confused": (lambda x: x * tg.grad(lambda y: x + y)(1.0), [1.0, 0.0]),
}


@pytest.mark.parametrize("name", CLOSED)
def test_derivatives_of_numbers(name):
    f, expected = CLOSED[name]
    same(derivatives(f, len(expected)), expected)


def test_derivatives_of_arrays():
    x, v = onp.array([0.3, -0.8]), onp.array([1.0, 2.0])
    f = lambda x: x[0] ** 2 * x[1] + np.sin(x[1])  # noqa: E731
    g, h = [2 * x[0] * x[1], x[0] ** 2 + math.cos(x[1])], onp.array([[2 * x[1], 2 * x[0]], [2 * x[0], -math.sin(x[1])]])
    same(tg.grad(f)(x), g)
    same(tg.jacfwd(tg.grad(f))(x), h)
    same(tg.hessian(f)(x), h)
    same(tg.hvp(f)(x, v), h @ v)
    same(tg.hessian_diag(f)(x), onp.diag(h))
    same(tg.laplacian(f)(x), onp.trace(h))
    y, back = tg.vjp(tg.grad(f), x)
    same(y, g)
    same(back(v)[0], v @ h)
    same(back(2 * v)[0], 2 * v @ h)
    same(tg.jvp(tg.grad(f), (x,), (v,))[1], h @ v)
    same(tg.linearize(tg.grad(f), x)[1](v), h @ v)
    same(tg.jet(f, (x,), ([v, v],))[1], [v @ g, v @ h @ v + v @ g])
    same(tg.elementwise_grad(lambda x: x**3)(x), 3 * x**2)
    same(tg.vmap(tg.grad(f))(onp.stack([x, 2 * x]))[0], g)
    same(tg.grad(lambda p: p["b"] * p["a"][0])({"b": 3.0, "a": (2.0,)})["a"][0], 3.0)
    same(tg.grad(tg.sum_over(lambda t, rows: sum(r * t * t for r in rows), onp.array([1.0, 2.0, 4.0]), chunk=2))(0.5), 7.0)


def test_define_by_run():
    x = onp.array([0.3, -0.8])
    p = tg.tensor(x, requires_grad=True)
    np.sum(p**3).backward(create_graph=True)
    z = np.sum(p.grad * p.grad)
    same([a.v for a in p.grad], 3 * x**2)
    p.grad = None
    z.backward()
    same(p.grad, 36 * x**3)


def test_loops_are_loops():
    same(tg.grad(lambda a: tg.scan(lambda c, u: (c * a + u, c), 1.0, onp.array([1.0, 2.0]))[0])(3.0), 2 * 3.0 + 1)
    same(tg.grad(lambda a: tg.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * a), (0, 1.0))[1])(2.0), 12.0)
    same(tg.grad(lambda a: tg.switch(5, [lambda a: a, lambda a: a * a], a))(2.0), 4.0)


def test_decisions_say_how_near_they_are():
    Decisions.margin = math.inf
    assert Level(1.0).argument > 0.5 and isinstance(Level(1.0).argument, Dual)
    assert Decisions.margin == pytest.approx(0.5 / 1.5)


def test_what_one_rounding_of_the_point_does_is_no_fault_and_more_is_one():
    text = "def top(x, w, k):\n    return np.sin(1e9 * x[0]) * 1.0\n"
    point = [[0.7, 0.2], [0.5, 0.4, 0.3], [1, 2, 3], "int64"]
    theirs, _ = expected(text, point)
    assert difference([theirs[0] + 3e-8], theirs) and rounded_away(text, point, [theirs[0] + 3e-8], theirs)
    assert not rounded_away(text, point, [theirs[0] + 1e-5], theirs)
    assert not rounded_away(text, point, [-theirs[0]], theirs)
    well = "def top(x, w, k):\n    return np.sin(x[0]) * 1.0\n"
    theirs, _ = expected(well, point)
    assert not rounded_away(well, point, [theirs[0] + 3e-8], theirs)

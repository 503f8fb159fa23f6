"""Loops in the bodies of loops: interpreted at first, compiled when there is enough to do, and right on paths that neither has taken before."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.kernel.kernel import TapeKernel


def inner_while(c, u):
    return tg.while_loop(lambda s: (s[0] < 4) & (s[1] < 3.0), lambda s: (s[0] + 1, s[1] * 1.2 + u if s[1] > 0.5 else s[1] - u * s[1]), (0, c))[1]


def inner_scan(c, u):
    def body(b, i):
        b = np.sin(b) * u if b > 0.3 else b * b + u
        return b, b * i

    c, ys = tg.scan(body, c, np.arange(1.0, 4.0))
    return c + np.sum(ys)


def inner_fori(c, u):
    return tg.fori_loop(0, 3, lambda i, b: np.tanh(b * u) if b < 0.2 else b * np.cos(u + i), c)


def inner_vmap(c, u):
    return np.sum(tg.vmap(lambda r: r * r * c if r > 0.4 else np.exp(r) + u)(np.array([0.1, 0.5, 0.9]) * u))


INNER = {"while": inner_while, "scan": inner_scan, "fori": inner_fori, "vmap": inner_vmap}
OUTER = {
    "scan": lambda inner: lambda x: np.sum(tg.scan(lambda c, u: (inner(c, u) * 0.5, c * u), x[0] * 1.0, x)[1]) + np.sum(x),
    "fori": lambda inner: lambda x: tg.fori_loop(0, 3, lambda i, c: inner(c, x[1]) * 0.4 + 0.1 * i, x[0] * 1.0),
    "while": lambda inner: lambda x: tg.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, inner(s[1], x[1]) * 0.4), (0, x[0] * 1.0))[1],
    "vmap": lambda inner: lambda x: np.sum(np.sin(tg.vmap(lambda u: inner(u, x[0]))(x))),
}
#: The second takes paths that the first does not, in both loops, the last both.
POINTS = [np.array([0.35, 0.4, 0.45]), np.array([-0.9, -0.3, -0.6]), np.array([0.83, -0.2, 0.1])]


def near(found, expected, tolerance=1e-12):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


D = np.array([0.6, -0.5, 0.4])


def differences(f, x, size=1e-6):
    """The derivative along `D`."""
    after, before = f(x + size * D), f(x - size * D)
    return [(a - b) / (2 * size) for a, b in zip(after, before)] if type(after) is tuple else (after - before) / (2 * size)


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", OUTER)
def test_paths_that_the_recording_has_not_met(outer, inner):
    f = OUTER[outer](INNER[inner])
    gradient, hessian = tg.jit(tg.value_and_grad(f)), tg.jit(tg.hessian(f))
    for x in (*POINTS, POINTS[0]):
        value, slope = gradient(x)
        near(value, f(x))
        near(slope @ D, differences(f, x), 1e-7)
        near(hessian(x) @ D, differences(gradient, x)[1], 1e-6)


@pytest.fixture
def compiled(monkeypatch):
    """The kernels that are made, by their numbers of instructions."""
    made, init = [], TapeKernel.__init__

    def noted(self, tape, *args):
        made.append(len(tape))
        init(self, tape, *args)

    monkeypatch.setattr(TapeKernel, "__init__", noted)
    return made


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", OUTER)
def test_first_calls_make_no_kernels(outer, inner, compiled):
    f = OUTER[outer](INNER[inner])
    tg.grad(f)(POINTS[0]), tg.hessian(f)(POINTS[0]), tg.jit(tg.hessian(f), kernel="never")(POINTS[0])
    assert not compiled


@pytest.mark.parametrize("iterations", [10, 100_000])
def test_what_runs_long_is_compiled(iterations, compiled):
    def f(x):
        inner = lambda u: tg.while_loop(lambda s: s[0] < iterations, lambda s: (s[0] + 1, np.sin(s[1]) * 0.9 + u), (0, u * 1.0))[1]  # noqa: E731
        return np.sum(tg.vmap(inner)(x))

    x = POINTS[0]
    near(tg.grad(f)(x) @ D, differences(f, x), 1e-7)
    assert bool(compiled) == (iterations > 10)


def test_an_error_in_the_inner_loop_is_the_users():
    def inner(c, u):
        if c > 5.0:
            raise ValueError("too far")
        return c * 3.0 + u

    f = tg.jit(tg.grad(lambda x: tg.fori_loop(0, 2, lambda i, c: tg.fori_loop(0, 2, lambda j, b: inner(b, x), c), x)))
    near(f(0.01), 121.0, 1e-9)
    with pytest.raises(ValueError, match="too far"):
        f(0.9)
    near(f(0.01), 121.0, 1e-9)


def test_forward_jacobians_inside_of_recordings_keep_loops():
    def f(x):
        return tg.while_loop(lambda s: s[0] < x[1], lambda s: (s[0] + 0.1, np.sin(s[1]) * x[0] + s[1]), (0.0, x[0] * 1.0))[1]

    def mapped(x):
        return tg.vmap(tg.jacfwd(f))(x)

    # Unrolled, each number of iterations would be a path.
    j, xs = tg.jit(mapped), np.stack([np.cos(np.arange(20.0)), np.linspace(0.0, 2.0, 20)], axis=1)
    for x in (xs, 0.9 * xs):
        near(j(x), [tg.grad(f)(row) for row in x], 1e-10)
        near(mapped(x), j(x))
    assert j.stats().records == 1

"""Iterations and lanes with numbers that are not finite: what NumPy computes from them, by the interpreter and by kernels."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.transforms.loops import loop

SPOILED = (np.nan, np.inf, 0.0)


def rows(size):
    """Points, of which three have something that is not finite, or zeros."""
    points = np.random.default_rng(size).normal(size=(7, size))
    for k, number in enumerate(SPOILED):
        points[2 * k, -1] = number
    points[4, 1:] = 0.0
    return points


def square(x):
    return np.outer(x, x) + np.eye(len(x))


def factor(x):
    """A Cholesky factor, of a matrix that is made larger until it has one."""
    a, more = np.outer(x, x) - np.eye(len(x)), 0.0
    while True:
        try:
            return np.linalg.cholesky(a + more * np.eye(len(x)))
        except np.linalg.LinAlgError:
            more = 10.0 * more if more > 0.0 else 0.5


FUNCTIONS = {
    "solve": lambda x: np.linalg.solve(square(x), x),
    "solve, one right side": lambda x: np.linalg.solve(square(x)[:2, :2], np.ones(2)),
    "solve, transposed": lambda x: np.linalg.solve(np.outer(np.arange(1.0, 1.0 + len(x)), x).T + np.eye(len(x)), x),
    "inv": lambda x: np.linalg.inv(square(x)),
    "cholesky": lambda x: np.linalg.cholesky(square(x)),
    "cholesky until it is one": factor,
    "eigh": lambda x: np.linalg.eigh(square(x[-2:]) + np.diag([0.0, 1.0]))[1][0],
    "slogdet": lambda x: np.linalg.slogdet(square(x))[1],
    "product": lambda x: np.tanh(np.outer(x[:2], x) @ x),
    "product of matrices": lambda x: np.outer(np.cos(x), x) @ np.outer(x, np.arange(float(len(x)))),
    "convolution": lambda x: np.convolve(x, x[:2]),
    "recurrence": lambda x: np.cumprod(x),
}


@pytest.mark.parametrize("kernels", [False, True], ids=["interpreter", "kernels"])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore")
def test_lanes_with_numbers_that_are_not_finite_are_those_of_the_python_loop(name, kernels, monkeypatch):
    monkeypatch.setattr(loop, "WORK", -1 if kernels else 1 << 40)
    size = 12 if name == "product of matrices" else 4
    points = rows(size)

    def f(x):
        return np.sum(FUNCTIONS[name](x))

    values, gradients = (np.stack([g(x) for x in points]) for g in (f, tg.grad(f)))
    products = np.stack([tg.hvp(f)(x, np.ones(size)) for x in points])
    np.testing.assert_allclose(tg.vmap(f)(points), values, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(tg.map(f, points), values, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(tg.vmap(tg.grad(f))(points), gradients, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(tg.jit(tg.vmap(tg.grad(f)))(points), gradients, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(tg.grad(lambda p: np.sum(tg.vmap(f)(p)[1::2]))(points)[1::2], gradients[1::2], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(tg.grad(lambda p: np.sum(tg.map(f, p)))(points), gradients, rtol=1e-9, atol=1e-12)
    finite = np.isfinite(points).all(axis=1)
    mapped = tg.hvp(lambda p: np.sum(tg.vmap(f)(p)))(points, np.ones_like(points))
    np.testing.assert_allclose(mapped[finite], products[finite], rtol=1e-8, atol=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kernels", [False, True], ids=["interpreter", "kernels"])
def test_a_singular_matrix_in_a_lane_raises_what_numpy_raises(kernels, monkeypatch):
    monkeypatch.setattr(loop, "WORK", -1 if kernels else 1 << 40)
    matrices = np.stack([np.eye(3), np.full((3, 3), np.nan), np.zeros((3, 3))])
    for f in (np.linalg.inv, lambda a: np.linalg.solve(a, np.ones(3)), lambda a: np.linalg.cholesky(a)):
        assert np.isnan(tg.vmap(f)(matrices[:2])[1]).any()
        with pytest.raises(np.linalg.LinAlgError):
            tg.vmap(f)(matrices)


@pytest.mark.filterwarnings("ignore")
def test_a_step_that_numpy_refuses_is_named():
    points = rows(4)
    f = lambda x: np.linalg.det(square(x))  # noqa: E731
    np.testing.assert_allclose(tg.vmap(lambda x: tg.hvp(f)(x, np.ones(4)))(points[1::2]), [tg.hvp(f)(x, np.ones(4)) for x in points[1::2]], rtol=1e-9)
    with pytest.raises(tg.errors.GradientError, match=r"vmap\(<lambda>\) fails in iteration 0: a step of its derivative is NumPy's"):
        tg.vmap(lambda x: tg.hvp(f)(x, np.ones(4)))(points)

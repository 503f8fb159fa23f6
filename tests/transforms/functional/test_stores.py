"""Functions that store into their arguments: what is not differentiated is a copy at each run, what is differentiated is refused."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import GradientError

N = 20  # more than `jacfwd` carries in one pass
X, ONE = np.arange(1.0, N + 1.0), np.ones(N)


def stored(x, y):
    y *= 2.0
    return x * x * y


def total(x, y):
    return np.sum(stored(x, y))


DIAGONAL = np.diag(4.0 * X)
BY_NAME = {
    "jacfwd": (tg.jacfwd(stored), (), DIAGONAL),
    "jacrev": (tg.jacrev(stored), (), DIAGONAL),
    "jacobian": (tg.jacobian(stored), (), DIAGONAL),
    "hessian": (tg.hessian(total), (), 4.0 * np.eye(N)),
    "hvp": (tg.hvp(total), (ONE,), 4.0 * ONE),
    "hessian_diag": (tg.hessian_diag(total), (), 4.0 * ONE),
    "gnvp": (tg.gnvp(stored), (ONE,), 16.0 * X**2),
    "jacfwd of grad": (tg.jacfwd(tg.grad(total)), (), 4.0 * np.eye(N)),
    "grad of grad": (tg.grad(lambda x, y: np.sum(tg.grad(total)(x, y))), (), 4.0 * ONE),
}


@pytest.mark.parametrize("name", BY_NAME)
def test_an_argument_that_is_not_differentiated_is_a_copy(name):
    derivative, direction, expected = BY_NAME[name]
    y = ONE.copy()
    np.testing.assert_allclose(derivative(X, y, *direction), expected)
    np.testing.assert_array_equal(y, ONE)


def test_an_argument_given_by_name_is_a_copy():
    y = ONE.copy()
    np.testing.assert_allclose(tg.jacfwd(stored)(X, y=y), DIAGONAL)
    np.testing.assert_allclose(tg.jacrev(stored)(X, y=y), DIAGONAL)
    assert tg.derivative(total)(3.0, y=y) == 12.0 * N
    np.testing.assert_array_equal(y, ONE)


def test_an_array_of_the_arguments_takes_what_carries_a_derivative():
    def march(x, v, n):
        v = v.copy()
        for _ in range(n):
            v[0] += x[0] * v[1]
        return v[0] * x[1]

    x, v = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    for derivative in (tg.grad, tg.jacfwd, tg.jacrev):
        np.testing.assert_allclose(derivative(march)(x, v, 3), [24.0, 15.0])
    np.testing.assert_allclose(tg.hessian(march)(x, v, 3), [[0.0, 12.0], [12.0, 0.0]])


def scaled(x):
    x *= 2.0
    return np.sum(x * x)


def overwritten(x):
    x[0] = x[1] * x[2]
    return np.sum(x * x)


def part_overwritten(x):
    x[:2][0] = 1.0
    return np.sum(x * x)


@pytest.mark.parametrize("function", [scaled, overwritten, part_overwritten])
def test_an_argument_that_is_differentiated_inside_is_refused(function):
    x = X[:3].copy()
    for derivative in (
        tg.hessian(function),
        tg.hessian_diag(function),
        tg.grad(lambda x: np.sum(tg.grad(function)(x))),
        tg.jit(tg.hessian(function)),
        lambda x: tg.vmap(tg.grad(function))(x[None]),
    ):
        with pytest.raises(GradientError, match="Work on a copy of your own"):
            derivative(x)
    np.testing.assert_array_equal(x, X[:3])

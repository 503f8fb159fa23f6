"""Functions that store into their arguments: what is not differentiated is the caller's, what is differentiated is refused."""

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
def test_an_argument_that_is_not_differentiated_is_changed_once(name):
    derivative, direction, expected = BY_NAME[name]
    for y in (ONE.copy(), tg.ones(N)):
        np.testing.assert_allclose(derivative(X, y, *direction), expected)
        np.testing.assert_array_equal(np.asarray(y), 2.0 * ONE)


def test_an_argument_given_by_name_is_changed_once():
    for derivative, at, expected in ((tg.jacfwd(stored), X, DIAGONAL), (tg.jacrev(stored), X, DIAGONAL), (tg.derivative(total), 3.0, 12.0 * N)):
        y = ONE.copy()
        np.testing.assert_allclose(derivative(at, y=y), expected)
        np.testing.assert_array_equal(y, 2.0 * ONE)


def test_what_runs_twice_puts_arrays_back():
    leaf = tg.tensor(3.0, requires_grad=True)
    outside = leaf * 1.0

    def function(x, y):
        y = y[0] if isinstance(y, list) else y
        y[0] *= 2.0
        return np.sum(x**2) * y[0] * outside

    for y in (np.ones(3), np.ones(1000), np.ones((3, 2))[:, 1], tg.ones(3), tg.ones(1000)):
        for call in (lambda y: tg.grad(function)(X, y), lambda y: tg.grad(function)(X, y=y), lambda y: tg.jacrev(function)(X, [y])):
            y[...] = 1.0
            leaf.grad = None
            gradient = call(y)
            np.testing.assert_allclose(gradient.detach().numpy(), 12.0 * X)
            np.sum(gradient).backward(retain_graph=True)
            assert leaf.grad.item() == np.sum(4.0 * X) and y[0] == 2.0


def test_a_constant_tensor_of_the_callers_takes_no_derivative():
    def function(x, y):
        y[0] = x[0] * 3.0
        return np.sum(x * y)

    for derivative in (tg.grad, tg.hessian, tg.jacrev):
        with pytest.raises(GradientError, match="Work on a copy"):
            derivative(function)(X, tg.ones(N))
        expected = derivative(lambda x: 3.0 * x[0] ** 2 + np.sum(x[1:]))(X)
        np.testing.assert_allclose(derivative(lambda x, y: function(x, y.clone()))(X, tg.ones(N)), expected)


def test_an_array_of_the_arguments_takes_what_carries_a_derivative():
    def march(x, v, n):
        v = tg.tensor(v)
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

"""Copies of what transformations return, here and by pickle."""

import copy
import pickle

import numpy as np
import pytest

import tapegrad as tg


def _cubes(x):
    return np.sum(x**3)


@tg.jit
def _squares(x):
    return np.sum(x * x)


class _Model:
    def __init__(self):
        self.weights = np.ones(2)
        self.gradient = tg.grad(self.loss)

    def loss(self, x):
        return np.sum(self.weights * x**2)


def test_copies_differentiate_the_same_function():
    """What a transformation returns is copied and pickled as its function is, also as part of a model."""
    x = np.array([1.0, 2.0])
    made = [
        tg.grad(_cubes), tg.jit(tg.elementwise_grad(_cubes), kernel="always"), tg.jit(_cubes, fastmath=True), tg.grad(tg.jit(_cubes)),
        tg.jacobian(_cubes, -1), tg.jit(tg.jacobian(_cubes)), tg.hessian(_cubes), tg.jit(tg.hessian(_cubes)), tg.laplacian(_cubes),
        tg.sparse_hessian(_cubes), tg.jit(tg.sparse_hessian(_cubes)), _squares,
    ]  # fmt: skip
    for g in made:
        wanted = g(x)
        for again in (pickle.loads(pickle.dumps(g)), copy.deepcopy(g), copy.copy(g)):
            found = again(x)
            assert np.array_equal(found, wanted) if isinstance(found, (float, np.ndarray)) else np.array_equal(found.toarray(), wanted.toarray())
            assert again.__name__ == g.__name__ and type(again) is type(g)
            assert again._replayed.jit == g._replayed.jit
    products = pickle.loads(pickle.dumps(tg.hvp(_cubes)))
    np.testing.assert_array_equal(products(x, x), 6.0 * x * x)
    assert pickle.loads(pickle.dumps(_squares)) is _squares
    model = _Model()
    model.gradient(x)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        other.weights[:] = 5.0
        np.testing.assert_array_equal(other.gradient(x), 10.0 * x)
        np.testing.assert_array_equal(model.gradient(x), 2.0 * x)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(tg.grad(lambda x: x))


def test_directions_in_any_order_in_memory():
    weights, x, v = np.arange(1.0, 7.0).reshape(2, 3), np.arange(1.0, 7.0).reshape(2, 3) / 3.0, np.cos(np.arange(6.0)).reshape(2, 3)

    def g(x):
        return x**3 * weights

    def f(x):
        return np.sum(g(x))

    first, second = 3.0 * x**2 * weights * v, 6.0 * x * weights * v
    for direction in (np.asfortranarray(v), v[:, ::-1].copy()[:, ::-1], np.repeat(v, 2, axis=1)[:, ::2]):
        for point in (x, np.asfortranarray(x)):
            for found in (tg.hvp(f)(point, direction), tg.jit(tg.hvp(f))(point, direction), tg.jvp(tg.grad(f), (point,), (direction,))[1],
                          tg.vjp(tg.grad(f), point)[1](direction), tg.vmap(lambda d: tg.hvp(f)(point, d))(np.asfortranarray([v, direction]))[1]):  # noqa: B023  # fmt: skip
                np.testing.assert_allclose(found[0] if isinstance(found, tuple) else found, second, rtol=1e-14)
            for found in (tg.vjp(g, point)[1](direction), tg.jvp(g, (point,), (direction,))[1]):
                np.testing.assert_allclose(found[0] if isinstance(found, tuple) else found, first, rtol=1e-14)

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

"""`tg.tree`: containers as a whole."""

from dataclasses import dataclass

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import StructureError


@dataclass
class Layer:
    w: object
    b: object


TREE = {"a": [1.0, np.arange(3.0)], "layer": Layer(np.ones((2, 2)), 2.0)}


def test_map_of_one_and_of_several():
    doubled = tg.tree.map(lambda x: 2.0 * x, TREE)
    assert isinstance(doubled["layer"], Layer) and doubled["a"][0] == 2.0 and doubled["layer"].w.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    difference = tg.tree.map(lambda x, y: np.sum(np.abs(x - 2.0 * y)), doubled, TREE)
    assert tg.tree.leaves(difference) == [0.0] * 4
    with pytest.raises(StructureError, match="different forms"):
        tg.tree.map(lambda x, y: x, TREE, {"a": 1.0})


def test_ravel_and_back():
    vector, unravel = tg.tree.ravel(TREE)
    assert vector.tolist() == [1.0, 0.0, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 2.0]
    back = unravel(vector)
    assert all(np.array_equal(one, other) for one, other in zip(tg.tree.leaves(back), tg.tree.leaves(TREE)))
    with pytest.raises(StructureError, match=r"a vector of 9 numbers, got the shape \(3,\)"):
        unravel(np.ones(3))


def test_derivatives_go_through_it():
    def loss(tree):
        return sum(np.sum(leaf**2) for leaf in tg.tree.leaves(tg.tree.map(np.sin, tree)))

    vector, unravel = tg.tree.ravel(TREE)
    expected = tg.tree.ravel(tg.grad(loss)(TREE))[0]
    np.testing.assert_allclose(expected, np.sin(2.0 * vector), rtol=1e-14)
    for derivative in (tg.grad(lambda v: loss(unravel(v))), tg.jit(tg.grad(lambda v: loss(unravel(v)))), tg.jacfwd(lambda v: loss(unravel(v)))):
        np.testing.assert_allclose(derivative(vector), expected, rtol=1e-13)
    np.testing.assert_allclose(tg.grad(lambda tree: np.sum(tg.tree.ravel(tree)[0] ** 3))(TREE)["a"][1], 3.0 * np.arange(3.0) ** 2)
    tg.check(lambda v: loss(unravel(v)), vector, order=2)

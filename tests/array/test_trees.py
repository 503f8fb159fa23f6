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


def test_what_was_float32_is_float32_again():
    tree = {"a": np.ones(2, np.float32), "b": np.arange(2.0), "c": np.float32(3.0), "d": 2.0}
    vector, unravel = tg.tree.ravel(tree)
    assert vector.dtype == np.float64 and [getattr(leaf, "dtype", None) for leaf in tg.tree.leaves(unravel(vector))] == ["float32", "float64", "float32", None]

    def loss(vector):
        parts = unravel(vector)
        return np.sum(parts["a"] ** 2) * parts["c"] + np.sum(parts["b"]) * parts["d"]

    for slope in (tg.grad(loss), tg.jit(tg.grad(loss)), tg.jacfwd(loss)):
        np.testing.assert_allclose(slope(vector), [6.0, 6.0, 2.0, 2.0, 2.0, 1.0], rtol=1e-6)


def test_dicts_are_paired_by_their_keys():
    x, v = {"b": np.array([1.0, 2.0]), "a": 3.0}, {"a": 1.0, "b": np.array([0.5, 4.0])}
    same = {key: v[key] for key in x}

    def loss(t):
        return np.sum(t["b"] ** 2) * t["a"] ** 2

    assert tg.tree.map(lambda p, q: np.sum(p * q), x, v) == {"b": 8.5, "a": 3.0}
    linear, pull = tg.linearize(loss, x)[1], tg.vjp(lambda t: {"a": t["a"], "b": 2.0 * t["b"]}, x)[1]
    assert linear(v) == linear(same) == tg.jvp(loss, (x,), (v,))[1]
    assert tg.tree.leaves(tg.tree.map(np.array_equal, pull(same)[0], pull(v)[0])) == [True, True]
    for product in (tg.hvp(loss), tg.jit(tg.hvp(loss)), tg.gnvp(lambda t: t["b"] * t["a"])):
        for _ in range(4):
            assert tg.tree.leaves(tg.tree.map(np.array_equal, product(x, v), product(x, same))) == [True, True]
    for other in ({"a": 1.0, "c": np.ones(2)}, [np.ones(2), 1.0]):
        for call in (linear, tg.vjp(lambda t: t, x)[1], lambda t: tg.hvp(loss)(x, t), lambda t: tg.tree.map(lambda p, q: p, x, t)):
            with pytest.raises(StructureError):
                call(other)


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

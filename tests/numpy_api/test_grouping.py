"""Sums by group, running extremes and the methods of ufuncs on tensors, in every mode."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import LeaveTapeError, UnsupportedFunctionError
from tests.every import every
from tests.rules.checker import check, generator, leaf, plain

RNG = generator(31)
V, W, M, C = RNG.standard_normal(6), RNG.standard_normal(3), RNG.standard_normal((4, 3)), RNG.standard_normal((2, 4, 3))
GROUPS = np.array([1, 0, 4, 1, 1, 0])


def at(ufunc, key, target=None):
    """A function of what is added, and of the target if there is one, that is tried on arrays and on tensors."""

    def function(*args):
        like = args[0]
        a = args[1] * 1.0 if len(args) > 1 else tg.zeros_like(target) if isinstance(like, tg.Differentiable) else np.zeros_like(target)
        ufunc.at(a, key, like)
        return a * a

    return function


CASES = {
    "bincount": (lambda w: np.bincount(GROUPS, weights=w), V), "bincount minlength": (lambda w: np.bincount(GROUPS, w, 9), V), "bincount few": (lambda w: np.bincount(GROUPS[:1], w), V[:1]),
    "bincount list": (lambda w: np.bincount([0, 2, 0], [w[0], w[1], 1.0] if isinstance(w, np.ndarray) else np.stack([w[0], w[1], 1.0])), V),
    "add.at": (at(np.add, np.array([0, 2, 0, 0, 1, 2]), M[0]), V), "add.at both": (at(np.add, np.array([0, 2, 0])), W, V), "subtract.at": (at(np.subtract, np.array([1, 1, 1])), W, W[::-1]),
    "add.at tuple": (at(np.add, (np.array([0, 1, 0]), np.array([1, 1, 1]))), W, M), "add.at rows": (at(np.add, [3, 3]), M[:2], M), "add.at slice": (at(np.add, np.s_[1:3]), W, M),
    "add.at mask": (at(np.add, np.array([True, False, True])), V[:2], W), "add.at number": (at(np.add, np.array([0, 0])), 0.7, W),
    "reduceat": (lambda x: np.add.reduceat(x, [0, 4, 1, 5]), V), "reduceat axis": (lambda x: np.add.reduceat(x, [0, 2, 2], axis=1), C), "reduceat last": (lambda x: np.add.reduceat(x, [1, 0], -1), C),
    "reduceat one": (lambda x: np.add.reduceat(x, [0]), M), "accumulate": (lambda x: np.add.accumulate(x, 1), M), "multiply.accumulate": (lambda x: np.multiply.accumulate(x), M),
    "maximum": (lambda x: np.maximum.accumulate(x), V), "minimum": (lambda x: np.minimum.accumulate(x), V), "maximum axis": (lambda x: np.maximum.accumulate(x, axis=1), C),
    "minimum last": (lambda x: np.minimum.accumulate(x, -1), C), "logaddexp": (lambda x: np.logaddexp.reduce(x), V), "running logaddexp": (lambda x: np.logaddexp.accumulate(x), V),
    "running logaddexp last": (lambda x: np.logaddexp.accumulate(x, -1), C), "logaddexp axis": (lambda x: np.logaddexp.reduce(x, axis=1, keepdims=True), C),
    "logaddexp all": (lambda x: np.logaddexp.reduce(x, axis=None), M),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_in_every_mode(name):
    function, *args = CASES[name]
    assert tg.check(function, *args, order=2, atol=1e-10).passed


def test_float32():
    w = leaf(V.astype("f"))
    found = np.bincount(GROUPS, w)
    assert found.dtype == np.bincount(GROUPS, V.astype("f")).dtype == np.float64
    found.sum().backward()
    assert w.grad.dtype == np.float32
    assert np.maximum.accumulate(w).dtype == np.add.reduceat(w, [0, 2]).dtype == np.float32


def test_ties_and_nan():
    x = leaf(np.array([1.0, 2.0, 2.0, 0.0, np.nan, 5.0]))
    for ufunc in (np.maximum, np.minimum):
        np.testing.assert_array_equal(plain(ufunc.accumulate(x)), ufunc.accumulate(plain(x)))
    np.maximum.accumulate(x)[:4].sum().backward()
    assert plain(x.grad).tolist() == [1.0, 3.0, 0.0, 0.0, 0.0, 0.0]  # at a tie the first


def test_live_groups():
    g = tg.jit(tg.grad(lambda w, groups: np.sum(np.bincount(groups, w, 5) ** 2)))
    for groups in (GROUPS, np.array([4, 4, 0, 0, 1, 2]), np.array([4, 3, 3, 3, 3, 3]), np.array([7, 0, 0, 0, 0, 0])):
        np.testing.assert_allclose(g(V, groups), 2.0 * np.bincount(groups, V)[groups])


def test_views_of_what_is_added_to():
    def f(x):
        a = tg.zeros((2, 3))
        row = a[1]
        np.add.at(row, [0, 0, 2], x)
        return (a * a).sum()

    np.testing.assert_allclose(tg.grad(f)(W), 2.0 * np.array([W[0] + W[1]] * 2 + [W[2]]))


@pytest.mark.parametrize("call, error, message", [
    (lambda t: np.bincount([0, 1], t), ValueError, "same length"), (lambda t: np.bincount([-1] * 6, t), ValueError, "negative|non-negative"),
    (lambda t: np.bincount(np.zeros((2, 3), int), t.reshape(2, 3)), ValueError, "too deep"), (lambda t: np.bincount([0.5] * 6, t), TypeError, "safe"),
    (lambda t: np.add.at(np.zeros(3), [0], t[0]), LeaveTapeError, "make the array with tg.zeros"), (lambda t: np.multiply.at(t * 1.0, [0], 2.0), UnsupportedFunctionError, r"\.at\(\)"),
    (lambda t: np.add.at(t * 1.0, [9], 1.0), IndexError, "out of bounds"), (lambda t: np.add.at(t * 1.0, [0, 1], t), ValueError, "broadcast"), (lambda t: np.add.reduceat(t, [9]), IndexError, "out-of-bounds"),
    (lambda t: np.maximum.accumulate(t, 0, "f"), UnsupportedFunctionError, "dtype"), (lambda t: np.maximum.accumulate(t, 3), np.exceptions.AxisError, "axis"),
    (lambda t: np.maximum.reduceat(t, [0]), UnsupportedFunctionError, "reduceat"), (lambda t: np.add.accumulate(t, dtype="f"), UnsupportedFunctionError, "dtype"),
])  # fmt: skip
def test_wrong_input(call, error, message):
    with pytest.raises(error, match=message):
        call(leaf(V))


def test_constants_stay_plain_to_numpy():
    constant = tg.tensor(V)
    np.testing.assert_array_equal(plain(np.bincount(GROUPS, constant)), np.bincount(GROUPS, V))
    a = np.zeros(3)
    np.add.at(a, [0, 0], tg.tensor([1.0, 2.0]))
    assert a.tolist() == [3.0, 0.0, 0.0]
    target = tg.zeros(3)
    np.add.at(target, [0, 0], np.array([1.0, 2.0]))
    assert plain(target).tolist() == [3.0, 0.0, 0.0] and not target.requires_grad


@every("ufunc", [np.maximum, np.minimum])
def test_extremes_at(ufunc):
    import tapegrad.numpy as tnp

    places, factors = np.array([0, 2, 0, 1, 2]), np.array([1.0, -2.0, 3.0])

    def ours(a, b):
        result = tnp.array(a) * 1.0
        getattr(tnp, ufunc.__name__).at(result, places, b)
        return result * factors

    def theirs(a, b):
        result = np.array(a)
        ufunc.at(result, places, b)
        return result * factors

    a, b = np.array([0.1, 0.2, 0.3]), np.array([0.5, -0.4, 0.7, 0.25, 0.9])
    check(ours, a, b, reference=theirs)
    assert tg.check(lambda a, b: np.sum(np.sin(ours(a, b))), a, b, order=2).passed

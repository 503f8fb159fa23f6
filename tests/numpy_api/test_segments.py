"""Sums, means and extremes by group: `tg.segment_sum` and its kin."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import DtypeError
from tests.rules.checker import generator, leaf, plain

RNG = generator(33)
X, C = RNG.standard_normal(7), RNG.standard_normal((7, 2, 3))
IDS = np.array([0, 3, 0, 1, 1, 3, 0])
FUNCTIONS = {
    "segment_sum": (np.sum, 0.0), "segment_mean": (np.mean, 0.0), "segment_max": (np.max, -np.inf), "segment_min": (np.min, np.inf),
}  # fmt: skip


def by_hand(name, data, ids, num):
    function, empty = FUNCTIONS[name]
    rows = [function(data[ids == k], axis=0) if (ids == k).any() else np.full(data.shape[1:], empty) for k in range(num)]
    return np.array(rows).reshape(num, *data.shape[1:])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_in_every_mode(name):
    function = getattr(tg, name)
    filled = np.where(IDS == 3, 2, IDS)
    for data in (X, C):
        for ids, num in ((filled, None), (filled, 3), (filled[::-1].copy(), None), *([(IDS, 5)] if name in ("segment_sum", "segment_mean") else [])):
            assert tg.check(lambda x: function(x, ids, num), data, order=2, reference=lambda x: by_hand(name, x, ids, num or 3)).passed


@pytest.mark.parametrize("name", FUNCTIONS)
def test_empty_groups_and_nan(name):
    data = X.copy()
    data[3] = np.nan
    t = leaf(data)
    found = getattr(tg, name)(t, IDS, 6)
    np.testing.assert_allclose(plain(found), by_hand(name, data, IDS, 6))
    found[np.array([0, 0])].sum().backward()
    assert plain(t.grad)[[1, 3, 4, 5]].tolist() == [0.0] * 4
    empty = getattr(tg, name)(np.zeros((0, 2)), np.zeros(0, int), 3)
    np.testing.assert_array_equal(plain(empty), by_hand(name, np.zeros((0, 2)), np.zeros(0, int), 3))
    assert getattr(tg, name)(np.zeros((0, 2)), []).shape == (0, 2)


def test_ties_go_to_the_first():
    for name in ("segment_max", "segment_min"):
        t = leaf(np.array([1.0, 1.0, 2.0, 2.0]))
        getattr(tg, name)(t, [0, 0, 1, 1]).sum().backward()
        assert plain(t.grad).tolist() == [1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_live_groups_under_jit(name):
    g = tg.jit(tg.grad(lambda x, ids: np.sum(getattr(tg, name)(x, ids, 3) ** 2)))
    plain_way = tg.grad(lambda x, ids: np.sum(getattr(tg, name)(x, ids, 3) ** 2))
    for ids in (np.array([0, 1, 2, 0, 1, 2, 0]), np.array([2, 2, 1, 1, 0, 0, 0]), np.array([1, 0, 0, 2, 2, 2, 2])):
        np.testing.assert_allclose(g(X, ids), plain_way(X, ids), rtol=1e-12)
    assert g.stats().records == 1 and g.stats().runs == 0
    counted = tg.jit(lambda x, ids: getattr(tg, name)(x, ids))
    for ids in (np.array([0, 1, 2, 0, 1, 2, 0]), np.array([3, 2, 1, 1, 0, 0, 0])):
        np.testing.assert_allclose(counted(X, ids), by_hand(name, X, ids, ids.max() + 1))


def test_float32():
    for name in FUNCTIONS:
        t = leaf(X.astype("f"))
        found = getattr(tg, name)(t, np.where(IDS == 3, 2, IDS))
        assert found.dtype == np.float32
        found.sum().backward()
        assert t.grad.dtype == np.float32


@pytest.mark.parametrize("name", FUNCTIONS)
def test_wrong_input(name):
    function = getattr(tg, name)
    for call, error, message in (
        (lambda: function(leaf(X), IDS, 2), IndexError, "between 0 and 3, and there are 2 groups"), (lambda: function(leaf(X), -IDS), IndexError, "between -3"),
        (lambda: function(leaf(X), IDS[:3]), ValueError, "one number for each row"), (lambda: function(leaf(X), IDS * 1.0), DtypeError, "integers"),
        (lambda: function(leaf(1.0), [0]), ValueError, "one number for each row"), (lambda: function(leaf(C), np.zeros((7, 2), int)), ValueError, "one number for each row"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            call()

"""The short way: static arrays of integers are compared by their bytes, arrays in another order than C are copied."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.transforms.replay.miss import MISS

X = np.linspace(0.5, 2.0, 6)


def picked(x, index):
    return np.sum(x[index] ** 2)


def expected(x, index):
    found = np.zeros_like(x)
    np.add.at(found, index, 2.0 * x[index])
    return found


def short(kernel, *args):
    """A gradient that has been called until nothing is due to be compared, and its short way."""
    g = tg.grad(picked, kernel=kernel)
    for _ in range(9):
        g(*args)
    return g, g._replayed.short


def counted(g, *args):
    """What the short way gives (`MISS`: the long way has to be gone)."""
    return g._replayed.quick(args, {})


@pytest.mark.parametrize("kernel, swept", [("never", True), ("always", False)])
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_the_same_bytes_go_the_short_way(kernel, swept, dtype):
    index = np.array([0, 3, 3, 5], dtype)
    g, quick = short(kernel, X, index)
    assert quick.swept == swept
    for x in (X, X + 1.0):
        gradient = counted(g, x, index.copy())
        np.testing.assert_allclose(gradient, expected(x, index))


@pytest.mark.parametrize("kernel", ["never", "always"])
def test_other_bytes_do_not(kernel):
    index = np.array([0, 3, 3, 5])
    g, _ = short(kernel, X, index)
    index[1] = 4
    others = [index, np.array([0, 3, 3]), np.array([[0, 3], [3, 5]]), np.array([0, 3, 3, 5], np.int32)]
    for other in others:
        assert counted(g, X, other) is MISS
        np.testing.assert_allclose(g(X, other), expected(X, other))
    # Each kind has a short way of its own, and the first one is found again.
    first = np.array([0, 3, 3, 5])
    np.testing.assert_allclose(g(X, first), expected(X, first))
    assert counted(g, X, first) is not MISS
    # The same content in another layout is the same kind.
    assert counted(g, X, np.array([0, 9, 3, 9, 3, 9, 5, 9])[::2]) is not MISS


def test_masks_and_empty_arrays():
    mask = X > 1.0
    g, _ = short("always", X, mask)
    assert counted(g, X, mask.copy()) is not MISS and counted(g, X, ~mask) is MISS
    np.testing.assert_allclose(g(X, ~mask), np.where(mask, 0.0, 2.0 * X))
    empty = np.zeros(0, np.int64)
    g, _ = short("always", X, empty)
    np.testing.assert_array_equal(counted(g, X, empty), np.zeros(6))


@pytest.mark.parametrize("static", [np.array([1, None], object), np.zeros(2, [("a", "i4"), ("b", "f4")])], ids=["objects", "fields"])
def test_arrays_of_which_bytes_do_not_say_all_go_the_long_way(static):
    g = tg.grad(lambda x, s: x * len(s), kernel="always")
    for _ in range(9):
        assert g(2.0, static) == float(len(static))
    assert counted(g, 2.0, static) is MISS


@pytest.mark.parametrize("static", [np.array(["a", "b"]), np.array([1j, 2.0])], ids=["text", "complex"])
def test_other_arrays_are_compared_by_their_bytes(static):
    g = tg.grad(lambda x, s: x * len(s), kernel="always")
    for _ in range(9):
        assert g(2.0, static) == float(len(static))
    assert counted(g, 2.0, static.copy()) == 2.0 and counted(g, 2.0, static[::-1]) is MISS


# -- arrays in another order ------------------------------------------------------------------
ROWS = np.random.default_rng(3).normal(size=(6, 4))
VIEWS = {"transposed": ROWS.T, "every second": ROWS[::2], "a column": ROWS[:, 1], "backwards": ROWS[::-1, ::-1]}


def weighted(x, w):
    return np.sum(np.sin(x) * w)


@pytest.mark.parametrize("kernel, swept", [("never", True), ("always", False)])
@pytest.mark.parametrize("view", VIEWS)
def test_arrays_in_another_order_go_the_short_way(kernel, swept, view):
    x = VIEWS[view]
    w = np.ascontiguousarray(x) + 1.0
    g = tg.grad(weighted, (0, 1), kernel=kernel)
    for _ in range(9):
        g(x, w)
    assert g._replayed.short.swept == swept
    for scale in (1.0, 2.5):
        there = np.empty(x.shape[::-1]).T if x.ndim == 2 else np.empty((len(x), 2))[:, 0]
        there[...] = scale * x
        of_x, of_w = counted(g, there, w)
        np.testing.assert_allclose(of_x, np.cos(there) * w, rtol=1e-13)
        np.testing.assert_allclose(of_w, np.sin(there), rtol=1e-13)
        assert of_x.flags.c_contiguous


@pytest.mark.parametrize("kernel", ["never", "always"])
def test_other_orders_are_other_kinds(kernel):
    """A function may look at the order, so a call in another one is not answered by this tape."""
    x = ROWS.T
    g = tg.grad(weighted, kernel=kernel)
    for _ in range(9):
        g(x, ROWS.T.copy())
    assert counted(g, x, ROWS.T.copy()) is not MISS
    for other in ((x.copy(), ROWS.T.copy()), (x, x), (x[:, :3], ROWS.T.copy()), (x.astype("f"), ROWS.T.copy()), (x,), ([1.0], ROWS)):
        assert counted(g, *other) is MISS
    np.testing.assert_allclose(g(x, x), np.cos(x) * x)
    np.testing.assert_allclose(g(x.copy(), ROWS.T.copy()), np.cos(x) * x)
    assert len(g._replayed.kinds) == 3

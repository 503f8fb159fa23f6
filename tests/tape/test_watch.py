"""The digest of large arrays sees every change, wherever words go."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import ModifiedInPlaceError
from tapegrad.tape.watch import SHORT, stamp


def _unseen(array, changes):
    """The changes, as functions of a copy, that leave the digest as it was."""
    before, copy, unseen = stamp(array), array.copy(), []
    for name, change in changes:
        change(copy)
        if stamp(copy) == before:
            unseen.append(name)
        np.copyto(copy, array)
    return unseen


def _exchange(i, j):
    def change(a):
        a[[i, j]] = a[[j, i]]

    return change


@pytest.mark.parametrize("values", ["random", "whole numbers", "ones and zeros"])
@pytest.mark.parametrize("first", [0, 130])
@pytest.mark.parametrize("size, distances", [(2200, range(1, 2001)), (70_000, [2**k for k in range(11, 17)])])
def test_words_that_are_exchanged(values, first, size, distances):
    a = np.zeros(size)
    if values == "random":
        a[:] = np.random.default_rng(first).standard_normal(size)
    elif values == "whole numbers":
        a[:] = np.arange(size) % 1001
    a[first] = -3.0 if values == "ones and zeros" else 2e6
    assert _unseen(a, [(d, _exchange(first, first + d)) for d in distances]) == []


@pytest.mark.parametrize("size", [513, 1024, 5 * 509])
def test_one_hot_that_moves(size):
    found = set()
    for k in range(size):
        hot = np.zeros(size)
        hot[k] = 1.0
        found.add(stamp(hot))
    assert len(found) == size


@pytest.mark.parametrize("columns", [127, 128, 509, 1018])
def test_rows_and_columns_that_are_permuted(columns):
    rng = np.random.default_rng(0)
    matrix = np.round(rng.standard_normal((40, columns)), 1)
    changes = [(order, lambda a, order=order: a.__setitem__(Ellipsis, a[list(order)])) for order in map(tuple, map(rng.permutation, 30 * [40]))]
    changes += [(f"columns {k}", lambda a, k=k: a.__setitem__(Ellipsis, np.roll(a, k, 1))) for k in range(1, columns, 3)]
    changes += [(f"all {k}", lambda a, k=k: a.__setitem__(Ellipsis, np.roll(a, k))) for k in range(1, 40 * columns, 197)]
    assert _unseen(matrix, changes) == []


@pytest.mark.parametrize("distance", [1, 2, 64, 128, 256, 509, 1024])
def test_pairs_of_changes(distance):
    rng = np.random.default_rng(distance)
    a = rng.standard_normal(5000)

    def flipped(i):
        return lambda a: a.__setitem__([i, i + distance], -a[[i, i + distance]])

    def shifted(i, by):
        def change(a):
            words = a.view(np.int64)
            words[i : i + 1] += by
            words[i + distance : i + distance + 1] -= by

        return change

    changes = [(f"signs {i}", flipped(i)) for i in range(0, 5000 - distance, 7)]
    changes += [(f"sum {i} {by}", shifted(i, by)) for i in range(0, 5000 - distance, 97) for by in (1, 2**32, 2**52, 2**62)]
    assert _unseen(a, changes) == []


@pytest.mark.parametrize("dtype", ["f8", "f4", "i2", "?", "u1"])
def test_every_byte_counts(dtype):
    size = SHORT // np.dtype(dtype).itemsize
    for extra in (1, 5, 67, 130):
        a = np.zeros(size + extra, dtype)
        found = {stamp(a)}
        for k in range(0, a.size, 1 + a.size // 300):
            a[k] = 1
            found.add(stamp(a))
            a[k] = 0
            tail = a.copy()
            tail[-1 - k % 9] = 1
            found.add(stamp(tail))
        assert len(found) >= 1 + len(range(0, a.size, 1 + a.size // 300))


def test_the_layout_does_not_count():
    a = np.random.default_rng(0).standard_normal((60, 70))
    wide = np.zeros((60, 140))
    wide[:, ::2] = a
    backwards = a[::-1].copy()[::-1]
    assert {stamp(a), stamp(np.asfortranarray(a)), stamp(wide[:, ::2]), stamp(backwards)} == {stamp(a)}
    assert stamp(a) != stamp(a.T)


def test_a_row_that_moves_is_seen_by_backward_and_by_a_replay():
    W = np.random.default_rng(0).standard_normal((20, 509))
    w = np.arange(20.0)
    gradient = tg.grad(lambda x: np.sum(w @ W * x))
    for _ in range(3):
        gradient(1.0)
    x = tg.tensor(np.ones(509), requires_grad=True)
    y = np.sum(w * (W @ x))
    W[[0, 1]] = W[[1, 0]]
    assert gradient(1.0) == pytest.approx(np.sum(w @ W))
    with pytest.raises(ModifiedInPlaceError, match="W"):
        y.backward()

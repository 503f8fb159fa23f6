"""Jacobians from a few compressed directions: exact, and only where columns or rows share no place."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.program.sparsity.compressed import column_colours as colours

A = np.random.default_rng(0).standard_normal((40, 40))


def band(x):
    return np.concatenate([x[:1] ** 2, x[1:-1] * x[2:] - np.sin(x[:-2]), x[-1:] * 3.0])


def loop(x):
    y = [x[0]]
    for i in range(1, len(x) - 1):
        y.append(x[i] * x[i + 1] - np.sin(x[i - 1]) if x[i] > 0.0 else x[i] ** 2)
    return np.stack(y)


def assigned(x):
    y = np.zeros_like(x)
    y[1:] = x[:-1] * x[1:]
    y[0] = x[0] ** 2
    y[5:7] += x[[3, 3]]
    return y, np.exp(y[::-1])


def moved(x):
    a = np.reshape(x, (8, 5)).T
    b = np.roll(np.flip(a, 0), 2) * np.pad(a, 1)[2:, :-2]
    return np.stack([b[:, ::2], a[:, 1::2]]), np.diag(x)[3:, 3:] * 2.0, np.repeat(x, 2)


def gathered(x):
    return np.sort(x) * x


FEW = {"band": band, "loop": loop, "assigned": assigned, "moved": moved, "cells": lambda x: np.sum(np.reshape(x, (20, 2)) ** 2, 1)}
MANY = {
    "matrix": lambda x: A @ x, "norm": lambda x: x / np.linalg.norm(x), "sorted": gathered, "scan": np.cumsum,
    "arrow": lambda x: np.concatenate([x[:1] * np.sum(x), x[1:] ** 2 * x[0]]),
}  # fmt: skip


def flat(result):
    return np.concatenate([np.ravel(r) for r in result]) if isinstance(result, tuple) else np.ravel(result)


def used(jacobian):
    kept = [kept for kind in jacobian._replayed.kinds.values() for kept in kind.tapes]
    return [k.tape.kept[0].walk._compressed for k in kept]


@pytest.mark.parametrize("mode", ["forward", "reverse", "auto"])
@pytest.mark.parametrize("name", [*FEW, *MANY])
def test_compressed_jacobians_are_those_of_unit_seeds(name, mode):
    f = {**FEW, **MANY}[name]
    rng = np.random.default_rng(1)
    jacobian = tg.jit(tg.jacobian(f, mode=mode), kernel="never")
    for k in range(5):
        x = rng.standard_normal(40) if name != "loop" or k % 2 else rng.uniform(0.1, 1.0, 40)
        # A function that is new has no tape to be compressed.
        np.testing.assert_allclose(flat(jacobian(x)), flat(tg.jacobian(f, mode=mode)(x)), rtol=1e-14, atol=1e-15)


def test_a_band_takes_as_many_directions_as_it_is_wide():
    jacobian = tg.jit(tg.jacobian(band), kernel="never")
    for _ in range(3):
        jacobian(np.linspace(0.1, 1.0, 200))
    by_columns, by_rows = used(jacobian)[0]
    assert by_columns.count == by_rows.count == 3


def test_what_is_dense_is_left_alone():
    jacobian = tg.jit(tg.jacobian(MANY["matrix"]), kernel="never")
    for _ in range(3):
        jacobian(np.ones(40))
    assert used(jacobian) == [None]


def test_several_arguments_and_float32():
    jacobian = tg.jit(tg.jacobian(lambda x, y: x[1:] * x[:-1] + y[1:] ** 2, (0, 1)), kernel="never")
    for k in range(4):
        x, y = np.linspace(0.1, 1.0, 30).astype("f") + k, np.linspace(1.0, 2.0, 30).astype("f")
        found = jacobian(x, y)
    assert [f.dtype.char for f in found] == ["f", "f"]
    np.testing.assert_array_equal(found[1], np.eye(30, dtype="f")[1:] * 2.0 * y)
    np.testing.assert_array_equal(found[0], np.eye(30, dtype="f")[1:] * np.r_[0.0, x[:-1]].astype("f") + np.eye(29, 30, dtype="f") * np.r_[x[1:], 0.0].astype("f"))


def test_colours_share_no_row():
    from scipy.sparse import random_array

    structure = random_array((60, 50), density=0.05, format="csr", rng=np.random.default_rng(0))
    found = colours(structure)
    for row in range(60):
        mine = found[structure.indices[structure.indptr[row] : structure.indptr[row + 1]]]
        assert len(set(mine.tolist())) == len(mine)
    assert found.min() == 0


def test_nobody_looks_long_for_a_pattern_unasked(monkeypatch):
    from tapegrad.program.sparsity import compressed

    f = tg.jit(tg.sparse_jacobian(lambda x: np.concatenate([A @ x, x * x])))
    assert f(np.ones(40)).nnz == 1640
    (kind,) = f._replayed.kinds.values()
    tape = kind.recent.tape
    for most in (1000, 40 * 45):
        monkeypatch.setattr(compressed, "MOST", most)
        assert compressed.Compressions(tape).worth is None

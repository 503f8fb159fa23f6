"""Cofactors and their changes beside determinants of what is left without rows and columns."""

import itertools

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.recorded import Recorded
from tapegrad.rules.linalg import change, cofactors
from tests.rules.checker import generator


def minor(a, rows, columns):
    return np.linalg.det(np.delete(np.delete(a, rows, 0), columns, 1))


def cofactors_by_minors(a):
    n = len(a)
    return np.array([[(-1) ** (i + j) * minor(a, [i], [j]) for j in range(n)] for i in range(n)])


def change_by_minors(a, t):
    """From the expansion of the cofactors along a row: t[k, l] times the determinant without rows i, k and columns j, l."""
    n, found = len(a), np.zeros(a.shape)
    for i, k, j, l in itertools.product(range(n), repeat=4):  # noqa: E741
        if i != k and j != l:
            sign = (-1) ** (i + j + k - (k > i) + l - (l > j))
            found[i, j] += sign * t[k, l] * minor(a, [i, k], [j, l])
    return found


def with_values(values, seed=1):
    """A matrix of these singular values."""
    rng, n = generator(seed), len(values)
    left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    return left @ np.diag(np.array(values, float)) @ right


VALUES = [[3, 2, 1, 0.5], [3, 2, 1, 0], [3, 2, 1, 1e-16], [3, 2, 0, 0], [2, 2, 0, 0], [2, 2, 2, 0], [2, 2, 2, 2], [3, 0, 0, 0], [0] * 4, [2, 0], [0, 0]]


@pytest.mark.parametrize("values", VALUES, ids=str)
def test_at_matrices_of_every_rank(values):
    a = with_values(values)
    t, g = generator(2).standard_normal((2, *a.shape))
    np.testing.assert_allclose(cofactors(Recorded(a)).a, cofactors_by_minors(a), atol=1e-13)
    expected = change_by_minors(a, t)
    np.testing.assert_allclose(change(Recorded(a), Recorded(t)).a, expected, atol=1e-12)
    assert np.sum(change(Recorded(a), Recorded(g)).a * t) == pytest.approx(np.sum(expected * g), abs=1e-12)


@pytest.mark.parametrize("values", VALUES, ids=str)
def test_second_derivative_of_det_in_every_nesting(values):
    a = with_values(values, 3)
    u, v = generator(4).standard_normal((2, *a.shape))
    det, expected = np.linalg.det, np.sum(u * change_by_minors(a, v))
    product = tg.jit(tg.hvp(det), kernel="always")
    found = {
        "ff": tg.jvp(lambda x: tg.jvp(det, (x,), (u,))[1], (a,), (v,))[1],
        "fr": np.sum(tg.jvp(tg.grad(det), (a,), (v,))[1] * u),
        "rf": np.sum(tg.grad(lambda x: tg.jvp(det, (x,), (u,))[1])(a) * v),
        "rr": np.sum(tg.grad(lambda x: np.sum(tg.grad(det)(x) * u))(a) * v),
        "hessian": np.einsum("ij,ijkl,kl", u, tg.hessian(det)(a), v),
        **{f"kernel, call {k}": np.sum(product(a, v) * u) for k in range(6)},
    }
    assert product.stats().kernel_calls
    for name, value in found.items():
        assert value == pytest.approx(expected, abs=1e-11), name


@pytest.mark.parametrize("values", [[2, 2, 2, 2], [3, 2, 1, 0.5], [3, 2, 1, 0]], ids=str)
def test_third_derivative(values):
    """By the inverse where there is one, so equal values do not matter."""
    a = with_values(values, 5)
    u, v, w = generator(6).standard_normal((3, *a.shape))
    step = 1e-3
    # Of fourth degree: its third derivative is linear, and a central difference of the second one is exact.
    expected = np.sum(u * (change_by_minors(a + step * w, v) - change_by_minors(a - step * w, v))) / (2 * step)
    found = np.sum(tg.grad(lambda x: np.sum(tg.hvp(np.linalg.det)(x, v) * u))(a) * w)
    assert found == pytest.approx(expected, rel=1e-9)


def test_stacks_and_small_matrices():
    stack = generator(7).standard_normal((2, 3, 3))
    t = generator(8).standard_normal((2, 3, 3))
    found = tg.hvp(lambda x: np.sum(np.linalg.det(x)))(stack, t)
    np.testing.assert_allclose(found, [change_by_minors(a, d) for a, d in zip(stack, t)], atol=1e-13)
    assert tg.hessian(np.linalg.det)(np.array([[2.0]])).tolist() == [[[[0.0]]]]
    assert tg.hvp(lambda x: np.linalg.det(x) + np.sum(x))(np.zeros((0, 0)), np.zeros((0, 0))).shape == (0, 0)

"""Ufuncs of integers and truth values in replays: those of whole matrices, their methods, ``out=``, at values that were not recorded."""

import numpy as np
import pytest

import tapegrad as tg

DTYPES = "?bBhHiIqQ"


def into(method, *args, of):
    changed = of.copy()
    method(changed, *args)
    return changed


def out(function, *args, of, **options):
    changed = of.copy()
    function(*args, out=changed, **options)
    return changed


def matmul_in_place(a, b):
    a = a.copy()
    a @= b
    return a


#: Functions of a, b and the square matrices c, d.
GENERALISED = {
    "@": lambda a, b, c, d: a @ b,
    "of vectors": lambda a, b, c, d: a[0] @ b[:, 1],
    "a matrix and a vector": lambda a, b, c, d: a @ b[:, 0] + b[0, 0],
    "a vector and a matrix": lambda a, b, c, d: a[1] @ b,
    "stacks": lambda a, b, c, d: np.stack([a, a[::-1]]) @ b,
    "transposed": lambda a, b, c, d: a.T @ a,
    "reversed and strided": lambda a, b, c, d: a[::-1, ::2] @ b[::-2],
    "columns first": lambda a, b, c, d: np.asfortranarray(a) @ b.T.copy().T,
    "a constant": lambda a, b, c, d: a @ np.array([[1, 2], [3, 4], [5, 6]]),
    "from the left": lambda a, b, c, d: np.array([1, 2]) @ a,
    "in place": lambda a, b, c, d: matmul_in_place(c, d),
    "matmul": lambda a, b, c, d: np.matmul(c, d, axes=[(1, 0), (0, 1), (1, 0)]),
    "of a dtype": lambda a, b, c, d: np.matmul(a, b, dtype=float),
    "vecdot": lambda a, b, c, d: np.vecdot(c, d) + np.vecdot(c, d, axis=0) + np.vecdot(c, d, keepdims=True),
    "matvec": lambda a, b, c, d: np.matvec(a, b[:, 1]) + np.linalg.vecdot(c, d),
    "vecmat": lambda a, b, c, d: np.vecmat(a[0], b),
    "linalg": lambda a, b, c, d: np.linalg.matmul(a, b),
    "out=": lambda a, b, c, d: out(np.matmul, c, d, of=d),
    "add, out=": lambda a, b, c, d: out(np.bitwise_or, c, d, of=c, where=d > 1),
    "at": lambda a, b, c, d: into(np.maximum.at, ([0, 0, 1], [1, 1, 0]), d[0, 1], of=c),
    "at positions that are computed": lambda a, b, c, d: into(np.bitwise_xor.at, np.argsort(c[0]), d[1], of=c[1]),
    "outer": lambda a, b, c, d: np.multiply.outer(a[0], b[0]),
    "accumulate": lambda a, b, c, d: np.maximum.accumulate(a, axis=1),
    "reduce": lambda a, b, c, d: np.bitwise_or.reduce(a, axis=1),
    "reduceat": lambda a, b, c, d: np.add.reduceat(b, [0, 2]),
    "copies": lambda a, b, c, d: c.copy().T.ravel() + c.T.copy().reshape(-1),
}


def arrays(dtype, rng):
    return [rng.integers(0, 2 if dtype == "?" else 9, shape).astype(dtype) for shape in ((2, 3), (3, 2), (2, 2), (2, 2))]


@pytest.mark.parametrize("name", GENERALISED)
def test_every_integer_dtype_at_other_values(name):
    function, rng = GENERALISED[name], np.random.default_rng(len(name))

    def summed(x, *things):
        return np.sum(function(*things) * x)

    for dtype in DTYPES:
        for kernel in ("never", "always") if dtype in "?hq" else ("never",):
            value, slope = tg.jit(summed, kernel=kernel), tg.jit(tg.grad(summed), kernel=kernel)
            for x in (1.5, 2.5, -0.5):
                things = arrays(dtype, rng)
                try:
                    expected = summed(x, *things), np.sum(function(*things) * 1.0)
                except TypeError:
                    with pytest.raises(TypeError):
                        value(x, *things)
                    continue
                assert (value(x, *things), slope(x, *things)) == pytest.approx(expected, rel=1e-12), (dtype, kernel)


def test_in_loops_and_lanes():
    A, x = np.array([[[1, 2], [3, 4]], [[5, 6], [7, 9]]]), 1.3
    scanned = tg.jit(tg.value_and_grad(lambda x, A: tg.scan(lambda c, R: (c * 0.5 + np.sum(R @ R) * x, None), x, A)[0]))
    mapped = tg.jit(tg.value_and_grad(lambda x, A: np.sum(tg.vmap(lambda R: np.sum((R @ R.T) * np.vecdot(R, R)) * x)(A))))
    product = tg.jit(tg.value_and_grad(lambda x, A: np.sum((A[0] @ A[1]) * x)))
    for B in (A, A[::-1] * 2, A - 3):
        for g in (scanned, mapped, product):
            value, slope = g(x, B)
            sums = [np.sum(R @ R) for R in B]
            if g is scanned:
                expected = 0.25 * x + 0.5 * sums[0] * x + sums[1] * x
            else:
                expected = x * (sum(np.sum((R @ R.T) * np.vecdot(R, R)) for R in B) if g is mapped else np.sum(B[0] @ B[1]))
            assert (value, slope) == pytest.approx((expected, expected / x), rel=1e-12)


def test_a_mask_that_is_copied_and_multiplied():
    """A product of masks, which is none of integers, and copies of truth values."""

    def count(x):
        m = (x > 0).copy()
        n = m.T.flatten()
        np.logical_or.at(m, 0, x[0] > 1)
        return (m @ n) * x[1] + (np.where(m, 1, 0) @ np.where(n, 1, 0)) * x[0]

    for kernel in ("never", "always"):
        g = tg.jit(tg.value_and_grad(count), kernel=kernel)
        for x in (np.array([1.5, 2.0, -1.0]), np.array([-1.0, 1.0, 3.0]), np.array([0.5, -1.0, -2.0])):
            value, slope = g(x)
            assert value == pytest.approx(count(x))
            np.testing.assert_allclose(slope, [(count(x + h) - count(x - h)) / 2e-6 for h in 1e-6 * np.eye(3)], atol=1e-6)


def test_what_a_generalised_ufunc_has_not():
    t = tg.tensor(np.ones((2, 2)), requires_grad=True)
    for refused in (lambda: np.matmul.outer(t, t), lambda: np.matmul(t, t, out=tg.zeros((2, 2)), where=np.eye(2, dtype=bool))):
        with pytest.raises(TypeError):
            refused()

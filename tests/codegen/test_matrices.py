"""Loops over stacks of matrices, by LAPACK: what NumPy gives, and NaN where NumPy raises."""

import ctypes

import numpy as np
import pytest
from scipy import special

import tapegrad as tg
from tapegrad.codegen.library import compiled_function
from tapegrad.codegen.ufuncs import CORES, MatrixLoop
from tests.every import every

LOOP = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)
NUMPY = {
    "inv": np.linalg.inv, "solve": np.linalg.solve, "det": np.linalg.det, "slogdet": np.linalg.slogdet, "matmul": np.matmul,
    "logabsdet": lambda a: np.linalg.slogdet(a).logabsdet, "cholesky": np.linalg.cholesky, "eigh": np.linalg.eigh, "svd": lambda a: np.linalg.svd(a, full_matrices=False), "qr": np.linalg.qr,
}  # fmt: skip


def by_kernel(function, *stacks):
    """What a kernel gives that calls NumPy for it."""
    g = tg.jit(function, kernel="always")
    for _ in range(3):
        results = g(*stacks)
    assert g.stats().kernel_calls
    return list(results) if isinstance(results, tuple) else [results]


def computed(name, *stacks):
    """What the loop gives, or a kernel where there is no loop."""
    if name == "inv":
        return computed("solve", *stacks, np.broadcast_to(np.eye(stacks[0].shape[1], dtype=stacks[0].dtype), stacks[0].shape))
    if name not in CORES:
        return by_kernel(NUMPY[name], *stacks)
    inputs, outputs = CORES[name]
    extents = {letter: n for x, names in zip(stacks, inputs) for letter, n in zip(names, x.shape[1:])}
    if "p" in "".join(outputs):
        extents["p"] = min(extents.values())
    char, count = stacks[0].dtype.char, len(stacks[0])
    results = [np.empty((count, *(extents[letter] for letter in names)), char) for names in outputs]
    arrays = [*stacks, *results]
    numbers = [[count, *extents.values()], [a.strides[0] for a in arrays] + [s for a in arrays for s in a.strides[1:]]]
    dims, steps = ((ctypes.c_ssize_t * len(row))(*row) for row in numbers)
    spec = MatrixLoop(name, char)
    address = spec.address()
    LOOP(address)((ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays)), dims, steps, spec.data())
    return results


def operands(name, n, char):
    rng = np.random.default_rng(n)
    x = rng.normal(size=(4, n, n))
    if name in ("cholesky", "eigh"):
        x = x @ np.swapaxes(x, 1, 2) + np.eye(n)
    if name in ("svd", "qr"):
        x = rng.normal(size=(4, n, 3))
    return [x.astype(char), *([rng.normal(size=(4, n, 2)).astype(char)] if name in ("solve", "matmul") else [])]


@every("char", "df")
@every("n", [1, 2, 3, 9, 30])
@every("name", NUMPY)
def test_a_loop_gives_what_numpy_gives(name, n, char):
    first, *others = operands(name, n, char)
    layouts = [first, np.asfortranarray(first)] + ([np.swapaxes(first, 1, 2)] if first.shape[1] == first.shape[2] else [])
    for stack in layouts:
        results, expected = computed(name, stack, *others), NUMPY[name](stack, *others)
        expected = list(expected) if isinstance(expected, tuple) else [expected]
        if name in ("svd", "eigh"):  # the signs of vectors are free
            results, expected = (list(map(np.abs, parts)) for parts in (results, expected))
        for one, other in zip(results, expected, strict=True):
            assert one.dtype == other.dtype and np.allclose(one, other, rtol=1e-9 if char == "d" else 1e-2, atol=1e-10 if char == "d" else 1e-3)


@pytest.mark.parametrize("kernel", ["always", "never"])
@pytest.mark.parametrize("function", [lambda a: np.linalg.det(a), lambda a: np.linalg.slogdet(a)[1], lambda a: np.sum(np.linalg.cholesky(a) ** 3)], ids=["det", "slogdet", "cholesky"])
def test_a_replay_calls_no_function_of_numpy(function, kernel, monkeypatch):
    """A call of it takes as long as a hundred of the loop for a small matrix."""
    first, second, *_ = operands("eigh", 3, "d")[0]
    g = tg.jit(tg.value_and_grad(function), kernel=kernel)
    g(first), g(first)
    value, gradient = tg.value_and_grad(function)(second)
    for name in ("det", "slogdet", "cholesky", "svd"):
        monkeypatch.setattr(np.linalg, name, None)
    before, found = g.stats().kernel_calls, g(second)
    assert g.stats().kernel_calls - before == (kernel == "always")
    assert np.allclose(found[0], value, rtol=1e-12) and np.allclose(found[1], gradient, rtol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 6])
def test_the_other_triangle(n):
    (x,) = operands("eigh", n, "d")
    half = np.triu(x) - 7.0 * np.tril(np.ones((n, n)), -1)
    assert np.allclose(by_kernel(lambda a: np.linalg.cholesky(a, upper=True), half)[0], np.linalg.cholesky(x, upper=True))
    assert np.allclose(by_kernel(lambda a: np.linalg.eigh(a, "U"), half)[0], np.linalg.eigvalsh(x))


@pytest.mark.parametrize("char", "df")
def test_where_there_is_no_answer_it_is_nan_and_elsewhere_what_it_is(char):
    x = (np.array([np.eye(3), np.ones((3, 3)), np.eye(3)]) * 2.0).astype(char)
    assert np.array_equal(np.isnan(computed("inv", x)[0]).all((1, 2)), [False, True, False])
    assert np.array_equal(np.isnan(computed("solve", x, x)[0]).all((1, 2)), [False, True, False])
    assert np.array_equal(computed("det", x)[0], np.linalg.det(x)) and np.array_equal(computed("slogdet", x), np.linalg.slogdet(x))
    x[1] = [[-1, 0, 0], [0, 1, 0], [0, 0, 1]]
    g = tg.jit(np.linalg.cholesky, kernel="always")
    assert np.array_equal(g(np.abs(x)), np.linalg.cholesky(np.abs(x)))
    with pytest.raises(np.linalg.LinAlgError):
        g(x)
    x[1] = np.nan
    for part in computed("svd", x):
        assert np.isnan(part[1]).all() and not np.isnan(part[[0, 2]]).any()
    g = tg.jit(np.linalg.eigh, kernel="always")
    g(np.abs(np.nan_to_num(x)))
    try:
        expected = np.linalg.eigh(x)
    except np.linalg.LinAlgError:
        with pytest.raises(np.linalg.LinAlgError):
            g(x)
    else:
        for part, other in zip(g(x), expected):
            assert np.array_equal(part, other, equal_nan=True) and np.isnan(part[1]).all()


@pytest.mark.parametrize("kernel", ["auto", "always", "never"])
def test_the_determinant_of_no_rows_is_one(kernel):
    g = tg.jit(lambda a: (np.linalg.det(a), *np.linalg.slogdet(a)), kernel=kernel)
    for _ in range(3):
        for computed, expected in zip(g(np.zeros((2, 0, 0))), (1.0, 1.0, 0.0), strict=True):
            assert np.array_equal(computed, [expected, expected])


@pytest.mark.parametrize("s", [1.5, 2.0, 3.0, 10.0, 200.0])
def test_the_zeta_function_is_scipys(s):
    zeta = compiled_function("zeta")
    for q in (1e-6, 0.1, 1.0, 3.3, 9.0, 50.0, 1e5, 1e9, -0.5, -3.3, -2.0, 0.0):
        expected = special.zeta(s, q)
        assert np.isclose(zeta(s, q), expected, rtol=4e-16, atol=0.0, equal_nan=True), q
    assert zeta(1.0, 2.0) == np.inf and np.isnan(zeta(0.5, 2.0))
    for q in (-0.3, -1.5, -7.25, -3.999, -20.1, -1e-9, -1e-20, -3.0 - 1e-9, -3.0 + 1e-9):
        if s == int(s) and s * np.log10(np.abs(q - np.round(q))) > -300.0:
            terms = int(-q) + 1
            assert np.isclose(zeta(s, q), sum((q + k) ** -s for k in range(terms)) + special.zeta(s, q + terms), rtol=1e-13), q
    # Far down there are too many terms to add, and where floats are whole numbers a pole each.
    assert zeta(2.0, -1e12 - 0.25) > 0.0 and zeta(2.0, -1e300) == zeta(2.0, -np.inf) == np.inf

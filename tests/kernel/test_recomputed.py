"""Functions without derivative that kernels compute themselves: without a call of NumPy, and as NumPy does."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.kernel import ir

N = 12
W = np.arange(1.0, N + 1.0)
KNOTS = np.array([-0.9, -0.1, -0.1, 0.4, 1.1])


def square(x):
    return x.reshape(3, 4)


def whole(x):
    return np.floor(np.where(np.isfinite(x), x, 0.0)).astype(int)


FUNCTIONS = {
    "any": lambda x: np.sum(x) * np.any(x > 1), "any of floats": lambda x: np.sum(x) * np.any(x), "any method": lambda x: np.sum(x) * (x > 1).any(),
    "any along": lambda x: np.sum(square(x) * np.any(square(x) > 1, axis=1)[:, None]), "all": lambda x: np.sum(x) * np.all(x > -1),
    "all along two": lambda x: np.sum(x.reshape(3, 2, 2) * np.all(x.reshape(3, 2, 2) > -1, axis=(1, 2))[:, None, None]),
    "count_nonzero": lambda x: np.sum(x) * np.count_nonzero(x), "count along": lambda x: np.sum(square(x) * np.count_nonzero(square(x) > 0, axis=0)),
    "mean": lambda x: np.sum(x) * np.mean(x > 0), "mean along": lambda x: np.sum(square(x) * np.mean(square(x) > 0, axis=0)),
    "cumsum": lambda x: np.sum(x * np.cumsum(x > 0)), "cumsum along": lambda x: np.sum(square(x) * np.cumsum(square(x) > 0, axis=0)),
    "argmax": lambda x: x[np.argmax(x)] + np.sum(x * W), "argmin of rows": lambda x: x[np.argmin(square(x))], "argmax of truth": lambda x: x[np.argmax(x > 0)],
    "argmax along": lambda x: np.sum(np.take_along_axis(square(x), np.argmax(square(x), 1)[:, None], 1) ** 2),
    "argmin along": lambda x: np.sum(square(x)[0] * np.argmin(square(x), 0)), "max": lambda x: np.sum(x) * np.max(whole(x)),
    "min along": lambda x: np.sum(square(x) * np.min(square(whole(x)), axis=0)), "clip": lambda x: np.sum(x[np.clip(whole(x), 0, 3)]),
    "clip below": lambda x: np.sum(x[np.clip(whole(x), 0, None)]), "clip by arrays": lambda x: np.sum(x * np.clip(whole(x), np.zeros(N, int), np.arange(N))),
    "searchsorted": lambda x: np.sum(x * np.searchsorted(KNOTS, x)), "on the right": lambda x: np.sum(x * np.searchsorted(KNOTS, x, side="right")),
    "in a list": lambda x: np.sum(x * np.searchsorted([-1.0, 0.0, 1.0], x)), "one number": lambda x: x[0] * x[np.searchsorted(KNOTS, x[1])],
    "in what is computed": lambda x: np.sum(x[:4] * np.searchsorted(np.sort(x[4:]), x[:4])), "rows": lambda x: np.sum(square(x) * np.searchsorted(KNOTS, square(x))),
    "in no order": lambda x: np.sum(x[:4] * np.searchsorted(x[4:], x[:4])), "digitize": lambda x: np.sum(x * np.digitize(x, KNOTS)),
    "digitize downward": lambda x: np.sum(x * np.digitize(x, KNOTS[::-1])), "closed": lambda x: np.sum(x * np.digitize(x, KNOTS, right=True)),
    "closed downward": lambda x: np.sum(x * np.digitize(x, KNOTS[::-1], right=True)), "isclose": lambda x: np.sum(np.where(np.isclose(x, 1.0), x, x * x)),
    "isclose of two": lambda x: np.sum(np.where(np.isclose(x, x[::-1], rtol=0.1), x, x * x)), "isclose from zero": lambda x: np.sum(np.where(np.isclose(0.0, x), x, x * x)),
    "isclose to inf": lambda x: np.sum(np.where(np.isclose(x, np.inf), 1.0, x * x)), "allclose": lambda x: np.sum(x) * np.allclose(x, 0.0, atol=2.0),
    "sort": lambda x: np.sum(np.sort(x) * W), "sort along": lambda x: np.sum(np.sort(square(x), 0) * square(W)), "sort rows": lambda x: np.sum(np.sort(square(x), 1) * square(W)),
    "median": lambda x: np.median(x), "median along": lambda x: np.sum(np.median(square(x), axis=0) * W[:4]), "nanmedian": lambda x: np.nanmedian(x),
    "quantile": lambda x: np.sum(np.quantile(square(x), [0.1, 0.6], axis=1) * W[:6].reshape(2, 3)), "maximum.accumulate": lambda x: np.sum(np.maximum.accumulate(x) * W),
    "minimum.accumulate": lambda x: np.sum(np.minimum.accumulate(x.reshape(3, 2, 2), 1) * W.reshape(3, 2, 2)), "nan_to_num": lambda x: np.sum(np.nan_to_num(x) * W),
    "nan_to_num by": lambda x: np.sum(np.nan_to_num(x, nan=2.0, posinf=3.0, neginf=-5.0) * W), "nanmax": lambda x: np.nanmax(x), "nansum": lambda x: np.nansum(x * W),
    "average": lambda x: np.average(W, weights=np.where(np.isfinite(x), np.abs(x) + 1.0, 1.0)),
    "choose": lambda x: np.sum(np.choose(np.clip(whole(x), 0, 2), [x, x * x, 2.0])),
    "bincount": lambda x: np.sum(np.bincount((x > 0).astype(int) + 2 * (x > 1), weights=x, minlength=4) ** 2),
}  # fmt: skip


def points(rng):
    """Random ones, with ties, and with what is not finite."""
    for kind in 2 * (0, 1, 2, 3):
        x = rng.normal(size=N)
        x = np.round(x * kind) / kind if kind in (1, 2) else x
        if kind > 1:
            x[rng.integers(N)] = rng.choice([np.nan, np.inf, -np.inf, -0.0])
        yield x


def calls(kernel):
    """Names of what a kernel calls."""
    return [statement.name for statement in ir.walk(kernel.program.body) if isinstance(statement, ir.Run)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_kernels_compute_as_numpy_does(name):
    f, rng = FUNCTIONS[name], np.random.default_rng(len(name))
    plain, compiled = tg.value_and_grad(f), tg.jit(tg.value_and_grad(f), kernel="always")
    for x in points(rng):
        expected = plain(x)
        np.testing.assert_array_equal(np.isnan(expected[0]), np.isnan(f(x)))
        for found in (compiled(x), compiled(x)):
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
    assert calls(compiled.kernel(rng.normal(size=N))) == []


def test_a_least_squares_fit_makes_no_matrix_of_all_observations():
    """None of its intermediate results is larger than the factors of the matrix, packed below each other."""
    observed = np.sin(np.arange(40.0))
    g = tg.jit(tg.value_and_grad(lambda a: np.sum(np.linalg.lstsq(a, observed, rcond=None)[0] ** 2)), kernel="always")
    kernel = g.kernel(np.random.default_rng(0).normal(size=(40, 3)))
    assert set(calls(kernel)) == {"svd", "matmul"}
    buffers = {buffer for s in ir.walk(kernel.program.body) if isinstance(s, ir.Run) for buffer in s.reads | s.writes}
    assert max(buffer.size for buffer in buffers) == (40 + 1 + 3) * 3


def test_large_tables_and_sorts_are_calls_of_numpy():
    knots, many = np.linspace(-1.0, 1.0, 1000), np.linspace(-1.0, 1.0, 500)
    found = tg.jit(tg.grad(lambda x: np.sum(x * np.searchsorted(knots, x))), kernel="always")
    ordered = tg.jit(tg.grad(lambda x: np.sum(np.sort(x) * many)), kernel="always")
    np.testing.assert_array_equal(found(many), np.searchsorted(knots, many))
    np.testing.assert_array_equal(ordered(many[::-1].copy()), many[::-1])
    assert calls(found.kernel(many)) == ["searchsorted"] and calls(ordered.kernel(many)) == ["sorted"]


def test_of_equal_elements_a_sort_keeps_the_order():
    """However many there are; NumPy's own order of them is any."""
    for n in (8, 40, 1000):
        x = np.arange(float(n)) % 2.0
        expected = np.argsort(np.argsort(x, kind="stable")) * 1.0
        for g in (tg.grad, lambda f: tg.jit(tg.grad(f), kernel="always")):
            np.testing.assert_array_equal(g(lambda x: np.sum(np.sort(x) * np.arange(float(n))))(x), expected)


def test_truth_values_beside_numbers():
    def counted(x):
        m, n = x > 0, x < 1
        k = 2 * m + (x > 1) * 3 - (m + n) + np.floor(np.abs(x)).astype(int) * (m * n)
        return np.sum(x * k) + np.sum(x * (m * 1.5)) + np.sum(np.where(m + n, x, 0.0))

    g, rng = tg.jit(tg.value_and_grad(counted), kernel="always"), np.random.default_rng(0)
    for x in rng.normal(size=(4, N)):
        for one, other in zip(g(x), tg.value_and_grad(counted)(x)):
            np.testing.assert_allclose(one, other, rtol=1e-12)
    assert calls(g.kernel(x)) == []


@pytest.mark.parametrize(
    "derivative",
    [lambda f: lambda x: tg.grad(f)(x), lambda f: lambda x: tg.jvp(f, (x,), (W,))[1], lambda f: lambda x: tg.hvp(f)(x, W), lambda f: lambda x: tg.hessian(f)(x)],
)  # fmt: skip
def test_derivatives_inside_find_positions_without_numpy(derivative):
    """Of one direction, and of several at once."""

    def f(x):
        return np.sum(np.sort(x) ** 3 * W) + np.median(x) * x[np.argmax(x)] ** 2

    g, rng = tg.jit(derivative(f), kernel="always"), np.random.default_rng(0)
    for x in rng.normal(size=(4, N)):
        np.testing.assert_allclose(g(x), derivative(f)(x), rtol=1e-12)
    assert calls(g.kernel(x)) == []

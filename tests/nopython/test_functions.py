"""Functions of NumPy inside compiled functions: forward mode, reverse mode and Hessians against differences and the recorded gradient."""

import math

import numpy as np
import pytest
from numba.core import event

import tapegrad as tg
from tapegrad.common.errors import UnsupportedInNumbaError

from .programs import differences

numba = pytest.importorskip("numba")

AT = np.array([0.7, 1.3, 0.4])


def joined(x):
    m, k = np.outer(x, x * x), np.outer(x, x)
    s = np.sum(np.stack((x, x * x, x[::-1])) ** 3 * np.arange(9.0).reshape(3, 3)) + np.sum(np.stack((x, x * x), axis=-1) ** 3 * np.arange(6.0).reshape(3, 2))
    s += np.sum(np.vstack((x, x * x)) ** 2 * np.arange(6.0).reshape(2, 3)) + np.sum(np.vstack((m, k)) ** 2 * np.arange(18.0).reshape(6, 3))
    s += np.sum(np.hstack((x, x * x, x[:1])) ** 2 * np.arange(7.0)) + np.sum(np.hstack((m, k)) ** 2 * np.arange(18.0).reshape(3, 6))
    s += np.sum(np.column_stack((x, m, x * x)) ** 2 * np.arange(15.0).reshape(3, 5))
    return s + np.sum(np.concatenate((m, k), -1) ** 2 * np.arange(18.0).reshape(3, 6)) + np.sum(np.concatenate((m, k)) ** 2 * np.arange(18.0).reshape(6, 3))


def moved(x):
    m = np.outer(x, x * x)
    s = np.sum(np.repeat(x, 3) ** 2 * np.arange(9.0)) + np.sum(np.delete(x, 1) ** 2) + np.sum(np.delete(x, -1) ** 3)
    s += np.sum(np.take(x, np.array([0, 2, 2, -1])) ** 2 * np.arange(4.0)) + np.sum(np.take(m, np.array([0, 5, 8, -2])) ** 2 * np.arange(4.0))
    s += np.sum(np.triu(m) ** 2) + np.sum(np.tril(m, 1) ** 3) + np.sum(np.triu(m, k=-1) ** 3)
    s += np.sum(np.append(x, x * x) ** 2 * np.arange(6.0)) + np.sum(np.append(np.ones(2), x[0] * x[1]) ** 2) + np.sum(np.append(x, 2.0) ** 3)
    return s + np.ptp(x) ** 2 + np.ptp(m) + sum(x) ** 2 + np.sum(np.cumprod(x - 0.4) ** 2)


def passed_on(x):
    y = np.asarray(x * 2.0)
    y[...] = y * x[2]
    z = np.asarray(y)
    z[0] = x[1]
    turned, same = np.ascontiguousarray(np.outer(y, x + 1.0).T), np.ascontiguousarray(y)
    turned[0, 1], same[2] = x[0], 3.0
    return np.sum(turned * turned * x) + np.sum(y * z * same) + x[0]


def written(x):
    s = 0.0
    for (i, j), a in np.ndenumerate(np.outer(x, x * x)):
        s += a * a * (i + 2 * j)
    for k, a in enumerate(np.outer(x, x + 1.0).flat):
        s += a * a * k
    chosen = np.array([a > 0.5 for a in x])
    squares = np.array([math.sin(a) * a for a in x])
    return s + np.sum(squares[np.array([2 * k % 3 for k in range(3)])] * x) + np.sum(x[chosen] ** 2)


def determinants(x):
    a = np.outer(x, x) + np.diag(x * x + 1.0)
    a[0, 1] = -2.0 * x[2]
    sign, logarithm = np.linalg.slogdet(a)
    return sign * logarithm * x[0] + np.linalg.slogdet(-a)[1] ** 2 * np.linalg.slogdet(a * x[0])[0]


def ranked(x):
    s = np.sum(np.sort(x) ** 2 * np.arange(3.0)) + np.median(x) ** 2 + np.median(x[:2] * x[1:]) + np.quantile(x, 0.3) * np.percentile(x * x, 80.0)
    return s + np.nanmedian(np.append(x, np.nan)) ** 2 + np.nanmax(x) * np.nanmin(x) + np.nansum(np.append(x, np.nan)) ** 2 + np.nanstd(x) ** 3


def crossed(x):
    y = x * x
    return np.vdot(np.cross(x, y), y) + np.sinc(x[0]) * np.trapezoid(y, x) + np.linalg.norm(x, 1) ** 2 + np.bincount(np.array([1, 0, 1]), weights=y)[1]


def by_keyword(x):
    y, top = x * x, np.array([1.0, 0.5, 2.0])
    s = np.sum(np.clip(x, a_min=0.5, a_max=1.0) * y) + np.sum(np.clip(x, None, a_max=top) ** 2) + np.sum(np.clip(y, 0.5, None) ** 3)
    s += np.sum(np.full(2, fill_value=x[0]) * y[1:]) + np.sum(np.full_like(x, fill_value=x[1]) * y) + np.linalg.norm(x=y) * np.trapezoid(y, dx=0.5)
    s += np.sum(np.array([x[0], x[1]], dtype=np.float64) * y[:2]) + np.sum(np.asarray([x[2], 1.0]) * y[:2]) + np.sum(np.asarray((x[0], x[1])) * y[1:])
    return s + np.sum(np.diff(y, n=2) ** 2) + np.sum(np.array([np.float32(1.1), np.float32(2.2)])) * x[0]


def only_read(x):
    y = x * x
    s = np.shape(x)[0] * y[0] + np.size(x) * y[1] + np.digitize(x, np.array([0.5, 1.0]), right=True)[1] * y[0] + np.sum(y[np.isfinite(x)])
    s += np.sum(np.isclose(x, 0.7) * y) + np.sum(y[np.where(x > 0.5)] * x[1]) + np.sum(x[np.nonzero(x > 0.5)[0]] ** 3)
    for i in range(3):
        if np.isnan(x).any() or not np.isfinite(x[i]):
            s += 1.0
        s += y[np.argmax(x - s)] * x[i,]
    return s


@numba.njit
def larger(a, b):
    return np.where(a > b, a, b)


def between_numbers(x):
    y = np.where(x[0] > 0.5, x[0] ** 2, 0.0)
    y = -y * x[1]
    for i in range(3):
        z = np.where(x[i] > 0.5, np.where(x[i] > 1.0, x[i] ** 3, 2), 1.0)
        y = y * x[i] + np.where(x[2] < 0.0, 1, 0) * x[0] + z * larger(x[1], x[i])
    return np.where(y > 0.0, y, x[0])


def summed(x):
    y = x * x
    s = np.trapezoid(y) * np.average(x, weights=y) + np.sum(np.sinc(x) * y)
    s += np.linalg.norm(x, 1) ** 2 + np.linalg.norm(x, np.inf) * np.linalg.norm(x, -np.inf) + np.linalg.norm(x, 3) * np.linalg.norm(y, 2)
    s += np.sum(np.cumsum(np.outer(x, y)) ** 2) + np.sum(np.bincount(np.array([1, 0, 1]), weights=y) ** 2 * x[:2])
    return s + np.sum(np.convolve(x, y) * np.arange(5.0)) + np.sum(np.correlate(x, y[1:]) * np.correlate(y[:2], x))


@pytest.mark.parametrize(
    "f", [written, crossed, by_keyword, only_read, between_numbers, *[pytest.param(f, marks=pytest.mark.long) for f in (passed_on, joined, moved, determinants, ranked, summed)]],
    ids=lambda f: f.__name__,
)
def test_first_derivatives(f):
    expected = differences(f, AT)
    for mode in ("forward", "reverse"):
        both = tg.njit_value_and_grad(f, mode=mode)
        value, gradient = both(AT)
        assert np.isclose(value, f(AT), rtol=1e-13) and np.allclose(gradient, expected, rtol=2e-7, atol=2e-8)
        assert next(iter(both.modes().values()))["mode"] == mode


@pytest.mark.long
@pytest.mark.parametrize("f", [passed_on, written, joined, moved, determinants, crossed, ranked, summed, by_keyword, only_read, between_numbers], ids=lambda f: f.__name__)
def test_second_derivatives(f):
    found, gradient = tg.njit_hessian(f)(AT), tg.njit_grad(f, mode="reverse")
    assert np.allclose(found, [(gradient(AT + 1e-6 * e) - gradient(AT - 1e-6 * e)) / 2e-6 for e in np.eye(3)], rtol=2e-6, atol=2e-7)


def determinant(a):
    return np.linalg.det(a) ** 2 + a[0, 0] * np.linalg.det(a)


#: The first four are singular.
MATRICES = ([[1.0, 2.0], [2.0, 4.0]], np.arange(1.0, 10.0).reshape(3, 3), np.diag([1.0, 0.0, 2.0]), np.zeros((3, 3)),
            [[0.3, -1.0, 0.2], [1.5, 0.4, 0.7], [-0.6, 0.1, 2.0]], [[-0.3, 1.0], [0.4, 2.0]])  # fmt: skip


@pytest.mark.long
def test_determinants_of_singular_matrices_too():
    gradients, hessian = [tg.njit_grad(determinant, mode=mode) for mode in ("forward", "reverse")], tg.njit_hessian(determinant)
    for a in map(np.array, MATRICES):
        for gradient in gradients:
            assert np.allclose(gradient(a), tg.grad(determinant)(a), rtol=1e-12, atol=1e-12)
        assert np.allclose(hessian(a), tg.hessian(determinant)(a), rtol=1e-10, atol=1e-10)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_cholesky_factors_have_the_symmetric_gradient(mode):
    def cubes(a):
        return np.sum(np.linalg.cholesky(a) ** 3)

    a = np.array([[4.0, 0.5, 0.3], [0.5, 3.0, -0.7], [0.3, -0.7, 2.0]])
    assert np.allclose(tg.njit_grad(cubes, mode=mode)(a), tg.grad(cubes)(a), rtol=1e-13)


class Layouts(event.Listener):
    """Of matrices for which Numba compiles its functions of linear algebra."""

    def __init__(self):
        self.met = {}

    def on_start(self, compiling):
        name, given = getattr(compiling.data["dispatcher"], "__name__", ""), compiling.data["args"]
        if name.endswith("_impl") and given:
            self.met.setdefault(name, set()).add(getattr(given[0], "layout", None))

    def on_end(self, compiling):
        pass


@pytest.mark.long
def test_adjoints_solve_in_the_layout_of_the_function():
    """For each layout Numba compiles for seconds."""

    def deviance(a):
        low = np.linalg.cholesky(a)
        return np.sum(np.linalg.solve(a, a[0]) ** 2) + np.sum(np.log(np.diag(low)))

    layouts, a = Layouts(), np.array([[4.0, 0.5, 0.3], [0.5, 3.0, -0.7], [0.3, -0.7, 2.0]])
    with event.install_listener("numba:compile", layouts):
        gradient = tg.njit_grad(deviance)(a)
    assert layouts.met.get("solve_impl", {"C"}) == {"C"}
    np.testing.assert_allclose(gradient + gradient.T, tg.grad(deviance)(a) + tg.grad(deviance)(a).T, rtol=1e-12)


@pytest.mark.parametrize(
    "f", [lambda x: x.nbytes * x[0], lambda x: x.itemsize * x[0], lambda x: x.strides[0] * x[0], lambda x: x.view(np.float64)[1],
          lambda x: np.frombuffer(x)[1] * 2.0],
)  # fmt: skip
def test_how_arrays_lie_in_memory_is_not_shown_in_forward_mode(f):
    with pytest.raises(UnsupportedInNumbaError, match="memory layout"):
        tg.njit_grad(f, mode="forward")(AT)


def extremes(x):
    return np.max(x) + 2.0 * np.min(x) + 3.0 * np.ptp(x)


def test_extremes_share_evenly_and_pass_nan_on():
    three_and_two, one_nan = np.array([4.0, 1.0, 4.0, 2.0, 4.0, 1.0]), np.array([3.0, np.nan, 4.0, 1.0])
    for mode in ("forward", "reverse"):
        value, slopes = tg.njit_value_and_grad(extremes, mode=mode)(three_and_two)
        assert value == 15.0 and np.allclose(slopes, [4 / 3, -0.5, 4 / 3, 0.0, 4 / 3, -0.5], rtol=1e-15)
        value, slopes = tg.njit_value_and_grad(extremes, mode=mode)(one_nan)
        assert math.isnan(value) and np.array_equal(slopes, tg.grad(extremes)(one_nan))
    assert np.array_equal(tg.njit_value_and_grad(lambda x: x.max(), mode="forward")(np.full(3, np.inf))[1], np.full(3, 1 / 3))


def ordered(x):
    y, table = x.copy(), x.copy().reshape(2, 3)
    y.sort()
    table.sort()
    places = np.concatenate((np.argsort(x), x.argsort(kind="mergesort"), np.argmin(table, axis=1)))
    return np.sort(x), y, table, x[places], x[np.argmax(x)] * x[x.argmin()]


def test_the_order_of_elements_is_that_of_the_compiled_function():
    compiled = numba.njit(ordered)
    for x in (np.array([2.0, np.nan, 1.0, 3.0, np.nan, 0.0]), np.array([2.0, 1.0, 1.0, 3.0, 3.0, 0.0])):
        values, tangents = tg.njit_jvp(ordered)(x, np.arange(6.0))
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(values, compiled(x)))
        assert np.array_equal(x[tangents[0].astype(int)], values[0], equal_nan=True) and np.array_equal(tangents[1], tangents[0])


def test_the_mean_of_nothing_is_nan():
    for mode in ("forward", "reverse"):
        value, slopes = tg.njit_value_and_grad(lambda x: np.mean(x * 1.0) + (2.0 * x).mean(), mode=mode)(np.zeros(0))
        assert math.isnan(value) and slopes.shape == (0,)

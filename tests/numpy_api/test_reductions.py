"""NumPy's reductions, scans, order statistics and norms: every parameter, against NumPy and differences."""

import numpy as np
import pytest

import tapegrad as tg
from tests.rules.checker import check, generator, gradient, leaf, plain

rng = generator(21)
V = rng.uniform(0.3, 2.0, 7)
M = rng.uniform(-2.0, 2.0, (3, 4))
C = rng.uniform(-2.0, 2.0, (2, 3, 4))
S = C[:, ::-1, ::2]
T = M.T
EMPTY = np.zeros((0, 3))
MASK = rng.random((3, 4)) < 0.6
MASK[:, 0] = True
HOLES = np.where(rng.random((3, 4)) < 0.3, np.nan, M)
HOLES[:, 1] = M[:, 1]
ARRAYS = {"V": V, "M": M, "C": C, "strided": S, "transposed": T}
AXES = {1: (None, 0, -1), 2: (None, 0, 1, -1, (0, 1), (1,)), 3: (None, 1, -1, (0, 2), (2, 0), (0, 1, 2))}


def on_axes(function, arrays=ARRAYS, keepdims=True, axes=AXES, **kwargs):
    """Cases of a reduction over all axes, with and without keepdims."""
    found = []
    for x in arrays.values():
        for axis in axes[x.ndim]:
            found.append((lambda t, a=axis: function(t, axis=a, **kwargs), x))
            if keepdims:
                found.append((lambda t, a=axis: function(t, axis=a, keepdims=True, **kwargs), x))
    return found


def masked(function, **kwargs):
    return [
        *((lambda t, a=a, k=k: function(t, axis=a, keepdims=k, where=MASK, **kwargs), M) for a in (None, 0, 1, (0, 1)) for k in (False, True)),
        (lambda t: function(t, where=MASK[0], **kwargs), M), (lambda t: function(t, axis=1, where=True, **kwargs), M),
        (lambda t: function(t, axis=1, where=MASK[:, :1], **kwargs), M),
    ]  # fmt: skip


def on_holes(function, **kwargs):
    return [
        *((lambda t, a=a, k=k: function(t, axis=a, keepdims=k, **kwargs), x) for a in (None, 0, 1, (0, 1)) for k in (False, True) for x in (HOLES, M)),
        (lambda t: function(t, **kwargs), C), (lambda t: function(t, axis=-1, **kwargs), S),
    ]  # fmt: skip


def scans(function, x=M):
    return [*((lambda t, a=a: function(t, axis=a), v) for v in (x, C, S) for a in (None, 0, -1)), (function, V), (lambda t: function(t, 0), x.T), (function, V[:1])]


W = rng.uniform(0.5, 2.0, (3, 4))
ZEROS = np.array([[0.0, 2.0, -1.0, 3.0], [1.0, 0.0, 0.5, 0.0]])
Q = np.array([0.1, 0.5, 0.83])
INTERPOLATING = "linear hazen weibull median_unbiased normal_unbiased interpolated_inverted_cdf lower higher midpoint".split()
X = np.sort(rng.uniform(0, 3, 7))

CASES = {
    "sum": on_axes(np.sum) + masked(np.sum) + [(lambda t: np.sum(t, initial=2.5), M), (lambda t: np.sum(t, axis=0, initial=1.0, where=MASK), M),
            (lambda t: np.sum(t, dtype=float), M), (lambda t: np.sum(t, 0), EMPTY), (lambda t: np.sum(t, 0, None, None, True), M)],
    "sum with tracked initial": [(lambda t, i: np.sum(t, axis=1, initial=i), M, 0.5)],
    "mean": on_axes(np.mean) + masked(np.mean) + [(lambda t: np.mean(t, dtype=np.float64), M)],
    "prod": on_axes(np.prod) + masked(np.prod) + [(lambda t: np.prod(t, initial=2.5), M), (lambda t: np.prod(t, axis=0), ZEROS)],
    "var": on_axes(np.var) + on_axes(np.var, ddof=1, axes={1: (None,), 2: (1,), 3: ((0, 2),)}) + masked(np.var) + masked(np.var, ddof=1)[:2] + [(lambda t: np.var(t, axis=1, correction=1), M)],
    "std": on_axes(np.std) + on_axes(np.std, ddof=1, axes={1: (None,), 2: (1,), 3: ((0, 2),)}) + masked(np.std)[:-1],
    "max": on_axes(np.max) + masked(np.max, initial=0.4) + [(lambda t: np.max(t, initial=0.1), M), (lambda t: np.max(t, axis=0, initial=0.3), M), (lambda t: np.amax(t, 1), M)],
    "min": on_axes(np.min) + masked(np.min, initial=0.4) + [(lambda t: np.min(t, initial=0.1), M), (lambda t: np.min(t, axis=0, initial=0.3), M), (lambda t: np.amin(t, 1), M)],
    "ptp": on_axes(np.ptp),
    "median": on_axes(np.median) + [(np.median, V[:6]), (np.median, 2.0), (lambda t: np.median(t, overwrite_input=True), M)],
    "quantile": [*((lambda t, m=m, q=q, a=a: np.quantile(t, q, axis=a, method=m), x) for m in INTERPOLATING for q in (0.3, 0.0, 1.0, Q) for x, a in ((V, None), (M, 0), (C, (0, 2)))),
                 *on_axes(lambda t, **k: np.quantile(t, 0.37, **k)), *on_axes(lambda t, **k: np.quantile(t, Q, **k)), (lambda t: np.quantile(t, Q.reshape(3, 1), axis=1), M),
                 (lambda t: np.quantile(t, 0.3), V[:1])],
    "quantile in q": [*((lambda t, q, m=m, a=a: np.quantile(t, q, axis=a, method=m), x, q) for m in INTERPOLATING[:6] for q in (0.37, np.array([0.12, 0.47, 0.83])) for x, a in ((V, None), (M, 1))),
                      (lambda q: np.quantile(tg.tensor(V) if isinstance(q, tg.Differentiable) else V, q), 0.4), (lambda t, q: np.percentile(t, q), V, 42.0)],
    "percentile": [*((lambda t, q=q, a=a, k=k: np.percentile(t, q, axis=a, keepdims=k), C) for q in (30, 0, 100, [10, 62.5]) for a in (None, 1, (0, -1)) for k in (False, True))],
    "average": on_axes(np.average) + [(lambda t: np.average(t, weights=W), M), (lambda t: np.average(t, axis=1, weights=W), M), (lambda t: np.average(t, axis=0, weights=W[:, 0]), M),
               (lambda t: np.average(t, axis=-1, weights=W[0], keepdims=True), M), (lambda t, w: np.average(t, axis=1, weights=w), M, W), (lambda t, w: np.average(t, axis=0, weights=w), M, W[:, 1]),
               (lambda t: np.average(t, axis=1, weights=[1, 2, 3, 4], returned=True)[0], M), (lambda t, w: np.average(t, weights=w, returned=True)[1] * np.average(t), M, W),
               (lambda t, w: np.average(t, axis=(2, 0), weights=w), C, rng.uniform(0.5, 1, (4, 2)))],
    "cumsum": scans(np.cumsum), "nancumsum": [*scans(np.nancumsum), (lambda t: np.nancumsum(t, axis=1), HOLES), (np.nancumsum, HOLES)],
    "cumprod": [*scans(np.cumprod), (lambda t: np.cumprod(t, axis=1), ZEROS), (np.cumprod, ZEROS), (np.cumprod, EMPTY), (np.cumprod, 2.0), (lambda t: np.multiply.accumulate(t), M)],
    "nancumprod": [*scans(np.nancumprod), (lambda t: np.nancumprod(t, axis=1), HOLES)],
    "nansum": on_holes(np.nansum) + [(lambda t: np.nansum(t, axis=1, initial=2.0, where=MASK), HOLES)],
    "nanprod": on_holes(np.nanprod) + [(lambda t: np.nanprod(t, axis=1, initial=2.0), HOLES)],
    "nanmean": on_holes(np.nanmean) + [(lambda t: np.nanmean(t, axis=1, where=MASK | True), HOLES)],
    "nanvar": on_holes(np.nanvar) + [(lambda t: np.nanvar(t, ddof=1), HOLES)], "nanstd": on_holes(np.nanstd) + [(lambda t: np.nanstd(t, ddof=1), HOLES)],
    "nanmax": on_holes(np.nanmax) + [(lambda t: np.nanmax(t, axis=0, initial=0.2), HOLES)], "nanmin": on_holes(np.nanmin) + [(lambda t: np.nanmin(t, axis=0, initial=0.2), HOLES)],
    "nanmedian": on_holes(np.nanmedian), "nanquantile": on_holes(lambda t, **k: np.nanquantile(t, Q, **k)) + [(lambda t: np.nanpercentile(t, 30, axis=1, method="hazen"), HOLES)],
    "trapezoid": [(np.trapezoid, V), (lambda y: np.trapezoid(y, dx=0.5), V), (lambda y: np.trapezoid(y, X), V), (lambda y, x: np.trapezoid(y, x), V, X), (lambda y: np.trapezoid(y, axis=0), M),
                  (lambda y, x: np.trapezoid(y, x, axis=0), M, X[:3]), (lambda y, x: np.trapezoid(y, x), M, np.sort(W, 1)), (lambda y, x: np.trapezoid(y, x, axis=1), C, X[:3]),
                  (lambda y, d: np.trapezoid(y, dx=d), V, 0.3), (np.trapezoid, V[:1])] if hasattr(np, "trapezoid") else [],
    "vector norm": [*((lambda t, o=o, a=a, k=k: np.linalg.norm(t, o, axis=a, keepdims=k), x) for o in (None, 2, 1, np.inf, -np.inf, 3, 2.5, 0.5, -1, -2) for x, a in ((V, None), (M, 1), (C, -2)) for k in (False, True))],
    "matrix norm": [*((lambda t, o=o, a=a, k=k: np.linalg.norm(t, o, axis=a, keepdims=k), x) for o in (None, "fro", 1, -1, np.inf, -np.inf) for x, a in ((M, None), (M, (1, 0)), (C, (0, 2)), (C, (-1, 1))) for k in (False, True)),
                    (np.linalg.norm, C), (lambda t: np.linalg.norm(t, keepdims=True), C), (np.linalg.norm, 2.0)],
    "array API norms": [(np.linalg.vector_norm, C), (lambda t: np.linalg.vector_norm(t, axis=(0, 2), ord=3), C), (lambda t: np.linalg.vector_norm(t, axis=1, keepdims=True, ord=np.inf), C),
                        (np.linalg.matrix_norm, C), (lambda t: np.linalg.matrix_norm(t, ord=1, keepdims=True), C)] if hasattr(np.linalg, "vector_norm") else [],
    "cumulative": [(lambda t: np.cumulative_sum(t, axis=1, include_initial=True), M), (lambda t: np.cumulative_prod(t, axis=0, include_initial=True), M), (np.cumulative_sum, V)] if hasattr(np, "cumulative_sum") else [],
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient(name):
    for number, (function, *operands) in enumerate(CASES[name]):
        try:
            check(function, *[float(x) if isinstance(x, float) else x for x in operands], directions=1, atol=1e-11)
        except Exception as error:
            if hasattr(error, "add_note"):
                error.add_note(f"case {number} of {name}")
            raise


SINGLE = {
    "max": np.max, "ptp": np.ptp, "median": np.median, "average": lambda x: np.average(x, weights=np.arange(1, 6, dtype="f")), "cumprod": np.cumprod,
    "nansum": np.nansum, "nanstd": np.nanstd, "masked mean": lambda x: np.mean(x, where=[True, False, True, True, True]),
    "masked var": lambda x: np.var(x, where=[True, False, True, True, True]), "quantile": lambda x: np.quantile(x, 0.3), "quantiles": lambda x: np.quantile(x, [0.3, 0.9]),
    "norm": lambda x: np.linalg.norm(x, 3), "trapezoid": getattr(np, "trapezoid", np.sum), "nanmean": np.nanmean,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SINGLE.keys() - {"quantiles"}))  # an array of points is float64
def test_float32(name):
    check(SINGLE[name], np.array([0.5, 0.25, 1.5, -0.75, 2.0], "f"))


def test_zero_dimensional():
    for f in (np.max, np.ptp, np.median, np.average, np.nansum, np.nanmean, np.nanmax, np.cumsum, np.std, lambda x: np.quantile(x, 0.2)):
        check(f, 1.5)


def test_lines_with_nan():
    x = np.array([[1.0, np.nan, 3.0], [2.0, 4.0, 8.0]])
    np.testing.assert_array_equal(plain(np.median(leaf(x), axis=1)), [np.nan, 4])
    np.testing.assert_array_equal(gradient(lambda t: np.where([False, True], np.median(t, axis=1), 0.0), x), [[0, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(gradient(np.nansum, x), [[1, 0, 1], [1, 1, 1]])
    np.testing.assert_array_equal(gradient(lambda t: np.nanmean(t, axis=1), x), [[0.5, 0, 0.5], [1 / 3] * 3])
    nothing = np.full((2, 2), np.nan)
    nothing[1] = 1.0
    for f in (np.nanmax, np.nanmin):
        with pytest.warns(RuntimeWarning):
            np.testing.assert_array_equal(plain(f(leaf(nothing), axis=1)), [np.nan, 1])
    np.testing.assert_array_equal(plain(np.nanmean(leaf(nothing), axis=1)), [np.nan, 1])


@pytest.mark.parametrize("q", [0.5, [0.1, 0.95], np.linspace(0.0, 1.0, 23)])
def test_quantiles_sort_only_where_elements_are_equal_or_many_are_asked_for(q, monkeypatch):
    rng = np.random.default_rng(0)
    distinct, ties = rng.normal(size=(3, 101)), rng.integers(0, 20, (3, 101)) * 0.5
    ties[1, :60] = np.nan
    for x in (distinct, ties):
        for function in (np.quantile, np.nanquantile):
            slopes = tg.jacobian(lambda x, function=function: function(x, q, axis=1))(x).reshape(-1, 3, 3, 101)
            ranks = [np.argsort(line, kind="stable") for line in x]
            for at, value in zip(slopes, np.asarray(function(x, q, axis=1)).reshape(-1, 3), strict=True):
                for k in range(3):
                    places = np.flatnonzero(at[k, k])
                    # The shares are those of neighbours in a stable sort, and nothing depends on another line.
                    assert np.diff(sorted(ranks[k].tolist().index(p) for p in places)).tolist() in ([], [1]) and at[k].sum() == pytest.approx(1.0)
                    assert np.isnan(value[k]) or at[k, k] @ np.nan_to_num(x[k]) == pytest.approx(value[k])
    monkeypatch.setattr(np, "argsort", None)
    if np.size(q) < 9:
        tg.grad(lambda x: np.sum(np.quantile(x, q, axis=1)))(distinct)


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")
@pytest.mark.parametrize("function", [np.median, np.nanmedian])
def test_medians_of_infinities_and_of_nothing(function):
    inf = np.inf
    for x in ([0.5, inf, inf], [inf, inf], [-inf, inf], [1.7e308, 1.6e308], [[1.0, -inf], [2.0, np.nan], [inf, 3.0]], [5e-324], [], EMPTY, EMPTY.T):
        x = np.array(x)
        for axis in (None, 0, -1):
            with np.errstate(all="ignore"):
                expected = function(x, axis=axis)
                np.testing.assert_array_equal(plain(function(leaf(x), axis=axis)), expected)
                np.testing.assert_array_equal(tg.jit(lambda t, a=axis: function(t, axis=a))(x), expected)
    np.testing.assert_array_equal(gradient(function, np.array([0.5, inf, inf, 3.0])), [0.0, 0.5, 0.0, 0.5])
    with pytest.raises(IndexError, match="np.quantile of nothing"):
        np.quantile(leaf(EMPTY), 0.5, axis=0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.sum(x, where=x > 0.0), lambda x: np.mean(x, where=x > -1.0), lambda x: np.max(x, where=x < 0.5, initial=-9.0), lambda x: np.std(x, where=x < 0.9, ddof=1),
        lambda x: np.sum(np.prod(np.outer(x, x), axis=0, where=x > 0.0)), lambda x: np.nansum(np.log(x)), lambda x: np.nanmean(np.log(x)), lambda x: np.nanmin(np.log(x)),
        lambda x: np.sum(np.nanvar(np.log(np.outer(x, x)), axis=1, ddof=1)), lambda x: np.nanprod(np.log(x), keepdims=True)[0],
    ],
)  # fmt: skip
def test_masks_are_computed_again(function):
    points = np.random.default_rng(0).normal(size=(40, 5))
    points[3] = np.abs(points[3])
    points[4] = -np.abs(points[4])
    values, gradients = np.stack([function(x) for x in points]), np.stack([tg.grad(function)(x) for x in points])
    for k in (0, 3):
        numeric = [(function(points[k] + 1e-6 * e) - function(points[k] - 1e-6 * e)) / 2e-6 for e in np.eye(5)]
        np.testing.assert_allclose(gradients[k], numeric, rtol=1e-4, atol=1e-5)
    both = tg.value_and_grad(function)
    jitted = tg.jit(both)
    for way in (tg.vmap(both)(points), [np.stack(part) for part in zip(*map(jitted, points))]):
        np.testing.assert_allclose(way[0], values, rtol=1e-12)
        np.testing.assert_allclose(way[1], gradients, rtol=1e-12)
    assert jitted.stats().records <= 4


@pytest.mark.parametrize("method", ["linear", "hazen", "weibull", "lower", "higher", "midpoint"])
def test_quantiles_of_infinities(method):
    q = np.array([0.0, 0.1, 0.3, 0.6, 0.75, 0.9, 1.0])
    for x in ([-np.inf], [1.0, np.inf], [-np.inf, 2.0], [-np.inf, 1.0, 2.0, np.inf], [[1.0, np.inf], [np.nan, 2.0], [-np.inf, 3.0]]):
        x = np.array(x)
        for axis in (None, 0):
            with np.errstate(all="ignore"):
                expected = np.quantile(x, q, axis=axis, method=method)
                np.testing.assert_allclose(plain(np.quantile(leaf(x), q, axis=axis, method=method)), expected, rtol=1e-14)
                np.testing.assert_allclose(tg.jit(lambda t, a=axis: np.percentile(t, 100.0 * q, axis=a, method=method))(x), expected, rtol=1e-14)


def test_ties_and_zeros():
    np.testing.assert_array_equal(gradient(np.median, np.array([2.0, 1.0, 1.0, 1.0])), [0, 0, 0.5, 0.5])
    np.testing.assert_array_equal(gradient(np.ptp, np.array([1.0, 1.0, 3.0])), [-0.5, -0.5, 1])
    np.testing.assert_array_equal(gradient(lambda x: np.std(x, where=[True, True, False]), np.array([2.0, 2.0, 5.0])), np.zeros(3))
    np.testing.assert_array_equal(gradient(np.nanstd, np.array([2.0, 2.0, np.nan])), np.zeros(3))
    for order in (1, 2, 3, 1.5, np.inf, -np.inf):
        np.testing.assert_array_equal(gradient(lambda x: np.linalg.norm(x, order), np.zeros(3)), np.zeros(3))
    np.testing.assert_allclose(gradient(lambda x: np.linalg.norm(x, 3), np.array([0.0, 3e200])), [0, 1])
    np.testing.assert_array_equal(gradient(lambda x: np.linalg.norm(x, 0), np.array([0.0, 3.0])), [0, 0])


def test_plain_values():
    x = leaf([0.0, 1.0, 2.0])
    assert np.count_nonzero(x) == 2 and np.count_nonzero(x, axis=0, keepdims=True).tolist() == [2]
    mean, total = np.average(x, returned=True)
    assert plain(total) == 3 and plain(mean) == 1
    np.testing.assert_array_equal(plain(np.max(leaf(np.zeros((0, 2))), axis=0, initial=3.0)), [3, 3])


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "std", "var", "cumsum", "cumprod", "nansum", "nanmean"])
def test_another_float_dtype_is_that_of_the_computation(name):
    function = getattr(np, name)
    for given, wanted in [(np.float64, np.float32), (np.float32, np.float64), (np.int64, np.float32)]:
        x, axis = np.array([[1.1, 2.0, -3.3], [4.0, 0.7, 6.0]]).astype(given), None if "cum" in name else 1
        found = function(leaf(x) if given != np.int64 else tg.tensor(x), axis, dtype=wanted)
        np.testing.assert_allclose(plain(found), expected := function(x, axis, dtype=wanted), rtol=1e-6)
        assert found.dtype == expected.dtype == wanted
    pulled = tg.vjp(lambda x: function(x, dtype=np.float32), np.array([1.0, 2.0, 4.0]))[1]
    assert pulled(np.ones(3, np.float32) if "cum" in name else np.float32(1.0))[0].dtype == np.float64


REFUSED = {
    "out": lambda x: np.sum(x, out=np.zeros(())), "dtype of integers": lambda x: np.sum(x, dtype=int), "mean=": lambda x: np.var(x, mean=1.0),
    "method": lambda x: np.quantile(x, 0.5, method="inverted_cdf"), "weights": lambda x: np.quantile(x, 0.5, method="inverted_cdf", weights=[1, 1, 1]),
    "out of cumsum": lambda x: np.cumsum(x, out=np.zeros(3)),
    "q of a step": lambda x: np.quantile(x, x[0] * 0.1, method="lower"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    with pytest.raises(tg.errors.UnsupportedFunctionError):
        REFUSED[name](leaf([1.0, 2.0, 3.0]))


def test_mistakes_raise_as_in_numpy():
    x = leaf(M)
    for error, f in [
        (ValueError, lambda: np.quantile(x, 1.5)), (ZeroDivisionError, lambda: np.average(x, axis=0, weights=[0, 0, 0])), (TypeError, lambda: np.average(x, weights=[1, 2, 3])),
        (ValueError, lambda: np.linalg.norm(x, "nonsense")), (ValueError, lambda: np.max(x, where=MASK)), (np.exceptions.AxisError, lambda: np.ptp(x, axis=2)),
        (ValueError, lambda: np.linalg.norm(leaf(C), 2)), (ValueError, lambda: np.average(x, axis=1, weights=[1, 2])),
    ]:  # fmt: skip
        with pytest.raises(error):
            f()


@pytest.mark.parametrize("function", [np.mean, np.nanmean, np.var, np.nanvar, np.std, np.nanstd], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.bool_, np.float32])
def test_moments_of_chosen_integers_are_floats(function, dtype):
    counts = np.array([[1, 0, 5], [0, 1, 2]], dtype)
    for options in ({"axis": 1}, {"axis": 0, "keepdims": True}, {}):
        found, expected = function(tg.tensor(counts), where=counts > 0, **options), function(counts, where=counts > 0, **options)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert found.dtype == expected.dtype


@pytest.mark.parametrize("function", [np.max, np.min, np.nanmax, np.nanmin], ids=lambda f: f.__name__)
def test_extremes_of_chosen_integers(function):
    counts = np.array([[3, -2, 5], [7, 1, 2]])
    found, expected = (function(c, axis=1, where=counts % 2 == 1, initial=2) for c in (tg.tensor(counts), counts))
    assert found.tolist() == expected.tolist() and found.dtype == expected.dtype

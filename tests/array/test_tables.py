"""Tables of pandas and labelled arrays of xarray beside tensors; they are not needed to run the package."""

import subprocess
import sys

import numpy as np
import pytest

import tapegrad as tg
from tests.rules.checker import leaf, plain

pandas = pytest.importorskip("pandas")
xarray = pytest.importorskip("xarray")

T, Y = np.linspace(0.0, 1.0, 5), np.array([1.0, 0.7, 0.6, 0.3, 0.2])
TABLE = pandas.DataFrame({"t": T, "y": Y}, index=list("abcde"))
LABELLED = xarray.DataArray(T, dims=["time"], coords={"time": list("abcde")})
BOTH = TABLE.to_numpy()

#: With a Series, a DataFrame or a DataArray in the place of an array, and with that array; p is a number, v a vector, w a longer one.
EXPRESSIONS = {
    "series": (TABLE.t, T, [
        lambda s, p, v, w: s * p, lambda s, p, v, w: p * s, lambda s, p, v, w: s - w, lambda s, p, v, w: w / (s + 1.0),
        lambda s, p, v, w: s**p, lambda s, p, v, w: p**s, lambda s, p, v, w: np.exp(-p * s) - s, lambda s, p, v, w: s - np.exp(-p * s),
        lambda s, p, v, w: np.multiply(s, w), lambda s, p, v, w: np.multiply(w, s), lambda s, p, v, w: s @ w, lambda s, p, v, w: w @ s,
        lambda s, p, v, w: np.where(s > 0.5, p, w), lambda s, p, v, w: np.where(s < p, s * w, 0.0), lambda s, p, v, w: np.stack([w, s]),
        lambda s, p, v, w: tg.sum(s * w), lambda s, p, v, w: np.dot(w, s), lambda s, p, v, w: (s * p).sum(), lambda s, p, v, w: tg.hypot(w, s),
    ]),
    "frame": (TABLE, BOTH, [
        lambda d, p, v, w: d @ v, lambda d, p, v, w: w @ d, lambda d, p, v, w: d * v,
        lambda d, p, v, w: v * d, lambda d, p, v, w: d + p, lambda d, p, v, w: (d @ v - w) ** 2, lambda d, p, v, w: np.exp(d @ v),
        lambda d, p, v, w: np.sum((d @ v - Y) ** 2), lambda d, p, v, w: v @ d.T,
    ]),
    "labelled": (LABELLED, T, [
        lambda a, p, v, w: a * p, lambda a, p, v, w: p * a, lambda a, p, v, w: np.exp(-p * a) - a, lambda a, p, v, w: ((np.exp(-p * a) - a) ** 2).sum(),
        lambda a, p, v, w: np.sum((w - a) ** 2), lambda a, p, v, w: tg.sum(p * a), lambda a, p, v, w: (p * a).mean(), lambda a, p, v, w: a[1] * p,
        lambda a, p, v, w: a * w + p, lambda a, p, v, w: tg.stack([p * a, w]),
    ]),
}  # fmt: skip
CASES = [(kind, k) for kind, (_, _, calls) in EXPRESSIONS.items() for k in range(len(calls))]
POINT = (0.7, np.array([0.3, -1.2]), np.array([0.5, 1.5, -0.7, 0.2, 0.9]))


@pytest.mark.parametrize("kind, k", CASES, ids=[f"{kind}-{k}" for kind, k in CASES])
def test_expressions(kind, k):
    table, array, calls = EXPRESSIONS[kind]
    before = array.copy()

    def total(thing):
        return lambda p, v, w: np.sum(tg.array(calls[k](thing, p, v, w)) * 1.5)

    for mode in (tg.value_and_grad, lambda f, n: tg.jit(tg.value_and_grad(f, n))):
        found, expected = (mode(total(thing), (0, 1, 2))(*POINT) for thing in (table, array))
        assert found[0] == pytest.approx(expected[0], rel=1e-14)
        for one, other in zip(found[1], expected[1]):
            np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-15)
    found, expected = (tg.jvp(total(thing), POINT, POINT)[1] for thing in (table, array))
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    np.testing.assert_array_equal(array, before)


def test_what_a_function_returns():
    assert tg.grad(lambda v: ((TABLE @ v - TABLE.y) ** 2).sum())(POINT[1]) == pytest.approx(2 * BOTH.T @ (BOTH @ POINT[1] - Y), rel=1e-13)
    assert tg.grad(lambda p: (p * LABELLED).sum())(2.0) == T.sum()
    np.testing.assert_allclose(tg.jacobian(lambda v: TABLE @ v)(POINT[1]), BOTH, rtol=1e-14)
    np.testing.assert_allclose(tg.jacobian(lambda v: TABLE.dot(v))(POINT[1]), BOTH, rtol=1e-14)
    np.testing.assert_allclose(tg.jacobian(lambda p: p * LABELLED)(2.0), T, rtol=1e-14)
    assert tg.grad(lambda p, table: np.sum(p * table.t))(2.0, TABLE) == T.sum()
    labelled = leaf(2.0) * LABELLED
    assert isinstance(labelled, xarray.DataArray) and labelled.dims == ("time",) and isinstance(labelled.data, tg.Tensor)
    labelled.sel(time="b").data.backward()


@pytest.mark.parametrize("call", [
    lambda a, b: xarray.dot(a, b), lambda a, b: a @ b, lambda a, b: a.weighted(b * b).mean(), lambda a, b: a.where(b > 0).sum(), lambda a, b: a.mean() * b.std(),
    lambda a, b: xarray.concat([a, b], "time").var(), lambda a, b: xarray.where(b > 0, a, b).prod(), lambda a, b: a.diff("time").clip(-0.3, 0.4).sum() + b.cumsum("time").max(),
])  # fmt: skip
def test_arrays_of_xarray_that_hold_tensors(call):
    def f(x, y):
        return call(*[xarray.DataArray(v, dims=["time"]) for v in (x, y)])

    assert tg.check(lambda x, y: f(x, y).data, T + 0.3, np.cos(3.0 * T), reference=lambda x, y: f(x, y).to_numpy()).passed


def test_tensordot_as_libraries_call_it():
    # opt_einsum, which xarray's products use where it is installed, calls the function of an array's library by NumPy's parameter.
    a, b = leaf(BOTH), leaf(BOTH.T.copy())
    for axes in (1, ([1, 0], [0, 1])):
        np.testing.assert_array_equal(plain(tg.tensordot(a, b, axes=axes)), np.tensordot(BOTH, BOTH.T, axes))


def test_tensors_in_tables():
    w = leaf(POINT[2])
    table = TABLE.assign(z=w)
    total = (table.z * table.y).sum()
    total.backward()
    np.testing.assert_array_equal(plain(w.grad), Y)
    with pytest.raises((tg.errors.GradientError, ValueError)) as caught:
        table.z.astype(float)
    assert isinstance(caught.value, tg.errors.GradientError) or isinstance(caught.value.__cause__, tg.errors.GradientError)


def test_what_is_no_number_is_refused():
    p = leaf(2.0)
    for wrong in (pandas.Series(["a", "b"]), pandas.Series(pandas.to_datetime(["2020-01-01"]))):
        with pytest.raises((tg.errors.DtypeError, TypeError)):
            wrong * p


@pytest.mark.parametrize("start", [pandas.Series([0.0, 3.0], index=["a", "b"], name="s"), TABLE, LABELLED], ids=["series", "frame", "array"])
def test_start_of_an_optimiser(start):
    def f(x):
        assert isinstance(x, (tg.Tensor, np.ndarray))
        return tg.sum((x - 1.0) ** 2)

    x = tg.optimize.minimize(f, start).x
    assert type(x) is type(start)
    if isinstance(start, xarray.DataArray):
        assert x.dims == start.dims and (x.time == start.time).all()
    else:
        assert x.index.equals(start.index) and getattr(x, "name", None) == getattr(start, "name", None)
    np.testing.assert_allclose(x.to_numpy(), 1.0, rtol=1e-6)
    nested = tg.optimize.minimize(lambda parts: f(parts["u"]), {"u": start}).x["u"]
    assert type(nested) is type(start)
    assert start.to_numpy()[0].sum() != 2.0


def test_nothing_is_imported():
    program = "import sys, tapegrad as tg; tg.grad(lambda x: x * 2.0)(1.0); print('pandas' in sys.modules, 'xarray' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout == "False False\n", run.stderr

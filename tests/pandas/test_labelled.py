"""Tables of pandas beside tensors: the numbers of pandas' own program on plain numbers and its central differences, or a refusal."""

import re
import traceback

import numpy as np
import pytest

import tapegrad as tg

pd = pytest.importorskip("pandas")

A = pd.Series([1.0, 2.0, 3.0], index=[0, 1, 2])
B = pd.Series([1.0, 20.0, 300.0], index=[2, 1, 0])
N = pd.Series([1.0, np.nan, 3.0], name="n")
LONG = pd.Series([0.3, np.nan, 1.2, 2.5, -0.4, 0.9], index=pd.date_range("2020-01-01", periods=6, freq="D"), name="l")
D = pd.DataFrame({"x": [1.0, 2.0, 4.0], "y": [3.0, np.nan, 7.0]}, index=list("abc"))
E = pd.DataFrame({"x": [1.0, 2.5], "y": [3.0, 4.0]})
W = pd.DataFrame({"y": [0.5, 0.7], "z": [1.0, 2.0]}, index=[1, 0])
M = pd.Series([1.0, 2.0, 3.0, 5.0], index=pd.MultiIndex.from_product([["u", "v"], [1, 2]], names=["k", "i"]))
G = pd.Series(["a", "b", "a", "b", "c", "a"], index=LONG.index)
CODES = pd.Categorical(list("abca"))

#: What a user does with tables and numbers; p is a number.
SAME = [
    # Labels are matched.
    lambda p: (A * p - B) ** 2, lambda p: (p * A * B).sum(), lambda p: p * A + B[B > 1], lambda p: (p * A).add(B), lambda p: A - p * B,
    lambda p: np.multiply(A * p, B), lambda p: np.maximum(p * A, B), lambda p: p * E - W, lambda p: E * p - pd.Series({"y": 2.0, "x": 1.0}),
    lambda p: (p * E).sub(pd.Series([1.0, 2.0]), axis=0), lambda p: (E * p).mul(p * pd.Series([1.0, 2.0]), axis="index"),
    lambda p: (p * M) - M.groupby(level="k").transform("mean"), lambda p: (p * A) * pd.Series([1.0, 2.0], index=[2, 7], name="q"),
    lambda p: (p * E) * (p * W), lambda p: p - W, lambda p: (p * A).rpow(2.0), lambda p: p**A, lambda p: A**p, lambda p: p // A + (p * A) % 2.0,
    lambda p: -(p * A) + abs(p * B), lambda p: p * A * np.array([1.0, 0.5, 2.0]), lambda p: p * E * np.array([1.0, 0.5]),
    # Missing values are passed over.
    lambda p: (p * N).sum(), lambda p: (p * N).mean(), lambda p: (p * N).prod(), lambda p: (p * N).median(), lambda p: (p * N).max() - (p * N).min(),
    lambda p: (p * N).sum(skipna=False), lambda p: (p * N).sum(min_count=3), lambda p: (p * N).mean(skipna=False), lambda p: (p * N).fillna(p),
    lambda p: (p * N).dropna() * 2.0, lambda p: (p * N).ffill(), lambda p: (p * LONG).bfill().cumsum(), lambda p: (p * N - p).clip(lower=0.1),
    lambda p: np.log(p * N) * N, lambda p: np.sqrt(p * N - 0.2) / (N - 1.7), lambda p: np.nansum((p * N).to_numpy()), lambda p: np.sum(p * N),
    lambda p: (p * N).fillna(p * A), lambda p: (p * N).where(N.notna(), B * p), lambda p: (p * N).isna().sum() * p,
    lambda p: (p * D).count() * p, lambda p: p * N.interpolate(), lambda p: (p * N) ** 2, lambda p: 1.0 / (p * N),
    # Reductions have pandas' defaults.
    lambda p: (p * A).std(), lambda p: (p * A).var(), lambda p: (p * A).std(ddof=0), lambda p: (p * A).sem(), lambda p: np.std(p * A),
    lambda p: np.var(p * LONG), lambda p: (p * LONG).quantile(0.3), lambda p: (p * E).mean(), lambda p: (p * D).mean(),
    lambda p: (p * D).mean(axis=1), lambda p: (p * D).std(), lambda p: (p * D).sum(axis="columns"), lambda p: (p * D).sum().sum(),
    lambda p: (p * E).mean().max(), lambda p: (p * E).sum()["x"], lambda p: (p * D).median(), lambda p: (p * D).max(axis=1), lambda p: (p * D).var(axis=1),
    lambda p: (p * D).quantile(0.2), lambda p: (p * D).mean(axis=None), lambda p: (p * D).prod(min_count=3),
    lambda p: (p * D).agg("sum"), lambda p: np.mean(p * D, axis=0),
    lambda p: np.mean(p * N), lambda p: np.max(p * A), lambda p: np.sum(p * D, axis=1),
    # Elements by label and by position.
    lambda p: (p * B)[0], lambda p: (p * B).loc[0], lambda p: (p * B).iloc[0], lambda p: (p * B).loc[[2, 0]], lambda p: (p * E)["x"], lambda p: (p * E).x,
    lambda p: (p * D).loc["b", "x"], lambda p: (p * D).loc["b":, ["y"]], lambda p: (p * D).iloc[1], lambda p: (p * D).T, lambda p: (p * M)["u"],
    lambda p: (p * M).xs(2, level="i"), lambda p: (p * M).unstack(), lambda p: (p * M).iloc[:3].unstack().mean(), lambda p: (p * LONG)["2020-01-02":"2020-01-04"],
    lambda p: (p * A)[A > 1], lambda p: (p * A)[p * A > 2], lambda p: (p * A)[lambda s: s > 2], lambda p: (p * A).loc[lambda s: s > 2], lambda p: A[np.asarray(p * A > 2)] * p,
    lambda p: (p * D)[p * D > 2], lambda p: (p * D)[D.x > 1], lambda p: (p * D).stack(), lambda p: (p * A).reindex([2, 5, 0]), lambda p: (p * B).sort_index(),
    lambda p: (p * A).head(2), lambda p: (p * D).drop(columns="y").squeeze(), lambda p: (p * N).reset_index(drop=True), lambda p: (p * A).to_frame("c"),
    lambda p: (p * B)[(p * B).idxmax()], lambda p: (p * A).take([2, 0]), lambda p: (p * E).rename(columns={"x": "r"}).r, lambda p: (p * B).iloc[::-1] * A,
    # Rows beside rows.
    lambda p: (p * LONG).shift(), lambda p: (p * LONG).diff(), lambda p: (p * A).diff().sum(), lambda p: (p * D).diff(),
    lambda p: (p * LONG).cumsum(), lambda p: (p * LONG).cumprod(), lambda p: (p * D).cumsum(), lambda p: (p * D).cumsum(axis=1), lambda p: (p * LONG).shift(freq="D") + LONG,
    lambda p: (p * LONG).asfreq("2D"),
    # Groups.
    lambda p: (p * LONG).groupby(G).sum(), lambda p: (p * LONG).groupby(G).mean(), lambda p: (p * LONG).groupby(G).std(), lambda p: (p * LONG).groupby(G).max(),
    lambda p: (p * M).groupby(level="k").var(), lambda p: p * M - (p * M).groupby("k").transform("mean"), lambda p: (p * D).groupby(["s", "t", "s"]).sum(),
    lambda p: (p * D).groupby(["s", "t", "s"])["y"].mean(), lambda p: (p * LONG).groupby(pd.Grouper(freq="3D")).min(), lambda p: (p * LONG).groupby(G).agg("sum"),
    # Choices and functions of elements.
    lambda p: (p * A).where(A > 1, 0.0), lambda p: (p * A).where(p * A > 2), lambda p: (p * A).where(p * A > 2, p), lambda p: (p * A).mask(A > 1, B * p),
    lambda p: (p * A).clip(2.0, 4.0), lambda p: np.clip(p * N, 2.0, 4.0), lambda p: np.where(A > 1, p * A, 0.0), lambda p: np.where(p * A > 2, p * A, 0.0),
    lambda p: (p * A).apply(lambda v: v**2), lambda p: (p * N).apply(lambda v: v * v + p), lambda p: (p * N).map(lambda v: 0.0 if v != v else v * 2.0),
    lambda p: (p * D).apply(lambda c: c.mean()), lambda p: (p * D).apply(lambda c: c - c.mean()), lambda p: (p * D).apply(lambda r: r.sum(), axis=1),
    lambda p: (p * A).apply(np.exp), lambda p: (p * D).apply(np.sum), lambda p: A.apply(lambda v: v * p).sum(),
    lambda p: np.exp(-p * N), lambda p: np.hypot(p * A, A), lambda p: np.arctan2(p * N, A), lambda p: np.isnan(p * N).sum() * p, lambda p: (p * A).abs(),
    lambda p: sum(p * A), lambda p: sum(v * k for k, v in (p * B).items()), lambda p: (p * A).between(1, 5) * p, lambda p: ((p * A > 2) & (A < 3)) * p,
    lambda p: ~(p * A > 2) * p, lambda p: (p * A).gt(2.0) * p, lambda p: (p * N == p * N) * p, lambda p: (p * N != 3.0) * p, lambda p: (p * A).any() * p,
    # Products, weights, codes, types.
    lambda p: (p * A) @ B, lambda p: (p * E) @ np.array([1.0, 2.0]), lambda p: (p * E).dot(pd.Series({"y": 1.0, "x": 2.0})), lambda p: np.array([1.0, 2.0]) @ (p * E),
    lambda p: np.average(p * A, weights=B), lambda p: np.array([p, 2 * p, 3 * p])[CODES.codes], lambda p: p * (LONG.index - LONG.index[0]).days,
    lambda p: np.bincount([0, 1, 0], weights=p * A), lambda p: p * pd.Series([1, 2], dtype="Int64"), lambda p: (p * pd.Series([1, 2.5], dtype="Float64")).std(),
    lambda p: (p * pd.Series([True, False])).mean(), lambda p: (p * pd.Series([1, 2.5], dtype=object)).sum(), lambda p: (p * pd.Series([3, 4])).std(),
    lambda p: p * pd.concat([A, B]).reset_index(drop=True), lambda p: p * pd.merge(D.reset_index(), D.reset_index(), on="index").x_y, lambda p: np.diff(p * A),
    lambda p: np.median(p * A), lambda p: np.cumsum(p * N), lambda p: np.stack([p * A, A]), lambda p: np.outer(p * A, A), lambda p: np.interp(1.5, A, p * B),
    lambda p: np.sort(p * B), lambda p: pd.Series([p, 2 * p]).sum(), lambda p: (A * 1.0).mul(p).std(),
    lambda p: A.index * p, lambda p: (p * A).max() * (p * A).idxmin(), lambda p: ((p * D) - (p * D).mean()) / (p * D).std(), lambda p: (p * D).sub(D.x * p, axis=0),
]  # fmt: skip


def numbers(thing):
    return np.asarray(thing.to_numpy() if hasattr(thing, "to_numpy") else thing, float)


def compared(f, every_mode=True, p=1.5):
    plain = f(p)
    value = numbers(plain)
    there = np.isfinite(value)
    weights = 1.0 + np.sin(np.arange(value.size)).reshape(value.shape)
    seen = []

    def total(q):
        result = f(q)
        seen.append(result)
        return np.sum(np.where(there, tg.array(result), 0.0) * weights) + 0.0 * q

    def slope(q):
        return sum(s * np.sum(np.where(there, numbers(f(q + h)), 0.0) * weights) for s, h in ((1, 1e-6), (-1, -1e-6))) / 2e-6

    expected = np.sum(np.where(there, value, 0.0) * weights)
    one = tg.value_and_grad(total)
    jitted = tg.jit(one)
    found = one(p)
    assert found[0] == pytest.approx(expected, rel=1e-12, abs=1e-13)
    assert found[1] == pytest.approx(slope(p), rel=1e-7, abs=1e-7)
    # The labels, too, and what is missing.
    result = seen[0]
    np.testing.assert_array_equal(~np.isfinite(numbers(f(tg.tensor(p)))), ~there)
    if hasattr(result, "_places"):
        assert result.index.equals(plain.index) and result.shape == plain.shape
        assert plain.ndim == 1 and result.name == plain.name or plain.ndim == 2 and result.columns.equals(plain.columns)
    else:
        assert not isinstance(plain, (pd.Series, pd.DataFrame)) or isinstance(result, (pd.Series, pd.DataFrame)), "a table is not one any more"
    if not every_mode:
        return
    jitted(1.53)
    for value, gradient in (jitted(p), (None, tg.jvp(total, (p,), (1.0,))[1]), (None, tg.jacfwd(total)(p)), (None, tg.grad(lambda q: tg.vjp(total, q)[0] * 1.0)(p))):
        assert value is None or value == pytest.approx(found[0], rel=1e-12, abs=1e-13)
        assert gradient == pytest.approx(found[1], rel=1e-11, abs=1e-12)
    assert float(tg.hessian(total)(p)) == pytest.approx((one(p + 1e-5)[1] - one(p - 1e-5)[1]) / 2e-5, rel=1e-5, abs=1e-5)
    leaf = tg.tensor(p, requires_grad=True)
    total(leaf).backward()
    assert float(leaf.grad) == pytest.approx(found[1], rel=1e-12)


def test_the_numbers_of_pandas():
    for k, f in enumerate(SAME):
        compared(f, k % 12 == 0)


@pytest.mark.long
@pytest.mark.parametrize("k", range(len(SAME)))
def test_the_numbers_of_pandas_in_every_mode(k):
    compared(SAME[k])


V = np.array([1.0, 2.0, 3.0])

#: What is refused, and what the error says; `p` is a number that carries a derivative.
REFUSED = [
    (lambda p: pd.Series(p * A), "by position"), (lambda p: D.assign(z=p * D.x), "by position"), (lambda p: A @ (p * B), "by position"),
    (lambda p: (p * A).ewm(span=2).mean(), "ewm"), (lambda p: (p * LONG).resample("2D").sum(), "resample"), (lambda p: (p * A).sort_values(), "sort_values"),
    (lambda p: (p * A).rolling(2).mean(), "rolling"), (lambda p: (p * E).groupby("x").sum(), "plain Series"), (lambda p: (p * LONG).groupby(G).skew(), "segment_sum"),
    (lambda p: np.sqrt(p * A - 2.0).sum(), "a NaN that was computed"), (lambda p: (p * A).shift(fill_value=0), "fill_value"), (lambda p: (p * A).item(), "to_numpy"),
    (lambda p: (p * A).reindex([0, 7], fill_value=0.0), "fill_value"), (lambda p: (p * A).add(B[:2], fill_value=0), "fill_value"), (lambda p: (p * A).tolist(), "to_numpy"),
    (lambda p: (p * A).__setitem__(0, 1.0), "where"), (lambda p: (p * E).query("x > 1"), "query"), (lambda p: (p * E).corr(), "corr"), (lambda p: (p * A).to_dict(), "to_dict"),
    (lambda p: (p * N) ** 0, "missing"), (lambda p: p**N, "missing"), (lambda p: np.fmax(p * N, A), "missing"), (lambda p: (p * N) @ A, "missing"),
    (lambda p: p * pd.Series([1, 2, None], dtype="Int64"), "astype"), (lambda p: p * pd.Series(["a", "b"]), "dtype"), (lambda p: p * pd.Series([1, 2]).astype("category"), "dtype"),
    (lambda p: p * pd.Series(pd.to_datetime(["2020-01-01"])), "dtype"), (lambda p: p * pd.Index([1.0, np.nan]), "missing"), (lambda p: p * A * 1j, "complex"),
    (lambda p: float((p * A).sum()), "silently"), (lambda p: np.asarray(p * A), "silently"), (lambda p: np.add.reduce(p * A), "np.add"),
    # Tensors inside of pandas.
    (lambda p: pd.Series(p * np.array([1.0, np.nan])), "NaN"), (lambda p: D @ (p * np.array([1.0, 2.0])), "NaN"), (lambda p: D.mul(p * np.array([1.0, 2.0])), "NaN"),
    (lambda p: E.mul(p), "df \\* t"), (lambda p: E.rsub(p), "df \\* t"), (lambda p: E.gt(p), "df \\* t"), (lambda p: A.where(A > 1, p), "np.where"), (lambda p: N.fillna(p), "np.where"),
    (lambda p: A.clip(lower=p), "np.clip"), (lambda p: pd.Series(p * V).mean(), "numeric|plain ones"), (lambda p: pd.Series(p * V).std(), "numeric|plain ones"),
    (lambda p: (E @ (p * np.array([1.0, 2.0])) - E.x).median(), "numeric|plain ones"), (lambda p: pd.concat([p * A, B]), "concatenate"),
    (lambda p: np.multiply(tg.array([p * 1j, p, p]), A), "complex"),
]  # fmt: skip


def test_what_is_refused():
    for mode in (lambda f: f(tg.tensor(1.5, requires_grad=True)), lambda f: tg.grad(f)(1.5), lambda f: tg.jit(tg.grad(f))(1.5), lambda f: tg.jvp(f, (1.5,), (1.0,))):
        for k, (f, words) in enumerate(REFUSED):
            try:
                result = mode(f)
            except (TypeError, RuntimeError, ValueError) as error:
                # pandas and NumPy raise errors of their own from ours.
                assert re.search(words, "".join(traceback.format_exception(error))), (k, error)
            else:
                pytest.fail(f"program {k} is not refused: {result}")


def test_tensors_that_pandas_holds():
    for f in (
        lambda p: pd.Series(p * V).sum(), lambda p: (pd.Series(p * V) * p).mean(), lambda p: ((pd.Series(p * V, index=[2, 1, 0]) - A) ** 2).sum(),
        lambda p: pd.Series(p * V).diff().sum(), lambda p: (pd.Series(p * V).shift() * p).sum(), lambda p: pd.Series(p * V).groupby([0, 1, 0]).sum().sum(),
        lambda p: pd.Series(p * V)[pd.Series(p * V) > 2].sum(), lambda p: (E @ (p * np.array([1.0, 2.0])) - E.x).sum(), lambda p: A.mul(p).std(),
        lambda p: A.mul(p * B).sum(), lambda p: np.clip(N, p, None).mean(), lambda p: (lambda d: d.z * d.x)(D.assign(z=p * V)).sum(),
    ):  # fmt: skip
        compared(f, False)


def test_loops_and_lanes():
    points = np.array([0.5, 1.5, 2.5])
    for f in (lambda p: ((A * p - B) ** 2).sum(), lambda p: (p * N).mean(), lambda p: np.sum(np.where(p * A > 2.0, p * A, 0.0)), lambda p: (p * D).std().sum()):
        each = [tg.value_and_grad(f)(float(p)) for p in points]
        np.testing.assert_allclose(tg.vmap(f)(points), [value for value, _ in each], rtol=1e-13)
        np.testing.assert_allclose(tg.vmap(tg.grad(f))(points), [slope for _, slope in each], rtol=1e-13)
        scanned = tg.jit(tg.value_and_grad(lambda p: tg.fori_loop(0, 3, lambda k, c: c + f(p * (1.0 + 0.1 * k)), 0.0)))
        assert scanned(1.5)[0] == pytest.approx(sum(float(f(1.5 * (1.0 + 0.1 * k))) for k in range(3)), rel=1e-12)


def test_another_path_of_a_replay():
    f = tg.jit(tg.value_and_grad(lambda p: (p * A)[p * A > 2.0].sum() + (p * A)[(p * A).idxmax()] + np.sum(np.where(p * A > 4.0, p * A, 1.0))))
    for p in (1.5, 0.9, 3.0, 1.5):
        value = sum(v * p for v in V if v * p > 2.0) + 3.0 * p + sum(v * p if v * p > 4.0 else 1.0 for v in V)
        slope = sum(v for v in V if v * p > 2.0) + 3.0 + sum(v for v in V if v * p > 4.0)
        assert np.array(f(p)) == pytest.approx([value, slope], rel=1e-13)
    whole = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    total = whole * 1.0
    total += B
    assert isinstance(total, tg.Tensor) and total.tolist() == [2.0, 22.0, 303.0]
    ((whole * B).to_numpy() ** 2).sum().backward()
    np.testing.assert_allclose(whole.grad.numpy(), 2.0 * V * B.to_numpy() ** 2, rtol=1e-14)


def test_a_table_as_an_argument_of_what_records():
    def misfit(p, t):
        return ((p * t["x"] - t["y"]) ** 2).sum()

    g, plain = tg.jit(tg.value_and_grad(misfit)), tg.value_and_grad(misfit)
    table = D.copy()
    for t in (D, table, D[::-1], W.rename(columns={"z": "x"}), D):
        if t is table:
            table.loc["c", "x"] = 5.0
        for p in (1.5, 2.5):
            assert g(p, t) == plain(p, t)
    assert g.stats().records == 4
    moment = pd.Series([1.0, 2.0], index=pd.date_range("2020-01-01", periods=2, tz="UTC"))
    g = tg.jit(tg.grad(lambda p, t: (p * t).sum()))
    assert g(2.0, moment) == g(2.0, moment.copy()) == 3.0 and g.stats().records == 1


def test_fits_and_optimisers_take_columns():
    table = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": [1.0, 3.1, 4.9, 7.0]}, index=[7, 5, 3, 1])
    wanted = np.polyfit(table.x, table.y, 1)
    line = lambda x, a, b: a * x + b  # noqa: E731
    np.testing.assert_allclose(tg.optimize.curve_fit(line, table.x, table.y)[0], wanted)
    fits = (
        tg.fit(lambda p, x: line(x, *p), np.zeros(2), table["x"], observed=table["y"]), tg.fit(lambda p, t: line(t.x, *p) - t.y, np.zeros(2), table),
        tg.optimize.least_squares(lambda p, x, y: line(x, *p) - y, [0.0, 0.0], args=(table.x, table.y)),
        tg.optimize.minimize(lambda p, t: ((line(t.x, *p) - t.y) ** 2).sum(), [0.0, 0.0], (table,)),
    )  # fmt: skip
    for fit in fits:
        np.testing.assert_allclose(fit.params if hasattr(fit, "params") else fit.x, wanted, rtol=1e-6)

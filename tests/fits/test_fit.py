"""Fits beside closed forms and SciPy: values, errors, intervals, profiles; names, bounds, ties; and what is refused."""

import numpy as np
import pytest
from scipy import optimize, special, stats

import tapegrad as tg
from tapegrad.fits.solving import Minimum
from tapegrad.optimize.proof import EVALUATIONS

X = np.linspace(0.0, 3.0, 30)
RNG = np.random.default_rng(7)
NOISE = 0.05 * RNG.standard_normal(30)
Y = 2.0 * np.exp(-1.5 * X) + 0.4 + NOISE
LINE = np.stack([np.ones_like(X), X], axis=1)
START = {"height": 1.0, "rate": 1.0, "floor": 0.0}


def decay(p, x):
    return p["height"] * np.exp(-p["rate"] * x) + p["floor"]


def line(p, x):
    return p[0] + p[1] * x


def by_hand(y, weights=1.0):
    """Coefficients of a line, the inverse of its squares, and the sum of squares that is left."""
    a, b = LINE * np.reshape(weights, (-1, 1)), y * weights
    inverse = np.linalg.inv(a.T @ a)
    x = inverse @ a.T @ b
    return x, inverse, float(np.sum((b - a @ x) ** 2))


def test_a_fit_is_that_of_scipy():
    found = tg.fit(decay, START, X, observed=Y)
    x, covariance = optimize.curve_fit(lambda x, a, b, c: a * np.exp(-b * x) + c, X, Y, [1.0, 1.0, 0.0], ftol=1e-15, xtol=1e-15, gtol=1e-15)
    assert found.success and found.names == ["height", "rate", "floor"] and list(found.params) == list(START)
    np.testing.assert_allclose(found.x, x, rtol=1e-7)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-5)
    np.testing.assert_allclose(list(found.stderr.values()), np.sqrt(np.diag(covariance)), rtol=1e-5)


@pytest.mark.parametrize("start", [1.0, {"a": 1.0}, [1.0], np.ones(1), {"a": [np.ones(1)]}])
def test_parameters_have_the_containers_of_the_start(start):
    found = tg.fit(lambda p: [tg.array(np.reshape(p if not isinstance(p, dict) else p["a"] if not isinstance(p["a"], list) else p["a"][0], (-1,)))[0] - X], start)
    np.testing.assert_allclose(found.x, np.mean(X), rtol=1e-12)
    np.testing.assert_allclose(found.errors, np.std(X, ddof=1) / np.sqrt(30), rtol=1e-10)
    assert type(found.params) is type(found.stderr)


def test_errors_of_a_line_are_those_of_the_formulas():
    x, inverse, squares = by_hand(Y)
    found = tg.fit(line, [0.0, 0.0], X, observed=Y)
    np.testing.assert_allclose(found.x, x, rtol=1e-10)
    np.testing.assert_allclose(found.covariance, inverse * squares / 28, rtol=1e-9)
    low, high = found.confidence(0.9)
    np.testing.assert_allclose(high - low, 2 * stats.t.ppf(0.95, 28) * np.sqrt(np.diag(found.covariance)), rtol=1e-9)
    # Normal likelihood with the variance as a third parameter.
    likelihood = np.sum(stats.norm.logpdf(Y - LINE @ x, scale=np.sqrt(squares / 30)))
    assert np.isclose(found.aic, -2 * likelihood + 6) and np.isclose(found.bic, -2 * likelihood + 3 * np.log(30))
    np.testing.assert_allclose(tg.fit(line, [0.0, 0.0], X, observed=Y, covariance="hessian").covariance, found.covariance, rtol=1e-9)


def test_known_errors_give_chi_squared():
    sigma = 0.05 + 0.02 * X
    x, inverse, squares = by_hand(Y, 1 / sigma)
    found = tg.fit(line, [0.0, 0.0], X, observed=Y, sigma=sigma, absolute_sigma=True)
    np.testing.assert_allclose(found.covariance, inverse, rtol=1e-9)
    assert np.isclose(found.chi_squared, squares)
    assert np.isclose(found.aic, -2 * np.sum(stats.norm.logpdf(Y - LINE @ x, scale=sigma)) + 4)
    np.testing.assert_allclose(found.confidence()[1] - found.x, stats.norm.ppf(0.975) * np.sqrt(np.diag(inverse)), rtol=1e-9)


def test_the_sandwich_of_a_line_is_whites():
    # White, Econometrica 48 (1980), with n / (n - p): HC1.
    x, inverse, _ = by_hand(Y)
    scores = LINE * (Y - LINE @ x)[:, None]
    found = tg.fit(line, [0.0, 0.0], X, observed=Y, covariance="sandwich")
    np.testing.assert_allclose(found.covariance, 30 / 28 * inverse @ (scores.T @ scores) @ inverse, rtol=1e-9)


@pytest.mark.parametrize("loss", ["soft_l1", "huber", "cauchy", "arctan"])
def test_robust_losses_end_where_scipys_do(loss):
    y = Y.copy()
    y[::7] += 2.0
    residual = lambda p: np.array([p[0] * np.exp(-p[1] * X) + p[2] - y])[0]
    expected = optimize.least_squares(residual, [2.0, 1.5, 0.4], loss=loss, f_scale=0.1, xtol=1e-15, ftol=1e-15, gtol=1e-12)
    found = tg.fit(decay, {"height": 2.0, "rate": 1.5, "floor": 0.4}, X, observed=y, loss=loss, f_scale=0.1)
    assert found.success and np.isclose(found.cost, expected.cost, rtol=1e-9)
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-4)
    assert np.isfinite(found.errors).all() and found.aic is None


def test_counts_are_a_generalised_linear_model():
    counts = np.random.default_rng(3).poisson(np.exp(2.0 - 0.5 * X))
    found = tg.fit(lambda p, x: np.exp(p[0] + p[1] * x), [1.0, 0.0], X, observed=counts, likelihood="poisson")
    # By iteratively reweighted least squares; with the canonical link the observed information is the expected one.
    b = np.array([1.0, 0.0])
    for _ in range(50):
        mean = np.exp(LINE @ b)
        information = LINE.T @ (LINE * mean[:, None])
        b = b + np.linalg.solve(information, LINE.T @ (counts - mean))
    np.testing.assert_allclose(found.x, b, rtol=1e-8)
    np.testing.assert_allclose(found.covariance, np.linalg.inv(information), rtol=1e-6)
    mean = np.exp(LINE @ b)
    assert np.isclose(found.cost, -np.sum(stats.poisson.logpmf(counts, mean)))
    assert np.isclose(found.chi_squared, 2 * np.sum(special.xlogy(counts, counts / mean) - (counts - mean)))
    by_function = tg.fit(
        lambda p, x: np.exp(p[0] + p[1] * x), [1.0, 0.0], X, observed=counts,
        likelihood=lambda mean, n: n * np.log(mean) - mean,
    )  # fmt: skip
    np.testing.assert_allclose(by_function.covariance, found.covariance, rtol=1e-6)
    whole = tg.fit(lambda p, x, n: np.sum(np.exp(p[0] + p[1] * x) - n * (p[0] + p[1] * x)), [1.0, 0.0], X, counts, likelihood="nll")
    np.testing.assert_allclose(whole.stderr, found.stderr, rtol=1e-6)


@pytest.mark.parametrize("fixed", [["slope", "floor"], ["floor"], []])
def test_likelihoods_have_bounds(fixed):
    counts = np.round(np.exp(3.0 - 1.5 * X) + 2.0 + np.sin(40.0 * X))
    rate = lambda p, x: np.exp(p["height"] + p["slope"] * x) + p["floor"]  # noqa: E731
    start, asked = {"height": 2.5, "slope": -1.0, "floor": 1.5}, {"observed": counts, "likelihood": "poisson", "fixed": fixed}
    free = tg.fit(rate, start, X, **asked)
    wide = tg.fit(rate, start, X, bounds={"height": (-5.0, 9.0), "slope": (-3.0, None)}, **asked)
    assert wide.success
    np.testing.assert_allclose(wide.x, free.x, rtol=1e-5)
    narrow = tg.fit(rate, start, X, bounds={"height": (None, 2.6)}, **asked)
    beside = tg.fit(rate, start | {"height": 2.6}, X, **asked | {"fixed": [*fixed, "height"]}) if len(fixed) < 2 else narrow
    assert narrow.success and free.params["height"] > 2.6 and np.isnan(narrow.stderr["height"])
    np.testing.assert_allclose(list(narrow.params.values()), list(beside.params.values()), rtol=1e-5)


@pytest.mark.parametrize("start", [{"mean": 0.0, "sd": 5.0}, {"mean": 3.0, "sd": 0.3}, {"mean": -40.0, "sd": 1.0}])
def test_a_likelihood_steps_back_into_its_domain(start):
    density = lambda p, y: np.log(p["sd"]) + 0.5 * ((y - p["mean"]) / p["sd"]) ** 2  # noqa: E731
    found = tg.fit(density, start, Y, likelihood="nll")
    assert found.success
    np.testing.assert_allclose(found.x, [Y.mean(), Y.std()], rtol=1e-6)


def test_a_likelihood_that_is_no_number_at_the_start_names_parameters_and_operation():
    with pytest.raises(tg.errors.NonFiniteError, match=r"not finite at the start, a = 1, k = 2: xlogy at .*test_fit.py.*gave nan"):
        tg.fit(lambda p, x: p["a"] - p["k"] * x, {"a": 1.0, "k": 2.0}, X, observed=np.round(X + 5.0), likelihood="poisson")


def test_successes_of_trials():
    trials = np.full(30, 20.0)
    k = np.random.default_rng(5).binomial(20, special.expit(1.0 - X))
    k[0], k[-1] = 20, 0
    found = tg.fit(lambda p, x: 1 / (1 + np.exp(-(p[0] + p[1] * x))), [0.0, 0.0], X, observed=k, trials=trials, likelihood="binomial")
    cost = lambda b: -np.sum(stats.binom.logpmf(k, 20, special.expit(LINE @ b)))
    expected = optimize.minimize(cost, found.x, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-5)
    chance = special.expit(LINE @ found.x)
    np.testing.assert_allclose(found.covariance, np.linalg.inv(LINE.T @ (LINE * (20 * chance * (1 - chance))[:, None])), rtol=1e-5)
    assert np.isclose(found.cost, cost(found.x))


def test_fixed_and_tied_parameters():
    fixed = tg.fit(decay, START | {"floor": 0.4}, X, observed=Y, fixed=["floor"])
    expected, covariance = optimize.curve_fit(lambda x, a, b: a * np.exp(-b * x) + 0.4, X, Y, [1.0, 1.0])
    np.testing.assert_allclose(fixed.x, [*expected, 0.4], rtol=1e-6)
    np.testing.assert_allclose(fixed.covariance, np.pad(covariance, ((0, 1), (0, 1))), rtol=1e-4, atol=1e-12)
    tied = tg.fit(decay, START, X, observed=Y, ties={"floor": lambda p: 0.2 * p["height"]})
    expected, covariance = optimize.curve_fit(lambda x, a, b: a * np.exp(-b * x) + 0.2 * a, X, Y, [1.0, 1.0])
    turn = np.array([[1.0, 0.0], [0.0, 1.0], [0.2, 0.0]])
    np.testing.assert_allclose(tied.x, turn @ expected, rtol=1e-6)
    np.testing.assert_allclose(tied.covariance, turn @ covariance @ turn.T, rtol=1e-4)
    assert "tied" in str(tied) and "fixed" in str(fixed)


def test_ties_of_ties_and_of_arrays():
    expected, covariance = optimize.curve_fit(lambda x, b: 2.0 * b * np.exp(-b * x) + 0.2 * b, X, Y, [1.0])
    links = {"floor": lambda p: 0.1 * p["height"], "height": lambda p: 2.0 * p["rate"]}
    for ties in (links, dict(reversed(links.items()))):
        found = tg.fit(decay, START, X, observed=Y, ties=ties)
        np.testing.assert_allclose(found.x, expected[0] * np.array([2.0, 1.0, 0.2]), rtol=1e-6)
        np.testing.assert_allclose(found.covariance, covariance * np.outer([2.0, 1.0, 0.2], [2.0, 1.0, 0.2]), rtol=1e-4)
    # One that only decides by another one has no derivative by it.
    links = {"floor": lambda p: 0.2 * p["rate"] if p["height"] > 1e-3 else 5.0, "height": lambda p: 2.0 * p["rate"]}
    found = tg.fit(decay, START | {"height": 0.0}, X, observed=Y, ties=links)
    np.testing.assert_allclose(found.x, expected[0] * np.array([2.0, 1.0, 0.2]), rtol=1e-6)
    with pytest.raises(tg.errors.OptimizationError, match="the ties of floor, height need each other; leave one of these free"):
        tg.fit(decay, START, X, observed=Y, ties={"floor": lambda p: 0.1 * p["height"], "height": lambda p: 2.0 * p["floor"]})
    sizes = lambda p, x: p["sizes"][0] * np.exp(-p["rate"] * x) + p["sizes"][1]
    start = {"rate": 1.0, "sizes": np.ones(2)}
    found = tg.fit(sizes, start, X, observed=Y, ties={"sizes": lambda p: p["rate"] * np.array([2.0, 0.2])})
    np.testing.assert_allclose(found.x, expected[0] * np.array([1.0, 2.0, 0.2]), rtol=1e-6)
    with pytest.raises(tg.errors.OptimizationError, match=r"the tie of sizes\[0\] returns 3 numbers for 2; return one, or one for each"):
        tg.fit(sizes, start, X, observed=Y, ties={"sizes": lambda p: p["rate"] * np.ones(3)})


def test_data_sets_share_parameters():
    other = X[:12] + 0.1
    seconds = 1.0 * np.exp(-1.5 * other) + 0.05 * RNG.standard_normal(12)
    start = {"peaks": [{"height": 1.0}, {"height": 1.0}], "rate": 1.0}
    model = lambda p, a, b: [p["peaks"][0]["height"] * np.exp(-p["rate"] * a), p["peaks"][1]["height"] * np.exp(-p["rate"] * b)]
    found = tg.fit(model, start, X, other, observed=[Y - 0.4, seconds])
    residual = lambda q: np.concatenate([q[0] * np.exp(-q[2] * X) - Y + 0.4, q[1] * np.exp(-q[2] * other) - seconds])
    expected = optimize.least_squares(residual, [1.0, 1.0, 1.0], xtol=1e-15, ftol=1e-15)
    assert found.names == ["peaks[0].height", "peaks[1].height", "rate"]
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-6)
    np.testing.assert_allclose(found.covariance, np.linalg.inv(expected.jac.T @ expected.jac) * 2 * expected.cost / 39, rtol=1e-5)


def test_a_bound_holds_a_parameter_which_then_has_no_error():
    found = tg.fit(decay, START, X, observed=Y, bounds={"rate": (None, 1.2)})
    expected, covariance = optimize.curve_fit(lambda x, a, c: a * np.exp(-1.2 * x) + c, X, Y, [1.0, 0.0])
    assert found.success and found.params["rate"] == pytest.approx(1.2) and np.isnan(found.stderr["rate"])
    np.testing.assert_allclose([found.params["height"], found.params["floor"]], expected, rtol=1e-6)
    np.testing.assert_allclose([found.stderr["height"], found.stderr["floor"]], np.sqrt(np.diag(covariance)), rtol=1e-4)
    assert "at its upper bound" in str(found)
    free = tg.fit(decay, START, X, observed=Y, bounds={"rate": (0.0, 5.0)})
    np.testing.assert_allclose(free.stderr["rate"], tg.fit(decay, START, X, observed=Y).stderr["rate"], rtol=1e-6)


def test_what_the_data_do_not_determine_is_named():
    found = tg.fit(lambda p, x: p["a"] * p["b"] * np.exp(-p["rate"] * x), {"a": 1.0, "b": 2.0, "rate": 1.0}, X, observed=Y - 0.4)
    product = tg.fit(lambda p, x: p["a"] * np.exp(-p["rate"] * x), {"a": 1.0, "rate": 1.0}, X, observed=Y - 0.4)
    assert np.isnan(found.stderr["a"]) and np.isnan(found.stderr["b"])
    np.testing.assert_allclose(found.stderr["rate"] / np.sqrt(28 / 27), product.stderr["rate"], rtol=1e-6)
    (combination,) = found.undetermined
    # Along it a grows as b falls, by the same part of each.
    assert set(combination) == {"a", "b"}
    assert np.isclose(combination["a"] / found.params["a"], -combination["b"] / found.params["b"], rtol=1e-6)
    assert "the data do not determine" in str(found)
    unused = tg.fit(lambda p, x: p[0] + 0.0 * p[1] + p[2] * x, [0.0, 1.0, 0.0], X, observed=Y)
    assert unused.undetermined == [{"p[1]": 1.0}] and np.isnan(unused.errors[1]) and np.isfinite(unused.errors[[0, 2]]).all()


def test_profiles_of_a_line_are_students_intervals():
    found = tg.fit(line, [0.0, 0.0], X, observed=Y)
    low, high = found.confidence(0.9)
    for k in range(2):
        profile = found.profile(f"p[{k}]", level=0.9)
        np.testing.assert_allclose(profile.interval, [low[k], high[k]], rtol=1e-6)
        np.testing.assert_allclose(profile.signed, (profile.values - found.x[k]) / found.errors[k], atol=1e-6)
    ellipse = found.contour("p[0]", "p[1]", 0.9, 16) - found.x
    inside = np.einsum("ia,ab,ib->i", ellipse, np.linalg.inv(found.covariance), ellipse)
    np.testing.assert_allclose(inside, 2 * stats.f.ppf(0.9, 2, 28), rtol=1e-3)


def test_a_profile_follows_the_cost():
    found = tg.fit(decay, START, X, observed=Y)
    profile = found.profile("rate", points=9)
    variance = 2 * found.cost / found.dof
    for value, rise in zip(profile.values, profile.rises):
        fixed = tg.fit(decay, {**found.params, "rate": value}, X, observed=Y, fixed=["rate"])
        assert np.isclose(rise, 2 * (fixed.cost - found.cost) / variance, rtol=1e-5, atol=1e-8)
    threshold = stats.t.ppf(0.975, found.dof) ** 2
    for end in profile.interval:
        at = tg.fit(decay, {**found.params, "rate": end}, X, observed=Y, fixed=["rate"])
        assert np.isclose(2 * (at.cost - found.cost) / variance, threshold, rtol=2e-3)


def test_uncertainty_is_carried_on():
    covariance = np.array([[0.04, 0.01], [0.01, 0.09]])
    value, variance = tg.propagate(lambda p: p[0] * p[1], [3.0, 2.0], covariance)
    assert value == 6.0 and np.isclose(variance, 4 * 0.04 + 9 * 0.09 + 2 * 6 * 0.01)
    # Exact for a product of normal numbers.
    value, variance = tg.propagate(lambda p: p[0] * p[1], [3.0, 2.0], covariance, order=2)
    assert np.isclose(value, 6.01) and np.isclose(variance, 4 * 0.04 + 9 * 0.09 + 2 * 6 * 0.01 + 0.04 * 0.09 + 0.01**2)
    # Where the slope is zero, the curvature is what counts.
    value, variance = tg.propagate(lambda p: p[0] ** 2 + p[0] * p[1], [0.0, 0.0], covariance, order=2)
    drawn = tg.propagate(lambda p: p[0] ** 2 + p[0] * p[1], [0.0, 0.0], covariance, samples=400_000, seed=1)
    np.testing.assert_allclose((value, variance), drawn, rtol=0.02)
    value, spread = tg.propagate(lambda p: np.exp(p), [0.1, 0.2], 0.01 * covariance, samples=20000, seed=1)
    expected = np.exp([0.1, 0.2])
    np.testing.assert_allclose(value, expected, rtol=1e-3)
    np.testing.assert_allclose(spread, 0.01 * covariance * np.outer(expected, expected), rtol=0.1)
    assert [np.shape(tg.propagate(lambda p: p[:1] * p[1], [0.1, 0.2], covariance, samples=n)[1]) for n in (0, 9)] == [(1, 1), (1, 1)]
    found = tg.fit(line, [0.0, 0.0], X, observed=Y)
    at, low, high = found.predict(line, np.array([1.0, 2.0]))
    rows = np.array([[1.0, 1.0], [1.0, 2.0]])
    np.testing.assert_allclose(at, rows @ found.x, rtol=1e-12)
    np.testing.assert_allclose(high - low, 2 * stats.t.ppf(0.975, 28) * np.sqrt(np.einsum("ia,ab,ib->i", rows, found.covariance, rows)), rtol=1e-9)


def test_a_second_fit_has_the_recordings_of_the_first():
    one = tg.fit(decay, START, X, observed=Y)
    other = tg.fit(decay, {"height": 1.5, "rate": 1.2, "floor": 0.1}, X + 0.01, observed=Y + 0.01)
    assert other.success and other.model.residuals is one.model.residuals and other.model.terms is one.model.terms
    assert tg.fit(decay, START, X, observed=Y, fixed="floor").model.residuals is not one.model.residuals


def test_a_fit_alone_makes_no_kernel():
    """A model that is made anew for each data set would have its kernels made anew; what is fitted often has them."""
    found = tg.fit(lambda p: p["height"] * np.exp(-p["rate"] * X) + p["floor"] - Y, START)
    point = Minimum(found.model, 1.0, len(X))
    recordings = point._cost, point.slope, point.curvature
    assert found.success and all(each.stats().records == 1 and each.stats().kernels == 0 for each in recordings)
    for _ in range(EVALUATIONS):
        point.slope(found.u, *point.args)
    assert point.slope.stats().kernels == 1


def test_a_model_that_reads_what_changes_is_fitted_as_it_is():
    shift = {"by": [0.0]}

    def model(p, x):
        return p[0] + p[1] * x + shift["by"][0]

    first = tg.fit(model, [1.0, 1.0], X, observed=Y)
    shift["by"][0] = 1.0
    second = tg.fit(model, [1.0, 1.0], X, observed=Y)
    np.testing.assert_allclose(second.x, first.x - [1.0, 0.0], rtol=1e-9)
    np.testing.assert_allclose(second.covariance, first.covariance, rtol=1e-9)
    assert first.success and second.success


def test_the_scale_of_a_profile_is_that_of_the_residuals():
    for covariance in ("sandwich", "hessian"):
        found = tg.fit(line, [0.0, 0.0], X, observed=Y, covariance=covariance)
        expected = tg.fit(line, [0.0, 0.0], X, observed=Y).profile("p[1]").interval
        np.testing.assert_allclose(found.profile("p[1]").interval, expected, rtol=1e-3)
    robust = tg.fit(line, [0.0, 0.0], X, observed=Y, loss="huber", f_scale=0.1)
    with pytest.raises(tg.errors.OptimizationError, match="loss='huber' is not a likelihood"):
        robust.profile("p[1]")


def test_tables():
    found = tg.fit(decay, START, X, observed=Y, sigma=0.05, absolute_sigma=True)
    text = str(found)
    assert text.splitlines()[0].startswith("fit of 3 parameters to 30 observations, converged in ")
    assert "chi-squared" in text and "correlations above 0.1: " in text and "<table>" in found._repr_html_()


def test_pictures(tmp_path):
    pytest.importorskip("matplotlib")
    found = tg.fit(decay, START, X, observed=Y, sigma=0.05, absolute_sigma=True)
    found.plot(tmp_path / "fit.png")
    found.profile("rate", points=5).plot(tmp_path / "profile.png")
    assert (tmp_path / "fit.png").stat().st_size > 10_000 and (tmp_path / "profile.png").stat().st_size > 5_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bounds": {"rate": (2.0, 3.0)}}, "rate starts at 1, outside of its bounds 2 to 3"),
        ({"bounds": {"rat": (2.0, 3.0)}}, "bounds: there is no parameter 'rat'; there are height, rate, floor"),
        ({"bounds": {"rate": (1.0, 1.0)}}, "the bounds of rate, 1 and 1, leave no room; name it in fixed="),
        ({"fixed": ["rate", "rate"]}, "rate is fixed and fixed; name it once"),
        ({"fixed": ["rate"], "ties": {"rate": lambda p: 1.0}}, "rate is tied and fixed; name it once"),
        ({"fixed": ["rate", "height", "floor"]}, "no parameter is free"),
        ({"observed": np.where(X > 2.9, np.nan, Y)}, "observed has nan at place 29; leave such observations out"),
        ({"observed": Y[:10]}, "observed has 10 numbers, and the model returns 30"),
        ({"sigma": np.zeros(30)}, "sigma has a number that is not above 0"),
        ({"ties": {"floor": lambda p: 0.1}, "bounds": {"floor": (0.0, 1.0)}}, "floor is tied, and has bounds"),
        ({"loss": "hubert"}, "loss='hubert': choose one of linear, soft_l1"),
        ({"likelihood": "gamma"}, "likelihood='gamma': choose one of poisson, binomial, nll"),
        ({"likelihood": "poisson", "observed": None}, "give observed="),
        ({"likelihood": "binomial"}, "trials= and likelihood"),
        ({"covariance": "exact"}, "covariance='exact': choose one of"),
    ],
)
def test_what_is_refused_is_named(change, message):
    with pytest.raises((tg.errors.OptimizationError, tg.errors.ShapeError), match=message.replace("(", r"\(")):
        tg.fit(decay, START, X, **({"observed": Y} | change))


def test_more_refusals():
    with pytest.raises(tg.errors.OptimizationError, match="there are 2 observations for 3 free parameters"):
        tg.fit(decay, START, X[:2], observed=Y[:2])
    holes = np.where(X > 2.9, np.nan, X)
    with pytest.raises(tg.errors.OptimizationError, match="argument 1 of the model has nan at place 29; leave"):
        tg.fit(decay, START, holes, observed=Y)
    # A model may pass them over.
    passed = tg.fit(lambda p, x: decay(p, np.where(np.isnan(x), 3.0, x)), START, holes, observed=Y)
    assert passed.success
    flat = tg.fit(lambda p, x: 0.0 * p[0] + Y, [1.0], X, observed=Y)
    assert flat.undetermined == [{"p[0]": 1.0}] and np.isnan(flat.stderr).all()
    ended = tg.fit(decay, START, X, observed=Y, max_evaluations=2)
    assert not ended.success and np.isnan(ended.errors).all() and "NOT CONVERGED" in str(ended) and "std. error" in str(ended)
    with pytest.raises(tg.errors.OptimizationError, match="the fit did not converge"):
        ended.profile("rate")
    found = tg.fit(decay, START, X, observed=Y, fixed="floor")
    with pytest.raises(tg.errors.OptimizationError, match="floor is fixed; only free parameters have a profile"):
        found.profile("floor")
    with pytest.raises(tg.errors.OptimizationError, match="level=95: give a probability"):
        found.confidence(95)
    with pytest.raises(tg.errors.ShapeError, match=r"covariance has shape \(3,\), and x has 2 numbers"):
        tg.propagate(lambda p: p, [1.0, 2.0], np.ones(3))


def test_propagation_inside_of_a_derivative_is_refused():
    for around in tg.grad, tg.derivative, tg.jit:
        with pytest.raises(tg.errors.HigherOrderError, match="propagate.*detach"):
            around(lambda p: tg.propagate(lambda t: t * t, p, np.eye(1))[0])(1.0)

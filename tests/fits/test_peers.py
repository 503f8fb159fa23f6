"""The same fits by lmfit, iminuit and statsmodels: values, errors, intervals, correlations."""

import numpy as np
import pytest

import tapegrad as tg

RNG = np.random.default_rng(5)
X = np.linspace(0.0, 10.0, 80)
TRUTH = {"height": 4.0, "center": 5.2, "width": 0.8, "slope": 0.1, "floor": 1.0}


def peak(p, x):
    return p["height"] * np.exp(-0.5 * ((x - p["center"]) / p["width"]) ** 2) + p["slope"] * x + p["floor"]


SEEN = peak(TRUTH, X) + 0.15 * RNG.normal(size=len(X))
START = {"height": 3.0, "center": 5.0, "width": 1.0, "slope": 0.0, "floor": 0.5}


def test_lmfit():
    lmfit = pytest.importorskip("lmfit")
    parameters = lmfit.Parameters()
    for name, value in START.items():
        parameters.add(name, value)
    minimizer = lmfit.Minimizer(lambda p: peak(p.valuesdict(), X) - SEEN, parameters)
    theirs, ours = minimizer.minimize(), tg.fit(peak, START, X, observed=SEEN)
    for name in START:
        assert ours.params[name] == pytest.approx(theirs.params[name].value, rel=1e-5)
        # Theirs is by finite differences.
        assert ours.stderr[name] == pytest.approx(theirs.params[name].stderr, rel=1e-3)
    assert ours.cost * 2.0 == pytest.approx(theirs.chisqr, rel=1e-8)
    k, j = ours.names.index("slope"), ours.names.index("floor")
    assert ours.correlation()[k, j] == pytest.approx(theirs.params["slope"].correl["floor"], abs=1e-3)
    intervals = lmfit.conf_interval(minimizer, theirs, sigmas=[0.95], p_names=["width", "height"])
    for name in ("width", "height"):
        low, _, high = (value for _, value in intervals[name])
        # (Theirs is by an F test of the sums of squares: Student's t of one parameter.)
        np.testing.assert_allclose(ours.profile(name).interval, (low, high), rtol=2e-3)


def test_iminuit():
    iminuit = pytest.importorskip("iminuit")
    costs = pytest.importorskip("iminuit.cost")
    cost = costs.LeastSquares(X, SEEN, 0.15, lambda x, height, center, width, slope, floor: peak(dict(zip(START, (height, center, width, slope, floor))), x))
    theirs = iminuit.Minuit(cost, **START)
    theirs.strategy = 2
    theirs.migrad()
    theirs.hesse()
    theirs.minos()
    ours = tg.fit(peak, START, X, observed=SEEN, sigma=0.15, absolute_sigma=True, covariance="hessian")
    for name in START:
        assert ours.params[name] == pytest.approx(theirs.values[name], rel=2e-4)
        assert ours.stderr[name] == pytest.approx(theirs.errors[name], rel=5e-3)
    # MINOS' errors are where twice the cost has risen by one: the likelihood ratio's 68.27 %.
    profile = ours.profile("width", level=0.682689)
    low, high = (ours.params["width"] + side for side in (theirs.merrors["width"].lower, theirs.merrors["width"].upper))
    np.testing.assert_allclose(profile.interval, (low, high), rtol=1e-3)
    np.testing.assert_allclose(ours.correlation(), np.array(theirs.covariance.correlation()), atol=5e-3)


def test_statsmodels():
    api = pytest.importorskip("statsmodels.api")
    features = np.stack([np.ones(200), RNG.normal(size=200), RNG.uniform(size=200)], axis=1)
    counts = RNG.poisson(np.exp(features @ [0.5, 0.3, -0.8])).astype(float)
    theirs = api.GLM(counts, features, family=api.families.Poisson()).fit(tol=1e-12)
    ours = tg.fit(lambda b, f: np.exp(f @ b), np.zeros(3), features, observed=counts, likelihood="poisson")
    np.testing.assert_allclose(ours.params, theirs.params, rtol=1e-6)
    np.testing.assert_allclose(ours.stderr, theirs.bse, rtol=1e-6)
    assert ours.chi_squared == pytest.approx(theirs.deviance, rel=1e-8) and ours.aic == pytest.approx(theirs.aic, rel=1e-8)
    trials = np.full(200, 12.0)
    wins = RNG.binomial(12, 1.0 / (1.0 + np.exp(-(features @ [0.2, 1.0, -0.5])))).astype(float)
    theirs = api.GLM(np.stack([wins, trials - wins], axis=1), features, family=api.families.Binomial()).fit(tol=1e-12)
    ours = tg.fit(lambda b, f: 1.0 / (1.0 + np.exp(-(f @ b))), np.zeros(3), features, observed=wins, likelihood="binomial", trials=trials)
    np.testing.assert_allclose(ours.params, theirs.params, rtol=1e-6)
    np.testing.assert_allclose(ours.stderr, theirs.bse, rtol=1e-6)
    y = features @ [1.0, 2.0, 3.0] + RNG.normal(size=200) * (0.2 + features[:, 2])
    theirs = api.OLS(y, features).fit()
    plain = tg.fit(lambda b, f: f @ b, np.zeros(3), features, observed=y)
    np.testing.assert_allclose(plain.stderr, theirs.bse, rtol=1e-8)
    np.testing.assert_allclose(np.stack(plain.confidence(0.95), axis=1), theirs.conf_int(0.05), rtol=1e-8)
    robust = tg.fit(lambda b, f: f @ b, np.zeros(3), features, observed=y, covariance="sandwich")
    # HC1 is White's with the factor n / (n - p).
    np.testing.assert_allclose(robust.stderr, theirs.get_robustcov_results("HC1").bse, rtol=1e-8)

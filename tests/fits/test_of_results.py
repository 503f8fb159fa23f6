"""What results of optimisers say of their errors, beside fits and closed forms."""

import pickle

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import OptimizationError

TIMES = np.linspace(0.0, 4.0, 60)
SEEN = 2.5 * np.exp(-1.3 * TIMES) + 0.5 + 0.02 * np.random.default_rng(0).normal(size=60)
START = {"height": 1.0, "rate": 1.0, "floor": 0.0}


def left(p):
    return p["height"] * np.exp(-p["rate"] * TIMES) + p["floor"] - SEEN


def nll(p):
    return 0.5 * np.sum(left(p) ** 2) / 0.02**2


def test_least_squares_have_the_errors_of_a_fit():
    found, fit = tg.optimize.least_squares(left, START), tg.fit(lambda p, t: left(p), START, TIMES)
    np.testing.assert_allclose(list(found.stderr().values()), list(fit.stderr.values()), rtol=1e-6)
    np.testing.assert_allclose(found.covariance(), fit.covariance, rtol=1e-6)
    np.testing.assert_allclose(found.correlation(), fit.correlation(), rtol=1e-6)
    for ours, theirs in zip(found.confidence(0.9), fit.confidence(0.9)):
        np.testing.assert_allclose(list(ours.values()), list(theirs.values()), rtol=1e-6)
    robust = tg.optimize.least_squares(left, START, loss="soft_l1", f_scale=0.02)
    theirs = tg.fit(lambda p, t: left(p), START, TIMES, loss="soft_l1", f_scale=0.02)
    np.testing.assert_allclose(robust.covariance(), theirs.covariance, rtol=1e-5)


def test_minima_have_the_inverse_hessian_of_a_likelihood():
    known = tg.fit(lambda p, t: left(p), START, TIMES, observed=None)
    jacobian = tg.jacobian(lambda x: left(dict(zip(START, x))))(known.x)
    # At the minimum the Hessian is that of the squares, and what the residuals add.
    hessian = tg.hessian(lambda x: nll(dict(zip(START, x))))(known.x)
    assert not np.allclose(hessian, jacobian.T @ jacobian / 0.02**2, rtol=1e-4)
    for found in (tg.optimize.minimize(nll, START), tg.optimize.lbfgs(nll, START, max_iter=5000)):
        np.testing.assert_allclose(found.covariance(), np.linalg.inv(hessian), rtol=1e-5)
        assert set(found.stderr()) == set(START) and found.undetermined() == []


def test_active_bounds_and_what_is_not_determined_have_no_error():
    low, high = {"height": None, "rate": None, "floor": 0.0}, {"height": None, "rate": None, "floor": 0.4}
    free = tg.optimize.minimize(lambda q: nll({"height": q[0], "rate": q[1], "floor": 0.4}), [1.0, 1.0])
    for found in (tg.optimize.minimize(nll, START, bounds=[(None, None)] * 2 + [(0.0, 0.4)]), tg.optimize.lbfgs(nll, START, bounds=(low, high))):
        errors = found.stderr()
        assert np.isnan(errors["floor"])
        np.testing.assert_allclose([errors["height"], errors["rate"]], free.stderr(), rtol=1e-4)
    flat = tg.optimize.minimize(lambda x: (x[0] + x[1] - 1.0) ** 2, [1.0, 1.0])
    (combination,) = flat.undetermined()
    assert np.isnan(flat.stderr()).all() and combination["p[0]"] == pytest.approx(-combination["p[1]"])


def test_where_nothing_is_known_that_is_said():
    stopped = tg.optimize.minimize(nll, START, options={"maxiter": 1})
    with pytest.raises(OptimizationError, match="has not converged"):
        stopped.stderr()
    bound = tg.optimize.minimize(lambda x: x[0] ** 2, [1.0, 1.0], constraints={"type": "eq", "fun": lambda x: x[1]})
    copied = pickle.loads(pickle.dumps(tg.optimize.least_squares(left, START)))
    assert copied.x["rate"] == pytest.approx(1.32, abs=0.05)
    for result in (bound, copied, tg.optimize.root(lambda x: x - 1.0, [0.0]), tg.optimize.nlp(nll, START, method="trust-constr")):
        with pytest.raises(OptimizationError, match="not known"):
            result.covariance()

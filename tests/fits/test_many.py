"""Many fits at once: each is what `fit` and SciPy make of it, and none of them disturbs another."""

import numpy as np
import pytest
from scipy.optimize import curve_fit, least_squares

import tapegrad as tg
from tapegrad.common.errors import OptimizationError
from tapegrad.fits import many
from tapegrad.fits.many import LIMIT, NOT_FINITE

TIMES = np.linspace(0.0, 4.0, 40)
COUNT = 30
RNG = np.random.default_rng(3)
HEIGHTS, RATES = RNG.uniform(1.0, 3.0, COUNT), RNG.uniform(0.3, 2.0, COUNT)
SEEN = HEIGHTS[:, None] * np.exp(-RATES[:, None] * TIMES) + 0.3 + 0.02 * RNG.normal(size=(COUNT, len(TIMES)))
STARTS = {"height": 1.0, "rate": np.ones(COUNT), "floor": 0.0}


def decay(p, t):
    return p["height"] * np.exp(-p["rate"] * t) + p["floor"]


def alike(fits, k, one, rtol=1e-5):
    """Whether fit `k` of many is the same as a `Fit`."""
    assert fits.success[k] and one.success
    np.testing.assert_allclose(fits.x[k], one.x, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(fits.errors[k], one.errors, rtol=rtol, equal_nan=True)
    np.testing.assert_allclose(fits.covariance[k], one.covariance, rtol=1e-3, atol=1e-9, equal_nan=True)
    assert fits.cost[k] == pytest.approx(one.cost, rel=1e-9)


def test_each_is_what_scipy_and_a_single_fit_give():
    fits = tg.fit_many(decay, STARTS, TIMES, observed=SEEN, in_axes=None)
    assert len(fits) == COUNT and fits.success.all() and fits.params["rate"].shape == (COUNT,)
    for k in range(COUNT):
        x, covariance = curve_fit(lambda t, a, b, c: a * np.exp(-b * t) + c, TIMES, SEEN[k], [1.0, 1.0, 0.0])
        np.testing.assert_allclose(fits.x[k], x, rtol=1e-5)
        np.testing.assert_allclose(fits.covariance[k], covariance, rtol=1e-3)
    alike(fits, 7, tg.fit(decay, {"height": 1.0, "rate": 1.0, "floor": 0.0}, TIMES, observed=SEEN[7]))
    assert fits[7]["params"]["rate"] == fits.params["rate"][7] and fits[7]["message"].startswith("converged")
    assert "30 fits of 3 parameters, 30 converged" in str(fits) and "rate" in fits._repr_html_()


def test_bounds_hold_and_take_the_error():
    fits = tg.fit_many(decay, STARTS, TIMES, observed=SEEN, in_axes=None, bounds={"floor": (0.0, 0.3)})
    held = np.isnan(fits.stderr["floor"])
    assert held.any() and not held.all() and (fits.params["floor"][held] == 0.3).all()
    for k in range(COUNT):
        theirs = least_squares(
            lambda p: p[0] * np.exp(-p[1] * TIMES) + p[2] - SEEN[k], [1.0, 1.0, 0.0], bounds=([-np.inf, -np.inf, 0.0], [np.inf, np.inf, 0.3]),
            xtol=1e-15, ftol=1e-15, gtol=1e-15,
        )  # fmt: skip
        np.testing.assert_allclose(fits.x[k], theirs.x, atol=1e-6)
    for k in (int(np.flatnonzero(held)[0]), int(np.flatnonzero(~held)[0])):
        one = tg.fit(decay, {"height": 1.0, "rate": 1.0, "floor": 0.0}, TIMES, observed=SEEN[k], bounds={"floor": (0.0, 0.3)})
        alike(fits, k, one)
        assert fits.dof[k] == one.dof


def test_fixed_and_tied_parameters_and_sigma():
    floors = np.linspace(0.2, 0.4, COUNT)
    fixed = tg.fit_many(decay, {**STARTS, "floor": floors}, TIMES, observed=SEEN, in_axes=None, fixed=["floor"])
    tied = tg.fit_many(decay, STARTS, TIMES, observed=SEEN, in_axes=None, ties={"floor": lambda p: 0.1 * p["height"]})
    sigma = np.linspace(0.5, 2.0, COUNT)[:, None] * np.full(len(TIMES), 0.02)
    weighted = tg.fit_many(decay, STARTS, TIMES, observed=SEEN, in_axes=None, sigma=sigma, absolute_sigma=True)
    for k in (0, 17):
        start = {"height": 1.0, "rate": 1.0, "floor": floors[k]}
        alike(fixed, k, tg.fit(decay, start, TIMES, observed=SEEN[k], fixed=["floor"]))
        alike(tied, k, tg.fit(decay, start, TIMES, observed=SEEN[k], ties={"floor": lambda p: 0.1 * p["height"]}))
        alike(weighted, k, tg.fit(decay, start, TIMES, observed=SEEN[k], sigma=sigma[k], absolute_sigma=True))
    assert (fixed.params["floor"] == floors).all() and (fixed.stderr["floor"] == 0.0).all()


def test_a_sigma_of_each_fit_is_its_own():
    # As many fits as observations: it is the first axis that counts the fits.
    sigma, x, options = np.array([1.0, 2.0, 3.0]), np.arange(3.0), {"in_axes": None, "absolute_sigma": True}
    lines = tg.fit_many(lambda p, x: p[0] + p[1] * x, np.ones((3, 2)), x, observed=SEEN[:3, :3], sigma=sigma, **options)
    np.testing.assert_allclose(lines.stderr, lines.stderr[0] * sigma[:, None])
    both, seen = lambda p, x: {"line": p[0] + p[1] * x, "square": [p[0] * x**2]}, {"line": SEEN[:3, :3], "square": [SEEN[:3, 3:6]]}
    for one in (0.5, sigma):
        fits = tg.fit_many(both, np.ones((3, 2)), x, observed=seen, sigma=one, **options)
        for k in range(3):
            each = tg.fit(both, np.ones(2), x, observed=tg.tree.map(lambda leaf, k=k: leaf[k], seen), sigma=np.broadcast_to(one, 3)[k], absolute_sigma=True)
            alike(fits, k, each)


def test_sigma_of_one_data_set_from_many_starts():
    sigma, line = np.array([1.0, 2.0, 3.0]), lambda p, x: p[0] + p[1] * x
    best = tg.multistart(line, np.ones((3, 2)), np.arange(3.0), observed=SEEN[0, :3], sigma=sigma, absolute_sigma=True)
    np.testing.assert_allclose(best.starts.stderr, np.broadcast_to(best.stderr, (3, 2)))


def test_data_of_each_and_residuals_in_containers():
    shifts = np.linspace(0.0, 1.0, COUNT)[:, None] + TIMES

    def residuals(p, t, y):
        return {"first": y[:20] - p[0] * np.exp(-p[1] * t[:20]), "rest": [y[20:] - p[0] * np.exp(-p[1] * t[20:])]}

    fits = tg.fit_many(residuals, np.ones((COUNT, 2)), shifts, SEEN)
    assert fits.params.shape == (COUNT, 2) and fits.names == ["p[0]", "p[1]"]
    alike(fits, 11, tg.fit(residuals, np.ones(2), shifts[11], SEEN[11]))


def test_models_that_branch_take_their_own_path():
    def broken(p, t):
        line = p[0] + p[1] * t
        return line if p[1] > 0.5 else line + 0.05 * p[1] ** 3 * t**2

    slopes = np.linspace(-1.0, 2.0, COUNT)
    seen = np.stack([broken((0.5, s), TIMES) for s in slopes]) + 0.01 * np.cos(np.arange(COUNT)[:, None] + 7.0 * TIMES)
    fits = tg.fit_many(broken, np.stack([np.full(COUNT, 0.4), slopes + 0.05], axis=1), TIMES, observed=seen, in_axes=None)
    for k in range(0, COUNT, 5):
        alike(fits, k, tg.fit(broken, [0.4, slopes[k] + 0.05], TIMES, observed=seen[k]), 1e-4)


def test_what_diverges_disturbs_nobody(monkeypatch):
    monkeypatch.setattr(many, "BATCH", 4)

    def model(p, t):
        return np.log(p[0]) * t + p[1]

    starts = np.array([[1.5, 1.0], [-1.0, 1.0], [2.0, 0.0]] * 3)
    seen = np.stack([2.0 * TIMES + 1.0 + 0.01 * np.sin(9.0 * TIMES + k) for k in range(9)])
    fits = tg.fit_many(model, starts, TIMES, observed=seen, in_axes=None)
    assert fits.status.tolist()[1::3] == [NOT_FINITE] * 3 and fits.success.tolist() == [True, False, True] * 3
    assert np.isnan(fits.errors[1]).all() and (fits.x[1] == starts[1]).all() and "not finite" in fits[1]["message"]
    np.testing.assert_allclose(fits.x[::3, 0], np.exp(2.0), rtol=1e-2)
    short = tg.fit_many(model, starts, TIMES, observed=seen, in_axes=None, max_iterations=1)
    assert (short.status[::3] == LIMIT).all() and "the limit of iterations was reached (fits 0, 2, 3," in str(short)
    # In which batch a fit stands changes nothing of it.
    monkeypatch.setattr(many, "BATCH", 9)
    again = tg.fit_many(model, starts, TIMES, observed=seen, in_axes=None)
    np.testing.assert_allclose(again.x, fits.x, rtol=1e-9)


def test_what_the_data_do_not_determine_has_no_error():
    fits = tg.fit_many(lambda p, t: p["a"] * p["b"] * np.exp(-p["rate"] * t), {"a": np.ones(3), "b": 1.0, "rate": 1.0}, TIMES, observed=SEEN[:3], in_axes=None)
    assert fits.success.all() and np.isnan(fits.stderr["a"]).all() and np.isnan(fits.stderr["b"]).all() and np.isfinite(fits.stderr["rate"]).all()
    one = tg.fit(lambda p, t: p["ab"] * np.exp(-p["rate"] * t), {"ab": 1.0, "rate": 1.0}, TIMES, observed=SEEN[2])
    assert fits.params["a"][2] * fits.params["b"][2] == pytest.approx(one.params["ab"], rel=1e-6)
    assert fits.stderr["rate"][2] == pytest.approx(one.stderr["rate"] * np.sqrt(38.0 / 37.0), rel=1e-5)
    assert fits.undetermined.all() and "\n3: converged, but the data do not determine a parameter" in str(fits) and "(fits 0, 1, 2)" in str(fits)


def test_fits_with_an_undetermined_parameter_are_marked():
    seen = SEEN[:4] - 0.3
    seen[2] = 0.0  # of a height of zero, any rate
    fits = tg.fit_many(lambda p, t: p["height"] * np.exp(-p["rate"] * t), {"height": 0.0, "rate": np.ones(4)}, TIMES, observed=seen, in_axes=None)
    assert fits.success.all() and fits.undetermined.tolist() == [False, False, True, False] and np.isnan(fits.stderr["rate"]).tolist() == fits.undetermined.tolist()
    assert "1: converged, but the data do not determine a parameter, whose stderr is NaN; fits.undetermined marks them (fits 2)" in str(fits)
    assert "not determine" not in str(tg.fit_many(decay, STARTS, TIMES, observed=SEEN, in_axes=None))


def test_an_observation_of_infinite_sigma_is_left_out():
    sigma = np.full((COUNT, len(TIMES)), 0.02)
    sigma[3, [5, 17, 30]] = np.inf
    fits, kept = tg.fit_many(decay, STARTS, TIMES, observed=SEEN, sigma=sigma, in_axes=None), np.isfinite(sigma[3])
    one = tg.fit(decay, {"height": 1.0, "rate": 1.0, "floor": 0.0}, TIMES[kept], observed=SEEN[3][kept], sigma=0.02)
    alike(fits, 3, one)
    assert fits.dof.tolist() == [34 if k == 3 else 37 for k in range(COUNT)] and one.dof == 34
    sigma[3, 2:] = np.inf
    with pytest.raises(OptimizationError, match="fit 3 has 2 observations for 3 free parameters"):
        tg.fit_many(decay, STARTS, TIMES, observed=SEEN, sigma=sigma, in_axes=None)


def test_the_model_runs_to_be_recorded_and_not_for_each_fit(capsys):
    def model(p, t):
        print("run")  # (What a model counts, it counts for each fit.)
        return p[0] * np.exp(-p[1] * t)

    tg.fit_many(model, np.ones((COUNT, 2)), TIMES, observed=SEEN, in_axes=None)
    assert 0 < capsys.readouterr().out.count("run") < COUNT
    tg.fit_many(model, np.full((COUNT, 2), 0.8), TIMES, observed=SEEN[::-1], in_axes=None)
    assert capsys.readouterr().out.count("run") <= 2


def test_many_starts_of_one_fit():
    x = np.linspace(0.0, 6.0, 50)
    seen = np.sin(2.5 * x) + 0.1 * np.cos(40.0 * x)
    best = tg.multistart(lambda p, x: np.sin(p["frequency"] * x), {"frequency": np.linspace(0.5, 5.0, 20)}, x, observed=seen, sigma=0.1, absolute_sigma=True)
    near = np.abs(best.starts.params["frequency"] - best.params["frequency"]) < 1e-6
    assert best.success and best.params["frequency"] == pytest.approx(2.5, abs=0.01)
    assert 0 < best.reached.sum() < 20 and (best.reached == near).all()
    assert best.cost <= np.nanmin(best.starts.cost) * (1.0 + 1e-9)


def test_bad_input_is_named():
    for match, call in {
        r"same length, one entry a fit, not starts\['rate'\]: 29, observed: 30": lambda: tg.fit_many(
            decay, {**STARTS, "rate": np.ones(29)}, TIMES, observed=SEEN, in_axes=None
        ),
        "data 0: 40, observed: 30; data that all fits share have None in in_axes=": lambda: tg.fit_many(decay, STARTS, TIMES, observed=SEEN),
        "in_axes=1": lambda: tg.fit_many(decay, STARTS, TIMES, observed=SEEN, in_axes=1),
        "floor of fit 3 starts at 5, outside of its bounds 0 to 1": lambda: tg.fit_many(
            decay, {**STARTS, "floor": np.where(np.arange(COUNT) == 3, 5.0, 0.5)}, TIMES, observed=SEEN, in_axes=None, bounds={"floor": (0.0, 1.0)}
        ),
        "observed of fit 4 has nan at place 2; give any number there, and sigma=np.inf": lambda: tg.fit_many(
            decay, STARTS, TIMES, observed=np.where(np.arange(COUNT * 40).reshape(COUNT, 40) == 162, np.nan, SEEN), in_axes=None
        ),
        "each fit has 2 observations for 3 free parameters": lambda: tg.fit_many(decay, STARTS, TIMES[:2], observed=SEEN[:, :2], in_axes=None),
        "sigma does not fit": lambda: tg.fit_many(decay, STARTS, TIMES, observed=SEEN, in_axes=None, sigma=np.ones((3, 3))),
        "not observed: 0": lambda: tg.fit_many(decay, {"height": 1.0, "rate": 1.0, "floor": 0.0}, TIMES, observed=1.0, in_axes=None),
    }.items():
        with pytest.raises(OptimizationError, match=match):
            call()

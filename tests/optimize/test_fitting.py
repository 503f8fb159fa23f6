"""`least_squares`, `root` and `curve_fit`: SciPy's answers, from exact Jacobians."""

import warnings

import numpy as np
import pytest
import scipy.optimize

import tapegrad as tg
from tapegrad.common.errors import NonFiniteError, OptimizationError, StructureError
from tests.transforms.replay.agreement import Log

T = np.linspace(0.0, 4.0, 50)
Y = 2.5 * np.exp(-1.3 * T) + 0.5 + 0.02 * np.random.default_rng(0).normal(size=50)


def decay(t, a, b, c):
    return a * np.exp(-b * t) + c


def residuals(x, t, y):
    return decay(t, *x) - y if not isinstance(x, tg.Tensor) else decay(t, x[0], x[1], x[2]) - y


@pytest.mark.parametrize(
    "given",
    [{}, {"method": "lm"}, {"method": "dogbox"}, {"loss": "soft_l1", "f_scale": 0.01}, {"bounds": (0, [2.0, np.inf, np.inf])}, {"x_scale": "jac"}],
    ids=str,
)
def test_least_squares_as_scipy_with_a_jacobian_by_hand(given):
    def by_hand(x, t, y):
        e = np.exp(-x[1] * t)
        return np.stack([e, -x[0] * t * e, np.ones_like(t)], axis=1)

    ours = tg.optimize.least_squares(residuals, [1.0, 1.0, 1.0], args=(T, Y), **given)
    theirs = scipy.optimize.least_squares(residuals, [1.0, 1.0, 1.0], jac=by_hand, args=(T, Y), **given)
    np.testing.assert_allclose(ours.x, theirs.x, rtol=1e-8)
    np.testing.assert_allclose(ours.jac, theirs.jac, rtol=1e-8, atol=1e-12)
    assert (ours.nfev, ours.njev, ours.status) == (theirs.nfev, theirs.njev, theirs.status)


def test_containers_of_parameters_and_of_residuals():
    def f(p, scale):
        return {"fit": p["a"] * np.exp(-p["b"][0] * T) + p["b"][1] - Y, "prior": scale * p["a"]}

    result = tg.optimize.least_squares(f, {"a": 1.0, "b": np.ones(2)}, args=(1e-6,))
    fitted = scipy.optimize.curve_fit(decay, T, Y)[0]
    np.testing.assert_allclose([result.x["a"], *result.x["b"]], fitted, rtol=1e-5)
    assert result.fun.shape == (51,) and result.jac.shape == (51, 3)
    lower, upper = {"a": 0.0, "b": None}, {"a": 2.0, "b": None}
    assert tg.optimize.least_squares(f, {"a": 1.0, "b": np.ones(2)}, args=(1e-6,), bounds=(lower, upper)).x["a"] == pytest.approx(2.0)


def test_keyword_arguments_and_a_jacobian_of_the_users():
    f = lambda x, a, *, power: x**power - a  # noqa: E731
    result = tg.optimize.least_squares(f, [1.0, 1.0], args=(np.array([4.0, 9.0]),), kwargs={"power": 2})
    np.testing.assert_allclose(result.x, [2.0, 3.0])
    result = tg.optimize.least_squares(lambda x: x**2 - 4.0, [1.0], jac=lambda x: np.diag(2 * x))
    np.testing.assert_allclose(result.x, 2.0)


def test_a_model_that_is_a_loop_is_recorded_and_not_run():
    calls = Log()

    def oscillator(x):
        calls.append(1)
        position, velocity, found = 1.0, 0.0, []
        for _k in range(100):
            velocity = velocity - 0.05 * (x[0] * position + x[1] * velocity)
            position = position + 0.05 * velocity
            found.append(position)
        return np.stack(found)

    data = oscillator(np.array([1.3, 0.2]))
    calls.clear()
    result = tg.optimize.least_squares(lambda x: oscillator(x) - data, [1.0, 0.1])
    np.testing.assert_allclose(result.x, [1.3, 0.2], rtol=1e-6)
    assert result.counts["records"] == 1 and len(calls) <= 5


@pytest.mark.parametrize("method", ["hybr", "lm", "krylov", "broyden1"])
def test_root(method):
    f = lambda x, c: [x[0] + 0.5 * (x[0] - x[1]) ** 3 - c, 0.5 * (x[1] - x[0]) ** 3 + x[1]]  # noqa: E731
    result = tg.optimize.root(f, [0.7, 0.3], args=(1.0,), method=method)
    assert result.success
    np.testing.assert_allclose(result.x, [0.8411639, 0.1588361], atol=1e-5)


def test_root_in_containers_needs_fewer_evaluations_than_by_differences():
    f = lambda p: {"a": np.sin(p["v"]) - 0.5 * p["s"], "b": p["s"] ** 2 - np.sum(p["v"])}  # noqa: E731
    result = tg.optimize.root(f, {"v": np.array([0.4, 0.6]), "s": 1.0})
    assert result.success and type(result.x["s"]) is float
    np.testing.assert_allclose(np.sin(result.x["v"]), 0.5 * result.x["s"], atol=1e-8)
    differences = scipy.optimize.root(
        lambda x: np.append(np.sin(x[:2]) - 0.5 * x[2], x[2] ** 2 - x[0] - x[1]), [0.4, 0.6, 1.0]
    )
    assert result.nfev < differences.nfev


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"p0": [1.0, 2.0, 0.0]},
        {"sigma": np.linspace(0.01, 0.03, 50)},
        {"sigma": np.full(50, 0.02), "absolute_sigma": True},
        {"sigma": 4e-4 * (np.eye(50) + 0.1), "absolute_sigma": True},
        {"bounds": (0, [3.0, 2.0, 1.0])},
        {"bounds": scipy.optimize.Bounds([0, 0, 0], [np.inf, np.inf, 0.4])},
        {"method": "dogbox"},
        {"p0": [1.0, 1.0, 1.0], "method": "trf", "loss": "soft_l1"},
    ],
    ids=lambda given: "-".join(given) or "plain",
)
def test_curve_fit_as_scipy(given):
    popt, pcov = tg.optimize.curve_fit(decay, T, Y, **given)
    expected, covariance = scipy.optimize.curve_fit(decay, T, Y, **given)
    np.testing.assert_allclose(popt, expected, rtol=1e-5)
    np.testing.assert_allclose(pcov, covariance, rtol=1e-3, atol=1e-12)


def test_curve_fit_in_other_forms():
    assert len(tg.optimize.curve_fit(decay, T, Y, full_output=True)) == 5
    popt, _ = tg.optimize.curve_fit(lambda t, *p: p[0] * np.exp(-p[1] * t) + p[2], T, Y, p0=[1, 1, 1])
    np.testing.assert_allclose(popt, tg.optimize.curve_fit(decay, list(T), list(Y))[0], rtol=1e-6)
    holes = Y.copy()
    holes[3] = np.nan
    popt, _ = tg.optimize.curve_fit(decay, T, holes, nan_policy="omit", check_finite=False)
    np.testing.assert_allclose(popt, scipy.optimize.curve_fit(decay, np.delete(T, 3), np.delete(Y, 3))[0], rtol=1e-5)
    plane = np.stack([T, T**2])
    popt, _ = tg.optimize.curve_fit(lambda xy, a, b: a * xy[0] + b * xy[1], plane, 2 * T - 3 * T**2)
    np.testing.assert_allclose(popt, [2.0, -3.0])
    with pytest.raises(RuntimeError, match="Optimal parameters not found"):
        tg.optimize.curve_fit(decay, T, Y, maxfev=1)


def test_refused():
    with pytest.raises(OptimizationError, match="1 equations for 2 unknowns"):
        tg.optimize.root(lambda x: x[:1], [1.0, 2.0])
    with pytest.raises(OptimizationError, match="finite differences are not needed"):
        tg.optimize.least_squares(residuals, [1.0] * 3, args=(T, Y), jac="2-point")
    with pytest.raises(OptimizationError, match="the lower one, 3.0, is above"):
        tg.optimize.least_squares(residuals, [1.0] * 3, args=(T, Y), bounds=(3, 2))
    with pytest.raises(StructureError, match="how many parameters it has; give p0"):
        tg.optimize.curve_fit(lambda t, *p: p[0] * t, T, Y)
    with pytest.raises(StructureError, match="the model must be a function"):
        tg.optimize.curve_fit("decay", T, Y)
    with pytest.raises(StructureError, match="the residuals must be a function"):
        tg.optimize.least_squares(None, [1.0])


def test_numbers_that_are_none_are_named():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(NonFiniteError, match=r"number 1 of the residuals is -inf: log at .*test_fitting.py"):
            tg.optimize.least_squares(lambda x: np.log(x), [1.0, 0.0])
        with pytest.raises(NonFiniteError, match=r"derivative of number 1 of the residuals by x\[1\] is not finite: the derivative of sqrt"):
            tg.optimize.least_squares(lambda x: np.sqrt(x), [1.0, 0.0])
        with pytest.raises(NonFiniteError, match="number 0 of the model's values is inf"):
            tg.optimize.curve_fit(lambda t, a: a / t, np.array([0.0, 1.0]), np.ones(2))

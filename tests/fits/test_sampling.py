"""`tg.sample`: bounds and their Jacobians, what nutpie is handed, and posteriors whose moments are known."""

import ctypes
import importlib.util

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.codegen.compile import plain_address
from tapegrad.errors import MissingPackageError, NonScalarOutputError, OptimizationError
from tapegrad.fits import nuts
from tapegrad.fits.parameters import Parameters

needs_nutpie = pytest.mark.skipif(importlib.util.find_spec("nutpie") is None, reason="nutpie is not installed")
BOUNDS = {"low": (1.0, None), "high": (None, 2.0), "both[0]": (-1.0, 3.0), "both[1]": (0.0, 1.0)}
START = {"free": 0.5, "low": 1.5, "high": -3.0, "both": np.array([0.2, 0.7])}


def test_numbers_without_bounds_go_back_to_where_they_came_from():
    parameters = Parameters(START, BOUNDS)
    z = parameters.unbounded()
    assert np.isfinite(z).all()
    assert np.allclose(np.asarray(parameters.bounded(z)[0]), parameters.start, rtol=1e-14)


def test_the_jacobian_of_a_transform_is_that_of_differences():
    parameters = Parameters(START, BOUNDS)
    z = parameters.unbounded() + 0.3
    columns = [(np.asarray(parameters.bounded(z + h)[0]) - np.asarray(parameters.bounded(z - h)[0])) / 2e-6 for h in 1e-6 * np.eye(len(z))]
    assert float(parameters.bounded(z)[1]) == pytest.approx(np.log(abs(np.linalg.det(columns))), rel=1e-8)
    tg.check(lambda z: parameters.bounded(z)[1], z)
    tg.check(lambda z: parameters.bounded(z)[0], z)


def test_far_away_nothing_overflows_that_should_not():
    parameters = Parameters(START, BOUNDS)
    x, log_scale = map(np.asarray, parameters.bounded(np.array([800.0, -800.0, -800.0, 800.0, -800.0])))
    assert np.isfinite(x).all() and np.isfinite(log_scale)


def test_fixed_and_tied_numbers_are_no_coordinates():
    parameters = Parameters({"a": 1.0, "b": 2.0, "c": 3.0}, {"a": (0.0, None)}, fixed=["b"], ties={"c": lambda p: p["a"] + p["b"]})
    assert len(parameters.unbounded()) == 1
    assert np.allclose(np.asarray(parameters.bounded(np.array([np.log(5.0)]))[0]), [5.0, 2.0, 7.0])


# ---- what nutpie is handed ----------------------------------------------------------------------------


def handed(density, size, code=True):
    answer = tg.jit(tg.value_and_grad(density))
    return nuts.Target(size, answer, tg.compile(density, np.zeros(size)) if code else None, lambda y: [y], None, ["p"], [(size,)])


def called(target, y, size=None):
    """Status, value and gradient as nutpie gets them: by address."""
    gradient, value = np.full(len(y), 7.0), np.full(1, 7.0)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 5)(plain_address(nuts._density))
    status = function(size or len(y), y.ctypes.data, gradient.ctypes.data, value.ctypes.data, target._words.ctypes.data)
    return status, value[0], gradient


def branched(y):
    return -y[0] ** 2 if y[0] < 1.0 else -3.0 * y[0] + 2.0


@pytest.mark.parametrize("code", [True, False])
def test_value_and_gradient_by_address(code):
    target = handed(lambda y: -0.5 * np.sum(y * y), 3, code)
    y = np.array([0.1, -0.2, 0.3])
    status, value, gradient = called(target, y)
    assert status == nuts.GOOD and value == pytest.approx(-0.07) and np.allclose(gradient, -y)
    assert target.asked == (not code)


def test_another_path_is_asked_of_python():
    target = handed(branched, 1)
    assert called(target, np.array([0.5])) == (nuts.GOOD, -0.25, [-1.0]) and target.asked == 0
    assert called(target, np.array([2.0])) == (nuts.GOOD, -4.0, [-3.0]) and target.asked == 1


def test_what_is_not_finite_is_a_divergence():
    target = handed(lambda y: np.log(y[0] + 1.0), 1)
    assert called(target, np.array([-1.0]))[0] == nuts.DIVERGED
    assert target.error is None


def test_an_exception_ends_the_run_and_is_kept():
    def density(y):
        if y[0] > 1.0:
            raise KeyError("no such thing")
        return -y[0] ** 2

    target = handed(density, 1)
    assert called(target, np.array([2.0]))[0] == nuts.DIVERGED
    assert isinstance(target.error, KeyError)
    # From then on nothing is computed.
    assert called(target, np.array([0.5]))[0] == nuts.DIVERGED


def test_a_matrix_that_numpy_refuses_is_a_divergence():
    target = handed(lambda y: -np.sum(np.linalg.cholesky(np.eye(2) + y[0] * np.ones((2, 2)))), 1)
    assert called(target, np.array([-5.0]))[0] == nuts.DIVERGED
    assert target.error is None


def test_a_vector_of_another_length_is_refused():
    assert called(handed(lambda y: -np.sum(y * y), 2), np.zeros(2), 3)[0] == nuts.FATAL


# ---- posteriors ---------------------------------------------------------------------------------------


def moments(values):
    """Mean, standard deviation, and the Monte Carlo error of the mean, by ArviZ."""
    arviz = pytest.importorskip("arviz")
    return float(values.mean()), float(values.std()), float(arviz.mcse(values)[values.name])


@needs_nutpie
@pytest.mark.filterwarnings("ignore")
def test_bounded_parameters_have_the_moments_of_their_distributions():
    def logp(p):
        # Gamma(3, 2), Beta(2, 5), minus an exponential of mean 4, normal.
        return (
            2.0 * np.log(p["gamma"]) - 2.0 * p["gamma"] + np.log(p["beta"]) + 4.0 * np.log(1.0 - p["beta"]) + p["minus"] / 4.0
            - 0.5 * np.sum(((p["normal"] - np.array([1.0, -2.0])) / np.array([0.1, 10.0])) ** 2)
        )  # fmt: skip

    start = {"gamma": 1.0, "beta": 0.5, "minus": -1.0, "normal": np.zeros(2)}
    bounds = {"gamma": (0.0, None), "beta": (0.0, 1.0), "minus": (None, 0.0)}
    idata = tg.sample(logp, start, bounds=bounds, draws=1500, seed=3, progress=False)
    assert idata.posterior["normal"].shape == (4, 1500, 2)
    known = {"gamma": (1.5, 0.75**0.5), "beta": (2 / 7, (10 / 392) ** 0.5), "minus": (-4.0, 4.0)}
    for name, (mean, sd) in known.items():
        found = moments(idata.posterior[name])
        assert abs(found[0] - mean) < 4.0 * found[2] and found[1] == pytest.approx(sd, rel=0.1)
    for k, (mean, sd) in enumerate([(1.0, 0.1), (-2.0, 10.0)]):
        found = moments(idata.posterior["normal"][..., k].rename("x"))
        assert abs(found[0] - mean) < 4.0 * found[2] and found[1] == pytest.approx(sd, rel=0.1)


@needs_nutpie
@pytest.mark.filterwarnings("ignore")
def test_both_ways_to_call_draw_the_same(monkeypatch):
    def drawn():
        # Laplace: another path at each side of zero.
        return tg.sample(lambda p: -p if p > 0.0 else p, 0.5, draws=500, seed=4, chains=2, cores=1, progress=False)

    by_address = drawn()
    assert by_address.posterior.attrs["asked_python"] > 0 and by_address.posterior.attrs["seed"] == 4
    assert int(by_address.sample_stats["diverging"].sum()) == 0
    assert float(by_address.posterior["p"].std()) == pytest.approx(2**0.5, rel=0.15)
    monkeypatch.setattr(nuts, "TRIED", ((0, 0), (0, 0)))
    assert np.allclose(by_address.posterior["p"], drawn().posterior["p"], rtol=1e-6)


@needs_nutpie
@pytest.mark.filterwarnings("ignore:\nArviZ", "ignore::FutureWarning")
def test_draws_that_diverge_are_named():
    def funnel(p):
        return -0.5 * (p["v"] / 3.0) ** 2 - 0.5 * np.sum(p["x"] ** 2) * np.exp(-p["v"]) - 4.5 * p["v"]

    with pytest.warns(RuntimeWarning, match="draws diverged, most where .* is (small|large)"):
        tg.sample(funnel, {"v": 0.0, "x": np.zeros(9)}, draws=500, seed=5, progress=False)


@needs_nutpie
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("version", ["tried", "another"])
def test_an_exception_of_the_density_is_raised(version, monkeypatch):
    if version == "another":
        monkeypatch.setattr(nuts, "TRIED", ((0, 0), (0, 0)))
    count = 0

    def logp(p):
        nonlocal count
        count += 1
        if p > 1.0:
            raise KeyError("mine")
        return -0.5 * p * p

    with pytest.raises(KeyError, match="mine"):
        tg.sample(logp, 0.0, seed=6, draws=300, progress=False)


@needs_nutpie
@pytest.mark.parametrize(
    ("logp", "start", "options", "error", "message"),
    [
        (lambda p: np.log(p["a"]), {"a": -1.0}, {}, OptimizationError, "nan at the start, a = -1"),
        (lambda p: -p["a"], {"a": 0.0}, {"bounds": {"a": (0.0, None)}}, OptimizationError, "a starts at its bound, 0"),
        (lambda p: -p["a"], {"a": -1.0}, {"bounds": {"a": (0.0, None)}}, OptimizationError, "outside of its bounds"),
        (lambda p: -p["a"], {"a": 1.0}, {"bounds": {"b": (0.0, None)}}, OptimizationError, "no parameter 'b'"),
        (lambda p: -p["a"], {"a": 1.0}, {"fixed": ["a"]}, OptimizationError, "no parameter is free"),
        (lambda p: -p["a"], {"a": np.ones(3)}, {}, NonScalarOutputError, r"shape \(3,\)"),
        (lambda p: -p["a"] ** 2, {"a": 1.0}, {"draws": 0}, OptimizationError, "draws=0"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_is_refused(logp, start, options, error, message):
    with pytest.raises(error, match=message):
        tg.sample(logp, start, progress=False, **options)


def test_without_nutpie_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"tapegrad\[sample\]"):
        tg.sample(lambda p: -p * p, 0.0)

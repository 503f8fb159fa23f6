"""What optimisers return: SciPy's result with counts, times and a picture."""

import builtins
import pickle

import numpy as np
import pytest
import scipy.optimize

import tapegrad as tg
from tapegrad.common.errors import MissingPackageError, OptimizationError
from tests.optimize.problems import rosenbrock

START = np.array([1.5, 0.5, 0.2])


@pytest.mark.parametrize("method", ["lbfgs", "adam", "BFGS"])
def test_it_is_scipys_with_counts_and_times(method):
    result = tg.optimize.minimize(rosenbrock, START, method=method)
    assert isinstance(result, scipy.optimize.OptimizeResult)
    for name in ("x", "fun", "jac", "nit", "nfev", "njev", "success", "status", "message"):
        assert name in result
    assert set(result.counts) >= {"evaluations", "records", "replays"}
    assert 0.0 <= result.seconds["recording"] <= result.seconds["total"]
    assert result.history.shape[1] == 2 and result.history[0, 0] == pytest.approx(rosenbrock(START))
    assert "message" in repr(result)


def test_it_can_be_pickled_and_resumed():
    result = pickle.loads(pickle.dumps(tg.optimize.lbfgs(rosenbrock, START, max_iter=5)))
    assert tg.optimize.lbfgs(rosenbrock, result.state).success
    assert "lbfgs, iterations=5" in repr(result.state)


@pytest.mark.parametrize("method", ["lbfgs", "BFGS"])
def test_the_picture(method, tmp_path):
    pytest.importorskip("matplotlib")
    result = tg.optimize.minimize(rosenbrock, START, method=method)
    figure = result.plot(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000
    drawn = figure.axes[1].lines[0].get_ydata()
    np.testing.assert_array_equal(drawn, result.history[:, 1])
    assert figure.axes[0].get_yscale() == "log"
    assert figure.axes[0].get_xlabel() == ("iteration" if method == "lbfgs" else "evaluation")


def test_the_picture_of_a_fit():
    pytest.importorskip("matplotlib")
    result = tg.optimize.least_squares(lambda x: [10.0 * (x[1] - x[0] ** 2), 1.0 - x[0]], [-1.2, 1.0])
    assert len(result.history) == result.njev and result.history[-1, 0] == pytest.approx(result.cost)
    assert result.plot().axes[0].get_xlabel() == "Jacobian"
    with pytest.raises(OptimizationError, match="nothing to draw"):
        tg.optimize.root(lambda x: x - 1.0, [0.0], method="krylov").plot()


def test_without_matplotlib(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingPackageError, match=r'pip install "tapegrad\[plot\]"'):
        tg.optimize.lbfgs(rosenbrock, START).plot()


@pytest.mark.parametrize("method", ["lbfgs", "adam", "BFGS", "SLSQP", "trust-ncg", "trust-exact"])
def test_float32_stays_float32(method):
    seen = set()

    def f(p):
        seen.add(getattr(p["w"], "dtype", None))
        return np.sum((p["w"] - np.arange(3, dtype=np.float32)) ** 2) + (p["b"] - 2.0) ** 2

    options = {"learning_rate": 0.05, "max_iter": 2000} if method == "adam" else {}
    result = tg.optimize.minimize(f, {"w": np.ones(3, np.float32), "b": 1.0}, method=method, tol=1e-3, options=options)
    assert seen == {np.dtype(np.float32)} and result.x["w"].dtype == result.jac["w"].dtype == np.float32
    np.testing.assert_allclose(result.x["w"], np.arange(3), atol=2e-3)
    assert result.success and result.x["b"] == pytest.approx(2.0, abs=2e-3)


def test_float32_residuals():
    t = np.linspace(0.0, 2.0, 20, dtype=np.float32)
    y = 2.0 * np.exp(-t) + np.float32(0.5)
    result = tg.optimize.least_squares(lambda p: p[0] * np.exp(-p[1] * t) + p[2] - y, np.ones(3, np.float32))
    assert result.x.dtype == np.float32
    np.testing.assert_allclose(result.x, [2.0, 1.0, 0.5], rtol=1e-3)
    solution = tg.optimize.root(lambda x: x * x - np.float32(2.0), np.ones(2, np.float32))
    assert solution.x.dtype == np.float32
    np.testing.assert_allclose(solution.x, np.sqrt(2.0), rtol=1e-6)

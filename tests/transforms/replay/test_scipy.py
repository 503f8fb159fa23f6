"""The mirrors of SciPy, recorded at one point and replayed at others."""

import importlib

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.scipy.integrate as integrate
import tapegrad.scipy.interpolate as interpolate
from tapegrad.scipy import special
from tests.scipy import test_integrate, test_linalg
from tests.transforms.replay.agreement import Pair, quiet

CASES = [("scipy.integrate", *case) for case in test_integrate.CASES] + [("scipy.linalg", *case) for case in test_linalg.CASES]
#: One case of each function, which becomes a kernel; the others are replayed step by step.
LAST = {name: k for k, (_, name, *_) in enumerate(CASES)}


def parts(thing):
    if isinstance(thing, (tuple, list)):
        return [p for part in thing for p in parts(part)]
    return [thing] if isinstance(thing, (tg.Tensor, np.ndarray, float)) else []


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{c[1]}-{k}" for k, c in enumerate(CASES)])
def test_mirror(number):
    module, name, call, arrays = CASES[number]
    ours = importlib.import_module(f"tapegrad.{module}")

    def function(*values):
        found = parts(call(ours, *values))
        return sum(np.sum(p * np.random.default_rng(k).standard_normal(np.shape(p))) for k, p in enumerate(found))

    rng = np.random.default_rng(0)
    arrays = [a if isinstance(a, float) else np.ascontiguousarray(a, float) for a in arrays]
    pair = Pair(function, len(arrays), kernel=None if number == LAST[name] else "never")
    with quiet():
        for k in range(4):
            near = [a * (1 + 0.02 * (k > 1) * rng.standard_normal(np.shape(a))) for a in arrays]
            pair.check(*[float(a) if np.ndim(a) == 0 else a for a in near], rtol=1e-8, atol=1e-9)


@pytest.mark.long
def test_solve_ivp_with_steps_of_its_own_choice():
    def function(p):
        found = integrate.solve_ivp(test_integrate.lotka, (0.0, 3.0), p[:2], args=(p[2], p[3]), rtol=1e-4, atol=1e-6)
        return np.sum(found.y[:, -1])

    rng = np.random.default_rng(0)
    pair = Pair(function)
    with quiet():
        for _ in range(15):
            pair.check(np.array([1.0, 0.7, 1.1, 0.5]) * rng.uniform(0.8, 1.2, 4), rtol=1e-9)
    assert pair.calls == pair.stats.records + pair.stats.runs


def test_splines_whose_points_change_pieces():
    def function(y, t):
        x = np.arange(6.0)
        return np.sum(interpolate.CubicSpline(x, y)(t) * np.arange(1.0, 5.0))

    rng = np.random.default_rng(0)
    pair = Pair(function, 2)
    with quiet():
        for _ in range(60):
            pair.check(rng.standard_normal(6), rng.uniform(-1, 6, 4), rtol=1e-9)


def test_logsumexp_with_infinities_and_signs():
    def function(a):
        found, sign = special.logsumexp(a, b=np.array([1.0, -2.0, 1.0]), return_sign=True)
        return found * sign

    rng = np.random.default_rng(0)
    pair = Pair(function)
    for _ in range(40):
        pair.check(10 * rng.standard_normal(3), rtol=1e-9)

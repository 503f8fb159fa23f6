"""Functions of ``@numba.vectorize`` inside functions that are differentiated."""

import math
import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import UnsupportedInNumbaError

X = np.array([0.4, -0.8, 1.2, 0.1, -0.3, 0.7])


@numba.vectorize
def bent(a, b):
    if a > b:
        return a * 0.5 + math.sin(b)
    return math.tanh(a * b)


@numba.vectorize
def powered(a, n):
    total = 1.0
    for _ in range(n):
        total *= a
    return total


@numba.vectorize(["float64(float64, float64)"])
def ratio(a, b):
    return a * b / (1.0 + a * a)


def numbers(x):
    return bent(x[0], x[1]) * ratio(x[2], 2.0) + powered(x[3], 3)


def arrays(x):
    pairs = x.reshape(2, 3)
    total = np.sum(bent(pairs, x[:3]) ** 2) + np.sum(bent(x.reshape(6, 1), x[3:5])) + bent(x, 0.3)[2]
    return total + np.sum(powered(x, 3) * powered(x, np.arange(1, 7))) + np.sum(ratio(x, np.ones(6)) * ratio(np.ones(6), np.ones(6)))


def along(f, x, v, step=1e-6):
    return (f(x + step * v) - f(x - step * v)) / (2.0 * step)


@pytest.mark.parametrize("f", [numbers, pytest.param(arrays, marks=pytest.mark.long)])
def test_gradients(f):
    expected = [along(f, X, v) for v in np.eye(6)]
    for mode in ("reverse", "forward"):
        np.testing.assert_allclose(tg.njit_grad(f, mode=mode)(X), expected, rtol=1e-7, atol=1e-8)


@pytest.mark.long
def test_second_derivatives():
    gradient = tg.njit_grad(arrays, mode="reverse")
    np.testing.assert_allclose(tg.njit_hessian(arrays)(X), [along(gradient, X, v) for v in np.eye(6)], rtol=1e-6, atol=1e-7)


def test_no_operand_is_differentiated():
    f = lambda x: x[0] * bent(0.5, 0.25)
    for mode in ("reverse", "forward"):
        assert tg.njit_grad(f, mode=mode)(X[:2]).tolist() == [f(np.ones(1)), 0.0]


def test_divisions_are_those_of_numpy():
    inverse = numba.vectorize(lambda a: 1.0 / a)
    for mode in ("reverse", "forward"):
        value, slope = tg.njit_value_and_grad(lambda a: inverse(a), mode=mode)(0.0)
        assert value == math.inf and slope == -math.inf


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_what_is_refused(mode):
    with pytest.raises(UnsupportedInNumbaError, match="loop of ratio for float64, float64 converts what it is given, float64, int64"):
        tg.njit_grad(lambda x: ratio(x[0], 2), mode=mode)(X)
    with pytest.raises((UnsupportedInNumbaError, ValueError), match="broadcast"):
        tg.njit_grad(lambda x: np.sum(ratio(x[:2], x[:3])), mode=mode)(X)


def test_an_array_for_the_result_is_refused():
    def f(x):
        out = np.empty(6)
        ratio(x, x, out)
        return np.sum(out)

    with pytest.raises(UnsupportedInNumbaError, match="array for its result"):
        tg.njit_grad(f, mode="reverse")(X)


@pytest.mark.long
def test_in_nopython_code_and_from_the_cache_of_numba(tmp_path):
    module = tmp_path / "user.py"
    module.write_text(
        "import math, numba, numpy as np, tapegrad as tg\n"
        "@numba.vectorize\ndef bent(a, b):\n    return a * 0.5 if a > b else math.sin(a * b)\n"
        "def f(x):\n    return np.sum(bent(x, 0.3)) * bent(x[0], x[1])\n"
        "reverse, forward = tg.njit_grad(f, mode='reverse'), tg.njit_grad(f, mode='forward')\n"
        "@numba.njit(cache=True)\ndef difference(x):\n    return np.max(np.abs(reverse(x) - forward(x)))\n"
        "if __name__ == '__main__':\n"
        "    print(difference(np.array([0.5, 0.1, 0.7])))\n    print(sum(difference.stats.cache_hits.values()))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [subprocess.run([sys.executable, str(module)], capture_output=True, text=True, env=environment, check=True).stdout.split() for _ in range(2)]
    assert runs[0][0] == runs[1][0] and float(runs[0][0]) < 1e-14 and [run[1] for run in runs] == ["0", "1"]

"""Second derivatives of compiled functions: dual numbers in both sweeps, against differences of gradients and closed forms."""

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import UnsupportedInNumbaError

from . import programs
from .checked import checked
from .test_refused import listed

numba = pytest.importorskip("numba")
AT, ALONG = programs.AT, np.linspace(-1.0, 1.3, 8)


def table(x):
    xp, fp = np.array([-1.0, 0.0, 0.5 + 0.1 * x[6], 2.0]), np.array([x[0], x[1], x[2] * x[3], x[4]])
    k = np.searchsorted(xp, x[5])
    plain = -2.0 * np.ones(3)
    plain[1] += x[2]
    square = x[:4].reshape(2, 2)
    turned = np.full_like(square.T, x[1]).T.reshape(4)[0] * (np.zeros_like(square.T) + square)
    return np.interp(x[5], xp, fp) + x[k] * x[5] + np.sum(np.roll(x, 1)[:3] * np.diff(np.linspace(x[0], x[1] * x[2], 4))) + turned[1, 0] * np.sum(plain * plain)


def matrices(x):
    a = np.outer(x[:2], x[:2]) + np.diag(x[2:4] + 3.0)
    low = np.linalg.cholesky(a)
    return np.linalg.solve(low, x[4:6])[1] + np.linalg.det(a) * np.trace(np.linalg.inv(a.T) @ low)


def a_constant_for_two(x):
    """0.5 is where what is differentiated begins, and what a constant array is filled with."""
    w, b = np.ones(8), 0.5
    for k in range(8):
        b = math.tanh(b * x[1] * w[k - 1])
        w[k] = 0.5
    return b


#: (of linear algebra the same is in `matrices`, which compiles faster)
PROGRAMS = [*[f for f in programs.PROGRAMS if f is not programs.algebra], table, matrices, a_constant_for_two]
QUICK = (programs.whiles, programs.helpers, a_constant_for_two)


@pytest.mark.parametrize("f", [pytest.param(f, marks=() if f in QUICK else pytest.mark.long, id=f.__name__) for f in PROGRAMS])
def test_products_agree_with_differences_of_gradients(f):
    gradient, h = tg.njit_grad(f, mode="reverse"), 1e-6
    with checked():
        product = tg.njit_hvp(f)
        found = product(AT, ALONG)
    assert np.allclose(found, (gradient(AT + h * ALONG) - gradient(AT - h * ALONG)) / (2.0 * h), rtol=2e-6, atol=2e-7)
    assert next(iter(product.modes().values()))["mode"] == "forward over reverse"


def test_what_has_no_dual_numbers_is_refused():
    with pytest.raises(UnsupportedInNumbaError, match="digamma"):
        tg.njit_hvp(lambda x: math.lgamma(x))(2.0, 1.0)
    with pytest.raises(UnsupportedInNumbaError, match="list"):
        tg.njit_hvp(listed)(AT, ALONG)


@pytest.mark.parametrize("f", [table, pytest.param(matrices, marks=pytest.mark.long)], ids=lambda f: f.__name__)
def test_arrays_of_dual_numbers_in_forward_mode(f):
    gradient = tg.njit_grad(f, mode="forward", lanes=4)(AT)
    assert np.allclose(gradient, programs.differences(f, AT), rtol=2e-7, atol=2e-8)


def rosenbrock(x):
    s = 0.0
    for i in range(len(x) - 1):
        s += 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
    return s


def hessian_of_rosenbrock(x):
    h = np.zeros((x.size, x.size))
    for i in range(x.size - 1):
        h[i, i] += 1200.0 * x[i] ** 2 - 400.0 * x[i + 1] + 2.0
        h[i + 1, i + 1] += 200.0
        h[i, i + 1] = h[i + 1, i] = -400.0 * x[i]
    return h


def test_hessians():
    x = np.linspace(-1.0, 1.5, 19)  # three passes of eight columns
    found = tg.njit_hessian(rosenbrock)(x)
    assert np.allclose(found, hessian_of_rosenbrock(x), rtol=1e-13, atol=1e-12) and np.array_equal(found, found.T)
    assert np.array_equal(tg.njit_hessian(rosenbrock, lanes=1)(x[:3]), found[:3, :3] - np.diag([0.0, 0.0, found[2, 2] - 200.0]))
    assert tg.njit_hessian(rosenbrock)(np.zeros(0)).shape == (0, 0)
    by_columns = np.asfortranarray(np.arange(1.0, 7.0).reshape(2, 3))
    cubes = tg.njit_hessian(lambda k, a: k * np.sum(a * a * a), 1)(0.5, by_columns)
    assert cubes.shape == (2, 3, 2, 3) and np.array_equal(cubes.reshape(6, 6), np.diag(3.0 * by_columns.ravel()))
    assert tg.njit_hessian(lambda a, b: a**3 * b)(2.0, 5.0) == 60.0
    assert tg.njit_hessian(lambda x: np.sum(x))(x[:2]).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_products_of_several_arguments_and_at_kinks():
    product = tg.njit_hvp(lambda a, x, n: a * a * np.sum(x**n), (0, 1))
    da, dx = product(2.0, AT, 3, 1.0, ALONG)
    assert np.allclose(da, 2.0 * np.sum(AT**3) + 12.0 * np.sum(AT**2 * ALONG), rtol=1e-14)
    assert np.allclose(dx, 12.0 * AT**2 + 24.0 * AT * ALONG, rtol=1e-14)
    assert tg.njit_hvp(lambda x: math.sqrt(x) if x > 0.0 else x * x)(0.0, 1.0) == 2.0
    assert tg.njit_hvp(lambda x: 5.0 * abs(x) + tg.softplus(x))(0.0, 1.0) == 0.25
    assert tg.njit_hvp(lambda x: x * math.sqrt(x * x) if x != 0.0 else x * x * x)(-2.0, 1.0) == -2.0
    at_limits = tg.njit_hvp(lambda x, low, high: np.sum(np.clip(x, low, high) ** 3))
    assert at_limits(np.array([0.5, 1.0, 1.5, 2.0, 3.0]), 1.0, 2.0, np.ones(5)).tolist() == [0.0, 6.0, 9.0, 12.0, 0.0]
    with pytest.raises(ZeroDivisionError):
        tg.njit_hvp(lambda x: 1.0 / x)(0.0, 1.0)
    with pytest.raises(ValueError, match="shape"):
        tg.njit_hvp(rosenbrock)(AT, ALONG[:3])
    with pytest.raises(UnsupportedInNumbaError, match="argument 0 is"):
        tg.njit_hvp(lambda p: p[0] * p[1])((1.0, 2.0), (1.0, 0.0))


@pytest.mark.long
def test_in_nopython_code_and_from_the_cache_of_numba(tmp_path):
    module = tmp_path / "user.py"
    module.write_text(
        "import numba, numpy as np, tapegrad as tg\n"
        "@numba.njit\ndef again(x, k):\n    return x[0] if k == 0 else again(x, k - 1) * x[k]\n"
        "def f(x):\n    s, t = 0.0, np.zeros(3)\n    while s < 2.0:\n        t += x * x\n        s += t[0] * again(x, 2)\n    return s\n"
        "product, hessian = tg.njit_hvp(f), tg.njit_hessian(f)\n"
        "@numba.njit(cache=True)\ndef difference(x, v):\n    return np.max(np.abs(product(x, v) - hessian(x) @ v)) / np.max(np.abs(product(x, v)))\n"
        "if __name__ == '__main__':\n"
        "    x = np.array([0.5, 0.6, 0.7])\n    print(difference(x, x))\n    print(sum(difference.stats.cache_hits.values()))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [subprocess.run([sys.executable, str(module)], capture_output=True, text=True, env=environment, check=True).stdout.split() for _ in range(2)]
    assert runs[0][0] == runs[1][0] and float(runs[0][0]) < 1e-14 and [run[1] for run in runs] == ["0", "1"]


@pytest.mark.long
def test_an_argument_that_is_stored_into_is_the_same_in_each_run():
    def f(x, y):
        y *= 2.0
        return np.sum(x * x * y)

    def rows(x, y):
        y *= 2.0
        return x * x * y

    x, y = np.arange(1.0, 21.0), np.ones(20)
    np.testing.assert_allclose(tg.njit_hessian(f)(x, y), 4.0 * np.eye(20))
    np.testing.assert_allclose(tg.njit_jacobian(rows, mode="reverse")(x, y), np.diag(4.0 * x))
    np.testing.assert_array_equal(y, np.ones(20))

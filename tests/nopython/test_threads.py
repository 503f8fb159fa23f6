"""`prange` in reverse mode: on threads where turns are independent, else on one thread, which `.modes()` says."""

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tapegrad as tg

numba = pytest.importorskip("numba")
X, P = np.linspace(0.1, 1.3, 300), np.array([0.7, -1.2, 0.4])
ALONG = np.cos(7.0 * X), np.array([0.3, 1.0, -0.5])
HEAD = "prange at a line"


def independent(x, p):
    """Sums, one of them inside of a branch, and stores, with a helper, an inner loop and an array of the turn's own."""
    y, s, t = np.empty((len(x), 2)), 1.0, 0.0
    for i in numba.prange(len(x)):
        work = np.zeros(3)
        for j in range(3):
            work[j] = math.sin(p[j] * x[i]) * x[i]
            s += work[j] * work[j]
        if work[0] > 0.3:
            t -= math.exp(work[1])
        y[i, 0] = np.sum(work)
        y[i, 1] = y[i, 0] ** 2
    return s * t + np.sum(y * y)


def in_place(x, p):
    """What is overwritten is read before, by the turn and by what is before the loop; a number comes from outside."""
    a, total, scale = np.sin(x), 0.0, p[0] * p[1]
    total += np.sum(a * a)
    for _ in range(2):
        for i in numba.prange(1, len(x)):
            a[i] = a[i] * a[i] * scale + p[2] * x[i]
        total += a[5] * a[len(x) - 1]
    return total


def neighbours(x, p):
    """Adjoints collide at neighbours: sums by chunks, or one thread while `x` is as long as the loop."""
    s = 0.0
    for i in numba.prange(len(x) - 1):
        s += (x[i + 1] - p[0] * x[i]) ** 2 * p[1]
    return s


INDEPENDENT = [independent, in_place, neighbours]


@pytest.mark.long
@pytest.mark.parametrize("f", INDEPENDENT, ids=lambda f: f.__name__)
def test_on_threads_derivatives_are_those_of_duals_with_the_same_bits_for_one_thread_and_two(f):
    threads, plain = numba.njit(parallel=True)(f), numba.njit(f)
    gradient = tg.njit_value_and_grad(threads, (0, 1), mode="reverse")
    (one, a), (two, b) = with_one_and_two(gradient, X, P)
    assert one == two and all(map(np.array_equal, a, b))
    along = tg.njit_jvp(plain, (0, 1))
    for k in range(3):
        directions = [np.cos((7.0 + k) * X), np.roll(ALONG[1], k)]
        value, slope = along(X, P, *directions)
        assert np.isclose(one, value, rtol=1e-13, atol=0.0)
        products = [d * g for d, g in zip(directions, a, strict=True)]
        assert np.isclose(sum(map(np.sum, products)), slope, rtol=1e-11, atol=1e-12 * sum(np.sum(np.abs(p)) for p in products))


@pytest.mark.long
@pytest.mark.parametrize("f", INDEPENDENT, ids=lambda f: f.__name__)
def test_on_threads_products_of_the_hessian_are_those_of_one_thread(f):
    product = tg.njit_hvp(numba.njit(parallel=True)(f), (0, 1))
    assert_same(*with_one_and_two(product, X, P, *ALONG), tg.njit_hvp(numba.njit(f), (0, 1))(X, P, *ALONG))


def with_one_and_two(dispatcher, *arguments):
    results, before = [], numba.get_num_threads()
    try:
        for n in (1, min(2, numba.config.NUMBA_NUM_THREADS)):
            numba.set_num_threads(n)
            results.append(dispatcher(*arguments))
    finally:
        numba.set_num_threads(before)
    assert [*next(iter(dispatcher.modes().values()))[HEAD].values()] == ["on threads"]
    return results


def assert_same(a, b, expected):
    for one, two, right in zip(a, b, expected, strict=True):
        assert np.array_equal(one, two)
        assert np.allclose(one, right, rtol=1e-11, atol=1e-12 * np.abs(right).max())


def carried(x):
    s = 1.0
    for i in numba.prange(len(x)):
        s = s * 0.5 + x[i]
    return s


def crossing(x):
    y, s = np.zeros(len(x)), 0.0
    for i in numba.prange(len(x) - 1):
        y[i + 1] = x[i] * x[i]
    return s + np.sum(y)


def around(x):
    y = np.zeros(len(x))
    for i in numba.prange(-2, len(x) - 2):
        y[i] = x[i] ** 2
    return np.sum(y)


def aliased(x):
    y = x.copy()
    z = y[1:]
    for i in numba.prange(len(x) - 1):
        y[i] = x[i] * z[i]
    return np.sum(y)


def shared_row(x):
    y, s = x.copy(), 0.0
    for i in numba.prange(len(x)):
        y[i] = x[i] ** 2
        s += y[0]
    return s


def chance(x):
    s = 0.0
    for i in numba.prange(len(x)):
        s += x[i] * np.random.random() ** 0.0
    return s


def last(x):
    s, i = 0.0, 0
    for i in numba.prange(len(x)):
        s += x[i] ** 2
    return s * i


SERIAL = [(carried, "s is carried from iteration to iteration"), (crossing, "line {line} stores into is indexed by something other than the loop variable"),
          (around, "does not start at a constant"), (aliased, "may be the same memory"),
          (shared_row, "is indexed by something other"), (chance, "may not do the same"), (last, "i is carried")]  # fmt: skip


@pytest.mark.parametrize(("f", "reason"), SERIAL, ids=lambda f: getattr(f, "__name__", ""))
def test_a_loop_whose_turns_meet_stays_on_one_thread_and_says_why(f, reason):
    gradient = tg.njit_grad(numba.njit(parallel=True)(f), mode="reverse")
    x = X[:9]
    assert np.allclose(gradient(x), tg.njit_grad(f, mode="forward")(x), rtol=1e-12)
    ((line, said),) = next(iter(gradient.modes().values()))[HEAD].items()
    assert said.startswith("on one thread: ") and reason in said.replace(f"line {line + 1} ", "line {line} ")
    assert "prange" in Path(__file__).read_text().splitlines()[line - 1]


def test_without_parallel_nothing_runs_on_threads():
    gradient = tg.njit_grad(numba.njit(neighbours), mode="reverse")
    gradient(X, P)
    assert "without parallel=True" in str(gradient.modes())


@pytest.mark.long
def test_exceptions_of_a_turn_are_raised_and_calls_leave_nothing():
    from numba.core.runtime import rtsys
    from numba.core.runtime._nrt_python import memsys_enable_stats

    @numba.njit(parallel=True)
    def f(x):
        s = 0.0
        for i in numba.prange(len(x)):
            if x[i] > 1.0:
                raise ValueError("too large")
            s += x[i] ** 2
        return s

    gradient = tg.njit_grad(f, mode="reverse")
    assert np.allclose(gradient(X[:50]), 2.0 * X[:50])
    with pytest.raises(ValueError, match="too large"):
        gradient(X)
    memsys_enable_stats()
    before = rtsys.get_allocation_stats()
    for _ in range(100):
        gradient(X[:50])
    after = rtsys.get_allocation_stats()
    assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free > 0  # (arenas wait for the next call)


@pytest.mark.long
def test_in_nopython_code_from_the_cache_of_numba(tmp_path):
    module = tmp_path / "user.py"
    module.write_text(
        "import numba, numpy as np, tapegrad as tg\n"
        "@numba.njit(parallel=True)\n"
        "def f(x):\n    s = 0.0\n    for i in numba.prange(len(x)):\n        s += np.sin(x[i])\n    return s\n"
        "g = tg.njit_grad(f, mode='reverse')\n"
        "@numba.njit(cache=True)\ndef twice(x):\n    return 2.0 * g(x)\n"
        "if __name__ == '__main__':\n"
        "    x = np.array([0.5, 0.6, 0.7])\n    print(*twice(x) - 2.0 * np.cos(x))\n    print(sum(twice.stats.cache_hits.values()))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [subprocess.run([sys.executable, str(module)], capture_output=True, text=True, env=environment, check=True).stdout.split() for _ in range(2)]
    assert runs == [["0.0", "0.0", "0.0", "0"], ["0.0", "0.0", "0.0", "1"]]

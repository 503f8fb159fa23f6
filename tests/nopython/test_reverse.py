"""Reverse mode of compiled functions: what may be written in them, against differences of the plain function."""

import collections
import gc
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.codegen.numba_inside import RAISES
from tapegrad.common.errors import UnsupportedInNumbaError

from .checked import checked
from .generated import WIDER, difference, interpreted
from .programs import AT, DEAR, PROGRAMS, differences, plain_recursive, whiles

numba = pytest.importorskip("numba")
from numba.core.runtime import rtsys  # noqa: E402
from numba.core.runtime._nrt_python import memsys_enable_stats  # noqa: E402


@pytest.mark.parametrize("f", [pytest.param(f, marks=[pytest.mark.long] if f in DEAR else [], id=f.__name__) for f in PROGRAMS])
def test_gradients_agree_with_differences(f):
    gradient = tg.njit_value_and_grad(f, mode="reverse")
    at = AT.copy()
    value, found = gradient(at)
    assert np.array_equal(at, AT)
    assert math.isclose(value, f(AT.copy()), rel_tol=1e-13)
    assert np.allclose(found, differences(lambda x: f(x.copy()), AT), rtol=2e-7, atol=2e-8)
    assert next(iter(gradient.modes().values()))["mode"] == "reverse"


@pytest.mark.parametrize("seed", [0, 1, WIDER])
def test_programs_made_at_random_agree_with_dual_numbers(seed):
    error, text = difference(seed)
    assert error <= 1e-12, text


@pytest.mark.long
@pytest.mark.parametrize("seed", [*range(3, 100), 1008, 1012, 20020, 20079, 50138, *range(WIDER + 1, WIDER + 98)])
def test_more_programs_made_at_random(seed):
    error, text = difference(seed, interpreted)
    assert error <= 1e-12, text


def powers(x, n):
    s = 0.5
    for i in range(n):
        s = math.sin(s * x[i % 8])
    return s


def guarded(x, n):
    s = 0.5
    for i in range(n):
        s = math.sin(s * x[i % 8])
        if i == 5:
            raise ValueError("five")
    return s


def kept_beside_helpers(x, n):
    s = 0.5
    for i in range(n):  # keeps s, while the helper keeps things of its own on the same stack
        s = math.sin(s + plain_recursive(0.1 * x[i % 8], i % 4))
    return s


def test_the_stack_has_room_for_all_that_is_kept():
    gradient = tg.njit_grad(kept_beside_helpers, mode="reverse")
    with checked():
        gradient(AT, 1)
    for turns in range(100, 400):  # the stack grows at another turn, in the loop or in the helper
        assert np.isfinite(gradient(AT, turns)).all()
    assert np.allclose(gradient(AT, 200), differences(lambda x: kept_beside_helpers(x, 200), AT), rtol=2e-7, atol=2e-8)


def test_loops_that_are_longer_than_memory():
    gradient, stopped = tg.njit_grad(powers, mode="reverse"), tg.njit_grad(guarded, mode="reverse")
    for turns in (10**13, 2**62, 2**63 - 1):
        with pytest.raises(MemoryError, match="reverse sweep"):
            gradient(AT, turns)
        with pytest.raises(ValueError, match="five"):  # room is made as the turns come
            stopped(AT, turns)
    assert np.allclose(gradient(AT, 20), differences(lambda x: powers(x, 20), AT), rtol=2e-7, atol=2e-8)


Parameters = collections.namedtuple("Parameters", "rate table")


def damped(p, start, steps):
    s = start
    for i in range(steps):
        s = s * p.rate + p.table[i % 2] * s * s
    return s


def overwritten(x):
    squares = x * x
    first = x[0] * squares
    x *= 3.0
    x[0] = 7.0
    return x[::-1], first


def test_returned_arrays_have_the_values_of_the_end():
    at, seeds = AT.copy(), (np.arange(8.0), np.ones(8))
    (values, first), product = tg.njit_vjp(overwritten)(at, seeds)
    wanted = overwritten(AT.copy())
    assert np.array_equal(at, AT) and np.array_equal(values, wanted[0]) and np.array_equal(first, wanted[1])
    along = differences(lambda x: sum(np.sum(a * w) for a, w in zip(overwritten(x.copy()), seeds)), AT)
    assert np.allclose(product, along, rtol=2e-7, atol=2e-8)


def truths(x):
    total, y = 0.0, x.copy()
    while not y[1] > 3.0:
        y[1] += 1.0
        total += y[1] * x[0]
    for i in range(8):
        if x[i] and not y[7 - i]:
            total *= x[i]
    return total + (x[2] or x[3]) * (x[4] and x[5]) + (x[6] or x[0] ** 2)


def test_truth_values_of_numbers():
    at = np.array([0.7, 0.5, 1.5, 0.3, -0.4, 0.0, 0.2, 0.9])
    gradient = tg.njit_value_and_grad(truths, mode="reverse")
    for x in (at, np.where(at == 0.2, 0.0, at), np.where(at == 1.5, 0.0, at)):
        (value, slopes), (expected, forward) = gradient(x), tg.njit_value_and_grad(truths, mode="forward")(x)
        assert value == expected == truths(x) and np.allclose(slopes, forward, rtol=1e-14)
    assert np.allclose(gradient(at)[1][:5], differences(truths, at)[:5], rtol=1e-7, atol=1e-7)


def test_seeds_have_the_form_of_the_result():
    pair = tg.njit_vjp(lambda x: (x[0] * x[1], x[1:]))
    for product, seeds in (tg.njit_vjp(lambda x: x * 2.0), (1.0, np.ones((1, 8)), 1j * AT, (AT,))), (tg.njit_vjp(lambda x: np.sum(x)), (AT,)), (pair, (1.0, (1.0,), (1.0, AT[1:], AT))):
        for seed in seeds:
            with pytest.raises(UnsupportedInNumbaError, match="and the seed (?s:.*)give a seed of the form of the result"):
                product(AT, seed)
    with pytest.raises(UnsupportedInNumbaError, match="a gradient is of one number"):
        tg.njit_grad(lambda x: x * 2.0, mode="reverse")(AT)
    assert np.array_equal(tg.njit_vjp(lambda x: x * 2.0)(AT, np.arange(8))[1], 2.0 * np.arange(8))


def test_arguments_and_results_of_several_kinds():
    p, start = Parameters(0.5, np.array([0.1, 0.2])), 0.7
    value, (dp, ds) = tg.njit_value_and_grad(damped, (0, 1), mode="reverse")(p, start, 5)
    assert value == damped(p, start, 5)
    flat = differences(lambda v: damped(Parameters(v[0], v[1:3]), v[3], 5), np.array([0.5, 0.1, 0.2, 0.7]))
    assert isinstance(dp, Parameters) and np.allclose([dp.rate, *dp.table, ds], flat, rtol=1e-8)
    by_columns = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    assert np.array_equal(tg.njit_grad(lambda a: np.sum(a * a * a), mode="reverse")(by_columns), 3.0 * by_columns**2)
    assert tg.njit_grad(lambda a, b: a * a * b, (0, 1), mode="reverse")(3, 5) == (30.0, 9.0)
    assert np.array_equal(tg.njit_grad(lambda x: 3.0, mode="reverse")(AT), np.zeros(8))


@pytest.mark.long
def test_products_jacobians_and_gradients_in_arrays_of_the_caller():
    f = tg.njit_vjp(lambda x, c: (x[0] * x[1] * c, x[1:] ** 2), (0, 1))
    value, (dx, dc) = f(np.array([2.0, 3.0]), 5.0, (10, np.array([1.0])))
    assert value[0] == 30.0 and np.array_equal(dx, [150.0, 106.0]) and dc == 60.0
    with pytest.raises(ValueError, match="a seed must have the shape"):
        tg.njit_vjp(lambda x: x * x)(AT, np.ones(3))
    x = AT[:3].copy()

    def stores(x):
        x[1] = x[0] * x[2]
        return x[:2] * x[1]

    assert np.allclose(tg.njit_jacobian(stores, mode="reverse")(x), tg.njit_jacobian(stores, mode="forward")(x), rtol=1e-14)
    out = np.full(3, np.nan)
    assert tg.njit_value_and_grad(lambda x: np.sum(x**2), out=True)(x, out) == np.sum(x**2)
    assert np.allclose(out, 2.0 * x, rtol=1e-15)
    with pytest.raises(ValueError, match="the shape of its argument"):
        tg.njit_value_and_grad(lambda x: np.sum(x**2), out=True)(x, np.empty(2))
    both, memory = tg.njit_value_and_grad(lambda a, b, c: np.sum(a * b) * c[0, 0], (0, 1), out=True), np.arange(12.0)
    for out in (memory[2:5], memory[9:], memory[7:10]):  # memory of an argument, of a constant one, of the other gradient
        with pytest.raises(ValueError, match="must not share memory"):
            both(memory[:3], memory[3:6], memory[10:11].reshape(1, 1), out, memory[6:9])
    assert np.array_equal(memory, np.arange(12.0))
    both(memory[:3], memory[3:6], np.ones((1, 3)), memory[6:9], memory[9:])
    assert np.array_equal(memory[6:], [3.0, 4.0, 5.0, 0.0, 1.0, 2.0])


def rising(x):
    s = 0.0
    for i in range(len(x)):
        s += math.exp(x[i])
        if s > 1e3:
            raise ValueError("too large")
    return s


def test_exceptions_and_divisions_are_those_of_the_function():
    gradient = tg.njit_grad(rising, mode="reverse")
    for _ in range(3):
        with pytest.raises(ValueError, match="too large"):
            gradient(10.0 * np.abs(AT))
        assert np.allclose(gradient(AT), np.exp(AT), rtol=1e-15)

    def inverse(x):
        return 1.0 / x[0]

    with pytest.raises(ZeroDivisionError):
        tg.njit_grad(inverse, mode="reverse")(np.zeros(1))
    assert tg.njit_grad(numba.njit(error_model="numpy")(inverse), mode="reverse")(np.zeros(1))[0] == -np.inf
    assert np.isnan(tg.njit_grad(rising, mode="reverse")(np.array([np.nan]))[0])


@numba.njit
def halved(y, n):
    if n == 4:
        raise ValueError("four", n, y)
    return y if n == 0 else halved(0.5 * y, n - 1)


def named(x, n):
    s = x[0]
    for i in range(n):
        s = s * x[1]
        if s > 100.0:
            raise ValueError("too large", i, s)
    return s + halved(x[0], n)


def quotient(x):
    1.0 / x[0]
    return x[1]


def outside_of_a_list(x):
    [1.0][len(x)]
    return x[1]


def unlike_shapes(x):
    x[:2] + x
    return x[1]


def too_many(x):
    a, b = x
    return b


@pytest.mark.parametrize("f, error", [(quotient, ZeroDivisionError), (outside_of_a_list, IndexError), (unlike_shapes, ValueError), (too_many, ValueError)])
def test_what_nobody_reads_raises_as_in_the_function(f, error):
    for function in (numba.njit(f), tg.njit_grad(f, mode="reverse")):
        with pytest.raises(error):
            function(np.array([0.0, 1.0, 2.0]))


@pytest.mark.skipif(len(RAISES) < 3, reason="this version of Numba itself raises other numbers")
@pytest.mark.parametrize(
    "derivative", [lambda: tg.njit_grad(named, mode="reverse"), lambda: tg.njit_grad(named, mode="forward"), lambda: tg.njit_grad(named, memory=4096),
                   lambda: lambda x, n, h=tg.njit_hvp(named): h(x, n, np.ones(2))],
    ids=["reverse", "forward", "memory", "second"],
)  # fmt: skip
def test_exceptions_say_the_numbers_that_the_function_says(derivative):
    derivative = derivative()
    for x, n, said in ((np.array([0.5, 5.0]), 50, ("too large", 3, 312.5)), (np.array([0.5, 1.0]), 5, ("four", 4, 0.25))):
        for f in (named, derivative):
            with pytest.raises(ValueError) as caught:
                f(x, n)
            assert caught.value.args == said
    assert np.isfinite(derivative(np.array([0.5, 1.0]), 3)).all()


def test_code_is_optimised_once_and_no_garbage_is_collected_meanwhile(monkeypatch, tmp_path):
    from numba.core.codegen import CPUCodeLibrary

    monkeypatch.setenv("TAPEGRAD_CACHE_DIR", str(tmp_path))
    names, optimise = [], CPUCodeLibrary._optimize_final_module

    def noted(library):
        assert not gc.isenabled()
        names.append(library.name)
        optimise(library)

    monkeypatch.setattr(CPUCodeLibrary, "_optimize_final_module", noted)
    assert gc.isenabled()

    def f(x):
        s = 0.0
        for k in range(0, len(x), 2):
            s += np.sum(np.sin(x[: k + 1]) * x[k])
        return s

    tg.njit_grad(f, mode="reverse")(AT)
    # Numba's runtime is once in a process.
    (name,) = {*names} - {"nrt"}
    assert name.startswith("grad_of_f") and names.count(name) == 1
    with pytest.raises(UnsupportedInNumbaError):
        tg.njit_grad(lambda x: sorted(x)[0], mode="reverse")(AT)
    assert gc.isenabled()


@numba.njit(no_cpython_wrapper=True)
def limited(n):
    if n > 7:
        raise ValueError("past", n)
    return n


@numba.njit
def turned(n):
    return limited(n + 2) % 3


def chosen(x):
    return np.sum(np.take(x, np.array([turned(len(x)), 1])) * x[:2])


def test_what_is_compiled_on_the_way_is_whole_for_others():
    """Functions of the user's that are called as they are, Numba's own, and what raises by its environment; also where the derivative is refused."""
    x = np.array([2.0, 3.0, 5.0])
    with pytest.raises(UnsupportedInNumbaError):
        tg.njit_grad(lambda x: x[limited(len(x)) - 1] * x.nbytes, mode="forward")(x)
    for f, n in ((lambda n: limited(n), 9), (lambda n: turned(n), 7), (turned, 7)):
        with pytest.raises(ValueError, match="'past', 9"):
            (f if f is turned else numba.njit(f))(n)
    assert np.array_equal(tg.njit_grad(chosen, mode="forward")(x), [5.0, 6.0, 2.0])
    assert [signature[0] for signature in turned.overloads] == [numba.int64] and turned(5) == 1
    taken = numba.njit(lambda x, places: np.take(x, places))
    assert np.array_equal(taken(x, np.array([1, -1])), [3.0, 5.0])
    with pytest.raises(IndexError):
        taken(x, np.array([5]))


def kept_arrays(x):
    s, t = 0.0, x
    for _ in range(5):
        t = np.exp(t * 0.1)
        s += np.sum(t * t)
    if s > 1e3:
        raise ValueError("too large")
    return s


@pytest.mark.parametrize("f", [rising, pytest.param(kept_arrays, marks=pytest.mark.long)], ids=lambda f: f.__name__)
def test_nothing_is_left_when_the_function_raises(f):
    x, seed = 30.0 * np.abs(AT), 1.0
    product = tg.njit_vjp(f)
    derivatives = [tg.njit_grad(f, mode="reverse"), tg.njit_value_and_grad(f, mode="forward", lanes=8), lambda x: product(x, seed)]
    memsys_enable_stats()
    for derivative in derivatives:
        for turn in range(100_000):
            if turn == 2:
                before, references = rtsys.get_allocation_stats(), sys.getrefcount(x)
            with pytest.raises(ValueError, match="too large"):
                derivative(x)
        after = rtsys.get_allocation_stats()
        assert (after.alloc - before.alloc, sys.getrefcount(x)) == (after.free - before.free, references)


@pytest.mark.long
def test_in_nopython_code_in_parallel_and_from_the_cache_of_numba(tmp_path):
    gradient = tg.njit_grad(whiles, mode="reverse")

    @numba.njit(parallel=True)
    def many(x):
        out = np.empty_like(x)
        for i in numba.prange(len(x)):
            out[i] = gradient(x[i])
        return out

    points = AT + 0.01 * np.arange(64.0)[:, None]
    assert np.array_equal(many(points), [gradient(x) for x in points])
    module = tmp_path / "user.py"
    module.write_text(
        "import numba, numpy as np, tapegrad as tg\n"
        "@numba.njit\ndef again(x, k):\n    return x[0] if k == 0 else again(x, k - 1) * x[k]\n"
        "def f(x):\n    s, t = 0.0, np.zeros(3)\n    while s < 2.0:\n        t += x\n        s += t[0] * again(x, 2) * np.linalg.norm(t)\n"
        "    return s\n"
        "g = tg.njit_value_and_grad(f, mode='reverse')\n"
        "@numba.njit(cache=True)\ndef twice(x):\n    return g(x)[1] + g(x)[1]\n"
        "if __name__ == '__main__':\n"
        "    x = np.array([0.5, 0.6, 0.7])\n    print(*twice(x))\n    print(sum(twice.stats.cache_hits.values()))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [subprocess.run([sys.executable, str(module)], capture_output=True, text=True, env=environment, check=True).stdout.split() for _ in range(2)]
    assert runs[0][:3] == runs[1][:3] and [runs[0][3], runs[1][3]] == ["0", "1"]


def sorted_(x):
    y = x.copy()
    y.sort()
    return y[0]


def test_modes():
    gradient = tg.njit_grad(sorted_)
    assert np.array_equal(gradient(AT), np.eye(8)[4])
    (taken,) = gradient.modes().values()
    assert taken["mode"] == "forward" and "test_reverse.py" in taken["because"]
    few = tg.njit_grad(lambda a, b: a * b, (0, 1))
    assert few(2.0, 3.0) == (3.0, 2.0) and next(iter(few.modes().values()))["mode"] == "forward"
    for f, options, because in (
        (lambda x: np.sum(x * x), {}, "an array or a tuple, or more than 4 numbers: one run back gives all"), (lambda x: np.sum(x * x), {"mode": "reverse"}, "as asked for"),
    ):
        gradient = tg.njit_grad(f, **options)
        gradient(AT)
        assert [(taken["mode"], taken["because"]) for taken in gradient.modes().values()] == [("reverse", because)]
    with pytest.raises(UnsupportedInNumbaError, match="mode"):
        tg.njit_grad(sorted_, mode="backward")
    with pytest.raises(UnsupportedInNumbaError, match="lanes"):
        tg.njit_grad(sorted_, mode="reverse", lanes=4)

"""Where a number that is not finite comes from: the operation's line is named wherever the function runs, and nothing is said of a clean one."""

import inspect
from fractions import Fraction

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import NonFiniteError


def quotient(x):
    return (x - 1.0) / (x - 1.0)


def logarithm(x):
    return np.log(x - 1.0)


def root(x):
    return np.sqrt(x - 1.0)


def difference(x):
    return np.exp(1600.0 - 800.0 * x) - np.exp(1602.0 - 802.0 * x)


def overflow(x):
    return np.exp(1600.0 - 800.0 * x) * 2.0


ORIGINS = {f: inspect.getsourcelines(f)[1] + 1 for f in (quotient, logarithm, root, difference, overflow)}
#: The point that is to be found, and others at which nothing is wrong.
BAD, GOOD = 1.0, np.array([1.5, 1.6, 1.7])


def moved(k):
    """What is 1 in iteration 2, and else not."""
    return 0.25 * (2.0 - k) ** 2


def eager(f, x):
    return tg.grad(f)(x)


def define_by_run(f, x):
    t = tg.tensor(x, requires_grad=True)
    f(t).backward()
    return t.grad


def second(f, x):
    return tg.hessian(f)(x)


def replayed(f, x, **options):
    g = tg.jit(tg.value_and_grad(f), **options)
    for good in GOOD:
        g(good)
    return g(x)


def kernel(f, x):
    return replayed(f, x, kernel="always")


def jitted_jacobian(f, x):
    g = tg.jit(tg.jacobian(lambda x: np.stack([f(x), x])))
    g(1.5), g(1.6)
    return g(x)


def scan(f, x):
    return tg.grad(lambda x: tg.scan(lambda c, k: (c + f(x + moved(k)), None), 0.0, np.arange(5.0))[0])(x)


def jitted_scan(f, x):
    g = tg.jit(tg.value_and_grad(lambda x: tg.scan(lambda c, k: (c + f(x + moved(k)), None), 0.0, np.arange(5.0))[0]))
    g(1.5), g(1.6)
    return g(x)


def fori_loop(f, x):
    return tg.grad(lambda x: tg.fori_loop(0, 5, lambda k, c: c + f(x + moved(k)), 0.0))(x)


def lane(f, x):
    return tg.vmap(tg.grad(f))(np.array([1.5, 1.6, x, 1.7]))


def jitted_lane(f, x):
    g = tg.jit(tg.vmap(tg.value_and_grad(f)))
    g(np.array([1.5, 1.6, 1.8, 1.7]))
    return g(np.array([1.5, 1.6, x, 1.7]))


def numba(f, x):
    return tg.value_and_grad(f, via="numba")(x)


#: Place -> what its message names besides the line.
PLACES = {
    eager: "", define_by_run: "", second: "", replayed: "", kernel: "", jitted_jacobian: "", scan: "in iteration 2", jitted_scan: "in iteration 2", fori_loop: "in iteration 2",
    lane: "in lane 2", jitted_lane: "in lane 2", numba: "",
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_the_line_is_named(place):
    for f, line in ORIGINS.items():
        with tg.detect_anomaly(), np.errstate(all="ignore"), pytest.raises(NonFiniteError) as raised:
            place(f, BAD)
        assert f"test_nan_origins.py:{line} (`return" in str(raised.value) and PLACES[place] in str(raised.value), (place, f, str(raised.value))


@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_said_of_a_clean_program(place):
    for f in ORIGINS:
        with tg.detect_anomaly():
            found = place(f, 1.4)
        assert np.isfinite(np.concatenate([np.ravel(part) for part in (found if isinstance(found, tuple) else (found,))])).all()
        plain = place(f, 1.4)
        np.testing.assert_allclose(np.array(found, dtype=float), np.array(plain, dtype=float), rtol=1e-13)


def test_a_number_that_was_given_is_nobody_s_fault():
    g = tg.jit(tg.value_and_grad(lambda x: np.sum(x * x)))
    g(np.ones(2)), g(np.zeros(2))
    with tg.detect_anomaly():
        assert np.isnan(g(np.array([np.nan, 1.0]))[0])


def test_debug_nans_holds_until_it_is_off_and_in_later_threads():
    from concurrent.futures import ThreadPoolExecutor

    g = tg.jit(tg.grad(quotient))
    g(1.5), g(1.6)
    tg.config.debug_nans = True
    try:
        assert tg.config.debug_nans
        for call in (g, tg.grad(quotient)):
            with pytest.raises(NonFiniteError, match="divide at .*test_nan_origins.py"), np.errstate(all="ignore"):
                call(BAD)
        with ThreadPoolExecutor(1) as pool, pytest.raises(NonFiniteError, match="divide at"):
            pool.submit(g, BAD).result()
        # Infinities are nobody's fault here.
        with np.errstate(all="ignore"):
            assert np.isinf(tg.grad(logarithm)(BAD))
    finally:
        tg.config.debug_nans = False
    with np.errstate(all="ignore"):
        assert np.isnan(g(BAD))
    with pytest.raises(tg.errors.OptionError, match="debug_nans"):
        tg.config.debug_nans = "yes"


def test_after_a_loop_no_iteration_is_named():
    def f(x):
        y = tg.fori_loop(0, 3, lambda k, c: c + x, 0.0)
        return np.sqrt(y - 3.0)

    with tg.detect_anomaly(), np.errstate(all="ignore"), pytest.raises(NonFiniteError) as raised:
        tg.grad(f)(1.0)
    assert "the derivative of sqrt" in str(raised.value) and "iteration" not in str(raised.value)


def test_an_instruction_of_the_kernel_is_named_if_the_plain_run_is_finite():
    x = next(a for a in np.random.default_rng(0).uniform(1.0, 2.0, 100).tolist() if Fraction(a) ** 2 < Fraction(a * a))
    square, step = x * x, float(Fraction(x * x) - Fraction(x) ** 2) / 2.0

    def contracted(x, c):
        y = x * x - c
        return 2.0 * np.log(y + step)

    def summed(x, c):
        s = 0.0
        for k in range(10):
            s = s + np.log(x * x - c + step * (1.0 + k))
        return s

    for f, below in ((contracted, 2), (summed, 3)):
        g = tg.jit(f, fastmath=True, kernel="always")
        for c in (0.5, 0.6, 0.7):
            g(x, c)
        if not np.isnan(g(x, square)):
            pytest.skip("this processor rounds a product before it adds")
        assert np.isfinite(f(x, square))
        line = inspect.getsourcelines(f)[1] + below
        with tg.detect_anomaly(), pytest.raises(NonFiniteError, match=rf"compiled code alone gives it, first at `a\d+ = log\(a\d+\)` of its source\(\), which computes .*:{line} "):
            g(x, square)
        with tg.detect_anomaly():
            assert np.isfinite(g(x, 0.5))

"""Kernels called from nopython code: by the entry on the stack, by that with blocks, and what happens where they stop."""

import platform
import re

import numba
import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import GuardError
from tapegrad.kernel.emit import LIMIT
from tapegrad.program.ports import FINE, NOT_FINITE
from tests.kernel import compare


@numba.njit
def once(c, x, g):
    return c(x, g)


@numba.njit(parallel=True)
def many(c, points, gradients, values):
    for i in numba.prange(len(points)):
        values[i] = c(points[i], gradients[i])


def small(x):
    return np.sin(x[0]) * x[1] if x[0] > 0.0 else x[1] * x[1]


def large(x):
    """Needs more memory than the stack is asked for: the values of a cumulative sum go through a function."""
    y = np.cumsum(x)
    for _ in range(3):
        y = np.cumsum(np.sin(y) + x)
    return np.sum(y * y) if x[0] > 0.0 else np.sum(x)


SIZE = 2000
CASES = {"stack": (small, np.array([1.0, 2.0])), "blocks": (large, np.linspace(0.1, 1.0, SIZE) / SIZE)}


@pytest.fixture(params=CASES)
def case(request):
    f, x = CASES[request.param]
    c = tg.compile(f, x)
    assert c.kernel is not None, c.not_lowered
    assert (c.kernel.nbytes <= LIMIT) == (request.param == "stack") == bool(c.kernel.entry)
    return f, x, c


def test_from_both_sides_as_by_sweep(case):
    f, x, c = case
    swept = tg.compile(f, x, kernel="never")
    assert swept.kernel is None and swept.not_lowered == ""
    for scale in (1.0, 0.5, 2.0):
        g, h, wanted = (np.full(x.shape, np.nan) for _ in range(3))
        expected = swept(scale * x, wanted)
        assert c(scale * x, g) == once(c, scale * x, h) == pytest.approx(expected, rel=1e-11)
        assert np.array_equal(g, h)
        np.testing.assert_allclose(g, wanted, rtol=1e-10, atol=1e-12 * np.max(np.abs(wanted)))


def test_a_guard_that_fails_is_named_by_the_sweep(case):
    f, x, c = case
    g = np.empty(x.shape)
    other = x.copy()
    other[0] = -1.0
    for call in (once, lambda c, x, g: c(x, g)):
        with pytest.raises(GuardError, match=r"x\[0\] > 0.0.* went another way"):
            call(c, other, g)
        assert np.isnan(g).all()
        assert call(c, x, g) == pytest.approx(f(x)) and np.isfinite(g).all()


def test_under_prange(case):
    f, x, c = case
    points = np.abs(x + 0.1 * np.random.default_rng(0).random((40, len(x))) / len(x))
    gradients, values, g = np.empty(points.shape), np.empty(40), np.empty(x.shape)
    many(c, points, gradients, values)
    c.check()
    for p, value, found in zip(points, values, gradients):
        assert c(p, g) == value and np.array_equal(g, found)


@pytest.mark.parametrize("n", [2, 6000])
def test_absolute_zero_comes_from_the_sweep(n):
    def function(x):
        y = np.cumsum(x)
        return 0.0 * np.sqrt(x[0]) + np.sum(y * np.cumsum(y)) + x[1]

    c, x = tg.compile(function, np.ones(n)), np.zeros(n)
    g, wanted = np.full(n, np.nan), np.empty(n)
    assert c.kernel is not None and bool(c.kernel.entry) == (n == 2)
    x[1] = 3.0
    for call in (once, lambda c, x, g: c(x, g)):
        assert call(c, x, g) == pytest.approx(function(x), rel=1e-13)
        tg.compile(function, np.ones(n), kernel="never")(x, wanted)
        assert np.isfinite(g).all()
        np.testing.assert_allclose(g, wanted, rtol=1e-12)


def test_a_value_that_is_not_finite_is_the_value():
    c = tg.compile(lambda x: np.log(x[0]) + x[1], np.ones(2))
    g = np.empty(2)
    assert once(c, np.array([0.0, 1.0]), g) == -np.inf and g.tolist() == [np.inf, 1.0]
    assert np.isnan(once(c, np.array([-1.0, 1.0]), g))


def test_what_has_no_kernel_is_compiled_as_a_sweep(monkeypatch):
    from tapegrad.kernel.reasons import NotLowered

    def refuse(*args):
        raise NotLowered("no machine code today")

    monkeypatch.setattr("tapegrad.kernel.kernel.TapeKernel", refuse)
    c, g = tg.compile(small, np.array([1.0, 2.0])), np.empty(2)
    assert c.kernel is None and c.not_lowered == "no machine code today"
    assert once(c, np.array([1.0, 3.0]), g) == pytest.approx(3.0 * np.sin(1.0)) and g[1] == pytest.approx(np.sin(1.0))


def test_gradient_descent_by_kernel_is_gradient_descent():
    @numba.njit
    def descend(c, x, steps):
        g = np.empty_like(x)
        for _ in range(steps):
            c(x, g)
            x -= 0.1 * g
        return x

    c = tg.compile(lambda x: np.sum((x - np.arange(10.0)) ** 2), np.zeros(10))
    np.testing.assert_allclose(descend(c, np.zeros(10), 200), np.arange(10.0), atol=1e-12)


def test_by_address_it_tells_what_the_kernel_found():
    def function(x):
        return np.sqrt(x[0]) * x[1] if x[1] > 0.0 else x[0] * x[1]

    c = tg.compile(function, np.ones(2))
    assert c.kernel.entry
    value, g = np.empty(1), np.empty(2)
    for x, status in ([4.0, 3.0], FINE), ([0.0, 3.0], NOT_FINITE), ([4.0, -1.0], 0):
        assert compare.call(c.kernel, [np.array(x)], [value, g]) == status
        if status == FINE:
            assert value[0] == 6.0 and g.tolist() == [0.75, 2.0]


def test_the_code_of_a_small_kernel_is_in_its_entry_which_keeps_nothing_for_the_sweep():
    kernel = tg.compile(lambda x: (x[1] - x[0] * x[0]) * x[2] / x[0], np.ones(3)).kernel
    functions = {part.split("(")[0]: part for part in re.split(r"^define [^@]*@", kernel.llvm(), flags=re.MULTILINE)[1:]}
    assert {name for name, part in functions.items() if " fdiv " in part} == {"entry"}
    assert functions["entry"].count("call") == functions["entry"].count("tail call") == 1 and "alloca" not in functions["entry"]
    code = kernel.asm().partition("\nentry:\n")[2].partition("\n.Lfunc_end")[0]
    assert "call" not in code and "(%rsp)" not in code and "jmp" in code or platform.machine() not in ("x86_64", "AMD64")

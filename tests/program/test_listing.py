"""A finished tape in print: every instruction with its operands and its line."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import GradientError


def lines(g, *args):
    return [line.split(maxsplit=1) for line in str(g.tape(*args)).splitlines()]


def test_scalars_constants_and_lines():
    def f(x, y):
        z = np.sin(x) * y
        return z - 2.5 * x

    text = str(tg.grad(f).tape(0.5, 3.0))
    first = f.__code__.co_firstlineno
    rows = [line.split() for line in text.splitlines()]
    assert rows[0] == ["slot", "primitive", "operands", "shape", "recorded", "at"]
    assert rows[1] == ["%1", "leaf", "argument", "0", "scalar"]
    assert rows[2] == ["%2", "leaf", "argument", "1", "scalar"]
    assert rows[3] == ["%3", "sin", "%1", "scalar", f"test_listing.py:{first + 1}"]
    assert rows[4] == ["%4", "multiply", "%3,", "%2", "scalar", f"test_listing.py:{first + 1}"]
    assert {"2.5,", "%1"} <= set(rows[5]) and rows[5][-1] == f"test_listing.py:{first + 2}"
    assert rows[6][:4] == ["%6", "subtract", "%4,", "%5"]
    assert rows[7] == ["result:", "%6"]


def test_arrays_elements_and_guards():
    weights = np.arange(3.0)

    def f(x, a):
        if x[1] > 0.0:
            return np.sum(a * weights, axis=0) * x[1]
        return x[0]

    text = str(tg.grad(f).tape(np.ones(2), np.ones(3)))
    assert "leaf" in text and "argument 0[1]" in text and "argument 1" in text
    assert "guard bool" in text and "== True" in text
    assert "multiply" in text and "const" in text and "axis=" in text


def test_a_primitive_that_is_recorded_through():
    cubed = tg.custom_vjp(lambda x: x * x * x, lambda g, r, x: 3.0 * x * x * g)
    rows = [line.split(maxsplit=2) for line in str(tg.grad(lambda x: cubed(x)).tape(2.0)).splitlines()]
    (call,) = (row for row in rows if row[1] == cubed.name)
    # Nothing computes it but what stands before it.
    assert call[2].startswith("%1, %3, ")


def test_the_tape_of_the_path_of_the_arguments():
    plain = tg.grad(lambda x: np.sin(x) if x > 0.0 else np.cos(x))
    for g, records, tapes in (tg.jit(plain), 2, 2), (plain, 3, 0):
        assert "sin" in str(g.tape(1.0)) and "cos" in str(g.tape(-1.0)) and "sin" in str(g.tape(2.0))
        stats = g.stats()
        # Without jit each one is recorded for who asks for it, and not kept.
        assert (stats.records, stats.tapes, stats.bytes > 0, stats.runs) == (records, tapes, tapes > 0, 0)


def test_a_constant_result():
    assert str(tg.grad(lambda x: 2.0).tape(1.0)).splitlines()[-1] == "result: 2"


def test_without_a_tape_it_says_why():
    def f(x):
        try:
            return 1.0 / x
        except FloatingPointError:
            return x

    why = "has no tape.*except FloatingPointError"
    with pytest.warns(tg.PathWarning, match="except FloatingPointError"), pytest.raises(GradientError, match=why):
        tg.jit(tg.grad(f)).tape(1.0)
    with pytest.raises(GradientError, match=why):
        tg.grad(f).tape(1.0)

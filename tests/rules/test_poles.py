"""A tensor of one number behaves as ``numpy.float64`` where Python's own float would raise: at poles, beyond the domain, where it overflows.

So it does in whatever way the value is computed, and no handler of ZeroDivisionError, OverflowError or ValueError is entered.
"""

import warnings

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.record import apply
from tapegrad.rules import BY_NAME, ROWS
from tests.every import every

NUMBERS = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, 1e308, -2.5, 400.0, 710.0, -750.0]
NAMES = [row.name for row in ROWS if row.elementwise and row.arity < 3 and not row.constants and not row.refused]


def doors(f, arity):
    """Name -> the value of a function of numbers, computed in one of the ways; recorded at points without a pole."""
    sweep, kernel, gradient = tg.jit(f, kernel="never"), tg.jit(f), tg.value_and_grad(f, tuple(range(arity)))
    recorded = tg.jit(gradient)
    for at in (0.7, 0.6):
        for made in sweep, kernel, recorded:
            made(*(at,) * arity)
    found = {
        "eager": lambda *p: f(*[tg.tensor(x, requires_grad=True) for x in p]).item(),
        "without gradient": lambda *p: f(*[tg.tensor(x) for x in p]).item(),
        "dual": lambda *p: tg.jvp(f, p, (1.0,) * arity)[0],
        "sweep": sweep,
        "gradient": lambda *p: gradient(*p)[0],
        "recorded gradient": lambda *p: recorded(*p)[0],
        "kernel": kernel,
    }
    if arity == 2:
        found["number on the left"] = lambda x, y: f(x, tg.tensor(y, requires_grad=True)).item()
        found["number on the right"] = lambda x, y: f(tg.tensor(x, requires_grad=True), y).item()
        found["dual, number on the left"] = lambda x, y: tg.jvp(lambda y: f(x, y), (y,), (1.0,))[0]
    return found


def points(arity):
    return [(a,) for a in NUMBERS] if arity == 1 else [(a, b) for a in NUMBERS for b in NUMBERS]


@pytest.mark.filterwarnings("ignore")
@every("name", NAMES)
def test_value_is_that_of_numpy(name):
    row = BY_NAME[name]
    by_door = doors(lambda *operands: apply(row, operands), row.arity)
    expected = [row.value(*map(np.float64, point)) for point in points(row.arity)]
    for door, value in by_door.items():
        found = [value(*point) for point in points(row.arity)]
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-300, err_msg=door)


#: What Python's floats refuse, with the point and the exception.
REFUSED_BY_PYTHON = {
    "1 / x": (lambda x: 1.0 / x, 0.0, ZeroDivisionError), "x / 0": (lambda x: x / 0, 1.0, ZeroDivisionError),
    "x // 0": (lambda x: x // 0.0, 1.0, ZeroDivisionError), "1 // x": (lambda x: 1 // x, -0.0, ZeroDivisionError),
    "x % 0": (lambda x: x % 0.0, 1.0, ZeroDivisionError), "1 % x": (lambda x: 1 % x, 0.0, ZeroDivisionError),
    "divmod": (lambda x: divmod(x, 0.0)[0], 1.0, ZeroDivisionError), "x ** -1": (lambda x: x**-1, 0.0, ZeroDivisionError),
    "x ** -2.5": (lambda x: x**-2.5, 0.0, ZeroDivisionError), "x ** 400": (lambda x: x**400.0, 1e3, OverflowError),
    "x ** 2": (lambda x: x**2, 1e200, OverflowError), "10 ** x": (lambda x: 10.0**x, 400.0, OverflowError),
    "0 ** x": (lambda x: 0.0**x, -1.0, ZeroDivisionError), "x / x": (lambda x: x / x, 0.0, ZeroDivisionError),
    "x /= 0": (lambda x: [x := x * 1.0, x := x / 0.0][-1], 2.0, ZeroDivisionError),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_BY_PYTHON)
def test_no_handler_for_an_error_of_python_is_entered(name):
    f, at, error = REFUSED_BY_PYTHON[name]
    with pytest.raises(error):
        f(at)

    def handled(x):
        try:
            return f(x) + 0.0
        except error:
            return 100.0 * x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, by_door = f(np.float64(at)), doors(handled, 1)
        # A function with such a handler is not recorded: under jit it is run on what it is called with, which are floats of Python.
        for door in ("sweep", "kernel"):
            call = by_door.pop(door)
            assert call(at) == handled(at) == 100.0 * at and "`except error`" in call.stats().fallback, door
        for door, value in by_door.items():
            np.testing.assert_array_equal(value(at), expected, err_msg=door)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [n for n in REFUSED_BY_PYTHON if n != "x ** 2"])
def test_numpy_warns_where_the_operation_is_run_and_a_replay_is_silent(name):
    f, at, _ = REFUSED_BY_PYTHON[name]
    with pytest.warns(RuntimeWarning):
        f(tg.tensor(at, requires_grad=True))
    with pytest.warns(RuntimeWarning):
        tg.jvp(f, (at,), (1.0,))
    for kernel in ("never", "always"):
        g = tg.jit(tg.value_and_grad(f), kernel=kernel)
        g(0.7), g(0.6)
        before = g.stats().records
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            g(at)
        assert g.stats().records == before

"""The entry through which CPython calls compiled functions."""

import ctypes
import gc
import itertools
import math
import struct
import sys

import pytest

from tapegrad.codegen import compile
from tapegrad.codegen.compile import compiled, helper, plain_address
from tapegrad.codegen.memory import load_int
from tests.every import every


@helper
def doubled(x):
    return 2 * x


@compiled("int64(int64, int64)")
def combined(a, b):
    return doubled(a) - b


@compiled("int64(int64)")
def twice(a):
    return combined(a, 0) + combined(0, -a)


@compiled("float64(float64, int64)")
def scaled(x, k):
    return x * k


@compiled("void(int64)")
def nothing(address):
    load_int(address)


def test_numbers_go_in_and_out():
    assert combined(1 << 40, -3) == (1 << 41) + 3
    assert twice(-7) == -21
    assert scaled(0.1, 3) == 0.1 * 3 and type(scaled(1, True)) is float
    assert plain_address(combined) and plain_address(combined) != plain_address(twice)


def test_nothing_is_none():
    import ctypes

    word = ctypes.c_int64(5)
    assert nothing(ctypes.addressof(word)) is None


@pytest.mark.parametrize("args, error", [((1,), TypeError), ((1, 2, 3), TypeError), ((1, "2"), TypeError), ((1, 1 << 70), OverflowError)])
def test_what_does_not_fit_raises(args, error):
    with pytest.raises(error):
        combined(*args)


def test_what_describes_a_function_to_cpython_outlives_every_module():
    # The last collection of the interpreter looks at it, after modules are gone.
    @compiled("int64(int64)")
    def same(a):
        return a

    at_definition = 2 * ctypes.sizeof(ctypes.c_void_p)
    address = ctypes.c_void_p.from_address(id(same) + at_definition).value
    (method,) = (o for o in gc.get_objects() if type(o) is compile.MethodDef and ctypes.addressof(o) == address)
    assert not [o for o in gc.get_referrers(method) if isinstance(o, (list, dict))] and sys.getrefcount(method) > 2


def with_doubled(a):
    return doubled(a) + 1


def with_both(a):
    return combined(doubled(a), a)


def test_a_helper_is_lowered_once_and_a_compiled_function_called_by_its_name():
    compile._text({"tapegrad_with_doubled": (with_doubled, "int64(int64)")})
    before = compile._lowered.cache_info().misses
    text = compile._text({"tapegrad_with_both": (with_both, "int64(int64)")})
    assert compile._lowered.cache_info().misses - before == 1
    name = compile._MADE[combined][1]
    assert f"@{name}(" in text and not [line for line in text.splitlines() if line.startswith("define") and name in line]


@compiled("float64(float64, float64)")
def least(a, b):
    return min(a, b)


@compiled("float64(float64, int64)")
def greatest(a, b):
    return max(a, b)


@compiled("int64(float64, int64)")
def whole(a, k):
    return int(a) + int(float(k))


@compiled("float64(float64, float64)")
def quotient(a, b):
    return a / b


NUMBERS = [-2.5, -0.0, 0.0, 1.0, 3.75, math.inf, -math.inf, math.nan]


@every("a, b", list(itertools.product(NUMBERS, NUMBERS)))
def test_numbers_are_compared_as_python_does(a, b):
    assert struct.pack("d", least(a, b)) == struct.pack("d", min(a, b))
    if math.isfinite(b):
        assert struct.pack("d", greatest(a, int(b))) == struct.pack("d", float(max(a, int(b))))


def test_numbers_are_converted_and_divided():
    assert [whole(a, 3) for a in (-2.5, 2.5, 0.0)] == [1, 5, 3]
    assert quotient(1.0, 0.0) == math.inf and quotient(-1.0, 0.0) == -math.inf and math.isnan(quotient(0.0, 0.0))

"""The entry through which CPython calls compiled functions."""

import ctypes
import gc
import sys

import pytest

from tapegrad.codegen import compile
from tapegrad.codegen.compile import compiled, helper, plain_address
from tapegrad.codegen.memory import load_int


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
    (method,) = (o for o in gc.get_objects() if type(o) is compile._Method and ctypes.addressof(o) == address)
    assert not [o for o in gc.get_referrers(method) if isinstance(o, (list, dict))] and sys.getrefcount(method) > 2

"""Object code that is kept: it calls what was defined, has variables of its own, and is loaded as one piece of work."""

import ctypes
import math

import pytest

from tapegrad.codegen import code, llvm, symbols
from tapegrad.common import uninterrupted

#: A table of jumps, constants, functions outside (by name, and defined here), a call inside.
TEXT = """
declare double @sin(double)
declare double @tapegrad_test_twice(double)
define internal double @half(double %x) noinline {
  %y = fmul double %x, 5.0e-1
  ret double %y
}
define double @chosen(i64 %k, double %x) {
entry:
  switch i64 %k, label %other [
    i64 0, label %zero
    i64 1, label %one
    i64 2, label %two
    i64 3, label %three
    i64 4, label %four
  ]
zero:
  %a = call double @sin(double %x)
  ret double %a
one:
  %b = call double @tapegrad_test_twice(double %x)
  ret double %b
two:
  %c = call double @half(double %x)
  ret double %c
three:
  %d = fadd double %x, 1.25
  ret double %d
four:
  %e = fdiv double 7.0, %x
  ret double %e
other:
  ret double 1.0e-3
}
"""

CHOSEN = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64, ctypes.c_double)
TWICE = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: 2.0 * x)

VARIABLE = """
@count = internal global i64 40
define i64 @next() {
  %a = load i64, ptr @count
  %b = add i64 %a, 1
  store i64 %b, ptr @count
  ret i64 %b
}
"""


@pytest.fixture
def twice_loaded(tmp_path, monkeypatch):
    """A function that has the text of a module compiled, and loaded from the disk once more; the addresses of a function in it."""
    monkeypatch.setenv("TAPEGRAD_CACHE_DIR", str(tmp_path))

    def addresses(text, name):
        before = dict(code.COUNTS)
        both = [code.machine_code(text, lambda: text, [name])[0] for _ in range(2)]
        assert [code.COUNTS[what] - before[what] for what in ("compiled", "loaded")] == [1, 1]
        return both

    return addresses


def test_what_is_loaded_computes_what_was_compiled(twice_loaded):
    symbols.define("tapegrad_test_twice", ctypes.cast(TWICE, ctypes.c_void_p).value)
    x = 0.7
    expected = [math.sin(x), 2.0 * x, 0.5 * x, x + 1.25, 7.0 / x, 1e-3]
    for address in twice_loaded(TEXT, "chosen"):
        assert [CHOSEN(address)(k, x) for k in range(6)] == expected


def test_each_load_has_variables_of_its_own(twice_loaded):
    for address in twice_loaded(VARIABLE, "next"):
        assert [ctypes.CFUNCTYPE(ctypes.c_int64)(address)() for _ in range(2)] == [41, 42]


def test_code_is_loaded_without_being_interrupted(twice_loaded, monkeypatch):
    inside, linked = [], llvm.linked

    def noted(*arguments):
        inside.append(bool(uninterrupted._INSIDE))
        return linked(*arguments)

    monkeypatch.setattr(llvm, "linked", noted)
    twice_loaded(VARIABLE, "next")
    assert inside == [True, True] and not uninterrupted._INSIDE

"""Machine code that is loaded without LLVM: the same results as linked by LLVM, and what is left to LLVM."""

import ctypes
import math
import os
import subprocess
import sys

import pytest

from tapegrad.codegen import code, host, images, llvm, symbols

pytestmark = pytest.mark.skipif(not host._cpuinfo(), reason="images are for Linux on x86-64")

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


@pytest.fixture(scope="module")
def made():
    """Object code, and its image."""
    symbols.define("tapegrad_test_twice", ctypes.cast(TWICE, ctypes.c_void_p).value)
    made = llvm.object_code(TEXT)
    return made, images.of_object(made)


@pytest.mark.parametrize("k", range(6))
def test_an_image_computes_what_the_code_linked_by_llvm_computes(made, k):
    x = 0.7
    (by_llvm,) = llvm.linked(made[0], ["chosen"])
    (by_image,) = images.load(made[1], ["chosen"])
    expected = [math.sin(x), 2.0 * x, 0.5 * x, x + 1.25, 7.0 / x, 1e-3][k]
    assert CHOSEN(by_image)(k, x) == CHOSEN(by_llvm)(k, x) == expected


def test_its_pages_cannot_be_written(made):
    (address,) = images.load(made[1], ["chosen"])
    for line in open("/proc/self/maps"):
        low, high = (int(end, 16) for end in line.split()[0].split("-"))
        if low <= address < high:
            assert line.split()[1] == "r-xp"
            return
    raise AssertionError("not mapped")


def test_a_function_that_nobody_has_is_named():
    image = images.of_object(llvm.object_code("declare void @tapegrad_nobody()\ndefine void @f() {\n  call void @tapegrad_nobody()\n  ret void\n}\n"))
    with pytest.raises(AssertionError, match="tapegrad_nobody, which nobody has"):
        images.load(image, ["f"])


VARIABLE = """
@count = internal global i64 40
define i64 @next() {
  %a = load i64, ptr @count
  %b = add i64 %a, 1
  store i64 %b, ptr @count
  ret i64 %b
}
"""


def test_code_with_a_variable_is_linked_by_llvm(tmp_path, monkeypatch):
    monkeypatch.setenv("TAPEGRAD_CACHE_DIR", str(tmp_path))
    assert images.of_object(llvm.object_code(VARIABLE)) is None
    for round in range(2):
        compiled = code.COUNTS["compiled"]
        (address,) = code.machine_code("a variable", lambda: VARIABLE, ["next"])
        assert code.COUNTS["compiled"] == compiled + (round == 0)
        assert [ctypes.CFUNCTYPE(ctypes.c_int64)(address)() for _ in range(2)] == [41, 42]


def test_what_is_no_object_code_has_no_image():
    assert images.of_object(b"\xcf\xfa\xed\xfe" + bytes(200)) is None
    assert not images.is_image(llvm.object_code(VARIABLE))


PROGRAM = """
import sys
import numpy as np
import tapegrad as tg
x = np.linspace(0.1, 0.9, 20)
value, slope = tg.value_and_grad(lambda x: np.sum(np.sin(x) * x) + np.log(x) @ x)(x)
t = tg.tensor(x, requires_grad=True)
(np.tanh(t).sum() * t[1] + tg.softmax(t, axis=0).max()).backward()
print(value.hex(), slope.tobytes().hex(), t.grad.numpy().tobytes().hex())
print(sorted(name for name in sys.modules if name in ("numba", "llvmlite.binding", "llvmlite.ir")))
"""


def test_a_later_process_loads_neither_llvm_nor_numba(tmp_path):
    environment = os.environ | {"TAPEGRAD_CACHE_DIR": str(tmp_path)}
    said = []
    for _ in range(2):
        run = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        said.append(run.stdout.splitlines())
    assert said[0][0] == said[1][0]
    assert said[0][1] != "[]" and said[1][1] == "[]"


def test_where_the_processor_is_not_described_llvm_is_asked(monkeypatch):
    found = []
    for known in ({}, host._cpuinfo()):
        monkeypatch.setattr(host, "_cpuinfo", lambda: known)
        for function in (host.identity, host.features):
            function.cache_clear()
        found.append((host.identity(), {"sse2", "avx2", "avx512f"} & host.features()))
    for function in (host.identity, host.features):
        function.cache_clear()
    assert found[0][0] != found[1][0] and found[0][1] == found[1][1]

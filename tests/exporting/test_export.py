"""Exported functions: called from C, and from a process without tapegrad, beside `tg.jit` of the same function."""

import ctypes
import platform
import shutil
import struct
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import OptionError, UnsupportedFunctionError
from tapegrad.exporting import files, targets
from tapegrad.exporting.module import STATUSES
from tests.every import every

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")

RNG = np.random.default_rng(0)
FEATURES, LABELS = RNG.standard_normal((40, 4)), np.sign(RNG.standard_normal(40))
SCORES = np.log(RNG.dirichlet(np.ones(4), size=8))
TIMES = np.linspace(0.0, 2.0, 21)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def predators(p):
    """The misfit of two populations, in Runge-Kutta steps."""
    u, v, total = 1.0 + 0.0 * p[0], 0.5 + 0.0 * p[0], 0.0
    for dt in np.diff(TIMES):
        ku, kv = u * (p[0] - p[1] * v), v * (p[3] * u - p[2])
        um, vm = u + 0.5 * dt * ku, v + 0.5 * dt * kv
        u, v = u + dt * um * (p[0] - p[1] * vm), v + dt * vm * (p[3] * um - p[2])
        total = total + (np.log(u) - 0.1) ** 2 + (np.log(v) + 0.3) ** 2
    return total


def logistic(w):
    return np.mean(np.log1p(np.exp(-LABELS * (FEATURES @ w)))) + 0.01 * np.sum(w**2)


def ctc(shift, labels=(0, 1, 0, 2, 0)):
    """Minus the logarithm of the chance of a labelling (Graves et al., 2006)."""
    scores = SCORES + shift
    scores = scores - np.log(np.sum(np.exp(scores), axis=1))[:, None]
    alpha = [scores[0, labels[0]], scores[0, labels[1]]] + [-1e3] * (len(labels) - 2)
    for t in range(1, len(SCORES)):
        before, alpha = alpha, []
        for s, label in enumerate(labels):
            total = before[s]
            if s > 0:
                total = np.logaddexp(total, before[s - 1])
            if s > 1 and label not in (0, labels[s - 2]):
                total = np.logaddexp(total, before[s - 2])
            alpha.append(total + scores[t, label])
    return -np.logaddexp(alpha[-1], alpha[-2])


CASES = {
    "rosenbrock": (rosenbrock, np.linspace(-1.0, 1.2, 6)), "predators": (predators, np.array([1.1, 0.9, 1.2, 0.8])),
    "logistic": (logistic, RNG.standard_normal(4)), "ctc": (ctc, 0.1 * RNG.standard_normal(4)),
}  # fmt: skip


def called(made, *arguments, results, size=None, checksum=None):
    """Status and results of an exported function, by ctypes."""
    library = ctypes.CDLL(str(made.shared))
    name = made.header.stem
    of = getattr(library, f"{name}_checksum")
    of.restype = ctypes.c_uint64
    arrays = [a if a is None else np.asarray(a) for a in arguments]
    out = [np.full(shape, -7.0) if isinstance(shape, tuple) else np.zeros((), shape) for shape in results]
    work = np.full(made.workspace, 255, np.uint8)
    given = (ctypes.c_void_p * (len(arrays) + len(out)))(*(None if a is None else a.ctypes.data for a in (*arrays, *out)))
    call = getattr(library, f"{name}_call")
    status = call(
        ctypes.c_uint64(of() if checksum is None else checksum), given, ctypes.c_void_p(work.ctypes.data),
        ctypes.c_size_t(made.workspace if size is None else size),
    )  # fmt: skip
    return status, out


@every("name", sorted(CASES))
def test_value_gradient_and_hessian_are_the_bits_of_jit(name, tmp_path):
    f, x = CASES[name]

    def all_three(x):
        return f(x), tg.grad(f)(x), tg.hessian(f)(x)

    other = 1.01 * x
    for g, shapes in ((tg.value_and_grad(f), [(), x.shape]), (all_three, [(), x.shape, x.shape * 2])):
        made = tg.export(g, x, tmp_path / f"{name}{len(shapes)}")
        status, found = called(made, other, results=shapes)
        expected = tg.jit(g, kernel="always")
        for _ in range(2):
            values = expected(other)
        assert status == 0
        # The Hessian of `logistic` is a product of matrices, which has another BLAS here.
        assert (made.routines == ("dgemm",)) == (name == "logistic" and len(shapes) == 3)
        for one, value in zip(found, values, strict=True):
            np.testing.assert_allclose(one, value, rtol=1e-12 if made.routines else 0.0)
    plain = all_three(other)
    for one, value in zip(found, plain):
        np.testing.assert_allclose(one, value, rtol=1e-11, atol=1e-12)


MAIN = r"""
#include <stdio.h>
#include <string.h>
#include "loss.h"
int main(void) {
    double w[4] = {0.1, -0.2, 0.3, 0.4}, value = -1, gradient[4] = {-1, -1, -1, -1};
    static unsigned char workspace[LOSS_WORKSPACE];
    int status = loss(w, &value, gradient, workspace, sizeof workspace);
    printf("%d %.17g %.17g %.17g %.17g %.17g\n", status, value, gradient[0], gradient[1], gradient[2], gradient[3]);
    printf("%d\n", loss_checksum() == LOSS_CHECKSUM && loss_workspace() == LOSS_WORKSPACE && !strcmp(loss_message(LOSS_NULL_ARGUMENT), "an argument is NULL"));
    return 0;
}
"""


@every("cpu, vector_math, cxx", [("host", True, False), ("x86-64-v3", False, True), ("x86-64", True, False)])
def test_from_c(cpu, vector_math, cxx, tmp_path):
    if platform.machine() != "x86_64":
        pytest.skip("processors of another kind")
    made = tg.export(tg.value_and_grad(logistic), np.zeros(4), tmp_path / "loss", cpu=cpu, vector_math=vector_math)
    assert vector_math or not any(name.startswith("_ZGV") for name in made.symbols)
    (tmp_path / "main.c").write_text(MAIN)
    compiler = ["g++", "-x", "c++"] if cxx and shutil.which("g++") else ["cc", "-std=c99"]
    libraries = ["-lmvec"] * any(name.startswith("_ZGV") for name in made.symbols) + ["-lm"]
    command = [*compiler, "-Wall", "-Wextra", "-Werror", "main.c", "-x", "none", "loss.o", "-o", "main", *libraries]
    subprocess.run(command, cwd=tmp_path, check=True)
    first, second = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout.splitlines()
    status, value, *gradient = map(float, first.split())
    expected = tg.value_and_grad(logistic)(np.array([0.1, -0.2, 0.3, 0.4]))
    assert (status, second) == (0.0, "1")
    np.testing.assert_allclose(value, expected[0], rtol=1e-13)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-12)


def test_from_a_process_without_tapegrad(tmp_path):
    made = tg.export(tg.grad(rosenbrock), np.zeros(3), tmp_path / "slope")
    program = f"""
import ctypes, sys
lib = ctypes.CDLL({str(made.shared)!r})
lib.slope_checksum.restype = ctypes.c_uint64
x, value, g, work = (ctypes.c_double * 3)(0.5, 0.5, 0.5), ctypes.c_double(), (ctypes.c_double * 3)(), ctypes.create_string_buffer({made.workspace})
given = (ctypes.c_void_p * 3)(*map(ctypes.addressof, (x, value, g)))
status = lib.slope_call(ctypes.c_uint64(lib.slope_checksum()), given, work, ctypes.c_size_t({made.workspace}))
assert not {{"tapegrad", "numpy", "numba"}} & set(sys.modules)
print(status, value.value, *g)
"""
    out = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True, env={}).stdout
    status, value, *gradient = map(float, out.split())
    assert status == 0 and value == pytest.approx(rosenbrock(np.full(3, 0.5)), rel=1e-14)
    np.testing.assert_allclose(gradient, tg.grad(rosenbrock)(np.full(3, 0.5)), rtol=1e-13)


def branch(x):
    return np.sum(x**2) if x[0] > 0.0 else np.sum(x)


def loop(x):
    y = x[0]
    while y < 4.0:
        y = y * 2.0
    return y * x[1]


def mask(x):
    return np.sum(x[x > 0.7] ** 2)


def index(x):
    return (np.arange(2.0) * x[1])[np.floor(x[0]).astype(int)]


ON, OFF = np.array([1.0, 2.0, 3.0]), np.array([-3.0, 1.0, 0.5])
GUARDED = {"branch": branch, "loop": loop, "mask": mask, "index": index}


@every("name", sorted(GUARDED))
def test_off_the_recorded_path_there_is_a_status_and_no_number(name, tmp_path):
    f = GUARDED[name]
    made = tg.export(tg.value_and_grad(f), ON, tmp_path / name)
    status, (value, gradient) = called(made, 1.0 * ON, results=[(), (3,)])
    assert status == 0 and value == f(ON)
    np.testing.assert_allclose(gradient, tg.grad(f)(ON))
    status, (value, gradient) = called(made, OFF, results=[(), (3,)])
    assert status > 0 and value == -7.0 and (gradient == -7.0).all()
    assert ("is outside of its array" if name in ("mask", "index") else "test_export.py") in made.guards[status - 1]
    assert made.guards[status - 1].replace("*/", "* /") in made.header.read_text()


def test_a_derivative_that_is_not_finite_is_a_status(tmp_path):
    made = tg.export(tg.value_and_grad(lambda x: np.sum(np.sqrt(x))), ON, tmp_path / "root")
    status, (value, gradient) = called(made, np.zeros(3), results=[(), (3,)])
    assert status == STATUSES["NOT_FINITE"][0] and value == -7.0 and (gradient == -7.0).all()


def test_wrong_callers_get_a_status(tmp_path):
    made = tg.export(tg.value_and_grad(rosenbrock), ON, tmp_path / "f")
    results = [(), (3,)]
    for expected, more in {
        "OTHER_HEADER": {"checksum": 1}, "TOO_SMALL": {"size": made.workspace - 1}, "OK": {"size": made.workspace + 1000},
    }.items():  # fmt: skip
        status, (value, gradient) = called(made, ON, results=results, **more)
        assert status == STATUSES[expected][0], expected
        assert expected == "OK" or value == -7.0 and (gradient == -7.0).all()
    assert called(made, None, results=results)[0] == STATUSES["NULL_ARGUMENT"][0]


def test_a_processor_without_the_instructions_gets_a_status(tmp_path, monkeypatch):
    host = targets.named("host")
    missing = [name for bits in targets._BITS.values() for name in bits if name not in targets.enabled(host.features)]
    if not host.x86 or not missing:
        pytest.skip("this processor has all instructions that are asked for")
    monkeypatch.setattr(files, "named", lambda cpu: replace(host, features=f"{host.features},+{missing[0]}"))
    made = tg.export(tg.value_and_grad(rosenbrock), ON, tmp_path / "f")
    status, (value, _) = called(made, ON, results=[(), (3,)])
    assert status == STATUSES["OTHER_PROCESSOR"][0] and value == -7.0


def test_an_instruction_set_that_no_processor_has(tmp_path, monkeypatch):
    host = targets.named("host")
    if not host.x86:
        pytest.skip("another kind of processor")
    # The bit is reserved: no processor sets it.
    monkeypatch.setitem(targets._BITS, (1, 2), {**targets._BITS[1, 2], "none": 16})
    processor = targets.Processor(host.triple, host.cpu, host.features)
    monkeypatch.setattr(targets, "enabled", lambda features, enabled=targets.enabled: enabled(features) | {"none"})
    monkeypatch.setattr(files, "named", lambda cpu: processor)
    made = tg.export(tg.value_and_grad(rosenbrock), ON, tmp_path / "f")
    for _ in range(2):
        status, (value, gradient) = called(made, ON, results=[(), (3,)])
        assert status == STATUSES["OTHER_PROCESSOR"][0] and value == -7.0 and (gradient == -7.0).all()


def test_for_arm(tmp_path):
    made = tg.export(tg.value_and_grad(ctc), np.zeros(4), tmp_path / "f", cpu="aarch64")
    raw = made.object.read_bytes()
    assert raw[:4] == b"\x7fELF" and struct.unpack("<H", raw[18:20]) == (183,)
    assert set(made.symbols) <= {"exp", "log", "log1p", "memcpy"}
    assert platform.machine() == "aarch64" or made.shared is None or shutil.which("aarch64-linux-gnu-gcc")


def test_products_by_loops_and_by_blas(tmp_path):
    a = RNG.standard_normal((20, 12))

    def f(w):
        return np.sum(np.tanh(a @ w) ** 2)

    w = RNG.standard_normal((12, 15))
    made = tg.export(tg.value_and_grad(f), w, tmp_path / "f")
    expected = tg.value_and_grad(f)(w)
    dgemm = ctypes.cast(_address_of_dgemm(), ctypes.c_void_p)
    for blas in (None, dgemm):
        ctypes.CDLL(str(made.shared)).f_set_dgemm(blas)
        status, (value, gradient) = called(made, w, results=[(), w.shape])
        assert status == 0
        np.testing.assert_allclose(value, expected[0], rtol=1e-13)
        np.testing.assert_allclose(gradient, expected[1], rtol=1e-11, atol=1e-12)


def _address_of_dgemm():
    from scipy.linalg import cython_blas

    capsule = cython_blas.__pyx_capi__["dgemm"]
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return pointer(capsule, name(capsule))


def test_numbers_containers_and_constants(tmp_path):
    def f(x, p, power):
        return {"a": x[0] * p["rate"] ** power, "constant": 3.0, "x": x[1:] + p["double"]}

    made = tg.export(f, (ON, {"rate": 2.0, "double": 0.5}, 3), tmp_path / "f")
    status, (a, constant, x) = called(made, 2.0 * ON, 3.0, 1.0, results=[(), (), (2,)])
    assert (status, a, constant, x.tolist()) == (0, 54.0, 3.0, [5.0, 7.0])
    text = made.header.read_text()
    assert "int f(const double *x, double p_rate, double p_double, double *value_a, double *value_constant, double *value_x, void *workspace, size_t size)" in text


def test_arrays_of_integers_and_truth_values_are_arguments(tmp_path):
    def f(x, n, mask):
        return np.sum(x[n] ** 2 * n) if mask[0] else x[0]

    x, n = np.array([0.5, -1.0, 2.0]), np.array([2, 0, 1], np.int32)
    made = tg.export(tg.value_and_grad(f), (x, n, np.array([True, False])), tmp_path / "f")
    assert "int f(const double *x, const int32_t *n, const uint8_t *mask, double *value, double *gradient_x," in made.header.read_text()
    status, (value, gradient) = called(made, x, np.array([1, 2, 2], np.int32), np.array([True, True]), results=[(), (3,)])
    assert (status, value, gradient.tolist()) == (0, 17.0, [0.0, -2.0, 16.0])
    assert called(made, x, n, np.array([False, True]), results=[(), (3,)])[0] == 1


def test_constant_results_of_any_dtype(tmp_path):
    given = (2**63 - 1, np.uint64(2**64 - 3), np.int8(-3), True)
    made = tg.export(lambda x: (*given, x), 1.5, tmp_path / "f")
    status, found = called(made, 2.5, results=[np.int64, np.uint64, np.int8, bool, ()])
    assert (status, *(one.item() for one in found)) == (0, *(np.asarray(one).item() for one in given), 2.5)
    made = tg.export(tg.hessian(np.sum), ON, tmp_path / "h")
    assert called(made, ON, results=[(3, 3)])[1][0].tolist() == np.zeros((3, 3)).tolist()
    with pytest.raises(UnsupportedFunctionError, match="a constant result is of float16, which kernels have not"):
        tg.export(lambda x: (np.float16(2.0), x), 1.5, tmp_path / "g")


def test_loops_and_choices(tmp_path):
    def f(x):
        last, each = tg.scan(lambda c, u: (np.sin(c) * u, c * u), x[0], np.arange(1.0, 6.0) * x[1])
        last = tg.while_loop(lambda s: s < 4.0, lambda s: s * 1.5 + 1.0, last)
        return tg.cond(x[2] > 0.0, lambda v: v * v, lambda v: -v, last) + np.sum(each) + np.sum(tg.vmap(np.exp)(x))

    x = np.array([0.3, 0.7, 0.5])
    made = tg.export(tg.value_and_grad(f), x, tmp_path / "f")
    status, (value, gradient) = called(made, 1.01 * x, results=[(), (3,)])
    expected = tg.value_and_grad(f)(1.01 * x)
    assert status == 0
    np.testing.assert_allclose([value, *gradient], [expected[0], *expected[1]], rtol=1e-13)
    assert called(made, -x, results=[(), (3,)])[0] > 0


def test_large_loops_that_threads_would_share(tmp_path):
    def f(x):
        return np.sum(np.exp(-x) * np.sin(x))

    x = np.linspace(0.0, 3.0, 200_000)
    made = tg.export(tg.value_and_grad(f), x, tmp_path / "f")
    status, (value, gradient) = called(made, x, results=[(), x.shape])
    expected = tg.jit(tg.value_and_grad(f), kernel="always")
    for _ in range(2):
        found = expected(x)
    assert status == 0 and value == found[0]
    np.testing.assert_array_equal(gradient, found[1])


def test_what_cannot_be_exported_is_named(tmp_path):
    for f, match in {
        lambda x: tg.digamma(x): "digamma is computed by SciPy", lambda x: x[np.argsort(x)] * x: "argsort is computed by NumPy",
    }.items():  # fmt: skip
        with pytest.raises(UnsupportedFunctionError, match=match):
            tg.export(f, ON, tmp_path / "f")
    for path, more, match in (("a-b", {}, "'a-b' is the name"), ("1a", {}, "'1a' is the name"), ("f", {"cpu": "z80"}, "cpu='z80'")):
        with pytest.raises(OptionError, match=match):
            tg.export(rosenbrock, ON, tmp_path / path, **more)
    assert list(tmp_path.iterdir()) == []


def test_two_of_them_in_one_program(tmp_path):
    for name, f in (("one", rosenbrock), ("two", logistic)):
        tg.export(tg.value_and_grad(f), np.zeros(4), tmp_path / name)
    (tmp_path / "main.c").write_text(
        '#include "one.h"\n#include "two.h"\nint main(void) { static char w[ONE_WORKSPACE + TWO_WORKSPACE]; double x[4] = {0}, v, g[4];'
        " return one(x, &v, g, w, sizeof w) + two(x, &v, g, w, sizeof w); }\n"
    )
    subprocess.run(["cc", "main.c", "one.o", "two.o", "-o", "main", "-lm", "-lmvec"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "main"]).returncode == 0

"""Exported functions of matrices: by the LAPACK that the caller sets, beside `tg.jit` of the same function."""

import ctypes
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
from scipy.linalg import cython_blas, cython_lapack

import tapegrad as tg
import tapegrad.scipy.linalg as sl
from tapegrad.errors import UnsupportedFunctionError
from tapegrad.exporting.module import STATUSES
from tests.every import every
from tests.exporting.test_export import called

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")

RNG = np.random.default_rng(0)
N = 9
W, B = RNG.standard_normal((N, N)), RNG.standard_normal(N)
A = W @ W.T + N * np.eye(N)
X, T = RNG.standard_normal((12, 2)), RNG.standard_normal(12)


def address(name):
    """That of a routine of the LAPACK that SciPy has."""
    capsule = (cython_blas if name == "dgemm" else cython_lapack).__pyx_capi__[name]
    name_of, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return pointer(capsule, name_of(capsule))


def with_lapack(made, routines=None):
    library = ctypes.CDLL(str(made.shared))
    for name in made.routines if routines is None else routines:
        getattr(library, f"{made.header.stem}_set_{name}")(ctypes.c_void_p(address(name)))
    return made


def untouched(out):
    return all((one == -7.0).all() for one in out)


def gaussian(mean, a):
    """The log-density of a normal distribution."""
    away = B - mean
    return -0.5 * (away @ np.linalg.solve(a, away) + np.linalg.slogdet(a)[1] + N * np.log(2.0 * np.pi))


def process(theta):
    """The likelihood of a Gaussian process, by its Cholesky factor."""
    distances = np.sum((X[:, None] - X[None]) ** 2, axis=-1)
    low = np.linalg.cholesky(np.exp(theta[0] - distances * np.exp(theta[1])) + np.exp(theta[2]) * np.eye(len(X)))
    return -0.5 * np.sum(sl.solve_triangular(low, T, lower=True) ** 2) - np.sum(np.log(np.diagonal(low)))


def filtered(x):
    """Solves in a loop."""
    state = B
    for k in range(25):
        state = np.tanh(np.linalg.solve(x + (2.0 + k) * np.eye(N), state)) + B
    return np.sum(state**2)


def branch(a):
    sign, size = np.linalg.slogdet(a)
    return size if sign > 0.0 else a[0, 0]


def parts(a):
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return np.sum(W[: u.shape[-2], : u.shape[-1]] * u**2) + np.sum(s**3) + np.sum(W[: vh.shape[-2], : vh.shape[-1]] * vh**2)


def factors(a):
    q, r = np.linalg.qr(a[..., :4])
    return np.sum(W[:, :4] * q) + np.sum(W[:4, :4] * r)


def vectors(a, uplo="L"):
    w, v = np.linalg.eigh(a, uplo)
    return np.sum(w**2) + np.sum(W * v**2)


TRIANGULAR = {
    f"solve_triangular {'lower' if lower else 'upper'} {trans} {'unit' if unit else ''}": lambda a, lower=lower, trans=trans, unit=unit: np.sum(
        W * sl.solve_triangular(a, W, trans, lower, unit)
    )
    for lower in (False, True) for trans in ("N", "T") for unit in (False, True)
}  # fmt: skip
STACK = np.stack([A, A + 1.0, 1.5 * A])
CASES = {
    "solve": (lambda a: np.sum(np.linalg.solve(a, B)), A), "inv": (lambda a: np.sum(W * np.linalg.inv(a)), A), "det": (np.linalg.det, A / N),
    "slogdet": (lambda a: np.linalg.slogdet(a)[1], A), "branch": (branch, A), "cholesky": (lambda a: np.sum(W * np.linalg.cholesky(a)), A),
    "cholesky upper": (lambda a: np.sum(W * np.linalg.cholesky(a, upper=True)), A), "eigh": (vectors, A), "eigh U": (lambda a: vectors(a, "U"), A),
    "pinv": (lambda a: np.sum(np.linalg.pinv(a[:, :5]) * a[:5]), W), "lstsq": (lambda a: np.sum(np.linalg.lstsq(a[:, :5], B, rcond=None)[0] ** 2), W),
    "svd": (lambda a: parts(a[:, :5]), W), "svd wide": (lambda a: parts(a[:5]), W), "qr": (factors, W), "loop": (filtered, A), "process": (process, np.array([0.3, -0.5, -2.0])),
    "stack of products": (lambda a: np.sum(np.tanh(a @ W) ** 2), STACK), "stack of solutions": (lambda a: np.sum(np.linalg.solve(a, B[:, None])), STACK),
    "stack of sizes": (lambda a: np.sum(np.linalg.slogdet(a)[1]), STACK), "stack of factors": (lambda a: np.sum(W * np.linalg.cholesky(a)), STACK),
    "stack of eigenvalues": (vectors, STACK), "stack of parts": (parts, STACK[:, :5] * W[:5]), "stack of qr": (factors, STACK * W),
    "stack for one triangle": (lambda a: np.sum(sl.solve_triangular(a, STACK, lower=True)), A), **{name: (f, A) for name, f in TRIANGULAR.items()},
}  # fmt: skip


@every("name", sorted(CASES))
def test_value_and_gradient_are_those_of_jit_and_without_lapack_a_status(name, tmp_path):
    f, x = CASES[name]
    g = tg.value_and_grad(f)
    made = tg.export(g, x, tmp_path / name.replace(" ", "_"))
    other, needed = 1.01 * x, [routine for routine in made.routines if routine != "dgemm"]
    assert needed or name == "stack of products"
    # All but one are not enough.
    for some in ([], needed[1:]) if needed else ():
        status, out = called(with_lapack(made, some), other, results=[(), x.shape])
        assert status == STATUSES["NOT_SET"][0] and untouched(out)
    # Where dgemm is not set products are loops.
    for routines in (needed, made.routines):
        with_lapack(made, routines)
        status, (value, gradient) = called(made, other, results=[(), x.shape])
        expected = tg.jit(g, kernel="always")
        for _ in range(2):
            result, slope = expected(other)
        assert status == 0
        scale = np.abs(slope).max()
        np.testing.assert_allclose(value, result, rtol=1e-13)
        np.testing.assert_allclose(gradient / scale, slope / scale, rtol=1e-13, atol=1e-13)


def test_a_density_with_its_hessian(tmp_path):
    def density(theta):
        return gaussian(theta[0] * B, A + theta[1] * np.eye(N))

    def all_three(theta):
        return density(theta), tg.grad(density)(theta), tg.hessian(density)(theta)

    theta = np.array([0.3, 0.7])
    made = with_lapack(tg.export(all_three, theta, tmp_path / "density"))
    status, found = called(made, 1.1 * theta, results=[(), (2,), (2, 2)])
    assert status == 0 and set(made.routines) >= {"dgesv", "dgetrf"}
    for one, expected in zip(found, tg.jit(all_three)(1.1 * theta), strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-12)


SINGULAR = {
    "solve": np.ones((N, N)), "inv": np.zeros((N, N)), "cholesky": -np.eye(N), "cholesky upper": np.diag(np.arange(N) - 1.0),
    "solve_triangular lower N ": np.triu(A, 1), "stack of solutions": np.stack([A, np.ones((N, N)), A]),
}  # fmt: skip


@every("name", sorted(SINGULAR))
def test_no_answer_is_a_status_and_no_number(name, tmp_path):
    f, x = CASES[name]
    made = with_lapack(tg.export(tg.value_and_grad(f), x, tmp_path / f"wrong_{name.replace(chr(32), chr(95))}"))
    unknown = np.where(np.arange(N) == 3, np.nan, x), np.where(np.arange(N) == 3, np.inf, x)
    for wrong in (SINGULAR[name], *unknown):
        status, out = called(made, wrong, results=[(), x.shape])
        assert status == STATUSES["NO_SOLUTION"][0] and untouched(out)
    # The next call is another one.
    status, out = called(made, x, results=[(), x.shape])
    assert status == 0 and out[0] == pytest.approx(f(x), rel=1e-12)


def test_what_singular_matrices_have(tmp_path):
    """A determinant, with a gradient; and the logarithm of that, which has none."""
    rank_one_less = np.diag([*np.arange(1.0, N), 0.0])
    made = with_lapack(tg.export(tg.value_and_grad(np.linalg.det), A, tmp_path / "det"))
    status, (value, gradient) = called(made, rank_one_less, results=[(), (N, N)])
    assert status == 0 and value == 0.0
    np.testing.assert_allclose(gradient, tg.grad(np.linalg.det)(rank_one_less), atol=1e-9)
    made = with_lapack(tg.export(tg.value_and_grad(lambda a: np.linalg.slogdet(a)[1]), A, tmp_path / "size"))
    status, out = called(made, rank_one_less, results=[(), (N, N)])
    assert status == STATUSES["NO_SOLUTION"][0] and untouched(out)
    made = with_lapack(tg.export(tg.value_and_grad(branch), A, tmp_path / "branch"))
    status, out = called(made, -A, results=[(), (N, N)])
    assert status > 0 and "sign > 0.0" in made.guards[status - 1] and untouched(out)


def test_many_threads_call_it_and_nothing_is_allocated(tmp_path):
    made = with_lapack(tg.export(tg.value_and_grad(process), np.zeros(3), tmp_path / "f"))
    outside = {"exp", "log", "memcpy", *(name for name in made.symbols if name.startswith("_ZGV"))}
    assert set(made.symbols) <= outside
    if shutil.which("nm"):
        listed = subprocess.run(["nm", "-u", made.object], capture_output=True, text=True, check=True).stdout.split()
        assert set(listed) - {"U"} <= outside
    points = RNG.standard_normal((4, 3))
    expected, wrong = [tg.value_and_grad(process)(x) for x in points], []

    def calls(x, value, slope):
        for _ in range(50):
            status, found = called(made, x, results=[(), (3,)])
            if status or abs(found[0] - value) > 1e-11 * abs(value) or np.abs(found[1] - slope).max() > 1e-10 * np.abs(slope).max():
                wrong.append((status, found))

    threads = [threading.Thread(target=calls, args=(x, *values)) for x, values in zip(points, expected)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


#: LU and Cholesky factors by hand, as Fortran calls them.
NAIVE = r"""
#include <math.h>
void naive_getrf(const int *m, const int *n, double *a, const int *lda, int *pivots, int *info) {
    int l = *lda; (void)m; *info = 0;
    for (int k = 0; k < *n; k++) {
        int p = k;
        for (int i = k + 1; i < *n; i++) if (fabs(a[i + l * k]) > fabs(a[p + l * k])) p = i;
        pivots[k] = p + 1;
        if (a[p + l * k] == 0.0) { if (!*info) *info = k + 1; continue; }
        for (int j = 0; j < *n; j++) { double t = a[k + l * j]; a[k + l * j] = a[p + l * j]; a[p + l * j] = t; }
        for (int i = k + 1; i < *n; i++) {
            a[i + l * k] /= a[k + l * k];
            for (int j = k + 1; j < *n; j++) a[i + l * j] -= a[i + l * k] * a[k + l * j];
        }
    }
}
void naive_gesv(const int *n, const int *nrhs, double *a, const int *lda, int *pivots, double *b, const int *ldb, int *info) {
    int l = *lda, lb = *ldb;
    naive_getrf(n, n, a, lda, pivots, info);
    if (*info) return;
    for (int r = 0; r < *nrhs; r++) {
        double *x = b + lb * r;
        for (int k = 0; k < *n; k++) { double t = x[k]; x[k] = x[pivots[k] - 1]; x[pivots[k] - 1] = t; }
        for (int i = 0; i < *n; i++) for (int j = 0; j < i; j++) x[i] -= a[i + l * j] * x[j];
        for (int i = *n - 1; i >= 0; i--) { for (int j = i + 1; j < *n; j++) x[i] -= a[i + l * j] * x[j]; x[i] /= a[i + l * i]; }
    }
}
"""
MAIN = r"""
#include <stdio.h>
#include <string.h>
#include "density.h"
#ifdef SYSTEM
void dgesv_(const int *, const int *, double *, const int *, int *, double *, const int *, int *);
void dgetrf_(const int *, const int *, double *, const int *, int *, int *);
#define naive_gesv dgesv_
#define naive_getrf dgetrf_
#else
void naive_gesv(const int *, const int *, double *, const int *, int *, double *, const int *, int *);
void naive_getrf(const int *, const int *, double *, const int *, int *, int *);
#endif
static unsigned char workspace[DENSITY_WORKSPACE];
int main(void) {
    double mean[9] = {0.1, 0.2}, a[81] = {0}, value = -7, by_mean[9], by_a[81];
    for (int i = 0; i < 9; i++) for (int j = 0; j < 9; j++) a[9 * i + j] = i == j ? 2.0 + i : 1.0 / (1 + i + j);
    int status = density(mean, a, &value, by_mean, by_a, workspace, sizeof workspace);
    printf("%d %g %d\n", status == DENSITY_NOT_SET, value, !strcmp(density_message(status), "a function of LAPACK was not set"));
    density_set_dgesv(naive_gesv);
    printf("%d\n", density(mean, a, &value, by_mean, by_a, workspace, sizeof workspace) == DENSITY_NOT_SET);
    density_set_dgetrf(naive_getrf);
    status = density(mean, a, &value, by_mean, by_a, workspace, sizeof workspace);
    printf("%d %.17g\n", status, value);
    for (int i = 0; i < 9; i++) printf("%.17g ", by_mean[i]);
    for (int i = 0; i < 81; i++) printf("%.17g ", by_a[i]);
    for (int i = 0; i < 81; i++) a[i] = 1.0;
    value = by_a[0] = -7;
    status = density(mean, a, &value, by_mean, by_a, workspace, sizeof workspace);
    printf("\n%d %g %g\n", status == DENSITY_NO_SOLUTION, value, by_a[0]);
    return 0;
}
"""


def exported_density(folder):
    made = tg.export(tg.value_and_grad(gaussian, argnums=(0, 1)), (np.zeros(N), A), folder / "density")
    (folder / "naive.c").write_text(NAIVE)
    (folder / "main.c").write_text(MAIN)
    mean, i = np.array([0.1, 0.2, *np.zeros(N - 2)]), np.arange(N)
    a = np.where(i[:, None] == i, 2.0 + i, 1.0 / (1.0 + i[:, None] + i))
    return made, mean, a


@every("kind", ["C", "C++", "system"])
def test_from_c(kind, tmp_path):
    made, mean, a = exported_density(tmp_path)
    compiler = ["g++"] if kind == "C++" and shutil.which("g++") else ["cc", "-std=c99"]
    libraries = ["-llapack"] * (kind == "system") + ["-lmvec"] * any(name.startswith("_ZGV") for name in made.symbols) + ["-lm"]
    command = [*compiler, "-Wall", "-Wextra", "-Werror"]
    if kind == "system" and subprocess.run(["cc", "-x", "c", "-", "-llapack", "-o", tmp_path / "none"], input=b"int main(void) { return 0; }", capture_output=True).returncode:
        pytest.skip("there is no LAPACK for C programs")
    if kind == "system":
        subprocess.run([*command, "-DSYSTEM", "main.c", "density.o", "-o", "main", *libraries], cwd=tmp_path, check=True)
    else:
        subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-c", "naive.c"], cwd=tmp_path, check=True)
        main = "main.cc" if compiler == ["g++"] else "main.c"
        text = MAIN.replace('#include "density.h"', '#include "density.h"\nextern "C" {').replace("static unsigned", "}\nstatic unsigned") if main == "main.cc" else MAIN
        (tmp_path / main).write_text(text)
        subprocess.run([*command, main, "density.o", "naive.o", "-o", "main", *libraries], cwd=tmp_path, check=True)
    unset, half, done, slopes, singular = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert (unset, half, singular) == ("1 -7 1", "1", "1 -7 -7")
    status, value = map(float, done.split())
    expected, (by_mean, by_a) = tg.value_and_grad(gaussian, argnums=(0, 1))(mean, a)
    assert status == 0.0 and value == pytest.approx(expected, rel=1e-13)
    np.testing.assert_allclose(np.array(slopes.split(), float), [*by_mean, *by_a.ravel()], rtol=1e-12, atol=1e-13)


def test_from_a_process_without_tapegrad(tmp_path):
    made, mean, a = exported_density(tmp_path)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "naive.c", "-o", "naive.so", "-lm"], cwd=tmp_path, check=True)
    program = f"""
import ctypes, sys
lib, naive = ctypes.CDLL({str(made.shared)!r}), ctypes.CDLL({str(tmp_path / "naive.so")!r})
lib.density_checksum.restype = ctypes.c_uint64
mean, a, value = (ctypes.c_double * 9)(*{mean.tolist()}), (ctypes.c_double * 81)(*{a.ravel().tolist()}), ctypes.c_double(-7.0)
by_mean, by_a, work = (ctypes.c_double * 9)(), (ctypes.c_double * 81)(), ctypes.create_string_buffer({made.workspace})
given = (ctypes.c_void_p * 5)(*map(ctypes.addressof, (mean, a, value, by_mean, by_a)))
def call():
    return lib.density_call(ctypes.c_uint64(lib.density_checksum()), given, work, ctypes.c_size_t({made.workspace}))
print(call(), value.value)
lib.density_set_dgesv(naive.naive_gesv), lib.density_set_dgetrf(naive.naive_getrf)
print(call(), value.value, *by_mean, *by_a)
assert not {{"tapegrad", "numpy", "numba"}} & set(sys.modules)
"""
    out = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True, env={}).stdout
    first, second = out.splitlines()
    assert first == f"{STATUSES['NOT_SET'][0]} -7.0"
    status, value, *slopes = map(float, second.split())
    expected, (by_mean, by_a) = tg.jit(tg.value_and_grad(gaussian, argnums=(0, 1)))(mean, a)
    assert status == 0.0 and value == pytest.approx(expected, rel=1e-13)
    np.testing.assert_allclose(slopes, [*by_mean, *by_a.ravel()], rtol=1e-12, atol=1e-13)


def test_a_header_declares_what_is_called_and_no_more(tmp_path):
    made = tg.export(tg.value_and_grad(process), np.zeros(3), tmp_path / "f")
    text = made.header.read_text()
    declared = {line.split("_set_")[1].split("(")[0] for line in text.splitlines() if "_set_" in line}
    assert declared == set(made.routines) == {"dgemm", "dgesv", "dpotrf", "dtrtrs"}
    assert "void f_set_dpotrf(void (*dpotrf)(const char *, const int *, double *, const int *, int *));" in text
    assert all(message in text for _, message in STATUSES.values())


def test_for_arm(tmp_path):
    made = tg.export(tg.value_and_grad(process), np.zeros(3), tmp_path / "f", cpu="aarch64")
    assert "dpotrf" in made.routines and set(made.symbols) <= {"exp", "log", "memcpy"}


def test_other_functions_of_matrices_are_refused_by_name(tmp_path):
    for f, name in {
        lambda a: np.sum(np.abs(np.linalg.eigvals(a))): "eig", lambda a: np.sum(a[0][np.argsort(a[0])[:3]]): "argsort",
    }.items():
        with pytest.raises(UnsupportedFunctionError, match=f"{name}.* is computed by NumPy"):
            tg.export(tg.value_and_grad(f), A, tmp_path / "f")
    with pytest.raises(UnsupportedFunctionError, match="solve is computed by NumPy"):
        tg.export(tg.value_and_grad(lambda a: np.sum(np.linalg.solve(a, a))), A.astype(np.float32), tmp_path / "f")
    assert list(tmp_path.iterdir()) == []

"""Tapes as functions: every transformation takes one that was recorded or loaded, and other paths are refused by line."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import GuardError, ShapeError, TapeFileError
from tapegrad.transforms.saving.save import from_bytes, to_bytes
from tests.transforms.saving import fuzz

X = fuzz.POINT
V = np.linspace(-1.0, 1.0, 6)
#: Transformations of a function of a vector, each as a function of it that gives one array.
WAYS = {
    "grad": tg.grad,
    "value_and_grad": lambda f: lambda x: np.append(*tg.value_and_grad(f)(x)),
    "jit": tg.jit,
    "jit of grad": lambda f: tg.jit(tg.grad(f)),
    "grad of jit": lambda f: tg.grad(tg.jit(f)),
    "hessian": tg.hessian,
    "jit of hessian": lambda f: tg.jit(tg.hessian(f)),
    "jvp": lambda f: lambda x: np.array(tg.jvp(f, (x,), (V,))),
    "jvp of grad": lambda f: lambda x: tg.jvp(tg.grad(f), (x,), (V,))[1],
    "vmap": lambda f: lambda x: tg.vmap(f)(np.stack([X, x])),
    "vmap of grad": lambda f: lambda x: tg.vmap(tg.grad(f))(np.stack([X, x])),
    "scan": lambda f: lambda x: np.append(*tg.value_and_grad(lambda y: tg.scan(lambda c, e: (c * e + f(y), None), 1.0, V)[0])(x)),
    "checkpoint": lambda f: tg.grad(tg.checkpoint(f)),
}


def smooth(x):
    """Scalars, arrays, a choice by value, and a comparison that no decision is made on."""
    y = np.exp(-x) * np.sort(x)
    s = x[0] * x[1] - 2.0 / x[2] if x[3] > 0.2 else x[0]
    return s ** 2 + np.sum(np.where(y > 0.3, y, y * y) * x) + np.max(x)


def tapes(f):
    tape = tg.value_and_grad(f).tape(X)
    return {"recorded": tape, "loaded": from_bytes(to_bytes(tape))}


def differences(f, x):
    return np.array([(f(x + e) - f(x - e)) / 2e-6 for e in 1e-6 * np.eye(6)])


@pytest.mark.parametrize("f", [smooth, *(pytest.param(f, marks=pytest.mark.long) for f in (fuzz.matrices, fuzz.writing, fuzz.loops))], ids=lambda f: f.__name__)
def test_transformations_of_a_tape_are_those_of_its_function(f):
    value = tg.value_and_grad(f)
    for kind, tape in tapes(f).items():
        for name, way in WAYS.items():
            made, wanted = way(tape), way(f)
            for x in (0.97 * X + 0.01, 1.02 * X - 0.003):
                np.testing.assert_allclose(made(x), wanted(x), 1e-8, 1e-8, err_msg=f"{kind}, {name}")
        np.testing.assert_allclose(tg.grad(tape)(x), differences(lambda p: value(p)[0], x), 1e-5, 1e-5, err_msg=kind)
        np.testing.assert_allclose(tg.hessian(tape)(x) @ V, (tg.grad(f)(x + 1e-6 * V) - tg.grad(f)(x - 1e-6 * V)) / 2e-6, 1e-4, 1e-4, err_msg=kind)


def test_another_path_is_refused_by_line_under_each():
    for tape in tapes(fuzz.branches).values():
        for way in WAYS.values():
            made = way(tape)
            made(X)
            with pytest.raises(GuardError, match=r"fuzz\.py:\d+"):
                made(1.0 - X)
            made(X)


def test_other_guards_than_truth_values():
    def f(x):
        k = int(np.argmax(x))
        return x[k] ** 2 * np.size(np.nonzero(x > 0.5)[0]) + np.sum(x[x > 0.5])

    for tape in tapes(f).values():
        np.testing.assert_allclose(tg.grad(tape)(X * 1.01), tg.grad(f)(X * 1.01))
        for way in (tg.grad, tg.jit, lambda g: tg.jit(tg.grad(g))):
            for x in (X[::-1].copy(), X + 0.4):
                with pytest.raises(GuardError, match="test_transformed.py"):
                    way(tape)(x)

    def solved(x):
        return np.sum(np.linalg.cholesky(np.reshape(x[:4], (2, 2)) + 3.0 * np.eye(2)))

    for tape in tapes(solved).values():
        for way in (tg.grad, tg.jit):
            with pytest.raises(GuardError, match="test_transformed.py"):
                way(tape)(X - 9.0)


def test_several_arguments_structured_results_and_dtypes():
    def f(x, s):
        return {"sum": np.sum(np.sin(x) * s), "all": [x * s, 2.0]}

    x = np.linspace(0.1, 0.9, 4).astype(np.float32)
    tape = from_bytes(to_bytes(tg.jit(f).tape(x, 2.0)))
    result = tg.jit(tape)(x, 3.0)
    np.testing.assert_allclose(result["all"][0], 3.0 * x)
    assert result["all"][0].dtype == np.float32 and float(result["all"][1]) == 2.0
    to_x, to_s = tg.grad(lambda x, s: tape(x, s)["sum"], (0, 1))(x, 3.0)
    np.testing.assert_allclose(to_x, 3.0 * np.cos(x), 1e-6)
    np.testing.assert_allclose(to_s, np.sum(np.sin(x)), 1e-6)
    with pytest.raises(ShapeError):
        tg.grad(lambda x: tape(x, 1.0)["sum"])(x[:3])


def test_what_is_cut_stays_cut():
    for tape in tapes(lambda x: np.sum(x * tg.stop_gradient(np.sin(x)))).values():
        for way in (tg.grad, lambda f: tg.jit(tg.grad(f)), tg.jacfwd):
            np.testing.assert_allclose(way(tape)(1.1 * X), np.sin(1.1 * X), 1e-14)


def test_a_recorded_tape_with_a_primitive():
    @tg.primitive
    def cube(x):
        return x**3

    @cube.defvjp
    def _(g, result, x):
        return 3.0 * g * x**2

    tape = tg.value_and_grad(lambda x: np.sum(cube(x) * x)).tape(X)
    y = 1.1 * X
    np.testing.assert_allclose(tg.grad(tape)(y), 4.0 * y**3, 1e-13)
    np.testing.assert_allclose(tg.jit(tg.grad(tape))(y), 4.0 * y**3, 1e-13)
    np.testing.assert_allclose(tg.hessian(tape)(y), np.diag(12.0 * y**2), 1e-12)


def test_compiled():
    for tape in tapes(smooth).values():
        compiled, y, g = tg.compile(tape, X), 1.02 * X - 0.003, np.empty(6)
        assert compiled(y, g) == pytest.approx(smooth(y), rel=1e-13)
        np.testing.assert_allclose(g, differences(smooth, y), 1e-5, 1e-5)
        with pytest.raises(GuardError, match=r"test_transformed\.py:\d+"):
            compiled(-X, g)


def test_a_tape_saved_from_a_jitted_tape():
    tape = from_bytes(to_bytes(tg.value_and_grad(fuzz.order).tape(X)))
    again = from_bytes(to_bytes(tg.value_and_grad(tape).tape(X)))
    y = 0.97 * X + 0.01
    value, gradient = again.value_and_grad(y)
    assert value == pytest.approx(fuzz.order(y), rel=1e-14)
    np.testing.assert_allclose(gradient, tg.grad(fuzz.order)(y), 1e-12)


def test_arrays_of_integers_and_truth_values_as_arguments():
    def f(x, n, mask):
        return np.sum(x[n] ** 2 * np.where(mask, n, 0.5))

    x, n, mask = np.array([1.0, 2.0, 3.0]), np.array([2, 0]), np.array([True, False])
    g = tg.value_and_grad(f)
    loaded = from_bytes(to_bytes(g.tape(x, n, mask)))
    for numbers in (n, np.array([-1, 1])):
        for found in (loaded.value_and_grad(x, numbers, ~mask), tg.jit(tg.value_and_grad(loaded))(x, numbers, ~mask)):
            assert found[0] == f(x, numbers, ~mask) and found[1].tolist() == g(x, numbers, ~mask)[1].tolist()
    with pytest.raises(TapeFileError, match="out of bounds"):
        loaded(x, np.array([3, 0]), mask)
    assert from_bytes(to_bytes(tg.jit(lambda x: (2**63, x)).tape(1.5)))(2.5) == (2**63, 2.5)

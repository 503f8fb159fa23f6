"""Gradients of NumPy programs as kernels, against define-by-run; and how few loops and arrays they take."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.kernel import ir
from tapegrad.kernel.adjoint import adjoint
from tapegrad.kernel.kernel import Kernel, lower
from tapegrad.kernel.passes import run_passes
from tapegrad.program.ports import FINE
from tapegrad.transforms.replay.function import Replayed
from tests.kernel.compare import called
from tests.kernel.straight import straight
from tests.transforms.replay.agreement import define_by_run

RNG = np.random.default_rng(7)


def gradient_of(function, args):
    """The loop program of value and gradients, after the passes."""
    tape = Replayed(function, tuple(range(len(args)))).tape(tuple(args), {})
    return run_passes(straight(adjoint(tape)))


def agree(function, args, *points, rtol=1e-11):
    """Compare values and gradients at `args` and `points`; returns the program."""
    program = gradient_of(function, args)
    kernel = Kernel(program)
    for point in (args, *points):
        status, found = called(kernel, [np.ascontiguousarray(p) for p in point])
        assert status == FINE
        value, gradients = define_by_run(function, point)
        for one, other in zip(found, [value, *gradients], strict=True):
            np.testing.assert_allclose(one, np.ravel(other), rtol=rtol, atol=rtol)
    return program


def loops(body):
    """Nests of a body as nested lists of extents."""
    return [[s.extent, *loops(s.body)] for s in body if isinstance(s, ir.Loop)]


def temporaries(program):
    """Sizes of the arrays in the workspace."""
    used = {id(s.buffer): s.buffer for s in ir.walk(program.body) if isinstance(s, (ir.Load, ir.Store))}
    return sorted(b.size for b in used.values() if b.role == ir.TEMPORARY)


def test_rosenbrock():
    def f(x):
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    x = RNG.standard_normal(50)
    program = agree(f, [x], [x + 1.0])
    # The additions to the elements and to their neighbours: two loops that vectorise.
    assert sum(nest[0] == 49 for nest in loops(program.body)) <= 2 and sum(temporaries(program)) <= 99, str(program)


def test_a_gradient_that_grows_in_place_grows_in_the_output():
    def f(x):
        return np.sum((x[1:] - x[:-1] ** 2) ** 2)

    tape = Replayed(f, (0,)).tape((RNG.standard_normal(20),), {})
    program = lower(adjoint(tape))
    assert not temporaries(program), str(program)
    x = RNG.standard_normal(20)
    (status, (value, gradient)), (wanted, (expected,)) = called(Kernel(program), [x]), define_by_run(f, (x,))
    assert status == FINE
    np.testing.assert_allclose(value, wanted, rtol=1e-13)
    np.testing.assert_allclose(gradient, expected, rtol=1e-12)


def test_logistic_regression():
    x, y = RNG.standard_normal((40, 9)), (RNG.random(40) > 0.5) * 1.0

    def loss(w):
        z = x @ w
        return np.mean(np.logaddexp(0.0, z) - y * z) + 0.01 * np.sum(w * w)

    w = RNG.standard_normal(9)
    program = agree(loss, [w], [w * 2.0])
    nests = [nest for nest in loops(program.body) if nest[0] == 40]
    assert nests.count([40, [9]]) == 2 and len(nests) <= 3, str(program)


def test_network():
    x, labels = RNG.standard_normal((16, 12)), np.eye(10)[RNG.integers(0, 10, 16)]

    def loss(w1, b1, w2, b2):
        hidden = np.tanh(x @ w1 + b1)
        scores = hidden @ w2 + b2
        scores = scores - np.max(scores, axis=1, keepdims=True)
        return -np.mean(np.sum(labels * (scores - np.log(np.sum(np.exp(scores), axis=1, keepdims=True))), axis=1))

    args = [RNG.standard_normal(s) * 0.3 for s in ((12, 14), (14,), (14, 10), (10,))]
    program = agree(loss, args, [a * 0.5 for a in args])
    assert sum(isinstance(s, ir.Run) for s in ir.walk(program.body)) == 5


def test_black_scholes():
    def price(s, k, t, r, v):
        d = (np.log(s / k) + (r + 0.5 * v * v) * t) / (v * np.sqrt(t))
        e = d - v * np.sqrt(t)
        return np.sum(s * 0.5 * (1.0 + tg.erf(d / np.sqrt(2.0))) - k * np.exp(-r * t) * 0.5 * (1.0 + tg.erf(e / np.sqrt(2.0))))

    args = [RNG.uniform(*bounds, 30) for bounds in ((80, 120), (80, 120), (0.2, 2.0), (0.01, 0.05), (0.1, 0.4))]
    program = agree(price, args, [a * 1.1 for a in args])
    assert len(loops(program.body)) <= 2, str(program)


def test_asian_option():
    noise = RNG.standard_normal((6, 40))

    def price(s0, sigma, r):
        paths = s0 * np.exp(np.cumsum((r - 0.5 * sigma**2) * 0.1 + sigma * np.sqrt(0.1) * noise, axis=0))
        return np.exp(-r) * np.mean(np.maximum(np.mean(paths, axis=0) - 1.0, 0.0))

    program = agree(price, [1.0, 0.3, 0.05], [1.1, 0.2, 0.01])
    assert sum(nest[0] == 6 for nest in loops(program.body)) <= 5 and temporaries(program).count(240) <= 5, str(program)


@pytest.mark.parametrize("flip", [np.s_[:, ::-1], np.s_[::-1, ::2], np.s_[1:, :-1]])
def test_views_and_scans(flip):
    def f(x):
        y = np.cumsum(x.T[flip], axis=1) * x.T[flip]
        return np.sum(np.cumprod(1.0 + 0.1 * y, axis=0) ** 2) + np.sum(np.diagonal(x) * x[0])

    x = RNG.standard_normal((4, 4))
    agree(f, [x], [x * 0.5])


def test_indexing_and_writes():
    order = np.array([3, 0, 0, 2])

    def f(x, y):
        z = tg.zeros(6)
        z[1:5] = x[order] * y
        z[::2] = z[1::2] * 2.0
        z[[0, 3]] = y[:2]
        return np.sum(z * z * z) + np.sum(np.where(x > y, x * y, 0.0)) + np.max(x) * np.min(y)

    args = [RNG.standard_normal(4), RNG.standard_normal(4)]
    agree(f, args, [a + 0.3 for a in args])


def test_matrix_functions():
    def f(a, b):
        spd = a @ a.T + 3.0 * np.eye(4)
        low = np.linalg.cholesky(spd)
        return np.sum(np.linalg.solve(spd, b) * b) + 2.0 * np.sum(np.log(np.diagonal(low))) + np.linalg.det(a) + np.linalg.slogdet(spd)[1]

    args = [RNG.standard_normal((4, 4)), RNG.standard_normal((4, 2))]
    agree(f, args, [a * 1.2 for a in args], rtol=1e-9)


def test_batches_of_small_matrices():
    def f(a, b):
        return np.sum(np.tanh(a @ b) @ b.swapaxes(-1, -2)) + np.sum((a @ b)[:, 0] ** 2)

    args = [RNG.standard_normal((7, 3, 3)), RNG.standard_normal((3, 2))]
    program = agree(f, args, [a * 1.5 for a in args])
    assert not any(isinstance(s, ir.Run) for s in ir.walk(program.body))


def test_float32_stays_float32():
    def f(x, w):
        return np.mean(np.maximum(x @ w, np.float32(0.1)) ** 2)

    args = [RNG.standard_normal((12, 9)).astype("f"), RNG.standard_normal((9, 11)).astype("f")]
    program = agree(f, args, [a * np.float32(0.5) for a in args], rtol=1e-5)
    assert {b.char for b in program.outputs[1:]} == {"f"}

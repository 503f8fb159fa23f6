"""Jacobians by kernels: the same numbers as by sweeps, in each mode, and what happens where a kernel stops."""

import time

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.tree import flatten
from tapegrad.kernel.adjoint import adjoint
from tapegrad.kernel.kernel import TapeKernel
from tapegrad.transforms.replay.directions import MOST, key_of
from tests.kernel.adjoint_programs import PROGRAMS
from tests.kernel.agreement import arguments, close_in_ulps, replayed, tape_of

WEIGHTS = np.random.default_rng(0).normal(size=(11, 9))


def layer(x):
    return np.tanh(WEIGHTS @ x)


def elements(x):
    """Elements, one of them used with the whole array; a result twice, a constant, containers."""
    y = np.exp(-x) * x[0]
    z = y[0] * x[1] if x[0] > 0.0 else x[1] * 3.0
    return {"z": z, "y": [y, z], "constant": 3.0, "zero": 0.0 * np.floor(x)}


def scalars(x, y):
    u, v = x[0], y
    for _ in range(20):
        u, v = u + 0.1 * v, v - 0.1 * np.sin(u)
    return np.stack([u, v, u * v])


CASES = {
    "layer": (layer, (np.linspace(0.1, 1.0, 9),), 0),
    "elements": (elements, (np.array([0.3, 0.4, 1.0]),), 0),
    "scalars": (scalars, (np.array([1.0, 2.0]), 0.5), (0, 1)),
    "float32": (lambda x: np.sin(x) * x[::-1], (np.linspace(0.1, 1.0, 5, dtype=np.float32),), 0),
    "matrix": (lambda a: a @ a, (np.arange(9.0).reshape(3, 3),), 0),
    "banded": (lambda x: x[1:] * np.sin(x[:-1]), (np.linspace(0.0, 3.0, 40),), 0),
    "empty": (lambda x: x[:0] * 2.0, (np.ones(3),), 0),
}


def flat(thing):
    return np.concatenate([np.ravel(leaf).astype(float) for leaf in flatten(thing)[0]])


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
@pytest.mark.parametrize("name", CASES)
def test_by_kernels_as_by_sweeps(name, mode):
    function, args, argnums = CASES[name]
    swept, promoted = (tg.jit(tg.jacobian(function, argnums, mode=mode), kernel=kernel) for kernel in ("never", "always"))
    for k in range(7):
        point = tuple(type(a)(a * (1.0 + k / 8)) if type(a) is float else (a * (1.0 + k / 8)).astype(a.dtype) for a in args)
        expected, found = swept(*point), promoted(*point)
        shapes = [[(np.shape(leaf), np.asarray(leaf).dtype) for leaf in flatten(thing)[0]] for thing in (found, expected)]
        assert shapes[0] == shapes[1]
        single = name == "float32"
        np.testing.assert_allclose(flat(found), flat(expected), rtol=1e-5 if single else 1e-12, atol=1e-6 if single else 1e-13)
    stats = promoted.stats()
    assert not stats.not_lowered and not stats.fallback
    if name != "empty":
        # Of the first calls on, and no other is made when they are answered the short way.
        assert stats.kernels == 1 and stats.kernel_calls == 6, stats
    if name == "banded":
        # Two colours instead of 40 columns or 39 rows.
        assert promoted.kernel(*args).lanes == 2
    assert swept.stats().kernels == 0


def test_a_guard_leads_to_the_other_path():
    function = lambda x: np.sin(x) if x[0] > 0.0 else x * x
    j = tg.jit(tg.jacobian(function), kernel="always")
    for k in range(12):
        x = np.array([1.0 + k, 2.0]) * (-1) ** (k // 2)
        expected = np.diag(np.cos(x)) if x[0] > 0.0 else np.diag(2 * x)
        np.testing.assert_allclose(j(x), expected, rtol=1e-14)
    assert j.stats().tapes == j.stats().kernels == 2 and j.stats().kernel_calls > 5


def test_absolute_zero_comes_from_the_sweep():
    j = tg.jit(tg.jacobian(lambda x: np.stack([0.0 * np.sqrt(x[0]) + x[1], x[0]]), mode="reverse"), kernel="always")
    for _ in range(5):
        j(np.array([4.0, 1.0]))
    calls = j.stats().kernel_calls
    for _ in range(2):
        assert j(np.array([0.0, 1.0])).tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert calls > 0 and j.stats().kernel_calls == calls


def test_what_has_no_kernel_says_why():
    # NumPy is not called from a kernel with so many operands.
    labels = np.array([1, 3])

    def f(x, k):
        return np.sin(x) * np.select([k == j for j in range(10)], [k * j for j in range(10)])

    j, x = tg.jit(tg.jacobian(f), kernel="always"), np.array([0.5, 1.0])
    for _ in range(4):
        step = 1e-6
        np.testing.assert_allclose(np.diag(j(x, labels)), (f(x + step, labels) - f(x - step, labels)) / (2 * step), rtol=1e-6)
    ((reason, count),) = j.stats().not_lowered.items()
    assert "20 operands" in reason and f"test_directions.py:{f.__code__.co_firstlineno + 1}" in reason and count == 1
    assert j.stats().kernels == 0 and j.stats().sweeps > 0


def test_second_derivatives_are_kernels():
    def function(x):
        total = 0.0
        for i in range(len(x) - 1):
            total = total + 100.0 * (x[i + 1] - x[i] * x[i]) ** 2 + (1.0 - x[i]) ** 2
        return total

    def vectorised(x):
        return np.sum(np.exp(x) * np.sum(x)) + np.sum(x**4)

    for f in (function, vectorised):
        hessian, product, diagonal = (tg.jit(made(f), kernel="always") for made in (tg.hessian, tg.hvp, tg.hessian_diag))
        for k in range(6):
            x, v = np.linspace(-1.0, 1.0 + k, 12), np.linspace(1.0, 2.0, 12)
            step = 1e-5
            wanted = np.array([(tg.grad(f)(x + step * e) - tg.grad(f)(x - step * e)) / (2 * step) for e in np.eye(12)])
            scale = np.max(np.abs(wanted))
            np.testing.assert_allclose(hessian(x), wanted, atol=1e-7 * scale)
            np.testing.assert_allclose(product(x, v), hessian(x) @ v, rtol=1e-10)
            np.testing.assert_allclose(diagonal(x), np.diag(hessian(x)), rtol=1e-11)
        for made in (hessian, product, diagonal):
            stats = made.stats()
            assert stats.kernels >= 1 and stats.kernel_calls >= 1 and not stats.not_lowered, stats


def test_looking_inside():
    x = np.linspace(0.1, 1.0, 9)
    forward, reverse = (tg.jit(tg.jacobian(layer, mode=mode)) for mode in ("forward", "reverse"))
    assert (forward.kernel(x).forward, reverse.kernel(x).forward) == (True, False) and forward.kernel(x).lanes == 5  # nine columns in two calls
    assert "for " in forward.kernel(x).source() and len(forward.tape(x)) == 2
    for _ in range(3):
        np.testing.assert_allclose(forward(x), reverse(x), rtol=1e-13)
    assert forward.stats().kernel_calls >= 2
    assert tg.jacobian(lambda x, y: x * y, argnums=-1).kernel(2.0, 3.0).lanes == 1
    with pytest.raises(tg.errors.UnsupportedFunctionError, match="has no kernel.*20 operands"):
        tg.jacobian(lambda x, k: x * np.select([k == j for j in range(10)], [k * j for j in range(10)])).kernel(x, np.arange(9))


def test_negative_positions_keep_the_policy():
    j = tg.jit(tg.jacobian(lambda x, y: x * y, argnums=-1), kernel="always")
    for _ in range(4):
        assert j(2.0, 3.0) == 2.0
    assert j.stats().kernels == 1


def test_the_first_path_at_once_and_others_when_it_pays():
    j = tg.jit(tg.jacobian(lambda x: layer(x) if x[0] > 0.0 else np.sin(x) * x[::-1], mode="forward"))
    made = []
    for sign in (1, 1, -1, -1, -1, -1):
        j(sign * np.ones(9))
        made.append(j.stats().kernels)
    assert made == [1] * 6 and j.stats().records == 2
    end = time.monotonic() + 60
    while j.stats().kernels == 1 and time.monotonic() < end:
        j(-np.ones(9))
    np.testing.assert_allclose(j(-np.ones(9)), tg.jacobian(lambda x: np.sin(x) * x[::-1])(-np.ones(9)), rtol=1e-12)
    assert j.stats().kernels == 2 and j.stats().records == 2


# -- the tapes ---------------------------------------------------------------------------------
@pytest.mark.parametrize("name", PROGRAMS)
def test_adjoints_in_lanes(name):
    function, args = PROGRAMS[name]
    tape = tape_of(function, *args)
    seeds = np.array([1.0, -2.0, 0.5])
    one = adjoint(tape, lanes=1)
    live = len(one.inputs) > len(args)
    found = replayed(adjoint(tape, lanes=3), *args, *[seeds] * live)
    values = len(tape.outputs)
    for lane, seed in enumerate(seeds):
        wanted = replayed(one, *args, *[np.array([seed])] * live)
        close_in_ulps([np.asarray(f)[lane] for f in found[values:]], [np.asarray(w)[0] for w in wanted[values:]], 16)


def test_what_does_not_depend_on_the_seeds_is_computed_once():
    tape = tape_of(lambda x, y: np.sin(x) * np.exp(y), 0.3, 0.4)
    sizes = [len(adjoint(tape, lanes=lanes)) for lanes in (1, 2, 3)]
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0] and str(adjoint(tape, lanes=3)).count(" cos ") == 1


def test_lanes_kernels_and_their_print():
    x = np.linspace(0.1, 1.0, 4)
    tape = tape_of(lambda x: np.sum(np.sin(x) * x), x)
    seeds = np.random.default_rng(0).normal(size=(4, 4))
    forward, reverse = (TapeKernel(tape, (how, 4)) for how in (True, False))
    gradient = np.cos(x) * x + np.sin(x)
    np.testing.assert_allclose(forward.answer([*arguments((x,)), seeds])[1][0], seeds @ gradient, rtol=1e-13)
    np.testing.assert_allclose(reverse.answer([*arguments((x,)), seeds[0]])[1][0], np.outer(seeds[0], gradient), rtol=1e-13)
    assert "4 tangents" in str(forward) and "4 adjoints" in str(reverse)


def test_how_many_lanes():
    tape = tape_of(lambda x: x * x, 1.0)
    assert [key_of(tape, True, count)[1] for count in (0, 1, 2, 3, 5, 8, 100)] == [1, 1, 2, 3, 5, 8, MOST]

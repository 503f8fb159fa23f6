"""Kernels of finished tapes: values and gradients as the sweeps give them, and what they say where they cannot."""

import gc
import weakref

import numpy as np
import pytest

from tapegrad.kernel import reasons
from tapegrad.kernel.emit import FINE, NOT_FINITE, CompileOptions
from tapegrad.kernel.kernel import TapeKernel
from tapegrad.kernel.reasons import TooDear
from tests.kernel.agreement import arguments, close_in_ulps, swept, tape_of
from tests.threads import in_threads


def mixed(x, y):
    """Scalars and arrays, a branch, an assignment."""
    z = np.exp(-x) * y
    z[1] = x[0] * y if x[0] > 0.0 else x[0]
    return np.sum(z * z) + y


def test_values_and_gradients_of_several_arguments():
    point = np.array([0.5, 0.2, -1.0]), 2.0
    tape = tape_of(mixed, *point)
    kernel = TapeKernel(tape)
    for scale in (1.0, 0.3, 4.0):
        at = point[0] * scale, point[1] + scale
        status, found = kernel.answer(arguments(at))
        values, gradients = kernel.results(found)
        expected, wanted = swept(tape, *at)
        assert status == FINE and type(values[0]) is float and values == pytest.approx(expected, rel=1e-15)
        close_in_ulps(gradients, wanted)


def test_without_gradients_there_is_less_to_compute():
    tape = tape_of(mixed, np.array([0.5, 0.2, -1.0]), 2.0)
    kernel = TapeKernel(tape, gradients=False)
    _, found = kernel.answer(arguments((np.array([0.5, 0.2, -1.0]), 2.0)))
    assert kernel.results(found) == ([swept(tape, np.array([0.5, 0.2, -1.0]), 2.0)[0][0]], None)
    assert len(found) == 1 and len(kernel.whole) < len(TapeKernel(tape).whole)


def test_a_guard_that_sees_something_else_is_the_status():
    tape = tape_of(mixed, np.array([0.5, 0.2, -1.0]), 2.0)
    status, found = TapeKernel(tape).answer(arguments((np.array([-0.5, 0.2, -1.0]), 2.0)))
    assert found is None and "x[0] > 0.0" in tape.guards[status].place.text


def test_a_gradient_that_is_not_finite_is_the_status():
    tape = tape_of(lambda x: 0.0 * np.sqrt(x) + x, 1.0)
    kernel = TapeKernel(tape)
    assert kernel.answer(arguments((4.0,)))[0] == FINE
    assert kernel.answer(arguments((0.0,))) == (NOT_FINITE, None)
    # An infinite value is one.
    status, found = TapeKernel(tape_of(lambda x: 1.0 / x, 2.0), gradients=False).answer(arguments((0.0,)))
    assert status == FINE and found[0] == np.inf


def test_results_that_are_constants_or_integers():
    tape = tape_of(lambda x: 3.0, 1.0)
    kernel = TapeKernel(tape)
    values, gradients = kernel.results(kernel.answer(arguments((2.0,)))[1])
    assert values == [3.0] and gradients[0] == 0.0 and gradients[0].shape == ()


def test_the_limit_is_of_predicted_steps():
    tape = tape_of(lambda x: np.sum(np.sin(x[0]) * x + x[1] * x[2] / x[0]), np.ones(3))
    with pytest.raises(TooDear) as caught:
        TapeKernel(tape, limit=2)
    assert caught.value.steps > reasons.KERNEL
    TapeKernel(tape, limit=caught.value.steps)


def test_seconds_by_stage_and_print():
    kernel = TapeKernel(tape_of(mixed, np.ones(3), 1.0))
    stages = ["adjoint", "columns", "roll", "build", "passes", "emit", "optimise", "generate"]
    assert list(kernel.seconds) == stages and all(t >= 0.0 for t in kernel.seconds.values())
    assert all(stage in str(kernel) for stage in stages) and "values and gradients" in str(kernel)


def test_a_kernel_that_is_collected_frees_its_code():
    kernel = TapeKernel(tape_of(mixed, np.ones(3), 1.0))
    kept = weakref.ref(kernel), weakref.finalize(kernel._engine, lambda: None)
    del kernel
    gc.collect()
    assert kept[0]() is None and not kept[1].alive


def test_many_kernels_one_after_another_do_not_pile_up():
    alive = []
    for k in range(20):
        kernel = TapeKernel(tape_of(lambda x: x * float(k), 1.0))
        assert kernel.results(kernel.answer(arguments((2.0,)))[1])[0] == [2.0 * k]
        alive.append(weakref.ref(kernel))
    del kernel
    gc.collect()
    assert not any(ref() for ref in alive)


def test_threads_in_one_kernel_get_the_same_bits():
    n = 20_000
    tape = tape_of(lambda x: np.sum(np.exp(x) * np.cumsum(x)), np.zeros(n))
    kernel, points = TapeKernel(tape), np.random.default_rng(0).normal(size=(8, n)) / n
    expected = [kernel.answer([p])[1] for p in points]
    wrong = []

    def work(k):
        for _ in range(40):
            status, found = kernel.answer([points[k]])
            if status != FINE or any(not np.array_equal(a, b) for a, b in zip(found, expected[k])):
                wrong.append(k)

    in_threads(work, 8)
    assert not wrong


def test_fastmath_is_near():
    x = np.linspace(0.1, 1.0, 1001)
    tape = tape_of(lambda x: np.sum(np.sqrt(x) * x + 1.0 / x), x)
    (value, *gradients), (fast, *others) = (TapeKernel(tape, True, CompileOptions(fastmath=f)).answer([x])[1] for f in (False, True))
    np.testing.assert_allclose(fast, value, rtol=1e-13)
    np.testing.assert_allclose(others[0], gradients[0], rtol=1e-13)

"""`tg.jit`: the value by a kernel, and what transformations make of it."""

import functools
import warnings
from collections import namedtuple

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import OptionError, StructureError, UnsupportedFunctionError
from tapegrad.common.tree import flatten
from tests.threads import in_threads
from tests.transforms.replay.agreement import define_by_run

State = namedtuple("State", "position speed")


def chain(x):
    total = 0.0
    for k in range(len(x)):
        total = total + np.sin(x[k]) * k
    return total


def by_kernel(function):
    """Whether all replays of a function were answered by kernels but those that made them."""
    stats = function.stats()
    return stats.kernels == stats.tapes > 0 and stats.kernel_calls > 0 and not stats.not_lowered and not stats.fallback


def test_values_are_those_of_the_function():
    f = tg.jit(chain)
    for x in np.random.default_rng(0).normal(size=(20, 10)):
        assert f(x) == pytest.approx(chain(x), rel=1e-14)
    assert by_kernel(f)


def test_as_a_decorator_with_options():
    @tg.jit(fastmath=True)
    def f(x):
        return np.sum(x * x + 1.0)

    x = np.linspace(0.0, 1.0, 1000)
    for _ in range(5):
        assert f(x) == pytest.approx(np.sum(x * x + 1.0), rel=1e-13)
    assert by_kernel(f) and f._replayed.jit.fastmath and f.__name__ == "f"


def test_containers_static_arguments_and_several_results():
    def f(state, weights, n, *, how="sum"):
        moved = State(state.position + n * state.speed, state.speed * weights["w"])
        return {"state": moved, "energy": np.sum(moved.speed**2) if how == "sum" else np.mean(moved.speed**2), "n": 7}

    j, rng = tg.jit(f), np.random.default_rng(1)
    for n, how in ((2, "sum"), (2, "sum"), (3, "sum"), (2, "mean"), (2, "sum"), (3, "sum")):
        state, weights = State(rng.normal(size=3), rng.normal(size=3)), {"w": float(rng.normal())}
        found, expected = j(state, weights, n, how=how), f(state, weights, n, how=how)
        assert type(found["state"]) is State and found["n"] == 7
        np.testing.assert_allclose(found["state"].position, expected["state"].position, rtol=1e-14)
        np.testing.assert_allclose(found["state"].speed, expected["state"].speed, rtol=1e-14)
        assert found["energy"] == pytest.approx(expected["energy"], rel=1e-14) and type(found["energy"]) is float
    assert j.stats().tapes == 3 and not j.stats().fallback


def test_float32_stays_float32():
    j, x = tg.jit(lambda x: np.exp(x) * np.float32(2)), np.linspace(0, 1, 9, dtype=np.float32)
    for _ in range(4):
        found = j(x)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, np.exp(x) * np.float32(2), rtol=3e-7)
    assert by_kernel(j)


def test_results_do_not_share_memory():
    j = tg.jit(lambda x: x * 2.0)
    first = [j(np.ones(3)) for _ in range(4)][-1]
    j(np.zeros(3))
    assert first.tolist() == [2.0, 2.0, 2.0]


def test_a_result_that_is_the_argument_is_a_copy():
    j, x = tg.jit(lambda x: (x, x[::-1], np.sum(x))), np.array([1.0, 2.0, 3.0])
    for _ in range(4):
        same, turned, total = j(x)
        assert same.tolist() == [1.0, 2.0, 3.0] and turned.tolist() == [3.0, 2.0, 1.0] and total == 6.0
        same[0] = 99.0
        assert x[0] == 1.0


def test_gradients_of_a_jitted_function_are_kernels_too():
    @tg.jit
    def f(x, y):
        return np.sum(np.sin(x) * y)

    for make in (tg.grad, tg.value_and_grad, tg.elementwise_grad):
        g = make(f, argnums=(0, 1))
        for k in range(4):
            x, y = np.array([0.5, 1.0 + k]), np.array([2.0, 3.0])
            found = g(x, y)
            gradients = found[1] if make is tg.value_and_grad else found
            np.testing.assert_allclose(gradients[0], np.cos(x) * y, rtol=1e-14)
            np.testing.assert_allclose(gradients[1], np.sin(x), rtol=1e-14)
        assert by_kernel(g), g.stats()


def test_the_policy_of_the_outer_jit_counts():
    for g in (tg.jit(tg.grad(tg.jit(chain)), kernel="never"), tg.jit(tg.jit(tg.grad(chain)), kernel="never"), tg.jit(tg.jit(chain), kernel="never")):
        for _ in range(4):
            g(np.ones(3))
        assert g.stats().kernels == 0 and g.stats().sweeps == 3 and g.stats().records == 1


def test_on_tensors_and_dual_numbers_it_is_the_function():
    f = tg.jit(chain)
    x = tg.tensor([0.5, 1.0, 2.0], requires_grad=True)
    f(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.arange(3) * np.cos([0.5, 1.0, 2.0]), rtol=1e-14)
    value, tangent = tg.jvp(f, (np.array([0.5, 1.0, 2.0]),), (np.array([0.0, 1.0, 0.0]),))
    assert tangent == pytest.approx(np.cos(1.0)) and value == pytest.approx(chain(np.array([0.5, 1.0, 2.0])))
    np.testing.assert_allclose(tg.hessian(f)(np.array([0.5, 1.0, 2.0])), np.diag(-np.arange(3) * np.sin([0.5, 1.0, 2.0])), atol=1e-14)
    assert f.stats().records == 0


def test_inside_another_recorded_function():
    inner = tg.jit(lambda x: np.sum(x**2))
    g = tg.jit(tg.value_and_grad(lambda x: np.exp(-inner(x))), kernel="always")
    for k in range(5):
        x = np.array([0.1 * k, 0.2])
        value, gradient = g(x)
        expected, (wanted,) = define_by_run(lambda x: np.exp(-np.sum(x**2)), (x,))
        assert value == pytest.approx(expected) and np.allclose(gradient, wanted)
    assert by_kernel(g)


def test_branches_are_kernels_of_their_own():
    f = tg.jit(lambda x: np.sin(x) if x > 0.0 else x * x, kernel="always")
    for x in (1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 4.0, -4.0, 5.0, -5.0):
        assert f(x) == pytest.approx(np.sin(x) if x > 0 else x * x, rel=1e-15)
    assert f.stats().tapes == f.stats().kernels == 2 and by_kernel(f)


def test_captured_arrays_are_read_when_they_are_used():
    weights = np.array([1.0, 2.0, 3.0])
    f, g = tg.jit(lambda x: np.sum(weights * x)), tg.grad(tg.jit(lambda x: np.sum(weights * x)))
    x = np.ones(3)
    for _ in range(5):
        assert f(x) == 6.0 and g(x).tolist() == [1.0, 2.0, 3.0]
    weights[1] = 10.0
    for _ in range(5):
        assert f(x) == 14.0 and g(x).tolist() == [1.0, 10.0, 3.0]


def test_a_function_without_kernel_is_replayed_by_sweep_and_says_why():
    @tg.primitive
    def square(x, *others):
        return float(x) * float(x)

    square.defvjp(lambda g, result, x, *others: (2.0 * x * g, *[None] * 20))

    def f(x):
        return square(x, *[x] * 20) + 1.0

    j = tg.jit(f)
    for k in range(4):
        assert j(float(k)) == k * k + 1.0
    stats = j.stats()
    (reason,) = stats.not_lowered
    line = f.__code__.co_firstlineno + 1
    assert "square" in reason and f"test_jit.py:{line}" in reason and reason in str(stats)
    assert stats.kernels == stats.kernel_calls == 0 and stats.sweeps > 0
    with pytest.raises(UnsupportedFunctionError, match="square"):
        j.kernel(1.0)


def test_what_cannot_be_jitted():
    with pytest.raises(StructureError):
        tg.jit(3)
    with pytest.raises(StructureError, match="returned|returns|result"):
        tg.jit(lambda x: None)(1.0)
    with pytest.raises(OptionError, match="'sometimes'.*'auto'"):
        tg.jit(tg.grad(chain), kernel="sometimes")


def test_threads_get_the_same_bits():
    f, points = tg.jit(chain), np.random.default_rng(3).normal(size=(8, 500))
    for _ in range(4):
        f(points[0])
    expected, wrong = [f(x) for x in points], []

    def work(k):
        for _ in range(300):
            if f(points[k]) != expected[k]:
                wrong.append(k)

    in_threads(work, 8)
    assert not wrong and by_kernel(f)


def test_looking_inside():
    k = tg.jit(chain).kernel(np.ones(50))
    assert "for i in range(" in k.source() and "define" in k.llvm() and "ret" in k.asm() and k.nbytes >= 0
    assert set(k.seconds) >= {"columns", "roll", "build", "passes", "emit", "optimise", "generate"}


# -- derivatives of derivatives ------------------------------------------------------------------


def stretched(x):
    return np.sum(np.logaddexp(0.0, x)) + np.sum(x[1:] * x[:-1] ** 2)


def test_a_forward_jacobian_of_a_gradient_is_columns_of_its_recording():
    forward, columns = tg.jit(tg.jacfwd(tg.grad(stretched))), tg.jit(tg.jacobian(tg.grad(stretched), mode="forward"))
    for k in range(3):
        x = np.linspace(-1.0, 1.0 + k, 12)
        np.testing.assert_allclose(forward(x), tg.hessian(stretched)(x), rtol=1e-12, atol=1e-14)
    assert by_kernel(forward) and forward.stats().records == 1
    assert len(forward.tape(x)) == len(columns.tape(x)) and forward.kernel(x).lanes == columns.kernel(x).lanes > 1


def test_a_forward_jacobian_takes_what_it_takes_plainly():
    rule = tg.custom_jvp(tg.primitive(lambda x: x**3), lambda tangents, result, x: 3.0 * x * x * tangents[0])
    x = np.array([1.0, 2.0])
    for f, argument in ((lambda x, s: np.sin(x) * s, 0), (lambda s, x: {"a": x * s, "b": [np.sum(x)]}, 1), (lambda x, s: rule(x) * s, 0)):
        arguments = (x, 2.0) if argument == 0 else (2.0, x)
        plain, forward = tg.jacfwd(f, argument), tg.jit(tg.jacfwd(f, argument))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tg.PathWarning)
            for _ in range(3):
                for a, b in zip(flatten(forward(*arguments))[0], flatten(plain(*arguments))[0]):
                    np.testing.assert_allclose(a, b, rtol=1e-13)
    # A function that has the attributes of another one, as a decorator gives it, is itself.
    f = tg.jacfwd(np.sin)
    assert tg.jit(functools.wraps(f)(lambda x: 2.0 * f(x)))(0.0) == 2.0


def test_two_levels_are_as_long_as_the_loop_by_hand():
    """Gradient descent inside of a derivative: its tape has at most three times the instructions of the composition by hand."""

    def outer(w):
        y = np.zeros(10)
        for _ in range(20):
            y = y - 0.01 * tg.grad(lambda y: stretched(y) + w * np.sum(y**2))(y)
        return np.sum((y - 1.0) ** 2)

    def by_hand(w):
        y = np.zeros(10)
        for _ in range(20):
            chain = np.concatenate([2.0 * y[1:] * y[:-1], [0.0]]) + np.concatenate([[0.0], y[:-1] ** 2])
            y = y - 0.01 * (1.0 / (1.0 + np.exp(-y)) + chain + 2.0 * w * y)
        return np.sum((y - 1.0) ** 2)

    step = 1e-6
    difference = (outer(0.3 + step) - outer(0.3 - step)) / (2.0 * step)
    composed = tg.jit(tg.grad(by_hand))
    assert composed(0.3) == pytest.approx(difference, rel=1e-7)
    for make, most in ((tg.grad, 3), (tg.derivative, 6)):
        g = tg.jit(make(outer))
        for w in (0.1, 0.2, 0.3):
            answer = g(w)
        assert answer == pytest.approx(difference, rel=1e-7)
        assert by_kernel(g) and g.stats().records == 1
        # The tape of a forward derivative has its tangents.
        assert len(g.tape(0.3)) <= most * len(composed.tape(0.3))

"""Calls of a replayed function: the short way gives the same answers, and takes the long way when it has to."""

import threading

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.transforms.replay.function import Replayed
from tests.threads import in_threads


def rosenbrock(x):
    total = 0.0
    for i in range(len(x) - 1):
        total = total + 100.0 * (x[i + 1] - x[i] * x[i]) ** 2 + (1.0 - x[i]) ** 2
    return total


def rosenbrock_gradient(x):
    g = np.zeros_like(x)
    g[:-1] += -400.0 * x[:-1] * (x[1:] - x[:-1] ** 2) - 2.0 * (1.0 - x[:-1])
    g[1:] += 200.0 * (x[1:] - x[:-1] ** 2)
    return g


@pytest.fixture
def long_calls(monkeypatch):
    """How often the long way was gone: a list that grows."""
    taken = []
    call = Replayed.call
    monkeypatch.setattr(Replayed, "call", lambda self, *args: (taken.append(1), call(self, *args))[1])
    return taken


def warmed(function, *args, **options):
    """A gradient whose next calls are not due to be recorded again."""
    g = tg.value_and_grad(function, **options)
    for _ in range(5):
        g(*args)
    return g


def test_a_call_like_the_last_one_goes_the_short_way(long_calls):
    x = np.array([1.3, 0.7, -0.2])
    g = warmed(rosenbrock, x)
    del long_calls[:]
    for x in (np.array([0.1, 0.2, 0.3]), np.array([2.0, -1.0, 1.0])):
        value, gradient = g(x)
        assert value == rosenbrock(x)
        np.testing.assert_allclose(gradient, rosenbrock_gradient(x), rtol=1e-12)
    assert not long_calls and g.stats().records == 3


def test_results_of_two_calls_do_not_share_memory():
    g = warmed(rosenbrock, np.ones(3))
    first = g(np.array([1.0, 2.0, 3.0]))[1]
    kept = first.copy()
    g(np.zeros(3))
    assert np.array_equal(first, kept)


@pytest.mark.parametrize(
    "other",
    [
        np.array([0.5, 1.5, 2.5], np.float32),
        np.array([0.5, 1.5]),
        np.array([[0.5, 9.0], [1.5, 9.0], [2.5, 9.0]])[:, 0],
        np.array([0.5, 1.5, 2.5], ">f8").astype("=f8"),
        [0.5, 1.5, 2.5],
    ],
    ids=["float32", "shape", "strides", "dtype", "list"],
)
def test_other_arguments_take_the_long_way(other, long_calls):
    g = warmed(rosenbrock, np.ones(3))
    del long_calls[:]
    value, gradient = g(other)
    x = np.array(other, float)
    assert value == pytest.approx(rosenbrock(x), rel=1e-6)
    np.testing.assert_allclose(np.asarray(gradient), rosenbrock_gradient(x), rtol=1e-4)
    assert (len(long_calls) == 1) == (not (isinstance(other, np.ndarray) and other.shape == (3,) and other.flags.c_contiguous
                                           and other.dtype == float))


def test_an_array_subclass_takes_the_long_way(long_calls):
    class Mine(np.ndarray):
        pass

    g = warmed(lambda x: x[0] * x[1], np.ones(2))
    del long_calls[:]
    with pytest.raises((TypeError, tg.errors.DtypeError)):
        g(np.ones(2).view(Mine))
    assert len(long_calls) == 1


def test_floats_and_static_arguments(long_calls):
    def f(x, n, y, how):
        return (x * y if how == "product" else x + y) * n

    g = warmed(f, 2.0, 3, 5.0, "product", argnums=(0, 2))
    del long_calls[:]
    assert g(3.0, 3, 7.0, "product") == (63.0, (21.0, 9.0))
    assert not long_calls
    assert g(3.0, 4, 7.0, "product") == (84.0, (28.0, 12.0))
    assert g(3.0, 3, 7.0, "sum") == (30.0, (3.0, 3.0))
    assert g(3.0, True, 7.0, "sum") == (10.0, (1.0, 1.0))
    assert len(long_calls) == 3


def test_argnums_as_a_tuple_give_a_tuple():
    g = warmed(lambda x, y: x * y, 2.0, 3.0, argnums=(1,))
    assert g(4.0, 5.0) == (20.0, (4.0,))


def test_grad_goes_the_short_way_too(long_calls):
    g = tg.grad(rosenbrock)
    for _ in range(5):
        g(np.ones(3))
    del long_calls[:]
    x = np.array([0.3, 0.1, -0.4])
    np.testing.assert_allclose(g(x), rosenbrock_gradient(x), rtol=1e-12)
    assert not long_calls


def test_what_the_function_captured_is_compared_at_every_call():
    scale, weights = 2.0, np.array([1.0, 2.0])

    def f(x):
        return (x[0] * weights[0] + x[1] * weights[1]) * scale

    x = np.array([3.0, 4.0])
    g = warmed(f, x)
    assert g(x)[0] == 22.0
    weights[1] = 5.0
    value, gradient = g(x)
    assert value == 46.0 and gradient.tolist() == [2.0, 10.0]
    for _ in range(9):
        assert g(x)[0] == 46.0
    scale = 3.0
    assert g(x)[0] == 69.0
    for _ in range(9):
        assert g(x)[0] == 69.0
    # Equal, but of another type: NumPy would compute with another dtype.
    scale = 3
    assert f.__closure__ is not None and g(x)[0] == 69.0
    assert g.stats().records >= 5


def test_a_guard_that_sees_something_else_is_answered_right():
    def f(x):
        return x * x if x > 0.0 else -3.0 * x

    g = warmed(f, 2.0)
    for x, expected in [(3.0, (9.0, 6.0)), (-1.0, (3.0, -3.0)), (-2.0, (6.0, -3.0)), (4.0, (16.0, 8.0))]:
        assert g(x) == expected
    assert sum(g.stats().misses.values()) >= 2


def test_calls_are_still_recorded_again_at_growing_distances():
    g = tg.value_and_grad(rosenbrock)
    for _ in range(100):
        g(np.ones(4))
    assert g.stats().records == 1 + 6  # the first, then at 2, 4, ... 64
    assert g.stats().replays == 100 - 7


def test_eight_threads_give_the_bits_of_one():
    points = np.random.default_rng(0).normal(size=(400, 6))
    g = tg.value_and_grad(rosenbrock)
    expected = [g(x) for x in points]
    wrong, start = [], threading.Barrier(8)

    def hammer(_):
        start.wait()
        for x, (value, gradient) in zip(points, expected):
            found = g(x)
            if found[0] != value or found[1].tobytes() != gradient.tobytes():
                wrong.append(x)

    in_threads(hammer, 8)
    assert not wrong

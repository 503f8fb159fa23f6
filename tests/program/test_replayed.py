"""Replays as executables: their status, what only Python can run, threads."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.program.ports import FINE, OTHER
from tapegrad.program.replayed import Replay
from tests.threads import in_threads

X = np.array([0.5, 2.0, 1.0])


def replay_of(function, *args, gradients=True, **options):
    return Replay(tg.value_and_grad(function).tape(*args), gradients, **options)


def test_values_and_gradients_and_the_guard_that_stops_it():
    replay = replay_of(lambda x: np.sum(x * x) if x[0] > 0.0 else np.sum(x), X)
    assert replay.pointer and not replay.why
    status, (value, gradient) = replay.answer([2.0 * X])
    assert status == FINE and value == pytest.approx(4.0 * np.sum(X * X))
    np.testing.assert_allclose(gradient, 4.0 * X)
    assert replay.answer([-X]) == (0, None)
    assert replay.answer([X])[0] == FINE
    unaligned = np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view("d")
    assert replay.answer([unaligned]) == (OTHER, None)


def test_values_alone():
    replay = replay_of(lambda x: np.sum(x * x), X, gradients=False)
    status, (value,) = replay.answer([X])
    assert status == FINE and value == pytest.approx(np.sum(X * X))


def test_results_that_are_constants_are_written():
    tape = tg.jit(lambda x: (3.0, np.arange(3.0), x * 2.0)).tape(X)
    status, (number, array, twice) = Replay(tape, False).answer([X])
    assert status == FINE and number == 3.0
    np.testing.assert_array_equal(array, np.arange(3.0))
    np.testing.assert_array_equal(twice, 2.0 * X)


def test_a_result_that_is_a_view_is_copied_by_python():
    plane = np.arange(6.0).reshape(2, 3)
    replay = Replay(tg.jit(lambda x: (2.0 * x).T).tape(plane), False)
    assert not replay.pointer and "one piece" in replay.why
    status, (turned,) = replay.answer([plane])
    assert status == FINE
    np.testing.assert_array_equal(turned, 2.0 * plane.T)


def test_rules_in_python_are_run_by_python():
    @tg.primitive
    def cube(x):
        return x**3

    cube.defvjp(lambda g, result, x: 3.0 * x * x * g)
    replay = replay_of(lambda x: np.sum(cube(x) * x), X)
    assert not replay.pointer and "cube" in replay.why
    for x in (X, 2.0 * X):
        status, (value, gradient) = replay.answer([x])
        assert status == FINE and value == pytest.approx(np.sum(x**4))
        np.testing.assert_allclose(gradient, 4.0 * x**3)


def test_a_singular_matrix_is_left_to_numpy():
    matrix = np.array([[2.0, 1.0], [1.0, 3.0]])
    tape = tg.value_and_grad(lambda a: np.sum(np.linalg.solve(a, np.ones(2)))).tape(matrix)
    replay = Replay(tape)
    status, (value, _) = replay.answer([matrix])
    assert status == FINE and value == pytest.approx(np.sum(np.linalg.solve(matrix, np.ones(2))))
    assert replay.answer([np.ones((2, 2))]) == (len(tape.guards), None)
    assert replay.answer([matrix])[0] == FINE


@pytest.mark.parametrize("count", [1, 3])
def test_threads_wait_for_a_workspace(count):
    replay = replay_of(lambda x: np.sum(np.sin(np.outer(x, x)) @ x), np.linspace(0.0, 1.0, 50), count=count)
    points = [np.linspace(0.0, k + 1.0, 50) for k in range(5)]
    expected, wrong = [replay.answer([p])[1] for p in points], []

    def work(k):
        for _ in range(100):
            status, found = replay.answer([points[k]])
            if status != FINE or not all(map(np.array_equal, found, expected[k])):
                wrong.append(k)

    in_threads(work, 5)
    assert not wrong


def test_workspaces_come_from_a_pool_and_go_back():
    pool = tg.value_and_grad(lambda x: np.sum(x * x)).tape(X).kept
    first = pool.take()
    pool.give(first)
    replay = Replay(pool.tape)
    assert not pool and replay.answer([X])[0] == FINE
    # Its inputs are its own again.
    assert first.run([X], True) == -1 and first.output(0) == pytest.approx(np.sum(X * X))
    # What only Python can run takes one for each call.
    pool = tg.value_and_grad(lambda x: np.sum(x * np.argsort(x))).tape(X).kept
    first = pool.take()
    pool.give(first)
    replay = Replay(pool.tape)
    assert not replay.pointer and replay.answer([X])[0] == FINE and pool == [first]

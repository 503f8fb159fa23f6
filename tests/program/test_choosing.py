"""Which mode is cheaper: the counts against what can be counted by hand, and the choices where they are clear."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.program.choosing import NANOSECONDS, WorkEstimate, predict, work
from tapegrad.program.sweeps import StoreWalk


def of(f, *args):
    return StoreWalk(f, args, tuple(range(len(args))))


def test_the_model_has_five_constants():
    assert len(NANOSECONDS) == 5


def test_scalar_instructions_are_counted_once_for_each_seed():
    def f(*x):
        return [x[k] * x[k + 1] for k in range(39)]

    recording = of(f, *np.linspace(0.1, 1.0, 40).tolist())
    assert work(recording.visited()) == WorkEstimate(scalars=39, arrays=0, elements=0, flops=0)
    prediction = predict(recording)
    for cost, seeds in ((prediction.forward, 40), (prediction.reverse, 39)):
        assert (cost.seeds, cost.operations) == (seeds, seeds * 39)
    assert prediction.reverse.nanoseconds == (20 + 39) * NANOSECONDS["pass"] + 39 * 39 * NANOSECONDS["scalar"]
    # Forward mode carries all seeds at once.
    assert prediction.forward.nanoseconds == 80 * NANOSECONDS["pass"] + (250 + 40) * 39 * NANOSECONDS["scalar"]


def test_array_instructions_are_counted_once_for_each_seed():
    recording = of(lambda x, y: (x * 2.0, np.sum(y * y)), np.ones(5), np.ones(7))
    assert work(recording.visited()) == WorkEstimate(scalars=0, arrays=3, elements=5 + 7 + 7, flops=0)
    prediction = predict(recording)
    assert (prediction.forward.operations, prediction.reverse.operations) == (12 * 19, 6 * 19)
    each = 3 * NANOSECONDS["array"] + 19 * NANOSECONDS["element"]
    assert prediction.reverse.nanoseconds == pytest.approx(26 * NANOSECONDS["pass"] + 6 * each)
    assert prediction.forward.nanoseconds == pytest.approx((80 + 65 * 3) * NANOSECONDS["pass"] + 8 * 12 * 19 * NANOSECONDS["element"])


def test_a_read_of_one_element_is_no_instruction():
    recording = of(lambda x: x[0] * x[1], np.ones(9))
    assert work(recording.visited()) == WorkEstimate(scalars=1, arrays=0, elements=0, flops=0)
    assert work(recording.visited()).instructions == 1
    prediction = predict(recording)
    assert prediction.reverse.operations == 1
    assert prediction.reverse.nanoseconds == 21 * NANOSECONDS["pass"] + NANOSECONDS["scalar"]


@pytest.mark.parametrize(
    "f, shape, flops",
    [
        (lambda x: np.ones((3, 4)) @ x, (4,), 3 * 4),
        (lambda x: x @ np.ones((4, 5)), (2, 3, 4), 2 * 3 * 4 * 5),
        (lambda x: np.linalg.inv(x), (6, 6), 6**3),
        (lambda x: np.linalg.solve(x, np.ones(6)), (6, 6), 6**3),
    ],
)
def test_multiplications_of_matrix_routines_are_counted(f, shape, flops):
    x = np.random.default_rng(0).normal(size=shape)
    assert work(of(f, x).visited()).flops == flops


def test_a_recording_that_is_replayed_is_counted_as_one_that_ran(capsys):
    def f(x):
        y = x[0] * x[1] + 2.0
        return np.exp(x) * y

    assert work(of(f, np.ones(5)).visited()) == WorkEstimate(scalars=2, arrays=2, elements=10, flops=0)
    recording = of(f, np.ones(5))
    # Where a tape is replayed each seed has a pass of its own.
    recording.at_once = False
    reason = predict(recording).reason
    jacobian = tg.jit(tg.jacobian(f, explain=True), kernel="never")
    for _ in range(3):
        np.testing.assert_allclose(jacobian(np.ones(5)), np.e * (3.0 * np.eye(5) + np.eye(5)[0] + np.eye(5)[1]))
        assert set(capsys.readouterr().out.splitlines()) == {reason}


@pytest.mark.parametrize(
    "f, n, mode",
    [
        (lambda x: np.sum(np.sin(x) * x), 200, "reverse"),
        (lambda x: np.sin(x[0] * np.arange(2000.0)) * x[1], 2, "forward"),
        (lambda x: np.sum(x) * np.sum(x * x), 100, "reverse"),
        (lambda x: np.sum(np.outer(x, np.ones(3000)), axis=0) ** 2, 3, "forward"),
        (lambda x: np.linalg.solve(np.outer(x, x) + np.eye(9), x), 9, "reverse"),
    ],
)
def test_clear_cases_and_a_tie(f, n, mode):
    prediction = predict(of(f, np.linspace(0.1, 0.9, n)))
    assert prediction.mode == mode
    cheap, other = (prediction.forward, prediction.reverse)[:: 1 if mode == "forward" else -1]
    assert 0 < cheap.nanoseconds <= other.nanoseconds and cheap.operations <= other.operations


def test_two_recordings_are_predicted_alike():
    def f(x):
        return np.linalg.solve(np.outer(x, x) + np.eye(4), x)[0], tg.concatenate([x, x])

    first, second = (predict(of(f, np.ones(4))) for _ in range(2))
    assert first == second

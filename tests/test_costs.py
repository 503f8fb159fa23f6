"""The cost model: its counts against what can be counted by hand, and its choices where they are clear."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.costs import NAMES, counts, predict
from tapegrad.recording import Recording


def of(f, *args):
    return Recording(f, args, tuple(range(len(args))))


def test_scalar_instructions_are_counted_once_for_each_chunk_that_reaches_them():
    def f(*x):
        return [x[k] * x[k + 1] for k in range(39)]

    recording = of(f, *np.linspace(0.1, 1.0, 40).tolist())
    forward, reverse = counts(recording, True), counts(recording, False)
    # Chunks of 16: products 15 and 31 are reached by two chunks of inputs, each by one chunk of outputs.
    assert forward["scalar"] == 39 + 2 and forward["lane"] == 16 * 41
    assert reverse["scalar"] == 39
    assert forward["above"] == reverse["below"] == 3


def test_array_instructions_are_counted_once_for_each_seed_that_reaches_them():
    def f(x, y):
        return x * 2.0, np.sum(y * y)

    forward = counts(of(f, np.ones(5), np.ones(7)), True)
    assert forward["program"] == 5 + 2 * 7
    reverse = counts(of(f, np.ones(5), np.ones(7)), False)
    assert reverse["program"] == 5 + 2


def test_multiplications_of_a_product_are_counted():
    matrix = np.ones((3, 4))
    forward = counts(of(lambda x: matrix @ x, np.ones(4)), True)
    assert forward["flop"] == 4 * 12 and forward["product"] == 4
    reverse = counts(of(lambda x: matrix @ x, np.ones(4)), False)
    assert reverse["flop"] == 3 * 12


def test_many_seeds_are_sampled_in_proportion():
    recording = of(lambda x: x * x * 3.0, np.ones(64 * 40))
    assert counts(recording, True)["program"] == 2 * 64 * 40


@pytest.mark.parametrize(
    "f, n, mode",
    [
        (lambda x: np.sum(np.sin(x) * x), 200, "reverse"),
        (lambda x: np.sin(x[0] * np.arange(200.0)) * x[1], 2, "forward"),
        (lambda x: np.sum(x) * np.sum(x * x), 100, "reverse"),
        (lambda x: np.sum(np.outer(x, np.ones(300)), axis=0) ** 2, 3, "forward"),
    ],
)
def test_clear_cases(f, n, mode):
    prediction = predict(of(f, np.linspace(0.1, 0.9, n)))
    assert prediction.mode == mode
    cheap, other = (prediction.forward, prediction.reverse)[:: 1 if mode == "forward" else -1]
    assert 0 < cheap.nanoseconds < other.nanoseconds and cheap.operations < other.operations
    assert set(cheap.counts) == set(NAMES)


def test_two_recordings_are_predicted_alike():
    def f(x):
        return np.linalg.solve(np.outer(x, x) + np.eye(4), x)[0], tg.concatenate([x, x])

    first, second = (predict(of(f, np.ones(4))) for _ in range(2))
    assert first == second

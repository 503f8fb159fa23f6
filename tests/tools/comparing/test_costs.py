"""The cost model: its counts against what can be counted by hand, and its choices where they are clear."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.autograd.recording import Recording
from tapegrad.tools.comparing import calibration
from tapegrad.transforms.choosing import costs
from tapegrad.transforms.choosing.costs import NAMES, NANOSECONDS, counts, operations_of_duals, predict
from tapegrad.transforms.choosing.reach import instructions


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


def test_a_unit_tangent_reaches_only_the_reads_of_its_own_element():
    t = np.arange(5.0)
    forward = counts(of(lambda x: x[0] * t + x[1] * t, np.ones(3)), True)
    # Two products for one seed each, the sum for two; both reads are looked at for each of 3 seeds.
    assert forward["program"] == 2 + 2 and forward["read"] == 6
    forward = counts(of(lambda x: (x * 2.0)[0] * t, np.ones(3)), True)
    # Of what is computed from an input, every element may depend on every seed.
    assert forward["program"] == 3 + 3 and forward["read"] == 3


@pytest.mark.parametrize("n", [4, 40, 100])
def test_a_unit_adjoint_reaches_only_its_own_part_of_a_stack(n):
    reverse = counts(of(lambda x: np.stack([x[k] * 3.0 for k in range(n)]), np.ones(n)), False)
    # More than 32 numbers are joined from stacks, each of which has a buffer for every seed.
    assert reverse["program"] == (n if n > 32 else 0)
    assert reverse["part"] == n * n and reverse["read"] == n


def test_a_unit_adjoint_reaches_only_the_number_written_to_its_element():
    def f(x):
        y = np.zeros_like(x)
        for k in range(6):
            y[k] = x[k] * x[k]
        return y

    reverse = counts(of(f, np.ones(6)), False)
    # Each of 6 seeds goes through the 6 writes, and from its own to the two reads.
    assert reverse["program"] == 36 and reverse["read"] == 12


def test_what_is_read_elsewhere_too_is_reached_from_there():
    def f(x):
        pair = np.stack([x[0], x[1]])
        return pair, np.sum(pair * pair)

    reverse = counts(of(f, np.ones(2)), False)
    # Seeds 0 and 1: the stack and one read each; seed 2: sum, product, stack, both reads.
    assert reverse["program"] == 2 and reverse["part"] == 3 * 2 and reverse["read"] == 1 + 1 + 2
    reverse = counts(of(lambda x: np.concatenate([x * 2.0, x * x, x * 2.0]), np.ones(2)), False)
    # Each of 6 seeds: the concatenation and, as buffers of zeros, the three products.
    assert reverse["program"] == 6 * 4


def test_instructions_and_operations_of_dual_numbers():
    def f(x):
        y = x[0] * x[1] + 2.0
        return np.exp(x) * y

    recording = of(f, np.ones(5))
    scalars, arrays = instructions(recording)
    assert sum(scalars.values()) == 2 and sum(arrays.values()) == 4
    # Reads cost no arithmetic; multiply and add 1 a lane; exp 1 an element, its product with a number 3.
    assert operations_of_duals(recording, 8) == 8 * (2 + 5 + 3 * 5)


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


# ---- constants of the machine ------------------------------------------------------------


@pytest.fixture
def place(monkeypatch, tmp_path):
    monkeypatch.setenv("TAPEGRAD_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_constants_that_were_saved_are_used(place):
    recording = of(lambda x: np.sum(x * x), np.ones(20))
    before = predict(recording)
    assert costs.nanoseconds() is NANOSECONDS
    path = costs.save(NANOSECONDS | {"down": 1e9})
    assert path.is_relative_to(place)
    after = predict(recording)
    assert (before.mode, after.mode) == ("reverse", "forward")
    assert after.reverse.nanoseconds == pytest.approx(before.reverse.nanoseconds + 1e9 - NANOSECONDS["down"])
    assert before.reverse.counts == after.reverse.counts


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"up": "fast"}'])
def test_a_damaged_file_of_constants_is_an_error(place, text):
    costs.save(NANOSECONDS).write_text(text)
    with pytest.raises(tg.errors.CalibrationError, match="damaged; delete it"):
        predict(of(lambda x: x * x, 1.0))


def test_a_fit_finds_the_constants_that_made_the_times(place):
    rng = np.random.default_rng(0)
    true = np.array([NANOSECONDS[name] for name in NAMES]) * rng.uniform(0.5, 2.0, len(NAMES))
    rows = rng.uniform(0.0, 1.0, (600, len(NAMES))) ** 8 / np.array(list(NANOSECONDS.values()))
    found, error = calibration.fit(rows, rows @ true)
    assert error < 0.02
    np.testing.assert_allclose(list(found.values()), true, rtol=0.1)


def test_what_is_measured_for_a_fit():
    recording = of(lambda x: np.cumsum(x) * np.sum(x), np.ones(30))
    forward, reverse = calibration.measure(recording, 2, 0.0)
    assert 0 < forward < 1 and 0 < reverse < 1
    points = calibration.samples()
    assert len(points) > 100
    reached = {name for f, x in points[::5] for name, value in counts(of(f, x), True).items() if value}
    reached |= {name for f, x in points[::5] for name, value in counts(of(f, x), False).items() if value}
    assert {"scalar", "function", "call", "divide", "flop", "solver", "gather", "scan"} <= reached

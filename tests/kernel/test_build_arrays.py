"""Loop programs of array programs, and of their adjoints, give what replays give."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.kernel import kernel
from tapegrad.kernel.kernel import lower
from tapegrad.kernel.reasons import NotLowered
from tests.kernel.lowered import agree, agree_with_adjoint, tape_of, temporaries


def points(*shapes, count=2):
    rng = np.random.default_rng(7)
    return [tuple(rng.uniform(0.5, 1.5, s) if s != () else float(rng.uniform(0.5, 1.5)) for s in shapes) for _ in range(count)]


def test_arrays_without_loops():
    def function(x, y):
        z = np.sin(x) * y + x[::-1]
        return np.sum(z * z) + z[3] * y[2]

    agree_with_adjoint(function, *points(10, 10))


def test_an_array_carried_from_step_to_step():
    def function(y, a):
        for _ in range(100):
            y = y + 0.01 * np.sin(a * y) * y[::-1]
        return np.sum(y)

    agree_with_adjoint(function, *points(6, ()))


def test_two_arrays_in_turn():
    def function(x, y):
        for _ in range(100):
            x, y = y, 0.9 * x + 0.1 * np.cos(y)
        return np.sum(x * y)

    agree_with_adjoint(function, *points(5, 5))


def test_rows_of_a_matrix():
    def function(a, x):
        total = 0.0
        for i in range(60):
            total = total + np.sin(np.dot(a[i], x)) * x[i % 4]
        return total

    agree_with_adjoint(function, *points((60, 4), 4))


def test_elements_written_one_by_one():
    def function(x):
        y = np.zeros(60) * x[0]
        y[0] = x[0]
        for i in range(1, 60):
            y[i] = 0.5 * y[i - 1] + np.sin(x[i])
        return np.sum(y * x)

    for program in agree_with_adjoint(function, *points(60)):
        assert temporaries(program) < 20 * 60


def test_elements_written_in_loops_in_loops():
    def function(x):
        y = x * 0.0
        for _k in range(5):
            for i in range(1, 80):
                y[i] = y[i - 1] * 0.3 + x[i] + 0.1 * y[i]
            y = y * 0.5
        return np.sum(y * y)

    for program in agree_with_adjoint(function, *points(80)):
        assert temporaries(program) < 25 * 5 * 79


def test_versions_that_are_read_later():
    def function(x):
        y = x * 1.0
        kept = []
        for i in range(30):
            y[i] = y[i] * x[(i + 1) % 30]
            kept.append(np.sum(y))
            old = y
            y = y + 0.0
            y[0] = np.sin(old[0]) + old[1]
        return np.sum(y) + kept[3] * kept[20]

    agree_with_adjoint(function, *points(30))


def test_an_argument_written_to():
    def function(x):
        y = x.copy()
        for i in range(40):
            y[i] = y[i] * y[i]
        return np.sum(y) + x[0]

    agree_with_adjoint(function, *points(40))


def test_constant_arrays_of_each_iteration():
    tables = [np.random.default_rng(k).normal(size=4) for k in range(60)]

    def function(x):
        total = 0.0
        for table in tables:
            total = np.sin(total) + np.sum(x * table)
        return total

    agree_with_adjoint(function, *points(4))


def test_arrays_of_a_loop_used_after_it():
    def function(x):
        rows = []
        y = x
        for _ in range(40):
            y = np.sin(y) + 0.1
            rows.append(y)
        return np.sum(rows[10] * rows[39]) + np.sum(rows[20][1:] * y[:-1])

    agree_with_adjoint(function, *points(5))


def test_a_window_used_after_its_loop():
    def function(x):
        for i in range(50):
            row = x[i]
            part = np.sum(row * row)
        return np.sum(row) * part

    agree_with_adjoint(function, *points((50, 3)))


def test_truth_of_arrays_and_exact_guards():
    def function(x):
        total = 0.0
        for i in range(40):
            if np.sum(x[i : i + 3]) > 0.0:
                total = total + np.max(x[i : i + 3])
        return total

    below = points(43)[0][0]
    below[10:13] = -1.0
    agree_with_adjoint(function, *points(43), (below,))


def test_masks_and_selections():
    def function(x):
        y = np.where(x > 1.0, x * x, 0.5 * x)
        for _ in range(30):
            y = np.where(y > 1.0, y * 0.9, y * 1.1)
        return np.sum(y)

    agree_with_adjoint(function, *points(9))


def test_several_arrays_as_results():
    def function(x, y):
        return x * y, x, np.zeros(3), x[::-1], np.outer(x, y)

    agree(function, *points(4, 4))


def test_single_precision():
    rng = np.random.default_rng(1)

    def function(x):
        for _ in range(30):
            x = np.sin(x) * x + x
            x = x / np.sum(x)
        return np.sum(x * x)

    sets = [(rng.uniform(0.5, 1.5, 6).astype("f"),) for _ in range(2)]
    agree_with_adjoint(function, *sets, rtol=1e-4, atol=1e-5)


def test_a_single_number_in_single_precision():
    def function(x, s):
        for _ in range(40):
            s = np.sin(s) + x[0] * s
        return np.sum(x) * s

    rng = np.random.default_rng(1)
    sets = [(rng.uniform(0.1, 0.5, 3).astype("f"), np.array(rng.uniform(0.1, 0.5), "f")) for _ in range(2)]
    agree_with_adjoint(function, *sets, rtol=1e-4, atol=1e-5)


def test_the_truth_of_an_array_of_one_element():
    def function(x):
        total = 0.0
        for i in range(30):
            if x[i : i + 1] > 0.0:
                total = total + x[i] * x[i]
        return total

    other = points(30)[0][0]
    other[17] = -1.0
    agree_with_adjoint(function, *points(30), (other,))


def test_a_custom_primitive_is_its_instructions():
    @tg.primitive
    def cube(x):
        return x**3

    cube.defvjp(lambda g, ans, x: g * 3 * x**2)
    program = lower(tape_of(lambda x: np.sum(cube(x)), *points(4)[0]))
    assert str(program) == str(lower(tape_of(lambda x: np.sum(x**3), *points(4)[0])))
    agree_with_adjoint(lambda x: np.sum(cube(x)), *points(4))


def test_homes_that_take_too_much(monkeypatch):
    monkeypatch.setattr(kernel, "MOST", 10_000)

    def function(x):
        rows = []
        for _ in range(120):
            x = np.sin(x)
            rows.append(x)
        return sum(np.sum(rows[119 - k] * rows[k]) for k in range(120))

    agree(function, *points(3))
    with pytest.raises(NotLowered, match="MiB"):
        lower(tape_of(function, *points(60)[0]))

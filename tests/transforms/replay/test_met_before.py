"""Calls on paths that were met before: nothing is recorded or compiled, and under jit no Python of the user's runs."""

import warnings
from collections import deque
from functools import wraps

import pytest

import tapegrad as tg
from benchmarks.steady_calls import BEFORE, CALLS, FUNCTIONS, POINTS, met
from tapegrad.codegen.code import COUNTS
from tapegrad.transforms.replay.function import Replayed


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tg.PerformanceWarning)
        yield


def counted(function):
    """`function`, and what has an entry for each of its runs; not a list, which is looked at."""
    runs = deque()

    @wraps(function)
    def counting(x):
        runs.append(1)
        return function(x)

    return counting, runs


@pytest.mark.parametrize("kernel", ["always", "never"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_under_jit_nothing_is_run_recorded_or_compiled(function, kernel):
    counting, runs = counted(function)
    g = met(tg.jit(tg.value_and_grad(counting), kernel=kernel))
    stats = g.stats()
    ran, before, code = len(runs), (stats.records, stats.kernels, stats.tapes), dict(COUNTS)
    spent = stats.seconds["record"], stats.seconds["finish"], stats.seconds["kernel"]
    assert before[0] == before[2] <= len(POINTS) and not stats.runs
    assert kernel == "never" or stats.kernels == stats.tapes or stats.not_lowered
    for k in range(CALLS):
        g(POINTS[k % len(POINTS)])
    assert len(runs) == ran and not stats.runs
    assert (stats.records, stats.kernels, stats.tapes) == before and COUNTS == code
    assert spent == (stats.seconds["record"], stats.seconds["finish"], stats.seconds["kernel"])
    assert stats.replays == CALLS + BEFORE * len(POINTS) - stats.records


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_without_jit_each_call_runs_the_function_once_and_compiles_nothing(function):
    counting, runs = counted(function)
    g = met(tg.value_and_grad(counting))
    ran, code = len(runs), dict(COUNTS)
    for k in range(CALLS // 10):
        g(POINTS[k % len(POINTS)])
    assert len(runs) == ran + CALLS // 10 and COUNTS == code
    assert not g.stats().records and g.stats().runs == len(runs)


def test_a_recording_is_compiled_once():
    g = tg.jit(tg.grad(FUNCTIONS[0]), kernel="always")
    g(POINTS[0])
    assert g.stats().kernels == 1
    for point in POINTS:
        g(point)
    assert g.stats().kernels == 1 and g.stats().kernel_calls == len(POINTS)


@pytest.mark.parametrize("kernel", ["always", "never"])
def test_no_path_met_before_goes_the_long_way(kernel, monkeypatch):
    """From the site of one path to that of the next, however many there are."""
    def steps(x):
        for k in range(8):
            if x < k:
                return (k + 2.0) * x
        return x * x

    g, points = tg.jit(tg.grad(steps), kernel=kernel), [k - 0.5 for k in range(9)]
    expected = [g(x) for x in points]
    for x in points:
        g(x)
    monkeypatch.setattr(Replayed, "call", None)
    for order in (points, points[::-1], points[::2] * 3):
        assert [g(x) for x in order] == [expected[points.index(x)] for x in order]
    assert expected == [k + 2.0 for k in range(8)] + [15.0]
    assert g.stats().records == g.stats().tapes == 9

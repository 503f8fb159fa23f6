"""How steady calls are: the longest of 2 000 calls beside the median, of ten functions on paths that were met before.

Nothing is recorded, compiled or waited for in such calls (a test counts that), so none should take much longer than
the others.  What the machine does meanwhile does not count: an interrupt takes more than a hundred of our calls, another
process thousands.  So there are five runs, each with a function made anew, all of the same calls in the same order, and of
each call the least time of the five counts.  A pause of ours comes at the same call in every run (we have no clock and no thread
that would move it, and garbage is collected by the count of allocations, from zero at the start of a run), one of the
machine's does not.  Collections of garbage are counted, and printed beside.
"""

from __future__ import annotations

import gc
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np

import tapegrad as tg
from tapegrad.common.waiting import busy

from . import fresh
from .registry import Row, benchmark

CALLS, RUNS = 2000, 5
#: Visits of each path before anything is timed.
BEFORE = 4
#: As many under jit, where a later path becomes a kernel when what it has cost pays for one.
UNTIL_KERNELS = 3000
LIMIT = 5.0
#: Seconds promised for as many calls of a function of many paths, from the first one on.
MANY_PATHS = 0.6

PATHS = """
import json, time
import numpy as np
import tapegrad as tg
slopes, values = np.random.default_rng(0).normal(size=(2, 50))
def huber(x):
    total = 0.0
    for a, b in zip(slopes, values):
        size = abs(a * x[0] + x[1] - b)
        total = total + (0.5 * size * size if size < 1.0 else size - 0.5)
    return total
def small(x):
    return x[0] * x[1] if abs(x[0]) < 1.0 else x[0]
g, points = tg.jit(tg.value_and_grad(huber)), [0.5, 0.3] + 0.075 * np.random.default_rng(1).normal(size=({calls}, 2))
# The library's own code is loaded.
once = tg.jit(tg.value_and_grad(small))
for x in ([0.5, 0.5], [1.5, 0.5]) * 3:
    once(np.array(x))
start = time.perf_counter()
for x in points:
    g(x)
taken = time.perf_counter() - start
print(json.dumps({{"taken": taken, "paths": g.stats().tapes, "kernels": g.stats().kernels}}))
"""


def polynomial(x):
    return x[0] ** 3 - 2.0 * x[0] * x[1]


def waves(x):
    return np.sum(np.sin(x) * np.cos(2.0 * x))


def either(x):
    return x[0] * x[1] if x[0] > 0.0 else np.sin(x[0]) + x[1]


def huber(x):
    total = 0.0
    for part in x:
        size = abs(part)
        total = total + (0.5 * size * size if size < 1.0 else size - 0.5)
    return total


def newton(x):
    root, square = x[0] * x[0] + 1.0, x[0] * x[0] + 2.0
    while abs(root * root - square) > 1e-9:
        root = (root + square / root) / 2.0
    return root * x[1]


def matrix(x):
    a = np.stack([x, x[::-1]]) + 3.0 * np.eye(2)
    return np.sum(np.linalg.solve(a, x))


def rosenbrock(x):
    return 100.0 * (x[1] - x[0] ** 2) ** 2 + (1.0 - x[0]) ** 2


def softmax(x):
    return np.sum(tg.softmax(np.concatenate([x, 2.0 * x])) ** 2)


def chain(x):
    y = x[0]
    for k in range(20):
        y = np.sin(y) * x[1] + 0.1 * k
    return y


def sorted_sum(x):
    return np.sum(np.sort(x) * np.array([1.0, 2.0]))


FUNCTIONS = polynomial, waves, either, huber, newton, matrix, rosenbrock, softmax, chain, sorted_sum

#: Points of two or more paths of the functions that have some.
POINTS = [np.array(point) for point in ((0.5, 0.7), (-0.5, 1.7), (1.5, -0.3), (-1.5, -2.0))]


def met(call: Callable) -> Callable:
    """`call` after it has met every path at `POINTS`."""
    for _ in range(BEFORE):
        for point in POINTS:
            call(point)
    return call


def ready(call: Callable) -> Callable:
    """`call` after every path at `POINTS` has become a kernel."""
    for _ in range(UNTIL_KERNELS):
        while busy():
            time.sleep(0.01)  # another thread compiles one
        for point in POINTS:
            call(point)
    return call


def once(call: Callable) -> np.ndarray:
    """The seconds of each call."""
    taken = np.empty(CALLS)
    gc.collect()
    met(call)  # the processor has forgotten it meanwhile
    for k in range(CALLS):
        point = POINTS[k % len(POINTS)]
        start = time.perf_counter()
        call(point)
        taken[k] = time.perf_counter() - start
    return taken


def spread(make: Callable, function: Callable, runs: int) -> float:
    """The longest call over the median one."""
    taken = np.min([once(make(function)) for _ in range(runs)], axis=0)
    # Each point by itself: another path may be another amount of work.
    ways = [taken[k :: len(POINTS)] for k in range(len(POINTS))]
    return max(float(np.max(way) / np.median(way)) for way in ways)


def collections() -> int:
    """How often garbage was collected without being asked for, in the youngest generation or further."""
    return sum(generation["collections"] for generation in gc.get_stats())


def many_paths(quick: bool) -> Iterator[Row]:
    """The first calls of a loop with branches: each path is recorded, and few become kernels."""
    program = PATHS.format(calls=CALLS)
    with tempfile.TemporaryDirectory() as cache:
        runs = []
        for _ in range(2 if quick else RUNS + 1):
            fresh.forget_kernels(cache)
            runs.append(fresh.run(program, cache))
    best = min(runs[1:], key=lambda run: run["taken"])
    yield Row(
        f"a loop of 50 Huber terms: the first {CALLS} calls under jit, no kernel on disk", f"at most {MANY_PATHS:g} s", best["taken"],
        MANY_PATHS, "s", {"paths": str(best["paths"]), "kernels": str(best["kernels"])},
    )  # fmt: skip


@benchmark(name="steady_calls")
def steady_calls(quick: bool) -> Iterator[Row]:
    """The longest of 2 000 calls beside the median one, with and without jit."""
    warnings.simplefilter("ignore", tg.PerformanceWarning)
    yield from many_paths(quick)
    runs = 2 if quick else RUNS
    for how, make in (("with", lambda f: ready(tg.jit(tg.value_and_grad(f)))), ("without", tg.value_and_grad)):
        longest = {function.__name__: spread(make, function, runs) for function in FUNCTIONS}
        call = met(make(FUNCTIONS[0]))
        before = collections()
        for k in range(CALLS):
            call(POINTS[k % len(POINTS)])
        name = max(longest, key=longest.__getitem__)
        yield Row(
            f"{CALLS} calls of {len(FUNCTIONS)} functions on paths met before, {how} jit: the longest over the median",
            f"each call the least of {RUNS} runs, at most {LIMIT:g}", longest[name], LIMIT,
            detail={"of": name, "collections of garbage in as many calls": str(collections() - before)},
        )  # fmt: skip

"""One recorded function in many threads: the same bits as in one, and nobody waits for ever."""

import threading

import numpy as np

import tapegrad as tg
from tapegrad.transforms.functional import value_and_grad
from tapegrad.transforms.replay import running
from tests.threads import in_threads
from tests.transforms.replay.agreement import quiet


def hammered(function, points, threads=8, rounds=5):
    """Answers of `threads` threads, each to all points in an order of its own; as bytes, by point."""
    g = tg.jit(value_and_grad(function))
    found = [[set() for _ in points] for _ in range(threads)]
    start = threading.Barrier(threads)

    def work(number):
        rng = np.random.default_rng(number)
        start.wait()
        for _ in range(rounds):
            for k in rng.permutation(len(points)):
                value, gradient = g(points[k])
                found[number][k].add((np.float64(value).tobytes(), np.asarray(gradient).tobytes()))

    with quiet() as warned:
        in_threads(work, threads)
    return g, [set.union(*(f[k] for f in found)) for k in range(len(points))], warned


def check(function, points, **options):
    # By sweeps and by a kernel, which may differ in the last bit: when there is a kernel is a matter of time.
    wanted = [set() for _ in points]
    for kernel in ("never", "always"):
        alone = tg.jit(value_and_grad(function), kernel=kernel)
        for k, p in enumerate(points):
            alone(p), alone(p)
            value, gradient = alone(p)
            wanted[k].add((np.float64(value).tobytes(), np.asarray(gradient).tobytes()))
    g, found, warned = hammered(function, points, **options)
    assert all(one <= other for one, other in zip(found, wanted, strict=True)) and not warned
    return g


def test_one_tape():
    rng = np.random.default_rng(0)

    def function(x):
        return np.sum(np.sin(x) * np.cumsum(x)) + np.sort(x)[2] * x[0]

    g = check(function, [rng.standard_normal(6) for _ in range(20)], rounds=20)
    assert g.stats().tapes == 1


def test_paths_recorded_while_others_replay():
    rng = np.random.default_rng(0)

    def function(x):
        total = x[0] * 0
        for v in x:
            total = total + (v * v if v > 0 else np.sin(v))
        return total * np.sum(x[x > 0])

    g = check(function, [rng.standard_normal(4) for _ in range(40)])
    assert g.stats().fallback == "" and 2 < g.stats().tapes <= 16


def test_more_paths_than_are_kept():
    rng = np.random.default_rng(0)

    def function(x):
        total = x[0] * 0
        for v in x:
            total = total + (v * v if v > 0 else np.sin(v))
        return total

    points = [rng.standard_normal(7) for _ in range(100)]
    with quiet():
        _, found, _ = hammered(function, points, rounds=3)
    assert all(len(f) == 1 for f in found)


def test_nested_transformations():
    """A recorded function that calls another on plain numbers, from all threads."""
    inner = tg.jit(value_and_grad(lambda y: y * y if y > 2 else y))

    def outer(x):
        return np.sum(x * x) * inner(float(len(x)))[0]

    check(outer, [np.ones(n) * n for n in (1, 2, 3, 4)])


def test_functions_that_call_each_other():
    """Two recorded functions, each of which records the other: no thread waits for ever."""
    pair = {}

    def even(x):
        return x * (pair["odd"](len_of(x) - 1.0)[0] if len_of(x) > 0 else 1.0)

    def odd(x):
        return x * (pair["even"](len_of(x) - 1.0)[0] if len_of(x) > 0 else 1.0)

    def len_of(x):
        return float(x.item()) if hasattr(x, "item") else float(x)

    pair["even"], pair["odd"] = tg.jit(value_and_grad(even)), tg.jit(value_and_grad(odd))
    found, start = [], threading.Barrier(8)

    def work(k):
        name = ("even", "odd")[k % 2]
        start.wait()
        found.append((name, pair[name](4.0)[0]))

    with quiet():
        in_threads(work, 8)
    assert len(found) == 8 and len({v for _, v in found}) == 1


def test_a_function_that_waits_for_threads_which_call_it(monkeypatch):
    monkeypatch.setattr(running, "PATIENCE", 0.5)

    def function(x):
        if x.item() > 1:
            in_threads(lambda _: answers.append(g(1.0)), 1)
        return x * x

    answers = []
    g = tg.jit(value_and_grad(function))
    assert g(3.0) == (9.0, 6.0) and answers == [(1.0, 2.0)]

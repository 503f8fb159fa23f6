"""Loops that are spread over threads: which, that results do not change, and that the number of threads does not change a bit."""

import os
import threading

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.codegen.memory import spread_address
from tapegrad.kernel import ir, spreading
from tapegrad.kernel.emit import CompileOptions
from tapegrad.kernel.kernel import Kernel
from tapegrad.kernel.passes import renaming, run_passes
from tapegrad.rules import lang as L
from tests.every import every
from tests.kernel.compare import call, waste
from tests.kernel.interpret import interpret
from tests.kernel.passes.generated import Generated, Rows, Windows
from tests.kernel.programs import Writer, a, temporary
from tests.kernel.random_programs import arguments, program
from tests.threads import in_threads

N = 40


@pytest.fixture
def small(monkeypatch):
    """Loops are spread however little they take, in as many chunks as they have iterations."""
    monkeypatch.setattr(spreading, "_WORTH", -1.0)
    monkeypatch.setattr(spreading, "_CHUNK", 1e-12)


@pytest.fixture(params=[1, 2, 5])
def threads(request):
    before, tg.config.threads = tg.config.threads, request.param
    yield request.param
    tg.config.threads = before


def agrees(made, inputs, limit=1000):
    """Compiled code against the interpreter; returns how many loops are spread."""
    expected, found = waste(made), waste(made)
    status = interpret(made, inputs, expected)
    assert call(Kernel(made, CompileOptions(limit=limit)), inputs, found) == status
    for one, other in zip(found, expected) if status == -1 else ():
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6 if one.dtype.kind == "f" else 1)
    return len(spreading.spread(made))


def test_random_programs(small):
    assert sum(agrees(program(seed), arguments(seed), limit) for seed in range(400, 412) for limit in (15, 1000)) > 20


@pytest.mark.parametrize("kind", [Generated, Rows, Windows])
def test_random_programs_after_all_passes(small, kind):
    spread = 0
    for seed in range(300, 312):
        made = run_passes(kind(seed).program)
        rng = np.random.default_rng(seed)
        spread += agrees(made, [rng.normal(size=b.size) for b in made.inputs])
    assert spread > 10


def loop_of(fill, *inits, reorder=True, extent=N):
    """A program of one loop, which `fill` writes: it gets a writer, the loop, an input and an output."""
    w = Writer()
    x, y = w.input(2 * N), w.output(2 * N)
    inits = [w.let(v) if isinstance(v, float) else w.let(L.ne(a(w.load(x, 0)), 1e9), "?") for v in inits]
    with w.loop(extent, *inits, reorder=reorder) as i:
        fill(w, i, x, y)
    for k, carry in enumerate(i.carries):
        w.store(carry.next, y, 2 * N - 1 - k)
    return w.program()


def elements(w, i, x, y):
    w.store(w.let(2.0 * a(w.load(x, 1, (i, 1)))), y, 0, (i, 1))


def in_place(w, i, x, y):
    w.store(w.load(x, 0, (i, 1)), y, 0, (i, 1))
    w.store(w.let(2.0 * a(w.load(y, 0, (i, 1)))), y, 0, (i, 1))


def pairs(w, i, x, y):
    for k in (0, 1):
        w.store(w.let(a(w.load(x, k, (i, 1)))), y, k, (i, 2))


def added(w, i, x, y):
    i.carries[0].next = w.let(a(i.carries[0]) + a(w.load(x, 0, (i, 1))))


def added_in_two_steps(w, i, x, y):
    once = w.let(0.5 + a(i.carries[0]))
    i.carries[0].next = w.let(a(w.load(x, 0, (i, 1))) + a(once))


def all_true(w, i, x, y):
    i.carries[0].next = w.let(a(i.carries[0]) & L.ne(a(w.load(x, 0, (i, 1))), 1e3), "?")


def in_rows(w, i, x, y):
    with w.loop(3, i.carries[0], reorder=True) as j:
        j.carries[0].next = w.let(a(j.carries[0]) + a(w.load(x, 0, (i, 3), (j, 1))))
    i.carries[0].next = j.carries[0].next


def shifted(w, i, x, y):
    w.store(w.let(2.0 * a(w.load(y, 0, (i, 1)))), y, 1, (i, 1))


def overlapping(w, i, x, y):
    for k in (0, 1):
        w.store(w.load(x, k, (i, 1)), y, k, (i, 1))


def scattered(w, i, x, y):
    w.store(w.load(x, 0, (i, 1)), y, 0, (i, 1), table=np.arange(2 * N) // 2)


def one_place(w, i, x, y):
    w.store(w.load(x, 0, (i, 1)), y, 5)


def multiplied(w, i, x, y):
    i.carries[0].next = w.let(a(i.carries[0]) * a(w.load(x, 0, (i, 1))))


def running(w, i, x, y):
    added(w, i, x, y)
    w.store(i.carries[0].next, y, 0, (i, 1))


def twice(w, i, x, y):
    i.carries[0].next = w.let(a(i.carries[0]) + a(i.carries[0]))


def subtracted(w, i, x, y):
    i.carries[0].next = w.let(a(w.load(x, 0, (i, 1))) - a(i.carries[0]))


def guarded(w, i, x, y):
    w.guard(w.let(L.ne(a(w.load(x, 0, (i, 1))), 1e9), "?"))


SPREAD = [
    loop_of(elements), loop_of(in_place), loop_of(pairs), loop_of(added, 0.25), loop_of(added_in_two_steps, 0.25), loop_of(all_true, True),
    loop_of(in_rows, 0.5, extent=N // 2),
]  # fmt: skip
KEPT = [
    loop_of(shifted), loop_of(overlapping), loop_of(scattered), loop_of(one_place), loop_of(multiplied, 1.0), loop_of(running, 0.0), loop_of(twice, 1.0),
    loop_of(subtracted, 1.0), loop_of(guarded), loop_of(added, 0.25, reorder=False), loop_of(in_rows, 0.5, reorder=False, extent=N // 2),
]  # fmt: skip


@every("made", SPREAD + KEPT)
def test_which_loops_are_spread(small, threads, made):
    assert agrees(made, [np.linspace(0.5, 1.5, 2 * N)]) == (made in SPREAD)


def test_a_value_of_the_last_iteration_is_not_of_any_chunk(small):
    w = Writer()
    x, y = w.input(N), w.output(1)
    with w.loop(N) as i:
        last = w.load(x, 0, (i, 1))
    w.store(last, y)
    assert not agrees(w.program(), [np.arange(N) + 0.5])


def test_small_loops_are_not_worth_it():
    assert not any(spreading.spread(made) for made in SPREAD)


def test_a_temporary_of_one_iteration_is_as_large_as_its_part(small, threads, monkeypatch):
    monkeypatch.setattr(renaming, "_LARGE", 0)
    monkeypatch.setattr(renaming, "_PARTS", 8)
    w = Writer()
    x, y, t, whole = w.input(6 * N), w.output(6 * N), temporary(6 * N), temporary(6 * N)
    with w.loop(N) as i:
        with w.loop(6) as j:
            w.store(w.let(L.sin(a(w.load(x, 0, (i, 6), (j, 1))))), t, 0, (i, 6), (j, 1))
            w.store(w.load(x, 0, (i, 6), (j, 1)), whole, 0, (i, 6), (j, 1))
        with w.loop(6) as j:
            w.store(w.load(t, 5, (i, 6), (j, -1)), y, 0, (i, 6), (j, 1))
    with w.loop(6 * N) as i:
        w.store(w.let(a(w.load(y, 0, (i, 1))) + a(w.load(whole, 0, (i, 1)))), y, 0, (i, 1))
    made, inputs = w.program(), [np.linspace(-1.0, 1.0, 6 * N)]
    before = waste(made)
    interpret(made, inputs, before)
    renaming.contract(made)
    assert (t.size, whole.size) == (6, 6 * N) and t.within is made.body[0]
    after = waste(made)
    interpret(made, inputs, after)
    assert np.array_equal(before[0], after[0])
    assert agrees(made, inputs) == 2
    assert Kernel(made, CompileOptions()).nbytes > 6 * N * 8 + N * 48


def black_scholes(p, strikes, times):
    d = (np.log(p[0] / strikes) + (p[2] + 0.5 * p[1] ** 2) * times) / (p[1] * np.sqrt(times))
    return np.sum(p[0] * np.tanh(d) - strikes * np.exp(-p[2] * times) * np.tanh(d - p[1] * np.sqrt(times)))


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def paths(p, noise):
    s = p[0] * np.exp(np.cumsum(p[1] * noise - 0.5 * p[1] ** 2, axis=1))
    return np.mean(np.maximum(np.mean(s, axis=1) - p[2], 0.0))


rng = np.random.default_rng(3)
LARGE = {
    "rosenbrock": (rosenbrock, np.linspace(-1.0, 1.0, 400_000)),
    "black_scholes": (black_scholes, np.array([100.0, 0.2, 0.03]), rng.uniform(80.0, 120.0, 50_000), rng.uniform(0.1, 2.0, 50_000)),
    "paths": (paths, np.array([100.0, 0.1, 101.0]), rng.standard_normal((4_000, 30))),
}


@pytest.mark.parametrize("name", LARGE)
def test_threads_do_not_change_a_bit(name):
    f, *args = LARGE[name]
    g = tg.jit(tg.value_and_grad(f), kernel="always")
    g(*args)
    answers, before = [], tg.config.threads
    assert spreading.spread(g.kernel(*args).program)
    try:
        for count in (1, 2, 3, 7):
            tg.config.threads = count
            answers += [g(*args) for _ in range(3)]
    finally:
        tg.config.threads = before
    for value, gradient in answers:
        assert value == answers[0][0] and np.array_equal(gradient, answers[0][1])
    value, gradient = tg.value_and_grad(f)(*args)
    np.testing.assert_allclose(answers[0][0], value, rtol=1e-12)
    np.testing.assert_allclose(answers[0][1], gradient, rtol=1e-10, atol=1e-12 * np.max(np.abs(gradient)))


def test_several_threads_of_python_at_once(threads):
    f, *args = LARGE["paths"]
    g = tg.jit(tg.value_and_grad(f), kernel="always")
    g(*args)
    wanted = g(*args)

    def work(k):
        for _ in range(20):
            value, gradient = g(*args)
            assert value == wanted[0] and np.array_equal(gradient, wanted[1])

    in_threads(work, 4)


def test_threads_are_kept():
    f, *args = LARGE["rosenbrock"]
    g, before = tg.jit(f, kernel="always"), tg.config.threads
    tasks = "/proc/self/task"
    if not os.path.isdir(tasks):
        pytest.skip("this system does not say how many threads there are")
    try:
        tg.config.threads = 3
        for _ in range(3):
            g(*args)
        count = len(os.listdir(tasks))
        for _ in range(50):
            g(*args)
        assert len(os.listdir(tasks)) == count >= threading.active_count() + 2
    finally:
        tg.config.threads = before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_that_is_forked_has_threads_of_its_own(threads):
    f, *args = LARGE["paths"]
    g = tg.jit(tg.value_and_grad(f), kernel="always")
    g(*args), g(*args)
    wanted = g(*args)
    child = os.fork()
    if not child:
        status = 1
        try:
            value, gradient = g(*args)
            status = int(not (value == wanted[0] and np.array_equal(gradient, wanted[1])))
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_there_is_one_function_that_spreads():
    assert spread_address() == spread_address() != 0


def test_steps_of_expressions():
    w = Writer()
    x = w.input(1)
    v, u = w.load(x), w.load(x)
    for expr, step in [
        (a(v) + a(u), "add"), (a(u) + (a(u) * 2.0 + (a(v) + 1.0)), "add"), (a(v) & a(u), "and"), (a(v), None), (a(v) + a(v), None), (a(v) * a(u), None),
        (a(u) - a(v), None), ((a(v) + a(u)) * 2.0, None), ((a(v) & a(u)) + a(u), None),
    ]:  # fmt: skip
        assert spreading._step(expr, v) == step
    assert ir.TEMPORARY == temporary(3).role

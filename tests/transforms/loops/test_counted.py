"""What loops cost, counted: how often bodies run, how many instructions a tape has, how many recordings there are."""

from queue import SimpleQueue

import numpy as np
import pytest

import tapegrad as tg
from tests.transforms.loops import plainly


class Counted:
    """A body that counts its runs where no transformation looks: inside of an object of the standard library."""

    def __init__(self, function):
        self.function, self._runs = function, SimpleQueue()

    @property
    def runs(self):
        return self._runs.qsize()

    def __call__(self, *args):
        self._runs.put(None)
        return self.function(*args)


def runs_of(iterations, transformation):
    """How often the bodies of three loops run in one derivative."""
    scanned = Counted(lambda y, x: (y + 0.01 * np.sin(y) * x, y))
    counted = Counted(lambda i, y: y * 0.99 + 0.01)
    repeated = Counted(lambda s: (s[0] + 1.0, s[1] * 0.99))

    def f(p):
        y, ys = tg.scan(scanned, p, np.ones(iterations))
        y = tg.fori_loop(0, iterations, counted, y + np.sum(ys))
        return tg.while_loop(lambda s: s[0] < iterations, repeated, (0.0, y))[1]

    transformation(f)(0.5)
    return [body.runs for body in (scanned, counted, repeated)]


TRANSFORMATIONS = {
    "grad": tg.grad, "jit": lambda f: tg.jit(tg.grad(f)), "jacrev": tg.jacrev, "hessian": lambda f: tg.jit(tg.hessian(f)),
    "backward": lambda f: lambda x: f(tg.tensor(x, requires_grad=True)).backward(),
}  # fmt: skip


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
def test_a_body_runs_a_few_times_however_many_turns_there_are(transformation):
    few, many = (runs_of(iterations, TRANSFORMATIONS[transformation]) for iterations in (5, 60))
    assert few == many and max(few) <= 4


def length_of(f, *args):
    return len(tg.grad(f).tape(*args))


@pytest.mark.parametrize("form", ["scan", "while_loop", "fori_loop", "map"])
def test_instructions_of_a_tape_do_not_grow_with_iterations(form):
    def f(x, iterations):
        xs = np.ones(iterations)
        if form == "scan":
            return tg.scan(lambda y, e: (np.sin(y) * e, None), x, xs)[0]
        if form == "while_loop":
            return tg.while_loop(lambda s: s[0] < iterations, lambda s: (s[0] + 1, np.sin(s[1])), (0, x))[1]
        if form == "fori_loop":
            return tg.fori_loop(0, iterations, lambda i, y: np.sin(y) * 0.5, x)
        return np.sum(tg.map(lambda e: np.sin(e * x), xs))

    lengths = {length_of(lambda x, n=iterations: f(x, n), 0.5) for iterations in (3, 30, 300)}
    assert len(lengths) == 1


def test_instructions_of_an_associative_scan_grow_with_the_logarithm_of_its_length():
    lengths = [length_of(lambda x: np.sum(tg.associative_scan(lambda a, b: a * b, x)), np.ones(2**k)) for k in (4, 5, 6, 7)]
    assert len({later - before for before, later in zip(lengths, lengths[1:])}) == 1


def test_two_hundred_calls_with_two_hundred_counts_of_turns_are_one_recording():
    g = tg.jit(tg.grad(lambda a: tg.while_loop(lambda s: s[0] < a, lambda s: (s[0] + 1.0, s[1] * a + np.sin(a)), (0.0, a))[1]))
    plain = tg.grad(lambda a: plainly.while_loop(lambda s: s[0] < a, lambda s: (s[0] + 1.0, s[1] * a + np.sin(a)), (0.0, a))[1])
    for k in range(200):
        a = 1.001 + 0.05 * k
        assert g(a) == pytest.approx(plain(a), rel=1e-10)
    stats = g.stats()
    assert (stats.records, stats.tapes, stats.fallback) == (1, 1, "")


def test_a_path_of_a_body_is_recorded_once():
    """The body is run again at the iteration that goes another way, and at no other; the function around it is not."""
    def step(c, x):
        if x > 0.0:
            return c * x, None
        return np.sin(c) - x, None

    body, around = Counted(step), Counted(lambda c, xs: tg.scan(body, c, xs)[0])
    g = tg.jit(tg.grad(lambda c, xs: around(c, xs)))
    plain = tg.grad(lambda c, xs: plainly.scan(step, c, xs)[0])
    rng = np.random.default_rng(0)
    for _ in range(40):
        xs = rng.normal(size=25)
        assert g(0.7, xs) == pytest.approx(plain(0.7, xs), rel=1e-10)
    assert around.runs <= 2 and body.runs <= 6 and g.stats().records <= 2


def test_a_choice_is_one_recording_whichever_side_is_taken():
    true, false = Counted(lambda x: np.sin(x)), Counted(lambda x: x * x)
    g = tg.jit(tg.grad(lambda x: tg.cond(x > 0.0, true, false, x)))
    for x in (0.5, -0.5, 0.7, -0.7):
        assert g(x) == pytest.approx(np.cos(x) if x > 0 else 2.0 * x, rel=1e-14)
    assert g.stats().records == 1 and true.runs <= 2 and false.runs <= 2


def test_a_switch_is_one_recording_whichever_branch_is_taken():
    branches = [lambda x, k=k: x ** (k + 1) for k in range(4)]
    g = tg.jit(tg.grad(lambda x, k: tg.switch(k, branches, x)))
    for k in (0, 3, 1, 2, -5, 9):
        clamped = min(max(k, 0), 3)
        assert g(1.3, np.array(k)) == pytest.approx((clamped + 1) * 1.3**clamped, rel=1e-12)
    assert g.stats().records == 1


def test_the_length_of_a_fori_loop_may_be_an_argument():
    g = tg.jit(tg.grad(lambda x, n: tg.fori_loop(0, n, lambda i, y: y * x + i, 1.0)))
    for n in (3, 0, 7, 20, 1, 12):
        assert g(0.9, np.array(n)) == pytest.approx(tg.grad(lambda x, n=n: plainly.fori_loop(0, n, lambda i, y: y * x + i, 1.0))(0.9), rel=1e-12)
    assert g.stats().records == 1


def test_the_length_of_a_fori_loop_is_an_integer_under_jit_too():
    for transformed in (tg.grad, lambda f: tg.jit(tg.grad(f))):
        with pytest.raises(tg.errors.StructureError, match="have to be integers"):
            transformed(lambda x, n: tg.fori_loop(0, n, lambda i, y: y * x, 1.0))(0.9, 2.5)


def test_a_tape_prints_its_loops_and_choices():
    def f(x):
        y, _ = tg.scan(lambda y, e: (np.sin(y) * e, None), x, np.ones(50))
        y = tg.while_loop(lambda y: y < 3.0, lambda y: y * 1.5 + 0.1, y)
        return tg.cond(y > 4.0, lambda y: y, lambda y: 2.0 * y, y)

    lines = str(tg.grad(f).tape(0.5)).splitlines()
    assert sum(line.split()[1] == "loop" for line in lines) == 3 and len(lines) < 40


def test_loops_are_part_of_one_kernel():
    def f(x):
        y, _ = tg.scan(lambda y, e: (np.sin(y) * e, None), x, np.linspace(0.9, 1.0, 20))
        return tg.while_loop(lambda y: y < 3.0, lambda y: y * 1.5 + 0.1, y)

    g = tg.jit(tg.value_and_grad(f), kernel="always")
    for x in (0.5, 0.7, 0.6, 2.9):
        g(x)
    stats = g.stats()
    assert (stats.records, stats.kernels) == (1, 1) and not stats.not_lowered and stats.sweeps == 0

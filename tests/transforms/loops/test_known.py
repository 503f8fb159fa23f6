"""A plain call records the body of a loop each time; layout and machine code of what it has recorded before are taken again."""

import gc
import threading
import weakref

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.scipy.integrate import solve_ivp
from tapegrad.transforms.loops import loop, running

SCALE = 1.0


@pytest.fixture
def made(monkeypatch):
    """Executables and adjoints of paths that are made."""
    found = []
    for name in ("_executable", "_pulled", "_tangent"):
        before = getattr(loop.LoopPath, name)
        monkeypatch.setattr(loop.LoopPath, name, lambda self, *a, before=before, name=name: found.append(name) or before(self, *a))
    vars(running._LAYOUTS).clear()
    return found


def total(body, init=0.0, count=5):
    return lambda x: tg.scan(lambda c, k: (body(c, k, x), None), init, np.arange(1.0, count + 1))[0]


def test_a_second_call_lays_out_nothing(made):
    g = tg.grad(total(lambda c, k, x: c + np.sin(x * k)))
    first = g(0.3)
    assert made
    made.clear()
    assert g(0.3) == first
    assert g(0.7) == pytest.approx(sum(k * np.cos(0.7 * k) for k in range(1, 6)))
    assert not made


def test_higher_derivatives_lay_out_nothing_either(made):
    h = tg.hessian(total(lambda c, k, x: c + np.sin(x * k) * c, init=1.0))
    first = h(0.3)
    made.clear()
    assert h(0.3) == first and not made


def test_what_a_body_reads_is_read_at_each_call(made):
    global SCALE
    offset = 1.0
    power = [2.0]
    g = tg.value_and_grad(total(lambda c, k, x: c + SCALE * x**power[0] + offset * x))
    g(2.0)
    for SCALE, offset, power[0] in ((1.0, 1.0, 2.0), (3.0, 1.0, 2.0), (3.0, -2.0, 2.0), (3.0, -2.0, 3.0), (0.0, -2.0, 3.0), (-0.0, 5.0, 1.0)):
        value, derivative = g(2.0)
        assert value == pytest.approx(5 * (SCALE * 2.0 ** power[0] + offset * 2.0))
        assert derivative == pytest.approx(5 * (SCALE * power[0] * 2.0 ** (power[0] - 1) + offset))
    SCALE = 1.0


def test_random_draws_are_those_of_the_call():
    rng = np.random.default_rng(0)

    def f(x):
        draw = rng.normal()
        return tg.scan(lambda c, k: (c + draw * x * k, None), 0.0, np.arange(3.0))[0]

    expected = np.random.default_rng(0)
    for _ in range(5):
        assert tg.grad(f)(1.0) == pytest.approx(3.0 * expected.normal())


def test_the_sign_of_a_zero_and_the_type_of_a_number_are_part_of_what_is_known():
    for zero in (0.0, -0.0, 0.0):
        value = tg.value_and_grad(total(lambda c, k, x, zero=zero: c * 1.0 + np.copysign(1.0, zero) * x))(2.0)[0]
        assert value == 5 * np.copysign(2.0, zero)


def test_captured_arrays_are_not_kept():
    alive = []

    def f(x, rows):
        return tg.scan(lambda c, k: (c + np.sum(rows * x), None), 0.0, np.arange(3.0))[0]

    for size in (4, 100_000):
        rows = np.ones(size)
        alive.append(weakref.ref(rows))
        assert tg.grad(f)(1.0, rows) == 3.0 * size
        del rows
    gc.collect()
    assert [r() for r in alive] == [None, None]


def test_a_captured_array_that_changes_between_calls_is_another():
    rows = np.ones(4)
    g = tg.grad(lambda x: tg.scan(lambda c, k: (c + np.sum(rows * x), None), 0.0, np.arange(3.0))[0])
    for k in range(4):
        rows[:] = k
        assert g(1.0) == 12.0 * k


def test_loops_that_share_a_path_go_back_in_any_order():
    f = total(lambda c, k, x: c * 0.5 + np.sin(x * k))
    expected = [tg.grad(f)(x) for x in (0.3, 0.9)]
    for order in ((0, 1), (1, 0)):
        leaves = [tg.tensor(x, requires_grad=True) for x in (0.3, 0.9)]
        with tg.Tape():
            results = [f(leaf) for leaf in leaves]
        for k in order:
            results[k].backward(retain_graph=True)
        assert [leaf.grad.item() for leaf in leaves] == expected


def test_threads_have_paths_of_their_own():
    f = total(lambda c, k, x: c + np.tanh(x * k) * c, init=1.0, count=200)
    expected, found = tg.grad(f)(0.01), []
    threads = [threading.Thread(target=lambda: found.extend(tg.grad(f)(0.01) for _ in range(20))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [expected] * 80


def test_few_paths_are_kept():
    for k in range(running.PATHS + 10):
        tg.grad(total(lambda c, j, x, k=k: c * (k + 0.5) + x))(1.0)
    assert len(running._LAYOUTS.by_key) == running.PATHS


def test_an_integration_records_its_right_hand_side_at_each_call(made):
    calls = []
    rate = 1.0

    def slope(t, y, k):
        calls.append(t)
        return -rate * k * y

    def f(k):
        return solve_ivp(slope, (0.0, 1.0), np.array([1.0, 2.0]), args=(k,), t_eval=[1.0], rtol=1e-8, atol=1e-10).y[0, 0]

    g = tg.grad(f)
    g(0.7)
    made.clear()
    calls.clear()
    assert g(0.7) == pytest.approx(-np.exp(-0.7), rel=1e-6) and calls and not made
    rate = 2.0
    assert g(0.7) == pytest.approx(-2 * np.exp(-1.4), rel=1e-6)


def nested(x, rows):
    """A loop in a loop, with a choice in it."""

    def inner(c, row):
        return tg.cond(c > 0.6, lambda c: np.sin(c * row) * x, lambda c: c + row * x, c), None

    return tg.scan(lambda c, k: (tg.scan(inner, c * 0.5, rows)[0] + k * x, None), x, np.arange(4.0))[0]


def test_loops_in_loops():
    rows = np.array([0.3, 0.9, -0.4])
    g, h = tg.value_and_grad(nested), tg.hessian(nested)
    first, second = g(0.7, rows), h(0.7, rows)
    assert g(0.7, rows) == first and h(0.7, rows) == second
    # Other constants and other arrays are other paths, or arguments.
    plain = [nested(0.7 + step, rows * 2.0) for step in (1e-6, 0.0, -1e-6)]
    value, derivative = g(0.7, rows * 2.0)
    assert value == pytest.approx(plain[1], rel=1e-14) and derivative == pytest.approx((plain[0] - plain[2]) / 2e-6, rel=1e-6)


@pytest.mark.parametrize("kernel", ["never", "always"])
def test_a_loop_shares_nothing_with_one_in_its_body(monkeypatch, kernel):
    """It holds its blocks while the other one runs, and would wait for itself."""
    monkeypatch.setattr(tg.config, "kernel", kernel)

    def once(c):
        return c * 0.5 + np.sin(c)

    def body(s):
        k, c = s
        if c > 0.9:
            return k + 1, once(c)
        return k + 1, tg.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, once(s[1])), (0, c))[1]

    def f(x):
        return tg.while_loop(lambda s: s[0] < 4, body, (0, x))[1]

    for x in (2.0, 0.5, 1.3, 0.1):
        assert tg.grad(f)(x) == pytest.approx((f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rel=1e-6)
        leaf = tg.tensor(x, requires_grad=True)
        f(leaf).backward()
        assert leaf.grad.item() == pytest.approx(tg.grad(f)(x), rel=1e-12)


def test_a_loop_that_meets_another_one_later_shares_nothing_with_it():
    def f(x, k):
        def body(s):
            try:
                c = s[1] * [0.5, 0.7][k]
                c = tg.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, np.sin(s[1])), (0, c * 1.0))[1]
            except IndexError:
                c = np.tanh(s[1]) if s[1] > 0.1 else 0.4 * s[1] * s[1]
            return s[0] + 1, c

        return tg.while_loop(lambda s: s[0] < 3, body, (0, np.sum(x) * 1.0))[1]

    for x, k in (([0.781, 1.333], 2), ([-0.731, -1.283], 1), ([0.879, -1.313], 1)):
        leaf, step = tg.tensor(x, requires_grad=True), np.array([1e-6, 0.0])
        f(leaf, k).backward()
        assert leaf.grad[0].item() == pytest.approx((f(x + step, k) - f(x - step, k)) / 2e-6, rel=1e-6)


def test_nothing_of_a_call_is_kept_by_loops_in_loops():
    class Big:
        pass

    def call():
        held, rows = Big(), np.ones(3)

        def body(c, row):
            assert held is not None
            return np.tanh(c * row) + np.sum(rows), None

        tg.grad(lambda x: tg.scan(lambda c, k: (tg.scan(body, c * x, rows)[0], None), x, np.arange(3.0))[0])(0.5)
        return weakref.ref(held), weakref.ref(rows)

    references = call()
    gc.collect()
    assert [r() for r in references] == [None, None]


def test_a_path_that_is_met_later_is_recorded_though_the_others_are_known(made):
    def f(x):
        def inner(c, k):
            return (c * 0.5 if c > 2.0 else c + x * k), None

        return tg.scan(lambda c, k: (tg.scan(inner, c, np.arange(3.0))[0] + k, None), x, np.arange(5.0))[0]

    def in_python(x):
        c = x
        for k in range(5):
            for j in range(3):
                c = c * 0.5 if c > 2.0 else c + x * j
            c = c + k
        return c

    for x in (0.1, 0.2, 1.5, 0.1, 3.0, -1.0):
        assert tg.value_and_grad(f)(x) == pytest.approx(tg.value_and_grad(in_python)(x))

"""Adjoints and tangents of numbers, written behind them on their tape (`kernel.behind`), beside the rules run on tensors (`autograd`)."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array import recorded
from tapegrad.autograd import nested
from tapegrad.kernel import behind
from tapegrad.rules import ROWS
from tests.every import every

#: Scalar rows that a random program is made of, on numbers between 0.2 and 2.
UNARY = (np.sin, np.exp, np.sqrt, np.log, np.tanh, np.arctan, np.log1p, np.abs, np.negative, np.square, np.reciprocal)
BINARY = (np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum, np.hypot, np.arctan2, np.power)


def program(seed):
    """A function of two numbers, and of a third that it uses from outside."""

    def f(x, y, outside):
        rng = np.random.default_rng(seed)
        numbers = [x, y, outside, 1.5]
        for _ in range(rng.integers(3, 25)):
            one, other = (numbers[k] for k in rng.integers(0, len(numbers), 2))
            kind = rng.integers(0, 4)
            if kind == 0:
                made = UNARY[rng.integers(0, len(UNARY))](np.abs(one) + 0.2)
            elif kind == 1:
                made = BINARY[rng.integers(0, len(BINARY))](np.abs(one) + 0.2, np.abs(other) + 0.1)
            elif kind == 2:
                made = rng.choice([0.0, 1.0, -2.0, 0.5, 3.0]) * one - other * rng.choice([1.0, 2.0])
            else:
                made = (np.abs(one) + 0.3) ** rng.choice([0.0, 1.0, 2.0, 3.0, -1.0, 0.5]) + rng.choice([1.0, 2.0]) ** other
            numbers.append(np.tanh(made))
        return numbers[-1] + numbers[len(numbers) // 2]

    return f


def derivatives(f, x, y):
    """Values and derivatives up to the third of a function of a gradient inside of a derivative."""

    def outer(x, y):
        gx, gy = tg.grad(lambda a, b: f(a, b, x * y), argnums=(0, 1))(x + 0.0, y)
        return gx * x + gy

    first = tg.value_and_grad(outer, argnums=(0, 1))(x, y)
    second = tg.grad(lambda x: tg.grad(outer, argnums=1)(x, y))(x)
    third = tg.grad(lambda x: tg.grad(lambda x: tg.grad(outer)(x, y))(x))(x)

    def forward(x, y):
        value, slope = tg.jvp(lambda a, b: f(a, b, x * y), (x, y), (y, 0.5))
        return value * slope + tg.derivative(lambda a: tg.derivative(lambda b: f(a, b, 1.2))(y * a))(x)

    return np.array([first[0], *first[1], second, third, forward(x, y), *tg.grad(forward, argnums=(0, 1))(x, y), tg.hvp(forward)(x, y, y)])


@pytest.fixture
def both(monkeypatch):
    """A function's results with the adjoints written behind, and with the rules run on tensors; and how often the first way was taken."""

    def run(function, *args):
        taken = []
        with monkeypatch.context() as patch:
            for way in (behind.pulled, behind.pushed):
                patch.setattr(behind, way.__name__, lambda *walk, way=way: taken.append(way(*walk)) or taken[-1])
            here = function(*args)
        with monkeypatch.context() as patch:
            for way in (behind.pulled, behind.pushed):
                patch.setattr(behind, way.__name__, lambda *walk: None)
            there = function(*args)
        return here, there, sum(t is not None for t in taken), len(taken)

    return run


@every("seed", range(30))
def test_both_ways_agree_to_the_last_bit_or_nearly(seed, both):
    here, there, taken, asked = both(derivatives, program(seed), 0.7, 1.3)
    assert taken == asked > 0
    np.testing.assert_allclose(here, there, rtol=1e-13, atol=1e-13)


@every("x", (0.0, -0.0, 1.0, np.inf, np.nan, 1e200))
def test_both_ways_agree_where_something_is_not_finite(x, both):
    for f in (lambda a, b, c: a * b * c, lambda a, b, c: (a * a) ** 0.5 + b, lambda a, b, c: np.exp(a * 1e3) * b, lambda a, b, c: a**3 / b + abs(a)):
        here, there, taken, asked = both(derivatives, f, x, 1.3)
        assert taken == asked
        np.testing.assert_allclose(here, there, rtol=1e-14)


def test_every_row_of_numbers_is_written_or_left_to_its_rule(both):
    for row in ROWS:
        if not row.scalar_instruction or row.arity > 2 or not row.numpy:
            continue
        function = row.numpy[0]

        def outer(x, function=function, row=row):
            inner = tg.grad(lambda a: function(*[a * x, x][: row.arity]))
            return inner(0.4 * x)

        try:
            here, there, _, _ = both(lambda: tg.value_and_grad(outer)(0.83))
        except tg.errors.TapegradError:
            continue
        np.testing.assert_allclose(here, there, rtol=1e-13, err_msg=row.name)


def test_a_gradient_that_is_a_constant_is_a_number():
    def outer(x):
        g = tg.grad(lambda a: 3 * a * 1.5)(x * 1.0)
        assert g == 4.5 and type(g) is float
        return x * g

    assert tg.grad(outer)(2.0) == 4.5


def test_constants_enter_as_they_are_at_each_call():
    scale = 1.0

    def outer(x):
        return tg.grad(lambda a: scale * a**scale)(x)

    for scale in (1.0, 2.0, 3.0, 0.0, 0.5):
        assert tg.grad(outer)(2.0) == pytest.approx(scale**2 * (scale - 1.0) * 2.0 ** (scale - 2.0))


def test_hooks_of_a_gradient_are_no_hooks_of_what_it_equals(both):
    def run():
        seen = []

        def outer(x):
            y = x * 2.0
            g = tg.grad(lambda a: a * y)(x + 0.0)
            g.register_hook(lambda v: seen.append(v))
            return g * 3.0 + y * 5.0

        return tg.grad(outer)(1.0), [float(v) for v in seen]

    here, there, taken, _ = both(run)
    assert here == there == (16.0, [3.0]) and taken


def test_where_somebody_waits_on_the_tape_the_rules_are_run_on_tensors(both):
    def run():
        seen = []

        def inner(a):
            b = a * a
            b.register_hook(lambda v: seen.append(v.item()))
            return b * a

        return tg.grad(lambda x: tg.grad(inner)(x) * x)(1.5), seen

    here, there, taken, asked = both(run)
    assert here == there and here[1] and asked > taken


def test_a_variable_that_was_changed_in_place_is_refused_as_before(both):
    w = tg.tensor(2.0, requires_grad=True)

    def outer(x):
        def inner(a):
            r = a * w * a
            with tg.no_grad():
                w.add_(1.0)
            return r

        return tg.grad(inner)(x)

    for _ in range(2):
        with pytest.raises(tg.errors.ModifiedInPlaceError):
            tg.grad(outer)(1.0)


def test_a_long_function_of_numbers_has_a_gradient_that_is_differentiated():
    def f(a):
        total = 0.0
        for k in range(5000):
            total = total + np.sin(a * k) * 0.5**k
        return total

    x = 0.3
    exact = sum(-(k**2) * np.sin(x * k) * 0.5**k for k in range(5000))
    assert tg.grad(lambda x: tg.grad(f)(x))(x) == pytest.approx(exact, rel=1e-12)


def test_the_records_stand_where_the_derivative_was_asked_for():
    def outer(x):
        g = tg.grad(lambda a: a * a * a)(x)
        return g * g

    with tg.Tape() as tape:
        x = tg.tensor(1.5, requires_grad=True)
        outer(x)
    assert "test_behind.py" in str(tape)


def test_a_gradient_of_numbers_runs_no_operation_on_tensors(monkeypatch):
    calls, apply = [], nested.apply

    def outer(x, y):
        g = tg.grad(lambda a, b: a * b + a * a * y, argnums=(0, 1))
        return sum(sum(g(x, y)) for _ in range(10))

    monkeypatch.setattr(nested, "apply", lambda *a: calls.append(a[0]) or apply(*a))
    monkeypatch.setattr(recorded, "apply", lambda *a: calls.append(a[0]) or apply(*a))
    tg.grad(outer)(1.0, 2.0)
    assert not calls


A = np.array([[2.0, 0.3, -0.1, 0.4], [0.1, 1.5, 0.2, 0.0], [0.0, -0.4, 1.8, 0.3], [0.2, 0.1, 0.0, 2.2]])


def reads(x):
    total = 0.3
    for k in range(len(x)):
        total = np.sin(total * x[k]) + x[k - 1] * 0.5
    return total


def windows(x):
    y = x * 1.0
    y[1:] += np.sin(y[:-1]) * x[0]
    y[0] = y[-1] * y[1]
    return np.sum(y[::2] * y[1::2]) + y[0]


def small(x):
    u = x[:2] * x[2]
    return u[0] * u[1] + np.sin(u[0]) * x[3]


def decides(x):
    return np.sum(x**2) if x[0] * x[1] > 0.0 else np.sum(x**3) * x[2]


def gathers(x):
    c, rows = np.sum(x), x[np.array([0, 2, 2, 1])]
    for k in range(4):
        c = np.tanh(c * rows[k]) + np.max(rows) * 0.1
    return c + np.prod(rows)


FUNCTIONS = (
    reads, windows, small, decides, gathers,
    lambda x: np.sum(np.sin(x) * x[0]) + x[1] * x[2],
    lambda x: x @ A @ x + np.exp(x[0]) * np.linalg.norm(x),
    lambda x: np.linalg.solve(A + np.outer(x, x), x)[0] * x[1],
    lambda x: np.cumsum(x * x)[2] * np.stack([x[0], x[0] * x[1], 2.0])[1],
    lambda x: np.sum(np.where(x > 0.5, x * x, np.sin(x))) + np.maximum(x[0], x[1]) ** 2,
    lambda x: np.sum(np.concatenate([x, x[:2] * x[1]]).reshape(2, 3) ** 2, axis=0)[1] * x[0],
    lambda x: np.mean(x) * 2.0 + 3.0 * x[1],
    lambda x: x[2],
    lambda x: 5.0 * np.sum(x),
    lambda x: tg.scan(lambda c, e: (np.tanh(c * e) + e, c), x[0], x)[0] * x[1],
    lambda x: abs(np.sum(np.fft.fft(x)[:2])) ** 2 * x[0],
    lambda x: tg.checkpoint(lambda x: np.sum(np.sin(x) * x))(x) * x[3],
    lambda x: np.sum(tg.vmap(lambda e: np.sin(e) * e)(x)) * x[0],
)  # fmt: skip


@every("k", range(len(FUNCTIONS)))
def test_both_ways_agree_where_arrays_lie_between_the_numbers(k, both):
    f, x = FUNCTIONS[k], np.array([0.7, 1.3, 0.4, -0.6])

    def run():
        def outer(x):
            g = tg.grad(f)(x * 1.0)
            return np.sum(g * g * x) + g[0] + tg.jvp(f, (x,), (x[::-1],))[1]

        def deeper(x):
            return np.sum(tg.grad(outer)(x) ** 2)

        value, gradient = tg.value_and_grad(outer)(x)
        return np.concatenate([[value], gradient, tg.grad(deeper)(x), tg.jacfwd(outer)(x)])

    here, there, taken, _ = both(run)
    assert taken
    np.testing.assert_allclose(here, there, rtol=1e-10, atol=1e-12)


@every("function", [np.maximum, np.minimum, np.fmax, np.fmin, np.hypot, np.arctan2, np.logaddexp, np.power, np.divide, np.multiply, np.subtract, np.copysign])
def test_tangents_of_arrays_of_which_one_is_constant(function, both):
    """The argument's own tangent is no tensor, that of what is computed is one; what lines make of the first is none, either."""
    x = np.array([0.7, 1.3, 0.4])
    for f in (lambda x: function(x, x * x), lambda x: function(x * x, x), lambda x: function(x, x)):
        here, there, taken, asked = both(lambda f=f: tg.grad(lambda x: np.sum(tg.jvp(f, (x,), (np.array([1.0, 2.0, -1.0]),))[1] * x))(x))
        assert taken == asked > 0
        np.testing.assert_allclose(here, there, rtol=1e-13)


def test_captured_leaves_and_containers(both):
    w, b = tg.tensor([0.4, -0.8], requires_grad=True), tg.tensor(0.3, requires_grad=True)

    def run():
        w.grad = b.grad = None

        def energy(state):
            return np.sum(np.tanh(w * state["q"]) * state["p"]) + b * state["p"][0] * b

        state = {"q": np.array([0.2, 0.5]), "p": np.array([1.0, -1.0])}
        for _ in range(3):
            force = tg.grad(energy)(state)
            state = {"q": state["q"] + 0.1 * force["p"], "p": state["p"] - 0.1 * force["q"]}
        np.sum(state["q"] * state["p"]).backward()
        return np.concatenate([w.grad.numpy(), [b.grad.item()]])

    here, there, taken, asked = both(run)
    assert taken == asked > 0
    np.testing.assert_allclose(here, there, rtol=1e-13)


def test_an_array_that_was_changed_in_place_is_refused():
    w = tg.tensor([2.0, 3.0], requires_grad=True)

    def outer(x):
        def inner(a):
            r = np.sum(a * w * w[0]) * a[0]
            with tg.no_grad():
                w.mul_(2.0)
            return r

        return np.sum(tg.grad(inner)(x))

    with pytest.raises(tg.errors.ModifiedInPlaceError):
        tg.grad(outer)(np.ones(2))


def test_what_a_constant_decides_is_decided_once(monkeypatch):
    asked = []
    before = behind.template
    monkeypatch.setattr(behind, "template", lambda *a: asked.append(a) or before(*a))
    monkeypatch.setattr(behind._Pulled, "templates", None)

    def f(x):
        y = x
        for _ in range(200):
            y = 0.5 * y**1.7 + 0.1 * x
        return y

    second = tg.grad(tg.grad(f))(1.1)
    assert len(asked) < 30
    assert second == pytest.approx((tg.grad(f)(1.1 + 1e-5) - tg.grad(f)(1.1 - 1e-5)) / 2e-5, rel=1e-6)


def test_constants_of_many_templates_at_many_instructions():
    """Constants are remembered, but for a limited number of them; those of one walk stand in one array, which grows."""
    exponents = np.linspace(0.5, 2.5, behind.CONSTANTS + 50)

    def f(x):
        return sum((x**p for p in exponents.tolist()), 0.0) / len(exponents)

    expected = np.mean(exponents * (exponents - 1) * 1.1 ** (exponents - 2))
    assert tg.grad(tg.grad(f))(1.1) == pytest.approx(expected, rel=1e-12)


def test_a_walk_in_a_walk_adds_templates_that_the_outer_one_does_not_know(monkeypatch):
    monkeypatch.setattr(behind._Pulled, "templates", None)
    root = tg.grad(tg.grad(lambda a: tg.implicit.root(lambda x, a: x * x * np.exp(0.0 * x) - a, 1.0, a)))
    assert root(4.0) == pytest.approx(-1 / 32, rel=1e-9)

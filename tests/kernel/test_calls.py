"""What NumPy has to compute is a call from machine code."""

import functools
import signal
import threading

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.record import record_aux
from tapegrad.interpreter.calls import Called, loop
from tapegrad.program.stream import HostStep
from tests.near import near

X = np.linspace(0.1, 2.0, 7)


def wave(x):
    return np.sin(5.0 * x)


FUNCTIONS = {
    "sort": lambda x: np.sum(np.sort(wave(x)) * x),
    "sort along an axis": lambda x: np.sum(np.sort(np.outer(wave(x), x), axis=0)[2:] ** 2),
    "argsort": lambda x: np.sum(wave(x)[np.argsort(wave(x))] * x),
    "median": lambda x: np.median(wave(x)),
    "quantile": lambda x: np.sum(np.quantile(wave(x), [0.3, 0.7])),
    "percentile": lambda x: np.percentile(wave(x), 30),
    "partition": lambda x: np.partition(wave(x), 3)[3] * x[0],
    "argmax": lambda x: x[np.argmax(wave(x))] ** 2,
    "all": lambda x: np.sum(np.where(np.all(x > 0.5), x * x, x)),
    "any": lambda x: np.sum(np.where(np.any(x > 0.5), x * x, x)),
    "isclose": lambda x: np.sum(np.where(np.isclose(x, 1.05), x * x, x)),
    "nanmean": lambda x: np.nanmean(x**2),
    "nanmedian": lambda x: np.nanmedian(x**2),
    "digitize": lambda x: np.sum(x * np.digitize(x, [0.5, 1.0])),
    "searchsorted": lambda x: np.sum(x * np.searchsorted([0.5, 1.0], x)),
    "count_nonzero": lambda x: np.sum(x) * np.count_nonzero(x > 0.5),
    "frexp": lambda x: np.sum(x * np.frexp(x)[1]),
    "logical_and of a constant": lambda x: np.sum(np.where(np.logical_and(x > 0.5, np.True_), x * x, x)),
    "float32": lambda x: np.sum(np.sort((x * x).astype(np.float32)) * np.arange(7.0)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_numpy_computes_has_a_kernel(name):
    f = FUNCTIONS[name]
    g = tg.jit(tg.value_and_grad(f), kernel="always")
    rng = np.random.default_rng(0)
    for x in (X, X, X * 0.7, rng.permutation(X)):
        for computed, expected in zip(g(x), (f(x), tg.grad(f)(x)), strict=True):
            np.testing.assert_allclose(computed, expected, rtol=1e-6 if name == "float32" else 1e-12)
    assert g.stats().kernel_calls


def test_in_a_loop_it_is_called_each_time():
    calls = []

    def noted(v):
        calls.append(threading.get_ident())
        return np.argsort(v)

    def f(x):
        total = 0.0
        for _ in range(5):
            x = x * 1.1
            total = total + x[record_aux(noted, x)][0]
        return total

    g = tg.jit(tg.grad(f), kernel="always")
    g(X), g(X)
    calls.clear()
    near(g(X[::-1].copy()), tg.grad(f)(X[::-1].copy()))
    assert len(calls) >= 5


def test_where_the_function_raises_the_kernel_does_not_answer():
    def checked(v):
        if v[0] < 0.0:
            raise ValueError("below zero")
        return np.sign(v)

    g = tg.jit(tg.grad(lambda x: np.sum(x * record_aux(checked, x))), kernel="always")
    for _ in range(3):
        near(g(X), np.ones(7))
    with pytest.raises(ValueError, match="below zero"):
        g(-X)
    near(g(X), np.ones(7))


def test_a_result_of_another_shape_is_recorded_anew():
    g = tg.jit(tg.grad(lambda x: np.sum(x[record_aux(lambda v: np.flatnonzero(v > 0.5), x)] ** 2)), kernel="always")
    for x in (X, X, X[::-1].copy(), X * 0.5, X):
        near(g(x), np.where(x > 0.5, 2.0 * x, 0.0))


class Hidden:
    """A number that no recording looks at."""

    __slots__ = ("number",)

    def __init__(self, number):
        self.number = number

    def taken(self):
        number, self.number = self.number, 0
        return number


class Late(Exception):
    """What a handler raises to end a computation: no error of the function."""

    def __init__(self, number):
        self.number = number


def raise_late(number, frame):
    raise Late(number)


class Handler:
    def __call__(self, number, frame):
        raise Late(number)


HANDLERS = {"a function": raise_late, "an object": Handler(), "one with arguments given": functools.partial(lambda what, number, frame: raise_late(number, frame), 1)}


@pytest.mark.parametrize("kernel", ["always", "never"])
@pytest.mark.parametrize("handler", [None, *HANDLERS])
def test_an_interruption_during_a_call_is_raised(interruptible, kernel, handler):
    number, wanted = signal.SIGINT if handler is None else signal.SIGTERM, Hidden(0)

    def interrupted(v):
        if wanted.taken():
            signal.raise_signal(number)
        return np.sign(v)

    before = signal.getsignal(signal.SIGTERM)
    if handler is not None:
        signal.signal(number, HANDLERS[handler])
    try:
        g = tg.jit(tg.grad(lambda x: np.sum(x * record_aux(interrupted, x))), kernel=kernel)
        for _ in range(3):
            near(g(X), np.ones(7))
        for _ in range(2):
            wanted.number = 1
            with pytest.raises(KeyboardInterrupt if handler is None else Late) as raised:
                g(X)
            assert handler is None or raised.value.number == number and type(raised.value) is Late
            near(g(X), np.ones(7))
        assert g.stats().records == 1
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_a_step_of_numpy_raises_itself_is_no_interruption():
    """It stands for the function, which may know what to do then."""
    wanted = [0, 0, 1]
    step = HostStep(lambda v: v / 1 if not wanted.pop() else raise_late(0, None), [np.ones(2)], np.zeros(2), "f", 0)
    assert not step.run() and isinstance(step.error, Late) and step.run()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_rule_that_a_signal_interrupts_is_no_rule_that_fails(number):
    before, calls = signal.signal(signal.SIGTERM, raise_late), Hidden(0)
    try:

        @tg.primitive
        def square(x):
            return x * x

        @square.defvjp
        def rule(g, ans, x):
            calls.number += 1
            if calls.number == number:
                signal.raise_signal(signal.SIGTERM)
            return (g * 2.0 * x,)

        slope, late = tg.jit(tg.grad(lambda x: np.sum(square(x)))), 0
        for _ in range(4):
            try:
                near(slope(X), 2.0 * X)
            except Late:
                late += 1
        assert late == (calls.number >= number) and not slope.stats().fallback
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_call_that_fails_before_it_begins_has_no_result():
    """As an interruption that arrives at its first instruction."""
    called = Called(lambda x, out: True, "f", [((3,), "d")], ((3,), "d"))
    called.arrays = None
    arrays = np.ones(3), np.zeros(3), np.ones(())
    places = np.array([a.ctypes.data for a in arrays])
    loop(places.ctypes.data, 0, 0, called.data())
    assert arrays[2] == 0.0


def test_threads():
    f = FUNCTIONS["sort"]
    g = tg.jit(tg.grad(f), kernel="always")
    g(X), g(X)
    results = {}

    def run(k):
        results[k] = [g(X * (1.0 + k)) for _ in range(50)]

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(4):
        for result in results[k]:
            near(result, tg.grad(f)(X * (1.0 + k)))

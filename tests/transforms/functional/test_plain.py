"""Gradients that are not under `jit`: one run of the function on a tape of its own (`tapegrad.transforms.plain`)."""

import dataclasses
import gc
import threading
import tracemalloc
from collections import namedtuple

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import (
    ClearedTapeError,
    DtypeError,
    GradientError,
    HigherOrderError,
    ModifiedInPlaceError,
    NestingError,
    NonFiniteError,
    NonScalarOutputError,
    StructureError,
    TapeMismatchError,
)  # fmt: skip
from tapegrad.tape.store import TapeStore, thread_state
from tapegrad.transforms.plain import value_and_gradients

Pair = namedtuple("Pair", "first second")
X = np.array([0.3, 0.7, 1.1])


@dataclasses.dataclass
class Model:
    weights: np.ndarray
    bias: float


def gradients(function, *args, argnums=(0,), **kwargs):
    return value_and_gradients(function, args, kwargs, argnums)[2]


def one(function, *args, **kwargs):
    (gradient,) = gradients(function, *args, **kwargs)
    return gradient


def by_differences(function, x, h=1e-6):
    """The gradient by central differences."""
    x = np.asarray(x, float)
    units = np.eye(x.size).reshape(x.size, *x.shape) * h
    return np.array([(float(function(x + u)) - float(function(x - u))) / (2 * h) for u in units]).reshape(x.shape)


def by_backward(function, x):
    t = tg.tensor(x, requires_grad=True)
    function(t).backward()
    return t.grad.numpy()


def steps(x):
    a, b = x[0], x[-1]
    for k in range(5):
        a, b = a * b + 0.5 / (k + 1), np.sin(a) - b
        if a > 0.6:
            a = np.maximum(a, np.exp(-b)) ** 3
    return a + b


PROGRAMS = {
    "numbers": steps,
    "arrays": lambda x: np.sum(np.tanh(np.outer(x, x) @ x) * np.cumsum(x)),
    "both": lambda x: np.sum(x * x[0]) + np.log(x[1]) * x[-2],
    "one element": lambda x: np.sum(x * x, keepdims=True),
    "a written array": lambda x: np.sum(written(x)),
    "solve": lambda x: np.sum(np.linalg.solve(np.outer(x, x) + 3.0 * np.eye(len(x)), x)),
    "a constant": lambda x: 2.0,
    "an argument's element": lambda x: x[1],
    "a count that depends on the values": lambda x: sum((x[0] ** k for k in range(int(10 * x[1].item() + 0.5))), 0.0),
}  # fmt: skip


def written(x):
    y = tg.zeros(4)
    y[:3] = x * x
    y[3] = y[0] * y[1]
    y[:2] *= x[2]
    return y


def written_out(x):
    return x[0] ** 2 * x[2] + x[1] ** 2 * x[2] + x[2] ** 2 + x[0] ** 2 * x[1] ** 2


@pytest.mark.parametrize("name", PROGRAMS)
def test_agrees_with_differences_and_with_backward(name):
    function = PROGRAMS[name]
    for k in range(3):
        x = X + 0.01 * k
        values, _, (gradient,) = value_and_gradients(function, (x,), {}, (0,))
        plain = written_out if name == "a written array" else function
        np.testing.assert_allclose(np.ravel(values[0]), np.ravel(plain(x)), rtol=1e-13)
        np.testing.assert_allclose(gradient, by_differences(lambda z: np.sum(plain(z)), x), rtol=1e-5, atol=1e-8)
        if name != "a constant":
            np.testing.assert_array_equal(gradient, by_backward(function, x))


# ---- arguments -------------------------------------------------------------------------------


def test_every_kind_of_argument_that_is_differentiated():
    assert one(lambda x: x * x, 3.0) == 6.0 and type(one(lambda x: x * x, 3.0)) is float
    assert one(lambda x: x * x, 3) == 6.0
    assert one(lambda x: x * x, np.float64(3.0)) == 6.0
    assert one(lambda x: x * x, np.array(3.0)) == 6.0
    assert one(lambda x: np.sum(x * x), tg.tensor([1.0, 2.0])).tolist() == [2.0, 4.0]
    single = one(lambda x: x * x, np.float32(3.0))
    assert single == 6.0 and single.dtype == np.float32
    for x in (X.astype("f"), X[::-1], np.arange(6.0).reshape(2, 3).T, X.astype(">f8"), np.frombuffer(X.tobytes()), np.zeros((0, 3))):
        gradient = one(lambda x: np.sum(x * x), x)
        np.testing.assert_array_equal(gradient, (2 * x).astype(x.dtype.newbyteorder("=")), strict=True)
    packed = np.zeros(3, [("a", "i1"), ("x", "f8")])
    packed["x"] = X
    np.testing.assert_array_equal(one(lambda x: np.sum(x * x), packed["x"]), 2 * X)


def test_containers():
    given = {"a": 2.0, "b": [X, (3.0, Pair(X.astype("f"), 5))], "m": Model(X, 7.0)}

    def function(p):
        assert type(p["m"]) is Model and type(p["b"][1][1]) is Pair
        return p["a"] ** 2 + np.sum(p["b"][0]) + p["b"][1][0] * p["b"][1][1].second + np.sum(p["m"].weights) * p["m"].bias

    found = gradients(function, given)
    assert [np.shape(g) for g in found] == [(), (3,), (), (3,), (), (3,), ()]
    assert found[0] == 4.0 and found[2] == 5.0 and found[4] == 3.0 and found[6] == pytest.approx(X.sum())
    np.testing.assert_array_equal(found[3], np.zeros(3, "f"), strict=True)
    np.testing.assert_array_equal(found[5], 7.0 * np.ones(3))


def test_several_arguments_in_their_own_order():
    for argnums in ((0, 2), (2, 0), [0, 2, 0]):
        a, c = gradients(lambda a, b, c: a * b * c, 2.0, 3.0, 5.0, argnums=argnums)
        assert (a, c) == (15.0, 6.0)
    assert gradients(lambda a, b: a * b, 2.0, 3.0, argnums=()) == []
    for jit in (lambda f: f, tg.jit):
        with pytest.raises(StructureError, match=r"argnums=\(1,\) asks for argument 1, but the function was called with 1 positional"):
            jit(tg.grad(lambda x: x, 1))(1.0)


def test_what_is_not_differentiated_is_given_as_it_is():
    log, labels, matrix, generator = [], np.array([2, 0]), np.arange(9.0).reshape(3, 3), np.random.default_rng(3)

    def function(x, log, labels, matrix, generator, count, *, text, scale):
        assert type(count) is int and text == "a" and type(scale) is float and labels.dtype == np.int64
        log.append(count)
        labels[0] += 1
        matrix[0, 0] = 100.0
        return np.sum((matrix @ x)[labels % 3]) * scale * generator.random()

    expected = np.random.default_rng(3).random()
    found = one(function, X, log, labels, matrix, generator, 4, text="a", scale=2.0)
    changed = matrix.copy()
    changed[0, 0] = 100.0
    # Labels 2 and 0, the first of them one higher: row 0 twice.
    np.testing.assert_allclose(found, 2.0 * expected * 2 * changed[0], rtol=1e-13)
    # As in Python.
    assert log == [4] and labels.tolist() == [3, 0] and matrix[0, 0] == 100.0
    assert generator.random() != expected


def test_the_callers_arrays_are_not_changed():
    x = X.copy()
    for change in (lambda x: x.__setitem__(0, 5.0), lambda x: x[1:].__setitem__(0, x[0]), lambda x: x.__iadd__(1.0), lambda x: x.__imul__(x)):

        def function(x, change=change):
            change(x)
            return np.sum(x)

        with pytest.raises(GradientError, match="copy"):
            one(function, x)
        np.testing.assert_array_equal(x, X)
    y = 2.0

    def rebinds(y):
        y += 1.0
        y *= y
        return y

    assert one(rebinds, y) == 6.0
    with pytest.raises(GradientError, match="copy"):
        one(lambda x: x.add_(1.0), y)


def test_what_the_function_keeps_of_the_caller_may_change_after_its_use():
    x = X.copy()

    def function(t):
        y = np.sum(t * t)
        x[:] = 100.0
        return y

    np.testing.assert_array_equal(one(function, x), 2 * X)


# ---- results ---------------------------------------------------------------------------------


def test_auxiliary_results_and_sums_of_all():
    values, structure, (g,) = value_and_gradients(lambda x: (np.sum(x * x), {"y": x * 2.0, "n": 3, "s": "text"}), (X,), {}, (0,), has_aux=True)
    assert str(structure) == "(*, {y: *, n: *, s: *})" and values[2:] == [3, "text"]
    np.testing.assert_array_equal(values[1], 2 * X, strict=True)
    np.testing.assert_array_equal(g, 2 * X)
    values, _, (g,) = value_and_gradients(lambda x: (x * x, x[0], 1.0, np.ones(2)), (X,), {}, (0,), scalar=False)
    np.testing.assert_array_equal(g, 2 * X + [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(values[0], X * X)
    y = one(lambda x: x, 3.0), value_and_gradients(lambda x: x, (X,), {}, (0,), scalar=False)[2][0]
    assert y[0] == 1.0 and y[1].tolist() == [1.0, 1.0, 1.0]
    assert value_and_gradients(lambda x: (x, x, x * x), (3.0,), {}, (0,), scalar=False)[2] == [8.0]


def test_results_are_the_callers_own():
    kept = []

    def function(x):
        kept.append(x * 2.0)
        return np.sum(kept[-1]), kept[-1]

    values, _, (gradient,) = value_and_gradients(function, (X,), {}, (0,), has_aux=True)
    values[1][:] = 0.0
    gradient[:] = 0.0
    np.testing.assert_array_equal(kept[0].detach().numpy(), 2 * X)


def test_errors():
    for several in (lambda x: x, lambda x: (x[0], x[1]), lambda x: {"a": x[0], "b": 1.0}):
        with pytest.raises(NonScalarOutputError, match="jacobian"):
            one(several, X)
    with pytest.raises(StructureError, match="has_aux"):
        value_and_gradients(lambda x: x[0], (X,), {}, (0,), has_aux=True)
    for result in (None, "text", len, {1}, np.array([object()])):
        with pytest.raises((StructureError, DtypeError)):
            one(lambda x, result=result: result, X)
    with pytest.raises(DtypeError, match="bool"):
        one(lambda x: x > 1.0, 0.5)
    with pytest.raises(DtypeError, match=r"argument 0 .*int64"):
        one(np.sum, np.array([1, 2]))
    with pytest.raises(DtypeError, match=r"argument 1\['a'\].*int64"):
        gradients(lambda x, y: x * y["a"][0], 2.0, {"a": np.array([1, 2])}, argnums=(1,))
    for wrong, error in (
        (np.int64(1), DtypeError), (np.bool(True), DtypeError), (True, StructureError), ("text", StructureError), (None, StructureError),
        (X.astype("e"), DtypeError), (X.astype("g"), DtypeError),
        (np.ma.masked_array(X), DtypeError), (np.array([None]), DtypeError),
    ):  # fmt: skip
        with pytest.raises(error, match="argument 0"):
            one(np.sum, wrong)
    for inner in (tg.tensor(1.0, requires_grad=True), tg.Dual(1.0, 1.0)):
        with pytest.raises(HigherOrderError, match="argument 0"):
            one(np.sin, inner)


def test_tensors_that_are_no_arguments():
    w = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with pytest.raises(NestingError, match="'w'"):
        one(lambda x: np.sum(x * w), X)
    with tg.no_grad():
        np.testing.assert_array_equal(one(lambda x: np.sum(x * w), X), w.numpy())
        assert not tg.is_grad_enabled()
    assert w.grad is None
    computed = w * 2.0
    with pytest.raises(TapeMismatchError, match="two different tapes"):
        one(lambda x: np.sum(x * computed), X)
    computed.sum().backward()
    assert w.grad.tolist() == [2.0, 2.0, 2.0]


# ---- what a function may do ------------------------------------------------------------------


def test_functions_with_state_and_randomness():
    class Counter:
        def __init__(self):
            self.calls, self.seen = 0, []

        def __call__(self, x):
            self.calls += 1
            self.seen.append(x)
            return x * self.calls

    counter = Counter()
    assert [one(counter, 2.0) for _ in range(5)] == [1.0, 2.0, 3.0, 4.0, 5.0]
    with pytest.raises(ClearedTapeError, match="end of the call"):
        (counter.seen[0] * 2.0).backward()
    generator = np.random.default_rng(0)
    drawn = [one(lambda x: x * generator.random(), 1.0) for _ in range(3)]
    np.testing.assert_array_equal(drawn, np.random.default_rng(0).random(3))


def test_exceptions_leave_everything_as_it_was():
    state = thread_state()
    before = state.store, list(state.tapes), state.enabled

    def fails(x):
        x = x * 2.0
        raise KeyError("mine")

    def caught(x):
        try:
            np.linalg.cholesky(np.outer(x, x) - 5.0 * np.eye(len(x)))
        except np.linalg.LinAlgError:
            return np.sum(x) * 7.0

    for _ in range(3):
        with pytest.raises(KeyError, match="mine"):
            one(fails, 2.0)
        with pytest.raises(KeyError), tg.no_grad():
            one(fails, 2.0)
        with pytest.raises(NonScalarOutputError):
            one(lambda x: x, X)
        assert (state.store, state.tapes, state.enabled) == before
        assert one(caught, X).tolist() == [7.0] * 3
    t = tg.tensor(2.0, requires_grad=True)
    y = t * t
    with pytest.raises(KeyError):
        one(fails, 2.0)
    y.backward()
    assert t.grad.item() == 4.0


def test_derivatives_inside():
    def outer(x):
        return x * tg.grad(lambda y: y**3)(x) + tg.derivative(lambda y: y * x)(2.0)

    assert one(outer, 2.0) == pytest.approx(9 * 2.0**2 + 1.0)
    # Other calls inside of a call, of functions that use nothing of it.
    assert one(lambda x: x * gradients(lambda y: y * y, 3.0)[0], 2.0) == 6.0
    with pytest.raises(TapeMismatchError, match="two different tapes"):
        one(lambda x: gradients(lambda y: y * x, 3.0)[0] * x, 2.0)


def test_backward_inside():
    def trains(x):
        w = tg.tensor(0.0, requires_grad=True)
        for _ in range(3):
            loss = (w - 1.0) ** 2
            loss.backward()
            with tg.no_grad():
                w -= 0.25 * w.grad
            w.zero_grad()
        return np.sum(x * x) * w.item()

    np.testing.assert_array_equal(one(trains, X), 2 * X * 0.875)

    def through(x):
        y = x * x
        y.sum().backward()
        assert x.grad.tolist() == (2 * X).tolist()
        return np.sum(y)

    with pytest.raises(ClearedTapeError):
        one(through, X)

    def asks(x):
        (slope,) = tg.autograd.grad(np.sum(x**3), x, create_graph=True)
        return np.sum(slope)

    np.testing.assert_allclose(one(asks, X), 6 * X)
    assert one(lambda x: tg.autograd.grad(x, x)[0].item() * x, 3.0) == 1.0
    np.testing.assert_array_equal(one(lambda x: np.sum(tg.autograd.grad(x, x, X)[0].detach().numpy() * x), X), X)


def test_hooks_on_arguments_and_on_what_is_computed():
    seen = []

    def function(x):
        x.register_hook(lambda g: seen.append(("x", g.tolist())))
        y = x * 2.0
        y.register_hook(lambda g: g * 10.0)
        y.retain_grad()
        seen.append(y)
        return np.sum(y)

    assert one(function, X).tolist() == [20.0] * 3
    assert seen[1] == ("x", [20.0] * 3) and seen[0].grad.tolist() == [10.0] * 3


def test_a_constant_that_is_changed_before_the_sweep_is_an_error():
    work = np.ones((1000, 3))

    def function(x):
        y = np.sum(work @ x)
        z = np.sum(np.sin(work * x))
        work[0, 0] = 5.0
        return y + z

    with pytest.raises(ModifiedInPlaceError, match="'work'"):
        one(function, X)


def test_a_rule_of_the_users_own():
    twice = tg.primitive(lambda x: 2.0 * x)
    twice.defvjp(lambda g, result, x: 2.0 * g)
    np.testing.assert_array_equal(one(lambda x: np.sum(twice(x) * x), X), 4 * X)


def test_anomaly_detection():
    with tg.detect_anomaly(), pytest.raises(NonFiniteError, match="derivative of sqrt"):
        one(lambda x: np.sum(np.sqrt(x * 0.0)), X)


def test_threads():
    found = {}

    def work(k):
        found[k] = [one(steps, X + 0.01 * k + 0.001 * j) for j in range(20)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(4):
        np.testing.assert_array_equal(found[k], [one(steps, X + 0.01 * k + 0.001 * j) for j in range(20)])


# ---- memory ----------------------------------------------------------------------------------


def test_nothing_is_left_of_a_call():
    def count():
        gc.collect()
        return sum(issubclass(type(o), (TapeStore, tg.Tensor)) for o in gc.get_objects())

    one(steps, X)
    before = count()
    for _ in range(50):
        one(steps, X)
        one(PROGRAMS["arrays"], X)
        with pytest.raises(ZeroDivisionError):
            one(lambda x: x[0] / (1 / 0), X)
    assert count() <= before + 2


def test_a_store_that_somebody_refers_to_is_not_used_again():
    kept = []

    def function(x):
        y = x * x
        kept.append(y)
        return y * 2.0

    for k in range(4):
        assert one(function, float(k)) == 4.0 * k
        assert kept[-1].item() == k * k
    assert len({id(t._t) for t in kept}) == 4
    node = []
    assert one(lambda x: (node.append((x * 2.0).grad_fn), x * 3.0)[1], 1.0) == 3.0
    assert one(lambda x: x * 5.0, 1.0) == 5.0
    with pytest.raises(ClearedTapeError):
        node[0].next_functions


def asian(paths, dates):
    normals = np.random.default_rng(0).standard_normal((dates, paths))

    def price(market):
        spot, volatility, rate = market[0], market[1], market[2]
        drift, scale = (rate - volatility**2 / 2) / dates, volatility * np.sqrt(1 / dates)
        price, total = spot, 0.0
        for z in normals:
            price = price * np.exp(drift + scale * z)
            total = total + price
        return np.exp(-rate) * np.mean(np.maximum(total / dates - 100.0, 0.0))

    return price, 8 * paths * (5 * dates + 3)


def test_memory_is_that_of_one_evaluation_and_does_not_grow():
    price, all_values = asian(20_000, 20)
    market = np.array([100.0, 0.25, 0.04])
    np.testing.assert_allclose(one(price, market), by_differences(price, market, 1e-5), rtol=1e-5)
    peaks = []
    tracemalloc.start()
    try:
        for _ in range(20):
            tracemalloc.reset_peak()
            start = tracemalloc.get_traced_memory()[0]
            one(price, market)
            peaks.append(tracemalloc.get_traced_memory()[1] - start)
    finally:
        tracemalloc.stop()
    assert peaks[1] <= all_values and peaks[19] <= peaks[1] + 4096

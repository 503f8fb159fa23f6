"""`checkpoint`: the derivatives of the function itself, and less memory."""

import ctypes
import functools

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import StructureError
from tests.rules.checker import generator

X = generator().uniform(0.1, 0.9, 4)


def step(state, steps=3):
    x = state["x"]
    for _ in range(steps):
        x = x + 0.1 * np.sin(x) * state["a"]
    return {"x": x, "total": np.sum(x)}


def gradients(function):
    x, a = tg.tensor(X, requires_grad=True), tg.tensor(0.5, requires_grad=True)
    made = function({"x": x, "a": a})
    made = function({"x": made["x"], "a": a * 2.0}, steps=5)
    (np.sum(made["x"] ** 2) + made["total"]).backward()
    return x.grad.numpy(), a.grad.item()


def test_derivatives_are_those_of_the_function():
    runs = []

    def counted(state, steps=3):
        runs.append(steps)
        return step(state, steps)

    kept = tg.checkpoint(counted)
    expected = gradients(step)
    for _ in range(6):
        found = gradients(kept)
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-13)
        assert found[1] == pytest.approx(expected[1], rel=1e-13)
    # What it notes on the way back goes to a copy of the list.
    assert runs == [3, 5] * 6


def test_inside_of_other_derivatives():
    kept = tg.checkpoint(step)
    plain = lambda x: np.sum(step({"x": x, "a": 0.5})["x"] ** 2)  # noqa: E731
    again = lambda x: np.sum(kept({"x": x, "a": 0.5})["x"] ** 2)  # noqa: E731
    ones, others = tg.grad(plain), tg.grad(again)
    for k in range(4):
        np.testing.assert_allclose(others(X + k), ones(X + k), rtol=1e-13)
    np.testing.assert_allclose(tg.jvp(again, (X,), (X,)), tg.jvp(plain, (X,), (X,)), rtol=1e-13)
    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(tg.jacobian(again, mode=mode)(X), tg.jacobian(plain, mode=mode)(X), rtol=1e-13)
    by_both = [tg.grad(lambda x, f=f: tg.jvp(f, (x,), (X,))[1])(X) for f in (again, plain)]
    np.testing.assert_allclose(*by_both, rtol=1e-13)


def test_plain_arrays_and_values_without_a_gradient():
    kept = tg.checkpoint(step)
    np.testing.assert_array_equal(kept({"x": X, "a": 0.5})["x"], step({"x": X, "a": 0.5})["x"])
    found = kept({"x": tg.tensor(X), "a": 0.5})["x"]
    np.testing.assert_allclose(found.numpy(), step({"x": X, "a": 0.5})["x"], rtol=1e-15)


def test_follows_the_path_of_its_argument():
    kept = tg.checkpoint(lambda x: x * x if x > 0.0 else np.sin(x))
    for value in (1.0, -1.0, 2.0, -2.0):
        x = tg.tensor(value, requires_grad=True)
        (kept(x) * 3.0).backward()
        assert x.grad.item() == pytest.approx(3.0 * (2.0 * value if value > 0 else np.cos(value)), rel=1e-14)


W = np.array([2.0, -0.5, 1.5])
CAPTURED = {
    "argument": lambda x: tg.checkpoint(lambda y: np.sin(y) * x[1])(x[0]),
    "computed": lambda x: (lambda w: tg.checkpoint(lambda y: np.sum(np.sin(y) * w))(x * x))(np.exp(x)),
    "only returned": lambda x: tg.checkpoint(lambda y: x[1])(x[0]),
    "in a loop": lambda x: functools.reduce(lambda c, k: tg.checkpoint(lambda y: np.sin(y) * x[k])(c), range(3), 0.7),
    "in a scan": lambda x: tg.scan(lambda c, e: (tg.checkpoint(lambda y: np.sin(y) * e + x[1])(c), None), 0.2, x)[0],
    "twice inside": lambda x: tg.checkpoint(lambda y: tg.checkpoint(lambda z: z * z * x[2])(y) * x[1])(x[0]),
    "by a branch": lambda x: tg.checkpoint(lambda y: y * x[1] if y > 0.0 else y * y * x[2])(x[0]),
    "several results": lambda x: (lambda r: r["a"] * r["b"])(tg.checkpoint(lambda y: {"a": y * x[1], "b": np.sum(x * y)})(x[0])),
}


@pytest.mark.parametrize("name", CAPTURED)
def test_what_it_captures_is_differentiated(name):
    f = CAPTURED[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tg, "checkpoint", lambda f: f)
        value, slopes, along = float(f(W)), tg.grad(f)(W), tg.hvp(f)(W, np.ones(3))
    again, directions = tg.jit(tg.value_and_grad(f)), np.random.default_rng(0).normal(size=(2, 3))
    for _ in range(3):
        np.testing.assert_allclose(f(W), value, rtol=1e-14)
        np.testing.assert_allclose(tg.grad(f)(W), slopes, rtol=1e-13)
        np.testing.assert_allclose(again(W)[1], slopes, rtol=1e-13)
    np.testing.assert_allclose(tg.hvp(f)(W, np.ones(3)), along, rtol=1e-12)
    np.testing.assert_allclose(tg.vmap(tg.grad(f))(np.stack([W, W])), [slopes, slopes], rtol=1e-13)
    for d in directions:
        np.testing.assert_allclose(tg.jvp(f, (W,), (d,))[1], slopes @ d, rtol=1e-12)


def test_a_layer_with_its_parameters():
    tg.manual_seed(0)
    layer, x = tg.nn.Linear(3, 3), tg.tensor(np.ones((2, 3)), requires_grad=True)
    drawn = np.random.default_rng(5)

    def noisy(x):
        return layer(x) * drawn.standard_normal(3)

    def counting(x):
        calls.append(1)
        return np.sin(layer(x))

    for function in (layer, noisy, counting, tg.nn.Sequential(layer, tg.nn.Dropout(0.5))):
        found = []
        for g in (function, *[tg.checkpoint(function)] * 2):
            calls, drawn.bit_generator.state = [], np.random.default_rng(5).bit_generator.state
            tg.manual_seed(3)
            for leaf in (x, layer.weight, layer.bias):
                leaf.grad = None
            y = g(x)
            np.sum(y * y).backward()
            found.append([np.array(y.tolist()), *(leaf.grad.numpy() for leaf in (x, layer.weight, layer.bias)), len(calls), drawn.random()])
        for other in found[1:]:
            for a, b in zip(other, found[0], strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-13)


def test_layers_store_only_their_ends():
    layers, x = [tg.nn.Linear(50, 50) for _ in range(3)], tg.tensor(np.ones((200, 50)), requires_grad=True)

    def kept_bytes(of):
        with tg.Tape() as tape:
            y = x
            for layer in layers:
                y = of(lambda x, layer=layer: np.tanh(np.sin(np.exp(-(layer(x) ** 2))) * 1.1))(y)
            return tape.memory()["saved"]

    # The result of each, and its parameters.
    assert kept_bytes(tg.checkpoint) < 3 * 8 * (200 * 50 * 2 + 50 * 51) + 10_000 < 0.6 * kept_bytes(lambda f: f)


def test_a_first_layer_whose_data_have_no_gradient_stores_only_its_ends():
    model, data, calls = tg.nn.Linear(4, 4), np.linspace(-1.0, 1.0, 8).reshape(2, 4), []

    def layers(x, note=None):
        for _ in range(20):
            x = np.tanh(model(x))
        if note is not None:
            note.append(len(note))
        return x

    gradients = []
    for first in (layers, tg.checkpoint(layers), *[tg.checkpoint(lambda x: layers(x, calls))] * 2):
        with tg.Tape() as tape:
            loss = np.sum(first(data) ** 2)
        assert (len(tape) < 15) == (len(gradients) == 1)
        model.zero_grad()
        loss.backward()
        gradients.append(model.weight.grad.numpy().copy())
        np.testing.assert_allclose(gradients[-1], gradients[0], rtol=1e-12)
    # What changes something that it reads runs as it is, once a call.
    assert calls == [0, 1]
    noisy = tg.checkpoint(lambda: np.sum(model(data)) * np.random.normal())
    np.random.seed(3)
    found = [float(noisy().detach()), float(noisy().detach())]
    np.random.seed(3)
    assert found == [float(np.sum(model(data)).detach()) * np.random.normal() for _ in range(2)]


def test_plain_values_stay_what_they_are():
    for result in (None, "text", 3, np.int64(3), (1.0, {"a": np.ones(2)})):
        assert tg.checkpoint(lambda x: result)(np.ones(2)) is result
        assert tg.checkpoint(lambda x: [tg, result][1])(np.ones(2)) is result


def test_takes_functions():
    with pytest.raises(StructureError):
        tg.checkpoint(3.0)


def test_runs_once_for_the_value_and_once_on_the_way_back():
    x, runs = tg.tensor(X, requires_grad=True), ctypes.c_int(0)

    @tg.checkpoint
    def counted(x):
        # (What it could see to be changed by it would be put back.)
        runs.value += 1
        return x * 2.0

    y = counted(counted(x))
    assert runs.value == 2
    np.sum(y).backward()
    assert runs.value == 4 and x.grad.numpy().tolist() == [4.0] * 4


def test_memory_is_that_of_the_ends():
    """Of 50 segments of 40 operations on 100 kB, the tape keeps the 50 results instead of 2 000."""
    def segment(x):
        for _ in range(20):
            x = np.sin(x) * 1.01
        return x

    def kept_bytes(function):
        x = tg.tensor(np.linspace(0.0, 1.0, 12_500), requires_grad=True)
        with tg.Tape() as tape:
            y = x
            for _ in range(50):
                y = function(y)
            loss = np.sum(y)
        saved = {id(o): o.nbytes for o in tape.store.objects if isinstance(o, np.ndarray)}
        loss.backward()
        return sum(saved.values()), x.grad.numpy()

    plain, expected = kept_bytes(segment)
    checkpointed = tg.checkpoint(segment)
    less, found = kept_bytes(checkpointed)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert less <= plain / 18 and less <= 52 * 100_000

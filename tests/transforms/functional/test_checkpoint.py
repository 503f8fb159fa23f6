"""`checkpoint`: the derivatives of the function itself, and less memory."""

import itertools

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import NestingError, StructureError
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


def test_what_is_differentiated_must_be_an_argument():
    w = tg.tensor(2.0, requires_grad=True)
    product = w * 1.0
    for f in (lambda x: x * w, lambda x: x * product, lambda x: product):
        with pytest.raises(NestingError):
            tg.checkpoint(f)(tg.tensor(1.0, requires_grad=True))
    with pytest.raises(StructureError):
        tg.checkpoint(3.0)


def test_runs_once_for_the_value_and_once_on_the_way_back():
    x, runs = tg.tensor(X, requires_grad=True), itertools.count()

    @tg.checkpoint
    def counted(x):
        next(runs)
        return x * 2.0

    y = counted(counted(x))
    assert next(runs) == 2
    np.sum(y).backward()
    assert next(runs) == 5 and x.grad.numpy().tolist() == [4.0] * 4


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

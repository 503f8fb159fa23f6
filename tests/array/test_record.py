"""The description of a recorded value is that of the value, whatever was recorded before."""

import itertools

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array import indexing, record
from tapegrad.array.record import apply
from tapegrad.common import config
from tapegrad.interpreter.fields import numbers
from tapegrad.rules import BY_NAME
from tapegrad.tape.layout import Meta, meta_of
from tests.counting import calls_of
from tests.rules.checker import generator, leaf

SIDES = itertools.count(5)


@pytest.mark.parametrize("assign", [lambda y: y.__setitem__(0, 5.0), lambda y: y.__setitem__([0, 2], 5.0), lambda y: y[:1].__iadd__(1.0)])
def test_an_assignment_writes_in_place_where_nobody_else_has_the_array(assign):
    x = leaf(np.arange(1.0, 5.0))
    y = x + 1.0
    address = y._v.ctypes.data
    assign(y)
    assert y._v.ctypes.data == address
    old, values = y._v, y._v.copy()
    y[1] = 7.0
    assert y._v.ctypes.data != address and np.array_equal(old, values) and y._v[1] == 7.0


@pytest.mark.parametrize("general", [False, True])
def test_what_is_written_row_by_row_is_not_copied_for_what_the_tape_keeps_of_its_rows(general, monkeypatch):
    if general:
        # Of the way back only: the store is one of another thread for the short way.
        monkeypatch.setattr(record, "record_row", lambda *_: None)
        monkeypatch.setattr(indexing, "record_row", lambda *_: None)
    def trajectory(p, places=None):
        x = np.zeros((50, 3)) * p
        x[0] = np.arange(1.0, 4.0)
        for k in range(49):
            x[k + 1] = x[k] + 0.1 * np.sin(x[k] * p) * x[k]
            if places is not None:
                places.add(x._v.ctypes.data)
        return np.sum(x[-1])

    assert tg.check(trajectory, 0.7).passed
    trajectory(leaf(0.7), places := set())
    assert len(places) <= 2


def test_a_tape_with_much_to_keep_takes_the_short_way():
    def calls(x):
        for _ in range(40):
            x = np.sin(x * x)
        found.append(calls_of(record._write, lambda: np.sin(x * x)) if isinstance(x, tg.Tensor) else 0)
        return np.sum(x)

    found = []
    tg.grad(calls)(np.linspace(0.1, 0.9, 10_000))
    assert found == [0] or numbers is None


#: Of a square matrix: results of one shape that are all one row, and lie in memory in several ways.
GATHERED = {
    "columns": lambda y: y[:, [0, 2]].T[:, :2],
    "rows": lambda y: y[[0, 2]][:, :2],
    "index behind a slice": lambda y: y[:, [1, 3]],
    "take": lambda y: np.take(y, [0, 2], axis=1),
    "take_along_axis": lambda y: np.take_along_axis(y, np.tile([1, 0], (len(y), 1)), axis=1),
    "ix_": lambda y: y[np.ix_(range(len(y)), [3, 0])],
    "mask behind a slice": lambda y: y[:, np.arange(len(y)) < 2],
    "compress": lambda y: np.compress(np.arange(len(y)) < 2, y, axis=1),
    "transposed operand": lambda y: np.take(y.T, [0, 2], axis=1),
    "transposed operand, index behind a slice": lambda y: y.T[:, [0, 2]],
    "of three axes": lambda y: np.expand_dims(y, 2)[:, [0, 3], :],
    "of three axes, take": lambda y: np.take(np.expand_dims(y, 2), [0, 3], axis=1),
    "partition": lambda y: np.partition(y, 2, axis=1)[:, :2],
    "delete": lambda y: np.delete(y, list(range(2, len(y))), axis=1),
    "repeat": lambda y: np.repeat(y, [2, *[0] * (len(y) - 1)], axis=1),
}


def gradient(f, x, weights):
    """Of ``np.sum(f(y) ** 2 * weights)``, from where in `x`, whose elements are distinct, each element of ``f(x)`` is found."""
    order, found = np.argsort(x, axis=None), np.zeros(x.size)
    np.add.at(found, order[np.searchsorted(x.ravel()[order], f(x))], 2.0 * f(x) * weights)
    return found.reshape(x.shape)


def backward(f, x):
    t = leaf(x)
    f(t).backward()
    return t.grad.numpy()


def recorded(f, x):
    t = leaf(x)
    (g,) = tg.autograd.grad(f(t), t, create_graph=True)
    return g.numpy()


ENTRIES = {
    "backward": backward,
    "create_graph": recorded,
    "vjp": lambda f, x: tg.vjp(f, x)[1](1.0)[0],
    "jacobian": lambda f, x: tg.jacobian(f)(x),
    "grad": lambda f, x: tg.grad(f)(x),
    "replay": lambda f, x: [g := tg.jit(tg.grad(f), kernel="never"), g(x + 1.0), g(x)][-1],
    "kernel": lambda f, x: [g := tg.jit(tg.grad(f), kernel="always"), g(x + 1.0), g(x)][-1],
    "linearize": lambda f, x: np.reshape(list(map(tg.linearize(f, x)[1], np.eye(x.size).reshape(-1, *x.shape))), x.shape),
}


@pytest.mark.parametrize("later", GATHERED)
@pytest.mark.parametrize("earlier", ["index behind a slice", "take"])
def test_a_gradient_does_not_depend_on_what_was_recorded_before(earlier, later):
    """Each pair in a shape of its own, which no other test has."""
    n, rng = next(SIDES), generator(1)
    x = rng.normal(size=(n, n))
    for name in (earlier, later):
        f = GATHERED[name]
        weights = rng.normal(size=f(x).shape)
        assert backward(lambda y, f=f, w=weights: np.sum(f(y) ** 2 * w), x) == pytest.approx(gradient(f, x, weights))


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("later", ["take", "compress", "ix_"])
def test_nor_does_it_by_another_entry(entry, later):
    n, rng = next(SIDES), generator(2)
    x = rng.normal(size=(n, n))
    backward(lambda y: np.sum(y[:, [1, 3]] ** 2), x)
    f = GATHERED[later]
    weights = rng.normal(size=f(x).shape)
    found = ENTRIES[entry](lambda y: np.sum(f(y) ** 2 * weights), x)
    assert np.asarray(found) == pytest.approx(gradient(f, x, weights))


@pytest.mark.parametrize("dtype", ["f", "d"])
def test_in_one_expression(dtype):
    n = next(SIDES)
    x = generator(3).normal(size=(n, 4)).astype(dtype)
    found = backward(lambda y: np.sum(np.take(y, [0, 2], axis=1) * y[:, [1, 3]]), x)
    assert found == pytest.approx(x[:, [1, 0, 3, 2]])


def test_a_primitive_whose_result_has_another_shape_each_time():
    """Its operands say nothing of the shape of the result."""

    @tg.primitive
    def positive(x):
        return x[x > 0.0]

    @positive.defvjp
    def _(g, result, x):
        out = np.zeros(np.shape(x))
        out[x > 0.0] = g
        return out

    n = next(SIDES)
    for x in (np.linspace(-1.0, 1.0, n), np.linspace(-1.0, 9.0, n), np.linspace(-9.0, 1.0, n)):
        assert backward(lambda y: np.sum(positive(y) ** 2), x) == pytest.approx(np.where(x > 0.0, 2.0 * x, 0.0))


def test_a_primitive_whose_result_has_another_dtype_each_time():
    n = next(SIDES)

    @tg.primitive
    def narrow(x):
        return x.astype("f") if x[0] > 0.0 else x * 1.0

    @narrow.defvjp
    def _(g, result, x):
        return np.asarray(g, np.float64)

    for x in (np.full(n, 2.0), np.full(n, -2.0), np.full(n, 3.0)):
        assert backward(lambda y: np.sum(narrow(y) ** 2), x) == pytest.approx(2.0 * x)


# ---------------------------------------------------------------- the mode that tests run with


def test_tests_run_with_descriptions_compared():
    assert config.strict


def test_a_wrong_description_of_an_operand_is_noticed():
    x = leaf(np.ones((2, 3)))
    y = x * 2.0
    y._m = meta_of(np.ones((2, 3), order="F"))
    with pytest.raises(AssertionError, match="is described as"):
        np.sum(y)


def test_a_wrong_description_of_a_result_is_noticed(monkeypatch):
    x = leaf(np.ones((2, 3)))
    y = x * 2.0
    signature = next(s for s in y._t.signatures.values() if s.row is BY_NAME["multiply"] and s.out is y._m)
    wrong = Meta((2, 3), (24, 8), "d", 8)
    monkeypatch.setattr(signature, "out", wrong)
    with pytest.raises(AssertionError, match="shape rule disagrees with the computed result"):
        apply("multiply", (x, 2.0))

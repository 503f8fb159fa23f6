"""What a user's mistake raises: which class, about which variable, and the ways out."""

import math
import os
import re
import sys

import numpy as np
import pytest

import tapegrad as tg
from tests.rules.checker import leaf

FILE = os.path.basename(__file__)


def next_line():
    return sys._getframe(1).f_lineno + 1


def test_second_backward_says_where_it_was_cleared_and_the_ways_out():
    x = leaf([1.0, 2.0])
    loss = (x * x).sum()
    cleared = next_line()
    loss.backward()
    with pytest.raises(RuntimeError) as caught:
        loss.backward()
    text = str(caught.value)
    assert text.startswith("Trying to backward through the graph a second time")
    assert re.search(rf"{re.escape(FILE)}:{cleared}\b", text)
    for way_out in ("retain_graph=True", "detach()", "recompute"):
        assert way_out in text


@pytest.mark.parametrize("shape", [(2,), (0,), (2, 3)])
def test_output_that_is_not_scalar(shape):
    x = tg.ones(*shape, requires_grad=True)
    for ask in (lambda y: y.backward(), lambda y: tg.autograd.grad(y, x)):
        with pytest.raises(
            RuntimeError, match="grad can be implicitly created only for scalar outputs"
        ):
            ask(x * 2)


def test_backward_of_what_does_not_require_grad():
    with pytest.raises(RuntimeError, match="does not require grad"):
        tg.ones(2).sum().backward()


@pytest.mark.parametrize("seed", [tg.ones(3), tg.ones(1, 2), tg.ones(2, 2)])
def test_seed_of_another_shape(seed):
    x = tg.ones(2, requires_grad=True)
    for ask in (
        lambda y: y.backward(seed),
        lambda y: tg.autograd.backward(y, seed),
        lambda y: tg.autograd.grad(y, x, seed),
    ):
        with pytest.raises((RuntimeError, ValueError), match="shape") as caught:
            ask(x * 2)
        for shape in (seed.shape, (2,)):
            numbers = ", ".join(str(n) for n in shape)
            assert re.search(rf"[(\[]{numbers},?[)\]]", str(caught.value))
    assert x.grad is None


def test_seeds_of_another_number():
    x = leaf(2.0)
    with pytest.raises((RuntimeError, ValueError)):
        tg.autograd.backward([x * 2, x * 3], [tg.tensor(1.0)])


@pytest.mark.parametrize("name, call", [
    ("packbits", np.packbits),
    ("roots", np.roots),
    ("spacing", np.spacing),
])  # fmt: skip
def test_numpy_function_without_a_rule(name, call):
    with pytest.raises(tg.errors.UnsupportedFunctionError, match=name):
        call(leaf([1.0, 2.0, 3.0]))
    assert issubclass(tg.errors.UnsupportedFunctionError, TypeError)


def test_numba_function_called_on_a_tensor():
    numba = pytest.importorskip("numba")

    @numba.njit
    def double(a):
        return a * 2

    with pytest.raises(TypeError):
        double(leaf([1.0, 2.0]))


@pytest.mark.parametrize("make", [
    lambda: tg.tensor(np.array([1, 2]), requires_grad=True),
    lambda: tg.tensor(np.array([1, 2])).requires_grad_(),
    lambda: tg.nn.Parameter(tg.tensor(np.array([1, 2]))),
])  # fmt: skip
def test_integer_array_cannot_require_grad(make):
    with pytest.raises((TypeError, RuntimeError), match=r"\.astype\(float\)"):
        make()


def test_python_int_counts_as_a_float_where_a_derivative_is_asked():
    x = leaf(3)
    (x * x).backward()
    assert x.grad.item() == 6.0
    assert x.grad.numpy().dtype == np.float64


def test_complex_input():
    z = tg.tensor(np.array([1 + 2j]), requires_grad=True)
    assert z.dtype == np.complex128 and z.real.requires_grad and z.imag.requires_grad
    w = leaf([1.0, 2.0]) * np.array([1j, 2j])
    assert w.detach().numpy().tolist() == [1j, 4j]
    with pytest.raises((TypeError, RuntimeError), match="complex"):
        tg.tensor(np.array([1 + 2j], np.clongdouble), requires_grad=True)
    with pytest.raises((TypeError, RuntimeError), match="complex"):
        tg.softmax(w)


def assign(t):
    np.zeros(3)[0] = t


@pytest.mark.parametrize("leave, ways_out", [
    (float, [".item()", ".detach()"]),
    (int, [".item()", ".detach()"]),
    (math.sin, ["np.sin"]),
    (assign, ["tg.zeros"]),
    (lambda t: np.array([t, t * 2], dtype=float), ["tg.array"]),
    (lambda t: np.array([t * tg.ones(2), t * tg.ones(2)]), ["np.stack"]),
    (lambda t: np.asarray(t, float), [".detach()"]),
    (lambda t: np.asarray(t * tg.ones(2)), [".detach()"]),
])  # fmt: skip
@pytest.mark.parametrize("interior", [False, True])
def test_nothing_leaves_the_tape_by_accident(leave, ways_out, interior):
    t = leaf(0.5) * 1.0 if interior else leaf(0.5)
    # NumPy wraps what __float__ raises during an assignment in a ValueError of its own.
    with pytest.raises((TypeError, RuntimeError, ValueError)) as caught:
        leave(t)
    text = f"{caught.value} {caught.value.__cause__}"
    for way_out in ways_out:
        assert way_out in text


def test_ndarray_dot_names_the_operator():
    with pytest.raises((TypeError, RuntimeError), match="@"):
        np.eye(2).dot(leaf([1.0, 2.0]))


def test_constants_may_leave():
    c = tg.tensor(0.5)
    assert (float(c), int(c), math.sin(c)) == (0.5, 0, math.sin(0.5))
    assert np.asarray(tg.tensor([1.0, 2.0])).tolist() == [1.0, 2.0]


def test_the_ways_out_work():
    x = leaf(0.5)
    assert x.item() == 0.5
    assert float(x.detach()) == 0.5
    out = tg.zeros(2)
    out[0] = x
    both = np.stack([np.sin(x), x]).sum() + out.sum() + np.eye(1) @ (x * tg.ones(1))
    both.backward()
    assert x.grad.item() == pytest.approx(math.cos(0.5) + 3.0)


def test_numpy_of_a_tracked_tensor_cannot_be_written():
    view = leaf([1.0, 2.0]).numpy()
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 5.0


def test_interior_tensor_of_a_cleared_tape():
    x = leaf([1.0, 2.0])
    with tg.Tape() as tape:
        y = x * x
        tape.clear()
        with pytest.raises(RuntimeError, match="clear") as caught:
            (y * 2).sum().backward()
    assert FILE in str(caught.value)
    assert x.grad is None

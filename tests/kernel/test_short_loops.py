"""Short loops that become vectors: which ones, that LLVM has nothing to say about them, and that they compute the same."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.kernel import ir
from tapegrad.kernel.emit import CompileOptions
from tapegrad.kernel.kernel import Kernel
from tests.kernel.compare import agree
from tests.kernel.programs import Writer, a

RNG = np.random.default_rng(23)
ASKED = '"llvm.loop.vectorize.enable"'


def products(n):
    """A row of products, and their sum."""
    w = Writer()
    x, y, total = w.input(n), w.output(n), w.output(1)
    with w.loop(n, w.let(0.0), reorder=True) as i:
        product = w.let(a(w.load(x, 0, (i, 1))) * 1.5)
        w.store(product, y, 0, (i, 1))
        i.carries[0].next = w.let(a(i.carries[0]) + a(product))
    w.store(i.carries[0].next, total, 0)
    return w.program()


def neighbours(n):
    """Each iteration reads what the one before has written."""
    w = Writer()
    x, y = w.input(n), w.output(n + 1)
    w.store(w.let(1.0), y, 0)
    with w.loop(n) as i:
        w.store(w.let(a(w.load(y, 0, (i, 1))) + a(w.load(x, 0, (i, 1)))), y, 1, (i, 1))
    return w.program()


def ordered(n):
    """A sum whose order counts."""
    w = Writer()
    x, total = w.input(n), w.output(1)
    with w.loop(n, w.let(0.0)) as i:
        i.carries[0].next = w.let(a(i.carries[0]) + a(w.load(x, 0, (i, 1))))
    w.store(i.carries[0].next, total, 0)
    return w.program()


@pytest.mark.parametrize("n", [4, 9, 10, 50, 64])
def test_asked_for_and_done(n, capfd):
    kernel, _ = agree(products(n), RNG.normal(size=n), rtol=1e-13)
    assert ASKED in kernel._text
    assert "x double>" in kernel.llvm()
    assert "vectorize" not in capfd.readouterr().err


@pytest.mark.parametrize("make", [neighbours, ordered])
@pytest.mark.parametrize("n", [4, 9, 64])
def test_not_asked_for_where_iterations_see_each_other(make, n):
    kernel, _ = agree(make(n), RNG.normal(size=n), rtol=1e-13)
    assert ASKED not in kernel._text


@pytest.mark.parametrize("n", [3, 65])
def test_not_asked_for_in_other_lengths(n):
    assert ASKED not in Kernel(products(n))._text


def test_not_asked_for_where_it_is_cut(capfd):
    kernel = Kernel(products(40), CompileOptions(limit=1))
    kernel.llvm()
    assert ASKED not in kernel._text and "vectorize" not in capfd.readouterr().err


def test_captured_weights_are_not_copied():
    kernel = tg.jit(lambda w, x: tg.grad(lambda w: np.sum(np.tanh(x @ w)))(w), kernel="always").kernel(RNG.normal(size=(20, 30)), RNG.normal(size=20))
    stored = [s.buffer for s in ir.walk(kernel.program.body) if isinstance(s, ir.Store)]
    assert {buffer.role for buffer in stored if buffer.size == 600} == {ir.OUTPUT}


def test_a_window_in_another_shape_is_not_copied():
    def f(x):
        return np.reshape(x[:, 2:], (5, 3, 2)) * 2.0

    x = RNG.normal(size=(5, 8))
    kernel = tg.jit(f, kernel="always").kernel(x)
    assert not [s for s in ir.walk(kernel.program.body) if isinstance(s, ir.Store) and s.buffer.role == ir.TEMPORARY]
    np.testing.assert_array_equal(tg.jit(f, kernel="always")(x), f(x))

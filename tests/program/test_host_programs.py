"""Calls of NumPy on integers and truth values in a replay: by programs where there are some, and as NumPy computes them at other values."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.program import values
from tests.near import near

X, OTHER = np.array([0.3, -1.2, 2.5, 0.0]), np.array([-2.0, 1.7, 0.4, 3.0])


def _stored(x):
    y = x * 1.0
    y[x > 0.1] *= 3.0
    y[x < -1.0] = 0.5
    return y * x


FUNCTIONS = {
    "sum of a mask": lambda x, k: np.sum(x > 0.1) * x,
    "sum of integers": lambda x, k: np.sum(k * 2) * x,
    "product of integers": lambda x, k: np.prod(k + 1) * x,
    "all": lambda x, k: np.where(np.all(x < 2.6), x, x * x),
    "any": lambda x, k: np.where(np.any(x > 2.6), x, x * x),
    "all of floats": lambda x, k: np.where(np.all(np.floor(x)), x, x * x),
    "nonzero integers": lambda x, k: np.count_nonzero(k - 2) * x,
    "nonzero floats": lambda x, k: np.count_nonzero(np.floor(x)) * x,
    "an integer beside a mask": lambda x, k: (3 * (x > 0.1)) * x,
    "an integer and a float compared": lambda x, k: np.where(k > x, x, x * x),
    "a mask made of integers": lambda x, k: ((k > 1) ^ (x > 0.1)) * x,
    "two widths": lambda x, k: (k.astype(np.int32) * k) * x,
    "unsigned of 64 bits": lambda x, k: np.where(k.astype(np.uint64) * np.uint64(2**62) > x, x, x * x),
    "unsigned of 64 bits as floats": lambda x, k: (k.astype(np.uint64) * np.uint64(2**62 + 2**61)).astype(float) * 2.0**-60 * x,
    "stored by a mask": lambda x, k: _stored(x),
    "picked by a mask": lambda x, k: np.sum(x[x > 0.1]) * x,
    "bytes": lambda x, k: np.sum(k.astype(np.int8)) * x,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_replay_is_what_numpy_computes(name):
    function = FUNCTIONS[name]
    loss = tg.jit(tg.value_and_grad(lambda x, k: np.sum(function(x, k) * np.array([1.0, 2.0, -1.0, 0.5]))), kernel="never")
    for x, k in ((X, np.array([0, 1, 2, -3])), (OTHER, np.array([5, 2, 2, 0])), (X, np.array([1, 0, 0, 7]))):
        value, gradient = loss(x, k)
        plain = tg.value_and_grad(lambda x: np.sum(function(x, k) * np.array([1.0, 2.0, -1.0, 0.5])))(x)  # noqa: B023
        near(value, np.sum(function(x, k) * np.array([1.0, 2.0, -1.0, 0.5])), 50.0)
        near(value, plain[0], 50.0)
        near(gradient, plain[1], 50.0)


def test_loops_that_count_need_no_kernel(monkeypatch):
    """Integers and truth values in a carry, a decision on them, and a sum of a mask are programs."""
    made = []
    called = values.ValueProgram.of_host
    monkeypatch.setattr(values.ValueProgram, "of_host", lambda *key: (made.append((key[0], called(*key))), made[-1][1])[1])
    monkeypatch.setattr("tapegrad.kernel.kernel.TapeKernel.__init__", lambda *_: pytest.fail("a kernel"))

    def f(x):
        def body(s):
            count, seen, c = s
            return count + 1, seen | (c > 1.0), np.sin(c) * x[1] + np.sum(x > 0.1) * (2 * (count > 1)) * 0.1

        count, seen, c = tg.while_loop(lambda s: s[0] < 4, body, (0, False, x[0]))
        return c * count + seen * x[2]

    by_hand = tg.grad(lambda x: plain(x))

    def plain(x):
        count, seen, c = 0, False, x[0]
        while count < 4:
            count, seen, c = count + 1, seen | (c > 1.0), np.sin(c) * x[1] + np.sum(x > 0.1) * (2 * (count > 1)) * 0.1
        return c * count + seen * x[2]

    for x in (X, OTHER):
        near(f(x), plain(x), 50.0)
        near(tg.grad(f)(x), by_hand(x), 50.0)
    assert made and all(program is not None for _, program in made)

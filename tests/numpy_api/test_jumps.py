"""What changes in jumps: integers (``np.floor(x).astype(int)``), ``np.arange`` of numbers that carry derivatives, and what is close."""

import itertools

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.numpy as tnp
from tapegrad.errors import DtypeError, LeaveTapeError
from tests.every import every
from tests.rules.checker import leaf, plain

TABLE = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
X = np.array([1.4, 0.3, 2.7])


def interpolated(x):
    low = np.floor(x).astype(int)
    return np.sum((TABLE[low] + (TABLE[low + 1] - TABLE[low]) * (x - low)) ** 2)


def cells(x):
    k = (np.floor(x[:2] / 0.5) + 1.0).reshape(2).astype(np.int64)
    return np.sum(x[k % 3] * np.round(x[:2]).astype(int) + np.sign(x[0]).astype("int32"))


def by_int(x):
    i, k = int(np.floor(x[0])) % 3, int(2.0 * np.round(x[1]) + x[2] // 0.5) % 3
    return np.sum(x[i] * x[k] ** 2) + sum(x[n] ** 3 for n in range(int(np.abs(np.sign(x[2])) + 1)))


@pytest.mark.parametrize("function", [interpolated, cells, by_int])
def test_positions_of_numbers_in_every_mode(function):
    assert tg.check(function, X, order=2).passed
    g = tg.jit(tg.grad(function))
    for x in (X, X + 1.0, X[::-1].copy(), X - 0.3):
        np.testing.assert_allclose(g(x), tg.grad(function)(x), rtol=1e-12)


def test_numbers_without_axes():
    def f(x):
        return x * tnp.array([1.0, 2.0, 4.0])[np.floor(x).astype(int)]

    assert tg.grad(f)(1.5) == 2.0 and tg.jvp(f, (2.5,), (1.0,)) == (10.0, 4.0)
    nested = tg.grad(lambda x: tg.grad(lambda y: y * np.floor(x * y).astype(int))(x))(1.5)
    assert nested == 0.0


@pytest.mark.parametrize("call", [
    lambda t: t.astype(int), lambda t: (np.floor(t) + t).astype(int), lambda t: (np.floor(t) * 2.0 + t * 0.0).astype(int), lambda t: np.astype(t, bool),
    lambda t: tg.Dual(np.array([1.5]), np.array([1.0])).astype(int), lambda t: (t * 1.0).astype("i4"),
])  # fmt: skip
def test_what_is_no_step_is_refused(call):
    for run in (lambda: call(leaf(X)), lambda: tg.grad(lambda x: np.sum(call(x) * x))(X), lambda: tg.jit(tg.grad(lambda x: np.sum(call(x) * x)))(X)):
        with pytest.raises(DtypeError, match=r"np.floor\(x\)"):
            run()


def test_an_int_of_what_is_no_step_is_refused():
    for call in (int, lambda t: int(np.floor(t) + t), lambda t: int(t * 2.0)):
        for derivative in (tg.grad, tg.derivative, lambda f: tg.jit(tg.grad(f))):
            with pytest.raises(LeaveTapeError, match=r"write int\(np.floor\(t\)\)"):
                derivative(lambda t, call=call: t * call(t))(1.5)


def test_many_paths_to_one_number():
    t = np.floor(leaf(X))
    for _ in range(60):
        t = t + t
    assert t.astype(float) is not None and (t / 2.0**60).astype(int).tolist() == [1, 0, 2]


RANGES = [lambda t: (t,), lambda t: (t, t + 3.0), lambda t: (0.5, 4.0, t), lambda t: (t * 5, t, -0.5 * t), lambda t: (t, 0.0), lambda t: (1, 6, t)]


@pytest.mark.parametrize("arguments", RANGES)
def test_arange(arguments):
    def f(t):
        return np.sum(np.sin(tnp.arange(*arguments(t))) * tnp.arange(0.0, 9.0)[: len(tnp.arange(*arguments(t)))]) + t

    assert tg.check(f, 1.3, order=2).passed
    np.testing.assert_allclose(plain(tnp.arange(*arguments(leaf(1.3)))), np.arange(*arguments(1.3)), rtol=1e-14)
    g = tg.jit(tg.grad(f))
    for at in (1.3, 1.7, 2.9, 1.3):
        assert g(at) == pytest.approx(tg.grad(f)(at), rel=1e-12)  # other lengths are other recordings


def test_arange_of_other_things():
    assert tnp.arange(leaf(2.5), 5.0, dtype="f").dtype == np.float32
    assert tg.jit(tg.grad(lambda x, n: np.sum(x * tnp.arange(n))))(1.0, 4) == 6.0
    with pytest.raises(LeaveTapeError, match=r"start \+ step \* np.arange\(n\)"):
        np.arange(leaf(2.5))


CLOSE = [
    np.array([1.0, np.inf, np.nan, 0.0, -np.inf, 1e-9]), np.array([1.0 + 1e-7, np.inf, np.nan, 1e-9, np.inf, 0.0]), 1.0, np.float32(1.00001),
    np.array([[1.0], [np.nan]]), np.array([1, 2, 3, 4, 5, 6]), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], np.inf, np.array([1.0, 2.0], np.float32),
]  # fmt: skip


@every("function", [np.isclose, np.allclose, np.array_equal])
def test_what_is_close_is_decided_by_instructions_of_a_recording(function):
    for a, b in itertools.combinations_with_replacement(CLOSE, 2):
        for options in ({}, {"equal_nan": True}, {"rtol": 1e-3}, {"atol": 0.5}) if function is not np.array_equal else ({}, {"equal_nan": True}):
            try:
                expected = function(a, b, **options), function(b, a, **options)
            except ValueError:
                with pytest.raises(ValueError, match="broadcast"):
                    tg.jit(lambda x, a=a, b=b, options=options: function(a + x, b, **options))(0.0)
                continue

            def f(x, a=a, b=b, options=options):
                t = x + a if np.asarray(a).dtype.kind == "f" else a
                return [x + np.where(function(*pair, **options), 1.0, 0.0) for pair in ((t, b), (b, t))]

            jitted = tg.jit(f, kernel="never")
            for one, other in zip(jitted(0.0), expected):
                assert np.array_equal(one, np.where(other, 1.0, 0.0)), (a, b, options)
            assert "close" not in str(jitted.tape(0.0)) and "array_equal" not in str(jitted.tape(0.0))

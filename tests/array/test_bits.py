"""``& | ^ ~ << >>`` of truth values and integers, in every order beside plain ones, and what has no rule on constants."""

import numpy as np
import pytest

import tapegrad as tg

M, N = np.array([True, True, False]), np.array([6, 3, 5])
X = np.array([0.5, 1.6, 2.7])


def some(x):
    found, every = False, True
    for v in x:
        found |= v > 2
        every &= v > 0.2
    return x[0] * found + x[1] * every


def alive(x):
    mask, s = np.ones(3, bool), x
    for _ in range(3):
        s = s * 1.1
        mask = mask & (s < 2.6)
    return np.sum(np.where(mask, s, 0.0))


def in_place(x):
    a, b, c = M.copy(), x > 1, N.copy()
    views = a, b
    a &= x < 2
    b |= M
    b ^= x > 2.5
    c <<= np.argsort(x)
    return np.sum(np.where(views[0], x**2, 0.0)) + np.sum(np.where(views[1], x, 0.0)) + np.sum(c * x)


def integers(x):
    return np.floor(x).astype(int)


PROGRAMS = {
    "array & t": lambda x: np.sum(np.where(M & (x < 2), x**2, 0)),
    "t & array": lambda x: np.sum(np.where((x < 2) & M, x**2, 0)),
    "array | t": lambda x: np.sum(np.where(M | (x < 2), x**2, 0)),
    "array ^ t": lambda x: np.sum(np.where(M ^ (x < 2), x**2, 0)),
    "~(array & t)": lambda x: np.sum(np.where(~(M & (x < 2)), x**2, 0)),
    "t ^ t": lambda x: np.sum(np.where((x > 1) ^ (x < 2), x**2, 0)),
    "True & t": lambda x: np.where(True & (x[0] < 2), x[0] ** 2, 0.0) + np.where(np.True_ & (x[1] < 2), x[1] ** 2, 0.0),
    "a list": lambda x: np.sum(np.where([True, False, True] & (x < 2), x**2, 0)),
    "an index": lambda x: np.sum(x[M & (x < 2)]),
    "a count": lambda x: x[0] * np.count_nonzero(M & (x < 2)) + x[1] * (M | (x < 2)).sum(),
    "reduce": lambda x: x[0] * np.bitwise_and.reduce(x > 0) + x[1] * np.logical_or.reduce(x > 2),
    "outer": lambda x: np.sum(np.logical_and.outer(x > 1, x < 2) * x),
    "where=": lambda x: np.sum(np.bitwise_or(M, x < 2, out=np.zeros(3, bool), where=[True, True, False]) * x),
    "integers": lambda x: np.sum(((np.argsort(x) & 1) + (N | integers(x)) + (N ^ integers(x)) + ~integers(x)) * x),
    "shifts": lambda x: np.sum(((1 << np.argsort(-x)) + (N >> np.argsort(x)) + (integers(x) << 2)) * x),
    "truths and integers": lambda x: np.sum(((x > 1) & N) * x),
    "gcd": lambda x: np.sum((np.gcd(integers(x), N) + np.divmod(integers(x) + N, 2)[1]) * x),
    "lanes": lambda x: np.sum(tg.vmap(lambda v: np.where(np.True_ & (v < 2), v**2, 0.0))(x)),
    "a scan": lambda x: np.sum(tg.scan(lambda c, v: (np.where(M & (c < 2.05), c + v, c), None), x, x)[0]),
    **{f.__name__: f for f in (some, alive, in_place)},
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_numpy(name):
    f = PROGRAMS[name]
    jitted = tg.jit(tg.value_and_grad(f), kernel="never"), tg.jit(tg.value_and_grad(f), kernel="always")
    for x in (X, X[::-1] + 0.1, X - 0.4):
        slope = [(f(x + h) - f(x - h)) / 2e-6 for h in 1e-6 * np.eye(3)]
        answers = [tg.value_and_grad(f)(x), *(g(x) for g in jitted), (tg.jvp(f, (x,), (x,))[0], tg.jacfwd(f)(x))]
        for value, gradient in answers:
            np.testing.assert_allclose(value, f(x))
            np.testing.assert_allclose(gradient, slope, atol=1e-6)


def test_of_floats_there_are_none():
    for f in (lambda x: np.sum(x & (x > 1)), lambda x: np.sum(np.where((x > 1) & x, x, 0)), lambda x: np.sum(np.bitwise_or(M, x)), lambda x: ~x):
        for way in (f, tg.grad(f), tg.jit(f), tg.jacfwd(f)):
            with pytest.raises(TypeError):
                way(X)
    mask = tg.tensor(M)
    with pytest.raises(TypeError, match="Cannot cast"):
        mask &= N

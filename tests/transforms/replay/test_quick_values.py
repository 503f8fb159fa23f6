"""The short way of products with Hessians: taken by calls that are alike, and by no others."""


import numpy as np

import tapegrad as tg
from tapegrad.transforms.replay.miss import MISS
from tests.threads import in_threads

X, V = np.array([0.5, -1.5, 2.0]), np.array([1.0, 2.0, -1.0])


def warm(product, *args, times=8):
    for _ in range(times):
        product(*args)
    assert product._replayed.short is not None
    return product


def calls(product, *args):
    """How many of the kernel calls of one more call there were on the short way, and its result."""
    quick = product._replayed.short
    before, seen = product.stats().kernel_calls, []
    product._replayed.short = type("Counted", (), {"call": lambda self, *a: seen.append(quick.call(*a)) or seen[-1]})()
    found = product(*args)
    product._replayed.short = quick
    assert product.stats().kernel_calls - before <= 1
    return sum(s is not MISS for s in seen), found


def test_calls_that_are_alike_take_it():
    product = warm(tg.hvp(lambda x: np.sum(x**3), kernel="always"), X, V)
    short, found = calls(product, 2.0 * X, V)
    assert short == 1 and found is not product(2.0 * X, V)
    np.testing.assert_allclose(found, 12.0 * X * V)
    for args in ((X.astype("f"), V.astype("f")), (X, np.eye(3)), (np.stack([X, X], 1)[:, 0], V), (np.append(X, 1.0), np.append(V, 1.0))):
        short, found = calls(product, *args)
        assert not short
        np.testing.assert_allclose(found, 6.0 * args[0] * args[1], rtol=1e-6)
    number = warm(tg.hvp(lambda x: x**4, kernel="always"), 2.0, 0.5)
    short, found = calls(number, 1.0, 0.5)
    assert short == 1 and found == 6.0 and type(found) is float and number(2, 1) == 48.0


def test_static_arguments_and_other_arguments():
    product = warm(tg.hvp(lambda w, x, n: np.sum(w * x**n), 1, kernel="always"), V, X, 3, V)
    short, found = calls(product, V, X, 3, X)
    assert short == 1
    np.testing.assert_allclose(found, 6.0 * V * X * X)
    short, found = calls(product, V, X, 4, X)
    assert not short
    np.testing.assert_allclose(found, 12.0 * V * X**2 * X)


def test_branches_names_and_captured_arrays():
    scale = np.ones(3)
    product = warm(tg.hvp(lambda x: np.sum(scale * x**2) if x[0] > 0.0 else np.sum(x**3), kernel="always"), X, V)
    for _ in range(3):
        np.testing.assert_allclose(product(-X, V), -6.0 * X * V)
        np.testing.assert_allclose(product(X, V), 2.0 * V)
    scale[1] = 5.0
    np.testing.assert_allclose(product(X, V), 2.0 * scale * V)

    factor = 2.0
    by_name = warm(tg.hvp(lambda x: factor * np.sum(x**2), kernel="always"), X, V)
    factor = 3.0
    np.testing.assert_allclose(by_name(X, V), 6.0 * V)


def test_inside_of_other_derivatives_and_on_tensors():
    product = warm(tg.hvp(lambda x: np.sum(x**4), kernel="always"), X, V)
    np.testing.assert_allclose(tg.grad(lambda x: np.sum(product(x, V)))(X), 24.0 * X * V)
    np.testing.assert_allclose(tg.jvp(lambda x: product(x, V), (X,), (V,))[1], 24.0 * X * V * V)
    t = tg.tensor(X, requires_grad=True)
    np.sum(product(t, V)).backward()
    np.testing.assert_allclose(t.grad.numpy(), 24.0 * X * V)


def test_what_is_not_finite():
    f = lambda x: np.sum(np.where(x > 0.0, np.sqrt(x) * x, 0.0))  # noqa: E731
    product, swept = warm(tg.hvp(f, kernel="always"), np.abs(X), V), tg.hvp(f, kernel="never")
    np.testing.assert_allclose(product(np.array([0.0, 4.0, np.inf]), V), [0.0, 0.75, 0.0])
    for v in ([np.nan, np.inf, 0.0], [0.0, 0.0, -np.inf]):
        np.testing.assert_array_equal(product(np.array([1.0, 0.0, np.inf]), np.array(v)), swept(np.array([1.0, 0.0, np.inf]), np.array(v)))


def test_threads_share_it():
    product = warm(tg.hvp(lambda x: np.sum(x**3), kernel="always"), X, V)
    wrong = []

    def work(k):
        factor = k + 1.0
        for _ in range(200):
            if not np.allclose(product(factor * X, V), 6.0 * factor * X * V):
                wrong.append(factor)

    in_threads(work, 4)
    assert not wrong

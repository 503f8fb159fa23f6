"""How functions of complex numbers are checked: values with NumPy's, derivatives with differences, modes with each other."""

import numpy as np

import tapegrad as tg

RNG = np.random.default_rng(21)


def array(*shape, real=False):
    return RNG.normal(size=shape) + (0.0 if real else 1j * RNG.normal(size=shape))


def real(*shape):
    return array(*shape, real=True)


def loss_of(f):
    """A real number of everything that `f` gives."""

    def loss(*xs):
        results = f(*xs)
        rng, total = np.random.default_rng(5), 0.0
        for result in results if isinstance(results, (tuple, list)) else [results]:
            w = rng.normal(size=np.shape(result)) + 1j * rng.normal(size=np.shape(result))
            total = total + np.sum(np.real(np.conj(w) * result)) + 0.1 * np.sum(np.abs(result) ** 2)
        return total

    return loss


def way(x):
    d = RNG.normal(size=np.shape(x))
    return d + 1j * RNG.normal(size=np.shape(x)) if np.iscomplexobj(x) else d


def along(gradient, d):
    return float(np.sum(np.real(np.conj(gradient) * d)))


def compare(f, *xs, kernel=False, second=True, step=1e-6):
    """`f` at `xs`: the value, the gradient and its tangent beside differences, forward mode, and a kernel if asked for."""
    loss, every = loss_of(f), tuple(range(len(xs)))
    value, gradients = tg.value_and_grad(loss, every)(*xs)
    np.testing.assert_allclose(value, loss(*xs), rtol=1e-9, atol=1e-12)
    if kernel:
        jitted = tg.jit(tg.grad(loss, every), kernel="always")
        for _ in range(2):
            for one, other in zip(jitted(*xs), gradients):
                np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)
        assert jitted.stats().kernel_calls
    for k, (x, g) in enumerate(zip(xs, gradients)):
        assert np.shape(g) == np.shape(x) and np.iscomplexobj(g) == np.iscomplexobj(x)
        d = way(x)
        sides = [[*xs[:k], x + s * step * d, *xs[k + 1 :]] for s in (1, -1)]
        measured = (loss(*sides[0]) - loss(*sides[1])) / (2 * step)
        slope = along(g, d)
        assert abs(measured - slope) <= 1e-5 * (1 + abs(slope)), (k, measured, slope)
        tangents = [d if j == k else np.zeros_like(x) for j, x in enumerate(xs)]
        np.testing.assert_allclose(tg.jvp(loss, xs, tuple(tangents))[1], slope, rtol=1e-8, atol=1e-9)
        if second:
            product = tg.hvp(loss, k)(*xs, d)
            measured = (tg.grad(loss, k)(*sides[0]) - tg.grad(loss, k)(*sides[1])) / (2 * step)
            np.testing.assert_allclose(product, measured, rtol=1e-4, atol=1e-4 * (1 + np.max(np.abs(measured))))

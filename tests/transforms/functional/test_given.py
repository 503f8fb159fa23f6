"""What is not differentiated arrives as it was given; value and derivative beside central differences and closed forms."""

import dataclasses
import functools

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import GradientError, LeaveTapeError, TapegradError
from tests.every import every

P, T = np.array([0.5, -1.0, 2.0]), np.array([1.0, 2.0, 3.0])


class Own:
    """An object of the user's, with numbers in it."""

    weights = T

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("nobody is to look into it")


@dataclasses.dataclass
class Data:
    weights: np.ndarray


def _series():
    return pytest.importorskip("pandas").Series(T)


#: Things, and what they are as weights.
THINGS = {
    "array": lambda: (T.copy(), np.asarray), "float32": lambda: (T.astype("f"), np.asarray), "strided": lambda: (np.repeat(T, 2)[::2], np.asarray),
    "0-d array": lambda: (np.array(2.0), np.asarray), "ints": lambda: (np.arange(3), np.asarray), "bools": lambda: (T > 1.5, np.asarray),
    "objects": lambda: (np.array([1.0, None, "x"], object), lambda t: float(t[0])), "list": lambda: ([1.0, 2.0, 3.0], np.array),
    "tuple": lambda: ((1.0, 2.0, 3.0), np.array), "dict": lambda: ({"a": [T]}, lambda t: t["a"][0]), "dataclass": lambda: (Data(T), lambda t: t.weights),
    "Series": lambda: (_series(), lambda t: t.to_numpy()), "int": lambda: (3, float), "bool": lambda: (True, float), "float": lambda: (2.5, float),
    "NumPy's float": lambda: (np.float64(2.5), float), "str": lambda: ("three", len), "None": lambda: (None, lambda t: 1.0),
    "own class": lambda: (Own(), lambda t: t.weights), "constant tensor": lambda: (tg.tensor(T), lambda t: t), "function": lambda: (np.sin, lambda t: t(T)),
    "slice": lambda: (slice(0, 2), lambda t: np.ones(3) * T[t].sum()), "complex": lambda: (1j * T, np.imag),
    "read-only": lambda: (np.broadcast_to(2.0, 3), np.asarray),
}  # fmt: skip


def _of(transformation, last=()):
    return lambda f: lambda *args, **kwargs: transformation(f)(*args, *last, **kwargs)


def _number(f):
    """`f` along a line, as a function of a number."""
    return lambda s, *args, **kwargs: f(s * P, *args, **kwargs)


# Of f = sum(w * p ** 3): gradient 3 w p^2, Hessian diag(6 w p).
GRADIENT, DIAGONAL = (lambda w: 3.0 * w * P**2), (lambda w: 6.0 * w * P)
#: Transformations of a function of (p, t), and what they give for weights w.
TRANSFORMATIONS = {
    "grad": (tg.grad, GRADIENT),
    "value_and_grad": (lambda f: lambda *a, **k: np.append(*tg.value_and_grad(f)(*a, **k)), lambda w: np.append(np.sum(w * P**3), GRADIENT(w))),
    "has_aux": (lambda f: lambda *a, **k: tg.grad(lambda *a, **k: (f(*a, **k), "aux"), has_aux=True)(*a, **k)[0], GRADIENT),
    "elementwise_grad": (tg.elementwise_grad, GRADIENT),
    "jacobian": (tg.jacobian, GRADIENT), "jacrev": (tg.jacrev, GRADIENT), "jacfwd": (tg.jacfwd, GRADIENT),
    "forward": (functools.partial(tg.jacobian, mode="forward"), GRADIENT),
    "derivative": (lambda f: lambda p, *a, **k: tg.derivative(_number(f))(1.0, *a, **k), lambda w: 3.0 * np.sum(w * P**3)),
    "hessian": (tg.hessian, lambda w: np.diag(DIAGONAL(w))), "hessian_diag": (tg.hessian_diag, DIAGONAL),
    "hessian, reverse": (functools.partial(tg.hessian, mode="reverse"), lambda w: np.diag(DIAGONAL(w))),
    "laplacian": (tg.laplacian, lambda w: np.sum(DIAGONAL(w))),
    "hvp": (_of(tg.hvp, (P,)), lambda w: DIAGONAL(w) * P),
    "gnvp": (_of(tg.gnvp, (P,)), lambda w: GRADIENT(w) * (GRADIENT(w) @ P)),
    "sparse_jacobian": (lambda f: lambda *a, **k: tg.sparse_jacobian(f)(*a, **k).toarray()[0], GRADIENT),
    "sparse_hessian": (lambda f: lambda *a, **k: tg.sparse_hessian(f)(*a, **k).toarray(), lambda w: np.diag(DIAGONAL(w))),
    "sparsity": (lambda f: lambda *a, **k: tg.sparsity(f)(*a, **k).toarray()[0], lambda w: np.ones(3)),
    "checkpoint": (lambda f: tg.grad(tg.checkpoint(f)), GRADIENT),
    "checkpoint, twice": (lambda f: tg.hessian(tg.checkpoint(f)), lambda w: np.diag(DIAGONAL(w))),
    "checkpoint, forward": (lambda f: tg.jacfwd(tg.checkpoint(f)), GRADIENT),
    "grad of grad": (lambda f: tg.grad(lambda p, *a, **k: np.sum(tg.grad(f)(p, *a, **k))), DIAGONAL),
    "jacfwd of grad": (lambda f: tg.jacfwd(lambda p, *a, **k: tg.grad(f)(p, *a, **k)), lambda w: np.diag(DIAGONAL(w))),
    "grad of jacfwd": (lambda f: tg.grad(lambda p, *a, **k: np.sum(tg.jacfwd(f)(p, *a, **k))), DIAGONAL),
    "vjp": (lambda f: lambda p, *a, **k: tg.vjp(lambda p: f(p, *a, **k), p)[1](1.0)[0], GRADIENT),
    "jvp": (lambda f: lambda p, *a, **k: tg.jvp(lambda p: f(p, *a, **k), (p,), (P,))[1], lambda w: 3.0 * np.sum(w * P**3)),
    "linearize": (lambda f: lambda p, *a, **k: tg.linearize(lambda p: f(p, *a, **k), p)[1](P), lambda w: 3.0 * np.sum(w * P**3)),
    "jet": (lambda f: lambda p, *a, **k: tg.jet(lambda p: f(p, *a, **k), (p,), ([P],))[1][0], lambda w: 3.0 * np.sum(w * P**3)),
}  # fmt: skip


@every("name", TRANSFORMATIONS)
def test_is_the_very_object(name):
    transformation, closed = TRANSFORMATIONS[name]
    for thing, make in THINGS.items():
        given, weights = make()
        seen = []

        def function(p, t, seen=seen, weights=weights):
            # (The object itself would be part of what the function has captured.)
            seen.append(id(t))
            return np.sum(weights(t) * p**3)

        expected = closed(np.broadcast_to(np.asarray(weights(given), float), 3))
        for answer in (transformation(function)(P, given), transformation(function)(P, t=given)):
            assert set(seen) == {id(given)}, thing
            np.testing.assert_allclose(answer, expected, rtol=1e-6, err_msg=thing)


def test_a_tensor_keeps_its_derivative():
    """An argument that is not differentiated inside, and is outside, with its derivative; in both orders of argnums."""

    def function(p, t):
        return np.sum(p**2 * t**3)

    p, t = P, T
    mixed = np.diag(6.0 * p * t**2)
    inner = {
        "grad": tg.grad(function), "jacfwd": tg.jacfwd(function), "jacrev": tg.jacrev(function), "jit": tg.jit(tg.grad(function)), "of jit": tg.grad(tg.jit(function)),
        "checkpoint": tg.grad(tg.checkpoint(function)), "value_and_grad": lambda p, t: tg.value_and_grad(function)(p, t)[1],
        "vjp": lambda p, t: tg.vjp(lambda p: function(p, t), p)[1](1.0)[0], "by name": lambda p, t: tg.grad(function)(p, t=t),
        "in a list": lambda p, t: tg.grad(lambda p, ts: function(p, ts[0]))(p, [t]),
    }  # fmt: skip
    for name, gradient in inner.items():
        for outer in (tg.jacrev, tg.jacfwd, lambda f, k: tg.jit(tg.jacobian(f, k))):
            np.testing.assert_allclose(outer(gradient, 1)(p, t), mixed, rtol=1e-12, err_msg=name)
    third = tg.hessian(lambda t: np.sum(tg.grad(function)(p, t)))(t)
    np.testing.assert_allclose(third, np.diag(12.0 * p * t), rtol=1e-12)
    second = tg.grad(lambda t: np.sum(tg.hessian_diag(function)(p, t) + np.diagonal(tg.hessian(function)(p, t))))(t)
    np.testing.assert_allclose(second, 12.0 * t**2, rtol=1e-12)
    leaf = tg.tensor(t, requires_grad=True)
    np.sum(tg.grad(function)(p, leaf)).backward()
    np.testing.assert_allclose(leaf.grad.numpy(), 6.0 * p * t**2, rtol=1e-12)


def test_under_jit_and_in_loops_it_is_an_input():
    def function(p, t):
        assert isinstance(t, tg.Tensor)
        return np.sum(t * p**3)

    g = tg.jit(tg.grad(function))
    for t in (T, 2.0 * T):
        np.testing.assert_allclose(g(P, t), 3.0 * t * P**2)
    assert g.stats().records == 1
    np.testing.assert_allclose(tg.vmap(tg.grad(function))(np.stack([P, P]), np.stack([T, 2.0 * T])), [3.0 * T * P**2, 6.0 * T * P**2])


@pytest.mark.parametrize("transform", [tg.grad, tg.value_and_grad, tg.elementwise_grad, tg.hessian, tg.jacobian, tg.jacfwd, tg.sparse_jacobian, tg.sparse_hessian])
def test_tensors_are_not_written_into_it(transform):
    def item(p, t):
        t[0] = p[0] * 2.0
        return np.sum(t)

    def part(p, t):
        t[:] = p * 2.0
        return np.sum(t)

    def masked(p, t):
        t[t > 0.0] = p[0]
        return np.sum(t)

    def added(p, t):
        t += p
        return np.sum(t)

    def element_added(p, t):
        t[0] += p[0]
        return np.sum(t)

    def copied(p, t):
        np.copyto(t, p)
        return np.sum(t)

    def at(p, t):
        np.add.at(t, [0], p[0])
        return np.sum(t)

    def out(p, t):
        np.multiply(t, p, out=t)
        return np.sum(t)

    def filled(p, t):
        t.fill(p[0])
        return np.sum(t)

    for function in (item, part, masked, added, element_added, copied, at, out, filled):
        t = T.copy()
        with pytest.raises(LeaveTapeError, match=r"t is a plain array.*t = tg\.tensor\(t\)"):
            transform(function)(P, t)
        np.testing.assert_array_equal(t, T)

        def right(p, t, function=function):
            return np.sum(function(p * p, tg.tensor(t)) ** 2)

        if transform is tg.grad and function not in (filled,):
            numbers = lambda p, function=function: np.sum(function(p * p, T.copy()) ** 2)  # noqa: E731
            differences = [(numbers(P + h) - numbers(P - h)) / 2e-6 for h in 1e-6 * np.eye(3)]
            np.testing.assert_allclose(tg.grad(right)(P, T), differences, rtol=1e-6, atol=1e-6, err_msg=function.__name__)


def test_the_error_of_a_captured_array_and_of_the_users():
    work = T.copy()

    def function(p):
        work[1] = p * 2.0
        return np.sum(work)

    for call in (tg.grad(function), tg.derivative(function), lambda p: tg.vjp(function, p), lambda p: tg.linearize(function, p)):
        with pytest.raises(LeaveTapeError, match=r"work = tg\.tensor\(work\)"):
            call(2.0)

    def own(p):
        raise ValueError("setting something else")

    with pytest.raises(ValueError, match="something else") as caught:
        tg.grad(own)(2.0)
    assert not isinstance(caught.value, TapegradError)


@pytest.mark.parametrize("transform", [tg.grad, tg.hessian, tg.jacrev, tg.jacfwd, tg.hessian_diag])
def test_numbers_are_written_into_the_callers(transform):
    def counted(p, t, log):
        t[0] += 4.0
        log.append(len(log))
        t *= 2.0
        return np.sum(t * p**3)

    t, log = T.copy(), []
    transform(counted)(P, t, log)
    assert log == [0]
    np.testing.assert_array_equal(t, [10.0, 4.0, 6.0])


def test_it_is_used_overwritten_and_used_again():
    def function(p, t):
        total = 0.0
        for k in (1.0, 2.0, 3.0):
            total = total + np.sum(t * p**2)
            t[:] = k
        return total + np.sum(t * p)

    expected = 2.0 * (T + 1.0 + 2.0) * P + 3.0
    for call in (tg.grad(function), tg.jacrev(function), lambda p, t: tg.value_and_grad(function)(p, t)[1], tg.jacfwd(function)):
        t = T.copy()
        np.testing.assert_allclose(call(P, t), expected)


def test_the_same_array_twice():
    for transform in (tg.grad, tg.hessian, tg.jacrev, tg.jacfwd, tg.value_and_grad):
        a = P.copy()
        product = transform(lambda p, t: np.sum(p**3 * t))(a, a)
        separate = transform(lambda p, t: np.sum(p**3 * t))(a, a.copy())
        for x, y in zip(product, separate):
            np.testing.assert_allclose(x, y)

        def function(p, t):
            t[0] = 5.0
            return np.sum(p * p * t)

        for other in (lambda a: a, lambda a: a[::-1], lambda a: a[:2]):
            a = P.copy()
            with pytest.raises(GradientError, match="changed in place"):
                transform(lambda p, t: function(p[: len(t)], t))(a, other(a))


def test_conjugate_of_value_and_grad():
    def function(z, w):
        return np.sum(np.abs(z * z + w) ** 2)

    z, w = np.array([1.0 + 2.0j, 3.0, -0.5j]), 0.25
    h = 1e-6
    expected = np.array([
        (function(z + h * u, w) - function(z - h * u, w)) / (2 * h) - 1j * (function(z + 1j * h * u, w) - function(z - 1j * h * u, w)) / (2 * h)
        for u in np.eye(3)
    ])
    recorded = tg.jit(tg.value_and_grad(function, conjugate=True))
    recorded(2.0 * z, w)
    for g in (tg.value_and_grad(function, conjugate=True), recorded):
        value, gradient = g(z, w)
        np.testing.assert_allclose(value, function(z, w))
        np.testing.assert_allclose(gradient, expected, rtol=1e-7)
        np.testing.assert_allclose(gradient, tg.grad(function, conjugate=True)(z, w))
    (value, aux), gradient = tg.value_and_grad(lambda z: (function(z, w), 7), has_aux=True, conjugate=True)(z)
    assert aux == 7
    np.testing.assert_allclose(gradient, expected, rtol=1e-7)
    with pytest.raises(tg.errors.OptionError):
        tg.value_and_grad(function, conjugate=True, via="numba")

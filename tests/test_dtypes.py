"""Arrays in another byte order count by their values; those with an arithmetic of their own are refused."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import DtypeError

X = np.array([0.5, 1.5, -2.0])
Y = np.array([3.0, -1.0, 2.0])
OTHER = [Y.astype(">f8"), Y.astype(">i4")]


def loss(x, y):
    z = x * 1.0
    z[1:] = y[1:] * x[0]
    return np.sum(np.sin(x * y) + y / x + np.where(x > y, x, y) * x + z) + y @ x + np.sum(np.concatenate([x, y]) ** 2)


@pytest.mark.parametrize("kernel", ["never", "always"])
@pytest.mark.parametrize("y", OTHER, ids=lambda y: y.dtype.str)
def test_a_constant_in_another_byte_order_counts_by_its_values(y, kernel):
    g, expected = tg.grad(lambda x: loss(x, y), kernel=kernel), tg.grad(lambda x: loss(x, y.astype(y.dtype.newbyteorder("="))))
    for k in range(4):
        np.testing.assert_array_equal(g(X + k), expected(X + k))
    np.testing.assert_allclose(tg.jacfwd(lambda x: loss(x, y))(X), g(X), rtol=1e-12)


@pytest.mark.parametrize("dtype", [">f8", ">f4"])
def test_an_argument_in_another_byte_order_counts_by_its_values(dtype):
    x, native = X.astype(dtype), X.astype(dtype[1:])
    cube = lambda x: np.sum(x**3)  # noqa: E731
    for got, expected in [
        (tg.grad(cube)(x), tg.grad(cube)(native)),
        (tg.grad(loss, 1)(X, x), tg.grad(loss, 1)(X, native)),
        (tg.grad(loss)(X, x), tg.grad(loss)(X, native)),
        (tg.jacfwd(cube)(x), tg.jacfwd(cube)(native)),
        (tg.jvp(cube, (x,), (x,))[1], tg.jvp(cube, (native,), (native,))[1]),
        (tg.vjp(np.sin, x)[1](x)[0], tg.vjp(np.sin, native)[1](native)[0]),
        (tg.hvp(cube)(x, x), tg.hvp(cube)(native, native)),
    ]:
        np.testing.assert_array_equal(got, expected)
        assert np.asarray(got).dtype == np.asarray(expected).dtype and np.asarray(got).dtype.isnative
    t = tg.tensor(x, requires_grad=True)
    (t * t).backward(x)
    np.testing.assert_array_equal(t.grad.numpy(), 2 * native * native)
    with tg.no_grad():
        t.data = 2 * x
    np.testing.assert_array_equal((t * 1.0).detach().numpy(), 2 * native)


def test_a_primitive_may_answer_in_another_byte_order():
    doubled = tg.custom_vjp(lambda x: (2.0 * x).astype(">f8"), lambda g, result, x: (2.0 * g).astype(">f8"))
    g = tg.value_and_grad(lambda x: np.sum(doubled(x) ** 2))
    for k in range(5):
        value, gradient = g(X + k)
        assert value == 4 * np.sum((X + k) ** 2) and np.array_equal(gradient, 8 * (X + k))
    assert g.stats().fallback == ""


class Metres(np.ndarray):
    def __array_ufunc__(self, ufunc, method, *args, **kwargs):
        return getattr(ufunc, method)(*map(np.asarray, args), **kwargs)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@pytest.mark.parametrize(
    "array", [np.ma.array(X, mask=[0, 1, 0]), X.view(np.matrix), X.view(Metres)], ids=["masked", "matrix", "with units"]
)
def test_an_array_with_an_arithmetic_of_its_own_is_refused(array):
    t = tg.tensor(X, requires_grad=True)
    for use in [
        lambda: t * array,
        lambda: tg.tensor(array),
        lambda: tg.grad(lambda x: np.sum(x * x))(array),
        lambda: tg.grad(lambda x, a: np.sum(x))(X, array),
        lambda: tg.grad(lambda x: np.sum(x * array))(X),
        lambda: tg.Dual(array, np.ones(array.shape)),
        lambda: tg.grad(lambda x: np.sum(np.where(x > array, x, 0.0)))(X),
        lambda: tg.custom_vjp(lambda x: array, lambda g, result, x: g)(t),
    ]:
        with pytest.raises(DtypeError, match=f"an array of class {type(array).__name__} calculates in its own way.*plain array"):
            use()


def test_plain_memory_under_another_name_is_not():
    class Named(np.ndarray):
        pass

    assert tg.grad(lambda x: np.sum(x * X.view(Named)))(X).tolist() == X.tolist()
    # The gradient would have to be of that class, so an argument is not.
    with pytest.raises(DtypeError, match="argument 0 is an array of class Named; pass np.asarray"):
        tg.grad(lambda x: np.sum(x))(X.view(Named))


@pytest.mark.parametrize(
    "argument, words",
    [
        (np.array([1j]), "split real and imaginary parts"),
        (np.ones(2, np.float16), "use float64 or float32"),
        (np.ones(2, np.longdouble), "astype"),
        (np.array([1.0, None]), "give it a float dtype"),
        (np.array(["a"]), "is not numeric"),
        (np.array([1, 2]), "astype"),
    ],
)
def test_an_argument_without_derivative_is_refused_with_the_way_out(argument, words):
    with pytest.raises(DtypeError, match=words):
        tg.grad(lambda x: np.sum(x))(argument)

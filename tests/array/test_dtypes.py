"""Arrays in another byte order count by their values; those with an arithmetic of their own are refused; numbers promote in forward mode as in NumPy."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.dtypes import readable
from tapegrad.common.errors import DtypeError

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
    g, expected = tg.jit(tg.grad(lambda x: loss(x, y)), kernel=kernel), tg.grad(lambda x: loss(x, y.astype(y.dtype.newbyteorder("="))))
    for k in range(4):
        np.testing.assert_array_equal(g(X + k), expected(X + k))
    np.testing.assert_allclose(tg.jacfwd(lambda x: loss(x, y))(X), g(X), rtol=1e-12)


@pytest.mark.parametrize("dtype", [">f8", ">f4"])
def test_an_argument_in_another_byte_order_counts_by_its_values(dtype):
    x, native = X.astype(dtype), X.astype(dtype[1:])
    cube = lambda x: np.sum(x**3)  # noqa: E731
    for got, expected in [
        (tg.grad(cube)(x), tg.grad(cube)(native)),
        (tg.grad(lambda a, b: loss(tg.tensor(a), b), 1)(X, x), tg.grad(lambda a, b: loss(tg.tensor(a), b), 1)(X, native)),
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
        lambda: tg.jit(tg.grad(lambda x, a: np.sum(x)))(X, array),
        lambda: tg.jit(lambda x, a: np.sum(x))(X, array),
        lambda: tg.grad(lambda x, a: np.sum(x * a))(X, array),
        lambda: tg.grad(lambda x: np.sum(x * array))(X),
        lambda: tg.Dual(array, np.ones(array.shape)),
        lambda: tg.grad(lambda x: np.sum(np.where(x > array, x, 0.0)))(X),
        lambda: tg.tensor(X) == array,
        lambda: tg.grad(lambda x: np.sum(x[np.logical_and(x > 0.0, array)]))(X),
        lambda: tg.custom_vjp(lambda x: array, lambda g, result, x: g)(t),
    ]:
        with pytest.raises(DtypeError, match=f"an array of class {type(array).__name__} calculates in its own way.*plain array"):
            use()


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_a_plain_call_hands_it_over_as_it_is():
    """The function may calculate with it as NumPy does, as long as nothing that is differentiated meets it."""
    array = np.ma.array(X, mask=[0, 1, 0])
    assert tg.grad(lambda x, a: np.sum(x) * float(a.sum()))(X, array).tolist() == [-1.5, -1.5, -1.5]


def test_plain_memory_under_another_name_is_not():
    class Named(np.ndarray):
        pass

    assert tg.grad(lambda x: np.sum(x * X.view(Named)))(X).tolist() == X.tolist()
    # The gradient would have to be of that class, so an argument is not.
    with pytest.raises(DtypeError, match="argument 0 is an array of class Named; pass np.asarray"):
        tg.grad(lambda x: np.sum(x))(X.view(Named))


def test_a_file_in_memory_is_an_argument(tmp_path):
    held = np.memmap(tmp_path / "numbers", np.float64, "w+", shape=3)
    held[:] = X
    g = tg.value_and_grad(lambda x: np.sum(x**2))
    for _ in range(5):
        value, gradient = g(held)
        assert value == np.sum(X**2) and type(gradient) is np.ndarray and np.array_equal(gradient, 2.0 * X)
    held[:] = 3.0
    assert np.array_equal(g(held)[1], np.full(3, 6.0))


@pytest.mark.parametrize(
    "argument, words",
    [
        (np.array([1j], np.clongdouble), "give real and imaginary parts"),
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


POINTS = [np.array([0.5, 1.5, -2.0, 3.0]) * (1.0 + 0.1 * k) for k in range(4)]
NUMBERS = np.array([1.0, 2.0, -1.0, 4.0])


def packed(values):
    """The values as a field of records of 9 bytes."""
    table = np.zeros(len(values), [("flag", "i1"), ("value", "f8")])
    table["value"] = values
    return table["value"]


STRANGE = {"big-endian": lambda a: a.astype(">f8"), "big-endian float32": lambda a: a.astype(">f4"), "packed": packed,
           "little-endian": lambda a: a.astype("<f8")}  # fmt: skip


@pytest.mark.parametrize("make", STRANGE.values(), ids=STRANGE)
def test_constants(make):
    """In operators, products, maxima, assignments, products of matrices and as an index of what is chosen."""
    numbers = make(NUMBERS)

    def f(x):
        y = x * 1.0
        y[:2] = numbers[:2] * x[:2]
        product = numbers @ x + np.sum(np.maximum(numbers, x) * x) + np.sum(np.linalg.solve(np.diag(numbers), x))
        return product + np.sum(y * numbers) + np.sum(np.where(numbers > 1.0, x**2, numbers))

    larger = lambda x: np.where(NUMBERS > x, NUMBERS, 2.0 * x)  # noqa: E731
    for kernel in ("never", "always"):
        g = tg.jit(tg.value_and_grad(f), kernel=kernel)
        for x in POINTS:
            wanted = NUMBERS + larger(x) + 1.0 / NUMBERS + np.where(np.arange(4) < 2, NUMBERS**2, NUMBERS) + np.where(NUMBERS > 1.0, 2.0 * x, 0.0)
            value, gradient = g(x)
            np.testing.assert_allclose(value, f(x), rtol=1e-13)
            np.testing.assert_allclose(gradient, wanted, rtol=1e-13)
            np.testing.assert_allclose(tg.jvp(f, (x,), (NUMBERS,))[1], wanted @ NUMBERS, rtol=1e-13)


@pytest.mark.parametrize("make", STRANGE.values(), ids=STRANGE)
def test_arguments(make):
    f, x = lambda x: np.sum(x**3), make(NUMBERS)
    plain = np.array(NUMBERS, x.dtype.newbyteorder("="))
    tensor = tg.tensor(x, requires_grad=True)
    f(tensor).backward()
    found = [
        tensor.grad.numpy(), tg.grad(f)(x), tg.jit(tg.grad(f), kernel="always")(x), np.diag(tg.hessian(f)(x)) * NUMBERS / 2.0,
        tg.jacobian(lambda x: x**3)(x).sum(0), tg.jacfwd(f)(x), tg.vjp(f, x)[1](1.0)[0], tg.hvp(f)(x, plain) / 2.0,
    ]  # fmt: skip
    for gradient in found:
        np.testing.assert_allclose(gradient, 3.0 * NUMBERS**2)
        assert gradient.dtype.isnative
    replayed = tg.value_and_grad(f)
    for argument in (plain, x, plain, x, plain, x):
        np.testing.assert_allclose(replayed(argument)[1], 3.0 * NUMBERS**2)
    assert tg.jit(f)(x) == f(NUMBERS)
    np.testing.assert_allclose(tg.jvp(f, (x,), (x,))[1], 3.0 * np.sum(NUMBERS**3))
    np.testing.assert_allclose(tg.optimize.lbfgs(lambda p: np.sum((p - x) ** 2), np.zeros(4)).x, NUMBERS, rtol=1e-7)


def test_integers_and_truth_values():
    counts = np.array([1, 0, 2, 3], ">i8")
    g = tg.grad(lambda x: np.sum(counts * x) + np.sum(x[counts]))
    for x in POINTS:
        np.testing.assert_array_equal(g(x), [2.0, 1.0, 3.0, 4.0])


def test_what_can_be_read_is_not_copied():
    assert readable(NUMBERS) is NUMBERS and readable(NUMBERS[::2]).base is NUMBERS


def test_float32_numbers_beside_float64_ones():
    """A number of float32 is as strong as one of float64, which an element of an array is; a float32 array takes the number's value."""
    s, x = np.float32(0.1), np.array([1.2345678901, 4.0 / 3.0])
    programs = [
        lambda x: s * x[0] + x[1], lambda x: x[0] - s, lambda x: s / x[0], lambda x: x[0] ** s, lambda x: s ** x[0], lambda x: x[1] % s,
        lambda x: np.hypot(s, x[1]), lambda x: np.maximum(x[0], s), lambda x: np.where(x[0] > 0, x[0], s), lambda x: np.array(0.1, "f") * x[0],
        lambda x: np.float16(0.1) * np.sum(x), lambda x: np.clip(x[0], s, 1.0), lambda x: tg.fori_loop(0, 3, lambda i, c: c * s + x[0], x[1]),
    ]  # fmt: skip
    for f in programs:
        constant = tg.tensor(x)
        for value in (tg.value_and_grad(f)(x)[0], tg.jit(f)(x), tg.jvp(f, (x,), (x,))[0], f(tg.tensor(x, requires_grad=True)).item(), f(constant).item()):
            assert float(value) == pytest.approx(float(f(x)), rel=1e-14)
        slope = [(f(x + h) - f(x - h)) / 2e-5 for h in 1e-5 * np.eye(2)]
        np.testing.assert_allclose(tg.grad(f)(x), slope, atol=1e-8)
        np.testing.assert_allclose(tg.jacfwd(f)(x), slope, atol=1e-8)
    single = x.astype("f")
    for f in (lambda x: x * s, lambda x: np.where(x > 0, x, s), lambda x: np.stack([x[0], s]), lambda x: x[0] * s + x, lambda x: np.clip(x, s, 1)):
        for result in (tg.vjp(f, single)[0], tg.jit(f)(single), f(tg.tensor(single))):
            assert result.dtype == f(single).dtype == np.float32


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.bool_, np.float32])
def test_a_truth_value_beside_an_array_promotes_as_in_numpy(dtype):
    array = np.array([1, 0], dtype)
    for call in (lambda a: a + True, lambda a: True * a, lambda a: np.maximum(a, False), lambda a: np.add(a, True)):
        found, expected = call(tg.tensor(array)), call(array)
        assert found.dtype == expected.dtype and found.tolist() == expected.tolist()
    slope = tg.jit(tg.grad(lambda x, b: np.sum(x * (tg.tensor([1, 2]) + b))))
    for b in (True, False, True, False):
        assert slope(np.array([0.5, 1.5]), b).tolist() == [1.0 + b, 2.0 + b]


@pytest.mark.parametrize("number", [np.float64(2.0), np.array(2.0), 2.0, np.float32(2.0), 2], ids=repr)
def test_forward_mode_promotes_numbers_on_either_side_as_numpy_does(number):
    x = np.array([1.0, 2.0], np.float32)
    for f in (
        lambda x: number * x, lambda x: x * number, lambda x: number - x[0], lambda x: x[0] - number, lambda x: number / x, lambda x: np.maximum(number, x),
        lambda x: np.hypot(number, x[1]),
    ):  # fmt: skip
        value, tangent = tg.jvp(f, (x,), (x,))
        assert np.asarray(value).dtype == np.asarray(tangent).dtype == np.asarray(f(x)).dtype
        np.testing.assert_array_equal(value, f(x))

"""NumPy's element-wise functions beyond the rows: compositions, steps, plain values, refusals."""

import numpy as np
import pytest

import tapegrad as tg
from tests.rules.checker import check, generator, gradient, leaf, plain

rng = generator(31)
V = rng.uniform(-2.0, 2.0, 6)
M = rng.uniform(-2.0, 2.0, (3, 4))
P = rng.uniform(0.3, 2.0, (3, 4))
NAN, INF = np.nan, np.inf
LAYOUTS = {"vector": V, "matrix": M, "transposed": M.T, "strided": M[::-1, ::2], "0-d": np.array(0.7), "scalar": 0.7, "empty": np.zeros((0, 2)), "3-d": M[:, None]}

UNARY = {
    "deg2rad": np.deg2rad, "radians": np.radians, "rad2deg": np.rad2deg, "degrees": np.degrees, "sinc": np.sinc, "positive": np.positive, "i0": np.i0,
    "fix": np.fix, "around": np.around, "round": lambda x: np.round(x, 1), "round to tens": lambda x: np.round(x * 30, -1), "nan_to_num": np.nan_to_num,
    "ldexp": lambda x: np.ldexp(x, 3), "ldexp down": lambda x: np.ldexp(x, np.int64(-2)), "real": lambda x: np.real(x) * 2.0, "conjugate": np.conjugate, "fabs": np.fabs,
    "divmod": lambda x: list(np.divmod(x, 0.75)), "frexp": lambda x: np.frexp(x)[0], "modf": lambda x: list(np.modf(x)), "float_power": lambda x: np.float_power(np.abs(x), 1.5),
    "heaviside": lambda x: np.heaviside(x, 0.5), "fmax": lambda x: np.fmax(x, 0.1), "fmin": lambda x: np.fmin(0.1, x), "logaddexp2": lambda x: np.logaddexp2(x, 0.5),
}  # fmt: skip
BINARY = {
    "logaddexp2": np.logaddexp2, "float_power": np.float_power, "fmax": np.fmax, "fmin": np.fmin, "heaviside": np.heaviside, "divmod": lambda x, y: list(np.divmod(x, y)),
    "arctan2": np.arctan2, "add.outer": np.add.outer, "multiply.outer": np.multiply.outer, "hypot.outer": np.hypot.outer,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    function = UNARY[name]
    for layout, x in LAYOUTS.items():
        if layout == "scalar" and name in ("real",):
            x = np.array([x])
        check(function, x, atol=1e-14)


@pytest.mark.parametrize("name", [name for name in UNARY if name != "float_power"])
def test_unary_float32(name):
    check(UNARY[name], np.array([0.3, -1.2, 1.7], "f"))


def test_float_power_of_float32_is_float64_and_its_gradient_float32():
    x = tg.tensor(np.array([0.5, 2.0], "f"), requires_grad=True)
    y = np.float_power(x, 3.0)
    assert y.dtype == np.float64
    y.sum().backward()
    assert x.grad.dtype == np.float32 and x.grad.tolist() == [0.75, 12.0]


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    function = BINARY[name]
    for x, y in ((P, P[0] * 0.9), (1.3, P), (P, 0.8), (1.3, 0.8), (P[:, :1], P[:1] * 1.1), (P.T, P.T[::-1] * 1.1)):
        check(function, x, y)
        check(lambda t, y=y: function(t, y), x)
        check(lambda t, x=x: function(x, t), y)


def test_float_power_is_double():
    assert np.float_power(leaf(np.ones(2, "f")), 2).dtype == np.float64
    assert gradient(lambda x: np.float_power(x, 2), np.full(2, 3, "f")).dtype == np.float32


def test_sinc_is_accurate_near_zero():
    x = np.array([0.0, 1e-9, 1e-4, 0.01, 0.1499, 0.1501, 0.3, 1.0, -0.05, 2.5])
    # Reference: the integral form of the derivative, -pi * int_0^1 t sin(pi x t) dt, by Gauss-Legendre.
    t, w = np.polynomial.legendre.leggauss(40)
    t, w = (t + 1) / 2, w / 2
    exact = -np.pi * np.sum(w * t * np.sin(np.pi * x[:, None] * t), axis=1)
    np.testing.assert_allclose(gradient(np.sinc, x), exact, rtol=1e-14, atol=1e-14)
    assert gradient(np.sinc, 0.0) == 0


def test_steps_and_kinks():
    x = np.array([-1.0, 0.0, 2.0])
    dx, dh = gradient(np.heaviside, x, np.full(3, 0.5))
    np.testing.assert_array_equal(dx, [0, 0, 0])
    np.testing.assert_array_equal(dh, [0, 1, 0])
    for f in (np.fix, np.round, np.around, lambda t: np.round(t, 2)):
        np.testing.assert_array_equal(gradient(f, x), [0, 0, 0])
    a, b = gradient(np.fmax, np.array([1.0, 1.0, NAN, 2.0, NAN]), np.array([1.0, NAN, 3.0, 1.0, NAN]))
    np.testing.assert_array_equal([a, b], [[0.5, 1, 0, 1, 0.5], [0.5, 0, 1, 0, 0.5]])
    a, b = gradient(np.fmin, np.array([1.0, 1.0, NAN, 2.0]), np.array([1.0, NAN, 3.0, 1.0]))
    np.testing.assert_array_equal([a, b], [[0.5, 1, 0, 0], [0.5, 0, 1, 1]])
    np.testing.assert_allclose(gradient(np.logaddexp2, np.array([2000.0, -2000.0]), np.zeros(2)), [[1, 0], [0, 1]])
    np.testing.assert_array_equal(plain(np.logaddexp2(leaf([2000.0, -INF]), leaf([2000.0, -INF]))), [2001, -INF])


def test_nan_to_num():
    x = np.array([1.0, NAN, INF, -INF])
    for kwargs in ({}, {"nan": 3.0}, {"posinf": 7.0, "neginf": -8.0}):
        found = np.nan_to_num(leaf(x), **kwargs)
        np.testing.assert_array_equal(plain(found), np.nan_to_num(x, **kwargs))
        np.testing.assert_array_equal(gradient(lambda t, k=kwargs: np.nan_to_num(t, **k), x), [1, 0, 0, 0])
    with pytest.raises(tg.errors.UnsupportedFunctionError):
        np.nan_to_num(leaf(x), copy=False)


def test_parts_of_numbers():
    x = np.array([1.75, -2.5, 0.0, INF, -INF, -0.0, -2.0])
    fraction, whole = np.modf(leaf(x))
    np.testing.assert_array_equal([plain(fraction), plain(whole)], np.modf(x))
    np.testing.assert_array_equal(np.signbit([plain(fraction), plain(whole)]), np.signbit(np.modf(x)))
    np.testing.assert_array_equal(gradient(lambda t: np.modf(t)[0], x[:3]), [1, 1, 1])
    np.testing.assert_array_equal(gradient(lambda t: np.modf(t)[1], x[:3]), [0, 0, 0])
    mantissa, exponent = np.frexp(leaf(x))
    np.testing.assert_array_equal(plain(mantissa), np.frexp(x)[0])
    np.testing.assert_array_equal(plain(exponent), np.frexp(x)[1])
    assert exponent.dtype.kind == "i" and not exponent.requires_grad
    np.testing.assert_array_equal(gradient(lambda t: np.frexp(t)[0], np.array([3.0, 20.0])), [0.25, 1 / 32])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", ["never", "always"])
def test_powers_of_two_out_of_range(kernel, dtype):
    """A replay has no `ldexp`: the power of two may overflow, or be 0, where the result is a number."""
    x = np.array([1e-45, 1e-40, 1.5, 0.0, -0.0, INF, NAN, 1e-320, 5e-324, 1e30, 0.0, -INF, 1.3, -1.3], dtype)
    powers = np.array([148, 130, -149, 300, 3, 3, 3, 1070, 2097, -1150, 100_000, -100_000, -1074, -1076])
    for function in (lambda t: np.ldexp(t, powers), lambda t: np.frexp(t)[0]):
        with np.errstate(all="ignore"):
            found, expected = tg.jit(function, kernel=kernel)(x), function(x)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_unwrap():
    angle = np.cumsum(rng.uniform(-2.0, 2.0, (2, 9)), axis=1) % (2 * np.pi)
    check(np.unwrap, angle)
    check(lambda p: np.unwrap(p, axis=0), angle)
    check(lambda p: np.unwrap(p, period=4.0), angle % 4.0)


@pytest.mark.parametrize("name", "isnan isfinite isinf signbit isposinf isneginf isreal iscomplex logical_not".split())
def test_plain_values(name):
    x = np.array([1.0, -2.0, 0.0, NAN, INF, -INF])
    found = getattr(np, name)(leaf(x))
    np.testing.assert_array_equal(plain(found), getattr(np, name)(x))
    assert not getattr(found, "requires_grad", False)


def test_imaginary_part_is_zero():
    np.testing.assert_array_equal(plain(np.imag(leaf(V))), np.zeros(6))


@pytest.mark.parametrize("name, call, word", [
    ("nextafter", lambda x: np.nextafter(x, 2.0), "floating-point"), ("spacing", np.spacing, "floating-point"), ("sort_complex", np.sort_complex, "order"),
    ("ldexp", lambda x: np.ldexp(1.5, x), "integer"), ("around out", lambda x: np.around(x, out=np.zeros(3)), "out"),
    ("period", lambda x: np.unwrap(x, period=x[0]), "period"),
])  # fmt: skip
def test_refused(name, call, word):
    with pytest.raises(tg.errors.UnsupportedFunctionError, match=word):
        call(leaf([1.0, 2.0, 3.0]))


INTO = {
    "call": lambda x, out: np.multiply(x, 3.0, out=out), "positional": lambda x, out: np.sin(x, out), "where": lambda x, out: np.multiply(x, x, out=out, where=M > 0),
    "part": lambda x, out: np.exp(x[0], out=out[1]), "reduce": lambda x, out: np.add.reduce(x, 0, out=out[2]), "broadcast": lambda x, out: np.add(x[0], 1.0, out=out),
    "where it is defined": lambda x, out: np.log(x, out=out, where=M > 0), "nowhere": lambda x, out: np.log(x, out=np.multiply(x, 2.0, out=out), where=False),
    "accumulate": lambda x, out: np.add.accumulate(x, axis=1, out=out), "twice": lambda x, out: np.add(np.multiply(x, x, out=out), x, out=out),
    "sum": lambda x, out: np.sum(x, 0, out=out[1]), "sum by position": lambda x, out: np.sum(x, 0, None, out[2]), "clip": lambda x, out: np.clip(x, 0.9, 1.5, out=out),
    "round": lambda x, out: np.round(x, 1, out), "cumsum": lambda x, out: np.cumsum(x, 1, out=out), "median": lambda x, out: np.median(x, 0, out[0]), "stack": lambda x, out: np.stack([x[0], x[2]], out=out[:2]),
    "of constants": lambda x, out: np.multiply(np.sum(M, 0, out=out[1]), x[0], out=out[0]),
}  # fmt: skip


@pytest.mark.parametrize("name", INTO)
def test_a_ufunc_writes_into_a_tensor(name):
    def written(x, zeros=tg.zeros):
        out = zeros((3, 4)) + 0.5
        INTO[name](x, out)
        return out * 1.0

    check(written, M, reference=lambda x: written(x, np.zeros))


def test_what_does_not_fit_into_a_tensor_is_refused_as_by_numpy():
    for out, error in ((tg.zeros(5), ValueError), (tg.tensor(np.zeros(4, np.int64)), TypeError)):
        with pytest.raises(error):
            np.sum(leaf(M), 0, out=out)
    for out in (np.zeros((3, 4), np.int64), np.zeros(4)):
        with pytest.raises((TypeError, ValueError)) as theirs:
            np.multiply(M, 1.5, out=out.copy())
        for x in (leaf(M), tg.tensor(M)):
            with pytest.raises(TypeError if theirs.type is np._core._exceptions._UFuncOutputCastingError else ValueError):
                np.multiply(x, 1.5, out=tg.tensor(out))
    count = tg.tensor([1, 2])
    count += 1
    assert count.dtype == np.int64 and count.tolist() == [2, 3]


@pytest.mark.filterwarnings("ignore:'where' used without 'out'")
def test_where_without_out():
    """What is not computed has no value that counts, and no derivative; NumPy leaves there what the memory holds."""
    x, y, some = np.array([0.5, -1.0, 2.0]), np.array([2.0, 0.5, 4.0]), np.array([True, False, True])

    def logs(x):
        return np.where(x > 0.0, np.log(x, where=x > 0.0), 0.0)

    def ratios(x, y):
        return np.where(some, np.divide(x, y, where=some), 1.0)

    check(logs, x)
    check(ratios, x, y)
    for f, points in ((lambda x: np.sum(logs(x) ** 2), (x,)), (lambda x, y: np.sum(ratios(x, y) ** 2), (x, y))):
        assert tg.check(f, *points, order=2).passed
    t = tg.tensor([0.5, -1.0], requires_grad=True)
    np.testing.assert_array_equal(np.log(t, where=[True, False]).detach().numpy(), [np.log(0.5), 0.0])
    assert np.log(tg.tensor(np.float32([2.0, 1.0]), requires_grad=True), where=np.array([True, False])).dtype == np.float32
    np.testing.assert_array_equal(tg.grad(lambda x: np.sum(np.sqrt(x, where=False)))(np.zeros(2)), [0.0, 0.0])

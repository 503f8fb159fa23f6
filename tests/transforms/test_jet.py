"""`tg.jet`: every row against derivatives of derivatives, closed forms, JAX, and what is refused."""

import functools
import gc
import math
import weakref

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array import series
from tapegrad.array.series import Series
from tests.array.dual.test_every_row import direction, ran, usable
from tests.near import near
from tests.rules.checker import generator

ORDER = 3


def curve(t, x, terms):
    """The polynomial in `t` with these derivatives at 0."""
    total = terms[-1] * (1.0 / math.factorial(len(terms)))
    for k in range(len(terms) - 1, 0, -1):
        total = total * t + terms[k - 1] * (1.0 / math.factorial(k))
    return x + total * t


def nested(function, primals, series, order=ORDER):
    """The derivatives of `function` along a curve, by dual numbers in dual numbers."""
    found = []

    def along(t):
        return function(*[curve(t, x, terms) for x, terms in zip(primals, series)])

    for _ in range(order):
        along = tg.derivative(along)
        found.append(np.asarray(along(0.0)))
    return found


def series_against_nested_derivatives(name):
    """In both precisions, at the same points."""
    rng, compared = generator(50), 0
    with np.errstate(all="ignore"):
        for example, slots in usable(name)[:4]:
            # Numbers that float32 has.
            terms = [[_as(c, "f", np.asarray(c).dtype) for c in each] for each in zip(*(direction(rng, example, slots) for _ in range(ORDER)))]
            f, operands = (lambda *xs, e=example, s=slots: ran(e, s, xs)), [example.operands[k] for k in slots]
            expected = nested(f, operands, [[_as(c, "d") for c in each] for each in terms])
            for char in "df":
                primals = operands if char == "d" else [np.asarray(x, "f") for x in operands]
                value, found = tg.jet(f, tuple(primals), terms if char == "d" else [[np.asarray(c, "f") for c in each] for each in terms])
                assert np.shape(value) == np.shape(example.value) and len(found) == ORDER
                for k, (one, other) in enumerate(zip(found, expected)):
                    assert np.shape(one) == np.shape(other), str(example)
                    scale = 1.0 + np.max(np.abs(other), initial=0.0, where=np.isfinite(other))
                    tolerance = 1e-9 if np.asarray(value).dtype.char == char == "d" else 2e-3 * 4.0**k
                    np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * scale, err_msg=f"{example}, {char}, order {k + 1}")
                    compared += np.size(other)
    assert compared


def _as(number, *dtypes):
    """A number, which stays one of Python, or an array, taken through dtypes."""
    for dtype in dtypes:
        number = np.asarray(number).astype(dtype)
    return number if number.ndim else float(number)


UNITS = [1.0] + [0.0] * 11


@pytest.mark.parametrize(
    "function, x, derivative",
    [
        (np.exp, 0.5, lambda k: math.exp(0.5)),
        (np.sin, 0.5, lambda k: math.sin(0.5 + k * math.pi / 2)),
        (lambda x: 1.0 / (1.0 - x), 0.5, lambda k: math.factorial(k) * 2.0 ** (k + 1)),
        (np.log, 2.0, lambda k: (-1) ** (k + 1) * math.factorial(k - 1) / 2.0**k),
        (np.tan, 0.0, lambda k: [0, 1, 0, 2, 0, 16, 0, 272, 0, 7936, 0, 353792, 0][k]),
        (lambda x: x**2.5, 1.0, lambda k: math.prod(2.5 - j for j in range(k))),
        (lambda x: x**4, 0.0, lambda k: 24.0 * (k == 4)),
        (np.sqrt, 1.0, lambda k: math.prod(0.5 - j for j in range(k))),
        (lambda x: np.sum(np.exp(x * np.arange(3.0))), 0.0, lambda k: 1.0 + 2.0**k),
    ],
    ids="exp sin reciprocal log tan power integer sqrt sum".split(),
)
def test_closed_forms_to_order_twelve(function, x, derivative):
    found = tg.jet(function, (x,), (UNITS,))[1]
    expected = [float(derivative(k)) for k in range(1, 13)]
    np.testing.assert_allclose(np.array(found, float), expected, rtol=1e-12, atol=1e-12 * max(map(abs, expected)) * 1e-3)


def product(np):
    return lambda x, y: {"all": np.log(x) * np.tanh(y @ y) / (1.0 + x * x), "part": (np.exp(y * x), np.sin(x) ** 0.5)}


def test_agrees_with_jax():
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    jet = pytest.importorskip("jax.experimental.jet").jet
    rng = generator(51)
    primals = (0.7, rng.uniform(0.1, 0.5, 3))
    series = ([float(c) for c in rng.standard_normal(7)], [*rng.standard_normal((7, 3))])
    value, found = tg.jet(product(np), primals, series)
    value_of_jax, expected = jet(product(jax.numpy), primals, series)
    assert found.keys() == expected.keys() == value.keys()
    for one, other in ((found["all"], expected["all"]), *zip(found["part"], expected["part"])):
        assert len(one) == len(other) == 7
        for a, b in zip(one, other):
            np.testing.assert_allclose(a, b, rtol=1e-9)
    np.testing.assert_allclose(value["part"][0], value_of_jax["part"][0], rtol=1e-14)


def test_inside_other_transformations():
    x, ones = 0.3, [1.0, 0.0, 0.0]
    assert tg.grad(lambda x: tg.jet(np.sin, (x,), (ones,))[1][2])(x) == pytest.approx(math.sin(x), rel=1e-14)
    # By the coefficients: the third derivative along t is f' c3 + ..., linear in the last.
    assert tg.grad(lambda c: tg.jet(np.sin, (x,), ([1.0, 0.0, c],))[1][2])(2.0) == pytest.approx(math.cos(x), rel=1e-14)
    points = np.array([0.1, 0.2])
    np.testing.assert_allclose(
        tg.hessian(lambda p: np.sum(tg.jet(np.exp, (p,), ([p, p * 0.0],))[1][1]))(points), np.diag((2.0 + 4.0 * points + points**2) * np.exp(points)),
        rtol=1e-13,
    )  # fmt: skip
    for kernel in ("never", "always"):
        along = tg.jit(lambda p: tg.jet(lambda a: np.sum(np.tanh(a) / a), (p,), ([p * 0.0 + 1.0, p, p],)), kernel=kernel)
        for at in (points, points + 0.5):
            value, terms = tg.jet(lambda a: np.sum(np.tanh(a) / a), (at,), ([at * 0.0 + 1.0, at, at],))
            for _ in range(2):
                found = along(at)
                np.testing.assert_allclose(found[0], value, rtol=1e-13)
                np.testing.assert_allclose(found[1], terms, rtol=1e-11)
        assert bool(along.stats().kernel_calls) == (kernel == "always")


def test_a_tensor_stays_on_its_tape():
    x = tg.tensor(0.3, requires_grad=True)
    value, terms = tg.jet(np.exp, (x,), ([1.0, 0.0],))
    (value + terms[1]).backward()
    assert x.grad.item() == pytest.approx(2.0 * math.exp(0.3), rel=1e-14)


def test_a_tensor_that_the_function_uses_from_outside():
    w = tg.tensor(2.0, requires_grad=True)
    tg.jet(lambda x: np.sin(x * w), (0.3,), ([1.0, 0.0],))[1][1].backward()
    # The second derivative is -w**2 sin(0.3 w).
    assert w.grad.item() == pytest.approx(-4.0 * math.sin(0.6) - 1.2 * math.cos(0.6), rel=1e-14)


def test_nothing_is_kept_of_a_call():
    inside = []

    def f(x):
        y = np.sin(x)
        inside.append(weakref.ref(y))
        return np.tanh(y) / (1.0 + y**0.5)

    call = functools.partial(tg.jet, f, (np.ones(3),), ([np.ones(3), np.zeros(3), np.zeros(3)],))
    call()
    gc.collect()
    gc.disable()
    try:
        call()
        assert inside[-1]() is None
        assert not any(type(thing) is Series for thing in gc.get_objects())
    finally:
        gc.enable()


def test_results_that_do_not_move():
    x = np.array([1.0, 2.0])
    value, terms = tg.jet(lambda a: (a, 3.0, np.floor(a)), (x,), ([x, x * 2.0],))
    assert value[1] == 3.0 and terms[1] == [0.0, 0.0]
    near(terms[0][0], x)
    near(terms[0][1], x * 2.0)
    assert [t.tolist() for t in terms[2]] == [[0.0, 0.0], [0.0, 0.0]]
    assert tg.jet(np.exp, (0.0,), ([],)) == (1.0, [])
    assert tg.jet(lambda: 2.0, (), ()) == (2.0, [])


def test_single_precision_stays():
    x = np.array([0.5, 1.5], "f")
    value, terms = tg.jet(lambda a: np.exp(a) * 2.0, (x,), ([np.ones(2, "f"), np.zeros(2, "f")],))
    assert value.dtype == np.float32 and all(t.dtype == np.float32 for t in terms)


def test_work_grows_with_the_square_of_the_order(monkeypatch):
    counts = []
    convolved = series._convolved

    def counted(product, x, y, orders, k):
        counts[-1] += len(orders)
        return convolved(product, x, y, orders, k)

    monkeypatch.setattr(series, "_convolved", counted)
    for order in (16, 32):
        counts.append(0)
        tg.jet(lambda x: np.sin(x) * np.tanh(x) / np.sqrt(1.0 + x * x), (0.3,), ([1.0] + [0.0] * (order - 1),))
    assert counts[1] < 4.3 * counts[0]


@pytest.mark.parametrize(
    "error, text, call",
    [
        (tg.errors.StructureError, "one list of coefficients for each of the 1 arguments", lambda: tg.jet(np.exp, (1.0,), ())),
        (tg.errors.StructureError, "must be a tuple or list", lambda: tg.jet(np.exp, 1.0, ([1.0],))),
        (tg.errors.StructureError, "different lengths", lambda: tg.jet(np.add, (1.0, 2.0), ([1.0], [1.0, 0.0]))),
        (tg.errors.SeedShapeError, "shape", lambda: tg.jet(np.exp, (np.ones(2),), ([np.ones(3)],))),
        (tg.errors.DtypeError, "integers", lambda: tg.jet(np.exp, (np.ones(2, int),), ([np.ones(2)],))),
        (tg.errors.HigherOrderError, "forward mode", lambda: tg.derivative(lambda x: tg.jet(np.exp, (x,), ([1.0],))[1][0])(1.0)),
        (
            tg.errors.HigherOrderError, "gammainc.*gammainc_da",
            lambda: tg.jet(lambda a: tg.gammainc(a, 2.0), (1.5,), ([1.0, 0.0],)),
        ),
    ],
)  # fmt: skip
def test_what_is_refused(error, text, call):
    with pytest.raises(error, match=text):
        call()


def test_a_custom_primitive_is_named():
    def doubled(x):
        return x * 2.0

    doubled = tg.custom_vjp(doubled, lambda g, result, x: (2.0 * g,))
    with pytest.raises(tg.errors.HigherOrderError, match="doubled.*custom primitive"):
        tg.jet(doubled, (1.0,), ([1.0],))


def test_an_order_too_high_for_powers_is_refused_and_one_that_is_not_is_right():
    high = [1.0] + [0.0] * 49
    found = tg.jet(lambda x: x**-0.5, (1.0,), (high,))[1]
    assert found[-1] == pytest.approx(math.prod(-0.5 - j for j in range(50)), rel=1e-12)
    assert tg.jet(np.sin, (0.0,), ([1.0] + [0.0] * 149,))[1][-2] == pytest.approx(1.0)
    with pytest.raises(tg.errors.HigherOrderError, match="power.*order 1500 nests"):
        tg.jet(lambda x: x**-0.5, (1.0,), ([1.0] + [0.0] * 1499,))

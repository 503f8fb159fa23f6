"""`tapegrad.scipy.interpolate` against SciPy."""

import numpy as np
import pytest
import scipy.interpolate

import tapegrad as tg
import tapegrad.scipy.interpolate as mirrored
from tapegrad.scipy.mirrors import MIRRORS
from tests.every import every
from tests.rules.checker import check, generator, leaf, plain
from tests.scipy.mirrored import check_mirror, check_unmodified

rng = generator(3)
X = np.cumsum(rng.uniform(0.3, 1.5, 7))
Y = rng.standard_normal(7)
#: Inside each piece and beyond both ends.
POINTS = np.concatenate([[X[0] - 0.3], X[:-1] + 0.4 * np.diff(X), [X[-1] + 0.2]])
CONDITIONS = [
    "not-a-knot", "natural", "clamped", ("natural", "not-a-knot"), ("clamped", "natural"), ((1, 0.3), (2, -0.4)),
    ((2, 0.7), "not-a-knot"),
]  # fmt: skip


@every("n", [2, 3, 4, 5, 7])
@every("bc", CONDITIONS)
def test_conditions(bc, n):
    points = POINTS[(POINTS < X[n - 1] + 0.3)]
    check_mirror(
        "scipy.interpolate",
        "CubicSpline",
        lambda m, x, y, t: m.CubicSpline(x, y, bc_type=bc)(t),
        (X[:n], Y[:n], points),
        atol=1e-11,
    )


@pytest.mark.parametrize("n", [2, 3, 4, 5, 7])
def test_periodic(n):
    def call(m, x, y, t):
        y = np.concatenate([y[: n - 1], y[:1]]) if n > 2 else np.concatenate([y[:1], y[:1]])
        spline = m.CubicSpline(x, y, bc_type="periodic")
        return np.concatenate([spline(t), spline(t, 1), np.reshape(spline.integrate(t[0], t[-1]), (1,))])

    check_mirror("scipy.interpolate", "CubicSpline", call, (X[:n], Y[:n], POINTS * 2.3 - 4.0), atol=1e-10)


def test_values_of_boundary_conditions_are_differentiated():
    def call(m, y, a, b):
        return m.CubicSpline(X, y, bc_type=((1, a), (2, b)))(POINTS)

    check_mirror("scipy.interpolate", "CubicSpline", call, (Y, 0.3, -0.6), atol=1e-11)


@pytest.mark.parametrize("nu", [0, 1, 2, 3, 4])
def test_derivatives(nu):
    def call(m, x, y, t):
        spline = m.CubicSpline(x, y)
        return np.concatenate([spline(t, nu), spline.derivative(nu)(t)])

    if nu < 3:
        check_mirror("scipy.interpolate", "CubicSpline", call, (X, Y, POINTS), atol=1e-10)
        return
    # The third derivative does not depend on the point, the fourth on nothing.
    check(
        lambda x, y, t: call(mirrored, x, y, t) + 0.0 * t[0],
        X,
        Y,
        POINTS,
        reference=lambda *a: call(scipy.interpolate, *a),
        atol=1e-10,
    )


def test_integrals():
    def call(m, x, y, a, b):
        spline = m.CubicSpline(x, y)
        return np.stack(
            [spline.integrate(a, b), spline.integrate(b, a), spline.antiderivative()(b), spline.antiderivative(2)(b, 0)]
        )

    check_mirror("scipy.interpolate", "CubicSpline", call, (X, Y, float(X[0] - 0.1), float(X[3] + 0.2)), atol=1e-10)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_axes(axis):
    y = np.moveaxis(rng.standard_normal((7, 2, 3)), 0, axis)
    at = POINTS[:6].reshape(2, 3)
    check_mirror("scipy.interpolate", "CubicSpline", lambda m, y, t: m.CubicSpline(X, y, axis)(t), (y, at), atol=1e-11)
    check_mirror(
        "scipy.interpolate", "CubicSpline", lambda m, y, t: m.CubicSpline(X, y, axis)(t, 1), (y, 1.3), atol=1e-11
    )


@pytest.mark.parametrize("bc", ["not-a-knot", "natural"])
def test_extrapolation(bc):
    with np.errstate(invalid="ignore"):
        for extrapolate in (False, True, "periodic"):
            spline = mirrored.CubicSpline(X, leaf(Y), bc_type=bc, extrapolate=extrapolate)
            expected = scipy.interpolate.CubicSpline(X, Y, bc_type=bc, extrapolate=extrapolate)
            np.testing.assert_allclose(plain(spline(POINTS)), expected(POINTS), rtol=1e-10, atol=1e-12)
            for other in (False, True, "periodic"):
                np.testing.assert_allclose(
                    plain(spline(POINTS, 1, other)), expected(POINTS, 1, other), rtol=1e-10, atol=1e-12
                )
                np.testing.assert_allclose(
                    plain(spline.integrate(POINTS[1], POINTS[-1], other)),
                    expected.integrate(POINTS[1], POINTS[-1], other),
                    rtol=1e-10, atol=1e-12,
                )  # fmt: skip
    # Outside, NaN is a constant: it takes no part in the gradient.
    y = leaf(Y)
    found = mirrored.CubicSpline(X, y, extrapolate=False)(POINTS)
    tg.where(np.isnan(found), 0.0, found).sum().backward()
    assert np.isfinite(plain(y.grad)).all()


def test_at_the_knots():
    for bc in ("not-a-knot", "natural"):
        spline, expected = mirrored.CubicSpline(X, leaf(Y), bc_type=bc), scipy.interpolate.CubicSpline(X, Y, bc_type=bc)
        for nu in range(4):
            np.testing.assert_allclose(plain(spline(X, nu)), expected(X, nu), rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(plain(spline.c), expected.c, rtol=1e-10, atol=1e-12)


def test_plain_splines_are_those_of_scipy_and_take_tensors():
    ours, theirs = mirrored.CubicSpline(X, Y), scipy.interpolate.CubicSpline(X, Y)
    np.testing.assert_array_equal(ours.roots(), theirs.roots())
    np.testing.assert_array_equal(ours.antiderivative()(POINTS), theirs.antiderivative()(POINTS))
    np.testing.assert_array_equal(ours.derivative().c, theirs.derivative().c)
    np.testing.assert_array_equal(ours.c, theirs.c)
    check(ours, POINTS, reference=theirs)
    check(ours.derivative(), POINTS, reference=theirs.derivative())
    check(lambda a: ours.integrate(a, 3.0), 1.2, reference=lambda a: theirs.integrate(a, 3.0))


def test_many_knots():
    n = 400
    x = np.cumsum(rng.uniform(0.01, 3.0, n))
    y, at = rng.standard_normal(n), rng.uniform(x[0], x[-1], 50)
    found = mirrored.CubicSpline(x, leaf(y))(at)
    np.testing.assert_allclose(plain(found), scipy.interpolate.CubicSpline(x, y)(at), rtol=1e-8, atol=1e-9)


BAD = [
    (([1.0, 1.0, 2.0], [0.0, 1.0, 2.0]), {}, "increasing"),
    (([1.0, 2.0], [0.0, 1.0, 2.0]), {}, "length"),
    (([1.0], [0.0]), {}, "2 elements"),
    (([[1.0, 2.0]], [0.0, 1.0]), {}, "1-dimensional"),
    (([1.0, 2.0], [0.0, np.nan]), {}, "finite"),
    (([1.0, 2.0], [0.0, 1.0]), {"bc_type": "round"}, "not allowed"),
    (([1.0, 2.0], [0.0, 1.0]), {"bc_type": "periodic"}, "identical"),
    (([1.0, 2.0], [0.0, 1.0]), {"bc_type": ("periodic", "natural")}, "periodic"),
    (([1.0, 2.0], [0.0, 1.0]), {"bc_type": ("natural",) * 3}, "2 elements"),
    (([1.0, 2.0], [0.0, 1.0]), {"bc_type": ((3, 0.0), "natural")}, "1 or 2"),
    (([1.0, 2.0], [0.0, 1.0]), {"bc_type": ((1, [0.0]), "natural")}, "shape"),
    (([1.0, 2.0], [0.0, 1.0]), {"bc_type": (1.0, "natural")}, "form"),
]


@pytest.mark.parametrize("arguments, options, message", BAD, ids=[b[2] for b in BAD])
def test_bad_input_raises_the_class_of_scipy(arguments, options, message):
    with pytest.raises(ValueError):
        scipy.interpolate.CubicSpline(*arguments, **options)
    with pytest.raises(ValueError, match=message):
        mirrored.CubicSpline(np.array(arguments[0]), leaf(arguments[1]), **options)


def test_what_is_refused_for_tensors():
    spline = mirrored.CubicSpline(X, leaf(Y))
    with pytest.raises(tg.errors.UnsupportedFunctionError, match="roots"):
        spline.roots()
    with pytest.raises(ValueError, match="negative"):
        spline(1.0, -1)


def test_unmodified_scipy_names_the_mirror():
    check_unmodified("scipy.interpolate", "CubicSpline", lambda m, y: m.CubicSpline(X, y), (Y,))
    check_unmodified("scipy.interpolate", "CubicSpline", lambda m, x: m.CubicSpline(x, Y), (X,))
    check_unmodified("scipy.interpolate", "CubicSpline", lambda m, t: m.CubicSpline(X, Y)(t), (POINTS,))


def test_every_mirrored_name_is_tested():
    # The others are in test_filters.py.
    assert MIRRORS["scipy.interpolate"] == ("BSpline", "CubicSpline", "PchipInterpolator", "RegularGridInterpolator", "make_interp_spline")
    assert mirrored.Akima1DInterpolator is scipy.interpolate.Akima1DInterpolator


def test_a_recording_holds_for_other_values():
    g = tg.jit(tg.grad(lambda y: np.sum(mirrored.CubicSpline(X, y)(POINTS) ** 2)))
    for factor in (1.0, 1.1, 0.9):
        np.testing.assert_allclose(g(factor * Y), factor * tg.grad(lambda y: np.sum(mirrored.CubicSpline(X, y)(POINTS) ** 2))(Y), rtol=1e-10)
    assert g.stats().records == 1


# ---- B-splines -----------------------------------------------------------------------------------------

CLAMPED, UNEVEN = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 1.7, 3.0, 3.0, 3.0, 3.0]), np.array([-0.3, -0.1, 0.0, 1.6, 1.6, 3.0, 3.3, 3.4])
BASES = {"cubic": (CLAMPED, 3, 6), "a double knot": (UNEVEN, 2, 5), "linear": (UNEVEN[[1, 2, 4, 5, 6]], 1, 3), "steps": (np.arange(4.0), 0, 3)}
WHERE = np.array([0.05, 0.9, 1.3, 2.2, 2.9, 1.75])


@every("extrapolate", [True, False, "periodic"])
@every("name", BASES)
def test_a_spline_by_its_coefficients(name, extrapolate):
    t, k, n = BASES[name]

    def call(m, c, x):
        spline = m.BSpline(t, c, k, extrapolate)
        there = np.concatenate([x, [-0.4, 3.9]])
        return np.concatenate([spline(there), *([spline(there, 1)] if k else []), np.reshape(spline.integrate(0.7, 2.1), (1,))])

    points = WHERE + 0.003
    a, b = (f(call, n, points) for f in (_values, _mirrored))
    np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12)
    if extrapolate is not False and k:
        check_mirror("scipy.interpolate", "BSpline", call, (Y[:n], points), atol=1e-10)


def _values(call, n, points):
    return call(scipy.interpolate, Y[:n], points)


def _mirrored(call, n, points):
    return tg.tensor(call(mirrored, tg.tensor(Y[:n], requires_grad=True), points)).detach().numpy()


@every("name", ["cubic", "a double knot"])
def test_splines_that_are_derived(name):
    t, k, n = BASES[name]

    def call(m, c, x):
        whole, end = m.BSpline(t, c, k), m.BSpline(t, c, k).antiderivative(2)
        parts = [whole.antiderivative()(x), end(x), whole.antiderivative().derivative()(x), whole.derivative(-1)(x)]
        return np.concatenate([*parts, *([whole.derivative(2)(x)] if name == "cubic" else [])])

    check_mirror("scipy.interpolate", "BSpline", call, (Y[:n], WHERE), atol=1e-10)


def test_coefficients_along_an_axis():
    c = rng.standard_normal((2, 6, 3))
    check_mirror("scipy.interpolate", "BSpline", lambda m, c, x: m.BSpline(CLAMPED, c, 3, axis=1)(x), (c, np.reshape(WHERE, (2, 3))), atol=1e-11)


@every("options", [{}, {"k": 2}, {"k": 1}, {"k": 5}, {"bc_type": "natural"}, {"bc_type": ("clamped", "natural")}])
def test_the_spline_through_points(options):
    check_mirror("scipy.interpolate", "make_interp_spline", lambda m, y, x: m.make_interp_spline(X, y, **options)(x), (Y, POINTS[1:-1]), atol=1e-10)


def test_the_spline_through_points_of_a_period_and_of_columns():
    def call(m, y):
        return m.make_interp_spline(X, np.concatenate([y[:6], y[:1]]), bc_type="periodic")(POINTS * 2.0)

    check_mirror("scipy.interpolate", "make_interp_spline", call, (Y,), atol=1e-10)
    columns = rng.standard_normal((2, 7))
    check_mirror("scipy.interpolate", "make_interp_spline", lambda m, y: m.make_interp_spline(X, y, axis=1)(POINTS[1:-1]), (columns,), atol=1e-10)


def test_what_b_splines_refuse():
    y, x = tg.tensor(Y, requires_grad=True), tg.tensor(X, requires_grad=True)
    with pytest.raises(tg.errors.UnsupportedFunctionError, match="knots"):
        mirrored.BSpline(x, Y[:3], 3)
    with pytest.raises(tg.errors.UnsupportedFunctionError, match="CubicSpline"):
        mirrored.make_interp_spline(x, y)
    with pytest.raises(tg.errors.UnsupportedFunctionError, match="by name"):
        mirrored.make_interp_spline(X, y, bc_type=([(1, 0.0)], [(1, 0.0)]))
    with pytest.raises(ValueError, match="not differentiable 1 times"):
        mirrored.BSpline([0, 0, 0, 1, 1, 2, 2, 2], y[:5], 2).derivative().derivative()
    with pytest.raises(ValueError):
        mirrored.BSpline(CLAMPED, y[:4], 3)


@every("make", [lambda y: mirrored.make_interp_spline(X, y, bc_type="periodic"), lambda y: mirrored.CubicSpline(X, y, bc_type="periodic")])
def test_a_recording_of_a_periodic_spline_holds_for_other_values(make):
    def f(y):
        return np.sum(make(np.concatenate([y, y[:1]]))(POINTS) ** 2)

    g = tg.jit(tg.grad(f))
    for factor in (1.0, 1.1, 0.9):
        np.testing.assert_allclose(g(factor * Y[:6]), factor * tg.grad(f)(Y[:6]), rtol=1e-9)
    assert g.stats().records == 1
    with pytest.raises(ValueError):
        make(tg.tensor(Y, requires_grad=True))


def test_points_of_a_table_as_one_vector():
    """A vector is one point, or many of a grid of one dimension, as in SciPy."""
    plane, line = ((np.arange(3.0), np.arange(4.0)), np.arange(12.0).reshape(3, 4) ** 1.5), ((np.arange(5.0),), np.arange(5.0) ** 2)
    for (points, values), at in ((plane, [1.3, 2.2]), (plane, [1.3, 2.2, 0.5, 0.1]), (line, [1.3, 2.2, 0.5]), (line, [1.5])):
        at, theirs = np.array(at), scipy.interpolate.RegularGridInterpolator(points, values)
        check(mirrored.RegularGridInterpolator(points, values), at, reference=theirs)
        assert mirrored.RegularGridInterpolator(points, leaf(values))(at).shape == theirs(at).shape


@every("extrapolate", [True, False, "periodic"])
def test_steps_through_points(extrapolate):
    """Of degree 0 the last value holds from the last point on."""
    x, at = np.linspace(0.0, 3.0, 8), np.array([-0.3, 0.0, 0.2, 2.2, 3.0, 3.3])
    theirs = scipy.interpolate.make_interp_spline(x, x**2, 0)(at, extrapolate=extrapolate)
    np.testing.assert_array_equal(plain(mirrored.make_interp_spline(x, leaf(x**2), 0)(at, extrapolate=extrapolate)), theirs)

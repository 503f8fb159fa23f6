"""`tapegrad.scipy.integrate` against SciPy."""

import numpy as np
import pytest
import scipy.integrate

import tapegrad as tg
import tapegrad.scipy.integrate as mirrored
from tapegrad.scipy.mirrors import MIRRORS
from tests.every import every
from tests.rules.checker import check, generator, gradient, leaf, plain
from tests.scipy.mirrored import check_mirror, check_unmodified

rng = generator(5)
Y = rng.standard_normal((3, 7, 2))
X = np.cumsum(rng.uniform(0.3, 1.0, 7))
XS = np.cumsum(rng.uniform(0.3, 1.0, Y.shape), axis=1)


def samples(name):
    return [
        *((name, lambda m, y, axis=axis: getattr(m, name)(y, axis=axis), (Y,)) for axis in (0, 1, -1)),
        (name, lambda m, y, dx: getattr(m, name)(y, dx=dx, axis=1), (Y, 0.3)),
        (name, lambda m, y, x: getattr(m, name)(y, x, axis=1), (Y, X)),
        (name, lambda m, y, x: getattr(m, name)(y, x, axis=-2), (Y, XS)),
        *((name, lambda m, y, x: getattr(m, name)(y, x), (Y[0, :n, 0], X[:n])) for n in range(2, 7)),
        *((name, lambda m, y, dx: getattr(m, name)(y, dx=dx), (Y[0, :n, 0], 0.7)) for n in range(2, 7)),
    ]


def lotka(t, y, a, b):
    return np.stack([a * y[0] - b * y[0] * y[1], 0.3 * y[0] * y[1] - y[1] + 0.1 * np.sin(t)])


def solved(y0, a, b, method="RK45", ts=None, **options):
    def call(m, y0, a, b):
        return m.solve_ivp(lotka, (0.0, 1.0), y0, method, ts, args=(a, b), **options).y

    return "solve_ivp", call, (y0, a, b)


Y0 = np.array([1.0, 0.7])
TIMES = np.array([0.0, 0.4, 1.7, 1.9, 3.0])
CASES = [
    *samples("trapezoid"),
    *samples("cumulative_trapezoid"),
    ("cumulative_trapezoid", lambda m, y, x: m.cumulative_trapezoid(y, x, axis=1, initial=0), (Y, X)),
    *samples("simpson"),
    ("fixed_quad", lambda m, a, b, c: m.fixed_quad(lambda x, c: np.sin(c * x), a, b, (c,), 7), (0.3, 1.4, 2.0)),
    ("fixed_quad", lambda m, c: m.fixed_quad(lambda x: c * x**2, 0.0, 1.0), (2.0,)),
    ("quad", lambda m, a, b, c: m.quad(lambda x, c: np.sin(c * x), a, b, (c,))[0], (0.3, 1.4, 2.0)),
    ("quad", lambda m, a, c: m.quad(lambda x: 1.0 / (c + x * x), a, np.inf)[0], (-1.0, 0.5)),
    ("quad", lambda m, b, c: m.quad(lambda x: np.exp(c * x), -np.inf, b)[0], (0.4, 1.3)),
    ("quad", lambda m, c: m.quad(lambda x: np.exp(-c[0] * x * x) * np.cos(c[1] * x), -np.inf, np.inf)[0], (np.array([1.2, 2.0]),)),
    ("quad", lambda m, a, b: m.quad(np.cos, a, b)[0], (2.0, -1.0)),
    ("fixed_quad", lambda m, c: m.fixed_quad(lambda x: np.outer(c, x), 0.0, 1.0), (np.array([2.0, 3.0]),)),
]
#: Where the choice of steps moves with the point, differences of SciPy see it: only tight tolerances agree.
TIGHT = {"rtol": 1e-10, "atol": 1e-12}
PROBLEMS = [
    solved(Y0, 1.1, 0.5, **TIGHT),
    solved(Y0, 1.1, 0.5, ts=TIMES / 3.0, **TIGHT),
    solved(Y0, 1.1, 0.5, "RK23", ts=TIMES / 3.0, rtol=1e-7, atol=1e-9),
    solved(Y0, 1.1, 0.5, vectorized=True, ts=TIMES / 3.0, **TIGHT),
]


@pytest.mark.parametrize("name, call, arrays", CASES, ids=[f"{c[0]}-{k}" for k, c in enumerate(CASES)])
def test_value_and_derivative(name, call, arrays):
    check_mirror("scipy.integrate", name, call, arrays, atol=1e-12)


def test_every_mirrored_name_is_tested():
    # `odeint`, whose steps are its own: in `test_ivp`.
    assert {c[0] for c in [*CASES, *PROBLEMS]} | {"odeint"} == set(MIRRORS["scipy.integrate"]) == set(mirrored.__all__)


@pytest.mark.parametrize("name, call, arrays", [
    *PROBLEMS[:2], *(pytest.param(*problem, marks=pytest.mark.long) for problem in PROBLEMS[2:]),
], ids=["steps", "times", "RK23", "vectorized"])  # fmt: skip
def test_solution_is_differentiated(name, call, arrays):
    def last(m, *args):
        return call(m, *args)[:, -1:] if arrays and call(scipy.integrate, *arrays).shape[1] > 9 else call(m, *args)

    check_mirror("scipy.integrate", name, last, arrays, rtol=2e-6, atol=1e-12)


@every("method", ["RK45", "RK23"])
@every("options", [
    {}, {"rtol": 1e-8, "atol": 1e-9}, {"first_step": 0.3}, {"max_step": 0.11}, {"atol": np.array([1e-3, 1e-9])},
    {"first_step": 3.0, "rtol": 1e-3},
])  # fmt: skip
@every("span", [(0.0, 3.0), (3.0, 0.0), (1.0, 1.0)])
@every("times", [None, TIMES])
def test_tensors_take_the_steps_of_scipy(method, options, span, times):
    if span[0] == span[1]:
        # SciPy leaves out the only time there is; see the next test.
        times = None
        options = {k: v for k, v in options.items() if k != "first_step"}
    elif span[0] > span[1] and times is not None:
        times = times[::-1]
    theirs = scipy.integrate.solve_ivp(lotka, span, Y0, method, times, args=(1.1, 0.5), dense_output=True, **options)
    ours = mirrored.solve_ivp(lotka, span, leaf(Y0), method, times, args=(1.1, leaf(0.5)), dense_output=True, **options)
    assert (ours.nfev, ours.status, ours.success, ours.message) == (theirs.nfev, 0, True, theirs.message)
    assert (ours.njev, ours.nlu, ours.t_events, ours.y_events) == (theirs.njev, theirs.nlu, None, None)
    assert set(ours) == set(theirs)
    np.testing.assert_allclose(ours.t, theirs.t, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(plain(ours.y), theirs.y, rtol=1e-8, atol=1e-9)
    if span[0] != span[1]:
        at = rng.permutation(np.concatenate([np.linspace(*span, 11), theirs.sol.ts]))
        np.testing.assert_allclose(plain(ours.sol(at)), theirs.sol(at), rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(plain(ours.sol(span[1])), theirs.sol(span[1]), rtol=1e-8)
        np.testing.assert_allclose(ours.sol.ts, theirs.sol.ts, rtol=1e-9, atol=1e-9)
        assert (ours.sol.t_min, ours.sol.t_max) == (0.0, 3.0)


def test_stiff_steps_are_rejected_as_in_scipy():
    def stiff(t, y, k):
        return -k * (y - np.cos(t))

    theirs = scipy.integrate.solve_ivp(stiff, (0, 1), [0.0], args=(200.0,), first_step=0.5)
    ours = mirrored.solve_ivp(stiff, (0, 1), [0.0], args=(leaf(200.0),), first_step=0.5)
    assert ours.nfev == theirs.nfev > 6 * (len(theirs.t) - 1) + 7
    np.testing.assert_allclose(plain(ours.y), theirs.y, rtol=1e-9)


def test_a_step_that_becomes_too_small_is_reported_as_in_scipy():
    def blow_up(t, y):
        return y * y

    with np.errstate(all="ignore"):
        theirs = scipy.integrate.solve_ivp(blow_up, (0, 2), [1.0])
        ours = mirrored.solve_ivp(blow_up, (0, 2), leaf([1.0]))
    assert theirs.status == ours.status == -1 and not ours.success
    assert ours.message == theirs.message
    np.testing.assert_allclose(ours.t[:-3], theirs.t[:-3], rtol=1e-9)


@pytest.mark.parametrize("method", ["RK45", "RK23", "RK4"])
def test_derivative_with_respect_to_the_ends(method):
    options = {"max_step": 0.02} if method == "RK4" else {"rtol": 1e-9, "atol": 1e-11}

    def end(t0, t1, y0):
        return mirrored.solve_ivp(lambda t, y: -0.7 * y * np.cos(t), (t0, t1), y0, method, **options).y[:, -1]

    # y = y0 exp(-0.7 (sin t1 - sin t0))
    for t0, t1 in ((0.2, 1.5), (1.5, 0.2)):
        y = np.exp(-0.7 * (np.sin(t1) - np.sin(t0)))
        found = gradient(end, t0, t1, np.array([1.0]))
        expected = [0.7 * np.cos(t0) * y, -0.7 * np.cos(t1) * y, [y]]
        for given, exact in zip(found, expected, strict=True):
            np.testing.assert_allclose(given, exact, rtol=1e-6)


def test_an_interval_of_no_length_has_the_derivative_of_its_ends():
    d0, d1 = gradient(lambda a, b: mirrored.solve_ivp(lambda t, y: 3.0 * y, (a, b), [2.0]).y[0, -1], 1.0, 1.0)
    assert (d0, d1) == (-6, 6)
    found = mirrored.solve_ivp(lambda t, y: 3.0 * y, (1.0, 1.0), leaf([2.0]), t_eval=[1.0], dense_output=True)
    assert plain(found.y) == 2 and plain(found.sol(1.0)) == 2 and found.t == 1


def test_derivative_with_respect_to_the_times_of_the_result():
    times = np.array([0.3, 1.1, 1.8])
    found = gradient(
        lambda t: mirrored.solve_ivp(lambda t, y: -y, (0, 2), [1.0], t_eval=t, rtol=1e-9, atol=1e-12).y, times
    )
    np.testing.assert_allclose(found, -np.exp(-times), rtol=1e-5)

    def sol(t):
        return mirrored.solve_ivp(
            lambda t, y, k: -k * y, (0, 2), [1.0], args=(leaf(1.0),), rtol=1e-9, atol=1e-12, dense_output=True
        ).sol(t)

    np.testing.assert_allclose(gradient(sol, times), -np.exp(-times), rtol=1e-5)
    np.testing.assert_allclose(gradient(lambda t: sol(t)[0], 1.1), -np.exp(-1.1), rtol=1e-5)


def test_tensors_that_the_function_holds():
    k = leaf(0.5)
    found = mirrored.solve_ivp(lambda t, y: [-k * y[0]], (0, 2), [1.0], rtol=1e-9, atol=1e-12)
    found.y[0, -1].backward()
    np.testing.assert_allclose(plain(k.grad), -2 * np.exp(-1), rtol=1e-7)


def test_fixed_steps():
    def end(y0, k, times=None):
        return mirrored.solve_ivp(
            lambda t, y, k: np.stack([y[1], -k * y[0]]), (0, 1), y0, "RK4", times, args=(k,), max_step=0.25
        ).y

    check(end, Y0, 2.0)
    assert mirrored.solve_ivp(lambda t, y: -y, (0, 1), [1.0], "RK4", max_step=0.25).nfev == 16
    at = mirrored.solve_ivp(lambda t, y: -y, (0, 1), [1.0], "RK4", np.array([0.0, 0.3, 1.0]), max_step=0.25)
    np.testing.assert_allclose(at.y[0], np.exp(-at.t), rtol=1e-4)
    np.testing.assert_array_equal(at.t, [0.0, 0.3, 1.0])
    # Order 4: half the step, a sixteenth of the error.
    errors = [
        abs(mirrored.solve_ivp(lambda t, y: -y, (0, 1), [1.0], "RK4", max_step=h).y[0, -1] - np.exp(-1))
        for h in (0.1, 0.05)
    ]
    np.testing.assert_allclose(errors[0] / errors[1], 16, rtol=0.1)
    backward = mirrored.solve_ivp(lambda t, y: -y, (1, 0), leaf([1.0]), "RK4", max_step=0.01)
    np.testing.assert_allclose(plain(backward.y[0, -1]), np.e, rtol=1e-8)
    with pytest.raises(ValueError, match="max_step"):
        mirrored.solve_ivp(lambda t, y: -y, (0, 1), [1.0], "RK4")
    with pytest.raises(tg.errors.UnsupportedFunctionError, match="dense_output"):
        mirrored.solve_ivp(lambda t, y: -y, (0, 1), [1.0], "RK4", max_step=0.1, dense_output=True)


UNMODIFIED = {
    "trapezoid": lambda m, t: m.trapezoid(t),
    "cumulative_trapezoid": lambda m, t: m.cumulative_trapezoid(t),
    "simpson": lambda m, t: m.simpson(t),
    "solve_ivp": lambda m, t: m.solve_ivp(lambda s, y: -y * t, (0, 1), [1.0, 2.0]),
}


@pytest.mark.parametrize("name", UNMODIFIED)
def test_unmodified_scipy_names_the_mirror(name):
    check_unmodified("scipy.integrate", name, UNMODIFIED[name], ([1.0, 2.0],))


def test_unmodified_solve_ivp_with_tensors_elsewhere():
    check_unmodified(
        "scipy.integrate", "solve_ivp", lambda m, t: m.solve_ivp(lambda s, y: -y, (0, 1), t), ([1.0, 2.0],)
    )
    check_unmodified(
        "scipy.integrate", "solve_ivp", lambda m, t: m.solve_ivp(lambda s, y: -y, (0, 1), [1.0], t_eval=t), ([0.5],)
    )


def test_fixed_quad_of_scipy_is_right_or_raises():
    # It has nothing but arithmetic on what it is given, so tensors pass through it; since 1.18 it makes arrays of its bounds.
    def of_bounds():
        check(lambda a, c: scipy.integrate.fixed_quad(lambda x: np.sin(c * x), a, 2.0)[0], 0.3, 1.5)

    if np.lib.NumpyVersion(scipy.__version__) < "1.18.0":
        of_bounds()
    else:
        with pytest.raises(tg.errors.LeaveTapeError, match="tapegrad.scipy.integrate.fixed_quad"):
            of_bounds()


def test_bad_samples():
    x, y = leaf(X), leaf(Y[0, :, 0])
    for call in (
        lambda m, y, x: m.simpson(y, x[:3]), lambda m, y, x: m.simpson(y, x[:, None]),
        lambda m, y, x: m.cumulative_trapezoid(y, initial=1), lambda m, y, x: m.cumulative_trapezoid(y, x[:3]),
        lambda m, y, x: m.trapezoid(y, x[:3]), lambda m, y, x: m.cumulative_trapezoid(y[:0]),
        lambda m, y, x: m.fixed_quad(np.sin, x[0], np.inf),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            call(scipy.integrate, Y[0, :, 0], X)
        with pytest.raises(ValueError, match="length|shape|initial|point|finite"):
            call(mirrored, y, x)
    with pytest.raises(np.exceptions.AxisError):
        mirrored.trapezoid(y, axis=1)
    with pytest.raises(ValueError, match="equal"):
        mirrored.simpson(y, np.zeros(7))


BAD = [
    ({"y0": np.ones((2, 2))}, "1-dimensional"),
    ({"y0": np.array([1.0, np.nan])}, "finite"),
    ({"t_eval": [0.5, 4.0]}, "not within"),
    ({"t_eval": [0.7, 0.5]}, "sorted"),
    ({"t_eval": [[0.7, 0.5]]}, "1-dimensional"),
    ({"max_step": -1.0}, "max_step"),
    ({"first_step": -1.0}, "first_step"),
    ({"first_step": 9.0}, "first_step"),
    ({"atol": -1.0}, "atol"),
    ({"atol": np.ones(3)}, "atol"),
]


@pytest.mark.parametrize("changed, message", BAD, ids=[f"{next(iter(b[0]))}-{k}" for k, b in enumerate(BAD)])
def test_bad_problems(changed, message):
    given = {"fun": lambda t, y: -y, "t_span": (0, 3), "y0": np.ones(2)} | changed
    with pytest.raises(ValueError):
        scipy.integrate.solve_ivp(**given)
    with pytest.raises(ValueError, match=message):
        mirrored.solve_ivp(**given | {"y0": leaf(given["y0"])})


def test_what_is_refused_for_tensors():
    refusal = tg.errors.UnsupportedFunctionError
    y0 = leaf([1.0])

    def fun(t, y):
        return -y

    with pytest.raises(refusal, match="events"):
        mirrored.solve_ivp(fun, (0, 1), y0, "RK4", max_step=0.1, events=lambda t, y: y[0] - 0.5)
    for method in ("LSODA", scipy.integrate.LSODA):
        with pytest.raises(refusal, match="RK45, RK23, DOP853.* and RK4"):
            mirrored.solve_ivp(fun, (0, 1), y0, method)
    with pytest.raises(refusal, match="rtol"):
        mirrored.solve_ivp(fun, (0, 1), y0, rtol=leaf(1e-3))
    with pytest.raises(ValueError, match="shape"):
        mirrored.solve_ivp(lambda t, y: y[:1], (0, 1), leaf([1.0, 2.0]))
    with pytest.warns(UserWarning, match="jac"):
        mirrored.solve_ivp(fun, (0, 1), y0, jac=None)
    with pytest.warns(UserWarning, match="rtol"):
        mirrored.solve_ivp(fun, (0, 0.1), y0, rtol=1e-20)
    with pytest.raises(ValueError, match="t_old|1-D|float"):
        mirrored.solve_ivp(fun, (0, 1), y0, dense_output=True).sol(np.ones((2, 2)))


def test_plain_problems_are_those_of_scipy():
    for method in ("LSODA", "RK45", scipy.integrate.Radau):
        ours, theirs = (
            m.solve_ivp(lotka, (0, 3), [1.0, 0.7], method, args=(1.1, 0.5)) for m in (mirrored, scipy.integrate)
        )
        np.testing.assert_array_equal(ours.y, theirs.y)
        assert type(ours) is type(theirs)


def test_other_names_are_those_of_scipy():
    assert mirrored.dblquad is scipy.integrate.dblquad

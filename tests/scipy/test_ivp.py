"""Initial value problems: SciPy's steps, derivatives over frozen ones, events, stiff problems, `odeint`; and `quad` where it gives up."""

import numpy as np
import pytest
import scipy.integrate
import scipy.sparse.linalg

import tapegrad as tg
import tapegrad.scipy.integrate as mirrored
from tapegrad.scipy.integrate import newton
from tests.every import every
from tests.rules.checker import leaf, plain

METHODS = ("RK45", "RK23", "DOP853", "BDF", "Radau")
#: What of the stiff methods takes some ten seconds: their bodies are long, and recorded at each plain call.
LONG_OF_RADAU = [*METHODS[:-1], pytest.param("Radau", marks=pytest.mark.long)]
LONG_OF_BOTH = [*METHODS[:-2], *(pytest.param(method, marks=pytest.mark.long) for method in METHODS[-2:])]
Y0, RATES = np.array([1.0, 0.7]), (1.1, 0.5)
TIMES = np.array([0.3, 1.2, 1.3, 2.9])


def lotka(t, y, a, b):
    return np.stack([a * y[0] - b * y[0] * y[1], 0.3 * y[0] * y[1] - y[1] + 0.1 * np.sin(t)])


def slopes(t, y, a, b):
    return np.array([[a - b * y[1], -b * y[0]], [0.3 * y[1], 0.3 * y[0] - 1.0]])


def robertson(t, y, a, b, c):
    one, two, three = a * y[0], b * y[1] * y[2], c * y[1] * y[1]
    return np.stack([two - one, one - two - three, three])


def robertson_slopes(t, y, a, b, c):
    return np.array([[-a, b * y[2], b * y[1]], [a, -b * y[2] - 2 * c * y[1], -b * y[1]], [0.0, 2 * c * y[1], 0.0]])


def exact(method, jac=slopes):
    """The option that lets SciPy take the Jacobian that tensors take."""
    return {"jac": jac} if method in ("BDF", "Radau") else {}


def same_counts(ours, theirs):
    assert (ours.nfev, ours.njev, ours.nlu) == (theirs.nfev, theirs.njev, theirs.nlu)
    assert (ours.status, ours.success, ours.message) == (theirs.status, theirs.success, theirs.message)


OPTIONS = [{}, {"rtol": 1e-7, "atol": 1e-9}, {"first_step": 0.3, "atol": [1e-3, 1e-8]}]


@pytest.mark.parametrize("method, options", [
    *(("DOP853", options) for options in OPTIONS),
    *(pytest.param(method, options, marks=pytest.mark.long) for method in ("BDF", "Radau") for options in OPTIONS),
])  # fmt: skip
def test_steps_of_scipy(method, options):
    for span, times in (((0.0, 3.0), TIMES), ((3.0, 0.0), None)):
        given = options | {"args": RATES, "t_eval": times, "dense_output": times is None} | exact(method)
        theirs = scipy.integrate.solve_ivp(lotka, span, Y0, method, **given)
        ours = mirrored.solve_ivp(lotka, span, leaf(Y0), method, **given)
        same_counts(ours, theirs)
        np.testing.assert_allclose(ours.t, theirs.t, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(plain(ours.y), theirs.y, rtol=1e-7)
        if times is None:
            at = np.linspace(*span, 13)
            np.testing.assert_allclose(plain(ours.sol(at)), theirs.sol(at), rtol=1e-7)


@pytest.mark.parametrize("method", LONG_OF_RADAU)
def test_derivatives_over_frozen_steps(method):
    # All steps are as large as they may be, at any parameters nearby, and no time is rounded: differences of SciPy's do not see them move.
    frozen = {"max_step": 0.0625, "first_step": 0.0625, "rtol": 1e-4 if method != "BDF" else 1e-3, "atol": 1e-4} | exact(method)

    def end(p, m=mirrored):
        found = m.solve_ivp(lotka, (p[0], p[1]), p[2:4], method, [0.17, 0.5], args=(p[4], p[5]), **frozen)
        return np.sum(found.y * np.array([[1.0, 2.0], [-1.0, 0.5]]))

    p = np.array([1 / 64, 0.6, *Y0, *RATES])
    gradient = tg.grad(end)(p)
    differences = [(end(p + d, scipy.integrate) - end(p - d, scipy.integrate)) * 2**12 for d in 2.0**-13 * np.eye(6)]
    # Newton's iterations of SciPy end where they may.
    np.testing.assert_allclose(gradient, differences, rtol=1e-6 if method in METHODS[:3] else 2e-3, atol=1e-6)
    np.testing.assert_allclose(tg.jacfwd(end)(p), gradient, rtol=1e-9)


@pytest.mark.parametrize("method", [METHODS[0], *LONG_OF_BOTH[3:]])
def test_second_derivatives(method):
    def end(p):
        return np.sum(mirrored.solve_ivp(lambda t, y, k: -k * y * y, (0, 1), p[:1], method, [1.0], args=(p[1],), rtol=1e-5).y)

    p = np.array([1.0, 0.7])
    gradient = tg.grad(end)
    # Steps move by less than the differences see.
    differences = [(gradient(p + d) - gradient(p - d)) / 2e-3 for d in 1e-3 * np.eye(2)]
    # y = y0 / (1 + k y0), at the end.
    y, k, q = *p, 1.0 / (1.0 + p[0] * p[1])
    expected = [[-2 * k * q**3, -2 * y * q**3], [-2 * y * q**3, 2 * y**3 * q**3]]
    np.testing.assert_allclose(differences, expected, rtol=0.02)
    np.testing.assert_allclose(tg.jacfwd(gradient)(p), expected, rtol=0.02)


@pytest.mark.parametrize("method", LONG_OF_BOTH)
def test_other_numbers_of_steps_are_replayed(method):
    def misfit(p):
        return np.sum(mirrored.solve_ivp(lotka, (0, 3), p[:2], method, TIMES, args=(p[2], p[3]), rtol=1e-4).y ** 2)

    gradient, steps = tg.jit(tg.grad(misfit)), set()
    for k in range(6 if method in METHODS[:3] else 3):
        p = np.array([*Y0, *RATES]) * (1 + 0.3 * np.sin(np.arange(4) + k))
        steps.add(scipy.integrate.solve_ivp(lotka, (0, 3), p[:2], method, args=(p[2], p[3]), rtol=1e-4).t.size)
        np.testing.assert_allclose(gradient(p), tg.grad(misfit)(p), rtol=1e-7)
    assert len(steps) > 1
    assert gradient.stats().records == 1


def test_a_step_that_overflows_has_no_part_in_the_derivative():
    def end(k):
        found = mirrored.solve_ivp(lambda t, y: -k * y * y * y, (0, 4), [1.0, 1.0], t_eval=[3.0, 4.0], first_step=4.0, rtol=1e-8, atol=1e-13)
        return found.y[0, 1]

    with np.errstate(all="ignore"):
        np.testing.assert_allclose(tg.grad(end)(1e9), -0.5 * 4 * 2 * (1 + 8e9) ** -1.5, rtol=1e-4)


# ---- stiff problems ----------------------------------------------------------------------


@pytest.mark.parametrize("method", LONG_OF_BOTH[3:])
def test_robertson(method):
    rates, options = np.array([0.04, 1e4, 3e7]), {"rtol": 1e-6, "atol": 1e-9}
    given = options | {"t_eval": [0.4, 40.0], "jac": robertson_slopes}
    theirs = scipy.integrate.solve_ivp(robertson, (0, 40), [1.0, 0.0, 0.0], method, args=tuple(rates), **given)
    ours = mirrored.solve_ivp(robertson, (0, 40), leaf([1.0, 0.0, 0.0]), method, args=tuple(rates), **given)
    same_counts(ours, theirs)
    np.testing.assert_allclose(plain(ours.y), theirs.y, rtol=1e-6)

    def end(scales, m=mirrored, method=method, **options):
        return m.solve_ivp(robertson, (0, 40), [1.0, 0.0, 0.0], method, [40.0], args=tuple(scales * rates), **options).y[:, -1]

    def sharp(scales):
        return end(scales, scipy.integrate, "Radau", rtol=1e-11, atol=1e-14)

    jacobian = tg.jacrev(lambda s: end(s, **options))(np.ones(3))
    expected = np.stack([(sharp(1 + d) - sharp(1 - d)) / 2e-4 for d in 1e-4 * np.eye(3)], axis=1)
    np.testing.assert_allclose(jacobian, expected, rtol=2e-3)
    np.testing.assert_allclose(tg.jacfwd(lambda s: end(s, **options))(np.ones(3)), jacobian, rtol=1e-7)


@pytest.mark.parametrize("method", LONG_OF_BOTH[3:])
def test_jacobians(method):
    matrix = np.array([[-3.0, 1.0], [0.5, -20.0]])
    given = {"t_eval": [1.0], "rtol": 1e-6}
    theirs = scipy.integrate.solve_ivp(lambda t, y: matrix @ y, (0, 1), Y0, method, jac=matrix, **given)
    for jac in (matrix, lambda t, y: matrix, None):
        ours = mirrored.solve_ivp(lambda t, y: matrix @ y, (0, 1), leaf(Y0), method, jac=jac, **given)
        np.testing.assert_allclose(plain(ours.y), theirs.y, rtol=1e-6)
        if jac is matrix:
            same_counts(ours, theirs)
    # The derivative is that of the equations, whatever Jacobian the iteration had.
    found = tg.jacrev(lambda y: mirrored.solve_ivp(lambda t, y: matrix @ y, (0, 1), y, method, jac=0.9 * matrix, **given).y[:, 0])(Y0)
    values, vectors = np.linalg.eig(matrix)
    np.testing.assert_allclose(found, vectors @ np.diag(np.exp(values)) @ np.linalg.inv(vectors), rtol=1e-4, atol=1e-5)


# ---- sparse Jacobians --------------------------------------------------------------------

BAR = np.sin(np.pi * np.linspace(0.0, 1.0, 24))
NEIGHBOURS = scipy.sparse.diags([np.ones(23), np.ones(24), np.ones(23)], [-1, 0, 1])


def heat(t, y, k):
    wide = np.concatenate([np.zeros(1), y, np.zeros(1)])
    return 3.0 * k * (wide[2:] - 2.0 * y + wide[:-2]) + k * np.sin(y)


def warmth(k, y0=BAR, method="BDF", fun=heat, m=mirrored, **options):
    """One number of the temperatures of a bar at two times."""
    return np.sum(m.solve_ivp(fun, (0.0, 0.3), y0, method, [0.1, 0.3], args=(k,), **options).y[:, -1] ** 2)


@pytest.fixture
def factored(monkeypatch):
    """The sizes of the sparse matrices that are factored, where patterns are looked for in small problems too."""
    sizes, splu = [], scipy.sparse.linalg.splu
    monkeypatch.setattr(scipy.sparse.linalg, "splu", lambda A, *args, **kwargs: sizes.append(A.shape[0]) or splu(A, *args, **kwargs))
    monkeypatch.setattr(newton, "LEAST", 8)
    return sizes


@pytest.mark.parametrize("method", LONG_OF_RADAU[3:])
def test_sparse_jacobians(method, factored, monkeypatch):
    def both(k):
        return tg.jit(tg.value_and_grad(lambda k, y0: warmth(k, y0, method), argnums=(0, 1)), kernel="never")(k, BAR)

    tg.value_and_grad(warmth)(1.3)  # a plain call looks for no pattern
    assert not factored
    found = both(1.3)
    assert {*factored} == ({24} if method == "BDF" else {24, 72})
    monkeypatch.setattr(newton, "LEAST", 25)
    factored.clear()
    dense = both(1.3)
    assert not factored
    np.testing.assert_allclose(found[0], dense[0], rtol=1e-13)
    for one, other in zip(found[1], dense[1]):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-13)
    differences = (warmth(1.301, method=method, m=scipy.integrate) - warmth(1.299, method=method, m=scipy.integrate)) / 2e-3
    np.testing.assert_allclose(found[1][0], differences, rtol=0.02)
    # What the user says of the pattern holds for any size.
    given = tg.grad(lambda k: warmth(k, method=method, jac_sparsity=NEIGHBOURS))(1.3)
    np.testing.assert_allclose(given, dense[1][0], rtol=1e-10)
    assert factored


def test_factors_of_a_sparse_jacobian_are_kept(factored):
    theirs = scipy.integrate.solve_ivp(heat, (0.0, 0.3), BAR, "BDF", args=(1.3,), jac=lambda t, y, k: tg.jacobian(heat, 1)(t, y, k))
    warmth(leaf(np.array(1.3)), jac_sparsity=NEIGHBOURS)
    # A step has several systems with two matrices: one for the iteration, which may be that of the step before, and one for the derivative.
    assert 0 < len(factored) <= 2 * theirs.t.size


@pytest.mark.long
def test_sparse_jacobians_in_recordings(factored):
    gradient = tg.jit(tg.grad(lambda k, y0: warmth(k, y0), argnums=1))
    for k, y0 in ((1.3, BAR), (1.4, 1.1 * BAR)):
        np.testing.assert_allclose(gradient(k, y0), tg.grad(warmth, argnums=1)(k, y0, jac_sparsity=NEIGHBOURS), rtol=1e-10)
    assert gradient.stats().records == 1
    # The slope holds its parameter.
    closed = tg.grad(lambda k: warmth(0.0, fun=lambda t, y, _: heat(t, y, k)))
    rows = np.array([1.3, 1.4])
    np.testing.assert_allclose(tg.vmap(closed)(rows), [closed(k) for k in rows], rtol=1e-10)
    assert factored


@pytest.mark.long
def test_second_derivatives_by_sparse_jacobians(factored):
    def sparse(k):
        return warmth(k, jac_sparsity=NEIGHBOURS)

    found = tg.hvp(sparse)(1.3, 1.0), tg.grad(tg.grad(sparse))(1.3)
    assert factored
    np.testing.assert_allclose(found, tg.hvp(warmth)(1.3, 1.0), rtol=1e-9)


def test_a_pattern_that_depends_on_values_is_not_used(factored):
    def fun(t, y, k):
        return heat(t, y, k) + (np.sum(y) if t > 0.2 else 0.0)

    found = tg.jit(tg.grad(lambda k: warmth(k, fun=fun)), kernel="never")(1.3)
    assert not factored
    one, other = (warmth(k, fun=fun, m=scipy.integrate, rtol=1e-6, atol=1e-9) for k in (1.301, 1.299))
    np.testing.assert_allclose(found, (one - other) / 2e-3, rtol=0.05)


def test_patterns_that_are_wrong():
    for method in ("BDF", "Radau"):
        with pytest.raises(ValueError, match=r"`jac_sparsity` is expected to have shape \(24, 24\), but actually has \(5, 5\)"):
            warmth(leaf(np.array(1.3)), method=method, jac_sparsity=np.eye(5))
        with pytest.raises(ValueError, match="`jac_sparsity` has no place for some entry"):
            warmth(leaf(np.array(1.3)), method=method, jac_sparsity=np.eye(24))


def test_jacobians_that_are_given_sparse(factored):
    jac = scipy.sparse.csc_array(-6.0 * np.eye(24) + 3.0 * (NEIGHBOURS.toarray() - np.eye(24)))
    expected = tg.grad(lambda k: warmth(k, jac=jac.toarray()))(1.0)
    np.testing.assert_allclose(tg.grad(lambda k: warmth(k, jac=jac))(1.0), expected, rtol=1e-12)
    assert {*factored} == {24}


# ---- events ------------------------------------------------------------------------------

GRAVITY = 9.81


def fall(t, y):
    return np.stack([y[1], -GRAVITY + 0.0 * y[0]])


def ground(t, y):
    return y[0]


def apex(t, y):
    return y[1]


ground.terminal, ground.direction = True, -1


@pytest.mark.parametrize("method", [METHODS[0], METHODS[2], LONG_OF_BOTH[3]])
def test_events_of_scipy(method):
    def falling(t, y):
        return y[0] - 0.5

    def rising(t, y):
        return y[0] - 0.7

    falling.direction, rising.direction = -1, 1
    again = lambda t, y: np.sin(3.0 * t)  # noqa: E731
    again.terminal = 3
    for times, events in ((None, [ground, apex, falling, rising]), ([0.1, 0.3, 0.9], ground), (None, again)):
        given = {"t_eval": times, "events": events, "max_step": 0.4, "dense_output": True}
        jac = {"jac": np.array([[0.0, 1.0], [0.0, 0.0]])} if method in ("BDF", "Radau") else {}
        theirs = scipy.integrate.solve_ivp(fall, (0, 3), [0.2, 3.5], method, **given, **jac)
        ours = mirrored.solve_ivp(fall, (0, 3), leaf([0.2, 3.5]), method, **given, **jac)
        same_counts(ours, theirs)
        assert ours.status == 1
        np.testing.assert_allclose(plain(ours.t), theirs.t, rtol=1e-9)
        np.testing.assert_allclose(plain(ours.y), theirs.y, rtol=1e-8, atol=1e-12)
        for mine, other in zip([*ours.t_events, *ours.y_events], [*theirs.t_events, *theirs.y_events], strict=True):
            np.testing.assert_allclose(plain(mine), other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", ["RK45", LONG_OF_RADAU[4]])
def test_derivative_of_the_time_of_an_event(method):
    def landing(h):
        start = np.stack([h, 0.0 * h])
        return mirrored.solve_ivp(fall, (0, 5), start, method, events=ground, rtol=1e-8, atol=1e-10).t_events[0][0]

    # t = sqrt(2 h / g), and its derivatives.
    root = (2.0 / GRAVITY) ** 0.5
    assert tg.grad(landing)(2.0) == pytest.approx(root / 2 / 2.0**0.5, rel=1e-7)
    assert tg.derivative(landing)(2.0) == pytest.approx(root / 2 / 2.0**0.5, rel=1e-7)
    assert tg.grad(tg.grad(landing))(2.0) == pytest.approx(-root / 4 / 2.0**1.5, rel=1e-6)


def test_a_ball_that_bounces():
    def second_landing(p):
        height, bounce = p[0], p[1]
        state, time = np.stack([height, 0.0 * height]), 0.0
        for _ in range(2):
            found = mirrored.solve_ivp(fall, (0, 9), state, events=ground, rtol=1e-8, atol=1e-10)
            time = time + found.t[-1]
            state = np.stack([0.0 * height, -bounce * found.y_events[0][0, 1]])
        return time

    p = np.array([2.0, 0.8])
    # sqrt(2 h / g) for the fall, and twice as long times the bounce for the flight.
    once = (2 * p[0] / GRAVITY) ** 0.5
    np.testing.assert_allclose(tg.grad(second_landing)(p), [once * 2.6 / 2 / p[0], 2 * once], rtol=1e-6)


def test_events_with_parameters():
    def level(t, y, k, c):
        return y[0] - c

    def when(p):
        return mirrored.solve_ivp(lambda t, y, k, c: -k * y, (0, 9), [1.0], "DOP853", events=level, args=(p[0], p[1]), rtol=1e-8).t_events[0][0]

    # exp(-k t) = c
    np.testing.assert_allclose(tg.grad(when)(np.array([0.7, 0.2])), [np.log(0.2) / 0.49, -1 / 0.14], rtol=2e-5)
    held = leaf(0.2)
    found = mirrored.solve_ivp(lambda t, y: -0.7 * y, (0, 9), [1.0], events=lambda t, y: y[0] - held, rtol=1e-8)
    found.t_events[0][0].backward()
    assert held.grad.item() == pytest.approx(-1 / 0.14, rel=2e-5)
    none = mirrored.solve_ivp(lambda t, y: -0.7 * y, (0, 1), leaf([1.0]), events=lambda t, y: y[0] + 1.0)
    assert none.status == 0 and [t.shape for t in none.t_events] == [(0,)]
    with pytest.raises(tg.errors.OptionError, match="terminal"):
        bad = lambda t, y: y[0]  # noqa: E731
        bad.terminal = -1
        mirrored.solve_ivp(lambda t, y: -y, (0, 1), leaf([1.0]), events=bad)


# ---- odeint, quad ------------------------------------------------------------------------


def test_odeint():
    def theirs(y, a, b, times):
        return scipy.integrate.odeint(lotka, y, times, (a, b), tfirst=True, rtol=1e-11, atol=1e-12)

    def ours(y, a, b, times):
        return mirrored.odeint(lambda y, t, a, b: lotka(t, y, a, b), y, times, (a, b))

    for times in (np.array([0.0, 0.0, 1.0, 2.5]), np.array([2.0, 1.0, 0.5])):
        np.testing.assert_allclose(plain(ours(leaf(Y0), *RATES, times)), theirs(Y0, *RATES, times), rtol=1e-6)
        jacobian = tg.jacrev(lambda p, times=times: ours(p[:2], p[2], p[3], times)[-1])(np.array([*Y0, *RATES]))
        p = np.array([*Y0, *RATES])
        differences = [(theirs(q[:2], *q[2:], times)[-1] - theirs(r[:2], *r[2:], times)[-1]) / 2e-4
                       for q, r in ((p + d, p - d) for d in 1e-4 * np.eye(4))]  # fmt: skip
        np.testing.assert_allclose(jacobian, np.transpose(differences), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(mirrored.odeint(lambda y, t: -y, [1.0], [0.0, 1.0]), scipy.integrate.odeint(lambda y, t: -y, [1.0], [0.0, 1.0]))
    np.testing.assert_array_equal(plain(mirrored.odeint(lambda y, t: -y, leaf(3.0), [1.0, 1.0])), [[3.0], [3.0]])
    with pytest.raises(tg.errors.UnsupportedFunctionError, match="full_output"):
        mirrored.odeint(lambda y, t: -y, leaf([1.0]), [0.0, 1.0], full_output=1)
    with pytest.raises(ValueError, match="monotonically"):
        mirrored.odeint(lambda y, t: -y, leaf([1.0]), [0.0, 1.0, 0.5])
    with np.errstate(all="ignore"), pytest.raises(tg.errors.ConvergenceError, match="spacing between numbers"):
        mirrored.odeint(lambda y, t: y * y, leaf([1.0]), [0.0, 2.0])


def test_quad_that_gives_up():
    scale = leaf(1.0)
    with pytest.warns(scipy.integrate.IntegrationWarning, match="subdivisions"):
        integral, error = mirrored.quad(lambda x: scale * np.abs(np.sin(40.0 * x)), 0.0, 3.0, limit=5)
    assert error > 1e-3 and abs(integral.item() - 1.9) < 0.3
    with pytest.raises(tg.errors.UnsupportedFunctionError, match="weight="):
        mirrored.quad(lambda x: scale * x, 0.0, 1.0, weight="cos", wvar=2.0)
    assert mirrored.quad(np.cos, 0.0, 1.0, weight="cos", wvar=2.0) == scipy.integrate.quad(np.cos, 0.0, 1.0, weight="cos", wvar=2.0)
    half, _ = mirrored.quad(lambda x: scale / np.sqrt(x), 0.0, 1.0, epsabs=1e-6, epsrel=0.0)
    half.backward()
    assert scale.grad.item() == pytest.approx(2.0, abs=1e-5)


@every("method", ["RK45", "BDF"])
def test_a_limit_of_steps(method):
    """An unbounded problem fails after so many attempts; one that needs fewer is not touched."""

    def solved(rate, **options):
        return mirrored.solve_ivp(lambda t, y: rate * y * (1.0 - y), (0.0, 8.0), np.array([0.1]), method=method, rtol=1e-6, **options)

    free, bounded, short = (solved(tg.tensor(1.0, requires_grad=True), **options) for options in ({}, {"max_steps": 10_000}, {"max_steps": 5}))
    assert free.success and bounded.success and bounded.message == free.message
    np.testing.assert_array_equal(np.asarray(bounded.y.detach()), np.asarray(free.y.detach()))
    assert (short.success, short.status, short.message) == (False, -1, "The limit of steps (max_steps) was reached.")
    assert 1 < short.t.shape[0] <= 6 and float(short.t[-1]) < 8.0
    plain = solved(1.0, max_steps=5)
    assert not plain.success and plain.t.shape == short.t.shape
    at = mirrored.solve_ivp(lambda t, y: tg.tensor(1.0, requires_grad=True) * y, (0.0, 8.0), np.ones(1), method=method, t_eval=[0.001, 7.0], max_steps=5, rtol=1e-9)
    assert not at.success and len(at.t) < 2
    g = tg.jit(tg.grad(lambda rate: solved(rate, max_steps=10_000).y[0, -1]))
    for rate in (1.0, 1.5, 1.0) if method == "RK45" else ():
        np.testing.assert_allclose(g(rate), tg.grad(lambda rate: solved(rate).y[0, -1])(rate), rtol=1e-10)
    with pytest.raises(ValueError, match="`max_steps` is a number of steps, not 0.5"):
        solved(tg.tensor(1.0), max_steps=0.5)
    with pytest.raises(ValueError, match="`max_steps` is for methods that choose their steps"):
        mirrored.solve_ivp(lambda t, y: -y, (0.0, 1.0), np.ones(1), method="RK4", max_step=0.1, max_steps=5)


def test_a_complex_start_is_refused():
    """SciPy's norms of complex errors, and so its steps, are others than those of the parts."""
    with pytest.raises(tg.errors.UnsupportedFunctionError, match="z.real and z.imag"):
        tg.grad(lambda k: np.abs(mirrored.solve_ivp(lambda t, y: -1j * k * y, (0.0, 1.0), np.array([1.0 + 0j])).y[0, -1]))(0.5)

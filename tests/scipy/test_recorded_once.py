"""A recording of a mirror holds for other numbers: what decides about steps and cases is guarded, not the numbers themselves."""

import numpy as np
import scipy.integrate

import tapegrad as tg
from tapegrad.scipy import integrate, interpolate, linalg, sparse, stats
from tapegrad.scipy.sparse.linalg import spsolve
from tests.every import every

A, X, K, Y = np.array([[1.0, 0.2], [0.3, 1.5]]), np.array([0.2, 0.3, 0.5]), np.arange(5.0), np.array([0.3, -1.0, 0.8, 2.0, 0.1])
TABLE = np.arange(36.0).reshape(6, 6) ** 1.5


def decay(s, **options):
    return integrate.solve_ivp(lambda t, y: -s * y, (0.0, 4.0), X, rtol=1e-8, **options)


def low(t, y):
    return y[0] - 0.05


def lowest(t, y):
    return y[0] - 0.05


lowest.terminal = True
CASES = {
    "expm": lambda s: np.sum(linalg.expm(A * s)), "pinv": lambda s: np.sum(linalg.pinv(A[:, :1] * s)),
    "dirichlet": lambda s: stats.dirichlet.logpdf(X, 10.0 * s * X), "wishart": lambda s: stats.wishart.logpdf(A @ A.T, 3.5 * s, A @ A.T * s),
    "cubic at": lambda s: interpolate.CubicSpline(K, Y)(1.01 * s), "cubic knots": lambda s: interpolate.CubicSpline(s * K, Y)(1.3),
    "cubic condition": lambda s: interpolate.CubicSpline(K, Y, bc_type=((1, s), (2, 0.5)))(1.3),
    "period": lambda s: interpolate.CubicSpline(K, [*Y[:4], Y[0]], bc_type="periodic")(1.3 + 3.0 * s),
    "inside": lambda s: interpolate.CubicSpline(K, Y, extrapolate=False)(0.5 * s), "integral": lambda s: interpolate.CubicSpline(K, Y).integrate(0.3, s),
    "pchip": lambda s: interpolate.PchipInterpolator(s * K, Y)(0.7 * s + 0.2), "bspline": lambda s: interpolate.make_interp_spline(K, Y)(0.9 * s),
    "table": lambda s: interpolate.RegularGridInterpolator((np.arange(6.0),) * 2, TABLE)(np.stack([s, 0.5 * s]))[0],
    "simpson": lambda s: integrate.simpson(Y * s, x=K * s), "event": lambda s: decay(s, events=low).t_events[0][0],
    "last event": lambda s: decay(s, events=lowest).t[-1], "dense": lambda s: np.sum(decay(s, dense_output=True).sol(np.array([0.3, 2.0]))),
    "fixed steps": lambda s: np.sum(integrate.solve_ivp(lambda t, y: -y, (0.0, s), X, method="RK4", max_step=0.1).y[:, -1]),
    "sparse": lambda s: np.sum(spsolve(sparse.csr_array((X * s, (np.arange(3), np.arange(3))), shape=(3, 3)), X)),
}  # fmt: skip


@every("name", sorted(CASES))
def test_under_jit(name):
    f = CASES[name]
    g = tg.jit(tg.grad(f))
    found = [g(1.01 + 0.003 * k) for k in range(6)]
    assert g.stats().records <= 2
    step = 1e-4
    np.testing.assert_allclose(found, [(f(1.01 + 0.003 * k + step) - f(1.01 + 0.003 * k - step)) / (2 * step) for k in range(6)], rtol=1e-4, atol=1e-7)


@every("name", ["expm", "cubic at", "cubic knots", "pchip", "dirichlet", "table"])
def test_under_vmap(name):
    f, points = CASES[name], 1.01 + 0.003 * np.arange(20.0)
    np.testing.assert_allclose(tg.vmap(f)(points), [f(point) for point in points], rtol=1e-12)
    np.testing.assert_allclose(tg.vmap(tg.grad(f))(points), [tg.grad(f)(point) for point in points], rtol=1e-10)


def test_a_number_that_cannot_be_is_refused_in_a_recording():
    g = tg.jit(tg.grad(lambda s: stats.dirichlet.logpdf(X, s * X)))
    assert np.isfinite(g(2.0))
    for call, match in (
        (lambda: g(-1.0), "must contain only|greater than 0|alpha"), (lambda: tg.grad(lambda s: interpolate.CubicSpline(s * K, Y)(0.3))(-1.0), "increasing"),
    ):  # fmt: skip
        with np.testing.assert_raises_regex(ValueError, match):
            call()


def test_times_of_a_solution_backwards_and_between_steps():
    ours = tg.vjp(lambda y: decay(1.0, dense_output=True).sol(np.array([3.0, 0.1, 0.1, 0.0, 4.0])) * np.sum(y), np.ones(1))[0]
    theirs = scipy.integrate.solve_ivp(lambda t, y: -y, (0.0, 4.0), X, rtol=1e-8, dense_output=True).sol([3.0, 0.1, 0.1, 0.0, 4.0])
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    back = tg.vjp(lambda y: integrate.solve_ivp(lambda t, y: -y, (4.0, 0.0), y, rtol=1e-8, dense_output=True).sol(np.array([3.0, 0.1])), X)[0]
    np.testing.assert_allclose(back, scipy.integrate.solve_ivp(lambda t, y: -y, (4.0, 0.0), X, rtol=1e-8, dense_output=True).sol([3.0, 0.1]), rtol=1e-12)

"""Second derivatives for SciPy's methods: exact, so that the way is that of Hessians by hand."""

import numpy as np
import pytest
import scipy.optimize
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint

import tapegrad as tg
from tests.optimize.problems import contained, rosenbrock

START = np.array([1.5, 0.5, 0.2])
PRODUCTS = ["Newton-CG", "trust-ncg", "trust-krylov"]
HESSIANS = ["dogleg", "trust-exact"]


@pytest.mark.parametrize("method", [*PRODUCTS, *HESSIANS])
def test_the_way_is_that_of_scipy_with_derivatives_by_hand(method):
    ours = tg.optimize.minimize(rosenbrock, START, method=method)
    by_hand = {"hessp": scipy.optimize.rosen_hess_prod} if method in PRODUCTS else {"hess": scipy.optimize.rosen_hess}
    theirs = scipy.optimize.minimize(scipy.optimize.rosen, START, jac=scipy.optimize.rosen_der, method=method, **by_hand)
    assert (ours.nit, ours.nfev) == (theirs.nit, theirs.nfev)
    np.testing.assert_allclose(ours.x, theirs.x, atol=1e-6)
    assert ours.counts["hessian_products" if method in PRODUCTS else "hessians"] > 0


@pytest.mark.parametrize("method", PRODUCTS)
def test_containers_and_further_arguments(method):
    f = lambda p, scale: scale * contained(p)  # noqa: E731
    result = tg.optimize.minimize(f, {"w": np.ones((2, 3)), "b": 0.0}, args=(2.0,), method=method, tol=1e-10)
    np.testing.assert_allclose(result.x["w"], np.arange(6.0).reshape(2, 3), atol=1e-6)


@pytest.mark.parametrize("n", [3, pytest.param(80, marks=pytest.mark.long)])
def test_trust_constr(n):
    x0 = np.full(n, 0.5)
    given = {"bounds": Bounds(-2.0, 0.9), "constraints": [LinearConstraint(np.ones((1, n)), -np.inf, 0.85 * n)]}
    ours = tg.optimize.minimize(rosenbrock, x0, method="trust-constr", **given)
    theirs = scipy.optimize.minimize(
        scipy.optimize.rosen, x0, jac=scipy.optimize.rosen_der, hess=scipy.optimize.rosen_hess, method="trust-constr", **given
    )
    # With a sparse Hessian sums are taken in another order, in hundreds of steps.
    assert abs(ours.nit - theirs.nit) <= (0 if n == 3 else 0.1 * theirs.nit)
    np.testing.assert_allclose(ours.x, theirs.x, atol=1e-5 if n == 3 else 1e-4)


def test_trust_constr_with_exact_curvature_of_constraints():
    def inside(x):
        return [np.sum(x**2), x[0] * x[1] ** 3]

    def jac(x):
        return np.array([2 * x, [x[1] ** 3, 3 * x[0] * x[1] ** 2, 0.0]])

    def hess(x, v):
        return v[0] * 2 * np.eye(3) + v[1] * np.array([[0, 3 * x[1] ** 2, 0], [3 * x[1] ** 2, 6 * x[0] * x[1], 0], [0, 0, 0]])

    limits = [-np.inf, -0.5], [1.0, 0.1]
    ours = tg.optimize.minimize(rosenbrock, START, method="trust-constr", constraints=NonlinearConstraint(inside, *limits))
    theirs = scipy.optimize.minimize(
        scipy.optimize.rosen, START, jac=scipy.optimize.rosen_der, hess=scipy.optimize.rosen_hess, method="trust-constr",
        constraints=NonlinearConstraint(inside, *limits, jac=jac, hess=hess),
    )  # fmt: skip
    assert ours.nit == theirs.nit
    np.testing.assert_allclose(ours.x, theirs.x, atol=1e-6)


def test_least_squares_with_a_sparse_jacobian():
    n = 300

    def chain(x):
        return [10.0 * (x[1:] - x[:-1] ** 2), 1.0 - x[:-1]]

    sparse = tg.optimize.least_squares(chain, np.full(n, 0.5), jac="sparse", tr_solver="lsmr")
    dense = tg.optimize.least_squares(chain, np.full(n, 0.5), tr_solver="lsmr")
    np.testing.assert_allclose(sparse.x, dense.x, atol=1e-8)
    assert sparse.jac.nnz <= 3 * n and not isinstance(sparse.jac, np.ndarray)
    # No dense one is made of it, not even to compare.
    assert sparse.counts["jacobians"] == 0 < dense.counts["jacobians"]


@pytest.mark.parametrize("method, name", [("Newton-CG", "hvp"), ("trust-exact", "hessian"), ("trust-constr", "hessian")])
def test_second_derivatives_are_recorded_as_the_function_is(method, name):
    """As the user says, or as an optimiser does by itself: by sweeps, until there have been many."""
    for given, kernels in (({"kernel": "never"}, 0), ({"kernel": "always"}, 1), (None, 0)):
        f = lambda x: rosenbrock(x)  # noqa: E731
        tg.optimize.minimize(f if given is None else tg.jit(f, **given), START, method=method, options={"maxiter": 5})
        (second,) = [made for (what, _), made in f.__tapegrad__.made.items() if what == name]
        assert (second.stats().kernels, second.stats().records) == (kernels, 1)

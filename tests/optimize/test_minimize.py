"""`minimize`: SciPy's methods, their gradients and constraints, and what is refused."""

import warnings

import numpy as np
import pytest
import scipy.optimize
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint

import tapegrad as tg
from tapegrad.common.errors import DtypeError, NonFiniteError, NonScalarOutputError, OptimizationError, StructureError
from tests.optimize.problems import CONTAINED, contained, rosenbrock
from tests.transforms.replay.agreement import Log

START = np.array([1.5, 0.5, 0.2])
LOOSE = {"Nelder-Mead", "COBYLA", "Powell", "TNC"}


@pytest.mark.parametrize("method", ["CG", "BFGS", "L-BFGS-B", "TNC", "SLSQP", "Nelder-Mead", "Powell", "COBYLA", "COBYQA", "lbfgs"])
def test_methods_reach_the_minimum(method):
    options = {"maxfun" if method == "TNC" else "maxiter": 20_000} if method in LOOSE else None
    result = tg.optimize.minimize(rosenbrock, START, method=method, options=options, tol=1e-4 if method == "COBYLA" else 1e-8)
    assert result.success, result.message
    np.testing.assert_allclose(result.x, 1.0, atol=0.25 if method == "COBYLA" else 2e-2 if method in LOOSE else 1e-4)
    assert result.fun == pytest.approx(rosenbrock(result.x))
    np.testing.assert_allclose(result.jac, scipy.optimize.rosen_der(result.x), atol=1e-9)


@pytest.mark.parametrize("method", ["CG", "BFGS", "L-BFGS-B", "SLSQP"])
def test_the_way_is_that_of_scipy_with_a_gradient_by_hand(method):
    ours = tg.optimize.minimize(rosenbrock, START, method=method)
    theirs = scipy.optimize.minimize(scipy.optimize.rosen, START, jac=scipy.optimize.rosen_der, method=method)
    assert (ours.nit, ours.nfev) == (theirs.nit, theirs.nfev)
    np.testing.assert_allclose(ours.x, theirs.x, atol=1e-7)


def test_one_evaluation_for_each_point():
    result = tg.optimize.minimize(rosenbrock, START, method="BFGS")
    assert result.counts["evaluations"] == len(result.history) <= result.nfev
    assert result.counts["records"] + result.counts["replays"] == result.counts["evaluations"]


def test_the_python_function_is_recorded_once_for_all_optimisations():
    calls = Log()

    def f(x):
        calls.append(1)
        return np.sum((x - 1.0) ** 4) + np.sum(x**2)

    tg.optimize.minimize(f, np.zeros(3))
    # To be recorded; at the first three evaluations and at the solution.
    assert len(calls) == 1 + 3 + 1
    for k in range(12):
        result = tg.optimize.minimize(f, np.zeros(3) + 0.1 * k, method="CG")
        assert result.counts["records"] == 0 and result.counts["runs"] == 1
    # At each solution.
    assert len(calls) == 5 + 12


def test_what_is_kept_follows_the_function_and_no_copy_of_its_attributes():
    import functools
    import pickle

    def f(x):
        return np.sum((x - 1.0) ** 2)

    tg.optimize.minimize(f, np.zeros(2))

    @functools.wraps(f)
    def other(x):
        return np.sum((x - 3.0) ** 2)

    np.testing.assert_allclose(tg.optimize.minimize(other, np.zeros(2)).x, 3.0, atol=1e-6)
    assert pickle.loads(pickle.dumps(f.__tapegrad__)).made == {}


def test_what_a_function_looks_at_may_change_between_optimisations():
    data = np.array([1.0, 2.0])
    f = lambda x: np.sum((x - data) ** 2)  # noqa: E731
    np.testing.assert_allclose(tg.optimize.minimize(f, np.zeros(2)).x, [1.0, 2.0], atol=1e-6)
    data[:] = 7.0
    np.testing.assert_allclose(tg.optimize.minimize(f, np.zeros(2)).x, 7.0, atol=1e-6)


def test_value_and_grad_brings_its_recordings():
    g = tg.jit(tg.value_and_grad(rosenbrock))
    g(START), g(START)
    for method in ("BFGS", "lbfgs"):
        assert tg.optimize.minimize(g, START, method=method).counts["records"] == 0
    with pytest.raises(StructureError, match="first argument"):
        tg.optimize.minimize(tg.value_and_grad(lambda a, x: a * x, argnums=1), START)


@pytest.mark.parametrize("method", [None, "lbfgs", "SLSQP", "Nelder-Mead"])
def test_containers(method):
    start = {"w": np.ones((2, 3)), "b": 0.0}
    result = tg.optimize.minimize(contained, start, method=method, options={"maxiter": 20_000}, tol=1e-9)
    np.testing.assert_allclose(result.x["w"], CONTAINED["w"], atol=1e-3)
    assert type(result.x["b"]) is float and result.jac["w"].shape == (2, 3)


def test_bounds_in_every_form():
    exact = scipy.optimize.minimize(scipy.optimize.rosen, START, jac=scipy.optimize.rosen_der, bounds=[(0, 0.5)] * 3).x
    for bounds in ([(0, 0.5)] * 3, Bounds(0, 0.5), Bounds([0] * 3, [0.5] * 3), ((0, 0.5),) * 3):
        for method in (None, "lbfgs", "SLSQP", "TNC"):
            result = tg.optimize.minimize(rosenbrock, START, bounds=bounds, method=method)
            np.testing.assert_allclose(result.x, exact, atol=1e-4)
    result = tg.optimize.minimize(contained, {"w": np.ones((2, 3)), "b": 0.0}, bounds=({"w": -1.0, "b": None}, {"w": 2.0, "b": 0.5}))
    assert result.x["w"].max() == 2.0 and result.x["b"] == 0.5


def test_constraints_in_every_form():
    def disc(x):
        return 1.0 - np.sum(x**2)

    exact = scipy.optimize.minimize(
        scipy.optimize.rosen, START, jac=scipy.optimize.rosen_der, method="SLSQP", tol=1e-12,
        constraints={"type": "ineq", "fun": disc, "jac": lambda x: -2 * x},
    ).x  # fmt: skip
    forms = [
        {"type": "ineq", "fun": disc},
        [{"type": "ineq", "fun": lambda x, r: r - np.sum(x**2), "args": (1.0,)}],
        {"type": "ineq", "fun": disc, "jac": lambda x: -2 * x},
        NonlinearConstraint(disc, 0, np.inf),
        NonlinearConstraint(lambda x: [np.sum(x**2), x[0]], [-np.inf, -5], [1, 5]),
        (NonlinearConstraint(disc, 0, np.inf), LinearConstraint(np.eye(3), -5, 5)),
    ]
    for constraints in forms:
        result = tg.optimize.minimize(rosenbrock, START, constraints=constraints, tol=1e-10)
        assert result.success
        np.testing.assert_allclose(result.x, exact, atol=1e-5)


def test_counts_name_constraints_as_messages_do():
    constraints = [LinearConstraint(np.eye(3), -5, 5), {"type": "ineq", "fun": lambda x: 1.0 - np.sum(x**2)}]
    counts = tg.optimize.minimize(rosenbrock, START, constraints=constraints).counts
    assert [name for name in counts if name.startswith("constraint")] == ["constraint 1"]


def test_the_constraint_is_recorded_and_its_jacobian_exact():
    calls = Log()

    def equal(p):
        calls.append(1)
        return [p["w"][0, 0] - p["b"], np.sum(p["w"]) - 3.0]

    result = tg.optimize.minimize(contained, {"w": np.ones((2, 3)), "b": 0.0}, constraints={"type": "eq", "fun": equal})
    assert result.success and len(calls) < 8
    assert result.x["w"][0, 0] == pytest.approx(result.x["b"]) and np.sum(result.x["w"]) == pytest.approx(3.0)


def test_callbacks_as_in_scipy():
    seen = []
    tg.optimize.minimize(contained, {"w": np.ones((2, 3)), "b": 0.0}, callback=lambda p: seen.append(p["w"].shape))
    assert seen and set(seen) == {(2, 3)}

    def whole(intermediate_result):
        seen.append(intermediate_result.fun)

    tg.optimize.minimize(rosenbrock, START, callback=whole)
    assert seen[-1] < 1e-6

    def stop(x):
        raise StopIteration

    assert tg.optimize.minimize(rosenbrock, START, callback=stop).nit == 1
    assert tg.optimize.minimize(rosenbrock, START, callback=lambda x: True).nit == 1


def test_numbers_that_are_none():
    with pytest.raises(NonFiniteError, match=r"log at .*test_minimize.py:\d+.*gave -inf"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tg.optimize.minimize(lambda x: np.sum(np.log(x)), [1.0, 0.0])
    # SciPy's Nelder-Mead steps back from infinity.
    f = lambda x: np.sum(x) - np.sum(np.log(np.where(x > 0, x, 0.0)))  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = tg.optimize.minimize(f, [0.1, 5.0], method="Nelder-Mead", nonfinite="pass")
    np.testing.assert_allclose(result.x, 1.0, atol=1e-3)


def _likelihood(p, y):
    return np.sum(np.log(p[1]) + 0.5 * ((y - p[0]) / p[1]) ** 2)


@pytest.mark.parametrize("method", ["CG", "BFGS", "SLSQP", "Newton-CG", "trust-ncg", "trust-krylov", "trust-exact", "trust-constr", "Nelder-Mead"])
def test_a_step_out_of_the_domain_is_shortened(method):
    y = np.random.default_rng(0).normal(1.0, 0.5, 100)
    missed = 0
    for start in ([0.0, 0.2], [0.0, 3.0], [0.0, 5.0]):
        result = tg.optimize.minimize(_likelihood, start, (y,), method=method)
        assert result.success, result.message
        np.testing.assert_allclose(result.x, [y.mean(), y.std()], rtol=1e-4)
        missed += np.isinf(result.history[:, 0]).sum()
    assert missed


def test_a_step_out_of_the_domain_that_cannot_be_shortened_is_named():
    with pytest.raises(NonFiniteError, match=r'the value is nan at x = .*log at .*test_minimize.py.*; method="lbfgs" steps back from such points'):
        tg.optimize.minimize(_likelihood, [0.0, 3.0], (np.random.default_rng(0).normal(1.0, 0.5, 100),), method="L-BFGS-B")
    result = tg.optimize.minimize(lambda x: np.sqrt(x[0]) + x[0], [0.1], method="BFGS")
    assert not result.success and np.isfinite(result.fun)
    assert "a step was shortened because the value is nan at x = [" in result.message and "sqrt at" in result.message


def test_options_of_the_loops_have_scipys_names_too():
    assert tg.optimize.minimize(rosenbrock, START, method="lbfgs", options={"maxiter": 3}).nit == 3
    with pytest.raises(OptimizationError, match="adam has no option 'rate'; it has learning_rate, beta1"):
        tg.optimize.minimize(rosenbrock, START, method="adam", options={"rate": 3})


@pytest.mark.parametrize(
    "error, message, given",
    [
        (DtypeError, r"x0 is an array of int64, .*\.astype\(float\)", {"x0": np.array([1, 2])}),
        (DtypeError, "x0 has dtype complex256", {"x0": np.array([1j, 2], np.clongdouble)}),
        (OptimizationError, r"x0\['a'\]\[1\] is nan", {"x0": {"a": np.array([1.0, np.nan])}}),
        (OptimizationError, "nothing to optimise", {"x0": np.zeros(0)}),
        (StructureError, r"x0\[1\] is of type str", {"x0": [1.0, "a"]}),
        (StructureError, "different lengths", {"x0": [[1.0], [1.0, 2.0]]}),
        (OptimizationError, "method='newton' is not known; choose one of CG, BFGS", {"method": "newton"}),
        (OptimizationError, "BFGS takes no bounds; methods that do: adam, COBYLA", {"method": "BFGS", "bounds": [(0, 1)] * 2}),
        (OptimizationError, r"do not fit x0 of 2 numbers", {"bounds": [(0, 1)]}),
        (OptimizationError, r"bounds of x0\[1\]: the lower one, 3.0, is above", {"bounds": [(0, 1), (3, 2)]}),
        (OptimizationError, "CG takes no constraints; methods that do: COBYLA", {"method": "CG", "constraints": {"type": "eq"}}),
        (OptimizationError, 'constraint 0: give {"type"', {"constraints": {"type": "=", "fun": rosenbrock}}),
        (OptimizationError, "constraint 0 is of type int", {"constraints": [3]}),
        (OptimizationError, 'choose "raise" or "pass"', {"nonfinite": "ignore"}),
        (StructureError, "expected a function to minimise, got int", {"f": 3}),
        (NonScalarOutputError, "array of shape", {"f": lambda x: x}),
        (ValueError, "give True, False or None", {"progress": "yes"}),
    ],
)
def test_refused(error, message, given):
    with pytest.raises(error, match=message):
        tg.optimize.minimize(**{"f": rosenbrock, "x0": [0.5, 0.5], **given})


def test_a_start_from_a_recording():
    """It is no constant of the recording: another start may lead to another minimum."""

    def nearest(start):
        return tg.optimize.minimize(lambda x: np.sum(np.sin(x)), start).x

    replayed = tg.jit(nearest)
    for start in (1.0, 6.0, 12.0, 18.0):
        assert replayed(start) == nearest(start)
        np.testing.assert_array_equal(replayed(np.array([start, 1.0])), nearest(np.array([start, 1.0])))
    assert tg.grad(nearest)(6.0) == 0.0 == tg.derivative(nearest)(6.0)

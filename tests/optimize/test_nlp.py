"""`nlp`: constrained problems by IPOPT, from each package that has it, and trust-constr; and what `minimize` chooses."""

import os
import signal

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import MissingPackageError, NonFiniteError, OptimizationError, StructureError
from tapegrad.optimize import ipopt
from tapegrad.optimize.nlp import Entries, Grown
from tests.transforms.replay.agreement import Log

methods = pytest.mark.parametrize("method", ["cyipopt", "casadi", "trust-constr"], indirect=True)
with_ipopt = pytest.mark.parametrize("method", ["cyipopt", "casadi"], indirect=True)


@pytest.fixture
def method(request, monkeypatch):
    """The name of a method, with IPOPT from one of the packages that have it."""
    if request.param == "trust-constr":
        return "trust-constr"
    pytest.importorskip(request.param)
    monkeypatch.setattr(ipopt, "package", lambda: request.param)
    return "ipopt"


#: How near to a solution they end: trust-constr keeps away from limits by its barrier.
NEAR = {"ipopt": 1e-4, "trust-constr": 5e-3}


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def stationarity(result, functions, bounded=True):
    """The gradient of the Lagrangian at a solution that is a vector."""
    total = np.array(result.jac)
    for function, multipliers in zip(functions, result.multipliers, strict=True):
        jacobian = np.atleast_2d(tg.jacobian(function)(result.x))
        total = total + np.ravel(multipliers) @ jacobian.reshape(-1, len(total))
    return total + result.bound_multipliers


# Of W. Hock, K. Schittkowski, "Test examples for nonlinear programming codes", 1981: number, objective, start, constraints, bounds, the least value.
PROBLEMS = {
    6: (lambda x: (1 - x[0]) ** 2, [-1.2, 1.0], [(lambda x: 10 * (x[1] - x[0] ** 2), 0.0, 0.0)], None, 0.0),
    10: (lambda x: x[0] - x[1], [-10.0, 10.0], [(lambda x: -3 * x[0] ** 2 + 2 * x[0] * x[1] - x[1] ** 2 + 1, 0.0, None)], None, -1.0),
    26: (lambda x: (x[0] - x[1]) ** 2 + (x[1] - x[2]) ** 4, [-2.6, 2.0, 2.0], [(lambda x: (1 + x[1] ** 2) * x[0] + x[2] ** 4 - 3, 0.0, 0.0)], None, 0.0),
    35: (
        lambda x: 9 - 8 * x[0] - 6 * x[1] - 4 * x[2] + 2 * x[0] ** 2 + 2 * x[1] ** 2 + x[2] ** 2 + 2 * x[0] * x[1] + 2 * x[0] * x[2],
        [0.5, 0.5, 0.5], [(lambda x: 3 - x[0] - x[1] - 2 * x[2], 0.0, None)], (0.0, None), 1 / 9,
    ),
    39: (lambda x: -x[0], [2.0] * 4, [(lambda x: np.stack([x[1] - x[0] ** 3 - x[2] ** 2, x[0] ** 2 - x[1] - x[3] ** 2]), 0.0, 0.0)], None, -1.0),
    71: (
        lambda x: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2], [1.0, 5.0, 5.0, 1.0],
        [(np.prod, 25.0, None), (lambda x: np.sum(x**2), 40.0, 40.0)], (1.0, 5.0), 17.0140173,
    ),
}  # fmt: skip


@methods
@pytest.mark.parametrize("number", PROBLEMS)
def test_problems_whose_solutions_are_known(number, method):
    objective, start, constraints, bounds, least = PROBLEMS[number]
    found = tg.optimize.nlp(objective, start, constraints, bounds, method=method)
    assert found.success and found.method == method and found.constr_violation < 1e-6, found.message
    assert found.fun == pytest.approx(least, abs=NEAR[method])
    np.testing.assert_allclose(stationarity(found, [g for g, _, _ in constraints]), 0.0, atol=2e-3)


@methods
def test_containers_further_arguments_and_multipliers_in_their_place(method):
    def objective(p, centre):
        return (p["a"] - centre) ** 2 + np.sum((p["b"] - 2.0 * centre) ** 2)

    def inside(p, centre):
        return {"sum": p["a"] + p["b"][0], "each": p["b"]}

    found = tg.optimize.nlp(
        objective, {"a": 0.0, "b": np.zeros(2)}, [(inside, {"sum": None, "each": 0.5}, {"sum": 1.5, "each": None})],
        ({"a": None, "b": 0.0}, {"a": 0.25, "b": 9.0}), args=(1.0,), method=method,
    )  # fmt: skip
    assert found.success, found.message
    assert found.x["a"] == pytest.approx(0.25, abs=NEAR[method]) and found.x["b"] == pytest.approx([1.25, 2.0], abs=NEAR[method])
    # 2 (0.25 - 1) + l = 0 and 2 (1.25 - 2) + l = 0: what holds `a` is the sum, and its bound has no part in it.
    assert found.multipliers[0]["sum"] == pytest.approx(1.5, abs=1e-2) and found.multipliers[0]["each"] == pytest.approx([0.0, 0.0], abs=1e-2)
    assert found.bound_multipliers["a"] == pytest.approx(0.0, abs=1e-2) and set(found.jac) == {"a", "b"}


@methods
@pytest.mark.parametrize("ends", [lambda z: [z[0], z[1] * z[1]], lambda z: (z[0], z[1] * z[1]), lambda z: [[z[0]], [z[1] * z[1]]]], ids=["list", "tuple", "nested"])
def test_numbers_in_a_list_are_an_array(ends, method):
    found = tg.optimize.nlp(lambda z: np.sum(z**2), np.ones(3), [(ends, 1.0, 1.0)], method=method)
    # 2 z0 + l0 = 0, 2 z1 + 2 z1 l1 = 0
    assert found.success and found.x == pytest.approx([1.0, 1.0, 0.0], abs=NEAR[method])
    assert np.ravel(found.multipliers[0]) == pytest.approx([-2.0, -1.0], abs=1e-2)


@methods
def test_an_active_bound_has_a_multiplier(method):
    found = tg.optimize.nlp(lambda x: np.sum((x - 3.0) ** 2), np.zeros(3), bounds=(None, [1.0, 4.0, 2.0]), method=method)
    np.testing.assert_allclose(found.x, [1.0, 3.0, 2.0], atol=1e-3)
    np.testing.assert_allclose(found.bound_multipliers, [4.0, 0.0, 2.0], atol=1e-2)
    assert found.multipliers == []


@methods
def test_a_path_with_another_pattern_leaves_no_entry_out(method):
    def objective(x):
        # Value and slope are continuous; the second variable takes part on one side only.
        return np.sum((x - 2.0) ** 2) + (((x[0] - 1.0) * (x[0] - 1.0)) * x[1] if x[0] > 1.0 else 0.0)

    def inside(x):
        return x[0] + (x[2] * (x[0] - 1.0) ** 2 if x[0] > 1.0 else 0.0)

    found = tg.optimize.nlp(objective, np.zeros(3), [(inside, None, 1.8)], method=method)
    assert found.success and found.x[0] > 1.0, found.message
    np.testing.assert_allclose(stationarity(found, [inside]), 0.0, atol=1e-3)


@methods
def test_what_cannot_be_recorded_has_whole_matrices(method):
    def objective(x):
        return np.sum((x - 1.0) ** 2) if np.all(np.isfinite(x.numpy() if isinstance(x, np.ndarray) else x.detach().numpy())) else np.sum(x)

    found = tg.optimize.nlp(objective, np.zeros(3), [(lambda x: x[0] + x[1], None, 1.0)], method=method)
    np.testing.assert_allclose(found.x, [0.5, 0.5, 1.0], atol=NEAR[method])


@methods
def test_exceptions_and_interruptions_come_through(method, interruptible):
    class Mine(Exception):
        pass

    def raising(error):
        seen = Log()

        def inside(x):
            seen.append(1)
            if len(seen) > 1 and x[0] > 0.2:
                error()
            return x[0] + x[1]

        return inside

    def mine():
        raise Mine("as it was")

    with pytest.raises(Mine, match="as it was"):
        tg.optimize.nlp(rosenbrock, [-1.0, 1.0], [(raising(mine), None, 3.0)], method=method)
    with pytest.raises(KeyboardInterrupt):
        tg.optimize.nlp(rosenbrock, [-1.0, 1.0], [(raising(lambda: os.kill(os.getpid(), signal.SIGINT)), None, 3.0)], method=method)
    assert tg.optimize.nlp(rosenbrock, [-1.0, 1.0], method=method).fun < 1e-6


@methods
def test_what_is_recorded_serves_the_next_problem(method):
    runs = Log()

    def inside(x):
        runs.append(1)
        return np.sum(x**2)

    tg.optimize.nlp(rosenbrock, np.zeros(4), [(inside, None, 2.0)], method=method)
    first = len(runs)
    tg.optimize.nlp(rosenbrock, np.full(4, 0.3), [(inside, None, 2.0)], method=method)
    # At the first evaluations, and at the solution.
    assert len(runs) - first <= 5


@methods
def test_what_contradicts_itself_is_not_solved(method):
    found = tg.optimize.nlp(lambda x: np.sum(x**2), [1.0, 1.0], [(np.sum, 3.0, None), (np.sum, None, 1.0)], method=method)
    assert not found.success and found.constr_violation > 0.5


@methods
def test_what_cannot_be_is_said_before_anything_runs(method):
    def solve(*args, **more):
        return tg.optimize.nlp(*args, method=method, **more)

    start = np.zeros(2)
    for match, call in {
        "constraint 0: no number is at least 1.0 and at most 0.0": lambda: solve(rosenbrock, start, [(np.sum, 1.0, 0.0)]),
        r"constraint 0 is \[\[\*, \*\], \[\*\]\]: rows of different lengths": lambda: solve(rosenbrock, start, [(lambda x: [[x[0], x[1]], [x[0]]], 0.0, None)]),
        "give a list": lambda: solve(rosenbrock, start, (np.sum, 1.0, 2.0)),
        r"constraint 1 is \(1.0,\)": lambda: solve(rosenbrock, start, [(np.sum, 1.0, 2.0), (1.0,)]),
        r"the lower limit of constraint 0 has the shape \(3,\)": lambda: solve(rosenbrock, start, [(lambda x: x, np.ones(3), None)]),
        r"bounds of x0\[0\]": lambda: solve(rosenbrock, start, bounds=(1.0, 0.0)),
        "'sqp'": lambda: tg.optimize.nlp(rosenbrock, start, method="sqp"),
    }.items():
        with pytest.raises((OptimizationError, StructureError), match=match):
            call()
    with np.errstate(all="ignore"):
        with pytest.raises(NonFiniteError, match=r"(?s)number 0 of constraint 0 is -inf: log at .*test_nlp.py"):
            solve(rosenbrock, start, [(lambda x: np.log(x), 0.0, None)])
        with pytest.raises(NonFiniteError, match=r"(?s)log at .*test_nlp.py"):
            solve(lambda x: np.log(x[0]), start)


@with_ipopt
def test_ipopt_begins_where_it_has_ended(method):
    constraints = [(lambda x: x[1:] * x[:-1], None, 0.8)]
    first = tg.optimize.nlp(rosenbrock, np.zeros(20), constraints, method="ipopt")
    second = tg.optimize.nlp(rosenbrock, first, constraints, method="ipopt")
    assert first.nit > 5 and second.nit <= 2 and second.fun == pytest.approx(first.fun, rel=1e-7)
    with pytest.raises(OptimizationError, match="19 multipliers, but there are 1 constraints"):
        tg.optimize.nlp(rosenbrock, first, [(np.sum, None, 1.0)], method="ipopt")
    limited = tg.optimize.nlp(rosenbrock, np.zeros(20), constraints, method="ipopt", options={"max_iter": 2})
    assert not limited.success and "max_iter" in limited.message and limited.nit == 2


def test_without_ipopt_trust_constr_is_taken(monkeypatch):
    monkeypatch.setattr(ipopt, "package", lambda: None)
    found = tg.optimize.nlp(rosenbrock, np.zeros(3))
    assert found.method == "trust-constr" and "tapegrad[nlp]" in found.chosen
    with pytest.raises(MissingPackageError, match=r"tapegrad\[nlp\]"):
        tg.optimize.nlp(rosenbrock, np.zeros(3), method="ipopt")


def test_minimize_takes_no_dense_method_for_many_variables():
    def inside(x):
        return x[1:] * x[:-1] - 0.5

    few = tg.optimize.minimize(rosenbrock, np.zeros(10), constraints={"type": "ineq", "fun": inside})
    many = tg.optimize.minimize(lambda x: np.sum((x - 1.0) ** 2), np.zeros(400), constraints={"type": "eq", "fun": lambda x: x[1:] - 0.5 * x[:-1]})
    assert few.method == "SLSQP" and "10 variables" in few.chosen
    assert many.method == "trust-constr" and "400 variables" in many.chosen and many.success
    ratios = 0.5 ** np.arange(400)
    np.testing.assert_allclose(many.x, np.sum(ratios) / np.sum(ratios**2) * ratios, atol=1e-6)
    asked = tg.optimize.minimize(rosenbrock, np.zeros(3), method="BFGS")
    assert (asked.method, asked.chosen) == ("BFGS", "it was asked for")


def test_entries_grow_and_are_put_in_their_place():
    from scipy.sparse import csr_array

    entries = Entries(3)
    parts = [csr_array([[0.0, 1.0], [2.0, 0.0]]), csr_array([[3.0, 4.0]])]
    for offset, part in zip((0, 2), parts):
        with pytest.raises(Grown):
            entries.add(np.zeros(0), "f", part, offset)
    values = np.zeros(len(entries.keys))
    entries.add(values, "first", parts[0])
    entries.add(values, "second", parts[1], 2, 10.0)
    assert entries.keys.tolist() == [1, 2, 3, 5] and values.tolist() == [2.0, 30.0, 1.0, 40.0]

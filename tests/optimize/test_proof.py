"""Optimisers record their objective: what a recording would freeze is found out, run plainly to the end, and said."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import NonFiniteError
from tapegrad.optimize.layout import Layout
from tapegrad.optimize.proof import DIFFERS, EVALUATIONS, FIRST, same
from tapegrad.optimize.vector_function import VectorFunction
from tapegrad.transforms.replay.answers import Outcome
from tests.transforms.replay.agreement import quiet

TARGET = np.array([1.0, -2.0, 0.5])
LOOPS = {
    "lbfgs": lambda f, x0, **options: tg.optimize.lbfgs(f, x0, **options),
    "gradient_descent": lambda f, x0, **options: tg.optimize.gradient_descent(f, x0, learning_rate=0.03, **options),
    "adam": lambda f, x0, **options: tg.optimize.adam(f, x0, learning_rate=0.2, **options),
}
METHODS = {
    **LOOPS,
    **{name: lambda f, x0, name=name, **options: tg.optimize.minimize(f, x0, method=name, **options)
       for name in ("BFGS", "CG", "L-BFGS-B", "trust-constr", "Newton-CG")},
}  # fmt: skip
EACH = pytest.mark.parametrize("method", METHODS)


class Calls:
    """Runs; an object of which a recorded function is looked at as one."""

    number = 0


def sources(tmp_path):
    """(name, what gives another positive number of about 1 at each run)."""
    rng, calls, path = np.random.default_rng(0), Calls(), tmp_path / "count"
    path.write_text("0")

    def counter():
        calls.number += 1
        return 1.0 + 0.1 * (calls.number % 3)

    def read():
        count = int(path.read_text())
        path.write_text(str(count + 1))
        return 1.0 + 0.1 * (count % 3)

    return {"random minibatch": lambda: rng.uniform(0.9, 1.1), "counter": counter, "file": read}


@EACH
def test_a_function_that_does_not_change_is_run_a_few_times(method):
    calls = Calls()

    def f(x):
        calls.number += 1
        return np.sum((x - TARGET) ** 2) + np.sum((x - TARGET) ** 4)

    result = METHODS[method](f, np.zeros(3))
    np.testing.assert_allclose(result.x, TARGET, atol=1e-3)
    assert DIFFERS not in result.message and result.counts["records"] == 1
    # The first evaluations and the solution; Newton-CG has a recording for its Hessian.
    assert result.counts["runs"] == FIRST + 1 and calls.number <= result.counts["runs"] + 1 + 2 * (method in ("Newton-CG", "trust-constr"))
    assert result.counts["replays"] >= result.counts["evaluations"] - 1


@pytest.mark.parametrize("source", ["random minibatch", "counter", "file"])
@pytest.mark.parametrize("method", LOOPS)
def test_what_changes_at_every_run_is_run_at_every_evaluation(method, source, tmp_path):
    factor, calls = sources(tmp_path)[source], Calls()

    def f(x):
        calls.number += 1
        return factor() * np.sum((x - TARGET) ** 2)

    with quiet() as warned:
        result = LOOPS[method](f, np.zeros(3), max_iter=150, gtol=1e-9)
    assert result.message.endswith(DIFFERS) and not warned
    # From the second evaluation on there is nothing but plain runs.
    assert result.counts["runs"] >= result.counts["evaluations"] - 1 and result.counts["records"] == 1
    assert calls.number == result.counts["runs"] + result.counts["records"]
    np.testing.assert_allclose(result.x, TARGET, atol=0.1)


def test_by_a_method_of_scipy(tmp_path):
    for source, factor in sources(tmp_path).items():
        calls = Calls()

        def f(x, factor=factor, calls=calls):
            calls.number += 1
            return factor() * np.sum((x - TARGET) ** 2)

        result = tg.optimize.minimize(f, np.zeros(3), method="BFGS", options={"maxiter": 20})
        assert result.message.endswith(DIFFERS), source
        assert result.counts["runs"] >= result.counts["evaluations"] - 1 and calls.number == result.counts["runs"] + 1


@pytest.mark.parametrize("solver", ["least_squares", "root"])
def test_residuals_and_equations(solver, tmp_path):
    for source, factor in sources(tmp_path).items():
        calls = Calls()

        def residuals(x, factor=factor, calls=calls):
            calls.number += 1
            return factor() * (x - TARGET) * np.exp(0.1 * x)

        result = getattr(tg.optimize, solver)(residuals, np.zeros(3))
        assert result.message.endswith(DIFFERS), source
        np.testing.assert_allclose(result.x, TARGET, atol=1e-4)
        assert calls.number >= result.nfev

    calls = Calls()

    def steady(x):
        calls.number += 1
        return (x - TARGET) * np.exp(0.1 * x)

    result = getattr(tg.optimize, solver)(steady, np.zeros(3))
    assert DIFFERS not in result.message and result.counts["records"] == 1 and calls.number <= FIRST + 2
    np.testing.assert_allclose(result.x, TARGET, atol=1e-6)


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("trust-constr", "Newton-CG")])
def test_what_changes_after_the_first_evaluations_is_found_at_the_solution(method):
    """The first minimum is that of the recording; from there the function is run."""
    calls = Calls()

    def f(x):
        calls.number += 1
        # Recorded, and run at the first evaluations; then the data are others.
        shift = 0.0 if calls.number <= 1 + FIRST else 3.0
        return np.sum((x - TARGET - shift) ** 2)

    result = METHODS[method](f, np.zeros(3))
    assert result.message.endswith(DIFFERS)
    np.testing.assert_allclose(result.x, TARGET + 3.0, atol=1e-2)
    assert calls.number > FIRST + 3


@pytest.mark.parametrize("solver", ["least_squares", "root"])
def test_residuals_that_change_after_the_first_evaluations(solver):
    calls = Calls()

    def residuals(x):
        calls.number += 1
        return (x - TARGET - (0.0 if calls.number <= 1 + FIRST else 3.0)) * np.exp(0.1 * x)

    result = getattr(tg.optimize, solver)(residuals, np.zeros(3))
    assert result.message.endswith(DIFFERS)
    np.testing.assert_allclose(result.x, TARGET + 3.0, atol=1e-5)


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("trust-constr", "Newton-CG")])
def test_a_value_that_is_the_same_by_chance(method):
    """At the minimum of what was recorded the function has the recorded value, and another gradient."""
    calls = Calls()

    def f(x):
        calls.number += 1
        # Recorded, and compared at the only evaluation; then comes the solution.
        tilt = 0.0 if calls.number <= 2 else 0.5
        return np.sum((x - TARGET) ** 2) + tilt * np.sum(x - TARGET)

    result = METHODS[method](f, TARGET.copy())
    assert result.message.endswith(DIFFERS)
    np.testing.assert_allclose(result.x, TARGET - 0.25, atol=1e-3)


def test_a_model_that_changes_after_the_first_evaluations():
    calls, t = Calls(), np.linspace(0.0, 1.0, 20)

    def model(t, a, b):
        calls.number += 1
        return a * np.exp(b * t) + (0.0 if calls.number <= 1 + FIRST else 3.0)

    popt, _ = tg.optimize.curve_fit(model, t, 2.0 * np.exp(0.5 * t) + 3.0, p0=[3.0, 0.1])
    np.testing.assert_allclose(popt, [2.0, 0.5], rtol=1e-6)


def test_a_constraint_that_changes_after_the_first_evaluations():
    calls = Calls()

    def at_most(x):
        calls.number += 1
        return (1.0 if calls.number <= 1 + FIRST else 2.0) - np.sum(x)

    f = lambda x: np.sum((x - 2.0) ** 2) + np.sum((x - 2.0) ** 4)  # noqa: E731
    result = tg.optimize.minimize(f, np.zeros(2), constraints={"type": "ineq", "fun": at_most})
    np.testing.assert_allclose(result.x, 1.0, atol=1e-6)
    assert result.message.endswith(DIFFERS)


def test_residuals_that_are_the_same_by_chance():
    calls = Calls()

    def residuals(x):
        calls.number += 1
        # Recorded, and compared when values and Jacobian are asked for; then comes the solution.
        return [x[0] - 1.0, (0.0 if calls.number <= 3 else 1.0) * (x[1] - x[0] + 1.0) + 1.0, x[1]]

    result = tg.optimize.least_squares(residuals, np.array([1.0, 0.0]))
    assert result.message.endswith(DIFFERS)
    x = np.linalg.lstsq(np.array([[1.0, 0.0], [-1.0, 1.0], [0.0, 1.0]]), np.array([1.0, -2.0, 0.0]))[0]
    np.testing.assert_allclose(result.x, x, atol=1e-6)


@pytest.mark.parametrize("optimise", [tg.optimize.lbfgs, tg.optimize.minimize, tg.optimize.least_squares])
@pytest.mark.parametrize("at", range(2, 2 + FIRST + 1))
def test_an_error_of_a_plain_run_is_the_users(optimise, at):
    calls = Calls()

    def f(x):
        calls.number += 1
        if calls.number == at:
            raise OSError("the disk is full")
        return np.sum((x - TARGET) ** 2)

    with pytest.raises(OSError, match="the disk is full") as caught:
        optimise(f, np.zeros(3))
    assert calls.number == at and caught.traceback[-1].path.name == "test_proof.py"


def test_a_function_that_gives_arrays_to_what_takes_only_tensors():
    def energy(x):
        return (x**4).sum() + (x**2).sum()

    def f(x):
        (g,) = tg.autograd.grad(energy(x), [x], create_graph=True)
        return ((g - 1.0) ** 2).sum()

    result = tg.optimize.lbfgs(f, np.ones(2))
    assert result.fun < 1e-10 and DIFFERS not in result.message and result.counts["runs"] == 1 + FIRST + 1


def test_equations_that_take_only_tensors_by_a_method_that_needs_no_jacobian():
    result = tg.optimize.root(lambda x: x + (0.5 * x).detach() - tg.tensor(TARGET), np.zeros(3), method="krylov")
    np.testing.assert_allclose(result.x, TARGET / 1.5, atol=1e-5)
    assert DIFFERS not in result.message


def test_a_number_at_which_python_would_raise():
    """1 / 0 is infinite, and the step is shortened, as it is with tensors."""
    result = tg.optimize.lbfgs(lambda x: 1.0 / x + x + (x - 1.0) ** 2, 1.0)
    assert result.success and DIFFERS not in result.message and result.x == pytest.approx(1.0)
    with np.errstate(divide="ignore"), pytest.raises(NonFiniteError):
        tg.optimize.lbfgs(lambda x: 1.0 / x, 0.0)


def test_a_recording_that_was_compared_is_compared_at_the_solution_only():
    calls, data = Calls(), {"target": TARGET}

    def f(x):
        calls.number += 1
        return np.sum((x - data["target"]) ** 2)

    def runs():
        calls.number = 0
        result = tg.optimize.lbfgs(f, np.zeros(3))
        np.testing.assert_allclose(result.x, data["target"], atol=1e-6)
        return result.counts["records"], result.counts["runs"], calls.number

    assert [runs(), runs()] == [(1, FIRST + 1, FIRST + 2), (0, 1, 1)]
    # What is noticed is recorded again, and that is compared as the first one was.
    data["target"] = TARGET + 1.0
    assert [runs(), runs()] == [(1, FIRST + 1, FIRST + 2), (0, 1, 1)]


def test_a_recording_that_differed_is_compared_from_the_first_evaluation():
    calls = Calls()

    def f(x):
        calls.number += 1
        return np.sum((x - TARGET) ** 2) * (1.0 + 0.1 * calls.number)

    for _ in range(2):
        result = tg.optimize.lbfgs(f, np.zeros(3))
        assert result.message.endswith(DIFFERS) and result.counts["runs"] >= result.counts["evaluations"] - 1


def test_args_are_looked_at():
    def f(x, data):
        return np.sum((x - data) ** 2)

    for k in range(4):
        result = tg.optimize.lbfgs(f, np.zeros(3), args=(TARGET + k,))
        np.testing.assert_allclose(result.x, TARGET + k, atol=1e-6)
        assert DIFFERS not in result.message and result.counts["records"] == (k == 0)


def test_the_next_optimisation_compares_again():
    state = Calls()
    state.number = 0.0

    def f(x):
        return np.sum((x - TARGET - state.number) ** 2)

    np.testing.assert_allclose(tg.optimize.lbfgs(f, np.zeros(3)).x, TARGET, atol=1e-6)
    # An attribute of an object: no recorded function looks at it.
    state.number = 5.0
    result = tg.optimize.lbfgs(f, np.zeros(3))
    np.testing.assert_allclose(result.x, TARGET + 5.0, atol=1e-6)
    assert result.message.endswith(DIFFERS) and result.counts["records"] == 0
    # It was found at the solution; the next one finds it at once.
    found_late, result = result.counts["evaluations"] - result.counts["runs"], tg.optimize.lbfgs(f, np.zeros(3))
    np.testing.assert_allclose(result.x, TARGET + 5.0, atol=1e-6)
    assert result.message.endswith(DIFFERS) and result.counts["evaluations"] - result.counts["runs"] < found_late


def test_what_vanishes_at_the_solution_is_compared_with_what_it_was_at_the_start():
    one, other, start = (Outcome([np.array(v)], None, None) for v in ([1e-16, -3e-17], [-2e-16, 1e-17], [2.0, 1.0]))
    assert not same(one, other, False) and same(one, other, False, start)
    assert not same(one, Outcome([np.array([1e-3, 0.0])], None, None), False, start)


def test_jacobians_go_on_when_kernels_answer_them():
    x = np.linspace(0.0, 1.0, 20)
    function = VectorFunction(lambda p: p[0] * np.exp(-p[1] * x) - p[2] * x, Layout(np.array([1.0, 2.0, 3.0])))
    for k in range(EVALUATIONS + 20):
        p = np.array([1.0 + 1e-3 * k, 2.0, 3.0])
        decay = np.exp(-p[1] * x)
        assert np.allclose(function.jacobian(p), np.stack([decay, -p[0] * x * decay, -x], axis=1), rtol=1e-13)
        assert np.allclose(function.values(p), p[0] * decay - p[2] * x, rtol=1e-13)
    assert function.stands(p) and function.replayed.stats.kernel_calls


def test_a_long_least_squares_ends_where_it_should():
    # NIST's MGH10 from its far start takes more evaluations than a recording stays without kernels.
    x = np.arange(50.0, 126.0, 5.0)
    y = np.array([34780, 28610, 23650, 19630, 16370, 13720, 11540, 9744, 8261, 7030, 6005, 5147, 4427, 3820, 3307, 2872.0])
    result = tg.optimize.least_squares(
        lambda b: b[0] * np.exp(b[1] / (x + b[2])) - y, [2.0, 400000.0, 25000.0], method="lm", xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=5000
    )
    assert result.nfev > EVALUATIONS and result.counts["jacobians"] > EVALUATIONS and np.isfinite(result.x).all()

"""The compiled loops: to the minimum, from any state, by every path, and no further than told."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import scipy.optimize

import tapegrad as tg
from tapegrad.common.errors import NonFiniteError, NonScalarOutputError, OptimizationError
from tapegrad.optimize.proof import DIFFERS
from tests.optimize.problems import CONTAINED, branching, contained, rosenbrock
from tests.threads import in_threads
from tests.transforms.replay.agreement import Log

LOOPS = {
    "lbfgs": {},
    "gradient_descent": {"learning_rate": 1e-3, "momentum": 0.9},
    "adam": {"learning_rate": 1e-2},
}
START = np.array([1.5, 0.5, 0.2, -0.3])


def run(method, f, x0, **options):
    return getattr(tg.optimize, method)(f, x0, **{**LOOPS[method], **options})


def fields(result):
    """Everything that must be the same bits."""
    state = result.state
    return [result.x, result.fun, result.history, state.vectors, state.pairs, state.products, state.reals, state.integers]


def same_bits(one, other):
    return all(np.array_equal(a, b) for a, b in zip(fields(one), fields(other), strict=True))


@pytest.mark.parametrize("method", LOOPS)
def test_reaches_the_minimum_and_says_so(method):
    result = run(method, rosenbrock, START, max_iter=50_000)
    assert result.success and result.status in (0, 1)
    assert result.gradient_norm <= 1e-6 and result.fun < 1e-9
    np.testing.assert_allclose(result.x, 1.0, atol=2e-5)
    assert np.max(np.abs(scipy.optimize.rosen_der(result.x))) == pytest.approx(result.gradient_norm, rel=1e-6, abs=1e-12)
    np.testing.assert_allclose(result.jac, scipy.optimize.rosen_der(result.x), atol=1e-12)


@pytest.mark.parametrize("method", LOOPS)
def test_the_python_function_runs_once_and_where_it_is_compared(method):
    calls = Log()

    def f(x):
        calls.append(1)
        return np.sum((x - 1.0) ** 4)

    result = run(method, f, np.zeros(3), max_iter=200, progress=False)
    # Once to be recorded; at the first three evaluations and at the solution to be compared.
    assert len(calls) == 5 and result.counts["records"] == 1 and result.counts["runs"] == 4
    assert result.counts["evaluations"] == result.nfev == result.counts["records"] + result.counts["replays"]
    assert len(result.history) == result.nit + 1


def test_lbfgs_needs_no_more_evaluations_than_scipy():
    x0 = np.tile([-1.2, 1.0], 50)
    ours = tg.optimize.lbfgs(rosenbrock, x0, gtol=1e-5)
    theirs = scipy.optimize.minimize(
        scipy.optimize.rosen, x0, jac=scipy.optimize.rosen_der, method="L-BFGS-B", options={"ftol": 0.0, "maxfun": 10**5, "maxiter": 10**5}
    )
    assert ours.success and ours.nfev <= 1.2 * theirs.nfev


@pytest.mark.parametrize("method", LOOPS)
@pytest.mark.parametrize("bounded", [False, True])
def test_resumed_to_the_same_bits(method, bounded):
    bounds = [(-2.0, 0.8)] * 4 if bounded else None
    whole = run(method, rosenbrock, START, max_iter=25, bounds=bounds, ftol=0.0)
    parts = run(method, rosenbrock, START, max_iter=7, bounds=bounds, ftol=0.0)
    before = pickle.dumps(parts.state)
    again = run(method, rosenbrock, pickle.loads(before), max_iter=13)
    last = run(method, rosenbrock, again.state, max_iter=5)
    assert whole.nit == last.nit == 25
    assert np.array_equal(whole.x, last.x) and np.array_equal(whole.history, last.history)
    assert np.array_equal(whole.state.vectors, last.state.vectors) and np.array_equal(whole.state.pairs, last.state.pairs)
    assert np.array_equal(whole.state.products, last.state.products)
    # The state that was given is as it was.
    assert np.array_equal(pickle.loads(before).vectors, parts.state.vectors) and parts.state.iterations == 7


@pytest.mark.parametrize("method", LOOPS)
def test_stopped_inside_a_line_search_and_resumed(method):
    whole = run(method, rosenbrock, START, max_iter=25)
    for most in range(1, 12):
        part = run(method, rosenbrock, START, max_iter=25, max_evaluations=most)
        assert part.nfev == most and not part.success and "max_evaluations" in part.message
        rest = run(method, rosenbrock, part.state, max_iter=25 - part.nit)
        assert same_bits(whole, rest)


@pytest.mark.parametrize("method", LOOPS)
def test_twice_the_same_bits(method):
    assert same_bits(run(method, rosenbrock, START, max_iter=100), run(method, rosenbrock, START, max_iter=100))


@pytest.mark.parametrize("method", LOOPS)
def test_new_paths_are_recorded_on_the_way_and_the_loop_goes_on(method):
    x0 = np.array([5.0, -4.0, 9.0])
    options = {"learning_rate": 0.05} if method != "lbfgs" else {}
    result = run(method, lambda x: branching(x), x0, max_iter=5000, **options)
    assert result.counts["records"] > 1 and result.counts["records"] < result.nfev / 2
    np.testing.assert_allclose(result.x, [0.0, 1.0, 2.0], atol=1e-5)


def test_the_same_as_step_by_step_in_python():
    x, velocity = START.copy(), np.zeros(4)
    for _ in range(200):
        velocity = 0.9 * velocity + scipy.optimize.rosen_der(x)
        x = x - 1e-4 * velocity
    ours = tg.optimize.gradient_descent(rosenbrock, START, learning_rate=1e-4, momentum=0.9, max_iter=200)
    np.testing.assert_allclose(ours.x, x, rtol=1e-11)
    x, velocity = START.copy(), np.zeros(4)
    for _ in range(200):
        g = scipy.optimize.rosen_der(x)
        velocity = 0.9 * velocity + g
        x = x - 1e-4 * (g + 0.9 * velocity)
    ours = tg.optimize.gradient_descent(rosenbrock, START, learning_rate=1e-4, momentum=0.9, nesterov=True, max_iter=200)
    np.testing.assert_allclose(ours.x, x, rtol=1e-11)


def test_adam_the_same_as_define_by_run():
    x = tg.Parameter(START)
    optimizer = tg.optim.Adam([x], lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        rosenbrock(x).backward()
        optimizer.step()
    ours = tg.optimize.adam(rosenbrock, START, learning_rate=0.01, max_iter=100)
    np.testing.assert_allclose(ours.x, x.detach().numpy(), rtol=1e-11)


@pytest.mark.parametrize("method", LOOPS)
def test_the_box_is_kept_at_every_evaluation(method):
    low, high = np.array([-2.0, -1.0, 0.1, -np.inf]), np.array([0.5, 0.6, np.inf, 0.05])
    outside = []

    def f(x):
        beyond = np.sum(np.where((x < low) | (x > high), 1.0, 0.0))
        if beyond > 0.0:
            outside.append(x)
        return rosenbrock(x)

    bounds = list(zip(low, high))
    result = run(method, f, START, bounds=bounds, max_iter=20_000)
    exact = scipy.optimize.minimize(
        scipy.optimize.rosen, np.clip(START, low, high), jac=scipy.optimize.rosen_der, bounds=bounds, method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10},
    )  # fmt: skip
    np.testing.assert_allclose(result.x, exact.x, atol=1e-6)
    assert result.success and not outside and result.counts["records"] == 1
    assert np.all(result.x >= low) and np.all(result.x <= high)


def test_containers_come_back_in_shape():
    for method in LOOPS:
        options = {"learning_rate": 0.05, "max_iter": 5000} if method != "lbfgs" else {}
        result = run(method, contained, {"w": np.ones((2, 3)), "b": 0.0}, **options)
        assert set(result.x) == {"w", "b"} and type(result.x["b"]) is float
        np.testing.assert_allclose(result.x["w"], CONTAINED["w"], atol=1e-5)
        assert result.x["b"] == pytest.approx(1.0, abs=1e-5) and result.jac["w"].shape == (2, 3)


def test_a_number_is_a_start():
    result = tg.optimize.lbfgs(lambda x: (x - 3.0) ** 2, 0.0)
    assert type(result.x) is float and result.x == pytest.approx(3.0)


def test_further_arguments():
    f = lambda x, a, power: np.sum(np.abs(x - a) ** power)  # noqa: E731
    for a in (np.array([1.0, 2.0]), np.array([3.0, -1.0])):
        np.testing.assert_allclose(tg.optimize.lbfgs(f, np.zeros(2), args=(a, 2)).x, a, atol=1e-6)


def test_a_function_that_needs_the_interpreter_is_evaluated_by_python():
    cube = tg.custom_vjp(lambda x: x**3, lambda g, z, x: 3.0 * g * x**2)
    result = tg.optimize.lbfgs(lambda x: np.sum(cube(x) * x) - np.sum(x), np.array([1.0, 2.0]))
    np.testing.assert_allclose(result.x, 0.25 ** (1 / 3), atol=1e-6)


def test_what_the_callback_changes_is_seen():
    data = {"target": np.array([1.0, 2.0])}
    seen = []

    def callback(view):
        if not seen:
            data["target"] = np.array([5.0, 5.0])
        seen.append(view.nit)

    result = tg.optimize.gradient_descent(lambda x: np.sum((x - data["target"]) ** 2), np.zeros(2), learning_rate=0.1, callback=callback, gtol=1e-9)
    np.testing.assert_allclose(result.x, 5.0, atol=1e-6)
    assert seen and result.counts["records"] >= 2


def test_the_callback_stops():
    result = tg.optimize.gradient_descent(lambda x: rosenbrock(x), START, callback=lambda view: True, max_iter=10**6)
    assert not result.success and "callback" in result.message and result.nit == 0

    def stop(view):
        raise StopIteration

    assert tg.optimize.adam(rosenbrock, START, callback=stop).message == result.message


def test_a_step_to_where_there_are_no_numbers_is_shortened():
    result = tg.optimize.lbfgs(lambda x: np.sum(x - np.log(x)), np.array([1e-3, 50.0]))
    assert result.success
    np.testing.assert_allclose(result.x, 1.0, atol=1e-5)


def test_no_numbers_at_the_start_or_on_the_way():
    with pytest.raises(NonFiniteError, match=r"log at .*test_loops.py:\d+ .*gave -inf"):
        tg.optimize.lbfgs(lambda x: np.sum(np.log(x)), np.array([1.0, 0.0]))
    with pytest.raises(NonFiniteError, match=r"derivative by x\[1\] is inf.*derivative of sqrt at .*test_loops.py"):
        tg.optimize.lbfgs(lambda x: np.sum(np.sqrt(x)), np.array([1.0, 0.0]))
    with pytest.raises(NonFiniteError, match=r"(?s)power at .*test_loops.py.*smaller learning_rate"):
        tg.optimize.gradient_descent(lambda x: np.sum(x**4), np.array([1.0, 3.0]), learning_rate=10.0)


def test_flat_from_the_start():
    result = tg.optimize.lbfgs(lambda x: np.sum(x) * 0.0 + 2.0, np.zeros(3))
    assert result.success and result.fun == 2.0 and result.nit == 0
    result = tg.optimize.lbfgs(lambda x: 2.0, np.zeros(3))
    assert result.success and result.fun == 2.0


def test_a_function_without_a_minimum():
    for f in (lambda x: np.sum(x), lambda x: -np.sum(x**2)):
        result = tg.optimize.lbfgs(f, np.ones(3))
        assert not result.success and "falls without end" in result.message


def test_a_wrong_gradient_is_said():
    wrong = tg.custom_vjp(lambda x: np.sum(x**2), lambda g, z, x: -2.0 * g * x)
    result = tg.optimize.lbfgs(wrong, np.array([1.0, 2.0]))
    assert not result.success and "gradient is not that of the value" in result.message


def test_refused():
    with pytest.raises(OptimizationError, match="it cannot be resumed by adam"):
        tg.optimize.adam(rosenbrock, tg.optimize.lbfgs(rosenbrock, START, max_iter=2).state)
    with pytest.raises(OptimizationError, match="bounds cannot change"):
        tg.optimize.lbfgs(rosenbrock, tg.optimize.lbfgs(rosenbrock, START, max_iter=2).state, bounds=[(0, 1)] * 4)
    with pytest.raises(OptimizationError, match="learning_rate=0"):
        tg.optimize.adam(rosenbrock, START, learning_rate=0)
    with pytest.raises(OptimizationError, match="momentum=1.0 must be below 1"):
        tg.optimize.gradient_descent(rosenbrock, START, momentum=1.0)
    with pytest.raises(OptimizationError, match="memory=0 must be at least 1"):
        tg.optimize.lbfgs(rosenbrock, START, memory=0)
    with pytest.raises(NonScalarOutputError):
        tg.optimize.lbfgs(lambda x: x, START)


def test_in_a_thread():
    found = []
    in_threads(lambda _: found.append(tg.optimize.lbfgs(rosenbrock, START)), 1)
    assert found[0].success and same_bits(found[0], tg.optimize.lbfgs(rosenbrock, START))


@pytest.mark.parametrize("kernel", ["never", "always"])
def test_threads_share_a_recording(kernel):
    f, found = tg.jit(lambda x: rosenbrock(x), kernel=kernel), []
    in_threads(lambda _: found.append(tg.optimize.lbfgs(f, START)), 4)
    assert len(found) == 4 and all(result.success and same_bits(result, found[0]) for result in found)


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_gives_a_result_that_goes_on(interruptible):
    program = textwrap.dedent(
        """
        import os, signal, sys, threading, time
        import numpy as np
        import tapegrad as tg

        def f(x):
            return np.sum((x - 1.0) ** 2) + 1e-3 * np.sum(np.sin(x))

        before = signal.getsignal(signal.SIGINT)
        tg.optimize.gradient_descent(f, np.zeros(50), max_iter=10)
        at = []

        def interrupt():
            time.sleep(0.5)
            at.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        part = tg.optimize.gradient_descent(f, np.zeros(50), learning_rate=1e-9, max_iter=10**12, progress=False)
        late = time.perf_counter() - at[0]
        assert not part.success and "interrupted" in part.message and part.nit > 10, part
        assert signal.getsignal(signal.SIGINT) is before
        whole = tg.optimize.gradient_descent(f, np.zeros(50), learning_rate=1e-9, max_iter=part.nit + 5)
        rest = tg.optimize.gradient_descent(f, part.state, max_iter=5)
        assert np.array_equal(whole.x, rest.x) and len(rest.history) == rest.nit + 1
        print("late", late)
        """
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0 and ended.stdout.startswith("late"), ended.stderr


def test_ctrl_c_while_the_function_runs(interruptible):
    calls = Log()

    def f(x):
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return np.sum((x - 1.0) ** 2)

    part = tg.optimize.lbfgs(f, np.zeros(2))
    assert "interrupted" in part.message and part.nfev == 1
    np.testing.assert_allclose(tg.optimize.lbfgs(f, part.state).x, 1.0)


def test_a_function_that_gives_something_else_each_time_is_found_out():
    calls = Log()

    def f(x):
        calls.append(1)
        return np.sum((x - 1.0) ** 2) * (1.0 + 0.1 * len(calls))

    result = tg.optimize.lbfgs(f, np.zeros(2))
    assert len(calls) == result.counts["runs"] + 1 > result.nfev and result.message.endswith(DIFFERS)
    np.testing.assert_allclose(result.x, 1.0, atol=1e-5)


def test_a_function_of_tensors_only():
    f = lambda x: (x * x - 2.0 * x).sum().detach() * 0.0 + ((x - 1.0) ** 2).sum()  # noqa: E731
    result = tg.optimize.lbfgs(f, np.zeros(2))
    np.testing.assert_allclose(result.x, 1.0, atol=1e-6)
    # Once on plain arrays, which says that it takes only tensors; then as any function, at the first three evaluations and the solution.
    assert result.counts["records"] == 1 and result.counts["runs"] == 1 + 3 + 1
    # What it is made of is asked for again by another optimisation, which compares nothing but the solution.
    assert tg.optimize.lbfgs(f, np.full(2, 3.0)).counts["runs"] == 1 + 1

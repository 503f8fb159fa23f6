"""Evaluations by compiled code: by sweep and by kernel the same, and what happens where a kernel cannot answer."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.optimize.proof import EVALUATIONS, FIRST
from tests.transforms.replay.agreement import Log


def rosenbrock(x):
    total = 0.0
    for i in range(len(x) - 1):
        total = total + 100.0 * (x[i + 1] - x[i] * x[i]) ** 2 + (1.0 - x[i]) ** 2
    return total


def by(kernel, f):
    return tg.jit(tg.value_and_grad(f), kernel=kernel)


@pytest.mark.parametrize("method", [tg.optimize.lbfgs, tg.optimize.gradient_descent, tg.optimize.adam, tg.optimize.minimize])
def test_kernel_and_sweep_lead_the_same_way(method):
    x0 = np.linspace(-0.5, 0.8, 12)
    found = {}
    for kernel in ("always", "never"):
        g = by(kernel, rosenbrock)
        found[kernel] = method(g, x0)
        assert (g.stats().kernel_calls > 10) == (kernel == "always")
        assert (g.stats().sweeps > 10) == (kernel == "never")
    assert found["always"].nfev == pytest.approx(found["never"].nfev, rel=0.1)
    np.testing.assert_allclose(found["always"].x, found["never"].x, rtol=1e-4)
    np.testing.assert_allclose(found["always"].fun, found["never"].fun, rtol=1e-4, atol=1e-9)


def test_only_the_kernel_that_is_used_is_made():
    g = by("always", rosenbrock)
    tg.optimize.lbfgs(g, np.zeros(5))
    assert g.stats().kernels == 1


def test_the_first_path_is_a_kernel():
    g = by("auto", rosenbrock)
    result = tg.optimize.lbfgs(g, np.zeros(40), gtol=1e-8)
    assert result.success
    stats = g.stats()
    assert stats.kernels == 1 and stats.sweeps == 0 and stats.kernel_calls == result.nfev > 30
    again = tg.optimize.lbfgs(g, np.full(40, 0.3), gtol=1e-8)
    np.testing.assert_allclose(again.x, 1.0, rtol=1e-6)
    assert again.success and g.stats().sweeps == 0
    # The recording answered the very first evaluation; each solution is replayed, too, to be compared.
    assert g.stats().kernel_calls == result.nfev + again.nfev + 1


def test_the_function_itself_is_promoted_as_configured(monkeypatch):
    monkeypatch.setattr(tg.config, "kernel", "always")

    def f(x):
        return (x[0] - 3.0) ** 2 + np.cosh(x[1])

    assert tg.optimize.lbfgs(f, np.ones(2)).success
    (kept,) = f.__tapegrad__.made.values()
    assert kept.stats.kernel_calls > 0


def test_what_an_optimiser_records_by_itself_is_promoted_late():
    """At the 200th evaluation, counted over all optimisations: the recording's own, those by sweep, and those at the solutions."""
    f = lambda x: np.sum((x - 3.0) ** 4)  # noqa: E731
    evaluations = 0
    for most, kernels in ((150, 0), (40, 0), (60, 1)):
        evaluations += tg.optimize.gradient_descent(f, np.zeros(2), learning_rate=1e-4, max_iter=most, gtol=0.0).nfev
        (kept,) = f.__tapegrad__.made.values()
        assert kept.stats.kernels == kernels
    # The recording is compared with the sweep at its own point, which is no call of either; each of the three solutions is one.
    assert kept.stats.sweeps + kept.stats.kernel_calls == evaluations - 1 + 3
    assert kept.stats.sweeps == EVALUATIONS - 1


def test_jitted_functions():
    f = tg.jit(rosenbrock)
    result = tg.optimize.lbfgs(f, np.zeros(6))
    np.testing.assert_allclose(result.x, 1.0, rtol=1e-5)
    assert tg.optimize.lbfgs(f, np.full(6, 0.5)).counts["records"] == 0


def test_containers_and_further_arguments():
    t = np.linspace(0.0, 1.0, 20)
    y = 3.0 * t**2 - t + 0.5

    def misfit(p, t, y):
        return np.sum((p["w"][0] * t + p["w"][1] * t**2 + p["b"] - y) ** 2)

    g = by("always", misfit)
    result = tg.optimize.lbfgs(g, {"w": np.zeros(2), "b": 1.0}, args=(t, y), gtol=1e-10)
    np.testing.assert_allclose(result.x["w"], [-1.0, 3.0], rtol=1e-6)
    assert result.x["b"] == pytest.approx(0.5) and g.stats().kernel_calls > 0
    shifted = tg.optimize.lbfgs(g, {"w": np.zeros(2), "b": 1.0}, args=(t, y + 1.0), gtol=1e-10)
    assert shifted.x["b"] == pytest.approx(1.5)


def test_another_path_is_recorded_from_within_a_kernel():
    def huber(x):
        total = 0.0
        for k in range(len(x)):
            r = abs(x[k] - k)
            total = total + (0.5 * r * r if r < 1.0 else r - 0.5)
        return total

    g = by("always", huber)
    result = tg.optimize.lbfgs(g, np.full(4, 9.0))
    np.testing.assert_allclose(result.x, [0.0, 1.0, 2.0, 3.0], atol=1e-6)
    assert g.stats().records > 1 and g.stats().kernels > 1


def test_zero_times_infinity_is_that_of_the_sweep():
    def f(x):
        # The derivative of sqrt at 0 is infinite, what it is multiplied by is zero.
        return np.sum(0.0 * np.sqrt(x)) + np.sum((x + 1.0) ** 2)

    from tapegrad.optimize.objective import Objective

    objective = Objective(by("always", f), np.full(2, 4.0))
    g = np.empty(2)
    for point in ([4.0, 9.0], [4.0, 9.0], [1.0, 2.0], [0.0, 1.0]):
        value = objective.evaluate(np.array(point), g)
    assert objective.handle() and objective._current.kernel is not None
    assert value == pytest.approx(5.0)
    np.testing.assert_allclose(g, [2.0, 4.0])


def test_evaluations_of_both_are_the_derivative():
    x0 = np.linspace(-0.5, 0.8, 7)
    value = rosenbrock(x0)
    difference = [(rosenbrock(x0 + 1e-6 * e) - rosenbrock(x0 - 1e-6 * e)) / 2e-6 for e in np.eye(7)]
    from tapegrad.optimize.objective import Objective

    for kernel in ("always", "never"):
        objective, g = Objective(by(kernel, rosenbrock), x0), np.empty(7)
        for _ in range(FIRST + 2):
            assert objective.evaluate(x0, g) == pytest.approx(value, rel=1e-12)
        assert (objective._current.kernel is not None) == (kernel == "always")
        np.testing.assert_allclose(g, difference, rtol=1e-6)


@pytest.mark.parametrize("kernel", ["never", "always"])
@pytest.mark.parametrize("method", [tg.optimize.lbfgs, tg.optimize.minimize])
def test_what_proves_the_function_is_an_evaluation(method, kernel, monkeypatch):
    """The function runs to be recorded, at the first evaluations and at the solution."""
    from tapegrad.program.replayed import Replay
    from tapegrad.program.workspace import Workspace

    made, run, calls = [], [], Log()
    init, walk = Workspace.__init__, Workspace.run
    monkeypatch.setattr(Workspace, "__init__", lambda self, tape: (made.append(self), init(self, tape))[1])
    monkeypatch.setattr(Workspace, "run", lambda self, *args: (run.append(self), walk(self, *args))[1])
    answer = Replay.answer
    monkeypatch.setattr(Replay, "answer", lambda self, inputs: (run.append(self), answer(self, inputs))[1])

    def f(x):
        calls.append(type(x))
        return np.sum((x - 3.0) ** 4) + np.cosh(x[0])

    g = by(kernel, f)
    result = method(g, np.ones(3))
    # By sweep one for the handle, which sites of the function use too, and one for what is replayed beside it; with a kernel that of the
    # recording is let go of.
    assert result.success and len(made) == 2
    assert len(calls) == 1 + FIRST + 1 and result.counts["runs"] == FIRST + 1
    stats = g.stats()
    # With a kernel only the recording is replayed by sweep, at its own point; without, the evaluations that are compared: others,
    # and that at the solution, are answered by the handle.
    assert len(run) == (1 if kernel == "always" else FIRST)
    # That of the recording is answered by it, that at the solution is no evaluation.
    assert stats.sweeps + stats.kernel_calls == result.counts["evaluations"] == result.nfev
    assert (stats.kernel_calls > 0) == (kernel == "always")

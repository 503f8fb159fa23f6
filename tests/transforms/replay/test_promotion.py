"""When replayed functions become kernels, and that nothing else changes by it."""

import logging
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import OptionError, UnsupportedFunctionError
from tapegrad.kernel import prediction, roll
from tapegrad.kernel.adjoint import adjoint
from tapegrad.kernel.columns import columns
from tapegrad.kernel.of_tape import TapeKernel
from tapegrad.kernel.pipeline import rolled
from tapegrad.transforms.replay.promotion import Promotion, checked_policy
from tests.kernel.agreement import kernels_cost
from tests.threads import in_threads


def rosenbrock(x):
    total = 0.0
    for i in range(len(x) - 1):
        total = total + 100.0 * (x[i + 1] - x[i] * x[i]) ** 2 + (1.0 - x[i]) ** 2
    return total


def gradient(x):
    g = np.zeros_like(x)
    g[:-1] += -400.0 * x[:-1] * (x[1:] - x[:-1] ** 2) - 2.0 * (1.0 - x[:-1])
    g[1:] += 200.0 * (x[1:] - x[:-1] ** 2)
    return g


def called(times, x=np.array([0.3, 0.1, -0.4]), function=rosenbrock, **options):
    """A gradient after so many calls."""
    g = tg.grad(function, **options)
    for _ in range(times):
        g(x)
    return g


# -- policies -------------------------------------------------------------------------------
def test_never():
    stats = called(60, kernel="never").stats()
    assert stats.kernels == stats.kernel_calls == 0 and stats.sweeps == stats.replays > 50


def test_always_is_after_the_first_replay():
    """Which is the one at the second call, beside a recording to compare it with."""
    stats = called(60, kernel="always").stats()
    assert stats.kernels == 1 and stats.sweeps == 0 and stats.kernel_calls == stats.replays > 50


def test_auto_is_after_replays_that_are_counted(monkeypatch):
    kernels_cost(monkeypatch, 20)
    for _ in range(2):
        stats = called(60).stats()
        # Four more beside the recordings at calls 2, 4, 8 and 16.
        assert stats.kernels == 1 and stats.sweeps == 16 and stats.kernel_calls == stats.replays - 16 > 20


def test_a_kernel_made_beside_a_recording_is_used_by_the_next_call(monkeypatch):
    """The replay at call 16 is that which a new recording is compared with."""
    for calls in range(14, 18):
        kernels_cost(monkeypatch, calls)
        stats = called(40).stats()
        assert stats.kernels == 1 and stats.sweeps + stats.kernel_calls == stats.replays and stats.kernel_calls > 18


def irregular(x, length=1500):
    """No two stretches of it are alike."""
    random = np.random.default_rng(0)
    values = [x[k % len(x)] for k in range(20)]
    for kind, one, two in zip(*random.integers(0, [[6], [20], [20]], (3, length)).tolist()):
        a, b = values[one], values[two]
        values[one] = [a + b * 0.5, np.sin(a), a - b, 0.3 * a * b, np.cos(b), a / (2.0 + b * b)][kind]
    return values[0] + values[7]


def chain(x, length=1500):
    total = 0.0
    for k in range(length // 4):
        total = total + np.sin(x[k % len(x)] * 2.0)
    return total


def arrays(x, length=40):
    for _ in range(length):
        x = np.sin(x) * 0.5 + x
    return np.sum(x)


def price(function, x, gradients=True):
    """Steps of a call, of looking, and of the kernel, of a function's tape."""
    tape = tg.grad(function).tape(x)
    flat = columns(adjoint(tape) if gradients else tape)
    return prediction.sweep(tape), prediction.derivation(tape), prediction.compilation(flat, rolled(flat))


def test_what_does_not_roll_costs_more():
    x = np.linspace(0.1, 0.9, 20)
    (_, looked, regular), (_, _, straight) = price(chain, x), price(irregular, x)
    assert straight > 20 * regular and regular < 4 * prediction.KERNEL and looked < regular
    # Loops of other lengths are no dearer.
    assert price(lambda x: chain(x, 12_000), x)[2] == regular
    # Straight code is, in proportion.
    assert 1.8 < price(lambda x: irregular(x, 3000), x)[2] / straight < 2.2


def test_elements_and_instructions_are_work():
    x = np.ones(8000)
    long, short = (price(lambda x: arrays(x, 1), x[:n])[0] for n in (8000, 80))
    assert long > short + 2 * 7000 // 5 and short > prediction.CALL
    assert price(chain, x)[0] > prediction.CALL + 1000


@pytest.mark.parametrize("function, x, most", [(chain, np.linspace(0.1, 0.9, 20), 2500), (arrays, np.linspace(0.0, 1.0, 4000), 1000)])
def test_the_kernel_comes_when_sweeps_have_cost_as_much(function, x, most):
    """And not a call before."""
    each, looked, whole = price(function, x)
    expected = -(-(looked + whole) // each)
    assert 3 < expected < most
    g = tg.grad(function)
    while not g.stats().kernels:
        g(x)
        (promotion,) = g.stats().promotions
        assert promotion.calls[True] <= expected
    assert promotion.calls[True] == expected and not g.stats().waiting


def test_irregular_code_is_looked_at_and_waits(monkeypatch):
    """When the sweeps have paid for it, the derivative is rolled, and nothing is compiled; that is done once."""
    compiled = []
    monkeypatch.setattr("tapegrad.kernel.kernel.compile_program", lambda *args: compiled.append(args))
    found = []
    monkeypatch.setattr("tapegrad.kernel.roll.find", lambda *args, find=roll.find: (found.append(1), find(*args))[1])
    x = np.linspace(0.1, 0.9, 20)
    each, looked, whole = price(irregular, x)
    found.clear()
    g = tg.grad(irregular)
    g(x), g(x), g(x)
    at = -(-(prediction.KERNEL + looked) // each)
    (line,) = g.stats().waiting
    (promotion,) = g.stats().promotions
    assert line == f"cost of a kernel is looked at after about {at - promotion.calls[True]} more calls by sweep"
    while promotion.calls[True] < at:
        assert not found
        g(x)
    left = -(-(looked + whole) // each) - at
    assert left > 10 * at and g.stats().waiting == [f"kernel after about {left} more calls by sweep"]
    assert g.stats().waiting[0] in str(g.stats())
    for _ in range(200):
        g(x)
    assert len(found) == 1 and not compiled
    assert g.stats().waiting == [f"kernel after about {at + left - promotion.calls[True]} more calls by sweep"]


def test_a_tape_that_is_not_finite_yet_is_compiled_once(monkeypatch):
    made = []
    monkeypatch.setattr("tapegrad.kernel.of_tape.TapeKernel", lambda *args: (made.append(1), TapeKernel(*args))[1])
    g = tg.value_and_grad(lambda x: 0.0 * np.sqrt(x) + x, kernel="always")
    for _ in range(9):
        assert g(0.0) == (0.0, 1.0)
    assert len(made) == 1 and g.stats().kernels == 0
    assert g(4.0) == (4.0, 1.0) and g.stats().kernels == 1 and len(made) == 1


def test_the_configured_policy(monkeypatch):
    monkeypatch.setattr(tg.config, "kernel", "always")
    assert called(5).stats().kernels == 1
    assert called(5, kernel="never").stats().kernels == 0
    monkeypatch.setattr(tg.config, "kernel", "never")
    assert called(5).stats().kernels == 0
    assert called(5, kernel="always").stats().kernels == 1


def test_a_policy_that_is_none():
    for make in (tg.grad, tg.value_and_grad, tg.elementwise_grad):
        with pytest.raises(OptionError, match="'sometimes'.*'auto', 'always', 'never'"):
            make(rosenbrock, kernel="sometimes")
    with pytest.raises(OptionError):
        tg.compile(rosenbrock, np.zeros(2), kernel="sometimes")


def test_a_configured_policy_that_is_none(monkeypatch):
    monkeypatch.setattr(tg.config, "kernel", "sometimes")
    with pytest.raises(OptionError):
        checked_policy(None)


def test_the_environment_variable():
    program = "import tapegrad as tg; print(tg.config.kernel, tg.grad(lambda x: x * x)._replayed.policy)"
    ended = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"TAPEGRAD_KERNEL": "never"}, capture_output=True, text=True
    )
    assert ended.stdout.split() == ["never", "never"], ended.stderr


# -- answers --------------------------------------------------------------------------------
def test_answers_before_and_after():
    g = tg.value_and_grad(rosenbrock, kernel="always")
    for x in np.random.default_rng(0).normal(size=(30, 5)):
        value, found = g(x)
        assert value == pytest.approx(rosenbrock(x), rel=1e-14) and type(value) is float
        np.testing.assert_allclose(found, gradient(x), rtol=1e-11, atol=1e-11)
    assert g.stats().kernel_calls > 20


def test_values_and_gradients_are_promoted_by_themselves():
    promoted = Promotion(tg.grad(rosenbrock).tape(np.zeros(3)), "always")
    assert promoted.get(True) is None
    assert promoted.make(False).gradients is False and promoted.get(True) is None
    assert promoted.make(True).gradients is True and promoted.make(True) is promoted.get(True)


def test_a_kernel_asked_for_by_hand_is_used():
    g = called(3)
    kernel = g.kernel(np.zeros(3))
    assert g.kernel(np.zeros(3)) is kernel
    for x in np.random.default_rng(0).normal(size=(10, 3)):
        np.testing.assert_allclose(g(x), gradient(x), rtol=1e-12)
    assert g.stats().kernel_calls >= 8


def test_absolute_zero_comes_from_the_sweep():
    def function(x):
        return np.sum(np.where(x > 0.0, np.sqrt(x), 0.0)) + 0.0 * np.sqrt(x[0])

    g = tg.value_and_grad(function, kernel="always")
    for _ in range(4):
        g(np.array([4.0, 1.0]))
    assert g.stats().kernels == 1
    sweeps = g.stats().sweeps
    for _ in range(3):
        value, found = g(np.array([0.0, 4.0]))
        assert value == 2.0 and found.tolist() == [0.0, 0.25]
    assert g.stats().sweeps == sweeps + 3
    assert g(np.array([4.0, 1.0]))[1].tolist() == [0.25, 0.5] and g.stats().sweeps == sweeps + 3


def test_infinite_and_undefined_values_are_those_of_numpy():
    g = tg.value_and_grad(lambda x: np.log(x) * x, kernel="always")
    for _ in range(4):
        g(2.0)
    with np.errstate(all="ignore"):
        assert np.isnan(g(-1.0)[0]) and g(np.inf)[0] == np.inf and np.isnan(g(np.nan)[0])
        value, slope = g(0.0)
    assert np.isnan(value) and slope == -np.inf or np.isnan(slope)


def test_the_first_replay_at_a_point_that_is_not_finite_promotes_later():
    g = tg.value_and_grad(lambda x: 0.0 * np.sqrt(x) + x, kernel="always")
    for _ in range(5):
        assert g(0.0) == (0.0, 1.0)
    assert g.stats().kernels == 0 and not g.stats().not_lowered
    for _ in range(3):
        assert g(4.0) == (4.0, 1.0)
    assert g.stats().kernels == 1


def test_auxiliary_results_and_several_arguments():
    g = tg.value_and_grad(lambda x, w: (np.sum(w * x), {"twice": 2.0 * x, "n": 3}), argnums=(1, 0), has_aux=True, kernel="always")
    for k in range(6):
        x, w = np.array([1.0, 2.0 + k]), np.array([3.0, 4.0])
        (value, aux), (dw, dx) = g(x, w)
        assert value == w @ x and aux["twice"].tolist() == (2 * x).tolist() and aux["n"] == 3
        assert dw.tolist() == x.tolist() and dx.tolist() == w.tolist()
    assert g.stats().kernels == 1 and g.stats().kernel_calls > 1


def test_a_kernel_that_disagrees_is_not_used(monkeypatch, caplog):
    run = TapeKernel.answer

    def wrong(self, inputs):
        status, found = run(self, inputs)
        found[-1][...] *= 1.001
        return status, found

    monkeypatch.setattr(TapeKernel, "answer", wrong)
    with caplog.at_level(logging.INFO, "tapegrad"):
        g = called(6, kernel="always")
    np.testing.assert_allclose(g(np.array([0.3, 0.1, -0.4])), gradient(np.array([0.3, 0.1, -0.4])), rtol=1e-12)
    stats = g.stats()
    assert stats.kernels == 0 and list(stats.not_lowered) == ["its kernel and the sweep disagree"]
    assert "by sweep: its kernel and the sweep disagree" in str(stats) and "disagree" in caplog.text


def test_what_cannot_be_lowered_is_tried_once(monkeypatch):
    @tg.primitive
    def square(x):
        return x * x

    square.defvjp(lambda g, result, x: 2.0 * x * g)

    def f(x):
        y = np.sin(x)
        return np.sum(square(y))

    tried = []
    monkeypatch.setattr("tapegrad.kernel.of_tape.TapeKernel", lambda *args: (tried.append(1), TapeKernel(*args))[1])
    g = called(8, function=f, kernel="always")
    ((reason, count),) = g.stats().not_lowered.items()
    assert "square" in reason and f"test_promotion.py:{f.__code__.co_firstlineno + 2}" in reason and count == len(tried) == 1


def test_the_log_says_what_became_a_kernel(caplog):
    with caplog.at_level(logging.INFO, "tapegrad"):
        called(4, kernel="always")
    (message,) = [r.getMessage() for r in caplog.records if "Kernel(" in r.getMessage()]
    assert "rosenbrock" in message and "generate" in message


def test_stats_show_kernels():
    stats = called(10, kernel="always").stats()
    assert f"kernels 1: {stats.kernel_calls} calls" in str(stats) and stats.seconds["kernel"] > 0.0


def test_eight_threads_in_one_function():
    g = tg.value_and_grad(rosenbrock, kernel="always")
    points = np.random.default_rng(1).normal(size=(8, 40))
    for _ in range(4):
        g(points[0])
    expected, wrong = [g(p) for p in points], []

    def work(k):
        for _ in range(300):
            value, found = g(points[k])
            if value != expected[k][0] or not np.array_equal(found, expected[k][1]):
                wrong.append(k)

    in_threads(work, 8)
    assert not wrong and g.stats().kernels == 1


def test_threads_that_start_together_make_one_kernel():
    g = tg.value_and_grad(rosenbrock, kernel="always")
    points, start, wrong = np.random.default_rng(2).normal(size=(8, 6)), threading.Barrier(8), []

    def work(k):
        start.wait()
        for _ in range(30):
            value, found = g(points[k])
            if not (np.isclose(value, rosenbrock(points[k])) and np.allclose(found, gradient(points[k]), rtol=1e-10)):
                wrong.append(k)

    in_threads(work, 8)
    assert not wrong and g.stats().kernels == g.stats().tapes == 1


# -- faults of tapegrad itself ----------------------------------------------------------------
def broken(monkeypatch, error, strict=False):
    """Let every kernel fail while it is made."""

    def lay_out(builder):
        raise error

    monkeypatch.setattr("tapegrad.kernel.build.lay_out", lay_out)
    monkeypatch.setattr(tg.config, "strict", strict)


def total(x):
    return np.sum(np.sin(x) * x[::-1])


TRANSFORMED = {
    "grad": lambda: tg.grad(total, kernel="always"), "jit": lambda: tg.jit(total),
    "forward": lambda: tg.jacobian(lambda x: np.sin(x) * x, mode="forward", kernel="always"),
    "reverse": lambda: tg.jacobian(lambda x: np.sin(x) * x, mode="reverse", kernel="always"),
    "hessian": lambda: tg.hessian(total, kernel="always"), "sparse": lambda: tg.sparse_jacobian(lambda x: np.sin(x) * x, kernel="always"),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMED)
def test_a_fault_while_a_kernel_is_made_is_named_and_the_sweep_answers(monkeypatch, name):
    x = np.linspace(0.1, 0.9, 6)
    dense = lambda a: getattr(a, "toarray", lambda: a)()  # noqa: E731
    expected = [dense(TRANSFORMED[name]()(x))]
    broken(monkeypatch, IndexError("list index out of range"))
    g = TRANSFORMED[name]()
    for _ in range(6):
        np.testing.assert_allclose(dense(g(x)), expected[0], rtol=1e-12)
    (reason,) = g.stats().not_lowered
    assert "inside of tapegrad, with IndexError (list index out of range) in replay/test_promotion.py:" in reason
    assert f"by sweep: {reason}" in str(g.stats()) and g.stats().kernels == 0


def test_a_fault_is_named_by_optimisers_and_compile(monkeypatch):
    kernels_cost(monkeypatch, 4)
    broken(monkeypatch, KeyError(3))
    g = tg.value_and_grad(rosenbrock)
    assert tg.optimize.lbfgs(g, np.zeros(4)).success and "KeyError (3)" in str(g.stats())
    c, out = tg.compile(total, np.ones(3)), np.empty(3)
    assert "KeyError (3)" in c.not_lowered and c(np.ones(3), out) == total(np.ones(3))
    np.testing.assert_allclose(out, np.cos(1.0) + np.sin(1.0), rtol=1e-14)


def test_a_fault_of_a_kernel_that_is_asked_for_is_an_error_with_its_cause(monkeypatch):
    broken(monkeypatch, RecursionError())
    with pytest.raises(UnsupportedFunctionError, match="has no kernel: .*RecursionError in .*please report") as caught:
        tg.grad(total).kernel(np.ones(3))
    assert type(caught.value.__cause__.__cause__) is RecursionError


def test_faults_are_raised_under_test(monkeypatch):
    assert tg.config.strict
    broken(monkeypatch, IndexError("a fault"), strict=True)
    with pytest.raises(IndexError, match="a fault"):
        called(4, function=total, kernel="always")


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_what_is_no_fault_is_raised(monkeypatch, error):
    broken(monkeypatch, error())
    with pytest.raises(error):
        called(4, function=total, kernel="always")
    monkeypatch.undo()
    assert called(4, function=total, kernel="always").stats().kernels == 1

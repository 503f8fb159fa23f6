"""When recorded functions become kernels, and that nothing else changes by it."""

import gc
import logging
import os
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import OptionError, UnsupportedFunctionError
from tapegrad.kernel import reasons, roll
from tapegrad.kernel.adjoint import adjoint
from tapegrad.kernel.columns import columns
from tapegrad.kernel.kernel import Emission, TapeKernel, rolled
from tapegrad.optimize.proof import EVALUATIONS
from tapegrad.program.workspace import Workspace
from tapegrad.transforms.replay import kernels
from tapegrad.transforms.replay.kernels import BEGIN, POINTS, JitOptions, Kernels, checked_policy
from tests.threads import in_threads

DATA = np.array([np.nan, 1.0, 0.5, np.nan, np.nan, 0.2, 0.1, 0.4, np.nan])


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
    """A recorded gradient after so many calls."""
    g = tg.jit(tg.grad(function), **options)
    for _ in range(times):
        g(x)
    return g


# -- policies -------------------------------------------------------------------------------
def test_never():
    stats = called(60, kernel="never").stats()
    assert stats.kernels == stats.kernel_calls == 0 and stats.sweeps == 59 and stats.records == 1


@pytest.mark.parametrize("kernel", ["always", "auto"])
def test_the_first_path_becomes_a_kernel_at_its_first_call(kernel):
    stats = called(60, kernel=kernel).stats()
    assert stats.kernels == 1 and stats.sweeps == 0 and stats.kernel_calls == 59 and stats.records == 1


def test_the_memory_of_sweeps_is_let_go_of_where_a_kernel_answers():
    for kernel, some in ("never", True), ("always", False):
        made = called(3, kernel=kernel)
        tape = made.tape(np.array([0.3, 0.1, -0.4]))
        assert any(isinstance(thing, Workspace) and thing.tape is tape for thing in gc.get_objects()) == some


def branches(x):
    return x[0] * x[1] if x[0] > 0.0 else np.sin(x[1]) if x[1] > 0.0 else x[0] + x[1] ** 3


def test_later_paths_become_kernels_at_once_if_always_is_asked_for():
    g = tg.jit(tg.grad(branches), kernel="always")
    g(np.array([1.0, 2.0]))
    for first, made in ((2.0, 1), (-3.0, 2)):
        x = np.array([-1.0, first])
        for k in range(1, 6):
            assert g.stats().kernels == made + (k > 1)
            np.testing.assert_allclose(g(x), [0.0, np.cos(2.0)] if first > 0.0 else [1.0, 27.0], rtol=1e-14)
            g(np.array([1.0, 2.0]))
    assert g.stats().records == g.stats().tapes == 3 and g.stats().sweeps == 0


def visited(g, x, made, limit=5000):
    """Call until there are so many kernels; returns how often that was before another thread began one."""
    begun = None
    for k in range(limit):
        if begun is None and "another thread" in str(g.stats()):
            begun = k
        if begun is not None:
            for kernels in g.stats().kernels_of:
                while any(coming.working for coming in kernels.coming.values()):
                    time.sleep(0.001)
        if g.stats().kernels == made:
            return begun
        g(x)
    raise AssertionError("there is no kernel")


def test_a_later_path_becomes_a_kernel_when_that_pays():
    """It is begun when what visits took longer than by a kernel is 1/32 of what is predicted for the kernel."""
    g, x = tg.jit(tg.grad(branches)), np.array([-1.0, 2.0])
    g(np.array([1.0, 2.0]))
    assert g.stats().kernels == 1
    begun = visited(g, x, 2)
    (_, later) = g.stats().kernels_of
    # The tape is looked at when it has paid for the smallest kernel, and is looked at once.
    least = reasons.KERNEL + reasons.derivation(later.tape)
    cost = price(branches, x)[1] + reasons.derivation(later.tape)
    assert begun == pytest.approx(BEGIN * least / reasons.saving(later.tape), abs=2)
    assert g.stats().kernel_calls == 0 and begun < g.stats().sweeps == pytest.approx(BEGIN * cost / reasons.saving(later.tape), abs=4)
    np.testing.assert_allclose(g(x), [0.0, np.cos(2.0)], rtol=1e-14)
    assert g.stats().kernel_calls == 1


def test_of_much_work_a_kernel_pays_soon():
    g = tg.jit(tg.grad(lambda x: np.sum(np.sin(x) * np.exp(-x)) if x[0] > 0.0 else np.sum(np.cos(x) * np.exp(x))))
    x = np.linspace(0.5, 1.5, 3000)
    g(x)
    assert 3 <= visited(g, -x, 2) <= 12


def test_many_paths_that_are_visited_now_and_then_stay_with_the_sweep():
    """Fifty paths, forty visits of each: nothing is compiled, nor begun."""

    def huber(x):
        total = 0.0
        for k in range(50):
            size = abs(x[0] - 0.1 * k)
            total = total + (0.5 * size * size if size < 1.0 else size - 0.5)
        return total

    g, points = tg.jit(tg.grad(huber)), np.linspace(0.05, 4.95, 50)
    for _ in range(40):
        for point in points:
            g(np.array([point]))
    stats = g.stats()
    assert stats.kernels == 1 and stats.records == stats.tapes > 30 and not any(k.coming for k in stats.kernels_of)


def test_another_kind_of_arguments_is_a_later_path():
    """Fifty sizes that are each seen twice are no fifty kernels."""
    g = tg.jit(tg.grad(rosenbrock))
    for n in range(2, 12):
        g(np.ones(n)), g(np.ones(n))
    assert g.stats().kernels == 1
    visited(g, np.ones(5), 2)


def test_what_is_waited_for_is_in_print():
    g = tg.jit(tg.grad(branches))
    g(np.array([1.0, 2.0])), g(np.array([-1.0, 2.0]))
    (line,) = g.stats().waiting
    assert re.fullmatch(r"kernel after \d+ more calls on this path", line) and line in str(g.stats())


def test_many_paths_that_wait_are_summed_up():
    g = tg.jit(tg.grad(lambda x: sum(x**k for k in range(2 + int(x > 0.0) * 0 + sum(x > n for n in range(30))))))
    for n in range(20):
        g(n + 0.5)
    *lines, last = g.stats().waiting
    assert len(lines) == 5 and all(re.fullmatch(r"kernel after \d+ more calls on this path", line) for line in lines)
    assert re.fullmatch(r"kernels after \d+ to \d+ more calls on each of 14 further paths", last) and last in str(g.stats())


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


def price(function, x):
    """Steps of looking at a function's tape, and of its kernel."""
    tape = tg.grad(function).tape(x)
    flat = columns(adjoint(tape))
    return reasons.derivation(tape), reasons.compilation(flat, rolled(flat))


def test_what_does_not_roll_costs_more():
    x = np.linspace(0.1, 0.9, 20)
    (looked, regular), (_, straight) = price(chain, x), price(irregular, x)
    assert straight > 20 * regular and regular < 4 * reasons.KERNEL and looked < regular
    # Loops of other lengths are no dearer.
    assert price(lambda x: chain(x, 12_000), x)[1] == regular
    # Straight code is, in proportion.
    assert 1.8 < price(lambda x: irregular(x, 3000), x)[1] / straight < 2.2


def test_what_takes_too_long_to_compile_stays_with_the_sweep(monkeypatch):
    """It is looked at once, nothing is compiled, and why is said, with the way out."""
    compiled, looks = [], []
    monkeypatch.setattr("tapegrad.kernel.kernel.Emission", lambda *args, real=Emission: (compiled.append(1), real(*args))[1])
    monkeypatch.setattr("tapegrad.kernel.roll.find", lambda *args, find=roll.find: (looks.append(1), find(*args))[1])
    x = np.linspace(0.1, 0.9, 20)
    looked, whole = price(irregular, x)
    looks.clear()
    limit = (looked + whole) / reasons.STEPS_A_SECOND * 0.99
    monkeypatch.setattr(kernels, "SECONDS", limit), monkeypatch.setattr(kernels, "MOST", limit)
    g = called(9, x, irregular)
    assert len(looks) == 1 and not compiled and g.stats().kernels == 0 and g.stats().sweeps == 8
    (reason,) = g.stats().not_lowered
    assert "is predicted to take" in reason and "tg.jit(..., kernel='always')" in reason and f"by sweep: {reason}" in str(g.stats())
    # Where looking alone takes as long, nothing is looked at.
    looks.clear()
    limit = looked / reasons.STEPS_A_SECOND * 0.99
    monkeypatch.setattr(kernels, "SECONDS", limit), monkeypatch.setattr(kernels, "MOST", limit)
    assert called(3, x, irregular).stats().kernels == 0 and not looks
    monkeypatch.setattr(kernels, "SECONDS", (looked + whole) / reasons.STEPS_A_SECOND * 1.01)
    short = np.linspace(0.1, 0.9, 20)
    np.testing.assert_allclose(called(2, short, chain)(short), tg.grad(chain)(short), rtol=1e-12)
    assert compiled == [1]


def test_a_tape_that_is_not_finite_yet_is_compiled_once(monkeypatch):
    made = []
    monkeypatch.setattr("tapegrad.kernel.kernel.TapeKernel", lambda *args: (made.append(1), TapeKernel(*args))[1])
    g = tg.jit(tg.value_and_grad(lambda x: 0.0 * np.sqrt(x) + x), kernel="always")
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
    for make in (lambda **options: tg.jit(tg.grad(rosenbrock), **options), lambda **options: tg.jit(**options)(rosenbrock)):
        with pytest.raises(OptionError, match="'sometimes'.*'auto', 'always', 'never'"):
            make(kernel="sometimes")
    with pytest.raises(OptionError):
        tg.compile(rosenbrock, np.zeros(2), kernel="sometimes")


def test_a_configured_policy_that_is_none(monkeypatch):
    monkeypatch.setattr(tg.config, "kernel", "sometimes")
    with pytest.raises(OptionError):
        checked_policy(None)


def test_the_environment_variable():
    program = "import tapegrad as tg; print(tg.config.kernel, tg.jit(tg.grad(lambda x: x * x))._replayed.jit.kernel)"
    ended = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"TAPEGRAD_KERNEL": "never"}, capture_output=True, text=True
    )
    assert ended.stdout.split() == ["never", "never"], ended.stderr


# -- answers --------------------------------------------------------------------------------
def test_answers_before_and_after():
    g = tg.jit(tg.value_and_grad(rosenbrock), kernel="always")
    for x in np.random.default_rng(0).normal(size=(30, 5)):
        value, found = g(x)
        assert value == pytest.approx(rosenbrock(x), rel=1e-14) and type(value) is float
        np.testing.assert_allclose(found, gradient(x), rtol=1e-11, atol=1e-11)
    assert g.stats().kernel_calls > 20


def test_values_and_gradients_are_promoted_by_themselves():
    promoted = Kernels(tg.grad(rosenbrock).tape(np.zeros(3)), JitOptions("always"))
    assert promoted.made.get(True) is None
    assert promoted.make(False).gradients is False and promoted.made.get(True) is None
    assert promoted.make(True).gradients is True and promoted.make(True) is promoted.made.get(True)


def test_a_kernel_asked_for_by_hand_is_used():
    g = called(1, np.array([1.0, 2.0]), branches)
    other = np.array([-1.0, 2.0])
    kernel = g.kernel(other)
    assert g.kernel(other) is kernel and g.stats().kernels == 1
    calls = g.stats().kernel_calls
    for k in range(9):
        np.testing.assert_allclose(g(other + k / 16), [0.0, np.cos(2.0 + k / 16)], rtol=1e-14)
    assert g.stats().kernel_calls == calls + 9


def test_absolute_zero_comes_from_the_sweep():
    def function(x):
        return np.sum(np.where(x > 0.0, np.sqrt(x), 0.0)) + 0.0 * np.sqrt(x[0])

    g = tg.jit(tg.value_and_grad(function), kernel="always")
    for _ in range(4):
        g(np.array([4.0, 1.0]))
    assert g.stats().kernels == 1
    sweeps = g.stats().sweeps
    for _ in range(3):
        value, found = g(np.array([0.0, 4.0]))
        assert value == 2.0 and found.tolist() == [0.0, 0.25]
    assert g.stats().sweeps == sweeps + 3
    assert g(np.array([4.0, 1.0]))[1].tolist() == [0.25, 0.5] and g.stats().sweeps == sweeps + 3


@pytest.mark.parametrize("masked", [
    lambda r: np.nansum(r**2), lambda r: np.nanmean(r**2), lambda r: np.sum(np.where(np.isnan(DATA), 0.0, r * np.exp(r))), lambda r: np.sum(r[~np.isnan(DATA)] ** 2),
    lambda r: np.nansum(np.log(r) ** 2), lambda r: np.nansum(np.outer(r, r) @ np.ones(9)) + np.nansum(r), lambda r: sum(0.0 * r[0] if np.isnan(DATA[k]) else r[k] ** 3 for k in range(9)),
])  # fmt: skip
def test_where_missing_data_are_masked_a_kernel_answers(masked):
    def misfit(p):
        return masked(p[0] * np.exp(-p[1] * np.arange(9.0)) - DATA)

    with np.errstate(all="ignore"):
        for transformed in (tg.value_and_grad(misfit), tg.hessian(misfit)):
            g = tg.jit(transformed)
            for k in range(POINTS + 6):
                p = np.array([4.0 + k, 0.1])
                for one, other in zip(g(p), transformed(p), strict=True):
                    np.testing.assert_allclose(one, other, rtol=1e-10)
            assert g.stats().kernel_calls >= 3 and not g.stats().not_lowered


def test_infinite_and_undefined_values_are_those_of_numpy():
    g = tg.jit(tg.value_and_grad(lambda x: np.log(x) * x), kernel="always")
    for _ in range(4):
        g(2.0)
    with np.errstate(all="ignore"):
        assert np.isnan(g(-1.0)[0]) and g(np.inf)[0] == np.inf and np.isnan(g(np.nan)[0])
        value, slope = g(0.0)
    assert np.isnan(value) and slope == -np.inf or np.isnan(slope)


def test_the_first_replay_at_a_point_that_is_not_finite_promotes_later():
    g = tg.jit(tg.value_and_grad(lambda x: 0.0 * np.sqrt(x) + x), kernel="always")
    for _ in range(5):
        assert g(0.0) == (0.0, 1.0)
    assert g.stats().kernels == 0 and not g.stats().not_lowered
    for _ in range(3):
        assert g(4.0) == (4.0, 1.0)
    assert g.stats().kernels == 1


def test_auxiliary_results_and_several_arguments():
    g = tg.jit(tg.value_and_grad(lambda x, w: (np.sum(w * x), {"twice": 2.0 * x, "n": 3}), argnums=(1, 0), has_aux=True), kernel="always")
    for k in range(6):
        x, w = np.array([1.0, 2.0 + k]), np.array([3.0, 4.0])
        (value, aux), (dw, dx) = g(x, w)
        assert value == w @ x and aux["twice"].tolist() == (2 * x).tolist() and aux["n"] == 3
        assert dw.tolist() == x.tolist() and dx.tolist() == w.tolist()
    assert g.stats().kernels == 1 and g.stats().kernel_calls > 1


def test_where_a_gradient_is_rounding_alone_nothing_is_decided():
    """At the optimum of a sum, which a kernel adds up in another order, they differ in all digits."""
    y = np.random.default_rng(0).normal(size=1000) + 3.0
    w = np.cos(y * 0.01)
    g = tg.jit(tg.value_and_grad(lambda m: np.sum(w * (y - m) ** 2)))
    optimum = np.sum(w * y) / np.sum(w)
    for _ in range(3):
        assert abs(g(optimum)[1]) < 1e-10
    assert g.stats().kernels == 0 and not g.stats().not_lowered
    for _ in range(6):
        assert g(optimum + 0.5)[1] == pytest.approx(np.sum(w))
    assert g.stats().kernels == 1 and abs(g(optimum)[1]) < 1e-10


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
    def square(x, *others):
        return np.array([float(v) ** 2 for v in x])

    square.defvjp(lambda g, result, x, *others: (2.0 * x * g, *[None] * 20))

    def f(x):
        y = np.sin(x)
        return np.sum(square(y, *[y] * 20))

    tried = []
    monkeypatch.setattr("tapegrad.kernel.kernel.TapeKernel", lambda *args: (tried.append(1), TapeKernel(*args))[1])
    g = called(8, function=f, kernel="always")
    ((reason, count),) = g.stats().not_lowered.items()
    assert "square" in reason and f"test_kernels.py:{f.__code__.co_firstlineno + 2}" in reason and count == len(tried) == 1


def test_the_log_says_what_became_a_kernel(caplog):
    with caplog.at_level(logging.INFO, "tapegrad"):
        called(4, kernel="always")
    (message,) = [r.getMessage() for r in caplog.records if "Kernel(" in r.getMessage()]
    assert "rosenbrock" in message and "generate" in message


def test_stats_show_kernels():
    stats = called(10, kernel="always").stats()
    assert f"kernels 1: {stats.kernel_calls} calls" in str(stats) and stats.seconds["kernel"] > 0.0


def test_eight_threads_in_one_function():
    g = tg.jit(tg.value_and_grad(rosenbrock), kernel="always")
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
    g = tg.jit(tg.value_and_grad(rosenbrock), kernel="always")
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
    "grad": lambda: tg.jit(tg.grad(total), kernel="always"), "jit": lambda: tg.jit(total),
    "forward": lambda: tg.jit(tg.jacobian(lambda x: np.sin(x) * x, mode="forward"), kernel="always"),
    "reverse": lambda: tg.jit(tg.jacobian(lambda x: np.sin(x) * x, mode="reverse"), kernel="always"),
    "hessian": lambda: tg.jit(tg.hessian(total), kernel="always"),
    "sparse": lambda: tg.jit(tg.sparse_jacobian(lambda x: np.sin(x) * x), kernel="always"),
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
    assert "inside of tapegrad, with IndexError (list index out of range) in replay/test_kernels.py:" in reason
    assert f"by sweep: {reason}" in str(g.stats()) and g.stats().kernels == 0


def test_a_fault_is_named_by_optimisers_and_compile(monkeypatch):
    broken(monkeypatch, KeyError(3))

    def objective(x):
        return rosenbrock(x)

    def faults():
        """Of each recording of the optimisers, by the visit that it becomes a kernel at, whether it names the fault."""
        return {options.visits: "KeyError (3)" in str(kept.stats) for (_, options), kept in objective.__tapegrad__.made.items()}

    # What an optimiser records by itself is no kernel before so many evaluations, and each of these takes 42.
    for g in (tg.value_and_grad(objective), objective):
        assert tg.optimize.lbfgs(g, np.zeros(4)).success and faults() == {EVALUATIONS: False}
    assert tg.optimize.lbfgs(tg.jit(objective), np.zeros(4)).success and faults() == {EVALUATIONS: False, 1: True}
    for _ in range(EVALUATIONS // 42 - 1):
        assert tg.optimize.lbfgs(objective, np.zeros(4)).success
    assert faults() == {EVALUATIONS: True, 1: True}
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

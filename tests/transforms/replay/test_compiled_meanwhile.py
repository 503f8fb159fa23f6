"""What takes long to compile is compiled by another thread, while sweeps answer."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common import config
from tapegrad.common.waiting import busy
from tapegrad.kernel.kernel import TapeKernel
from tapegrad.kernel.reasons import NotLowered
from tapegrad.transforms.replay import kernels
from tests.transforms.replay.test_kernels import irregular

X = np.linspace(0.1, 0.9, 20)


@pytest.fixture
def held(monkeypatch):
    """Everything takes long, and is compiled when the test says so: the event, and threads in which kernels were made."""
    go_on, threads = threading.Event(), []

    def make(tape, key, options, limit):
        if limit is not None and limit < 1e9:
            return TapeKernel(tape, key, options, limit)
        go_on.wait(30)
        threads.append(threading.current_thread())
        return TapeKernel(tape, key, options, limit)

    monkeypatch.setattr(kernels, "SECONDS", 0.01)
    monkeypatch.setattr("tapegrad.kernel.kernel.TapeKernel", make)
    yield go_on, threads
    go_on.set()


def short(x):
    return irregular(x, 60)


def until(true, patience=60.0):
    end = time.monotonic() + patience
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def compiled(g):
    until(lambda: "another thread" not in str(g.stats()))


def test_sweeps_answer_until_it_is_there_and_then_it_does(held):
    go_on, threads = held
    expected = tg.grad(short)(X)
    g = tg.jit(tg.grad(short))
    for k in range(5):
        np.testing.assert_allclose(g(X), expected, rtol=1e-12)
        assert g.stats().waiting == ["kernel when another thread has compiled it"] and g.stats().sweeps == k
    assert not threads and "another thread" in str(g.stats()) and not g.stats().not_lowered
    go_on.set()
    compiled(g)
    # The next call compares it with the sweep, the one after is answered by it.
    np.testing.assert_allclose(g(X), expected, rtol=1e-12)
    assert (g.stats().kernels, g.stats().kernel_calls) == (1, 0) and g.stats().seconds["kernel"] > 0.0
    np.testing.assert_allclose(g(X), expected, rtol=1e-12)
    assert (g.stats().kernels, g.stats().kernel_calls) == (1, 1)
    assert len(threads) == 1 and threads[0] is not threading.current_thread()


def test_the_arguments_of_the_call_that_began_it_may_change_meanwhile(held):
    g, x = tg.jit(tg.value_and_grad(short)), X.copy()
    _, slope = g(x)
    x[:], slope[:] = -1.0, np.nan
    held[0].set(), compiled(g)
    expected = tg.value_and_grad(short)(x)
    for _ in range(3):
        for got, wanted in zip(g(x), expected):
            np.testing.assert_allclose(got, wanted, rtol=1e-12)
    assert g.stats().kernels == 1


def test_an_optimiser_goes_on_by_sweeps(held):
    target = tg.jit(lambda x: np.sum((x - 0.3) ** 2) + 0.1 * np.sin(short(x)) ** 2)
    result = tg.optimize.lbfgs(target, X)
    assert result.success and not held[1]
    held[0].set()
    np.testing.assert_allclose(tg.optimize.lbfgs(target, X).x, result.x, atol=1e-6)


def test_several_threads_begin_it_once(held):
    g = tg.jit(tg.grad(short))
    g(X)
    threads = [threading.Thread(target=lambda: [g(X) for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    held[0].set(), compiled(g), g(X), g(X)
    assert len(held[1]) == 1 and g.stats().kernel_calls == 1


def test_a_small_kernel_does_not_wait_for_a_large_one(held, monkeypatch):
    """LLVM's lock is held for as long as it optimises a module: the call that needs a small kernel is answered by sweeps."""
    go_on, threads = held
    g, h = tg.jit(tg.grad(short)), tg.jit(tg.grad(lambda x: np.sum(np.sin(x))))
    g(X)
    until(busy)
    monkeypatch.setattr(kernels, "SECONDS", 2.0)
    for k in range(3):
        np.testing.assert_allclose(h(X), np.cos(X), rtol=1e-14)
        assert h.stats().sweeps == k and h.stats().waiting == ["kernel when another thread has compiled it"] and not threads
    go_on.set(), compiled(g), compiled(h)
    for _ in range(3):
        np.testing.assert_allclose(h(X), np.cos(X), rtol=1e-14)
    assert h.stats().kernels == 1 and h.stats().kernel_calls == 2 and threading.current_thread() not in threads
    # When that is over, small ones are made at once again.
    assert not busy()
    k = tg.jit(tg.grad(lambda x: np.sum(np.cos(x))))
    k(X), k(X)
    assert k.stats().kernels == k.stats().kernel_calls == 1


def test_always_is_compiled_at_once(held):
    held[0].set()
    g = tg.jit(tg.grad(short), kernel="always")
    g(X)
    assert g.stats().kernels == 1 and held[1] == [threading.current_thread()]


def fails_there(monkeypatch, error):
    """Kernels are compiled by another thread, and it fails."""

    def fail(tape, key, options, limit):
        if threading.current_thread() is threading.main_thread():
            return TapeKernel(tape, key, options, limit)
        raise error

    monkeypatch.setattr(kernels, "SECONDS", 0.01)
    monkeypatch.setattr("tapegrad.kernel.kernel.TapeKernel", fail)


def test_why_there_is_none_is_known_at_the_next_call(monkeypatch):
    fails_there(monkeypatch, NotLowered("it is Tuesday"))
    g = tg.jit(tg.grad(short))
    g(X), compiled(g)
    assert not g.stats().not_lowered
    for _ in range(3):
        g(X)
    assert g.stats().not_lowered == {"it is Tuesday": 1} and g.stats().kernels == 0


def test_faults_of_ours_are_no_errors_of_the_caller_s(monkeypatch):
    monkeypatch.setattr(config, "strict", False)
    fails_there(monkeypatch, IndexError("broken"))
    g = tg.jit(tg.grad(short))
    g(X), compiled(g), g(X)
    (reason,) = g.stats().not_lowered
    assert "IndexError (broken)" in reason and "test_compiled_meanwhile.py" in reason


# -- processes that end, fork, are interrupted -------------------------------------------------
PROGRAM = """
import os, signal, sys, threading, time
import numpy as np
import numpy.testing  # NumPy would import it at the first use; a Ctrl-C that comes in an import may be lost
import tapegrad as tg
from tapegrad.common import uninterrupted
from tapegrad.transforms.replay import kernels
from tests.transforms.replay.test_kernels import irregular
kernels.SECONDS = 0.01

def f(x):
    # Another kernel in each test, which is not on disk.
    return float(os.environ["SCALE"]) * irregular(x, 1200)

x = np.linspace(0.1, 0.9, 20)
g = tg.jit(tg.grad(f))

def begun():
    "Another thread is compiling: in LLVM's hands, where it must not be left."
    expected = g(x)
    while not uninterrupted._INSIDE:
        time.sleep(0.001)
        if "another thread" not in str(g.stats()):
            raise RuntimeError("it is over")
    return expected

def finished():
    end = time.monotonic() + 120
    while not g.stats().kernels and time.monotonic() < end:
        g(x)
        time.sleep(0.01)
    g(x)
    return g.stats().kernel_calls > 0
"""


def environment():
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "SCALE": repr(1.0 + random.SystemRandom().random())}


def run(program):
    """What a process does, with an exit code and without a word."""
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-W", "ignore:This process:DeprecationWarning", "-c", PROGRAM + textwrap.dedent(program)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


@pytest.mark.parametrize("stage", ["begun()", "g(x)", "g(x), time.sleep(0.05)"])
def test_a_process_ends_while_a_kernel_is_compiled(stage):
    assert run(f"{stage}\nprint('end')") == (0, "end\n", "")


def test_it_ends_with_an_error_too():
    code, _, err = run("begun()\nraise ValueError('of the program')")
    assert code == 1 and err.endswith("ValueError: of the program\n") and "Fatal" not in err


@pytest.mark.skipif(os.name != "posix", reason="signals are sent by os.kill")
def test_ctrl_c_while_a_kernel_is_compiled(interruptible):
    program = """
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    expected = begun()
    came = 0
    end = time.monotonic() + 120

    def replays():
        # A function of its own: `try` of Python 3.13 does not have the last jump of a loop in it.
        signal.setitimer(signal.ITIMER_REAL, 0.002 + 0.001 * (came % 30))
        while not g.stats().kernel_calls:
            np.testing.assert_allclose(g(x), expected, rtol=1e-9)
        signal.setitimer(signal.ITIMER_REAL, 0.0)

    while not g.stats().kernel_calls and time.monotonic() < end:
        try:
            replays()
        except KeyboardInterrupt:
            came += 1
    print(came > 0, finished())
    """
    assert run(program) == (0, "True True\n", "")
    code, _, err = run("begun()\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)")
    assert code == -signal.SIGINT and err.endswith("KeyboardInterrupt\n") and "Fatal" not in err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_child_forked_meanwhile_compiles_for_itself():
    program = """
    expected = begun()
    child = os.fork()
    np.testing.assert_allclose(g(x), expected, rtol=1e-9)
    if not child:
        # The thread is the parent's.
        os._exit(0 if finished() else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), finished())
    """
    assert run(program) == (0, "0 True\n", "")


def test_a_child_that_is_spawned_meanwhile(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + textwrap.dedent("""
    import multiprocessing

    def work(queue):
        queue.put(g(x))

    if __name__ == "__main__":
        expected = begun()
        context = multiprocessing.get_context("spawn")
        queue = context.Queue()
        child = context.Process(target=work, args=(queue,))
        child.start()
        np.testing.assert_allclose(queue.get(timeout=120), expected, rtol=1e-9)
        child.join(120)
        print(child.exitcode)
    """))
    ended = subprocess.run([sys.executable, str(program)], env=environment(), capture_output=True, text=True, timeout=300)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "0\n", "")

"""What a call waits for is said once it has waited long, and another thread makes what nobody waits for."""

import os
import shutil
import subprocess
import sys
import threading
import time

import pytest

from tapegrad.common import config, waiting
from tapegrad.common.waiting import BackgroundTask, say


@pytest.fixture(autouse=True)
def untold(monkeypatch):
    """Nothing has been said, nor waited for, and patience is short."""
    monkeypatch.setattr(waiting, "_SAID", set())
    monkeypatch.setattr(waiting, "_WAIT", waiting._Wait())
    monkeypatch.setattr(config, "quiet", False)
    monkeypatch.setattr(waiting, "PATIENCE", 0.2)
    monkeypatch.setattr(waiting, "EVERY", 0.01)


def until(true, patience=20.0):
    end = time.monotonic() + patience
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_it_is_said_while_one_waits_and_once(capsys):
    for _ in range(2):
        with waiting.waiting("kernel", "compiling a kernel"):
            until(lambda: "kernel" in waiting._SAID)
    assert capsys.readouterr().err == "tapegrad: compiling a kernel\n"


def test_of_a_short_wait_nothing_is_said(capsys, monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE", 60.0)
    before = set(threading.enumerate())
    with waiting.waiting("kernel", "compiling a kernel"):
        assert len(set(threading.enumerate()) - before) == 1
    until(lambda: not set(threading.enumerate()) - before)
    assert capsys.readouterr().err == "" and not waiting._SAID


def test_many_short_waits_in_a_row_are_a_long_one_and_a_pause_ends_it(capsys, monkeypatch):
    monkeypatch.setattr(waiting, "PAUSE", 5.0)
    for _ in range(40):
        with waiting.waiting("functions", "compiling functions"):
            time.sleep(0.03)
    assert capsys.readouterr().err == "tapegrad: compiling functions\n"
    monkeypatch.setattr(waiting, "PAUSE", -1.0)
    began = waiting._WAIT.began
    with waiting.waiting("functions", "compiling functions"):
        assert waiting._WAIT.began > began


def test_the_innermost_reason_is_named(capsys):
    with waiting.waiting("kernel", "compiling a kernel"):
        with waiting.waiting("functions", "compiling functions"):
            until(lambda: waiting._SAID)
        assert waiting._SAID == {"functions"}
        until(lambda: len(waiting._SAID) == 2)
    assert capsys.readouterr().err == "tapegrad: compiling functions\ntapegrad: compiling a kernel\n"


def test_an_error_ends_the_wait():
    with pytest.raises(ValueError), waiting.waiting("kernel", "compiling"):
        raise ValueError
    assert not waiting._WAIT.reasons


@pytest.mark.parametrize("stream", [None, open(os.devnull)])
def test_without_anybody_to_read_it_nothing_fails(stream, monkeypatch):
    monkeypatch.setattr("sys.stderr", stream)
    say("kernel", "compiling a kernel")


def test_it_can_be_silenced(capsys, monkeypatch):
    monkeypatch.setattr(config, "quiet", True)
    say("kernel", "compiling a kernel")
    before = set(threading.enumerate())
    with waiting.waiting("kernel", "compiling a kernel"):
        assert not set(threading.enumerate()) - before
    assert capsys.readouterr() == ("", "")


def test_no_more_threads_is_no_error(monkeypatch, capsys):
    monkeypatch.setattr(threading.Thread, "start", lambda self: exec("raise RuntimeError(\"can't start new thread\")"))
    done = []
    with waiting.waiting("kernel", "compiling a kernel"):
        done.append(1)
    assert done and capsys.readouterr().err == ""
    with pytest.raises(RuntimeError):
        BackgroundTask(lambda: 1)
    assert not waiting.busy()


# -- another thread ---------------------------------------------------------------------------
def test_what_is_made_later_one_at_a_time_and_unannounced(capsys):
    go_on, inside = threading.Event(), []

    def make(number):
        with waiting.waiting("kernel", "compiling a kernel"):
            inside.append(number)
            go_on.wait(20), time.sleep(0.5 * (number == 0))
        return number

    one, other = BackgroundTask(lambda: make(0)), BackgroundTask(lambda: make(1))
    until(lambda: inside)
    assert one.working and other.working and one.result() is None
    go_on.set()
    until(lambda: not (one.working or other.working))
    assert sorted([one.result(), other.result()]) == [0, 1] and capsys.readouterr().err == ""


def test_an_error_of_it_is_raised_when_one_asks():
    later = BackgroundTask(lambda: 1 // 0)
    until(lambda: not later.working)
    with pytest.raises(ZeroDivisionError):
        later.result()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_child_does_not_wait_for_the_thread_that_it_does_not_have():
    go_on = threading.Event()
    later = BackgroundTask(lambda: go_on.wait(20))
    child = os.fork()
    if not child:
        try:
            again = BackgroundTask(lambda: 7)
            until(lambda: not again.working)
            os._exit(0 if not later.working and later.result() is None and again.result() == 7 else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 and later.working
    go_on.set()


# -- what is waited for -------------------------------------------------------------------------
PROGRAM = """
import sys
from tapegrad.common import waiting
waiting.PATIENCE = 0.0
import numpy as np
import tapegrad as tg

from tapegrad.rules.table import elementwise

def after(what, call):
    print(what, file=sys.stderr)
    call()

# With another row in the table the switches are compiled; what else there is to walk has been compiled before.
elementwise("halved", lambda x: x / 2.0, lambda x: x / 2.0, (lambda x, z: 0.5,), node="Halved", doc="x / 2")
x = tg.tensor(2.0, requires_grad=True)
after("first", lambda: (x * x).backward())
after("loops", lambda: tg.grad(lambda x: np.sum(np.sin(x)))(np.ones(3)))
g = tg.jit(tg.grad(lambda x: np.sum([np.sin(x[k % 5] * k) ** (k % 7) for k in range(300)])), kernel="always")
after("kernel", lambda: g(np.ones(5)))
after("numba", lambda: tg.njit_grad(lambda x: x[0] * x[1])(np.ones(2)))
after("again", lambda: tg.njit_grad(lambda x: x[0] + x[1])(np.ones(2)))
"""


def test_a_long_wait_says_where_it_is_beside_what_is_inside(capsys):
    at = ["first"]
    with waiting.waiting("whole", lambda: f"it is at {at[-1]}", 0.5), waiting.waiting("part", "compiling"):
        until(lambda: "part" in waiting._SAID)
        assert "whole" not in waiting._SAID
        at.append("second")
        until(lambda: "whole" in waiting._SAID)
    assert capsys.readouterr().err == "tapegrad: compiling\ntapegrad: it is at second\n"


@pytest.mark.parametrize("quiet", ["", pytest.param("1", marks=pytest.mark.long)])
def test_compilations_are_said_to_who_waits_for_them(quiet, tmp_path):
    objects = config.cache_dir() / "objects"
    if objects.exists():
        shutil.copytree(objects, tmp_path / "objects", ignore=shutil.ignore_patterns("tmp*", "*.kernel"), copy_function=shutil.copyfile)
    environment = os.environ | {"TAPEGRAD_CACHE_DIR": str(tmp_path), "TAPEGRAD_QUIET": quiet}
    ended = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0 and ended.stdout == "", ended.stderr
    said = {
        "first": f"tapegrad: compiling functions of its own, once for this machine (kept in {tmp_path}; python -m tapegrad warm compiles all of them now)",
        "kernel": "tapegrad: compiling a kernel of ",
        "numba": "tapegrad: compiling derivatives of functions by Numba",
    }
    # (Where compiling takes longer than three seconds, it is said by what.)
    lines = [line for line in ended.stderr.splitlines() if " by Numba for " not in line]
    for what in ("first", "loops", "kernel", "numba", "again"):
        assert lines.pop(0) == what
        if not quiet and what in said:
            assert lines.pop(0).startswith(said[what])
    assert not lines

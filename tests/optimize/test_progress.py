"""The progress line: for whom, when, and what it says."""

import io
import sys

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.optimize import progress as module
from tapegrad.optimize.progress import Progress, duration, line


class Terminal(io.StringIO):
    def isatty(self):
        return True


def f(x):
    return np.sum((x - 1.0) ** 2)


def slow(monkeypatch):
    """Time passes: half a second at each look."""
    clock = iter(np.arange(0.0, 1e6, 0.5))
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(clock))


def test_silent_where_nobody_looks(monkeypatch, capsys):
    slow(monkeypatch)
    tg.optimize.lbfgs(f, np.zeros(2))
    tg.optimize.minimize(f, np.zeros(2))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("method", ["lbfgs", "adam", "gradient_descent", "BFGS"])
def test_on_a_terminal_after_a_second(monkeypatch, method):
    monkeypatch.setattr(sys, "stderr", Terminal())
    tg.optimize.minimize(f, np.zeros(2), method=method)
    assert sys.stderr.getvalue() == ""
    slow(monkeypatch)
    tg.optimize.minimize(f, np.zeros(2), method=method)
    shown = sys.stderr.getvalue()
    assert shown.startswith("\r") and shown.endswith("\n") and "f = " in shown and "|g| = " in shown and "/s" in shown


def test_forced_on_and_off(monkeypatch, capsys):
    tg.optimize.lbfgs(f, np.zeros(2), progress=True)
    assert "f = " in capsys.readouterr().err
    slow(monkeypatch)
    monkeypatch.setattr(sys, "stderr", Terminal())
    tg.optimize.lbfgs(f, np.zeros(2), progress=False)
    assert sys.stderr.getvalue() == ""


def test_notebooks_and_closed_streams():
    kind = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    assert module.watched(kind()) and not module.watched(io.StringIO()) and not module.watched(None)
    closed = io.StringIO()
    closed.close()
    assert not module.watched(closed)


def test_what_it_says():
    text = line(1500, 0.125, 3.0, 3.0, 3000, "it")
    assert text == "1,500/3,000 it  500 it/s  f = 0.125  |g| = 3  3.0 s  3.0 s left at most"
    assert line(5, 1.0, 2.0, 10.0, None, "evaluations") == "5 evaluations  0.5 evaluations/s  f = 1  |g| = 2  10.0 s"
    assert [duration(s) for s in (6.71, 245, 3723)] == ["6.7 s", "4:05", "1:02:03"]


def test_a_shorter_line_covers_the_longer_one():
    shown = Progress(True)
    shown.stream = io.StringIO()
    shown._write("a longer line")
    shown._write("short")
    assert shown.stream.getvalue() == "\ra longer line\rshort        "

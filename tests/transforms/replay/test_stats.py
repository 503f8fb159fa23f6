"""`stats()` and the log say what was recorded, replayed and missed, and where."""

import logging

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.scipy.integrate import solve_ivp
from tapegrad.transforms.functional import grad


def branching(x):
    if x[0] > 0:  # the guard
        return np.sum(x) * x[1].item()  # a cut
    return np.sum(x.detach() * x)  # another


def line(word):
    with open(__file__) as file:
        return 1 + next(k for k, text in enumerate(file) if text.rstrip().endswith("# " + word))


def test_stats_and_log(caplog):
    g = tg.jit(grad(branching), kernel="never")
    with caplog.at_level(logging.INFO, "tapegrad"):
        for sign in (1, 1, 1, 1, -1, -1, 1):
            g(np.array([sign, 2.0, 3.0]))
    stats = g.stats()
    assert stats.records == stats.tapes == 2 and stats.replays == 5 and stats.runs == 0
    (miss,) = stats.misses
    assert miss.endswith(f":{line('the guard')}")
    assert {c.split(" at ")[0] for c in stats.cuts} == {"item()", "detach"}
    assert any(c.endswith(f":{line('a cut')}") for c in stats.cuts)
    assert any(c.endswith(f":{line('another')}") for c in stats.cuts)
    assert set(stats.seconds) == {"record", "finish", "replay", "kernel"}
    assert stats.seconds["record"] > 0.0 and stats.seconds["finish"] > 0.0 and stats.seconds["kernel"] == 0.0
    assert stats.instructions > 4 and stats.bytes > 0
    messages = [r.getMessage() for r in caplog.records if r.name == "tapegrad"]
    assert len(messages) == 2 and "new kind of arguments" in messages[0]
    assert any("its path changes" in m and f"test_stats.py:{line('the guard')}" in m for m in messages)
    assert all("branching" in m for m in messages)
    text = str(stats)
    assert "records 2" in text and "guard missed" in text and "cut" in text


def test_a_change_of_environment_is_logged(caplog):
    factor = [1.0]
    g = tg.jit(grad(lambda x: x * factor[0]))
    g(1.0)
    factor[0] = 2.0
    with caplog.at_level(logging.INFO, "tapegrad"):
        assert g(1.0) == 2.0
    assert any("factor[0] has changed" in r.getMessage() for r in caplog.records)


def test_a_function_that_is_given_up_is_said_once(caplog):
    primitive = tg.custom_vjp(lambda x: (x * 2.0, 1), lambda g, result, x: g[0] * 2.0)
    j = tg.jit(tg.jacobian(lambda x: primitive(x)[0]))
    with caplog.at_level(logging.WARNING, "tapegrad"), pytest.warns(tg.PathWarning, match="run at every call: the custom primitive"):
        j(np.ones(2))
    j(np.ones(2))
    assert not caplog.records and "run at every call: the custom primitive" in str(j.stats())


def test_a_function_without_jit_counts_its_runs():
    g = grad(branching)
    for sign in (1, -1, 1):
        g(np.array([sign, 2.0, 3.0]))
    assert g.stats().runs == 3 and "records 0, replays 0, runs 3" in str(g.stats())


def test_what_the_package_detaches_is_no_cut_of_the_line_that_calls_it():
    def solved(p):
        return solve_ivp(lambda t, y: -p * y, (0.0, 1.0), np.ones(1), method="Radau").y[0, -1]

    def cut(p):
        return p * p.detach() + tg.stop_gradient(p) * p + p * p.data

    for f, n in ((solved, 0), (cut, 3)):
        g = tg.jit(tg.grad(f), kernel="never")
        g(1.5)
        assert sum(g.stats().cuts.values()) == n

"""What a replay takes in memory is known before it is run."""

import ctypes
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import OptionError

MEASURED = """
import ctypes, gc, sys
import numpy as np, tapegrad as tg

def status(key):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(key))

memory, with_results = eval(sys.argv[1])
xs, p = np.sin(np.arange(1e6)), np.array([0.4, 0.9])

def f(p):
    y, ys = tg.scan(lambda y, x: (y + 1e-6 * np.sin(y * p[1]) * x, y if with_results else None), p[0], xs, memory=memory)
    return y + (np.sum(ys) if with_results else 0.0)

tape = tg.grad(f).tape(p)
for _ in range(2):
    tape.value_and_grad(p)
plan = tape.plan()
# Another workspace, whose memory nobody has written to.
tape.kept.clear()
gc.collect()
ctypes.CDLL(None).malloc_trim(0)
open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS")
tape.value_and_grad(p)
print(plan.peak, status("VmHWM") - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs") or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only Linux tells")
@pytest.mark.parametrize("budget", [(None, False), (4 << 20, False), (1 << 20, True), (1 << 16, False)])
def test_the_peak_is_what_was_predicted(budget):
    # Large blocks come from the system, and go back to it: else what is resident depends on what was freed before.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "MALLOC_MMAP_THRESHOLD_": "65536"}
    ended = subprocess.run([sys.executable, "-c", MEASURED, repr(budget)], capture_output=True, text=True, env=environment, timeout=300)
    assert ended.returncode == 0, ended.stderr
    predicted, measured = map(int, ended.stdout.split())
    assert predicted == pytest.approx(measured, rel=0.1)


def of_iterations(iterations, memory):
    return lambda p: tg.scan(lambda y, _: (y + 0.1 * np.sin(y), None), p, None, iterations, memory=memory)[0]


def test_a_plan_is_read():
    plan = tg.grad(of_iterations(1000, 1024)).tape(0.5).plan()
    (loop,) = plan.loops
    assert (loop.iterations, loop.carries, loop.again) == (1000, 8 * loop.capacity, 240)
    assert 1024 - 16 * 32 < loop.carries <= 1024 < plan.peak
    assert re.match(r"values .*, peak .*\nthe body of the scan: 1000 iterations, keeps 96 carries \(every 30th before iteration 936, then each\)", str(plan))
    assert "iterations until a condition" in str(tg.grad(lambda p: tg.while_loop(lambda y: y < 9.0, lambda y: y * 1.5, p)).tape(0.5).plan())
    assert tg.grad(lambda x: np.sum(x * x)).tape(np.ones(1000)).plan().loops == ()


def test_memory_that_is_too_little_says_what_is_the_least():
    with pytest.raises(OptionError, match=r"memory=15 is too little for the body of the scan: .* give memory=16 or more"):
        tg.grad(of_iterations(10, 15))(0.5)
    with pytest.raises(OptionError, match="give memory=16 or more"):
        tg.grad(lambda p: tg.while_loop(lambda y: y < 9.0, lambda y: y * 1.5, p, memory=0))(0.5)
    assert tg.grad(of_iterations(10, 16))(0.5) == pytest.approx(tg.grad(of_iterations(10, None))(0.5), rel=1e-14)
    assert tg.grad(of_iterations(1, 0))(0.5) == pytest.approx(1.0 + 0.1 * np.cos(0.5))

"""What compiled code does where there is no memory: an error of Python's, and everything goes on."""

import subprocess
import sys

import pytest

pytest.importorskip("resource", reason="only POSIX has limits of memory")

PROGRAM = """
import resource
import numpy as np
import tapegrad as tg

def f(p, xs):
    def body(c, x):
        c = np.sin(c * p + x)
        return c, c * ONES
    c, ys = tg.scan(body, 0.1 * p, xs, memory=2**20)
    return c + ys[-1, 0] + np.sum(ys[:, 1:3] * ys[:, 3:5]) * 1e-9

ONES, xs = np.linspace(1.0, 2.0, 200), np.linspace(0.0, 1.0, 30_000)
g = tg.value_and_grad(f)
first = g(0.5, xs)
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
raised = different = 0
for room in range(0, 360, 30):
    resource.setrlimit(resource.RLIMIT_AS, (taken + room * 2**20, resource.RLIM_INFINITY))
    try:
        again = g(0.5, xs)
    except MemoryError as error:
        raised += "adjoint" in str(error)
    else:
        different += again != first
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
print(raised, different + (g(0.5, xs) != first))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_a_sweep_without_memory_raises():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr[-2000:]
    raised, different = map(int, ran.stdout.split())
    assert raised > 0 and different == 0

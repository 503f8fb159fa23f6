"""What it costs to record an array operation: the first call of a new function under `jit`, without a kernel.

The function is 100 turns of a loop over vectors of 14 numbers.  The time of a call is divided by the instructions of the
tape that it leaves.  Under a second derivative most of these are what the derivative inside has recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import process_time

import numpy as np

import tapegrad as tg

from .registry import Row, benchmark

X = np.linspace(0.1, 1.0, 14)


def function() -> Callable:
    """A new function of a vector."""

    def f(x):
        y = x
        for _ in range(100):
            y = np.sin(y) * x + 0.5 * y
            y = y - x / (1.0 + y * y)
            y = np.exp(-y) * np.sqrt(y * y + 1.0)
        return np.sum(y)

    return f


def of_gradient() -> Callable:
    """A new function, of the gradient of such a one."""
    f = function()
    return lambda x: np.sum(tg.grad(f)(x) ** 2)


def microseconds(make: Callable[[], Callable], repeats: int) -> tuple[float, int]:
    """For each instruction of the tape, the least of several first calls; and how many there are."""
    times = []
    for _ in range(repeats):
        g = tg.jit(make(), kernel="never")
        start = process_time()
        g(X)
        times.append(process_time() - start)
    count = len(g.tape(X))
    return min(times) / count * 1e6, count


@benchmark(name="recording")
def recording(quick: bool) -> Iterator[Row]:
    """Microseconds to record an operation on vectors of 14."""
    for what, make, limit in (("an array operation", function, 8.0), ("an array operation under a second derivative", of_gradient, 15.0)):
        taken, count = microseconds(make, 5 if quick else 30)
        yield Row(f"recording {what}, vectors of 14", f"at most {limit:g} us", taken, limit, "us", {"instructions": count})

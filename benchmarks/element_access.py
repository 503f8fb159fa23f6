"""Reading and writing single elements in a loop: O(1) each, whatever the size of the array.

The recurrence ``y[i] = y[i - 1] * c + x[i]`` is written as a plain loop over an
array of the library; forward and backward pass together, at two lengths: the time
per step must not grow with the length.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tapegrad as tg

from .registry import Row, benchmark, check_agreement
from .timing import measure


def recurrence(length: int):
    """A step that runs the loop over arrays of `length` elements, forward and backward."""
    data = np.linspace(0.0, 1.0, length)

    def call() -> np.ndarray:
        x = tg.tensor(data, requires_grad=True)
        y = tg.zeros(length)
        for i in range(1, length):
            y[i] = y[i - 1] * 0.5 + x[i]
        y[length - 1].backward()
        return x.grad.numpy()

    return call


@benchmark(name="element_access")
def element_access(quick: bool) -> Iterator[Row]:
    """Element reads and writes in a Python loop."""
    powers = [0.0, *0.5 ** np.arange(8.0, -1.0, -1.0)]
    check_agreement("gradient of the recurrence", {"powers of 1/2": powers, "tapegrad": recurrence(10)()})
    short, long = 1_000, 10_000 if quick else 40_000
    times = measure({str(n): recurrence(n) for n in (short, long)}, budget=2.0, at_least=1)
    each = {n: times[str(n)].minimum / n for n in (short, long)}
    yield Row(
        f"time of a step at length {long:,} beside length {short:,}",
        "O(1): at most 1.5 times",
        each[long] / each[short],
        1.5,
        detail={f"length {n:,}": f"{t * 1e6:.1f} us a step" for n, t in each.items()},
    )

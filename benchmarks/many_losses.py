"""Many losses on one long tape: going back from each costs what that one has, whatever else the tape holds.

All losses are recorded first, each of some instructions on the same parameters, then each goes back
by itself.  If a pass walked over the whole tape, the time of one would grow with their number; what grows
a little is the memory that is touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import numpy as np

import tapegrad as tg

from .registry import Row, benchmark, check_agreement
from .timing import seconds

FEW, MANY, REPEATS = 100, 1_000, 20
INSTRUCTIONS = 20


def loss_of(w, k: int):
    """Loss number `k`."""
    y = w * (1.0 + k)
    for _ in range(INSTRUCTIONS // 2 - 1):
        y = np.sin(y) + w
    return y


def passes(count: int) -> tuple[float, float]:
    """Seconds of a backward pass, the mean of `count` of them on one tape; and the gradient that they add up to."""
    w = tg.tensor(0.3, requires_grad=True)
    with tg.Tape():
        losses = [loss_of(w, k) for k in range(count)]
        start = perf_counter()
        for loss in losses:
            loss.backward()
        return (perf_counter() - start) / count, w.grad.item()


@benchmark(name="many_losses")
def many_losses(quick: bool) -> Iterator[Row]:
    """A backward pass from one of a thousand losses on one long tape, beside one of a hundred."""
    h = 1e-6
    differences = sum((loss_of(0.3 + h, k) - loss_of(0.3 - h, k)) / (2 * h) for k in range(FEW))
    check_agreement("gradient of all losses", {"differences": differences, "tapegrad": passes(FEW)[1]}, rtol=1e-6)
    least = {FEW: np.inf, MANY: np.inf}
    for _ in range(REPEATS // 4 if quick else REPEATS):
        for count in least:
            least[count] = min(least[count], passes(count)[0])
    yield Row(
        f"a backward pass of one of {MANY:,} losses on one tape, beside one of {FEW:,}",
        "not quadratic, which would be 10 times: nearer to once than to that",
        least[MANY] / least[FEW],
        10.0**0.5,
        detail={f"{count:,} losses": f"{seconds(time)} each" for count, time in least.items()},
    )

"""Loops that run for long stay at the same memory.

Three loops, each in a process of its own: losses that are computed and
dropped, the same while one early loss is kept alive, and training steps.  The
resident size after iteration 1 000 and at the end may differ by 5 MB at most.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import numpy as np

import tapegrad as tg

from .memory import MB, rss
from .registry import Row, benchmark

FIRST, LAST, QUICK_LAST = 1_000, 100_000, 10_000


def loss_of(w, x: np.ndarray):
    """A small loss: a vector product, a nonlinearity, a scalar tail."""
    score = np.tanh(x @ w)
    return np.sum(score * score) * 0.5 + w[0] * w[1]


def losses_dropped() -> Callable[[int], None]:
    w = tg.tensor(np.linspace(-1.0, 1.0, 8), requires_grad=True)
    x = np.random.default_rng(0).normal(size=(4, 8))

    def turn(i: int) -> None:
        loss_of(w, x)

    return turn


def losses_dropped_but_one() -> Callable[[int], None]:
    w = tg.tensor(np.linspace(-1.0, 1.0, 8), requires_grad=True)
    x = np.random.default_rng(0).normal(size=(4, 8))
    kept = []

    def turn(i: int) -> None:
        loss = loss_of(w, x)
        if i == 10:
            kept.append(loss)

    return turn


def training_steps() -> Callable[[int], None]:
    w = tg.tensor(np.linspace(-1.0, 1.0, 8), requires_grad=True)
    x = np.random.default_rng(0).normal(size=(4, 8))

    def turn(i: int) -> None:
        nonlocal w  # for `-=`, which changes it in place
        loss_of(w, x).backward()
        with tg.no_grad():
            w -= 1e-3 * w.grad
        w.grad = None

    return turn


LOOPS = {
    "losses dropped without backward()": losses_dropped,
    "the same with one early loss kept alive": losses_dropped_but_one,
    "training steps": training_steps,
}


def measure_growth(name: str, last: int) -> dict[str, int]:
    """Run one loop in this process and return its resident sizes in bytes."""
    turn = LOOPS[name]()
    sizes = {}
    for i in range(1, last + 1):
        turn(i)
        if i == FIRST:
            sizes["first"] = rss()
    sizes["last"] = rss()
    return sizes


@benchmark(part=1, name="memory_flat")
def memory_flat(quick: bool) -> Iterator[Row]:
    """Growth of resident memory from iteration 1 000 to 100 000."""
    rss()  # raises where it cannot be read
    last = QUICK_LAST if quick else LAST
    for name in LOOPS:
        ended = subprocess.run(
            [sys.executable, "-m", f"{__package__}.memory_flat", name, str(last)],
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode != 0:
            raise RuntimeError(f"{name}: {ended.stderr.strip().splitlines()[-1]}")
        sizes = json.loads(ended.stdout)
        yield Row(
            f"{name}: RSS growth, iteration {FIRST:,} to {last:,}",
            "at most 5 MB",
            (sizes["last"] - sizes["first"]) / MB,
            5.0,
            "MB",
            {key: f"{size / MB:.1f} MB" for key, size in sizes.items()},
        )


if __name__ == "__main__":
    print(json.dumps(measure_growth(sys.argv[1], int(sys.argv[2]))))

"""Loops that run for long stay at the same memory.

Loops, each in a process of its own: losses that are computed and dropped, the same
while one early loss is kept alive, training steps, and steps of second order: a
penalty on a gradient, and learning how to learn.  The resident size after
iteration 1 000 and at the end may differ by 5 MB at most.
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

#: Iterations: after which to look first, and how many there are, of second order, and at most in quick mode.
FIRST, LAST, SECOND_ORDER, QUICK_LAST = 1_000, 100_000, 11_000, 3_000


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


def gradient_penalties() -> Callable[[int], None]:
    """Steps of a loss to which the size of its gradient by the data is added."""
    w = tg.tensor(np.linspace(-1.0, 1.0, 8), requires_grad=True)
    data = np.random.default_rng(0).normal(size=(4, 8))

    def turn(i: int) -> None:
        nonlocal w
        x = tg.tensor(data, requires_grad=True)
        loss = loss_of(w, x)
        (slope,) = tg.autograd.grad(loss, x, create_graph=True)
        (loss + np.sum(slope * slope)).backward()
        with tg.no_grad():
            w -= 1e-3 * w.grad
        w.grad = None

    return turn


def meta_learning() -> Callable[[int], None]:
    """Steps of a starting point, by the loss after a step of gradient descent from it."""
    w = tg.tensor(np.linspace(-1.0, 1.0, 8), requires_grad=True)
    x, other = np.random.default_rng(0).normal(size=(2, 4, 8))

    def turn(i: int) -> None:
        nonlocal w
        (slope,) = tg.autograd.grad(loss_of(w, x), w, create_graph=True)
        loss_of(w - 0.1 * slope, other).backward()
        with tg.no_grad():
            w -= 1e-3 * w.grad
        w.grad = None

    return turn


#: Name -> the loop, and how many iterations it is promised for.
LOOPS = {
    "losses dropped without backward()": (losses_dropped, LAST),
    "the same with one early loss kept alive": (losses_dropped_but_one, LAST),
    "training steps": (training_steps, LAST),
    "gradient penalties, second order": (gradient_penalties, SECOND_ORDER),
    "meta-learning steps, second order": (meta_learning, SECOND_ORDER),
}


def measure_growth(name: str, last: int) -> dict[str, int]:
    """Run one loop in this process and return its resident sizes in bytes."""
    turn = LOOPS[name][0]()
    sizes = {}
    for i in range(1, last + 1):
        turn(i)
        if i == FIRST:
            sizes["first"] = rss()
    sizes["last"] = rss()
    return sizes


@benchmark(name="memory_flat")
def memory_flat(quick: bool) -> Iterator[Row]:
    """Growth of resident memory from iteration 1 000 to 100 000, over 10 000 of second order."""
    rss()  # raises where it cannot be read
    for name, (_, last) in LOOPS.items():
        last = min(last, QUICK_LAST) if quick else last
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

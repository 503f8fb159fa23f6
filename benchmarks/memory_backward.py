"""Memory during `backward()`: it falls while the sweep runs, it does not rise first.

A chain of 200 element-wise operations on arrays of 8 MB is recorded; only the
tape holds what lies between.  A thread reads the resident size of the process
while the sweep goes back through the chain, and the curve is saved as a plot.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tapegrad as tg

from . import plots
from .memory import MB, Sampler, rss
from .registry import Row, benchmark

ELEMENTS = 1_000_000
ARRAY = 8 * ELEMENTS  # bytes
FEWEST_SAMPLES = 20  # with fewer the curve between them would be a guess


def chain(x, length: int):
    """Apply operations whose derivatives need their operand or their result."""
    y = x
    for i in range(length):
        kind = i % 4
        if kind == 0:
            y = np.sin(y)
        elif kind == 1:
            y = np.exp(y)
        elif kind == 2:
            y = y * x
        else:
            y = np.tanh(y)
    return y


@benchmark(name="memory_backward")
def memory_backward(quick: bool) -> Iterator[Row]:
    """Resident memory while going back through 200 operations on 8 MB arrays."""
    length = 60 if quick else 200
    x = tg.tensor(np.random.default_rng(0).uniform(0.5, 1.5, ELEMENTS), requires_grad=True)
    chain(x, 8).sum().backward()  # compile, and give the leaf its gradient
    x.grad = None
    before = rss()
    loss = chain(x, length).sum()
    held = rss()
    with Sampler() as sampler:
        loss.backward()
    sizes = np.array(sampler.sizes, dtype=float)
    times = np.array(sampler.times)
    detail = {
        "before the forward pass": f"{before / MB:.0f} MB",
        "after it": f"{held / MB:.0f} MB",
        "highest during backward": f"{sizes.max() / MB:.0f} MB",
        "at its end": f"{sizes[-1] / MB:.0f} MB",
        "samples": len(sizes),
        "plot": draw(times, sizes, before, held, length),
    }
    enough = len(sizes) >= FEWEST_SAMPLES
    yield Row(
        f"RSS during backward above that after forward, {length} operations",
        "at most 3 arrays of 8 MB more than the forward pass held",
        float((sizes.max() - held) / ARRAY) if enough else float("nan"),
        3.0,
        "arrays",
        detail,
    )
    halfway = float(np.interp(times[-1] / 2, times, sizes))
    yield Row(
        "of what the forward pass added, still held after half the time",
        "falls as the sweep goes: at most 3/4 after half the time",
        (halfway - before) / (held - before) if enough else float("nan"),
        0.75,
        "",
        {"at the end": f"{(sizes[-1] - before) / (held - before):.2f}"},
    )


def draw(times: np.ndarray, sizes: np.ndarray, before: float, held: float, length: int) -> str:
    """Draw the curve; see `plots.picture`."""

    def curve(axes):
        axes.plot(times * 1e3, sizes / MB)
        axes.axhline(held / MB, linewidth=0.8, linestyle="--", color="gray", label="after forward")
        axes.axhline(before / MB, linewidth=0.8, linestyle=":", color="gray", label="before forward")
        axes.set(
            xlabel="time since backward() was called [ms]",
            ylabel="resident memory [MB]",
            title=f"backward() through {length} operations on 8 MB arrays",
            ylim=(0, None),
        )
        axes.legend()

    return plots.picture(curve, plots.place("memory_backward.png"), (6.5, 3.9))

"""Where forward and reverse mode cross, for n inputs and m outputs from 1 to 1 000, and whether it was foreseen."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import tapegrad as tg

from .registry import Row, benchmark


def layer(n: int, m: int) -> tuple:
    """A function of n inputs and m outputs, all of them connected."""
    weights = np.cos(np.arange(m * n, dtype=float)).reshape(m, n) / n
    return lambda x: np.tanh(weights @ x), (np.linspace(0.1, 0.9, n),)


@benchmark(part=3, name="crossover")
def crossover(quick: bool) -> Iterator[Row]:
    """Cost of both modes for n, m from 1 to 1 000, recording included, and where they cross."""
    sizes = [1, 10, 100, 1000] if quick else [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    found = tg.compare_scaling(layer, sizes, budget=0.1 if quick else 1.0)
    path = Path(os.environ["BENCHMARK_RESULTS"]) / "crossover.png"
    try:
        found.plot(path)
        drawn = path.name
    except tg.errors.MissingPackageError as error:
        drawn = str(error)
    for axis in found.axes:
        said = {what: "never" if at is None else f"{axis} = {at:.3g}" for what, at in found.crossovers[axis].items()}
        rows = found.along(axis)
        ratios = [p.cost("seconds", True) / p.cost("seconds", False) for p in rows]
        lost = max(
            max(ratio, 1 / ratio) if (ratio < 1) != (p.comparison.recommended == "forward") else 1.0
            for ratio, p in zip(ratios, rows)
        )
        yield Row(
            f"the mode chosen beside the cheaper one, along {axis}",
            "at no size more than 25 % slower",
            lost,
            1.25,
            detail={**said, "plot": drawn},
        )

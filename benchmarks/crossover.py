"""Where forward and reverse mode cross, for n inputs and m outputs from 1 to 1 000, and whether it was foreseen."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tapegrad as tg
from tapegrad.tools.comparing.scaling import Scaling

from . import plots
from .registry import Row, benchmark


def layer(n: int, m: int) -> tuple:
    """A function of n inputs and m outputs, all of them connected."""
    weights = np.cos(np.arange(m * n, dtype=float)).reshape(m, n) / n
    return lambda x: np.tanh(weights @ x), (np.linspace(0.1, 0.9, n),)


def plot(found: Scaling) -> str:
    """Draw the time of each mode against n and against m; see `plots.picture`."""
    words = {"n": "inputs", "m": "outputs"}

    def draw(panels):
        for axes, axis, other in zip(panels, "nm", "mn"):
            points = found.along(axis)
            for row in points[0].comparison.rows:
                if row.mode:
                    times = [1e6 * point.comparison.row(row.name).seconds for point in points]
                    axes.loglog([point.size(axis) for point in points], times, marker="o", markersize=4, label=row.name)
            crossing = found.crossovers[axis]["seconds"]
            if crossing is not None:
                axes.axvline(crossing, color="black", linestyle=":", label=f"sweeps cost the same at {axis} = {crossing:.3g}")
            axes.set(
                xlabel=f"{axis}, number of {words[axis]}", ylabel="time of a Jacobian [µs]",
                title=f"tanh(W x), {points[0].size(other)} {words[other]}",
            )  # fmt: skip
            axes.grid(alpha=0.3)
            axes.legend(fontsize=8)

    return plots.picture(draw, plots.place("crossover.png"), (10.0, 4.2), panels=2)


@benchmark(name="crossover")
def crossover(quick: bool) -> Iterator[Row]:
    """Cost of both modes for n, m from 1 to 1 000, recording included, and where they cross."""
    sizes = [1, 10, 100, 1000] if quick else [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    found = tg.compare_scaling(layer, sizes, budget=0.1 if quick else 1.0)
    drawn = plot(found)
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

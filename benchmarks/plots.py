"""The pictures: where they go, how they look, and the machine under each.

A benchmark that draws asks for a figure here and saves it by `save`, which writes the
facts of the machine below and returns the file's name, or why there is none.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import machine
from .registry import Missing, peer
from .report import Section, facts_line

#: A colour for each other library, the same in all pictures (Okabe and Ito's, told apart by all eyes).
COLOURS = {
    "by hand": "#000000", "JAX": "#E69F00", "PyTorch": "#D55E00", "CasADi": "#009E73", "HIPS autograd": "#CC79A7",
    "Dr.Jit": "#56B4E9", "SciPy": "#0072B2",
}  # fmt: skip


def picture(draw: Callable[[Any], None], path: Path, size: tuple[float, float], panels: int = 1) -> str:
    """Draw on the axes of a new figure and save it.

    Parameters
    ----------
    draw : callable
        Is given the axes, an array of them if there are several panels.
    path : Path
    size : tuple of float
        Width and height in inches.
    panels : int
        Side by side.

    Returns
    -------
    str
        The file's name, or why there is no file.
    """
    try:
        peer("matplotlib")
    except Missing as why:
        return f"none: {why}"
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    draw(figure.subplots(1, panels))
    figure.supxlabel(facts_line(machine.facts()), fontsize=7, color="gray")
    figure.savefig(path, dpi=120)
    return path.name


def place(name: str) -> Path:
    """Where a benchmark's picture goes."""
    return Path(os.environ.get("BENCHMARK_RESULTS", ".")) / name


def library(name: str) -> str:
    """Which of `COLOURS` a competitor is: the one whose name comes first in its own."""
    found = {name.find(known): known for known in COLOURS if known in name}
    return found[min(found)] if found else name


def peers(sections: list[Section], path: Path) -> str:
    """Draw our time over that of every other, for all rows that compare; see `picture`."""
    points: dict[str, dict[str, float]] = {}
    for section in sections:
        for row in section.rows:
            what = row.what.removesuffix(": compiled loop beside the fastest other")
            for name in row.beside():
                what = what.removesuffix(f", beside {name}").removesuffix(f" beside {name}")
            points.setdefault(f"{section.name}: {what}", {}).update(row.beside())
    points = {what: found for what, found in points.items() if found}
    if not points:
        return "none: no row compares with another library"

    def draw(axes: Any) -> None:
        drawn = set()
        for y, found in enumerate(points.values()):
            for name, ratio in found.items():
                kind = library(name)
                axes.plot(ratio, y, "o", color=COLOURS.get(kind, "gray"), markersize=5, label=None if kind in drawn else kind)
                drawn.add(kind)
        axes.axvline(1.0, color="black", linewidth=0.8)
        axes.set(
            xscale="log", xlabel="time of tapegrad over time of the other: left of 1 tapegrad is faster",
            ylim=(len(points) - 0.5, -0.5), title="tapegrad beside others, each row of the table",
        )  # fmt: skip
        axes.set_yticks(range(len(points)), [what if len(what) < 90 else what[:87] + "..." for what in points], fontsize=7)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))

    return picture(draw, path, (11.0, 1.6 + 0.2 * len(points)))

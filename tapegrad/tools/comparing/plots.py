"""The pictures of `tg.compare` and `tg.compare_scaling`, by matplotlib."""

import numpy as np

from ...common.pictures import new_figure, saved
from ...common.printing import count_text, plural, seconds_text


def figure(width, height, count=1):
    """A figure and its axes, side by side."""
    made = new_figure("drawing", (width, height))
    return made, made.subplots(1, count, squeeze=False)[0]


def plot_comparison(comparison, path=None):
    """See `Comparison.plot`."""
    made, (counts, times) = figure(10, 0.4 * len(comparison.rows) + 1.4, 2)
    ways = [row for row in comparison.rows if row.mode]
    for axes, rows, values, color, what in (
        (counts, ways, [row.operations for row in ways], "tab:orange", "scalar operations"),
        (times, comparison.rows, [row.seconds for row in comparison.rows], "tab:blue", "time in seconds"),
    ):
        bars = axes.barh([row.name for row in rows], values, color=color)
        axes.bar_label(bars, [count_text(v) if axes is counts else seconds_text(v) for v in values], padding=3, fontsize=8)
        axes.set(xlabel=what, xscale="log")
        # On a logarithmic scale a bar has no natural beginning: a decade before the shortest.
        axes.set_xlim(max(min(values), 1e-9) / 10, max(max(values), 1e-9) * 8)
        axes.invert_yaxis()
        _decades(axes.xaxis)
    sizes = plural(comparison.inputs, "input"), plural(comparison.outputs, "output")
    made.suptitle(f"{_named(comparison.function)} of {sizes[0]} with {sizes[1]}: use {comparison.recommended} mode")
    return saved(made, path, dpi=150)


def plot_scaling(scalings, path=None, measure="seconds"):
    """Both modes' cost against size, with the crossover marked; one panel for each of `scalings`.

    Parameters
    ----------
    scalings : list of Scaling
    path : str or Path, optional
    measure : {"seconds", "operations"}
    """
    panels = [(scaling, axis) for scaling in scalings for axis in scaling.axes]
    made, all_axes = figure(5.6 * len(panels), 4.0, len(panels))
    for axes, (scaling, axis) in zip(all_axes, panels):
        points = scaling.along(axis)
        sizes = [point.size(axis) for point in points]
        # What there is at all sizes.
        rows = [{row.name: row for row in point.comparison.rows if row.mode} for point in points]
        for name in [name for name in rows[0] if all(name in of_point for of_point in rows)]:
            values = [getattr(of_point[name], measure) for of_point in rows]
            (line,) = axes.plot(sizes, values, marker="o", markersize=4, label=name)
            if len(sizes) > 1:
                power = np.polyfit(np.log(sizes), np.log(values), 1)[0]
                axes.annotate(f" ~ {axis}^{power:.1f}", (sizes[-1], values[-1]), color=line.get_color(), fontsize=8, va="center")
        crossing = scaling.crossovers[axis]["seconds" if measure == "seconds" else "operations"]
        seen = f"no crossover from {axis} = {min(sizes)} to {max(sizes)}"
        if crossing is not None:
            axes.axvline(crossing, color="black", linestyle=":", label=f"crossover near {axis} = {crossing:.3g}")
            seen = f"modes cross near {axis} = {crossing:.3g}"
        label = "time in seconds" if measure == "seconds" else "scalar operations"
        axes.set(xlabel=axis, ylabel=label, xscale="log", yscale="log", title=f"{_named(scaling.function)}: {seen}")
        axes.set_xlim(right=max(sizes) * (max(sizes) / max(min(sizes), 1)) ** 0.25)
        axes.set_xticks(sizes, map(str, sizes))
        axes.minorticks_off()
        _decades(axes.yaxis)
        axes.legend(fontsize=8)
    return saved(made, path, dpi=100)


def _named(function):
    """The name of a function in a title."""
    return "the function" if function == "<lambda>" else function


def _decades(axis):
    """Ticks at powers of ten alone, which do not overlap."""
    from matplotlib.ticker import LogLocator, NullLocator

    axis.set_major_locator(LogLocator(base=10.0, numticks=7))
    axis.set_minor_locator(NullLocator())

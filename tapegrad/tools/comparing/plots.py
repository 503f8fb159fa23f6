"""The pictures of `tg.compare` and `tg.compare_scaling`, by matplotlib."""

from ...common.errors import MissingPackageError
from ...common.printing import plural


def figure(width, height, count=1):
    """A figure of its own, apart from pyplot's state, and its axes.

    Raises
    ------
    MissingPackageError
        If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingPackageError(
            "drawing needs matplotlib, which is not installed: pip install tapegrad[plot]"
        ) from error
    made = Figure(figsize=(width, height), layout="constrained")
    return made, made.subplots(1, count, squeeze=False)[0]


def plot_comparison(comparison, path):
    """See `Comparison.plot`."""
    made, (times, counts) = figure(9, 3, 2)
    ways = [row for row in comparison.rows if row.mode]
    names = [row.name for row in comparison.rows]
    times.barh(names, [row.seconds for row in comparison.rows], color="tab:blue")
    times.set(xlabel="seconds", xscale="log", title="time")
    counts.barh([row.name for row in ways], [row.operations for row in ways], color="tab:orange")
    counts.set(xlabel="scalar operations", xscale="log", title="operations")
    for axes, values in ((times, [r.seconds for r in comparison.rows]), (counts, [r.operations for r in ways])):
        # On a logarithmic scale a bar has no natural beginning: a decade before the shortest.
        axes.set_xlim(max(min(values), 1e-9) / 10, max(max(values), 1e-9) * 2)
        axes.invert_yaxis()
    sizes = plural(comparison.inputs, "input"), plural(comparison.outputs, "output")
    made.suptitle(f"{comparison.function}: {sizes[0]}, {sizes[1]}")
    made.savefig(path, dpi=150)


def plot_scaling(scalings, path, measure="seconds"):
    """Both modes' cost against size, with the crossover marked; one panel for each of `scalings`.

    Parameters
    ----------
    scalings : list of Scaling
    path : str or Path
    measure : {"seconds", "operations"}
    """
    panels = [(scaling, axis) for scaling in scalings for axis in scaling.axes]
    made, all_axes = figure(4.5 * len(panels), 3.8, len(panels))
    for axes, (scaling, axis) in zip(all_axes, panels):
        points = scaling.along(axis)
        sizes = [point.size(axis) for point in points]
        # What there is at all sizes.
        rows = [{row.name: row for row in point.comparison.rows if row.mode} for point in points]
        for name in [name for name in rows[0] if all(name in of_point for of_point in rows)]:
            values = [getattr(of_point[name], measure) for of_point in rows]
            axes.plot(sizes, values, marker="o", label=name)
        crossing = scaling.crossovers[axis]["seconds" if measure == "seconds" else "operations"]
        if crossing is not None:
            axes.axvline(crossing, color="black", linestyle=":", label=f"crossover near {axis} = {crossing:.3g}")
        label = "time in seconds" if measure == "seconds" else "scalar operations"
        axes.set(xlabel=axis, ylabel=label, xscale="log", yscale="log", title=scaling.function)
        axes.legend(fontsize=8)
    made.savefig(path, dpi=100)

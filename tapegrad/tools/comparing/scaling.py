"""`tg.compare_scaling`: how each mode's cost grows with inputs and outputs, and where they cross."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...common.errors import StructureError
from ...common.printing import Printed, bytes_text, count_text, seconds_text, table
from ...tape.places import function_name
from .compare import Comparison, compare, write_json
from .plots import plot_scaling

#: What is compared between the modes, and its name.
MEASURES = {"operations": "operations", "predicted": "predicted cost", "seconds": "time"}
#: What is recommended, in words.
WORDS = {"forward": "forward mode", "reverse": "reverse mode", "product": "a product at a cut"}
FORWARD, REVERSE = "forward, tangent sweep", "reverse, sweep"


@dataclass(frozen=True)
class Point:
    """The comparison at one size.

    Attributes
    ----------
    n, m : int or None
        What `make_f` was given; `m` is None if it takes only `n`.
    comparison : Comparison
    """

    n: int
    m: int | None
    comparison: Comparison

    def size(self, axis: str) -> int | None:
        return self.n if axis == "n" else self.m

    def cost(self, measure, forward):
        """Cost of a mode's sweep by one of `MEASURES`."""
        if measure == "predicted":
            return self.comparison.forward_cost if forward else self.comparison.reverse_cost
        return getattr(self.comparison.row(FORWARD if forward else REVERSE), measure)


@dataclass(frozen=True, repr=False)
class Scaling(Printed):
    """The report of `tg.compare_scaling`; printing it shows the table.

    Attributes
    ----------
    function : str
        Name of the maker.
    axes : tuple of str
        ``("n",)`` or ``("n", "m")``.
    points : list of Point
    crossovers : dict
        ``crossovers[axis][measure]``: the size at which both modes cost the same,
        between two sizes (interpolated on logarithmic scales), or None if one
        mode is cheaper throughout.  `measure` is "operations", "predicted" (both
        the same at every run) or "seconds".
    """

    function: str
    axes: tuple[str, ...]
    points: list[Point]
    crossovers: dict[str, dict[str, float | None]]

    def along(self, axis: str) -> list[Point]:
        """The points that differ in `axis` only, by size."""
        if len(self.axes) == 1:
            return self.points
        other = "m" if axis == "n" else "n"
        middle = self.points[0 if axis == "n" else -1].size(other)
        return sorted((p for p in self.points if p.size(other) == middle), key=lambda p: p.size(axis) or 0)

    def __str__(self):
        head = (
            "n", *self.axes[1:], "inputs", "outputs", "value", "forward ops", "reverse ops", "dual numbers",
            "tangent sweep", "reverse", "forward mem", "reverse mem", "prefer",
        )  # fmt: skip
        rows = []
        for p in self.points:
            c = p.comparison
            value, dual, up, down = (c.row(name) for name in ("value", "forward, dual numbers", FORWARD, REVERSE))
            times = (seconds_text(r.seconds) for r in (dual, up, down))
            sizes = [str(p.size(axis)) for axis in self.axes]
            rows.append(
                (*sizes, str(c.inputs), str(c.outputs), seconds_text(value.seconds), count_text(up.operations),
                 count_text(down.operations), *times, bytes_text(up.peak), bytes_text(down.peak), c.recommended)
            )  # fmt: skip
        return "\n".join([self.function, "", table(head, rows, numbers=True), "", *map(self.sentence, self.axes)])

    def sentence(self, axis: str) -> str:
        """Where the modes cross along an axis, in words."""
        points = self.along(axis)
        fixed = "".join(f" ({other} = {points[0].size(other)})" for other in self.axes if other != axis)
        crossings = self.crossovers[axis]
        said = ", ".join(
            f"by {what} at {axis} = {crossings[key]:.3g}" if crossings[key] is not None else f"never by {what}"
            for key, what in MEASURES.items()
        )
        first, last = (WORDS[points[k].comparison.recommended] for k in (0, -1))
        what = f"{first} is preferred throughout" if crossings["predicted"] is None else f"{first} gives way to {last}"
        return f"Along {axis}{fixed}, {what}; equal {said}."

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        points = [{"n": p.n, "m": p.m, **p.comparison.to_dict()} for p in self.points]
        return {"function": self.function, "axes": list(self.axes), "points": points, "crossovers": self.crossovers}

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """`to_dict` as JSON; also written to a file if `path` is given."""
        return write_json(self.to_dict(), path)

    def plot(self, path: str | os.PathLike[str] | None = None, measure: str = "seconds") -> Any:
        """Draw the cost of each way against size, the crossover marked, and beside each line the power of the size with which it grows.

        Parameters
        ----------
        path : str or Path, optional
            Where to save the picture; the name's ending says the format.
        measure : {"seconds", "operations"}

        Returns
        -------
        matplotlib Figure
            A notebook shows it.

        Raises
        ------
        MissingPackageError
            If matplotlib is not installed (``pip install tapegrad[plot]``).
        """
        return plot_scaling([self], path, measure)


def _crossover(points, axis, measure):
    """Where the ratio of costs passes 1, or None."""
    logs = [math.log(p.cost(measure, True) / p.cost(measure, False)) for p in points]
    for (before, a), (after, b) in zip(zip(points, logs), zip(points[1:], logs[1:])):
        if a * b <= 0.0:
            share = a / (a - b) if a != b else 0.0
            return before.size(axis) ** (1 - share) * after.size(axis) ** share
    return None


def axes_of(make_f):
    """``("n",)`` or ``("n", "m")``: what a maker takes.

    Raises
    ------
    StructureError
        If it takes something else.
    """
    parameters = inspect.signature(make_f).parameters.values()
    required = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(required) not in (1, 2):
        raise StructureError(
            f"{function_name(make_f)} must take one size n, or two sizes n and m, and return a function and the tuple of its "
            f"arguments; it takes {len(required)}"
        )
    return ("n", "m")[: len(required)]


def make_at(make_f, sizes):
    """The function and arguments of one size."""
    made = make_f(*sizes)
    if not (isinstance(made, tuple) and len(made) == 2 and callable(made[0]) and isinstance(made[1], tuple)):
        shown = ", ".join(map(str, sizes))
        raise StructureError(
            f"{function_name(make_f)}({shown}) must return a function and the tuple of its arguments, as in `return f, (x,)`; "
            f"it returned {type(made).__name__}"
        )
    return made


def compare_scaling(make_f: Callable[..., Any], sizes: Any, argnums: int | tuple[int, ...] = 0, budget: float = 0.2) -> Scaling:
    """Compare the modes at several sizes and find where they cross.

    Parameters
    ----------
    make_f : callable
        ``make_f(n)`` or ``make_f(n, m)`` returns a function and the tuple of its
        arguments: ``return f, (x,)``.
    sizes : iterable of int
        Values of n.  If `make_f` takes two sizes, n varies with m at the middle one of `sizes`, then m with n there.
    argnums : int or tuple of int
        The arguments to differentiate with respect to.
    budget : float
        Seconds to measure each size for, beyond three calls of everything.

    Returns
    -------
    Scaling
        Prints as a table; has `crossovers`, `plot`, `to_dict` and `to_json`.

    Raises
    ------
    StructureError
        If `make_f` takes or returns something else.
    CheckError
        If the modes disagree at some size.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> def make(n):
    ...     return lambda x: np.tanh(np.ones((400, n)) @ x), (np.linspace(0.1, 0.9, n),)
    >>> found = tg.compare_scaling(make, [1, 1000], budget=0.0)
    >>> [point.comparison.recommended for point in found.points]
    ['forward', 'reverse']
    >>> 1 < found.crossovers["n"]["predicted"] < 1000
    True
    """
    axes = axes_of(make_f)
    sizes = sorted({int(size) for size in sizes})
    if not sizes or sizes[0] < 1:
        raise ValueError(f"sizes must be positive numbers, not {sizes}")
    if len(axes) == 1:
        grid: list[tuple[Any, ...]] = [(n,) for n in sizes]
    else:
        middle = sizes[len(sizes) // 2]
        grid = list(dict.fromkeys([(n, middle) for n in sizes] + [(middle, m) for m in sizes]))
    points = []
    for at in grid:
        f, args = make_at(make_f, at)
        points.append(Point(at[0], at[1] if len(at) > 1 else None, compare(f, *args, argnums=argnums, budget=budget)))
    scaling = Scaling(function_name(make_f), axes, points, {})
    for axis in axes:
        scaling.crossovers[axis] = {measure: _crossover(scaling.along(axis), axis, measure) for measure in MEASURES}
    return scaling

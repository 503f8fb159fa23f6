"""Profiles of a cost: along one parameter, and around two, with all others fitted anew at each point."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np

from ..common.errors import OptimizationError
from ..common.pictures import new_figure, saved
from ..common.printing import table
from ..common.uninterrupted import imported
from ..optimize.layout import shaped
from .solving import best


@dataclasses.dataclass
class Profile:
    """The cost along one parameter; made by ``fit.profile(name)``.

    Attributes
    ----------
    name : str
    values, rises : ndarray
        Of the parameter, and of twice the cost above the minimum, over the residuals' variance where that is estimated.
    signed : ndarray
        The root of `rises` with the sign of the side: a straight line where the parameter's distribution is normal (Bates & Watts,
        Nonlinear Regression Analysis, 1988).
    params : list
        The parameters at each.
    level : float
    interval : tuple of float
        Where `rises` has the quantile of `level`; infinite, or the bound, where it is not reached.

    Methods
    -------
    plot(path=None)
        Draw the rises and the interval.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> line = tg.fit(lambda p, x: p["a"] + p["b"] * x, {"a": 0.0, "b": 0.0}, np.arange(6.0), observed=[1.0, 3.1, 4.9, 7.0, 9.2, 10.9])
    >>> profile = line.profile("b", points=5)
    >>> print(profile)
    b: 95 % interval 1.9105 to 2.0838
    b        twice the rise of the cost
    1.88449                       13.03
    1.94082                       3.257
    1.99714                           0
    2.05347                       3.257
    2.1098                        13.03
    >>> profile.rises.argmin(), profile.params[2] == line.params
    (np.int64(2), True)
    """

    name: str
    values: Any
    rises: Any
    signed: Any
    params: list
    level: float
    interval: tuple

    @property
    def _said(self) -> str:
        return f"{100 * self.level:g} % interval {self.interval[0]:.5g} to {self.interval[1]:.5g}"

    def __repr__(self):
        rows = [(f"{value:.6g}", f"{rise:.4g}") for value, rise in zip(self.values, self.rises)]
        return f"{self.name}: {self._said}\n{table((self.name, 'twice the rise of the cost'), rows, numbers=True)}"

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draw the rises and the interval; returns a matplotlib Figure."""
        figure = new_figure("profile.plot()", (5.0, 3.5))
        axes = figure.subplots()
        axes.plot(self.values, self.rises, ".-", color="C0", markersize=5)
        for end in self.interval:
            if np.isfinite(end):
                axes.axvline(end, color="0.5", linewidth=0.8, linestyle="--")
        axes.set_xlabel(self.name)
        axes.set_ylabel("twice the rise of the cost")
        axes.set_title(self._said, fontsize=10)
        return saved(figure, path)


def _ready(fit, name):
    """The position of a free parameter of a fit that has a standard error for it."""
    k = fit.parameters.one(name)
    if k not in fit.parameters.free:
        raise OptimizationError(f"{name} is {fit.parameters.state[k]}; only free parameters have a profile")
    if fit.model.loss != "linear":
        raise OptimizationError(f"loss={fit.model.loss!r} is not a likelihood, which a profile or contour needs; call confidence()")
    if not fit.success:
        raise OptimizationError("the fit did not converge: there is no minimum to start a profile from")
    if not np.isfinite(fit.errors[k]):
        raise OptimizationError(f"{name} has no standard error, by which a profile chooses its steps")
    return k


def _at(fit, held, x):
    """The fit with the parameters `held` fixed at their numbers in `x`, started from the others there: how far twice the cost has risen, and all numbers."""
    parameters, checked = fit.parameters.replaced(x, held), tuple(held) in fit.checked
    fit.checked.add(tuple(held))
    cost, x = best(fit.model.beside(parameters), fit.options, fit.curvature.count if checked else None)
    return max(2.0 * (cost - fit.cost) / fit.curvature.scale, 0.0), x


def along(fit, name, points, level):
    """See `Fit.profile`."""
    k = _ready(fit, name)
    if not (isinstance(points, int) and points >= 5):
        raise OptimizationError(f"points={points!r}: give a number of points from 5 on")
    width = np.sqrt(fit.rise(level))
    reach = width * 1.3
    low, high, center, error = fit.parameters.lower[k], fit.parameters.upper[k], fit.x[k], fit.errors[k]
    found = [(center, 0.0, fit.x)]
    each = (points - 1) // 2
    for side in (-1.0, 1.0):
        x, at, step = fit.x, 0.0, reach / each * error
        for _ in range(each):
            value = np.clip(x[k] + side * step, low, high)
            start = x.copy()
            start[k] = value
            rise, x = _at(fit, [k], start)
            before, at = at, side * np.sqrt(rise)
            found.append((value, at, x))
            if value in (low, high) or not abs(at) < reach:
                break
            # As far again as made one step of the root, within a factor of three.
            step *= np.clip(reach / each / max(abs(at - before), 1e-3 * reach / each), 1 / 3, 3.0)
    found.sort(key=lambda point: point[0])
    values, signed = np.array([p[0] for p in found]), np.array([p[1] for p in found])
    interval = tuple(_crossing(values, signed, s * width, edge) for s, edge in ((-1.0, low), (1.0, high)))
    return Profile(name, values, signed**2, signed, [shaped(fit.parameters.layout, p[2]) for p in found], level, interval)


def _crossing(values, signed, target, edge):
    """Where the signed root has the value `target`, by a monotone cubic through the points."""
    if not signed.min() <= target <= signed.max():
        return float(edge)
    keep = np.concatenate([[True], np.diff(signed) > 0])
    return float(imported("scipy.interpolate").PchipInterpolator(signed[keep], values[keep])(target))


def around(fit, one, other, level, points):
    """See `Fit.contour`."""
    a, b = _ready(fit, one), _ready(fit, other)
    if a == b:
        raise OptimizationError(f"a contour has two parameters; {one} was given twice")
    pair, target = [a, b], np.sqrt(fit.rise(level, 2))
    center, lower, upper = fit.x[pair], fit.parameters.lower[pair], fit.parameters.upper[pair]
    shape = np.linalg.cholesky(fit.covariance[np.ix_(pair, pair)])
    curve, x = [], fit.x
    for angle in np.linspace(0.0, 2.0 * np.pi, points, endpoint=False):
        direction = shape @ np.array([np.cos(angle), np.sin(angle)])
        with np.errstate(all="ignore"):
            room = np.min(np.where(direction == 0.0, np.inf, (np.where(direction > 0.0, upper, lower) - center) / direction))
        # The rise along the ray by secant steps on its root, which is nearly straight.
        t, far = target, (0.0, 0.0)
        for _ in range(12):
            t = min(t, room)
            start = x.copy()
            start[pair] = center + t * direction
            rise, x = _at(fit, pair, start)
            root = np.sqrt(rise)
            if abs(root - target) < 1e-4 * target or t == room and root < target:
                break
            slope = (root - far[1]) / (t - far[0]) if t != far[0] and root != far[1] else 1.0
            far, t = (t, root), max(t + (target - root) / max(slope, 1e-3), 1e-3 * t)
        curve.append(center + t * direction)
    return np.array(curve)

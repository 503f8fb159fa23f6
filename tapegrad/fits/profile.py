"""Profiles of a cost: along one parameter, and around two, with all others fitted anew at each point."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..common.errors import OptimizationError
from ..common.pictures import new_figure
from ..common.uninterrupted import imported
from ..optimize.result import shaped
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
    """

    name: str
    values: Any
    rises: Any
    signed: Any
    params: list
    level: float
    interval: tuple

    def plot(self, path=None):
        """Draw the rises and the interval; returns a matplotlib Figure."""
        figure = new_figure("profile.plot()", (5.0, 3.5))
        axes = figure.subplots()
        axes.plot(self.values, self.rises, ".-", color="C0", markersize=5)
        for end in self.interval:
            if np.isfinite(end):
                axes.axvline(end, color="0.5", linewidth=0.8, linestyle="--")
        axes.set_xlabel(self.name)
        axes.set_ylabel("twice the rise of the cost")
        axes.set_title(f"{100 * self.level:g} % interval {self.interval[0]:.5g} to {self.interval[1]:.5g}", fontsize=10)
        if path is not None:
            figure.savefig(path)
        return figure


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
    """The fit with the parameters `held` fixed at their numbers in `x`, started from the others there: cost and all numbers."""
    parameters, checked = fit.parameters.replaced(x, held), tuple(held) in fit.checked
    fit.checked.add(tuple(held))
    return best(fit.model.beside(parameters), fit.options, checked)


def along(fit, name, points, level, sides):
    """See `Fit.profile`."""
    k = _ready(fit, name)
    if not (isinstance(points, int) and points >= 5):
        raise OptimizationError(f"points={points!r}: give a number of points from 5 on")
    width = fit._width(level)
    reach = width * 1.3
    low, high, center, error = fit.parameters.lower[k], fit.parameters.upper[k], fit.x[k], fit.errors[k]
    found = [(center, 0.0, fit.x)]
    each = (points - 1) // 2
    for side in (-1.0, 1.0):
        x, at, step, number = fit.x, 0.0, reach / each * error, 0
        while number < each and abs(at) < reach:
            value = np.clip(x[k] + side * step, low, high)
            start = x.copy()
            start[k] = value
            cost, x = _at(fit, [k], start)
            rise = max(2.0 * (cost - fit.cost) / fit.curvature.scale, 0.0)
            before, at = at, side * np.sqrt(rise)
            found.append((value, at, x))
            number += 1
            if value in (low, high):
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
    interpolate = imported("scipy.interpolate").PchipInterpolator(signed[keep], values[keep])
    return float(interpolate(target))


def around(fit, one, other, level, points):
    """See `Fit.contour`."""
    a, b = _ready(fit, one), _ready(fit, other)
    if a == b:
        raise OptimizationError(f"a contour has two parameters; {one} was given twice")
    special = imported("scipy.special")
    # The joint region of two parameters: chi-squared with two degrees of freedom, or twice F where the variance is estimated.
    if fit.model.squares and not fit.options.absolute_sigma and fit.dof > 0:
        threshold = 2.0 * float(special.fdtri(2, fit.dof, level))
    else:
        threshold = float(special.chdtri(2, 1.0 - level))
    shape = np.linalg.cholesky(fit.covariance[np.ix_([a, b], [a, b])])
    lower, upper = fit.parameters.lower[[a, b]], fit.parameters.upper[[a, b]]
    curve, x = [], fit.x
    for angle in np.linspace(0.0, 2.0 * np.pi, points, endpoint=False):
        direction = shape @ np.array([np.cos(angle), np.sin(angle)])
        with np.errstate(all="ignore"):
            room = np.where(direction > 0, (upper - fit.x[[a, b]]) / direction, np.where(direction < 0, (lower - fit.x[[a, b]]) / direction, np.inf)).min()
        # The rise along the ray by secant steps on its root, which is nearly straight.
        t, far = np.sqrt(threshold), (0.0, 0.0)
        for _ in range(12):
            t = min(t, room)
            start = x.copy()
            start[[a, b]] = fit.x[[a, b]] + t * direction
            cost, x = _at(fit, [a, b], start)
            root = np.sqrt(max(2.0 * (cost - fit.cost) / fit.curvature.scale, 0.0))
            if abs(root - np.sqrt(threshold)) < 1e-4 * np.sqrt(threshold) or t == room and root < np.sqrt(threshold):
                break
            slope = (root - far[1]) / (t - far[0]) if t != far[0] and root != far[1] else 1.0
            far, t = (t, root), max(t + (np.sqrt(threshold) - root) / max(slope, 1e-3), 1e-3 * t)
        curve.append(fit.x[[a, b]] + t * direction)
    return np.array(curve)

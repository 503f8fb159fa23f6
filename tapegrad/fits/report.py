"""What a fit says: parameters with their errors, as numbers, as a table and as a picture."""

from __future__ import annotations

import os
from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..common.errors import OptimizationError
from ..common.pictures import new_figure, saved
from ..common.printing import table
from ..common.uninterrupted import imported
from ..optimize.layout import shaped
from . import profile, propagation
from .uncertainty import Covariance

#: Correlations below which the table shows none.
SHOWN = 0.1


class Fit:
    """A fit; made by `tapegrad.fit`.

    Attributes
    ----------
    params, stderr : as start
        The best parameters, and their standard errors: NaN where the data do not determine one, a bound holds it, or the fit did not converge.
    success : bool
    message : str
    names : list of str
        Of the parameters, in the order of `covariance`.
    covariance : ndarray
        Of all parameters, fixed ones (zeros) and tied ones too.
    undetermined : list of dict of str to float
        Combinations of parameters that the data do not determine.
    cost : float
        Half the sum of squares, or minus the logarithm of the likelihood.
    dof : int
        Observations less free parameters.
    evaluations : int
    seconds : float
    residuals : ndarray or None
        Of a sum of squares.
    chi_squared : float or None
        The sum of squares, or a likelihood's deviance.
    aic, bic : float or None
        Akaike's and Schwarz's criteria, where there is a likelihood.

    Methods
    -------
    confidence(level=0.95)
        Lower and upper ends of confidence intervals, by standard errors.
    correlation()
        The matrix of correlations.
    rise(level, count=1)
        How far twice the cost rises at the edge of a region of `count` parameters with probability `level`.
    profile(name, points=15, level=0.95)
        The cost along one parameter, all others fitted anew: a `Profile`.
    contour(one, other, level=0.95, points=40)
        Around two parameters: their values where the likelihood ratio has the probability.
    predict(function=None, *data, level=0.95)
        A function of the parameters with its band of confidence.
    plot(path=None, x=None)
        Data, model, band and residuals.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> found = tg.fit(lambda p, x: p[0] + p[1] * x, [0.0, 0.0], np.arange(4.0), observed=[1.0, 3.1, 4.9, 7.0])
    >>> print(str(found).splitlines()[2])
    p[0]   1.03     0.07937  0.6885 to 1.372
    """

    def __init__(self, point: Any, options: Any, u: Any, success: bool, message: str, evaluations: int, seconds: float) -> None:
        self.model, self.options, self.u = point.model, options, u
        self.curvature = curvature = Covariance(point, options, u)
        self.parameters = parameters = point.model.parameters
        self.success, self.message, self.evaluations, self.seconds = success, message, evaluations, seconds
        self.names, self.x = parameters.names, point.full(u)
        self.params = shaped(parameters.layout, self.x)
        self.covariance = curvature.covariance if success else np.full_like(curvature.covariance, np.nan)
        self.undetermined, self.cost, self.dof, self.residuals = curvature.undetermined, curvature.cost, curvature.dof, curvature.residuals
        self.errors = np.sqrt(np.diag(self.covariance))
        self.stderr = shaped(parameters.layout, self.errors)
        # Positions of parameters with which fixed the cost was compared with its recording (`profile`).
        self.checked = set()

    # -- numbers ------------------------------------------------------------------
    def correlation(self) -> NDArray[Any]:
        """The matrix of correlations, in the order of `names`; NaN for parameters without a standard error."""
        with np.errstate(all="ignore"):
            return self.covariance / np.outer(self.errors, self.errors)

    def rise(self, level: float, count: int = 1) -> float:
        """How far twice the cost rises, over the residuals' variance, at the edge of a region of `count` parameters with probability `level`.

        By F where that variance is estimated, else by chi-squared.  The root for one parameter is a number of standard errors.
        """
        if not 0.0 < level < 1.0:
            raise OptimizationError(f"level={level!r}: give a probability between 0 and 1, as 0.95")
        special = imported("scipy.special")
        if self.model.squares and not self.options.absolute_sigma and self.dof > 0:
            return count * float(special.fdtri(count, self.dof, level))
        return float(special.chdtri(count, 1.0 - level))

    def confidence(self, level: float = 0.95) -> Any:
        """Lower and upper ends of confidence intervals, each in the containers of the start.

        By standard errors: Student's t where these come from the residuals, else normal.  `profile` follows the cost itself.
        """
        width = np.sqrt(self.rise(level)) * self.errors
        return shaped(self.parameters.layout, self.x - width), shaped(self.parameters.layout, self.x + width)

    @property
    def chi_squared(self) -> float | None:
        """The sum of squares, or a likelihood's deviance; None where there is none."""
        return self.model.deviance(self.cost, self.curvature.count)

    def _loglik(self):
        """The logarithm of the likelihood, normal with the residuals' variance if that is not known; None of robust losses."""
        if not self.model.squares:
            return -self.cost
        if self.model.loss != "linear":
            return None
        n = self.curvature.count
        weights = 0.0 if self.model.sigma is None else float(np.sum(np.log(np.broadcast_to(self.model.sigma, (n,)))))
        if self.options.absolute_sigma:
            return -self.cost - weights - 0.5 * n * np.log(2.0 * np.pi)
        return -0.5 * n * (np.log(2.0 * np.pi * 2.0 * self.cost / n) + 1.0) - weights if self.cost > 0.0 else None

    def _criterion(self, penalty):
        value = self._loglik()
        # The residuals' variance is a parameter, too, where it is estimated.
        estimated = self.model.squares and not self.options.absolute_sigma
        return None if value is None else float(-2.0 * value + penalty * (len(self.u) + estimated))

    @property
    def aic(self) -> float | None:
        """Akaike's criterion (1974); None where there is no likelihood."""
        return self._criterion(2.0)

    @property
    def bic(self) -> float | None:
        """Schwarz's criterion (1978); None where there is no likelihood."""
        return self._criterion(np.log(self.curvature.count))

    def profile(self, name: str, points: int = 15, level: float = 0.95) -> profile.Profile:
        """The cost along one parameter, all others fitted anew; see `Profile`."""
        return profile.along(self, name, points, level)

    def contour(self, one: str, other: str, level: float = 0.95, points: int = 40) -> NDArray[Any]:
        """Where two parameters have a likelihood ratio of probability `level`: their values around the fit, two columns."""
        return profile.around(self, one, other, level, points)

    def predict(self, function: Callable[..., Any] | None = None, *data: Any, level: float = 0.95) -> Any:
        """What a function of the parameters is, with a band of confidence.

        Parameters
        ----------
        function : callable, optional
            ``function(params, *data)``; by default the model.
        *data
            By default the data of the fit.
        level : float

        Returns
        -------
        value, lower, upper : ndarray
        """
        function = self.model.function if function is None else function
        data = data or self.model.data
        value, spread = propagation.propagate(lambda p: function(p, *data), self)
        width = np.sqrt(self.rise(level) * np.diag(np.atleast_2d(spread))).reshape(np.shape(value))
        return value, value - width, value + width

    # -- text ---------------------------------------------------------------------
    def _rows(self):
        """Name, value, standard error, interval or what stands in its place; and the head."""
        width, rows = np.sqrt(self.rise(0.95)), [("name", "value", "std. error", "95 % interval")]
        for k, name in enumerate(self.names):
            x, error, state = self.x[k], self.errors[k], self.parameters.state[k]
            if state == "fixed" or np.isnan(error):
                rows.append((name, f"{x:.6g}", "", "fixed" if state == "fixed" else self._why(k) if self.success else ""))
            else:
                digits = 6 if not error > 0 else int(np.clip(2 + np.floor(np.log10(abs(x) / error)) if x else 2, 3, 12)) + 1
                interval = f"{x - width * error:.{digits}g} to {x + width * error:.{digits}g}"
                rows.append((name, f"{x:.{digits}g}", f"{error:.4g}", interval + (", tied" if state == "tied" else "")))
        return rows

    def _why(self, k):
        if k in self.parameters.free[self.curvature.held]:
            return "at its lower bound" if self.x[k] <= self.parameters.lower[k] + 1e-6 * abs(self.parameters.scale[k]) else "at its upper bound"
        if any(self.names[k] in combination for combination in self.undetermined):
            return "not determined by the data"
        return "no error: " + ("no degrees of freedom" if self.dof <= 0 else "a parameter that it depends on is at a bound")

    def _title(self):
        state = f"converged in {self.evaluations} evaluations" if self.success else f"NOT CONVERGED: {self.message}; no standard errors"
        return f"fit of {len(self.u)} parameters to {self.curvature.count} observations, {state}, {self.seconds:.3g} s"

    def _notes(self):
        """Lines below the table."""
        for combination in self.undetermined:
            text = " ".join(f"{'-' if c < 0 else '+'} {abs(c):.3g} {name}" for name, c in combination.items()).removeprefix("+ ")
            yield f"the data do not determine {text}: fix one of them, tie them, or give more data"
        if not self.success:
            return
        quality = self.chi_squared
        if quality is not None:
            what = "deviance" if not self.model.squares else "chi-squared" if self.options.absolute_sigma else "sum of squares"
            text = f"{what} {quality:.6g}, {self.dof} degrees of freedom"
            if self.dof > 0 and self.options.absolute_sigma:
                chance = float(imported("scipy.special").chdtrc(self.dof, quality))
                text += f", reduced {quality / self.dof:.4g}, probability of more {chance:.2g}"
            elif self.dof > 0 and self.model.squares:
                text += f", standard deviation of a residual {np.sqrt(quality / self.dof):.4g}"
            yield text
        if self.aic is not None and self.model.likelihood != "nll":
            yield f"AIC {self.aic:.6g}, BIC {self.bic:.6g}"
        pairs = self._pairs()
        if pairs:
            yield f"correlations above {SHOWN}: " + ", ".join(f"{a} and {b} {c:+.2f}" for a, b, c in pairs[:10]) + (", ..." if len(pairs) > 10 else "")

    def _pairs(self):
        matrix, free = self.correlation(), self.parameters.free
        pairs = [(self.names[a], self.names[b], matrix[a, b]) for j, a in enumerate(free) for b in free[:j] if abs(matrix[a, b]) > SHOWN]
        return sorted(pairs, key=lambda pair: -abs(pair[2]))

    def __repr__(self):
        head, *rows = self._rows()
        return "\n".join([self._title(), table(head, rows, numbers=True), *self._notes()])

    def _repr_html_(self):
        sides = ("left", "right", "right", "left")
        lines = ["".join(f"<td align='{side}'>{escape(cell)}</td>" for side, cell in zip(sides, row)) for row in self._rows()]
        cells = "".join(f"<tr>{line}</tr>" for line in lines)
        return f"<p>{escape(self._title())}</p><table>{cells}</table><p>{'<br>'.join(map(escape, self._notes()))}</p>"

    # -- pictures -----------------------------------------------------------------
    def plot(self, path: str | os.PathLike[str] | None = None, x: Any = None) -> Any:
        """Draw data, model, its band of confidence, and residuals.

        Parameters
        ----------
        path : str or path-like, optional
            Where to save the picture.
        x : array, optional
            What to draw against; by default the first of the data that has one number for each observation, else their numbers.

        Returns
        -------
        matplotlib Figure

        Raises
        ------
        MissingPackageError
            Without matplotlib.
        """
        model, n = self.model, self.curvature.count
        if x is None:
            x = next((np.asarray(d) for d in model.data if np.shape(d) == (n,)), np.arange(n))
        order, figure = np.argsort(x, kind="stable"), new_figure("fit.plot()", (7.0, 5.0))
        x, below = np.asarray(x)[order], figure
        if model.observed is not None:
            above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
            y = np.broadcast_to(model.observed, (n,))[order]
            sigma = None if model.sigma is None else np.broadcast_to(model.sigma, (n,))[order]
            above.errorbar(x, y, sigma, fmt=".", color="0.35", markersize=4, linewidth=0.8, label="observed")
            value = np.reshape(model.function(self.params, *model.data), -1)[order]
            above.plot(x, value, color="C0", linewidth=1.5, label="fit")
            if self.success and np.isfinite(self.errors).all():
                _, low, high = (np.reshape(part, -1)[order] for part in self.predict())
                above.fill_between(x, low, high, color="C0", alpha=0.2, linewidth=0, label="95 % confidence")
            above.legend(frameon=False)
            left = y - value if sigma is None else (y - value) / sigma
        else:
            below = figure.subplots(1, 1)
            left = (self.residuals if self.residuals is not None else np.asarray(model.terms(self.u, *model.args(self.options.f_scale))))[order]
        below.axhline(0.0, color="0.7", linewidth=0.8)
        below.plot(x, left, ".", color="0.35", markersize=4)
        below.set_ylabel("residual" if model.sigma is None else "residual / sigma")
        return saved(figure, path)

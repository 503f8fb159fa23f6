"""`fit`: the best parameters of a model, and how well the data determine them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..array.typing import Pytree
from ..common.errors import NonFiniteError, OptimizationError
from ..optimize.fitting import least_squares
from ..optimize.minimize import minimize
from ..transforms.functional import grad, jit
from ..transforms.hessians import hessian
from ..transforms.keep import kept
from .models import Model, cost_of
from .parameters import Parameters
from .report import Fit
from .uncertainty import Curvature

#: Relative changes of cost and parameters at which least squares end: what doubles can still tell apart.
FINE = 1e-15
#: Newton steps after an optimiser has ended: it stops where the gradient is small, and errors want more digits.
STEPS = 20


def fit(
    function: Callable[..., Any], start: Pytree, *data: Any, observed: Any = None, sigma: Any = None, absolute_sigma: bool = False,
    likelihood: str | Callable[..., Any] | None = None, trials: Any = None, loss: str = "linear", f_scale: float = 1.0,
    bounds: Any = None, fixed: Any = (), ties: dict[str, Callable[..., Any]] | None = None, covariance: str | None = None,
    max_evaluations: int | None = None, progress: bool | None = None,
) -> Fit:  # fmt: skip
    """Fit a model to data, and say how well the data determine its parameters.

    Parameters
    ----------
    function : callable
        ``function(params, *data)`` returns residuals: an array, or a container of arrays (several data sets that share parameters).
        With `observed` it returns what the model predicts; with ``likelihood="nll"`` minus the logarithm of the likelihood.
    start : float, array_like, or containers of them
        Where to begin.  Parameters are named by their place in it: ``{"peaks": [{"center": 1.0}]}`` has ``"peaks[0].center"``.
    *data
        Handed to `function`.
    observed : array or container of arrays, optional
        What was measured: residuals are ``(observed - predicted) / sigma``.
    sigma : array or number, optional
        Standard deviations of `observed`.
    absolute_sigma : bool
        Whether residuals are in units of their standard deviation.  By default that is estimated from the residuals, as by
        ``scipy.optimize.curve_fit``.
    likelihood : {"poisson", "binomial", "nll"} or callable, optional
        Instead of least squares; `function` predicts the expected counts, or the chance of a success.  A callable takes predicted and
        observed and returns the logarithm of the likelihood of each observation.
    trials : array, optional
        Of ``likelihood="binomial"``.
    loss, f_scale : str, float
        A robust loss of the residuals, as of ``scipy.optimize.least_squares``.
    bounds : dict of str to (lower, upper), optional
        By name; or a pair of containers like `start`.
    fixed : sequence of str
        Parameters that keep the value of the start.
    ties : dict of str to callable, optional
        Parameters that are computed from the others, which the callable takes in the containers of `start`.
    covariance : {"gauss-newton", "hessian", "sandwich"}, optional
        How the covariance is estimated: by the squares of the Jacobian (least squares' default), by the exact Hessian (of likelihoods), or by
        both, for models or losses that are not the data's own distribution (of robust losses).
    max_evaluations : int, optional
    progress : bool, optional
        As of ``tg.optimize.minimize``.

    Returns
    -------
    Fit
        ``params``, ``stderr`` in the containers of `start`; ``covariance``, ``success``, ...; ``print`` shows a table.

    Raises
    ------
    OptimizationError
        Names that do not exist or are given twice, a start outside its bounds, observations that are not finite, fewer observations than free
        parameters.
    NonFiniteError
        A residual at the start or a derivative is not finite; names the operation.

    Notes
    -----
    Least squares are minimised by MINPACK's Levenberg-Marquardt, or with bounds or a robust loss by SciPy's trust-region reflective
    algorithm, both with exact Jacobians; likelihoods by L-BFGS-B.  Newton's steps with exact derivatives end each.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> x = np.linspace(0.0, 3.0, 30)
    >>> y = 2.0 * np.exp(-1.5 * x) + 0.01 * np.cos(40.0 * x)
    >>> decay = lambda p, x: p["height"] * np.exp(-p["rate"] * x)
    >>> found = tg.fit(decay, {"height": 1.0, "rate": 1.0}, x, observed=y)
    >>> found.success, [round(v, 3) for v in found.params.values()], round(found.stderr["rate"], 4)
    (True, [2.002, 1.498], 0.0082)
    """
    began = time.perf_counter()
    parameters = Parameters(start, bounds, fixed, ties)
    model = Model(function, parameters, data, observed, sigma, trials, likelihood, loss)
    options = Options(absolute_sigma, covariance, f_scale, max_evaluations, progress)
    options.check(model)
    return solved(model, options, began)


class Options:
    """What else a fit was asked for."""

    def __init__(self, absolute_sigma, covariance, f_scale, max_evaluations, progress):
        self.absolute_sigma, self.covariance, self.f_scale = bool(absolute_sigma), covariance, float(f_scale)
        self.max_evaluations, self.progress = max_evaluations, progress

    def check(self, model):
        """Refuse what does not belong together."""
        kinds = ("gauss-newton", "hessian", "sandwich")
        if self.covariance is not None and self.covariance not in kinds:
            raise OptimizationError(f"covariance={self.covariance!r}: choose one of {', '.join(kinds)}")
        if self.covariance == "gauss-newton" and not model.squares:
            raise OptimizationError('covariance="gauss-newton" is for sums of squares; a likelihood has "hessian" and "sandwich"')
        if self.absolute_sigma and not model.squares:
            raise OptimizationError("absolute_sigma= is for sums of squares; a likelihood has its scale")
        if self.covariance is None:
            self.covariance = "hessian" if not model.squares else "gauss-newton" if model.loss == "linear" else "sandwich"


def best(model, options):
    """Cost and all numbers at the minimum, from a start that is near it; all parameters may be fixed."""
    parameters, args = model.parameters, model.args(options.f_scale)
    if not len(parameters.free):
        return float(np.sum(model.terms(np.zeros(0), *args))), parameters.start.copy()
    u0, low, high = _scaled(parameters)
    point = _Point(model, args, low, high)
    u, converged = point.refined(u0)
    if not converged:
        u = _optimised(model, options, u0, args, low, high, np.size(model.terms(u0, *args)))[0]
        u = point.refined(u)[0]
    return point.cost(u), np.asarray(parameters.full(u, *parameters.constants), np.float64)


def _scaled(parameters):
    """Start and bounds of the free parameters, divided by their scales."""
    free = parameters.free
    return [edge[free] / parameters.scale[free] for edge in (parameters.start, parameters.lower, parameters.upper)]


def _optimised(model, options, u0, args, low, high, count):
    """Where the optimiser ends: the vector, its message, whether it says that it has converged, evaluations."""
    bounds = (low, high) if np.isfinite(low).any() or np.isfinite(high).any() else None
    return _by_squares(model, options, u0, args, bounds, count) if model.squares else _by_cost(model, options, u0, args, bounds)


def solved(model, options, began):
    """The fit of a model."""
    parameters, args = model.parameters, model.args(options.f_scale)
    u0, low, high = _scaled(parameters)
    count = np.size(model.terms(u0, *args))
    if model.likelihood != "nll" and count < len(u0):
        raise OptimizationError(f"there are {count} observations for {len(u0)} free parameters; name some in fixed=, or give more data")
    u, message, success, evaluations = _optimised(model, options, u0, args, low, high, count)
    point = _Point(model, args, low, high)
    u, converged = point.refined(u)
    curvature = Curvature(model, options, args, u, point.held(u))
    if success and not converged:
        message = "the optimiser ended where the cost still falls"
    return Fit(model, options, curvature, u, bool(success and converged), message, evaluations, time.perf_counter() - began)


def _by_squares(model, options, u0, args, bounds, count):
    method = "trf" if bounds is not None or model.loss != "linear" or count < len(u0) else "lm"
    more = {} if options.max_evaluations is None else {"max_nfev": options.max_evaluations}
    if method == "trf":
        more |= {"loss": model.loss, "f_scale": options.f_scale}
    result = least_squares(
        model.residuals, u0, args=args, bounds=bounds, method=method, x_scale="jac", ftol=FINE, xtol=FINE, gtol=FINE, progress=options.progress, **more,
    )  # fmt: skip
    return np.asarray(result.x, np.float64), result.message, result.status > 0, result.counts["evaluations"]


def _by_cost(model, options, u0, args, bounds):
    more = {"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-9} | ({} if options.max_evaluations is None else {"maxfun": options.max_evaluations})
    result = minimize(cost_of(model.terms), u0, args, "L-BFGS-B", bounds=bounds, options=more, progress=options.progress)
    # (Status 1: too many evaluations. 2: no lower value is found any more, which Newton's steps look at.)
    return np.asarray(result.x, np.float64), result.message, result.status != 1, result.counts["evaluations"]


class _Point:
    """The cost near its minimum: gradient and Hessian, exact."""

    def __init__(self, model, args, low, high):
        self.model, self.args, self.low, self.high = model, args, low, high
        cost = cost_of(model.terms)
        self.cost = lambda u: float(cost(u, *args))
        self.slope, self.curvature = (kept(cost, name, lambda f, of=of: jit(of(f))) for name, of in (("slope", grad), ("curvature", hessian)))

    def held(self, u):
        """Which parameters are at a bound, beyond which the cost would fall."""
        g = self.slope(u, *self.args)
        near = 1e-9 * np.maximum(1.0, np.abs(u))
        return (u - self.low <= near) & (g > 0.0) | (self.high - u <= near) & (g < 0.0)

    def refined(self, u):
        """`u` after Newton's steps, and whether nothing is left to gain.

        What is left is the estimated distance to the minimum, half of ``g H^-1 g`` (James & Roos, Minuit, 1975), beside the cost's scale.
        """
        value = self.cost(u)
        for _ in range(STEPS):
            held = self.held(u)
            g, h = self.slope(u, *self.args)[~held], np.atleast_2d(self.curvature(u, *self.args))[np.ix_(~held, ~held)]
            if not len(g):
                return u, True
            if not (np.isfinite(g).all() and np.isfinite(h).all()):
                raise NonFiniteError(f"a derivative of the cost is not finite at {self.model.parameters.numbers(self._full(u))}; start elsewhere, or give bounds")
            size = np.sqrt(np.abs(np.diag(h)))
            size[size == 0.0] = 1.0
            values, vectors = np.linalg.eigh(h / np.outer(size, size))
            if values[0] < -1e-6 * max(values[-1], 1e-300):
                return u, False
            flat = values <= 1e-12 * values[-1]
            along = vectors.T @ (g / size)
            step = -(vectors[:, ~flat] @ (along[~flat] / values[~flat])) / size
            left = 0.5 * float(np.sum(along[~flat] ** 2 / values[~flat]))
            scale = max(abs(value) / max(len(self.args[2]), 1), 1e-300) if self.model.squares else 1.0
            if left <= 1e-12 * scale:
                return u, True
            new = u.copy()
            new[~held] = np.clip(u[~held] + step, self.low[~held], self.high[~held])
            risen = self.cost(new)
            if not risen < value:
                # What is left is less than rounding shows, or Newton's step leads away.
                return u, left <= 1e-6 * scale or left <= 1e-9 * abs(value)
            u, value = new, risen
        return u, left <= 1e-6 * scale

    def _full(self, u):
        return self.model.parameters.full(u, *self.model.parameters.constants)

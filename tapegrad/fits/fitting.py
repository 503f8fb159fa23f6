"""`fit`: the best parameters of a model, and how well the data determine them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..array.typing import Pytree
from ..common.errors import OptimizationError
from .models import FitModel
from .parameters import Parameters
from .report import Fit
from .solving import Minimum, optimised


def fit(
    function: Callable[..., Any], start: Pytree, *data: Any, observed: Any = None, sigma: Any = None, absolute_sigma: bool = False,
    likelihood: str | Callable[..., Any] | None = None, trials: Any = None, loss: str = "linear", f_scale: float = 1.0,
    bounds: Any = None, fixed: Any = (), ties: dict[str, Callable[..., Any]] | None = None, covariance: str | None = None,
    max_evaluations: int | None = None, progress: bool | None = None,
) -> Fit:  # fmt: skip
    """Fit a model to data and estimate the uncertainty of its parameters.

    Parameters
    ----------
    function : callable
        ``function(params, *data)`` returns residuals: an array, or a container of arrays (several data sets that share parameters).  With
        `observed` it returns the predictions of the model; with ``likelihood="nll"``, the negative log-likelihood.
    start : float, array_like, or containers of them
        Initial parameters.  They are named by their place in it: ``{"peaks": [{"center": 1.0}]}`` has ``"peaks[0].center"``.
    *data
        Passed to `function`.
    observed : array or container of arrays, optional
        The measured values: residuals are ``(observed - predicted) / sigma``.
    sigma : array or number, optional
        Standard deviations of `observed`.
    absolute_sigma : bool
        Whether residuals are in units of their standard deviation.  By default the residuals give an estimate of it, as in
        ``scipy.optimize.curve_fit``.
    likelihood : {"poisson", "binomial", "nll"} or callable, optional
        Replaces least squares; `function` predicts the expected counts, or the probability of a success.  A callable takes predicted and
        observed values and returns the log-likelihood of each observation.
    trials : array, optional
        Number of trials, for ``likelihood="binomial"``.
    loss, f_scale : str, float
        A robust loss of the residuals, as in ``scipy.optimize.least_squares``.
    bounds : dict of str to (lower, upper), optional
        Limits by parameter name, or a pair of containers like `start`.
    fixed : sequence of str
        Names of parameters that keep their start value.
    ties : dict of str to callable, optional
        Parameters that are computed from the others, which may be tied, too; each callable takes these in the containers of `start`, and returns a
        number, or as many as the name means.
    covariance : {"gauss-newton", "hessian", "sandwich"}, optional
        How to estimate the covariance: from the squares of the Jacobian (default for least squares), from the exact Hessian (for
        likelihoods), or from both, for models or losses that are not the data's own distribution (for robust losses).
    max_evaluations : int, optional
    progress : bool, optional
        Whether to show a bar; by default only in a terminal.

    Returns
    -------
    Fit
        Has ``params`` and ``stderr`` in the containers of `start`, ``covariance``, ``success``, ...; ``print`` shows a table.

    Raises
    ------
    OptimizationError
        If a name does not exist or is given twice, a start is outside its bounds, observations are not finite, or there are fewer
        observations than free parameters.
    NonFiniteError
        If a residual at the start or a derivative is not finite; the message names the operation.

    Notes
    -----
    Least squares use MINPACK's Levenberg-Marquardt or, with bounds or a robust loss, SciPy's trust-region reflective algorithm, both with
    exact Jacobians; likelihoods use `tg.optimize.lbfgs`.  Newton steps with exact derivatives finish each fit.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> x = np.linspace(0.0, 3.0, 30)
    >>> y = 2.0 * np.exp(-1.5 * x) + 0.01 * np.cos(40.0 * x)
    >>> decay = lambda p, x: p["height"] * np.exp(-p["rate"] * x)
    >>> found = tg.fit(decay, {"height": 1.0, "rate": 1.0}, x, observed=y)
    >>> found.success, [round(v, 3) for v in found.params.values()], round(found.stderr["rate"], 4)
    (True, [2.003, 1.502], 0.0058)
    """
    began = time.perf_counter()
    parameters = Parameters(start, bounds, fixed, ties)
    model = FitModel(function, parameters, data, observed, sigma, trials, likelihood, loss)
    options = FitOptions(model, absolute_sigma, covariance, f_scale, max_evaluations, progress)
    point = Minimum(model, options.f_scale)
    if model.likelihood != "nll" and point.observations < len(point.start):
        counts = f"{point.observations} observations for {len(point.start)} free parameters"
        raise OptimizationError(f"there are {counts}; name some in fixed=, or give more data")
    u, message, success, evaluations = optimised(point, options)
    u, converged = point.refined(u)
    if success and not converged:
        message = "the optimiser ended where the cost still falls"
    return Fit(point, options, u, bool(success and converged), message, evaluations, time.perf_counter() - began)


class FitOptions:
    """What else a fit was asked for."""

    def __init__(self, model, absolute_sigma=False, covariance=None, f_scale=1.0, max_evaluations=None, progress=False):
        self.absolute_sigma, self.covariance, self.f_scale = bool(absolute_sigma), covariance, float(f_scale)
        self.max_evaluations, self.progress = max_evaluations, progress
        kinds = ("gauss-newton", "hessian", "sandwich")
        if covariance is not None and covariance not in kinds:
            raise OptimizationError(f"covariance={covariance!r}: choose one of {', '.join(kinds)}")
        if covariance == "gauss-newton" and not model.squares:
            raise OptimizationError('covariance="gauss-newton" is for sums of squares; a likelihood has "hessian" and "sandwich"')
        if absolute_sigma and not model.squares:
            raise OptimizationError("absolute_sigma= is for sums of squares; a likelihood has its scale")
        if covariance is None:
            self.covariance = "hessian" if not model.squares else "gauss-newton" if model.loss == "linear" else "sandwich"


def determined(result, function, args, bounds, loss=None, f_scale=1.0):
    """The result of an optimiser as a `Fit`.

    Parameters
    ----------
    result : Result
    function : callable
        Residuals, if `loss` is given; else minus the logarithm of a likelihood.
    args : tuple
        Its further arguments.
    bounds : pair of ndarray, or None
        Of all numbers.
    loss, f_scale : str, float
        As of ``tg.optimize.least_squares``.

    Raises
    ------
    OptimizationError
        If it has not converged, or a loss is a function.
    """
    if loss is not None and not isinstance(loss, str):
        raise OptimizationError("loss= is a function of your own, whose curvature is not known; tg.fit has losses by name")
    parameters = Parameters(result.x)
    if bounds is not None:
        parameters.lower, parameters.upper = bounds
    model = FitModel(function, parameters, args, None, None, None, None if loss else "nll", loss or "linear")
    options = FitOptions(model, f_scale=f_scale)
    point = Minimum(model, options.f_scale)
    u, converged = point.refined(point.start)
    if not (result.success and converged):
        raise OptimizationError(f"the optimiser has not converged ({result.message}): there are no standard errors at this point")
    return Fit(point, options, u, True, result.message, result.nfev, result.seconds["total"])

"""Where a cost is least: SciPy's optimisers with exact derivatives, and Newton's steps at the end."""

from __future__ import annotations

import numpy as np

from ..common.errors import NonFiniteError
from ..optimize.fitting import least_squares
from ..optimize.minimize import minimize
from ..transforms.functional import grad, jit
from ..transforms.hessians import hessian
from ..transforms.keep import kept
from .models import cost_of

#: Relative changes of cost and parameters at which least squares end: what doubles can still tell apart.
FINE = 1e-15
#: Evaluations for each free parameter after which least squares are given up.
EACH = 1000
#: Newton steps after an optimiser has ended: it stops where the gradient is small, and errors want more digits.
STEPS = 20


def best(model, options, checked=False):
    """Cost and all numbers at the minimum, from a start that is near it; all parameters may be fixed.  `checked` as of `Minimum`."""
    parameters, args = model.parameters, model.args(options.f_scale)
    if not len(parameters.free):
        return float(np.sum(model.terms(np.zeros(0), *args))), parameters.start.copy()
    u0, low, high = scaled(parameters)
    point = Minimum(model, args, low, high, u0, checked)
    u, converged = point.refined(u0)
    if not converged:
        u = optimised(model, options, u0, args, low, high)[0]
        u = point.refined(u)[0]
    return point.cost(u), np.asarray(parameters.full(u, *parameters.constants), np.float64)


def scaled(parameters):
    """Start and bounds of the free parameters, divided by their scales."""
    free = parameters.free
    return [edge[free] / parameters.scale[free] for edge in (parameters.start, parameters.lower, parameters.upper)]


def optimised(model, options, u0, args, low, high):
    """Where the optimiser ends: the vector, its message, whether it says that it has converged, evaluations."""
    bounds = (low, high) if np.isfinite(low).any() or np.isfinite(high).any() else None
    return _by_squares(model, options, u0, args, bounds) if model.squares else _by_cost(model, options, u0, args, bounds)


def _by_squares(model, options, u0, args, bounds):
    method = "trf" if bounds is not None or model.loss != "linear" else "lm"
    more = {"max_nfev": EACH * len(u0) if options.max_evaluations is None else options.max_evaluations}
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


class Minimum:
    """The cost near its minimum: gradient and Hessian, exact.

    They are recorded, and the cost is, unless the function itself gives another gradient at the vector `u`, where an optimiser starts; it is
    not asked if it was `checked` at another start a moment ago.
    """

    def __init__(self, model, args, low, high, u, checked=False):
        self.model, self.args, self.low, self.high = model, args, low, high
        cost = cost_of(model.terms)
        value, self.slope, self.curvature = (
            kept(cost, name, lambda f, of=of: jit(of(f))) for name, of in (("value", lambda f: f), ("slope", grad), ("curvature", hessian))
        )
        g = None if checked else grad(cost)(u, *args)
        if g is not None and not np.allclose(self.slope(u, *args), g, rtol=1e-9, atol=1e-9 * np.max(np.abs(g)), equal_nan=True):
            value, self.slope, self.curvature = cost, grad(cost), hessian(cost)
        self.cost = lambda u: float(value(u, *args))
        self.count, observed = np.size(model.terms(u, *args)) if model.squares else 1, args[2]
        # What doubles can tell of an observation.
        self.digit = np.finfo(float).eps * float(np.max(np.abs(observed), initial=0.0))

    def _noise(self, value):
        """How far rounding moves a cost: that of observed - predicted is small beside both."""
        return 4.0 * (self.digit * np.sqrt(2.0 * abs(value) * self.count) + self.count * self.digit**2 + np.finfo(float).eps * abs(value))

    def held(self, u, g=None):
        """Which parameters are at a bound, beyond which the cost would fall; `g` is the slope there, if it is known."""
        g = self.slope(u, *self.args) if g is None else g
        near = 1e-9 * np.maximum(1.0, np.abs(u))
        return (u - self.low <= near) & (g > 0.0) | (self.high - u <= near) & (g < 0.0)

    def refined(self, u):
        """`u` after Newton's steps, and whether nothing is left to gain.

        What is left is the estimated distance to the minimum, half of ``g H^-1 g`` (James & Roos, Minuit, 1975), beside the cost's scale.
        """
        value = self.cost(u)
        for _ in range(STEPS):
            g = self.slope(u, *self.args)
            held = self.held(u, g)
            g, h = g[~held], np.atleast_2d(self.curvature(u, *self.args))[np.ix_(~held, ~held)]
            if not len(g):
                return u, True
            if not (np.isfinite(g).all() and np.isfinite(h).all()):
                where = self.model.parameters.numbers(self._full(u))
                raise NonFiniteError(f"a derivative of the cost is not finite at {where}; start elsewhere, or give bounds")
            size = np.sqrt(np.abs(np.diag(h)))
            size[size == 0.0] = 1.0
            values, vectors = np.linalg.eigh(h / np.outer(size, size))
            if values[0] < -1e-6 * max(values[-1], 1e-300):
                return u, False
            flat = values <= 1e-12 * values[-1]
            along = vectors.T @ (g / size)
            step = -(vectors[:, ~flat] @ (along[~flat] / values[~flat])) / size
            left = 0.5 * float(np.sum(along[~flat] ** 2 / values[~flat]))
            scale = abs(value) / self.count if self.model.squares else 1.0
            if left <= 1e-12 * scale:
                return u, True
            new = u.copy()
            new[~held] = np.clip(u[~held] + step, self.low[~held], self.high[~held])
            risen = self.cost(new)
            if not risen < value:
                # What is left is less than rounding shows, or Newton's step leads away.
                return u, left <= max(1e-6 * scale, self._noise(value))
            u, value = new, risen
        return u, left <= max(1e-6 * scale, self._noise(value))

    def _full(self, u):
        return self.model.parameters.full(u, *self.model.parameters.constants)

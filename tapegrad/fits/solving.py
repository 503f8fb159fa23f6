"""Where a cost is least: SciPy's optimisers with exact derivatives, and Newton's steps at the end."""

import numpy as np

from ..autograd.anomaly import first_anomaly
from ..common.errors import NonFiniteError
from ..optimize.fitting import least_squares
from ..optimize.loops import lbfgs
from ..optimize.proof import UNKNOWN, recorded
from ..transforms.functional import grad
from ..transforms.hessians import hessian
from .uncertainty import scaled_eigh

#: Relative changes of cost and parameters at which least squares end: what doubles can still tell apart.
FINE = 1e-15
#: Evaluations for each free parameter after which least squares are given up.
EACH = 1000
#: The status of a run of L-BFGS that finds no lower value, and of one that Ctrl-C has ended.
STUCK, INTERRUPTED = 3, 6
#: Newton steps after an optimiser has ended: it stops where the gradient is small, and errors want more digits.
STEPS = 20


def best(model, options, observations=None):
    """Cost and all numbers at the minimum, from a start that is near it; all parameters may be fixed.  `observations` as of `Minimum`."""
    if not len(model.parameters.free):
        return float(np.sum(model.terms(np.zeros(0), *model.args(options.f_scale)))), model.parameters.start.copy()
    point = Minimum(model, options.f_scale, observations)
    u, converged = point.refined(point.start)
    if not converged:
        u = point.refined(optimised(point, options)[0])[0]
    return point.value(u), point.full(u)


def optimised(point, options):
    """Where the optimiser ends: the vector, its message, whether it says that it has converged, evaluations."""
    bounds = (point.low, point.high) if np.isfinite(point.low).any() or np.isfinite(point.high).any() else None
    return (_by_squares if point.model.squares else _by_cost)(point, options, bounds)


def _by_squares(point, options, bounds):
    more = {"max_nfev": EACH * len(point.start) if options.max_evaluations is None else options.max_evaluations, "method": "lm"}
    if bounds is not None or point.model.loss != "linear":
        more |= {"loss": point.model.loss, "f_scale": options.f_scale, "method": "trf"}
    result = least_squares(
        point.model.residuals, point.start, args=point.args, bounds=bounds, x_scale="jac", ftol=FINE, xtol=FINE, gtol=FINE, progress=options.progress, **more,
    )  # fmt: skip
    return np.asarray(result.x, np.float64), result.message, result.status > 0, result.counts["evaluations"]


def _by_cost(point, options, bounds):
    result = lbfgs(
        point.model.cost, point.start, point.args, bounds=None if bounds is None else [*zip(*bounds)], max_iter=2000, ftol=FINE, gtol=1e-9,
        max_evaluations=options.max_evaluations, progress=options.progress,
    )  # fmt: skip
    if result.status == INTERRUPTED:
        raise KeyboardInterrupt
    # (Where no step lowers the value any more, Newton's steps tell whether it is least.)
    return np.asarray(result.x, np.float64), result.message, result.success or result.status == STUCK, result.counts["evaluations"]


class Minimum:
    """The cost near its minimum: gradient and Hessian, exact.

    They are recorded, and the cost is, unless the function itself gives another gradient at the vector `start`, where an optimiser starts; it
    is not asked if `observations`, their number, is given: then it was at another start a moment ago.

    Attributes
    ----------
    start, low, high : ndarray
        The free parameters and their bounds, divided by their scales.
    args : tuple
        What the functions of the model take besides.
    """

    def __init__(self, model, f_scale, observations=None):
        self.model, self.args, parameters, cost = model, model.args(f_scale), model.parameters, model.cost
        numbers = [edge[parameters.free] for edge in (parameters.start, parameters.lower, parameters.upper)]
        self.start, self.low, self.high = numbers / parameters.scale[parameters.free]
        self._cost, self.slope, self.curvature = (
            recorded(cost, name, of) for name, of in (("value", lambda f: f), ("slope", grad), ("curvature", hessian))
        )
        if observations is None:
            terms = model.terms(self.start, *self.args)
            observations = np.size(terms)
            if not np.all(np.isfinite(terms)):
                model.check_data()
                if not model.squares:
                    culprit = first_anomaly(cost, (self.start, *self.args)) or UNKNOWN
                    raise NonFiniteError(f"the cost is not finite at the start, {parameters.numbers(parameters.start)}: {culprit}")
            g = grad(cost)(self.start, *self.args)
            if not np.allclose(self.slope(self.start, *self.args), g, rtol=1e-9, atol=1e-9 * np.max(np.abs(g)), equal_nan=True):
                self._cost, self.slope, self.curvature = cost, grad(cost), hessian(cost)
        self.observations, self.count = observations, observations if model.squares else 1
        # What doubles can tell of an observation.
        self.digit = np.finfo(float).eps * float(np.max(np.abs(self.args[2]), initial=0.0))

    def value(self, u):
        return float(self._cost(u, *self.args))

    def full(self, u):
        """All numbers."""
        return np.asarray(self.model.parameters.full(u, *self.model.parameters.constants), np.float64)

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
        value = self.value(u)
        for _ in range(STEPS):
            g = self.slope(u, *self.args)
            held = self.held(u, g)
            g, h = g[~held], np.atleast_2d(self.curvature(u, *self.args))[np.ix_(~held, ~held)]
            if not len(g):
                return u, True
            if not (np.isfinite(g).all() and np.isfinite(h).all()):
                where = self.model.parameters.numbers(self.full(u))
                raise NonFiniteError(f"a derivative of the cost is not finite at {where}; start elsewhere, or give bounds")
            size, values, vectors = scaled_eigh(h)
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
            risen = self.value(new)
            if not risen < value:
                # What is left is less than rounding shows, or Newton's step leads away.
                return u, left <= max(1e-6 * scale, self._noise(value))
            u, value = new, risen
        return u, left <= max(1e-6 * scale, self._noise(value))

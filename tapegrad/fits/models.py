"""What is minimised: sums of squares, with robust losses, and likelihoods by name.

A `FitModel` has one number for each observation, as a function of the scaled free parameters: `residuals` for a sum of squares, `terms`, whose
sum is the cost, for all.  The cost is half the sum of squares, or the negative logarithm of the likelihood: twice its rise above the minimum
is the square of a number of standard deviations.
"""

import copy

import numpy as np

from ..array.functions import gammaln, log1p, sqrt, where, xlog1py, xlogy
from ..array.trees import joined
from ..common.errors import OptimizationError, ShapeError, StructureError
from ..common.tree import flatten
from ..transforms.keep import kept

#: Loss -> rho of z, the square of a residual over f_scale (SciPy's `least_squares`; Triggs et al., Bundle Adjustment: A Modern Synthesis, 2000).
LOSSES = {
    "linear": None,
    "soft_l1": lambda z: 2.0 * (sqrt(1.0 + z) - 1.0),
    "huber": lambda z: where(z <= 1.0, z, 2.0 * sqrt(where(z <= 1.0, 1.0, z)) - 1.0),
    "cauchy": log1p,
    "arctan": np.arctan,
}


def _poisson(expected, observed, _):
    return expected - xlogy(observed, expected) + gammaln(observed + 1.0)


def _binomial(chance, observed, trials):
    ways = gammaln(trials + 1.0) - gammaln(observed + 1.0) - gammaln(trials - observed + 1.0)
    return -xlogy(observed, chance) - xlog1py(trials - observed, -chance) - ways


#: Likelihood -> minus its logarithm for each observation, constants included, of (predicted, observed, trials).
LIKELIHOODS = {"poisson": _poisson, "binomial": _binomial}


def _parts(tree, what):
    """The numbers of a container as one vector."""
    numbers = joined(tree)
    if not numbers.size:
        raise StructureError(f"{what} has no numbers")
    return numbers


class FitModel:
    """A function of parameters and data, as residuals and as terms of a cost.

    Parameters
    ----------
    function : callable
        ``function(params, *data)`` gives residuals; or what is observed, if `observed` is given; or minus the logarithm of the likelihood.
    parameters : Parameters
    data : tuple
    observed, sigma, trials : containers of arrays, or None
    likelihood : None, str or callable
    loss : str
    """

    def __init__(self, function, parameters, data, observed, sigma, trials, likelihood, loss):
        if not callable(function):
            raise StructureError(f"the model must be a function of parameters and data, got {type(function).__name__}")
        if loss not in LOSSES:
            raise OptimizationError(f"loss={loss!r}: choose one of {', '.join(LOSSES)}")
        if isinstance(likelihood, str) and likelihood not in (*LIKELIHOODS, "nll"):
            raise OptimizationError(f"likelihood={likelihood!r}: choose one of {', '.join([*LIKELIHOODS, 'nll'])}, or give a function of (predicted, observed)")
        if likelihood is not None and loss != "linear":
            raise OptimizationError(f"loss={loss!r} changes squares of residuals; with likelihood= there are none")
        if likelihood not in (None, "nll") and observed is None:
            raise OptimizationError("likelihood= compares what the model predicts with what was observed: give observed=")
        if likelihood == "nll" and observed is not None:
            raise OptimizationError('likelihood="nll" is what the function itself returns: give observations among its data')
        if (sigma is not None) and (observed is None or likelihood is not None):
            raise OptimizationError("sigma= divides observed - predicted: give observed=, and no likelihood=")
        if (likelihood == "binomial") != (trials is not None):
            raise OptimizationError('trials= and likelihood="binomial" belong together')
        self.function, self.parameters, self.data = function, parameters, data
        self.likelihood, self.loss = likelihood, loss
        self.observed = None if observed is None else _plain(observed, "observed")
        self.sigma = None if sigma is None else _plain(sigma, "sigma")
        if self.sigma is not None and not (self.sigma > 0.0).all():
            raise OptimizationError("sigma has a number that is not above 0; leave such observations out")
        self.trials = None if trials is None else _plain(trials, "trials")
        self._make()

    def args(self, f_scale=1.0):
        """What `residuals` and `terms` take besides the vector of free parameters."""
        given = [np.zeros(0) if part is None else part for part in (self.observed, self.sigma, self.trials)]
        return (*self.parameters.constants, *given, float(f_scale), *self.data)

    def check_data(self):
        """Name data that are not finite: asked where the cost is not (a model may pass such data over)."""
        for k, data in enumerate(self.data, 1):
            for leaf in flatten(data)[0]:
                values = np.ravel(leaf) if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f" else np.zeros(0)
                for j in np.flatnonzero(~np.isfinite(values))[:1]:
                    what = f"argument {k} of the model has {values[j]} at place {j}"
                    raise OptimizationError(f"the cost is not finite at the start, and {what}; leave such observations out")

    def beside(self, parameters):
        """The same model with other parameters."""
        other = copy.copy(self)
        other.parameters = parameters
        other._make()
        return other

    def _make(self):
        shape = self.parameters, self.likelihood, self.loss, self.observed is None, self.sigma is None
        made = kept(self.function, ("fit", self.parameters.key(), *shape[1:]), lambda f: _functions(f, *shape))
        self.residuals, self.terms, self.cost = made

    @property
    def squares(self):
        """Whether the cost is a sum of squares, or of a robust loss of these."""
        return self.likelihood is None


    def deviance(self, cost, count):
        """A sum of squares, or twice what a likelihood's `cost` is above that of predictions that are what was observed; None where there is none."""
        if self.likelihood in LIKELIHOODS:
            # McCullagh & Nelder, Generalized Linear Models, 1989.
            observed = np.broadcast_to(self.observed, count)
            exact = observed if self.trials is None else observed / self.trials
            return 2.0 * (cost - float(np.sum(LIKELIHOODS[self.likelihood](exact, observed, self.trials))))
        return 2.0 * cost if self.squares else None


def _plain(thing, what):
    values = np.asarray(_parts(thing, what), np.float64)
    for k in np.flatnonzero(~np.isfinite(values))[:1]:
        raise OptimizationError(f"{what} has {values[k]} at place {k}; leave such observations out, of the data too")
    return values


def _functions(function, parameters, likelihood, loss, residual, unweighted):
    """`residuals`, `terms` and `cost`, their sum, which take the vector of free parameters and `FitModel.args`."""
    # (They take numbers from their arguments alone: recordings serve every fit of the function with parameters of one kind.)
    container = parameters.container

    def predicted(u, scale, others, observed, sigma, trials, f_scale, *data):
        return _parts(function(container(u, scale, others), *data), "what the model returns")

    def residuals(u, scale, others, observed, sigma, trials, f_scale, *data):
        values = predicted(u, scale, others, observed, sigma, trials, f_scale, *data)
        if residual:
            return values
        left = _fitting(observed, values, "observed") - values
        return left if unweighted else left / _fitting(sigma, values, "sigma")

    def terms(u, scale, others, observed, sigma, trials, f_scale, *data):
        if likelihood is None:
            return halved(residuals(u, scale, others, observed, sigma, trials, f_scale, *data), loss, f_scale)
        values = predicted(u, scale, others, observed, sigma, trials, f_scale, *data)
        if likelihood == "nll":
            return values
        if callable(likelihood):
            return -likelihood(values, _fitting(observed, values, "observed"))
        return LIKELIHOODS[likelihood](values, _fitting(observed, values, "observed"), trials)

    def cost(u, *args):
        return np.sum(terms(u, *args))

    return residuals, terms, cost


def halved(residuals, loss, f_scale):
    """Half of the loss of each residual."""
    squares, rho = residuals**2, LOSSES[loss]
    return 0.5 * squares if rho is None else 0.5 * f_scale**2 * rho(squares / f_scale**2)


def _fitting(array, values, what):
    """`array`, which has to fit what the model returns."""
    if array.shape != values.shape and array.shape != (1,):
        raise ShapeError(f"{what} has {array.shape[0]} numbers, and the model returns {values.shape[0]}")
    return array

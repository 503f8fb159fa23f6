"""Distributions of `scipy.stats` on tensors; every other name is SciPy's own.

``norm.logpdf(x, loc, scale)`` and the like, with SciPy's names, order and
defaults of parameters, differentiable in all of them that are real numbers.
"""

from ..mirrors import MIRRORS, own_names
from .continuous import (  # noqa: F401
    beta,
    cauchy,
    chi2,
    expon,
    gamma,
    halfnorm,
    invgamma,
    laplace,
    logistic,
    lognorm,
    norm,
    t,
    truncnorm,
    uniform,
    weibull_min,
)
from .discrete import bernoulli, binom, geom, nbinom, poisson  # noqa: F401
from .multivariate import dirichlet, multivariate_normal  # noqa: F401

__all__ = list(MIRRORS["scipy.stats"])
__getattr__ = own_names("scipy.stats")

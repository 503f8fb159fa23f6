"""Distributions of `scipy.stats` on tensors; every other name is SciPy's own.

``norm.logpdf(x, loc, scale)`` and the like, with SciPy's names, order and
defaults of parameters, differentiable in all of them that are real numbers.
"""

from ..mirrors import names_of
from .multivariate import dirichlet, gaussian_kde, multinomial, multivariate_normal, wishart  # noqa: F401
from .univariate import *  # noqa: F403

__all__, __dir__, __getattr__ = names_of(__name__)

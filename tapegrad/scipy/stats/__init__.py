"""Distributions of `scipy.stats` on tensors; every other name is SciPy's own.

``norm.logpdf(x, loc, scale)`` and the like, with SciPy's names, order and
defaults of parameters, differentiable in all of them that are real numbers.
"""

from ...common.public import only_public
from ..mirrors import MIRRORS, own_names
from .multivariate import dirichlet, gaussian_kde, multinomial, multivariate_normal, wishart  # noqa: F401
from .univariate import *  # noqa: F403

__all__ = list(MIRRORS["scipy.stats"])
__dir__ = only_public(__name__)
__getattr__ = own_names("scipy.stats")

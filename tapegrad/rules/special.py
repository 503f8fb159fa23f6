"""Special functions: rows whose values come from `scipy.special`.

SciPy is imported when such a function is first used, not before.  Derivatives:
NIST Digital Library of Mathematical Functions, 5.2, 5.15 and 7.2.
"""

from __future__ import annotations

import math

import numpy as np

from . import lang as L
from .table import elementwise

TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)


def scipy_special(name):
    """A function that calls ``scipy.special.<name>``, importing it when called."""

    def call(*args):
        import scipy.special

        return getattr(scipy.special, name)(*args)

    call.__name__ = name
    return call


def polygamma_value(n, x):
    """``scipy.special.polygamma`` for a positive order `n` that may be an array."""
    import scipy.special

    found = scipy.special.polygamma(n, x)
    return found.astype(np.float32) if getattr(x, "dtype", None) == np.float32 else found


elementwise(
    "erf", scipy_special("erf"), L.erf, (lambda x, z: TWO_OVER_SQRT_PI * L.exp(-(x * x)),),
    node="Erf", doc="error function",
)
elementwise(
    "lgamma", scipy_special("gammaln"), L.lgamma, (lambda x, z: L.digamma(x),),
    node="Lgamma", doc="log |gamma(x)|", calls_scipy=True,
)
elementwise(
    "digamma", scipy_special("psi"), L.digamma, (lambda x, z: L.polygamma(1.0, x),),
    node="Digamma", doc="derivative of log gamma", calls_scipy=True,
)
elementwise(
    "polygamma", polygamma_value, L.polygamma, (None, lambda n, x, z: L.polygamma(n + 1.0, x)),
    node="Polygamma", doc="n-th derivative of digamma; the order n is a constant", calls_scipy=True,
)

#: scipy.special ufuncs by name -> row name (SciPy's ufuncs are found by name so
#: that scipy need not be imported to build the table).
SCIPY_UFUNCS = {"erf": "erf", "gammaln": "lgamma", "psi": "digamma", "digamma": "digamma", "expit": "sigmoid"}

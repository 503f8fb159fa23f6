"""Optimisation with exact, compiled derivatives.

`loops` has optimisers that run wholly in compiled code.  All of them, and
SciPy's through `minimize`, see an objective as `objective.Objective`: value and gradient at a vector.
"""

from .fitting import curve_fit, least_squares, root
from .loops import adam, gradient_descent, lbfgs
from .minimize import minimize
from .state import State

__all__ = ["State", "adam", "curve_fit", "gradient_descent", "lbfgs", "least_squares", "minimize", "root"]

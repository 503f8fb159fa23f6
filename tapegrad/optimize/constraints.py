"""SciPy's constraints, with exact Jacobians for functions that are plain NumPy.

`minimize` hands on what `with_jacobians` gives; each function is a `VectorFunction`.
"""

from functools import partial

import numpy as np
from scipy.optimize import BFGS, LinearConstraint, NonlinearConstraint

from ..common.errors import OptimizationError
from .curvature import DENSE, of_constraint
from .vector_function import VectorFunction


def with_jacobians(constraints, layout, method):
    """The constraints as SciPy's `method` takes them: functions of the vector, with their Jacobians.

    Parameters
    ----------
    constraints : dict, LinearConstraint, NonlinearConstraint, or sequence of them
        A Jacobian of your own is kept: ``"jac"`` of a dict, a callable ``jac`` of a NonlinearConstraint; so is
        its ``hess``, of which trust-constr otherwise gets exact products.

    Returns
    -------
    list, list of VectorFunction
    """
    if isinstance(constraints, (dict, LinearConstraint, NonlinearConstraint)):
        constraints = [constraints]
    converted, functions = [], []
    for k, one in enumerate(constraints):
        if isinstance(one, LinearConstraint):
            converted.append(one)
            continue
        if isinstance(one, dict):
            if one.get("type") not in ("eq", "ineq") or not callable(one.get("fun")):
                raise OptimizationError(f'constraint {k}: give {{"type": "eq" or "ineq", "fun": function}}, got {sorted(one)}')
            fun, args, jac = one["fun"], tuple(one.get("args", ())), one.get("jac")
            if method == "trust-constr":
                # SciPy would approximate its curvature by a dense matrix.
                one = NonlinearConstraint(fun, 0.0, 0.0 if one["type"] == "eq" else np.inf, hess=BFGS())
        elif isinstance(one, NonlinearConstraint):
            fun, args, jac = one.fun, (), one.jac
        else:
            raise OptimizationError(
                f"constraint {k} is of type {type(one).__name__}; give a dict, scipy.optimize.LinearConstraint or NonlinearConstraint"
            )
        function = VectorFunction(fun, layout, args, f"constraint {k}")
        functions.append(function)
        found = function.sparse_jacobian if method == "trust-constr" and layout.size > DENSE else function.jacobian
        jacobian = partial(_own, jac, layout, args) if callable(jac) else found
        if isinstance(one, dict):
            derivative = {} if method in ("cobyla", "cobyqa") else {"jac": jacobian}
            converted.append({"type": one["type"], "fun": function.values, **derivative})
        else:
            # BFGS is what SciPy takes if none is given.
            hess = of_constraint(function) if method == "trust-constr" and isinstance(one.hess, BFGS) else one.hess
            converted.append(
                NonlinearConstraint(function.values, one.lb, one.ub, jac=jacobian, hess=hess, keep_feasible=one.keep_feasible)
            )
    return converted, functions


def _own(jac, layout, args, x):
    """A Jacobian of the user's, at a vector."""
    return np.reshape(np.asarray(jac(layout.container(x.copy()), *args), np.float64), (-1, layout.size))

"""Second derivatives of an objective for SciPy's methods: Hessian products, dense and sparse Hessians.

`minimize` gives what a `Curvature` makes, `constraints` what `of_constraint` does, as the functions that SciPy calls.
"""

import numpy as np
from scipy.sparse.linalg import LinearOperator

from ..array.trees import joined
from ..sparse.api import sparse_hessian
from ..transforms.hessians import hessian, hvp
from .layout import Flat, flat
from .proof import recorded

#: Up to so many variables a dense Hessian costs no more than a sparse one.
DENSE = 50


class Curvature:
    """The second derivatives of an objective, as functions of the vector.

    Parameters
    ----------
    objective : Objective

    Attributes
    ----------
    counts : dict of str to int
        What was asked for, by name.
    """

    def __init__(self, objective):
        self._function, self._like = flat(objective.function, objective.layout, objective.args), objective.like
        self.counts = {}

    def by(self, transformation, name):
        """What a transformation makes of the objective, for SciPy to call; `name` is what is counted."""
        derivative = recorded(self._function, transformation.__name__, transformation, self._like)

        def asked(x, *direction):
            self.counts[name] = self.counts.get(name, 0) + 1
            return derivative(np.array(x), *[np.array(p, np.float64) for p in direction])

        return asked

    def hessian(self, size, any_form):
        """The Hessian; in `any_form` sparse, if there are so many variables that it costs less."""
        return self.by(sparse_hessian if any_form and size > DENSE else hessian, "hessians")


class Weighted(Flat):
    """The numbers that a function gives, times weights, summed: the curvature that a constraint adds to a Lagrangian."""

    def __call__(self, x, weights):
        return np.sum(weights * joined(super().__call__(x)))


def of_constraint(function):
    """The Hessian of a constraint for SciPy: products with it, for weights of its numbers.

    Parameters
    ----------
    function : VectorFunction
    """
    product = recorded(Weighted(function.function, function.layout, function.args), "hvp", hvp, function.function)
    size = function.layout.size

    def weighted_hessian(x, weights):
        at, by = np.array(x), np.array(weights, np.float64)

        def times(direction):
            return product(at, by, np.array(direction, np.float64).reshape(-1))

        return LinearOperator((size, size), matvec=times, rmatvec=times, dtype=np.float64)

    return weighted_hessian

"""Second derivatives of an objective for SciPy's methods: Hessian products, dense and sparse Hessians.

`minimize` gives the methods of a `Curvature`, `constraints` what `of_constraint` makes, as the functions that SciPy calls.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import LinearOperator

from ..common.tree import flatten
from ..sparse.api import sparse_hessian
from ..transforms.hessians import hessian
from ..transforms.products import hvp
from .layout import flat
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
    products, hessians : int
        How many were asked for.
    """

    def __init__(self, objective):
        self._function, self._like = flat(objective.function, objective.layout, objective.args), objective.like
        self.products = self.hessians = 0

    def _derivative(self, transformation):
        return recorded(self._function, transformation.__name__, transformation, self._like)

    def product(self, x, p, *args):
        """The product of the Hessian at `x` with `p`."""
        self.products += 1
        return np.asarray(self._derivative(hvp)(np.array(x), np.array(p, np.float64)))

    def dense(self, x):
        """The Hessian at `x`."""
        self.hessians += 1
        return np.asarray(self._derivative(hessian)(np.array(x)))

    def sparse(self, x):
        """The Hessian at `x`, as a SciPy sparse array."""
        self.hessians += 1
        return self._derivative(sparse_hessian)(np.array(x))

    def as_is(self, x):
        """The Hessian at `x` in the form in which it costs least: sparse, if there are many variables."""
        return self.dense(x) if len(x) <= DENSE else self.sparse(x)

    def counts(self):
        """What was asked for, by name."""
        return {name: n for name, n in (("hessian_products", self.products), ("hessians", self.hessians)) if n}


class Weighted:
    """The numbers that a function gives, times weights, summed: the curvature that a constraint adds to a Lagrangian."""

    def __init__(self, function, layout, args):
        self.function, self._layout, self._args = function, layout, args

    def __call__(self, x, weights):
        total, at = 0.0, 0
        for part in flatten(self.function(self._layout.traced(x), *self._args))[0]:
            shape = np.shape(getattr(part, "_v", part))
            count = int(np.prod(shape))
            if shape:
                total = total + (weights[at : at + count].reshape(shape) * part).sum()
            else:
                total = total + weights[at] * part
            at += count
        return total


def of_constraint(function):
    """The Hessian of a constraint for SciPy: products with it, for weights of its numbers.

    Parameters
    ----------
    function : VectorFunction
    """
    weighted = Weighted(function.function, function.layout, function.args)
    product = recorded(weighted, "hvp", hvp, function.function)
    size = function.layout.size

    def hessian(x, weights):
        at, by = np.array(x), np.array(weights, np.float64)

        def times(direction):
            return product(at, by, np.array(direction, np.float64).reshape(-1))

        return LinearOperator((size, size), matvec=times, rmatvec=times, dtype=np.float64)

    return hessian

"""Second derivatives of an objective for SciPy's methods: Hessian products, dense and sparse Hessians."""

from __future__ import annotations

import numpy as np

from .keep import kept
from .layout import flat


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
        self._function = flat(objective.function, objective.layout, objective.args)
        self.products = self.hessians = 0

    def _derivative(self, name):
        import tapegrad

        return kept(self._function, name, getattr(tapegrad, name))

    def product(self, x, p, *args):
        """The product of the Hessian at `x` with `p`."""
        self.products += 1
        return np.asarray(self._derivative("hvp")(np.array(x), np.array(p, np.float64)))

    def dense(self, x):
        """The Hessian at `x`."""
        self.hessians += 1
        return np.asarray(self._derivative("hessian")(np.array(x)))

    def sparse(self, x):
        """The Hessian at `x`, as a SciPy sparse array."""
        self.hessians += 1
        return self._derivative("sparse_hessian")(np.array(x))

    def counts(self):
        """What was asked for, by name."""
        return {name: n for name, n in (("hessian_products", self.products), ("hessians", self.hessians)) if n}

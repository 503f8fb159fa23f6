"""How well data determine parameters: covariances by curvature, and what follows from them."""

from __future__ import annotations

import numpy as np

from ..transforms.functional import jit
from ..transforms.hessians import hessian
from ..transforms.jacobians import jacobian
from ..transforms.keep import kept
from .models import LOSSES, cost_of

#: Singular values of the Jacobian, with columns of length one, below which (times the largest) the data determine nothing.
SINGULAR = 1e-10


class Covariance:
    """The cost around the fit: what the covariance is made of.

    Attributes
    ----------
    residuals : ndarray or None
    covariance : ndarray
        Of all numbers, fixed and tied ones too; NaN where the data do not determine a parameter, or it is held by a bound.
    undetermined : list of dict of str to float
        Combinations of parameters along which the cost does not change.
    held : ndarray of bool
        Of the free parameters, those that a bound holds.
    count : int
        Number of observations.
    variance : float
        By which the covariance was multiplied: of the residuals, 1 where their scale is known.
    """

    def __init__(self, model, options, args, u, held):
        self.model, self.held, parameters = model, held, model.parameters
        terms = np.asarray(model.terms(u, *args))
        self.count, self.cost = int(terms.size), float(np.sum(terms))
        self.residuals = np.asarray(model.residuals(u, *args)) if model.squares else None
        used = ~held
        self.dof = self.count - int(used.sum())
        rows, inverse, null, scores = self._inverse(model, options, args, u, used)
        self.variance = 1.0
        if model.squares and not options.absolute_sigma and options.covariance != "sandwich":
            self.variance = 2.0 * self.cost / self.dof if self.dof > 0 else np.nan
        small = self.variance * inverse
        if options.covariance == "sandwich":
            factor = self.count / self.dof if self.dof > 0 else np.nan
            small = factor * inverse @ (scores.T @ scores) @ inverse
        self.jacobian = np.atleast_2d(np.asarray(jacobian(parameters.full)(u, *parameters.constants))).reshape(-1, len(u))
        free = self.jacobian[:, used]
        self.covariance = free @ small @ free.T
        moved = free @ null
        lost = (np.abs(moved) > 1e-6 * np.max(np.abs(moved), axis=0, initial=0.0)).any(axis=1)
        lost |= (np.abs(self.jacobian[:, held]) > 0.0).any(axis=1)
        self.covariance[lost] = self.covariance[:, lost] = np.nan
        self.undetermined = []
        for column in moved.T:
            column = column / column[np.argmax(np.abs(column))]
            self.undetermined.append({name: float(c) for name, c in zip(parameters.names, column) if abs(c) > 1e-3})

    def _inverse(self, model, options, args, u, used):
        """Jacobian of the terms, inverse curvature, directions without any, and the derivative of each term."""
        if options.covariance == "gauss-newton" or model.squares:
            rows = np.atleast_2d(kept(model.residuals, "rows", lambda f: jit(jacobian(f)))(u, *args))[:, used]
            weights, slopes = _weights(model.loss, self.residuals, options.f_scale)
            scores = slopes[:, None] * rows
        else:
            rows = None
            scores = None
            if options.covariance == "sandwich":
                scores = np.atleast_2d(kept(model.terms, "rows", lambda f: jit(jacobian(f)))(u, *args))[:, used]
        if options.covariance == "gauss-newton" or options.covariance == "sandwich" and model.squares:
            weighted = np.sqrt(np.maximum(weights, 0.0))[:, None] * rows
            size = np.sqrt(np.sum(weighted**2, axis=0))
            size[size == 0.0] = 1.0
            _, singular, vectors = np.linalg.svd(weighted / size, full_matrices=False)
            singular = np.concatenate([singular, np.zeros(len(size) - len(singular))])
            values, vectors = singular**2, vectors.T
            flat = singular <= SINGULAR * singular[0]
        else:
            curved = np.atleast_2d(kept(cost_of(model.terms), "curvature", lambda f: jit(hessian(f)))(u, *args))[np.ix_(used, used)]
            size = np.sqrt(np.abs(np.diag(curved)))
            size[size == 0.0] = 1.0
            values, vectors = np.linalg.eigh(curved / np.outer(size, size))
            flat = values <= 1e-13 * max(values[-1], 0.0) if len(values) else np.zeros(0, bool)
        across = vectors / size[:, None]
        inverse = (across[:, ~flat] / values[~flat]) @ across[:, ~flat].T
        return rows, inverse, across[:, flat], scores


def _weights(loss, residuals, scale):
    """By what the squares of a Jacobian's rows, and the rows, are multiplied: second and first derivatives of the loss by the residual."""
    if LOSSES[loss] is None:
        return np.ones_like(residuals), residuals
    z = (residuals / scale) ** 2
    one = np.ones_like(z)
    first, second = {
        "soft_l1": ((1.0 + z) ** -0.5, -0.5 * (1.0 + z) ** -1.5),
        "huber": (np.where(z <= 1.0, one, np.maximum(z, 1e-300) ** -0.5), np.where(z <= 1.0, 0.0, -0.5 * np.maximum(z, 1e-300) ** -1.5)),
        "cauchy": (1.0 / (1.0 + z), -1.0 / (1.0 + z) ** 2),
        "arctan": (1.0 / (1.0 + z**2), -2.0 * z / (1.0 + z**2) ** 2),
    }[loss]
    return first + 2.0 * z * second, first * residuals

"""How well data determine parameters: covariances by curvature, and what follows from them."""

import numpy as np

from ..transforms.forward import jvp
from ..transforms.hessians import hessian
from ..transforms.jacobians import jacobian
from .models import halved

#: Singular values of the Jacobian, with columns of length one, below which (times the largest) the data determine nothing.
SINGULAR = 1e-10
#: The same of a Hessian's eigenvalues, which come with fewer digits.
FLAT = 1e-13


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
    scale : float
        The variance of the residuals where it is estimated from them, else 1: what half the sum of squares is measured by.

    Notes
    -----
    The derivatives at the fit are not recorded: they belong to the function as it is.
    """

    def __init__(self, point, options, u):
        model, args, held = point.model, point.args, point.held(u)
        self.model, self.held, parameters = model, held, model.parameters
        terms = np.asarray(model.terms(u, *args))
        self.count, self.cost = int(terms.size), float(np.sum(terms))
        self.residuals = np.asarray(model.residuals(u, *args)) if model.squares else None
        used = ~held
        self.dof = self.count - int(used.sum())
        inverse, null, scores = self._inverse(model, options, args, u, used)
        self.scale = 1.0
        if model.squares and not options.absolute_sigma:
            self.scale = 2.0 * self.cost / self.dof if self.dof > 0 else np.nan
        small = self.scale * inverse
        if scores is not None:
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
        """Inverse curvature, directions without any, and for the sandwich the derivative of each term."""
        sandwich, scores = options.covariance == "sandwich", None
        if model.squares and options.covariance != "hessian":
            rows = np.atleast_2d(jacobian(model.residuals)(u, *args))[:, used]
            # By what the rows, and their squares, are multiplied: first and second derivatives of the loss by each residual.
            slopes, weights = self.residuals, np.ones_like(self.residuals)
            if model.loss != "linear":
                along = (np.ones_like(self.residuals),)
                slope = lambda r: jvp(lambda r: halved(r, model.loss, options.f_scale), (r,), along)[1]  # noqa: E731
                slopes, weights = jvp(slope, (self.residuals,), along)
            if sandwich:
                scores = slopes[:, None] * rows
            rows = np.sqrt(np.maximum(weights, 0.0))[:, None] * rows
            size = np.sqrt(np.sum(rows**2, axis=0))
            size[size == 0.0] = 1.0
            _, singular, vectors = np.linalg.svd(rows / size, full_matrices=False)
            values, vectors, flat = singular**2, vectors.T, singular <= SINGULAR * np.max(singular, initial=0.0)
        else:
            if sandwich:
                scores = np.atleast_2d(jacobian(model.terms)(u, *args))[:, used]
            size, values, vectors = scaled_eigh(np.atleast_2d(hessian(model.cost)(u, *args))[np.ix_(used, used)])
            flat = values <= FLAT * np.max(values, initial=0.0)
        across = vectors / size[:, None]
        return (across[:, ~flat] / values[~flat]) @ across[:, ~flat].T, across[:, flat], scores


def scaled_eigh(matrix):
    """The lengths by which a symmetric matrix is scaled to have ones in its diagonal, and eigenvalues and eigenvectors of the scaled one."""
    size = np.sqrt(np.abs(np.diag(matrix)))
    size[size == 0.0] = 1.0
    return size, *np.linalg.eigh(matrix / np.outer(size, size))

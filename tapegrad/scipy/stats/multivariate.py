"""Distributions of vectors: the normal and the Dirichlet distribution."""

from __future__ import annotations

import math

import numpy as np

from ...common.errors import UnsupportedFunctionError
from ...common.uninterrupted import Lazily
from ..linalg import solve_triangular
from ..mirrors import array, differentiable, value
from .distribution import Named, special

_stats = Lazily("scipy.stats")


class MultivariateNormal(Named):
    """The distribution `scipy.stats.multivariate_normal`."""

    name = "multivariate_normal"

    def logpdf(self, x, mean=None, cov=1, allow_singular=False):
        """Logarithm of the density.

        Parameters
        ----------
        x : array-like, shape (..., d)
        mean : array-like, shape (d,), optional
            Zeros by default.
        cov : array-like, shape (d, d), (d,) or ()
            Covariance, or its diagonal.  The lower triangle is read, with the
            symmetric adjoint of `numpy.linalg.cholesky`.
        allow_singular : bool
            Refused for tensors.

        Returns
        -------
        Tensor, or SciPy's result for plain arguments

        Raises
        ------
        numpy.linalg.LinAlgError
            If `cov` is not positive definite.
        """
        if not differentiable(x, mean, cov):
            return _stats.multivariate_normal.logpdf(x, mean, cov, allow_singular)
        if allow_singular:
            raise UnsupportedFunctionError(
                "multivariate_normal.logpdf takes no allow_singular=True for tensors: the rank is not differentiable"
            )
        mean, cov = _parameters(mean, cov)
        d = mean.shape[0]
        x = array(x)
        if x.ndim == 0:
            x = x[None]
        if x.ndim == 1:
            x = np.expand_dims(x, 1 if d == 1 else 0)
        if x.shape[-1] != d:
            raise ValueError(f"multivariate_normal: x has shape {tuple(x.shape)}, its last extent must be {d}")
        factor = np.linalg.cholesky(cov)
        off = np.reshape(x - mean, (-1, d)).T
        z = solve_triangular(factor, off, lower=True)
        log_det = 2.0 * np.sum(np.log(np.diagonal(factor)))
        result = -0.5 * (d * math.log(2 * math.pi) + log_det + np.sum(z * z, axis=0))
        return np.squeeze(np.reshape(result, x.shape[:-1]))

    def pdf(self, x, mean=None, cov=1, allow_singular=False):
        """Density; see `logpdf`."""
        if not differentiable(x, mean, cov):
            return _stats.multivariate_normal.pdf(x, mean, cov, allow_singular)
        return np.exp(self.logpdf(x, mean, cov, allow_singular))


def _parameters(mean, cov):
    """Mean and covariance as a vector and a matrix."""
    cov = array(1.0 if cov is None else cov)
    if mean is None:
        d = 1 if cov.ndim == 0 else cov.shape[0]
        mean = np.zeros(d)
    mean = np.reshape(array(mean), (-1,))
    d = mean.shape[0]
    if cov.ndim == 0:
        cov = cov * np.eye(d)
    elif cov.ndim == 1:
        cov = np.diag(cov)
    if tuple(cov.shape) != (d, d):
        raise ValueError(f"multivariate_normal: cov has shape {tuple(cov.shape)}, a mean of {d} needs ({d}, {d})")
    return mean, cov


class Dirichlet(Named):
    """The distribution `scipy.stats.dirichlet`."""

    name = "dirichlet"

    def logpdf(self, x, alpha):
        """Logarithm of the density.

        Parameters
        ----------
        x : array-like, shape (d, ...) or (d - 1, ...)
            Points of the simplex along the first axis; the last coordinate may be left
            out.  The derivative takes the coordinates as independent.
        alpha : array-like, shape (d,)
            Concentrations.

        Returns
        -------
        Tensor, or SciPy's result for plain arguments

        Raises
        ------
        ValueError
            If an `alpha` is not positive or `x` is not in the simplex.
        """
        if not differentiable(x, alpha):
            return _stats.dirichlet.logpdf(x, alpha)
        # SciPy refuses what cannot be.
        _stats.dirichlet.logpdf(value(x), value(alpha))
        x, alpha = array(x), array(alpha)
        d = alpha.shape[0]
        if x.shape[0] == d - 1:
            x = np.concatenate([x, 1.0 - np.sum(x, axis=0, keepdims=True)])
        log_b = np.sum(special.gammaln(alpha)) - special.gammaln(np.sum(alpha))
        powers = np.reshape(alpha - 1.0, (d,) + (1,) * (x.ndim - 1))
        return np.sum(special.xlogy(powers, x), axis=0) - log_b

    def pdf(self, x, alpha):
        """Density; see `logpdf`."""
        if not differentiable(x, alpha):
            return _stats.dirichlet.pdf(x, alpha)
        return np.exp(self.logpdf(x, alpha))


multivariate_normal = MultivariateNormal()
dirichlet = Dirichlet()

"""Distributions of vectors and matrices, and the estimate of a density by kernels."""

import math

import numpy as np

from ...array.record import guard_on
from ...common.errors import UnsupportedFunctionError
from ...common.host_functions import host_function
from ...common.uninterrupted import imported
from ..linalg import solve_triangular
from ..mirrors import Beside, array, constant, differentiable, of_theirs, value
from ..special import logsumexp, multigammaln
from .distribution import Named, below_overflow, both, special, stats


class MultivariateNormal(Named):
    """The distribution `scipy.stats.multivariate_normal`."""

    name = "multivariate_normal"

    @of_theirs
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
            Let `cov` have a smaller rank: a density on the points that can occur, and 0 elsewhere.  Such a `cov` is a constant.

        Returns
        -------
        Tensor, or SciPy's result for plain arguments

        Raises
        ------
        numpy.linalg.LinAlgError
            If `cov` is not positive definite.
        UnsupportedFunctionError
            With `allow_singular`, if `cov` carries a derivative.
        """
        if allow_singular and differentiable(cov):
            raise UnsupportedFunctionError(
                "pass cov as a constant to multivariate_normal.logpdf with allow_singular=True, or leave that out: the rank of a matrix has "
                "no derivative"
            )
        mean, cov = _parameters(mean, cov)
        d = mean.shape[0]
        x = np.atleast_1d(array(x))
        if x.ndim == 1:
            x = np.expand_dims(x, 1 if d == 1 else 0)
        if x.shape[-1] != d:
            raise ValueError(f"multivariate_normal: x has shape {tuple(x.shape)}, its last extent must be {d}")
        off = np.reshape(x - mean, (-1, d)).T
        if allow_singular:
            result = _on_support(off, np.asarray(value(cov)))
        else:
            factor = np.linalg.cholesky(cov)
            z = solve_triangular(factor, off, lower=True)
            log_det = 2.0 * np.sum(np.log(np.diagonal(factor)))
            result = -0.5 * (d * math.log(2 * math.pi) + log_det + np.sum(z * z, axis=0))
        return np.squeeze(np.reshape(result, x.shape[:-1]))

    @of_theirs
    def pdf(self, x, mean=None, cov=1, allow_singular=False):
        """Density; see `logpdf`."""
        return np.exp(self.logpdf(x, mean, cov, allow_singular))

    @of_theirs
    def entropy(self, mean=None, cov=1):
        """Differential entropy; see `logpdf`."""
        _, cov = _parameters(mean, cov)
        return 0.5 * cov.shape[0] * (1.0 + math.log(2 * math.pi)) + np.sum(np.log(np.diagonal(np.linalg.cholesky(cov))))


def _on_support(off, cov):
    """The logarithm of the density at distances `off` from the mean, in columns, of a constant covariance that may be singular."""
    spectrum, vectors = np.linalg.eigh(cov)
    # What counts as zero is SciPy's choice.
    zero = 1e6 * np.finfo(float).eps * np.max(np.abs(spectrum))
    if np.min(spectrum) < -zero:
        raise ValueError("multivariate_normal: cov must be symmetric and positive semidefinite")
    kept = spectrum > zero
    z = (vectors[:, kept] / np.sqrt(spectrum[kept])).T @ off
    result = -0.5 * (np.sum(kept) * math.log(2 * math.pi) + np.sum(np.log(spectrum[kept])) + np.sum(z * z, axis=0))
    if np.all(kept):
        return result
    return np.where(np.sum((vectors[:, ~kept].T @ off) ** 2, axis=0) < (1e3 * zero) ** 2, result, -np.inf)


def _parameters(mean, cov):
    """Mean and covariance as a vector and a matrix."""
    cov = array(1.0 if cov is None else cov)
    mean = np.reshape(array(np.zeros(cov.shape[:1]) if mean is None else mean), (-1,))
    d = mean.shape[0]
    cov = cov * np.eye(d) if cov.ndim == 0 else np.diag(cov) if cov.ndim == 1 else cov
    if tuple(cov.shape) != (d, d):
        raise ValueError(f"multivariate_normal: cov has shape {tuple(cov.shape)}, a mean of {d} needs ({d}, {d})")
    return mean, cov


def _refused_by_scipy(name, *arguments):
    """Raise what SciPy's log-density does of numbers that cannot be."""
    if not guard_on(_accepted(name), *arguments):
        getattr(stats, name).logpdf(*(value(one)[()] for one in arguments))


@host_function
def _accepted(*operands):
    *values, name = operands
    try:
        getattr(stats, name).logpdf(*(np.asarray(one)[()] for one in values))
    except (ValueError, np.linalg.LinAlgError):
        return False
    return True


class Dirichlet(Named):
    """The distribution `scipy.stats.dirichlet`."""

    name = "dirichlet"

    @of_theirs
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
        x, alpha = array(x), array(alpha)
        _refused_by_scipy(self.name, x, alpha)
        d = alpha.shape[0]
        if x.shape[0] == d - 1:
            x = np.concatenate([x, 1.0 - np.sum(x, axis=0, keepdims=True)])
        log_b = np.sum(special.gammaln(alpha)) - special.gammaln(np.sum(alpha))
        powers = np.reshape(alpha - 1.0, (d,) + (1,) * (x.ndim - 1))
        return np.sum(special.xlogy(powers, x), axis=0) - log_b

    @of_theirs
    def pdf(self, x, alpha):
        """Density; see `logpdf`."""
        return np.exp(self.logpdf(x, alpha))


class Multinomial(Named):
    """The distribution `scipy.stats.multinomial`."""

    name = "multinomial"

    @of_theirs
    def logpmf(self, x, n, p):
        """Logarithm of the probability.

        Parameters
        ----------
        x : int array-like, shape (..., k)
            Counts, without derivative; probability 0 where their sum is not `n`.
        n : int
        p : array-like, shape (..., k)
            Probabilities.  The last is 1 less the others, so that its derivative is 0.  As in SciPy, from its version 1.18 on the result
            is NaN where they do not add up to 1.

        Returns
        -------
        Tensor, or SciPy's result for plain arguments
        """
        return self._evaluated("logpmf", x, n, p)

    @of_theirs
    def pmf(self, x, n, p):
        """Probability; see `logpmf`."""
        return self._evaluated("pmf", x, n, p)

    def _evaluated(self, how, x, n, p):
        x, n = (constant(v, f"multinomial.{how}", name, "it is an integer") for v, name in ((x, "x"), (n, "n")))
        given = p = array(p)
        p = np.concatenate([p[..., :-1], 1.0 - np.sum(p[..., :-1], axis=-1, keepdims=True)], axis=-1)
        ways = special.gammaln(n + 1.0) - np.sum(special.gammaln(x + 1.0), axis=-1)
        result, impossible = ways + np.sum(special.xlogy(x, p), axis=-1), -np.inf
        if how == "pmf":
            # As of one variable: a probability of 0 has no logarithm, but a slope.
            result, impossible = np.where(np.isinf(result), below_overflow(ways) * np.prod(p**x, axis=-1), np.exp(result)), 0.0
        possible = np.all(x >= 0, axis=-1) & np.all(x == np.floor(x), axis=-1) & (np.sum(x, axis=-1) == n)
        valid = both(np.all(p >= 0, axis=-1), np.all(p <= 1, axis=-1), n >= 0)
        if np.lib.NumpyVersion(imported("scipy").__version__) >= "1.18.0":
            valid = both(valid, np.abs(np.sum(given, axis=-1) - 1.0) <= 10 * np.finfo(np.result_type(given.dtype, np.float32)).eps)
        return np.where(valid, np.where(possible, result, impossible), np.nan)


class Wishart(Named):
    """The distribution `scipy.stats.wishart`."""

    name = "wishart"

    @of_theirs
    def logpdf(self, x, df, scale):
        """Logarithm of the density.

        Parameters
        ----------
        x : array-like, shape (d, d), (d, d, n), or one number or vector for d = 1
            Positive definite matrices, along the last axis.
        df : array-like, shape ()
            Degrees of freedom.
        scale : array-like, shape (d, d), (d,) or ()
            Its lower triangle is read, with the symmetric adjoint of `numpy.linalg.cholesky`.

        Returns
        -------
        Tensor, or SciPy's result for plain arguments

        Raises
        ------
        numpy.linalg.LinAlgError
            If `scale` is not positive definite.
        """
        x, scale = array(x), array(scale)
        _refused_by_scipy(self.name, x, df, scale)
        scale = np.reshape(scale, (1, 1)) if scale.ndim == 0 else np.diag(scale) if scale.ndim == 1 else scale
        d = scale.shape[0]
        x = np.reshape(x, (1, 1, -1)) if d == 1 else np.diag(x) if x.ndim == 1 else x * np.eye(d) if x.ndim == 0 else x
        x = np.moveaxis(x, -1, 0) if x.ndim == 3 else x
        half = 0.5 * (df if isinstance(df, (int, float)) else array(df))
        factor = np.linalg.cholesky(scale)
        log_det = 2.0 * np.sum(np.log(np.diagonal(factor)))
        whitening = solve_triangular(factor, np.eye(d), lower=True)
        whitened = np.sum((whitening.T @ whitening) * x, axis=(-2, -1))
        result = (half - 0.5 * (d + 1)) * np.linalg.slogdet(x)[1] - 0.5 * whitened
        return np.squeeze(result - half * (d * math.log(2.0) + log_det) - multigammaln(half, d))

    @of_theirs
    def pdf(self, x, df, scale):
        """Density; see `logpdf`."""
        return np.exp(self.logpdf(x, df, scale))


class gaussian_kde(Beside):
    """The estimate of a density from points by normal distributions around them, `scipy.stats.gaussian_kde`.

    `logpdf`, `pdf` and `evaluate` (a call) are differentiable; everything else is that of SciPy's object.

    Parameters
    ----------
    dataset : array-like, shape (n,) or (d, n)
    bw_method : {"scott", "silverman"} or array-like of shape (), optional
        How wide they are: "scott" by default.
    weights : array-like, shape (n,), optional
    """

    def __init__(self, dataset, bw_method=None, weights=None):
        self._arguments = dataset, bw_method, weights
        self.theirs = None if differentiable(self._arguments) else stats.gaussian_kde(*self._arguments)

    @of_theirs
    def logpdf(self, x):
        """Logarithm of the estimate at the points `x`, of shape (m,) or (d, m)."""
        dataset, width, weights = self._arguments
        # As `set_bandwidth` may have left it.
        width = width if self.theirs is None else self.theirs.factor
        data, points = (np.atleast_2d(array(a)) for a in (dataset, x))
        d, n = data.shape
        if points.shape[0] != d and points.shape[1] == d:
            points = np.reshape(points, (d, 1))
        weights = np.full(n, 1.0 / n) if weights is None else array(weights) / np.sum(array(weights))
        squares = np.sum(weights * weights)
        if width is None or isinstance(width, str):
            if width not in (None, "scott", "silverman"):
                raise ValueError("`bw_method` should be 'scott', 'silverman', or a scalar")
            width = (squares if width != "silverman" else squares * 4.0 / (d + 2.0)) ** (1.0 / (d + 4.0))
        off = data - np.sum(data * weights, axis=1, keepdims=True)
        factor = np.linalg.cholesky((off * weights) @ off.T / (1.0 - squares)) * width
        data, points = (solve_triangular(factor, a, lower=True) for a in (data, points))
        energies = 0.5 * np.sum((data[:, :, None] - points[:, None, :]) ** 2, axis=0)
        log_norm = 0.5 * d * math.log(2 * math.pi) + np.sum(np.log(np.diagonal(factor)))
        return logsumexp(np.log(weights)[:, None] - energies, axis=0) - log_norm

    @of_theirs
    def evaluate(self, points):
        """The estimate at `points`, of shape (m,) or (d, m)."""
        return np.exp(self.logpdf(points))

    __call__ = pdf = evaluate


multinomial = Multinomial()
wishart = Wishart()
multivariate_normal = MultivariateNormal()
dirichlet = Dirichlet()

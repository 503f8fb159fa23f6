"""gmm: the log-posterior of a mixture of Gaussians with a Wishart prior."""

from __future__ import annotations

import math

import numpy as np

import tapegrad as tg

from ..given import array, count, entry, number


def logsumexp(a, axis):
    top = np.max(a, axis=axis, keepdims=True)
    return np.squeeze(top, axis) + np.log(np.sum(np.exp(a - top), axis=axis))


def triangles(q, low):
    """Lower triangular matrices: exp(q) on the diagonal, `low` below it, column by column."""
    k, d = q.shape
    columns, rows = np.triu_indices(d, 1)
    matrices = tg.zeros((k, d, d))
    matrices[:, np.arange(d), np.arange(d)] = np.exp(q)
    matrices[:, rows, columns] = low
    return matrices


def log_multigamma(a, d):
    """The logarithm of the multivariate gamma function."""
    return d * (d - 1) / 4 * math.log(math.pi) + sum(math.lgamma(a - j / 2) for j in range(d))


def objective(alpha, mu, q, low, x, m, gamma):
    """The log-posterior.

    Parameters
    ----------
    alpha : (k,)
    mu, q : (k, d)
    low : (k, d (d - 1) / 2)
    x : (n, d)
    m : int
    gamma : float
    """
    n, d = x.shape
    k = len(alpha)
    Q = triangles(q, low)
    away = x[None, :, :] - mu[:, None, :]
    scaled = away @ np.transpose(Q, (0, 2, 1))
    beta = (alpha + np.sum(q, axis=1))[:, None] - 0.5 * np.sum(scaled * scaled, axis=2)
    total = np.sum(logsumexp(beta, 0)) - n * (d / 2 * math.log(2 * math.pi) + logsumexp(alpha, 0))
    nu = d + m + 1
    prior = k * (nu * d * np.log(gamma / math.sqrt(2)) - log_multigamma(nu / 2, d))
    squares = np.sum(np.exp(2 * q)) + np.sum(low * low)
    return total + prior - gamma**2 / 2 * squares + m * np.sum(q)


gradient = tg.jit(tg.grad(objective, (0, 1, 2, 3)))


def read(given):
    """The arguments of `objective`."""
    d, k, n = (count(given, name) for name in "dkn")
    mu, q, low = array(given, "mu", k, d), array(given, "q", k, d), array(given, "l", k, d * (d - 1) // 2)
    gamma = number(entry(given, "gamma"), "gamma")
    return array(given, "alpha", k), mu, q, low, array(given, "x", n, d), count(given, "m", 0), gamma


def _objective(given):
    arguments = read(given)
    return lambda: objective(*arguments), float


def _jacobian(given):
    arguments = read(given)
    return lambda: gradient(*arguments), lambda found: {k: g.tolist() for k, g in zip(("alpha", "mu", "q", "l"), found)}


FUNCTIONS = {"objective": _objective, "jacobian": _jacobian}

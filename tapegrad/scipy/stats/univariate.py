"""The distributions of one variable, in standard form, with the parameters of SciPy.

N. Johnson, S. Kotz and N. Balakrishnan, "Continuous Univariate Distributions",
2nd edition (1994, 1995); N. Johnson, A. Kemp and S. Kotz, "Univariate Discrete
Distributions", 3rd edition (2005).
"""

from __future__ import annotations

import math

import numpy as np

from ..mirrors import MIRRORS
from .distribution import Continuous, Discrete, both, special

LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
LOG_2 = math.log(2)
ROOT_2 = math.sqrt(2)


def _symmetric(name, density, lower, log_lower=None):
    """A distribution whose upper tail is the lower one of the other side."""
    rules = {"lower": lower, "upper": lambda y: lower(-y)}
    if log_lower:
        rules |= {"log_lower": log_lower, "log_upper": lambda y: log_lower(-y)}
    return Continuous(name, density=density, **rules)


def _normal(y):
    return -0.5 * (y * y) - LOG_ROOT_2PI


norm = _symmetric("norm", _normal, lambda y: special.ndtr(y), lambda y: special.log_ndtr(y))
lognorm = Continuous(
    "lognorm", "s", ends=(0.0, np.inf), closed=False,
    density=lambda y, s: _normal(np.log(y) / s) - np.log(s * y),
    lower=lambda y, s: special.ndtr(np.log(y) / s), log_lower=lambda y, s: special.log_ndtr(np.log(y) / s),
    upper=lambda y, s: special.ndtr(-np.log(y) / s), log_upper=lambda y, s: special.log_ndtr(-np.log(y) / s),
)  # fmt: skip
expon = Continuous(
    "expon", ends=(0.0, np.inf), density=lambda y: -y, lower=lambda y: -np.expm1(-y), log_upper=lambda y: -y,
)  # fmt: skip
gamma = Continuous(
    "gamma", "a", ends=(0.0, np.inf), density=lambda y, a: special.xlogy(a - 1.0, y) - y - special.gammaln(a),
    lower=lambda y, a: special.gammainc(a, y), upper=lambda y, a: special.gammaincc(a, y),
)  # fmt: skip
chi2 = Continuous(
    "chi2", "df", ends=(0.0, np.inf),
    density=lambda y, df: special.xlogy(0.5 * df - 1.0, y) - 0.5 * y - special.gammaln(0.5 * df) - LOG_2 * (0.5 * df),
    lower=lambda y, df: special.gammainc(0.5 * df, 0.5 * y), upper=lambda y, df: special.gammaincc(0.5 * df, 0.5 * y),
)  # fmt: skip
invgamma = Continuous(
    "invgamma", "a", ends=(0.0, np.inf), closed=False,
    density=lambda y, a: -(a + 1.0) * np.log(y) - special.gammaln(a) - 1.0 / y,
    lower=lambda y, a: special.gammaincc(a, 1.0 / y), upper=lambda y, a: special.gammainc(a, 1.0 / y),
)  # fmt: skip
beta = Continuous(
    "beta", "a b", ends=(0.0, 1.0),
    density=lambda y, a, b: special.xlog1py(b - 1.0, -y) + special.xlogy(a - 1.0, y) - special.betaln(a, b),
)  # fmt: skip
uniform = Continuous("uniform", ends=(0.0, 1.0), density=lambda y: 0.0 * y, lower=lambda y: y, upper=lambda y: 1.0 - y)
laplace = _symmetric(
    "laplace", lambda y: -np.abs(y) - LOG_2,
    lambda y: np.where(y > 0, 1.0 - 0.5 * np.exp(-y), 0.5 * np.exp(y)),
    lambda y: np.where(y > 0, np.log1p(-0.5 * np.exp(-y)), y - LOG_2),
)  # fmt: skip
cauchy = _symmetric(
    "cauchy", lambda y: -np.log1p(y * y) - math.log(math.pi), lambda y: np.arctan2(1.0, -y) / math.pi,
)  # fmt: skip
logistic = _symmetric(
    "logistic", lambda y: special.log_expit(y) + special.log_expit(-y), lambda y: special.expit(y), lambda y: special.log_expit(y),
)  # fmt: skip
weibull_min = Continuous(
    "weibull_min", "c", ends=(0.0, np.inf), density=lambda y, c: np.log(c) + special.xlogy(c - 1.0, y) - y**c,
    lower=lambda y, c: -np.expm1(-(y**c)), log_upper=lambda y, c: -(y**c),
)  # fmt: skip
halfnorm = Continuous(
    "halfnorm", ends=(0.0, np.inf), density=lambda y: _normal(y) + LOG_2, lower=lambda y: special.erf(y / ROOT_2),
    upper=lambda y: special.erfc(y / ROOT_2), log_upper=lambda y: special.log_ndtr(-y) + LOG_2,
)  # fmt: skip


def _student(y, df):
    square = y * y
    result = -0.5 * (df + 1.0) * np.log1p(square / df) - 0.5 * np.log(df) - special.betaln(0.5 * df, 0.5)
    return np.where(np.isinf(df), _normal(y), result)


t = Continuous("t", "df", density=_student)


def _log_difference(p, q):
    """``log(exp(p) - exp(q))`` for p > q, without cancellation."""
    return p + np.log(-np.expm1(q - p))


def _log_between(a, b):
    """Log of the probability that a standard normal variable lies between `a` and `b`."""
    left = _log_difference(special.log_ndtr(b), special.log_ndtr(a))
    right = _log_difference(special.log_ndtr(-a), special.log_ndtr(-b))
    central = np.log1p(-special.ndtr(a) - special.ndtr(-b))
    return np.where(b <= 0, left, np.where(a > 0, right, central))


truncnorm = Continuous(
    "truncnorm", "a b", ends=lambda a, b: (a, b), valid=lambda a, b: a < b,
    density=lambda y, a, b: _normal(y) - _log_between(a, b),
    log_lower=lambda y, a, b: _log_between(a, y) - _log_between(a, b),
    log_upper=lambda y, a, b: _log_between(y, b) - _log_between(a, b),
)  # fmt: skip


# ---- of integers ------------------------------------------------------------------------------


def _log_binomial(n, k):
    return special.gammaln(n + 1.0) - (special.gammaln(k + 1.0) + special.gammaln(n - k + 1.0))


poisson = Discrete(
    "poisson", "mu", valid=lambda mu: mu >= 0, density=lambda k, mu: special.xlogy(k, mu) - special.gammaln(k + 1.0) - mu,
    lower=lambda k, mu: special.gammaincc(k + 1.0, mu), upper=lambda k, mu: special.gammainc(k + 1.0, mu),
)  # fmt: skip
binom = Discrete(
    "binom", "n p", integers="n", ends=lambda n, p: (0.0, n), valid=lambda n, p: both(n >= 0, np.floor(n) == n, p >= 0, p <= 1),
    density=lambda k, n, p: _log_binomial(n, k) + special.xlogy(k, p) + special.xlog1py(n - k, -p),
)  # fmt: skip
bernoulli = Discrete(
    "bernoulli", "p", ends=(0.0, 1.0), valid=lambda p: both(p >= 0, p <= 1),
    density=lambda k, p: special.xlogy(k, p) + special.xlog1py(1.0 - k, -p),
    lower=lambda k, p: 1.0 - p + 0.0 * k, upper=lambda k, p: p + 0.0 * k,
)  # fmt: skip
nbinom = Discrete(
    "nbinom", "n p", valid=lambda n, p: both(n > 0, p > 0, p <= 1),
    density=lambda k, n, p: special.gammaln(n + k) - special.gammaln(k + 1.0) - special.gammaln(n) + n * np.log(p) + special.xlog1py(k, -p),
)  # fmt: skip
geom = Discrete(
    "geom", "p", ends=(1.0, np.inf), valid=lambda p: both(p > 0, p <= 1), density=lambda k, p: special.xlog1py(k - 1.0, -p) + np.log(p),
    lower=lambda k, p: -np.expm1(special.xlog1py(k, -p)), upper=lambda k, p: np.exp(special.xlog1py(k, -p)),
)  # fmt: skip

__all__ = [name for name in MIRRORS["scipy.stats"] if name in globals()]

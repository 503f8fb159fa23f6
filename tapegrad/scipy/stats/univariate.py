"""The distributions of one variable, in standard form, with the parameters of SciPy.

N. Johnson, S. Kotz and N. Balakrishnan, "Continuous Univariate Distributions",
2nd edition (1994, 1995); N. Johnson, A. Kemp and S. Kotz, "Univariate Discrete
Distributions", 3rd edition (2005).
"""

import math

import numpy as np

from ..mirrors import MIRRORS
from .distribution import Continuous, Discrete, below_overflow, both, special

LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
LOG_2 = math.log(2)
ROOT_2 = math.sqrt(2)


def _symmetric(name, density, lower, quantile, log_lower=None, shapes=""):
    """A distribution whose upper tail is the lower one of the other side."""
    rules = {"lower": lower, "upper": lambda y, *s: lower(-y, *s), "quantile": quantile, "upper_quantile": lambda q, *s: -quantile(q, *s)}
    if log_lower:
        rules |= {"log_lower": log_lower, "log_upper": lambda y: log_lower(-y)}
    return Continuous(name, shapes, density=density, **rules)


#: Rule -> that of the other side.
_TURNED = {"lower": "upper", "log_lower": "log_upper", "quantile": "upper_quantile"}
_TURNED |= {other: one for one, other in _TURNED.items()}


def _function_of(base, name, shapes="", *, to, back, of=lambda *s: (), falling=False, **options):
    """The distribution of ``back(z, *shapes)``, z of another one, `base`, with the shapes ``of(*shapes)``; `to` is the inverse of `back`."""

    def rule(one):
        if one.endswith("quantile"):
            return lambda q, *s: back(base.rules[one](q, *of(*s)), *s)
        return lambda y, *s: base.rules[one](to(y, *s), *of(*s))

    return Continuous(name, shapes, **{one: rule(other if falling else one) for one, other in _TURNED.items()}, **options)


def _normal(y):
    return -0.5 * (y * y) - LOG_ROOT_2PI


norm = _symmetric("norm", _normal, lambda y: special.ndtr(y), lambda q: special.ndtri(q), lambda y: special.log_ndtr(y))
lognorm = _function_of(
    norm, "lognorm", "s", to=lambda y, s: np.log(y) / s, back=lambda z, s: np.exp(s * z), ends=(0.0, np.inf), closed=False,
    density=lambda y, s: _normal(np.log(y) / s) - np.log(s * y),
)  # fmt: skip
expon = Continuous(
    "expon", ends=(0.0, np.inf), density=lambda y: -y, lower=lambda y: -np.expm1(-y), log_upper=lambda y: -y,
    quantile=lambda q: -np.log1p(-q), upper_quantile=lambda q: -np.log(q),
)  # fmt: skip
gamma = Continuous(
    "gamma", "a", ends=(0.0, np.inf), density=lambda y, a: special.xlogy(a - 1.0, y) - y - special.gammaln(a),
    lower=lambda y, a: special.gammainc(a, y), upper=lambda y, a: special.gammaincc(a, y),
    quantile=lambda q, a: special.gammaincinv(a, q), upper_quantile=lambda q, a: special.gammainccinv(a, q),
)  # fmt: skip
chi2 = _function_of(
    gamma, "chi2", "df", of=lambda df: (0.5 * df,), to=lambda y, df: 0.5 * y, back=lambda z, df: 2.0 * z, ends=(0.0, np.inf),
    density=lambda y, df: special.xlogy(0.5 * df - 1.0, y) - 0.5 * y - special.gammaln(0.5 * df) - LOG_2 * (0.5 * df),
)  # fmt: skip
invgamma = _function_of(
    gamma, "invgamma", "a", of=lambda a: (a,), to=lambda y, a: np.divide(1.0, y), back=lambda z, a: 1.0 / z, falling=True, ends=(0.0, np.inf),
    closed=False, density=lambda y, a: -(a + 1.0) * np.log(y) - special.gammaln(a) - np.divide(1.0, y),
)  # fmt: skip
beta = Continuous(
    "beta", "a b", ends=(0.0, 1.0),
    density=lambda y, a, b: special.xlog1py(b - 1.0, -y) + special.xlogy(a - 1.0, y) - special.betaln(a, b),
    lower=lambda y, a, b: special.betainc(a, b, y), upper=lambda y, a, b: special.betaincc(a, b, y),
    quantile=lambda q, a, b: special.betaincinv(a, b, q), upper_quantile=lambda q, a, b: special.betainccinv(a, b, q),
)  # fmt: skip
uniform = Continuous(
    "uniform", ends=(0.0, 1.0), density=lambda y: 0.0 * y, lower=lambda y: y, upper=lambda y: 1.0 - y, quantile=lambda q: q,
)  # fmt: skip
laplace = _symmetric(
    "laplace", lambda y: -np.abs(y) - LOG_2,
    lambda y: np.where(y > 0, 1.0 - 0.5 * np.exp(-y), 0.5 * np.exp(y)),
    lambda q: np.where(q > 0.5, -np.log(2.0 * (1.0 - q)), np.log(2.0 * q)),
    lambda y: np.where(y > 0, np.log1p(-0.5 * np.exp(-y)), y - LOG_2),
)  # fmt: skip


def _cauchy_quantile(q):
    """By the angle from the nearer end: it is known to full precision there."""
    end = np.where(q < 0.5, q, q - 1.0)
    return np.where(np.abs(end) < 0.25, -1.0 / np.tan(math.pi * end), np.tan(math.pi * (q - 0.5)))


cauchy = _symmetric(
    "cauchy", lambda y: -np.log1p(y * y) - math.log(math.pi), lambda y: np.arctan2(1.0, -y) / math.pi, _cauchy_quantile
)
logistic = _symmetric(
    "logistic", lambda y: special.log_expit(y) + special.log_expit(-y), lambda y: special.expit(y), lambda q: special.logit(q),
    lambda y: special.log_expit(y),
)  # fmt: skip
weibull_min = _function_of(
    expon, "weibull_min", "c", to=lambda y, c: y**c, back=lambda z, c: z ** (1.0 / c), ends=(0.0, np.inf),
    density=lambda y, c: np.log(c) + special.xlogy(c - 1.0, y) - y**c,
)  # fmt: skip
halfnorm = Continuous(
    "halfnorm", ends=(0.0, np.inf), density=lambda y: _normal(y) + LOG_2, lower=lambda y: special.erf(y / ROOT_2),
    upper=lambda y: special.erfc(y / ROOT_2), log_upper=lambda y: special.log_ndtr(-y) + LOG_2,
    quantile=lambda q: special.ndtri(0.5 * (1.0 + q)), upper_quantile=lambda q: -special.ndtri(0.5 * q),
)  # fmt: skip


def _student(y, df):
    result = -0.5 * (df + 1.0) * np.log1p(y * y / df) - 0.5 * np.log(df) - special.betaln(0.5 * df, 0.5)
    return np.where(np.isinf(df), _normal(y), result)


t = _symmetric(
    "t", _student, lambda y, df: np.where(np.isinf(df), special.ndtr(y), special.stdtr(df, y)),
    lambda q, df: np.where(np.isinf(df), special.ndtri(q), special.stdtrit(df, q)), shapes="df",
)  # fmt: skip
gumbel_r = _function_of(
    expon, "gumbel_r", to=lambda y: np.exp(-y), back=lambda z: -np.log(z), falling=True, density=lambda y: -y - np.exp(-y),
)  # fmt: skip
gumbel_l = _function_of(expon, "gumbel_l", to=np.exp, back=np.log, density=lambda y: y - np.exp(y))
pareto = _function_of(
    expon, "pareto", "b", to=lambda y, b: b * np.log(y), back=lambda z, b: np.exp(z / b), ends=(1.0, np.inf),
    density=lambda y, b: np.log(b) - (b + 1.0) * np.log(y),
)  # fmt: skip
rayleigh = _function_of(
    expon, "rayleigh", to=lambda y: 0.5 * (y * y), back=lambda z: np.sqrt(2.0 * z), ends=(0.0, np.inf),
    density=lambda y: np.minimum(np.log(y), 710.0) - 0.5 * (y * y),  # -inf at inf
)  # fmt: skip


def _column(x):
    """`x` with an axis for what is added up."""
    return x if np.ndim(x) == 0 else x[..., None]


def _skew_lower(y, a):
    """By Owen's function; in the thin tail by Gauss's quadrature of the part of the normal distribution that it leaves (Owen, 1956)."""
    thin = both(y < 0, a * y < -1.0)
    y_thin, first = np.where(thin, y, -1.0), np.where(thin, -a * y, 1.0)
    half = 0.5 * (np.sqrt(first * first + 80.0) - first)
    nodes, weights = np.polynomial.legendre.leggauss(64)
    squares = _column(y_thin) ** 2 + (_column(first) + _column(half) * (nodes + 1.0)) ** 2
    tail = -y_thin * half * np.sum(weights * np.exp(-0.5 * squares) / squares, axis=-1) / math.pi
    return np.where(thin, tail, special.ndtr(y) - 2.0 * special.owens_t(y, a))


skewnorm = Continuous(
    "skewnorm", "a", valid=lambda a: np.isfinite(a), density=lambda y, a: LOG_2 + _normal(y) + special.log_ndtr(a * y),
    lower=_skew_lower, upper=lambda y, a: _skew_lower(-y, -a),
)  # fmt: skip


def _circular(y, kappa):
    # The derivative of i0e is that of an even function at 0.
    log_i0e = np.where(kappa < 1.0, np.log(special.i0(np.minimum(kappa, 1.0))) - kappa, np.log(special.i0e(kappa)))
    return -2.0 * kappa * np.sin(0.5 * y) ** 2 - 2.0 * LOG_ROOT_2PI - log_i0e


def _circular_lower(y, kappa):
    """By Gauss's quadrature of the density, over the tail as far as there is something of it."""
    iterations = np.rint(y / (2.0 * math.pi))
    y = y - 2.0 * math.pi * iterations
    left = y < 0
    y = np.where(left, y, -y)
    nodes, weights = np.polynomial.legendre.leggauss(64)
    half = 0.5 * np.minimum(y + math.pi, 12.0 / np.sqrt(kappa))
    densities = np.exp(_circular(_column(y) + _column(half) * (nodes - 1.0), _column(kappa)))
    tail = half * np.sum(weights * densities, axis=-1)
    return iterations + np.where(left, tail, 1.0 - tail)


vonmises = Continuous(
    "vonmises", "kappa", valid=lambda kappa: kappa >= 0, density=_circular,
    lower=_circular_lower, upper=lambda y, kappa: _circular_lower(-y, kappa),
)  # fmt: skip


def _log_difference(p, q):
    """``log(exp(p) - exp(q))`` for p > q, without cancellation."""
    return p + np.log(-np.expm1(q - p))


def _log_between(a, b):
    """Log of the probability that a standard normal variable lies between `a` and `b`."""
    left = _log_difference(special.log_ndtr(b), special.log_ndtr(a))
    right = _log_difference(special.log_ndtr(-a), special.log_ndtr(-b))
    central = np.log1p(-special.ndtr(a) - special.ndtr(-b))
    return np.where(b <= 0, left, np.where(a > 0, right, central))


def _between(log_below, log_above, a, b):
    """Where a standard normal variable between `a` and `b` has these logarithms of the probabilities of less and of more."""
    between = _log_between(a, b)
    left = special.ndtri_exp(np.logaddexp(special.log_ndtr(a), log_below + between))
    return np.where(a < 0, left, -special.ndtri_exp(np.logaddexp(special.log_ndtr(-b), log_above + between)))


truncnorm = Continuous(
    "truncnorm", "a b", ends=lambda a, b: (a, b), valid=lambda a, b: a < b,
    density=lambda y, a, b: _normal(y) - _log_between(a, b),
    log_lower=lambda y, a, b: _log_between(a, y) - _log_between(a, b),
    log_upper=lambda y, a, b: _log_between(y, b) - _log_between(a, b),
    quantile=lambda q, a, b: _between(np.log(q), np.log1p(-q), a, b), upper_quantile=lambda q, a, b: _between(np.log1p(-q), np.log(q), a, b),
)  # fmt: skip


# ---- of integers ------------------------------------------------------------------------------


def _log_binomial(n, k):
    return special.gammaln(n + 1.0) - (special.gammaln(k + 1.0) + special.gammaln(n - k + 1.0))


poisson = Discrete(
    "poisson", "mu", valid=lambda mu: mu >= 0, density=lambda k, mu: special.xlogy(k, mu) - special.gammaln(k + 1.0) - mu,
    product=lambda k, mu: mu**k * np.exp(-mu - special.gammaln(k + 1.0)),
    lower=lambda k, mu: special.gammaincc(k + 1.0, mu), upper=lambda k, mu: special.gammainc(k + 1.0, mu),
)  # fmt: skip
binom = Discrete(
    "binom", "n p", integers="n", ends=lambda n, p: (0.0, n), valid=lambda n, p: both(n >= 0, np.floor(n) == n, p >= 0, p <= 1),
    density=lambda k, n, p: _log_binomial(n, k) + special.xlogy(k, p) + special.xlog1py(n - k, -p),
    product=lambda k, n, p: below_overflow(_log_binomial(n, k)) * p**k * (1.0 - p) ** (n - k),
    lower=lambda k, n, p: special.betaincc(k + 1.0, n - k, p), upper=lambda k, n, p: special.betainc(k + 1.0, n - k, p),
)  # fmt: skip
bernoulli = Discrete(
    "bernoulli", "p", ends=(0.0, 1.0), valid=lambda p: both(p >= 0, p <= 1),
    density=lambda k, p: special.xlogy(k, p) + special.xlog1py(1.0 - k, -p), product=lambda k, p: p**k * (1.0 - p) ** (1.0 - k),
    lower=lambda k, p: 1.0 - p + 0.0 * k, upper=lambda k, p: p + 0.0 * k,
)  # fmt: skip
nbinom = Discrete(
    "nbinom", "n p", valid=lambda n, p: both(n > 0, p > 0, p <= 1),
    density=lambda k, n, p: special.gammaln(n + k) - special.gammaln(k + 1.0) - special.gammaln(n) + n * np.log(p) + special.xlog1py(k, -p),
    product=lambda k, n, p: below_overflow(special.gammaln(n + k) - special.gammaln(k + 1.0) - special.gammaln(n)) * p**n * (1.0 - p) ** k,
    lower=lambda k, n, p: special.betainc(n, k + 1.0, p), upper=lambda k, n, p: special.betaincc(n, k + 1.0, p),
)  # fmt: skip
geom = Discrete(
    "geom", "p", ends=(1.0, np.inf), valid=lambda p: both(p > 0, p <= 1), density=lambda k, p: special.xlog1py(k - 1.0, -p) + np.log(p),
    product=lambda k, p: p * (1.0 - p) ** (k - 1.0),
    lower=lambda k, p: -np.expm1(special.xlog1py(k, -p)), upper=lambda k, p: np.exp(special.xlog1py(k, -p)),
)  # fmt: skip


def _beta_binomial(k, n, a, b):
    return special.betaln(k + a, n - k + b) - special.betaln(a, b) + _log_binomial(n, k)


def _beta_binomial_sum(k, n, a, b):
    j, k, n, a, b = np.arange(np.max(n, initial=0.0) + 1.0), *map(_column, (k, n, a, b))
    return np.sum(np.where(j <= np.minimum(k, n), np.exp(_beta_binomial(np.minimum(j, n), n, a, b)), 0.0), axis=-1)


betabinom = Discrete(
    "betabinom", "n a b", integers="n", ends=lambda n, a, b: (0.0, n), valid=lambda n, a, b: both(n >= 0, np.floor(n) == n, a > 0, b > 0),
    density=_beta_binomial, lower=_beta_binomial_sum,
)  # fmt: skip

__all__ = [name for name in MIRRORS["scipy.stats"] if name in globals()]

"""The continuous distributions of one variable, in standard form.

N. Johnson, S. Kotz and N. Balakrishnan, "Continuous Univariate Distributions",
2nd edition (1994, 1995), with the parameters of SciPy.
"""

from __future__ import annotations

import math

import numpy as np

from .distribution import Continuous, special

LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
LOG_2 = math.log(2)
ROOT_2 = math.sqrt(2)


class Norm(Continuous):
    def log_density(self, y):
        return -0.5 * (y * y) - LOG_ROOT_2PI

    def at(self, y):
        """The standard normal variable."""
        return y

    def lower(self, y, *shapes):
        return special.ndtr(self.at(y, *shapes))

    def log_lower(self, y, *shapes):
        return special.log_ndtr(self.at(y, *shapes))

    def upper(self, y, *shapes):
        return special.ndtr(-self.at(y, *shapes))

    def log_upper(self, y, *shapes):
        return special.log_ndtr(-self.at(y, *shapes))


class LogNorm(Norm):
    shapes = ("s",)
    low, closed = 0.0, False

    def log_density(self, y, s):
        z = np.log(y) / s
        return -0.5 * (z * z) - np.log(s * y) - LOG_ROOT_2PI

    def at(self, y, s):
        return np.log(y) / s


class Expon(Continuous):
    low = 0.0

    def log_density(self, y):
        return -y

    def lower(self, y):
        return -np.expm1(-y)

    def log_upper(self, y):
        return -y


class Gamma(Continuous):
    shapes = ("a",)
    low = 0.0

    def log_density(self, y, a):
        return special.xlogy(a - 1.0, y) - y - special.gammaln(a)

    def lower(self, y, a):
        return special.gammainc(a, y)

    def upper(self, y, a):
        return special.gammaincc(a, y)


class Chi2(Continuous):
    shapes = ("df",)
    low = 0.0

    def log_density(self, y, df):
        half = 0.5 * df
        return special.xlogy(half - 1.0, y) - 0.5 * y - special.gammaln(half) - LOG_2 * half

    def lower(self, y, df):
        return special.gammainc(0.5 * df, 0.5 * y)

    def upper(self, y, df):
        return special.gammaincc(0.5 * df, 0.5 * y)


class InvGamma(Continuous):
    shapes = ("a",)
    low, closed = 0.0, False

    def log_density(self, y, a):
        return -(a + 1.0) * np.log(y) - special.gammaln(a) - 1.0 / y

    def lower(self, y, a):
        return special.gammaincc(a, 1.0 / y)

    def upper(self, y, a):
        return special.gammainc(a, 1.0 / y)


class Beta(Continuous):
    shapes = ("a", "b")
    low, high = 0.0, 1.0

    def log_density(self, y, a, b):
        return special.xlog1py(b - 1.0, -y) + special.xlogy(a - 1.0, y) - special.betaln(a, b)


class StudentT(Continuous):
    shapes = ("df",)

    def log_density(self, y, df):
        square = y * y
        result = -0.5 * (df + 1.0) * np.log1p(square / df) - 0.5 * np.log(df) - special.betaln(0.5 * df, 0.5)
        return np.where(np.isinf(df), -0.5 * square - LOG_ROOT_2PI, result)


class Uniform(Continuous):
    low, high = 0.0, 1.0

    def log_density(self, y):
        return 0.0 * y

    def lower(self, y):
        return y

    def upper(self, y):
        return 1.0 - y


class Laplace(Continuous):
    def log_density(self, y):
        return -np.abs(y) - LOG_2

    def lower(self, y):
        return np.where(y > 0, 1.0 - 0.5 * np.exp(-y), 0.5 * np.exp(y))

    def log_lower(self, y):
        return np.where(y > 0, np.log1p(-0.5 * np.exp(-y)), y - LOG_2)

    def upper(self, y):
        return self.lower(-y)

    def log_upper(self, y):
        return self.log_lower(-y)


class Cauchy(Continuous):
    def log_density(self, y):
        return -np.log1p(y * y) - math.log(math.pi)

    def lower(self, y):
        return np.arctan2(1.0, -y) / math.pi

    upper = Laplace.upper


class WeibullMin(Continuous):
    shapes = ("c",)
    low = 0.0

    def log_density(self, y, c):
        return np.log(c) + special.xlogy(c - 1.0, y) - y**c

    def lower(self, y, c):
        return -np.expm1(-(y**c))

    def log_upper(self, y, c):
        return -(y**c)


class HalfNorm(Continuous):
    low = 0.0

    def log_density(self, y):
        return -0.5 * (y * y) + 0.5 * math.log(2 / math.pi)

    def lower(self, y):
        return special.erf(y / ROOT_2)

    def upper(self, y):
        return special.erfc(y / ROOT_2)

    def log_upper(self, y):
        return special.log_ndtr(-y) + LOG_2


class Logistic(Continuous):
    def log_density(self, y):
        return special.log_expit(y) + special.log_expit(-y)

    def lower(self, y):
        return special.expit(y)

    def log_lower(self, y):
        return special.log_expit(y)

    upper, log_upper = Laplace.upper, Laplace.log_upper


def log_difference(p, q):
    """``log(exp(p) - exp(q))`` for p > q, without cancellation."""
    return p + np.log(-np.expm1(q - p))


def log_mass(a, b):
    """Log of the probability that a standard normal variable lies between `a` and `b`."""
    left = log_difference(special.log_ndtr(b), special.log_ndtr(a))
    right = log_difference(special.log_ndtr(-a), special.log_ndtr(-b))
    central = np.log1p(-special.ndtr(a) - special.ndtr(-b))
    return np.where(b <= 0, left, np.where(a > 0, right, central))


class TruncNorm(Continuous):
    shapes = ("a", "b")

    def ends(self, a, b):
        return a, b

    def _valid(self, a, b):
        return a < b

    def log_density(self, y, a, b):
        return -0.5 * (y * y) - LOG_ROOT_2PI - log_mass(a, b)

    def log_lower(self, y, a, b):
        return log_mass(a, y) - log_mass(a, b)

    def log_upper(self, y, a, b):
        return log_mass(y, b) - log_mass(a, b)


norm = Norm("norm")
lognorm = LogNorm("lognorm")
expon = Expon("expon")
gamma = Gamma("gamma")
chi2 = Chi2("chi2")
invgamma = InvGamma("invgamma")
beta = Beta("beta")
t = StudentT("t")
uniform = Uniform("uniform")
laplace = Laplace("laplace")
cauchy = Cauchy("cauchy")
weibull_min = WeibullMin("weibull_min")
halfnorm = HalfNorm("halfnorm")
logistic = Logistic("logistic")
truncnorm = TruncNorm("truncnorm")

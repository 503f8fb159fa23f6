"""The discrete distributions: differentiable in their real parameters, not in counts.

N. Johnson, A. Kemp and S. Kotz, "Univariate Discrete Distributions", 3rd
edition (2005), with the parameters of SciPy.
"""

from __future__ import annotations

import numpy as np

from .distribution import Discrete, both, special


class Poisson(Discrete):
    shapes = ("mu",)
    integers = ("k", "loc")

    def _valid(self, mu):
        return mu >= 0

    def log_mass(self, k, mu):
        return special.xlogy(k, mu) - special.gammaln(k + 1.0) - mu

    def lower(self, k, mu):
        return special.gammaincc(k + 1.0, mu)

    def upper(self, k, mu):
        return special.gammainc(k + 1.0, mu)


class Binom(Discrete):
    shapes = ("n", "p")
    integers = ("k", "n", "loc")

    def ends(self, n, p):
        return 0.0, n

    def _valid(self, n, p):
        return both(n >= 0, np.floor(n) == n, p >= 0, p <= 1)

    def log_mass(self, k, n, p):
        ways = special.gammaln(n + 1.0) - (special.gammaln(k + 1.0) + special.gammaln(n - k + 1.0))
        return ways + special.xlogy(k, p) + special.xlog1py(n - k, -p)


class Bernoulli(Discrete):
    shapes = ("p",)
    integers = ("k", "loc")
    high = 1.0

    def _valid(self, p):
        return both(p >= 0, p <= 1)

    def log_mass(self, k, p):
        return special.xlogy(k, p) + special.xlog1py(1.0 - k, -p)

    def lower(self, k, p):
        return 1.0 - p + 0.0 * k

    def upper(self, k, p):
        return p + 0.0 * k


class NBinom(Discrete):
    shapes = ("n", "p")
    integers = ("k", "loc")

    def _valid(self, n, p):
        return both(n > 0, p > 0, p <= 1)

    def log_mass(self, k, n, p):
        ways = special.gammaln(n + k) - special.gammaln(k + 1.0) - special.gammaln(n)
        return ways + n * np.log(p) + special.xlog1py(k, -p)


class Geom(Discrete):
    shapes = ("p",)
    integers = ("k", "loc")
    low = 1.0

    def _valid(self, p):
        return both(p > 0, p <= 1)

    def log_mass(self, k, p):
        return special.xlog1py(k - 1.0, -p) + np.log(p)

    def lower(self, k, p):
        return -np.expm1(special.xlog1py(k, -p))

    def upper(self, k, p):
        return np.exp(special.xlog1py(k, -p))


poisson = Poisson("poisson")
binom = Binom("binom")
bernoulli = Bernoulli("bernoulli")
nbinom = NBinom("nbinom")
geom = Geom("geom")

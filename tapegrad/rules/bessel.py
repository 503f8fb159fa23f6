"""Bessel functions of any order, and others of `scipy.special` that came later.

The order is a constant: there is no closed derivative in it.  DLMF 10.6.1, 10.29.1.
"""

from __future__ import annotations

from . import lang as L
from .special import ROOT_PI, scipy_row

_ORDER = {0: "there is no closed form of the derivative in the order"}


def _neighbours(function, sign):
    """Half of ``f(v - 1, x) + sign * f(v + 1, x)``, which is the derivative of ``f(v, x)``."""
    return lambda v, x, z: (function(v - 1.0, x) + sign * function(v + 1.0, x)) * 0.5


scipy_row("y0", (lambda x, z: -L.y1(x),), "Bessel function of the second kind of order 0")
scipy_row("y1", (lambda x, z: L.y0(x) - z / x,), "Bessel function of the second kind of order 1")
scipy_row("erfcinv", (lambda x, z: -0.5 * ROOT_PI * L.exp(z * z),), "inverse of erfc")
scipy_row("jv", (None, _neighbours(L.jv, -1.0)), "Bessel function; the order is a constant", refused=_ORDER)
scipy_row(
    "yv", (None, _neighbours(L.yv, -1.0)), "Bessel function of the second kind; the order is a constant",
    refused=_ORDER,
)
scipy_row("iv", (None, _neighbours(L.iv, 1.0)), "modified Bessel function; the order is a constant", refused=_ORDER)
scipy_row(
    "ive", (None, lambda v, x, z: _neighbours(L.ive, 1.0)(v, x, z) - L.sign(x) * z),
    "exp(-|x|) * iv(v, x); the order is a constant", refused=_ORDER,
)

"""Element-wise NumPy functions that are not ufuncs, or are compositions of rows."""

import numpy as np

from ..array import functions as F
from ..array.differentiable import Differentiable
from ..array.record import plain, record_aux
from ..common.host_functions import host_function
from .dispatch import DIRECT, FUNCTIONS, implements, refuse, value_of


def _array(x):
    return np.asarray(value_of(x))


# ---- ufuncs ----------------------------------------------------------------------------


def float_power(x, y):
    """``x ** y`` in float64."""
    x, y = (F.astype(F.lift(v), np.float64) for v in (x, y))
    return F.power(x, y)


def modf(x):
    """Fraction and integer part of x; the derivative of the integer part is 0."""
    x = F.lift(x)
    return F.fmod(F.where(record_aux(np.isinf, x), F.copysign(0.0, x), x), 1.0), F.trunc(x)


@host_function
def all_finite(x):
    """Whether nothing in `x` is infinite or NaN."""
    return np.isfinite(x).all()


@host_function
def _exponent(x):
    return np.frexp(x)[1]


def frexp(x):
    """Mantissa, with its derivative, and the binary exponent, an array of integers."""
    x = F.lift(x)
    exponent = record_aux(_exponent(), x)
    return F.ldexp(x, -exponent), exponent if isinstance(exponent, Differentiable) else plain(exponent)


DIRECT |= {
    np.float_power: float_power, np.ldexp: F.ldexp, np.modf: modf, np.frexp: frexp, np.conjugate: F.clone,
    np.divmod: lambda x, y: (F.floor_divide(x, y), F.remainder(x, y)),
}  # fmt: skip


# ---- functions --------------------------------------------------------------------------


def _round(a, decimals=0):
    if not decimals:
        return F.rint(a)
    # As NumPy rounds; the derivative is 0.
    scale = 10.0 ** abs(decimals)
    return F.rint(a * scale) / scale if decimals > 0 else F.rint(a / scale) * scale


FUNCTIONS |= {np.round: _round, np.around: _round, np.real: lambda val: val, np.imag: lambda val: plain(np.zeros(val.shape, val.dtype))}


@implements(np.nan_to_num)
def _nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    if not copy:
        raise refuse(np.nan_to_num, " with copy=False, which writes into its argument")
    if any(isinstance(v, Differentiable) for v in (nan, posinf, neginf)):
        raise refuse(np.nan_to_num, " with tensors as replacements; use np.where")
    x = F.lift(x)
    replaced = record_aux(_numbers(nan, posinf, neginf), x)
    return F.where(record_aux(np.isfinite, x), x, replaced)


@host_function
def _numbers(x, nan, posinf, neginf):
    return np.asarray(np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf))


@host_function
def _periods(p, discont, axis, period):
    unwrapped = np.unwrap(p, discont, axis, period=period)
    return np.where(unwrapped == p, 0.0, unwrapped - p)


@implements(np.unwrap)
def _unwrap(p, discont=None, axis=-1, *, period=2 * np.pi):
    if isinstance(period, Differentiable) or isinstance(discont, Differentiable):
        raise refuse(np.unwrap, " with tensors as period or discont")
    p = F.lift(p)
    # Whole periods are added: constants between jumps.
    return p + record_aux(_periods(discont, axis, period), p)


"""NumPy's products on tensors and functions element by element that are no rows, composed of recorded functions.

Inner, outer, tensor and Kronecker products, convolutions, polynomials, finite
differences, interpolation, covariances, roundings.  None of them has a rule of its own:
each is written with products, sums and views that have.
"""

from functools import reduce
from operator import index as as_index

import numpy as np

from ..array import functions as F
from ..array.differentiable import Differentiable
from ..array.record import guard_on, plain, record_aux, tracked
from ..common.host_functions import host_function
from .dispatch import DIRECT, FUNCTIONS, METHODS, implements, only_defaults, refuse, value_of
from .own_code import own_code
from .shaping import as_tensor

# ---- inner and outer ---------------------------------------------------------------


def _product_of(name, subscripts, smallest):
    """``np.vecdot`` and its like as sums of products, with the extents of their core dimensions checked: sums would broadcast them."""

    def call(x1, x2):
        x1, x2 = F.lift(np.conj(x1) if name[:3] == "vec" and np.iscomplexobj(x1) else x1), F.lift(x2)
        if x1.ndim < smallest[0] or x2.ndim < smallest[1]:
            raise ValueError(f"{name}: an operand has not enough dimensions ({x1.shape}, {x2.shape})")
        column = -2 if smallest == (1, 2) else -1
        if x1.shape[-1] != x2.shape[column]:
            raise ValueError(f"{name}: the extents {x1.shape[-1]} and {x2.shape[column]} of a core dimension differ")
        return np.einsum(subscripts, x1, x2)

    return call


DIRECT[np.vecdot] = _product_of("vecdot", "...i,...i->...", (1, 1))
DIRECT[np.matvec] = _product_of("matvec", "...ij,...j->...i", (2, 1))
DIRECT[np.vecmat] = _product_of("vecmat", "...i,...ij->...j", (1, 2))


@implements(np.linalg.vecdot)
def _vecdot(x1, x2, /, *, axis=-1, **others):
    only_defaults(np.vecdot, **others)
    return DIRECT[np.vecdot](*[x if axis == -1 else F.moveaxis(x, axis, -1) for x in (x1, x2)])


METHODS[np.vecdot, "__call__"] = _vecdot

implements(np.linalg.matmul)(F.matmul)


@implements(np.inner)
def _inner(a, b, /):
    if np.ndim(a) == 0 or np.ndim(b) < 2:
        return F.dot(a, b)
    return np.tensordot(F.lift(a), b, (-1, -1))


implements(np.vdot)(lambda a, b, /: F.matmul(F.ravel(a), F.ravel(b)))


@implements(np.einsum)
def _einsum(*operands, optimize=False, dtype=None, order="K", casting="safe"):
    only_defaults(np.einsum, dtype=dtype)
    # The code in Python reads subscripts more freely than what is compiled.
    np.einsum(*[np.zeros((1,) * np.ndim(x)) if isinstance(x, (Differentiable, np.ndarray)) else x for x in operands])
    return own_code(np.einsum)(*operands, optimize=True if optimize is False else optimize)


@implements(np.cross)
def _cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = F.lift(a), F.lift(b)
    if a.ndim < 1 or b.ndim < 1:
        raise ValueError("At least one array has zero dimension")
    a, b = (x if axis == -1 else F.moveaxis(x, axis, -1) for x, axis in ((a, axisa), (b, axisb)))
    n, m = a.shape[-1], b.shape[-1]
    if n not in (2, 3) or m not in (2, 3):
        raise ValueError(f"Both input arrays must be (arrays of) 3-dimensional vectors, but they are {n} and {m} dimensional instead.")
    if n == m == 2:
        return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    a, b = (x if x.shape[-1] == 3 else _extended(x, after=1) for x in (a, b))
    forward, back = np.array([1, 2, 0]), np.array([2, 0, 1])
    product = a[..., forward] * b[..., back] - a[..., back] * b[..., forward]
    return product if axisc == -1 else F.moveaxis(product, -1, axisc)


def _extended(x, before=0, after=0):
    """`x` with zeros before and after along its last axis."""
    parts = [np.zeros((*x.shape[:-1], before), x.dtype), x, np.zeros((*x.shape[:-1], after), x.dtype)]
    return F.concatenate([part for part in parts if part is x or part.size], -1) if before + after else x


# ---- convolutions --------------------------------------------------------------------

_MODES = {"v": 0, "s": 1, "f": 2}


def _correlated(a, v, mode):
    """``sum_j a[k + j] v[j]`` for the shifts that `mode` keeps; `a` is not the shorter one."""
    m = v.shape[0]
    left = (0, m >> 1, m - 1)[mode]
    right = (0, m - left - 1, m - 1)[mode]
    count, a = a.shape[0], _extended(a, left, right)
    windows = np.lib.stride_tricks.sliding_window_view(np.ascontiguousarray(a._v), m)
    windows = F.view("as_strided", a, windows, (1, 1), 0)
    if not left + right or guard_on(all_finite(), v):
        return F.matmul(windows, v)
    # The zeros beyond the ends of `a` meet nothing.
    position = np.arange(windows.shape[0])[:, None] + np.arange(m) - left
    return F.sum(windows * F.where((position >= 0) & (position < count), v, 0.0), axis=1)


def _sequences(a, v, mode):
    a, v = (F.reshape(x, (1,)) if x.ndim == 0 else x for x in (F.lift(a), F.lift(v)))
    if a.ndim != 1 or v.ndim != 1:
        raise ValueError("object too deep for desired array: convolutions take one-dimensional sequences")
    if not a.size or not v.size:
        raise ValueError("a convolution operand cannot be empty")
    mode = _MODES.get(mode[:1].lower()) if isinstance(mode, str) else as_index(mode)
    if mode not in (0, 1, 2):
        raise ValueError("mode must be 'valid', 'same' or 'full'")
    return a, v, mode


@implements(np.convolve)
def _convolve(a, v, mode="full"):
    a, v, mode = _sequences(a, v, mode)
    longer, other = (v, a) if v.size > a.size else (a, v)
    return _correlated(longer, F.flip(other), mode)


@implements(np.correlate)
def _correlate(a, v, mode="valid"):
    a, v, mode = _sequences(a, v, mode)
    return F.flip(_correlated(v, a, mode)) if v.size > a.size else _correlated(a, v, mode)


# ---- polynomials and interpolation ------------------------------------------------------


@implements(np.polyval)
def _polyval(p, x):
    if isinstance(x, np.poly1d) or isinstance(p, np.poly1d):
        raise refuse(np.polyval, " for np.poly1d")
    p, x = as_tensor(p), F.lift(x)
    if p.dtype.char == "d" and x.dtype.char == "f":
        x = F.astype(x, np.float64)
    return reduce(lambda total, k: total * x + p[k], range(1, p.shape[0]), x * 0.0 + p[0] if len(p) else x * 0.0)


@implements(np.interp)
def _interp(x, xp, fp, left=None, right=None, period=None):
    # NumPy computes in float64 whatever the operands are.
    x, fp = F.astype(x, np.float64), F.astype(fp, np.float64)
    knots = F.astype(xp, np.float64) if tracked(xp) else np.asarray(value_of(xp), float, order="C")
    if knots.ndim != 1 or fp.ndim != 1 or knots.shape != tuple(fp.shape):
        raise ValueError("fp and xp are not of the same length, or not one-dimensional")
    if not knots.size:
        raise ValueError("array of sample points is empty")
    if period is not None:
        if period == 0:
            raise ValueError("period must be a non-zero value")
        if tracked(xp):
            raise refuse(np.interp, " for tracked knots xp with period= (x and fp may be tracked)")
        period = abs(float(period))
        left = right = None
        x, knots = np.remainder(x, period), knots % period
        order = np.argsort(knots)
        knots, fp = knots[order], fp[order]
        knots = np.concatenate((knots[-1:] - period, knots, knots[:1] + period))
        fp = F.concatenate((fp[-1:], fp, fp[:1]))
    at = record_aux(_piece(), x, knots)
    after = np.minimum(at + 1, len(knots) - 1)
    (start, stop), (low, high) = ([_picked(table, position) for position in (at, after)] for table in (fp, knots))
    # The last knot itself is on the last piece, whose derivative it shares.
    slope = (stop - start) / np.where(after == at, 1.0, high - low)
    result = start + slope * (x - low)
    if not guard_on(all_finite(), fp):
        # What is NaN from one side may be a number from the other, and on a knot nothing else counts.
        result = F.where(np.isnan(result), stop + slope * (x - high), result)
        result = F.where(x == low, start, F.where(np.isnan(result) & (start == stop), start, result))
    last, first = fp[len(knots) - 1], fp[0]
    result = F.where(x > knots[-1], last if right is None else right, result)
    return F.where(x < knots[0], first if left is None else left, result)


@host_function
def _piece(x, knots):
    """The piece of a table on which each number lies, by the knot where it begins."""
    at = np.clip(np.searchsorted(knots, x, "right") - 1, 0, max(len(knots) - 2, 0))
    after = np.minimum(at + 1, len(knots) - 1)
    return np.where(knots[after] == knots[at], after, at)


def _picked(table, at):
    """The numbers of a table at positions, which change from replay to replay where a recording computes them."""
    return F.take(table, at) if isinstance(at, Differentiable) else table[at if np.ndim(at) else int(at)]


# ---- element by element: ufuncs ----------------------------------------------------------------------------


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


# ---- element by element: functions --------------------------------------------------------------------------


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


"""NumPy's products on tensors, composed of recorded functions.

Inner, outer, tensor and Kronecker products, convolutions, polynomials, finite
differences, interpolation, covariances.  None of them has a rule of its own:
each is written with products, sums and views that have.
"""

from __future__ import annotations

import warnings
from math import prod
from operator import index as as_index

import numpy as np

from ..array import functions as F
from ..array.differentiable import Differentiable
from ..array.record import guard_on, tracked
from .dispatch import DIRECT, NO_VALUE, implements, only_defaults, refuse, value_of
from .einsum import einsum
from .elementwise import all_finite
from .shaping import as_tensor

# ---- inner and outer ---------------------------------------------------------------


def _vecdot(x1, x2):
    return F.sum(F.lift(x1) * F.lift(x2), axis=-1)


def _matvec(x1, x2):
    x1, x2 = F.lift(x1), F.lift(x2)
    return F.matmul(x1, F.expand_dims(x2, -1))[..., 0]


def _vecmat(x1, x2):
    x1, x2 = F.lift(x1), F.lift(x2)
    return F.matmul(F.expand_dims(x1, -2), x2)[..., 0, :]


def _checked(name, function, smallest):
    """`function` with the extents of its core dimensions checked: products would broadcast them."""

    def call(x1, x2):
        x1, x2 = F.lift(x1), F.lift(x2)
        if x1.ndim < smallest[0] or x2.ndim < smallest[1]:
            raise ValueError(f"{name}: an operand has not enough dimensions ({x1.shape}, {x2.shape})")
        column = -2 if smallest == (1, 2) else -1
        if x1.shape[-1] != x2.shape[column]:
            raise ValueError(f"{name}: the extents {x1.shape[-1]} and {x2.shape[column]} of a core dimension differ")
        return function(x1, x2)

    return call


_CHECKED = {
    "vecdot": _checked("vecdot", _vecdot, (1, 1)),
    "matvec": _checked("matvec", _matvec, (2, 1)),
    "vecmat": _checked("vecmat", _vecmat, (1, 2)),
}
DIRECT.update({getattr(np, name): function for name, function in _CHECKED.items()})


@implements(np.linalg.vecdot)
def _linalg_vecdot(x1, x2, /, *, axis=-1):
    x1, x2 = F.lift(x1), F.lift(x2)
    return _CHECKED["vecdot"](F.moveaxis(x1, axis, -1), F.moveaxis(x2, axis, -1))


implements(np.linalg.matmul)(F.matmul)


@implements(np.inner)
def _inner(a, b, /):
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return F.dot(a, b)
    return _tensordot(F.lift(a), F.lift(b), (-1, -1))


@implements(np.vdot)
def _vdot(a, b, /):
    return F.matmul(F.ravel(F.lift(a)), F.ravel(F.lift(b)))


@implements(np.linalg.outer)
def _linalg_outer(x1, x2, /):
    x1, x2 = F.lift(x1), F.lift(x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(f"Input arrays must be one-dimensional, but they are {x1.ndim=} and {x2.ndim=}.")
    return F.outer(x1, x2)


@implements(np.tensordot, np.linalg.tensordot)
def _tensordot(a, b, axes=2):
    a, b = F.lift(a), F.lift(b)
    try:
        first, second = axes
    except TypeError:
        axes = as_index(axes)
        first, second = range(a.ndim - axes, a.ndim), range(axes)
        if axes > min(a.ndim, b.ndim):
            raise ValueError(f"tensordot: cannot sum over {axes} axes of shapes {a.shape} and {b.shape}") from None
    first = F.axis_tuple(list(np.atleast_1d(np.asarray(first, int))), a.ndim)
    second = F.axis_tuple(list(np.atleast_1d(np.asarray(second, int))), b.ndim)
    if [a.shape[k] for k in first] != [b.shape[k] for k in second]:
        raise ValueError("shape-mismatch for sum")
    rows = [k for k in range(a.ndim) if k not in first]
    columns = [k for k in range(b.ndim) if k not in second]
    inner = prod(a.shape[k] for k in first)
    shape = [a.shape[k] for k in rows] + [b.shape[k] for k in columns]
    a = F.reshape(F.transpose(a, (*rows, *first)), (prod(a.shape[k] for k in rows), inner))
    b = F.reshape(F.transpose(b, (*second, *columns)), (inner, prod(b.shape[k] for k in columns)))
    return F.reshape(F.matmul(a, b), tuple(shape))


@implements(np.einsum)
def _einsum(*operands, out=None, optimize=False, dtype=None, order="K", casting="safe"):
    only_defaults(np.einsum, out=out, dtype=dtype)
    return einsum(*operands, optimize=optimize)


@implements(np.kron)
def _kron(a, b):
    a, b = F.lift(a), F.lift(b)
    ndim = max(a.ndim, b.ndim)
    first = (1,) * (ndim - a.ndim) + tuple(a.shape)
    second = (1,) * (ndim - b.ndim) + tuple(b.shape)
    a = F.reshape(a, tuple(extent for n in first for extent in (n, 1)))
    b = F.reshape(b, tuple(extent for n in second for extent in (1, n)))
    return F.reshape(a * b, tuple(n * m for n, m in zip(first, second)))


@implements(np.cross)
def _cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = F.lift(a), F.lift(b)
    if a.ndim < 1 or b.ndim < 1:
        raise ValueError("At least one array has zero dimension")
    a, b = F.moveaxis(a, axisa, -1), F.moveaxis(b, axisb, -1)
    n, m = a.shape[-1], b.shape[-1]
    if n not in (2, 3) or m not in (2, 3):
        raise ValueError(f"Both input arrays must be (arrays of) 3-dimensional vectors, but they are {n} and {m} dimensional instead.")
    if n == m == 2:
        return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    a, b = (x if x.shape[-1] == 3 else _extended(x, after=1) for x in (a, b))
    forward, back = np.array([1, 2, 0]), np.array([2, 0, 1])
    product = a[..., forward] * b[..., back] - a[..., back] * b[..., forward]
    return F.moveaxis(product, -1, axisc)


@implements(np.linalg.cross)
def _linalg_cross(x1, x2, /, *, axis=-1):
    x1, x2 = F.lift(x1), F.lift(x2)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError("Both input arrays must be (arrays of) 3-dimensional vectors")
    return _cross(x1, x2, axis=axis)


def _extended(x, before=0, after=0):
    """`x` with zeros before and after along its last axis."""
    parts = [np.zeros((*x.shape[:-1], n), x.dtype) for n in (before, after)]
    if not before + after:
        return x
    return F.concatenate([part for part in (parts[0], x, parts[1]) if part is x or part.size], -1)


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
    if v.size > a.size:
        a, v = v, a
    return _correlated(a, F.flip(v), mode)


@implements(np.correlate)
def _correlate(a, v, mode="valid"):
    a, v, mode = _sequences(a, v, mode)
    if v.size > a.size:
        return F.flip(_correlated(v, a, mode))
    return _correlated(a, v, mode)


# ---- polynomials and interpolation ------------------------------------------------------


@implements(np.polyval)
def _polyval(p, x):
    if isinstance(x, np.poly1d) or isinstance(p, np.poly1d):
        raise refuse(np.polyval, " for np.poly1d")
    p, x = as_tensor(p), F.lift(x)
    if p.dtype.char == "d" and x.dtype.char == "f":
        x = F.astype(x, np.float64)
    result = x * 0.0
    for k in range(p.shape[0]):
        result = result * x + p[k] if k else result + p[k]
    return result


@implements(np.polyfit)
def _polyfit(x, y, deg, rcond=None, full=False, w=None, cov=False):
    # As NumPy does it, in the same order; its arguments are checked by NumPy, on ones.
    x, y = F.lift(x) * 1.0, F.lift(y) * 1.0
    ones = [np.ones(v.shape, v.dtype) for v in (x, y)]
    degree = int(deg)
    np.polyfit(ones[0], ones[1], 0 if degree >= 0 else degree, w=None if w is None else np.ones(np.shape(w)))
    rcond = len(x) * np.finfo(x.dtype).eps if rcond is None else rcond
    powers = _vander(x, degree + 1)
    if w is not None:
        w = F.reshape(as_tensor(w) * 1.0, (-1, 1))
        powers, y = powers * w, y * (w if y.ndim == 2 else w[:, 0])
    scale = F.sqrt(F.sum(powers * powers, axis=0))
    solution, residuals, rank, s = np.linalg.lstsq(powers / scale, y, rcond)
    coefficients = F.transpose(F.transpose(solution) / scale)
    if full:
        return coefficients, residuals, rank, s, rcond
    if rank != degree + 1:
        warnings.warn("Polyfit may be poorly conditioned", np.exceptions.RankWarning, stacklevel=3)
    if not cov:
        return coefficients
    base = np.linalg.inv(F.matmul(F.transpose(powers / scale), powers / scale)) / F.outer(scale, scale)
    factor = 1.0
    if cov != "unscaled":
        if len(x) <= degree + 1:
            raise ValueError("the number of data points must exceed order to scale the covariance matrix")
        factor = residuals / (len(x) - degree - 1)
    return coefficients, (base if y.ndim == 1 else base[:, :, None]) * factor


@implements(np.vander)
def _vander(x, N=None, increasing=False):
    x = F.lift(x)
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    count = len(x) if N is None else as_index(N)
    x = F.astype(x, np.float64) if x.dtype == np.float32 else x  # as NumPy
    powers = [np.ones(x.shape, x.dtype), x]
    while len(powers) < count:
        powers.append(powers[-1] * x)
    powers = powers[:count]
    if count < 2:
        return F.lift(np.ones((len(x), count), x.dtype))
    return F.stack(powers if increasing else powers[::-1], -1)


@implements(np.interp)
def _interp(x, xp, fp, left=None, right=None, period=None):
    if tracked(xp):
        raise refuse(np.interp, " for tracked knots xp (x and fp may be tracked)")
    # NumPy computes in float64 whatever the operands are.
    x, fp = F.astype(x, np.float64), F.astype(fp, np.float64)
    knots = np.asarray(value_of(xp), float)
    if knots.ndim != 1 or fp.ndim != 1 or knots.shape != tuple(fp.shape):
        raise ValueError("fp and xp are not of the same length, or not one-dimensional")
    if not knots.size:
        raise ValueError("array of sample points is empty")
    if period is not None:
        if period == 0:
            raise ValueError("period must be a non-zero value")
        period = abs(float(period))
        left = right = None
        x, knots = np.remainder(x, period), knots % period
        order = np.argsort(knots)
        knots, fp = knots[order], fp[order]
        knots = np.concatenate((knots[-1:] - period, knots, knots[:1] + period))
        fp = F.concatenate((fp[-1:], fp, fp[:1]))
    at = guard_on(lambda here: np.clip(np.searchsorted(knots, here, "right") - 1, 0, max(len(knots) - 2, 0)), x)
    after = np.minimum(at + 1, len(knots) - 1)
    at = np.where(knots[after] == knots[at], after, at)
    width = np.where(after == at, 1.0, knots[after] - knots[at])
    start, stop = _picked(fp, at), _picked(fp, after)
    # The last knot itself is on the last piece, whose derivative it shares.
    slope = (stop - start) / width
    result = start + slope * (x - knots[at])
    if not guard_on(all_finite(), fp):
        # What is NaN from one side may be a number from the other, and on a knot nothing else counts.
        result = F.where(np.isnan(result), stop + slope * (x - knots[after]), result)
        result = F.where(x == knots[at], start, F.where(np.isnan(result) & (start == stop), start, result))
    last, first = fp[len(knots) - 1], fp[0]
    result = F.where(x > knots[-1], last if right is None else right, result)
    return F.where(x < knots[0], first if left is None else left, result)


def _picked(x, positions):
    return F.take(x, positions) if np.ndim(positions) else x[int(positions)]


# ---- differences ----------------------------------------------------------------------


@implements(np.diff)
def _diff(a, n=1, axis=-1, prepend=NO_VALUE, append=NO_VALUE):
    a = F.lift(a)
    if n == 0:
        return a
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if a.ndim == 0:
        raise ValueError("diff requires input that is at least one dimensional")
    axis = F.axis_index(axis, a.ndim)
    parts = []
    for part in (prepend, a, append):
        if part is NO_VALUE:
            continue
        part = F.lift(part)
        parts.append(part if part.ndim else F.broadcast_to(part, (*a.shape[:axis], 1, *a.shape[axis + 1 :])))
    a = F.concatenate(parts, axis) if len(parts) > 1 else a
    for _ in range(n):
        a = F.part(a, axis, 1, None) - F.part(a, axis, None, -1 if a.shape[axis] else None)
    return a


@implements(np.ediff1d)
def _ediff1d(ary, to_end=None, to_begin=None):
    ary = F.ravel(F.lift(ary))
    parts = [None if to_begin is None else F.ravel(F.lift(to_begin)), _diff(ary), None if to_end is None else F.ravel(F.lift(to_end))]
    parts = [part if part.dtype == ary.dtype else F.astype(part, ary.dtype) for part in parts if part is not None]
    return F.concatenate(parts) if len(parts) > 1 else parts[0]


@implements(np.gradient)
def _gradient(f, *varargs, axis=None, edge_order=1):
    f = F.lift(f)
    axes = tuple(range(f.ndim)) if axis is None else F.axis_tuple(axis, f.ndim)
    if len(varargs) == 0:
        spacings = [1.0] * len(axes)
    elif len(varargs) == 1 and np.ndim(varargs[0]) == 0:
        spacings = list(varargs) * len(axes)
    elif len(varargs) == len(axes):
        spacings = [_widths(f, distance, a) for distance, a in zip(varargs, axes)]
    else:
        raise TypeError("invalid number of arguments")
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    for a in axes:
        if f.shape[a] < edge_order + 1:
            raise ValueError(f"Shape of array too small to calculate a numerical gradient, at least {edge_order + 1} elements are required.")
    gradients = tuple(_slope(f, h, a, edge_order) for h, a in zip(spacings, axes))
    gradients = tuple(g if g.dtype == f.dtype else F.astype(g, f.dtype) for g in gradients)
    return gradients[0] if len(axes) == 1 else gradients


def _widths(f, distance, axis):
    """The spacing along `axis`: a number, or the distances between coordinates."""
    if np.ndim(distance) == 0:
        return distance
    if np.ndim(distance) != 1:
        raise ValueError("distances must be either scalars or 1d")
    if len(distance) != f.shape[axis]:
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    if not isinstance(distance, Differentiable):
        widths = np.diff(np.asarray(distance, None if np.asarray(distance).dtype.kind == "f" else float))
        return widths[0] if len(widths) and (widths == widths[0]).all() else widths
    return _diff(distance)


def _slope(f, h, axis, edge_order):
    count = f.shape[axis]
    uniform = np.ndim(h) == 0
    at = [F.part(f, axis, k, k + 1) for k in (0, 1, 2)] + [F.part(f, axis, count + k, count + k + 1 or None) for k in (-3, -2, -1)]
    if uniform:
        inside = (F.part(f, axis, 2, None) - F.part(f, axis, None, -2)) / (2.0 * h)
    else:
        shape = (*[1] * axis, -1, *[1] * (f.ndim - axis - 1))
        h = F.lift(h)
        left, right = F.reshape(h[:-1], shape), F.reshape(h[1:], shape)
        inside = (
            -right / (left * (left + right)) * F.part(f, axis, None, -2)
            + (right - left) / (left * right) * F.part(f, axis, 1, -1)
            + left / (right * (left + right)) * F.part(f, axis, 2, None)
        )
    if edge_order == 1:
        first, last = (h, h) if uniform else (h[0], h[count - 2])
        ends = (at[1] - at[0]) / first, (at[5] - at[4]) / last
    elif uniform:
        ends = (
            (-1.5 * at[0] + 2.0 * at[1] - 0.5 * at[2]) / h,
            (0.5 * at[3] - 2.0 * at[4] + 1.5 * at[5]) / h,
        )
    else:
        p, q = h[0], h[1]
        start = -(2.0 * p + q) / (p * (p + q)) * at[0] + (p + q) / (p * q) * at[1] - p / (q * (p + q)) * at[2]
        p, q = h[count - 3], h[count - 2]
        stop = q / (p * (p + q)) * at[3] - (q + p) / (p * q) * at[4] + (2.0 * q + p) / (q * (p + q)) * at[5]
        ends = start, stop
    parts = [ends[0], inside, ends[1]] if count > 2 else list(ends)
    return F.concatenate(parts, axis)


# ---- covariances ------------------------------------------------------------------------


@implements(np.cov)
def _cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None):
    only_defaults(np.cov, fweights=fweights, aweights=aweights, dtype=dtype)
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    m = F.lift(m)
    if m.ndim > 2:
        raise ValueError("m has more than 2 dimensions")
    x = _rows(m)
    if not rowvar and m.ndim != 1:
        x = F.transpose(x)
    if x.shape[0] == 0:
        return F.lift(np.zeros((0, 0), x.dtype))
    if y is not None:
        y = F.lift(y)
        if y.ndim > 2:
            raise ValueError("y has more than 2 dimensions")
        y = _rows(y)
        x = F.concatenate([x, F.transpose(y) if not rowvar and y.shape[0] != 1 else y], 0)
    ddof = (0 if bias else 1) if ddof is None else ddof
    count = x.shape[1] - ddof
    if count <= 0:
        warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=3)
        count = 0.0
    x = x - F.mean(x, axis=1, keepdims=True)
    return F.squeeze(F.matmul(x, F.transpose(x)) * np.true_divide(1, count).item())


def _rows(x):
    return x if x.ndim == 2 else F.reshape(x, (1, x.size))


@implements(np.corrcoef)
def _corrcoef(x, y=None, rowvar=True, *, dtype=None):
    only_defaults(np.corrcoef, dtype=dtype)
    c = _cov(x, y, rowvar)
    if c.ndim == 0:
        return c / c
    deviation = np.sqrt(F.diagonal(c))
    return F.clip(c / F.expand_dims(deviation, 1) / F.expand_dims(deviation, 0), -1.0, 1.0)


# ---- chains of matrices --------------------------------------------------------------------


@implements(np.linalg.multi_dot)
def _multi_dot(arrays, *, out=None):
    only_defaults(np.linalg.multi_dot, out=out)
    arrays = [F.lift(a) for a in arrays]
    if len(arrays) < 2:
        raise ValueError("Expecting at least two arrays.")
    first, last = arrays[0].ndim, arrays[-1].ndim
    if first == 1:
        arrays[0] = F.reshape(arrays[0], (1, -1))
    if last == 1:
        arrays[-1] = F.reshape(arrays[-1], (-1, 1))
    for a in arrays:
        if a.ndim != 2:
            raise np.linalg.LinAlgError(f"{a.ndim}-dimensional array given. Array must be two-dimensional")
    product = _chain(arrays, _cheapest([a.shape[0] for a in arrays] + [arrays[-1].shape[1]]), 0, len(arrays) - 1)
    kept = ([product.shape[0]] if first == 2 else []) + ([product.shape[1]] if last == 2 else [])
    return F.reshape(product, tuple(kept)) if len(kept) < 2 else product


def _cheapest(extents):
    """Where to cut each chain ``i..j`` of products, by dynamic programming."""
    count = len(extents) - 1
    cost, cut = {(i, i): 0 for i in range(count)}, {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            cost[i, j], cut[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + extents[i] * extents[k + 1] * extents[j + 1], k) for k in range(i, j)
            )
    return cut


def _chain(arrays, cut, i, j):
    if i == j:
        return arrays[i]
    return F.matmul(_chain(arrays, cut, i, cut[i, j]), _chain(arrays, cut, cut[i, j] + 1, j))


@implements(np.linalg.matrix_power)
def _matrix_power(a, n):
    a = F.lift(a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    n = as_index(n)
    if n == 0:
        return F.lift(np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape).copy())
    if n < 0:
        a, n = np.linalg.inv(a), -n
    if n == 3:  # in the order in which NumPy multiplies
        return F.matmul(F.matmul(a, a), a)
    power = None
    while True:
        n, odd = divmod(n, 2)
        if odd:
            power = a if power is None else F.matmul(power, a)
        if not n:
            return power
        a = F.matmul(a, a)

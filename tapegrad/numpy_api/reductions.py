"""NumPy's reductions and scans on tensors, with the parameters of their signatures.

Most are compositions of the few rows of `tapegrad.rules.reductions`: a ``where=``
puts the identity of the operation in the places left out, the ``nan`` functions
do the same with the places that are not a number, order statistics take the
elements that a stable sort finds and interpolate between them.
"""

import operator
import warnings
from math import inf, nan

import numpy as np

from ..array import functions as F
from ..array.differentiable import Differentiable, into_plain
from ..array.record import apply, guard_on, record_aux
from ..array.whole import IntTensor
from ..common.host_functions import host_function
from .dispatch import FUNCTIONS, METHODS, NO_VALUE, any_tracked, implements, only_defaults, plain_function, refuse, values_of


def _flag(keepdims):
    return keepdims is not NO_VALUE and bool(keepdims)


def _checked(function, x, dtype=None, **others):
    """`x` as a tensor; refuses arguments that are not supported."""
    x = F.lift(x)
    if dtype is not None and (np.dtype(dtype) == x.dtype or np.dtype(dtype).char in "df" and x.dtype.kind in "fiub"):
        x, dtype = F.astype(x, dtype, copy=False), None
    only_defaults(function, dtype=dtype, **others)
    return x


def _mask(where, x):
    """A ``where=`` argument as a boolean array of the shape of `x`, computed again in a replay; None if it leaves nothing out."""
    if where is NO_VALUE or where is None or where is True:
        return None
    return np.broadcast_to(where != 0 if isinstance(where, Differentiable) else np.asarray(where).astype(bool), x.shape)


def _kept(function, x, where=NO_VALUE):
    """The places of `x` that a function combines: not left out, and numbers for one that ignores what is none; None if all are."""
    mask = _mask(where, x)
    if function.__name__.startswith("nan"):
        numbers = np.logical_not(record_aux(np.isnan, x))
        mask = numbers if mask is None else numbers & mask
        mask = None if mask.all() else mask
    return mask


def _masked(x, mask, identity):
    return x if mask is None else F.where(mask, x, np.asarray(identity, x.dtype))


def _axes(x, axis):
    axes = F.chosen_axes(x, axis, None)
    return tuple(range(x.ndim)) if axis is None else axes


def _count(x, axis, mask=None):
    """The number of elements that each result combines: an int, or an array with reduced axes kept."""
    if mask is None:
        return int(np.prod([x.shape[k] for k in _axes(x, axis)], dtype=np.int64))
    return np.sum(mask, axis=_axes(x, axis), keepdims=True)


def _dropped(x, axis, keepdims):
    """A result whose reduced axes were kept, as `keepdims` asks."""
    return x if keepdims or x.ndim == 0 else F.squeeze(x, _axes(x, axis))


# ---- sums, products, extrema ---------------------------------------------------------


def _initial(initial, x):
    """The argument ``initial=`` in the dtype of `x`, as NumPy takes it."""
    return initial if isinstance(initial, Differentiable) else x.dtype.type(initial)


def _reduction(function, ours, identity, combine):
    def call(a, axis=None, dtype=None, keepdims=False, initial=NO_VALUE, where=NO_VALUE):
        x = _checked(function, a, dtype)
        mask = _kept(function, x, where)
        result = ours(_masked(x, mask, identity), axis=axis, keepdims=_flag(keepdims))
        return combine(result, _initial(initial, x)) if initial is not NO_VALUE else result

    return call


def _extremum(function, ours, identity, combine):
    def call(a, axis=None, keepdims=False, initial=NO_VALUE, where=NO_VALUE):
        x = _checked(function, a)
        numbers, mask = _kept(function, x), _mask(where, x)
        has_initial = initial is not NO_VALUE and initial is not None
        if mask is not None and not has_initial:
            raise ValueError(f"np.{function.__name__} with where= needs initial= too, as in NumPy")
        if has_initial and _count(x, axis) == 0:
            shape = np.sum(np.empty(x.shape), axis=F.chosen_axes(x, axis, None), keepdims=_flag(keepdims)).shape
            return F.broadcast_to(F.lift(_initial(initial, x)), shape)
        # (No integer is infinite.)
        left_out = identity if x.dtype.kind == "f" else initial
        result = ours(_masked(_masked(x, numbers, identity), mask, left_out), axis=axis, keepdims=_flag(keepdims))
        if has_initial:
            return combine(result, _initial(initial, x))
        if numbers is not None and (empty := _count(x, axis, numbers) == 0).any():
            warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=4)
            result = F.where(empty.reshape(result.shape), np.asarray(nan, x.dtype), result)
        return result

    return call


for _sum, _prod in ((np.sum, np.prod), (np.nansum, np.nanprod)):
    FUNCTIONS[_sum], FUNCTIONS[_prod] = _reduction(_sum, F.sum, 0.0, operator.add), _reduction(_prod, F.prod, 1.0, operator.mul)
for _max, _min in ((np.max, np.min), (np.amax, np.amin), (np.nanmax, np.nanmin)):
    FUNCTIONS[_max] = _extremum(_max, F.max, -inf, F.maximum)
    FUNCTIONS[_min] = _extremum(_min, F.min, inf, F.minimum)
for _ufunc, _function in ((np.add, np.sum), (np.multiply, np.prod), (np.maximum, np.max), (np.minimum, np.min)):
    # A ufunc reduces axis 0 unless told otherwise.
    METHODS[_ufunc, "reduce"] = lambda array, axis=0, ours=FUNCTIONS[_function], **options: ours(array, axis, **options)


def _log_of_sum(array, axis=0, keepdims=False, **others):
    only_defaults(np.logaddexp, **others)
    return F.logsumexp(array, axis=axis, keepdims=keepdims)


METHODS[np.logaddexp, "reduce"] = _log_of_sum


# ---- moments --------------------------------------------------------------------------


def _mean_of(x, axis, mask, keepdims, less=0):
    """The mean of what `mask` keeps, or the sum over a number that is `less`."""
    with np.errstate(all="ignore"):
        number = np.maximum(_count(x, axis, mask) - less, 0)
        scale = np.where(number > 0, 1.0 / number, nan).astype(x.dtype if x.dtype.kind == "f" else float)
    return _dropped(F.sum(_masked(x, mask, 0.0), axis=axis, keepdims=True) * scale, axis, keepdims)


def _var_of(x, axis, mask, keepdims, ddof):
    return _mean_of(F.square(_masked(x - _mean_of(x, axis, mask, True), mask, 0.0)), axis, mask, keepdims, ddof)


def _std_of(x, axis, mask, keepdims, ddof):
    # Where the variance is 0 the derivative of the root is infinite, that of the deviation 0: 0.
    return F.sqrt(_var_of(x, axis, mask, keepdims, ddof))


def _mean(function):
    def call(a, axis=None, dtype=None, keepdims=False, *, where=NO_VALUE):
        x = _checked(function, a, dtype)
        mask = _kept(function, x, where)
        return F.mean(x, axis=axis, keepdims=_flag(keepdims)) if mask is None else _mean_of(x, axis, mask, _flag(keepdims))

    return call


def _moment(function, ours, of):
    def call(a, axis=None, dtype=None, ddof=0, keepdims=False, *, where=NO_VALUE, mean=NO_VALUE, correction=NO_VALUE):
        x = _checked(function, a, dtype, mean=None if mean is NO_VALUE else mean)
        ddof = ddof if correction is NO_VALUE else correction
        mask = _kept(function, x, where)
        return ours(x, axis=axis, ddof=ddof, keepdims=_flag(keepdims)) if mask is None else of(x, axis, mask, _flag(keepdims), ddof)

    return call


FUNCTIONS[np.mean], FUNCTIONS[np.nanmean] = _mean(np.mean), _mean(np.nanmean)
FUNCTIONS[np.var], FUNCTIONS[np.nanvar] = _moment(np.var, F.var, _var_of), _moment(np.nanvar, F.var, _var_of)
FUNCTIONS[np.std], FUNCTIONS[np.nanstd] = _moment(np.std, F.std, _std_of), _moment(np.nanstd, F.std, _std_of)


# ---- scans ------------------------------------------------------------------------------


def _scan(function):
    return lambda a, axis=None, dtype=None: F.scanned(function.__name__, _checked(function, a, dtype), axis)


FUNCTIONS[np.cumsum], FUNCTIONS[np.cumprod] = _scan(np.cumsum), _scan(np.cumprod)



# ---- order statistics -------------------------------------------------------------------

#: Methods that interpolate between neighbours: (alpha, beta) of Hyndman & Fan,
#: "Sample quantiles in statistical packages", The American Statistician 50 (1996).
_INTERPOLATING = {
    "linear": (1.0, 1.0), "hazen": (0.5, 0.5), "weibull": (0.0, 0.0), "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8), "interpolated_inverted_cdf": (0.0, 1.0),
}  # fmt: skip
_NEIGHBOUR = {"lower": 0.0, "higher": 1.0, "midpoint": 0.5}


def _quantiles(function, x, q, axis, method, keepdims):
    """Quantiles `q` of `x`: the two neighbours in a stable sort, and a point between them.

    The derivative goes to the elements that the sort puts there, of equal ones to
    the first; in `q` it is the slope between the neighbours.
    """
    x = F.astype(x, np.float64) if x.dtype.kind in "iub" else x
    if method not in _INTERPOLATING and method not in _NEIGHBOUR:
        raise refuse(function, f" with method={method!r}: the result jumps")
    if isinstance(q, Differentiable) and q.requires_grad and method in _NEIGHBOUR:
        raise refuse(function, f" in q with method={method!r}")
    points = np.asarray(values_of(q), float)
    if points.size and not (points.min() >= 0 and points.max() <= 1):
        raise ValueError("Quantiles must be in the range [0, 1]")
    axes = _axes(x, axis)
    rest = tuple(k for k in range(x.ndim) if k not in axes)
    front = tuple(x.shape[k] for k in rest)
    order = (*rest, *axes)

    n = _count(x, axis)
    if n == 0:
        raise IndexError(f"np.{function.__name__} of nothing: the axis is empty")
    missing = guard_on(_missing(order, n), x)
    skip_nan = function.__name__.startswith("nan")
    counts = (n - missing) if skip_nan else np.full(len(missing), n)
    bad = (counts == 0) if skip_nan else missing > 0
    wide = points.reshape(-1, 1)
    alpha, beta = _INTERPOLATING.get(method, (1.0, 1.0))
    # Positions from 0 in the sorted line: one row per quantile, one column per line.
    slope = counts + 1.0 - alpha - beta
    place, last = wide * slope + (alpha - 1.0), np.maximum(counts - 1.0, 0.0)
    virtual = np.clip(place, 0.0, last)
    low = np.floor(virtual)
    share = virtual - low
    if method in _NEIGHBOUR:
        share = np.where(share > 0, _NEIGHBOUR[method], 0.0)
    # A line with a NaN is NaN: the sort has put it last.
    low = np.where(bad, n - 1, low).astype(np.int64)
    high = np.where(bad, n - 1, np.clip(np.floor(place) + 1.0, 0.0, last)).astype(np.int64)
    shape = (*points.shape, *front)

    def taken(position):
        return apply("gather", (x, record_aux(_ranked(order, n, position), x)), (("shape", shape),))

    below, above, late = taken(low), taken(high), share >= 0.5
    # From the nearer neighbour, as NumPy does: of infinities that is seen.
    nearer = above if late.all() else F.where(late.reshape(shape), above, below) if late.any() else below
    if function in (np.median, np.nanmedian):
        # Between two infinities there is no way.
        result = F.where((share > 0).reshape(shape), (below + above) / 2.0, below) if share.any() else below
    elif method in ("lower", "higher"):
        result = nearer
    elif isinstance(q, Differentiable) and q.requires_grad:
        inside = (place > 0) & (place < last)
        q = F.reshape(q, (*points.shape, *(1,) * len(front)))
        # The slope in q, and no change of the value.
        moved = (q - points.reshape(q.shape)) * (inside * slope).reshape(shape)
        result = nearer + (above - below) * (moved + (share - late).reshape(shape))
    else:
        result = nearer + (above - below) * (share - late).reshape(shape).astype(x.dtype)
    if keepdims:
        kept = tuple(1 if k in axes else m for k, m in enumerate(x.shape))
        result = F.reshape(result, (*points.shape, *kept))
    return result


def _lines(values, order, n):
    return np.transpose(values, order).reshape((-1, n))


@host_function
def _missing(values, order, n):
    """The number of NaNs of each line."""
    return np.isnan(_lines(values, order, n)).sum(axis=1)


#: So many elements of a line are found without sorting it.
_FEW = 8


@host_function
def _ranked(values, order, n, position):
    """Flat positions of the elements that stand at `position` of each sorted line."""
    places, lines, kth = _lines(np.arange(values.size).reshape(values.shape), order, n), _lines(values, order, n), np.unique(position)
    found = np.take_along_axis(np.argpartition(lines, kth, axis=1), position.T, 1) if len(kth) <= _FEW else None
    # Of equal elements, and of NaN, the order counts.
    if found is None or any([((lines == one[:, None]).sum(axis=1) != 1).any() for one in np.take_along_axis(lines, found, 1).T]):
        found = np.take_along_axis(np.argsort(lines, axis=1, kind="stable"), position.T, 1)
    return F.frozen(np.take_along_axis(places, found, 1).T.reshape(-1))


def _quantile(function, scale):
    def call(a, q, axis=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None, interpolation=None):
        x = _checked(function, a, None, weights=weights, interpolation=interpolation)
        single = x.dtype != np.float64 and not isinstance(q, Differentiable)
        dtype = function(np.zeros(2, x.dtype), q).dtype if single else x.dtype
        if scale != 1.0:
            q = q / scale if isinstance(q, Differentiable) else np.asarray(q, float) / scale
        quantiles = _quantiles(function, x, q, axis, method, _flag(keepdims))
        return F.astype(quantiles, dtype) if quantiles.dtype == np.float32 != dtype else quantiles

    return call


def _median(function):
    def call(a, axis=None, overwrite_input=False, keepdims=False):
        x = _checked(function, a)
        if _count(x, axis) == 0:
            return np.mean(x, axis, keepdims=_flag(keepdims))
        return _quantiles(function, x, 0.5, axis, "linear", _flag(keepdims))

    return call


for _most, _functions in ((1.0, (np.quantile, np.nanquantile)), (100.0, (np.percentile, np.nanpercentile))):
    FUNCTIONS |= {function: _quantile(function, _most) for function in _functions}
FUNCTIONS[np.median], FUNCTIONS[np.nanmedian] = _median(np.median), _median(np.nanmedian)


# ---- norms --------------------------------------------------------------------------------


def _largest(sizes, axis, keepdims=False):
    """The largest of numbers that are not negative; 0 of none, as in the norms of NumPy 2.4."""
    return FUNCTIONS[np.max](sizes, axis, keepdims, NO_VALUE if _count(sizes, axis) else 0.0)


#: Norms of vectors that are reductions of absolute values, by their order.
_OF_SIZES = {inf: _largest, -inf: F.min, 1: F.sum, 0: F.sum}


def _vector_norm(x, ord, axis, keepdims):
    if ord is None or ord == 2:
        return F.norm(x, axis=axis, keepdims=keepdims)
    # Of order 0 it counts what is not zero: a step, with derivative 0.
    size = F.absolute(F.sign(x) if ord == 0 else x)
    if ord in _OF_SIZES:
        return _OF_SIZES[ord](size, axis=axis, keepdims=keepdims)
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    if ord < 0:
        return F.power(F.sum(F.power(size, float(ord)), axis=axis, keepdims=keepdims), 1.0 / ord)
    # Scaled by the largest element against overflow; any scale gives the same value and derivative.
    axes = _axes(x, axis)
    top = record_aux(_scale(axes), size)
    result = F.power(F.sum(F.power(size / top, float(ord)), axis=axis, keepdims=True), 1.0 / ord) * top
    return _dropped(result, axis, keepdims)


@host_function
def _scale(size, axes):
    top = np.max(size, axis=axes, keepdims=True, initial=0.0)
    return np.where((top > 0) & np.isfinite(top), top, 1.0).astype(size.dtype)


def _matrix_norm(x, ord, axes, keepdims):
    row, column = axes
    if row == column:
        raise ValueError("Duplicate axes given.")
    if ord is None or ord in ("fro", "f"):
        return F.norm(x, axis=axes, keepdims=keepdims)
    if ord in (2, -2, "nuc"):
        s = FUNCTIONS[np.linalg.svd](F.moveaxis(x, (row, column), (-2, -1)), compute_uv=False)
        norm = F.sum(s, axis=-1) if ord == "nuc" else _largest(s, -1) if ord > 0 else F.min(s, axis=-1)
        return F.expand_dims(norm, tuple(sorted(axes))) if keepdims else norm
    if ord not in (1, -1, inf, -inf):
        raise ValueError(f"Invalid norm order {ord!r} for matrices.")
    summed, kept = (row, column) if abs(ord) == 1 else (column, row)
    sums = F.sum(F.absolute(x), axis=summed, keepdims=True)
    norm = _largest(sums, kept, True) if ord > 0 else F.min(sums, axis=kept, keepdims=True)
    return norm if keepdims else F.squeeze(norm, axes)


@implements(np.linalg.norm)
def _norm(x, ord=None, axis=None, keepdims=False):
    x = F.lift(x)
    if axis is None:
        if ord is None or x.ndim == 1 or x.ndim == 2 and ord in ("fro", "f"):
            return _vector_norm(x, None if isinstance(ord, str) and x.ndim == 2 else ord, None, keepdims)
        if x.ndim != 2:
            raise ValueError("Improper number of dimensions to norm.")
        axis = (0, 1)
    axes = F.axis_tuple(axis, x.ndim)
    if len(axes) == 1:
        return _vector_norm(x, ord, axes[0], keepdims)
    if len(axes) != 2:
        raise ValueError("Improper number of dimensions to norm.")
    return _matrix_norm(x, ord, axes, keepdims)


# ---- sums by group and running extremes: what runs along an axis is a gather at positions that NumPy finds ----


@implements(np.bincount)
def _bincount(x, /, weights=None, minlength=0):
    if not any_tracked(weights) or isinstance(weights, IntTensor):
        return plain_function(np.bincount)(x, weights, minlength)
    weights = F.lift(weights)
    live = isinstance(x, IntTensor)
    groups = np.asarray(values_of(x, not live))
    # NumPy looks at the arguments.
    count = len(np.bincount(groups, np.zeros(weights.shape), minlength))
    if live and groups.size:
        guard_on(np.max, x)
    return F.segment_sum(F.astype(weights, np.float64), x if live else groups, count)


def _at(ufunc, a, indices, b):
    if not isinstance(a, Differentiable):
        if any_tracked(b):
            raise into_plain(f"np.{ufunc.__name__}.at", a)
        ufunc.at(a, values_of(indices), values_of(b))
        return
    positions = np.arange(a.size).reshape(a.shape)[values_of(indices)]
    change = _BY_GROUP[ufunc](F.ravel(F.broadcast_to(F.lift(b), np.shape(positions))), np.ravel(positions), a.size)
    a[...] = ufunc(a, F.reshape(change, a.shape))


@host_function
def _running(values, axis, largest):
    best = (np.maximum if largest else np.minimum).accumulate(values, axis)
    order = np.arange(values.shape[axis]).reshape((-1,) + (1,) * (values.ndim - 1 - axis))
    before = np.roll(best, 1, axis)
    # The first element, and each that is another extreme than before; what is NaN stays NaN.
    new = (order == 0) | (best != before) & ~(np.isnan(best) & np.isnan(before))
    return F.along_axis(values.shape, axis)(np.maximum.accumulate(np.where(new, order, 0), axis))


def _extremes(ufunc, array, axis=0):
    array = F.lift(array)
    return F.moved_by(array, _running(F.axis_index(axis, array.ndim), ufunc is np.maximum), array)


def _reduceat(array, indices, axis=0):
    moved = F.moveaxis(F.lift(array), axis, 0)
    starts = np.asarray(values_of(indices))
    # NumPy looks at the arguments.
    np.add.reduceat(np.zeros(len(moved)), starts)
    stops = [*starts[1:].tolist(), len(moved)]
    lengths = [max(stop - start, 1) for start, stop in zip(starts.tolist(), stops)]
    rows = np.concatenate([np.arange(start, start + n) for start, n in zip(starts.tolist(), lengths)] or [starts])
    sums = F.segment_sum(moved[rows], np.repeat(np.arange(len(starts)), lengths), len(starts))
    return F.moveaxis(sums, 0, axis)


def _logaddexp_accumulate(array, axis=0):
    total, span = F.moveaxis(F.lift(array), axis, 0), 1
    while span < len(total):
        # Each element has the sum of `span` elements, up to its own; those before have all.
        total = np.concatenate([total[:span], np.logaddexp(total[:-span], total[span:])])
        span *= 2
    return F.moveaxis(total, 0, axis)


METHODS[np.logaddexp, "accumulate"] = _logaddexp_accumulate
METHODS[np.add, "accumulate"] = lambda array, axis=0: F.cumsum(array, axis)
METHODS[np.multiply, "accumulate"] = lambda array, axis=0: np.cumprod(array, axis)
METHODS[np.add, "reduceat"] = _reduceat
for _ufunc in (np.maximum, np.minimum):
    METHODS[_ufunc, "accumulate"] = lambda *args, ufunc=_ufunc, **kwargs: _extremes(ufunc, *args, **kwargs)
#: What is done first for all numbers that come to one element.
_BY_GROUP = {np.add: F.segment_sum, np.subtract: F.segment_sum, np.maximum: F.segment_max, np.minimum: F.segment_min}
for _ufunc in _BY_GROUP:
    METHODS[_ufunc, "at"] = lambda *args, ufunc=_ufunc: _at(ufunc, *args)

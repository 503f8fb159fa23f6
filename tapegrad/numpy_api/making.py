"""NumPy's functions that make new elements out of given ones: ranges, and borders around arrays.

Ranges are computed as NumPy computes them, so that they end where NumPy's end.
"""

from __future__ import annotations

from operator import index as as_index

import numpy as np

from ..array import functions as F
from .dispatch import any_tracked, implements, refuse, values_of
from .shaping import as_tensor, cast, rearranged, untracked

# ---- ranges -------------------------------------------------------------------------------


def _is_number(v):
    return isinstance(v, (float, np.generic)) or isinstance(v, np.ndarray) and v.ndim == 0


def _ranged(start, stop, num, endpoint):
    """``num`` values from `start` to `stop` along a new first axis, and their step."""
    num = as_index(num)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    # Numbers stay what they are: Python floats are weak beside arrays, NumPy's are not.
    start, stop = (v if _is_number(v) else as_tensor(v) for v in (start, stop))
    gaps = num - 1 if endpoint else num
    delta = stop - start
    step = delta / float(gaps) if gaps > 0 else delta * np.nan
    counts = np.arange(num, dtype=delta.dtype).reshape((-1,) + (1,) * delta.ndim)
    values = (step * counts if gaps > 0 else delta * counts) + start
    if endpoint and num > 1:
        values = F.concatenate([values[:-1], F.expand_dims(F.broadcast_to(cast(as_tensor(stop), values.dtype), delta.shape), 0)])
    return values, step


@implements(np.linspace)
def _linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=None):
    values, step = _ranged(start, stop, num, endpoint)
    values = F.moveaxis(values if dtype is None else cast(values, dtype), 0, axis)
    return (values, step) if retstep else values


@implements(np.logspace)
def _logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    base = as_tensor(base)
    if base.ndim:
        shape = np.broadcast_shapes(base.shape, as_tensor(start).shape, as_tensor(stop).shape)
        start, stop, base = (F.broadcast_to(as_tensor(v), shape) for v in (start, stop, base))
    values = F.power(base, _ranged(start, stop, num, endpoint)[0])
    return F.moveaxis(values if dtype is None else cast(values, dtype), 0, axis)


@implements(np.geomspace)
def _geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    start, stop = as_tensor(start), as_tensor(stop)
    signs = np.sign(np.asarray(values_of(start)))
    if not np.all(signs * np.sign(np.asarray(values_of(stop))) > 0):
        raise ValueError("geomspace needs ends of the same sign, and neither of them 0")
    signs = signs.astype(start.dtype)
    values, _ = _ranged(F.ELEMENTWISE["log10"](start * signs), F.ELEMENTWISE["log10"](stop * signs), num, endpoint)
    values = F.power(10.0, values) * signs
    if len(values):
        # The ends are exact.
        first, last = (F.expand_dims(F.broadcast_to(v, values.shape[1:]), 0) for v in (start, stop))
        keep_last = endpoint and len(values) > 1
        values = F.concatenate([first, values[1:-1], last] if keep_last else [first, values[1:]])
    return F.moveaxis(values if dtype is None else cast(values, dtype), 0, axis)


# ---- borders ------------------------------------------------------------------------------

#: Modes of np.pad that only repeat elements, and those that compute a statistic of the array.
_MOVING = {"edge", "wrap", "reflect", "symmetric"}
_STATISTICS = {"maximum": np.max, "minimum": np.min, "mean": np.mean, "median": np.median}


@implements(np.pad)
def _pad(array, pad_width, mode="constant", **kwargs):
    pad_width = values_of(pad_width)
    if mode in ("constant", "empty"):
        constant = as_tensor(kwargs.pop("constant_values", 0.0) if mode == "constant" else 0.0)
        np.pad(np.empty(0), 0, mode, **kwargs)  # refuses other arguments
        return rearranged(
            lambda p, c: np.pad(p, pad_width, "constant", constant_values=c), array, constant, dtype=array.dtype
        )
    if not any_tracked([array, *kwargs.values()]):
        return untracked(lambda a: np.pad(a, pad_width, mode, **kwargs), array)
    if not isinstance(mode, str):
        raise refuse(np.pad, " with a function as mode, which would fill plain memory; join with np.concatenate")
    if mode in _MOVING and kwargs.get("reflect_type", "even") == "even":
        return rearranged(lambda p: np.pad(p, pad_width, mode, **kwargs), array)
    # NumPy refuses what it does not know.
    np.pad(np.ones(1), 0, mode, **{k: 1.0 if k == "end_values" else v for k, v in kwargs.items() if k != "stat_length"})
    array = as_tensor(array)
    if "stat_length" in kwargs:
        np.pad(np.ones(array.shape), 0, mode, stat_length=kwargs["stat_length"])
    widths = _pairs(pad_width, array.ndim)
    for axis, (left, right) in enumerate(widths.tolist()):
        if mode == "linear_ramp":
            ends = _pairs_of(as_tensor(kwargs.get("end_values", 0.0)), array.ndim)
            sides = _ramps(array, axis, left, right, ends[axis])
        elif mode in _MOVING:
            sides = _odd(array, axis, left, right, mode)
        else:
            lengths = kwargs.get("stat_length")
            lengths = _pairs(array.shape[axis] if lengths is None else lengths, array.ndim)[axis].tolist()
            sides = _statistics(array, axis, left, right, lengths, mode)
        array = F.concatenate([sides[0], array, sides[1]], axis)
    return array


def _pairs(parameter, ndim):
    """A parameter of np.pad as one pair of integers for each axis."""
    if isinstance(parameter, dict):
        pairs = np.zeros((ndim, 2), int)
        for axis, pair in parameter.items():
            pairs[axis] = pair
        return pairs
    return np.broadcast_to(np.asarray(values_of(parameter), int), (ndim, 2))


def _pairs_of(parameter, ndim):
    return F.broadcast_to(parameter, (ndim, 2))


def _widened(x, axis, width):
    return F.broadcast_to(x, (*x.shape[:axis], width, *x.shape[axis + 1 :]))


def _statistics(x, axis, left, right, lengths, mode):
    n = x.shape[axis]
    lengths = [min(k, n) for k in lengths]
    if min(lengths) < 1 and mode in ("maximum", "minimum"):
        raise ValueError("stat_length of 0 yields no value for padding")
    parts = F.part(x, axis, 0, lengths[0]), F.part(x, axis, n - lengths[1], n)
    return [_widened(_STATISTICS[mode](p, axis=axis, keepdims=True), axis, w) for p, w in zip(parts, (left, right))]


def _ramps(x, axis, left, right, ends):
    n, sides = x.shape[axis], []
    for k, (edge, width) in enumerate(zip((F.part(x, axis, 0, 1), F.part(x, axis, n - 1, n)), (left, right))):
        end = cast(ends[k], x.dtype)
        counts = np.arange(width, dtype=x.dtype).reshape((-1,) + (1,) * (x.ndim - axis - 1))
        ramp = (edge - end) / float(width or 1) * counts + end
        sides.append(F.flip(ramp, axis) if k else ramp)
    return sides


def _odd(x, axis, left, right, mode):
    # Linear in each line of the array: NumPy pads the lines of the identity, and so gives the matrix.
    n = x.shape[axis]
    matrix = np.pad(np.eye(n), ((left, right), (0, 0)), mode, reflect_type="odd").astype(x.dtype)
    moved = F.moveaxis(x, axis, -1)
    borders = matrix[:left], matrix[left + n :]
    return [F.moveaxis(F.matmul(moved, m.T), -1, axis) for m in borders]

"""Sums by group and running extremes: ``np.bincount(groups, weights=t)``, ``np.add.at``, ``np.add.reduceat``, ``np.maximum.accumulate``.

A sum by group is `segment_sum`; what runs along an axis is a gather at positions that NumPy finds.
"""

import numpy as np

from ..array import functions as F
from ..array.differentiable import Differentiable
from ..array.leaving import into_plain
from ..array.record import guard_on
from ..array.whole import IntTensor
from ..common.host_functions import host_function
from .dispatch import METHODS, any_tracked, implements, plain_function, values_of


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


METHODS[np.add, "accumulate"] = lambda array, axis=0: F.cumsum(array, axis)
METHODS[np.multiply, "accumulate"] = lambda array, axis=0: np.cumprod(array, axis)
METHODS[np.add, "reduceat"] = _reduceat
for _ufunc in (np.maximum, np.minimum):
    METHODS[_ufunc, "accumulate"] = lambda *args, ufunc=_ufunc, **kwargs: _extremes(ufunc, *args, **kwargs)
#: What is done first for all numbers that come to one element.
_BY_GROUP = {np.add: F.segment_sum, np.subtract: F.segment_sum, np.maximum: F.segment_max, np.minimum: F.segment_min}
for _ufunc in _BY_GROUP:
    METHODS[_ufunc, "at"] = lambda *args, ufunc=_ufunc: _at(ufunc, *args)

"""NumPy's functions that pick, choose, sort and write elements of tensors.

Picking is a gather at positions that NumPy itself finds (`shaping.rearranged`).
Functions that write into their argument (`np.put`, `np.fill_diagonal`, ...) are
indexed assignments, if what they write into is a tensor.  What looks at values
without a derivative gives plain values.
"""

from operator import attrgetter

import numpy as np

from ..array import functions as F
from ..array.complex import FUNCTIONS as COMPLEX
from ..array.differentiable import Differentiable, into_plain
from ..array.indexing import nonzero
from ..array.record import guard_on, trace_of
from ..array.whole import IntTensor, is_whole
from ..common.host_functions import host_function
from ..common.tree import parts_of
from .dispatch import FUNCTIONS, any_tracked, implements, only_defaults, plain_function, refuse, values_of
from .own_code import own_code
from .refused import WITHOUT_DERIVATIVE
from .shaping import as_tensor, cast, rearranged, untracked

# ---- picking ------------------------------------------------------------------------------


@implements(np.take)
def _take(a, indices, axis=None, mode="raise"):
    return F.take(as_tensor(a), indices if isinstance(indices, IntTensor) else values_of(indices), axis, mode)


@implements(np.take_along_axis)
def _take_along_axis(arr, indices, axis=-1):
    arr = as_tensor(arr)
    return own_code(np.take_along_axis)(*((F.ravel(arr), indices, 0) if axis is None else (arr, indices, axis)))


@implements(np.choose)
def _choose(a, choices, mode="raise"):
    choices = list(choices)
    # Numbers are weak here, as nowhere else in this file.
    kinds = [c._v if isinstance(c, Differentiable) else c if isinstance(c, (int, float)) else np.asarray(values_of(c)) for c in choices]
    dtype = np.result_type(*kinds)
    if isinstance(a, IntTensor) and mode in ("raise", "clip"):
        last = len(choices) - 1
        if mode == "raise" and not guard_on(_in_range(last), a):
            raise ValueError("invalid entry in choice array")
        # Outside of the range it is the choice at the end.
        result = cast(as_tensor(choices[last]), dtype)
        for k in range(last)[::-1]:
            result = F.where(a <= k, cast(as_tensor(choices[k]), dtype), result)
        return F.broadcast_to(result, np.broadcast_shapes(a.shape, *map(np.shape, kinds)))
    return rearranged(lambda *p: np.choose(np.asarray(values_of(a)), p, mode=mode), *choices, dtype=dtype)


@host_function
def _in_range(a, last):
    return np.all((a >= 0) & (a <= last))


@implements(np.compress)
def _compress(condition, a, axis=None):
    if isinstance(condition, IntTensor) and condition.ndim == 1:
        return F.take(as_tensor(a), nonzero(condition)[0], axis)
    return rearranged(lambda p: np.compress(np.asarray(values_of(condition)), p, axis), a)


implements(np.delete)(lambda arr, obj, axis=None: rearranged(lambda p: np.delete(p, values_of(obj), axis), arr))


@implements(np.insert)
def _insert(arr, obj, values, axis=None):
    dtype = arr.dtype if isinstance(arr, (Differentiable, np.ndarray)) else np.asarray(arr).dtype
    return rearranged(lambda p, v: np.insert(p, values_of(obj), v, axis), arr, values, dtype=dtype)


@implements(np.where)
def _where(condition, *branches):
    if not branches:
        return FUNCTIONS[np.nonzero](condition)
    if (short := F.chosen(condition, *branches)) is not None:
        return short
    if not any_tracked(branches) and not is_whole((condition,)):
        return untracked(np.where, condition, *branches)
    if is_whole((condition, branches)):
        # Python's numbers are weak here.
        dtype = np.result_type(*[b if isinstance(b, (int, float)) else np.asarray(values_of(b, False)) for b in branches])
        branches = [b if isinstance(b, IntTensor) else np.asarray(b, dtype) for b in branches]
    # A condition that is a tensor stays one: a replay computes it again.
    condition = condition if isinstance(condition, Differentiable) else values_of(condition)
    return F.where(condition, *[as_tensor(b) if isinstance(b, (list, tuple)) else b for b in branches])


def _places(function, ours):
    """Where something is not zero: of integers and truth values that a recording computes positions of its own."""
    FUNCTIONS[function] = lambda a: ours(a) if isinstance(a, IntTensor) and (a.ndim or function is not np.argwhere) else plain_function(function)(a)


_places(np.nonzero, nonzero)
_places(np.flatnonzero, lambda a: nonzero(F.ravel(a))[0])
_places(np.argwhere, lambda a: np.stack(nonzero(a), -1))


@implements(np.select)
def _select(condlist, choicelist, default=0):
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if len(condlist) == 0:
        raise ValueError("select with an empty condition list is not possible")
    condlist = [c if isinstance(c, IntTensor) else np.asarray(values_of(c)) for c in condlist]
    for k, condition in enumerate(condlist):
        if condition.dtype != bool:
            raise TypeError(f"invalid entry {k} in condlist: should be boolean ndarray")
    result = default
    for condition, choice in zip(condlist[::-1], list(choicelist)[::-1]):
        result = _where(condition, choice, result)
    return result


@implements(np.piecewise)
def _piecewise(x, condlist, funclist, *args, **kw):
    if not isinstance(x, Differentiable):
        raise refuse(np.piecewise, " where only a condition is a tensor")
    if isinstance(condlist, Differentiable) and condlist.ndim == 1:
        condlist = [condlist]
    if x.ndim:
        return own_code(np.piecewise)(x, condlist, funclist, *args, **kw)
    return own_code(np.piecewise)(F.reshape(x, (1,)), np.reshape(values_of(condlist), (-1, 1)), funclist, *args, **kw)[0]


# ---- triangles and diagonals ---------------------------------------------------------------


implements(np.diag, plainly=True)(lambda v, k=0: F.diag(v, k))
implements(np.diagflat, plainly=True)(lambda v, k=0: F.diag(F.ravel(v), k))
implements(np.trace, plainly=True)(
    lambda a, offset=0, axis1=0, axis2=1, dtype=None: F.trace(a if dtype is None else cast(a, dtype), offset, axis1, axis2)
)


# ---- sorting -------------------------------------------------------------------------------


@implements(np.sort, plainly=True)
def _sort(a, axis=-1, kind=None, order=None, *, stable=None):
    only_defaults(np.sort, order=order)
    return _permuted(a, axis, _sorted, kind if stable is None else "stable" if stable else None)


@implements(np.partition, plainly=True)
def _partition(a, kth, axis=-1, kind="introselect", order=None):
    only_defaults(np.partition, order=order)
    kth = np.asarray(values_of(kth))
    return _permuted(a, axis, _partitioned, kth if kth.ndim else int(kth), kind)


@host_function
def _sorted(values, axis, kind):
    order = np.argsort(values, axis, kind=kind)
    line = np.moveaxis(np.take_along_axis(values, order, axis), axis, -1)
    if not (line[..., 1:] > line[..., :-1]).all():
        # Of equal elements the order counts, for derivatives.
        order = np.argsort(values, axis, kind="stable")
    return F.along_axis(values.shape, axis)(order)


@host_function
def _partitioned(values, axis, kth, kind):
    return F.along_axis(values.shape, axis)(np.argpartition(values, kth, axis, kind))


def _permuted(a, axis, index_map, *data):
    a = F.lift(a)
    if axis is None:
        a, axis = F.ravel(a), -1
    if a.ndim == 0:
        raise np.exceptions.AxisError(axis, 0)
    return F.moved_by(a, index_map(axis, *data), a)


# ---- writing -------------------------------------------------------------------------------


def _writes(function):
    """Decorator: `function(tensor, ...)` writes; into a plain array only what is not tracked is written."""

    def register(ours):
        @implements(function)
        def call(target, *args, **kwargs):
            if isinstance(target, Differentiable):
                return ours(target, *args, **kwargs)
            if (any_tracked(args) or any_tracked(kwargs)) and not is_whole((args, kwargs)):
                raise into_plain(f"np.{function.__name__} (or np.full_like(array, tensor): use tg.full_like)", target)
            return function(target, *values_of(args), **{k: values_of(v) for k, v in kwargs.items()})

        return call

    return register


def _assign(target, positions, values, which=None):
    """``target.flat[positions] = values.flat[which]``, by default the first ones; the values are repeated if there are fewer."""
    if not positions.size:
        return
    values, which = F.ravel(as_tensor(values)), np.arange(positions.size) if which is None else which
    if values.size == 0:
        raise ValueError("cannot write from an empty array")
    if values.size > 1:
        which = which % values.size
        values = values if np.array_equal(which, np.arange(values.size)) else values[which]
    target[np.unravel_index(positions, target.shape)] = values


@_writes(np.copyto)
def _copyto(dst, src, casting="same_kind", where=True):
    dst[...] = src if where is True else _where(_mask(where), src, dst)


def _mask(mask):
    """What says by its truth values where to write; that of a recording stays live."""
    return mask if isinstance(mask, IntTensor) and mask.dtype == bool else np.asarray(values_of(mask), bool)


@_writes(np.fill_diagonal)
def _fill_diagonal(a, val, wrap=False):
    mark = np.zeros(a.shape, bool)
    np.fill_diagonal(mark, True, wrap)
    _assign(a, np.flatnonzero(mark), val)


@_writes(np.put)
def _put(a, ind, v, mode="raise"):
    _assign(a, np.arange(a.size).take(values_of(ind), mode=mode).ravel(), v)


@_writes(np.place)
def _place(arr, mask, vals):
    mask, vals = _mask(mask), F.ravel(as_tensor(vals))
    if isinstance(mask, IntTensor) and mask.shape == arr.shape and vals.size:
        # The next value for each place.
        which = (np.cumsum(F.ravel(mask)) - 1) % vals.size if vals.size > 1 else np.zeros(mask.size, int)
        arr[...] = _where(mask, F.reshape(F.take(vals, which), arr.shape), arr)
    else:
        _assign(arr, np.flatnonzero(np.broadcast_to(np.asarray(values_of(mask)), arr.shape)), vals)


@_writes(np.putmask)
def _putmask(a, mask, values):
    mask, values = _mask(mask), as_tensor(values)
    if isinstance(mask, IntTensor) and mask.shape == a.shape and values.size:
        a[...] = _where(mask, np.resize(values, a.shape), a)
    else:
        positions = np.flatnonzero(np.broadcast_to(np.asarray(values_of(mask)), a.shape))
        _assign(a, positions, values, positions)


@_writes(np.put_along_axis)
def _put_along_axis(arr, indices, values, axis):
    if axis is not None:
        own_code(np.put_along_axis)(arr, indices, as_tensor(values), axis)
    else:
        arr[np.unravel_index(np.arange(arr.size)[values_of(indices)], arr.shape)] = as_tensor(values)


# ---- plain values --------------------------------------------------------------------------


def _recorded_as(function):
    """Decorator: the function, of ufuncs, stands for one of NumPy: for complex numbers, and in a recording, which a replay would call in Python."""

    def register(ours):
        plainly, COMPLEX[function] = plain_function(function), ours
        FUNCTIONS[function] = lambda *args, **kwargs: (plainly if trace_of(parts_of((args, kwargs), Differentiable)) is None else ours)(*args, **kwargs)
        return ours

    return register


@_recorded_as(np.isclose)
def _isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    a, b = as_tensor(a), as_tensor(b)
    with np.errstate(invalid="ignore"):
        close = (abs(a - b) <= atol + rtol * abs(b)) & np.isfinite(b) | (a == b)
    return close | np.isnan(a) & np.isnan(b) if equal_nan else close


_recorded_as(np.allclose)(own_code(np.allclose))


@_recorded_as(np.array_equal)
def _array_equal(a1, a2, equal_nan=False):
    if np.shape(a1) != np.shape(a2):
        return False
    same = as_tensor(a1) == as_tensor(a2)
    return bool(np.all(same | np.isnan(a1) & np.isnan(a2) if equal_nan else same))


for _name in WITHOUT_DERIVATIVE:
    _function = attrgetter(_name.partition(".")[2])(np)
    if not isinstance(_function, np.ufunc):
        FUNCTIONS.setdefault(_function, plain_function(_function))

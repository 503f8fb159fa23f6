"""Indexing and indexed assignment.

Integers, slices, ``...`` and ``None`` make an affine view (`_affine`), whose
derivative is a window of the operand's adjoint; a single element of a large
array costs O(1) in both directions.  Integer arrays and masks become a gather at
flat positions, found by applying the same key to an array of positions.

Assignment is an instruction too: ``y[i] = v`` makes a new slot whose array is
the old one, changed in place, if nothing else reads the old one; else a copy.
"""

from __future__ import annotations

import math
import sys
import weakref
from functools import lru_cache
from types import EllipsisType

import numpy as np

from .errors import GradientError, ModifiedInPlaceError
from .record import apply, as_operand, plain, tracked
from .tape.store import thread_state
from .tensor import Tensor


def _clean(key):
    """The key with tensors replaced by their values."""
    if isinstance(key, Tensor):
        value = key._v
        if type(value) is float:
            raise IndexError(
                "a float tensor cannot be an index; take the number out with int(t.item()), which leaves the tape"
            )
        return value if value.ndim else value[()]
    if isinstance(key, tuple):
        return tuple(_clean(k) for k in key)
    if isinstance(key, slice):
        return slice(*(_clean(k) if isinstance(k, Tensor) else k for k in (key.start, key.stop, key.step)))
    return key


def _is_basic(key):
    return all(
        k is None or k is Ellipsis or isinstance(k, (int, np.integer, slice)) and not isinstance(k, (bool, np.bool_))
        for k in (key if isinstance(key, tuple) else (key,))
    )


def _affine(shape, key):
    """Strides (in elements of a C-ordered array) and offset of the view ``a[key]``."""
    keys = list(key) if isinstance(key, tuple) else [key]
    used = sum(k is not None and not isinstance(k, EllipsisType) for k in keys)
    if Ellipsis in [k for k in keys if isinstance(k, EllipsisType)]:
        at = next(j for j, k in enumerate(keys) if isinstance(k, EllipsisType))
        keys[at : at + 1] = [slice(None)] * (len(shape) - used)
    keys += [slice(None)] * (len(shape) - sum(k is not None for k in keys))
    steps, step = [], 1
    for extent in reversed(shape):
        steps.append(step)
        step *= extent
    steps.reverse()
    strides, offset, axis = [], 0, 0
    for k in keys:
        if k is None:
            strides.append(0)
            continue
        extent, step = shape[axis], steps[axis]
        axis += 1
        if isinstance(k, slice):
            start, stop, jump = k.indices(extent)
            strides.append(jump * step)
            # An empty slice may start outside; it reads nothing.
            if len(range(start, stop, jump)):
                offset += start * step
        else:
            offset += (int(k) + extent if k < 0 else int(k)) * step
    return tuple(strides), offset


def _positions(shape, key):
    """Flat positions of the elements ``a[key]``; read-only, so that nobody need watch them."""
    found = np.array(_all_positions(shape)[key], np.int64, order="C", copy=None)
    found.flags.writeable = False
    return found


@lru_cache(maxsize=16)
def _small_positions(shape):
    return np.arange(math.prod(shape)).reshape(shape)


def _all_positions(shape):
    """The flat position of each element of an array of `shape`."""
    return _small_positions(shape) if math.prod(shape) <= 1 << 16 else np.arange(math.prod(shape)).reshape(shape)


def getitem(x, key):
    """``x[key]`` recorded."""
    value = x._v
    if type(value) is float:
        if key == () or key is Ellipsis:
            return x
        value = np.asarray(value)
    key = _clean(key)
    if _is_basic(key):
        found = value[key]
        if not tracked(x):
            return _note_view(x, plain(found if isinstance(found, np.ndarray) and found.ndim else _boxed(found)))
        strides, offset = _affine(value.shape, key)
        if isinstance(found, np.ndarray):
            shape, row = found.shape, "getitem"
        else:
            shape, row, found = (), "select", _boxed(found)
        view = apply(row, (x,), (("shape", shape), ("strides", strides)), value=found, integer=offset)
        return _note_view(x, view) if shape else view
    if not tracked(x):
        return plain(_boxed(value[key]))
    index = _positions(value.shape, key)
    return apply("gather", (x, index.reshape(-1)), (("shape", index.shape),), value=_boxed(value[key]))


def _boxed(found):
    if isinstance(found, np.float64) or isinstance(found, np.ndarray) and found.ndim == 0 and found.dtype.char == "d":
        return float(found)
    return np.asarray(found)


def _note_view(x, view):
    """Remember that `view` looks at the memory of `x`, so that a write to either is noticed."""
    if view._v is not x._v and isinstance(view._v, np.ndarray) and view._v.base is not None:
        extras = x._extras()
        alive = [r for r in extras.views or () if r() is not None]
        extras.views = [*alive, weakref.ref(view)]
        view._extras().made = weakref.ref(x)
    return view


def _check_views(x):
    extras = x._extras(False)
    if extras is None:
        return
    if extras.views and any(r() is not None for r in extras.views):
        raise ModifiedInPlaceError(
            f"a tensor of shape {tuple(x.shape)} is assigned to while a view of it (a slice x[i:j]) is alive; the view "
            "would keep the old values. Let go of the view (del) or take a copy of it with .clone() first"
        )
    if extras.made is not None and extras.made() is not None:
        raise ModifiedInPlaceError(
            f"assignment into a view of shape {tuple(x.shape)} would not reach the tensor it was sliced from; "
            "assign to that tensor directly: base[i, j] = value"
        )


def setitem(x, key, value):
    """``x[key] = value`` recorded."""
    key = _clean(key)
    value = value if isinstance(value, Tensor) else as_operand(value, "assignment")
    _check_views(x)
    enabled = thread_state().enabled
    if not (enabled and (tracked(x) or tracked(value))):
        from .inplace import assign_elements

        assign_elements(x, key, value._v if isinstance(value, Tensor) else value)
        return
    if x._t is None and x._r:
        raise GradientError(
            "a leaf tensor that requires a gradient is assigned to in place; assign under tg.no_grad(), "
            "or to a copy: y = x.clone(); y[...] = value"
        )
    old = x._v
    if type(old) is float:
        raise TypeError("a 0-d tensor has no elements to assign to; bind the name to a new value instead")
    given = value._v if isinstance(value, Tensor) else value
    basic = _is_basic(key)
    # Who else sees the array: this frame's name, the tensor, and getrefcount itself.
    if sys.getrefcount(old) > 3 or old.base is not None or not (old.flags.writeable and old.flags.c_contiguous):
        old = np.array(old, order="C")
    if basic:
        strides, offset = _affine(old.shape, key)
        window = old[key]
        shape = window.shape if isinstance(window, np.ndarray) else ()
        _check_fits(given, shape)
        del window
        old[key] = given
        attrs = (("shape", shape), ("strides", strides))
        result = apply("setitem", (x, value), attrs, value=old, integer=offset)
    else:
        index = _positions(old.shape, key)
        _check_fits(given, index.shape)
        _check_distinct(index, x)
        old[key] = given
        result = apply("put", (x, value, index.reshape(-1)), (("shape", index.shape),), value=old)
    x._become(result)


def _check_fits(given, shape):
    own = np.shape(given)
    if np.broadcast_shapes(own, shape) != tuple(shape):
        raise ValueError(f"could not broadcast input of shape {own} into the indexed part of shape {tuple(shape)}")


def _check_distinct(index, x):
    if index.size > 1:
        flat = np.sort(index, axis=None)
        if (flat[1:] == flat[:-1]).any():
            raise IndexError(
                f"assignment to a tensor of shape {tuple(x.shape)} names an element twice; which value stays is not "
                "defined, so it has no derivative. Use distinct indices"
            )




Tensor.__getitem__ = getitem
Tensor.__setitem__ = setitem

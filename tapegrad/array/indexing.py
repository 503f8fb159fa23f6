"""Indexing and indexed assignment.

Integers, slices, ``...`` and ``None`` make an affine view (`_affine`), whose
derivative is a window of the operand's adjoint; a single element of a large
array costs O(1) in both directions.  Integer arrays and masks become a gather at
flat positions, found by applying the same key to an array of positions.

Assignment is an instruction too: ``y[i] = v`` makes a new slot whose array is
the old one, changed in place, if nothing else reads the old one; else a copy.
Views of `y` see the change, as in NumPy (`tapegrad.array.views`).
"""

from __future__ import annotations

import math
import sys
from _thread import get_ident
from functools import lru_cache

import numpy as np

from ..common.errors import DtypeError, GradientError
from ..common.registry import attach
from ..rules import BY_NAME
from ..tape.meta import c_strides
from .differentiable import Differentiable
from .functions import reshape
from .inplace import argument_changed, assign_elements, is_argument
from .record import apply, apply_view, as_operand, plain, recorded, tracked
from .views import look, note_view, root_of, span, steps_of, views_of, window_of


def _clean(key):
    """The key with tensors replaced by their values."""
    if isinstance(key, Differentiable):
        value = key._let_out("an index")
        if type(value) is float:
            raise IndexError(
                "a float tensor cannot be an index; take the number out with int(t.item()), which leaves the tape"
            )
        return value if value.ndim else value[()]
    if isinstance(key, tuple):
        return tuple(_clean(k) for k in key)
    if isinstance(key, slice):
        return slice(*(_clean(k) if isinstance(k, Differentiable) else k for k in (key.start, key.stop, key.step)))
    return key


def _is_basic(key):
    return all(
        k is None or k is Ellipsis or isinstance(k, (int, np.integer, slice)) and not isinstance(k, (bool, np.bool_))
        for k in (key if isinstance(key, tuple) else (key,))
    )


def _affine(shape, key, steps, offset=0):
    """Strides and offset of ``a[key]``, for an array with strides `steps` whose first element is at `offset`."""
    keys = list(key) if isinstance(key, tuple) else [key]
    dots = next((j for j, k in enumerate(keys) if k is Ellipsis), None)
    if dots is not None:
        used = sum(k is not None for k in keys) - 1
        keys[dots : dots + 1] = [slice(None)] * (len(shape) - used)
    keys += [slice(None)] * (len(shape) - sum(k is not None for k in keys))
    strides, axis = [], 0
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
    positions = np.array(_all_positions(shape)[key], np.int64, order="C", copy=None)
    positions.flags.writeable = False
    return positions


#: Elements up to which the positions of an array are kept for the next time, and for how many shapes.
FEW, SHAPES = 1 << 16, 16


@lru_cache(maxsize=SHAPES)
def _small_positions(shape):
    return np.arange(math.prod(shape)).reshape(shape)


def _all_positions(shape):
    """The flat position of each element of an array of `shape`."""
    return _small_positions(shape) if math.prod(shape) <= FEW else np.arange(math.prod(shape)).reshape(shape)


_SELECT = BY_NAME["select"]
_ONE_ELEMENT = (("shape", ()), ("strides", ()))
_frame = sys._getframe


def getitem(x, key):
    """``x[key]`` recorded."""
    value = x._v
    kind = type(key)
    if kind is int and type(value) is not float:
        store = x._t
        if store is not None and store.ident == get_ident() and store.trace is None:
            # An element of a vector on a live tape is written as the operators write theirs.
            signature = store.signatures.get(x._m)
            index = len(store.tokens)
            if signature is not None and index < store.limit:
                selected = value.item(key)
                frame = _frame(1)
                if frame.f_code is not store.code:
                    store.note_code(frame.f_code)
                store.ops.append(signature.opcode)
                store.lefts.append((x._i, 0, key + 0.0 if key >= 0 else key + float(len(value))))
                store.rights.append(0)
                store.offsets.append(frame.f_lasti)
                store.tokens.append(selected)
                t = plain(selected)
                t._t, t._i = store, index
                return t
    if (kind is int or kind is tuple) and (x._t is not None or x._r) and type(value) is not float:
        # One element of a float64 array, in a loop: the shortest way.
        keys = (key,) if kind is int else key
        if len(keys) == value.ndim and value.dtype.char == "d" and all([type(k) is int for k in keys]):
            selected = value.item(keys)
            offset = 0
            for k, extent in zip(keys, value.shape):
                offset = offset * extent + (k if k >= 0 else k + extent)
            store = x._t
            if store is None or store.trace is None or store.ident != get_ident():
                t = apply_view(_SELECT, x, _ONE_ELEMENT, selected, offset)
                store = t._t
                if kind is int and store is not None and store.trace is None:
                    # Found by the vector's description alone from now on, in the short way above.
                    store.signatures[x._m] = store.signatures[_SELECT, _ONE_ELEMENT, (x._m,), (True,)]
                return t
            # Read again in a recording it is the same value: a finished tape would have it once anyway.
            read = store.trace.read
            slot = read.get((x._i, offset))
            if slot is None:
                t = apply_view(_SELECT, x, _ONE_ELEMENT, selected, offset)
                if t._t is store:
                    read[x._i, offset] = t._i
                return t
            t = plain(selected)
            t._t, t._i, t._k = store, slot, store.tokens[slot]
            return t
    if type(value) is float:
        if key == () or key is Ellipsis:
            return x
        value = np.asarray(value)
    key = _clean(key)
    if _is_basic(key):
        selected = value[key]
        if not tracked(x):
            return note_view(x, plain(selected if isinstance(selected, np.ndarray) and selected.ndim else _boxed(selected)))
        strides, offset = _affine(value.shape, key, c_strides(value.shape, 1))
        if isinstance(selected, np.ndarray):
            shape, row = selected.shape, "getitem"
        else:
            shape, row, selected = (), "select", _boxed(selected)
        view = apply(row, (x,), (("shape", shape), ("strides", strides)), value=selected, integer=offset)
        return note_view(x, view) if shape else view
    if not tracked(x):
        return plain(_boxed(value[key]))
    index = _positions(value.shape, key)
    return apply("gather", (x, index.reshape(-1)), (("shape", index.shape),), value=_boxed(value[key]))


def _boxed(value):
    if isinstance(value, np.float64) or isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.char == "d":
        return float(value)
    return np.asarray(value)


def setitem(x, key, value):
    """``x[key] = value`` recorded."""
    key = _clean(key)
    value = value if isinstance(value, Differentiable) else as_operand(value, "assignment")
    root, window = root_of(x)
    if not recorded(root, value):
        assign_elements(x, key, value._v if isinstance(value, Differentiable) else value)
        return
    if root._t is None and root._r:
        raise GradientError(
            "a leaf tensor that requires a gradient (or a view of one) is assigned to in place; assign under "
            "tg.no_grad(), or to a copy: y = x.clone(); y[...] = value"
        )
    if is_argument(root):
        raise argument_changed()
    array = x._v
    if type(array) is float:
        raise TypeError("a 0-d tensor has no elements to assign to; bind the name to a new value instead")
    if array.dtype.kind != "f":
        raise DtypeError(
            f"a value that requires a gradient is assigned into a tensor of dtype {array.dtype}, which would round it "
            "and cut its derivative; make that tensor with tg.zeros or .astype(float)"
        )
    steps, start = steps_of(x, window)
    if any(n > 1 and step == 0 for n, step in zip(array.shape, steps)):
        raise ValueError(
            "assignment destination is read-only: a broadcast view shows each element several times; assign to a copy (.clone())"
        )
    if _is_basic(key):
        part = array[key]
        shape = part.shape if isinstance(part, np.ndarray) else ()
        del part
        value = _fitting(value, shape)
        strides, offset = _affine(array.shape, key, steps, start)
        if isinstance(value, Differentiable) and _is_view(value, root, shape, strides, offset):
            # ``x[i:j] += 1`` has written through the view already.
            return
        del array
        _write(root, value, shape, strides, offset)
    else:
        index = np.arange(root.size)
        index = np.array(look(index, array.shape, steps, start)[key], np.int64, order="C")
        index.flags.writeable = False
        _check_distinct(index, x)
        value = _fitting(value, index.shape)
        del array
        _write(root, value, index.shape, index=index)


def _write(root, value, shape, strides=None, offset=0, index=None):
    """Record the assignment of `value` to a window of `root`, or to positions; its views follow."""
    views, apart = views_of(root), []
    if index is None and views and shape and 0 not in shape:
        low, high = span(shape, strides, offset)
        beside = [span(*v[1:])[0] > high or low > span(*v[1:])[1] for v in views]
        views, apart = [v for v, b in zip(views, beside) if not b], [v for v, b in zip(views, beside) if b]
    for view, *_ in views + apart:
        if view is not value:
            view._v = None
    old = root._v
    # Who else sees the array: the tensor, this name, and getrefcount itself.
    if sys.getrefcount(old) > 3 or old.base is not None or not (old.flags.writeable and old.flags.c_contiguous):
        old = np.array(old, order="C")
    new = value._v if isinstance(value, Differentiable) else value
    if index is None:
        if shape:
            look(old, shape, strides, offset)[...] = new
        else:
            old.reshape(-1)[offset] = new
        attrs = (("shape", shape), ("strides", strides))
        root._become(apply("setitem", (root, value), attrs, value=old, integer=offset))
    else:
        old.reshape(-1)[index] = new
        root._become(apply("put", (root, value, index.reshape(-1)), (("shape", shape),), value=old))
    for view, shape, strides, offset in apart:
        # The same elements, maybe in new memory.
        view._v = look(old, shape, strides, offset)
    for view, shape, strides, offset in views:
        attrs = (("shape", shape), ("strides", strides))
        view._become(apply("getitem", (root,), attrs, value=look(old, shape, strides, offset), integer=offset))


def _is_view(value, root, shape, strides, offset):
    extras = value._extras(False)
    if extras is None or extras.made is not root or value.shape != shape:
        return False
    window = window_of(root, value)
    return window is not None and window[1] == offset and all(
        n == 1 or s == t for n, s, t in zip(shape, strides, window[0])
    )


def _fitting(value, shape):
    """`value` checked against the part it is assigned to; extra leading axes of extent 1 are dropped."""
    own = value.shape if isinstance(value, Differentiable) else np.shape(value)
    extra = len(own) - len(shape)
    if extra > 0 and own[:extra] == (1,) * extra:
        own = own[extra:]
        value = reshape(value, own) if isinstance(value, Differentiable) else np.reshape(value, own)
    if own != shape and np.broadcast_shapes(own, shape) != tuple(shape):
        raise ValueError(f"could not broadcast input of shape {own} into the indexed part of shape {tuple(shape)}")
    return value


def _check_distinct(index, x):
    if index.size > 1:
        flat = np.sort(index, axis=None)
        if (flat[1:] == flat[:-1]).any():
            raise IndexError(
                f"assignment to a tensor of shape {tuple(x.shape)} names an element twice; which value stays is not "
                "defined, so it has no derivative. Use distinct indices"
            )


attach(Differentiable, {"__getitem__": getitem, "__setitem__": setitem})

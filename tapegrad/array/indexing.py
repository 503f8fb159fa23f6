"""Indexing and indexed assignment.

Integers, slices, ``...`` and ``None`` make an affine view (`_affine`), whose
derivative is a window of the operand's adjoint; a single element of a large
array costs O(1) in both directions.  Integer arrays and masks become a gather at
flat positions, found by applying the same key to an array of positions.  In a recording
the integers of a key may be live: then the positions are computed from them at each replay (`live_positions`).

Assignment is an instruction too: ``y[i] = v`` makes a new slot whose array is
the old one, changed in place, if nothing else reads the old one; else a copy.
Views of `y` see the change, as in NumPy (`tapegrad.array.views`).
"""

from _thread import get_ident

import numpy as np

from ..common.dtypes import NUMBERS
from ..common.errors import DtypeError, GradientError
from ..common.host_functions import host_function
from ..common.registry import attach, registry
from ..common.tree import parts_of
from ..interpreter.fields import data_address, place, record_element, record_row
from ..rules import BY_NAME
from ..rules.shaping import look
from ..tape.layout import c_strides
from ..tape.store import thread_state
from .assigning import check_distinct, has_alone, has_tangent_alone, owner_of, write
from .differentiable import Differentiable
from .dual import Dual, made
from .functions import broadcast_to, concatenate, frozen, moved_by, positions_of, ravel, reshape, where
from .operators import argument_changed, assign_elements, is_argument
from .record import apply, as_operand, computed, current_body, guard_on, normalise, plain, record_aux, recorded, tracked
from .tensor import Tensor
from .views import note_view, root_of, steps_of, window_of


def _clean(key, live=False):
    """The key with tensors replaced by their values, which a recording guards; with `live`, those of integers are not."""
    if isinstance(key, Differentiable):
        value = key._v if live and key.__class__ is registry.IntTensor else key._let_out("an index")
        if type(value) is float:
            raise IndexError("a float tensor cannot be an index; take the number out with int(t.item()), which leaves the tape")
        return value if value.ndim else value[()]
    if isinstance(key, tuple):
        return tuple(_clean(k, live) for k in key)
    if isinstance(key, slice):
        parts = key.start, key.stop, key.step
        return slice(*map(_clean, parts)) if any([isinstance(k, Differentiable) for k in parts]) else key
    return key


def is_basic(key):
    """Whether NumPy answers ``a[key]`` with a view or an element."""
    for k in key if isinstance(key, tuple) else (key,):
        if not (k is None or k is Ellipsis or isinstance(k, (int, np.integer, slice)) and not isinstance(k, (bool, np.bool_))):
            return False
    return True


def _in_order(array):
    """`array`, or one of its shape that is stored row by row."""
    return array if array.flags.c_contiguous else np.empty(array.shape, np.int8)


def _affine(array, key, part):
    """Strides and offset, in elements in the memory of `array`, of ``array[key]``, which is `part`."""
    if part.__class__ is not np.ndarray:
        keys = key if isinstance(key, tuple) else (key,)
        # With an ellipsis one element is a view, too.
        part = array[keys if any([k is Ellipsis for k in keys]) else (*keys, ...)]
    item = array.itemsize
    # An empty part may start anywhere; it reads nothing.
    return tuple([s // item for s in part.strides]), (data_address(part) - data_address(array)) // item if part.size else 0


def _is_live(key):
    """Whether integers of a recording stand in `key`, of more than a slice."""
    whole = registry.IntTensor
    if key.__class__ is not tuple:
        return key.__class__ is whole and (key.ndim > 0 or key.dtype != bool)
    # A single truth value adds an axis: that is guarded.
    live = [k for k in key if k.__class__ is whole]
    return bool(live) and all([k.ndim or k.dtype != bool for k in live]) and not any([type(k) in (bool, np.bool) for k in key])


def live_positions(shape, key, steps, start=0):
    """Flat positions of ``a[key]``, computed from the live integers in `key`: a live tensor of one axis, and the shape of ``a[key]``.

    Parameters
    ----------
    shape : tuple of int
        Of the indexed array; NumPy has taken `key` for it already.
    key
    steps, start : tuple of int, int
        Where its elements are.
    """
    key = [_settled(k) for k in (key if isinstance(key, tuple) else (key,))]
    key = [k for one in key for k in (nonzero(one) if getattr(one, "dtype", None) == np.dtype(bool) else (one,))]
    arrays = [j for j, k in enumerate(key) if _is_array(k)]
    dots = next((j for j, k in enumerate(key) if k is Ellipsis), len(key))
    used = sum(k is not None and k is not Ellipsis for k in key)
    axes = [sum(k is not None for k in key[:j]) + (len(shape) - used - 1 if j > dots else 0) for j in arrays]
    ndim = max(key[j].ndim for j in arrays)
    # The same key with one element instead of each array gives where to count from.
    zero = np.zeros((1,) * ndim, np.int64)
    first = tuple([zero if j in arrays else k for j, k in enumerate(key)])
    whole = np.zeros((1,) * len(shape), np.int64)
    for axis, (extent, step) in enumerate(zip(shape, steps)):
        whole = whole + (np.arange(1 if axis in axes else extent) * step).reshape((-1,) + (1,) * (len(shape) - 1 - axis))
    base = np.array(whole[first] + start, np.int64, order="C")
    together = [j for j, k in enumerate(key) if _is_array(k) or isinstance(k, (int, np.integer))]
    lead = 0
    if together == list(range(together[0], together[-1] + 1)):
        before = together[0]
        lead = before if dots > before else before - 1 + len(shape) - used
    trail = base.ndim - ndim - lead
    data = tuple([int(shape[a]) for a in axes]), tuple([int(steps[a]) for a in axes]), trail
    result = np.broadcast_shapes(base.shape, *[key[j].shape + (1,) * trail for j in arrays])
    return record_aux(_indexed(*data), base, *[key[j] for j in arrays]), result


def nonzero(x):
    """``np.nonzero`` of an array, or of live integers, whose result stays live; how many there are is guarded."""
    if not isinstance(x, Differentiable):
        return np.nonzero(x)
    return tuple([record_aux(_nonzero_along(axis), x) for axis in range(x.ndim)])


@host_function
def _nonzero_along(mask, axis):
    return np.nonzero(mask)[axis]


def _is_array(k):
    return isinstance(k, (np.ndarray, Differentiable))


def _settled(k):
    """A part of a key as NumPy takes it; only live integers stay tensors."""
    if isinstance(k, registry.IntTensor):
        return k
    k = _clean(k)
    return np.asarray(k, None if np.size(k) else np.int64) if isinstance(k, (list, tuple, np.ndarray)) else k


@host_function
def _indexed(*operands):
    """Flat positions ``base + sum(index * step)``; negative indices count from the end, and all are looked at."""
    total, *indices, extents, steps, trail = operands
    for index, extent, step in zip(indices, extents, steps):
        if index.size and (index.min() < -extent or index.max() >= extent):
            raise IndexError(f"an index is out of bounds for an axis of size {extent}")
        index = np.where(index < 0, index + extent, index).astype(np.int64)
        total = total + (index * step).reshape(index.shape + (1,) * trail)
    total = total.reshape(-1)
    total.flags.writeable = False
    return total


_SELECT, _SETITEM = BY_NAME["select"], BY_NAME["setitem"]
_INTEGERS = (int, np.int64)
_ONE_ELEMENT = (("shape", ()), ("strides", ()))


def _position(keys, shape):
    """The flat position of one element, whose keys are integers."""
    position = 0
    for k, extent in zip(keys, shape):
        position = position * extent + (k if k >= 0 else k + extent)
    return position


def getitem(x, key):
    """``x[key]`` recorded; of a tensor `element` stands between it and the user's code."""
    value = x._v
    kind = type(key)
    if (kind is int or kind is tuple) and (x._t is not None or x._r) and type(value) is not float:
        # One element of a float64 array, in a loop: the shortest way.
        keys = (key,) if kind is int else key
        if len(keys) == value.ndim and value.dtype.char == "d" and all([type(k) is int for k in keys]):
            selected, offset, store = value.item(keys), _position(keys, value.shape), x._t
            # Read again in a recording it is the same value: a finished tape would have it once anyway.
            read = {} if store is None or store.trace is None or store.ident != get_ident() else store.trace.read
            slot = read.get((x._i, offset))
            if slot is not None:
                t = plain(selected)
                place(t, store, slot)
                return t
            t = apply(_SELECT, (x,), _ONE_ELEMENT, selected, offset, 4)
            if t._t is not None and t._t.trace is None:
                # Found by the array's description alone from now on, in the short way below.
                t._t.signatures[x._m] = t._t.signatures[_SELECT, _ONE_ELEMENT, (x._m,), (True,)]
            elif t._t is store:
                read[x._i, offset] = t._i
            return t
    if type(value) is float:
        if key is Ellipsis or key.__class__ is tuple and not key:
            return x
        value = np.asarray(value)
    live, key = key if _is_live(key) else None, _clean(key, live=True)
    if live is not None:
        selected = computed(value.__getitem__, (key,), (x, *parts_of(live, Differentiable)))
        positions, shape = live_positions(value.shape, live, c_strides(value.shape, 1))
        return apply("gather", (x, positions), (("shape", shape),), value=normalise(selected))
    if is_basic(key):
        selected = value[key]
        if not tracked(x):
            return note_view(x, plain(normalise(selected)))
        if x._is_dual and x._p is None and (x._d is None or x._d.__class__ is np.ndarray):
            lanes = () if x._lanes is None else (slice(None),)
            tangent = None if x._d is None else normalise(x._d[(*lanes, *(key if key.__class__ is tuple else (key,)))])
            return note_view(x, made(normalise(selected), tangent, x._lanes, x._level))
        array = _in_order(value)
        strides, offset = _affine(array, key, selected if array is value else None)
        if isinstance(selected, np.ndarray):
            shape, row = selected.shape, "getitem"
        else:
            shape, row, selected = (), "select", normalise(selected)
        view = apply(row, (x,), (("shape", shape), ("strides", strides)), value=selected, integer=offset, depth=4)
        return note_view(x, view) if shape else view
    if not tracked(x):
        return plain(normalise(value[key]))
    index = frozen(positions_of(value.shape)[key])
    return apply("gather", (x, index.reshape(-1)), (("shape", index.shape),), value=normalise(value[key]))


def setitem(x, key, value):
    """``x[key] = value`` recorded."""
    live = key if _is_live(key) else None
    value = value if isinstance(value, Differentiable) else as_operand(value, "assignment")
    root, window = root_of(x)
    if value.__class__ is registry.IntTensor and x.__class__ is registry.Tensor and x._t is None and x.dtype.kind in "biu":
        # An array of the function's own becomes part of the recording.
        raise value._t.trace.refused("integers of a recorded function are put into a tensor of integers; make that an array with .copy()")
    known = not recorded(root, value)
    value, masked = _for_mask(x, live, value)
    live = None if known else live
    key = _clean(key, live=live is not None)
    if type(x._v) is float and not (key is Ellipsis or key.__class__ is tuple and not key):
        shape = np.empty(())[key].shape
        if 0 not in shape:
            setitem(x, (), reshape(_fitting(value, shape), ()))
        return
    if known:
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
        # A dual number stays one, whatever is assigned.
        root._become(where(True, _fitting(value, ()), x))
        return
    if array.dtype.kind != "f" and x.__class__ is not registry.IntTensor:
        raise DtypeError(
            f"a value that requires a gradient is assigned into a tensor of dtype {array.dtype}, which would round it "
            "and cut its derivative; make that tensor with tg.zeros or .astype(float)"
        )
    root, window = owner_of(x)
    array = x._v
    if masked:
        setitem(x, Ellipsis, where(reshape(live, (*live.shape, *(1,) * (array.ndim - live.ndim))), value, x))
        return
    steps, start = steps_of(x, window)
    check_distinct(array.shape, steps)
    if live is None and is_basic(key):
        array = array if window is not None else _in_order(array)
        part = array[key]
        shape = part.shape if isinstance(part, np.ndarray) else ()
        strides, offset = _affine(array, key, part)
        del part
        value, offset = _fitting(value, shape), start + offset
        if isinstance(value, Differentiable) and _is_view(value, root, shape, strides, offset):
            # ``x[i:j] += 1`` has written through the view already.
            return
        del array
        write(root, value, shape, strides, offset)
    else:
        index = look(np.arange(root.size), array.shape, steps, start)
        index = frozen(computed(index.__getitem__, (key,), [*parts_of(live, Differentiable)]))
        value, positions = _fitting(value, index.shape), index.reshape(-1)
        if live is not None:
            positions, _ = live_positions(array.shape, live, steps, start)
        del array
        if index.size > 1 and guard_on(_repeats(root.size), positions):
            # The last value written to an element stays, as in NumPy.
            both = concatenate([ravel(root), ravel(broadcast_to(value, index.shape))])
            value = moved_by(both, _written_last(root.shape), positions)
            write(root, value, root.shape, c_strides(root.shape, 1))
        else:
            write(root, value, index.shape, index=index, positions=positions)


def _for_mask(x, key, value):
    """`value` without leading axes of extent 1, and True, if `key` is a live mask and it goes to all places alike: one path for all masks."""
    if key.__class__ is not registry.IntTensor or key.dtype != bool or not key.ndim or key.shape != x.shape[: key.ndim]:
        return value, False
    shape = getattr(value, "shape", ())
    extra = max(0, len(shape) - x.ndim + key.ndim)
    if shape[:extra] != (1,) * extra:
        return value, False
    return value.reshape(shape[extra:]) if extra else value, True


@host_function
def _repeats(positions, count):
    """Whether a position, of so many that there are, occurs twice."""
    flat = np.sort(positions)
    return (flat[1:] == flat[:-1]).any()


@host_function
def _written_last(positions, shape):
    """Where in an array of `shape`, and what is assigned to `positions` of it, each element then is."""
    places = positions_of(shape).copy()
    places.reshape(-1)[positions] = places.size + np.arange(positions.size)
    return frozen(places)


def _is_view(value, root, shape, strides, offset):
    extras = value._extras(False)
    if extras is None or extras.made is not root or value.shape != shape:
        return False
    window = window_of(root, value)
    return window is not None and window[1] == offset and all(n == 1 or s == t for n, s, t in zip(shape, strides, window[0]))


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


def element(self, key):
    """`getitem` of a tensor; an element, once one of such an array has been recorded, takes a short way."""
    store, array, kind = thread_state().store if self._t is None else self._t, self._v, key.__class__
    if kind is np.int64:
        # Of ``np.arange``, or another position that NumPy gave.
        key, kind = int(key), int
    if (kind is int or kind is tuple) and type(array) is not float and store.trace is None:
        signature, t = store.signatures.get(self._m), None
        if signature is not None and kind is int and array.ndim == 1:
            t = record_element(signature.opcode, self, key if key >= 0 else key + len(array), array.item(key))
        elif signature is not None and kind is tuple and len(key) == array.ndim and all([k.__class__ is int for k in key]):
            t = record_element(signature.opcode, self, _position(key, array.shape), array.item(key))
        if t is not None:
            return t
    return getitem(self, key)


def assign(self, key, value):
    """`setitem` of a tensor; a part of an array takes a short way, but for the first time, if the tensor has its memory alone."""
    if not _shortly(self, key, value):
        setitem(self, key, value)


def _shortly(x, key, value):
    """Whether ``x[key] = value`` has been done in a short way, or there was nothing left to do."""
    store = x._t
    if store is None or store.trace is not None or x._v.__class__ is not np.ndarray or x._k is not None or store.retained:
        return False
    value = float(value) if value.__class__ in NUMBERS else value
    new = value._v if value.__class__ is Tensor else value
    if _has_no_views(x) and has_alone(x):
        array = x._v
        attrs, offset = _part(array, key)
        if attrs is not None and (new.__class__ is float or new.__class__ is np.ndarray and new.shape == attrs[0][1]):
            t = record_row(_SETITEM, attrs, x, value, array, offset)
            if t is not None:
                array[key] = new
                place(x, t._t, t._i)
                return True
    elif new is not value and new.__class__ is np.ndarray and value._x is not None and value._x.made is x and store.thread.enabled:
        # ``x[i:j] += 1`` has written through the view already.
        attrs, offset = _part(x._v, key)
        return attrs is not None and _is_view(value, x, attrs[0][1], attrs[1][1], offset)
    return False


def assign_dual(x, key, value):
    """`setitem` of a dual number; a part of an array takes a short way if the number has its memory, and that of its tangent, alone."""
    if not _shortly_carried(x, key, value):
        setitem(x, key, value)


def _shortly_carried(x, key, value):
    """Whether ``x[key] = value``, of a dual number, has been done in a short way."""
    if x._p is not None or not x._v.__class__ is x._d.__class__ is np.ndarray or current_body() is not None:
        return False
    if not (_has_no_views(x) and has_alone(x) and has_tangent_alone(x)):
        return False
    array, tangent, new, of_new = x._v, x._d, float(value) if value.__class__ in NUMBERS else value, None
    if new.__class__ is Dual and new._p is None and new._level == x._level and new._lanes == x._lanes:
        new, of_new = new._v, new._d
    attrs, _ = _part(array, key)
    if attrs is None or not _has_own_rows(tangent) or of_new is not None and of_new.__class__ is not np.ndarray and of_new.__class__ is not float:
        return False
    if new.__class__ is not float and (new.__class__ is not np.ndarray or new.shape != attrs[0][1] or new.dtype != array.dtype):
        return False
    keys = key if key.__class__ is tuple else (key,)
    if new.__class__ is float and of_new.__class__ is np.ndarray:
        # One for each lane, of a number that goes to all places.
        of_new = of_new.reshape(-1, *[1] * len(attrs[0][1]))
    array[keys] = new
    tangent[keys if x._lanes is None else (slice(None), *keys)] = 0.0 if of_new is None else of_new
    return True


def _has_no_views(x):
    """Whether no tensor looks at the memory of `x`, nor `x` at that of another."""
    extras = x._x
    return extras is None or not extras.views and extras.made is None


def _has_own_rows(array):
    """Whether an array has memory of its own, row by row."""
    return array.base is None and array.flags.carray


def _part(array, key):
    """The attributes of `setitem` and the offset of a part of an array that `_has_own_rows`; None and 0 of any other."""
    if not _has_own_rows(array):
        return None, 0
    shape, keys = array.shape, key if key.__class__ is tuple else (key,)
    if len(keys) == len(shape) and all([k.__class__ in _INTEGERS and -n <= k < n for k, n in zip(keys, shape)]):
        return _ONE_ELEMENT, _position(keys, shape)
    if not is_basic(key) or any([k.__class__ is slice and _clean(k) is not k for k in keys]):
        return None, 0
    part = array[key]
    strides, offset = _affine(array, key, part)
    return (("shape", part.shape), ("strides", strides)), offset


attach(Differentiable, {"__getitem__": getitem, "__setitem__": setitem})
attach(Tensor, {"__getitem__": element, "__setitem__": assign})
attach(Dual, {"__setitem__": assign_dual})

"""Views: tensors that look at the memory of another, as slices and reshapes do in NumPy.

On the tape a write makes a new value (`tapegrad.array.indexing`), but a program must
not be able to tell: code that writes to a tensor or to a view of it sees the
change in all of them.  So a tensor knows its living views weakly, a view knows
the tensor that owns the memory (its root), and a write is made to the root,
whose views are then read again.  Where in the root a view looks is found from
the addresses of the two arrays, at the time of a write.
"""

import weakref

import numpy as np

from ..common.dtypes import by_rows
from ..common.errors import ModifiedInPlaceError
from ..interpreter.fields import data_address
from ..tape.layout import c_strides


def _living(views):
    """The views that still exist, of weak references by id."""
    return [v for v in (r() for r in list(views.values())) if v is not None]


def note_view(x, view):
    """Remember that `view` looks at the memory of `x` (if it does); returns `view`."""
    value = view._v
    if type(value) is np.ndarray and value is not x._v and value.base is not None and view is not x:
        root = x._extras().made
        if root is None or float in (type(root._v), type(x._v)) or not np.may_share_memory(root._v, x._v):
            root = x
        views, key = root._extras().views, id(view)
        views[key] = weakref.ref(view, lambda _: views.pop(key, None))
        view._extras().made = root
    return view


def source_of(x):
    """The tensor that `x` was detached or made from, through any number of steps: it shares the whole memory of `x`."""
    extras = x._extras(False)
    return x if extras is None or extras.source is None else extras.source


def note_leaf(x, leaf):
    """Remember that `leaf` shares the memory of `x`, which is no view."""
    leaf._extras().source = source = source_of(x)
    extras = source._extras()
    extras.leaves = (*(r for r in extras.leaves if r() is not None), weakref.ref(leaf))


def sharers(x):
    """The tensors on no tape that may look at the memory of constant or leaf `x`, besides itself."""
    root = root_of(x)[0]
    source = source_of(root)
    tensors = [root, source, *(r() for r in source._extras().leaves)]
    for t in (root, source):
        if t._x is not None:
            tensors += _living(t._x.views)
    return [t for t in tensors if t is not None and t is not x and t._t is None]


def window_of(root, view):
    """Strides and offset of what `view` looks at, in elements of `root` as they lie in memory; None if at other memory."""
    owner, array = root._v, view._v
    if type(owner) is float or type(array) is float or array.size == 0:
        return None
    start, item = data_address(array) - data_address(owner), owner.itemsize
    extent = sum(abs(s) * (n - 1) for s, n in zip(owner.strides, owner.shape)) + item
    if not 0 <= start < extent:
        return None
    if not (owner.flags.c_contiguous or by_rows(owner)[0].flags.c_contiguous):
        raise ModifiedInPlaceError(
            f"a tensor of shape {tuple(root.shape)} whose elements lie apart in memory is written to while a view of "
            "it is alive; write to a copy made with .copy(), or let go of the view (del) first"
        )
    return tuple([s // item for s in array.strides]), start // item


def root_of(x):
    """The tensor that owns the memory `x` looks at, and the window of `x` in it (None: `x` itself)."""
    extras = x._extras(False)
    if extras is None or extras.made is None:
        return x, None
    window = window_of(extras.made, x)
    return (x, None) if window is None else (extras.made, window)


def views_of(root):
    """Living views that look at the memory of `root`: list of (view, shape, strides, offset)."""
    extras = root._extras(False)
    if extras is None:
        return []
    windows = [(view, window_of(root, view)) for view in _living(extras.views)]
    return [(view, view.shape, *window) for view, window in windows if window is not None]


def span(shape, strides, offset):
    """Lowest and highest flat position of a window."""
    low = offset + sum(s * (n - 1) for s, n in zip(strides, shape) if s < 0)
    high = offset + sum(s * (n - 1) for s, n in zip(strides, shape) if s > 0)
    return low, high


def steps_of(x, window):
    """Strides of the elements of `x` and position of the first: in its root, or in `x` itself."""
    return (c_strides(x.shape, 1), 0) if window is None else window

"""What assignments build on: a write that is recorded, and the value of a constant or a leaf that is replaced outside of the tape."""

import sys

import numpy as np

from ..common.dtypes import by_rows, plain_array
from ..common.errors import GradientError
from ..common.registry import registry
from ..rules.shaping import look
from ..tape.layout import meta_of
from ..tape.places import caller_place
from ..tape.store import thread_state
from .differentiable import Differentiable
from .record import apply, choose_store, current_body, normalise, trace_of
from .views import note_view, root_of, sharers, span, views_of, window_of


def note_change(x):
    """Note that the memory of constant or leaf `x`, and of what it shares memory with, has changed here."""
    extras = x._extras()
    x._k = object()
    place = extras.changed = caller_place(4)
    if extras.made is None and extras.source is None and not extras.views and not extras.leaves:
        return
    for t in sharers(x):
        t._k = object()
        t._extras().changed = place


def before_change(x):
    """Refuse a computed tensor; of a constant, tapes that watch its memory keep what that holds now."""
    if x._t is not None:
        raise GradientError(
            f"a computed tensor of shape {tuple(x.shape)} ({x.grad_fn.name()}) is changed in place while recording is "
            "off; its instruction would keep the old value. Change a copy (x.detach().clone()), or do it with recording on"
        )
    root = root_of(x)[0]
    extras = root._extras(False)
    if extras is not None and extras.kept:
        extras.kept, state = False, thread_state()
        for store in {state.store, state.anonymous, *(tape.store for tape in state.tapes)}:
            store.watched.spare(root._v, store.objects)


def assign_value(x, value):
    """Replace the whole value of `x` (the setter of ``.data``)."""
    value = registry.objects.operand(value)
    if (trace := trace_of((x, value))) is not None and (x._t is None or not x.requires_grad):
        raise trace.refused("it sets the .data of a tensor, of what depends on an argument or to that, which no replay would do")
    value = normalise(plain_array(value._v if isinstance(value, Differentiable) else value, ".data"))
    if np.shape(value) != x.shape:
        raise ValueError(f"the new value of shape {np.shape(value)} does not fit a tensor of shape {tuple(x.shape)}")
    before_change(x)
    if (body := current_body()) is not None:
        body.about_to_change(x)
    x._v = value
    if type(value) is not float:
        x._m = meta_of(value)
    note_change(x)


_probe = object.__new__(Differentiable)
_probe._v = object()
#: The references to a value, or tangent, that is in no variable, and that only one tensor has.
_ALONE = sys.getrefcount(_probe._v)


def has_alone(x):
    """Whether only `x` has its value, which is in no variable."""
    return sys.getrefcount(x._v) == _ALONE


def has_tangent_alone(x):
    """Whether only the dual number `x` has its tangent, which is in no variable."""
    return sys.getrefcount(x._d) == _ALONE


def owner_of(x):
    """`root_of` of a tensor that is written to on a tape; one with its elements in another order than C's becomes a view of one by rows."""
    root, window = root_of(x)
    if type(root._v) is float or root._v.flags.c_contiguous:
        return root, window
    array, axes = by_rows(root._v)
    if not array.flags.c_contiguous:
        return root, window
    step = array.itemsize
    views = [*views_of(root), (root, root.shape, tuple([s // step for s in root._v.strides]), 0)]
    rows = apply("transpose", (root,), (("axes", tuple(axes)),), value=array.copy())
    root._extras().views.clear()
    for view, *window in views:
        view._v, view._x.made = look(rows._v, *window), None
        note_view(rows, view)
    return rows, window_of(rows, x)


def check_distinct(shape, steps):
    """Refuse to write to a view that shows an element more than once."""
    if 0 not in shape and any([n > 1 and step == 0 for n, step in zip(shape, steps)]):
        raise ValueError(
            "assignment destination is read-only: a broadcast view shows each element several times; assign to a copy (.clone())"
        )


def write(root, value, shape, strides=None, offset=0, index=None, positions=None):
    """Record the assignment of `value` to a window of `root`, or to `positions` that are `index`; its views follow."""
    if thread_state().enabled:
        # What cannot be recorded together is refused before memory changes.
        choose_store([t for t in (root, value) if isinstance(t, registry.Tensor) and t._t is not None])
    views, apart = views_of(root), []
    if index is None and views and shape and 0 not in shape:
        low, high = span(shape, strides, offset)
        beside = [span(*v[1:])[0] > high or low > span(*v[1:])[1] for v in views]
        views, apart = [v for v, b in zip(views, beside) if not b], [v for v, b in zip(views, beside) if b]
    for view, *_ in views + apart:
        if view is not value:
            view._v = None
    new = value._v if isinstance(value, Differentiable) else value
    # (At computed places, a recording wants to know what a constant held.)
    shared = not has_alone(root) or root._t is None and isinstance(positions, Differentiable)
    old = root._v
    if shared or old.base is not None or not (old.flags.writeable and old.flags.c_contiguous):
        old = np.array(old, order="C")
    if index is None:
        if shape:
            look(old, shape, strides, offset)[...] = new
        else:
            old.reshape(-1)[offset] = new
        attrs = (("shape", shape), ("strides", strides))
        root._become(apply("setitem", (root, value), attrs, value=old, integer=offset))
    else:
        old.reshape(-1)[index] = new
        root._become(apply("put", (root, value, positions), (("shape", shape),), value=old))
    for view, shape, strides, offset in apart:
        # The same elements, maybe in new memory.
        view._v = look(old, shape, strides, offset)
    for view, shape, strides, offset in views:
        attrs = (("shape", shape), ("strides", strides))
        view._become(apply("getitem", (root,), attrs, value=look(old, shape, strides, offset), integer=offset))

"""The value of a constant or a leaf is replaced, outside of the tape: the setter of ``.data``, and what `inplace` builds on."""

import numpy as np

from ..common.dtypes import plain_array
from ..common.errors import GradientError
from ..common.registry import registry
from ..tape.meta import meta_of
from ..tape.places import caller_place
from ..tape.store import thread_state
from .differentiable import Differentiable
from .record import normalise
from .traces import current_body, trace_of
from .views import root_of, sharers


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

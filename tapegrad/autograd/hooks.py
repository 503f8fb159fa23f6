"""Gradients as they reach leaves and computed tensors: ``.grad``, hooks, ``retain_grad``."""

import threading
import weakref

import numpy as np

from ..array.differentiable import Differentiable
from ..array.record import normalise, plain, store_of, tracked
from ..array.tensor import Tensor
from ..common.errors import GradientError, SeedShapeError
from ..common.observers import RemovableHandle
from ..common.uninterrupted import remade
from ..interpreter.fields import place
from ..tape.modes import enable_grad
from .reading import second_backward_error

_ACCUMULATE = remade(threading.Lock())


def accumulate(leaf, value):
    """Add `value` (as tensors hold it, given away; or a tensor on a tape) to ``leaf.grad``."""
    with _ACCUMULATE:
        extras = leaf._extras()
        grad = extras.grad
        if isinstance(value, Tensor) or grad is not None and grad._t is not None:
            # A gradient on a tape is never changed: the sum is another tensor.
            if isinstance(value, Tensor):
                with enable_grad():
                    extras.grad = _own(value) if grad is None else grad + value
            else:
                extras.grad = plain(normalise(grad._v + value))
        elif grad is None:
            extras.grad = plain(value)
        elif type(value) is float:
            extras.grad._v = extras.grad._v + value
        else:
            extras.grad._v += value


def _own(t):
    """A new tensor of what `t` holds: what changes it in place changes no other gradient."""
    if t._t is None:
        return t.clone()
    # (An instruction that changes what another tensor holds, too, copies it.)
    own = plain(t._v)
    place(own, t._t, t._i)
    return own


def as_tensor(value):
    """A gradient as its owner gets it: the tensor it is, or a constant."""
    return value if isinstance(value, Differentiable) else plain(normalise(np.array(value) if isinstance(value, np.ndarray) else value))


def run_hooks(hooks, value, recorded):
    """Pass a gradient through tensor hooks; if the pass is `recorded`, they may answer with tensors on the tape."""
    for hook in list(hooks.values()) if hooks else ():
        changed = hook(as_tensor(value))
        if changed is not None:
            value = replaced(changed, value, recorded)
    return value


def replaced(new, value, recorded):
    """What a hook gave instead of `value`."""
    if isinstance(new, Differentiable) and not (recorded and tracked(new)):
        new = new._let_out("what a hook returns")
    if np.shape(new) != np.shape(value):
        raise SeedShapeError(f"a hook returned a gradient of shape {np.shape(new)} for {np.shape(value)}")
    return new if isinstance(new, Differentiable) else normalise(np.array(new, getattr(value, "dtype", np.float64), order="C"))


def through_hooks(hooks, row, gradients, g, recorded):
    """Pass what a node hands to its operands (None: nothing) through the hooks on it."""
    for hook in list(hooks):
        returned = hook(tuple(None if v is None else as_tensor(v) for v in gradients), (as_tensor(g),))
        if returned is not None:
            returned = returned if isinstance(returned, tuple) else (returned,)
            if len(returned) != len(gradients):
                raise GradientError(f"a hook on {row.node_name} returned {len(returned)} gradients for {len(gradients)}")
            gradients = [new if v is None or new is None else replaced(new, v, recorded) for new, v in zip(returned, gradients)]
    return gradients


def _interior_slot(tensor):
    store = store_of(tensor)
    if store.retired is not None:
        raise second_backward_error(store, tensor._i)
    return store, tensor._i


def register_hook(tensor, hook):
    """See `Tensor.register_hook`."""
    if not tensor.requires_grad:
        raise GradientError("cannot register a hook on a tensor that doesn't require gradient")
    if tensor._t is None:
        extras = tensor._extras()
        extras.hooks = {} if extras.hooks is None else extras.hooks
        return RemovableHandle(extras.hooks, hook)
    store, slot = _interior_slot(tensor)
    return RemovableHandle(called_back(store).hooks.setdefault(slot, {}), hook)


def called_back(store):
    """`store`, whose backward passes are to call a hook: no replay would."""
    if store.trace is not None:
        raise store.trace.refused("it registers a hook")
    return store


def retain_grad(tensor):
    """See `Tensor.retain_grad`."""
    if not tensor.requires_grad:
        raise GradientError("can't retain_grad on a tensor that does not require grad")
    if tensor._t is not None:
        store, slot = _interior_slot(tensor)
        store.retained[slot] = weakref.ref(tensor)
        # ``t += ...`` goes the general way, which retains the result.
        tensor._extras()


def release_grad(tensor):
    """Undo `retain_grad`; returns whether it was called."""
    return store_of(tensor).retained.pop(tensor._i, None) is not None


def retains_grad(tensor):
    """See `Tensor.retains_grad`."""
    return tensor._t is not None and tensor._i in store_of(tensor).retained

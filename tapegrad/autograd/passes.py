"""``backward(create_graph=True)``: a backward pass that records what it computes.

Marking, checks, hooks and requested inputs are those of `tapegrad.autograd.backward`; the walk
is that of `adjoint`.  Nothing is cleared, also with ``retain_graph=False``: the
gradient refers to the values it was computed from, and the tape forgets by
reachability what no tensor leads to any more.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ..array.differentiable import Differentiable
from ..array.record import as_operand, normalise, plain, tracked
from ..common.errors import GradientError, SeedShapeError
from ..tape.modes import enable_grad
from . import reading
from .adjoint import between, pull
from .backward import Pass, Result, stores_of


def sweep_recorded(roots, seeds, wanted, refuse_unused, lanes=None):
    """One recorded backward pass; a `Result` with tensors.

    Parameters
    ----------
    roots : sequence of Tensor
    seeds : sequence of (float, ndarray or Tensor)
    wanted : sequence of Tensor, optional
        None: all leaves.
    refuse_unused : callable
        Called with `wanted` and the ids of those that are not reached.
    lanes : int, optional
        The seeds have one leading axis of this extent, and so have the gradients.

    Returns
    -------
    Result
    """
    result = Result()
    with enable_grad():
        for t, seed in zip(roots, seeds):
            if t._t is None:
                value = run_hooks(t._extras(False) and t._x.hooks, seed)
                result.leaves.append((t, value))
                if wanted is not None and any(w is t for w in wanted):
                    _merge(result.requested, t, value)
        interior = [(t, s) for t, s in zip(roots, seeds) if t._t is not None]
        passes = [
            (RecordedPass if store.trace is None else TracedPass)(store, [(t._i, s) for t, s in interior if t._t is store], wanted)
            for store in stores_of([t for t, _ in interior])
        ]
        missing = set() if wanted is None else {id(t) for t in wanted} - set(result.requested)
        for one in passes:
            one.check()
            missing -= one.reaches()
        if missing:
            refuse_unused(wanted, missing)
        for one in passes:
            one.run(result, lanes)
    return result


def _merge(table, tensor, value):
    total = table.get(id(tensor))
    table[id(tensor)] = value if total is None else total + value


def as_tensor(value):
    """A gradient as its owner gets it: the tensor it is, or a constant."""
    return value if isinstance(value, Differentiable) else plain(normalise(np.array(value) if isinstance(value, np.ndarray) else value))


def run_hooks(hooks, value):
    """Pass a gradient through tensor hooks, which may answer with tensors on the tape."""
    for hook in list(hooks.values()) if hooks else ():
        changed = hook(as_tensor(value))
        if changed is not None:
            value = replaced(changed, value)
    return value


def replaced(new, value):
    """What a hook gave instead of `value`."""
    new = new if tracked(new) else new._v if isinstance(new, Differentiable) else as_operand(new, "a hook")
    if np.shape(new) != np.shape(value):
        raise SeedShapeError(f"a hook returned a gradient of shape {np.shape(new)} for {np.shape(value)}")
    return new


def _through(hooks, row, gradients, g):
    """Pass what a node hands to its operands through the hooks on it."""
    for hook in hooks:
        returned = hook(tuple(None if v is None else as_tensor(v) for v in gradients), (as_tensor(g),))
        if returned is not None:
            returned = returned if isinstance(returned, tuple) else (returned,)
            if len(returned) != len(gradients):
                raise GradientError(f"a hook on {row.node_name} returned {len(returned)} gradients for {len(gradients)}")
            gradients = tuple(None if new is None else new if v is None else replaced(new, v) for new, v in zip(returned, gradients))
    return gradients


class _Walk:
    """What passes over both kinds of store have in common: `store`, `roots`, `high`, `wanted` (slot -> tensors)."""

    def reaches(self):
        """ids of the wanted tensors that this pass reaches."""
        return {id(t) for slot in set(self.order) & set(self.wanted) for t in self.wanted[slot]}

    def _walk(self, visit, lanes, through=None):
        adjoints = {}
        for slot, seed in self.roots:
            adjoints[slot] = seed if slot not in adjoints else adjoints[slot] + seed
        store = self.store
        store.pinned += 1
        try:
            pull(self.stretch, self.order, adjoints, lanes, visit, through)
        finally:
            store.unpin()
        return adjoints


class RecordedPass(_Walk, Pass):
    """A recorded pass over a define-by-run store."""

    def __init__(self, store, roots, wanted):
        Pass.__init__(self, store, roots, wanted)
        self.order = ()
        self.leaf_slots = {slot for slot, _, _ in self.leaves}
        bottoms = set(self.wanted) if wanted is not None else self.leaf_slots
        if bottoms:
            self.stretch = reading.Stretch(store)
            self.order = between(self.stretch, [slot for slot, _ in self.roots], bottoms)

    def run(self, result, lanes=None):
        if not self.order:
            return
        store = self.store
        leaves = {slot: reference() for slot, reference, _ in self.leaves}

        def visit(slot, g):
            g = self._seen(slot, g, result)
            if slot in self.leaf_slots and leaves[slot] is None:
                return None
            return g

        hooks = {slot: partial(_through, tuple(at_slot.values())) for slot, at_slot in store.node_hooks.items() if at_slot}
        adjoints = self._walk(visit, lanes, hooks)
        for slot in sorted(adjoints):
            leaf = leaves.get(slot)
            if leaf is None:
                continue
            value = adjoints[slot]
            if self.only_wanted and slot not in self.wanted:
                continue
            if leaf._x is not None and leaf._x.hooks:
                value = run_hooks(leaf._x.hooks, value)
            for t in self.wanted.get(slot, ()):
                _merge(result.requested, t, value)
            result.leaves.append((leaf, value))

    def _seen(self, slot, g, result):
        """An adjoint that is complete, shown to whoever waits for it."""
        store = self.store
        if slot in self.leaf_slots:
            return g
        g = run_hooks(store.hooks.get(slot), g)
        for hook in list(store.pre_hooks.get(slot, {}).values()):
            returned = hook((as_tensor(g),))
            if returned is not None:
                g = replaced(returned[0] if isinstance(returned, tuple) else returned, g)
        for t in self.wanted.get(slot, ()):
            _merge(result.requested, t, g)
        if slot in store.retained:
            result.retained.append((store.retained[slot], g))
        return g


class TracedPass(_Walk):
    """A recorded pass over the tape of a functional recording."""

    def __init__(self, store, roots, wanted):
        self.store, self.roots = store, roots
        self.high = max(slot for slot, _ in roots)
        self.order, self.wanted = (), {}
        if wanted is None:
            store.trace.cannot = "it accumulates gradients with backward()"
            raise GradientError("a backward pass inside a function that is being recorded")
        for t in wanted:
            slot = store.leaves.get(t._k) if t._t is None else t._i if t._t is store else None
            if slot is not None and slot <= self.high:
                self.wanted.setdefault(slot, []).append(t)
        if self.wanted:
            self.stretch = reading.Stretch(store)
            self.order = between(self.stretch, [slot for slot, _ in roots], self.wanted)

    def check(self):
        """Nothing is ever cleared here, and every change in place is an instruction."""

    def run(self, result, lanes=None):
        if not self.order:
            return

        def visit(slot, g):
            for t in self.wanted.get(slot, ()):
                _merge(result.requested, t, g)
            return g

        try:
            self._walk(visit, lanes)
        except reading.ValuesNotKept:
            # The recording begins anew, with values kept.
            self.store.trace.unkept = True
            raise GradientError("a backward pass inside a function that is being recorded") from None

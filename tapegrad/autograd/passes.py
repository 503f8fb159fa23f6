"""``backward(create_graph=True)``: a backward pass that records what it computes.

Marking, checks, hooks and requested inputs are those of `tapegrad.autograd.backward`; the walk
is that of `adjoint`.  Nothing is cleared, also with ``retain_graph=False``: the
gradient refers to the values it was computed from, and the tape forgets by
reachability what no tensor leads to any more.
"""

from contextlib import contextmanager
from functools import partial

import numpy as np

from ..common.errors import GradientError
from ..common.registry import registry
from ..tape.modes import enable_grad
from . import reading
from .adjoint import between, pull
from .backward import BackwardResult, Pass, hand_to, passes_over, through_hooks, wanted_of

#: Compiled code goes over all slots between root and leaf: a pass through fewer than one in so many runs rules.
SPARSE = 1000


def sweep_recorded(roots, seeds, wanted, allow_unused=True, lanes=None, of_seeds=False):
    """One recorded backward pass; a `BackwardResult` with tensors.

    Parameters
    ----------
    roots : sequence of Tensor
    seeds : sequence of (float, ndarray or Tensor)
    wanted : sequence of Tensor, optional
        None: all leaves.
    allow_unused : bool
        Whether `wanted` may have tensors that are not reached.
    lanes : int, optional
        The seeds have one leading axis of this extent, and so have the gradients.
    of_seeds : bool
        What is recorded depends on the seeds, and not on what the roots were computed from.

    Returns
    -------
    BackwardResult
    """
    with enable_grad():
        return passes_over((_OfSeeds, Pass) if of_seeds else (RecordedPass, TracedPass), roots, seeds, wanted, allow_unused, lanes)


def sweep_behind(roots, seeds, wanted, allow_unused):
    """`sweep_recorded` of roots on one store, numbers by compiled code (`kernel.behind`); None if something waits on the way."""
    store = roots[0]._t if roots else None
    if store is None or store.trace is not None or any(t._t is not store for t in roots):
        return None
    one = Pass(store, [(t._i, None) for t in roots], wanted)
    one.check()
    low = min([slot for slot, _, _ in one.leaves] if wanted is None else one.wanted, default=one.high)
    if SPARSE * one.count < one.high - low:
        return None
    leaves = [leaf for _, reference, _ in one.leaves if (leaf := reference()) is not None]
    targets = leaves if wanted is None else wanted
    reached = one.reaches()
    if not allow_unused and not reached.issuperset(map(id, targets)):
        return None
    with enable_grad():
        found = registry.later.behind.pulled(roots, seeds, targets)
    if found is None:
        return None
    result, pairs = BackwardResult(), [(t, _or_zero(value, t)) for t, value in zip(targets, found) if value is not None or wanted is None or id(t) in reached]
    if wanted is None:
        result.leaves = pairs
    else:
        result.requested = {id(t): value for t, value in pairs}
    return result


def _or_zero(value, t):
    """The gradient by a tensor that is reached: zero where nothing is handed to it, as in a pass that records nothing."""
    return value if value is not None else 0.0 if type(t._v) is float else np.zeros(t.shape, t.dtype)


def refuse_accumulating(trace):
    """The error for a backward pass that adds what is being recorded to ``.grad``."""
    trace.cannot = "it accumulates gradients with backward()"
    return GradientError("a backward pass inside a function that is being recorded")


@contextmanager
def values_of(store):
    """A walk over a store that reads values: if a recording has not kept them, it begins anew, with values kept."""
    try:
        yield
    except reading.ValuesNotKept:
        store.trace.unkept = True
        raise GradientError("a derivative inside a function that is being recorded") from None


class TracedPass:
    """A recorded pass over the tape of a functional recording.  `wanted`: slot -> tensors."""

    #: Whether what is on the tape is read as constants.
    plain = False

    def __init__(self, store, roots, wanted):
        self.store, self.roots = store, roots
        self.high = max(slot for slot, _ in roots)
        if wanted is None:
            raise refuse_accumulating(store.trace)
        self.wanted = wanted_of(store, wanted, self.high)
        self._find(self.wanted)

    def check(self):
        """Nothing is ever cleared here, and every change in place is an instruction."""

    def run(self, result, lanes=None):
        def visit(slot, g):
            hand_to(self.wanted.get(slot, ()), g, result)
            return g

        with values_of(self.store):
            self._walk(visit, lanes)
        self._fill(result, lanes)

    def _fill(self, result, lanes):
        """Zero for what is wanted, reached and handed nothing (None where it is for several seeds)."""
        for slot in set(self.order) & set(self.wanted) if lanes is None else ():
            for t in self.wanted[slot]:
                if id(t) not in result.arrived:
                    result.requested.setdefault(id(t), _or_zero(None, t))

    def _find(self, bottoms):
        """Find what lies on the way from slots `bottoms` up to the roots."""
        self.stretch = reading.Region(self.store, self.plain)
        self.order = between(self.stretch, [slot for slot, _ in self.roots], bottoms)

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


class RecordedPass(TracedPass, Pass):
    """A recorded pass over a define-by-run store."""

    recorded, check = True, Pass.check

    def __init__(self, store, roots, wanted):
        Pass.__init__(self, store, roots, wanted)
        self.leaf_slots = {slot for slot, _, _ in self.leaves}
        self._find(self.leaf_slots if wanted is None else self.wanted)

    def run(self, result, lanes=None):
        store = self.store
        leaves = {slot: reference() for slot, reference, _ in self.leaves}

        def visit(slot, g):
            if slot in self.leaf_slots:
                return None if leaves[slot] is None else g
            return self._seen(slot, g, result)

        hooks = {slot: partial(through_hooks, [*at_slot.values()], recorded=True) for slot, at_slot in store.node_hooks.items() if at_slot}
        adjoints = self._walk(visit, lanes, hooks)
        for slot, leaf in leaves.items():
            if leaf is not None and (lanes is None or slot in adjoints):
                self._leave(slot, leaf, _or_zero(adjoints.get(slot), leaf), result)
        self._fill(result, lanes)


class _OfSeeds(RecordedPass):
    """A pass that gives constants, but for its seeds."""

    plain = True

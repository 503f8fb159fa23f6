"""One backward pass over one store, from marking to clearing.

`autograd.backward` and `autograd.grad` call `sweep_back`, which makes a `Pass` for each store that the
roots lie on.  A pass that is itself to be differentiated is another one (`autograd.passes`).

1. mark the ancestors of the roots (`interpreter.walk.mark`); refuse if one of them
   was cleared, or if a value that a rule needs was changed in place;
2. seed the adjoints and sweep down; the sweep comes back to Python only at
   slots with observers (hooks, ``retain_grad``, requested inputs), and to
   let go of large saved values;
3. take the adjoints of the leaves;
4. unless the graph is retained, clear what was visited.  If that is everything
   on the store, it is retired: the thread goes on with a fresh one, in its buffer;
5. after all stores, run the hooks of the leaves on the sums.  The caller adds them to
   ``.grad`` after that, so a hook that raises has changed nothing.

Gradients as they reach leaves and computed tensors (``.grad``, hooks, ``retain_grad``) come first.
"""

import threading
import weakref
from functools import partial

import numpy as np

from ..array.differentiable import Differentiable
from ..array.record import normalise, plain, store_of, tracked
from ..array.recorded import partials_of
from ..array.tensor import Tensor
from ..common.errors import GradientError, ModifiedInPlaceError, SeedShapeError
from ..common.memory import TRIMMED, trim
from ..common.observers import RemovableHandle
from ..common.uninterrupted import remade
from ..interpreter.fields import place
from ..interpreter.walks import walks
from ..tape.layout import ARRAY_LEAF, CLEARED, LEAF_MARK, MARK, SCALAR
from ..tape.modes import enable_grad
from ..tape.places import caller_place, name_of
from ..tape.watch import Exposure, exposed_since, owner_of
from .adjoint import between, pulled
from .reading import Instruction, Region, retire, second_backward_error, slots_on

# ---- gradients as they reach leaves and computed tensors -----------------------------------------
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


# ---- one pass ------------------------------------------------------------------------------------
#: So many leaves of a store are looked at one by one.
FEW = 64


class BackwardResult:
    """What a backward pass found, before anything is changed."""

    def __init__(self):
        self.arrived = {}  # id(leaf) -> (leaf, its hooks, who hands its gradient out, value)
        self.leaves = []  # (leaf, value)
        self.requested = {}  # id(tensor) -> value
        self.retained = []  # (weak reference, value)

    def arrive(self, leaf, value, hooks, hand_out):
        """Take what one root, or the pass over one store, has for a leaf: its hooks wait for the sum."""
        if hooks:
            *_, total = self.arrived.get(id(leaf), (None,))
            self.arrived[id(leaf)] = leaf, hooks, hand_out, value if total is None else total + value
        else:
            hand_out(value, self)
            self.leaves.append((leaf, value))

    def accumulate_retained(self):
        """Give tensors that called ``retain_grad`` their gradients."""
        for reference, value in self.retained:
            if (tensor := reference()) is not None:
                accumulate(tensor, value)


def sweep_back(roots, seeds, retain, wanted, allow_unused=True):
    """Run one backward pass; returns a `BackwardResult`."""
    whole = len(roots) == 1 and wanted is None and not retain and type(seeds[0]) is float
    if whole and (result := _sweep_whole(roots[0], seeds[0])) is not None:
        return result
    return passes_over((Pass, Pass), roots, seeds, wanted, allow_unused, retain)


def passes_over(kinds, roots, seeds, wanted, allow_unused, *how):
    """One pass over each store that the roots lie on.

    Parameters
    ----------
    kinds : tuple
        The class of a pass over a store of define-by-run, and over that of a functional recording.
    roots : sequence of Tensor
    seeds : sequence
    wanted : sequence of Tensor, optional
        None: all leaves.
    allow_unused : bool
        Whether `wanted` may have tensors that are not reached.
    *how
        What `run` of a pass takes besides the result.

    Returns
    -------
    BackwardResult
    """
    result = BackwardResult()
    for t, seed in zip(roots, seeds):
        if t._t is None and (wanted is None or any(w is t for w in wanted)):
            result.arrive(t, seed, t._extras(False) and t._x.hooks, partial(hand_to, () if wanted is None else (t,)))
    interior = [(t, s) for t, s in zip(roots, seeds) if t._t is not None]
    stores = stores_of([t for t, _ in interior])
    # What ends meanwhile may run a finalizer that records: the stores stay in their places.
    for store in stores:
        store.pinned += 1
    try:
        passes = [kinds[store.trace is not None](store, [(t._i, s) for t, s in interior if t._t is store], wanted) for store in stores]
        for one in passes:
            one.check()
        missing = set() if wanted is None else {id(t) for t in wanted} - {*result.arrived, *result.requested}
        for one in passes:
            missing -= one.reaches()
        if missing and not allow_unused:
            refuse_unused(wanted, missing)
        for one in passes:
            one.run(result, *how)
        for leaf, hooks, hand_out, value in result.arrived.values():
            value = run_hooks(hooks, value, kinds[0].recorded)
            hand_out(value, result)
            result.leaves.append((leaf, value))
    finally:
        for store in stores:
            store.unpin()
    return result


def sweep_straight(store, root, leaves, least=0):
    """The gradients of the number at slot `root` by `leaves`, all that `store` has (slots and values); None if a `Pass` has to find them.

    The shortest way, where nothing waits on the way.  Nothing is cleared but large saved values, which are let go as they are
    passed.  The gradient by a leaf that is not reached is None.
    """
    if (
        store.hooks or store.in_python or store.node_hooks or store.pre_hooks or store.retained or store.thread.checking is not None
        or len(store.leaf_list) != len(leaves) or Exposure.count != store.watched.born and exposed_since(store.watched.born)
    ):  # fmt: skip
        return None
    return walks.native.swept(store, root, leaves, Release, least)


def _sweep_whole(root, seed):
    """The `BackwardResult` of a pass that uses a store up, made by `sweep_straight`; None if it cannot be."""
    if root._t is None or seed != 1.0:
        return None
    store = store_of(root)
    if store.retired is not None or store.trace is not None or store.pinned or len(store.leaf_list) > FEW:
        return None
    leaves = [(slot, reference(), key) for slot, reference, key in store.leaf_list]
    for _, leaf, key in leaves:
        if leaf is None or leaf._k is not key or leaf._t is not None or leaf._x and leaf._x.hooks:
            return None
    gradients = sweep_straight(store, root._i, [(slot, leaf._v) for slot, leaf, _ in leaves], len(store) - store.cleared)
    if gradients is None:
        return None
    result = BackwardResult()
    result.leaves = [(leaf, value) for (_, leaf, _), value in zip(leaves, gradients) if value is not None]
    retire(store, caller_place())
    return result


class Release:
    """Lets go of the large values that an instruction of `store` has saved: called with its slot, once a sweep has passed it."""

    def __init__(self, store):
        self.store, self.nbytes = store, 0

    def __call__(self, slot):
        instruction = Instruction(self.store, slot)
        saved = len(instruction.signature.saves)
        self.store.objects[instruction.integer : instruction.integer + saved] = [None] * saved
        self.nbytes += instruction.signature.saved_bytes
        if self.nbytes >= TRIMMED:
            self.nbytes = 0
            trim()


def stores_of(tensors):
    """The stores that computed tensors lie on, each once; an error if one of them was used up by an earlier pass."""
    stores = []
    for t in tensors:
        store = store_of(t)
        if store.retired is not None:
            raise second_backward_error(store, t._i)
        if not any(store is s for s in stores):
            stores.append(store)
    return stores


def refuse_unused(wanted, missing):
    """Raise for the first wanted tensor that is missing (by id): the outputs do not depend on it."""
    for k, t in enumerate(wanted):
        if id(t) in missing:
            name = name_of(t)
            raise GradientError(
                "One of the differentiated Tensors appears to not have been used in the graph: input "
                f"{k}{f' ({name!r})' if name else ''}, of shape {tuple(t.shape)}. Set allow_unused=True if this is the desired "
                "behavior (its gradient is then None); a .detach() or no_grad() between it and the outputs also has this effect"
            )


def hand_to(tensors, value, result):
    """Give an adjoint to those that asked for it."""
    for t in tensors:
        total = result.requested.get(id(t))
        result.requested[id(t)] = own_copy(value) if total is None else total + value


def _marked_leaves(store, marks):
    """The entries of the store's `leaf_list` that a pass reaches; leaves of long ago, which it does not reach, cost nothing."""
    entries = store.leaf_list
    if len(entries) <= FEW:
        return [entry for entry in entries if marks[entry[0]]]
    return [entry for slot in (marks == LEAF_MARK).nonzero()[0].tolist() for entry in store.leaves_from(slot, slot)]


def wanted_of(store, wanted, high):
    """The wanted tensors that lie on `store`, not above slot `high`: by slot."""
    by_slot = {}
    if not wanted:
        return by_slot
    # (One that is asked for twice is handed its gradient once.)
    wanted = [*{id(t): t for t in wanted}.values()]
    for t, slots in zip(wanted, slots_on(store, wanted)):
        for slot in slots:
            if slot <= high:
                by_slot.setdefault(slot, []).append(t)
    return by_slot


class Pass:
    """One backward pass over one store."""

    #: Whether gradients may be on a tape: what it computes is recorded.
    recorded = False

    def __init__(self, store, roots, wanted):
        if store.trace is not None:
            # A pass that is recorded can be: `autograd.passes.TracedPass`.
            store.trace.cannot = "it runs a backward pass of its own"
            raise GradientError("a backward pass inside a function that is being recorded")
        self.store, self.roots, self.high = store, roots, max([slot for slot, _ in roots])
        self.marks, self.count, self.low, self.cleared = walks.native.ancestors(store, [slot for slot, _ in roots])
        self.leaves = _marked_leaves(store, self.marks)
        self.wanted = {slot: tensors for slot, tensors in wanted_of(store, wanted, self.high).items() if self.marks[slot]}
        self.only_wanted = wanted is not None
        self._let_go = Release(store)

    def reaches(self):
        """ids of the wanted tensors that this pass reaches."""
        return {id(t) for ts in self.wanted.values() for t in ts}

    # -- before -------------------------------------------------------------------
    def check(self):
        """Raise if something needed is gone or was changed."""
        if self.cleared >= 0:
            raise second_backward_error(self.store, self.cleared)
        marks = self.marks
        for slot, reference, key in self.leaves:
            leaf = reference()
            if leaf is not None and leaf._k is not key:
                self._check_changed_leaf(slot, leaf)
        watched = self.store.watched
        if watched.slots and (changed := walks.native.first_changed(watched, marks, self.low, self.high)) >= 0:
            raise self._modified(watched.owners[changed], watched.slots[changed])
        if exposed := exposed_since(watched.born):
            watched_slots = set(watched.slots)
            for reader, saved in self._saved(self.low):
                if reader not in watched_slots and any(owner_of(saved) is owner for owner in exposed):
                    raise self._modified(saved, reader)

    def check_at(self, slot):
        """`check` for one instruction."""
        among = self.marks == MARK
        among[slot] = False
        self.marks[among] = 0
        self.low = self.high = slot
        self.check()

    def _saved(self, low):
        """The arrays that the instructions of this pass have saved, each with its slot."""
        for slot in (low + np.flatnonzero(self.marks[low : self.high + 1] == MARK)).tolist():
            instruction = Instruction(self.store, slot)
            if instruction.signature is not None:
                for j in range(len(instruction.signature.saves)):
                    saved = self.store.objects[instruction.integer + j]
                    if saved.__class__ is np.ndarray:
                        yield slot, saved

    def _check_changed_leaf(self, slot, leaf):
        """A leaf changed after use: an error if a rule reads its old value."""
        for i in (slot + 1 + self.marks[slot + 1 : self.high + 1].nonzero()[0]).tolist():
            instruction = Instruction(self.store, i)
            if instruction.row is not None and slot in instruction.operands and _reads_operand(instruction, slot):
                raise self._modified(leaf, i)
        if type(leaf._v) is not float:
            # Its views, too, have changed.
            memory = owner_of(leaf._v)
            for reader, saved in self._saved(slot):
                if owner_of(saved) is memory and np.may_share_memory(saved, leaf._v):
                    raise self._modified(leaf, reader)

    def _modified(self, owner, reader):
        if owner.__class__ is np.ndarray:
            # The leaf whose memory it is, if it is one's.
            leaves = (reference() for _, reference, _ in self.leaves)
            owner = next((t for t in leaves if t is not None and type(t._v) is not float and np.may_share_memory(t._v, owner)), owner)
        name = name_of(owner)
        which = f"{name!r}" if name else "a variable"
        changed = owner._extras().changed if isinstance(owner, Tensor) else None
        where = f"changed in place at {changed}" if changed else "changed in place since then"
        kind = Instruction(self.store, reader).row.name
        return ModifiedInPlaceError(
            f"one of the variables needed for gradient computation has been modified by an inplace operation: {which} "
            f"(shape {np.shape(getattr(owner, '_v', owner))}) is needed by {kind} at {self.store.place(reader)} and "
            f"was {where}. Change it after backward(), or use a copy in one of the two places"
        )

    # -- the sweep -------------------------------------------------------------------
    def run(self, result, retain):
        store, marks = self.store, self.marks
        store.pinned += 1
        sweep = walks.native.Sweep(self.high + 1, marks).over_store(store)
        place = caller_place()
        try:
            for slot, seed in self.roots:
                sweep.add(slot, seed)
            at = self.high
            for stop in self._stops():
                if at > stop:
                    self._go(sweep, at, stop + 1, retain)
                self._visit(sweep, stop, result, retain)
                at = stop - 1
            if at >= self.low:
                self._go(sweep, at, self.low, retain)
            for slot, reference, _ in self.leaves:
                leaf = reference()
                if leaf is not None:
                    old = leaf._v
                    value = float(sweep.adjoint[slot]) if type(old) is float else sweep.take(slot, old.shape, old.dtype)
                    self._leave(slot, leaf, value, result)
                elif Instruction(store, slot).op == ARRAY_LEAF:
                    sweep.drop(slot)
        except BaseException:
            # Nothing has been added to any .grad; what a clearing sweep let go is gone.
            sweep.free_all()
            raise
        finally:
            store.unpin()
            if not retain:
                self._clear(place)

    def _go(self, sweep, high, low, retain):
        """Sweep a stretch, letting go of large saved values as it passes them."""
        # A hook may have recorded.
        sweep.over_store(self.store)
        if self.store.thread.checking is not None:
            self._checked(sweep, high, low, retain)
        else:
            sweep.go(high, low, None if retain else self._let_go)

    def _checked(self, sweep, high, low, retain):
        """Sweep a stretch one instruction at a time, and look at what each hands to its operands."""
        checking = self.store.thread.checking
        for slot in range(high, low - 1, -1):
            if self.marks[slot] != MARK:
                continue
            instruction = Instruction(self.store, slot)
            signature = instruction.signature
            adjoint = self._adjoint(sweep, slot, SCALAR if signature is None else signature.out) if instruction.row else None
            sweep.go(slot, slot, None if retain else self._let_go)
            if adjoint is None or checking.bad(adjoint):
                continue
            for k, operand in enumerate(instruction.operands):
                if operand:
                    gradient = self._adjoint(sweep, operand, SCALAR if signature is None else signature.metas[signature.slots[k]])
                    if checking.bad(gradient):
                        which = k if len(instruction.operands) > 1 else None
                        checking.adjoint(instruction.row.name, self.store, slot, adjoint, gradient, which)

    def _stops(self):
        """Slots with observers, from high to low; of hooks those on the way to what is wanted."""
        store = self.store
        if not (store.in_python or store.hooks or store.node_hooks or store.pre_hooks or store.retained or self.wanted):
            return ()
        waiting = {*store.hooks, *store.node_hooks, *store.pre_hooks, *store.retained}
        if self.only_wanted and waiting:
            waiting.intersection_update(between(Region(store, plain=True), [slot for slot, _ in self.roots], self.wanted))
        waiting.update(store.in_python, self.wanted)
        return sorted((s for s in waiting if s <= self.high and self.marks[s] == MARK), reverse=True)

    def _adjoint(self, sweep, slot, meta):
        return float(sweep.adjoint[slot]) if meta is SCALAR else sweep.peek(slot, meta.shape, np.dtype(meta.char))

    def _visit(self, sweep, slot, result, retain):
        """An interior slot whose complete adjoint is observed."""
        store = self.store
        instruction = Instruction(store, slot)
        meta = instruction.signature.out if instruction.signature is not None else SCALAR
        value = self._adjoint(sweep, slot, meta)
        changed = self._seen(slot, value, result)
        if changed is not value:
            sweep.replace(slot, changed)
        if slot in store.node_hooks or slot in store.in_python:
            self._run_node(sweep, instruction, changed, store.node_hooks.get(slot, {}))
            if slot in store.in_python and not retain:
                self._let_go(slot)
        elif slot >= self.low:
            self._go(sweep, slot, slot, retain)

    def _seen(self, slot, value, result):
        """A complete adjoint, shown to its observers; returns the one to go on with."""
        store = self.store
        value = run_hooks(store.hooks.get(slot), value, self.recorded)
        for hook in list(store.pre_hooks.get(slot, {}).values()):
            returned = hook((as_tensor(value),))
            if returned is not None:
                value = replaced(returned[0] if isinstance(returned, tuple) else returned, value, self.recorded)
        self._hand_out(slot, value, result)
        return value

    def _hand_out(self, slot, value, result):
        """Give an adjoint to who asked for it."""
        hand_to(self.wanted.get(slot, ()), value, result)
        if slot in self.store.retained:
            result.retained.append((self.store.retained[slot], own_copy(value)))

    def _run_node(self, sweep, instruction, g, hooks):
        """Compute a node in Python, because its rule is the user's or hooks want to see its gradients."""
        arrays = pulled(self.store, instruction.slot, np.asarray(g))
        for operand, value in zip(instruction.operands, through_hooks(hooks.values(), instruction.row, arrays, own_copy(g), False)):
            if operand and value is not None:
                value = value._v if isinstance(value, Tensor) else normalise(np.asarray(value))
                sweep.add(operand, value if type(value) is float else np.ascontiguousarray(value))
        if type(g) is not float:
            sweep.drop(instruction.slot)

    def _leave(self, slot, leaf, value, result):
        """Take the gradient of a leaf, whose adjoint is complete."""
        if self.only_wanted and slot not in self.wanted:
            return
        # An argument of a function that is differentiated lies on the tape itself.
        hooks = self.store.hooks.get(slot) if leaf._t is not None else leaf._x and leaf._x.hooks
        result.arrive(leaf, value, hooks, partial(self._hand_out, slot))

    # -- after -----------------------------------------------------------------------
    def _clear(self, place):
        """Release what was visited; its cost is that of the stretch from `low` to `high`."""
        store = self.store
        store.cleared += self.count
        # (It is pinned by the pass that ends here.)
        if store.cleared >= len(store) and store.pinned == 1:
            retire(store, place)
            return
        stretch = slice(self.low, self.high + 1)
        visited = self.marks[stretch] == MARK
        for start, stop in walks.native.saved_ranges(store, self.marks, self.low, self.high, 1)[0]:
            store.objects[start:stop] = [None] * (stop - start)
        records = store.records()[stretch]
        records["op"][visited] |= CLEARED
        # A cleared record keeps, in place of its attribute, the number of the clearing.
        records["integer"][visited] = len(store.clearings)
        store.clearings.append(place)
        store.watched.forget(self.low, visited)


def own_copy(value):
    """A value in memory of its own."""
    return value.copy() if isinstance(value, np.ndarray) else value


def _reads_operand(instruction, slot):
    """Whether the derivative of an instruction reads the value of its operand in `slot`."""
    row, signature = instruction.row, instruction.signature
    if signature is not None:
        return any(o == slot and k in signature.saves for k, o in zip(signature.slots, instruction.operands))
    slots = dict(zip(row.slots(row.arity), instruction.operands))
    return any(o and slots.get(leaf) == slot for k, o in slots.items() for leaf in partials_of(row)[k].leaves())

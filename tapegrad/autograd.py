"""Define-by-run meaning: backward passes, gradients, hooks, retain and clear.

A backward pass over one store goes like this:

1. mark the ancestors of the roots (`sweep.walk.mark`); refuse if one of them
   was cleared, or if a value that a rule needs was changed in place;
2. seed the adjoints and sweep down; the sweep comes back to Python only at
   slots where somebody waits (hooks, ``retain_grad``, requested inputs), and to
   let go of large saved values;
3. take the adjoints of the leaves, run their hooks, and only then add them to
   ``.grad``: a hook that raises has changed nothing;
4. unless the graph is retained, clear what was visited.  If that is everything
   on the store, the store is retired as a whole and the thread goes on with a
   fresh one that takes over its buffer.
"""

from __future__ import annotations

import sys
import threading
import warnings
import weakref

import numpy as np

from .errors import (
    ClearedTapeError,
    GradientError,
    HigherOrderError,
    ModifiedInPlaceError,
    NonScalarOutputError,
    SeedShapeError,
)
from .graph import Instruction, RemovableHandle
from .record import normalise, plain, settle, stamp
from .sweep.plan import LARGE, Signature
from .tape.layout import ARRAY_LEAF, FIRST_ARRAY
from .tape.meta import SCALAR
from .tape.places import caller_place, name_of
from .tape.store import Store, thread_state
from . import tensor as _tensor
from .tensor import Tensor

_ACCUMULATE = threading.Lock()

SECOND_BACKWARD = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
    "saved tensors after calling backward."
)


def second_backward_error(store, slot):
    """The error for instruction `slot`, which was cleared."""
    cleared = store.retired or store.names.get(slot)
    where = f"It was cleared at {cleared}. " if cleared is not None else ""
    return ClearedTapeError(
        f"{SECOND_BACKWARD}\n{where}Three ways out: (1) pass retain_graph=True to the call there; (2) cut the old part "
        "off with .detach() where the new computation starts from it; (3) recompute the loss before this call."
    )


_NATIVE = None


def load_native():
    """The module `sweep.native`, imported (and compiled) at the first backward pass."""
    global _NATIVE
    if _NATIVE is None:
        from .sweep import native

        _NATIVE = native
    return _NATIVE


# ---- gradients into leaves --------------------------------------------------------


def _tensors(things, what):
    things = (things,) if isinstance(things, Tensor) else tuple(things)
    for thing in things:
        if not isinstance(thing, Tensor):
            raise TypeError(f"{what} must be tensors, got {type(thing).__name__}")
    return things


def _seeds(outputs, grads, what):
    if grads is None:
        grads = (None,) * len(outputs)
    elif isinstance(grads, (Tensor, np.ndarray, float, int)):
        grads = (grads,)
    grads = tuple(grads)
    if len(grads) != len(outputs):
        raise SeedShapeError(f"{len(outputs)} outputs but {len(grads)} {what}; give one seed (or None) for each output")
    found = []
    for k, (output, grad) in enumerate(zip(outputs, grads)):
        if not output.requires_grad:
            raise GradientError(
                f"element {k} of tensors does not require grad and does not have a grad_fn: nothing it was computed "
                f"from requires a gradient (shape {tuple(output.shape)}). Make its inputs with requires_grad=True, and "
                "check that it was not computed under no_grad() or from .detach()ed values"
            )
        if grad is None:
            if type(output._v) is float:
                found.append(1.0)
                continue
            if output.size != 1:
                raise NonScalarOutputError(
                    "grad can be implicitly created only for scalar outputs; this output has shape "
                    f"{tuple(output.shape)}. Either reduce it first (.sum() or .mean()), or pass a seed of that "
                    "shape: .backward(np.ones_like(y.detach()))"
                )
            seed = np.ones(output.shape, output.dtype)
        else:
            seed = np.asarray(grad._v if isinstance(grad, Tensor) else grad)
            if seed.shape != tuple(output.shape):
                raise SeedShapeError(
                    f"Mismatch in shape: grad_output[{k}] has a shape of {tuple(seed.shape)} and output[{k}] has a "
                    f"shape of {tuple(output.shape)}. A seed needs the shape of its output"
                )
            seed = np.array(seed, output.dtype, order="C")
        found.append(float(seed) if type(output._v) is float else seed)
    return found


def _refuse_create_graph(create_graph):
    if create_graph:
        raise HigherOrderError(
            "create_graph=True (a gradient that is itself recorded) is not available yet: this version gives first "
            "derivatives. Leave create_graph=False"
        )


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
    """Accumulate gradients of `tensors` into the leaves they depend on.

    Parameters
    ----------
    tensors : Tensor or sequence of Tensor
        The roots.
    grad_tensors : array-like or sequence, optional
        A seed for each root, of its shape; None for a scalar root means 1.
    retain_graph : bool, optional
        Keep the instructions; by default the same as `create_graph`.
    create_graph : bool
        Record the gradient itself.
    grad_variables
        Deprecated name of `grad_tensors`.
    inputs : Tensor or sequence, optional
        Accumulate into these tensors only.

    Raises
    ------
    GradientError, NonScalarOutputError, SeedShapeError, ClearedTapeError, ModifiedInPlaceError

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor([1.0, 2.0], requires_grad=True)
    >>> tg.autograd.backward(x * x, grad_tensors=tg.ones(2))
    >>> x.grad
    tensor([2., 4.])
    """
    if grad_variables is not None:
        warnings.warn("grad_variables is deprecated; use grad_tensors", DeprecationWarning, stacklevel=2)
        grad_tensors = grad_variables if grad_tensors is None else grad_tensors
    _refuse_create_graph(create_graph)
    roots = _tensors(tensors, "the roots of backward()")
    seeds = _seeds(roots, grad_tensors, "grad_tensors")
    wanted = None if inputs is None else _tensors(inputs, "inputs")
    if wanted is not None:
        for k, t in enumerate(wanted):
            if not t.requires_grad:
                raise GradientError(f"inputs[{k}] does not require grad")
    retain = bool(create_graph if retain_graph is None else retain_graph)
    found = _sweep(roots, seeds, retain, wanted)
    if wanted is None:
        for leaf, value in found.leaves:
            accumulate(leaf, value)
    else:
        for t in wanted:
            if id(t) in found.requested:
                accumulate(t, found.requested[id(t)])
    found.commit_retained()


def grad(
    outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True, allow_unused=False
):
    """Gradients of `outputs` with respect to `inputs`; no ``.grad`` is touched.

    Parameters
    ----------
    outputs, inputs : Tensor or sequence of Tensor
        Inputs may be leaves or computed tensors.
    grad_outputs : array-like or sequence, optional
        Seeds, as in `backward`.
    retain_graph, create_graph : bool
        As in `backward`.
    only_inputs : bool
        Deprecated in PyTorch; must be True.
    allow_unused : bool
        Give None for an input that the outputs do not depend on, instead of raising.

    Returns
    -------
    tuple of Tensor
        One per input.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor(2.0, requires_grad=True)
    >>> tg.autograd.grad(x ** 2, x)
    (tensor(4.),)
    """
    if not only_inputs:
        raise ValueError("only_inputs=False is not supported; call .backward() to accumulate into all leaves")
    _refuse_create_graph(create_graph)
    roots = _tensors(outputs, "outputs")
    wanted = _tensors(inputs, "inputs")
    for k, t in enumerate(wanted):
        if not t.requires_grad:
            name = name_of(t)
            raise GradientError(
                f"input {k}{f' ({name!r})' if name else ''} does not require grad; make it with requires_grad=True "
                "before computing the outputs"
            )
    seeds = _seeds(roots, grad_outputs, "grad_outputs")
    retain = bool(create_graph if retain_graph is None else retain_graph)
    found = _sweep(roots, seeds, retain, wanted, allow_unused)
    found.commit_retained()
    return tuple(
        plain(normalise(found.requested[id(t)])) if id(t) in found.requested else None for t in wanted
    )


def _refuse_unused(wanted, missing):
    for k, t in enumerate(wanted):
        if id(t) in missing:
            name = name_of(t)
            raise GradientError(
                f"One of the differentiated Tensors appears to not have been used in the graph: input {k}"
                f"{f' ({name!r})' if name else ''}, of shape {tuple(t.shape)}. Set allow_unused=True if this is the "
                "desired behavior (its gradient is then None); a .detach() or no_grad() between it and the outputs "
                "also has this effect"
            )


def accumulate(leaf, value):
    """Add `value` (float or ndarray, given away) to ``leaf.grad``."""
    value = normalise(value)
    with _ACCUMULATE:
        extras = leaf._extras()
        if extras.grad is None:
            extras.grad = plain(value)
        elif type(value) is float:
            extras.grad._v = extras.grad._v + value
        else:
            extras.grad._v += value


class _Result:
    """What a backward pass found, before anything is changed."""

    def __init__(self):
        self.leaves = []  # (leaf, value)
        self.requested = {}  # id(tensor) -> value
        self.retained = []  # (weak reference, value)

    def commit_retained(self):
        for reference, value in self.retained:
            tensor = reference()
            if tensor is not None:
                accumulate(tensor, value)


def _sweep(roots, seeds, retain, wanted, allow_unused=True):
    """Run one backward pass; returns a `_Result`."""
    result = _Result()
    interior = [(t, s) for t, s in zip(roots, seeds) if t._t is not None]
    for t, seed in zip(roots, seeds):
        if t._t is None:
            value = _run_hooks(t._extras(False) and t._x.hooks, seed)
            result.leaves.append((t, value))
            if wanted is not None and any(w is t for w in wanted):
                _merge(result.requested, t, value)
    stores = []
    for t, _ in interior:
        store = settle(t)
        if store.retired is not None:
            raise second_backward_error(store, t._i)
        if store not in stores:
            stores.append(store)
    passes = [_Pass(store, [(t._i, s) for t, s in interior if t._t is store], wanted) for store in stores]
    for one in passes:
        one.check()
    missing = set()
    if wanted is not None:
        missing = {id(t) for t in wanted} - set(result.requested)
        for one in passes:
            missing -= one.reaches()
        if missing and not allow_unused:
            _refuse_unused(wanted, missing)
    for one in passes:
        one.run(result, retain)
    return result


def _merge(table, tensor, value):
    known = table.get(id(tensor))
    table[id(tensor)] = value if known is None else known + value


def _run_hooks(hooks, value):
    """Pass a gradient (float or ndarray) through tensor hooks."""
    if hooks:
        for hook in list(hooks.values()):
            changed = hook(plain(normalise(value)))
            if changed is not None:
                new = changed._v if isinstance(changed, Tensor) else changed
                if np.shape(new) != np.shape(value):
                    raise SeedShapeError(f"a hook returned a gradient of shape {np.shape(new)} for {np.shape(value)}")
                value = float(new) if type(value) is float else np.array(new, np.asarray(value).dtype, order="C")
    return value


class _Pass:
    """One backward pass over one store."""

    def __init__(self, store, roots, wanted):
        native = load_native()
        self.store = store
        self.roots = roots
        self.high = max(slot for slot, _ in roots)
        self.marks = native.new_marks(store)
        for slot, _ in roots:
            self.marks[slot] = 1
        self.count, self.low, self.cleared = native.mark(store, self.marks, self.high)
        self.wanted = {}
        for t in wanted or ():
            if t._t is None:
                slot = store.leaves.get(t._k)
            else:
                slot = t._i if settle(t) is store else None
            if slot is not None and slot <= self.high and self.marks[slot]:
                self.wanted.setdefault(slot, []).append(t)
        self.only_wanted = wanted is not None

    def reaches(self):
        """ids of the wanted tensors that this pass reaches."""
        return {id(t) for ts in self.wanted.values() for t in ts}

    # -- before -------------------------------------------------------------------
    def check(self):
        """Raise if something needed is gone or was changed."""
        if self.cleared >= 0:
            raise second_backward_error(self.store, self.cleared)
        marks = self.marks
        for slot, reference, key in self.store.leaf_list:
            leaf = reference()
            if leaf is not None and leaf._k is not key and marks[slot]:
                self._check_changed_leaf(slot, leaf)
        for slot, owner, key, mark, array in self.store.constants:
            if slot <= self.high and marks[slot]:
                if (key is not None and owner._k is not key) or stamp(array) != mark:
                    raise self._modified(owner, slot)

    def _check_changed_leaf(self, slot, leaf):
        """A leaf changed after use: an error if a rule reads its old value."""
        if type(leaf._v) is float:
            readers = self._scalar_readers(slot)
        else:
            readers = self._array_readers(slot)
        for reader in readers:
            raise self._modified(leaf, reader)

    def _readers(self, slot):
        for i in range(slot + 1, self.high + 1):
            if self.marks[i]:
                instruction = Instruction(self.store, i)
                if instruction.row is not None and slot in instruction.operands:
                    yield instruction

    def _scalar_readers(self, slot):
        for instruction in self._readers(slot):
            if instruction.signature is None:
                if _reads_operand(instruction, slot):
                    yield instruction.slot
            else:
                yield from self._kept(instruction, slot)

    def _array_readers(self, slot):
        for instruction in self._readers(slot):
            yield from self._kept(instruction, slot)

    def _kept(self, instruction, slot):
        signature = instruction.signature
        for k in signature.saves:
            if k >= 0 and k in signature.slots and instruction.operands[signature.slots.index(k)] == slot:
                yield instruction.slot

    def _modified(self, owner, reader):
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
        sweep = load_native().Sweep(store, marks, self.high)
        place = caller_place()
        try:
            for slot, seed in self.roots:
                sweep.add(slot, seed)
            stops = self._stops()
            leaves = {slot for slot, _, _ in store.leaf_list}
            at = self.high
            for stop in stops:
                if stop in leaves:
                    continue
                if at > stop:
                    self._go(sweep, at, stop + 1, retain)
                self._visit(sweep, stop, result, retain)
                at = stop - 1
            if at >= self.low:
                self._go(sweep, at, self.low, retain)
            for slot, reference, _ in store.leaf_list:
                if slot <= self.high and marks[slot]:
                    leaf = reference()
                    if leaf is not None:
                        self._leave(sweep, slot, leaf, result)
                    elif Instruction(store, slot).op == ARRAY_LEAF:
                        sweep.drop(slot)
        except BaseException:
            # Nothing has been added to any .grad; what a clearing sweep let go is gone.
            sweep.finish(1, clear=False)
            if not retain:
                self._clear(place, sweep)
            raise
        sweep.finish(self.low, clear=False)
        if not retain:
            self._clear(place, sweep)

    def _go(self, sweep, high, low, retain):
        """Sweep a stretch, letting go of large saved values as it passes them."""
        at = high
        while at >= low:
            at = sweep.run(at, low, int(not retain))
            if not retain and at >= low - 1:
                self._let_go(at + 1)

    def _let_go(self, slot):
        """Drop the saved values of an instruction that the sweep has passed."""
        if slot > self.high:
            return
        op = self.store.read(slot)[0]
        if FIRST_ARRAY <= op < ARRAY_LEAF:
            signature = Signature.ALL[op - FIRST_ARRAY]
            if signature.saved_bytes >= LARGE:
                start = Instruction(self.store, slot).integer
                for k in range(start, start + len(signature.saves)):
                    self.store.objects[k] = None

    def _stops(self):
        """Slots at which somebody waits, from high to low."""
        store = self.store
        waiting = set(store.hooks) | set(store.node_hooks) | set(store.pre_hooks) | set(store.retained)
        waiting |= set(self.wanted)
        return sorted((s for s in waiting if s <= self.high and self.marks[s]), reverse=True)

    def _adjoint(self, sweep, slot, meta):
        if meta is SCALAR:
            return float(sweep.adjoint[slot])
        return sweep.peek(slot, meta.shape, np.dtype(meta.char))

    def _visit(self, sweep, slot, result, retain):
        """An interior slot whose complete adjoint somebody wants to see."""
        store = self.store
        instruction = Instruction(store, slot)
        meta = instruction.signature.out if instruction.signature is not None else SCALAR
        value = self._adjoint(sweep, slot, meta)
        changed = _run_hooks(store.hooks.get(slot), value)
        for hook in list(store.pre_hooks.get(slot, {}).values()):
            returned = hook((plain(normalise(changed)),))
            if returned is not None:
                returned = returned[0] if isinstance(returned, tuple) else returned
                new = returned._v if isinstance(returned, Tensor) else returned
                changed = float(new) if type(value) is float else np.array(new, value.dtype, order="C")
        if changed is not value:
            sweep.replace(slot, changed)
        for t in self.wanted.get(slot, ()):
            _merge(result.requested, t, _copy(changed))
        if slot in store.retained:
            result.retained.append((store.retained[slot], _copy(changed)))
        if slot in store.node_hooks:
            self._run_node(sweep, instruction, changed, store.node_hooks[slot])
        elif slot >= self.low:
            self._go(sweep, slot, slot, retain)

    def _run_node(self, sweep, instruction, g, hooks):
        """Compute a node in Python, because hooks want to see its gradients."""
        arrays = instruction.pull(np.asarray(g))
        inputs = tuple(None if a is None else plain(normalise(a)) for a in arrays)
        for hook in list(hooks.values()):
            returned = hook(inputs, (plain(normalise(_copy(g))),))
            if returned is not None:
                returned = returned if isinstance(returned, tuple) else (returned,)
                if len(returned) != len(inputs):
                    raise GradientError(
                        f"a hook on {instruction.row.node_name} returned {len(returned)} gradients for {len(inputs)}"
                    )
                inputs = returned
        for operand, value in zip(instruction.operands, inputs):
            if operand and value is not None:
                value = value._v if isinstance(value, Tensor) else normalise(np.asarray(value))
                sweep.add(operand, value if type(value) is float else np.ascontiguousarray(value))
        sweep.drop(instruction.slot) if type(g) is not float else None

    def _leave(self, sweep, slot, leaf, result):
        """Take the gradient of a leaf, whose adjoint is complete."""
        if type(leaf._v) is float:
            value = float(sweep.adjoint[slot])
        else:
            value = sweep.take(slot, leaf._v.shape, leaf._v.dtype)
        hooks = leaf._x.hooks if leaf._x is not None else None
        if self.only_wanted and slot not in self.wanted:
            return
        value = _run_hooks(hooks, value)
        for t in self.wanted.get(slot, ()):
            _merge(result.requested, t, value)
        result.leaves.append((leaf, value))

    # -- after -----------------------------------------------------------------------
    def _clear(self, place, sweep):
        store = self.store
        if len(store) <= self.count or not self._others_alive(store):
            retire(store, place)
            return
        entries = store.records()["op"]
        sweep.adjoint[:] = 0.0
        for slot in np.flatnonzero((self.marks[: len(entries)] == 1) & (entries >= FIRST_ARRAY) & (entries < ARRAY_LEAF)):
            signature = Signature.ALL[entries[slot] - FIRST_ARRAY]
            if signature.saves:
                start = Instruction(store, int(slot)).integer
                for k in range(start, start + len(signature.saves)):
                    store.objects[k] = None
        for slot in np.flatnonzero(self.marks[: len(entries)] == 1).tolist():
            store.names[slot] = place
        store.constants = [c for c in store.constants if not (c[0] <= self.high and self.marks[c[0]])]
        sweep.finish(1, clear=True)

    def _others_alive(self, store):
        """Whether a live tensor depends on an instruction that was not visited."""
        native = load_native()
        live = native.live_marks(store)
        native.mark(store, live, len(store.tokens) - 1)
        return bool(((live == 1) & (self.marks[: len(live)] != 1)).any())


def _copy(value):
    return value if type(value) is float else value.copy()


def retire(store, place):
    """End `store`; its thread goes on with a fresh one."""
    names = _live_names(store) if len(store.tokens) > 1 else {}
    parts = store.retire(place)
    store.names = names
    store.thread.replace(store, Store(store.thread, store.explicit, parts))


def _live_names(store):
    """Node names of the tensors that are still alive, for printing them later."""
    live = load_native().live_marks(store)
    found = {}
    for slot in live.nonzero()[0].tolist():
        row = Instruction(store, slot).row
        if row is not None:
            found[slot] = row.node_name
    return found


def _reads_operand(instruction, slot):
    """Whether a scalar row's partials read the value of the operand in `slot`."""
    from .rules import lang as L

    row = instruction.row
    names = ["x", "y", "w"][: row.arity]
    args = [L.arg(n) for n in names]
    slots = row.slots(row.arity)
    read = set()
    for k, operand in zip(slots, instruction.operands):
        if operand:
            read |= set(L.Expr.lift(row.partials[k](*args, L.arg("z"))).leaves())
    return any(operand == slot and names[k] in read for k, operand in zip(slots, instruction.operands))


# ---- hooks -------------------------------------------------------------------------


def _interior_slot(tensor):
    store = settle(tensor)
    if store.retired is not None:
        raise second_backward_error(store, tensor._i)
    return store, tensor._i


def register_hook(tensor, hook):
    """See `Tensor.register_hook`."""
    if not tensor.requires_grad:
        raise GradientError("cannot register a hook on a tensor that doesn't require gradient")
    if tensor._t is None:
        extras = tensor._extras()
        if extras.hooks is None:
            extras.hooks = {}
        return RemovableHandle(extras.hooks, hook)
    store, slot = _interior_slot(tensor)
    return RemovableHandle(store.hooks.setdefault(slot, {}), hook)


def retain_grad(tensor):
    """See `Tensor.retain_grad`."""
    if not tensor.requires_grad:
        raise GradientError("can't retain_grad on a tensor that does not require grad")
    if tensor._t is not None:
        store, slot = _interior_slot(tensor)
        store.retained[slot] = weakref.ref(tensor)


def retains_grad(tensor):
    """See `Tensor.retains_grad`."""
    return tensor._t is not None and tensor._t.forward is None and tensor._i in tensor._t.retained


_tensor._autograd = sys.modules[__name__]

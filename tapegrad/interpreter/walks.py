"""The compiled walks for code that must not load them when it is imported: `load` does, once.

The tape reaches them through the registry: it forgets what is unreachable, and digests large arrays, by compiled code.

`reclaim` forgets instructions that no tensor can reach, so that recording runs in bounded memory.  The live tensors are those that
lie on the store (`fields.live`); their ancestors are marked; if less than half of the store is
reachable, the rest moves to a new store, and the tensors with it.  The old one keeps only the map by which a node finds its new slot.

It needs the compiled walks and the signatures of instructions.  The tape knows nothing of these: they are
imported by the functions, when a store is first full.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.registry import registry
from ..common.uninterrupted import cached_property, uninterrupted
from ..tape.layout import ARRAY_LEAF, CLEARED, CONTINUES, FIRST_ARRAY, SCALAR_LEAF
from ..tape.store import FIRST_BYTES, TapeStore
from .fields import live, make, place
from .signature import Signature


def reachable(store):
    """Marks (uint8 per slot) of everything live tensors on `store` can reach."""
    from . import native

    marks, live = native.live_marks(store)
    native.mark(store, marks, store.length - 1, live)
    return marks


def let_go(store):
    """Drop the values saved by unreachable instructions, whose records stay where they are; returns marks of the others."""
    from . import native

    marks = reachable(store)
    objects = store.objects
    dead, kept = native.saved_ranges(store, marks, 1, store.length - 1, 0)
    for start, stop in dead:
        objects[start:stop] = [None] * (stop - start)
    store.watched = store.watched.keep(marks)
    store.nbytes = kept
    store.byte_limit = max(FIRST_BYTES, 2 * kept)
    return marks


def reclaim(store):
    """Drop unreachable instructions; returns the store to continue with."""
    marks = let_go(store)
    count = store.length
    records = store.records()
    ops = records["op"]
    keep = marks[:count] != 0
    keep[0] = True
    # The operands of an n-ary instruction lie in the records before it.
    for i in np.flatnonzero(keep[1:] & (ops[:-1] == CONTINUES) & (ops[1:] != CONTINUES)) + 1:
        j = i - 1
        while ops[j] == CONTINUES:
            keep[j] = True
            j -= 1
    kept = np.flatnonzero(keep)
    if len(kept) * 2 > count:
        return store

    new = TapeStore(store.thread, store.explicit)
    return _move(store, new, kept, keep)


def _move(store, new, kept, keep):
    """Bring the records in slots `kept` (those for which `keep` is true) to the empty store `new`, renumbered; returns it."""
    renumber = np.cumsum(keep) - 1
    renumber[~keep] = 0
    records = store.records()[kept].copy()
    ops = records["op"]
    while new.capacity < 2 * len(kept):
        new.resize(new.capacity * 2)
    for signature in Signature.among(np.unique(ops & ~CLEARED)):
        Signature.held(new, signature)
    new.due = new.capacity
    operands, continued = (ops != ARRAY_LEAF) & (ops != SCALAR_LEAF) & (ops < CLEARED), ops == CONTINUES
    for name in ("a", "b"):
        records[name][operands] = renumber[records[name][operands]]
    words = records.view(np.int64).reshape(-1, 4)
    words[continued, 2:] = renumber[words[continued, 2:]]
    integers = records["integer"]
    for j, signature in zip(np.flatnonzero((ops >= FIRST_ARRAY) & (ops < ARRAY_LEAF)).tolist(), Signature.among(ops)):
        if signature.saves:
            start = integers[j]
            integers[j] = len(new.objects)
            new.savers.append(j)
            new.objects += store.objects[start : start + len(signature.saves)]
            new.nbytes += signature.charge
    cleared = np.flatnonzero(ops >= CLEARED)
    clearings, integers[cleared] = np.unique(integers[cleared], return_inverse=True)
    new.clearings = [store.clearings[k] for k in clearings.tolist()]
    new.records_into(records)
    new.length = len(kept)
    new.byte_limit = max(new.byte_limit, 2 * new.nbytes)
    new.special = store.special
    # Neither leaves nor operands of others are instructions; a bare cleared record is a stand-in.
    new.cleared = int(np.count_nonzero(ops > CLEARED))
    new.others = int(np.count_nonzero(ops == CONTINUES) + np.count_nonzero(ops == CLEARED))

    starts = np.array(store.runs or [0])
    runs = np.searchsorted(starts, kept, side="right") - 1
    change = np.flatnonzero(np.diff(runs, prepend=-2))
    change = [int(j) for j in change if runs[j] >= 0]
    new.runs[:], new.codes[:] = change, [store.codes[runs[j]] for j in change]

    for slot, leaf, key in store.leaf_list:
        if keep[slot]:
            new.leaf_list.append((int(renumber[slot]), leaf, key))
            new.leaves[key] = int(renumber[slot])
    new.watched = store.watched.keep(keep, renumber)
    for name in ("in_python", "hooks", "node_hooks", "pre_hooks", "retained"):
        setattr(new, name, {int(renumber[i]): v for i, v in getattr(store, name).items() if keep[i]})

    for t in live(store):
        place(t, new, int(renumber[t._i]))
    new.ident = store.ident
    store.ident = -1
    store.forward = (new, kept)
    store.forget()
    store.thread.replace(store, new)
    return new


class Walks:
    """The parts of this folder and of `codegen` that `tape.store`, `tape.watch` and the table of rows use."""

    reclaim, let_go = staticmethod(reclaim), staticmethod(let_go)

    @cached_property
    def native(self) -> Any:
        """The module `native`, imported (and compiled) when it is first asked for."""
        from . import native

        make()
        return native

    @cached_property
    def digest(self) -> Any:
        """See `codegen.memory.digest`: of a C-contiguous array."""
        with uninterrupted:
            from ..codegen.memory import digest
            from ..codegen.python_api import data_address
        return lambda array: digest(data_address(array), array.nbytes)

    def on_arrays(self, name: str, *operands: Any) -> Any:
        """The value of the row of that name: the function of `codegen.gamma` on arrays."""
        from ..codegen.library import compiled_function

        values = np.vectorize(compiled_function(name), otypes=[float])(*operands)
        return values.astype(np.float32) if getattr(operands[-1], "dtype", None) == np.float32 else values


walks = registry.walks = Walks()

"""From a functional recording to a `FinishedTape`, which is read-only.

What no output and no guard depends on is dropped; what is computed twice is
computed once (the same operation on the same operands gives the same bits).
Slots are numbered anew: first the scalars that come from outside (scalar
arguments, and elements of array arguments that the function took one by one),
then array arguments, then instructions in the order of the recording, in which a
replay visits them.  Records are those of define-by-run (`tape.layout`), so the
reverse sweep and the other walks over records work on a finished tape as they
are; array entries get the signature (`sweep.plan`) of their adjoints.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np

from ..rules.table import BY_NAME
from ..tape.layout import ARRAY_LEAF, CONTINUES, FIRST_ARRAY, SCALAR_LEAF, TRACED
from ..tape.meta import SCALAR
from ..tape.places import Place
from ..tape.store import RECORD_DTYPE
from .calling import Callable
from .trace import GUARD, HOST, ROW

_SELECT = BY_NAME["select"]


@dataclass
class Guard:
    """What a replay checks: the value of `slot` (or of a comparison), how it was read, and what was seen."""

    slot: int
    how: str
    seen: bytes
    place: object

    def __str__(self):
        what = bool(self.seen[0]) if self.how == "bool" else f"{len(self.seen)} bytes"
        return f"{self.how} of slot {self.slot} was {what} at {self.place}"


@dataclass
class Item:
    """One array entry of a finished tape: a row, a host function or a guard, in new slots."""

    slot: int
    entry: object
    operands: tuple
    number: int = -1


@dataclass(eq=False)
class FinishedTape(Callable):
    """A recording ready to be replayed; nothing in it changes.

    Attributes
    ----------
    records : ndarray
        One record a slot, with the values of the recorded point.
    inputs : list of Meta
        The arguments, in order.
    leaves : list of int
        Slot of each argument; 0 if the tape does not read it whole.
    elements : list of (int, int, int)
        Argument, flat position, slot: elements read one by one.
    items : list of Item
        Entries, by slot.
    constants : list
        Floats and arrays; items refer to them by negative numbers, from -1.
    guards : list of Guard
    outputs : list of (int, object)
        Slot and description of each result, or 0 and the constant itself.
    active : ndarray of bool
        Which slots depend differentiably on a wanted argument.
    metas : list of Meta
        Description of the value of each slot.
    wanted : tuple of bool
        Which arguments will be differentiated.
    cuts : list of (str, Place)
        Where the derivative was cut on purpose.
    """

    records: np.ndarray
    inputs: list
    leaves: list
    elements: list
    items: list
    constants: list
    guards: list
    outputs: list
    active: np.ndarray
    metas: list
    origins: list
    code_runs: list
    special: bool
    wanted: tuple
    cuts: list = field(default_factory=list)
    structure: object = None

    @property
    def nbytes(self):
        """Bytes of records and of array constants."""
        return self.records.nbytes + sum(c.nbytes for c in self.constants if isinstance(c, np.ndarray))

    def place(self, slot):
        """Where the instruction of `slot` was recorded."""
        origin = self.origins[slot]
        run = bisect_right(self.code_runs, origin, key=lambda pair: pair[0]) - 1
        return Place(self.code_runs[run][1] if run >= 0 else None, int(self.records["offset"][slot]))

    def __len__(self):
        """Number of instructions: everything that is computed (leaves and guards are not)."""
        leaves = len(self.elements) + sum(1 for s in self.leaves if s)
        guards = sum(1 for item in self.items if item.entry.kind == GUARD)
        others = int((self.records["op"] == CONTINUES).sum())
        return len(self.records) - 1 - leaves - guards - others


def finish(trace, outputs, wanted):
    """Finish the recording `trace`.

    Parameters
    ----------
    trace : Trace
    outputs : list
        Results: live tensors, or constants.
    wanted : sequence of bool
        Which arguments will be differentiated.

    Returns
    -------
    FinishedTape
    """
    return _Finisher(trace, outputs, wanted).run()


class _Finisher:
    def __init__(self, trace, outputs, wanted):
        self.trace, self.outputs, self.wanted = trace, outputs, tuple(wanted)
        store = trace.store
        self.old = store.records().copy()
        self.ops, self.lefts, self.rights = (self.old[name].tolist() for name in ("op", "a", "b"))
        self.entries = trace.entries
        self.constants = list(trace.constants)
        self.input_of = {slot: k for k, slot in enumerate(trace.input_slots)}

    def run(self):
        captured = self._captured()
        needed = self._needed()
        elements = self._elements(needed)
        new = self._number(needed, elements, captured)
        return self._build(new)

    # -- what is needed ----------------------------------------------------------
    def _captured(self):
        """Leaves that are no arguments: define-by-run tensors the function captured, constants here."""
        found = {}
        for slot, reference, _ in self.trace.store.leaf_list:
            if slot not in self.input_of:
                leaf = reference()
                assert leaf is not None, "a captured tensor is gone"
                found[slot] = leaf._v
        return found

    def _needed(self):
        ops, lefts, rights, entries = self.ops, self.lefts, self.rights, self.entries
        needed = bytearray(len(ops))
        for t in self.outputs:
            if self._live(t):
                needed[t._i] = 1
        for slot, entry in entries.items():
            if entry.kind == GUARD:
                needed[slot] = 1
        for i in range(len(ops) - 1, 0, -1):
            if not needed[i]:
                continue
            if ops[i] == TRACED:
                for o in entries[i].operands:
                    if o > 0:
                        needed[o] = 1
            elif ops[i] < FIRST_ARRAY:
                needed[lefts[i]] = needed[rights[i]] = 1
        needed[0] = 0
        return needed

    def _live(self, t):
        return getattr(t, "_t", None) is self.trace.store

    def _elements(self, needed):
        """Old slots that read one element of a float64 argument -> (argument, position)."""
        found = {}
        metas = self.trace.input_metas
        readers = {}
        for slot, entry in self.entries.items():
            if not needed[slot]:
                continue
            for o in entry.operands:
                if o in self.input_of:
                    one = entry.kind == ROW and entry.function is _SELECT and entry.meta is SCALAR
                    if one and entry.differentiable and metas[self.input_of[o]].char == "d":
                        found[slot] = (self.input_of[o], entry.integer)
                    else:
                        readers[o] = True
        for t in self.outputs:
            if self._live(t) and t._i in self.input_of:
                readers[t._i] = True
        for slot, k in self.input_of.items():
            if metas[k] is not SCALAR and slot not in readers:
                needed[slot] = 0
        return found

    # -- numbering -------------------------------------------------------------------
    def _number(self, needed, elements, captured):
        """Old slot -> new slot; collects records, items, guards."""
        trace, entries = self.trace, self.entries
        metas_of_inputs = trace.input_metas
        self.records = [(0, 0, 0, 0, 0.0, 0.0)]
        self.metas = [None]
        self.origin = [0]
        self.items = []
        self.guards = []
        new = [0] * len(self.ops)
        values = self.old["value"].tolist()
        consts = self.old["constant"].tolist()
        places = self.old["offset"].tolist()

        def add(op, a, b, value, constant, meta, old):
            self.records.append((op, a, b, places[old], value, constant))
            self.metas.append(meta)
            self.origin.append(old)
            return len(self.records) - 1

        self.element_slots = {}
        for slot, k in self.input_of.items():
            if needed[slot] and metas_of_inputs[k] is SCALAR:
                new[slot] = add(SCALAR_LEAF, 0, 0, values[slot], 0.0, SCALAR, slot)
                self.element_slots[(k, 0)] = new[slot]
        for slot, key in elements.items():
            if key not in self.element_slots:
                value = float(np.asarray(trace.input_values[key[0]]).reshape(-1)[key[1]])
                self.element_slots[key] = add(SCALAR_LEAF, 0, 0, value, 0.0, SCALAR, slot)
            new[slot] = self.element_slots[key]
        for slot, k in self.input_of.items():
            if needed[slot] and metas_of_inputs[k] is not SCALAR:
                new[slot] = add(ARRAY_LEAF, 0, 0, 0.0, 0.0, metas_of_inputs[k], slot)
        for slot, value in captured.items():
            if needed[slot]:
                if type(value) is float:
                    new[slot] = add(SCALAR_LEAF, 0, 0, value, 0.0, SCALAR, slot)
                else:
                    self.constants.append(value)
                    new[slot] = -len(self.constants)

        known = {}
        ops, lefts, rights = self.ops, self.lefts, self.rights
        for i in range(1, len(ops)):
            if not needed[i] or new[i]:
                continue
            op = ops[i]
            if op == TRACED:
                entry = entries[i]
                operands = tuple(new[o] if o > 0 else o for o in entry.operands)
                key = _key(entry, operands)
                if key is not None and key in known:
                    new[i] = known[key]
                    continue
                if entry.kind == GUARD and operands[0] <= 0:
                    # What it looked at is a constant.
                    continue
                if entry.kind == ROW and len(entry.function.slots(len(operands))) > 2:
                    for _ in range((len(entry.function.slots(len(operands))) + 1) // 4):
                        add(CONTINUES, 0, 0, 0.0, 0.0, None, i)
                slot = new[i] = add(TRACED, 0, 0, 0.0, 0.0, entry.meta, i)
                item = Item(slot, entry, operands)
                if entry.kind == GUARD:
                    item.number = len(self.guards)
                    self.guards.append(Guard(operands[0], entry.function, entry.seen, trace.store.place(i)))
                self.items.append(item)
            else:
                a, b = new[lefts[i]], new[rights[i]]
                key = (op, a, b, struct.pack("d", consts[i]))
                if key in known:
                    new[i] = known[key]
                    continue
                slot = new[i] = add(op, a, b, values[i], consts[i], SCALAR, i)
            if key is not None:
                known[key] = slot
        return new

    # -- the tape ---------------------------------------------------------------------
    def _build(self, new):
        trace = self.trace
        count = len(self.records)
        records = np.zeros(count, RECORD_DTYPE)
        columns = list(zip(*self.records))
        for name, column in zip(("op", "a", "b", "offset", "value", "constant"), columns):
            records[name] = column
        outputs = []
        for t in self.outputs:
            if self._live(t) and new[t._i] > 0:
                outputs.append((new[t._i], self.metas[new[t._i]]))
            elif self._live(t):
                outputs.append((0, self.constants[-1 - new[t._i]]))
            else:
                outputs.append((0, t))
        leaves = []
        for k, meta in enumerate(trace.input_metas):
            slot = new[trace.input_slots[k]]
            leaves.append(0 if meta is SCALAR else max(slot, 0))
        element_list = [(k, position, slot) for (k, position), slot in self.element_slots.items()]
        tape = FinishedTape(
            records=records, inputs=list(trace.input_metas), leaves=leaves, elements=element_list, items=self.items,
            constants=self.constants, guards=self.guards, outputs=outputs, active=None, metas=self.metas,
            origins=self.origin, code_runs=list(trace.store.code_runs), special=trace.store.special,
            wanted=self.wanted, cuts=trace.cuts,
        )
        tape.active = _active(tape)
        return tape


def _key(entry, operands):
    """What two entries share if they give the same result; None if each is its own."""
    if entry.kind == GUARD:
        return (GUARD, entry.function, operands, entry.seen)
    if entry.kind == HOST:
        return (HOST, entry.function.ufunc, operands) if entry.function.ufunc is not None else None
    return (ROW, entry.function, entry.attrs, operands, entry.integer, entry.differentiable)


def _active(tape):
    """Which slots depend differentiably on a wanted argument."""
    active = np.zeros(len(tape.records), bool)
    for k, slot in enumerate(tape.leaves):
        if slot and tape.wanted[k]:
            active[slot] = True
    for k, _, slot in tape.elements:
        if tape.wanted[k]:
            active[slot] = True
    active = active.tolist()
    items = {item.slot: item for item in tape.items}
    ops, lefts, rights = (tape.records[name].tolist() for name in ("op", "a", "b"))
    for i, op in enumerate(ops):
        if op == TRACED:
            item = items[i]
            entry = item.entry
            if entry.kind == ROW and entry.differentiable and entry.meta.char in "df":
                row = entry.function
                slots = row.slots(len(item.operands))
                active[i] = any(item.operands[k] > 0 and active[item.operands[k]] for k in slots)
        elif op < FIRST_ARRAY and op != SCALAR_LEAF and i:
            active[i] = active[lefts[i]] or active[rights[i]]
    return np.array(active, bool)


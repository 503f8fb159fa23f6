"""Instructions read back from the records, and with tensors for their operands; what is said of those that a backward pass has cleared.

`Instruction` is what everything in Python that looks at a tape starts from.  A store whose graph was cleared is ended (`retire`), and a
later use of its instructions is an error (`second_backward_error`).

The numeric sweeps read values by address; to *record* a derivative the rules need
the operands as tensors, which point to the slots they came from.  A `Region` reads
slots and makes such tensors; it looks at no slot that it is not asked for, and once at each, so that
instructions may be appended to the tape meanwhile.  It serves both kinds of store:

define-by-run          scalar records say everything; array instructions have the
                       values that their derivatives read among the saved objects;
functional recordings  array instructions are entries of the trace, which keeps
                       their values while they are needed (`Trace.keeping`).
"""

from collections import namedtuple
from functools import lru_cache

import numpy as np

from ..array.record import kept_error, plain, store_of
from ..common.errors import ClearedTapeError
from ..interpreter.fields import place
from ..interpreter.signature import Signature
from ..interpreter.walks import walks
from ..rules import by_opcode, table
from ..tape.layout import ARRAY_LEAF, ARRAY_RECORD, CLEARED, CONTINUATION, FIRST_ARRAY, SCALAR, SCALAR_LEAF, meta_of
from ..tape.store import CALL_ENDED, TapeStore

SECOND_BACKWARD = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). "
    "Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if "
    "you need to backward through the graph a second time or if you need to access saved tensors after calling backward."
)


def slot_on(store, t):
    """The slot of a tracked tensor on `store`; None if it was not used there with the value that it has."""
    if t._t is None:
        return store.leaves.get(t._k)
    return t._i if store_of(t) is store else None


def slots_on(store, tensors):
    """The slots on `store` of tracked tensors, of each a list: a leaf that was changed in place has one for each value with which it was used."""
    found, changed = [], {}
    for t in tensors:
        slot = slot_on(store, t)
        found.append([] if slot is None else [slot])
        if t._t is None and t._x is not None and t._x.changed:
            changed.setdefault(id(t), []).append(found[-1])
    for slot, reference, _ in store.leaf_list if changed else ():
        for own in changed.get(id(reference()), ()):
            if slot not in own:
                own.append(slot)
    return found


class Instruction:
    """One instruction read back from a store.

    Attributes
    ----------
    slot : int
    op : int
        The opcode without the cleared bit.
    cleared : bool
    operands : tuple of int
        Slots; 0 stands for a constant.
    constant : float
        The inline constant of a scalar instruction.
    integer : int
        Position of saved values, or the dynamic attribute, of an array instruction.
    row : Row or None
        None for leaves and continuations.
    signature : Signature or None
    """

    __slots__ = ("store", "slot", "op", "cleared", "operands", "constant", "integer", "row", "signature", "value")

    def __init__(self, store, slot):
        op, a, b, _, self.value, self.constant = store.read(slot)
        self.store, self.slot, self.cleared, self.op = store, slot, op >= CLEARED, op & ~CLEARED
        self.integer, self.signature, self.row = store.read(slot, ARRAY_RECORD)[-1], None, None
        if not SCALAR_LEAF < self.op < ARRAY_LEAF:
            self.operands = ()
        elif self.op < FIRST_ARRAY:
            self.row = by_opcode(self.op)
            # The condition of `where` is the inline constant and no side; other constants are sides.
            sides = self.row.slots(self.row.arity) if self.row.arity <= 2 else (0, 1)
            self.operands = tuple((a, b)[k] for k in sides)
        else:
            self.signature = Signature.ALL[self.op - FIRST_ARRAY]
            self.row = self.signature.row
            operands, count = [a, b], len(self.signature.slots)
            for k in range(0, max(0, count - 2), 4):
                _, c, d, _, e, f = store.read(slot - 1 - k // 4, CONTINUATION)
                operands += [c, d, e, f]
            self.operands = tuple(operands[:count])

    @property
    def is_leaf(self):
        return self.op in (SCALAR_LEAF, ARRAY_LEAF)

    def attributes(self):
        """The row's attributes, the dynamic one included."""
        return {} if self.signature is None else self.row.keywords(self.signature.attrs, self.integer)


def second_backward_error(store, slot):
    """The error for instruction `slot`, which was cleared."""
    cleared = store.retired or store.clearings[store.read(slot, ARRAY_RECORD)[-1]]
    if cleared == CALL_ENDED:
        return kept_error(cleared)
    where = f"It was cleared at {cleared}. " if cleared is not None else ""
    return ClearedTapeError(
        f"{SECOND_BACKWARD}\n{where}Three ways out: (1) pass retain_graph=True to the call there; (2) cut the old part "
        "off with .detach() where the new computation starts from it; (3) recompute the loss before this call."
    )


def retire(store, place):
    """End `store`; its thread goes on with a fresh one."""
    rows = {slot: _row_at(store, slot) for slot in walks.native.live_slots(store)}
    parts = store.retire(place)
    store.live_rows = rows
    store.thread.replace(store, TapeStore(store.thread, store.explicit, parts))


def _row_at(store, slot):
    """The row of an instruction; None if there is none, for a store is also ended while the error about that is raised."""
    op = store.read(slot)[0] & ~CLEARED
    if (signature := Signature.of(op)) is not None:
        return signature.row
    return table.ROWS[op - table.FIRST_ROW] if 0 <= op - table.FIRST_ROW < len(table.ROWS) else None


# ---- ready for its rule --------------------------------------------------------------------------
class ValuesNotKept(Exception):
    """A functional recording has no values of an array instruction whose derivative is wanted."""


class Read(namedtuple("_Read", "row operands result fixed integer slots metas out")):
    """One instruction, ready for its rule.

    Attributes
    ----------
    row : Row
    operands : list
        All operands: tensors that point to their slots, or plain values; None where the tape kept no
        value because no derivative reads it (see `metas`).
    result : Tensor or None
    fixed : tuple
        The attributes without the dynamic one, as `record.apply` takes them.
    integer : int
        The dynamic attribute.
    slots : tuple of (int, int)
        Position and slot of each operand on the tape that can carry a derivative.
    metas : sequence of Meta
        Descriptions of all operands.
    out : Meta
    """

    @property
    def attrs(self):
        """All attributes, the dynamic one included."""
        return self.row.keywords(self.fixed, self.integer)


class Region:
    """The slots of a store that a derivative passes through.

    Parameters
    ----------
    store : TapeStore
    plain : bool
        Whether operands and results are read as plain values, for a derivative that is not recorded.
    """

    def __init__(self, store, plain=False):
        self.store, self.plain = store, plain
        self._entries = store.trace.entries if store.trace is not None else {}
        # By slot: instructions, what they read, leaves (`leaf`), and the tensors that point there.
        self._instructions, self._slots, self._leaves, self._tensors = {}, {}, {}, {}

    def at(self, slot):
        """The instruction in a slot."""
        instruction = self._instructions.get(slot)
        if instruction is None:
            instruction = self._instructions[slot] = Instruction(self.store, slot)
            if instruction.is_leaf:
                self.leaf(slot)
        return instruction

    def leaf(self, slot):
        """The leaf in a slot; one that is gone, or was changed since, counts as a constant (False).  None: it is no leaf."""
        if slot not in self._leaves:
            self._leaves[slot] = None
            for _, reference, key in self.store.leaves_from(slot, slot):
                leaf = reference()
                self._leaves[slot] = leaf if leaf is not None and leaf._k is key else False
        return self._leaves[slot]

    # -- structure ----------------------------------------------------------------
    def operands(self, slot):
        """Slots of the operands through which a derivative passes; 0 for constants."""
        return [o for _, o in self._entry_slots(slot)] if slot in self._entries else self.at(slot).operands

    def _entry_slots(self, slot):
        slots = self._slots.get(slot)
        if slots is None:
            entry, slots = self._entries[slot], ()
            if entry.kind == "row" and entry.differentiable and entry.meta.char in "df":
                slots = tuple([(k, entry.operands[k]) for k in entry.function.slots(len(entry.operands)) if entry.operands[k] > 0])
            self._slots[slot] = slots
        return slots

    # -- operands -------------------------------------------------------------------
    def tensor(self, slot, value=None, meta=None):
        """A tensor that points to `slot`; of an array slot `value` is its value, and `meta` the description of that, if it is known."""
        store = self.store
        if slot in self._tensors:
            return self._tensors[slot]
        if self.plain:
            return store.read(slot)[4] if value is None else value
        leaf = None if slot in self._entries else self.leaf(slot)
        if leaf is not None and leaf is not False:
            return leaf
        if value is None and self.at(slot).op != ARRAY_LEAF:
            value = store.read(slot)[4]
        if leaf is False:
            return value
        t = self._tensors[slot] = plain(value)
        place(t, store, slot)
        if value.__class__ is not float:
            t._m = meta or meta_of(value)
        return t

    def number(self, slot):
        """A tensor at a slot that holds a number."""
        return self.tensor(slot, self.store.trace.numbers[slot] if slot in self._entries else None)

    def read(self, slot):
        """The instruction at `slot` as a `Read`; None for a leaf, and what passes no derivative."""
        if slot in self._entries:
            return self._read_entry(slot)
        instruction = self.at(slot)
        if instruction.row is None:
            return None
        return self._read_scalar(slot, instruction) if instruction.signature is None else self._read_array(slot, instruction)

    def _read_scalar(self, slot, instruction):
        row, constant = instruction.row, instruction.constant
        operands = [self.number(o) if o else constant for o in instruction.operands]
        for k in row.constants:
            operands.insert(k, constant if row.arity == 2 else bool(constant))
        slots = [(k, o) for k, o in zip(row.slots(row.arity), instruction.operands) if o]
        return Read(row, operands, self.number(slot), (), 0, slots, (SCALAR,) * len(operands), SCALAR)

    def _read_array(self, slot, instruction):
        signature, integer = instruction.signature, instruction.integer
        of = dict(zip(signature.slots, instruction.operands))
        operands, result = [None] * len(signature.metas), None
        for j, k in enumerate(signature.saves):
            saved = self.store.objects[integer + j]
            if k < 0:
                result = self.tensor(slot, saved, signature.out)
            else:
                operands[k] = self.tensor(of[k], saved, signature.metas[k]) if of.get(k) else saved
        for k, o in of.items():
            if o and operands[k] is None and signature.metas[k] is SCALAR:
                operands[k] = self.number(o)
        if result is None and signature.out is SCALAR:
            result = self.number(slot)
        slots = [(k, o) for k, o in of.items() if o]
        return Read(instruction.row, operands, result, signature.attrs, integer, slots, signature.metas, signature.out)

    def _read_entry(self, slot):
        slots = self._entry_slots(slot)
        if not slots:
            return None
        entry = self._entries[slot]
        kept = self.store.trace.kept.get(slot)
        if kept is None:
            raise ValuesNotKept
        values, metas, value = kept
        operands = [self.tensor(o, v, m) if o > 0 else v for o, v, m in zip(entry.operands, values, metas)]
        attrs = entry.attrs if entry.function.primitive is None else tuple([pair for pair in entry.attrs if pair[0] != "call"])
        return Read(entry.function, operands, self.tensor(slot, value, entry.meta), attrs, entry.integer, slots, metas, entry.meta)


@lru_cache(1024)
def like(meta):
    """An array of a description that costs no memory, for a value that no rule reads."""
    return np.broadcast_to(np.full((), np.nan, meta.char), meta.shape)

"""A finished tape as columns: one entry an instruction, leaves and continuations left out.

What an instruction does is a number, its *code*: two instructions of the same code
differ only in which values they read, in their integer attribute and in the numbers
of guards.  An operand is a *reference*: a number from 0 on is the instruction whose
result it is, a number below is something from outside, counted from -1.  The tape of ``np.sin(x[0]) * 2.0 + x[0]``::

    slots  code                  operands       outside
    2      sin                   -1             -1  element 0 of argument 0
    3      multiply by constant  0, -2          -2  the number 2.0
    4      add                   1, -1

Scalar instructions cost no Python each, entries of the recording (`program.finish.Item`) a few
microseconds.

Arrays that are written element by element keep one place: ``y[i] = v`` makes a new version of `y`.  Where the old one is no longer read, the
new one takes its place, so that a loop over elements costs as much as it has
elements.  A *storage* is one buffer for the versions of several templates: writes, which
change what is there, and what computes the first version, if that can be computed there.  Any other
first version is copied into the storage before the loop whose first iteration wants it::

    y0 = np.zeros(n)                        the storage: zeros
    y1 = y0 with element 0 = x[0] ** 2      a store to element 0: it is y1 now, and y0 is gone
    y2 = y1 with element 1 = x[1] ** 2      a store to element 1, in the next iteration of the same loop

That is sound if each version is read for the last time before the next one of the same
storage is made, or by the write that makes it; it is checked instruction by
instruction, on the recorded order, which is the order of execution.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..common.host_functions import HostFunction
from ..program.finish import Item
from ..program.through import Rules
from ..program.trace import GUARD, HOST, ROW, SHAPE, Entry, HostCall, HostOperand, by_value
from ..rules.table import FIRST_ROW, ROWS
from ..tape.layout import ARRAY_LEAF, FIRST_ARRAY, SCALAR_LEAF, meta_of
from ..tape.watch import PART

#: Kinds of outside references: a number, an element of an argument, a whole argument, an array constant.
NUMBER, ELEMENT, ARGUMENT, ARRAY = range(4)
#: Codes of entries are counted from here; those of scalar instructions are ``4 * opcode + constants``.
ENTRIES = 4 * FIRST_ARRAY


@dataclass(eq=False)
class Columns:
    """The instructions of a tape.

    Attributes
    ----------
    tape : FinishedTape
    slots : ndarray of int64
        Slot of each instruction.
    code : ndarray of int32
    first : ndarray of int64
        Where the operands of each instruction begin in `operands` (and an end).
    operands : ndarray of int64
        References.
    integer : ndarray of int64
        Integer attribute of an entry, or the number of a guard.
    item : ndarray of int64
        Position of an entry among the tape's items, -1 for scalar instructions.
    kind, which, at, number : ndarray
        Of what comes from outside: its kind, the argument or array constant, the flat
        position of an element, the float of a number.
    reference : ndarray of int64
        Reference to the value of each slot.
    """

    tape: object
    slots: np.ndarray
    code: np.ndarray
    first: np.ndarray
    operands: np.ndarray
    integer: np.ndarray
    item: np.ndarray
    kind: np.ndarray
    which: np.ndarray
    at: np.ndarray
    number: np.ndarray
    reference: np.ndarray

    def __len__(self):
        return len(self.slots)

    def pairs(self):
        """The instructions that compute the first two operands of each one, as int32; -1 where there is none."""
        count = np.diff(self.first)
        pairs = np.full((len(self), 2), -1, np.int32)
        for k in range(2):
            has = np.flatnonzero(count > k)
            pairs[has, k] = self.operands[self.first[has] + k]
        return np.maximum(pairs, -1)


#: What comes from outside: see `Columns`.
_OUTSIDE = np.dtype([("kind", np.int8), ("which", np.int64), ("at", np.int64), ("number", np.float64)])


class _OutsideNumbers:
    """Numbers outside references."""

    def __init__(self):
        self.rows = np.empty(0, _OUTSIDE)

    def add(self, kind, which=0, at=0, number=0.0):
        """References to new things: as many as the longest of these arrays has, else one."""
        new = np.empty(np.broadcast(kind, which, at, number, [0]).size, _OUTSIDE)
        new["kind"], new["which"], new["at"], new["number"] = kind, which, at, number
        first, self.rows = len(self.rows), np.concatenate([self.rows, new])
        return -1 - np.arange(first, len(self.rows))


def distinct(numbers):
    """The numbers that occur, ascending: `np.unique` without its options imports `numpy.ma`, half the time of a small kernel."""
    return np.unique(numbers, return_index=True)[0]


def joined(sets):
    """The numbers that occur in any of `sets`, as lists of those that sets with common members join; all ascending."""
    parent = {}

    def root(number):
        while parent.setdefault(number, number) != number:
            number = parent[number]
        return number

    for numbers in sets:
        last = root(numbers[-1])
        for number in numbers:
            parent[root(number)] = last
    groups = {}
    for number in sorted(parent):
        groups.setdefault(root(number), []).append(number)
    return list(groups.values())


def columns(tape):
    """The columns of `tape`.

    Parameters
    ----------
    tape : FinishedTape

    Returns
    -------
    Columns

    """
    tape = replace(tape, items=[_computed(item) for item in tape.items])
    records = tape.records
    op = records["op"]
    scalar = (op > SCALAR_LEAF) & (op < ARRAY_LEAF)
    present = scalar.copy()
    item_slots = np.array([item.slot for item in tape.items], np.int64)
    present[item_slots] = True
    slots = np.flatnonzero(present)
    number_of = np.cumsum(present) - 1

    outside = _OutsideNumbers()
    reference = np.where(present, number_of, 0)
    is_number = _leaves(tape, outside, reference, op)
    constants = _constants(tape, outside)

    # The number of operands of each instruction.
    is_scalar = scalar[slots]
    at = slots[is_scalar]
    own = np.array([row.arity for row in ROWS])[op[at] - FIRST_ROW]
    count = np.zeros(len(slots), np.int64)
    count[is_scalar] = own
    numbers = number_of[item_slots]
    count[numbers] = [len(item.operands) for item in tape.items]
    first = np.concatenate([[0], np.cumsum(count)])

    operands = np.zeros(first[-1], np.int64)
    code = np.zeros(len(slots), np.int32)
    starts = first[:-1][is_scalar]
    fixed = np.zeros(len(at), np.int64)
    a, b = records["a"][at].astype(np.int64), records["b"][at].astype(np.int64)
    inline = _inline(records["constant"][at], (own == 3) | (own == 2) & ((a == 0) | (b == 0)), outside)
    zero = outside.add(NUMBER)[0]
    missing = np.where(own == 3, zero, inline)
    for k, slot in ((0, a), (1, b)):
        has = own > k
        refs = np.where(slot == 0, missing, reference[slot])
        operands[(starts + k + (own == 3))[has]] = refs[has]
        fixed |= (has & is_number[slot]) << k
    operands[starts[own == 3]] = inline[own == 3]
    code[is_scalar] = 4 * op[at] + fixed

    integer = np.zeros(len(slots), np.int64)
    item_of = np.full(len(slots), -1, np.int64)
    item_of[numbers] = np.arange(len(tape.items))
    codes = {}
    references = reference.tolist()
    begins = first[numbers].tolist()
    for item, n, begin in zip(tape.items, numbers.tolist(), begins):
        operands[begin : begin + len(item.operands)] = [references[o] if o > 0 else constants[-1 - o] for o in item.operands]
        code[n] = codes.setdefault(_description(tape, item), ENTRIES + len(codes))
        integer[n] = item.number if item.entry.kind == GUARD else item.entry.integer
    return Columns(tape, slots, code, first, operands, integer, item_of, *(np.ascontiguousarray(outside.rows[name]) for name in _OUTSIDE.names), reference)


def _computed(item):
    """The function that computes the value of an entry: a call of a user's primitive is the value that was recorded beside it, or a function in Python."""
    if item.entry.kind != ROW or item.entry.function.primitive is None:
        return item
    entry, operands = by_value(item.entry, item.operands), item.operands[1:]
    if entry is None:
        layout = tuple(HostOperand(k) for k in range(len(operands))), {}
        entry = Entry(HOST, HostCall(Rules.of(item.entry).computed(), layout), (), operands, False, 0, item.entry.meta)
    return Item(item.slot, entry, entry.operands)


def _leaves(tape, outside, reference, op):
    """References to leaves; returns for each slot whether it is a number, as 0 is, which stands for the inline constant."""
    # A captured value is a constant.
    captured = op == SCALAR_LEAF
    if tape.elements:
        which, at, slots = np.array(tape.elements, np.int64).T
        reference[slots] = outside.add(ELEMENT, which, at)
        captured[slots] = False
    for k, slot in enumerate(tape.leaves):
        if slot:
            reference[slot] = outside.add(ARGUMENT, k)[0]
    reference[captured] = outside.add(NUMBER, number=tape.records["value"][captured])
    captured[0] = True
    return captured


def _constants(tape, outside):
    """References to the tape's constants."""
    numbers = [np.ndim(constant) == 0 and np.asarray(constant).dtype.char == "d" for constant in tape.constants]
    kinds, floats = np.where(numbers, NUMBER, ARRAY), [float(c) if is_number else 0.0 for c, is_number in zip(tape.constants, numbers)]
    return outside.add(kinds, np.where(numbers, 0, np.arange(len(numbers))), 0, floats).tolist()


def _inline(values, used, outside):
    """References to inline constants, equal bits once; 0 where none is used."""
    result = np.zeros(len(values), np.int64)
    bits, inverse = np.unique(np.ascontiguousarray(values[used]).view(np.int64), return_inverse=True)
    result[used] = outside.add(NUMBER, number=bits.view(np.float64))[inverse]
    return result


def _description(tape, item):
    """The key that entries share which do the same to different operands."""
    entry = item.entry
    metas = tuple([tape.metas[o] if o > 0 else meta_of(tape.constants[-1 - o]) for o in item.operands])
    fixed = tuple([o <= 0 for o in item.operands])
    if entry.kind == GUARD:
        return (GUARD, entry.function, entry.seen if entry.function in ("bool", SHAPE) else len(entry.seen), metas)
    if entry.kind == HOST:
        function, ufunc = entry.function.function, entry.function.ufunc
        if ufunc is None:
            recomputed = isinstance(function, HostFunction) and not function.data
            ufunc = function.name if recomputed else entry.function
        return (HOST, ufunc, metas, fixed, entry.meta)
    return (entry.function, entry.attrs, metas, fixed, entry.meta)


class Storage:
    """One buffer for the versions of several templates.

    Attributes
    ----------
    templates : list of StatementNode
        All of them.
    writes : set of StatementNode
        Those that change what is there.
    copies : dict
        (body, position) -> references, one for each execution, to what is copied there before that node.
    """

    def __init__(self, templates, writes):
        self.templates, self.writes = templates, writes
        self.copies = {}
        #: Its ArrayRef, which the builder makes.
        self.array = None


class _Unsound(Exception):
    pass


def place_writes(references):
    """Give templates of indexed assignments, and what they write into, their storages.

    Parameters
    ----------
    references : References
        Not resolved yet; `storage` of its templates is set.

    Returns
    -------
    list of Storage
    """
    if not any(map(_writes, references.columns.tape.items)):
        return []
    placement = _Placement(references)
    storages = placement.run()
    if len(_written(storages)) < len(placement.writers):
        # What reads small parts of a version later, as the way back does, reads copies of them.
        apart = _Placement(references, True)
        found = apart.run()
        if len(_written(found)) > len(_written(storages)):
            storages = found
            for t in apart.parts:
                t.stored = True
    for storage in storages:
        for t in storage.templates:
            t.storage = storage
    return storages


def _writes(item):
    return item.entry.kind == ROW and item.entry.function.effect == "write"


def _written(storages):
    return [t for storage in storages for t in storage.writes]


class _Placement:
    """Times at which arrays are read, and versions that may share a place.

    Parameters
    ----------
    references : References
    apart : bool
        Whether small windows on what is written to are copies in places of their own.

    Attributes
    ----------
    last : dict
        Instruction (or reference to something from outside) -> number of the last one that reads it, or a window on it.
    root : dict
        Windows -> what they look at.
    writers : list of StatementNode
    parts : set of StatementNode
        Those that compute windows which are copies.
    """

    def __init__(self, references, apart=False):
        self.references, self.columns = references, references.columns
        columns = self.columns
        tape, first, operands = columns.tape, columns.first.tolist(), columns.operands
        self.last, self.root = {}, {}
        numbers = np.flatnonzero(columns.item >= 0)
        writers, self.parts = {}, set()
        changed = {int(operands[first[i]]) for i in numbers.tolist() if apart and _writes(tape.items[columns.item[i]])}
        for i, k in zip(numbers.tolist(), columns.item[numbers].tolist()):
            entry = tape.items[k].entry
            for r in operands[first[i] : first[i + 1]].tolist():
                self.last[self.root.get(r, r)] = i
            if entry.kind == ROW and entry.meta.shape and entry.function.effect == "view":
                r = int(operands[first[i]])
                if r in changed and r >= 0 and PART * entry.meta.nbytes <= tape.metas[columns.slots[r]].nbytes:
                    self.parts.add(references.templates[references.owner[i]])
                else:
                    self.root[i] = self.root.get(r, r)
            elif entry.kind == ROW and entry.function.effect == "write":
                writers[int(references.owner[i])] = None
        for slot, _ in tape.outputs:
            if slot:
                r = int(columns.reference[slot])
                self.last[self.root.get(r, r)] = len(columns)
        self.writers = {references.templates[number] for number in writers}
        #: Templates -> what reads them: (number of a template, operand).
        self.readers = {}
        for t in references.templates if writers else ():
            for k in range(columns.first[t.members[0] + 1] - columns.first[t.members[0]]):
                refs = columns.operands[columns.first[t.members] + k]
                for owner in distinct(references.owner[refs[refs >= 0]]).tolist():
                    self.readers.setdefault(owner, []).append((t.number, k))

    def run(self):
        storages = []
        for templates in self._groups(self.writers, True):
            whole = self._sound(templates)
            if whole is not None:
                storages.append(whole)
                continue
            # The first version is computed elsewhere.
            parts = self._groups({t for t in templates if t in self.writers}, False)
            storages += [s for s in map(self._sound, parts) if s is not None]
        return storages

    def _targets(self, t):
        """References to the array that the write `t` changes."""
        return self.columns.operands[self.columns.first[t.members]]

    def _groups(self, writers, with_first):
        """Templates that may share a place: writes and what they change; `with_first`: what is no write itself too."""
        references, pairs = self.references, []
        for t in sorted(writers, key=lambda t: t.number):
            refs = self._targets(t)
            refs = refs[refs >= 0]
            for owner in distinct(references.owner[refs]).tolist():
                other = references.templates[owner]
                if other in writers or with_first and int(other.members[0]) not in self.root:
                    pairs.append((owner, t.number))
        return [[references.templates[number] for number in numbers] for numbers in joined(pairs)]

    def _sound(self, templates):
        storage = Storage(templates, {t for t in templates if t in self.writers})
        try:
            self._check(storage)
        except _Unsound:
            return None
        return storage

    def _check(self, storage):
        """Raise `_Unsound` unless the storage may hold all its versions; note what is copied into it."""
        references, columns = self.references, self.columns
        own = np.zeros(len(references.templates), bool)
        own[[t.number for t in storage.templates]] = True
        #: Reads of what is copied.
        reads = []
        uses = {use for t in storage.templates for use in self.readers.get(t.number, ())} | {(t.number, 0) for t in storage.writes}
        for number, k in sorted(uses):
            t = references.templates[number]
            refs = columns.operands[columns.first[t.members] + k]
            mine = (refs >= 0) & own[references.owner[np.maximum(refs, 0)]]
            _copied(storage, refs, ~mine, t.body, t.position)
            reads += t.members[~mine].tolist()
        for t in storage.writes:
            values = columns.operands[columns.first[t.members] + 1]
            if any(self.root.get(v, v) == r for v, r in zip(values.tolist(), self._targets(t).tolist())):
                raise _Unsound
        versions = [(int(i), int(i), t in storage.writes) for t in storage.templates for i in t.members.tolist()]
        for (body, position), refs in storage.copies.items():
            versions += [(time - 0.5, r, None) for time, r in zip(times_of(body, position).tolist(), refs.tolist())]
        versions.sort(key=lambda version: version[0])
        times = np.array([time for time, _, _ in versions])
        last = [-1 if write is None else self.last.get(r, -1) for _, r, write in versions]
        for i, k in zip(reads, (np.searchsorted(times, reads, side="left") - 1).tolist()):
            if k < 0 or versions[k][2] is not None:
                raise _Unsound
            last[k] = max(last[k], i)
        if versions[0][2]:
            raise _Unsound
        first, operands = columns.first, columns.operands
        for (_, before, _), (time, i, write), read in zip(versions, versions[1:], last):
            if write and operands[first[i]] != before or read > time or read == time and not write:
                raise _Unsound


def times_of(body, position):
    """When node `position` of `body` begins."""
    node = body.nodes[position]
    return node.members if hasattr(node, "members") else node.begun


def _copied(storage, refs, other, body, position):
    """Note where those of `refs` that are versions from elsewhere (`other`) are copied, before node `position` of `body`."""
    if other.all():
        # A first iteration that computes it itself has nothing to copy before.
        if (refs >= times_of(body, position)).any() or not np.array_equal(storage.copies.setdefault((body, position), refs), refs):
            raise _Unsound
    elif other.any():
        level = body.levels[-1] if body.levels else None
        if level is None or (other & ~level.begins).any():
            raise _Unsound
        _copied(storage, refs[level.first], other[level.first], level.parent, level.position)

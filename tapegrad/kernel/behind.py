"""The adjoint of a tape written on the same tape: what a gradient inside of another derivative costs.

`autograd.passes` runs the rules of rows on tensors.  Here runs of scalar instructions are passed by compiled code, which writes the same
instructions from templates (`kernel.templates`, `kernel.scalars`), with their values.  In between the rules of array instructions are
run on tensors.  Nothing is remembered of a tape: templates belong to rows.
"""

import itertools
import struct
import threading
from bisect import bisect_right

import numpy as np

from ..array.record import plain, tracked
from ..array.tensor import Tensor
from ..autograd.adjoint import FEW, accumulated, contributions, elements_at, passing
from ..autograd.backward import Pass, own_copy
from ..autograd.passes import values_of
from ..autograd.reading import Region
from ..codegen.of_rows import value_switch
from ..codegen.python_api import data_address
from ..common.uninterrupted import remade
from ..interpreter.fields import place
from ..interpreter.native import refuse_unknown, table_address
from ..interpreter.program import UNKNOWN
from ..rules import BY_NAME, by_opcode
from ..rules import lang as L
from ..tape.layout import FIRST_ARRAY, SCALAR_LEAF
from ..tape.meta import SCALAR
from ..tape.places import caller_frame
from . import scalars as S
from .reasons import NotLowered
from .templates import TemplateColumns, evaluate, template

_ARITHMETIC = np.array([BY_NAME[name].opcode for name in ("add", "subtract", "multiply", "negative", "absolute_product", "divide")])
_ARITHMETIC_AT = data_address(_ARITHMETIC)
_MULTIPLY = BY_NAME["multiply"].opcode
_SELECT = BY_NAME["select"]
#: With more leaves than that the store is left to a pass, which looks only at those that it meets.
LEAVES = 1024
#: So many constants of instructions are remembered, with what their templates compute of them.
CONSTANTS = S.ENTRIES // 2
#: Of so many records of a recording more than one is an entry: its rules are run on tensors, then, as those of all others.
MIXED = 3
#: Records that are left free behind what a walk writes.
SPARE = 64
#: Stands for the adjoint of an array, which is a tensor.
ELSEWHERE = 1 << 40


class _Templates:
    """All templates that were asked for, in columns that `scalars.down` reads; number 0 is none."""

    def __init__(self):
        #: By opcode and pattern: a number, 0 where it has not been asked for, -1 where there is none, or where it is chosen by the constant.
        self.numbers = np.zeros(FIRST_ARRAY << 4, np.int32)
        self.known, self.special, self.lock = {}, False, remade(threading.Lock())
        self.templates = TemplateColumns()
        self._forget()
        self.columns()

    def _forget(self):
        """What was chosen by constant (entries of `scalars.entry_of`), and what templates compute of theirs: nothing yet."""
        self.entries, self.count = np.zeros((S.ENTRIES, S.ENTRY), np.int64), 0
        self.computed, self.end = np.zeros(CONSTANTS), 0

    def columns(self):
        """The columns anew: a walk goes on with those that it took, which know nothing of what another one adds meanwhile."""
        self.entries, self.computed = self.entries.copy(), self.computed.copy()
        arrays = [self.numbers.copy(), *self.templates.arrays(), self.entries, self.computed]
        #: Addresses, as `down` reads them, and what is there.
        self.arrays = list(map(data_address, arrays)), arrays

    def chosen(self, op, pattern, constant):
        """Choose the template of an instruction; returns whether it has one."""
        code, constant = op << 4 | pattern, np.float64(constant)
        with self.lock:
            number, values = self._chosen(code, by_opcode(op), pattern, constant)
            if number != self.numbers[code]:
                if self.count == CONSTANTS:
                    self._forget()
                    self.columns()
                elif self.end + len(values) > len(self.computed):
                    self.computed = np.concatenate([self.computed, np.zeros(len(values) + len(self.computed))])
                    self.columns()
                self.computed[self.end : self.end + len(values)] = values
                entry = S.entry_of(data_address(self.entries), code, int(constant.view(np.int64)))
                self.count += not self.entries[entry, 0]
                self.entries[entry] = code, constant.view(np.int64), number, self.end
                self.end += len(values)
        return number > 0

    def _chosen(self, code, row, pattern, constant):
        decisions = ()
        try:
            while isinstance(made := template(row, pattern, decisions, False, True), L.Expr):
                decisions = *decisions, (made.key(), bool(evaluate(made, constant)))
        except NotLowered:
            self.numbers[code] = -1
            self.columns()
            return -1, ()
        known, own = len(self.templates.own), self.templates.own
        number = self.known.get(made) or self._add(made)
        settled = number > 0 and not decisions and all(e.op == "arg" for e in own[number])
        if settled:
            self.numbers[code] = number
        if settled or len(own) > known:
            self.columns()
        return number, [float(evaluate(e, constant)) for e in own[number]] if number > 0 else ()

    def _add(self, made):
        rows = [by_opcode(opcode) for opcode, *_ in made.instructions]
        if len(rows) > S.LONGEST or any(row.arity > 2 for row in rows):
            self.known[made] = -1
        else:
            self.known[made] = self.templates.add(made)
            self.special = self.special or any(row.calls_scipy for row in rows)
        return self.known[made]


_TEMPLATES = None
#: Walks that are not under way; of so many slots one is kept.
_FREE, KEPT = [], 1 << 16
#: The words of a walk that no other has, which are its first.
_WALK = struct.Struct("6q")


def pulled(roots, seeds, wanted, frame=None):
    """The adjoints of the tensors `wanted`, recorded behind `roots`, of one store and with their `seeds`; None if a hook waits on the way.

    `frame` is the user's that asks for them.

    Returns
    -------
    list of (Tensor, float, ndarray or None), or None
        None for what the roots do not depend on.
    """
    global _TEMPLATES
    store = roots[0]._t
    state = store.thread
    if (
        store.retired is not None or store.ident != state.ident or store.hooks
        or store.node_hooks or store.pre_hooks or store.retained or state.checking is not None or len(store.leaf_list) > LEAVES
        or len({t._i for t in roots}) < len(roots) or any([t._t is not store for t in roots])
    ):  # fmt: skip
        return None
    for _, reference, key in store.leaf_list:
        leaf = reference()
        if leaf is not None and leaf._k is not key:
            return None
    bottoms = []
    for t in wanted:
        if t._t is not store and (t._t is not None or t._x is not None and t._x.hooks):
            return None
        bottoms.append(t._i if t._t is store else store.leaves.get(t._k))
    known = [slot for slot in bottoms if slot is not None]
    root = max([t._i for t in roots])
    if not known or root < min(known):
        return [None] * len(wanted)
    entries = None
    if store.trace is not None:
        entries = [*itertools.takewhile(min(known).__le__, reversed(store.trace.entries))]
        if MIXED * len(entries) > root - min(known):
            return None
    if _TEMPLATES is None:
        _TEMPLATES = _Templates()
    try:
        walk = _FREE.pop()
    except IndexError:
        walk = _Walk()
    store.pinned += 1
    try:
        walk.begin(store, min(known), root, wanted, frame or caller_frame(3), entries)
        if entries is None:
            return walk.run(roots, seeds, bottoms)
        with values_of(store):
            return walk.run(roots, seeds, bottoms)
    finally:
        store.unpin()
        walk.end()


class _Walk:
    """A walk down from the `root` to slot `low`; adjoints of numbers are references (`kernel.scalars`), those of arrays are in `arrays`.

    Its memory serves one walk after another.
    """

    def __init__(self):
        self.pool, self.columns = np.empty(0), None
        self._allocate(S.LONGEST)

    def _allocate(self, size):
        """Memory for `size` slots: the words, the lines of a template, the adjoints, a byte for each slot that is reached."""
        self.size = size
        self.words = words = np.zeros(S.WORDS + S.LONGEST + size + size // 8 + 1, np.int64)
        self.adjoints, self.bytes = words[S.WORDS + S.LONGEST :], words.view(np.uint8)
        self.address = data_address(words)
        words[S.DONE], words[S.ADJOINTS] = self.address + 8 * S.WORDS, self.address + 8 * (S.WORDS + S.LONGEST)
        words[S.ARITHMETIC], words[S.POOL], words[S.MOST_POOLED] = _ARITHMETIC_AT, data_address(self.pool), len(self.pool)
        self.columns = None

    def begin(self, store, low, root, wanted, frame, entries):
        """Take up a walk."""
        self.store, self.low, self.root, self.wanted, self.frame, self.first = store, low, root, wanted, frame, store.length
        size = root + 1 - low
        if size > self.size:
            self._allocate(2 * size)
        self.adjoints[: size + size // 8 + 1] = 0
        self.reached = 8 * (S.WORDS + S.LONGEST + size)
        _WALK.pack_into(self.words, 0, low, root, 0, self.address + self.reached, store.words, frame.f_lasti if entries is None else -1)
        self.words[S.FLOOR] = low
        self._columns()
        #: Of array slots: adjoints, elements that are read one by one (position and reference), adjoints that are asked for.
        self.arrays, self.reads, self.asked = {}, {}, {}
        self.stretch, self.entries = None, entries

    def end(self):
        """Let go of everything but the memory, if that is not much."""
        self.store = self.wanted = self.frame = self.arrays = self.reads = self.asked = self.stretch = self.entries = self.roots = None
        if self.size <= KEPT:
            _FREE.append(self)

    def _columns(self):
        if self.columns is not _TEMPLATES.arrays:
            self.columns = _TEMPLATES.arrays
            self.words[S.TEMPLATES : S.OWN + 1] = self.columns[0]
        store = self.store
        store.special = store.special or _TEMPLATES.special
        self.words[S.VALUES] = value_switch(store.special)

    def _room(self, more):
        """Room for `more` records and constants."""
        store, words = self.store, self.words
        capacity = store.capacity
        while store.length + more > capacity - SPARE:
            capacity *= 2
        if capacity > store.capacity:
            store.resize(capacity)
        words[S.MOST] = capacity - SPARE
        if words.item(S.POOLED) + more > len(self.pool):
            pool = np.empty(2 * len(self.pool) + more)
            pool[: len(self.pool)] = self.pool
            self.pool = pool
            words[S.POOL], words[S.MOST_POOLED] = data_address(pool), len(pool)

    def run(self, roots, seeds, bottoms):
        words, low = self.words, self.low
        for slot in bottoms:
            if slot is not None and slot <= self.root:
                self.bytes[self.reached + slot - low] = 1
        self._room(2 * (self.root + 1 - low) + 3 * S.LONGEST + len(roots))
        self._reach()
        self.roots = [(t._i, seed) for t, seed in zip(roots, seeds)]
        for t, seed in zip(roots, seeds):
            if t._i >= low and not self._set(t._i, t._v.__class__ is float, seed):
                return None
        if (at := self._down()) >= 0:
            asked = set(bottoms)
            with np.errstate(all="ignore"):
                while at >= 0:
                    if not self._pass(at, asked):
                        return None
                    words[S.AT] = at - 1
                    at = self._down()
        return self._out(bottoms)

    def _reach(self):
        """Mark what lies on the way up; what the entries of a recording read, the records do not say."""
        store, low, at, table = self.store, self.low, self.low, table_address()
        marks = self.words.item(S.REACHED)
        if self.entries is not None:
            self.stretch = Region(store)
            for slot in reversed(self.entries):
                if slot <= self.root:
                    S.reach(store.address, low, at, slot, marks, table)
                    at = slot + 1
                    self.bytes[self.reached + slot - low] |= any(map(self._reaches, self.stretch.operands(slot)))
        S.reach(store.address, low, at, self.root, marks, table)

    def _reaches(self, slot):
        """Whether a slot lies on the way."""
        return slot >= self.low and self.bytes.item(self.reached + slot - self.low) > 0

    def _down(self):
        """Pass numbers, down to a slot that only its rule can pass, which is returned; or -1."""
        words = self.words
        store, frame, low = self.store, self.frame, self.low
        while True:
            if self.entries is not None:
                # In a recording the derivative of an instruction stands where that does.
                at = words.item(S.AT)
                run = bisect_right(store.runs, at)
                words[S.FLOOR], frame = (max(low, store.runs[run - 1]), store.place(at)) if run else (low, self.frame)
            if id(frame.f_code) != store.running:
                store.note_code(frame)
            status = S.down(self.address)
            at = words.item(S.AT)
            if status == S.THROUGH:
                if at < low:
                    return -1
            elif status == S.FULL:
                self._room(2 * (store.length - self.first) + 3 * S.LONGEST)
            elif status == S.UNKNOWN:
                refuse_unknown(words.item(S.RECORDS), UNKNOWN - at)
            elif status == S.CANNOT or not self._choose(at):
                return at

    # -- adjoints -------------------------------------------------------------------
    def _set(self, slot, is_number, value):
        """Let `value` be the adjoint of a slot; whether it can be."""
        if not is_number:
            self.arrays[slot], reference = value, ELSEWHERE
        elif isinstance(value, Tensor) and tracked(value):
            if value._t is None:
                self.store.enter(value)
                self._room(3 * S.LONGEST)
            elif value._t is not self.store:
                return False
            reference = self.store.leaves[value._k] if value._t is None else value._i
        else:
            k = self.words.item(S.POOLED)
            if k == len(self.pool):
                self._room(S.LONGEST)
            self.pool[k], self.words[S.POOLED], reference = float(getattr(value, "_v", value)), k + 1, -1 - k
        self.adjoints[slot - self.low] = reference
        return True

    def _value(self, reference):
        """A reference as a tensor or number."""
        if reference < 0:
            return self.pool.item(-1 - reference)
        t = plain(self.store.read(reference)[4])
        place(t, self.store, reference)
        return t

    def _pass(self, slot, bottoms):
        """Pass an instruction by its rule, on tensors; whether that can be."""
        reference, low = self.adjoints.item(slot - self.low), self.low
        if self.stretch is None:
            self.stretch = Region(self.store)
            Pass(self.store, self.roots, self.wanted).check()
        read = self.stretch.read(slot)
        if read is not None and read.row is _SELECT and reference != ELSEWHERE and read.metas[0].size > FEW and slot not in bottoms:
            (_, operand), *_ = read.slots or [(0, 0)]
            if self._reaches(operand):
                self.reads.setdefault(operand, (read.metas[0], []))[1].append((read.integer, reference))
                self.adjoints[operand - low] = ELSEWHERE
            return True
        g = self.arrays.pop(slot, None) if reference == ELSEWHERE else self._value(reference)
        if slot in self.reads:
            meta, parts = self.reads.pop(slot)
            positions, references = zip(*parts)
            g = elements_at(positions, list(map(self._value, references)), meta, g)
        if reference == ELSEWHERE and slot in bottoms:
            self.asked[slot] = g
        if read is not None:
            slots = dict(read.slots)
            wanted = [k for k, o in read.slots if self._reaches(o)]
            with passing(self.stretch, slot, read):
                for k, part in contributions(self.stretch, slot, read, g, None, wanted):
                    o, meta = slots[k], read.metas[k]
                    if k in wanted:
                        before = self.adjoints.item(o - low)
                        before = self.arrays.get(o) if meta is not SCALAR else self._value(before) if before else None
                        if not self._set(o, meta is SCALAR, accumulated(before, part, meta, None)):
                            return False
        self._room(3 * S.LONGEST)
        return True

    def _choose(self, slot):
        """Choose the template of the instruction in a slot; returns whether there is one."""
        op, a, b, _, _, constant = self.store.read(slot)
        pattern = (a == 0) * 4 | (b == 0) * 8 | self._reaches(a) | (self._reaches(b) << 1)
        there = _TEMPLATES.chosen(op, pattern, constant)
        if self.columns is not _TEMPLATES.arrays:
            self._columns()
        return there

    # -- results --------------------------------------------------------------------
    def _out(self, bottoms):
        """The adjoints that are asked for."""
        store, low, found = self.store, self.low, []
        #: By reference.
        own = {}
        for slot in bottoms:
            reference = self.adjoints.item(slot - low) if slot is not None and slot <= self.root else 0
            if reference == ELSEWHERE:
                found.append(own_copy(self.asked.get(slot)))
                continue
            if store.trace is None and reference > 0 and (reference < self.first or store.read(reference)[0] == SCALAR_LEAF):
                # What stood there already gets a number of its own: hooks of one are no hooks of the other.
                if reference not in own:
                    self._room(1)
                    own[reference] = store.append(_MULTIPLY, 0, reference, self.frame.f_lasti, store.read(reference)[4], 1.0)
                reference = own[reference]
            found.append(self._value(reference) if reference else None)
        return found

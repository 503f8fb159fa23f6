"""The adjoint of a tape, or a tangent, written on the same tape: what a derivative inside of another one costs.

`autograd.passes` and `autograd.adjoint` run the rules of rows on tensors.  Here runs of scalar instructions are passed by compiled code, which writes the same
instructions from templates (`kernel.templates`), with their values.  In between, an instruction on float64 arrays is passed by the calls
of rows that its rule comes to (`kernel.lines`); of all others the rules are run on tensors.  Nothing is
remembered of a tape: templates belong to rows, these calls to signatures.
"""

import itertools
import struct
import threading
from bisect import bisect_right

import numpy as np

from ..array.record import plain, tracked
from ..array.recorded import Recorded, of_row
from ..array.tensor import Tensor
from ..autograd.adjoint import FEW, accumulated, contributions, elements_at, passed, passing
from ..autograd.backward import Pass, own_copy
from ..autograd.passes import values_of
from ..autograd.reading import Region, slots_on
from ..codegen.of_rows import value_switch
from ..codegen.python_api import data_address
from ..common.uninterrupted import remade
from ..interpreter.fields import place
from ..interpreter.native import refuse_unknown, table_address
from ..interpreter.program import UNKNOWN
from ..interpreter.rule_array import Scattered, Windowed
from ..interpreter.signature import Signature
from ..program.numbering import spread
from ..rules import BY_NAME, by_opcode
from ..rules import lang as L
from ..tape.layout import ARRAY_RECORD, FIRST_ARRAY, SCALAR, SCALAR_LEAF
from ..tape.places import caller_frame
from . import templates as S
from .lines import lines_of
from .reasons import NotLowered
from .templates import TemplateColumns, evaluate, template

_ARITHMETIC = np.array([BY_NAME[name].opcode for name in ("add", "subtract", "multiply", "negative", "absolute_product", "divide")])
_ARITHMETIC_AT = data_address(_ARITHMETIC)
_ADD, _SUBTRACT, _NEGATIVE = BY_NAME["add"], BY_NAME["subtract"], BY_NAME["negative"]
_MULTIPLY = BY_NAME["multiply"].opcode
_SELECT = BY_NAME["select"]
#: What is added to an adjoint as `accumulated` knows it.
_PARTS = Recorded, Windowed, Scattered
#: With more leaves than that the store is left to a pass, which looks only at those that it meets.
LEAVES = 1024
#: So many constants of instructions are remembered, with what their templates compute of them.
CONSTANTS = S.ENTRIES // 2
#: Of so many records of a recording more than one is an entry: its rules are run on tensors, then, as those of all others.
MIXED = 3
#: Records that are left free behind what a walk writes.
SPARE = 64
#: Stands for the adjoint or tangent of an array, which is a tensor.
ELSEWHERE = 1 << 40


class _Templates:
    """All templates of adjoints, or of tangents, that were asked for, in columns that `templates.write` reads; number 0 is none."""

    def __init__(self, forward):
        self.forward = forward
        #: By opcode and pattern: a number, 0 where it has not been asked for, -1 where there is none, or where it is chosen by the constant.
        self.numbers = np.zeros(FIRST_ARRAY << 4, np.int32)
        self.known, self.special, self.lock = {}, False, remade(threading.Lock())
        self.templates = TemplateColumns()
        self._forget()
        self.columns()

    def _forget(self):
        """What was chosen by constant (entries of `templates.entry_of`), and what templates compute of theirs: nothing yet."""
        self.entries, self.count = np.zeros((S.ENTRIES, S.ENTRY), np.int64), 0
        self.computed, self.end = np.zeros(CONSTANTS), 0

    def columns(self):
        """The columns anew: a walk goes on with those that it took, which know nothing of what another one adds meanwhile."""
        self.entries, self.computed = self.entries.copy(), self.computed.copy()
        arrays = [self.numbers.copy(), *self.templates.arrays(), self.entries, self.computed]
        #: Addresses, as `write` reads them, and what is there.
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
            while isinstance(made := template(row, pattern, decisions, self.forward, True), L.Expr):
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


#: Of so many slots the memory of a walk is kept.
KEPT = 1 << 16
#: The words of a walk that no other has, which are its first.
_WALK = struct.Struct("7q")


def pulled(roots, seeds, wanted, frame=None):
    """The adjoints of the tensors `wanted`, recorded behind `roots`, of one store and with their `seeds`; None if a pass has to find them.

    `frame` is the user's that asks for them.

    Returns
    -------
    list of (Tensor, float, ndarray or None), or None
        None for what the roots do not depend on.
    """
    store = roots[0]._t
    if (
        store.hooks or store.node_hooks or store.pre_hooks or store.retained
        or len({t._i for t in roots}) < len(roots) or any([t._t is not store for t in roots])
    ):  # fmt: skip
        return None
    bottoms = []
    for t, slots in zip(wanted, slots_on(store, wanted)):
        if t._t is not store and (t._t is not None or t._x is not None and t._x.hooks) or len(slots) > 1:
            return None
        bottoms.append(slots[0] if slots else None)
    known, root = [slot for slot in bottoms if slot is not None], max([t._i for t in roots])
    if not known or root < min(known):
        return [None] * len(wanted)
    seeds = [(t._i, t._v.__class__ is float, seed) for t, seed in zip(roots, seeds)]
    return _walked(_Pulled, store, min(known), root, frame, wanted, seeds, bottoms)


def pushed(store, roots, known, frame):
    """The tangents of the slots `roots` of a store, recorded behind, from those of `known` slots; None if that cannot be.

    Returns
    -------
    callable or None
        Gives the tangent of one of the slots: a Tensor, float, ndarray or None.
    """
    return _walked(_Pushed, store, min(known), max(roots), frame, roots, known) if min(known) <= max(roots) else known.get


def _walked(kind, store, low, root, frame, wanted, *more):
    """What a walk of a `kind` finds between two slots, if it can be."""
    state = store.thread
    if store.retired is not None or store.ident != state.ident or state.checking is not None or len(store.leaf_list) > LEAVES:
        return None
    for _, reference, key in store.leaf_list:
        leaf = reference()
        if leaf is not None and leaf._k is not key:
            return None
    entries = None
    if store.trace is not None:
        entries = [slot for slot, entry in itertools.takewhile(lambda pair: low <= pair[0], reversed(store.trace.entries.items())) if entry.differentiable]
        if MIXED * len(entries) > root - low:
            return None
    if kind.templates is None:
        kind.templates = _Templates(kind.step > 0)
    try:
        walk = kind.free.pop()
    except IndexError:
        walk = kind()
    store.pinned += 1
    try:
        walk.begin(store, low, root, wanted, frame or caller_frame(4), entries)
        if entries is None:
            return walk.run(*more)
        with values_of(store):
            return walk.run(*more)
    finally:
        store.unpin()
        walk.end()


class _Walk:
    """A walk between the `root` and slot `low`; adjoints or tangents of numbers are references (`kernel.templates`), those of arrays are in `arrays`.

    Its memory serves one walk after another.

    Attributes
    ----------
    templates : _Templates
    free : list
        Walks that are not under way.
    step : int
        1 upwards, for tangents, -1 downwards, for adjoints.
    """

    def __init__(self):
        self.pool, self.columns = np.empty(0), None
        self._allocate(S.LONGEST)

    def _allocate(self, size):
        """Memory for `size` slots: the words, the lines of a template, the adjoints or tangents, a byte for each slot that is on the way."""
        self.size = size
        self.words = words = np.zeros(S.WORDS + S.LONGEST + size + size // 8 + 1, np.int64)
        self.adjoints, self.bytes = words[S.WORDS + S.LONGEST :], words.view(np.uint8)
        self.address = data_address(words)
        words[S.DONE], words[S.ADJOINTS] = self.address + 8 * S.WORDS, self.address + 8 * (S.WORDS + S.LONGEST)
        words[S.ARITHMETIC], words[S.POOL], words[S.MOST_POOLED] = _ARITHMETIC_AT, data_address(self.pool), len(self.pool)
        words[S.STEP] = self.step
        self.columns = None

    def begin(self, store, low, root, wanted, frame, entries):
        """Take up a walk."""
        self.store, self.low, self.root, self.wanted, self.frame, self.first = store, low, root, wanted, frame, store.length
        size = root + 1 - low
        if size > self.size:
            self._allocate(2 * size)
        self.adjoints[: size + size // 8 + 1] = 0
        self.marks = 8 * (S.WORDS + S.LONGEST + size)
        first, last = (low, root) if self.step > 0 else (root, low)
        offset = frame.f_lasti if entries is None else -1
        _WALK.pack_into(self.words, 0, low, first, 0, self.address + self.marks, store.words, offset, last)
        self._columns()
        #: Of array slots: adjoints, elements that are read one by one (position and reference), adjoints that are asked for.
        self.arrays, self.reads, self.asked = {}, {}, {}
        self.stretch, self.entries = None if entries is None else Region(store), entries
        self._room(2 * size + 3 * S.LONGEST + len(wanted))

    def end(self):
        """Let go of everything but the memory, if that is not much."""
        self.store = self.wanted = self.frame = self.arrays = self.reads = self.asked = self.stretch = self.entries = self.roots = None
        if self.size <= KEPT:
            self.free.append(self)

    def _columns(self):
        if self.columns is not self.templates.arrays:
            self.columns = self.templates.arrays
            self.words[S.TEMPLATES : S.OWN + 1] = self.columns[0]
        store = self.store
        store.special = store.special or self.templates.special
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

    def _mark(self, slots):
        """Mark what lies on the way from `slots` on."""
        step, low, root, marks = -self.step, self.low, self.root, self.bytes[self.marks :]
        for slot in slots:
            if low <= slot <= root:
                marks[slot - low] = 1
        entries = [(slot, self.stretch.operands(slot)) for slot in self.entries[::-step] if slot <= root] if self.entries else ()
        spread(self.store.address, marks, low, root, entries, step, table_address())

    def _through(self, ends, seeds):
        """Walk to the slots `ends` from seeds: slots, whether they hold numbers, and their adjoints or tangents; whether all could be passed."""
        self._mark(ends)
        for slot, is_number, seed in seeds:
            if self.low <= slot <= self.root and not self._set(slot, is_number, seed):
                return False
        if (at := self._write()) >= 0:
            with np.errstate(all="ignore"):
                while at >= 0:
                    if not self._pass(at):
                        return False
                    self._room(3 * S.LONGEST)
                    at += self.step
                    if self.step > 0 or at < self.low or self.adjoints.item(at - self.low) != ELSEWHERE:
                        self.words[S.AT] = at
                        at = self._write()
        return True

    def _write(self):
        """Pass numbers, to a slot that only its rule can pass, which is returned; or -1."""
        words, store, frame, step = self.words, self.store, self.frame, self.step
        last = self.root if step > 0 else self.low
        at = words.item(S.AT)
        while (last - at) * step >= 0:
            if self.entries is not None:
                # In a recording the derivative of an instruction stands where that does.
                run = bisect_right(store.runs, at)
                frame = store.place(at) if run else self.frame
                if step < 0:
                    words[S.LAST] = max(last, store.runs[run - 1]) if run else last
                else:
                    words[S.LAST] = min(last, store.runs[run] - 1) if run < len(store.runs) else last
            if id(frame.f_code) != store.running:
                store.note_code(frame)
            status = S.write(self.address)
            at = words.item(S.AT)
            if status == S.FULL:
                self._room(2 * (store.length - self.first) + 3 * S.LONGEST)
            elif status == S.UNKNOWN:
                refuse_unknown(words.item(S.RECORDS), UNKNOWN - at)
            elif status == S.CANNOT or status == S.ASKS and not self._choose(at):
                return at
        return -1

    def _choose(self, slot):
        """Choose the template of the instruction in a slot; returns whether there is one."""
        op, a, b, _, _, constant = self.store.read(slot)
        pattern = (a == 0) * 4 | (b == 0) * 8 | self._reaches(a) | (self._reaches(b) << 1)
        there = self.templates.chosen(op, pattern, constant)
        if self.columns is not self.templates.arrays:
            self._columns()
        return there

    def _by_lines(self, slot, signature, a, b, integer, g=None):
        """What the rule of an instruction on arrays gives, as calls of rows (`Lines.__call__`); None if it has none, or something was not kept.

        `a`, `b` and `integer` are those of its record, `g` is the adjoint of its result; the tangents of its operands are there.
        """
        stretch = self.stretch
        of = dict(zip(signature.slots, (a, b) if len(signature.slots) < 3 else stretch.at(slot).operands))
        wanted, seeds = [], [] if g is None else [g]
        for k, o in of.items():
            if self._reaches(o):
                wanted.append(k)
                if g is None:
                    seeds.append(self._carried(o))
        how, metas = (tuple(wanted), self.step > 0, integer if signature.row.dynamic else 0), signature.metas
        lines = signature.derived.get(how) or lines_of(signature, *how)
        if lines is None:
            return None
        values = [None] * (len(metas) + 1)
        for j, k in enumerate(signature.saves):
            o, saved = of.get(k) if k >= 0 else slot, self.store.objects[integer + j]
            values[k + 1] = stretch.tensor(o, saved, metas[k] if k >= 0 else signature.out) if o else saved
        # (That of the result comes first there.)
        values.append(values[0])
        for k in lines.read:
            if values[k] is None:
                o, meta = (slot, signature.out) if k > len(metas) else (of.get(k - 1), metas[k - 1])
                if not o or meta is not SCALAR:
                    return None
                values[k] = stretch.number(o)
        values += seeds
        return lines(values, of)

    def _set(self, slot, is_number, value):
        """Let `value` be the adjoint or tangent of a slot; whether it can be."""
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

    def _found(self, slot, own):
        """What a walk has found at a slot that holds a number; `own` has the numbers that were made here, by reference."""
        reference, store = self.adjoints.item(slot - self.low) if self.low <= slot <= self.root else 0, self.store
        if store.trace is None and reference > 0 and (reference < self.first or store.read(reference)[0] == SCALAR_LEAF):
            # What stood there already gets a number of its own: hooks of one are no hooks of the other.
            if reference not in own:
                self._room(1)
                own[reference] = store.append(_MULTIPLY, 0, reference, self.frame.f_lasti, store.read(reference)[4], 1.0)
            reference = own[reference]
        return self._value(reference) if reference else None


class _Pulled(_Walk):
    """A walk down, for adjoints."""

    templates, free, step = None, [], -1

    def run(self, seeds, bottoms):
        """The adjoints of the slots `bottoms`, from seeds: slots, whether they hold numbers, and their adjoints."""
        self.roots, self.bottoms = [(slot, seed) for slot, _, seed in seeds], set(bottoms)
        if not self._through([slot for slot in bottoms if slot is not None], seeds):
            return None
        own = {}
        return [None if s is None else own_copy(self.asked[s]) if s in self.asked else self._found(s, own) for s in bottoms]

    def _reaches(self, slot):
        """Whether a slot lies on the way."""
        return slot >= self.low and self.bytes.item(self.marks + slot - self.low) > 0

    def _pass(self, slot):
        """Pass an instruction by its rule, on tensors; whether that can be."""
        reference, low, bottoms = self.adjoints.item(slot - self.low), self.low, self.bottoms
        if self.stretch is None:
            self.stretch = Region(self.store)
            Pass(self.store, self.roots, self.wanted).check()
        op, operand, b, _, _, integer = self.store.read(slot, ARRAY_RECORD)
        signature, read = Signature.of(op), None
        if signature is None and (read := self.stretch.read(slot)) is not None:
            operand, integer = next((o for _, o in read.slots), 0), read.integer
        what = signature or read
        if what is not None and what.row is _SELECT and reference != ELSEWHERE and what.metas[0].size > FEW and slot not in bottoms:
            if self._reaches(operand):
                self.reads.setdefault(operand, (what.metas[0], []))[1].append((integer, reference))
                self.adjoints[operand - low] = ELSEWHERE
            return True
        g = self.arrays.pop(slot, None) if reference == ELSEWHERE else self._value(reference)
        if slot in self.reads:
            meta, parts = self.reads.pop(slot)
            g = elements_at(meta, [(position, self._value(reference)) for position, reference in parts], g)
        if reference == ELSEWHERE and slot in bottoms:
            self.asked[slot] = g
        if what is None:
            return True
        with passing(self.stretch, slot, what):
            parts = None if signature is None else self._by_lines(slot, signature, operand, b, integer, g)
            if parts is None:
                read = read or self.stretch.read(slot)
                slots, wanted = dict(read.slots), [k for k, o in read.slots if self._reaches(o)]
                parts = [(slots[k], read.metas[k], part, False) for k, part in contributions(self.stretch, slot, read, g, None, wanted) if k in wanted]
            for o, meta, value, less in parts:
                if meta is not SCALAR:
                    before = self.arrays.get(o)
                else:
                    before = self._value(before) if (before := self.adjoints.item(o - low)) else None
                if value.__class__ in _PARTS:
                    value = accumulated(before, value, meta, None)
                elif before is not None:
                    value = of_row(_SUBTRACT if less else _ADD, (before, value))
                elif less:
                    value = of_row(_NEGATIVE, (value,))
                if not self._set(o, meta is SCALAR, value):
                    return False
        return True


class _Pushed(_Walk):
    """A walk up, for tangents."""

    templates, free, step = None, [], 1

    def run(self, known):
        """The tangents of the slots that are wanted, from those that are known, by slot."""
        if not self._through(self.wanted, [(slot, getattr(seed, "_v", seed).__class__ is float, seed) for slot, seed in known.items()]):
            return None
        own = {}
        return {slot: self.arrays[slot] if slot in self.arrays else self._found(slot, own) for slot in self.wanted}.get

    def _reaches(self, slot):
        """Whether a slot has a tangent."""
        return slot >= self.low and self.adjoints.item(slot - self.low) != 0

    def _carried(self, slot):
        return self.arrays[slot] if slot in self.arrays else self._value(self.adjoints.item(slot - self.low)) if self._reaches(slot) else None

    def _pass(self, slot):
        """Pass an instruction by its rule, on tensors; whether that can be."""
        self.stretch = self.stretch or Region(self.store)
        op, a, b, _, _, integer = self.store.read(slot, ARRAY_RECORD)
        signature = Signature.of(op)
        read = self.stretch.read(slot) if signature is None else None
        if signature is None and read is None:
            return True
        with passing(self.stretch, slot, signature or read):
            # What is no tensor yet, as of the first operations, their rules pass.
            tensors = signature is not None and any([isinstance(self._carried(o), Tensor) for o in (a, b)])
            parts = self._by_lines(slot, signature, a, b, integer) if tensors else None
        if parts is None:
            tangent = passed(self.stretch, slot, read or self.stretch.read(slot), self._carried, None)
        else:
            tangent = parts[0][2] if parts else None
        return tangent is None or self._set(slot, (signature or read).out is SCALAR, tangent)

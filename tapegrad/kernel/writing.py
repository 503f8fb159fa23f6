"""A tape that grows by derivative instructions, and what makes a `FinishedTape` of it.

Slots of the forward tape keep their numbers; what is made comes after them, in records (`kernel.templates`) and entries.
Nothing is computed: an entry has a description of its result, no value.

`close`, the last step of `kernel.adjoint`, tidies up: what a `Writer` holds is shared, folded, without dead
entries, and numbered anew.  The instructions of the forward tape all stay, for its outputs and guards need them; where its outputs
are not asked for (`Writer.again`), those that the guards need.  Of what was written behind them ``1.0 * a`` is `a`, ``2.0 * 3.0`` is
the constant 6.0, and the same operation on the same operands is made once (`number_values`: one walk up the instructions, with a hash table of
those it has seen).
"""

from dataclasses import replace

import numpy as np

from ..codegen.array_functions import HIGH, compiled_on_arrays, mix
from ..program.finish import FinishedTape, Item, ReplayGuard, continuations, key_of
from ..program.numbering import data_address, spread
from ..program.trace import GUARD, HOST, ROW, Constants, Entry, HostCall, HostOperand
from ..rules import BY_NAME, ROWS
from ..rules.table import described
from ..tape.layout import ARRAY_LEAF, CONTINUES, FIRST_ARRAY, RECORD, SCALAR, SCALAR_LEAF, TRACED, laid_out, meta_of
from ..tape.store import RECORD_DTYPE

STACK, CONCATENATE, SELECT, CLONE = (BY_NAME[name] for name in ("stack", "concatenate", "select", "clone"))
#: Attributes of one element.
_ELEMENT = (("shape", ()), ("strides", ()))
_ARITHMETIC = np.array([BY_NAME[name].opcode for name in ("add", "subtract", "multiply", "negative", "absolute_product")])


class Writer:
    """The records and entries.

    Parameters
    ----------
    tape : FinishedTape
    interleaved : bool
        Whether what is made will come right after what it is made for.
    again : bool
        Whether what is made will be swept and differentiated: zero is absolute in its products, and entries have room for operands.
    absolute : bool
        Whether zero is absolute in its products in any case.

    Attributes
    ----------
    buffer : ndarray of uint8
        Records, of which the first `count` are used.
    columns : list of ndarray
        As of `columns_of`.
    entries : list of Item
        What is made.
    values : Constants
        Those of the tape first.
    guards : list of ReplayGuard
        What is decided in what is made.
    inputs : list of (int, Meta, list of (int, int))
        Further arguments: slot of the leaf or 0, description, (position, slot) of elements.
    placed : dict
        What a window of zeros holds that arrays were placed in: slot, attributes and offset of the window -> term (`kernel.terms`).
    origin : int
        The forward slot that instructions are made for.
    """

    def __init__(self, tape, interleaved=False, again=False, absolute=False):
        self.tape, self.interleaved, self.again, self.absolute = tape, interleaved, again, again or absolute
        self.first = self.count = len(tape.records)
        # As bytes: of fields each would be copied by itself.
        self.buffer = tape.records.view(np.uint8).copy()
        self.columns = columns_of(self.buffer)
        self.columns[0][3::8] = np.arange(self.count)
        self.entries, self.values, self.inputs, self.guards = [], Constants(tape.constants), [], []
        self.metas, self.placed = {}, {}
        self.origin = 0
        self._known = {self._key(i.entry, i.operands): i.slot for i in tape.items}

    def reserve(self, more):
        """Make room for `more` instructions."""
        size = len(self.buffer) // RECORD.size
        if self.count + more > size:
            grown = np.zeros(RECORD.size * (max(self.count + more, size + size // 2) + 64), np.uint8)
            grown[: len(self.buffer)] = self.buffer
            self.buffer, self.columns = grown, columns_of(grown)

    def _append(self, op, a, b, constant):
        self.reserve(1)
        slot, self.count = self.count, self.count + 1
        RECORD.pack_into(self.buffer, RECORD.size * slot, op, a, b, self.origin, 0.0, constant)
        return slot

    def scalar(self, row, a, b=0, constant=0.0):
        """A scalar instruction; returns its slot."""
        return self._append(row.opcode, a, b, constant)

    def fixed(self, number):
        """A leaf that is a constant (for what has no inline constant)."""
        return self._append(SCALAR_LEAF, 0, 0, number)

    def number_of(self, slot):
        """The value of a leaf made by `fixed`; else None."""
        if slot < self.first or slot in self.metas:
            return None
        op, _, _, _, _, constant = RECORD.unpack_from(self.buffer, RECORD.size * slot)
        return constant if op == SCALAR_LEAF else None

    def argument(self, meta, whole=True):
        """A further argument; returns the slot of its leaf (0 for an array that is not read whole)."""
        slot = self._append(ARRAY_LEAF, 0, 0, 0.0) if whole and meta is not SCALAR else 0
        self.inputs.append((slot, meta, []))
        self.metas[slot] = meta
        return self.element(0) if meta is SCALAR else slot

    def element(self, position):
        """The leaf of one element of the argument made last."""
        slot = self._append(SCALAR_LEAF, 0, 0, 0.0)
        self.inputs[-1][2].append((position, slot))
        self.metas[slot] = SCALAR
        return slot

    def entry(self, row, operands, attrs=(), integer=0, result=None):
        """An instruction on arrays; its row says shape and dtype of the result, if they are not given.  Returns its slot."""
        if result is None:
            result = described(row, attrs, tuple([self.meta(o) for o in operands]), integer)
        return self._entry(Entry(ROW, row, attrs, operands, True, integer, laid_out(*result)), operands)

    def host(self, function, operands, shape, char):
        """A call of a ufunc, or of a function of arrays in Python, that has no derivative."""
        layout = (tuple(HostOperand(k) for k in range(len(operands))), {})
        return self._entry(Entry(HOST, HostCall(function, layout), (), operands, False, 0, laid_out(shape, char)), operands)

    def _key(self, entry, operands):
        key = key_of(entry, operands)
        # Unless it is differentiated again, the result is one, whether a derivative passes through it or not.
        return key if self.again or entry.kind != ROW else key[:-1]

    def _entry(self, entry, operands):
        key = self._key(entry, operands)
        slot = None if key is None else self._known.get(key)
        if slot is None or self.interleaved and self.origin < slot < self.first:
            for _ in range(continuations(entry, operands) if self.again else 0):
                self.metas[self._append(CONTINUES, 0, 0, 0.0)] = None
            slot = self._known[key] = self._append(TRACED, 0, 0, 0.0)
            self.entries.append(Item(slot, entry, operands))
            self.metas[slot] = entry.meta
        return slot

    def written(self, tape, inputs):
        """Write another tape behind; `inputs` are references, and so is what is returned, for each output (None: it is a constant)."""
        new = {0: 0}

        def reference(slot):
            return new[slot] if slot >= 0 else self.values.add(tape.constants[-1 - slot])

        new.update((slot, inputs[k]) for k, slot in enumerate(tape.leaves) if slot)
        for k, position, slot in tape.elements:
            new[slot] = inputs[k] if tape.inputs[k] is SCALAR else self.entry(SELECT, (inputs[k],), _ELEMENT, position)
        items = {item.slot: item for item in tape.items}
        for slot, (op, a, b, _, value, constant, _) in enumerate(tape.records.tolist()):
            item = items.get(slot)
            if slot in new or op == CONTINUES:
                continue
            if item is None and op == SCALAR_LEAF:
                new[slot] = self.fixed(value)
            elif item is None:
                new[slot] = self._append(op, self._number(new[a]), self._number(new[b]), constant)
            else:
                operands, entry = tuple(map(reference, item.operands)), item.entry
                if entry.kind == GUARD:
                    # An argument there that is a constant here may be another constant.
                    (operand,) = operands = operands if operands[0] > 0 else (self.entry(CLONE, operands),)
                    new[slot] = self._append(TRACED, 0, 0, 0.0)
                    self.metas[new[slot]] = None
                    self.entries.append(Item(new[slot], entry, operands, len(self.tape.guards) + len(self.guards)))
                    self.guards.append(replace(tape.guards[item.number], slot=operand))
                    continue
                new[slot] = self._entry(entry, operands)
        return [reference(slot) if slot else None if what is None else self.values.add(what) for slot, what in tape.outputs]

    def _number(self, reference):
        """The slot of a number: a scalar instruction names no constants."""
        return self.fixed(float(self.values[-1 - reference])) if reference < 0 else reference

    def meta(self, slot):
        """The description of the value of a slot or constant."""
        if slot < 0:
            return meta_of(self.values[-1 - slot])
        return self.tape.metas[slot] if slot < self.first else self.metas.get(slot, SCALAR)


def with_flat_stacks(tape):
    """The tape with each join of stacked numbers as one stack: only for sweeps they are made of a few operands each."""
    numbers, items = {}, []
    for item in tape.items:
        row, operands = item.entry.function, item.operands
        if row is CONCATENATE and all(o in numbers for o in operands):
            operands = tuple(number for o in operands for number in numbers[o])
            item = Item(item.slot, Entry(ROW, STACK, (("axis", 0),), operands, True, 0, item.entry.meta), operands)
            row = STACK
        if row is STACK and len(item.entry.meta.shape) == 1 and item.entry.meta.char == "d":
            numbers[item.slot] = operands
        items.append(item)
    return replace(tape, items=items)


def close(writer, results):
    """Finish what was written.

    Parameters
    ----------
    writer : Writer
    results : list of (int, object)
        Slot and description of each result beyond the tape's own, or 0 and the constant itself.

    Returns
    -------
    FinishedTape
    """
    return _Closing(writer, results).run()


class _Closing:
    def __init__(self, writer, results):
        self.writer, self.tape, self.results = writer, writer.tape, results
        self.leaves = [slot for whole, _, parts in writer.inputs for slot in ([whole] if whole else []) + [s for _, s in parts]]
        self.count = writer.count
        self.buffer = writer.buffer[: RECORD.size * writer.count].copy()
        self.records = self.buffer.view(RECORD_DTYPE)
        self.items, self.guards = [*self.tape.items, *writer.entries], [*self.tape.guards, *writer.guards]

    def run(self):
        self._number_values()
        self.results = [self._resolved(slot, what) for slot, what in self.results]
        return self._build(np.flatnonzero(self._needed()))

    def _number_values(self):
        """Fold constants, share what is the same; ``alias[i]`` stands for slot i."""
        tape, first = self.tape, self.writer.first
        self.fixed = fixed = (self.records["op"] == SCALAR_LEAF).astype(np.int8)
        # Leaves that are arguments are no constants.
        fixed[[slot for _, _, slot in tape.elements]] = 0
        fixed[self.leaves] = 0
        constant = np.flatnonzero(fixed[:first])
        self.records["constant"][constant] = tape.records["value"][constant]
        self.alias = np.zeros(self.count, np.int32)
        table = np.zeros(1 << (2 * self.count).bit_length(), np.int32)
        number_values(first, self.count, int(self.writer.interleaved), *columns_of(self.buffer), fixed, self.alias, _ARITHMETIC, table)

    def _resolved(self, slot, what):
        """A result by the slot that stands for it, or as the constant it has turned out to be."""
        slot = int(self.alias[slot]) if slot else 0
        return (0, float(self.records["constant"][slot])) if slot and self.fixed[slot] else (slot, what)

    def _needed(self):
        first, count = self.writer.first, self.count
        tape, again = self.tape, self.writer.again
        needed = np.zeros(count, np.int8)
        needed[:first] = not again
        needed[[0, *self.leaves, *tape.leaves, *(slot for _, _, slot in tape.elements)]] = 1
        needed[[slot for item in self.items if item.entry.kind == GUARD for slot in (item.slot, *item.operands) if slot > 0]] = 1
        needed[[guard.slot for guard in self.guards]] = 1
        needed[[slot for slot, _ in self.results]] = 1
        self.operands, low = [_slots_by(self.alias, item.operands) for item in self.items], 1 if again else first
        entries = [(item.slot, operands) for item, operands in zip(self.items, self.operands) if item.slot >= low]
        spread(data_address(self.buffer), needed[low:], low, count - 1, entries[::-1], -1)
        for slot in np.flatnonzero(self.records["op"] == CONTINUES)[::-1].tolist():
            needed[slot] = needed[slot + 1]
        return needed

    def _build(self, kept):
        """The tape of the slots that are kept: leaves first, then instructions."""
        writer, tape = self.writer, self.tape
        ops, origins = self.records["op"][kept], self.records["offset"][kept]
        rank = np.where(kept == 0, 0, np.where(ops == SCALAR_LEAF, 1, np.where(ops == ARRAY_LEAF, 2, 3)))
        order = kept[np.lexsort((origins, rank)) if writer.interleaved else np.argsort(rank, kind="stable")]
        #: The new number of each slot.
        new = np.zeros(self.count, np.int32)
        new[order] = np.arange(len(order))
        records = self.buffer.reshape(-1, RECORD.size)[order].reshape(-1).view(RECORD_DTYPE)
        source = records["offset"].copy()
        scalar = (records["op"] > SCALAR_LEAF) & (records["op"] < FIRST_ARRAY)
        records["a"], records["b"] = new[records["a"]] * scalar, new[records["b"]] * scalar
        records["offset"] = tape.records["offset"][source]
        fixed = self.fixed[order] == 1
        records["value"][fixed] = records["constant"][fixed]
        records["constant"][fixed] = 0.0
        special = {row.opcode for row in ROWS if row.calls_scipy}
        present = np.flatnonzero(np.bincount(records["op"][scalar])).tolist()
        metas = [SCALAR] * len(order)
        metas[0] = None
        arrays = np.flatnonzero((self.records["op"] >= FIRST_ARRAY) & (new > 0))
        for slot, at in zip(arrays.tolist(), new[arrays].tolist()):
            metas[at] = writer.meta(slot)
        items = [
            Item(new.item(item.slot), item.entry, _slots_by(new, operands), item.number)
            for item, operands in zip(self.items, self.operands) if new[item.slot]
        ]
        items.sort(key=lambda item: item.slot)
        asked = self.results if writer.again else (*tape.outputs, *self.results)
        made = [(k, position, slot) for k, (_, _, parts) in enumerate(writer.inputs, len(tape.inputs)) for position, slot in parts]
        return FinishedTape(
            records=records, inputs=[*tape.inputs, *(meta for _, meta, _ in writer.inputs)],
            leaves=new[[*tape.leaves, *(whole for whole, _, _ in writer.inputs)]].tolist(),
            elements=[(k, position, new.item(slot)) for k, position, slot in (*tape.elements, *made)], items=items, constants=writer.values,
            guards=[ReplayGuard(new.item(self.alias[g.slot]), g.how, g.seen, g.place) for g in self.guards],
            outputs=[(new.item(slot), what) for slot, what in asked], metas=metas, origins=np.asarray(tape.origins)[source], code_runs=list(tape.code_runs),
            special=tape.special or not special.isdisjoint(present), wanted=(*tape.wanted, *[False] * len(writer.inputs)),
            structure=tape.structure, forward_only=not writer.again,
        )


def _slots_by(table, operands):
    """Operands that are slots by a table of new ones; those below 0 are constants."""
    return tuple([table.item(o) if o > 0 else o for o in operands])


def columns_of(buffer):
    """Records as int32, float64 and int64 numbers."""
    return [buffer.view(dtype) for dtype in (np.int32, np.float64, np.int64)]


@compiled_on_arrays("void(int64, int64, int64, int32[::1], float64[::1], int64[::1], int8[::1], int32[::1], int64[::1], int32[::1])")
def number_values(first, count, interleaved, records, numbers, bits, fixed, alias, opcodes, table):
    """Fold and share scalar instructions from slot `first` on; those before it are shared with.

    ``alias[i]`` becomes the slot that stands for slot i.  Where `fixed`, a slot is a leaf
    whose constant is its value; an instruction that turns out to be one becomes such a
    leaf.  `numbers` and `bits` are the same memory as `records`.  If they are `interleaved`, no slot before `first` stands for one that is made
    for an earlier one.  `table` is all zeros, its size a power of two of at least ``2 * count``.
    """
    add, subtract, multiply, negative, absolute = opcodes[0], opcodes[1], opcodes[2], opcodes[3], opcodes[4]
    mask = table.size - 1
    for i in range(1, count):
        op = records[8 * i]
        alias[i] = i
        if op >= FIRST_ARRAY or op <= SCALAR_LEAF and fixed[i] == 0:
            continue
        a, b = alias[records[8 * i + 1]], alias[records[8 * i + 2]]
        if i >= first and op != SCALAR_LEAF:
            of_a, of_b = a == 0 or fixed[a] == 1, b == 0 or fixed[b] == 1
            x, y = numbers[4 * (i if a == 0 else a) + 3], numbers[4 * (i if b == 0 else b) + 3]
            product = op == multiply or op == absolute
            if of_a and of_b and (product or op == add or op == subtract or op == negative):
                if product:
                    value = 0.0 if op == absolute and (x == 0.0 or y == 0.0) else x * y
                else:
                    value = x + y if op == add else x - y if op == subtract else -x
                op = records[8 * i] = SCALAR_LEAF
                fixed[i], numbers[4 * i + 3] = 1, value
                a = b = 0
            elif product and (of_a and x == 1.0 or of_b and y == 1.0):
                alias[i] = b if of_a else a
                continue
            elif op == absolute and (of_a and 0.0 < abs(x) < np.inf or of_b and 0.0 < abs(y) < np.inf):
                # Only what is not finite times zero is something else than the product.
                op = records[8 * i] = multiply
            elif (op == add or op == multiply) and 0 < b < a:
                a, b = b, a
            records[8 * i + 1], records[8 * i + 2] = a, b
        key, latest = bits[4 * i + 3], records[8 * i + 3] if interleaved else first
        bucket = (mix((a << 32) ^ (b << 8) ^ op, key) >> HIGH) & mask
        while True:
            j = table[bucket]
            if j == 0:
                table[bucket] = i
                break
            if records[8 * j] == op and records[8 * j + 1] == a and records[8 * j + 2] == b and bits[4 * j + 3] == key:
                if i >= first and (j >= first or j <= latest or op == SCALAR_LEAF):
                    alias[i] = j
                break
            bucket = (bucket + 1) & mask

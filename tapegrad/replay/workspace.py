"""The memory of one replay, and its parameters.

A `Workspace` belongs to one replay at a time (threads take one each from the
tape's pool); the tape itself is never written to.  Scalars live in a copy of the
records.  An array entry has a buffer of its own, except that views look at the
memory of their operand, and that an indexed assignment goes into its operand's
buffer if nobody reads that any more.
"""

from __future__ import annotations

import numpy as np

from ..record import normalise
from ..rules import BY_NAME
from ..sweep import native
from ..sweep.plan import Signature
from ..tape.layout import ARRAY_LEAF, CONTINUES, RECORD, TRACED, VALUE
from ..tape.meta import SCALAR, meta_of
from . import walk as W
from .trace import GUARD, HOST, SHAPE
from .values import ValueProgram

#: Rows whose result looks at the memory of their operand.
_VIEWS = {
    BY_NAME[name]
    for name in ("getitem", "broadcast_to", "diagonal", "as_strided", "reshape", "squeeze", "expand_dims", "transpose", "t", "flip")
}
_WRITES = {BY_NAME["setitem"], BY_NAME["put"]}


class Host:
    """A step that only NumPy can do: a function, its operands' arrays, and where the result goes."""

    __slots__ = ("function", "operands", "target", "name", "slot", "guard", "shape")

    def __init__(self, function, operands, target, name, slot):
        self.function, self.operands, self.target, self.name, self.slot = function, operands, target, name, slot
        # The number of the guard on its shape, and the shape seen last.
        self.guard = self.shape = None

    def run(self):
        """Whether the result has the shape and dtype of the recording; then it is in its place."""
        with np.errstate(all="ignore"):
            found = np.asarray(self.function(*[float(a) if a.ndim == 0 and a.dtype.char == "d" else a for a in self.operands]))
        self.shape = found.shape
        if found.shape != self.target.shape or found.dtype != self.target.dtype:
            return False
        self.target[...] = found
        return True


class Workspace:
    """Everything a replay of `tape` writes to.

    Parameters
    ----------
    tape : FinishedTape

    Attributes
    ----------
    arrays : dict of int to ndarray
        The value of every slot that is not a float64 scalar.
    hosts : list of Host
    """

    def __init__(self, tape):
        self.tape = tape
        self.records = tape.records.copy()
        self.address = self.records.ctypes.data
        self.words = self.records.view(np.float64).reshape(-1, RECORD.size // 8)
        self.arrays = {}
        self.hosts = []
        self.objects = []
        self.stream = []
        self._scalars = None
        self._roots = {}
        self._kept = set()
        self.seen = [np.frombuffer(g.seen, np.uint8) for g in tape.guards]
        self._readers = _last_readers(tape)
        for slot in tape.leaves:
            if slot:
                meta = tape.metas[slot]
                self._own(slot, np.empty(meta.shape, np.dtype(meta.char)))
        self._lay_out()
        self._finish()

    # -- values -----------------------------------------------------------------
    def value_array(self, slot):
        """The value of a slot (or constant) as an array; of a scalar, a window of its record."""
        if slot < 0:
            constant = self.tape.constants[-1 - slot]
            if type(constant) is float:
                found = self.arrays.get(slot)
                if found is None:
                    found = self.arrays[slot] = np.array(constant)
                return found
            return constant
        found = self.arrays.get(slot)
        return self.words[slot, VALUE // 8 : VALUE // 8 + 1].reshape(()) if found is None else found

    def address_of(self, slot):
        """Address of the value of a slot or constant."""
        if slot >= 0 and slot not in self.arrays:
            return self.address + RECORD.size * slot + VALUE
        return native.data_address(self.value_array(slot))

    def _meta(self, slot):
        if slot < 0:
            constant = self.tape.constants[-1 - slot]
            return SCALAR if type(constant) is float else meta_of(constant)
        found = self.arrays.get(slot)
        return SCALAR if found is None else meta_of(found)

    def _own(self, slot, array):
        self.arrays[slot] = array
        self._roots[slot] = slot

    # -- the stream ----------------------------------------------------------------
    def _lay_out(self):
        tape = self.tape
        ops = tape.records["op"].tolist()
        items = {item.slot: item for item in tape.items}
        first = None
        skipped = self._fused(items)
        start = len(ops)
        for i in range(1, len(ops) + 1):
            scalar = i < len(ops) and 1 < ops[i] < ARRAY_LEAF
            if scalar and first is None:
                first = i
            elif not scalar and first is not None:
                self.stream += [W.SCALARS, first, i - 1]
                first = None
            if i < len(ops) and ops[i] == TRACED:
                item = items[i]
                if item.entry.kind == GUARD:
                    self._guard(item, items)
                elif i in skipped:
                    self._allocate(item)
                else:
                    self._entry(item)
        assert start == len(ops)
        self.stream.append(W.END)

    def _fused(self, items):
        """Comparisons of scalars that only the guard on them reads: slot -> step code."""
        tape, found = self.tape, {}
        for item in tape.items:
            function = getattr(item.entry.function, "ufunc", None) if item.entry.kind == HOST else None
            if function is None or function.__name__ not in W.COMPARISONS or item.entry.meta.shape != ():
                continue
            if not all(self._static_meta(o) is SCALAR for o in item.operands):
                continue
            readers = self._readers.get(item.slot, [])
            if readers and all(items[r].entry.kind == GUARD for r in readers):
                found[item.slot] = W.COMPARISONS[function.__name__]
        self._comparisons = found
        return found

    def _static_meta(self, slot):
        if slot < 0:
            constant = self.tape.constants[-1 - slot]
            float64 = type(constant) is float or constant.shape == () and constant.dtype.char == "d"
            return SCALAR if float64 else meta_of(constant)
        return self.tape.metas[slot]

    def _guard(self, item, items):
        (slot,) = item.operands
        if item.entry.function == SHAPE:
            # The step itself checks it.
            for host in self.hosts:
                if host.slot == slot:
                    host.guard = item.number
            return
        how = self._comparisons.get(slot)
        if how is not None:
            x, y = items[slot].operands
            seen = bool(self.seen[item.number][0])
            self.stream += [W.COMPARE, item.number, how, self.address_of(x), self.address_of(y), int(seen)]
            return
        if item.entry.function == "bool" and self._meta(slot).char != "?":
            # The truth of a number: compared with zero.
            target = np.zeros((), bool)
            self.hosts.append(Host(np.bool_, [self.value_array(slot)], target, "bool", item.slot))
            self.stream += [W.HOST, len(self.hosts) - 1]
            address = native.data_address(target)
            self.arrays[item.slot] = target
        elif not self.value_array(slot).flags.c_contiguous:
            # What was seen is in C order.
            value = self.value_array(slot)
            target = self.arrays[item.slot] = np.empty(value.shape, value.dtype)
            self.hosts.append(Host(_itself, [value], target, "copy", item.slot))
            self.stream += [W.HOST, len(self.hosts) - 1]
            address = native.data_address(target)
        else:
            address = self.address_of(slot)
        seen = self.seen[item.number]
        self.stream += [W.GUARD, item.number, address, len(seen), native.data_address(seen)]

    def _allocate(self, item):
        meta = item.entry.meta
        if meta is SCALAR:
            return self.value_array(item.slot)
        self._own(item.slot, np.empty(meta.shape, np.dtype(meta.char)))
        return self.arrays[item.slot]

    def _entry(self, item):
        entry, operands = item.entry, item.operands
        if entry.kind == HOST:
            target = self._allocate(item)
            ufunc = entry.function.ufunc
            metas = tuple(self._meta(o) for o in operands)
            program = ValueProgram.of_ufunc(ufunc, metas, meta_of(target)) if ufunc is not None else None
            self._step(item, program, entry.function, target)
            return
        row, attrs = entry.function, dict(entry.attrs)
        if row.dynamic:
            attrs[row.dynamic] = entry.integer
        if row in _VIEWS and entry.meta is not SCALAR and operands[0] > 0 and operands[0] in self.arrays:
            source = self.arrays[operands[0]]
            found = row.value(source, **attrs)
            if isinstance(found, np.ndarray) and np.may_share_memory(found, source):
                self.arrays[item.slot] = found
                self._roots[item.slot] = self._roots.get(operands[0], operands[0])
                self._signature(item)
                return
        if row in _WRITES and self._may_reuse(item):
            target = self.arrays[item.slot] = self.arrays[operands[0]]
            self._roots[item.slot] = self._roots[operands[0]]
        else:
            target = self._allocate(item)
        metas = tuple(self._meta(o) for o in operands)
        out = SCALAR if entry.meta is SCALAR else meta_of(target)
        program = ValueProgram.of_row(row, entry.attrs, metas, out)
        self._step(item, program, lambda *values: row.value(*values, **attrs), target)
        self._signature(item)

    def _step(self, item, program, function, target):
        if program is None:
            self.hosts.append(Host(function, [self.value_array(o) for o in item.operands], target, item.entry.name, item.slot))
            self.stream += [W.HOST, len(self.hosts) - 1]
            return
        pairs = [(0, self.address_of(item.slot))]
        pairs += [(reg, self.address_of(o)) for reg, o in zip(program.registers, item.operands)]
        self.stream += [W.PROGRAM, native.data_address(program.words), item.slot, len(pairs)]
        for pair in pairs:
            self.stream += pair

    def _may_reuse(self, item):
        """Whether an assignment may write into its operand's own buffer."""
        x, value = item.operands[0], item.operands[1]
        if x < 0 or x not in self.arrays or not self.arrays[x].flags.c_contiguous or not self.arrays[x].flags.writeable:
            return False
        root = self._roots.get(x)
        if root is None or root in self._kept or self.tape.records["op"][root] == ARRAY_LEAF or self._roots.get(x) != x and root != x:
            return False
        if value > 0 and self._roots.get(value) == root:
            return False
        same = [s for s, r in self._roots.items() if r == root]
        return all(self._readers.get(s, [0])[-1] <= item.slot for s in same if s in self._readers) and not any(
            s in self.tape_outputs for s in same
        )

    @property
    def tape_outputs(self):
        return {slot for slot, _ in self.tape.outputs if slot}

    # -- adjoints ------------------------------------------------------------------
    def _signature(self, item):
        """Turn an entry's record into the instruction of its adjoint."""
        entry, row, operands, tape = item.entry, item.entry.function, item.operands, self.tape
        record = self.records[item.slot]
        if not tape.active[item.slot]:
            if row.dynamic:
                record["integer"] = entry.integer
            return
        slots = row.slots(len(operands))
        flags = tuple(bool(operands[k] > 0 and tape.active[operands[k]]) for k in slots)
        metas = tuple(self._meta(o) for o in operands)
        value = 0.0 if entry.meta is SCALAR else self.arrays[item.slot]
        signature = Signature.laid_out((row, entry.attrs, metas, flags), value)
        places = [operands[k] if on else 0 for k, on in zip(slots, flags)]
        record["op"] = signature.opcode
        record["a"], record["b"] = places[0], places[1] if len(places) > 1 else 0
        self._continue(item.slot, places[2:])
        record["integer"] = entry.integer
        if signature.saves:
            record["integer"] = len(self.objects)
            for k in signature.saves:
                kept = item.slot if k < 0 else operands[k]
                self.objects.append(self.value_array(kept))
                self._kept.add(self._roots.get(kept, kept))

    def _continue(self, slot, places):
        for number in range((len(places) + 3) // 4):
            group = (places[4 * number : 4 * number + 4] + [0] * 4)[:4]
            record = self.records[slot - 1 - number]
            assert record["op"] == CONTINUES
            record["a"], record["b"] = group[:2]
            raw = self.records.view(np.int64).reshape(-1, RECORD.size // 8)
            raw[slot - 1 - number, 2:4] = group[2:]

    # -- parameters ------------------------------------------------------------------
    def _finish(self):
        tape = self.tape
        count = len(self.records)
        self.stream = np.array(self.stream, np.int64)
        self.adjoint = np.zeros(count)
        self.scratch = np.empty(8192, np.uint8)
        self.marks, high, low = self._marks()
        self.inputs = np.zeros(max(1, len(tape.inputs)), np.int64)
        self.elements = np.array([len(tape.elements), *(w for e in tape.elements for w in e)], np.int64)
        arrays = [(k, native.data_address(self.arrays[s]), self.arrays[s].nbytes) for k, s in enumerate(tape.leaves) if s]
        self.copied = np.array([len(arrays), *(w for a in arrays for w in a)], np.int64)
        self.gradients = [np.zeros(m.shape, np.dtype(m.char)) if w else None for m, w in zip(tape.inputs, tape.wanted)]
        self.seeds = [np.ones(np.shape(m) if m is None else m.shape, "d" if m is None else m.char) for m in self._output_metas()]
        self.seeded = self._seeding()
        self.delivered = np.array(self._delivery(), np.int64)
        from ..native.scalar_values import value_switch
        from ..native.scalars import reverse_switch

        p = self.parameters = np.zeros(W.PARAMETERS, np.int64)
        address = native.data_address
        p[W.P_STREAM], p[W.P_RECORDS] = address(self.stream), self.address
        p[W.P_VALUES], p[W.P_SWITCH] = value_switch(tape.special), reverse_switch(tape.special)
        p[W.P_RUN], p[W.P_SCRATCH] = native.run_address(), address(self.scratch)
        p[W.P_ADJOINT], p[W.P_SLOTS] = address(self.adjoint), count
        p[W.P_MARKS], p[W.P_HIGH], p[W.P_LOW] = address(self.marks), high, low
        p[W.P_OBJECTS], p[W.P_FLOAT] = native.items_address(self.objects), native.FLOAT_TYPE
        p[W.P_INPUTS], p[W.P_ELEMENTS] = address(self.inputs), address(self.elements)
        p[W.P_ARRAYS], p[W.P_GRADIENTS] = address(self.copied), address(self.delivered)
        p[W.P_SEEDS] = address(self.seeded)
        self.pointer = address(p)
        Signature.compile_pending()
        self._table = None
        #: This replay as a `Recording` (`replay.swept`), made when it is first wanted.
        self.recording = None
        self.refresh()

    def refresh(self):
        """The signatures' table may have moved."""
        if self._table is not Signature.TABLE:
            self._table = Signature.TABLE
            self.parameters[W.P_TABLE] = native.table_address()

    def _marks(self):
        """What a backward sweep visits: active ancestors of the outputs."""
        tape = self.tape
        count = len(self.records)
        marks = np.zeros(count + 16, np.uint8)
        items = {item.slot: item for item in tape.items}
        ops, lefts, rights = (tape.records[name].tolist() for name in ("op", "a", "b"))
        active = tape.active.tolist()
        for slot, _ in tape.outputs:
            if slot and active[slot]:
                marks[slot] = 1
        for i in range(count - 1, 0, -1):
            if not marks[i]:
                continue
            if ops[i] == TRACED:
                operands = items[i].operands
            elif ops[i] < ARRAY_LEAF:
                operands = (lefts[i], rights[i])
            else:
                continue
            for o in operands:
                if o > 0 and active[o]:
                    marks[o] = 1
        for slot in tape.leaves:
            marks[slot] = 0
        for _, _, slot in tape.elements:
            marks[slot] = 0
        found = np.flatnonzero(marks)
        return marks, (int(found[-1]) if len(found) else 0), (int(found[0]) if len(found) else 1)

    def _output_metas(self):
        """Descriptions of the outputs that depend on a wanted argument, else None."""
        return [m if slot and self.tape.active[slot] else None for slot, m in self.tape.outputs]

    def _seeding(self):
        words = []
        for k, meta in enumerate(self._output_metas()):
            slot = self.tape.outputs[k][0]
            if slot in words[::3]:
                # Returned twice: its seed counts twice.
                first = next(j for j in range(k) if self.tape.outputs[j][0] == slot)
                self.seeds[first] += 1.0
            elif meta is not None and meta.size:
                words += [slot, native.data_address(self.seeds[k]), 0 if meta is SCALAR else meta.nbytes]
        return np.array([len(words) // 3, *words], np.int64)

    def _delivery(self):
        tape = self.tape
        whole, single = [], []
        for k, gradient in enumerate(self.gradients):
            if gradient is not None:
                slot = tape.leaves[k]
                whole += [native.data_address(gradient), gradient.nbytes, slot if slot and tape.active[slot] else 0]
        for k, position, slot in tape.elements:
            if self.gradients[k] is not None:
                single += [native.data_address(self.gradients[k]) + 8 * position, slot]
        return [len(whole) // 3, *whole, len(single) // 2, *single]

    # -- running -------------------------------------------------------------------
    def run(self, arguments, backward):
        """Replay at `arguments` (C-contiguous arrays of the recorded descriptions).

        Returns
        -------
        int
            -1 if the replay went through, else the number of the guard that saw
            something else (the number of guards: a host step gave another shape).
        """
        inputs = self.inputs
        for k, a in enumerate(arguments):
            inputs[k] = native.data_address(a)
        self.refresh()
        p = self.parameters
        p[W.P_BACKWARD] = backward
        why = W.replay(self.pointer)
        while why == W.AT_HOST:
            host = self.hosts[p[W.P_STOPPED]]
            if not host.run():
                return len(self.tape.guards) if host.guard is None else host.guard
            why = W.resume(self.pointer)
        return -1 if why == W.DONE else int(p[W.P_STOPPED])

    def seen_at(self, number):
        """What guard `number`, at which the replay stopped, saw there, as bytes."""
        guard = self.tape.guards[number]
        if guard.how == SHAPE:
            return next(np.array(h.shape, np.int64).tobytes() for h in self.hosts if h.guard == number)
        how = self._comparisons.get(guard.slot)
        if how is not None or guard.how == "bool":
            return np.asarray(not guard.seen[0]).tobytes()
        return self.value_array(guard.slot).tobytes()

    def output(self, k):
        """The value of output `k`: a float, or a copy of its array."""
        slot, description = self.tape.outputs[k]
        if not slot:
            return description
        if description is SCALAR:
            return float(self.words[slot, VALUE // 8])
        return normalise(self.arrays[slot].copy())


def _itself(value):
    return value


def _last_readers(tape):
    """Slots -> the slots of the items that read them, ascending."""
    found = {}
    for item in tape.items:
        for o in item.operands:
            if o > 0:
                found.setdefault(o, []).append(item.slot)
    ops, lefts, rights = (tape.records[name].tolist() for name in ("op", "a", "b"))
    for i, op in enumerate(ops):
        if 1 < op < ARRAY_LEAF:
            for o in (lefts[i], rights[i]):
                if o and o in found:
                    found[o].append(i)
                    found[o].sort()
    return found



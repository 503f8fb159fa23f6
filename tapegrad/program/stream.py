"""What a replay does, laid out as int64 words: the stream of `walk.forward`, and the records of the way back.

`EntryLayout` is the part of `program.workspace.Workspace` that does this, once, when a workspace is made.  Of the tape of
``np.sum(x * y) * x[0]``::

    %1  leaf      argument 0[0]              (a record: its value is copied there)
    %2  leaf      argument 0                 a buffer
    %3  leaf      argument 1                 a buffer
    %4  multiply  %2, %3         PROGRAM     NumPy's loop, from the buffers of %2 and %3 to that of %4
    %5  sum       %4             PROGRAM     from the buffer of %4 to the record of %5
    %6  multiply  %5, %1         SCALARS     records 6 to 6, by the switch
                                 END

An entry whose value is no program (`program.values`) is a HOST step: the walk comes back to Python, which calls NumPy.
Views and some assignments have no step: they are found in the memory of their operand.

The way back needs no stream: the record of each array entry becomes the instruction of its adjoint
(`_signature`), and the reverse sweep of define-by-run walks over the records.
"""

from functools import partial

import numpy as np

from ..common.errors import TapeFileError, require
from ..common.uninterrupted import from_handler
from ..interpreter import native
from ..interpreter.signature import Signature
from ..rules import BY_NAME
from ..rules.loops import DRIVEN
from ..tape.layout import ARRAY_LEAF, CONTINUES, RECORD, SCALAR, SCALAR_LEAF, TRACED, VALUE, meta_of
from ..tape.watch import PART
from . import walk as W
from .trace import FAILS, GUARD, HOST, SHAPE, fails
from .values import ValueProgram, called

_STACK = BY_NAME["stack"]


class HostStep:
    """A step that only NumPy can do: a function, its operands' arrays, and where the result goes."""

    __slots__ = ("function", "operands", "target", "name", "slot", "guard", "shape", "error", "failure")

    def __init__(self, function, operands, target, name, slot):
        self.function, self.operands, self.target, self.name, self.slot = function, operands, target, name, slot
        # The number of the guard on its shape, and the shape seen last; None if NumPy raised.
        self.guard = self.shape = None
        # What NumPy raised, and the number of the guard that it does not.
        self.error = self.failure = None

    def run(self):
        """Whether there is a result, of the shape and dtype of the recording; then it is in its place."""
        with np.errstate(all="ignore"):
            try:
                result = np.asarray(self.function(*[float(a) if a.ndim == 0 and a.dtype.char == "d" else a for a in self.operands]))
            except TapeFileError:
                raise
            except Exception as error:
                if from_handler(error):
                    raise
                # What NumPy refuses here, the function finds out by itself: it may know what to do then.
                self.error, self.shape = error, None
                return False
        self.shape = result.shape
        if result.shape != self.target.shape or result.dtype != self.target.dtype:
            return False
        self.target[...] = result
        return True


class Delicate:
    """The result of a row whose loop gives NaN where NumPy raises."""

    __slots__ = ("row", "slot", "target", "test", "operands", "failure")

    def __init__(self, row, slot, target, test, operands):
        self.row, self.slot, self.target, self.test, self.operands = row, slot, target, test, operands
        # The number of the guard that it does not fail.
        self.failure = None

    def fails(self):
        """Whether NumPy raises here."""
        return not np.isfinite(self.target).all() and bool(self.test(*self.operands))

    def words(self, of_iteration):
        """What `program.replayed` is told: the result, and in an iteration the operands. NaN out of one that is not finite is no failure there."""
        operands = [o for o in self.operands if o.dtype.char in "df"] if of_iteration and self.row.raises == "finite" else []
        parts = [_array_words(a) for a in (self.target, *operands)]
        return [len(parts), *sum(parts, [])]


def _array_words(a):
    """Where the numbers of an array are: address, bytes of one, how many axes, extent and stride of each; as one where they lie in order."""
    axes = [(a.size, a.itemsize)] if a.flags.c_contiguous else [*zip(a.shape, a.strides)]
    return [native.data_address(a), a.itemsize, len(axes), *sum(axes, ())]


class EntryLayout:
    """What `Workspace` does with the entries of its tape; attributes as there."""

    # -- the stream ----------------------------------------------------------------
    def _lay_out(self):
        tape = self.tape
        items = {item.slot: item for item in tape.items}
        self._comparisons = self._fused(items)
        ops = tape.records["op"]
        scalar = np.zeros(len(ops) + 1, np.int8)
        scalar[1:-1] = (ops[1:] > SCALAR_LEAF) & (ops[1:] < ARRAY_LEAF)
        # Where runs of scalar instructions begin, and where they have ended; the first ones last.
        edges = np.flatnonzero(np.diff(scalar, prepend=0)).tolist()
        runs = [*zip(edges[::2], edges[1::2])][::-1]
        for item in (*tape.items, None):
            while runs and (item is None or runs[-1][0] < item.slot):
                first, end = runs.pop()
                self.stream += [W.SCALARS, first, end - 1]
            if item is None:
                self.stream.append(W.END)
            elif item.entry.kind == GUARD:
                self._guard(item, items)
            elif item.slot in self._comparisons:
                self._allocate(item)
            else:
                self._entry(item)
        if self._instructions:
            slots, *fields = zip(*self._instructions)
            for name, values in zip(("op", "a", "b", "integer"), fields):
                self.records[name][list(slots)] = values

    def _fused(self, items):
        """Comparisons of scalars that only the guard on them reads: slot -> step code."""
        tape, comparisons = self.tape, {}
        for item in tape.items:
            function = getattr(item.entry.function, "ufunc", None) if item.entry.kind == HOST else None
            compares = function is not None and function.__name__ in W.COMPARISONS and item.entry.meta.shape == ()
            readers = self._readers.get(item.slot, []) if compares and all(map(self._is_number, item.operands)) else ()
            if readers and all(items[r].entry.kind == GUARD for r in readers):
                comparisons[item.slot] = W.COMPARISONS[function.__name__]
        return comparisons

    def _is_number(self, slot):
        """Whether the value of a slot or constant is one float64 number."""
        meta = self.tape.metas[slot] if slot > 0 else self._metas[slot]
        return meta.shape == () and meta.char == "d"

    def _guard(self, item, items):
        (slot,) = item.operands
        if item.entry.function in (SHAPE, FAILS):
            # The step itself checks it.
            for step in (*self.hosts, *self.delicate):
                if step.slot == slot:
                    setattr(step, "guard" if item.entry.function == SHAPE else "failure", item.number)
            return
        how = self._comparisons.get(slot)
        if how is not None:
            x, y = items[slot].operands
            seen = bool(self.seen[item.number][0])
            self.stream += [W.COMPARE, item.number, how, self.address_of(x), self.address_of(y), int(seen)]
            return
        address, value = self.address_of(slot), self.value_array(slot)
        of_number = item.entry.function == "bool" and self._metas[slot].char != "?"
        if of_number or not value.flags.c_contiguous:
            # The truth of a number: compared with zero.  Of an array, what was seen is in C order.
            function, name, char = (np.bool_, "bool", "?") if of_number else (np.asarray, "copy", value.dtype)
            target = self.arrays[item.slot] = np.zeros(() if of_number else value.shape, char)
            self._host(function, [slot], target, name, item.slot)
            address = native.data_address(target)
        seen = self.seen[item.number]
        self.stream += [W.GUARD, item.number, address, len(seen), native.data_address(seen)]

    def _allocate(self, item):
        meta = item.entry.meta
        if meta is not SCALAR:
            self._own(item.slot, self._room(item.slot, meta))

    def _entry(self, item):
        entry, operands = item.entry, item.operands
        if entry.kind == HOST:
            self._allocate(item)
            key = called(entry.function), tuple(map(self._metas.__getitem__, operands)), self._metas[item.slot]
            # Kept: its words are read.
            program = self._planned[key] = ValueProgram.of_host(*key) if key[0] is not None else None
            self._step(item, program, entry.function)
            return
        row = entry.function
        if row is _STACK and len(entry.meta.shape) == 1 and all(map(self._is_number, operands)):
            self._allocate(item)
            self.stream += [W.COLLECT, self.address_of(item.slot), len(operands), *map(self.address_of, operands)]
            self._signature(item, self._plan(item, False)[1])
            return
        if row.primitive is not None:
            self._primitive(item)
            return
        if row.effect == "view" and entry.meta is not SCALAR and operands[0] > 0 and operands[0] in self.arrays:
            source = self.arrays[operands[0]]
            view = row.value(source, **row.keywords(entry.attrs, entry.integer))
            small = view.nbytes * PART <= source.nbytes and operands[0] in self._written
            # (For a small part that the way back reads, the whole could not be written to.)
            if isinstance(view, np.ndarray) and np.may_share_memory(view, source) and not small:
                self._name(item.slot, view, operands[0])
                self._signature(item, self._plan(item, False)[1])
                return
        reused = row.effect == "write" and self._may_reuse(item)
        if reused:
            self._name(item.slot, self.arrays[operands[0]], operands[0])
        else:
            self._allocate(item)
        # Elsewhere than in the body of a loop, Python runs loops: it can record what they meet.
        program, signature = self._plan(item, self.tape.of_iteration or row.name not in DRIVEN, reused)
        if program is None:
            self._step(item, None, partial(row.value, **row.keywords(entry.attrs, entry.integer)))
        else:
            self._step(item, program, None)
            if item.slot in self.tape.failing:
                test = fails(row.name, tuple(row.keywords(entry.attrs, entry.integer).items()))
                self.delicate.append(Delicate(row, item.slot, self.value_array(item.slot), test, [self.value_array(o) for o in operands]))
                # They are looked at in the end.
                self.kept_roots.update(self._roots.get(o) for o in (item.slot, *operands))
        self._signature(item, signature)

    def _plan(self, item, computed, reused=False):
        """The program of an entry's value, if it is to be `computed` by one, and the signature of its adjoint, or None.

        If the memory of the first operand is `reused`, the value is written there.
        """
        entry, operands, active = item.entry, item.operands, self._active
        row, attrs, metas = entry.function, entry.attrs, tuple(map(self._metas.__getitem__, operands))
        if row.primitive is not None:
            *attrs, (_, call) = attrs
            attrs, metas = tuple(attrs), (meta_of(call), *metas[1:])
        flags = tuple(map(active.__getitem__, operands)) if active[item.slot] and not self.tape.forward_only else None
        out = self._metas[item.slot]
        key = row, attrs, metas, flags, out, computed, reused
        if key not in self._planned:
            program = ValueProgram.of_row(row, attrs, metas, out, reused) if computed else None
            mask = flags and tuple([flags[k] != 0 for k in row.slots(len(operands))])
            self._planned[key] = program, flags and Signature.find((row, attrs, metas, mask, out))
        return self._planned[key]

    def _primitive(self, item):
        """A call of a custom primitive: its value, where that is no instruction, by a host step; and a stop of the sweep if it has an adjoint."""
        call, slot, meta = dict(item.entry.attrs)["call"], item.slot, item.entry.meta
        operands, value = item.operands[1 : 1 + call.count], item.operands[1 + call.count :]
        self.calls[slot] = call
        if value and meta is SCALAR:
            self.stream += [W.COLLECT, self.address_of(slot), 1, self.address_of(value[0])]
        elif value and value[0] > 0:
            self._name(slot, self.arrays[value[0]], value[0])
        else:
            self._allocate(item)
            needed = [o > 0 and bool(self.tape.active[o]) for o in operands]

            def function(*values):
                value, self.calls[slot] = item.entry.function.primitive.again(call, values, needed)
                return value

            self._host(np.asarray if value else function, value or operands, self.value_array(slot), item.entry.name, slot)
        if self.tape.active[slot] and not self.tape.forward_only:
            self.in_python.append(item)
            self.kept_roots.update(self._roots.get(o, o) for o in (*operands, slot))
            self._signature(item, self._plan(item, False)[1])

    def _step(self, item, program, function):
        if program is None:
            self._host(function, item.operands, self.value_array(item.slot), item.entry.name, item.slot)
            return
        stream, addressed, first = self.stream, self._addresses.get, self.address + VALUE
        stream += (W.PROGRAM, program.address, item.slot, 1 + len(item.operands), 0, self.address_of(item.slot))
        for register, o in zip(program.registers, item.operands):
            stream += (register, addressed(o, first + RECORD.size * o))

    def _host(self, function, operands, target, name, slot):
        """A step of NumPy's."""
        self.stream += (W.HOST, len(self.hosts))
        self.hosts.append(HostStep(function, [self.value_array(o) for o in operands], target, name, slot))

    def _may_reuse(self, item):
        """Whether an assignment may write into its operand's own buffer."""
        x, value = item.operands[0], item.operands[1]
        if x < 0 or x not in self.arrays or not self.arrays[x].flags.c_contiguous or not self.arrays[x].flags.writeable:
            return False
        root = self._roots.get(x)
        if root is None or root in self.kept_roots or self.tape.records["op"][root] == ARRAY_LEAF or self.arrays[x] is not self.arrays[root]:
            return False
        return not (value > 0 and self._roots.get(value) == root) and self._last_read(root) <= item.slot

    # -- adjoints ------------------------------------------------------------------
    def _signature(self, item, signature):
        """Make the record of an entry the instruction of its adjoint."""
        entry, row, operands, active = item.entry, item.entry.function, item.operands, self._active
        if signature is None:
            if row.dynamic:
                self._instructions.append((item.slot, TRACED, 0, 0, entry.integer))
            return
        read = [operands[k] if active[operands[k]] else 0 for k in signature.slots]
        if len(read) > 2:
            self._continue(item.slot, read[2:])
        integer = entry.integer
        if signature.saves and not signature.in_python:
            integer, addressed, roots = len(self.saved), self._addresses.get, self._roots.get
            for k in signature.saves:
                kept = item.slot if k < 0 else operands[k]
                self.saved.append(addressed(kept, self.address + VALUE + RECORD.size * kept))
                self.kept_roots.add(roots(kept, kept))
        self._signatures.append(signature)
        self._instructions.append((item.slot, signature.opcode, read[0], read[1] if len(read) > 1 else 0, integer))

    def _continue(self, slot, operands):
        for number in range((len(operands) + 3) // 4):
            group = (operands[4 * number : 4 * number + 4] + [0] * 4)[:4]
            record = self.records[slot - 1 - number]
            require(record["op"] == CONTINUES, "an instruction has no room for its operands")
            record["a"], record["b"] = group[:2]
            raw = self.records.view(np.int64).reshape(-1, RECORD.size // 8)
            raw[slot - 1 - number, 2:4] = group[2:]

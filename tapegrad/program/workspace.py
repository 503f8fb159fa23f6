"""The memory of one replay, its parameters, and running it.

A `Workspace` belongs to one replay at a time (threads take one each from the
tape's pool); the tape itself is never written to.  Scalars live in a copy of the
records.  An array entry has a buffer of its own, except that views look at the
memory of their operand, that an indexed assignment goes into its operand's
buffer if that is not read any more, and that a large one is that of an earlier entry
which neither a later one reads nor the way back.

When it is made, everything that a replay does is laid out once (`program.stream`): the words that
`walk.forward` interprets, with the addresses of these buffers in them, and in the record of each array
entry the instruction of its adjoint.  `run` then writes the addresses of the arguments to the parameters, calls
`walk.replay`, and does in between what only NumPy can do.
"""

from heapq import heappop, heappush

import numpy as np

from ..array.record import normalise
from ..codegen.memory import KEPT_BLOCK
from ..codegen.of_rows import value_switch
from ..common.errors import noted, require
from ..common.uninterrupted import cached_property
from ..interpreter import native
from ..interpreter import program as P
from ..interpreter import walk as sweep_walk
from ..tape.layout import RECORD, SCALAR, VALUE, meta_of
from . import walk as W
from .backward import Backward, listed, seeds_of
from .ports import inputs_of, outputs_of
from .stream import EntryLayout
from .trace import FAILS, GUARD, ROW, SHAPE


class _Metas(dict):
    """Descriptions of arrays by slot; everything else is a scalar."""

    def __missing__(self, slot):
        return SCALAR


class Workspace(EntryLayout):
    """Everything a replay of `tape` writes to.

    Parameters
    ----------
    tape : FinishedTape

    Attributes
    ----------
    arrays : dict of int to ndarray
        The value of every slot that is not a float64 scalar.
    hosts : list of HostStep
    guard_slots : list of int
        Slots of the guards, by number.
    kept_roots : set of int
        Slots whose buffers the way back reads, or what looks at results in the end.
    """

    def __init__(self, tape):
        self.tape = tape
        self.records = tape.records.copy()
        self.address = self.records.ctypes.data
        self.words = self.records.view(np.float64).reshape(-1, RECORD.size // 8)
        self.arrays, self.hosts = {}, []
        #: Programs of values, and signatures (programs of adjoints), by what they are planned from.
        self._planned, self._signatures = {}, []
        #: What becomes of the records of entries: slot, opcode, two operands, and the integer.
        self._instructions = []
        #: Of slots and constants that have an array; the others are scalars, in their records.
        self._metas, self._addresses = _Metas(), {}
        #: Whether a slot is active; constants, which negative numbers refer to, are not.
        self._active = tape.active.tobytes() + bytes(len(tape.constants))
        #: Results of rows that may have to raise.
        self.delicate = []
        #: Items whose adjoints Python computes, and what their last calls left behind, by slot.
        self.in_python, self.calls = [], {}
        #: Addresses of the values that backward programs read, of which every one is the workspace's or the tape's.
        self.saved = []
        self.stream, self._roots = [], {}
        #: Large buffers, with the last slots that read them, and those of which that is over, by their bytes; bytes of all buffers.
        self._large, self._over, self.nbytes = [], {}, 0
        #: Of each buffer with several names, the last slot that reads it through any of them; outputs are read at the end.
        self._last_reads = {}
        self._outputs = {slot for slot, _ in tape.outputs if slot}
        self.kept_roots = set()
        self.guard_slots = [item.slot for item in tape.items if item.entry.kind == GUARD]
        self.seen = [np.frombuffer(g.seen, np.uint8) for g in tape.guards]
        for k, constant in enumerate(tape.constants):
            array = self.arrays[-1 - k] = np.asarray(constant)
            self._metas[-1 - k], self._addresses[-1 - k] = meta_of(constant), native.data_address(array)
        for slot in tape.leaves:
            if slot:
                self._own(slot, np.empty(tape.metas[slot].shape, tape.metas[slot].dtype))
        self._lay_out()
        self._finish()

    # -- values -----------------------------------------------------------------
    def value_array(self, slot):
        """The value of a slot (or constant) as an array; of a scalar, a window of its record."""
        array = self.arrays.get(slot)
        return self.words[slot, VALUE // 8 : VALUE // 8 + 1].reshape(()) if array is None else array

    def address_of(self, slot):
        """Address of the value of a slot or constant."""
        return self._addresses.get(slot, self.address + VALUE + RECORD.size * slot)

    def _own(self, slot, array):
        self.arrays[slot], self._metas[slot], self._addresses[slot] = array, meta_of(array), native.data_address(array)
        self._roots[slot] = slot
        self.nbytes += array.nbytes

    def _room(self, slot, meta):
        """An array for the value of `slot`, in memory that is not needed any more if there is some."""
        if meta.nbytes < KEPT_BLOCK or self.tape.of_iteration:
            return np.empty(meta.shape, meta.dtype)
        large = self._large
        while large and large[0][0] < slot:
            _, root = heappop(large)
            if self._last_read(root) >= slot:
                # It has got another name meanwhile.
                heappush(large, (self._last_read(root), root))
            elif root not in self.kept_roots:
                self._over.setdefault(self.arrays[root].nbytes, []).append(self.arrays[root])
        heappush(large, (self._last_read(slot), slot))
        over = self._over.get(meta.nbytes)
        if not over:
            return np.empty(meta.shape, meta.dtype)
        self.nbytes -= meta.nbytes
        return np.ndarray(meta.shape, meta.dtype, over.pop())

    def _name(self, slot, array, source):
        """Note that `array`, the value of `slot`, is (part of) the buffer of `source`."""
        root = self._roots.get(source, source)
        self.arrays[slot], self._metas[slot], self._addresses[slot] = array, meta_of(array), native.data_address(array)
        self._roots[slot] = root
        self._last_reads[root] = max(self._last_read(slot), self._last_read(root))

    def _last_read(self, root):
        """The last slot that reads a buffer through any of its names so far."""
        last = self._last_reads.get(root)
        return last or (len(self.records) if root in self._outputs else self._readers.get(root, (0,))[-1])

    @cached_property
    def _readers(self):
        """Slots -> the slots of the items that read them, ascending.  (Other instructions read and give numbers, which have no buffers.)"""
        readers = {}
        for item in self.tape.items:
            for o in item.operands:
                if o > 0:
                    readers.setdefault(o, []).append(item.slot)
        return readers

    @cached_property
    def _written(self):
        """Slots of arrays that an indexed assignment changes."""
        return {item.operands[0] for item in self.tape.items if item.entry.kind == ROW and item.entry.function.effect == "write"}

    # -- parameters ------------------------------------------------------------------
    def _finish(self):
        tape, address = self.tape, native.data_address
        self.stream = np.array(self.stream, np.int64)
        self.sweep = Backward(len(self.records), *self._marks(), inputs_of(tape))
        native.Signature.ready(self._signatures)
        self.sweep.over(self.address, tape.special)
        self.sweep.reads(np.array(self.saved, np.int64))
        self.gradients, self.pointer = self.sweep.gradients, self.sweep.pointer
        if any(array.nbytes >= KEPT_BLOCK for array in self.arrays.values()):
            self.sweep.keep_blocks()
        outputs = outputs_of(tape)
        #: The way back starts from a 1 in each result.
        self._seeds, self._ones = seeds_of(outputs, [np.ones((1, *port.shape), port.char) for port in outputs])
        self.inputs = np.zeros(max(1, len(tape.inputs)), np.int64)
        self.elements = np.array(listed(tape.elements), np.int64)
        arrays = [(k, self._addresses[s], self.arrays[s].nbytes) for k, s in enumerate(tape.leaves) if s]
        self.copied = np.array(listed(arrays), np.int64)
        p = self.parameters = self.sweep.parameters
        p[P.W_RUN] = native.run_address() if tape.items else 0
        p[W.P_STREAM], p[W.P_VALUES], p[W.P_SEEDS] = address(self.stream), value_switch(tape.special), address(self._seeds)
        self._inputs_at = address(self.inputs)
        p[W.P_ELEMENTS], p[W.P_ARRAYS] = address(self.elements), address(self.copied)
        #: What the last step that has stopped a replay has raised.
        self.refused = None
        #: The walk over this replay (`transforms.replay.directions`), made when it is first wanted.
        self.walk = None

    def _marks(self):
        """What a backward sweep visits: active ancestors of the outputs, leaves excepted; their first and last slot."""
        tape = self.tape
        count = len(self.records)
        marks = np.zeros(count + 16, np.uint8)
        # What is 2 is passed by.
        marks[:count][~tape.active] = 2
        leaves = [s for s in tape.leaves if s] + [slot for _, _, slot in tape.elements]
        marks[leaves] = 2
        roots = {slot for slot, _ in tape.outputs if slot and not marks[slot]}
        if roots and not tape.forward_only:
            marks[list(roots)] = 1
            sweep_walk.mark(self.address, native.data_address(marks), native.table_address(), max(roots), len(roots), 0)
        marks[marks == 2] = 0
        marked = np.flatnonzero(marks)
        return marks, *((int(marked[-1]), int(marked[0])) if len(marked) else (0, 1))

    # -- running -------------------------------------------------------------------
    def run(self, arguments, backward):
        """Replay at `arguments` (C-contiguous arrays of the recorded descriptions).

        Returns
        -------
        int
            -1 if the replay went through, else the number of the guard that saw
            something else (the number of guards: a host step gave another shape, or the
            function itself has to say whether a matrix was singular).
        """
        require(not (backward and self.tape.forward_only), "a derivative made into a tape has no sweep")
        inputs = self.inputs
        for k, a in enumerate(arguments):
            inputs[k] = native.data_address(a)
        p = self.parameters
        # The signatures' table may have moved.
        p[W.P_INPUTS], p[P.W_TABLE] = self._inputs_at, native.table_address()
        p[W.P_BACKWARD] = backward and not self.in_python
        why = W.replay(self.pointer)
        while why == W.AT_HOST:
            host = self.hosts[p[W.P_STOPPED]]
            if not host.run():
                return self._failure(host.slot, self._refused(host))
            why = W.resume(self.pointer)
        self.sweep.checked(why)
        if self.delicate:
            number = int(p[W.P_STOPPED]) if why != W.DONE else -1
            failure = self._failure(self.guard_slots[number] if why != W.DONE else len(self.records), number)
            if failure != number:
                return failure
        if why == W.DONE and backward and self.in_python:
            self.backward_with_python()
        return -1 if why == W.DONE else int(p[W.P_STOPPED])

    def _refused(self, host):
        """The number of the guard at which a step of NumPy has stopped; the number of guards if there is none."""
        if host.error is not None:
            error, host.error = host.error, None
            self.refused = error
            number = host.failure if isinstance(error, np.linalg.LinAlgError) else None
        else:
            number = host.guard if host.shape != host.target.shape else None
        return len(self.tape.guards) if number is None else number

    def _failure(self, end, otherwise):
        """The guard of the first row before slot `end` that fails at this point; if there is none, `otherwise`."""
        for step in self.delicate:
            if step.slot < end and step.fails():
                return step.failure
        return otherwise

    def backward_with_python(self):
        """The sweep, stopped at custom primitives, whose rules are called."""
        p, at = self.parameters, int(self.parameters[W.P_HIGH])
        W.seed(self.pointer)
        try:
            at = self.rules(self.sweep, at)
        except BaseException:
            self.sweep.free_all()
            raise
        if at >= int(p[W.P_LOW]):
            self.sweep.checked(W.sweep(self.pointer, at, int(p[W.P_LOW])))
        W.deliver(self.pointer)

    def rows(self, seeds, count):
        """As of `Backward`, by one sweep after the other."""
        p, at, matrices = self.parameters, 0, [np.zeros((count, g.size), g.dtype) for g in self.gradients]
        before, p[P.W_TABLE] = p[W.P_SEEDS], native.table_address()
        for k in range(count):
            p[W.P_SEEDS] = native.data_address(seeds) + 8 * at
            if seeds[at]:
                self.backward_with_python()
                for rows, g in zip(matrices, self.gradients):
                    rows[k] = g.reshape(-1)
            at += 1 + 3 * int(seeds[at])
        p[W.P_SEEDS] = before
        return matrices

    def rules(self, sweep, at):
        """Sweep from `at` to the lowest custom primitive; returns the slot below it."""
        for item in reversed(self.in_python):
            slot = item.slot
            operands = item.operands[1 : 1 + self.calls[slot].count]
            if not sweep.marks[slot]:
                continue
            if at > slot:
                sweep.checked(W.sweep(self.pointer, at, slot + 1))
            at = slot - 1
            meta = self._metas[slot]
            g = float(sweep.adjoint[slot]) if meta is SCALAR else sweep.take(slot, meta.shape, np.dtype(meta.char))
            if not np.any(g):
                # Zero is absolute: a rule may multiply by what is not finite.
                continue
            values = [self.calls[slot], *(normalise(np.array(self.value_array(o))) for o in operands)]
            wanted = [k for k, o in enumerate(item.operands) if o > 0 and self.tape.active[o]]
            metas = [None, *(self._metas[o] for o in operands)]
            row = item.entry.function
            with noted(f"in the backward pass through {row.name}, called at {self.tape.place(slot)}"):
                gradients = row.primitive.pull(normalise(g), values, normalise(np.array(self.value_array(slot))), wanted, metas)
            for k, c in gradients.items():
                o = item.operands[k]
                if o > 0 and self.tape.active[o]:
                    sweep.add(o, float(c) if self._metas[o] is SCALAR else np.array(c, np.dtype(self._metas[o].char), order="C"))
        return at

    def seen_at(self, number):
        """What guard `number`, at which the replay stopped, saw there, as bytes."""
        guard = self.tape.guards[number]
        if guard.how == FAILS:
            return b"\1"
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
        return float(self.words[slot, VALUE // 8]) if description is SCALAR else normalise(self.arrays[slot].copy())

"""From a functional recording to a `FinishedTape`, which is read-only.

What no output and no guard depends on is dropped; what is computed twice is
computed once (the same operation on the same operands gives the same bits).
Slots are numbered anew: first the scalars that come from outside (scalar
arguments, and elements of array arguments that the function took one by one),
then array arguments, then instructions in the order of the recording, in which a
replay visits them.  So ``lambda x: np.sin(x[0] * x[1]) + x[0] * x[1]`` leaves::

    recorded                             finished
    1  leaf          x                   1  leaf      argument 0[0]
    2  select        1, 0                2  leaf      argument 0[1]
    3  select        1, 1                3  multiply  1, 2
    4  multiply      2, 3                4  sin       3
    5  sin           4                   5  add       4, 3
    6  multiply      2, 3
    7  add           5, 6

Records are those of define-by-run (`tape.layout`), so the reverse sweep and the other walks over
records work on a finished tape as they are; what an array entry's adjoint is planned from
(`interpreter.plan`) is put into the record when a workspace is made (`program.stream`).
"""

from __future__ import annotations

import copy
import os
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..array.differentiable import Differentiable
from ..array.record import normalise
from ..autograd import draw
from ..common.errors import GradientError, GuardError, ShapeError, require
from ..common.registry import registry
from ..common.tree import unflatten
from ..common.uninterrupted import cached_property, uninterrupted
from ..rules.table import BY_NAME
from ..tape.layout import ARRAY_LEAF, CONTINUES, SCALAR, SCALAR_LEAF, TRACED, meta_of
from ..tape.places import Place
from ..tape.store import RECORD_DTYPE
from .short_arrays import SHORT, ShortArrays, computes_with_short
from .trace import FAILS, GUARD, HOST, ROW, Constants, by_value, may_raise

if TYPE_CHECKING:
    from .planned import MemoryPlan

_SELECT = BY_NAME["select"]


@dataclass
class ReplayGuard:
    """What a replay checks: the value of `slot` (or of a comparison), how it was read, and what was seen."""

    slot: int
    how: str
    seen: bytes
    place: object

    def __str__(self):
        what = bool(self.seen[0]) if self.how in ("bool", FAILS) else f"{len(self.seen)} bytes"
        return f"{self.how} of slot {self.slot} was {what} at {self.place}"


@dataclass(slots=True)
class Item:
    """One array entry of a finished tape: a row, a host function or a guard, in new slots."""

    slot: int
    entry: object
    operands: tuple
    number: int = -1


class Pool(list):
    """The workspaces in which a tape is replayed and which are not in use: as many as were at the same time."""

    def __init__(self, tape):
        self.tape = tape

    def take(self):
        """A workspace that nothing else uses."""
        try:
            return self.pop()
        except IndexError:
            # Imported with the compiled code, which is loaded when something is first replayed.
            from .workspace import Workspace

            return Workspace(self.tape)

    #: Give a workspace back.
    give = list.append


@dataclass(eq=False, repr=False)
class FinishedTape:
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
    guards : list of ReplayGuard
    outputs : list of (int, object)
        Slot and description of each result, or 0 and the constant itself.
    metas : list of Meta
        Description of the value of each slot.
    wanted : tuple of bool
        Which arguments will be differentiated.
    forward_only : bool
        Whether it is a derivative made into a tape (`kernel.adjoint`), which is replayed forward only.
    of_iteration : bool
        Whether it is a path of a loop: what fails in it makes the iteration be recorded again, so that it may call loops as compiled code.
        Nothing else answers in its place: it computes what is not finite, too.
    """

    records: np.ndarray
    inputs: list
    leaves: list
    elements: list
    items: list
    constants: list
    guards: list
    outputs: list
    metas: list
    origins: list
    code_runs: list
    special: bool
    wanted: tuple
    structure: object = None
    forward_only: bool = False
    of_iteration: bool = False

    @cached_property
    def active(self):
        """Which slots depend differentiably on a wanted argument: an ndarray of bool."""
        from . import numbering as passes  # loads compiled code

        active = bytearray(len(self.records))
        for k, slot in (*enumerate(self.leaves), *((k, slot) for k, _, slot in self.elements)):
            active[slot] = slot > 0 and bool(self.wanted[k])
        passing = [i for i in self.items if i.entry.kind == ROW and i.entry.differentiable and i.entry.meta.char in "df"]
        entries = [(i.slot, [i.operands[k] for k in i.entry.function.slots(len(i.operands))]) for i in passing]
        passes.spread(passes.data_address(self.records), active, 0, len(active) - 1, entries, 1)
        return np.frombuffer(active, bool)

    @property
    def nbytes(self) -> int:
        """Bytes of records and of array constants."""
        return self.records.nbytes + sum(c.nbytes for c in self.constants if isinstance(c, np.ndarray))

    def place(self, slot):
        """Where the instruction of `slot` was recorded."""
        origin = int(self.origins[slot])
        run = bisect_right(self.code_runs, origin, key=lambda pair: pair[0]) - 1
        return Place(self.code_runs[run][1] if run >= 0 else None, int(self.records["offset"][slot]))

    def __repr__(self) -> str:
        return f"<FinishedTape of {len(self.records) - 1} instructions>"

    def __str__(self) -> str:
        from .listing import listing

        return listing(self)

    def draw(self, path: str | os.PathLike[str] | None = None) -> str:
        """Draw the graph of the tape, as SVG text, which is also written to `path`: as `Tape.draw`.

        Raises
        ------
        OptionError
            If it has more than 300 lines.
        """
        return draw.write(path, self._rows())

    def _repr_html_(self):
        return draw.html(self._rows(), str(self))

    def _rows(self):
        from .listing import rows

        return [(*rest, "", place) for *rest, place in rows(self)]

    def __len__(self) -> int:
        """Number of instructions: everything that is computed (leaves and guards are not)."""
        return self._count

    @cached_property
    def _count(self):
        leaves = len(self.elements) + sum(1 for s in self.leaves if s)
        guards = sum(1 for item in self.items if item.entry.kind == GUARD)
        others = int((self.records["op"] == CONTINUES).sum())
        return len(self.records) - 1 - leaves - guards - others

    # -- in use -----------------------------------------------------------------
    @cached_property
    def failing(self):
        """The slots of rows of which the function saw that they do not raise; a derivative is NaN where one would."""
        return {item.operands[0] for item in self.items if item.entry.kind == GUARD and item.entry.function == FAILS}

    @cached_property
    def kept(self):
        """Its pool of workspaces."""
        return Pool(self)

    @cached_property
    def compressions(self):
        """Pattern and colourings of its Jacobian."""
        with uninterrupted:
            from .sparsity.compressed import Compressions

        return Compressions(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tape to a file, for `tapegrad.load_tape`.

        Parameters
        ----------
        path : str or path-like
            Conventionally ends in ``.npz``.

        Raises
        ------
        TapeFileError
            If the tape holds what cannot be written (the rule of a custom primitive, a result of a class of your own);
            says which instruction, and where it was recorded.
        """
        registry.files.write(registry.files.to_bytes(self), path)

    def plan(self) -> MemoryPlan:
        """What a replay with its gradient takes in memory, before it is run.

        Returns
        -------
        MemoryPlan
            Bytes of `values`, what each of its `loops` keeps and computes again, and the `peak`; print it.

        Examples
        --------
        >>> import numpy as np, tapegrad as tg
        >>> f = lambda x: tg.scan(lambda y, t: (y + np.sin(y) * t, None), x, np.ones(1000), memory=1024)[0]
        >>> print(tg.grad(f).tape(0.5).plan().loops[0])
        the body of the scan: 1000 iterations, keeps 96 carries (every 30th before iteration 936, then each), 768 B; computed again at a time: 240 B
        """
        with uninterrupted:
            from .planned import memory_plan

        return memory_plan(self)

    def __reduce__(self):
        return registry.files.from_bytes, (registry.files.to_bytes(self),)

    def __call__(self, *arguments: Any) -> Any:
        """The value at these arguments: the arrays and floats of the recorded call, in order.

        Like any function it is taken by `tapegrad.grad`, `jit`, `vmap` and the other transformations, and by the bodies of loops.

        Raises
        ------
        GuardError
            If the function would take another path there than the one recorded; names the line.
        ShapeError
            If there are other arguments, or they have other shapes or dtypes, than at the recording.
        """
        if any(isinstance(a, Differentiable) for a in arguments):
            return unflatten(self.structure, self._applied(self._checked(arguments)))
        return self._run(arguments, False)[0]

    def value_and_grad(self, *arguments: Any) -> tuple[Any, Any]:
        """The value, and the gradient of the arguments that were differentiated (a tuple if there are several).

        Raises
        ------
        GuardError, ShapeError
            As of a call.
        GradientError
            If the first result is not one number.
        """
        first: Any = self.outputs[0][1] if self.outputs else None
        if not self.outputs or np.shape(first) != () and getattr(first, "shape", None) != ():
            raise GradientError("the tape does not give one number, so it has no gradient")
        value, gradients = self._run(arguments, True)
        return value, gradients[0] if len(gradients) == 1 else tuple(gradients)

    def _applied(self, arguments):
        from .applied import applied

        return applied(self, arguments)

    def _run(self, arguments, backward):
        arrays = self._checked(arguments)
        workspace = self.kept.take()
        missed = workspace.run(arrays, backward)
        if missed >= len(self.guards):
            if isinstance(workspace.refused, GuardError):
                raise workspace.refused
            raise GuardError("a value has another shape here than when the tape was recorded; record the function at this point")
        if missed >= 0:
            self.kept.give(workspace)
            raise GuardError(f"the recorded path does not hold here: {self.guards[missed]}; record the function at this point")
        values = [workspace.output(k) for k in range(len(self.outputs))]
        gradients = [normalise(g.copy()) for g in workspace.gradients] if backward else None
        self.kept.give(workspace)
        return unflatten(self.structure, values), gradients

    def _checked(self, arguments):
        if len(arguments) != len(self.inputs):
            raise ShapeError(f"the tape takes {len(self.inputs)} arrays, got {len(arguments)}")
        arrays = []
        for k, (argument, meta) in enumerate(zip(arguments, self.inputs)):
            a = argument if isinstance(argument, Differentiable) else np.asarray(argument)
            if a.shape != meta.shape or not np.can_cast(a.dtype, meta.char, "same_kind"):
                raise ShapeError(
                    f"argument {k} has shape {a.shape} and dtype {a.dtype}, the tape was recorded with "
                    f"{meta.shape} and {np.dtype(meta.char)}"
                )
            if isinstance(a, np.ndarray):
                arrays.append(np.ascontiguousarray(a, meta.char).reshape(meta.shape))
            else:
                arrays.append(a if a.dtype == meta.char else a.astype(meta.char))
        return arrays


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
    finished = _Finisher(trace, outputs, wanted).run()
    # Further operations on its tensors go the long way, which looks whether it is done.
    trace.done, trace.store.ident = True, -1
    return finished


def so_far(trace, inputs, outputs):
    """The tape from `inputs`, computed by a recording that goes on, to `outputs`; behind them its arguments are the recording's, as constants."""
    view, count = copy.copy(trace), len(trace.input_slots)
    view.input_slots = [*(t._i for t in inputs), *trace.input_slots]
    view.input_metas = [*(meta_of(t._v) for t in inputs), *trace.input_metas]
    view.input_values = [*(t._v for t in inputs), *trace.input_values]
    return _Finisher(view, outputs, [True] * len(inputs) + [False] * count).run()


def depends(trace, outputs, argument):
    """Whether one of `outputs`, or a decision that was taken from values so far, is computed from the argument of this number."""
    return bool(_Finisher(trace, outputs, ()).needed()[trace.input_slots[argument]])


class _Finisher(ShortArrays):
    def __init__(self, trace, outputs, wanted):
        super().__init__()
        self.trace, self.outputs, self.wanted = trace, outputs, tuple(wanted)
        # What finalizers record meanwhile may make the store take another buffer; this one has all that is asked for.
        self.view, self.length, self.entries = trace.store.view, trace.store.length, trace.entries
        self.address = self.view.ctypes.data
        self.constants = Constants(trace.constants)
        self.input_of = {slot: k for k, slot in enumerate(trace.input_slots)}

    def run(self):
        needed = self.needed()
        self._number(needed, self._elements(needed), self._captured())
        return self._build()

    # -- what is needed ----------------------------------------------------------
    def _captured(self):
        """Leaves that are no arguments: define-by-run tensors the function captured, constants here."""
        captured = {slot: reference() for slot, reference, _ in self.trace.store.leaf_list if slot not in self.input_of}
        require(all(leaf is not None for leaf in captured.values()), "a captured tensor is gone")
        return {slot: leaf._v for slot, leaf in captured.items()}

    def needed(self):
        from . import numbering as passes  # loads compiled code

        entries = self.entries
        needed = bytearray(self.length)
        for t in self.outputs:
            if self._live(t):
                needed[t._i] = 1
        for slot, entry in entries.items():
            if entry.kind == GUARD or may_raise(entry):
                needed[slot] = 1
        read = ((slot, entries[slot].operands) for slot in reversed(entries))
        passes.spread(self.address, needed, 0, self.length - 1, read, -1)
        needed[0] = 0
        return needed

    def _live(self, t):
        return getattr(t, "_t", None) is self.trace.store

    def _elements(self, needed):
        """Old slots that read one element of a float64 argument -> (argument, position)."""
        metas, elements = self.trace.input_metas, {}
        readers = {t._i for t in self.outputs if self._live(t)}
        for slot, entry in self.entries.items():
            one = entry.kind == ROW and entry.function is _SELECT and entry.meta is SCALAR and entry.differentiable
            for o in [o for o in entry.operands if o in self.input_of] if needed[slot] else ():
                if one and metas[self.input_of[o]].char == "d":
                    elements[slot] = (self.input_of[o], entry.integer)
                else:
                    readers.add(o)
        for slot, k in self.input_of.items():
            if metas[k] is not SCALAR and slot not in readers:
                needed[slot] = 0
        return elements

    # -- numbering -------------------------------------------------------------------
    def _number(self, needed, elements, captured):
        """Old slots -> new slots (`new`); collects records, items, guards."""
        self.writes_out = computes_with_short(self.entries, needed)
        # Operands behind the second of an entry take a record for four.
        most = 2 + needed.count(1) + sum((len(entry.operands) + 1) // 4 for entry in self.entries.values())
        most += self.writes_out * 2 * SHORT * len(self.entries)
        # The new records, and the old slot of each.
        self.records, self.origins, self.count = np.zeros(most, RECORD_DTYPE), np.zeros(most, np.int32), 1
        # Those that are not the old ones with other operands: the old slot, opcode, value, description, operands and constant of each new slot.
        self.added = {}
        self.items, self.guards, self.slot_of = [], [], {}
        self.new = array("i", bytes(4 * self.length))
        self._number_outside(needed, elements, captured)
        self._number_instructions(needed)

    def add(self, op, value, meta, old, a=0, b=0, constant=0.0):
        """A new slot with a record of its own."""
        slot = self.count
        self.count += 1
        self.added[slot] = old, op, value, meta, a, b, constant
        return slot

    def meta(self, slot):
        """The description of what a new slot has."""
        return self.added[slot][3] if slot in self.added else SCALAR

    def _number_outside(self, needed, elements, captured):
        """Slots of what comes from outside."""
        trace, new, add = self.trace, self.new, self.add
        metas_of_inputs = trace.input_metas
        self.element_slots = {}
        for slot, k in self.input_of.items():
            if needed[slot] and metas_of_inputs[k] is SCALAR:
                new[slot] = add(SCALAR_LEAF, trace.store.read(slot)[4], SCALAR, slot)
                self.element_slots[(k, 0)] = new[slot]
        flat = [np.asarray(v).reshape(-1) for v in trace.input_values] if elements else ()
        for slot, key in elements.items():
            if key not in self.element_slots:
                self.element_slots[key] = add(SCALAR_LEAF, float(flat[key[0]][key[1]]), SCALAR, slot)
            new[slot] = self.element_slots[key]
        for slot, k in self.input_of.items():
            if needed[slot] and metas_of_inputs[k] is not SCALAR:
                new[slot] = add(ARRAY_LEAF, 0.0, metas_of_inputs[k], slot)
        for slot, value in captured.items():
            if needed[slot]:
                new[slot] = add(SCALAR_LEAF, value, SCALAR, slot) if type(value) is float else self.constants.add(value)

    def _number_instructions(self, needed):
        """Slots of instructions; the same one on the same operands gets no second one."""
        from . import numbering as passes  # loads compiled code

        entries, new = self.entries, self.new
        table = np.zeros(1 << (2 * len(self.records)).bit_length(), np.int32)
        before = self.address, passes.data_address(needed), passes.data_address(new)
        after = passes.data_address(self.records), passes.data_address(self.origins)
        last = 0
        for i in (*entries, self.length):
            if i > last + 1:
                self.count = passes.number(*before, last + 1, i, *after, self.count, passes.data_address(table), len(table) - 1)
            last = i
            if i == self.length or not needed[i] or new[i] or self.writes_out and self.written_out(i, entries[i]):
                continue
            entry = entries[i]
            if entry.kind == ROW and entry.function.primitive is not None and not any(self.wanted):
                # Without derivatives it is its value.
                entry = by_value(entry, entry.operands) or entry
            operands = tuple([self.slot(o) for o in entry.operands] if self.writes_out else [new[o] if o > 0 else o for o in entry.operands])
            # A guard on a constant always holds.
            if entry.kind != GUARD or operands[0] > 0:
                new[i] = self.item(i, entry, operands)

    def item(self, old, entry, operands):
        """The slot of an entry on new operands: a new one, unless the same has one already."""
        key = key_of(entry, operands)
        if key is not None and key in self.slot_of:
            return self.slot_of[key]
        if len(operands) > 2:
            for _ in range(continuations(entry, operands)):
                self.add(CONTINUES, 0.0, None, old)
        slot = self.slot_of[key] = self.add(TRACED, 0.0, entry.meta, old)
        item = Item(slot, entry, operands)
        if entry.kind == GUARD:
            item.number = len(self.guards)
            self.guards.append(ReplayGuard(operands[0], entry.function, entry.seen, self.trace.store.place(old)))
        self.items.append(item)
        return slot

    # -- the tape ---------------------------------------------------------------------
    def _build(self):
        trace, new = self.trace, self.new
        slots_of_outputs = [self.slot(t._i) if self._live(t) else 0 for t in self.outputs]
        count = self.count
        self.metas = [None, *[SCALAR] * (count - 1)]
        if self.added:
            slots, (old, ops, values, metas, *operands) = list(self.added), map(list, zip(*self.added.values()))
            self.origins[slots] = old
            for name, column in zip(("op", "value", "a", "b", "constant"), (ops, values, *operands)):
                self.records[name][slots] = column
            self.records["offset"][slots] = trace.store.records()["offset"][old]
            for slot, meta in zip(slots, metas):
                self.metas[slot] = meta
        self.records.resize(count, refcheck=False)
        outputs = [
            (slot, self.metas[slot]) if slot > 0 else (0, self.constants[-1 - slot] if slot else t) for t, slot in zip(self.outputs, slots_of_outputs)
        ]
        leaves = [0 if meta is SCALAR else max(new[slot], 0) for meta, slot in zip(trace.input_metas, trace.input_slots)]
        element_list = [(k, position, slot) for (k, position), slot in self.element_slots.items()]
        return FinishedTape(
            records=self.records, inputs=list(trace.input_metas), leaves=leaves, elements=element_list, items=self.items,
            constants=self.constants, guards=self.guards, outputs=outputs, metas=self.metas,
            origins=self.origins[:count].copy(), code_runs=list(zip(trace.store.runs, trace.store.codes)), special=trace.store.special,
            wanted=self.wanted,
        )


def continuations(entry, operands):
    """How many records before that of an entry are for operands that it has no room for."""
    count = len(entry.function.slots(len(operands))) if entry.kind == ROW and len(operands) > 2 else 0
    return (count + 1) // 4 if count > 2 else 0


def key_of(entry, operands):
    """What two entries share if they give the same result; None if each is its own."""
    if entry.kind == ROW:
        return (ROW, entry.function, entry.attrs, operands, entry.integer, entry.differentiable)
    if entry.kind == GUARD:
        return (GUARD, entry.function, operands, entry.seen)
    return (HOST, entry.function.ufunc, operands) if entry.function.ufunc is not None else None

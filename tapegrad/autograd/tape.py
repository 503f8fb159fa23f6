"""The tape a user can hold: `Tape`, a name for a store.

A program needs none: every thread records on its anonymous store.  Inside
``with tg.Tape() as tape:`` operations on leaves are recorded here instead, where
they can be counted, printed and cleared.  A held tape forgets nothing by itself.

What shows it (listings, trace tables, paths; `tapegrad.autograd.draw`) reads the records of a store through `reading.Instruction` and
computes with the rules on plain numbers; nothing is fast and nothing needs to be.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from itertools import repeat
from typing import Any

import numpy as np

from ..array.record import normalise, store_of
from ..array.tensor import Tensor
from ..array.typing import TensorLike
from ..common.errors import ClearedTapeError, SeedShapeError
from ..common.printing import Picture, PlainTable, table
from ..tape.layout import CONTINUES, SCALAR, SCALAR_LEAF
from ..tape.places import caller_place, name_of
from ..tape.store import CALL_ENDED, TapeStore, thread_state
from . import draw
from .adjoint import accumulated, between, contributions, passing, pull, pulled, push
from .reading import Instruction, Region, retire


# ---- listings, trace tables, paths ---------------------------------------------------------------
def entries_of(store):
    """Leaves and instructions in order of slots."""
    return [i for i in (Instruction(store, slot) for slot in range(1, store.length)) if i.op != CONTINUES]


def _shape(instruction, leaves):
    """Shape of the result of an instruction, or of a leaf that is still alive."""
    if instruction.is_leaf:
        return np.shape(leaves[instruction.slot]._v) if instruction.slot in leaves else ()
    return instruction.signature.out.shape if instruction.signature is not None else ()


def summary(value):
    """A value in a few characters: a number, a short array, or its range."""
    if value is None:
        return "-"
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{array.item():.6g}"
    if array.size <= 4:
        return np.array2string(array.reshape(-1), precision=4, separator=" ", suppress_small=True).replace("\n", "")
    return f"[{array.min():.4g} .. {array.max():.4g}]"


def values(store):
    """The value of every slot: scalars and kept arrays as recorded, the others computed again.

    Returns
    -------
    dict of int to float or ndarray
    """
    stretch, primals = Region(store, plain=True), {}
    for instruction in entries_of(store):
        slot, value = instruction.slot, None
        if instruction.is_leaf:
            # An array that is gone, or was changed since, is not known.
            leaf = stretch.leaf(slot)
            value = instruction.value if instruction.op == SCALAR_LEAF else leaf._v if isinstance(leaf, Tensor) else None
        elif instruction.row is not None and (instruction.signature is None or instruction.signature.out is SCALAR):
            value = instruction.value
        elif instruction.row is not None and not instruction.cleared:
            read = stretch.read(slot)
            of, value = dict(read.slots), read.result
            operands = [primals.get(of.get(k)) if v is None else v for k, v in enumerate(read.operands)]
            if value is None and all(v is not None for v in operands):
                with np.errstate(all="ignore"):
                    value = normalise(read.row.value(*operands, **read.attrs))
        primals[slot] = value
    return primals


def _operands(instruction):
    """The operands in order (``%slot``, a number, ``const`` for an array), then the attributes."""
    row, signature = instruction.row, instruction.signature
    if row is None:
        return ""
    count = row.arity if signature is None else len(signature.metas)
    slots = dict(zip(row.slots(count), instruction.operands))
    named = []
    for k in range(row.primitive is not None, count):
        if slots.get(k):
            named.append(f"%{slots[k]}")
        elif signature is not None:
            named.append("const")
        else:
            # The condition of `where` is a truth value, other operands without a derivative are numbers.
            number = k in slots or row.arity == 2
            named.append(f"{instruction.constant:.6g}" if number else str(bool(instruction.constant)))
    attrs = [f"{k}={v}" for k, v in instruction.attributes().items() if k != "keeps"]
    return ", ".join(named + attrs)


def rows(store):
    """One row an instruction or leaf: slot, primitive, operands, shape, value, place."""
    lines = []
    leaves, primals = store.leaf_at(), values(store)
    for instruction in entries_of(store):
        slot = instruction.slot
        name = "leaf" if instruction.is_leaf else "cleared" if instruction.row is None else instruction.row.name + " (cleared)" * instruction.cleared
        shape = "x".join(map(str, _shape(instruction, leaves))) or "scalar"
        place = "" if instruction.is_leaf else store.place(slot).short
        lines.append((f"%{slot}", name, _operands(instruction), shape, summary(primals[slot]), place))
    return lines


def named_rows(store):
    """`rows`, with the names of the variables that leaves are bound to."""
    names = {f"%{slot}": name for slot, name in _leaf_names(store.leaf_at()).items()}
    return [(slot, names.get(slot, name), *rest) for slot, name, *rest in rows(store)]


def _slot_on(store, tensor, what):
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{what} must be a tensor, got {type(tensor).__name__}")
    if tensor._t is None:
        return store.leaves.get(tensor._k)
    tensor_store = store_of(tensor)
    if tensor_store.retired is not None:
        raise ClearedTapeError(f"{what} is on a tape that was cleared at {tensor_store.retired}")
    if tensor_store is not store:
        raise ValueError(f"{what} was recorded on another tape")
    return tensor._i


def _met(store, y):
    slot = _slot_on(store, y, "y")
    if slot is None:
        raise ValueError("y is a leaf that this tape has not met")
    return slot


def handed(store, entries, adjoints, partials=True):
    """What instructions hand to their operands in a reverse sweep, the last first.

    Yields
    ------
    tuple of Instruction and list of (int, ndarray, ndarray or None)
        Contribution by contribution: the slot of the operand, what is added to its adjoint, and the partial derivative, if that is a number and
        `partials` are wanted.
    """
    stretch = Region(store, plain=True)
    for instruction in reversed(entries):
        if instruction.slot in adjoints and instruction.row is not None:
            g = adjoints[instruction.slot]
            ones = _handed(stretch, instruction.slot, np.array(1.0)) if partials and g.ndim == 0 else repeat((0, None))
            pairs = zip(_handed(stretch, instruction.slot, g), ones)
            yield instruction, [(slot, added, partial if np.ndim(partial) == 0 else None) for (slot, added), (_, partial) in pairs]


@np.errstate(all="ignore")
def _handed(stretch, slot, g):
    read = stretch.read(slot)
    slots = dict(read.slots)
    with passing(stretch, slot, read):
        parts = contributions(stretch, slot, read, g, None, list(slots))
    return [(slots[k], np.asarray(accumulated(None, part, read.metas[k], None))) for k, part in parts]


def drawn(store, y):
    """What a drawing of `y` shows: the rows that it depends on, their adjoints, and the partials of numbers by (slot of the operand, slot)."""
    entries, partials = entries_of(store), {}
    adjoints = adjoints_of(entries, store.leaf_at(), {_met(store, y): np.ones(np.shape(y._v))})
    for instruction, parts in handed(store, entries, adjoints):
        for slot, _, partial in parts:
            if partial is not None:
                key = f"%{slot}", f"%{instruction.slot}"
                partials[key] = f"{partials[key]} + {summary(partial)}" if key in partials else summary(partial)
    wanted = {f"%{slot}": summary(adjoint) for slot, adjoint in adjoints.items()}
    return [row for row in named_rows(store) if row[0] in wanted], wanted, partials


def _refuse_cleared(instruction):
    if not instruction.is_leaf and (instruction.cleared or instruction.row is None):
        raise ClearedTapeError(
            f"instruction %{instruction.slot} was cleared by a backward pass; look at the tape before it, or pass retain_graph=True there"
        )


def adjoints_of(entries, leaves, seeds):
    """Slot -> adjoint, for what the outputs in the slots of `seeds` depend on: together, with these adjoints of their own."""
    shapes = {i.slot: _shape(i, leaves) for i in entries if i.slot in seeds}
    adjoints, given = {}, {slot: np.zeros(shapes[slot]) + np.asarray(seed, float) for slot, seed in seeds.items()}
    for slot, shape in shapes.items():
        if given[slot].shape != shape:
            raise SeedShapeError(f"a seed of shape {np.shape(seeds[slot])} for an output of shape {tuple(shape)}")

    def visit(slot, g):
        _refuse_cleared(by_slot[slot])
        adjoints[slot] = np.asarray(g)
        return g

    by_slot = {i.slot: i for i in entries if i.slot <= max(seeds)}
    pull(Region(entries[0].store, plain=True), list(by_slot), given, visit=visit)
    return adjoints


def _leaf_names(leaves):
    return {slot: f"leaf {name_of(leaf) or ''}".rstrip() for slot, leaf in leaves.items()}


def tangents_of(entries, leaves, seeds):
    """Slot -> tangent, from the tangents `seeds` of some leaves."""
    by_leaf = {id(t): v for t, v in seeds.items()}
    tangents, stretch = {}, Region(entries[0].store, plain=True)
    for instruction in entries:
        _refuse_cleared(instruction)
        if instruction.is_leaf:
            tangents[instruction.slot] = np.zeros(_shape(instruction, leaves)) + by_leaf.get(id(leaves.get(instruction.slot)), 0.0)
    push(stretch, [i.slot for i in entries], tangents)
    # What is no number below zero is printed without a sign.
    return {i.slot: tangents.get(i.slot, np.zeros(_shape(i, leaves))) + 0.0 for i in entries}


#: Paths from one output to one input, at most, that are listed.
MOST_PATHS = 10_000


class Path(Sequence):
    """One path from an output to an input: slots, and the partial on each edge.

    Attributes
    ----------
    slots : tuple of int
        From the output to the input.
    edges : tuple of float
        The partial derivative of each slot with respect to the next.
    product : float
    """

    def __init__(self, slots, edges, names):
        self.slots, self.edges, self._names = tuple(slots), tuple(edges), names

    @property
    def product(self):
        return float(np.prod(self.edges))

    def __len__(self):
        return len(self.edges)

    def __getitem__(self, k):
        return self.edges[k]

    def __repr__(self):
        text = f"%{self.slots[0]} {self._names[self.slots[0]]}"
        for slot, edge in zip(self.slots[1:], self.edges):
            text += f" --({edge:.6g})--> %{slot} {self._names[slot]}"
        return f"{text} : {self.product:.6g}"


# ---- the tape a user can hold --------------------------------------------------------------------
class Tape:
    """An explicit tape, which records the operations inside its ``with`` block.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor(2.0, requires_grad=True)
    >>> with tg.Tape() as tape:
    ...     y = x * x + 1.0
    >>> len(tape)
    2
    """

    def __init__(self) -> None:
        self.store = TapeStore(thread_state(), explicit=True)

    @classmethod
    def of(cls, tensor: Tensor) -> Tape | None:
        """The tape that a computed tensor is on (``tensor.tape``); None for a leaf or a constant."""
        if tensor._t is None:
            return None
        tape = cls.__new__(cls)
        tape.store = store_of(tensor)
        return tape

    def __enter__(self) -> Tape:
        state = thread_state()
        if self.store.thread is not state or self.store.retired is not None:
            if len(self):
                raise RuntimeError("a tape that holds instructions cannot be entered by another thread")
            self.store = TapeStore(state, explicit=True)
        state.tapes.append(self)
        state.store = self.store
        return self

    def __exit__(self, *exc: object) -> None:
        state = thread_state()
        state.tapes.remove(self)
        state.store = state.tapes[-1].store if state.tapes else state.anonymous
        if self.store.trace is not None and not self.store.trace.depth:
            # Tensors that the function has left somewhere can no longer be differentiated.
            self.store.retired, self.store.ident = CALL_ENDED, -1

    def __len__(self) -> int:
        """Number of instructions (leaves are not instructions)."""
        return len(self.store)

    def clear(self) -> None:
        """Forget every instruction; tensors that were computed on the tape can no longer be differentiated."""
        old = self.store
        retire(old, caller_place())
        if self.store is old:
            self.store = TapeStore(old.thread, explicit=True)
            self.store.ident = old.thread.quick_ident

    def memory(self) -> dict[str, int]:
        """Bytes held, as a dict with ``records``, ``saved`` and ``total``."""
        parts = self.store.memory()
        return {**parts, "total": sum(parts.values())}

    @property
    def instructions(self) -> list[Instruction]:
        """The instructions in order, each with slot, row, operands, value and place."""
        return [i for i in entries_of(self.store) if i.row is not None]

    def trace(self, y: Tensor | None = None, seed: TensorLike = 1.0, tangents: dict[Tensor, TensorLike] | None = None) -> PlainTable:
        """The textbook table: one line an instruction with primal, adjoint and, where asked, tangent.

        Parameters
        ----------
        y : Tensor, optional
            Output to seed; the last instruction by default.
        seed : float or array-like
            Adjoint of `y`.
        tangents : dict of Tensor to array-like, optional
            Tangents of leaves; adds the tangent column.

        Returns
        -------
        str
            A notebook shows it as it is printed.
        """
        entries = entries_of(self.store)
        if not entries:
            return PlainTable("an empty tape")
        leaves = self.store.leaf_at()
        adjoints = adjoints_of(entries, leaves, {entries[-1].slot if y is None else _met(self.store, y): seed})
        forward = tangents_of(entries, leaves, tangents) if tangents is not None else None
        lines = []
        for instruction, (slot, name, operands, _, value, _) in zip(entries, named_rows(self.store)):
            tangent = [summary(forward[instruction.slot])] if forward is not None else []
            what = name if instruction.is_leaf else f"{name}({operands})"
            lines.append((slot, what, value, *tangent, summary(adjoints.get(instruction.slot, 0.0))))
        head = ("slot", "instruction", "primal") + (("tangent",) if forward is not None else ()) + ("adjoint",)
        return PlainTable(table(head, lines))

    def paths(self, y: Tensor, x: Tensor) -> list[Path]:
        """All paths from output `y` back to input `x`, with the partial on each edge.

        The derivative of `y` with respect to `x` is the sum over the paths of
        the product of their edges (scalars only).

        Returns
        -------
        list of Path
        """
        top, bottom = _slot_on(self.store, y, "y"), _slot_on(self.store, x, "x")
        if top is None or bottom is None:
            return []
        leaves = self.store.leaf_at()
        entries = {i.slot: i for i in entries_of(self.store) if bottom <= i.slot <= top}
        names = {s: i.row.name for s, i in entries.items() if i.row} | _leaf_names(leaves)
        # Only slots that depend on x can lie on a path; without this, dead ends could take for ever.
        on_the_way = set(between(Region(self.store, plain=True), [top], [bottom]))

        @cache
        def edges_of(slot):
            instruction = entries[slot]
            _refuse_cleared(instruction)
            if any(_shape(entries[s], leaves) != () for s in (slot, *instruction.operands) if s in on_the_way):
                raise ValueError(f"paths are listed for scalar instructions; %{slot} ({instruction.row.name}) has arrays")
            return [(s, float(c)) for s, c in zip(instruction.operands, pulled(self.store, slot, np.asarray(1.0))) if s in on_the_way and c is not None]

        result: list[Path] = []
        stack: list[Any] = [((top,), ())] if top in on_the_way else []
        while stack:
            slots, partials = stack.pop()
            if slots[-1] == bottom:
                result.append(Path(slots, partials, names))
                if len(result) > MOST_PATHS:
                    raise ValueError(f"more than {MOST_PATHS} paths; list the paths of a smaller expression")
                continue
            stack += [((*slots, s), (*partials, c)) for s, c in reversed(edges_of(slots[-1]))]
        return result

    def leaves_of(self, y: Tensor) -> list[Tensor]:
        """The leaves that output `y` depends on, in order of first use."""
        if y._t is None:
            return [y] if y._r else []
        store = store_of(y)
        leaves = store.leaf_at()
        reached = set(between(Region(store, plain=True), [_slot_on(store, y, "y")], list(leaves)))
        return [leaf for slot, leaf in leaves.items() if slot in reached]

    def draw(self, y: Tensor | str | os.PathLike[str] | None = None, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw the graph of the tape, as SVG, which a notebook shows.

        Parameters
        ----------
        y : Tensor, optional
            Draw what it depends on, with adjoints in the boxes and the partials of numbers at the lines; by default the whole tape is drawn. (A path
            may stand here, too.)
        path : str or path-like, optional
            Where to write it, by custom a name that ends in ``.svg``.

        Returns
        -------
        str
            The SVG text.

        Raises
        ------
        OptionError
            If the tape has more than 300 instructions and leaves.

        Examples
        --------
        >>> import tapegrad as tg
        >>> x = tg.tensor(2.0, requires_grad=True)
        >>> with tg.Tape() as tape:
        ...     y = x * x
        >>> tape.draw().startswith("<svg")
        True
        >>> "adjoint 4" in tape.draw(y)
        True
        """
        if isinstance(y, (str, os.PathLike)):
            y, path = None, y
        return draw.write(path, *((named_rows(self.store),) if y is None else drawn(self.store, y)))

    def _repr_html_(self):
        return draw.html(named_rows(self.store), str(self))

    def __str__(self):
        lines = rows(self.store)
        return table(("slot", "primitive", "operands", "shape", "value", "recorded at"), lines) if lines else "an empty tape"

    def __repr__(self):
        return f"<Tape of {len(self)} instructions>"

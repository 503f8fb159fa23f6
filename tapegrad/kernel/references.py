"""References: a description of every operand of every template.

The operand of one template is, over all its executions, a column of references:
to instructions, that is to a template (the *owner*) and the number of one of its
executions, or to something from outside (`columns`).  It becomes the first of
these that describes all of them:

======================  ===============================================================
`Direct`                the value that the owner computed last, or that its `storage` holds now
`Carried`               what a template in the same loop computed in the iteration before;
                        in the first iteration, anything that these words describe, outside the loop
`Number`                a constant
`Element`               an element of an argument, or of constants side by side: one for each execution
`Outside`               an array argument or constant, whole
`Spilled`               an element of the owner's *spill buffer*, where it stores the values of all executions
`Phi`                   an element of the common spill buffer of several owners
======================  ===============================================================

In ``s = y[0]``, ``for i in range(n): s = s + np.sin(s) * x[2 * i]`` and the loop of its adjoint::

    x[2 * i]          Element: buffer of x, 2 i
    sin(s)            Direct, in the product
    s                 Carried; in the first iteration Element: buffer of y, 0
    sin(s) again      on the way back, in the derivative by x: Spilled, in execution n - 2 - i
    s in cos(s)       there, too: Phi, for in the last iteration it is y[0]

The descriptions are exact for every execution, since the columns were compared
entry by entry: where elements do not advance evenly there is a table.

Many scalars are copied from anywhere to a row of elements by few loops (`pieces`).  Where a column of references goes through
the executions of one template, through the elements of one argument or through constants in even steps, its elements are one
loop: the gradient ``[da, dx[0], dx[1], ..., dx[99]]``, gathered from single adjoints, takes one store and a loop of 100.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from ..common.errors import require
from ..common.waiting import give_way
from ..interpreter.native import data_address
from ..rules import BY_NAME
from ..tape.layout import SCALAR
from . import ir
from .columns import ARGUMENT, ARRAY, ELEMENT, NUMBER, distinct, place_writes, times_of
from .nest import AffineIndex, LoopNode, StatementNode, Tables, nest

_STACK = BY_NAME["stack"]


@dataclass(frozen=True, slots=True)
class Direct:
    """The value that `template` computed last."""

    template: StatementNode


@dataclass(frozen=True, slots=True)
class Carried:
    """The value of `template` in the iteration of `level` before; `init` in the first one."""

    level: LoopNode
    template: StatementNode
    init: object


@dataclass(frozen=True, slots=True)
class Number:
    """A float, by its bits."""

    bits: int

    @property
    def value(self):
        return float(np.int64(self.bits).view(np.float64))


@dataclass(frozen=True, slots=True)
class Element:
    """The element at `spot` of the buffer of an argument or of constants: a number, or an array of this shape."""

    buffer: ir.Buffer
    spot: AffineIndex
    shape: tuple = ()


@dataclass(frozen=True, slots=True)
class Outside:
    """The array argument or constant of a reference, as a whole."""

    reference: int


@dataclass(frozen=True, slots=True)
class Spilled:
    """The value of `template` in the execution whose number is at `spot`."""

    template: StatementNode
    spot: AffineIndex


class Gathered(list):
    """All operands of an instruction that puts scalars side by side.

    Of what one loop copies each: that loop (None: a single operand), what is copied in it, and the spot of its place.
    """


class Phi:
    """The value that one of several templates computed, or an outside reference.

    Attributes
    ----------
    body : Body
        In which it is read.
    owners : ndarray
        Number of the template, or a reference to something from outside.
    ranks : ndarray
        Number of the execution.
    buffer : ir.Buffer
        The pool.
    shape : tuple of int
        Of each value.
    spot : AffineIndex
        Element of the pool; these three are known when it is laid out (`build.lay_out`).
    """

    def __init__(self, body, owners, ranks):
        self.body, self.owners, self.ranks = body, owners, ranks
        self.buffer = self.shape = self.spot = None


class References:
    """Descriptions of all operands of a rolled tape.

    Parameters
    ----------
    columns : Columns
    structure : RolledStructure

    Attributes
    ----------
    root : Body
    templates : list of StatementNode
    tables : Tables
        Of element numbers, and of constants.
    inputs : list of ir.Buffer
        Of the arguments.
    pooled : dict
        Every `Phi` in use (its keys).
    """

    def __init__(self, columns, structure):
        self.columns = columns
        self.root, self.templates = nest(structure)
        self.tables = Tables()
        self.inputs = [ir.Buffer(ir.INPUT, meta.size, meta.char, k) for k, meta in enumerate(columns.tape.inputs)]
        self.pooled, self.storages, self._constants = {}, [], {}
        members = [t.members for t in self.templates]
        counts = np.array([len(m) for m in members], np.int64)
        order = np.concatenate(members) if members else np.empty(0, np.int64)
        begins = np.cumsum(counts) - counts
        require(len(order) == len(columns), "the rolled program has other instructions than the tape")
        self.owner, self.rank = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
        self.owner[order] = np.repeat(np.arange(len(counts)), counts)
        self.rank[order] = np.arange(len(order)) - np.repeat(begins, counts)
        self._owners, self._ranks = self.owner.tolist(), self.rank.tolist()

    def resolve(self):
        """Describe the operands of every template."""
        columns = self.columns
        first = columns.first
        self.storages = place_writes(self)
        for t in self.templates:
            begin, end = int(first[t.members[0]]), int(first[t.members[0] + 1])
            if t.body.count == 1 and self._stacks(t, begin, end):
                t.operands = [self.gathered(columns.operands[begin:end], t.body, t.position, t.members)]
            elif t.body.count == 1:
                t.operands = [self.single(r) for r in columns.operands[begin:end].tolist()]
            else:
                starts = first[t.members]
                t.operands = [self.describe(columns.operands[starts + k], t.body, t.position, t.members) for k in range(end - begin)]
        for t in self.templates:
            give_way()
            for what in t.operands:
                self.use(what)
        for storage in self.storages:
            for (body, position), refs in storage.copies.items():
                what = self.describe(refs, body, position, times_of(body, position))
                self.use(what)
                body.copies.setdefault(position, []).append((storage, what))
        for slot, _ in columns.tape.outputs:
            if slot:
                self.use(self.single(int(columns.reference[slot])))
        return self

    def _stacks(self, t, begin, end):
        """Whether the template puts scalars side by side."""
        number = self.columns.item[t.members[0]]
        if number < 0 or end - begin < 2:
            return False
        item = self.columns.tape.items[number]
        return item.entry.function is _STACK and all(o > 0 and self.columns.tape.metas[o] is SCALAR for o in item.operands)

    def use(self, what):
        """Note the needs of a description that will be used."""
        if type(what) is Spilled:
            what.template.stored = True
        elif type(what) is Carried:
            what.level.carries[what] = None
            self.use(what.init)
        elif type(what) is Gathered:
            for _, copied, _ in what:
                self.use(copied)
        elif type(what) is Phi:
            self.pooled[what] = None
            for t in distinct(what.owners[what.owners >= 0]).tolist():
                self.templates[t].stored = True

    # -- one column -----------------------------------------------------------------
    def gathered(self, refs, body, position, time):
        """`Gathered` of scalars that are read once, at `time`, before node `position` of `body`."""
        result = Gathered()
        for at in pieces(self, refs):
            if len(at) == 1:
                result.append((None, self.single(int(refs[at[0]])), AffineIndex(int(at[0]))))
                continue
            level = LoopNode(body, position, len(at))
            what = self.describe(refs[at], level.body, 0, np.repeat(time, len(at)))
            result.append((level, what, level.body.fit(at, self.tables)))
        return result

    def single(self, r):
        """The description of one reference, outside of all loops."""
        if r < 0:
            return self._one_outside(r)
        t = self.templates[self._owners[r]]
        if t.storage is not None or len(t.members) == 1 or self._ranks[r] == len(t.members) - 1 and self.is_scalar(t):
            return Direct(t)
        return Spilled(t, AffineIndex(self._ranks[r]))

    def describe(self, refs, body, position, times):
        """The description of the references `refs`.

        Parameters
        ----------
        refs : ndarray
            One for each execution of `body`.
        body : Body
        position : int
            Before which node of the body the value is wanted.
        times : ndarray
            When.
        """
        if (refs < 0).all():
            operand = self._outside(refs, body)
            if operand is not None:
                return operand
        inside = np.maximum(refs, 0)
        owners, ranks = np.where(refs >= 0, self.owner[inside], refs), np.where(refs >= 0, self.rank[inside], 0)
        if self.storages:
            for t in map(self.templates.__getitem__, distinct(owners[owners >= 0])):
                if t.storage is not None:
                    return Direct(t)
        alone = owners[0] >= 0 and bool((owners == owners[0]).all())
        if alone:
            t = self.templates[owners[0]]
            if self._reaches(t, body, position) and np.array_equal(ranks, _latest(t, body, times)):
                return Direct(t)
        for level in reversed(body.levels):
            operand = self._carried(refs, owners, ranks, body, level)
            if operand is not None and not (alone and type(operand.init) is Phi):
                return operand
        return Spilled(t, body.fit(ranks, self.tables)) if alone else Phi(body, owners, ranks)

    def _reaches(self, t, body, position):
        """Whether the value of `t` can be named in `body` before node `position`."""
        depth = _common(t.body, body)
        if depth < len(t.body.levels) and not self.is_scalar(t):
            # The place of an array may depend on counters of loops that are over.
            return False
        one = t.position if depth == len(t.body.levels) else t.body.levels[depth].position
        two = position if depth == len(body.levels) else body.levels[depth].position
        return one < two

    def _carried(self, refs, owners, ranks, body, level):
        """`Carried` by `level`, or None."""
        iterations = body.runs[level.depth]
        begins = level.begins[iterations]
        rest = np.flatnonzero(~begins)
        if not len(rest) or owners[rest[0]] < 0 or (owners[rest] != owners[rest[0]]).any():
            return None
        t = self.templates[owners[rest[0]]]
        if level not in t.body.levels or not self.is_scalar(t):
            return None
        iterations = iterations[rest]
        before = iterations - 1 if t.body is level.body else np.searchsorted(t.members, level.body.starts[iterations]) - 1
        if (ranks[rest] != before).any():
            return None
        # The first iteration of each execution sees one value.
        begun = np.flatnonzero(begins)
        executions = level.of[body.runs[level.depth][begun]]
        inits = refs[begun[np.searchsorted(executions, np.arange(level.parent.count))]]
        if (refs[begun] != inits[executions]).any():
            return None
        times = level.begun
        if (inits >= times).any():
            # The first iteration computes it itself.
            return None
        return Carried(level, t, self.describe(inits, level.parent, level.position, times))

    def is_scalar(self, t):
        """Whether the value of `t` has no dimensions."""
        slot = self.columns.slots[t.members[0]]
        meta = self.columns.tape.metas[slot]
        return meta is SCALAR or meta is not None and meta.shape == ()

    # -- from outside -----------------------------------------------------------------
    def _one_outside(self, r):
        columns, k = self.columns, -1 - r
        kind = columns.kind[k]
        if kind == NUMBER:
            return Number(int(columns.number[k : k + 1].view(np.int64)[0]))
        which = int(columns.which[k])
        if kind == ELEMENT or kind == ARGUMENT and columns.tape.inputs[which].shape == ():
            return Element(self.inputs[which], AffineIndex(int(columns.at[k])))
        return Outside(r)

    def _outside(self, refs, body):
        """The description of references that are all from outside; None if they are of several kinds."""
        columns, numbers = self.columns, -1 - refs
        if (numbers == numbers[0]).all():
            return self._one_outside(int(refs[0]))
        kinds, which = columns.kind[numbers], columns.which[numbers]
        if (kinds != kinds[0]).any():
            return None
        if kinds[0] == NUMBER:
            bits = columns.number[numbers].view(np.int64)
            if (bits == bits[0]).all():
                return Number(int(bits[0]))
            spot = body.table(bits, self.tables)
            return Element(self.constant(self.tables.arrays[spot.table].view(np.float64)), AffineIndex(0, spot.steps))
        if kinds[0] == ELEMENT and (which == which[0]).all():
            return Element(self.inputs[which[0]], body.fit(columns.at[numbers], self.tables))
        if kinds[0] == ARRAY:
            constants, inverse = np.unique(which, return_inverse=True)
            arrays = [np.ascontiguousarray(columns.tape.constants[k]) for k in constants.tolist()]
            spot = body.fit(inverse, self.tables).scaled(arrays[0].size, 0, self.tables)
            return Element(self.constant(_side_by_side([a.reshape(-1) for a in arrays])), spot, arrays[0].shape)
        return None

    def constant(self, data):
        """The buffer of a flat array of constants."""
        # A large one is not copied: what has the same place is the same.
        large = data.nbytes > _LARGE
        key = (data.dtype.char, data.size, data_address(data)) if large else (data.dtype.char, data.tobytes())
        if key not in self._constants:
            self._constants[key] = ir.Buffer(ir.CONSTANT, data.size, data.dtype.char, data=data)
        return self._constants[key]


#: Bytes from which on an array is large.
_LARGE = 1 << 16


def _side_by_side(arrays):
    """One flat array with all of these, which is no copy where they lie one after the other in another one, as rows do."""
    root = arrays[0]
    while isinstance(root.base, np.ndarray):
        root = root.base
    size, place = arrays[0].nbytes, data_address(arrays[0])
    if root.flags.c_contiguous and root.dtype == arrays[0].dtype and not (place - data_address(root)) % root.itemsize:
        first = (place - data_address(root)) // root.itemsize
        flat = root.reshape(-1)[first : first + len(arrays) * arrays[0].size]
        if flat.size == len(arrays) * arrays[0].size and all(data_address(a) == place + k * size for k, a in enumerate(arrays)):
            return flat
    return np.concatenate(arrays)


def _latest(t, body, times):
    """The execution of `t` last before `times`, where `t` reaches `body`."""
    depth = len(t.body.levels)
    if depth <= len(body.levels) and _common(t.body, body) == depth:
        return body.runs[depth - 1] if depth else np.zeros(body.count, np.int64)
    return np.searchsorted(t.members, times) - 1


def _common(one, two):
    """The number of loops that two bodies share."""
    return len(list(takewhile(lambda pair: pair[0] is pair[1], zip(one.levels, two.levels))))


#: Uneven stretches of one owner are one loop over a table if there are more of them than this.
_MOST = 8
#: Stands for constants as the owner of references.
_CONSTANTS = -(1 << 40)


def pieces(references, refs):
    """The positions of a column of scalar references, in pieces that one loop copies each."""
    columns = references.columns
    # Outside references are negative, and may be below minus the number of instructions.
    inside = np.maximum(refs, 0)
    owners, ranks = references.owner[inside], references.rank[inside]
    outside = np.flatnonzero(refs < 0)
    numbers = -1 - refs[outside]
    require(np.isin(columns.kind[numbers], (ELEMENT, NUMBER)).all(), "a copy of something other than scalars")
    element = columns.kind[numbers] == ELEMENT
    owners[outside] = np.where(element, -1 - columns.which[numbers], _CONSTANTS)
    ranks[outside] = np.where(element, columns.at[numbers], 0)
    distinct, first = np.unique(owners, return_index=True)
    result = []
    for owner in distinct[np.argsort(first)].tolist():
        at = np.flatnonzero(owners == owner)
        result += _even(at, ranks[at])
    return result


def _even(at, ranks):
    """`at`, cut where the steps of it or of `ranks` change; whole if that is too often."""
    parts, start = [], 0
    steps = np.stack([np.diff(at), np.diff(ranks)])
    for change in (np.flatnonzero((np.diff(steps, axis=1) != 0).any(0)) + 2).tolist():
        # The entry before the change belongs to the stretch that ends there.
        if change > start + 1:
            parts.append(at[start:change])
            start = change
        if len(parts) > _MOST:
            return [at]
    return [*parts, at[start:]]

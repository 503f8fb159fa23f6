"""Forward mode over a tape that is already recorded; and reverse mode with many seeds.

The reverse sweep reads, for each instruction, values that recording saved for
it.  Forward mode needs the same values in the other direction: no row's JVP
reads a value that its VJP does not read.  So a tape that was recorded for
``backward()`` can be walked from its inputs to its outputs as it is, without
running Python again, any number of times.

An array instruction does this by a *tangent program*, the counterpart of its
signature's backward program: the row's JVP traced with symbolic operands.  It
is planned when a tangent sweep first meets the signature with a certain set of
operands that have a tangent (for one or two operands each set has its own
program, so that nothing is multiplied by zero; rows of more operands are given
zeros).  The walk (`interpreter.lanes`) comes back to Python at an instruction without
a program, has it planned and goes on.

`Lanes` holds what a sweep carries: `Tangents` upwards, `Adjoints` downwards.
Both may be run again and again over one tape, with other seeds.
"""

from __future__ import annotations

import numpy as np

from ..codegen.scalars import adjoint_switch, tangent_switch
from ..common.errors import MissingRuleError, require
from ..tape.layout import ARRAY_RECORD, FIRST_ARRAY
from ..tape.meta import SCALAR
from . import lanes as walks
from . import program as P
from .native import data_address, refuse_unknown, run_address, table_address
from .plan import Planner, Signature
from .symbolic import Atom


class TangentPlanner(Planner):
    """Collects the steps of one tangent program."""

    def __init__(self, signature):
        super().__init__(signature.metas, signature.out)
        self.positions = {s: j for j, s in enumerate(signature.slots)}
        self.owned = set()
        for k in signature.saves:
            self.saved_atom(k)

    def tangent(self, k):
        sym = super().tangent(k)
        self.step(P.TANGENT, self.tangents[k], self.positions[k], int(self.metas[k] is SCALAR))
        return sym

    def temporary(self, shape, char, zero=False):
        atom = super().temporary(shape, char, zero)
        self.owned.add(atom.reg)
        return atom

    def give(self, tangent):
        """Make `tangent` the tangent of the result; register 0 is the address of its word."""
        out = self.out
        if out is SCALAR:
            self.loop([tangent.expr], [Atom(0, 0, (), (), "d")], (), [None])
            return
        atom = tangent.atom
        mine = atom is not None and atom.whole and atom.reg in self.owned
        if not mine or tangent.shape != out.shape or atom.char != out.char:
            atom = self.temporary(out.shape, out.char, zero=out.size == 0)
            self.loop([tangent.expr], [atom], out.shape, [None])
        self.step(P.GIVE, atom.reg)


class TangentProgram:
    """The program of one signature for one set of hot operands."""

    def __init__(self, signature, active):
        planner = TangentPlanner(signature)
        row, slots = signature.row, signature.slots
        if signature.in_python:
            raise MissingRuleError(
                f"a recorded tape is not swept forward through the custom primitive {row.name!r}, whose rules run in "
                "Python; use tg.jvp(f, primals, tangents), which runs the function on dual numbers"
            )
        few = len(slots) <= 2
        tangents = [
            planner.tangent(s) if on and (not few or active >> j & 1) else None
            for j, (s, on) in enumerate(zip(slots, signature.mask))
        ]
        operands = [planner.operand(k) for k in range(len(signature.metas))]
        kwargs = dict(signature.attrs)
        if row.dynamic:
            kwargs[row.dynamic] = Planner.DYNAMIC
        result = row.tangent(tangents, operands, planner.operand(-1), kwargs)
        if result is not None:
            planner.give(result)
        planner.step(P.END)
        require(tuple(planner.saved) == signature.saves, f"{signature}: the JVP also reads {planner.saved}")
        self.words = np.array(planner.words, np.int64)
        self.constants = planner.constants
        self.kernels = planner.kernels

    def compile(self):
        """Compile the loop kernels; the program can be run after that."""
        for position, spec in self.kernels:
            self.words[position] = spec.address()


class Programs:
    """All tangent programs: `TABLE` has their addresses by signature and set of hot operands."""

    TABLE = np.zeros((64, walks.VARIANTS), np.int64)
    _OUTGROWN: list[np.ndarray] = []
    _SEEN = 0
    _ZEROS = np.zeros(8, np.uint8)

    @classmethod
    def zeros(cls):
        """A block of zeros, as large as any operand of any signature; only read."""
        with Signature.LOCK:
            cls._catch_up()
            return cls._ZEROS

    @classmethod
    def address(cls):
        """Address of the table, with a row for every signature."""
        with Signature.LOCK:
            cls._catch_up()
            return data_address(cls.TABLE)

    @classmethod
    def _catch_up(cls):
        """Look at the signatures made since the last time; their numbers may have been those of others."""
        new = Signature.since(cls._SEEN)
        if not new:
            return
        cls._SEEN = Signature.made
        if len(cls.TABLE) < len(Signature.TABLE):
            # A sweep of another thread may still be reading the old table.
            cls._OUTGROWN.append(cls.TABLE)
            more = np.zeros((len(Signature.TABLE) - len(cls.TABLE), walks.VARIANTS), np.int64)
            cls.TABLE = np.concatenate([cls.TABLE, more])
        cls.TABLE[new] = 0
        alive = filter(None, map(Signature.ALL.get, new))
        largest = max((m.nbytes for signature in alive for m in signature.metas), default=0)
        if largest + 8 > len(cls._ZEROS):
            cls._ZEROS = np.zeros(8 + largest, np.uint8)

    @classmethod
    def planned(cls, signature, active):
        """The program of a signature for the operands `active`."""
        with Signature.LOCK:
            if active not in signature.tangents:
                signature.tangents[active] = TangentProgram(signature, active)
            return signature.tangents[active]

    @classmethod
    def ready(cls, number, active):
        """Make that program one that can be run, and enter it in the table."""
        program = cls.planned(Signature.ALL[number], active)
        with Signature.LOCK:
            program.compile()
            cls.address()
            cls.TABLE[number, active] = data_address(program.words)


def targets_of(slots):
    """Where `Lanes.collect` puts what: from (slot, description, C-contiguous matrix of rows) to an array.

    Slot 0 and empty matrices are left out.
    """
    targets = [
        (slot, 0 if meta is SCALAR else meta.nbytes, data_address(rows), rows.strides[0])
        for slot, meta, rows in slots
        if slot and rows.size
    ]
    return np.array(targets, np.int64).reshape(-1, 4)


class Lanes:
    """What a sweep with several seeds carries over one store.

    Parameters
    ----------
    store : Store
    marks : ndarray of uint8
        MARK: an instruction to visit, LEAF_MARK: a slot that is an input (`tape.layout`).
    low, high : int
        The stretch of the store to walk.
    count : int
        Lanes, a power of two.
    """

    def __init__(self, store, marks, low, high, count):
        require(count & (count - 1) == 0, f"{count} lanes, which is no power of two")
        self.store, self.marks, self.low, self.high, self.count = store, marks, low, high, count
        self.words = np.zeros((high + 1, count), np.int64)
        self.hot = np.zeros(high + 17, np.uint8)
        self.scratch = np.empty(P.SCRATCH, np.uint8)
        self._words, self._hot = data_address(self.words), data_address(self.hot)
        self._run = run_address() if Signature.ALL else 0
        self.saved = store.saved(low, high)
        Signature.compile_pending()

    def seed_units(self, slot, meta, lane, count, element):
        """Seed `count` lanes from `lane` on with the unit vectors from `element` on."""
        kind = 0 if meta is SCALAR else meta.nbytes * 16 + meta.itemsize
        walks.seed_units(self._words, self._hot, slot, self.count, lane, count, element, kind)

    def seed(self, slot, lane, value):
        """Add `value` (float, or C-contiguous ndarray of the slot's dtype) to one lane; an array's must be zero."""
        if type(value) is float:
            self.words.view(np.float64)[slot, lane] += value
            self.hot[slot] = 1
        elif value.size:
            require(not self.words[slot, lane], "a lane was seeded twice")
            walks.seed_one(self._words, self._hot, slot, self.count, lane, data_address(value), value.nbytes)

    def seed_numbers(self, slots, lane, values):
        """Add `values` to one lane of scalar `slots` (int64 array), each of which occurs once."""
        if len(slots):
            self.words.view(np.float64)[slots, lane] += values
            self.hot[slots] = 1

    def collect(self, targets, start, count):
        """Copy `count` lanes of some slots into matrices that are zero.

        Parameters
        ----------
        targets : ndarray of int64
            From `targets_of`.
        start : int
            Row of the first lane.
        count : int
        """
        walks.collect(self._words, self.count, data_address(targets), len(targets), start, count)

    def forget(self, slots):
        """Make the lanes of `slots` (an int64 array) zero."""
        walks.forget(
            self.store.flush(), self._words, self._hot, table_address(), data_address(slots), len(slots), self.count
        )

    def close(self):
        """Free all buffers."""
        walks.forget_all(self.store.flush(), self._words, self._hot, table_address(), self.high, self.count)


class Tangents(Lanes):
    """A tangent sweep; `kept` are the slots whose tangents are wanted afterwards."""

    def __init__(self, store, marks, low, high, count, kept):
        super().__init__(store, marks, low, high, count)
        self.switch = tangent_switch(store.special, count)
        self.last = np.zeros(high + 1, np.int32)
        walks.last_readers(store.flush(), data_address(marks), table_address(), data_address(self.last), low, high)
        self.last[list(kept)] = 0
        self.zeros = Programs.zeros()

    def run(self):
        """Carry the seeds up."""
        store, at = self.store, self.low
        while at <= self.high:
            at = walks.tangents(
                store.flush(), self._words, self._hot, data_address(self.marks), at, self.high, self.count, self.switch,
                self._run, table_address(), Programs.address(), data_address(self.last), data_address(self.saved),
                data_address(self.zeros), data_address(self.scratch),
            )
            refuse_unknown(store.address, at)
            if at < 0:
                at = -1 - at
                number = store.read(at, ARRAY_RECORD)[0] - FIRST_ARRAY
                Programs.ready(number, int(self.scratch.view(np.int64)[0]))


class Adjoints(Lanes):
    """A reverse sweep with several seeds; the tape is retained and no hook is called."""

    def __init__(self, store, marks, low, high, count):
        super().__init__(store, marks, low, high, count)
        self.switch = adjoint_switch(store.special, count)

    def run(self):
        """Carry the seeds down."""
        store = self.store
        at = walks.adjoints(
            store.flush(), self._words, self._hot, self.high, self.low, self.count, self.switch, self._run,
            table_address(), data_address(self.saved), data_address(self.scratch),
        )
        refuse_unknown(store.address, at)

"""The tangents of a tape as a tape: each instruction, then its tangents.

What does not depend on a tangent (a partial derivative) is computed once for all
lanes.  Tangents that are always zero are never made.
"""

from __future__ import annotations

import numpy as np

from ..program.trace import GUARD
from ..rules import BY_NAME
from ..tape.meta import SCALAR, c_strides, laid_out
from .closing import close
from .expand.scalars import advance
from .reasons import NotLowered
from .templates import planned
from .terms import Term
from .writing import STACK, Writer, with_flat_stacks

_ADD, _SUBTRACT, _NEGATIVE = (BY_NAME[name].opcode for name in ("add", "subtract", "negative"))


def tangents(tape, lanes=1):
    """The tape of the outputs of `tape` and of their tangents.

    Parameters
    ----------
    tape : FinishedTape
    lanes : int
        How many tangents at a time.

    Returns
    -------
    FinishedTape
        Arguments as `tape`, then for each wanted argument its tangents, with the lanes as
        first axis.  Outputs as `tape`, then for each of them its tangents, with the lanes as
        first axis; those that are always zero are a constant.

    Raises
    ------
    NotLowered
        If a derivative is computed by Python (custom primitives), or has no row.
    """
    return _Tangents(with_flat_stacks(tape), lanes).run()


class _Tangents:
    def __init__(self, tape, lanes):
        self.tape, self.lanes = tape, lanes
        self.writer = Writer(tape, interleaved=True)
        #: Tangents: slots of scalars, terms of arrays.
        self.word = np.zeros((lanes, len(tape.records)), np.int64)
        self.terms = [{} for _ in range(lanes)]

    def run(self):
        tape, writer = self.tape, self.writer
        self.plan = planned(tape, writer, forward=True)
        extra = self._enter()
        writer.reserve(int(self.plan.room[-1]) * self.lanes)
        low = 1
        for item in tape.items:
            self._scalars(low, item.slot - 1)
            low = item.slot + 1
            if tape.active[item.slot]:
                self._item(item)
        self._scalars(low, len(tape.records) - 1)
        writer.origin = len(tape.records) - 1
        results = [self._result(slot, meta) for slot, meta in tape.outputs]
        return close(writer, results, [False] * extra, interleaved=True)

    def _enter(self):
        """Leaves for the tangents of the arguments; returns how many arguments there are more."""
        tape, writer = self.tape, self.writer
        elements = {}
        for k, position, slot in tape.elements:
            elements.setdefault(k, []).append((position, slot))
        further = [k for k in range(len(tape.inputs)) if tape.wanted[k]]
        for k in further:
            meta = tape.inputs[k]
            shape = (self.lanes, *meta.shape)
            whole = Term(writer, writer.argument(laid_out(shape, meta.char), whole=bool(tape.leaves[k])), shape, meta.char)
            for lane in range(self.lanes):
                for position, slot in elements.get(k, ()):
                    self.word[lane, slot] = writer.element(lane * meta.size + position)
                if tape.leaves[k]:
                    self.terms[lane][tape.leaves[k]] = whole.strided(meta.shape, c_strides(meta.shape, 1), lane * meta.size)
        return len(further)

    def _scalars(self, low, high):
        if low > high:
            return
        w, plan = self.writer, self.plan
        w.reserve(int(plan.room[high + 1] - plan.room[low]) * self.lanes)
        w.count = advance(
            low, high, w.ops, w.lefts, w.rights, w.constants, w.origins, w.count, self.word, plan.template, plan.pools, plan.pool,
            plan.starts, plan.instructions, plan.literals, plan.ends, plan.contributions, _ADD, _SUBTRACT, _NEGATIVE,
        )

    def _of(self, lane, slot):
        """The tangent of a slot, or None."""
        if slot < 0:
            return None
        if self.tape.metas[slot] is SCALAR:
            word = int(self.word[lane, slot])
            return Term(self.writer, word, (), "d", self.writer.number_of(word)) if word else None
        return self.terms[lane].get(slot)

    def _item(self, item):
        tape, writer, entry, row = self.tape, self.writer, item.entry, item.entry.function
        if entry.kind == GUARD:
            return
        writer.origin = item.slot
        if row.primitive is not None:
            raise NotLowered(f"{row.name} is a custom primitive, whose rules run in Python", tape.place(item.slot))
        slots = row.slots(len(item.operands))
        attrs = row.keywords(entry.attrs, entry.integer)
        flat = row is STACK and len(entry.meta.shape) == 1
        operands = () if flat else [Term.of(writer, o) for o in item.operands]
        for lane in range(self.lanes):
            tangents = [self._of(lane, item.operands[k]) for k in slots]
            if not any(t is not None for t in tangents):
                continue
            if flat:
                terms = [Term(writer, 0, (), entry.meta.char, 0.0) if t is None else t for t in tangents]
                tangent = self._stacked(terms)
            else:
                try:
                    tangent = row.tangent(tangents, operands, Term.of(writer, item.slot), attrs)
                except NotLowered as reason:
                    raise NotLowered(f"{row.name}: {reason.what}", tape.place(item.slot)) from None
            if tangent is None:
                continue
            tangent = tangent.as_tangent(entry.meta)
            if entry.meta is SCALAR:
                fixed = tangent.number is not None and tangent.slot <= 0
                self.word[lane, item.slot] = writer.fixed(tangent.number) if fixed else tangent.slot
            else:
                self.terms[lane][item.slot] = tangent

    def _stacked(self, terms):
        """Values of one shape below each other."""
        return Term.of(self.writer, self.writer.entry(STACK, tuple(t.reference() for t in terms), (("axis", 0),)))

    def _result(self, slot, meta):
        """The tangents of one output, all lanes."""
        tangents = [self._of(lane, slot) if slot else None for lane in range(self.lanes)]
        if all(t is None for t in tangents):
            shape, char = (meta.shape, meta.char) if slot else (np.shape(meta), "d")
            return 0, np.zeros((self.lanes, *shape), char)
        zero = Term(self.writer, 0, meta.shape, meta.char, 0.0)
        slot = self._stacked([zero if t is None else t for t in tangents]).slot
        return slot, self.writer.meta(slot)

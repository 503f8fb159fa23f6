"""The tangents of a tape as a tape: each instruction, then its tangents.

What does not depend on a tangent (a partial derivative) is computed once for all
lanes.  Tangents that are always zero are never made.
"""

from __future__ import annotations

import numpy as np

from ..program.ports import inputs_of
from ..program.trace import GUARD
from ..tape.meta import SCALAR, c_strides, laid_out
from .closing import close
from .derivation import Derivation
from .terms import Term
from .writing import STACK, with_flat_stacks


def tangents(tape, lanes=1, again=False):
    """The tape of the outputs of `tape` and of their tangents.

    Parameters
    ----------
    tape : FinishedTape
    lanes : int
        How many tangents at a time.
    again : bool
        Whether the result will be differentiated again: then zero is absolute in its products.

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
    return Tangents(with_flat_stacks(tape), lanes, again).run()


class Tangents(Derivation):
    """The walk from the arguments to the results."""

    def __init__(self, tape, lanes, again=False, writer=None):
        super().__init__(tape, True, lanes, again, writer)
        #: Tangents of arrays.
        self.terms = [{} for _ in range(lanes)]

    def run(self):
        """The finished tape."""
        self._enter()
        pushed = self._pushed(1)
        return close(self.writer, [*self.tape.outputs, *pushed] if self.writer.again else pushed)

    def up(self, cut, seeds):
        """Slots and descriptions (or constants) of what arrives at the outputs from a cut; `seeds` of each lane, None for zero."""
        for lane, of_lane in enumerate(seeds):
            for (slot, meta), seed in zip(cut.values, of_lane):
                if seed is not None and meta is SCALAR:
                    self.word[lane, slot] = seed.slot
                elif seed is not None:
                    self.terms[lane][slot] = seed
        return self._pushed(cut.position + 1)

    def _pushed(self, low):
        """What arrives at the outputs, by the instructions from `low` on."""
        tape, writer = self.tape, self.writer
        writer.reserve(int(self.plan.room[-1]) * self.lanes)
        for item in tape.items:
            if item.slot < low:
                continue
            self.scalars(low, item.slot - 1)
            low = item.slot + 1
            if tape.active[item.slot]:
                self._item(item)
        self.scalars(low, len(tape.records) - 1)
        writer.origin = len(tape.records) - 1
        return [self._result(slot, meta) for slot, meta in tape.outputs]

    def _enter(self):
        """Leaves for the tangents of the arguments."""
        tape, writer = self.tape, self.writer
        for port in inputs_of(tape):
            meta, shape = port.meta, (self.lanes, *port.shape)
            whole = Term(writer, writer.argument(laid_out(shape, meta.char), whole=bool(port.slot)), shape, meta.char)
            for lane in range(self.lanes):
                for position, slot in port.elements:
                    self.word[lane, slot] = writer.element(lane * meta.size + position)
                if port.slot:
                    self.terms[lane][port.slot] = whole.strided(meta.shape, c_strides(meta.shape, 1), lane * meta.size)

    def _of(self, lane, slot):
        """The tangent of a slot, or None."""
        if slot < 0:
            return None
        return self.term(self.word[lane, slot]) if self.tape.metas[slot] is SCALAR else self.terms[lane].get(slot)

    def _item(self, item):
        if item.entry.kind != GUARD:
            self.call(item, self._lanes, item)

    def _lanes(self, item):
        """The tangents of the result of an entry."""
        writer, entry, row = self.writer, item.entry, item.entry.function
        slots = row.slots(len(item.operands))
        attrs = row.keywords(entry.attrs, entry.integer)
        flat = row is STACK and all(o < 0 or self.tape.metas[o] is SCALAR for o in item.operands)
        operands = () if flat or row.primitive is not None else [Term.of(writer, o) for o in item.operands]
        for lane in range(self.lanes):
            if flat:
                slot, _ = self.stacked([int(self.word[lane, o]) if o > 0 else 0 for o in item.operands], (), entry.meta.char)
                tangent = Term.of(writer, slot) if slot else None
            elif row.primitive is not None:
                of = {k: t for k in slots if (t := self._of(lane, item.operands[k])) is not None}
                (tangent,) = self.custom(item, list(of), of.values()) if of else (None,)
            else:
                tangents = [self._of(lane, item.operands[k]) for k in slots]
                tangent = row.tangent(tangents, operands, Term.of(writer, item.slot), attrs)
            if tangent is None:
                continue
            tangent = tangent.as_tangent(entry.meta)
            if entry.meta is SCALAR:
                self.word[lane, item.slot] = self.slot(tangent)
            else:
                self.terms[lane][item.slot] = tangent

    def _result(self, slot, meta):
        """The tangents of one output, all lanes."""
        tangents = [self._of(lane, slot) if slot else None for lane in range(self.lanes)]
        shape, char = (meta.shape, meta.char) if slot else (np.shape(meta), "d")
        return self.stacked([0 if t is None else t.reference() for t in tangents], shape, char)

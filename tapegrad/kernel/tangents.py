"""The tangents of a tape as a tape: each instruction, then its tangents.

What does not depend on a tangent (a partial derivative) is computed once for all
lanes.  Tangents that are always zero are never made.

`product` writes the Jacobian of a tape as a tape: the product of the derivatives of both sides of a cut (`program.choosing`).  The
adjoints of the cut go down from it, the tangents up, both with a lane for each of its numbers.
"""

import math

import numpy as np

from ..program.ports import inputs_of
from ..tape.layout import SCALAR
from .adjoint import Adjoint, Derivation
from .terms import Term
from .writing import CONCATENATE, STACK, Writer, close, with_flat_stacks


def tangents(tape, lanes=1, again=False, absolute=False):
    """The tape of the outputs of `tape` and of their tangents.

    Parameters
    ----------
    tape : FinishedTape
    lanes : int
        How many tangents at a time.
    again : bool
        Whether the result will be differentiated again: then zero is absolute in its products.
    absolute : bool
        Whether it is in any case.

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
    tape = with_flat_stacks(tape)
    return Tangents(tape, lanes, writer=Writer(tape, interleaved=True, again=again, absolute=absolute)).run()


class Tangents(Derivation):
    """The forward pass."""

    def __init__(self, tape, lanes, again=False, writer=None):
        super().__init__(tape, True, lanes, again, writer)
        #: Tangents of arrays.
        self.terms = [{} for _ in range(lanes)]

    def run(self):
        """The finished tape."""
        for port in inputs_of(self.tape):
            for piece in self.entered(port):
                self._set(*piece)
        pushed = self._pushed(1)
        return close(self.writer, [*self.tape.outputs, *pushed] if self.writer.again else pushed)

    def up(self, cut, seeds):
        """Slots and descriptions (or constants) of the tangents of the outputs, from those of a cut; `seeds` of each lane, None for zero."""
        for lane, of_lane in enumerate(seeds):
            for (slot, meta), seed in zip(cut.values, of_lane):
                if seed is not None:
                    self._set(lane, slot, meta, seed)
        return self._pushed(cut.position + 1)

    def _pushed(self, low):
        """The tangents of the outputs, by the instructions from `low` on."""
        self.writer.reserve(int(self.plan.room[-1]) * self.lanes)
        self.walk(low, len(self.tape.records) - 1)
        return [self._result(slot, meta) for slot, meta in self.tape.outputs]

    def _of(self, lane, slot):
        """The tangent of a slot, or None."""
        if slot < 0:
            return None
        return self.term(self.word[lane, slot]) if self.tape.metas[slot] is SCALAR else self.terms[lane].get(slot)

    def _set(self, lane, slot, meta, tangent):
        if meta is SCALAR:
            self.word[lane, slot] = self.slot(tangent)
        else:
            self.terms[lane][slot] = tangent

    def entry(self, item):
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
            if tangent is not None:
                self._set(lane, item.slot, entry.meta, tangent.as_tangent(entry.meta))

    def _result(self, slot, meta):
        """The tangents of one output, all lanes."""
        tangents = [self._of(lane, slot) if slot else None for lane in range(self.lanes)]
        shape, char = (meta.shape, meta.char) if slot else (np.shape(meta), "d")
        return self.stacked([0 if t is None else t.reference() for t in tangents], shape, char)


def product(tape, cut):
    """The tape of the outputs of `tape` and of its Jacobian.

    Parameters
    ----------
    tape : FinishedTape
    cut : Cut

    Returns
    -------
    FinishedTape
        Arguments as `tape`.  Outputs as `tape`, then for each wanted argument an array (elements of all outputs, its elements).

    Raises
    ------
    NotLowered
        If a derivative is computed by Python (custom primitives), or has no row.
    """
    writer, units, begin = Writer(tape), [], 0
    for _, meta in cut.values:
        units.append(_units(writer, meta, begin, cut.width))
        begin += meta.size
    units = list(zip(*units))
    rows = Adjoint(tape, cut.width, writer=writer).down(cut, units)
    left = _columns(writer, Tangents(tape, cut.width, writer=writer).up(cut, units), cut.width)
    wanted = [meta for meta, one in zip(tape.inputs, tape.wanted) if one]
    return close(writer, [_block(writer, left, slot, meta, cut.width) for (slot, _), meta in zip(rows, wanted)])


def _units(writer, meta, begin, lanes):
    """The seeds of one value of a cut in each lane, from its first one on: unit vectors, or None."""
    seeds = [None] * lanes
    for k, unit in enumerate(np.eye(meta.size, dtype=meta.char)):
        slot = writer.fixed(1.0) if meta.shape == () and meta.char == "d" else writer.values.add(unit.reshape(meta.shape))
        seeds[begin + k] = Term(writer, slot, meta.shape, meta.char)
    return seeds


def _columns(writer, results, lanes):
    """The tangents of all outputs beside each other, as a `Term` (elements, lanes)."""
    parts = []
    for slot, what in results:
        term = Term.of(writer, slot or writer.values.add(what))
        if term.size:
            parts.append(term.reshape((lanes, term.size // lanes)))
    if len(parts) > 1:
        chars = {part.char for part in parts}
        parts = [part.cast("d" if len(chars) > 1 else part.char) for part in parts]
        parts = [Term.of(writer, writer.entry(CONCATENATE, tuple([part.reference() for part in parts]), (("axis", 1),)))]
    return parts[0].transpose((1, 0))


def _block(writer, left, slot, meta, lanes):
    """Slot and description of the Jacobian by one argument, or a constant."""
    if not slot or not meta.size:
        return 0, np.zeros((left.shape[0], meta.size), meta.char)
    rows = Term.of(writer, slot).reshape((lanes, math.prod(meta.shape)))
    block = (left * rows if lanes == 1 else left @ rows).cast(meta.char)
    return block.reference(), writer.meta(block.reference())

"""The Jacobian of a tape as a tape: multiplied out of the derivatives of both sides of a cut (`program.cuts`).

The adjoints of the cut go down from it, the tangents up, both with a lane for each of its numbers; what is made is the product of
the two.
"""

from __future__ import annotations

import math

import numpy as np

from .adjoint import Adjoint
from .closing import close
from .tangents import Tangents
from .terms import Term
from .writing import CONCATENATE, Writer


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
    writer = Writer(tape)
    units = list(zip(*[_units(writer, meta, k, cut) for k, meta in _begins(cut)]))
    rows = Adjoint(tape, cut.width, writer=writer).down(cut, units)
    left = _columns(writer, Tangents(tape, cut.width, writer=writer).up(cut, units), cut.width)
    wanted = [meta for meta, one in zip(tape.inputs, tape.wanted) if one]
    return close(writer, [_block(writer, left, slot, meta, cut.width) for (slot, _), meta in zip(rows, wanted)])


def _begins(cut):
    """The number of the first lane, and the description, of each value of a cut."""
    begin = 0
    for _, meta in cut.values:
        yield begin, meta
        begin += meta.size


def _units(writer, meta, begin, cut):
    """The seeds of one value of a cut in each lane: unit vectors, or None."""
    seeds = [None] * cut.width
    for k in range(meta.size):
        if meta.shape == () and meta.char == "d":
            seeds[begin + k] = Term(writer, writer.fixed(1.0), (), "d")
        else:
            unit = np.zeros(meta.size, meta.char)
            unit[k] = 1.0
            seeds[begin + k] = Term(writer, writer.constant(unit.reshape(meta.shape)), meta.shape, meta.char)
    return seeds


def _columns(writer, results, lanes):
    """The tangents of all outputs beside each other, as a `Term` (elements, lanes)."""
    parts = []
    for slot, what in results:
        term = Term.of(writer, slot or writer.constant(what))
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

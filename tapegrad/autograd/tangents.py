"""The tangent sweep with tensors: forward mode over a stretch of tape, recorded on the same tape.

Run over a stretch that holds a recorded gradient (`adjoint`), it gives products with
the Hessian: forward mode over reverse mode.  Several directions are one walk, with a
leading axis (*lanes*) that the rules do not see.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..array.closures import partials_on_floats
from ..array.recorded import Recorded
from ..rules import by_opcode
from ..tape.layout import FIRST_ARRAY, SCALAR_LEAF
from .adjoint import naming, operands_of


def push(stretch, order, tangents, lanes=None):
    """Walk up, recording tangents.

    Parameters
    ----------
    stretch : Stretch
    order : list of int
        The slots to visit, ascending (`adjoint.between`).
    tangents : dict of int to (float, ndarray, Tensor or Dual)
        Those of the lowest slots, with a leading axis of extent `lanes` if given; at the end
        those of all slots that depend on them.
    lanes : int, optional
    """
    numbers = _Numbers(stretch, order) if stretch.plain and order else None
    with np.errstate(all="ignore"):
        for slot in order:
            if slot in tangents or numbers is not None and numbers.push(slot, tangents):
                continue
            read = stretch.read(slot)
            if read is None or not any(o in tangents for _, o in read.slots):
                continue
            row, of = read.row, dict(read.slots)
            operand_tangents = [
                Recorded(tangents[of[k]], lanes) if of.get(k) in tangents else None for k in row.slots(len(read.operands))
            ]
            with naming(row, stretch, slot):
                tangent = row.tangent(operand_tangents, *operands_of(read), read.attrs)
            if tangent is not None:
                tangents[slot] = tangent.as_tangent(read.out, lanes).value


class _Numbers:
    """The scalar instructions of a tape: of most rows the tangents are found by functions of floats."""

    def __init__(self, stretch, order):
        self.tokens, records = stretch.store.tokens, stretch.store.records()[: order[-1] + 1]
        self.ops, self.lefts, self.rights, self.constants = (records[name].tolist() for name in ("op", "a", "b", "constant"))

    def push(self, slot, tangents):
        """Whether the tangent of a slot, if it has one, is there now."""
        op = self.ops[slot]
        rule, arity = _rule(op) if op < FIRST_ARRAY else (None, 0)
        if rule is None:
            return False
        slots = (self.lefts[slot], self.rights[slot])[:arity]
        if not any(o in tangents for o in slots):
            return True
        tokens = self.tokens
        try:
            partials = rule(*[tokens[o] if o else self.constants[slot] for o in slots], tokens[slot])
        except (ArithmeticError, ValueError):
            return False
        total = None
        for o, partial in zip(slots, partials):
            if partial != 0.0 and o in tangents:
                part = partial * tangents[o]
                if partial - partial != 0.0:
                    part = np.where(tangents[o] == 0.0, 0.0, part)
                total = part if total is None else total + part
        if total is not None:
            tangents[slot] = total
        return True


@cache
def _rule(op):
    """The partial derivatives of a scalar instruction on floats, or None, and how many operands that takes."""
    row = by_opcode(op) if op not in (0, SCALAR_LEAF) else None
    return (None, 0) if row is None else (partials_on_floats(row), row.arity)

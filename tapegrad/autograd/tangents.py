"""The tangent sweep with tensors: forward mode over a stretch of tape, recorded on the same tape.

Run over a stretch that holds a recorded gradient (`adjoint`), it gives products with
the Hessian: forward mode over reverse mode.  Several directions are one walk, with a
leading axis (*lanes*) that the rules do not see.
"""

from __future__ import annotations

import math

import numpy as np

from ..array.closures import partials_on_floats
from ..array.recorded import Recorded
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
    with np.errstate(all="ignore"):
        for slot in order:
            if slot in tangents:
                continue
            if stretch.plain and _of_numbers(stretch, slot, tangents):
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


def _of_numbers(stretch, slot, tangents):
    """Whether the tangents of a number, of numbers that have some, are there now: of most rows by functions of floats."""
    instruction = stretch.at(slot)
    rule = partials_on_floats(instruction.row) if instruction.row is not None and instruction.signature is None else None
    if rule is None:
        return False
    tokens = stretch.store.tokens
    try:
        partials = rule(*[tokens[o] if o else instruction.constant for o in instruction.operands], tokens[slot])
    except (ArithmeticError, ValueError):
        return False
    total = None
    for o, partial in zip(instruction.operands, partials):
        if o in tangents and partial != 0.0:
            part = partial * tangents[o]
            if not math.isfinite(partial):
                part = np.where(tangents[o] == 0.0, 0.0, part)
            total = part if total is None else total + part
    if total is not None:
        tangents[slot] = total
    return True

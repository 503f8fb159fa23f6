"""The tangent sweep with tensors: forward mode over a stretch of tape, recorded on the same tape.

Run over a stretch that holds a recorded gradient (`adjoint`), it gives products with
the Hessian: forward mode over reverse mode.  Several directions are one walk, with a
leading axis (*lanes*) that the rules do not see.
"""

from __future__ import annotations

import numpy as np

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

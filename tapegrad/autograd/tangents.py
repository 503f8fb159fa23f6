"""The tangent sweep with tensors: forward mode over a stretch of tape, recorded on the same tape.

Run over a stretch that holds a recorded gradient (`adjoint`), it gives products with
the Hessian: forward mode over reverse mode.  Several directions are one walk, with a
leading axis (*lanes*) that the rules do not see.
"""

import numpy as np

from ..array.closures import tangent_on_arrays
from ..array.recorded import Recorded
from ..interpreter.signature import Signature
from ..interpreter.walks import walks
from ..rules import by_opcode
from ..tape.layout import ARRAY_RECORD, FIRST_ARRAY
from ..tape.meta import SCALAR
from .adjoint import naming, operands_of
from .instruction import Instruction


def push(stretch, order, tangents, lanes=None):
    """Walk up, recording tangents.

    Parameters
    ----------
    stretch : Region
    order : sequence of int
        The slots to visit, ascending (`adjoint.between`).
    tangents : dict of int to (float, ndarray, Tensor or Dual)
        Those of the lowest slots, with a leading axis of extent `lanes` if given; at the end
        those of all slots that a rule was called for, too.
    lanes : int, optional

    Returns
    -------
    callable
        Gives the tangent of any slot, or None.
    """
    numbers = _NumberTangents(stretch, order, tangents, lanes) if stretch.plain and len(order) and lanes else None
    carried = tangents.get if numbers is None else numbers.carried
    with np.errstate(all="ignore"):
        for slot in order if numbers is None else numbers.others():
            tangent = None if numbers is None else numbers.on_arrays(slot)
            if tangent is None:
                read = None if slot in tangents else stretch.read(slot)
                tangent = None if read is None else passed(stretch, slot, read, carried, lanes)
                if numbers is not None and tangent is not None and read.out is SCALAR:
                    numbers.matrix[slot - numbers.base] = tangent
            if tangent is not None:
                tangents[slot] = tangent
    return carried


def passed(stretch, slot, read, carried, lanes):
    """The tangent of an instruction, from those of its operands, which ``carried(slot)`` gives; None if it is zero."""
    row, of = read.row, dict(read.slots)
    parts = [carried(of.get(k, 0)) for k in row.slots(len(read.operands))]
    if all(part is None for part in parts):
        return None
    with naming(row, stretch, slot):
        tangent = row.tangent([None if part is None else Recorded(part, lanes) for part in parts], *operands_of(read), read.attrs)
    return None if tangent is None else tangent.as_tangent(read.out, lanes).value


class _NumberTangents:
    """The tangents of the numbers on a tape, in one array, through which compiled code goes by their partial derivatives.

    Attributes
    ----------
    matrix : ndarray
        Row k has those of slot ``base + k``, row 0 zeros for whatever is below.
    """

    def __init__(self, stretch, order, tangents, lanes):
        self.store, self.tangents, self.lanes = stretch.store, tangents, lanes
        # A slot with a tangent of its own keeps it.
        order = np.asarray(order, np.int64)
        self.order = order[np.isin(order, [*tangents], invert=True)]
        self.base = min([int(order[0]), *tangents]) - 1
        self.matrix = np.zeros((max([int(order[-1]), *tangents]) + 1 - self.base, lanes))
        for slot, seed in tangents.items():
            if seed.ndim == 1:
                self.matrix[slot - self.base] = seed

    def carried(self, slot):
        """The tangent of a slot, or None."""
        rows = self.matrix[max(slot - self.base, 0) :]
        return self.tangents.get(slot, rows[0] if len(rows) and rows[0].any() else None)

    def on_arrays(self, slot):
        """The tangent of an element-wise instruction on float64 arrays of one shape, and numbers; None where its rule finds out."""
        op, a, b, _, _, position = self.store.read(slot, ARRAY_RECORD)
        signature = Signature.of(op)
        rule = tangent_on_arrays(signature.row) if signature is not None and signature.alike else None
        if rule is None:
            return None
        saved = dict(zip(signature.saves, self.store.objects[position : position + len(signature.saves)]))
        values, tangents, ones = [], [], [1] * len(signature.out.shape)
        for k, (meta, o) in enumerate(zip(signature.metas, (a, b))):
            number = self.carried(o) if meta is SCALAR else None
            tangents.append(self.tangents.get(o) if number is None else number.reshape(-1, *ones))
            values.append(saved.get(k, self.store.read(o)[4] if meta is SCALAR and o else None))
        tangent, shape = rule(*values, saved.get(-1), *tangents), (self.lanes, *signature.out.shape)
        return tangent if tangent is None or tangent.shape == shape else np.broadcast_to(tangent, shape)

    def others(self):
        """Walk up, and give the slots whose rule has to be called."""
        from ..interpreter.walk import upwards  # compiled code

        address, order, at = walks.native.data_address, self.order, 0
        known, partials = self._partials()
        words = address(known), address(partials), address(self.matrix), self.matrix.shape[1], self.base
        while (at := upwards(self.store.address, address(order), at, len(order), *words)) < len(order):
            slot = int(order[at])
            op, source, *_, offset = self.store.read(slot, ARRAY_RECORD)
            signature, tangent = Signature.of(op), self.carried(source)
            if signature and signature.row.dynamic == "offset" and signature.out is SCALAR and tangent is not None:
                self.matrix[slot - self.base] = tangent.reshape(len(tangent), -1)[:, offset]
            elif signature and signature.row.name == "stack" and set(signature.metas) == {SCALAR}:
                slots = np.array(Instruction(self.store, slot).operands) - self.base
                self.tangents[slot] = self.matrix[np.maximum(slots, 0)].T
            else:
                yield slot
            at += 1

    def _partials(self):
        """Of which instructions compiled code can do with two partial derivatives, and these."""
        records, known, partials = self.store.records(), np.zeros(len(self.order), np.bool_), np.zeros((len(self.order), 2))
        visited = records[self.order]
        for row in map(by_opcode, np.unique(visited["op"][visited["op"] < FIRST_ARRAY]).tolist()):
            if not row.constants:
                of = np.flatnonzero(visited["op"] == row.opcode)
                those, known[of] = visited[of], True
                sides = [np.where(those[side] > 0, records["value"][those[side]], those["constant"]) for side in "ab"[: row.arity]]
                for k in range(row.arity):
                    unit = [Recorded(np.ones(len(those))) if j == k else None for j in range(row.arity)]
                    partial = row.tangent(unit, [Recorded(side) for side in sides], Recorded(those["value"]), {})
                    if partial is not None:
                        partials[of, k] = partial.a
        return known, partials

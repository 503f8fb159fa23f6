"""Instructions read back from the records.

`Instruction` is what everything in Python that looks at a tape starts from: backward passes where they
stop (`backward`), nodes (`graph`), listings (`inspect`), recorded passes (`reading`).  It is made
of a slot when somebody looks, and computes what the compiled sweep does, on arrays, in `Instruction.pull`.
"""

from __future__ import annotations

import numpy as np

from ..array.record import normalise
from ..array.recorded import Recorded
from ..array.rule_array import accumulated
from ..common.errors import noted
from ..interpreter.plan import Signature
from ..rules import by_opcode
from ..tape.layout import ARRAY_LEAF, ARRAY_RECORD, CLEARED, CONTINUATION, CONTINUES, FIRST_ARRAY, SCALAR_LEAF, TRACED
from ..tape.meta import SCALAR


class Instruction:
    """One instruction read back from a store.

    Attributes
    ----------
    slot : int
    op : int
        The opcode without the cleared bit.
    cleared : bool
    operands : tuple of int
        Slots; 0 stands for a constant.
    constant : float
        The inline constant of a scalar instruction.
    integer : int
        Position of saved values, or the dynamic attribute, of an array instruction.
    row : Row or None
        None for leaves and continuations.
    signature : Signature or None
    """

    __slots__ = ("store", "slot", "op", "cleared", "operands", "constant", "integer", "row", "signature", "value")

    def __init__(self, store, slot):
        op, a, b, _, self.value, self.constant = store.read(slot)
        self.store = store
        self.slot = slot
        self.cleared = op >= CLEARED
        self.op = op & ~CLEARED
        self.integer = store.read(slot, ARRAY_RECORD)[-1]
        self.signature = None
        self.row = None
        self.operands = (a, b)
        if self.op == 0 or self.op in (SCALAR_LEAF, ARRAY_LEAF, CONTINUES, TRACED):
            self.operands = ()
        elif self.op < FIRST_ARRAY:
            self.row = by_opcode(self.op)
            # The condition of `where` is the inline constant and no side; other constants are sides.
            sides = self.row.slots(self.row.arity) if self.row.arity <= 2 else (0, 1)
            self.operands = tuple((a, b)[k] for k in sides)
        else:
            self.signature = Signature.ALL[self.op - FIRST_ARRAY]
            self.row = self.signature.row
            count = len(self.signature.slots)
            rest = []
            for k in range(0, max(0, count - 2), 4):
                _, c, d, _, e, f = store.read(slot - 1 - k // 4, CONTINUATION)
                rest += [c, d, e, f]
            self.operands = (a, b, *rest)[:count]

    @property
    def is_leaf(self):
        return self.op in (SCALAR_LEAF, ARRAY_LEAF)

    def operand_values(self):
        """Values of all operands and of the result; None where the tape did not keep them.

        Returns
        -------
        list, object
        """
        if self.signature is None:
            values = []
            for slot in self.operands:
                values.append(self.constant if slot == 0 else Instruction(self.store, slot).value)
            for k in self.row.constants:
                values.insert(k, self.constant if self.row.arity == 2 else bool(self.constant))
            return values, self.value
        values = [None] * len(self.signature.metas)
        result = self.value if self.signature.out.shape == () else None
        for j, k in enumerate(self.signature.saves):
            saved = self.store.objects[self.integer + j]
            if k < 0:
                result = saved
            else:
                values[k] = saved
        return values, result

    def attributes(self):
        """The row's attributes, the dynamic one included."""
        return {} if self.signature is None else self.row.keywords(self.signature.attrs, self.integer)

    def pull(self, g):
        """What adjoint `g` of the result contributes to each operand (ndarrays; None: nothing)."""
        values, result = self.operand_values()
        if self.row.primitive is not None:
            return self._pull_in_python(g, values, result)
        metas = self.signature.metas if self.signature is not None else None
        shaped = []
        for k, v in enumerate(values):
            # A value that was not kept is not read by the rule, but its shape may be.
            shaped.append(Recorded(np.broadcast_to(np.nan, metas[k].shape) if v is None else v))
        if result is None:
            result = np.broadcast_to(np.nan, self.signature.out.shape)
        slots = self.row.slots(len(values))
        positions = [s for s, slot in zip(slots, self.operands) if slot != 0]
        arrays = []
        with np.errstate(all="ignore"):
            contributions = self.row.contributions(Recorded(g), shaped, Recorded(result), positions, self.attributes())
            for s, c in zip(slots, contributions):
                meta, total = metas[s] if metas is not None else SCALAR, None
                for part in c if isinstance(c, tuple) else (c,):
                    total = total if part is None else accumulated(total, part, meta)
                zero = np.zeros(meta.shape) if s in positions else None
                arrays.append(zero if total is None else np.array(total.a, order="C"))
        return arrays

    def _pull_in_python(self, g, values, result):
        """`pull` by a rule of the user's."""
        positions = [s for s, slot in zip(self.signature.slots, self.operands) if slot]
        if not np.any(g):
            # Zero is absolute: a rule may multiply by what is not finite.
            return [None] * len(self.operands)
        g = np.array(g, np.dtype(self.signature.out.char), order="C")
        with noted(f"in the backward pass through {self.row.name}, called at {self.store.place(self.slot)}"):
            return self.row.primitive.pull(normalise(g), values, result, positions, self.signature.metas)

"""Instructions read back from the records, and what is said of those that a backward pass has cleared.

`Instruction` is what everything in Python that looks at a tape starts from: backward passes where they
stop (`backward`), nodes (`graph`), listings (`inspect`), recorded passes (`reading`).  It is made
of a slot when it is asked for.

A store whose graph was cleared is ended (`retire`), and a later use of its instructions is an error (`second_backward_error`).
"""

from ..array.record import kept_error
from ..common.errors import ClearedTapeError
from ..interpreter.signature import Signature
from ..interpreter.walks import walks
from ..rules import by_opcode, table
from ..tape.layout import ARRAY_LEAF, ARRAY_RECORD, CLEARED, CONTINUATION, CONTINUES, FIRST_ARRAY, SCALAR_LEAF, TRACED
from ..tape.store import CALL_ENDED, TapeStore

SECOND_BACKWARD = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). "
    "Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if "
    "you need to backward through the graph a second time or if you need to access saved tensors after calling backward."
)


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
        self.store, self.slot, self.cleared, self.op = store, slot, op >= CLEARED, op & ~CLEARED
        self.integer, self.signature, self.row = store.read(slot, ARRAY_RECORD)[-1], None, None
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
            operands, count = [a, b], len(self.signature.slots)
            for k in range(0, max(0, count - 2), 4):
                _, c, d, _, e, f = store.read(slot - 1 - k // 4, CONTINUATION)
                operands += [c, d, e, f]
            self.operands = tuple(operands[:count])

    @property
    def is_leaf(self):
        return self.op in (SCALAR_LEAF, ARRAY_LEAF)

    def attributes(self):
        """The row's attributes, the dynamic one included."""
        return {} if self.signature is None else self.row.keywords(self.signature.attrs, self.integer)


def second_backward_error(store, slot):
    """The error for instruction `slot`, which was cleared."""
    cleared = store.retired or store.clearings[store.read(slot, ARRAY_RECORD)[-1]]
    if cleared == CALL_ENDED:
        return kept_error(cleared)
    where = f"It was cleared at {cleared}. " if cleared is not None else ""
    return ClearedTapeError(
        f"{SECOND_BACKWARD}\n{where}Three ways out: (1) pass retain_graph=True to the call there; (2) cut the old part "
        "off with .detach() where the new computation starts from it; (3) recompute the loss before this call."
    )


def retire(store, place):
    """End `store`; its thread goes on with a fresh one."""
    rows = {slot: _row_at(store, slot) for slot in walks.native.live_slots(store)}
    parts = store.retire(place)
    store.live_rows = rows
    store.thread.replace(store, TapeStore(store.thread, store.explicit, parts))


def _row_at(store, slot):
    """The row of an instruction; None if there is none, for a store is also ended while the error about that is raised."""
    op = store.read(slot)[0] & ~CLEARED
    if (signature := Signature.of(op)) is not None:
        return signature.row
    return table.ROWS[op - table.FIRST_ROW] if 0 <= op - table.FIRST_ROW < len(table.ROWS) else None

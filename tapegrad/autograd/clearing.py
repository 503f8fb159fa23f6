"""Stores whose graph was cleared: ending one, and the error of a later use."""

from ..common.errors import ClearedTapeError
from ..interpreter.plan import Signature
from ..interpreter.walks import walks
from ..rules import table
from ..tape.layout import ARRAY_LEAF, ARRAY_RECORD, CLEARED, FIRST_ARRAY
from ..tape.store import TapeStore

SECOND_BACKWARD = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
    "saved tensors after calling backward."
)


def second_backward_error(store, slot):
    """The error for instruction `slot`, which was cleared."""
    cleared = store.retired or store.clearings[store.read(slot, ARRAY_RECORD)[-1]]
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
    if FIRST_ARRAY <= op < ARRAY_LEAF:
        return Signature.ALL[op - FIRST_ARRAY].row
    return table.ROWS[op - table.FIRST_ROW] if 0 <= op - table.FIRST_ROW < len(table.ROWS) else None

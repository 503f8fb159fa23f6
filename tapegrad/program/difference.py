"""Whether two recordings of one path are the same tape: how a function that is not pure is found out."""

from __future__ import annotations

import numpy as np


def difference(one, other):
    """How two tapes that were recorded on the same path differ, or an empty text."""
    if len(one.records) != len(other.records) or len(one.items) != len(other.items):
        return "recorded again it took other instructions"
    for name in ("op", "a", "b"):
        if not np.array_equal(one.records[name], other.records[name]):
            slot = int(np.flatnonzero(one.records[name] != other.records[name])[0])
            return f"recorded again it took another instruction at {other.place(slot)}"
    # By their bits: zeros have signs, and what is not a number equals itself.
    mine, theirs = (np.ascontiguousarray(tape.records["constant"]).view(np.int64) for tape in (one, other))
    changed = np.flatnonzero(mine != theirs)
    if len(changed):
        return f"a constant changed between two recordings at {other.place(int(changed[0]))}"
    for a, b in zip(one.items, other.items):
        for x, y in zip(a.operands, b.operands):
            if x < 0 and not _same_constant(one.constants[-1 - x], other.constants[-1 - y]):
                return f"a constant changed between two recordings at {other.place(b.slot)}"
    return ""


def _same_constant(a, b):
    return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=np.asarray(a).dtype.kind == "f")

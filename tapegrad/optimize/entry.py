"""The one compiled interface through which loops call an objective.

    value, status = value_and_gradient(handle, x, g)

`handle` is the address of int64 words, the first of which is the address of the
code that does the work (Numba's calling convention, arguments ``handle, x, g`` and
the address where the value goes; returns `DONE` or something else, and then the
loop goes back to Python).  A handle made by `tg.compile` begins in the same way,
and so may one of machine code: the loops know nothing more about an objective.

Here the work is done by a replay (`replay.walk`).  The vector `x` holds the leaves
of the objective's first argument one after the other; each is an input of the tape.
"""

from __future__ import annotations

from ..native.compile import compiled
from ..native.memory import copy_bytes, load_int, store_int
from ..replay import walk as W
from ..replay.walk import replay

#: Words of a handle: address of the code, parameters of the replay, where its value is, number of leaves ...
H_ENTRY, H_PARAMETERS, H_VALUE, H_COUNT = range(4)
#: ... and for each leaf its offset in the vector and its size (bytes), and where the replay leaves its gradient.
HEAD, LEAF = 4, 3
L_OFFSET, L_NBYTES, L_GRADIENT = range(3)

#: What `replayed` returns, beside ``1 + guard``.
DONE, BROKEN = 0, -1


@compiled("int64(int64, int64, int64, int64)")
def replayed(handle, x, g, value):
    """Value and gradient at the vector `x`, written to `value` and `g` (addresses); returns `DONE`, or why not."""
    p, count = load_int(handle + 8 * H_PARAMETERS), load_int(handle + 8 * H_COUNT)
    inputs = load_int(p + 8 * W.P_INPUTS)
    at = handle + 8 * HEAD
    for k in range(count):
        store_int(inputs + 8 * k, x + load_int(at + 8 * L_OFFSET))
        at += 8 * LEAF
    store_int(p + 8 * W.P_BACKWARD, 1)
    why = replay(p)
    if why == W.AT_GUARD:
        return 1 + load_int(p + 8 * W.P_STOPPED)
    if why != W.DONE:
        return BROKEN
    at = handle + 8 * HEAD
    for k in range(count):
        copy_bytes(g + load_int(at + 8 * L_OFFSET), load_int(at + 8 * L_GRADIENT), load_int(at + 8 * L_NBYTES))
        at += 8 * LEAF
    store_int(value, load_int(load_int(handle + 8 * H_VALUE)))
    return DONE


"""The one compiled interface through which loops call an objective.

    value, status = value_and_gradient(handle, x, g)

`handle` is the address of int64 words, the first of which is the address of the
code that does the work (Numba's calling convention, arguments ``handle, x, g`` and
the address where the value goes; returns `DONE` or something else, and then the
loop goes back to Python).  A handle made by `tg.compile` begins in the same way,
and so may one of machine code: the loops know nothing more about an objective.

Here the work is done by a replay (`program.walk`), or by the tape's kernel and a replay
where the kernel does not answer.  The vector `x` holds the leaves of the objective's first
argument one after the other; each is an input of the tape.
"""

from __future__ import annotations

from ..codegen.compile import compiled
from ..codegen.memory import call3_int, call_entry, copy_bytes, load_int, store_double, store_int
from ..program import walk as W
from ..program.walk import replay

#: Words of a handle: address of the code, parameters of the replay, where its value is, number of leaves; the kernel's
#: address, its tables of inputs and of outputs, its workspace ...
H_ENTRY, H_PARAMETERS, H_VALUE, H_COUNT, H_KERNEL, H_INPUTS, H_OUTPUTS, H_BLOCK = range(8)
#: ... and for each leaf its offset in the vector and its size (bytes), and where the replay leaves its gradient.
HEAD, LEAF = 8, 3
L_OFFSET, L_NBYTES, L_GRADIENT = range(3)

#: What `replayed` returns, beside ``1 + guard``.
DONE, BROKEN = 0, -1
#: What a kernel returns if all is well (`kernel.emit`).
KERNEL_FINE = -1


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
    for _ in range(count):
        copy_bytes(g + load_int(at + 8 * L_OFFSET), load_int(at + 8 * L_GRADIENT), load_int(at + 8 * L_NBYTES))
        at += 8 * LEAF
    store_int(value, load_int(load_int(handle + 8 * H_VALUE)))
    return DONE


@compiled("int64(int64, int64, int64, int64)")
def by_kernel(handle, x, g, value):
    """`replayed` by the kernel, which reads `x` and writes `g` and `value` where they are."""
    inputs, outputs = load_int(handle + 8 * H_INPUTS), load_int(handle + 8 * H_OUTPUTS)
    store_int(outputs, value)
    at = handle + 8 * HEAD
    for k in range(load_int(handle + 8 * H_COUNT)):
        offset = load_int(at + 8 * L_OFFSET)
        store_int(inputs + 8 * k, x + offset)
        store_int(outputs + 8 * k + 8, g + offset)
        at += 8 * LEAF
    if call3_int(load_int(handle + 8 * H_KERNEL), inputs, outputs, load_int(handle + 8 * H_BLOCK)) == KERNEL_FINE:
        return DONE
    # A gradient that is not finite, or a guard: the sweep is right.
    return replayed(handle, x, g, value)


@compiled("int64(int64, int64, int64, int64)")
def evaluate(handle, x, g, value):
    """One evaluation for a caller in Python, by addresses."""
    status, found = call_entry(load_int(handle), handle, x, g)
    store_double(value, found)
    return status

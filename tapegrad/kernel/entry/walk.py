"""Calls of a kernel with a tuple of Python objects.

A kernel's parameters are int64 words (`P_*`), then the *spec*: for each object
``FLOAT, type``; ``ARRAY, type, dtype, dimensions, extents...``; or ``SAME, address``
for what is no input of the kernel, but has to be as it was.  Objects are read by the
public C structs of CPython and NumPy (tried out in `sweep.native`).

Each call needs a block: addresses of inputs and outputs, one word for a result, the
workspace.  The kernel owns one; a call that finds it taken by another thread
allocates its own.
"""

from __future__ import annotations

import math

from ...native.compile import compiled
from ...native.memory import (
    acquire,
    allocate,
    call3_int,
    load_double,
    load_int,
    load_int32,
    release,
    set_free,
    store_int,
)
from ...sweep.access import helper

P_CODE, P_BYTES, P_BLOCK, P_TAKEN, P_INPUTS, P_OUTPUTS, P_OBJECTS, P_SPEC = range(8)

#: Kinds of objects.
FLOAT, ARRAY, SAME = 0, 1, 2
#: What kernels return if all is well; what `enter` returns if the objects are of another kind.
FINE, OTHER = -1, -3
#: NumPy's flags of a C-contiguous, aligned array.
_LAID_OUT = 0x101


@compiled("int64(int64, int64, int64)")
def read(p, args, inputs):
    """Write the addresses of the inputs in a tuple to `inputs`; 0 if an object is of another kind."""
    if load_int(args + 16) != load_int(p + 8 * P_OBJECTS):
        return 0
    at, item = p + 8 * P_SPEC, args + 24
    for _ in range(load_int(p + 8 * P_OBJECTS)):
        thing, kind = load_int(item), load_int(at)
        item += 8
        if kind == SAME:
            if thing != load_int(at + 8):
                return 0
            at += 16
            continue
        if load_int(thing + 8) != load_int(at + 8):
            return 0
        if kind == FLOAT:
            store_int(inputs, thing + 16)
            at += 16
        else:
            dimensions = load_int(at + 24)
            laid_out = load_int32(thing + 64) & _LAID_OUT == _LAID_OUT
            if load_int(thing + 56) != load_int(at + 16) or load_int32(thing + 24) != dimensions or not laid_out:
                return 0
            extents = load_int(thing + 32)
            at += 32
            for k in range(dimensions):
                if load_int(extents + 8 * k) != load_int(at):
                    return 0
                at += 8
            store_int(inputs, load_int(thing + 16))
        inputs += 8
    return 1


@helper
def _take(p):
    """A block: the kernel's own if no other call has it."""
    if acquire(p + 8 * P_TAKEN):
        return load_int(p + 8 * P_BLOCK)
    return allocate(load_int(p + 8 * P_BYTES))


@helper
def _give(p, block):
    if block == load_int(p + 8 * P_BLOCK):
        set_free(p + 8 * P_TAKEN)
    else:
        release(block)


@helper
def _call(p, args, outs, block, valued):
    """Call the kernel in a block, at whose end are a word for the first output, and the addresses."""
    count = load_int(p + 8 * P_OUTPUTS)
    value = block + load_int(p + 8 * P_BYTES) - 8
    outputs = value - 8 * count
    inputs = outputs - 8 * load_int(p + 8 * P_INPUTS)
    if read(p, args, inputs) == 0:
        return OTHER
    item = outs + 24
    for k in range(count):
        if valued and k == 0:
            store_int(outputs, value)
        else:
            store_int(outputs + 8 * k, load_int(load_int(item) + 16))
            item += 8
    return call3_int(load_int(p + 8 * P_CODE), inputs, outputs, (block + 63) & -64)


@compiled("int64(int64, int64, int64)")
def enter(p, args, outs):
    """Call a kernel: what it returns, or OTHER.

    Parameters
    ----------
    p : address of its parameters
    args : address of a tuple of the objects of the spec
    outs : address of a tuple of arrays for the outputs
    """
    block = _take(p)
    status = _call(p, args, outs, block, False)
    _give(p, block)
    return status


@compiled("float64(int64, int64, int64)")
def enter_value(p, args, outs):
    """Call a kernel whose first output is one double, which is returned; `outs` are the others.

    NaN if the kernel does not return -1; `enter` tells why.
    """
    block = _take(p)
    value = math.nan
    if _call(p, args, outs, block, True) == FINE:
        value = load_double(block + load_int(p + 8 * P_BYTES) - 8)
    _give(p, block)
    return value

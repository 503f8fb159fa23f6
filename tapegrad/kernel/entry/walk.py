"""Calls of a kernel with a tuple of Python objects.

A kernel's parameters are int64 words (`P_*`); from P_OBJECTS on they are the *spec* of
`program.walk.read_arguments`, which reads the objects by their C structs.

Each call needs a block: addresses of inputs and outputs, one word for a result, the
workspace.  The kernel owns one; a call that finds it taken by another thread
allocates its own.
"""

from __future__ import annotations

import math

import numpy as np

from ...codegen.compile import compiled
from ...codegen.memory import acquire, allocate, call3_int, load_double, load_int, release, set_free, store_int
from ...interpreter.access import helper
from ...interpreter.native import data_address
from ...program.status import FINE, OTHER
from ...program.walk import DONE, read_arguments

P_CODE, P_BYTES, P_BLOCK, P_TAKEN, P_INPUTS, P_OUTPUTS, P_WATCHED, P_OBJECTS = range(8)


class Way:
    """The parameters of calls of one kernel, and their block.

    Parameters
    ----------
    kernel : Kernel
    inputs, outputs : int
    spec : list of int
        What the objects have to be (`program.walk.read_arguments`).
    watched : list of int
        Address and content of words that have to be as they were.

    Attributes
    ----------
    pointer : int
        Address of the parameters.
    """

    __slots__ = ("kernel", "block", "parameters", "watched", "pointer")

    def __init__(self, kernel, inputs, outputs, spec, watched=()):
        self.kernel = kernel
        nbytes = 64 + kernel.nbytes + 8 * (inputs + outputs + 1)
        nbytes += -nbytes % 8
        self.block = np.zeros(nbytes + 64, np.uint8)
        self.watched = np.array([len(watched) // 2, *watched], np.int64)
        at = data_address(self.block)
        words = [kernel.address, nbytes, at + -at % 64, 0, inputs, outputs, data_address(self.watched), *spec]
        self.parameters = np.array(words, np.int64)
        self.pointer = data_address(self.parameters)


@helper
def read(p, args, inputs):
    """Write the addresses of the inputs in a tuple to `inputs`; 0 if an object, or a word that is watched, is another."""
    at = load_int(p + 8 * P_WATCHED)
    count = load_int(at)
    for _ in range(count):
        at += 16
        if load_int(load_int(at - 8)) != load_int(at):
            return 0
    return 1 if read_arguments(inputs, p + 8 * P_OBJECTS, args) == DONE else 0


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

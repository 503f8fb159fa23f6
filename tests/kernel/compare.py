"""Compiled loop programs against the reference interpreter."""

import ctypes

import numpy as np

from tapegrad.kernel.emit import CompileOptions
from tapegrad.kernel.kernel import Kernel
from tests.kernel.interpret import interpret

_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


def _addresses(arrays):
    return np.array([a.ctypes.data for a in arrays] or [0], np.int64)


def call(machine, inputs, outputs):
    """Call a machine by ctypes; the workspace is filled with odd bytes first."""
    memory = np.full(machine.nbytes + 64, 0x5B, np.uint8)
    tables = _addresses(inputs), _addresses(outputs)
    begin = -memory.ctypes.data % 64
    return _KERNEL(machine.address)(*[t.ctypes.data for t in tables], memory.ctypes.data + begin)


def called(kernel, inputs, outputs=None):
    """The status of a kernel called with arrays, and the outputs."""
    outputs = [np.empty(shape, char) for shape, char in kernel.outputs] if outputs is None else outputs
    return kernel.run(inputs, outputs), outputs


def waste(program):
    """New output arrays, filled with what no program computes."""
    return [np.full(b.size, 1 if b.char == "?" else 77, np.dtype(b.char)) for b in program.outputs]


def agree(program, *inputs, rtol=1e-13, atol=0.0, options=CompileOptions(), wanted=-1):
    """Assert that compiled code and interpreter agree, cut into pieces of several sizes; returns the machine and outputs."""
    expected = waste(program)
    assert interpret(program, inputs, expected) == wanted
    for limit in (1, 12, options.limit):
        machine = Kernel(program, CompileOptions(options.fastmath, limit))
        found = waste(program)
        assert call(machine, inputs, found) == wanted
        for one, other in zip(found, expected):
            np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)
    return machine, found

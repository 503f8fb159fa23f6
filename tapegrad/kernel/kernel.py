"""A kernel: machine code of a loop program, ready to be called with arrays."""

from __future__ import annotations

import ctypes

import numpy as np

from ..interpreter.native import data_address
from .emit import FINE, NOT_FINITE, Options
from .machine import compile_program

_CODE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)

__all__ = ["FINE", "NOT_FINITE", "Kernel", "Options"]


class Kernel:
    """Machine code of a `LoopProgram`; may be called by several threads at a time.

    Parameters
    ----------
    program : LoopProgram
    options : Options

    Attributes
    ----------
    machine : Machine
    seconds : dict
        Time of each stage of compilation.
    """

    def __init__(self, program, options=Options()):
        self.program, self.options = program, options
        self.machine = compile_program(program, options)
        self.seconds = self.machine.seconds
        self._code = _CODE(self.machine.address)
        #: Workspaces that no call is using.
        self._spare = []

    @property
    def address(self):
        """Of the machine code: ``int64 kernel(int64 *inputs, int64 *outputs, int8 *workspace)``."""
        return self.machine.address

    @property
    def nbytes(self):
        """Bytes of the workspace."""
        return self.machine.nbytes

    def new_outputs(self):
        """One flat array for each output."""
        return [np.empty(b.size, np.dtype(b.char)) for b in self.program.outputs]

    def call(self, inputs, outputs=None):
        """Run the code.

        Parameters
        ----------
        inputs : sequence of ndarray
            C-contiguous, of the sizes and dtypes of `program.inputs`; this is not checked.
        outputs : sequence of ndarray, optional
            Likewise.

        Returns
        -------
        tuple
            The status (FINE, NOT_FINITE, or the number of a guard that failed) and the outputs.
        """
        if outputs is None:
            outputs = self.new_outputs()
        addresses = np.array([data_address(a) for a in (*inputs, *outputs)], np.int64)
        try:
            block = self._spare.pop()
        except IndexError:
            block = np.empty(self.machine.nbytes + 64, np.uint8)
        first, at = data_address(addresses), data_address(block)
        status = self._code(first, first + 8 * len(inputs), at + -at % 64)
        self._spare.append(block)
        return status, outputs

    def source(self):
        """The loop program as text."""
        return str(self.program)

    def llvm(self):
        """The optimised LLVM module as text."""
        return self.machine.llvm()

    def asm(self):
        """The machine code as assembly."""
        return self.machine.asm()

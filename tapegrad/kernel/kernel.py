"""A kernel: machine code of a loop program, ready to be called with arrays."""

from __future__ import annotations

import numpy as np

from ..interpreter.native import data_address
from ..program.executable import LINE, Executable
from .emit import FINE, NOT_FINITE, Options
from .machine import compile_program

__all__ = ["FINE", "NOT_FINITE", "Kernel", "Options"]


class Kernel(Executable):
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
        #: Flat; a kernel of a tape has the shapes of that.
        self.inputs, self.outputs = ([((b.size,), b.char) for b in buffers] for buffers in (program.inputs, program.outputs))
        self.keep(1)

    def keep(self, count):
        """Keep the memory of so many calls at a time; further ones get theirs for themselves."""
        # Room to begin at a line of the cache, and to end apart from whatever comes next.
        self._blocks = [np.zeros(self.nbytes + 3 * LINE, np.uint8) for _ in range(count)]
        self._publish(self.address, [-(-data_address(block) // LINE) * LINE for block in self._blocks], max(1, self.nbytes))

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
        return self.run(inputs, outputs), outputs

    def source(self):
        """The loop program as text."""
        return str(self.program)

    def llvm(self):
        """The optimised LLVM module as text."""
        return self.machine.llvm()

    def asm(self):
        """The machine code as assembly."""
        return self.machine.asm()

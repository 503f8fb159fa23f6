"""A kernel: machine code of a loop program, ready to be called with arrays, and its life.

Kernels belong to one tape: they are compiled in memory, never kept on disk, so that
addresses of tables and of array programs can stand in the code.  A `Kernel`
owns its code and everything whose address is in it; when it is collected, both go.
"""

from __future__ import annotations

import weakref

import llvmlite.binding as llvm
import numpy as np

from ..codegen.library import needs_symbols
from ..codegen.llvm import know_symbols, new_target_machine, optimise
from ..common.uninterrupted import uninterrupted
from ..interpreter.native import data_address
from ..program.executable import LINE, Executable
from .emit import FINE, NOT_FINITE, Emission, Options
from .pipeline import Stages

__all__ = ["FINE", "NOT_FINITE", "Kernel", "Options"]

#: Size from which on optimisation is light.
_LARGE = 20_000


class Kernel(Executable):
    """Machine code of a `LoopProgram`; may be called by several threads at a time.

    Parameters
    ----------
    program : LoopProgram
    options : Options
    seconds : Stages, optional
        Receives the time of each stage of compilation: emit, optimise, generate.

    Attributes
    ----------
    address : int
        Of ``int64 kernel(int64 *inputs, int64 *outputs, int8 *workspace)`` (see `kernel.emit`).
    entry : int
        Of the entry from nopython code, or 0.
    nbytes : int
        Of the workspace it wants, aligned to 64 bytes.
    seconds : Stages
    """

    @uninterrupted
    def __init__(self, program, options=Options(), seconds=None):
        self.program, self.options = program, options
        self.seconds = seconds = Stages() if seconds is None else seconds
        emission = Emission(program, options)
        for let in emission.lets:
            needs_symbols(let.expr)
        know_symbols()
        self._text = emission.text
        self.nbytes, self._keeps, self.size = emission.nbytes, emission.keeps, emission.size
        seconds.done("emit")
        target, module = self._optimised()
        seconds.done("optimise")
        self._engine = engine = llvm.create_mcjit_compiler(module, target)
        # Closed when the kernel goes; by itself the engine might go in the middle of anything.
        weakref.finalize(self, _close, engine).atexit = False
        engine.finalize_object()
        self.address = engine.get_function_address("kernel")
        self.entry = engine.get_function_address("entry") if emission.entry else 0
        seconds.done("generate")
        #: Flat; a kernel of a tape has the shapes of that.
        self.inputs, self.outputs = ([((b.size,), b.char) for b in buffers] for buffers in (program.inputs, program.outputs))
        self.keep(1)

    def _optimised(self):
        level = 3 if self.size <= _LARGE else 1
        target = new_target_machine(level)
        # Vectors in straight-line code took 97 % of the time for 900 instructions, and made a Runge-Kutta step slower.
        return target, optimise(self._text, target, level, straight=False)

    def keep(self, count):
        """Keep the memory of so many calls at a time; further ones get theirs for themselves."""
        # Room to begin at a line of the cache, and to end apart from whatever comes next.
        self._blocks = [np.zeros(self.nbytes + 3 * LINE, np.uint8) for _ in range(count)]
        self._publish(self.address, [-(-data_address(block) // LINE) * LINE for block in self._blocks], max(1, self.nbytes))

    def source(self):
        """The loop program as text."""
        return str(self.program)

    @uninterrupted
    def llvm(self):
        """The optimised LLVM module as text."""
        return str(self._optimised()[1])

    @uninterrupted
    def asm(self):
        """The machine code as assembly."""
        target, module = self._optimised()
        return target.emit_assembly(module)


@uninterrupted
def _close(engine):
    engine.close()

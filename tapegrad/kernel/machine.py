"""Machine code of a loop program, and its life.

Kernels belong to one tape: they are compiled in memory, never kept on disk, so that
addresses of tables and of array programs can stand in the code.  A `Machine`
owns its code and everything whose address is in it; when it is collected, both go.
"""

from __future__ import annotations

import weakref
from time import perf_counter

import llvmlite.binding as llvm
import numpy as np

from ..codegen.library import needs_symbols
from ..codegen.llvm import know_symbols, new_target_machine, optimise
from ..common.uninterrupted import uninterrupted
from .emit import Emission, Options
from .pipeline import without_collection
from .trampoline import LIMIT

#: Size from which on optimisation is light.
_LARGE = 20_000


class Machine:
    """Compiled code of a `LoopProgram`.

    Attributes
    ----------
    address : int
        Of ``int64 kernel(int64 *inputs, int64 *outputs, int8 *workspace)`` (see `kernel.emit`).
    nbytes : int
        Of the workspace it wants, aligned to 64 bytes.
    seconds : dict
        Time of each stage of compilation: emit, optimise, generate.
    """

    def __init__(self, program, options):
        times = [perf_counter()]
        emission = Emission(program, options)
        for let in emission.lets:
            needs_symbols(let.expr)
        know_symbols()
        self._text = emission.text
        self.nbytes, self._keeps, self.size = emission.nbytes, emission.keeps, emission.size
        times.append(perf_counter())
        target, module = self._optimised()
        times.append(perf_counter())
        self._engine = engine = llvm.create_mcjit_compiler(module, target)
        # Closed when the machine goes; by itself the engine might go in the middle of anything.
        weakref.finalize(self, _close, engine).atexit = False
        engine.finalize_object()
        self.address = engine.get_function_address("kernel")
        #: Of the entry from nopython code, or 0.
        self.entry = engine.get_function_address("entry") if options.entry and emission.nbytes <= LIMIT else 0
        times.append(perf_counter())
        self.seconds = dict(zip(("emit", "optimise", "generate"), np.diff(times).tolist()))

    def _optimised(self):
        level = 3 if self.size <= _LARGE else 1
        target = new_target_machine(level)
        # Vectors in straight-line code took 97 % of the time for 900 instructions, and made a Runge-Kutta step slower.
        return target, optimise(self._text, target, level, straight=False)

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


@uninterrupted
def compile_program(program, options=Options()):
    """The `Machine` of a `LoopProgram`.

    Parameters
    ----------
    program : LoopProgram
    options : Options
    """
    with without_collection():
        return Machine(program, options)

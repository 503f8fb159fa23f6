"""A kernel: machine code of a loop program, ready to be called with arrays, and its life.

The code is kept on disk by its text, in which tables of constants and positions have names and no addresses: a program
that was compiled before is loaded, whatever its tables hold.  A `Kernel` owns its code and these tables; when it
is collected, both go.
"""

import time
import weakref

import numpy as np

from ..codegen.code import digest_of, kept, sealed
from ..codegen.llvm import engine_of, new_target_machine, optimise
from ..common.uninterrupted import uninterrupted
from ..interpreter.native import data_address
from ..program.executable import LINE, Executable
from . import ir
from .emit import FINE, NOT_FINITE, CompileOptions, Emission

__all__ = ["FINE", "NOT_FINITE", "Kernel", "CompileOptions"]

#: Kernels compiled, and loaded from the disk, since import.
COUNTS = {"compiled": 0, "loaded": 0}

#: Size from which on optimisation is light, and that of straight-line code from which on there is none: it took a quarter to half of
#: the compilation, and the code of 400 to 41 900 instructions was as fast without.  That of iterations is run more often.
_LARGE, _STRAIGHT, _ITERATED = 20_000, 300, 2_000
#: Of the steps of straight-line code at most so many are in loops; or all are so few, in how many that may be, beside its size.
_IN_LOOPS, _FEW = 0.2, 4


class Stages(dict):
    """The seconds of each stage, by name; `done` ends one."""

    def __init__(self):
        self._clock = time.perf_counter()

    def done(self, stage):
        """The stage of this name began where the one before ended, and ends now."""
        now = time.perf_counter()
        self[stage], self._clock = now - self._clock, now


class Kernel(Executable):
    """Machine code of a `LoopProgram`; may be called by several threads at a time.

    Parameters
    ----------
    program : LoopProgram
    options : CompileOptions
    seconds : Stages, optional
        Receives the time of each stage of compilation: emit, optimise (or, if it is on disk, read), generate.

    Attributes
    ----------
    address : int
        Of ``int64 kernel(int64 *inputs, int64 *outputs, int8 *workspace)`` (see `kernel.emit`).
    entry : int
        Of the entry from nopython code, or 0.
    iterations : int
        Of the function that runs the iterations of a loop (`kernel.emit`), or 0.
    nbytes : int
        Of the workspace it wants, aligned to 64 bytes.
    seconds : Stages
    """

    def __init__(self, program, options=CompileOptions(), seconds=None):
        self.program, self.options = program, options
        self.seconds = seconds = Stages() if seconds is None else seconds
        emission = Emission(program, options)
        #: What its text names by tables; other things that the code has addresses of are in the program.
        self._tables = emission.tables
        self._text, self.nbytes, self.size = emission.text, emission.nbytes, emission.size
        self._levels = self._chosen()
        seconds.done("emit")
        with uninterrupted:
            code = self._code()
            if "optimise" not in seconds:
                seconds.done("optimise")
            places = [(name, data_address(table)) for name, table in emission.tables.items()]
            self._engine = engine = engine_of(code, new_target_machine(self._levels[1]), places)
            # Closed when the kernel goes; by itself the engine might go in the middle of anything.
            weakref.finalize(self, _close, engine).atexit = False
            self.address = engine.get_function_address("kernel")
            self.entry = engine.get_function_address("entry") if emission.entry else 0
            self.iterations = engine.get_function_address("iterations") if options.iterations else 0
        seconds.done("generate")
        #: Flat; a kernel of a tape has the shapes of that.
        self.inputs, self.outputs = ([((b.size,), b.char) for b in buffers] for buffers in (program.inputs, program.outputs))
        self.keep(1)

    @property
    def _key(self):
        return f"kernel {self._levels} {self._text}"

    def _code(self):
        return kept(self._key, self._compiled, COUNTS, "kernel")

    @uninterrupted
    def object_code(self):
        """Its digest, by which another process finds it, and its object code (`code.RECEIVED`)."""
        digest = digest_of(self._key)
        return digest, sealed(digest, self._code())

    def _chosen(self):
        """The levels of LLVM's passes, and of its code generation."""
        if self.size > (_ITERATED if self.options.iterations else _STRAIGHT) and not (self.options.fastmath or self.options.entry):
            body = self.program.body
            steps = _steps(body)
            if steps <= _FEW * self.size or _steps([s for s in body if isinstance(s, ir.Loop)]) <= _IN_LOOPS * steps:
                return 0, 1
        return (3, 3) if self.size <= _LARGE else (1, 1)

    def _optimised(self):
        target = new_target_machine(self._levels[1])
        # Vectors in straight-line code took 97 % of the time for 900 instructions, and made a Runge-Kutta step slower.
        return target, optimise(self._text, target, self._levels[0], straight=False)

    def _compiled(self):
        """Its object code."""
        target, module = self._optimised()
        self.seconds.done("optimise")
        return target.emit_object(module)

    def keep(self, count):
        """Keep the memory of so many calls at a time; further ones get theirs for themselves."""
        # Padding: it begins at a cache line, and shares its last one with nothing.
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


def _steps(body):
    """Statements that are run."""
    return sum(s.total * _steps(s.body) if isinstance(s, ir.Loop) else 1 for s in body)


@uninterrupted
def _close(engine):
    engine.close()

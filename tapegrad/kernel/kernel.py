"""A kernel: machine code of a loop program, ready to be called with arrays, and its life.

The code is kept on disk by its text, in which tables of constants and positions have names and no addresses: a program
that was compiled before is loaded, whatever its tables hold.  A `Kernel` owns its code and these tables; when it
is collected, both go.

`TapeKernel` is the kernel of a finished tape: its values, or its values and gradients, or derivatives in several directions.
With gradients, what is compiled is the tape's adjoint (`kernel.adjoint`).
Multiplications by partial derivatives are plain ones in a kernel, unless it is told otherwise
(`CompileOptions.absolute`).  Absolute zero is kept by looking at the result: if a gradient is not
finite the kernel says so, and the call is answered by the sweep.
"""

import time
import weakref
from dataclasses import replace

import numpy as np

from ..array.record import normalise
from ..codegen.code import digest_of, kept, sealed
from ..codegen.llvm import engine_of, new_target_machine, optimise
from ..common.memory import without_collection
from ..common.uninterrupted import uninterrupted
from ..interpreter.native import data_address
from ..program.choosing import Cut
from ..program.executable import LINE, Executable, described
from ..rules import lang as L
from ..tape.layout import SCALAR
from . import ir, roll
from .adjoint import adjoint, product, tangents
from .build import build
from .columns import columns
from .cut import buffers
from .emit import CompileOptions, Emission
from .listing import Listing
from .passes import run_passes
from .passes.halving import halve, order
from .reasons import NotLowered, TooDear, compilation

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


# ---- of tapes -----------------------------------------------------------------------------

#: Operations that are no computation; those that a rounding more or less changes.
_GIVEN, _ROUNDED = ("arg", "const"), ("add", "sub", "mul", "neg")
#: Bytes that temporaries may take together.
MOST = 1 << 30
#: Instructions up to which a program is not rolled, if most are of arrays.
_SHORT = 300


def rolled(columns):
    """The structure of a tape's columns (`roll.find`)."""
    # In a short program of arrays every instruction stands for itself: each may then share a loop over elements with
    # others, which is worth more than a loop over a few instructions.
    alone = len(columns.code) <= min(_SHORT, 2 * np.count_nonzero(columns.item >= 0))
    return roll.find(np.arange(len(columns.code)) if alone else columns.code, columns.pairs())


def lower(tape, seconds=None, limit=None, views=False):
    """The loop program of `tape`.

    Parameters
    ----------
    tape : FinishedTape
    seconds : Stages, optional
        Receives the time of each stage.
    limit : float, optional
        Of the steps that its kernel is predicted to cost, once the program is rolled.
    views : bool
        Whether outputs may be parts of others (`program.executable.Executable.views`).

    Returns
    -------
    LoopProgram

    Raises
    ------
    NotLowered
        Some instruction cannot be machine code; the message names it.
    TooDear
        It would cost more than `limit`.
    """
    seconds = Stages() if seconds is None else seconds
    flat = columns(tape)
    seconds.done("columns")
    structure = rolled(flat)
    seconds.done("roll")
    if limit is not None and (steps := compilation(flat, structure)) > limit:
        raise TooDear(steps)
    program = build(flat, structure, views)
    seconds.done("build")
    run_passes(program)
    seconds.done("passes")
    stored = sum(buffer.nbytes for buffer in buffers(program.body) if buffer.role == ir.TEMPORARY)
    if stored > MOST:
        raise NotLowered(f"values that are needed later take {stored >> 20} MiB")
    return program


class TapeKernel(Kernel):
    """Machine code of a finished tape.

    Parameters
    ----------
    tape : FinishedTape
    gradients : bool or (bool, int) or (Cut, int)
        Whether the gradients of the wanted arguments are computed too.  Or derivatives in several directions: whether forward
        (tangents of the outputs for directions of the wanted inputs, else adjoints of these for adjoints of the outputs), and
        how many at a time, the first axis of directions and of results; without values.  Or the whole Jacobian, multiplied out at
        a cut: adjoints of the wanted inputs for all unit vectors of the outputs, and how many these are.
    options : kernel.emit.CompileOptions
    limit : float, optional
        Of the steps that its compilation is predicted to take (`kernel.reasons`).

    Attributes
    ----------
    tape : FinishedTape
        What it stands for.
    forward, lanes : bool, int or None
        Of derivatives in several directions, see `gradients`.
    whole : FinishedTape
        What is compiled: `tape`, or its adjoint.
    seconds : Stages
        Time of each stage: adjoint, columns, roll, build, emit, optimise, generate.

    Raises
    ------
    NotLowered
        Some instruction cannot be machine code; the message names it.
    TooDear
        They are more than `limit`.
    """

    @without_collection()
    def __init__(self, tape, gradients=True, options=CompileOptions(), limit=None):
        seconds = Stages()
        self.tape, self.gradients = tape, bool(gradients)
        self.forward, self.lanes = gradients if isinstance(gradients, tuple) else (False, None)
        self.whole = self._derived(options.absolute)
        seconds.done("adjoint")
        program = lower(self.whole, seconds, limit, not (gradients or options.iterations))
        if options.symmetric:
            halve(program)
        self.values = 0 if self.lanes else len(tape.outputs)
        for buffer in program.outputs[self.values : len(self.whole.outputs)]:
            buffer.finite = buffer.char in "df"
        order(program)
        super().__init__(program, options, seconds)
        self.inputs = [(meta.shape, meta.char) for meta in self.whole.inputs]
        arrays = [((buffer.size,), buffer.char) for buffer in program.outputs[len(self.whole.outputs) :]]
        self.outputs, self.views = [described(output) for output in self.whole.outputs] + arrays, program.views
        for k in self.views:
            self.outputs[k] = (0,), "d"

    def _derived(self, absolute):
        """The tape that is compiled."""
        if not self.lanes:
            return adjoint(self.tape, absolute=absolute) if self.gradients else self.tape
        if isinstance(self.forward, Cut):
            derived = product(self.tape, self.forward)
        else:
            derived = (tangents if self.forward else adjoint)(self.tape, self.lanes, absolute=absolute)
        # The values themselves are not asked for.
        return replace(derived, outputs=derived.outputs[len(self.tape.outputs) :])

    def first_anomaly(self, inputs):
        """The first statement whose number is not finite at these `inputs`, as `source` has it, and the line it computes; or an empty text."""
        # Sums and products last: where they are looked at, their rounding may be another (`CompileOptions.fastmath`).
        for common in (_ROUNDED, ()):
            program = TapeKernel(self.tape, (self.forward, self.lanes) if self.lanes else self.gradients, self.options).program
            names, watched = Listing(program).names, []
            # The number of the least guard that fails is that of the first such statement.
            for body in [program.body, *(s.body for s in ir.walk(program.body) if isinstance(s, ir.Loop))]:
                statements = body.copy()
                body.clear()
                for statement in statements:
                    body.append(statement)
                    if isinstance(statement, ir.Let) and statement.char in "df" and {node.op for node in L.nodes(statement.expr)}.difference(common, _GIVEN):
                        finite = ir.Let(L.eq(L.arg(statement) * 0.0, 0.0), "?")
                        body += [finite, ir.Guard(program.guards + 1 + len(watched), finite, True)]
                        watched.append(statement)
            at = Kernel(program, self.options).answer(inputs)[0] - program.guards - 1
            if at >= 0:
                found = watched[at]
                return f"`{names[found]} = {L.written(found.expr, names.get)}` of its source(), which computes {self.whole.place(found.slot)}"
        return ""

    def results(self, arrays):
        """Values (floats and arrays; constants as they are) and gradients of the `arrays` of `answer`."""
        return [self.value(arrays, k) for k in range(self.values)], arrays[self.values :] if self.gradients else None

    def value(self, arrays, k):
        """Value `k` of the `arrays` of `answer`."""
        slot, what = self.tape.outputs[k]
        return what if not slot else arrays[k].item() if what is SCALAR else normalise(arrays[k])

    def __str__(self):
        what = "values and gradients" if self.gradients else "values"
        if self.lanes:
            kind = "rows at a cut" if isinstance(self.forward, Cut) else "tangents" if self.forward else "adjoints"
            what = f"{self.lanes} {kind}"
        stages = ", ".join(f"{stage} {1e3 * t:.1f} ms" for stage, t in self.seconds.items())
        return f"Kernel({what} of {len(self.tape)} instructions, workspace {self.nbytes} bytes; {stages})"

    __repr__ = __str__

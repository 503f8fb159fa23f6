"""The kernel of a finished tape: its values, or its values and gradients, or derivatives in several directions.

With gradients, what is compiled is the tape's adjoint (`kernel.adjoint`).
Multiplications by partial derivatives are plain ones in a kernel, unless it is told otherwise
(`CompileOptions.absolute`).  Absolute zero is kept by looking at the result: if a gradient is not
finite the kernel says so, and the call is answered by the sweep.
"""

from dataclasses import replace

import numpy as np

from ..array.record import normalise
from ..common.memory import without_collection
from ..program.choosing import Cut
from ..program.executable import described
from ..rules import lang as L
from ..tape.layout import SCALAR
from . import ir, roll
from .adjoint import adjoint
from .build import build
from .columns import columns
from .cut import buffers
from .emit import CompileOptions
from .kernel import Kernel, Stages
from .listing import Listing
from .passes import run_passes
from .passes.halving import halve, order
from .reasons import NotLowered, TooDear, compilation
from .tangents import product, tangents

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

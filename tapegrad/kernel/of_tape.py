"""The kernel of a finished tape: its values, or its values and gradients.

With gradients, what is compiled is the tape's adjoint (`kernel.adjoint`).
Multiplications by partial derivatives are plain ones in a kernel.  Absolute zero
is kept by looking at the result: if a gradient is not finite the kernel says so,
and the call is answered by the sweep.
"""

from __future__ import annotations

import time

import numpy as np

from ..replay.walk import ARRAY
from ..tape.meta import SCALAR
from .adjoint import adjoint
from .emit import FINE, Options
from .entry import walk as W
from .kernel import Kernel
from .pipeline import lower


class TapeKernel(Kernel):
    """Machine code of a finished tape.

    Parameters
    ----------
    tape : FinishedTape
    gradients : bool
        Whether the gradients of the wanted arguments are computed too.
    options : kernel.emit.Options

    Attributes
    ----------
    tape : FinishedTape
        What it stands for.
    whole : FinishedTape
        What is compiled: `tape`, or its adjoint.
    seconds : dict
        Time of each stage: adjoint, columns, roll, build, emit, optimise, generate.

    Raises
    ------
    NotLowered
        Some instruction cannot be machine code; the message names it.
    """

    def __init__(self, tape, gradients=True, options=Options()):
        seconds = {}
        clock = time.perf_counter()
        self.tape, self.gradients = tape, gradients
        self.whole = adjoint(tape) if gradients else tape
        seconds["adjoint"] = time.perf_counter() - clock
        program = lower(self.whole, seconds)
        self.values = len(tape.outputs)
        for buffer in program.outputs[self.values :]:
            buffer.finite = buffer.char in "df"
        super().__init__(program, options)
        self.seconds = seconds | self.seconds
        self._metas = [_meta(output) for output in self.whole.outputs]
        spec = [len(tape.inputs)]
        for meta in tape.inputs:
            spec += [ARRAY, id(np.ndarray), id(np.dtype(meta.char)), len(meta.shape), *meta.shape]
        self._way = W.Way(self, len(tape.inputs), len(self._metas), spec)

    def run(self, arguments):
        """Compute at `arguments`, C-contiguous arrays of the recorded descriptions.

        Returns
        -------
        list of ndarray, or None
            Values, then gradients; None if a guard saw something else than at recording, or a
            gradient is not finite.
        """
        found = tuple([np.empty(shape, char) for shape, char in self._metas])
        arguments = tuple(arguments)
        status = W.enter(self._way.pointer, id(arguments), id(found))
        return found if status == FINE else None

    def value(self, found, k):
        """Result `k` of `run`: a float or an array; a constant as it is."""
        slot, what = self.tape.outputs[k]
        if not slot:
            return what
        return found[k].item() if what is SCALAR else found[k]

    def __str__(self):
        what = "values and gradients" if self.gradients else "values"
        stages = ", ".join(f"{stage} {1e3 * t:.1f} ms" for stage, t in self.seconds.items())
        return f"Kernel({what} of {len(self.tape)} instructions, workspace {self.nbytes} bytes; {stages})"

    __repr__ = __str__


def _meta(output):
    """Shape and type of an output."""
    slot, what = output
    array = None if slot else np.asarray(what)
    return (what.shape, what.char) if slot else (array.shape, array.dtype.char)

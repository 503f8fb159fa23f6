"""A kernel as an object: machine code of one tape, and the memory of its calls.

A `Kernel` computes the values of a finished tape, or values and gradients: then
what is compiled is the tape's adjoint (`kernel.adjoint`).  It is made once and
never changes.  A `Frame` is the memory of one call at a time; threads take one
each from the kernel's pool.

Multiplications by partial derivatives are plain ones in a kernel.  Absolute zero
is kept by looking at the result: if a gradient is not finite, `Frame.run` says so
and the call is answered by the sweep.
"""

from __future__ import annotations

import time

import numpy as np

from ..sweep.native import data_address
from ..tape.meta import SCALAR
from .adjoint import adjoint
from .emit import FINE, NOT_FINITE, Options
from .machine import compile_program
from .pipeline import lower
from .running import F_CODE, F_INPUTS, F_OUTPUTS, F_WORKSPACE, FRAME, run_kernel


class Kernel:
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
    nbytes : int
        Of the workspace of one call.

    Raises
    ------
    NotLowered
        Some instruction cannot be machine code; the message names it.
    """

    def __init__(self, tape, gradients=True, options=Options()):
        self.tape, self.gradients = tape, gradients
        self.seconds = {}
        clock = time.perf_counter()
        self.whole = adjoint(tape) if gradients else tape
        self.seconds["adjoint"] = time.perf_counter() - clock
        self.program = lower(self.whole, self.seconds)
        self.values = len(tape.outputs)
        for buffer in self.program.outputs[self.values :]:
            buffer.finite = buffer.char in "df"
        self.machine = compile_program(self.program, options)
        self.seconds |= self.machine.seconds
        self.address, self.nbytes = self.machine.address, self.machine.nbytes
        self.metas = [_meta(output) for output in self.whole.outputs]
        self._pool = []

    def take(self):
        """A frame nobody else uses."""
        try:
            return self._pool.pop()
        except IndexError:
            return Frame(self)

    def give(self, frame):
        """Give a frame back."""
        self._pool.append(frame)

    def source(self):
        """The loop program as text."""
        return str(self.program)

    def llvm(self):
        """The optimised LLVM module as text."""
        return self.machine.llvm()

    def asm(self):
        """The machine code as assembly."""
        return self.machine.asm()

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


class Frame:
    """The memory of one call of a kernel.

    Attributes
    ----------
    values : list of ndarray
        Where the results of the function are after `run`.
    gradients : list of ndarray
        As `values`; of the wanted arguments, in order.
    """

    def __init__(self, kernel):
        self.kernel = kernel
        made = [np.zeros(shape, char) for shape, char in kernel.metas]
        self.values, self.gradients = made[: kernel.values], made[kernel.values :]
        self.inputs = np.zeros(max(1, len(kernel.tape.inputs)), np.int64)
        self.outputs = np.array([*map(data_address, made), 0], np.int64)
        self._workspace = np.empty(kernel.nbytes + 64, np.uint8)
        self.words = np.zeros(FRAME, np.int64)
        self.words[F_CODE], self.words[F_INPUTS] = kernel.address, data_address(self.inputs)
        self.words[F_OUTPUTS] = data_address(self.outputs)
        self.words[F_WORKSPACE] = -(-data_address(self._workspace) // 64) * 64
        self.address = data_address(self.words)

    def run(self, arguments):
        """Compute at `arguments` (C-contiguous arrays of the recorded descriptions).

        Returns
        -------
        bool
            Whether all guards saw what they saw at recording, and all gradients are finite.
            If not, nothing is in `values` and `gradients` that may be used.
        """
        for k, a in enumerate(arguments):
            self.inputs[k] = data_address(a)
        status = run_kernel(self.address)
        assert status >= NOT_FINITE
        return status == FINE

    def value(self, k):
        """A copy of result `k`: a float, or an array; a constant as it is."""
        slot, what = self.kernel.tape.outputs[k]
        if not slot:
            return what
        return float(self.values[k]) if what is SCALAR else self.values[k].copy()

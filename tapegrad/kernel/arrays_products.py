"""Products of matrices, and steps that are run whole: NumPy's own loops, in a `Run`.

Products with vectors are loops: they are bound by memory, and fused with what
makes or uses the vector; so are those of tiny matrices, where a call costs more than the
product.  All others go to BLAS through NumPy's loop.  An absolute product is a plain one here: a
kernel does not answer where a factor is not finite (`arrays.Arrays`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..interpreter import program as P
from ..interpreter.planner import call_words
from ..interpreter.python_calls import Called
from ..program.stream import HostStep
from . import ir
from .arrays_views import moved
from .reasons import NotLowered

#: Matrix products with no extent above this are loops.
TINY = 8
#: Where the program of a single matrix product has how many products there are, its extents, the strides of rows and columns of
#: both factors and the result, in bytes, and the number of outer loops.
_BATCH, _EXTENTS, _STRIDES, _OUTER = 12, slice(13, 16), slice(20, 26), 26


class MatrixProducts:
    """The part of `LoopPlanner` for matrices."""

    def product(self, a, b, char, absolute):
        (m, k), n = a.shape[-2:], b.shape[-1]
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        vector = m == 1 or n == 1
        if 0 in (m, k, n, *batch):
            return self.sym(self.temporary((*batch, m, n), char, zero=True))
        if vector or max(m, k, n) <= TINY:
            a, b = (s.window().cast(char) for s in (a, b))
            products = a.expand_dims([a.ndim]) * b.expand_dims([b.ndim - 2])
            total = self.reduced(products, "add", (products.ndim - 2,), (*batch, m, 1, n), None if vector else True)
            return total.reshape((*batch, m, n))
        return self.called_product(a, b, char)[2]

    def call(self, spec, atoms, inputs, *around):
        # A program by itself: the result is in register 0, the others in registers of their own, where they begin.
        registers = [*range(P.FIRST_SAVED, P.FIRST_SAVED + len(atoms) - 1)]
        registers.insert(inputs, 0)
        words = call_words(spec.address(), spec.data(), [(register, 0) for register in registers], *around)
        program = np.array([P.CALL, len(words), *words, P.END, 0], np.int64)
        refs = [self.ref_of(atom) for atom in atoms]
        operands = [(register, ref.buffer, ref.offset) for register, ref in zip(registers, refs)]
        operands.sort(key=lambda operand: operand[0] != 0)
        reads, writes = {ref.buffer for ref in refs[:inputs]}, {ref.buffer for ref in refs[inputs:]}
        self.body.append(run := ir.Run(program, operands, reads, writes, spec, spec.name))
        if spec.name == "matmul" and program[_BATCH] == 1 and program[_OUTER] == 0:
            run.product = tuple(program[_EXTENTS].tolist())

    def called(self, function, target, place=None):
        """A call of a function of the operands, in Python; `place`: where it was recorded, for errors."""
        operands, name = [self.ordered(s) for s in self.operands], getattr(function, "__name__", "NumPy")
        if len(operands) > P.FIRST_TARGET - P.FIRST_SAVED - 1:
            raise NotLowered(f"{name} is called with {len(operands)} operands", place)

        def fill(*arrays):
            *arrays, result = arrays
            return HostStep(function, [a.copy() for a in arrays], result, name, 0).run()

        machine = getattr(getattr(function, "function", None), "machine", None)
        spec = machine and machine() or Called(fill, name, [(s.shape, s.char) for s in operands], (self.out.shape, self.out.char))
        return self.deliver(self.filled_by(spec, operands, self.out.shape, self.out.char), target)


def strides(run):
    """Strides of rows and columns of the factors and the result of a `Run` that is a matrix product, in elements."""
    item = np.dtype(run.operands[0][1].char).itemsize
    return [step // item for step in run.program[_STRIDES].tolist()]


def part(run, start, stop, columns):
    """The `Run` of the rows from `start` to `stop` and the first `columns` of a matrix product."""
    program = run.program.copy()
    program[_EXTENTS] = product = (stop - start, run.product[1], columns)
    by_row = strides(run)
    further = {0: start * by_row[4], P.FIRST_SAVED: start * by_row[0], P.FIRST_SAVED + 1: 0}
    operands = [(register, buffer, moved(index, further[register])) for register, buffer, index in run.operands]
    return replace(run, program=program, operands=operands, product=product)

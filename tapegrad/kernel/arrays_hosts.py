"""What NumPy computes, in loop programs.

Ufuncs without derivative are written in the rules' language (other functions: `kernel.recomputed`).  Products of
matrices, and steps that are run whole, are NumPy's own loops, in a `Run`.

Products with vectors are loops: they are bound by memory, and fused with what
makes or uses the vector; so are those of tiny matrices, where a call costs more than the
product.  All others go to BLAS through NumPy's loop.  An absolute product is a plain one here: a
kernel does not answer where a factor is not finite (`arrays.Arrays`), but for a path of a loop.
"""

import math
import operator
from dataclasses import replace

import numpy as np

from ..array.recorded import LOGICAL
from ..interpreter import program as P
from ..interpreter.calls import Called
from ..interpreter.planner import call_words, repair_words
from ..program.stream import HostStep
from ..rules import BY_FUNCTION
from ..rules import lang as L
from . import ir
from .ir import moved
from .reasons import NotLowered

#: By the names of ufuncs: what is the same for all dtypes, for truth values, for floats.
_OF_ALL = {ufunc.__name__: L.function(name) for name, ufunc in LOGICAL.items() if name != "isnan"}
_OF_TRUTH = {
    "bitwise_and": L.function("and"), "bitwise_or": L.function("or"), "invert": L.logical_not,
    "logical_xor": L.ne, "bitwise_xor": L.ne, "add": L.function("or"), "multiply": L.function("and"),
}  # fmt: skip
_OF_FLOATS = {"isnan": L.isnan, "isfinite": lambda x: L.abs(x) < math.inf, "isinf": lambda x: L.eq(L.abs(x), math.inf)}


def expression_of(ufunc, chars, out):
    """The function of expressions that is `ufunc` for operands, a set, and a result of these dtypes, or None."""
    row = BY_FUNCTION.get(ufunc)
    if chars & set("LQ"):
        # Integers are computed as signed ones of 64 bits.
        return None
    if row is not None and "?" not in chars:
        integral = out in "df" or all(map(ir.integral, L.nodes(row.expr(*map(L.arg, range(row.arity))))))
        return row.expr if integral else None
    special = _OF_TRUTH if chars == {"?"} else _OF_FLOATS if chars <= set("df") else {}
    return (_OF_ALL | special).get(ufunc.__name__)


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
            times = L.absolute_product if absolute and self.exact else operator.mul
            products = times(a.expand_dims([a.ndim]), b.expand_dims([b.ndim - 2]))
            total = self.reduced(products, "add", (products.ndim - 2,), (*batch, m, 1, n), None if vector else True)
            return total.reshape((*batch, m, n))
        a, b, product = self.called_product(*[self.in_memory(s.cast(char)) for s in (a, b)], char)
        if absolute and self.exact:
            run = self.body[-1]
            words = repair_words(a, b, product, ((P.FIRST_SAVED, 0), (P.FIRST_SAVED + 1, 0)), 0)
            run.program, run.product = np.concatenate([run.program[:-2], [P.REPAIR, len(words), *words], run.program[-2:]]), None
        return product

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

    def called(self, function, target, name=None):
        """A call of a function of the operands, in Python."""
        operands, name = [self.ordered(s) for s in self.operands], name or getattr(function, "__name__", "NumPy")
        if len(operands) > P.FIRST_TARGET - P.FIRST_SAVED - 1:
            raise NotLowered(f"{name} is called with {len(operands)} operands")

        def fill(*arrays):
            *arrays, result = arrays
            return HostStep(function, [a.copy() for a in arrays], result, name, 0).run()

        # For those who read the program.
        fill.called = function
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

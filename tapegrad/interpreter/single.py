"""The tangent of one element-wise operation, by the loop that a tangent sweep runs for it.

Dual numbers (`tapegrad.array.dual`) are to give the tangents of a sweep to the last bit.
NumPy's functions are some units in the last place away from those of the compiled
loops, and a tangent such as that of `tanh` doubles the difference; so dual numbers
run the very loop that `interpreter.tangent` plans for an instruction of the same
description, on the operands where they are.  It is one pass over memory, however
many functions the rule names.
"""

from __future__ import annotations

import numpy as np

from ..codegen.compile import compiled
from ..codegen.loops import LoopSpec, loop_kernel
from ..codegen.memory import call2
from ..tape.meta import SCALAR, c_strides, meta_of
from .native import data_address
from .symbolic import Atom
from .tangent import TangentPlanner
from .windows import renumber

#: Loops kept; when there are as many all are planned anew.
MOST = 4096


@compiled("void(int64, int64, int64)")
def _call(kernel, registers, parameters):
    call2(kernel, registers, parameters)


class _Operation:
    """What `TangentPlanner` asks of a signature; nothing is saved before it is read."""

    saves = ()

    def __init__(self, row, metas, out):
        self.row, self.metas, self.out, self.slots = row, metas, out, row.slots(len(metas))


class TangentLoop:
    """The loop for operands and a result of one description.

    Parameters
    ----------
    row : Row
        An element-wise one.
    metas : tuple of Meta
        Of the operands.
    out : Meta
    hot : tuple of bool
        Which differentiable operands have a tangent; at least one.
    """

    KNOWN: dict[tuple, TangentLoop] = {}

    def __init__(self, row, metas, out, hot):
        planner = TangentPlanner(_Operation(row, metas, out))
        slots = row.slots(len(metas))
        # A sweep gives rows of more than two operands zeros where there is no tangent.
        tangents = [planner.tangent(k) if on or len(slots) > 2 else None for k, on in zip(slots, hot)]
        result = row.tangent(tangents, [planner.operand(k) for k in range(len(metas))], planner.operand(-1), {})
        self.metas, self.out, self.kernel, self.same, self._parameters = metas, out, 0, None, {}
        if result is None or out.size == 0:
            return
        if result.atom is not None and result.shape == out.shape and result.char == out.char:
            #: The operand whose tangent is that of the result.
            self.same = next(k for k, reg in planner.tangents.items() if reg == result.atom.reg)
            return
        registers = {planner.saved_atom(k).reg: (False, k) for k in planner.saved}
        registers |= {reg: (True, k) for k, reg in planner.tangents.items()}
        if out is SCALAR and row.scalar_instruction:
            self._plan_numbers(result.expr, registers)
            return
        planner.loop([result.expr], [Atom(0, 0, out.shape, c_strides(out.shape, out.itemsize), out.char)], out.shape, [None])
        ((position, spec),) = planner.kernels
        self.kernel, words = loop_kernel(spec), planner.words[position + 1 :]
        count = len(spec.pattern)
        #: Of each input of the loop, whether it is a tangent, and of which operand (-1: the value of the result).
        self.inputs = [registers[reg] for reg in words[: count - 1]]
        self._head, self._outer = [*range(count), *words[count : 3 * count + 1]], words[3 * count + 1 :]

    def _plan_numbers(self, expr, registers):
        """A loop over the lanes, for an instruction of the scalar switch: its functions are those of the C library."""
        atoms = expr.leaves()
        self.inputs = [registers[a.reg] for a in atoms]
        pattern = "".join("c" if tangent else "0" for tangent, _ in self.inputs) + "c"
        expr = renumber(expr, {a: k for k, a in enumerate(atoms)})
        self.kernel = loop_kernel(LoopSpec((expr,), "".join(a.char for a in atoms), "d", pattern, (None,)), vectors=False)
        self._outer = None

    @classmethod
    def of(cls, row, metas, out, hot):
        """The loop of this description, planned and compiled when it is first asked for."""
        key = (row, metas, out, hot)
        loop = cls.KNOWN.get(key)
        if loop is None:
            if len(cls.KNOWN) >= MOST:
                cls.KNOWN.clear()
            loop = cls.KNOWN[key] = cls(row, metas, out, hot)
        return loop

    def _parameters_of(self, lanes):
        """Parameters of the kernel; several lanes are an outermost dimension, so that the inner loop is the same."""
        if self._outer is None:
            count = len(self.inputs) + 1
            steps = [8 * tangent for tangent, _ in self.inputs]
            words = [*range(count), *[0] * count, lanes or 1, *steps, 8, 0]
            parameters = self._parameters[lanes] = np.array(words, np.int64)
            return parameters
        outer, (dims, *table) = [], self._outer
        if lanes is not None:
            sizes = [self.metas[k].nbytes if tangent else 0 for tangent, k in self.inputs]
            outer = [lanes, *sizes, self.out.nbytes]
        parameters = self._parameters[lanes] = np.array([*self._head, dims + (lanes is not None), *outer, *table], np.int64)
        return parameters

    def run(self, values, tangents, lanes):
        """The tangent of the result.

        Parameters
        ----------
        values : sequence
            Of the operands and, last, the result: floats and ndarrays of the descriptions.
        tangents : dict
            Operand -> its tangent, a float or ndarray with the lanes first; operands that have none are left out.
        lanes : int or None

        Returns
        -------
        float, ndarray or None
            None where it is zero; may share memory with a tangent given.
        """
        if self.same is not None:
            return tangents[self.same]
        out = self.out
        shape = out.shape if lanes is None else (lanes, *out.shape)
        if not self.kernel:
            return np.zeros(shape, out.char) if 0 in shape else None
        result, arrays = np.empty(shape, out.char), []
        for tangent, k in self.inputs:
            if not tangent:
                a = values[k]
                arrays.append(np.array(a) if a.__class__ is float else a)
            elif k in tangents:
                arrays.append(np.asarray(tangents[k], order="C"))
            else:
                meta = self.metas[k]
                arrays.append(np.zeros(meta.shape if lanes is None else (lanes, *meta.shape), meta.char))
        registers = np.array([*map(data_address, arrays), data_address(result)], np.int64)
        parameters = self._parameters.get(lanes)
        if parameters is None:
            parameters = self._parameters_of(lanes)
        _call(self.kernel, data_address(registers), data_address(parameters))
        return result


def tangent_of(row, values, tangents, lanes):
    """The tangent of an element-wise result, as a tangent sweep gives it.

    Parameters
    ----------
    row : Row
    values : sequence
        Of the operands and, last, the result: floats and ndarrays.
    tangents : dict
        As of `TangentLoop.run`; not empty.
    lanes : int or None

    Returns
    -------
    float, ndarray or None
        As of `TangentLoop.run`.
    """
    *metas, out = map(meta_of, values)
    hot = tuple([k in tangents for k in row.slots(len(metas))])
    return TangentLoop.of(row, tuple(metas), out, hot).run(values, tangents, lanes)

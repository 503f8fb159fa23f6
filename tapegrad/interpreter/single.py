"""The tangent of one element-wise operation, by a compiled loop: what dual numbers (`tapegrad.array.dual`) run.

It is one pass over memory, however many functions the rule names and however many tangents (*lanes*) there are,
where NumPy would make one for each of its functions.
"""

from __future__ import annotations

import numpy as np

from ..codegen.compile import compiled
from ..codegen.memory import allocate, release
from ..tape.meta import c_strides, meta_of
from . import program as P
from .calls import call_loop
from .native import data_address
from .plan import Planner
from .symbolic import Atom
from .windows import renumber

#: Loops kept; when there are as many all are planned anew.
MOST = 4096


@compiled("void(int64, int64)")
def _call(registers, words):
    scratch = allocate(P.SCRATCH)
    call_loop(registers, words, scratch)
    release(scratch)


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
    lanes : int or None
        The extent of a first axis of the tangents.
    """

    KNOWN: dict[tuple, TangentLoop] = {}

    def __init__(self, row, metas, out, hot, lanes):
        planner = Planner(metas, out)
        tangents = [planner.tangent(k) if on else None for k, on in zip(row.slots(len(metas)), hot)]
        result = row.tangent(tangents, [planner.operand(k) for k in range(len(metas))], planner.operand(-1), {})
        front = () if lanes is None else (lanes,)
        self.shape, self.char, self.planned, self.same = (*front, *out.shape), out.char, False, None
        if result is None or 0 in self.shape:
            return
        if result.atom is not None and result.shape == out.shape and result.char == out.char:
            #: The operand whose tangent is that of the result.
            self.same = next(k for k, reg in planner.tangents.items() if reg == result.atom.reg)
            return
        registers = {planner.saved_atom(k).reg: (False, k) for k in planner.saved}
        registers |= {reg: (True, k) for k, reg in planner.tangents.items()}
        atoms = {a: self._with_lanes(a, front) if registers[a.reg][0] else a for a in result.expr.leaves()}
        expr = renumber(result.expr, atoms)
        planner.loop([expr], [Atom(0, 0, self.shape, c_strides(self.shape, out.itemsize), out.char)], self.shape, [None])
        ((position, spec),) = planner.kernels
        self._words, count = np.array(planner.words[position:], np.int64), len(spec.pattern)
        places = self._words[3:][: 2 * count : 2]
        #: Of each input of the loop, whether it is a tangent, and of which operand (-1: the value of the result).
        self.inputs = [registers[reg] for reg in places[:-1].tolist()]
        self._words[0], places[:] = spec.address(), range(count)
        self.planned = True

    def _with_lanes(self, atom, front):
        """The window of a tangent with its lanes in front."""
        shape = (*front, *(1,) * (len(self.shape) - len(front) - len(atom.shape)), *atom.shape)
        return Atom(atom.reg, 0, shape, c_strides(shape, np.dtype(atom.char).itemsize), atom.char)

    @classmethod
    def of(cls, row, metas, out, hot, lanes):
        """The loop of this description, planned and compiled when it is first asked for."""
        key = (row, metas, out, hot, lanes)
        loop = cls.KNOWN.get(key)
        if loop is None:
            if len(cls.KNOWN) >= MOST:
                cls.KNOWN.clear()
            loop = cls.KNOWN[key] = cls(row, metas, out, hot, lanes)
        return loop

    def run(self, values, tangents):
        """The tangent of the result.

        Parameters
        ----------
        values : sequence
            Of the operands and, last, the result: floats and ndarrays of the descriptions.
        tangents : dict
            Operand -> its tangent, a float or ndarray with the lanes first; operands that have none are left out.

        Returns
        -------
        float, ndarray or None
            None where it is zero; may share memory with a tangent given.
        """
        if self.same is not None:
            return tangents[self.same]
        if not self.planned:
            return np.zeros(self.shape, self.char) if 0 in self.shape else None
        result = np.empty(self.shape, self.char)
        arrays = [np.asarray(tangents[k], order="C") if tangent else np.asarray(values[k]) for tangent, k in self.inputs]
        registers = np.array([*map(data_address, arrays), data_address(result)], np.int64)
        _call(data_address(registers), data_address(self._words))
        return result


def tangent_of(row, values, tangents, lanes):
    """The tangent of an element-wise result.

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
    return TangentLoop.of(row, tuple(metas), out, hot, lanes).run(values, tangents)

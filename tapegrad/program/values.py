"""Programs that compute the value of one array entry, run by `interpreter.steps.run`.

They are planned from the rules table as the adjoints are (`interpreter.plan`), but with
NumPy's own inner loops wherever the eager operation used them, in the order in
which NumPy calls them: so a replay at the recorded point gives the same bits.

=====================================  ==============================================
entry                                  program
=====================================  ==============================================
element-wise row, or ufunc             the ufunc's inner loop
element-wise row that is no ufunc      a loop made from its expression
linear row                             its JVP, applied to the operands
row with `forward`                     that, in the rules' language
anything else                          none: NumPy is called again (a *host* step)
=====================================  ==============================================
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..common.uninterrupted import imported
from ..interpreter import program as P
from ..interpreter.as_numpy import AsNumPy, Unplanned
from ..interpreter.plan import Planner
from ..interpreter.symbolic import ITEMSIZE, Atom, Sym
from ..interpreter.windows import aligned
from ..rules import lang as L

#: Rows that are one reduction, which may write straight to the result.
_ONE_STEP = ("max", "min", "prod")


class ValuePlanner(AsNumPy, Planner):
    """Collects the steps of one value program; register 0 is the result, operands have registers of their own."""

    def __init__(self, metas, out):
        super().__init__(metas, out)
        self.result = Atom(0, 0, out.shape, out.strides, out.char)
        self.operands = [self._operand(meta) for meta in metas]
        self.registers = [sym.atom.reg for sym in self.operands]

    def like(self, shape, char, atoms):
        # Axes in memory in the order that NumPy gives them: how it adds depends on strides.
        order = _memory_order(shape, [aligned(a, shape) for a in atoms])
        whole = self.temporary([shape[k] for k in order], char)
        steps = dict(zip(order, whole.strides))
        return Atom(whole.reg, 0, shape, [steps[k] for k in range(len(shape))], char)

    def window(self, sym):
        if sym.atom is not None:
            return sym
        atom = self.like(sym.shape, sym.char, sym.expr.leaves())
        self.loop([sym.expr], [atom], sym.shape, [None])
        return self._sym(atom)

    def reduced_over_nothing(self, sym, how):
        # NumPy adds to 0.0 what it sums, also the one element of a number.
        return sym + 0.0 if how == "add" else sym

    def _operand(self, meta):
        if meta.char not in ITEMSIZE:
            raise Unplanned(meta.char)
        return self._sym(Atom(self._register(), 0, meta.shape, meta.strides, meta.char))

    def deliver(self, sym):
        """Make `sym` the result."""
        out = self.out
        if not isinstance(sym, Sym):
            sym = self._sym(self.result)._apply("add", L.Expr.lift(float(sym)), 0.0)
        if sym.shape != out.shape:
            sym = sym.broadcast_to(out.shape)
        atom = sym.atom
        if (atom is None or atom.reg != 0) and 0 not in out.shape:
            if out.char not in "df?" or (atom is not None and atom.char not in "df?" and atom.char != out.char):
                raise Unplanned(f"{atom} to {out.char}")
            self.loop([sym.expr], [self.result], out.shape, [None])
        self.step(P.END)


def _memory_order(shape, strides):
    """Axes, outermost first, in the order in which NumPy's iterator walks operands of these strides.

    Where two operands disagree, that of C wins (``npyiter_find_best_axis_ordering`` of NumPy's ``nditer_constr.c``).
    """
    steps = [[0 if n == 1 else abs(s) for s, n in zip(own, shape)] for own in strides]
    axes = []
    for axis in reversed(range(len(shape))):
        position = len(axes)
        for k in reversed(range(len(axes))):
            pairs = [(own[axis], own[axes[k]]) for own in steps if own[axis] and own[axes[k]]]
            if pairs and any(inner <= mine for mine, inner in pairs):
                break
            if pairs:
                position = k
        axes.insert(position, axis)
    return axes[::-1]


#: Programs that are kept although no workspace has them, at most.
MOST = 512


class ValueProgram:
    """The planned value of an entry of one description.

    Attributes
    ----------
    words : ndarray of int64
    registers : list of int
        Of the operands, in order; the result is in register 0.
    """

    def __init__(self, planner):
        from ..codegen.loops import loop_kernel

        self.words = np.array(planner.words, np.int64)
        self.constants = planner.constants
        self.registers = planner.registers
        for position, spec in planner.kernels:
            self.words[position] = loop_kernel(spec)

    @classmethod
    @lru_cache(MOST)
    def of_row(cls, row, attrs, metas, out):
        """The program of a row, or None if NumPy has to be called."""
        return cls._planned(lambda plan: _row(plan, row, dict(attrs)), metas, out)

    @classmethod
    @lru_cache(MOST)
    def of_ufunc(cls, function, metas, out):
        """The program of a plain call of a ufunc, or None."""
        return cls._planned(lambda plan: plan.ufunc(function, *plan.operands, out=plan.result), metas, out)

    @classmethod
    def _planned(cls, build, metas, out):
        try:
            planner = ValuePlanner(metas, out)
            planner.deliver(build(planner))
        except Unplanned:
            return None
        return cls(planner)


def _ufunc_of(row):
    """The ufunc that computes an element-wise row eagerly, or None."""
    name = getattr(row.value, "of_scipy", None)
    if name is not None:
        ufunc = getattr(imported("scipy.special"), name)
        return ufunc if isinstance(ufunc, np.ufunc) else None
    return row.value if isinstance(row.value, np.ufunc) else None


def _row(plan, row, attrs):
    operands = plan.operands
    if row.elementwise:
        function = _ufunc_of(row)
        if function is not None:
            if plan.out.char not in "df":
                if any(s.char != plan.out.char for s in operands):
                    raise Unplanned(row.name)
                return plan.ufunc(function, *operands, out=plan.result)
            floats = [s if s.char in "df" else plan._cast(s, plan.out.char) for s in operands]
            wide = [s if s.char == plan.out.char else plan._cast(s, plan.out.char) for s in floats]
            return plan.ufunc(function, *wide, out=plan.result)
        if plan.out.char not in "df":
            raise Unplanned(row.name)
        return row.expr(*operands)
    if any(s.char not in "df" for k, s in enumerate(operands) if k not in row.constants):
        raise Unplanned(row.name)
    if row.dynamic:
        attrs[row.dynamic] = plan.DYNAMIC
    if row.linear:
        tangents = [operands[k] for k in row.slots(len(operands))]
        return row.jvp(tangents, *operands, plan._sym(plan.result), **attrs)
    if row.forward is None:
        raise Unplanned(row.name)
    plan.direct = row.name in _ONE_STEP and plan.result.whole
    return row.forward(*operands, **attrs)

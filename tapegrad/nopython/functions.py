"""Functions of element-wise rows that Numba does not know: their values and derivatives in compiled code follow from the row.

These are tapegrad's own (``tg.sigmoid``), and those that a row names with ``numpy=``.
"""

import numpy as np
from numba import NumbaError, types
from numba.extending import lower_builtin, overload

from ..array.functions.elementwise import OF_ROW
from ..codegen.emit import Emitter
from ..codegen.numba_inside import refresh, signature, typing_context
from ..rules import lang as L
from ..rules.table import ROWS
from .scalars import FUNCTIONS, UFUNCS, DualTemplate, register
from .types import element, is_real
from .vectorized import by_loops, of_dual_arrays

#: Function -> name of its row.
ADDED = {}


def is_elementwise(function):
    """Whether a function computes each element of its result from those in its place."""
    return isinstance(function, np.ufunc) or function.__hash__ is not None and function in ADDED


def add_rows():
    """Register the functions of all rows of the table with Numba."""
    before = len(ADDED)
    for row in ROWS:
        if row.elementwise and row.arity <= 2 and not row.constants and not row.calls_scipy:
            for function in (*row.numpy, *OF_ROW.get(row.name, ())):
                if function not in ADDED and function not in UFUNCS and function not in FUNCTIONS:
                    ADDED[function] = row.name
                    _add(function, row)
    if len(ADDED) > before:
        refresh()


class _NumberTemplate(DualTemplate):
    """Dual numbers and real ones, or real ones alone."""

    of_arrays = False

    def generic(self, args, kws):
        if len(args) == self.arity and not kws and all(map(is_real, args)):
            return signature(types.float64, *[types.float64] * self.arity) if self.alone else None
        return super().generic(args, kws)


def is_known(function):
    """Whether Numba has been told what a function means."""
    try:
        typing_context().resolve_value_type(function)
    except (ValueError, TypeError, NumbaError):
        return False
    return True


def _add(function, row):
    alone = not is_known(function)  # (Numba computes the values of functions that it knows)
    register(function, row.name, function, _NumberTemplate, alone=alone)
    if alone:
        lower_builtin(function, *[types.Float] * row.arity)(lambda context, builder, sig, args: Emitter(builder, args.__getitem__).number(_value(row)))

    def of_arrays(**operands):
        if alone and all(map(is_real, map(element, operands.values()))) and any(isinstance(ty, types.Array) for ty in operands.values()):
            return by_loops(function, operands, np.float64)
        return of_dual_arrays(function, **operands)

    overload(function, target="cpu")((lambda x: of_arrays(x=x)) if row.arity == 1 else (lambda x, y: of_arrays(x=x, y=y)))


def _value(row):
    """The value of a row as an expression of its operands' positions."""
    return L.Expr.lift(row.expr(*map(L.arg, range(row.arity))))

"""What every compiled loop does with its trial point: has it evaluated, and goes there.

`descent_loop` and `lbfgs_loop` differ in how they choose the trial point, and in when they are content with it.
A step of descent takes some 30 ns: called, not inlined, these would take 2 or 3 of them.
"""

from __future__ import annotations

from ..codegen.compile import inlined
from ..codegen.memory import call_entry, double_at, int_at, load_int, set_double_at, set_int_at
from . import loop as P
from .vectors import copy, slope_norm


@inlined
def evaluated(handle, v, n, r, i):
    """Value and gradient at the trial point; 1, or 0 where Python has to find them (`optimize.loop`)."""
    if handle == 0:
        return 0
    status, value = call_entry(load_int(handle), handle, v + 8 * n * P.XT, v + 8 * n * P.GT)
    if status != 0:
        return 0
    set_double_at(r, P.R_TRIAL, value)
    set_int_at(i, P.I_EVALUATIONS, int_at(i, P.I_EVALUATIONS) + 1)
    set_int_at(i, P.I_PHASE, P.EVALUATED)
    return 1


@inlined
def accept_step(v, n, r, i, history):
    """Make the trial point the current one, and note it in the history."""
    value = double_at(r, P.R_TRIAL)
    if int_at(i, P.I_STARTED) != 0:
        set_double_at(r, P.R_CHANGE, double_at(r, P.R_VALUE) - value)
        set_int_at(i, P.I_ITERATIONS, int_at(i, P.I_ITERATIONS) + 1)
    set_double_at(r, P.R_VALUE, value)
    copy(v + 8 * n * P.X, v + 8 * n * P.XT, n)
    copy(v + 8 * n * P.G, v + 8 * n * P.GT, n)
    norm = slope_norm(
        v + 8 * n * P.X, v + 8 * n * P.G, v + 8 * n * P.LOWER, v + 8 * n * P.UPPER, n, int_at(i, P.I_BOUNDED)
    )
    set_double_at(r, P.R_NORM, norm)
    row = history + 8 * P.COLUMNS * int_at(i, P.I_ROWS)
    set_double_at(row, P.H_VALUE, value)
    set_double_at(row, P.H_NORM, norm)
    set_int_at(i, P.I_ROWS, int_at(i, P.I_ROWS) + 1)
    set_int_at(i, P.I_STARTED, 1)
    set_int_at(i, P.I_PHASE, P.NEXT)

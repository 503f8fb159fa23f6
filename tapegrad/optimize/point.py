"""What every compiled loop does with its trial point: has it evaluated, goes there, and sees whether it has arrived.

`descent_loop` and `lbfgs_loop` differ in how they choose the trial point, and in when they are content with it.
A step of descent takes some 30 ns: called, not inlined, these would take 2 or 3 of them.
"""

from __future__ import annotations

from ..codegen.compile import inlined
from ..codegen.memory import call_entry, load_int
from . import loop as P
from .vectors import slope_norm


@inlined
def evaluated(handle, v, r, i):
    """Value and gradient at the trial point; False where Python has to find them (`optimize.loop`)."""
    if handle == 0:
        return False
    status, value = call_entry(load_int(handle), handle, v[P.XT].ctypes.data, v[P.GT].ctypes.data)
    if status != 0:
        return False
    r[P.R_TRIAL] = value
    i[P.I_EVALUATIONS] += 1
    i[P.I_PHASE] = P.EVALUATED
    return True


@inlined
def accept_step(v, r, i, history):
    """Make the trial point the current one, and note it in the history."""
    x, g, xt, gt = v[P.X], v[P.G], v[P.XT], v[P.GT]
    if i[P.I_STARTED]:
        r[P.R_CHANGE] = r[P.R_VALUE] - r[P.R_TRIAL]
        i[P.I_ITERATIONS] += 1
    for k in range(len(x)):
        x[k], g[k] = xt[k], gt[k]
    r[P.R_VALUE], r[P.R_NORM] = r[P.R_TRIAL], slope_norm(x, g, v[P.LOWER], v[P.UPPER], i[P.I_BOUNDED])
    row = history[i[P.I_ROWS]]
    row[P.H_VALUE], row[P.H_NORM] = r[P.R_VALUE], r[P.R_NORM]
    i[P.I_ROWS] += 1
    i[P.I_STARTED], i[P.I_PHASE] = 1, P.NEXT


@inlined
def ended(r, i, change):
    """Why the current point is the last one, or 0; `change` is how much the value has changed in the last step."""
    value, norm = r[P.R_VALUE], r[P.R_NORM]
    if value - value != 0.0 or norm - norm != 0.0:
        return P.BROKEN
    if norm <= r[P.R_GTOL]:
        return P.GRADIENT
    if i[P.I_ITERATIONS] > 0 and change <= r[P.R_FTOL] * max(abs(value), abs(value + r[P.R_CHANGE]), 1.0):
        return P.CHANGE
    return P.LIMIT if i[P.I_ITERATIONS] >= i[P.I_LIMIT] else 0

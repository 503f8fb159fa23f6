"""The compiled loop of all our optimisers: has its trial point evaluated, goes there, sees whether it has arrived, chooses the next.

They differ in how they choose the trial point (`descended`, `quasi_newton`), and L-BFGS in when it is content with one.
"""

import math

from ..codegen.array_functions import compiled_on_arrays
from ..codegen.compile import helper
from ..codegen.memory import call_entry, load_int
from . import state as P
from .line_search import BROKEN, FOUND, GO_ON, L_SLOPE, L_STEP, LARGEST
from .quasi_newton import begin_step, projected, remember, searched, trial
from .vectors import project, slope_norm


@helper
def descended(v, r, i):
    """The trial point of gradient descent with momentum, or of Adam, from the current one.

    Momentum is B. T. Polyak's heavy ball (1964), or Nesterov's, as PyTorch's SGD has
    them; Adam is D. P. Kingma and J. Ba, "Adam: a method for stochastic optimization" (2015),
    algorithm 1.  With bounds each step is projected onto the box.
    """
    # The velocity, or Adam's first moment; Adam's second one.
    x, g, xt, first, second = v[P.X], v[P.G], v[P.XT], v[P.D], v[P.SCRATCH]
    rate, kind = r[P.R_RATE], i[P.I_KIND]
    if kind == P.ADAM:
        beta1, beta2, epsilon = r[P.R_BETA1], r[P.R_BETA2], r[P.R_EPSILON]
        power1, power2 = r[P.R_POWER1] * beta1, r[P.R_POWER2] * beta2
        r[P.R_POWER1], r[P.R_POWER2] = power1, power2
        size, root = rate / (1.0 - power1), math.sqrt(1.0 - power2)
        for k in range(len(x)):
            slope = g[k]
            first[k] = m = beta1 * first[k] + (1.0 - beta1) * slope
            second[k] = s = beta2 * second[k] + (1.0 - beta2) * slope * slope
            xt[k] = x[k] - size * m / (math.sqrt(s) / root + epsilon)
    else:
        momentum = r[P.R_MOMENTUM]
        for k in range(len(x)):
            slope = g[k]
            first[k] = velocity = momentum * first[k] + slope
            if kind == P.NESTEROV:
                velocity = slope + momentum * velocity
            xt[k] = x[k] - rate * velocity
    if i[P.I_BOUNDED]:
        project(xt, v[P.LOWER], v[P.UPPER])
    i[P.I_PHASE] = P.EVALUATE


@compiled_on_arrays("int64(int64, float64[:, ::1], int64, float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[::1], int64[::1])")
def run(handle, history, budget, v, pairs, products, r, i):
    """Go on; returns why it came back (`optimize.state`).

    Called with the address of the objective's handle (0: Python evaluates), rows for the history, the evaluations that it may ask
    for, and the arrays of a `State`: vectors, pairs of L-BFGS and their products, reals and integers.
    """
    searching = i[P.I_KIND] == P.LBFGS
    while True:
        if i[P.I_PHASE] == P.EVALUATE:
            if budget <= 0:
                return P.BUDGET
            if handle == 0:
                return P.PYTHON
            status, value = call_entry(load_int(handle), handle, v[P.XT].ctypes.data, v[P.GT].ctypes.data)
            if status != 0:
                return P.PYTHON
            r[P.R_TRIAL] = value
            i[P.I_EVALUATIONS] += 1
            i[P.I_PHASE] = P.EVALUATED
            budget -= 1
        elif i[P.I_PHASE] == P.EVALUATED:
            if i[P.I_ROWS] >= len(history):
                return P.FULL
            outcome = FOUND
            if searching and i[P.I_STARTED]:
                outcome = projected(v, r, i) if i[P.I_BOUNDED] else searched(v, r, i)
            if outcome == FOUND:
                x, g, xt, gt = v[P.X], v[P.G], v[P.XT], v[P.GT]
                if i[P.I_STARTED]:
                    if searching:
                        remember(v, pairs, products, i)
                    r[P.R_CHANGE] = r[P.R_VALUE] - r[P.R_TRIAL]
                    i[P.I_ITERATIONS] += 1
                for k in range(len(x)):
                    x[k], g[k] = xt[k], gt[k]
                r[P.R_VALUE], r[P.R_NORM] = r[P.R_TRIAL], slope_norm(x, g, v[P.LOWER], v[P.UPPER], i[P.I_BOUNDED])
                row = history[i[P.I_ROWS]]
                row[P.H_VALUE], row[P.H_NORM] = r[P.R_VALUE], r[P.R_NORM]
                i[P.I_ROWS] += 1
                i[P.I_STARTED], i[P.I_PHASE] = 1, P.NEXT
            elif outcome == GO_ON:
                trial(v, r, i)
            elif outcome == BROKEN:
                return P.BROKEN
            elif i[P.I_PAIRS] > 0:
                # What the pairs say does not help here: once more, straight down.
                i[P.I_PAIRS] = 0
                if not begin_step(v, pairs, products, r, i):
                    i[P.I_PHASE] = P.NEXT
                    return P.STUCK
            else:
                # No step lowers the value: none could by more than rounding, which is a solution, or something is wrong.
                i[P.I_PHASE] = P.NEXT
                promised = -r[P.R_SEARCH + L_SLOPE] * r[P.R_FIRST]
                return P.CHANGE if promised <= r[P.R_ROUNDING] * max(abs(r[P.R_VALUE]), 1.0) else P.STUCK
        else:
            value, norm, change = r[P.R_VALUE], r[P.R_NORM], r[P.R_CHANGE]
            if not searching:
                # An ftol of 0 says that a step without change is no end.
                change = abs(change) if r[P.R_FTOL] > 0.0 else math.inf
            if value - value != 0.0 or norm - norm != 0.0:
                return P.BROKEN
            if norm <= r[P.R_GTOL]:
                return P.GRADIENT
            if i[P.I_ITERATIONS] > 0:
                if searching and r[P.R_SEARCH + L_STEP] >= LARGEST:
                    return P.ENDLESS
                if change <= r[P.R_FTOL] * max(max(abs(value), abs(value + r[P.R_CHANGE])), 1.0):
                    return P.CHANGE
            if i[P.I_ITERATIONS] >= i[P.I_LIMIT]:
                return P.LIMIT
            if not searching:
                descended(v, r, i)
            elif not begin_step(v, pairs, products, r, i):
                return P.STUCK

"""Gradient descent with momentum, and Adam, in a compiled loop.

Momentum is B. T. Polyak's heavy ball (1964), or Nesterov's, as PyTorch's SGD has
them; Adam is D. P. Kingma and J. Ba, "Adam: a method for stochastic optimization" (2015),
algorithm 1.  With bounds each step is projected onto the box.
"""

from __future__ import annotations

import math

from ..codegen.array_functions import compiled_on_arrays
from ..codegen.compile import inlined
from . import loop as P
from .point import accept_step, ended, evaluated
from .vectors import project

#: Kinds of steps.
HEAVY_BALL, NESTEROV, ADAM = range(3)


@inlined
def step(v, r, i):
    """The trial point from the current one."""
    # The velocity, or Adam's first moment; Adam's second one.
    x, g, xt, first, second = v[P.X], v[P.G], v[P.XT], v[P.D], v[P.SCRATCH]
    rate, kind = r[P.R_RATE], i[P.I_KIND]
    if kind == ADAM:
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
            if kind == NESTEROV:
                velocity = slope + momentum * velocity
            xt[k] = x[k] - rate * velocity
    if i[P.I_BOUNDED]:
        project(xt, v[P.LOWER], v[P.UPPER])
    i[P.I_PHASE] = P.EVALUATE


@compiled_on_arrays(P.SIGNATURE)
def descend(handle, history, budget, v, pairs, products, r, i):
    """Go on; returns why it came back (`optimize.loop`, which has the parameters)."""
    while True:
        if i[P.I_PHASE] == P.EVALUATE:
            if budget <= 0:
                return P.BUDGET
            if not evaluated(handle, v, r, i):
                return P.PYTHON
            budget -= 1
        elif i[P.I_PHASE] == P.EVALUATED:
            if i[P.I_ROWS] >= len(history):
                return P.FULL
            accept_step(v, r, i, history)
        else:
            # An ftol of 0 says that a step without change is no end.
            why = ended(r, i, abs(r[P.R_CHANGE]) if r[P.R_FTOL] > 0.0 else math.inf)
            if why:
                return why
            step(v, r, i)

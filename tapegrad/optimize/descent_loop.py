"""Gradient descent with momentum, and Adam, in a compiled loop.

Momentum is B. T. Polyak's heavy ball (1964), or Nesterov's, as PyTorch's SGD has
them; Adam is D. P. Kingma and J. Ba, "Adam: a method for stochastic optimization" (2015),
algorithm 1.  With bounds each step is projected onto the box.
"""

from __future__ import annotations

import math

from ..codegen.compile import compiled
from ..codegen.memory import double_at, int_at, set_double_at, set_int_at
from . import loop as P
from .point import accept_step, evaluated
from .vectors import project

#: Kinds of steps.
HEAVY_BALL, NESTEROV, ADAM = range(3)


@compiled("void(int64, int64, int64)")
def step(v, r, i):
    """The trial point from the current one."""
    n, kind = int_at(i, P.I_SIZE), int_at(i, P.I_KIND)
    x, g, xt = v + 8 * n * P.X, v + 8 * n * P.G, v + 8 * n * P.XT
    # The velocity, or Adam's first moment; Adam's second one.
    first, second = v + 8 * n * P.D, v + 8 * n * P.SCRATCH
    rate = double_at(r, P.R_RATE)
    if kind == ADAM:
        beta1, beta2, epsilon = double_at(r, P.R_BETA1), double_at(r, P.R_BETA2), double_at(r, P.R_EPSILON)
        power1, power2 = double_at(r, P.R_POWER1) * beta1, double_at(r, P.R_POWER2) * beta2
        set_double_at(r, P.R_POWER1, power1)
        set_double_at(r, P.R_POWER2, power2)
        size, root = rate / (1.0 - power1), math.sqrt(1.0 - power2)
        for k in range(n):
            slope = double_at(g, k)
            m = beta1 * double_at(first, k) + (1.0 - beta1) * slope
            s = beta2 * double_at(second, k) + (1.0 - beta2) * slope * slope
            set_double_at(first, k, m)
            set_double_at(second, k, s)
            set_double_at(xt, k, double_at(x, k) - size * m / (math.sqrt(s) / root + epsilon))
    else:
        momentum = double_at(r, P.R_MOMENTUM)
        for k in range(n):
            slope = double_at(g, k)
            velocity = momentum * double_at(first, k) + slope
            set_double_at(first, k, velocity)
            if kind == NESTEROV:
                velocity = slope + momentum * velocity
            set_double_at(xt, k, double_at(x, k) - rate * velocity)
    if int_at(i, P.I_BOUNDED) != 0:
        project(xt, v + 8 * n * P.LOWER, v + 8 * n * P.UPPER, n)


@compiled("int64(int64, int64, int64, int64, int64, int64, int64)")
def descend(handle, v, r, i, history, room, budget):
    """Go on; returns why it came back (`optimize.loop`).  Parameters as of `optimize.lbfgs_loop.lbfgs`."""
    n = int_at(i, P.I_SIZE)
    while True:
        phase = int_at(i, P.I_PHASE)
        if phase == P.EVALUATE:
            if budget <= 0:
                return P.BUDGET
            if evaluated(handle, v, n, r, i) == 0:
                return P.PYTHON
            budget -= 1
        elif phase == P.EVALUATED:
            if int_at(i, P.I_ROWS) >= room:
                return P.FULL
            accept_step(v, n, r, i, history)
        else:
            value, norm = double_at(r, P.R_VALUE), double_at(r, P.R_NORM)
            if value - value != 0.0 or norm - norm != 0.0:
                return P.BROKEN
            if norm <= double_at(r, P.R_GTOL):
                return P.GRADIENT
            change, ftol = double_at(r, P.R_CHANGE), double_at(r, P.R_FTOL)
            if int_at(i, P.I_ITERATIONS) > 0 and ftol > 0.0 and abs(change) <= ftol * max(abs(value), abs(value + change), 1.0):
                return P.CHANGE
            if int_at(i, P.I_ITERATIONS) >= int_at(i, P.I_LIMIT):
                return P.LIMIT
            step(v, r, i)
            set_int_at(i, P.I_PHASE, P.EVALUATE)

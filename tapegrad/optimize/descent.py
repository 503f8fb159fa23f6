"""The steps of gradient descent with momentum, and of Adam, for the compiled loop (`optimize.run`).

Momentum is B. T. Polyak's heavy ball (1964), or Nesterov's, as PyTorch's SGD has
them; Adam is D. P. Kingma and J. Ba, "Adam: a method for stochastic optimization" (2015),
algorithm 1.  With bounds each step is projected onto the box.
"""

from __future__ import annotations

import math

from ..codegen.compile import helper
from . import loop as P
from .vectors import project


@helper
def step(v, r, i):
    """The trial point from the current one."""
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

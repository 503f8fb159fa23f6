"""Gradient of a fit of an ordinary differential equation by dual numbers inside Numba's nopython mode.

Hares and lynxes (Lotka and Volterra) by 1 000 steps of the classical Runge-Kutta
method, compared with twenty observations: four rates and two initial values.  The
primal is the same function under ``@njit``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

import tapegrad as tg

from .registry import Row, benchmark, check_agreement
from .timing import measure

STEPS = 1000
EVERY = 50
TIMES = 20.0


def rates(u, v, a, b, c, d):
    return a * u - b * u * v, d * u * v - c * v


def squared_residuals(a, b, c, d, u, v, data, steps):
    """Sum of squares of the residuals; plain Python, compiled from here."""
    h = TIMES / STEPS
    total = 0.0
    for k in range(steps):
        if k % EVERY == 0:
            total += (u - data[k // EVERY, 0]) ** 2 + (v - data[k // EVERY, 1]) ** 2
        u1, v1 = rates(u, v, a, b, c, d)
        u2, v2 = rates(u + 0.5 * h * u1, v + 0.5 * h * v1, a, b, c, d)
        u3, v3 = rates(u + 0.5 * h * u2, v + 0.5 * h * v2, a, b, c, d)
        u4, v4 = rates(u + h * u3, v + h * v3, a, b, c, d)
        u += h / 6.0 * (u1 + 2.0 * u2 + 2.0 * u3 + u4)
        v += h / 6.0 * (v1 + 2.0 * v2 + 2.0 * v3 + v4)
    return total


@benchmark(name="nopython_duals")
def nopython_duals(quick: bool) -> Iterator[Row]:
    """Gradient of a 6-parameter ODE fit in nopython code beside the compiled function."""
    import numba

    data = np.column_stack([np.linspace(30.0, 10.0, STEPS // EVERY), np.linspace(4.0, 20.0, STEPS // EVERY)])
    at = (0.55, 0.028, 0.84, 0.026, 34.0, 5.9)

    primal = _compiled(numba)
    start = time.perf_counter()
    value = primal(*at, data, STEPS)
    primal_first = time.perf_counter() - start

    gradient = tg.njit_value_and_grad(squared_residuals, argnums=(0, 1, 2, 3, 4, 5))
    start = time.perf_counter()
    found_value, found = gradient(*at, data, STEPS)
    first = time.perf_counter() - start

    steps = []
    for k in range(6):
        h = 1e-6 * at[k]
        up, down = ([x + s * h * (i == k) for i, x in enumerate(at)] for s in (1, -1))
        steps.append((primal(*up, data, STEPS) - primal(*down, data, STEPS)) / (2 * h))
    check_agreement("value", {"primal": value, "dual numbers": found_value}, rtol=0.0)
    check_agreement("gradient", {"dual numbers": np.array(found), "differences": np.array(steps)}, rtol=1e-5)

    times = measure(
        {"primal": lambda: primal(*at, data, STEPS), "gradient": lambda: gradient(*at, data, STEPS)},
        budget=1.0 if quick else 4.0, at_least=20,
    )  # fmt: skip
    yield Row(
        "value and gradient by 6 parameters, over the compiled primal",
        "at most 2.5 times the primal",
        times["gradient"].minimum / times["primal"].minimum,
        2.5,
        "x",
        {name: str(t) for name, t in times.items()},
    )
    detail = {"first call of the primal": f"{primal_first:.3g} s"}
    yield Row("first gradient, compilation included", "", first, None, "s", detail)


def _compiled(numba):
    """The primal under ``@njit``, with its helper."""
    namespace = {**globals(), "rates": numba.njit(rates)}
    copy = type(squared_residuals)(squared_residuals.__code__, namespace, "squared_residuals")
    return numba.njit(copy)

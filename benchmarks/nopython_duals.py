"""Gradient of a fit of an ordinary differential equation by dual numbers inside Numba's nopython mode.

Hares and lynxes (Lotka and Volterra) by 1 000 steps of the classical Runge-Kutta
method, compared with twenty observations: four rates and two initial values.  The
primal is the same function under ``@njit``.  Beside it loops over the elements of an array, and expressions
of whole arrays, of which nothing is promised: eight parameters, so eight tangents in one run.
"""

from __future__ import annotations

import math
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


def by_loop(p, t):
    """Sum of squares of a curve with eight parameters, element by element."""
    total = 0.0
    for i in range(len(t)):
        y = p[0] * math.exp(-p[1] * t[i]) + p[2] * math.sin(p[3] * t[i] + p[4]) + p[5] / (1.0 + p[6] * t[i]) + p[7]
        total += y * y
    return total


def polynomial(p, t):
    """Sum of squares of a polynomial: sums and products only, where tangents weigh most."""
    total = 0.0
    for i in range(len(t)):
        y = p[7]
        for k in range(6, -1, -1):
            y = y * t[i] + p[k]
        total += y * y
    return total


def by_arrays(p, t):
    """The curve of `by_loop` on whole arrays."""
    y = p[0] * np.exp(-p[1] * t) + p[2] * np.sin(p[3] * t + p[4]) + p[5] / (1.0 + p[6] * t) + p[7]
    return np.sum(y * y)


def eight_tangents(numba, what: str, function, quick: bool) -> Row:
    """What eight tangents cost beside the function alone."""
    p, t = np.linspace(0.3, 1.0, 8), np.linspace(0.0, 3.0, 1000)
    primal, gradient = numba.njit(function), tg.njit_grad(function, lanes=8)
    steps = [(function(p + h, t) - function(p - h, t)) / 2e-6 for h in 1e-6 * np.eye(8)]
    check_agreement(what, {"dual numbers": gradient(p, t), "differences": steps}, rtol=1e-6)
    times = measure({"primal": lambda: primal(p, t), "gradient": lambda: gradient(p, t)}, budget=1.0 if quick else 3.0)
    ratio = times["gradient"].minimum / times["primal"].minimum
    detail = {name: str(time) for name, time in times.items()}
    return Row(f"8 tangents, {what}, over the compiled primal", measured=ratio, detail=detail)


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
    yield Row("first gradient, compilation included", "", first, None, "s")
    yield Row("first call of the compiled function itself", "", primal_first, None, "s")
    cases = {"a loop of exp and sin": by_loop, "a loop of sums and products": polynomial}
    cases["expressions of whole arrays"] = by_arrays
    for what, function in cases.items():
        yield eight_tangents(numba, what, function, quick)


def _compiled(numba):
    """The primal under ``@njit``, with its helper."""
    namespace = {**globals(), "rates": numba.njit(rates)}
    copy = type(squared_residuals)(squared_residuals.__code__, namespace, "squared_residuals")
    return numba.njit(copy)

"""ode: Runge-Kutta steps of a chain of linear equations whose rates are the variables."""

from __future__ import annotations

import numpy as np

import tapegrad as tg

from ..given import array, count

END = 2.0


def rates(x, y):
    """y_0' = x_0, y_i' = x_i y_{i-1}."""
    return np.concatenate((x[:1], x[1:] * y[:-1]))


def solution(x, steps):
    """y(2) by the classical Runge-Kutta method, from y(0) = 0."""
    h = END / steps
    y = np.zeros(len(x))
    for _ in range(steps):
        k1 = rates(x, y)
        k2 = rates(x, y + h / 2 * k1)
        k3 = rates(x, y + h / 2 * k2)
        k4 = rates(x, y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def last(x, steps):
    """The last component of the solution."""
    return solution(x, steps)[-1]


gradient = tg.jit(tg.grad(last))


def _read(given):
    return array(given, "x", None), count(given, "s")


def _primal(given):
    x, steps = _read(given)
    return lambda: solution(x, steps), np.ndarray.tolist


def _gradient(given):
    x, steps = _read(given)
    return lambda: gradient(x, steps), np.ndarray.tolist


FUNCTIONS = {"primal": _primal, "gradient": _gradient}

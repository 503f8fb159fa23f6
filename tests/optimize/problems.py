"""Objectives of which the minimum is known."""

import numpy as np


def rosenbrock(x):
    total = 0.0
    for i in range(len(x) - 1):
        total = total + 100.0 * (x[i + 1] - x[i] * x[i]) ** 2 + (1.0 - x[i]) ** 2
    return total


def branching(x):
    """Huber's function of every element less its index, by branches; the path changes on the way."""
    total = 0.0
    for k in range(len(x)):
        distance = x[k] - k
        if abs(distance) > 1.0:
            total = total + abs(distance) - 0.5
        else:
            total = total + 0.5 * distance * distance
    return total


def contained(p):
    return np.sum((p["w"] - np.arange(6.0).reshape(2, 3)) ** 2) + (p["b"] - p["w"][0, 1]) ** 2


#: The minimum of `contained` is here, and its value is 0.
CONTAINED = {"w": np.arange(6.0).reshape(2, 3), "b": 1.0}

"""Functions that several benchmarks differentiate, as a user writes them; plain Python, no imports but NumPy.

Those that another library is to run as well are given its functions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def rosenbrock_loop(x):
    """Rosenbrock's function as a loop; `x` may be anything with elements."""
    total = 0.0
    for i in range(x.shape[0] - 1):
        total = total + 100.0 * (x[i + 1] - x[i] * x[i]) ** 2 + (1.0 - x[i]) ** 2
    return total


def rosenbrock(x):
    """Rosenbrock's function on whole arrays, of any library."""
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


def lotka_volterra(steps: int, h: float) -> Callable:
    """Runge-Kutta steps of prey and predators; four rates and the two starting values are the variables."""

    def f(p):
        a, b, c, d, u, v = p[0], p[1], p[2], p[3], p[4], p[5]

        def rates(u, v):
            return (a - b * v) * u, (d * u - c) * v

        for _ in range(steps):
            u1, v1 = rates(u, v)
            u2, v2 = rates(u + h / 2 * u1, v + h / 2 * v1)
            u3, v3 = rates(u + h / 2 * u2, v + h / 2 * v2)
            u4, v4 = rates(u + h * u3, v + h * v3)
            u = u + h / 6 * (u1 + 2.0 * u2 + 2.0 * u3 + u4)
            v = v + h / 6 * (v1 + 2.0 * v2 + 2.0 * v3 + v4)
        return u * u + v * v

    return f


#: Where `lotka_volterra` is differentiated.
RATES = [0.55, 0.028, 0.80, 0.024, 33.0, 6.0]


def chain(count: int, sin: Callable = np.sin) -> Callable:
    """A loop of `count` instructions on numbers."""

    def f(x):
        y, total = x[0], 0.0
        for _ in range(count // 4):
            y = y * 1.0001 + sin(y)
            total = total + y
        return total

    return f


def irregular(count: int) -> Callable:
    """About as many instructions of four variables, no two stretches of them alike: no loop can be found in them."""

    def f(x):
        rng = np.random.default_rng(5)
        kinds, picks = rng.integers(0, 5, count).tolist(), rng.integers(1, 17, (count, 2)).tolist()
        values = [x[k % 4] * (1.0 + k) for k in range(16)]
        for kind, (a, b) in zip(kinds, picks):
            a, b = values[-a], values[-b]
            if kind == 0:
                a = np.sin(a)
            elif kind == 1:
                a = 0.5 * (a + b)
            elif kind == 2:
                a = a - b
            elif kind == 3:
                a = np.tanh(a * b)
            else:
                a = 0.3 * a
            values.append(a)
        return sum(values[-16:], 0.0)

    return f


def mixed(a, b, x, y):
    """Twenty operations of ten kinds on numbers: + - * / negative square sqrt exp tanh sin; the next `a` and `b`."""
    c = a * b + x
    d = np.sin(c) - a
    e = np.tanh(d * y)
    f = np.sqrt(np.square(e) + 1.5)
    g = np.exp(-f) + b / f
    return (g + c * 0.5) / (f + 1.0), d * 0.25 - e * g

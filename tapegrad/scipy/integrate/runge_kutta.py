"""Explicit Runge-Kutta steps on whatever NumPy's functions take.

The coefficients are those of SciPy's classes: of J. Dormand and P. Prince, "A family of embedded
Runge-Kutta formulae", J. Comput. Appl. Math. 6 (1980), with the quartic
interpolant of L. Shampine, "Some practical Runge-Kutta formulas", Math. Comput.
46 (1986); and of P. Bogacki and L. Shampine, "A 3(2) pair of Runge-Kutta
formulas", Appl. Math. Lett. 2 (1989).
"""

from __future__ import annotations

import numpy as np

from ...array.record import apply
from ..mirrors import value


def moved(y, h, factors, stages):
    """``y + h * sum(factors * stages)``."""
    return apply("runge_kutta_stage", (y, h, *stages), (("factors", tuple(float(f) for f in factors)),))


class Segment:
    """A step from `y` at `t`, where the slope is `f`, to a time `new`, and its interpolant."""

    def __init__(self, fun, t, y, f, new, table):
        self.t, self.y, self.h, self.table, self.stages = t, y, new - t, table, [f]
        for c, a in zip(table.C[1:].tolist(), table.A[1:]):
            self.stages.append(fun(t + c * self.h, moved(y, self.h, a[: len(self.stages)], self.stages)))
        self.end = moved(y, self.h, table.B, self.stages)
        self.slope = fun(t + self.h, self.end)
        self.stages.append(self.slope)

    def __call__(self, t):
        """The solution at times `t`: shape (n,) for a scalar, (n, m) for a vector."""
        x = (t - self.t) / self.h
        powers = [x]
        for _ in range(self.table.P.shape[1] - 1):
            powers.append(powers[-1] * x)
        polynomial = np.stack(self.stages, axis=1) @ self.table.P
        change = self.h * (polynomial @ np.stack(powers))
        return change + (np.expand_dims(self.y, 1) if change.ndim == 2 else self.y)


class Constant:
    """The solution where no step is taken; its end moves with the ends of the integration."""

    def __init__(self, y, end):
        self.y, self.end, self.slope = y, end, None

    def __call__(self, t):
        times = value(t)
        return self.y if times.ndim == 0 else np.expand_dims(self.y, 1) * np.ones(times.shape)


def classical_step(fun, t, y, h):
    """One step of size `h` of the classical method of order 4."""
    k1 = fun(t, y)
    k2 = fun(t + 0.5 * h, y + 0.5 * h * k1)
    k3 = fun(t + 0.5 * h, y + 0.5 * h * k2)
    k4 = fun(t + h, y + h * k3)
    return y + h * (k1 + 2.0 * k2 + 2.0 * k3 + k4) / 6.0

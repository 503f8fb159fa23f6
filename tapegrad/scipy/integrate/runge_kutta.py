"""Explicit Runge-Kutta steps on whatever NumPy's functions take, and the choice of their size.

The coefficients are those of SciPy's classes: of J. Dormand and P. Prince, "A family of embedded
Runge-Kutta formulae", J. Comput. Appl. Math. 6 (1980), with the quartic
interpolant of L. Shampine, "Some practical Runge-Kutta formulas", Math. Comput.
46 (1986); and of P. Bogacki and L. Shampine, "A 3(2) pair of Runge-Kutta
formulas", Appl. Math. Lett. 2 (1989).  The first step and the control of the
size follow E. Hairer, S. Nørsett and G. Wanner, "Solving ordinary differential
equations I", section II.4, with the constants of SciPy, so that plain numbers
take the same steps.
"""

from __future__ import annotations

import numpy as np

from ...array.record import apply
from ...tape.modes import no_grad
from ..mirrors import value

SAFETY, MIN_FACTOR, MAX_FACTOR = 0.9, 0.2, 10.0
TOO_SMALL = "Required step size is less than spacing between numbers."


def moved(y, h, factors, stages):
    """``y + h * sum(factors * stages)``."""
    return apply("runge_kutta_stage", (y, h, *stages), (("factors", tuple(float(f) for f in factors)),))


class Segment:
    """One accepted step and its interpolant."""

    def __init__(self, t, y, h, stages, table):
        self.t, self.y, self.h, self.stages, self.table = t, y, h, stages, table

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
    """The solution where no step is taken."""

    def __init__(self, y):
        self.y = y

    def __call__(self, t):
        times = value(t)
        return self.y if times.ndim == 0 else np.expand_dims(self.y, 1) * np.ones(times.shape)


def rms(x):
    """Root mean square norm."""
    return np.linalg.norm(x) / x.size**0.5


def first_step_size(fun, t, y, span, direction, max_step, f, order, rtol, atol):
    """A size for the first step, from one explicit Euler step."""
    if y.size == 0:
        return np.inf
    if span == 0.0:
        return 0.0
    scale = atol + np.abs(y) * rtol
    d0, d1 = rms(y / scale), rms(f / scale)
    h0 = min(1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1, span)
    with no_grad():
        f1 = value(fun(t + h0 * direction, y + h0 * direction * f))
    d2 = rms((f1 - f) / scale) / h0
    h1 = max(1e-6, h0 * 1e-3) if d1 <= 1e-15 and d2 <= 1e-15 else (0.01 / max(d1, d2)) ** (1 / (order + 1))
    return min(100 * h0, h1, span, max_step)


class Stepper:
    """An adaptive integration from `t` to `end`, a step at a time.

    Step sizes are decided by detached values: a step is a constant of the
    derivative, except the last one, which ends where the interval ends.
    """

    def __init__(self, table, fun, t, y, end, max_step, first_step, rtol, atol):
        self.table, self.fun, self.t, self.y, self.end = table, fun, t, y, end
        self.max_step, self.rtol, self.atol = max_step, rtol, atol
        self.now, self.last = float(value(t)), float(value(end))
        self.direction = np.sign(self.last - self.now) if self.last != self.now else 1.0
        self.f = fun(t, y)
        self.size = first_step
        if first_step is None:
            span = abs(self.last - self.now)
            self.size = first_step_size(
                fun, self.now, value(y), span, self.direction, max_step, value(self.f), table.error_estimator_order, rtol, atol
            )

    @property
    def done(self):
        """Whether the end is reached."""
        return self.direction * (self.now - self.last) >= 0

    def stand(self):
        """The step of an integration over nothing; it moves with the ends."""
        segment = Constant(self.y)
        self.y = self.y + (self.end - self.t) * self.f
        self.t = self.end
        return segment

    def step(self):
        """Take one step; returns its `Segment`, or None if it would have to be too small."""
        table, t, y = self.table, self.t, self.y
        smallest = 10 * abs(np.nextafter(self.now, self.direction * np.inf) - self.now)
        size = self.max_step if self.size > self.max_step else max(self.size, smallest)
        rejected = False
        while True:
            if size < smallest:
                return None
            new = self.now + size * self.direction
            t_new = t + size * self.direction
            if self.direction * (new - self.last) >= 0:
                new, t_new = self.last, self.end
            h = t_new - t
            size = abs(new - self.now)
            stages = [self.f]
            for c, a in zip(table.C[1:].tolist(), table.A[1:]):
                stages.append(self.fun(t + c * h, moved(y, h, a[: len(stages)], stages)))
            y_new = moved(y, h, table.B, stages)
            f_new = self.fun(t + h, y_new)
            stages.append(f_new)
            scale = self.atol + np.maximum(np.abs(value(y)), np.abs(value(y_new))) * self.rtol
            error = rms(np.dot(np.stack([value(k) for k in stages], 1), table.E) * (new - self.now) / scale)
            exponent = -1 / (table.error_estimator_order + 1)
            if error < 1:
                break
            size *= max(MIN_FACTOR, SAFETY * error**exponent)
            rejected = True
        factor = MAX_FACTOR if error == 0 else min(MAX_FACTOR, SAFETY * error**exponent)
        self.size = size * (min(1, factor) if rejected else factor)
        self.t, self.now, self.y, self.f = t_new, new, y_new, f_new
        return Segment(t, y, h, stages, table)


def classical_step(fun, t, y, h):
    """One step of size `h` of the classical method of order 4."""
    k1 = fun(t, y)
    k2 = fun(t + 0.5 * h, y + 0.5 * h * k1)
    k3 = fun(t + 0.5 * h, y + 0.5 * h * k2)
    k4 = fun(t + h, y + h * k3)
    return y + h * (k1 + 2.0 * k2 + 2.0 * k3 + k4) / 6.0

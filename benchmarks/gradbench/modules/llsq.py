"""llsq: least squares of a polynomial against the sign function."""

from __future__ import annotations

import numpy as np

import tapegrad as tg

from ..given import array, count


def objective(x, n):
    """Half the sum of squared residuals at `n` points of [-1, 1]; `x` are the coefficients."""
    t = np.linspace(-1.0, 1.0, n)
    powers = np.vander(t, len(x), increasing=True)
    residuals = np.sign(t) - powers @ x
    return 0.5 * np.sum(residuals**2)


gradient = tg.jit(tg.grad(objective))


def _read(given):
    return array(given, "x", None), count(given, "n", 2)


def _primal(given):
    x, n = _read(given)
    return lambda: objective(x, n), float


def _gradient(given):
    x, n = _read(given)
    return lambda: gradient(x, n), np.ndarray.tolist


FUNCTIONS = {"primal": _primal, "gradient": _gradient}

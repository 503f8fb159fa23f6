"""lse: the logarithm of a sum of exponentials."""

from __future__ import annotations

import numpy as np

import tapegrad as tg

from ..given import array


def objective(x):
    """log(sum(exp(x))), with the maximum taken out first."""
    top = np.max(x)
    return top + np.log(np.sum(np.exp(x - top)))


gradient = tg.jit(tg.grad(objective))


def _primal(given):
    x = array(given, "x", None)
    return lambda: objective(x), float


def _gradient(given):
    x = array(given, "x", None)
    return lambda: gradient(x), np.ndarray.tolist


FUNCTIONS = {"primal": _primal, "gradient": _gradient}

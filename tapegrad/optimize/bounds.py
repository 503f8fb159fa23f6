"""Bounds in the forms users give them, as two vectors."""

from __future__ import annotations

import numpy as np

from ..common.errors import OptimizationError
from ..common.tree import flatten


def as_bounds(bounds, layout, two_sided=False):
    """Lower and upper bound of every element of the vector.

    Parameters
    ----------
    bounds : scipy.optimize.Bounds, or sequence of (low, high), or pair of containers
        A pair for each element as in SciPy (None: no bound), an object with ``lb`` and ``ub``, or
        ``(lower, upper)`` where each has the containers of the start or is one number for all.
    two_sided : bool
        Whether two things are ``(lower, upper)`` for a vector, too, as SciPy's `least_squares` takes them.

    Raises
    ------
    OptimizationError
        If they do not fit the start, or a lower bound is above the upper one.
    """
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        lower, upper = layout.spread(bounds.lb, "bounds.lb"), layout.spread(bounds.ub, "bounds.ub")
    elif _pairs(bounds, layout) and not (two_sided and layout.is_vector and len(bounds) == 2):
        pairs = list(bounds)
        lower = np.array([-np.inf if low is None else low for low, _ in pairs], np.float64)
        upper = np.array([np.inf if high is None else high for _, high in pairs], np.float64)
    elif isinstance(bounds, (tuple, list)) and len(bounds) == 2 and (two_sided or not layout.is_vector):
        lower, upper = layout.spread(bounds[0], "the lower bound"), layout.spread(bounds[1], "the upper bound")
    else:
        count = len(bounds) if hasattr(bounds, "__len__") else type(bounds).__name__
        raise OptimizationError(
            f"bounds={_short(bounds)} ({count}) do not fit x0 of {layout.size} numbers: give one (low, high) for each, "
            "scipy.optimize.Bounds(lower, upper), or for containers a pair of containers like x0"
        )
    lower, upper = np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), np.inf, upper)
    if (lower > upper).any():
        k = int(np.flatnonzero(lower > upper)[0])
        raise OptimizationError(f"bounds of {layout.name_of(k)}: the lower one, {lower[k]}, is above the upper one, {upper[k]}")
    return lower, upper


def _pairs(bounds, layout):
    """Whether `bounds` has a (low, high) for each element of the vector."""
    if isinstance(bounds, dict) or not hasattr(bounds, "__len__") or len(bounds) != layout.size:
        return False
    return all(hasattr(pair, "__len__") and not isinstance(pair, (dict, str)) and len(pair) == 2 and _numbers(pair) for pair in bounds)


def _numbers(pair):
    return all(leaf is None or np.ndim(leaf) == 0 for leaf in flatten(list(pair))[0])


def _short(bounds):
    text = repr(bounds)
    return text if len(text) <= 60 else text[:57] + "..."

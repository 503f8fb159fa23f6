"""What NumPy computes without derivative, in the rules' language: ufuncs, and functions of `tapegrad.common.host_functions`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.linalg import _umath_linalg

from ..rules import lang as L

#: Element-wise rows that integers may go through.
INTEGER_OPERATIONS = frozenset("add subtract multiply negative maximum minimum where clone square power2 relu clip".split())


@dataclass(frozen=True)
class HostFunction:
    """A ufunc without derivative in the rules' language; `of`: the dtypes for which that holds (None: all)."""

    build: Callable
    of: str | None = None


#: NumPy's ufuncs without derivative, by name.
HOST_FUNCTIONS = {
    "less": HostFunction(lambda x, y: x < y),
    "less_equal": HostFunction(lambda x, y: x <= y),
    "greater": HostFunction(lambda x, y: x > y),
    "greater_equal": HostFunction(lambda x, y: x >= y),
    "equal": HostFunction(L.eq),
    "not_equal": HostFunction(L.ne),
    "logical_and": HostFunction(lambda x, y: x & y),
    "logical_or": HostFunction(lambda x, y: x | y),
    "logical_not": HostFunction(lambda x: ~x),
    "bitwise_and": HostFunction(lambda x, y: x & y, "?"),
    "bitwise_or": HostFunction(lambda x, y: x | y, "?"),
    "invert": HostFunction(lambda x: ~x, "?"),
    "logical_xor": HostFunction(L.ne, "?"),
    "bitwise_xor": HostFunction(L.ne, "?"),
    "isnan": HostFunction(L.isnan, "df"),
    "isfinite": HostFunction(lambda x: L.abs(x) < math.inf, "df"),
    "isinf": HostFunction(lambda x: L.eq(L.abs(x), math.inf), "df"),
    "add": HostFunction(lambda x, y: x + y, "bBhHiIlLqQdf"),
    "subtract": HostFunction(lambda x, y: x - y, "bBhHiIlLqQdf"),
    "multiply": HostFunction(lambda x, y: x * y, "bBhHiIlLqQdf"),
    "negative": HostFunction(lambda x: -x, "bhilqdf"),
}


def _as_it_is(plan, x, *_):
    # The result is delivered in its own dtype.
    return x


def _truth(plan, x):
    return x if x.char == "?" else L.ne(x, 0.0)


def _all_finite(plan, x):
    wrong = L.select(L.abs(x) < math.inf, 0.0, 1.0)
    return L.eq(wrong.sum() if x.ndim else wrong, 0.0)


def _undetermined(plan, result, x):
    last = (x.ndim - 2, x.ndim - 1)
    return L.isnan(result) & L.eq(L.select(L.isnan(x), 1.0, 0.0).sum(last), 0.0)


def _at_classes(plan, target, classes):
    plan.demand((target >= 0.0) & (target < float(classes)))
    starts = plan.constant(np.arange(target.size) * classes, "l")
    return starts + target.window().reshape((target.size,))


def _taken(plan, at, shape, axis, mode):
    if axis is None:
        shape, axis = (math.prod(shape),), 0
    axis, n, positions = axis % len(shape), shape[axis], np.arange(math.prod(shape)).reshape(shape)
    if mode == "raise":
        plan.demand((at >= float(-n)) & (at < float(n)))
        at = L.select(at < 0.0, at + float(n), at)
    elif mode == "clip":
        at = L.select(at < 0.0, 0.0, L.select(at >= float(n), float(n - 1), at))
    else:
        return None
    lead, trail = len(shape[:axis]), shape[axis + 1 :]
    starts = plan.constant(np.take(positions, 0, axis), "l").expand_dims(range(lead, lead + at.ndim))
    at = (at * float(math.prod(trail))).own()
    return starts + at.expand_dims(range(at.ndim, at.ndim + len(trail)))


#: Functions of `tapegrad.common.host_functions` by name: ``(planner, *operands, *data)``; None if NumPy has to do it after all.
RECOMPUTED = {
    "truth": _truth,
    "cast": _as_it_is,
    "all_finite": _all_finite,
    "sign_of_det": lambda plan, a: plan.gufunc(_umath_linalg.slogdet, a)[0],
    "signs": lambda plan, w: L.sign(w).own().expand_dims([w.ndim - 1]),
    "undetermined": _undetermined,
    "at_classes": _at_classes,
    "taken": _taken,
}

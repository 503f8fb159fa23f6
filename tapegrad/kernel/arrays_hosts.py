"""What NumPy computes without derivative, in the rules' language: ufuncs, and functions of `tapegrad.common.host_functions`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

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
    "divide": HostFunction(lambda x, y: x / y),
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


def _within(plan, at, extent):
    """Integers as int64, tested to be in range and counted from the front."""
    at = at if at.char == "l" else plan.compute(at, "l")
    plan.demand((at >= float(-extent)) & (at < float(extent)))
    return L.select(at < 0.0, at + float(extent), at)


def _indexed(plan, *operands):
    base, *indices, extents, steps, trail, distinct = operands
    total = base
    for index, extent, step in zip(indices, extents, steps):
        at = plan.compute(_within(plan, index, extent) * float(step), "l")
        total = total + at.expand_dims(range(at.ndim, at.ndim + trail))
    total = plan.compute(total, "l")
    total = total.reshape((total.size,))
    if distinct and total.size > 1:
        counts = plan.scattered(plan.constant(np.ones(total.size), "d"), total, (distinct,))
        plan.demand(L.eq(plan.gather(counts, total, (total.size,)), 1.0))
    return total


def _nonzero_along(plan, mask, axis):
    size, count = mask.size, plan.out.size
    held = _truth(plan, mask.window().reshape((size,)) if mask.ndim else mask.broadcast_to((1,)))
    ones = L.select(held, 1.0, 0.0)
    plan.demand(L.eq(ones.sum(), float(count)))
    # Each goes to the place of its rank; what is not picked goes to one place at the end.
    rank = plan.scan(ones, 0, "add", False, True)
    at = L.select(held, L.select(rank < float(count), rank, float(count)), float(count))
    target = plan.temporary((count + 1,), "l")
    plan.write_at(target, plan.constant(np.unravel_index(np.arange(size), mask.shape)[axis], "l"), plan.compute(at, "l"), False)
    return plan._sym(target).narrow(0, 0, count)


def _fails(plan, a, *rest):
    *others, name, attrs = rest
    if others or name != "cholesky":
        # Elsewhere what is not finite does not say that NumPy raises.
        return None
    plan.demand(_all_finite(plan, a))
    upper = dict(attrs).get("upper", False)
    (factor,) = plan.matrices("cholesky", a, upper=upper)
    return L.logical_not(_all_finite(plan, factor))


#: Functions of `tapegrad.common.host_functions` by name: ``(planner, *operands, *data)``; None if NumPy has to do it after all.
RECOMPUTED = {
    "truth": _truth,
    "cast": _as_it_is,
    "all_finite": _all_finite,
    "sign_of_det": lambda plan, a: plan.matrices("slogdet", a)[0],
    "signs": lambda plan, w: L.sign(w).own().expand_dims([w.ndim - 1]),
    "undetermined": _undetermined,
    "at_classes": _at_classes,
    "taken": _taken,
    "indexed": _indexed,
    "fails": _fails,
    "nonzero_along": _nonzero_along,
}

"""What NumPy computes without derivative, in the rules' language: ufuncs, and functions of `tapegrad.common.host_functions`."""

from __future__ import annotations

import math

import numpy as np

from ..array.recorded import LOGICAL
from ..rules import BY_FUNCTION
from ..rules import lang as L
from . import ir

#: By the names of ufuncs: what is the same for all dtypes, for truth values, for floats.
_OF_ALL = {ufunc.__name__: L.function(name) for name, ufunc in LOGICAL.items() if name != "isnan"}
_OF_TRUTH = {
    "bitwise_and": L.function("and"), "bitwise_or": L.function("or"), "invert": L.logical_not,
    "logical_xor": L.ne, "bitwise_xor": L.ne,
}  # fmt: skip
_OF_FLOATS = {
    "isnan": L.isnan, "isfinite": lambda x: L.abs(x) < math.inf, "isinf": lambda x: L.eq(L.abs(x), math.inf),
}  # fmt: skip


def expression_of(ufunc, chars, out):
    """The function of expressions that is `ufunc` for operands, a set, and a result of these dtypes, or None."""
    row = BY_FUNCTION.get(ufunc)
    if chars & set("LQ"):
        # Integers are computed as signed ones of 64 bits.
        return None
    if row is not None:
        integral = out in "df" or all(map(ir.integral, L.nodes(row.expr(*map(L.arg, range(row.arity))))))
        return row.expr if "?" not in chars and integral else None
    special = _OF_TRUTH if chars == {"?"} else _OF_FLOATS if chars <= set("df") else {}
    return (_OF_ALL | special).get(ufunc.__name__)


def _truth(plan, x):
    return x if x.char == "?" else L.ne(x, 0.0)


def _all_finite(plan, x):
    wrong = L.select(L.abs(x) < math.inf, 0.0, 1.0)
    return L.eq(wrong.sum() if x.ndim else wrong, 0.0)


def _at_classes(plan, target, classes):
    plan.demand((target >= 0.0) & (target < float(classes)))
    return plan.constant(np.arange(target.size) * classes, "l") + target.window().reshape((target.size,))


def _within(plan, at, extent, step):
    """The elements at which integers stand, tested to be in range and counted from the front, in steps of so many."""
    at = at if at.char == "l" else plan.compute(at, "l")
    plan.demand((at >= float(-extent)) & (at < float(extent)))
    return plan.compute(L.select(at < 0.0, at + float(extent), at) * float(step), "l")


def _taken(plan, at, shape, axis, mode):
    if mode != "raise":
        return None
    axis, shape = (0, (math.prod(shape),)) if axis is None else (axis % len(shape), shape)
    rest = range(at.ndim, at.ndim + len(shape) - axis - 1)
    starts = plan.constant(np.arange(math.prod(shape)).reshape(shape).take(0, axis), "l").expand_dims(range(axis, axis + at.ndim))
    return starts + _within(plan, at, shape[axis], math.prod(shape[axis + 1 :])).expand_dims(rest)


def _indexed(plan, *operands):
    base, *indices, extents, steps, trail = operands
    total = base
    for index, extent, step in zip(indices, extents, steps):
        total = total + _within(plan, index, extent, step).expand_dims(range(index.ndim, index.ndim + trail))
    total = plan.compute(total, "l")
    return total.reshape((total.size,))


def _repeats(plan, at, count):
    counts = plan.scattered(plan.constant(np.ones(at.size), "d"), at, (count,))
    return L.ne(plan.gather(counts, at, (at.size,)).sum(), float(at.size))


def _nonzero_along(plan, mask, axis):
    size, count = mask.size, plan.out.size
    held = _truth(plan, mask.window().reshape((size,)) if mask.ndim else mask.broadcast_to((1,)))
    ones = L.select(held, 1.0, 0.0)
    plan.demand(L.eq(ones.sum(), float(count)))
    # Each goes to the place of its rank; what is not picked goes to one place at the end.
    rank = ones.scan(0) - ones
    at = L.select(held, L.select(rank < float(count), rank, float(count)), float(count))
    target = plan.temporary((count + 1,), "l")
    plan.write_at(plan.constant(np.unravel_index(np.arange(size), mask.shape)[axis], "l"), plan.compute(at, "l"), target, False)
    return plan.sym(target).narrow(0, 0, count)


#: Functions of `tapegrad.common.host_functions` by name: ``(planner, *operands, *data)``; None if NumPy has to be called after all,
#: as it is for the others.  What is cast is delivered in its own dtype.
RECOMPUTED = {
    "truth": _truth, "cast": lambda plan, x, *_: x, "all_finite": _all_finite, "at_classes": _at_classes, "taken": _taken,
    "indexed": _indexed, "repeats": _repeats, "nonzero_along": _nonzero_along,
}  # fmt: skip

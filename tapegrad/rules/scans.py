"""Scans that multiply: cumulative products and first-order linear recurrences.

The derivative of a cumulative product is a linear recurrence, and that of a linear
recurrence another one, run the other way: O(n) for each line, without a division,
so exact where factors are zero.  ``b.recur(f, axis)`` is the recurrence
``y[k] = b[k] + f[k] * y[k - 1]`` of the rules' language; see `RuleArray.recur` for its
options.
"""

import numpy as np

from ..common.errors import require
from . import lang as L
from . import shapes as S
from .table import structural
from .transposed import absolute_product_value


def _cumprod_vjp(g, x, z, axis=0):
    # The factors before x[i], times the sum over k >= i of g[k] and the factors between i and k.
    after = g.recur(x, axis, reverse=True, lag=True)
    return (L.times(after, x.scan(axis, "mul", exclusive=True)),)


structural(
    "cumprod", 1, lambda x, axis=0: np.cumprod(x, axis=axis), _cumprod_vjp,
    jvp=S.of_one(lambda t, x, z, axis=0: L.times(t, x.scan(axis, "mul", exclusive=True)).recur(x, axis)),
    forward=lambda x, axis=0: x.scan(axis, "mul"), node="Cumprod",
    doc="cumulative product along an axis, exact where factors are zero",
    shape=lambda x, axis=0: (S.along(x, axis), S.reduced_char(np.multiply, x.char)), effect="scan",
)


def recurrence_value(b, f, axis=0, reverse=False, lag=False, exclusive=False):
    """The recurrence on plain arrays; see `RuleArray.recur`.  Only derivatives are made of it: zero is absolute."""
    b, f = np.broadcast_arrays(b, f)
    result = np.empty(b.shape, np.result_type(b, f))
    b, f, lines = (np.moveaxis(a, axis, 0) for a in (b, f, result))
    carry = np.zeros(b.shape[1:], result.dtype)
    for k in range(len(b))[:: -1 if reverse else 1]:
        total = b[k] + (carry if lag else absolute_product_value(f[k], carry))
        lines[k] = carry if exclusive else total
        carry = absolute_product_value(f[k], total) if lag else total
    return result


def _shifted(x, axis, reverse):
    """The element before each one in the direction of the recurrence; 0 for the first."""
    return x.recur(L.select(x > 0.0, 0.0, 0.0), axis, reverse=reverse, exclusive=True)


def _recurrence_vjp(g, b, f, z, axis=0, reverse=False, lag=False):
    back = g.recur(f, axis, reverse=not reverse, lag=not lag)
    if lag:
        return back, lambda: L.times(_shifted(back, axis, not reverse), z)
    return back, lambda: L.times(back, _shifted(z, axis, reverse))


def _recurrence_jvp(tangents, b, f, z, axis=0, reverse=False, lag=False):
    of_b, of_f = tangents
    if of_f is None:
        return of_b.recur(f, axis, reverse=reverse, lag=lag)
    moved = _shifted(L.times(of_f, z), axis, reverse) if lag else L.times(of_f, _shifted(z, axis, reverse))
    return (moved if of_b is None else of_b + moved).recur(f, axis, reverse=reverse, lag=lag)


def _recurrence_shape(b, f, axis=0, reverse=False, lag=False):
    shape = np.broadcast_shapes(b.shape, f.shape)
    require(-len(shape) <= axis < len(shape), f"the axis {axis} of {len(shape)}")
    return shape, S.together(b, f)


structural(
    "recurrence", 2, recurrence_value, _recurrence_vjp, jvp=_recurrence_jvp,
    forward=lambda b, f, axis=0, reverse=False, lag=False: b.recur(f, axis, reverse=reverse, lag=lag), node="Recurrence",
    doc="y[k] = b[k] + f[k] * y[k - 1] along an axis; with `lag` the factor is f[k - 1]", shape=_recurrence_shape, effect="scan",
)

"""Products: of elements with an absolute zero, of matrices, and along an axis, cumulative products and first-order linear recurrences.

Of matrices with NumPy's rules for vectors and stacks; other products are made of it (`array.functions.reductions`).
In a rule ``a @ b`` is the product of derivatives, in which zero is absolute (``docs/numerics.md``), and ``a.product(b)`` is
NumPy's.  The first is a row of its own, so that a derivative that is recorded keeps its zeros where it is replayed.

The derivative of a cumulative product is a linear recurrence, and that of a linear
recurrence another one, run the other way: O(n) for each line, without a division,
so exact where factors are zero.  ``b.recur(f, axis)`` is the recurrence
``y[k] = b[k] + f[k] * y[k - 1]`` of the rules' language; see `RuleArray.recur` for its
options.
"""

import math

import numpy as np

from ..common.errors import require
from . import lang as L
from . import shapes as S
from .shapes import added
from .table import elementwise, structural


def absolute_product_value(g, p):
    """``g * p``, zero where either factor is; who runs it ignores floating-point errors."""
    product = np.multiply(g, p)
    # Plain multiplication does it unless something is not finite: then so is the sum.
    if math.isfinite(np.add.reduce(product, None)):
        return product
    return np.where(np.equal(g, 0) | np.equal(p, 0), product.dtype.type(0), product)


elementwise(
    "absolute_product", absolute_product_value, L.absolute_product, (lambda g, p, z: p, lambda g, p, z: g),
    node="AbsoluteMul", doc="x * y, zero where either factor is zero (even beside infinity)",
)


# ---- of matrices ------------------------------------------------------------------------------


def _matmul_vjp(g, a, b, z):
    if a.ndim == 1 and b.ndim == 1:
        return L.times(g, b), L.times(g, a)
    if a.ndim == 1:
        # (k) @ (..., k, n) -> (..., n)
        return (
            lambda: (b @ g.expand_dims([g.ndim])).reshape((*b.shape[:-2], a.shape[0])),
            lambda: L.times(g.expand_dims([g.ndim - 1]), a.expand_dims([1])),
        )
    if b.ndim == 1:
        # (..., m, k) @ (k) -> (..., m)
        return (
            lambda: L.times(g.expand_dims([g.ndim]), b),
            lambda: (a.swapaxes(-1, -2) @ g.expand_dims([g.ndim])).reshape((*a.shape[:-2], b.shape[0])),
        )
    return lambda: g @ b.swapaxes(-1, -2), lambda: a.swapaxes(-1, -2) @ g


def _matmul_jvp(tangents, a, b, z):
    to_a, to_b = tangents
    return added(None if to_a is None else to_a @ b, None if to_b is None else a @ to_b)


def _product_shape(a, b):
    return S.product(a, b), S.together(a, b)


structural(
    "matmul", 2, np.matmul, _matmul_vjp, jvp=_matmul_jvp, forward=lambda a, b: a.product(b), node="Mm", numpy=(np.matmul,),
    doc="matrix product with NumPy's broadcasting", shape=_product_shape, effect="product", silent="it is multiplied by 0",
)


def absolute_matmul_value(a, b):
    """``a @ b`` in which zero times anything is zero; who runs it ignores floating-point errors."""
    product = np.matmul(a, b)
    # BLAS knows no absolute zero; a result that is not finite is computed again.
    return product if np.isfinite(product).all() else _term_by_term(a, b)


def _term_by_term(a, b):
    if a.ndim == 1:
        return _term_by_term(a[None], b)[..., 0, :] if b.ndim > 1 else _term_by_term(a[None], b[:, None])[0, 0]
    if b.ndim == 1:
        return _term_by_term(a, b[:, None])[..., 0]
    return sum(absolute_product_value(a[..., :, k, None], b[..., None, k, :]) for k in range(a.shape[-1]))


structural(
    "absolute_matmul", 2, absolute_matmul_value, _matmul_vjp, jvp=_matmul_jvp, forward=lambda a, b: a @ b, node="AbsoluteMm",
    doc="matrix product in which zero times anything is zero (even beside infinity)", shape=_product_shape, effect="product",
)


# ---- along an axis ----------------------------------------------------------------------------


def _cumprod_vjp(g, x, z, axis=0):
    # The factors before x[i], times the sum over k >= i of g[k] and the factors between i and k.
    after = g.recur(x, axis, reverse=True, lag=True)
    return (L.times(after, x.scan(axis, "mul", exclusive=True)),)


structural(
    "cumprod", 1, lambda x, axis=0: np.cumprod(x, axis=axis), _cumprod_vjp,
    jvp=lambda t, x, z, axis=0: L.times(t, x.scan(axis, "mul", exclusive=True)).recur(x, axis),
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

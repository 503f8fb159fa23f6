"""The product of matrices, with NumPy's rules for vectors and stacks; other products are made of it (`array.functions.reductions`).

In a rule ``a @ b`` is the product of derivatives, in which zero is absolute (``docs/numerics.md``), and ``a.product(b)`` is
NumPy's.  The first is a row of its own, so that a derivative that is recorded keeps its zeros where it is replayed.
"""

import numpy as np

from . import lang as L
from . import shapes as S
from .shapes import added
from .table import structural
from .transposed import absolute_product_value


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

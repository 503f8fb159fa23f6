"""The product of matrices, with NumPy's rules for vectors and stacks; other products are made of it (`functions.products`)."""

from __future__ import annotations

import numpy as np

from . import lang as L
from .table import structural
from .tangents import added


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


structural(
    "matmul", 2, np.matmul, _matmul_vjp, jvp=_matmul_jvp, forward=lambda a, b: a @ b, node="Mm", numpy=(np.matmul,),
    doc="matrix product with NumPy's broadcasting",
)

"""Solutions of triangular systems: one triangle of the matrix is read, and has the adjoint.

M. Giles, "Collected matrix derivative results for forward and reverse mode
algorithmic differentiation" (2008), restricted to the triangle that is read.
"""

import numpy as np

from ..common.uninterrupted import imported
from . import lang as L
from . import shapes as S
from .table import structural


def _masks(n, lower, unit):
    ones = np.ones((n, n))
    return np.tril(ones, -1 if unit else 0) if lower else np.triu(ones, 1 if unit else 0)


def _value(a, b, trans=0, lower=False, unit=False):
    if a.ndim == b.ndim == 2:
        return imported("scipy.linalg").solve_triangular(a, b, trans, lower, unit, check_finite=False)
    n = a.shape[-1]
    matrix = np.where(_masks(n, lower, unit) != 0, a, np.eye(n, dtype=a.dtype) if unit else np.zeros((), a.dtype))
    return np.linalg.solve(matrix.swapaxes(-1, -2) if trans else matrix, b)


def system_matrix(a, trans, lower, unit):
    """The matrix of the system: the triangle of `a`, with ones on its diagonal if `unit`, transposed if `trans`."""
    n = a.shape[-1]
    mask = a.constant(_masks(n, lower, unit))
    matrix = L.select(L.ne(mask, 0.0), a, 0.0)
    if unit:
        matrix = matrix + a.constant(np.eye(n))
    return matrix.swapaxes(-1, -2) if trans else matrix


def _vjp(g, a, b, z, trans=0, lower=False, unit=False):
    back = system_matrix(a, trans, lower, unit).swapaxes(-1, -2).solve(g)

    def to_a():
        outer = z @ back.swapaxes(-1, -2) if trans else back @ z.swapaxes(-1, -2)
        return -(outer * a.constant(_masks(a.shape[-1], lower, unit)))

    return to_a, back


def _jvp(tangents, a, b, z, trans=0, lower=False, unit=False):
    da, db = tangents
    right = db
    if da is not None:
        da = da * a.constant(_masks(a.shape[-1], lower, unit))
        moved = (da.swapaxes(-1, -2) if trans else da) @ z
        right = -moved if right is None else right - moved
    return system_matrix(a, trans, lower, unit).solve(right)


structural(
    "solve_triangular", 2, _value, _vjp, jvp=_jvp, node="LinalgSolveTriangular", raises="finite",
    doc="solution X of A @ X = B for a triangular A; only that triangle is read and has an adjoint",
    shape=lambda a, b, trans=0, lower=False, unit=False: (S.solution(a, b), S.floating(a, b)), effect="dense",
)

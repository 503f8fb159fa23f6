"""The cofactors of a matrix and how they change, by singular values: right at singular matrices too.

With A = U S V^T and d = det(U) det(V), det(A + dA) = d det(S + M) where M = U^T dA V.  S being
diagonal, the terms of first and second order in M are products of singular values:

* the cofactors of A are d U diag(p) V^T, p_i being the product of all values but s_i;
* they change by d U (diag(P m) - P * M^T) V^T, m being the diagonal of M, and P_ij the product of
  all values but s_i and s_j (0 on the diagonal).

No two values are subtracted, and none is divided by, so neither equal nor vanishing ones matter.
(I. Ipsen and R. Rehman, "Perturbation bounds for determinants and characteristic polynomials", 2008.)
"""

from __future__ import annotations

import numpy as np

from . import lang as L


def transposed(x):
    return x.swapaxes(-1, -2)


def whole(x):
    """A scalar (or a stack) as a factor of whole matrices."""
    return x.expand_dims([x.ndim, x.ndim + 1])


def _orientation(u, vh):
    """The determinant of U V^T: 1 or -1; it is a constant, also where it is differentiated again."""
    return whole(L.sign(u.det() * vh.det()))


def _others(s):
    """The products of all values before each one, and of all after it."""
    axis = s.ndim - 1
    return s.scan(axis, "mul", exclusive=True), s.scan(axis, "mul", reverse=True, exclusive=True)


def cofactors(a):
    """The cofactors of matrices: the gradient of the determinant."""
    u, s, vh = a.svd()
    before, after = _others(s)
    return u * as_columns(before * after) * _orientation(u, vh) @ vh


def as_columns(x):
    """A vector (or a stack) as a factor of the columns of matrices."""
    return x.expand_dims([x.ndim - 1])


def _other_pairs(s):
    """The products of all values but each two, in a symmetric matrix with zeros on its diagonal."""
    n, axis = s.shape[-1], s.ndim - 1
    later = s.constant(np.triu(np.ones((n, n)), 1))
    # In row i the values after the i-th, and ones; before column j that is what stands between the two.
    between = (as_columns(s) * later + s.constant(np.tril(np.ones((n, n))))).scan(axis + 1, "mul", exclusive=True)
    before, after = _others(s)
    upper = L.times(before.expand_dims([s.ndim]) * between * as_columns(after), later)
    return upper + transposed(upper)


def change(a, t):
    """How the cofactors of `a` change along `t`; as a function of `t` it is its own transpose."""
    u, s, vh = a.svd()
    inner = transposed(u) @ t @ transposed(vh)
    pairs, unit = _other_pairs(s), s.constant(np.eye(a.shape[-1]))
    diagonal = (inner * unit).sum(inner.ndim - 1)
    along = (pairs * as_columns(diagonal)).sum(pairs.ndim - 1)
    core = along.expand_dims([along.ndim]) * unit - pairs * transposed(inner)
    return _orientation(u, vh) * (u @ core @ vh)

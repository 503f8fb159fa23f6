"""The cofactors of a matrix and how they change, by singular values: right at singular matrices too.

The derivative of `det` is made of them; where it is differentiated again they are a row.

With A = U S V^T and d = det(U) det(V), det(A + dA) = d det(S + M) where M = U^T dA V.  S being
diagonal, the terms of first and second order in M are products of singular values:

* the cofactors of A are d U diag(p) V^T, p_i being the product of all values but s_i;
* they change by d U (diag(P m) - P * M^T) V^T, m being the diagonal of M, and P_ij the product of
  all values but s_i and s_j (0 on the diagonal).

No two values are subtracted, and none is divided by, so neither equal nor vanishing ones matter.
(I. Ipsen and R. Rehman, "Perturbation bounds for determinants and characteristic polynomials", 2008.)
"""

import numpy as np

from . import lang as L
from . import shapes as S
from .shapes import of_one
from .table import structural


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


#: Least singular value, relative to the greatest, from which on a third derivative goes by the inverse.
REGULAR = 1e-4


def svd(a):
    """NumPy's reduced decomposition; beside an infinity LAPACK's may never end, so that is an error as a NaN is."""
    if not np.isfinite(a).all():
        raise np.linalg.LinAlgError("SVD did not converge")
    return np.linalg.svd(a, full_matrices=False)


def joined(u, s, vh):
    """`cofactors` in NumPy, of the parts of the decomposition."""
    one = np.ones_like(s[..., :1])
    before = np.cumprod(np.concatenate([one, s[..., :-1]], -1), -1)
    after = np.cumprod(np.concatenate([one, s[..., :0:-1]], -1), -1)[..., ::-1]
    orientation = np.sign(np.linalg.det(u) * np.linalg.det(vh))
    return u * (before * after)[..., None, :] * orientation[..., None, None] @ vh


def _change(a, t):
    """`change`; where it is to be differentiated again that of a regular matrix by its inverse.

    Derivatives of singular vectors need values that differ, those of the inverse do not.
    """
    tangent = change(a, t)
    if not getattr(a, "recorded", False):
        return tangent
    n, s = a.shape[-1], a.svd()[1]
    axis = s.ndim - 1
    regular = (s.narrow(axis, n - 1, n) > s.narrow(axis, 0, 1) * REGULAR).expand_dims([axis])
    safe = L.select(regular, a, a.constant(np.eye(n)))
    back = transposed(safe.inv())
    along = (back * t).sum((back.ndim - 2, back.ndim - 1))
    return L.select(regular, whole(safe.det()) * (whole(along) * back - back @ transposed(t) @ back), tangent)


structural(
    "cofactors", 1, lambda a: joined(*svd(a)), lambda g, a, z: (_change(a, g),), jvp=of_one(lambda t, a, z: _change(a, t)), forward=cofactors,
    node="LinalgCofactors", doc="the cofactors of a matrix, the gradient of its determinant",
    shape=lambda a: (S.square(a), S.floating(a)), effect="dense",
)

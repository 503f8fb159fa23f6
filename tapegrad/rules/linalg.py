"""Matrix functions: inverse, solutions, determinants, factorisations.

The rules follow M. Giles, "Collected matrix derivative results for forward and
reverse mode algorithmic differentiation" (2008), for inverse, solution and
determinant; I. Murray, "Differentiation of the Cholesky decomposition" (2016);
J. Townsend, "Differentiating the singular value decomposition" (2016); M. Seeger
et al., "Auto-differentiating linear algebra" (2017), for QR; and G. Golub and
V. Pereyra, "The differentiation of pseudo-inverses" (1973).  Those of a triangular system are Giles's, restricted to the triangle
that is read.

The derivative of `det` is made of the cofactors of the matrix; where it is differentiated again they are a row.  They, and how they
change, are found by singular values, so that they are right at singular matrices too: with A = U S V^T and d = det(U) det(V),
det(A + dA) = d det(S + M) where M = U^T dA V.  S being diagonal, the terms of first and second order in M are products of singular values:

* the cofactors of A are d U diag(p) V^T, p_i being the product of all values but s_i;
* they change by d U (diag(P m) - P * M^T) V^T, m being the diagonal of M, and P_ij the product of
  all values but s_i and s_j (0 on the diagonal).

No two values are subtracted, and none is divided by, so neither equal nor vanishing ones matter.
(I. Ipsen and R. Rehman, "Perturbation bounds for determinants and characteristic polynomials", 2008.)

A factorisation with several results is one row whose result packs them below
each other in one array, so that one rule serves all of them; the user is given
views of it.

Conventions
-----------
Functions of symmetric matrices (`cholesky`, `eigh`) read one triangle but have
the symmetric adjoint, the gradient along symmetric changes; so their JVP takes
the symmetric part of the tangent.  Eigenvectors and
singular vectors of repeated values are not differentiable: the terms
``1/(a - b)`` with ``a == b`` are left out, so functions that do not depend on
the choice of the vectors keep their derivative.  `det` has its first two derivatives at
singular matrices too.
"""

import numpy as np

from ..common.errors import require
from ..common.uninterrupted import imported
from . import lang as L
from . import shapes as S
from .shapes import added, side_by_side, taken_apart
from .table import structural


def _t(x):
    return x.swapaxes(-1, -2)


# ---- cofactors ----------------------------------------------------------------------------


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
    return upper + _t(upper)


def change(a, t):
    """How the cofactors of `a` change along `t`; as a function of `t` it is its own transpose."""
    u, s, vh = a.svd()
    inner = _t(u) @ t @ _t(vh)
    pairs, unit = _other_pairs(s), s.constant(np.eye(a.shape[-1]))
    diagonal = (inner * unit).sum(inner.ndim - 1)
    along = (pairs * as_columns(diagonal)).sum(pairs.ndim - 1)
    core = along.expand_dims([along.ndim]) * unit - pairs * _t(inner)
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
    back = _t(safe.inv())
    along = (back * t).sum((back.ndim - 2, back.ndim - 1))
    return L.select(regular, whole(safe.det()) * (whole(along) * back - back @ _t(t) @ back), tangent)


structural(
    "cofactors", 1, lambda a: joined(*svd(a)), lambda g, a, z: (_change(a, g),), jvp=lambda t, a, z: _change(a, t), forward=cofactors,
    node="LinalgCofactors", doc="the cofactors of a matrix, the gradient of its determinant",
    shape=lambda a: (S.square(a), S.floating(a)),
)


# ---- inverse, solution, determinant -----------------------------------------------------


def _symmetric(x):
    return (x + _t(x)) * 0.5


def _inverse_or_zero(x):
    return L.select(L.eq(x, 0.0), 0.0, 1.0 / x)


_FUNCTIONS = {
    "inv": lambda a: [np.linalg.inv(a)], "solve": lambda a, b: [np.linalg.solve(a, b)], "det": lambda a: [np.linalg.det(a)],
    "svd": lambda a: list(svd(a)),
}  # fmt: skip


def results(name, *arrays):
    """The list of what ``"inv"``, ``"solve"``, ``"det"`` or ``"svd"`` gives, of stacks of matrices; NaN for those where NumPy raises."""
    try:
        with np.errstate(all="ignore"):
            return _FUNCTIONS[name](*arrays)
    except np.linalg.LinAlgError:
        lead = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
        if not lead:
            return [part * np.nan for part in _FUNCTIONS[name](*(np.eye(*a.shape, dtype=a.dtype) for a in arrays))]
    stacks = [np.broadcast_to(a, (*lead, *a.shape[-2:])).reshape(-1, *a.shape[-2:]) for a in arrays]
    parts = zip(*(results(name, *matrices) for matrices in zip(*stacks)))
    return [np.stack(part).reshape(*lead, *part[0].shape) for part in parts]



structural(
    "inv", 1, np.linalg.inv, lambda g, a, z: (-(_t(z) @ g @ _t(z)),), jvp=lambda t, a, z: -(z @ t @ z), forward=lambda a: a.inv(), node="LinalgInv",
    raises="finite", doc="inverse of a matrix", shape=lambda a: (S.square(a), S.floating(a)),
)


def _solve_vjp(g, a, b, z):
    back = _t(a).solve(g)
    return lambda: -(back @ _t(z)), back


def _solve_jvp(tangents, a, b, z):
    to_a, to_b = tangents
    return a.solve(added(to_b, None if to_a is None else -(to_a @ z)))


structural(
    "solve", 2, np.linalg.solve, _solve_vjp, jvp=_solve_jvp, forward=lambda a, b: a.solve(b), node="LinalgSolve", raises="finite",
    doc="solution X of A @ X = B, B a matrix or a stack",
    shape=lambda a, b: (S.solution(a, b), S.floating(a, b)),
)


def _inner(x, y):
    """The inner products of matrices."""
    return L.times(x, y).sum((x.ndim - 2, x.ndim - 1))


structural(
    "det", 1, np.linalg.det, lambda g, a, z: (L.times(whole(g), a.cofactors()),), jvp=lambda t, a, z: _inner(t, a.cofactors()),
    forward=lambda a: a.det(), node="LinalgDet", doc="determinant; its derivative holds at singular matrices too",
    shape=lambda a: (S.square(a)[:-2], S.floating(a)),
)


structural(
    "logabsdet", 1, lambda a: np.linalg.slogdet(a).logabsdet, lambda g, a, z: (whole(g) * _t(a.inv()),),
    jvp=lambda t, a, z: _inner(t, _t(a.inv())), forward=lambda a: a.logabsdet(), node="LinalgSlogdet",
    doc="log(abs(det A)), the second result of slogdet; the derivative at a singular matrix is NaN",
    shape=lambda a: (S.square(a)[:-2], S.floating(a)),
)


# ---- factorisations -----------------------------------------------------------------------


def _half(n):
    """The lower triangle, with the diagonal halved."""
    return np.tril(np.ones((n, n))) - 0.5 * np.eye(n)


def _cholesky_vjp(g, a, z, upper=False):
    low, g = (_t(z), _t(g)) if upper else (z, g)
    n = a.shape[-1]
    half = g.constant(_half(n))
    left = _t(low).solve((_t(low) @ g) * half)
    return (_symmetric(_t(low).solve(_t(left))),)


def _cholesky_jvp(t, a, z, upper=False):
    low = _t(z) if upper else z
    inner = low.solve(_t(low.solve(_symmetric(t))))
    change = low @ (inner * t.constant(_half(a.shape[-1])))
    return _t(change) if upper else change


structural(
    "cholesky", 1, lambda a, upper=False: np.linalg.cholesky(a, upper=True) if upper else np.linalg.cholesky(a), _cholesky_vjp,
    jvp=_cholesky_jvp, forward=lambda a, upper=False: a.cholesky(upper), node="LinalgCholesky", raises="finite",
    doc="triangular factor of a positive definite matrix; the adjoint is symmetric",
    shape=lambda a, upper=False: (S.square(a), S.floating(a)),
)


def _eigh_value(a, UPLO="L"):
    w, v = np.linalg.eigh(a, UPLO)
    return np.concatenate([w[..., None, :], v], axis=-2)


def _eigh_vjp(g, a, z, UPLO="L"):
    n, axis = a.shape[-1], a.ndim - 2
    (w, v), (to_w, to_v) = (taken_apart(x, (1, n), axis) for x in (z, g))
    inner = _inverse_or_zero(w - _t(w)) * (_t(v) @ to_v) + g.constant(np.eye(n)) * to_w
    return (_symmetric(v @ inner @ _t(v)),)


def _eigh_jvp(t, a, z, UPLO="L"):
    n, axis = a.shape[-1], a.ndim - 2
    w, v = taken_apart(z, (1, n), axis)
    inner = _t(v) @ _symmetric(t) @ v
    of_w = (inner * t.constant(np.eye(n))).sum(axis, keepdims=True)
    return side_by_side(z, z.shape, [of_w, v @ (_inverse_or_zero(w - _t(w)) * inner)], [1, n], axis)


structural(
    "eigh", 1, _eigh_value, _eigh_vjp, jvp=_eigh_jvp, node="LinalgEigh", raises="finite",
    doc="eigenvalues (first row) and eigenvectors (columns of the rows below) of a symmetric matrix, packed; the terms "
    "1/(a-b) of equal eigenvalues count as 0; the adjoint is symmetric",
    shape=lambda a, UPLO="L": ((*a.shape[:-2], S.square(a)[-1] + 1, a.shape[-1]), S.floating(a)),
)


def packed(u, s, vh):
    """The parts of the decomposition below each other: the row ``svd``."""
    return np.concatenate([u, s[..., None, :], np.swapaxes(vh, -1, -2)], axis=-2)


def _outside(basis, x):
    """The part of `x` that is orthogonal to the columns of a basis."""
    return x - basis @ (_t(basis) @ x)


def _svd_vjp(g, a, z):
    (m, n), axis = a.shape[-2:], a.ndim - 2
    k = min(m, n)
    (u, s, v), (to_u, to_s, to_v) = (taken_apart(x, (m, 1, n), axis) for x in (z, g))
    gaps, inverse = _inverse_or_zero((s - _t(s)) * (s + _t(s))), _inverse_or_zero(s)
    turn_u, turn_v = _t(u) @ to_u, _t(v) @ to_v
    inner = gaps * (turn_u - _t(turn_u)) * s + _t(s) * (gaps * (turn_v - _t(turn_v))) + g.constant(np.eye(k)) * to_s
    adjoint = u @ inner @ _t(v)
    if m > k:
        adjoint = adjoint + _outside(u, to_u * inverse) @ _t(v)
    if n > k:
        adjoint = adjoint + u @ _t(_outside(v, to_v * inverse))
    return (adjoint,)


def _svd_jvp(t, a, z):
    (m, n), axis = a.shape[-2:], a.ndim - 2
    k = min(m, n)
    u, s, v = taken_apart(z, (m, 1, n), axis)
    gaps, inverse = _inverse_or_zero((s - _t(s)) * (s + _t(s))), _inverse_or_zero(s)
    inner = (_t(u) @ t @ v).own()
    of_u = u @ (gaps * (inner * s + _t(s) * _t(inner)))
    of_s = (inner * t.constant(np.eye(k))).sum(axis, keepdims=True)
    of_v = v @ (gaps * (_t(s) * inner + _t(inner) * s))
    if m > k:
        of_u = of_u + _outside(u, (t @ v) * inverse)
    if n > k:
        of_v = of_v + _outside(v, (_t(t) @ u) * inverse)
    return side_by_side(z, z.shape, [of_u, of_s, of_v], [m, 1, n], axis)


def _svd_shape(a):
    *batch, m, n = a.shape
    return (*batch, m + 1 + n, min(m, n)), S.floating(a)


structural(
    "svd", 1, lambda a: packed(*svd(a)), _svd_vjp, jvp=_svd_jvp, node="LinalgSvd", raises=True,
    doc="reduced singular value decomposition U, s, V, packed below each other; the terms 1/(a-b) of equal singular "
    "values and 1/a of zero ones count as 0", shape=_svd_shape,
)


def _qr_vjp(g, a, z):
    (m, n), axis = a.shape[-2:], a.ndim - 2
    (q, r), (to_q, to_r) = (taken_apart(x, (m, n), axis) for x in (z, g))
    inner = r @ _t(to_r) - _t(to_q) @ q
    lower = inner * g.constant(np.tril(np.ones((n, n))))
    strict = inner * g.constant(np.tril(np.ones((n, n)), -1))
    return (_t(r.solve(_t(to_q + q @ (lower + _t(strict))))),)


def _qr_jvp(t, a, z):
    (m, n), axis = a.shape[-2:], a.ndim - 2
    q, r = taken_apart(z, (m, n), axis)
    change = _t(_t(r).solve(_t(t)))
    inner = _t(q) @ change
    strict = inner * t.constant(np.tril(np.ones((n, n)), -1))
    upper = inner - strict + _t(strict)
    return side_by_side(z, z.shape, [change - q @ upper, upper @ r], [m, n], axis)


def _qr_shape(a):
    *batch, m, n = a.shape
    require(m >= n, f"the QR factors of a matrix of shape {a.shape}")
    return (*batch, m + n, n), S.floating(a)


structural(
    "qr", 1, lambda a: np.concatenate(np.linalg.qr(a), axis=-2), _qr_vjp, jvp=_qr_jvp, node="LinalgQr",
    doc="reduced QR factors of a matrix with at least as many rows as columns, packed below each other",
    shape=_qr_shape,
)


def _pinv_value(a, rcond=1e-15, hermitian=False):
    if hermitian or 0 in a.shape:
        return None
    u, s, vh = a.svd()
    # A NaN is not below the cutoff: it stays one.
    inverse = L.select(s <= s.reduce("max", s.ndim - 1, True) * rcond, 0.0, 1.0 / s)
    return _t(vh) @ _t(as_columns(inverse) * u)


def _chain(x, y, z):
    """The product of three matrices, in the order that takes fewer multiplications."""
    (p, q), (r, s) = x.shape[-2:], z.shape[-2:]
    return (x @ y) @ z if p * r * (q + s) <= q * s * (p + r) else x @ (y @ z)


def _pinv_vjp(g, a, z, rcond=1e-15, hermitian=False):
    back, gt = _t(z), _t(g)
    left, right = _chain(gt, z, back), _chain(back, z, gt)
    return ((left - _chain(a, z, left)) + (right - _chain(right, z, a)) - _chain(back, g, back),)


def _pinv_jvp(t, a, z, rcond=1e-15, hermitian=False):
    left, right = _chain(_t(t), _t(z), z), _chain(z, _t(z), _t(t))
    return (left - _chain(z, a, left)) + (right - _chain(right, a, z)) - _chain(z, t, z)


structural(
    "pinv", 1, lambda a, rcond=1e-15, hermitian=False: np.linalg.pinv(a, rcond, hermitian), _pinv_vjp, jvp=_pinv_jvp, forward=_pinv_value,
    node="LinalgPinv", raises=True, doc="pseudo-inverse of a matrix; the derivative holds where the rank is constant",
    shape=lambda a, rcond=1e-15, hermitian=False: ((*a.shape[:-2], a.shape[-1], a.shape[-2]), S.floating(a)),
)


# ---- triangular systems -------------------------------------------------------------------


def _masks(n, lower, unit):
    ones = np.ones((n, n))
    return np.tril(ones, -1 if unit else 0) if lower else np.triu(ones, 1 if unit else 0)


def _triangular_value(a, b, trans=0, lower=False, unit=False):
    if a.ndim == b.ndim == 2:
        return imported("scipy.linalg").solve_triangular(a, b, trans, lower, unit, check_finite=False)
    n = a.shape[-1]
    matrix = np.where(_masks(n, lower, unit) != 0, a, np.eye(n, dtype=a.dtype) if unit else np.zeros((), a.dtype))
    return np.linalg.solve(_t(matrix) if trans else matrix, b)


def system_matrix(a, trans, lower, unit):
    """The matrix of the system: the triangle of `a`, with ones on its diagonal if `unit`, transposed if `trans`."""
    n = a.shape[-1]
    mask = a.constant(_masks(n, lower, unit))
    matrix = L.select(L.ne(mask, 0.0), a, 0.0)
    if unit:
        matrix = matrix + a.constant(np.eye(n))
    return _t(matrix) if trans else matrix


def _triangular_vjp(g, a, b, z, trans=0, lower=False, unit=False):
    back = _t(system_matrix(a, trans, lower, unit)).solve(g)

    def to_a():
        outer = z @ _t(back) if trans else back @ _t(z)
        return -(outer * a.constant(_masks(a.shape[-1], lower, unit)))

    return to_a, back


def _triangular_jvp(tangents, a, b, z, trans=0, lower=False, unit=False):
    da, db = tangents
    right = db
    if da is not None:
        da = da * a.constant(_masks(a.shape[-1], lower, unit))
        moved = (_t(da) if trans else da) @ z
        right = -moved if right is None else right - moved
    return system_matrix(a, trans, lower, unit).solve(right)


structural(
    "solve_triangular", 2, _triangular_value, _triangular_vjp, jvp=_triangular_jvp, node="LinalgSolveTriangular", raises="finite",
    doc="solution X of A @ X = B for a triangular A; only that triangle is read and has an adjoint",
    shape=lambda a, b, trans=0, lower=False, unit=False: (S.solution(a, b), S.floating(a, b)),
)

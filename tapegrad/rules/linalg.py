"""Matrix functions: inverse, solutions, determinants, factorisations.

The rules follow M. Giles, "Collected matrix derivative results for forward and
reverse mode algorithmic differentiation" (2008), for inverse, solution and
determinant; I. Murray, "Differentiation of the Cholesky decomposition" (2016);
J. Townsend, "Differentiating the singular value decomposition" (2016); M. Seeger
et al., "Auto-differentiating linear algebra" (2017), for QR; and G. Golub and
V. Pereyra, "The differentiation of pseudo-inverses" (1973).

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
singular matrices too (`rules.cofactors`).
"""

import numpy as np

from ..common.errors import require
from . import lang as L
from . import shapes as S
from .cofactors import as_columns, svd, whole
from .cofactors import transposed as _t
from .shapes import added, of_one, side_by_side, taken_apart
from .table import structural


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


# ---- inverse, solution, determinant -----------------------------------------------------


structural(
    "inv", 1, np.linalg.inv, lambda g, a, z: (-(_t(z) @ g @ _t(z)),), jvp=of_one(lambda t, a, z: -(z @ t @ z)), forward=lambda a: a.inv(), node="LinalgInv",
    raises="finite", doc="inverse of a matrix", shape=lambda a: (S.square(a), S.floating(a)), effect="dense",
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
    shape=lambda a, b: (S.solution(a, b), S.floating(a, b)), effect="dense",
)


def _inner(x, y):
    """The inner products of matrices."""
    return L.times(x, y).sum((x.ndim - 2, x.ndim - 1))


structural(
    "det", 1, np.linalg.det, lambda g, a, z: (L.times(whole(g), a.cofactors()),), jvp=of_one(lambda t, a, z: _inner(t, a.cofactors())),
    forward=lambda a: a.det(), node="LinalgDet", doc="determinant; its derivative holds at singular matrices too",
    shape=lambda a: (S.square(a)[:-2], S.floating(a)), effect="dense",
)


structural(
    "logabsdet", 1, lambda a: np.linalg.slogdet(a).logabsdet, lambda g, a, z: (whole(g) * _t(a.inv()),),
    jvp=of_one(lambda t, a, z: _inner(t, _t(a.inv()))), forward=lambda a: a.logabsdet(), node="LinalgSlogdet",
    doc="log(abs(det A)), the second result of slogdet; the derivative at a singular matrix is NaN",
    shape=lambda a: (S.square(a)[:-2], S.floating(a)), effect="dense",
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
    jvp=of_one(_cholesky_jvp), forward=lambda a, upper=False: a.cholesky(upper), node="LinalgCholesky", raises="finite",
    doc="triangular factor of a positive definite matrix; the adjoint is symmetric",
    shape=lambda a, upper=False: (S.square(a), S.floating(a)), effect="dense",
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
    "eigh", 1, _eigh_value, _eigh_vjp, jvp=of_one(_eigh_jvp), node="LinalgEigh", raises="finite",
    doc="eigenvalues (first row) and eigenvectors (columns of the rows below) of a symmetric matrix, packed; the terms "
    "1/(a-b) of equal eigenvalues count as 0; the adjoint is symmetric",
    shape=lambda a, UPLO="L": ((*a.shape[:-2], S.square(a)[-1] + 1, a.shape[-1]), S.floating(a)), effect="dense",
)


def _svd_value(a):
    u, s, vh = svd(a)
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
    "svd", 1, _svd_value, _svd_vjp, jvp=of_one(_svd_jvp), node="LinalgSvd", raises=True,
    doc="reduced singular value decomposition U, s, V, packed below each other; the terms 1/(a-b) of equal singular "
    "values and 1/a of zero ones count as 0", shape=_svd_shape, effect="dense",
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
    "qr", 1, lambda a: np.concatenate(np.linalg.qr(a), axis=-2), _qr_vjp, jvp=of_one(_qr_jvp), node="LinalgQr",
    doc="reduced QR factors of a matrix with at least as many rows as columns, packed below each other",
    shape=_qr_shape, effect="dense",
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
    "pinv", 1, lambda a, rcond=1e-15, hermitian=False: np.linalg.pinv(a, rcond, hermitian), _pinv_vjp, jvp=of_one(_pinv_jvp), forward=_pinv_value,
    node="LinalgPinv", raises=True, doc="pseudo-inverse of a matrix; the derivative holds where the rank is constant",
    shape=lambda a, rcond=1e-15, hermitian=False: ((*a.shape[:-2], a.shape[-1], a.shape[-2]), S.floating(a)), effect="dense",
)

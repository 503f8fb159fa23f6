"""Matrix functions that replays leave to NumPy, by LAPACK.

Each is written as a row's `forward` is, but for the result `z`, a symbol of which only shape
and dtype are read, as first argument.  Where NumPy raises, these give NaN; `FINITE` names the rows whose result
has to be looked at.
"""

from __future__ import annotations

from ..rules import ROWS
from ..rules import lang as L
from ..rules.tangents import tangent_of_parts
from ..rules.triangular import system_matrix
from .reasons import NotLowered


def _cholesky(z, a, upper=False):
    return a.plan.matrices("cholesky", a, upper=upper)[0]


def _eigh(z, a, UPLO="L"):
    axis = a.ndim - 2
    values, vectors = a.plan.matrices("eigh", a, upper=UPLO.upper() == "U")
    return tangent_of_parts(z, [values.expand_dims([axis]), vectors], [1, a.shape[-1]], axis)


def _svd(z, a):
    (m, n), axis = a.shape[-2:], a.ndim - 2
    u, s, vh = a.svd()
    return tangent_of_parts(z, [u, s.expand_dims([axis]), vh.swapaxes(-1, -2)], [m, 1, n], axis)


def _logabsdet(z, a):
    return a.plan.matrices("slogdet", a)[1]


def _qr(z, a):
    (m, n), axis = a.shape[-2:], a.ndim - 2
    return tangent_of_parts(z, a.plan.matrices("qr", a), [m, n], axis)


def _pinv(z, a, rcond=1e-15, hermitian=False):
    if hermitian:
        raise NotLowered("pinv of Hermitian matrices is computed by calling NumPy")
    u, s, vh = a.svd()
    large = s > s.reduce("max", s.ndim - 1, True) * rcond
    inverse = L.select(large, 1.0 / s, 0.0).own()
    return vh.swapaxes(-1, -2) @ (inverse.expand_dims([inverse.ndim]) * u.swapaxes(-1, -2)).own()


def _solve_triangular(z, a, b, trans=0, lower=False, unit=False):
    return system_matrix(a, trans, lower, unit).solve(b)


#: Row -> its value.
FORWARDS = {
    "cholesky": _cholesky, "eigh": _eigh, "svd": _svd, "qr": _qr, "logabsdet": _logabsdet, "pinv": _pinv, "solve_triangular": _solve_triangular,
}  # fmt: skip
#: Rows whose result has to be finite: where it is not the eager operation raises, or (a recurrence) zero is absolute.
FINITE = frozenset(("recurrence", *(row.name for row in ROWS if row.raises)))

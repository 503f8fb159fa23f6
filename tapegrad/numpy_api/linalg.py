"""``np.linalg`` on tensors: what the rows of `tapegrad.rules.linalg` give, in NumPy's shapes and result types."""

from math import prod

import numpy as np

from ..array import functions as F
from ..array.record import apply, guard_on, record_aux
from ..common.host_functions import host_function
from .dispatch import NO_VALUE, implements, refuse
from .own_code import own_code

#: NumPy's named tuples.
_EYE = np.eye(1)
EighResult, QRResult = type(np.linalg.eigh(_EYE)), type(np.linalg.qr(_EYE))
SlogdetResult, SVDResult = type(np.linalg.slogdet(_EYE)), type(np.linalg.svd(_EYE))


for _name in ("inv", "det"):
    implements(getattr(np.linalg, _name))(lambda a, name=_name: apply(name, (a,)))


@implements(np.linalg.solve)
def _solve(a, b):
    a, b = F.lift(a), F.lift(b)
    if b.ndim == 1:
        if a.ndim >= 2 and a.shape[-1] != b.shape[0]:
            raise ValueError(f"solve: a matrix of shape {tuple(a.shape[-2:])} and a right-hand side of extent {b.shape[0]}")
        return apply("solve", (a, F.expand_dims(b, 1)))[..., 0]
    return apply("solve", (a, b))


@implements(np.linalg.tensorsolve)
def _tensorsolve(a, b, axes=None):
    a, b = F.lift(a), F.lift(b)
    if axes is not None:
        moved = [k for k in range(a.ndim) if k not in axes]
        a = F.transpose(a, (*moved, *axes))
    old = tuple(a.shape[b.ndim - a.ndim :]) if a.ndim > b.ndim else ()
    if a.size != prod(old) ** 2:
        raise np.linalg.LinAlgError("Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])")
    return F.reshape(_solve(F.reshape(a, (prod(old), prod(old))), F.ravel(b)), old)


implements(np.linalg.slogdet, plainly=True)(lambda a: SlogdetResult(F.lift(record_aux(_sign_of_det(), a)), apply("logabsdet", (a,))))
implements(np.linalg.cholesky)(lambda a, /, *, upper=False: apply("cholesky", (a,), (("upper", bool(upper)),)))


@implements(np.linalg.eigh)
def _eigh(a, UPLO="L"):
    packed = apply("eigh", (a,), (("UPLO", UPLO.upper()),))
    return EighResult(packed[..., 0, :], packed[..., 1:, :])


implements(np.linalg.eigvalsh, plainly=True)(lambda a, UPLO="L": _eigh(a, UPLO)[0])


@implements(np.linalg.svd, plainly=True)
def _svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    a = F.lift(a)
    if compute_uv and full_matrices and a.ndim >= 2 and a.shape[-1] != a.shape[-2]:
        raise refuse(
            np.linalg.svd, " with full_matrices=True (the added vectors are any basis of the rest of the space); pass "
            "full_matrices=False"
        )
    if hermitian:
        return own_code(np.linalg.svd)(a, full_matrices, compute_uv, True)
    packed, m = apply("svd", (a,)), a.shape[-2]
    if not compute_uv:
        return packed[..., m, :]
    return SVDResult(packed[..., :m, :], packed[..., m, :], F.swapaxes(packed[..., m + 1 :, :], -1, -2))


@host_function
def _sign_of_det(a):
    return np.linalg.slogdet(a).sign


@implements(np.linalg.qr, plainly=True)
def _qr(a, mode="reduced"):
    a = F.lift(a)
    if mode not in ("reduced", "r"):
        raise refuse(np.linalg.qr, f" with mode={mode!r} (only the reduced factors are determined by the matrix)")
    if a.ndim < 2:
        raise np.linalg.LinAlgError(f"{a.ndim}-dimensional array given. Array must be at least two-dimensional")
    m, n = a.shape[-2:]
    if m >= n:
        packed = apply("qr", (a,))
        q, r = packed[..., :m, :], packed[..., m:, :]
    else:
        # The left square block determines Q; the rest of R is Q^T times the rest.
        q, r = _qr(a[..., :m])
        r = F.concatenate([r, F.matmul(F.swapaxes(q, -1, -2), a[..., m:])], -1)
    return r if mode == "r" else QRResult(q, r)


@implements(np.linalg.pinv)
def _pinv(a, rcond=None, hermitian=False, *, rtol=NO_VALUE):
    a = F.lift(a)
    if rcond is None:
        rcond = 1e-15 if rtol is NO_VALUE else rtol
        if rcond is None:
            rcond = max(a.shape[-2:]) * float(np.finfo(a.dtype).eps)
    elif rtol is not NO_VALUE:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    if np.ndim(rcond):
        raise refuse(np.linalg.pinv, " with an array of cutoffs")
    return apply("pinv", (a,), (("rcond", float(rcond)), ("hermitian", bool(hermitian))))


@host_function
def _rank(s, rcond):
    """How many singular values count."""
    return (s > rcond * s.max(initial=0.0)).sum()


@implements(np.linalg.lstsq)
def _lstsq(a, b, rcond=None):
    a, b = F.lift(a), F.lift(b)
    if a.ndim != 2 or b.ndim not in (1, 2) or a.shape[0] != b.shape[0]:
        raise np.linalg.LinAlgError(f"Incompatible dimensions: lstsq of shapes {tuple(a.shape)} and {tuple(b.shape)}")
    eps = float(np.finfo(a.dtype).eps)
    rcond = eps * max(a.shape) if rcond is None else eps if rcond < 0 else float(rcond)
    x = F.matmul(_pinv(a, rcond), b)
    s = _svd(a, compute_uv=False)
    rank = int(guard_on(_rank(rcond), s))
    if rank == a.shape[1] < a.shape[0]:
        residuals = F.sum((b - F.matmul(a, x)) ** 2.0, axis=0)
        residuals = F.reshape(residuals, (1,)) if b.ndim == 1 else residuals
    else:
        residuals = F.lift(np.zeros(0, x.dtype))
    return x, residuals, rank, s


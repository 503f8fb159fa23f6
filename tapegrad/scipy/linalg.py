"""Functions of `scipy.linalg` on tensors; every other name is SciPy's own.

Arguments about memory (`overwrite_a`, `overwrite_b`) and about the choice of a
LAPACK routine that does not change the result are accepted and have no effect.
"""

from functools import cache
from math import factorial

import numpy as np

from ..array.complex import ComplexTensor, is_complex, lifted, split
from ..array.record import apply, guard_on
from ..autograd.custom import primitive
from ..common.errors import UnsupportedFunctionError
from ..common.host_functions import host_function
from ..common.uninterrupted import imported
from .mirrors import array, combined, finite, mirror, names_of

__all__, __dir__, __getattr__ = names_of(__name__)


def _matrix(a, check_finite, square=True):
    a = array(a)
    if a.ndim < 2 or square and a.shape[-1] != a.shape[-2]:
        raise ValueError(f"expected {'square ' * square}matrix, got shape {tuple(a.shape)}")
    finite(check_finite, a)
    return a


def _system(a, b, check_finite):
    """The square matrix and the right side of a system of equations."""
    a, b = _matrix(a, check_finite), array(b)
    rows = b.shape[-1 if b.ndim == 1 else -2] if b.ndim else None
    if rows != a.shape[-1]:
        raise ValueError(f"shapes of a {tuple(a.shape)} and b {tuple(b.shape)} are incompatible")
    finite(check_finite, b)
    return a, b


def _transposed(a):
    return np.swapaxes(a, -1, -2)


def _mirrored(a, lower, hermitian=True):
    """The symmetric matrix of which `a` holds one triangle; a Hermitian one, if it is complex."""
    part = np.tril(a, -1) if lower else np.triu(a, 1)
    other, diagonal = (np.conj(part), a.real) if hermitian and is_complex(a) else (part, a)
    return part + _transposed(other) + np.tril(np.triu(diagonal))


def _adjoint(a):
    return np.conj(_transposed(a)) if is_complex(a) else _transposed(a)


def _triangular(a, b, trans, lower, unit):
    """The solution x of ``a @ x = b``, of ``a.T @ x = b`` if `trans` is 1, of ``a.conj().T @ x = b`` if it is 2."""
    if is_complex(a) or is_complex(b):
        # The real matrix that stands for such a complex one is not triangular.
        whole = np.tril(a, -unit) if lower else np.triu(a, unit)
        whole = whole + np.eye(a.shape[-1], dtype=a.real.dtype) * unit
        return np.linalg.solve((_transposed, _adjoint)[trans - 1](whole) if trans else whole, b)
    attrs = (("trans", int(trans > 0)), ("lower", bool(lower)), ("unit", bool(unit)))
    if b.ndim == 1:
        return apply("solve_triangular", (a, np.expand_dims(b, 1)), attrs)[..., 0]
    return apply("solve_triangular", (a, b), attrs)


@mirror
def solve_triangular(a, b, trans=0, lower=False, unit_diagonal=False, overwrite_b=False, check_finite=True):
    """Solve ``a @ x = b`` for `x`, where `a` is triangular; differentiable in `a` (its triangle) and `b`.

    Parameters
    ----------
    a : array-like, shape (..., n, n)
        The other triangle is not read.
    b : array-like, shape (n,) or (..., n, k)
    trans : {0, 1, 2, "N", "T", "C"}
        1, "T": solve ``a.T @ x = b``; 2, "C": ``a.conj().T @ x = b``.
    lower : bool
        Whether the lower triangle is read; the upper one by default.
    unit_diagonal : bool
        Take the diagonal as ones; it is not read, and has no derivative.
    overwrite_b, check_finite : bool
        As in SciPy; `overwrite_b` has no effect.

    Returns
    -------
    Tensor, or ndarray for plain arguments

    Raises
    ------
    numpy.linalg.LinAlgError
        If `a` is singular.
    ValueError
        If shapes do not fit or a value is not finite.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> from tapegrad.scipy.linalg import solve_triangular
    >>> a = tg.tensor([[2.0, 0.0], [1.0, 4.0]], requires_grad=True)
    >>> solve_triangular(a, np.array([2.0, 9.0]), lower=True)
    tensor([1., 2.], grad_fn=<SliceBackward0>)
    >>> solve_triangular(a, np.array([2.0, 9.0]), lower=True).sum().backward()
    >>> np.diagonal(a.grad)
    tensor([-0.3750, -0.5000])
    """
    a, b = _system(a, b, check_finite)
    return _triangular(a, b, {"N": 0, "T": 1, "C": 2}.get(trans, trans), lower, unit_diagonal)


@cache
def _keeps():
    """Whether SciPy's `cho_factor` keeps the elements of the other triangle."""
    return np.lib.NumpyVersion(imported("scipy").__version__) < "1.18.0"


@mirror
def cho_factor(a, lower=False, overwrite_a=False, check_finite=True):
    """Cholesky factor of a positive definite matrix for `cho_solve`, as ``(c, lower)``.

    One triangle of `a` is read, with the symmetric adjoint of ``np.linalg.cholesky``.
    As in SciPy, the other triangle of `c` keeps the elements of `a`, or has zeros (since 1.18).
    """
    a = _matrix(a, check_finite)
    factor = np.linalg.cholesky(a, upper=not lower)
    inside = np.tri(a.shape[-1], dtype=bool)
    return np.where(inside if lower else inside.T, factor, a if _keeps() else 0.0), lower


@mirror
def cho_solve(c_and_lower, b, overwrite_b=False, check_finite=True):
    """Solve ``a @ x = b`` for `x`, given the result of `cho_factor`; differentiable in the factor and in `b`."""
    c, lower = c_and_lower
    c, b = _system(c, b, check_finite)
    return _triangular(c, _triangular(c, b, 0 if lower else 2, lower, False), 2 if lower else 0, lower, False)


@mirror
def cholesky(a, lower=False, overwrite_a=False, check_finite=True):
    """Triangular factor of a positive definite matrix: ``U`` of ``U.T @ U``, or ``L`` of ``L @ L.T`` if `lower`."""
    return np.linalg.cholesky(_matrix(a, check_finite), upper=not lower)


@mirror
def solve(a, b, lower=False, overwrite_a=False, overwrite_b=False, check_finite=True, assume_a=None, transposed=False):
    """Solve ``a @ x = b`` for `x`; differentiable in `a` and `b`.

    `assume_a` tells which elements are read, as in SciPy: those of a general
    matrix, one triangle (`lower`) of a symmetric or positive definite one
    ("sym", "her", "pos"), "upper triangular", "lower triangular", "tridiagonal",
    "diagonal".  The derivative is with respect to the elements that are read.
    """
    a, b = _system(a, b, check_finite)
    if assume_a in ("upper triangular", "lower triangular"):
        return _triangular(a, b, transposed, assume_a == "lower triangular", False)
    if assume_a in ("pos", "positive definite"):
        return cho_solve((np.linalg.cholesky(a, upper=not lower), lower), b)
    if assume_a in ("sym", "symmetric", "her", "hermitian"):
        a = _mirrored(a, lower, assume_a[:3] == "her")
    elif assume_a in ("diagonal", "tridiagonal"):
        a = np.triu(np.tril(a, assume_a == "tridiagonal"), -(assume_a == "tridiagonal"))
    elif assume_a not in (None, "gen", "general", "banded"):
        raise ValueError(f"{assume_a} is not a recognized matrix structure")
    return np.linalg.solve(_transposed(a) if transposed else a, b)


@primitive
def _sylvester(a, b, q):
    return imported("scipy.linalg").solve_sylvester(a, b, q)


@_sylvester.defvjp
def _(g, x, a, b, q):
    back = _sylvester(_transposed(a), _transposed(b), g)
    return -(back @ _transposed(x)), -(_transposed(x) @ back), back


@_sylvester.defjvp
def _(tangents, x, a, b, q):
    da, db, dq = tangents
    return _sylvester(a, b, dq - da @ x - x @ db)


@mirror
def solve_sylvester(a, b, q):
    """The solution X of ``a @ X + X @ b = q``, differentiable in all three.

    Parameters
    ----------
    a : array-like, shape (m, m)
    b : array-like, shape (n, n)
    q : array-like, shape (m, n)
    """
    return _sylvester(*map(array, (a, b, q)))


@primitive
def _root(a):
    return imported("scipy.linalg").sqrtm(a).real


@_root.defvjp
def _(g, z, a):
    return (_sylvester(_transposed(z), _transposed(z), g),)


@_root.defjvp
def _(tangents, z, a):
    return _sylvester(z, z, tangents[0])


@primitive
def _complex_root(re, im):
    # (Of a negative number, which has two, SciPy takes another one where it stands in a complex matrix.)
    root = imported("scipy.linalg").sqrtm(re + 1j * im if im.any() else re)
    return np.stack([root.real, root.imag])


def _change_of_root(root, q):
    """The solution X of ``root @ X + X @ root = q``, of complex matrices: as one of linear equations, for the real ones could be singular."""
    n = root.shape[-1]
    eye, across = np.eye(n), _transposed(root)
    equations = root[..., :, None, :, None] * eye[:, None, :] + eye[:, None, :, None] * across[..., None, :, None, :]
    return np.linalg.solve(equations.reshape(*root.shape[:-2], n * n, n * n), q.reshape(*q.shape[:-2], n * n, 1)).reshape(q.shape)


@_complex_root.defvjp
def _(g, z, re, im):
    change = _change_of_root(ComplexTensor(*z).H, ComplexTensor(*g))
    return change.real, change.imag


@_complex_root.defjvp
def _(tangents, z, re, im):
    change = _change_of_root(ComplexTensor(*z), ComplexTensor(*tangents))
    return np.stack([change.real, change.imag])


@host_function
def _real_root(a):
    w = np.linalg.eigvals(a)
    return bool(np.all((w.imag != 0) | (w.real >= 0)))


@mirror
def sqrtm(A, disp=None, blocksize=None):
    """The principal square root of a matrix, complex if a real one has negative eigenvalues; derivatives where no two eigenvalues of
    the root add up to zero."""
    a = _matrix(A, True)
    if not is_complex(a) and guard_on(_real_root(), a):
        return _root(a)
    root = _complex_root(lifted(a).real, lifted(a).imag)
    return ComplexTensor(root[0], root[1])


def _band(n, low, high):
    """For each element of a matrix in bands the row that it is in, and whether there is that row."""
    row = np.arange(n) + np.arange(-high, low + 1)[:, None]
    return np.clip(row, 0, n - 1), (row >= 0) & (row < n)


def _turned(ab, low, high):
    """The bands of the transpose."""
    row, inside = _band(ab.shape[1], high, low)
    return np.where(inside, ab[np.arange(low + high, -1, -1)[:, None], row], 0.0)


@primitive
def _banded(ab, b, *, low, high):
    n = ab.shape[1]
    if n < 2 or not b.size:
        return imported("scipy.linalg").solve_banded((low, high), ab, b, check_finite=False)
    # For small systems SciPy's own function takes ten times as long as the routine that it calls.
    lapack, letter = imported("scipy.linalg.lapack"), "s" if ab.dtype == b.dtype == np.float32 else "d"
    if low == high == 1:
        *_, x, info = getattr(lapack, f"{letter}gtsv")(ab[2, :-1], ab[1], ab[0, 1:], b)
    else:
        rows = np.concatenate([np.zeros((low, n), ab.dtype), ab])
        *_, x, info = getattr(lapack, f"{letter}gbsv")(low, high, rows, b, overwrite_ab=True)
    if info > 0:
        raise np.linalg.LinAlgError("singular matrix")
    return x


@_banded.defvjp
def _(g, x, ab, b, *, low, high):
    back = _banded(_turned(ab, low, high), g, low=high, high=low)
    row, inside = _band(ab.shape[1], low, high)
    return np.where(inside, -np.sum(back[row] * x, axis=-1), 0.0), back


@_banded.defjvp
def _(tangents, x, ab, b, *, low, high):
    row, _ = _band(ab.shape[1], high, low)
    change = np.sum(_turned(tangents[0], low, high)[..., None] * x[row], axis=0)
    return _banded(ab, tangents[1] - change, low=low, high=high)


def _real_bands(ab):
    """The bands of the real matrix that has ``[[a, -b], [b, a]]`` in the place of each element ``a + ib``."""
    re, im, n = lifted(ab).real, lifted(ab).imag, ab.shape[1]
    even, odd = (np.reshape(np.stack(pair, 1), (-1, n)) for pair in ((re, im), (-im, re)))
    none = np.zeros((1, n))
    return np.reshape(np.stack([np.concatenate([none, even]), np.concatenate([odd, none])], -1), (-1, 2 * n))


@mirror
def solve_banded(l_and_u, ab, b, overwrite_ab=False, overwrite_b=False, check_finite=True):
    """The solution x of ``A @ x = b``, A being a matrix in bands; differentiable in these and in `b`.

    Parameters
    ----------
    l_and_u : tuple of int
        How many diagonals are below and above the main one.
    ab : array-like, shape (l + u + 1, n)
        A[i, j] stands in ``ab[u + i - j, j]``; what stands elsewhere has derivative zero.
    b : array-like, shape (n,) or (n, k)
    overwrite_ab, overwrite_b, check_finite : bool
        As in SciPy; the first two have no effect.
    """
    low, high = map(int, l_and_u)
    ab, b = array(ab), array(b)
    finite(check_finite, ab, b)
    if ab.ndim != 2 or ab.shape[0] != low + high + 1 or b.ndim not in (1, 2) or b.shape[0] != ab.shape[1]:
        raise ValueError(f"bands of shape {tuple(ab.shape)} do not fit l + u + 1 = {low + high + 1} and b of shape {tuple(b.shape)}")
    if is_complex(ab) or is_complex(b):
        parts = np.reshape(np.stack([lifted(b).real, lifted(b).imag], 1), (-1, *b.shape[1:]))
        x = solve_banded((2 * low + 1, 2 * high + 1), _real_bands(ab), parts)
        return ComplexTensor(x[::2], x[1::2])
    return _banded(ab, b[:, None], low=low, high=high)[:, 0] if b.ndim == 1 else _banded(ab, b, low=low, high=high)


@mirror
def inv(a, overwrite_a=False, check_finite=True, *, assume_a=None, lower=False):
    """Inverse of a matrix; `assume_a` other than general is refused for tensors."""
    if assume_a not in (None, "gen", "general"):
        raise UnsupportedFunctionError(f"tapegrad.scipy.linalg.inv takes no assume_a={assume_a!r} for tensors")
    return np.linalg.inv(_matrix(a, check_finite))


@mirror
def det(a, overwrite_a=False, check_finite=True):
    """Determinant of a matrix; its derivative holds at singular matrices too."""
    return np.linalg.det(_matrix(a, check_finite))


@mirror
def eigh(
    a, b=None, *, lower=True, eigvals_only=False, overwrite_a=False, overwrite_b=False, type=1, check_finite=True,
    subset_by_index=None, subset_by_value=None, driver=None,
):  # fmt: skip
    """Eigenvalues and eigenvectors of a symmetric matrix, of which one triangle is read.

    With a positive definite `b`, those of ``a @ v = w * b @ v`` (`type` 1 only for
    tensors).  `subset_by_value` is refused for tensors.
    """
    if subset_by_value is not None or type != 1:
        which = f"type={type}" if subset_by_value is None else "subset_by_value="
        raise UnsupportedFunctionError(f"tapegrad.scipy.linalg.eigh takes no {which} for tensors")
    a = _matrix(a, check_finite)
    if b is None:
        w, v = np.linalg.eigh(a, "L" if lower else "U")
    else:
        # With b = f @ f.T the problem is that of inv(f) @ a @ inv(f).T, whose vectors are f.T @ v.
        f = np.linalg.cholesky(_mirrored(_matrix(b, check_finite), lower))
        half = _triangular(f, _mirrored(a, lower), 0, True, False)
        w, v = np.linalg.eigh(_triangular(f, _adjoint(half), 0, True, False))
        v = _triangular(f, v, 2, True, False)
    if subset_by_index is not None:
        first, last = subset_by_index
        if not 0 <= first <= last < w.shape[-1]:
            raise ValueError(f"Requested eigenvalue indices are not valid. Valid range is [0, {w.shape[-1] - 1}]")
        w, v = w[..., first : last + 1], v[..., first : last + 1]
    return w if eigvals_only else (w, v)


@mirror
def eigvalsh(
    a, b=None, *, lower=True, overwrite_a=False, overwrite_b=False, type=1, check_finite=True, subset_by_index=None,
    subset_by_value=None, driver=None,
):  # fmt: skip
    """Eigenvalues of a symmetric matrix; see `eigh`."""
    return eigh(
        a, b, lower=lower, eigvals_only=True, check_finite=check_finite, subset_by_index=subset_by_index,
        subset_by_value=subset_by_value, type=type,
    )  # fmt: skip


@mirror
def svd(a, full_matrices=True, compute_uv=True, overwrite_a=False, check_finite=True, lapack_driver="gesdd"):
    """Singular value decomposition ``U, s, Vh``; tensors that are not square need ``full_matrices=False``."""
    result = np.linalg.svd(_matrix(a, check_finite, square=False), full_matrices=full_matrices, compute_uv=compute_uv)
    return tuple(result) if compute_uv else result


@mirror
def svdvals(a, overwrite_a=False, check_finite=True):
    """Singular values of a matrix, descending."""
    return np.linalg.svd(_matrix(a, check_finite, square=False), compute_uv=False)


@mirror
def qr(a, overwrite_a=False, lwork=None, mode="full", pivoting=False, check_finite=True):
    """QR factors ``(Q, R)``, or ``(R,)`` for ``mode="r"``; tall tensors need "economic", `pivoting` is refused."""
    a = _matrix(a, check_finite, square=False)
    if mode not in ("full", "r", "economic", "raw"):
        raise ValueError("Mode argument should be one of ['full', 'r', 'economic', 'raw']")
    tall = a.shape[-2] > a.shape[-1]
    if pivoting or mode == "raw" or (tall and mode != "economic"):
        raise UnsupportedFunctionError(
            f"tapegrad.scipy.linalg.qr takes no {'pivoting=True' if pivoting else f'mode={mode!r}'} for "
            f"{'tall ' * (tall and not pivoting)}tensors; use mode='economic'"
        )
    q, r = np.linalg.qr(a)
    return (r,) if mode == "r" else (q, r)


@mirror
def pinv(a, *, atol=None, rtol=None, return_rank=False, check_finite=True):
    """Pseudo-inverse of a matrix; `atol` and `return_rank` are refused for tensors."""
    if return_rank or atol:
        raise UnsupportedFunctionError(
            f"tapegrad.scipy.linalg.pinv takes no {'return_rank' if return_rank else 'atol'}= for tensors; "
            "the cut-off is relative to the largest singular value, rtol="
        )
    a = _matrix(a, check_finite, square=False)
    if rtol is None:
        rtol = max(a.shape[-2:]) * float(np.finfo(a.dtype).eps)
    elif rtol < 0:
        raise ValueError("atol and rtol values must be positive.")
    return np.linalg.pinv(a, float(rtol))


@mirror
def norm(a, ord=None, axis=None, keepdims=False, check_finite=True):
    """Norm of a vector or matrix, with the orders of ``np.linalg.norm``."""
    a = array(a)
    finite(check_finite, a)
    return np.linalg.norm(a, ord, axis, keepdims)


@mirror
def block_diag(*arrs):
    """The matrices `arrs` (scalars and vectors count as rows) down the diagonal of a matrix of zeros."""
    blocks = [np.atleast_2d(array(block)) for block in arrs]
    ends = np.cumsum([0, *(block.shape[-1] for block in blocks)]).tolist()
    rows = [np.pad(block, (*((0, 0),) * (block.ndim - 1), (start, ends[-1] - end))) for block, start, end in zip(blocks, ends, ends[1:])]
    lead = np.broadcast_shapes(*(block.shape[:-2] for block in blocks))
    return np.concatenate([np.broadcast_to(row, (*lead, *row.shape[-2:])) for row in rows], axis=-2)


@mirror
def toeplitz(c, r=None):
    """The matrix constant along diagonals with first column `c` and first row `r` (`c` by default, conjugate if complex), 1-d or stacks."""
    c = np.atleast_1d(array(c))
    r = np.atleast_1d(array(r)) if r is not None else np.conj(c) if is_complex(c) else c
    m, n = c.shape[-1], r.shape[-1]
    lead = np.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    both = np.concatenate([np.broadcast_to(c, (*lead, m))[..., ::-1], np.broadcast_to(r, (*lead, n))[..., 1:]], axis=-1)
    return both[..., np.arange(n)[None, :] - np.arange(m)[:, None] + m - 1]


#: Order of the Padé approximant -> largest 1-norm for which it is exact to rounding
#: (N. Higham, "The scaling and squaring method for the matrix exponential revisited", 2005, table 2.3).
_PADE = {3: 1.495585217958292e-2, 5: 2.539398330063230e-1, 7: 9.504178996162932e-1, 9: 2.097847961257068e0}
_PADE_13 = 5.371920351148152


@mirror
def expm(A):
    """Matrix exponential, of each matrix of a stack.

    By scaling, a diagonal Padé approximant and squaring, all recorded; so the
    derivative is the Fréchet derivative as Al-Mohy and Higham compute it, by
    differentiating the algorithm.  The order and the number of squarings depend
    on the norm alone.

    References
    ----------
    N. Higham, "The scaling and squaring method for the matrix exponential
    revisited", SIAM J. Matrix Anal. Appl. 26 (2005); A. Al-Mohy and N. Higham,
    "Computing the Fréchet derivative of the matrix exponential", ibid. 30 (2009).

    Examples
    --------
    >>> import tapegrad as tg
    >>> from tapegrad.scipy.linalg import expm
    >>> a = tg.tensor([[0.0, 1.0], [0.0, 0.0]], requires_grad=True)
    >>> expm(a)[0, 1].backward()
    >>> a.grad
    tensor([[0.5000, 1.0000],
            [0.1667, 0.5000]])
    """
    a = array(A)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise np.linalg.LinAlgError(f"The input array must have square last two axes, got shape {tuple(a.shape)}")
    if a.size == 0:
        return a * 1.0
    order, *times = np.ravel(guard_on(_scaling(), *(split(a) or (a,)))).tolist()
    if not order:
        return a * np.nan
    eye, times = np.eye(a.shape[-1], dtype=a.dtype), np.reshape(times, a.shape[:-2])
    if times.any():
        a = a * np.exp2(-times)[..., None, None].astype(eye.dtype)
    exponential = np.linalg.solve(*_pade(a, eye, int(order)))
    for k in range(int(times.max())):
        squared = exponential @ exponential
        exponential = squared if (times > k).all() else np.where((times > k)[..., None, None], squared, exponential)
    return exponential


@host_function
def _scaling(*parts):
    """The order of the approximant, 0 if something is not finite, and how often each matrix is halved."""
    norms = np.abs(parts[0] + 1j * parts[1] if len(parts) == 2 else parts[0]).sum(axis=-2).max(axis=-1)
    if not np.isfinite(norms).all():
        return np.zeros(1 + norms.size)
    order = next((m for m, bound in _PADE.items() if norms.max() <= bound), 13)
    with np.errstate(divide="ignore"):
        times = np.maximum(np.ceil(np.log2(norms / _PADE_13)), 0.0) if order == 13 else np.zeros_like(norms)
    return np.append(order, times)


def _pade(a, eye, order):
    """Denominator and numerator of the approximant of `order`."""
    b = [float(factorial(2 * order - k) // (factorial(k) * factorial(order - k))) for k in range(order + 1)]
    powers = [eye, a @ a]
    while len(powers) <= order // 2:
        powers.append(powers[-1] @ powers[1])
    odd, even = a @ combined(b[1::2], powers), combined(b[::2], powers)
    return even - odd, even + odd

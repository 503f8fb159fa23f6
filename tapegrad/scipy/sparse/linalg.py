"""Solutions of systems with a sparse matrix, and log determinants; every other name of `scipy.sparse.linalg` is SciPy's own."""

import numpy as np

from ...array.complex import ComplexTensor, is_complex, lifted
from ...common.uninterrupted import Lazily
from ..mirrors import Beside, array, mirror, names_of, of_theirs
from .values import SparseTensor, logdet, solution  # noqa: F401

__all__, __dir__, __getattr__ = names_of(__name__, "logdet")
_theirs, _sparse = Lazily("scipy.sparse.linalg"), Lazily("scipy.sparse")


class Factors(Beside):
    """What `splu` gives: SciPy's factors of a sparse matrix, whose solutions are differentiable in the right side."""

    #: As a `Pattern`, it has no values that are differentiated.
    coords = None

    def __init__(self, factors):
        self.theirs = factors

    @of_theirs
    def solve(self, rhs, trans="N"):
        """The solution of ``A @ x = rhs``, or of ``A.T @ x = rhs`` ("T", "H"), for a vector or matrix `rhs`."""
        return solution(None, array(rhs), pattern=self, trans=trans)

    def factors(self, values):
        """As of a `Pattern`; there are no `values`."""
        return self.theirs


class _Solutions:
    """What `splu` gives of a `SparseTensor`: solutions, differentiable in its values and the right side."""

    def __init__(self, matrix):
        self._matrix = matrix

    def solve(self, rhs, trans="N"):
        """The solution of ``A @ x = rhs``, or of ``A.T @ x = rhs`` ("T" or "H")."""
        if trans not in ("N", "T", "H"):
            raise ValueError(f'trans={trans!r}: choose one of "N", "T", "H"')
        return spsolve(self._matrix if trans == "N" else self._matrix.T, rhs)


def splu(A, permc_spec=None, diag_pivot_thresh=None, relax=None, panel_size=None, options=None):
    """The LU factors of a sparse matrix; ``splu(A).solve(b)`` is differentiable in `b` and, of a `SparseTensor`, in its values.

    Parameters
    ----------
    A : sparse matrix or array, or SparseTensor, shape (n, n)
    permc_spec, diag_pivot_thresh, relax, panel_size, options
        As in SciPy; of a `SparseTensor` without effect.

    Returns
    -------
    Factors
        Of a `SparseTensor` they have `solve` alone.

    Raises
    ------
    RuntimeError
        If `A` is singular.

    Examples
    --------
    >>> import scipy.sparse, tapegrad as tg
    >>> from tapegrad.scipy.sparse.linalg import splu
    >>> b = tg.tensor([2.0, 9.0], requires_grad=True)
    >>> splu(scipy.sparse.csc_array([[2.0, 0.0], [1.0, 4.0]])).solve(b).sum().backward()
    >>> b.grad
    tensor([0.3750, 0.2500])
    """
    if isinstance(A, SparseTensor):
        return _Solutions(A)
    return Factors(_theirs.splu(A, permc_spec, diag_pivot_thresh, relax, panel_size, options or {}))


def _doubled(A):
    """The real matrix that has ``[[a, -b], [b, a]]`` in the place of each element ``a + ib``."""
    entries = A.tocoo()
    (rows, columns), data = entries.coords, entries.data
    values = np.concatenate([data.real, -data.imag, data.imag, data.real])
    places = [np.concatenate([2 * at + k for k in shifts]) for at, shifts in ((rows, (0, 0, 1, 1)), (columns, (0, 1, 0, 1)))]
    shape = 2 * A.shape[0], 2 * A.shape[1]
    return SparseTensor(values, tuple(places), shape) if isinstance(A, SparseTensor) else _sparse.csc_array((values, tuple(places)), shape=shape)


@mirror
def spsolve(A, b, permc_spec=None, use_umfpack=True):
    """The solution of ``A @ x = b``, differentiable in the vector or matrix `b` and, of a `SparseTensor`, in its values; real or complex."""
    b = array(b)
    # A matrix of one column has a vector for a solution, as SciPy has it.
    b = np.reshape(b, (-1,)) if b.ndim == 2 and b.shape[1] == 1 else b
    if is_complex(A.tocoo().data):
        pairs = spsolve(_doubled(A), np.reshape(np.stack([lifted(b).real, lifted(b).imag], 1), (-1, *b.shape[1:])))
        return ComplexTensor(pairs[::2], pairs[1::2])
    if is_complex(b):
        return ComplexTensor(*(spsolve(A, part) for part in (b.real, b.imag)))
    if isinstance(A, SparseTensor):
        return solution(A.data, b, pattern=A.pattern, trans="N")
    return splu(A.tocsc().astype(np.result_type(A.dtype, b.dtype)), permc_spec).solve(b)

"""Solutions of systems with a sparse matrix, and log determinants; every other name of `scipy.sparse.linalg` is SciPy's own."""

import numpy as np

from ...common.uninterrupted import Lazily
from ..mirrors import Beside, array, mirror, names_of, of_theirs
from .values import SparseTensor, logdet, solution  # noqa: F401

__all__, __dir__, __getattr__ = names_of(__name__, "logdet")
_theirs = Lazily("scipy.sparse.linalg")


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


def splu(A, permc_spec=None, diag_pivot_thresh=None, relax=None, panel_size=None, options=None):
    """The LU factors of a constant sparse matrix; ``splu(A).solve(b)`` is differentiable in `b`.

    Parameters
    ----------
    A : sparse matrix or array, shape (n, n)
    permc_spec, diag_pivot_thresh, relax, panel_size, options
        As in SciPy.

    Returns
    -------
    Factors

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
    return Factors(_theirs.splu(A, permc_spec, diag_pivot_thresh, relax, panel_size, options or {}))


@mirror
def spsolve(A, b, permc_spec=None, use_umfpack=True):
    """The solution of ``A @ x = b``, differentiable in the vector or matrix `b` and, of a `SparseTensor`, in its values."""
    b = array(b)
    if isinstance(A, SparseTensor):
        return solution(A.data, b, pattern=A.pattern, trans="N")
    return splu(A.tocsc().astype(np.result_type(A.dtype, b.dtype)), permc_spec).solve(b)

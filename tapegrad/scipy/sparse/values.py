"""Sparse matrices whose values carry a derivative; where they stand is constant.

A product is a gather, a multiplication and a sum by rows, so all modes and orders are theirs.  A solution is a primitive: its factors
are SciPy's, and its derivatives are solutions with the same matrix and products of what is known.
"""

import numpy as np

from ...array import functions as F
from ...array.functions.arguments import named
from ...array.functions.gathers import sparse_product
from ...autograd.custom import primitive
from ...common.errors import ShapeError, UnsupportedFunctionError
from ...common.tree import is_sparse
from ...common.uninterrupted import Lazily
from ..mirrors import array, differentiable, mirror

_sparse, _linalg = Lazily("scipy.sparse"), Lazily("scipy.sparse.linalg")


class Pattern:
    """Where the values of a sparse matrix stand: `coords` (rows, columns) and `shape`; and the factors of the matrix that was factorised last."""

    def __init__(self, coords, shape):
        self.coords, self.shape, self._kept = coords, shape, None

    def factors(self, values):
        """SciPy's factors of the matrix with these values (ndarray), made once for as long as they are the same."""
        kept, found = self._kept, values.tobytes()
        if kept is None or kept[0] != found:
            kept = self._kept = found, _linalg.splu(_sparse.coo_array((values, self.coords), self.shape).tocsc())
        return kept[1]


_HAS = "A @ t, t @ A, A.T, A[rows][:, columns], A.toarray(), A.diagonal(), sums, multiples, products with sparse matrices, spsolve, splu, logdet"


class SparseTensor:
    """A sparse matrix with values on the tape: ``A @ t``, ``t @ A``, `spsolve`, `logdet`, ``A.T``, parts, sums, multiples and products of it.

    Attributes
    ----------
    data : Tensor
        The stored values; what stands twice in a place is summed.
    coords : (ndarray of int, ndarray of int)
        Their rows and columns.
    shape : (int, int)
    """

    # NumPy leaves its operators to those of this class.
    __array_ufunc__ = None
    ndim = 2

    def __init__(self, data, coords, shape):
        if data.shape != coords[0].shape:
            raise ShapeError(f"a sparse matrix has {len(coords[0])} places, and values of shape {tuple(data.shape)}")
        self.data, self.coords, self.shape, self.nnz, self.pattern = data, coords, shape, len(coords[0]), Pattern(coords, shape)

    def __array_function__(self, function, types, args, kwargs):
        raise UnsupportedFunctionError(f"np.{function.__name__} of a sparse matrix with values on the tape; it has {_HAS}")

    def __getattr__(self, name):
        raise AttributeError(f"a sparse matrix with values on the tape has no {name}; it has {_HAS}")

    def __repr__(self):
        return f"SparseTensor({self.shape[0]} by {self.shape[1]}, {self.nnz} values)"

    @property
    def T(self):
        """The transposed matrix, with the same values."""
        return SparseTensor(self.data, self.coords[::-1], self.shape[::-1])

    def tocoo(self, copy=False):
        """This: it is in that format, and serves for the others."""
        return self

    tocsc = tocsr = tocoo

    def __matmul__(self, other):
        return _product(self, other.tocoo()) if _sparse_too(other) else sparse_product(self, array(other))

    dot = __matmul__

    def __rmatmul__(self, other):
        return _product(other.tocoo(), self) if _sparse_too(other) else F.transpose(self.T @ F.transpose(array(other)))

    def __mul__(self, number):
        if np.ndim(number):
            raise UnsupportedFunctionError("a sparse matrix with values on the tape is multiplied by numbers; make the product of the values")
        return SparseTensor(self.data * number, self.coords, self.shape)

    __rmul__ = __mul__

    def __truediv__(self, number):
        return self * (1.0 / number)

    def __neg__(self):
        return self * -1.0

    def __add__(self, other):
        if not _sparse_too(other):
            return NotImplemented
        if other.shape != self.shape:
            raise ShapeError(f"a sum of sparse matrices of shapes {self.shape} and {other.shape}")
        other = other.tocoo()
        return SparseTensor(F.concatenate([self.data, other.data]), tuple(map(np.concatenate, zip(self.coords, other.coords))), self.shape)

    __radd__ = __add__

    def __sub__(self, other):
        return self + -other

    def __rsub__(self, other):
        return -self + other

    def __getitem__(self, key):
        """The part at these rows and columns, as of SciPy's ``csr_array``; or one number."""
        places, which = np.unique(self._places(), return_inverse=True)
        data = F.segment_sum(self.data, which, len(places))
        # Numbers stand for the values, as in `_with_values`.
        part = _sparse.csr_array((np.arange(1.0, len(places) + 1.0), np.divmod(places, self.shape[1])), shape=self.shape)[key]
        if np.ndim(part) == 0:
            return data[int(part) - 1] if part else 0.0
        if part.ndim == 1:
            raise UnsupportedFunctionError("a row or column of a sparse matrix with values on the tape is no vector; write A[k : k + 1] or A[:, k : k + 1]")
        part = part.tocoo()
        return SparseTensor(data[np.asarray(part.data, int) - 1], part.coords, part.shape)

    def diagonal(self):
        """The elements with the same row and column."""
        on = np.flatnonzero(self.coords[0] == self.coords[1])
        return F.segment_sum(self.data[on], self.coords[0][on], min(self.shape))

    def _places(self):
        return self.coords[0] * self.shape[1] + self.coords[1]

    def toarray(self):
        """The matrix as a tensor."""
        return F.reshape(F.segment_sum(self.data, self._places(), self.shape[0] * self.shape[1]), self.shape)


def _sparse_too(other):
    return is_sparse(other) or isinstance(other, SparseTensor)


def _product(a, b):
    """The product of two sparse matrices: each value of `a` meets those of `b` whose row is its column."""
    if a.shape[1] != b.shape[0]:
        raise ShapeError(f"a product of sparse matrices of shapes {a.shape} and {b.shape}")
    order = np.argsort(b.coords[0], kind="stable")
    begin, end = (np.searchsorted(b.coords[0][order], a.coords[1], side) for side in ("left", "right"))
    left = np.repeat(np.arange(len(begin)), end - begin)
    right = order[np.arange(len(left)) + np.repeat(end - np.cumsum(end - begin), end - begin)]
    return SparseTensor(a.data[left] * b.data[right], (a.coords[0][left], b.coords[1][right]), (a.shape[0], b.shape[1]))


@primitive
def solution(data, b, *, pattern, trans):
    """The solution of ``A @ x = b``; of constant factors, a `pattern` without places, `data` is None."""
    return pattern.factors(data).solve(b, trans)


@solution.defvjp
def _(g, x, data, b, *, pattern, trans):
    back = solution(data, g, pattern=pattern, trans="T" if trans == "N" else "N")
    if pattern.coords is None:
        return None, back
    rows, cols = pattern.coords if trans == "N" else pattern.coords[::-1]
    products = back[rows] * x[cols]
    return -(products if x.ndim == 1 else F.sum(products, axis=1)), back


@solution.defjvp
def _(tangents, x, data, b, *, pattern, trans):
    change, right = tangents
    total = 0.0 * x if right is None else right
    if change is not None:
        moved = SparseTensor(change, pattern.coords, pattern.shape)
        total = total - (moved if trans == "N" else moved.T) @ x
    return solution(data, total, pattern=pattern, trans=trans)


@primitive
def _log_determinant(data, *, pattern):
    return np.sum(np.log(np.abs(pattern.factors(data).U.diagonal())))


@_log_determinant.defvjp
def _(g, value, data, *, pattern):
    return g * _slopes(data, pattern)


@_log_determinant.defjvp
def _(tangents, value, data, *, pattern):
    return F.sum(tangents[0] * _slopes(data, pattern))


def _slopes(data, pattern):
    """d log |det A| is the trace of the inverse times dA."""
    return solution(data, np.eye(pattern.shape[0]), pattern=pattern, trans="N")[pattern.coords[::-1]]


def logdet(A):
    """The logarithm of the absolute value of the determinant of a sparse matrix, differentiable in its values.

    Parameters
    ----------
    A : SparseTensor, or sparse matrix or array of SciPy's, shape (n, n)

    Returns
    -------
    Tensor or float

    Raises
    ------
    RuntimeError
        If `A` is singular.

    Notes
    -----
    The value takes the sparse factors. The derivative is the inverse where values stand, by a solution for each column: n squared numbers.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> from tapegrad.scipy.sparse import csr_array
    >>> from tapegrad.scipy.sparse.linalg import logdet
    >>> f = lambda v: logdet(csr_array((v, ([0, 1, 1], [0, 0, 1]))))
    >>> tg.grad(f)(np.array([2.0, 1.0, 4.0]))
    array([0.5 , 0.  , 0.25])
    """
    coo = A.tocoo()
    return _log_determinant(coo.data, pattern=A.pattern if isinstance(A, SparseTensor) else Pattern(coo.coords, coo.shape))


def _with_values(name):
    """SciPy's class of that name, for values that carry a derivative."""

    def made(arg1, shape=None, dtype=None, copy=False):
        """``scipy.sparse.{name}``; of values that are tensors, ``(data, (rows, columns))`` and the like, a `SparseTensor`."""
        if not (isinstance(arg1, tuple) and differentiable(arg1[0]) and not differentiable(*arg1[1:])):
            raise UnsupportedFunctionError(
                f"{name} of tensors takes (data, (rows, columns)){'' if name.startswith('coo') else ' or (data, indices, indptr)'}, with places that are "
                "plain arrays; of a dense tensor give its values at the places that are stored"
            )
        data = F.lift(array(arg1[0]))
        # SciPy looks at the arguments; where numbers stand tells which value stands there.
        places = getattr(_sparse, name)((np.arange(1.0, data.size + 1.0), *arg1[1:]), shape=shape)
        if len(arg1) == 3 or places.nnz == data.size:
            places = places.tocoo()
            return SparseTensor(data[np.asarray(places.data, int) - 1], places.coords, places.shape)
        return SparseTensor(data, tuple(map(np.asarray, arg1[1])), places.shape)

    return mirror(named(made, name))


coo_array, csc_array, csr_array = map(_with_values, ("coo_array", "csc_array", "csr_array"))
coo_matrix, csc_matrix, csr_matrix = map(_with_values, ("coo_matrix", "csc_matrix", "csr_matrix"))

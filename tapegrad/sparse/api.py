"""Sparse derivatives for users: `sparsity`, `sparse_jacobian`, `sparse_hessian`.

A call is the function on a tape (under `jit` its replay), and derivatives with a direction for each colour behind it, by a sweep
or a kernel; what comes back is gathered into the data of a SciPy array.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..array.functions import concatenate
from ..array.typing import Argnums, Mode
from ..autograd import nested
from ..common.errors import GradientError, HigherOrderError, OptionError, SeedShapeError, StructureError
from ..common.tree import alike, flatten, leaf_names, unflatten
from ..common.uninterrupted import cached_property, imported
from ..program.evaluation import applied
from ..transforms.argnums import check_given
from ..transforms.functional import chosen
from ..transforms.hessians import Gradient
from ..transforms.jacobians import checked_mode
from ..transforms.replay.directions import SparseTemplate
from ..transforms.transformed import OfDirections, Transformed

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from ..transforms.replay.running import Stats


def as_sparse(e):
    """The Jacobian of an evaluation of which no pattern is known: dense, and then what of it is not zero."""
    csr_array = imported("scipy.sparse").csr_array
    totals = [sum(p.size for p in ports) for ports in (e.outputs, e.inputs)]
    blocks = e.columns() if totals[1] < totals[0] else e.rows()
    if not all(totals):
        return csr_array(tuple(totals))
    return csr_array(np.block([[np.reshape(b, (p.size, q.size)) for b, q in zip(row, e.inputs)] for row, p in zip(blocks, e.outputs)]))


class _Sparse(OfDirections):
    """What `sparse_jacobian` and `sparse_hessian` have in common.

    Attributes
    ----------
    dense : str
        What can be called inside of another derivative.
    """

    _unknown = staticmethod(as_sparse)

    def _somewhere(self, args, kwargs, kept=()):
        if nested.is_nested(args, kwargs):
            raise HigherOrderError(
                f"tg.sparse_{self.dense} gives a SciPy array, which cannot carry a derivative: inside of another derivative, and of "
                f"tensors that require a gradient, use tg.{self.dense}"
            )
        return nested.beside(self._ordinary, None, args, kwargs)

    def _ordinary(self, args, kwargs):
        return self._replayed.call_of_tape(args, kwargs, self._asked(args, kwargs)).gradients

    def compressions(self, args, kwargs):
        """Patterns and directions of the tape of a call."""
        tape = self._replayed.call_of_tape(args, kwargs, False).tape
        if tape is None:
            name = getattr(self, "__qualname__", inspect.unwrap(self))
            raise GradientError(f"{name} has no tape, and so no pattern: it cannot be recorded: {self.stats().fallback}")
        return tape.compressions

    def compressed(self, *args):
        """A function that gives the entries alone, in the order of the pattern, on the path of these arguments; and the pattern."""
        template, way, positions = self._compression(self.compressions(args, {}))

        def entries(e):
            rows = [np.reshape(r, (way.count, -1)) for r in (e.push if way.forward else e.pull)(way.seeds, way.count)]
            return np.reshape(concatenate(rows, axis=1), (-1,))[positions]

        return lambda *args: applied(entries, self._function, args, self._argnums, {}), template.copy()

    def body(self, e):
        tape = e.walk.tape
        if tape is None:
            return self._unknown(e)
        template, way, positions = self._compression(tape.compressions)
        if not len(positions):
            return SparseTemplate(template)(np.zeros(0))
        rows = e.walk.along(way)
        rows = rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1)
        return SparseTemplate(template)(rows.reshape(-1)[positions])


class _SparseJacobian(_Sparse):
    """What `sparse_jacobian` returns."""

    dense = "jacobian"

    def __init__(self, function, argnums, mode):
        super().__init__(function, argnums, scalar=False)
        self._mode = mode

    def _compression(self, known):
        return known.jacobian(self._mode)


def _total(results):
    return sum([np.sum(r) if np.ndim(r) else r for r in results], 0.0)


class _WeightedSum:
    """The results of a function as one number: their sum, each times its weight.

    The weights are the last argument (`weighted`: a Lagrangian, for `sparse_hessian`), or 1 (for `sparsity`).
    """

    def __init__(self, function, weighted):
        functools.update_wrapper(self, function, updated=())
        self.function, self.weighted = function, weighted

    def __call__(self, *args, **kwargs):
        args, last = (args[:-1], args[-1]) if self.weighted else (args, None)
        results, structure = flatten(self.function(*args, **kwargs))
        if not self.weighted:
            return _total(results)
        weights, weights_structure = flatten(last)
        if len(weights) != len(results) or len(results) > 1 and not alike(weights_structure, structure):
            raise StructureError(f"the weights are {weights_structure}, but the function returns {structure}; give one weight for each result")
        for w, r, name in zip(weights, results, leaf_names(structure)):
            if np.shape(w) != np.shape(r):
                raise SeedShapeError(
                    f"the weights of the result{name} have the shape {np.shape(w)}, the result has {np.shape(r)}: it takes one weight "
                    "for each number"
                )
        return _total([w * r for w, r in zip(weights, results)])


class _SparseHessian(_Sparse):
    """What `sparse_hessian` returns."""

    dense = "hessian"

    def __init__(self, function, argnums, weights):
        super().__init__(function, argnums)
        self._weights = weights

    @cached_property
    def _function(self):
        return Gradient(_WeightedSum(self.__wrapped__, True) if self._weights else self.__wrapped__, self._argnums)

    def _ordinary(self, args, kwargs):
        return super()._ordinary(self._with_weights(args) if self._weights else args, kwargs)

    def _unknown(self, e):
        hessian = super()._unknown(e)
        return (0.5 * (hessian + hessian.T)).tocsr()

    def _compression(self, known):
        return known.symmetric.template, known.symmetric.way, known.symmetric.places

    def _with_weights(self, args):
        if len(args) < 2:
            raise StructureError("with weights=True the call takes the arguments of the function and, last, the weights of its results")
        check_given(self._argnums, args[:-1], ", and weights")
        leaves, structure = flatten(args[-1])
        return *args[:-1], unflatten(structure, [np.array(w, float) for w in leaves])


class Sparsity:
    """What `sparsity` returns."""

    __wrapped__: Callable[..., Any]

    def __init__(self, function, argnums, order):
        functools.update_wrapper(self, function, updated=())
        self.order = order
        self.derivative = _SparseJacobian(function, argnums, "auto") if order == 1 else _SparseHessian(_WeightedSum(function, False), argnums, False)

    def stats(self) -> Stats:
        """What has been recorded and replayed so far: a `Stats`, readable with ``print``."""
        return self.derivative.stats()

    def __call__(self, *args: Any, **kwargs: Any) -> csr_array:
        if nested.is_nested(args, kwargs):
            raise HigherOrderError("tg.sparsity looks at a tape of its own: call it with numbers, outside of other derivatives")
        known = self.derivative.compressions(args, kwargs)
        return (known if self.order == 1 else known.symmetric).structure.copy()


def sparsity(f: Callable[..., Any], argnums: Argnums = 0, order: Literal[1, 2] = 1, *, argnum: Argnums | None = None) -> Sparsity:
    """Make a function that returns the sparsity pattern of the Jacobian of `f`, or of its Hessian.

    Parameters
    ----------
    f : callable
        Returns a number, an array, or containers of them.
    argnums : int or tuple of int
        The positional arguments to differentiate with respect to.  Also called `argnum`.
    order : {1, 2}
        1: the Jacobian.  2: the Hessian; for several results, the union of their patterns, which is the
        pattern of the Hessian of a Lagrangian.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns a SciPy CSR array of bool: True where the derivative may
        be nonzero at any point that takes the same path.  Rows count the elements of all results in C order,
        columns those of the arguments, in the order of the arguments; for a Hessian, both count elements of
        the arguments.  The callable's ``stats()`` says how often `f` was recorded and replayed.

    Raises
    ------
    GradientError
        `f` cannot be recorded, so there is no tape to read; the message says why.
    HigherOrderError
        It is called inside another derivative.
    StructureError, DtypeError
        An argument or a result is not a float; the message names it.

    Notes
    -----
    Element-wise operations, data movement, reductions, scans and matrix products are known element by
    element; solves, factorizations and custom primitives count as dense.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> tg.sparsity(lambda x: x[1:] * x[:-1])(np.ones(4)).toarray().astype(int)
    array([[1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])
    >>> tg.sparsity(lambda x: x[0] * x[1] + 3.0 * x[2], order=2)(np.ones(3)).toarray().astype(int)
    array([[0, 1, 0],
           [1, 0, 0],
           [0, 0, 0]])
    """
    if order not in (1, 2):
        raise OptionError(f"order={order!r}: 1 is the pattern of the Jacobian, 2 that of the Hessian")
    return Sparsity(f, chosen(argnums, argnum), order)


def sparse_jacobian(
    f: Callable[..., Any], argnums: Argnums = 0, mode: Mode = "auto", *, argnum: Argnums | None = None, kernel: None = None
) -> Transformed[csr_array]:
    """Make a function that returns the Jacobian of `f` as a SciPy sparse array.

    Parameters
    ----------
    f : callable
        Returns a number, an array, or containers of them.
    argnums : int or tuple of int
        The positional arguments to differentiate with respect to: numbers, arrays of floats,
        or containers of them.  Also called `argnum`.
    mode : {"auto", "forward", "reverse"}
        Whether columns ("forward") or rows ("reverse") without a place in common share a direction;
        "auto" takes whichever needs fewer directions.
    kernel : None
        An option of `jit`; here it is refused.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns a ``csr_array`` with a row for each element of the results (C
        order, containers one after the other) and a column for each element of the arguments,
        in their order.  It stores all entries of the pattern (`sparsity`), including those that
        happen to be zero.  With ``out=a``, a vector with a place for each entry, it writes only the values to `a`, in the
        order of the pattern, and returns `a`.

    Raises
    ------
    HigherOrderError
        It is called inside another derivative, where `jacobian` works.
    StructureError, DtypeError
        An argument or a result is not a float; the message names it.

    Notes
    -----
    Each call finds the pattern and colours; under `jit` they are found once for each path of the function.  A function that
    cannot be recorded (``stats().fallback``) has no pattern: its Jacobian is computed dense, and only nonzero
    entries are stored.

    See Also
    --------
    sparsity, jacobian

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> found = tg.sparse_jacobian(lambda x: x[1:] * x[:-1])(np.array([1.0, 2.0, 3.0]))
    >>> found.toarray()
    array([[2., 1., 0.],
           [0., 3., 2.]])
    >>> found.nnz
    4
    """
    return _SparseJacobian(f, chosen(argnums, argnum, kernel), checked_mode(mode))


def sparse_hessian(
    f: Callable[..., Any], argnums: Argnums = 0, weights: bool = False, *, argnum: Argnums | None = None, kernel: None = None
) -> Transformed[csr_array]:
    """Make a function that returns the Hessian of `f`, or of a Lagrangian, as a SciPy sparse array.

    Parameters
    ----------
    f : callable
        Returns one number; with `weights` also an array, or containers of numbers and arrays.
    argnums : int or tuple of int
        Which arguments to differentiate, by position or name.  Also called `argnum`.
    weights : bool
        Whether calls take, as the last argument, a weight for each number that `f` returns, in its
        containers and shapes.  The Hessian is then that of the weighted sum, as methods for
        constrained problems need it.
    kernel : None
        An option of `jit`; here it is refused.

    Returns
    -------
    callable
        Takes the arguments of `f` (and weights) and returns a ``csr_array``, symmetric to the last bit,
        with a row and a column for each element of the arguments; `out` is as for `sparse_jacobian`.

    Raises
    ------
    NonScalarOutputError
        `f` returns more than one number, without `weights`.
    SeedShapeError, StructureError
        The weights do not match the results.
    HigherOrderError
        It is called inside another derivative, where `hessian` works.

    Notes
    -----
    The pattern is that of the recorded gradient.  Its columns are coloured so that of each pair (i, j)
    and (j, i) one stands alone (star colouring); an arrow matrix takes two directions.  One sweep
    over the gradient carries a tangent for each colour.  For a function that cannot be recorded, see `sparse_jacobian`.

    See Also
    --------
    sparsity, hessian, hvp

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> f = lambda x: np.sum(x[1:] * x[:-1] ** 2)
    >>> tg.sparse_hessian(f)(np.array([1.0, 2.0, 3.0])).toarray()
    array([[4., 2., 0.],
           [2., 6., 4.],
           [0., 4., 0.]])
    >>> lagrangian = tg.sparse_hessian(lambda x: (x[0] * x[1], x[1] ** 3), weights=True)
    >>> lagrangian(np.array([1.0, 2.0]), (1.0, 10.0)).toarray()
    array([[  0.,   1.],
           [  1., 120.]])
    """
    return _SparseHessian(f, chosen(argnums, argnum, kernel), weights)

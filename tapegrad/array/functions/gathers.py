"""Functions whose result are elements of their operand at given positions, and sums, means and extremes by group.

Each of the first is a gather, whose index map NumPy makes from an array of positions.  Rows of an array that have the same number are a
group: a sum is the transpose of indexing (`scatter`), an extreme is an indexing at positions that depend on values, and a product with a
sparse matrix the sum by rows of what its entries meet.
"""

from __future__ import annotations

import math
from functools import lru_cache
from operator import index as as_index
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...common.errors import DtypeError, ShapeError
from ...common.host_functions import host_function
from ..differentiable import Differentiable
from ..record import apply, guard_on, record_aux
from ..typing import ArrayLike, Axis, TensorLike
from .arguments import lift
from .elementwise import where
from .shapes import reshape, transpose

if TYPE_CHECKING:
    from ..tensor import Tensor


def moved(row, x, function):
    """A gather whose index map is `function` applied to the array of positions."""
    x = lift(x)
    index = frozen(function(positions_of(x.shape)))
    return apply(row, (x, index.reshape(-1)), (("shape", index.shape),))


def frozen(positions):
    """An index map: a C-contiguous, read-only int64 array."""
    index = np.array(positions, np.int64, order="C", copy=None)
    index.flags.writeable = False
    return index


def moved_by(x, function, *others):
    """As `moved`, by the row ``gather``, with an index map ``function(*values)`` that depends on values (of `others`)."""
    x = lift(x)
    index = record_aux(function, *others)
    return apply("gather", (x, reshape(index, (-1,)) if isinstance(index, Differentiable) else index.reshape(-1)), (("shape", index.shape),))


def repeat(x: TensorLike, repeats: ArrayLike, axis: int | None = None) -> Tensor:
    """Repeat elements, as ``np.repeat`` does.

    Parameters
    ----------
    x : Tensor or array-like
    repeats : int or sequence of int
    axis : int, optional

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.repeat(tg.tensor([1.0, 2.0]), 2)
    tensor([1., 1., 2., 2.])
    """
    return moved("repeat", x, lambda p: np.repeat(p, repeats, axis))


def tile(x: TensorLike, reps: int | tuple[int, ...]) -> Tensor:
    """Repeat the array, as ``np.tile`` does.

    Parameters
    ----------
    x : Tensor or array-like
    reps : int or tuple of int

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.tile(tg.tensor([1.0, 2.0]), 2)
    tensor([1., 2., 1., 2.])
    """
    return moved("tile", x, lambda p: np.tile(p, reps))


def roll(x: TensorLike, shift: int | tuple[int, ...], axis: Axis = None) -> Tensor:
    """Roll elements along axes, as ``np.roll`` does.

    Parameters
    ----------
    x : Tensor or array-like
    shift : int or tuple of int
    axis : int, optional

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.roll(tg.tensor([1.0, 2.0, 3.0]), 1)
    tensor([3., 1., 2.])
    """
    return moved("roll", x, lambda p: np.roll(p, shift, axis))


def take(x: TensorLike, indices: TensorLike, axis: int | None = None, mode: Literal["raise", "wrap", "clip"] = "raise") -> Tensor:
    """Take elements at integer positions, as ``np.take`` does; `mode` "wrap" or "clip" brings positions out of range back in.

    Parameters
    ----------
    x : Tensor or array-like
    indices : int array-like or Tensor
    axis : int, optional
    mode : {'raise', 'wrap', 'clip'}

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.take(tg.tensor([1.0, 2.0, 3.0]), [2, 0])
    tensor([3., 1.])
    """
    x = lift(x)
    return moved_by(x, _taken(x.shape, None if axis is None else as_index(axis), mode), indices)


@host_function
def _taken(at, shape, axis, mode):
    # An empty list has come as an array of floats.
    return frozen(np.take(positions_of(shape), at if np.size(at) else np.asarray(at, np.int64), axis, mode=mode))


#: Elements up to which the positions of an array are kept for the next time, and for how many shapes.
FEW, SHAPES = 1 << 16, 16


@lru_cache(maxsize=SHAPES)
def _small_positions(shape):
    return np.arange(math.prod(shape)).reshape(shape)


def positions_of(shape):
    """The flat position of each element of an array of `shape`, read-only."""
    return _small_positions(shape) if math.prod(shape) <= FEW else np.arange(math.prod(shape)).reshape(shape)


@host_function
def along_axis(order, shape, axis):
    """The index map of ``np.take_along_axis`` in an array of this shape."""
    return frozen(np.take_along_axis(positions_of(shape), order, axis))


# ---- by group ------------------------------------------------------------------------------------
def segment_sum(data: TensorLike, ids: TensorLike, num: int | None = None) -> Tensor:
    """Sum the rows of each group; the sum of a group without rows is 0.

    Parameters
    ----------
    data : Tensor or array-like
    ids : int array-like or Tensor, shape (n,)
        The group of each row of `data`, counted from 0.
    num : int, optional
        Number of groups; by default one more than the largest id.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.segment_sum([1.0, 2.0, 5.0], [0, 2, 0])
    tensor([6., 0., 2.])
    """
    data, ids, num = _grouped(data, ids, num)
    inner = tuple(data.shape[1:])
    positions = record_aux(_positions(int(np.prod(inner)), num), ids)
    return apply("scatter", (reshape(data, (-1,)), positions), (("shape", (num, *inner)),))


def segment_mean(data: TensorLike, ids: TensorLike, num: int | None = None) -> Tensor:
    """Average the rows of each group; the mean of a group without rows is 0.

    Parameters
    ----------
    data : Tensor or array-like
    ids : int array-like or Tensor, shape (n,)
        The group of each row of `data`, counted from 0.
    num : int, optional
        Number of groups; by default one more than the largest id.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.segment_mean([1.0, 2.0, 5.0], [0, 2, 0], 4)
    tensor([3., 0., 2., 0.])
    """
    sums = segment_sum(data, ids, num)
    counts = record_aux(_counts(len(sums), sums.dtype.char), lift(ids))
    return sums / reshape(counts, (-1,) + (1,) * (sums.ndim - 1))


def segment_max(data: TensorLike, ids: TensorLike, num: int | None = None) -> Tensor:
    """The maximum over the rows of each group; -inf for a group without rows. At a tie, the first one gets the derivative.

    Parameters
    ----------
    data : Tensor or array-like
    ids : int array-like or Tensor, shape (n,)
        The group of each row of `data`, counted from 0.
    num : int, optional
        Number of groups; by default one more than the largest id.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.segment_max([1.0, 2.0, 5.0], [0, 1, 0])
    tensor([5., 2.])
    """
    return _extreme(data, ids, num, True)


def segment_min(data: TensorLike, ids: TensorLike, num: int | None = None) -> Tensor:
    """The minimum over the rows of each group; inf for a group without rows. At a tie, the first one gets the derivative.

    Parameters
    ----------
    data : Tensor or array-like
    ids : int array-like or Tensor, shape (n,)
        The group of each row of `data`, counted from 0.
    num : int, optional
        Number of groups; by default one more than the largest id.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.segment_min([1.0, 2.0, 5.0], [0, 1, 0])
    tensor([1., 2.])
    """
    return _extreme(data, ids, num, False)


def sparse_product(a, b):
    """``a @ b`` where one is a constant sparse matrix of SciPy's, and the other a tensor of one or two axes."""
    if hasattr(b, "tocoo"):
        return transpose(sparse_product(b.T, transpose(a)))
    if len(a.shape) != 2 or b.ndim not in (1, 2) or a.shape[1] != b.shape[0]:
        raise ShapeError(f"the product of a sparse matrix of shape {a.shape} and a tensor of shape {tuple(b.shape)} does not exist")
    entries = a.tocoo()
    rows, columns = entries.coords
    data = entries.data.reshape(-1, *(1,) * (b.ndim - 1))
    return segment_sum(apply("multiply", (data, take(b, columns, 0))), rows, a.shape[0])


def _extreme(data, ids, num, largest):
    data, ids, num = _grouped(data, ids, num)
    empty = -np.inf if largest else np.inf
    none = reshape(record_aux(_are_empty(num), ids), (-1,) + (1,) * (data.ndim - 1))
    if not len(data):
        return lift(np.full((num, *data.shape[1:]), empty, data.dtype))
    return where(none, empty, moved_by(data, _extremes(num, largest), data, ids))


def _grouped(data, ids, num):
    """The arguments, looked at; how many groups there are."""
    data, ids = lift(data), lift(ids)
    if ids.dtype.kind not in "iu" and ids.size:
        raise DtypeError(f"the numbers of groups are integers, not of dtype {ids.dtype}")
    if ids.ndim != 1 or not data.ndim or len(data) != len(ids):
        raise ValueError(f"ids of shape {tuple(ids.shape)} are not one number for each row of data of shape {tuple(data.shape)}")
    if num is None:
        num = int(guard_on(np.max, ids)) + 1 if ids.size else 0
    return data, ids, num


def _checked(ids, num):
    if ids.size and (ids.min() < 0 or ids.max() >= num):
        raise IndexError(f"the numbers of groups lie between {ids.min()} and {ids.max()}, and there are {num} groups")
    return ids.astype(np.int64)


@host_function
def _positions(ids, width, num):
    return frozen((_checked(ids, num)[:, None] * width + np.arange(width)).reshape(-1))


@host_function
def _counts(ids, num, char):
    """The number of rows of each group; 1 for an empty one, whose sum of 0 is divided by it."""
    return np.maximum(np.bincount(_checked(ids, num), minlength=num), 1).astype(char)


@host_function
def _are_empty(ids, num):
    return np.bincount(_checked(ids, num), minlength=num) == 0


@host_function
def _extremes(values, ids, num, largest):
    """The position in `values` of the first extreme of each group (of a NaN if there is one); 0 for an empty group."""
    rows, ids = values.reshape(len(values), -1), _checked(ids, num)
    best = np.full((num, rows.shape[1]), -np.inf if largest else np.inf)
    (np.maximum if largest else np.minimum).at(best, ids, rows)
    hit = (rows == best[ids]) | np.isnan(rows)
    first = np.full(best.shape, len(rows))
    np.minimum.at(first, ids, np.where(hit, np.arange(len(rows))[:, None], len(rows)))
    columns = np.arange(rows.shape[1])
    return frozen(np.where(first < len(rows), first * rows.shape[1] + columns, 0).reshape(num, *values.shape[1:]))

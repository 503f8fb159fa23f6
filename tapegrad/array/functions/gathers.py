"""Functions whose result are elements of their operand at given positions.

Each is a gather, whose index map NumPy makes from an array of positions.
"""

from __future__ import annotations

import math
from functools import lru_cache
from operator import index as as_index
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...common.host_functions import host_function
from ..differentiable import Differentiable
from ..record import apply, record_aux
from ..typing import ArrayLike, Axis, TensorLike
from .arguments import lift
from .shapes import reshape

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

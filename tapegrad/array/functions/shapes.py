"""Functions that move elements: other shapes, orders and axes; parts and joints.

What NumPy gives as a view is a view here too (`tapegrad.array.views`); copies at given positions are in `gathers`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import index as as_index
from typing import TYPE_CHECKING, Any

import numpy as np

from ...common.dtypes import in_another_order
from ...tape.layout import c_strides
from ..record import apply, normalise
from ..typing import Axis, TensorLike
from ..views import note_view
from .arguments import axis_index, axis_tuple, chosen_axes, lift
from .elementwise import clone

if TYPE_CHECKING:
    from ..tensor import Tensor


def reshape(x: TensorLike, *shape: Any, order: Any = "C", copy: bool | None = None) -> Tensor:
    """The same elements in another shape; one extent may be -1.

    Parameters
    ----------
    x : Tensor or array-like
    *shape : int, or one tuple
    order, copy
        As of `numpy.reshape`.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.reshape(tg.tensor([1.0, 2.0, 3.0, 4.0]), 2, 2)
    tensor([[1., 2.],
            [3., 4.]])
    """
    x = lift(x)
    if len(shape) == 1 and isinstance(shape[0], (tuple, list, np.ndarray)):
        shape = tuple(shape[0])
    if order != "C" or copy is not None:
        return np.reshape(x, shape, order, copy=copy)
    return _reshaped("reshape", x, np.reshape(x._v, shape))


def _reshaped(row, x, value):
    if value is x._v and type(value) is not float:
        # NumPy gave the array itself (nothing to squeeze): a view of it, so that writes are seen.
        value = value[...]
    return note_view(x, apply(row, (x,), (("shape", value.shape),), value=normalise(value)))


def ravel(x: TensorLike, order: Any = "C") -> Tensor:
    """Flatten to one axis: a view if the elements are stored in that order, else a copy (as in NumPy).

    Parameters
    ----------
    x : Tensor or array-like
    order : {'C', 'F', 'A', 'K'}
        Order of the elements, as in NumPy.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.ravel(tg.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([1., 2., 3., 4.])
    """
    x = lift(x)
    if order != "C":
        return np.ravel(x, order)
    flat = reshape(x, (-1,))
    return flat if type(x._v) is float or x._v.flags.c_contiguous else clone(flat)


def flatten(x: TensorLike, start_dim: int | str = 0, end_dim: int = -1, *, order: str | None = None) -> Tensor:
    """The axes from `start_dim` to `end_dim` as one, under PyTorch's name; of all axes a copy, as NumPy's method gives.

    Parameters
    ----------
    x : Tensor or array-like
    start_dim, end_dim : int
    order : {'C', 'F'}, optional
        As of `ravel`; it may stand first, as in NumPy.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.flatten(tg.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([1., 2., 3., 4.])
    """
    x = lift(x)
    if order is not None or isinstance(start_dim, str) or not x.ndim or (start_dim, end_dim) == (0, -1):
        return clone(ravel(x, order or (start_dim if isinstance(start_dim, str) else "C")))
    first, last = axis_index(start_dim, x.ndim), axis_index(end_dim, x.ndim)
    return reshape(x, (*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))


def copied(x, order="C"):
    """A copy that is stored by rows ("C"), by columns ("F"), by columns if `x` is and else by rows ("A"), or in the order of `x` ("K"), as in NumPy."""
    x = lift(x)
    array = np.asarray(x._v)
    wanted = np.empty_like(array, order=order).flags
    if wanted.fnc:
        return transpose(copied(transpose(x)))
    return clone(reshape(reshape(x, (-1,)), x.shape) if wanted.c_contiguous and in_another_order(array) else x)


def squeeze(x: TensorLike, axis: Axis = None, *, dim: Axis = None) -> Tensor:
    """Remove axes of extent 1.

    Parameters
    ----------
    x : Tensor or array-like
    axis : int or tuple of int, optional
        `dim` is a synonym.
    dim : int or tuple of int, optional
        PyTorch's name for `axis`.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.squeeze(tg.tensor([[1.0, 2.0]]))
    tensor([1., 2.])
    """
    x = lift(x)
    return _reshaped("squeeze", x, np.squeeze(np.asarray(x._v), chosen_axes(x, axis, dim)))


def expand_dims(x: TensorLike, axis: int) -> Tensor:
    """Insert a new axis of extent 1 at position `axis` of the result.

    Parameters
    ----------
    x : Tensor or array-like
    axis : int

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.expand_dims(tg.tensor([1.0, 2.0]), 0)
    tensor([[1., 2.]])
    """
    x = lift(x)
    return _reshaped("expand_dims", x, np.expand_dims(x._v, axis))


unsqueeze = expand_dims


def transpose(x: TensorLike, *axes: Any) -> Tensor:
    """Permute the axes; reverse them by default.  If there are more than two, ``transpose(i, j)`` swaps these (as in PyTorch).

    Parameters
    ----------
    x : Tensor or array-like
    *axes : int, or one tuple

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.transpose(tg.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[1., 3.],
            [2., 4.]])
    """
    x = lift(x)
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list, np.ndarray))):
        axes = () if axes[0] is None else tuple(axes[0])
    if not axes:
        axes = tuple(range(x.ndim))[::-1]
    elif len(axes) == 2 and x.ndim > 2:
        return swapaxes(x, *axes)
    return _permute("transpose", x, axes)


permute = transpose


def _permute(row, x, axes):
    if x.ndim == 0:
        return x
    axes = axis_tuple(axes, x.ndim)
    return note_view(x, apply(row, (x,), (("axes", axes),), value=np.transpose(x._v, axes)))


def t(x: TensorLike) -> Tensor:
    """Transpose a matrix; return a vector or scalar as it is.

    Parameters
    ----------
    x : Tensor or array-like

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.t(tg.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[1., 3.],
            [2., 4.]])
    """
    x = lift(x)
    if x.ndim > 2:
        raise ValueError(f"t() expects at most 2 dimensions, this tensor has {x.ndim}; use transpose")
    return _permute("t", x, tuple(range(x.ndim))[::-1])


def swapaxes(x: TensorLike, axis1: int, axis2: int) -> Tensor:
    """Exchange two axes.

    Parameters
    ----------
    x : Tensor or array-like
    axis1 : int
    axis2 : int

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.swapaxes(tg.zeros(2, 3), 0, 1).shape
    (3, 2)
    """
    x = lift(x)
    axes = list(range(x.ndim))
    i, j = axis_index(axis1, x.ndim), axis_index(axis2, x.ndim)
    axes[i], axes[j] = axes[j], axes[i]
    return _permute("transpose", x, axes)


def moveaxis(x: TensorLike, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> Tensor:
    """Move axes to other positions, as ``np.moveaxis`` does.

    Parameters
    ----------
    x : Tensor or array-like
    source : int or tuple of int
        Where the axes are.
    destination : int or tuple of int
        Where they go.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.moveaxis(tg.zeros(2, 3, 4), 0, -1).shape
    (3, 4, 2)
    """
    x = lift(x)
    source, destination = axis_tuple(source, x.ndim), axis_tuple(destination, x.ndim)
    if len(source) != len(destination):
        raise ValueError("moveaxis() needs as many destinations as sources")
    axes = [k for k in range(x.ndim) if k not in source]
    for to, axis in sorted(zip(destination, source)):
        axes.insert(to, axis)
    return _permute("transpose", x, axes)


def flip(x: TensorLike, axis: Axis = None, *, dims: Axis = None) -> Tensor:
    """Reverse the order of the elements along `axis` (default: all axes).

    Parameters
    ----------
    x : Tensor or array-like
    axis : int or tuple of int, optional
        `dims` is a synonym.
    dims : int or tuple of int, optional
        PyTorch's name for `axis`.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.flip(tg.tensor([1.0, 2.0, 3.0]))
    tensor([3., 2., 1.])
    """
    x = lift(x)
    axes = chosen_axes(x, axis, dims)
    axes = tuple(range(x.ndim)) if axes is None else axes
    return note_view(x, apply("flip", (x,), (("axes", axes),), value=np.flip(x._v, axes))) if x.ndim else x


def broadcast_to(x: TensorLike, shape: int | Sequence[int]) -> Tensor:
    """Broadcast `x` to `shape`, as a view.

    Parameters
    ----------
    x : Tensor or array-like
    shape : int, or one tuple

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.broadcast_to(tg.tensor([1.0, 2.0]), (2, 2))
    tensor([[1., 2.],
            [1., 2.]])
    """
    x = lift(x)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    value = np.broadcast_to(x._v, shape)
    strides, step = [], 1
    for extent in reversed(x.shape):
        strides.append(0 if extent == 1 else step)
        step *= extent
    strides = (0,) * (len(shape) - x.ndim) + tuple(reversed(strides))
    return view("broadcast_to", x, value, strides, 0)


def expand(x: TensorLike, *shape: Any) -> Tensor:
    """`broadcast_to` under PyTorch's name; -1 keeps an extent.

    Parameters
    ----------
    x : Tensor or array-like
    *shape : int, or one tuple

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.expand(tg.tensor([[1.0], [2.0]]), -1, 2)
    tensor([[1., 1.],
            [2., 2.]])
    """
    shape = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    own = (1,) * (len(shape) - x.ndim) + tuple(x.shape)
    return broadcast_to(x, tuple(o if s == -1 else s for s, o in zip(shape, own)))


def view(row, x, value, strides, offset):
    """Record `value`, the window of `x` with these strides and offset (in elements of `x` in C order), as a view of it."""
    value = np.asarray(value)
    attrs = (("shape", value.shape), ("strides", tuple(strides)))
    return note_view(x, apply(row, (x,), attrs, value=normalise(value), integer=offset))


def diagonal(x: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Diagonal `offset` of a matrix as a vector; for a stack of matrices, along the last axis.

    Parameters
    ----------
    x : Tensor or array-like
    offset : int
        Which diagonal: above the main one if positive, below if negative.
    axis1 : int
    axis2 : int

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.diagonal(tg.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([1., 4.])
    """
    x = lift(x)
    value = np.diagonal(np.asarray(x._v), offset, axis1, axis2)
    steps = c_strides(x.shape, 1)
    row, column = axis_index(axis1, x.ndim), axis_index(axis2, x.ndim)
    start = offset * steps[column] if offset >= 0 else -offset * steps[row]
    strides = [s for k, s in enumerate(steps) if k not in (row, column)]
    return view("diagonal", x, value, (*strides, steps[row] + steps[column]), start if value.size else 0)


def diag(x: TensorLike, k: int = 0) -> Tensor:
    """The diagonal of a matrix, or the matrix with a vector on its diagonal.

    Parameters
    ----------
    x : Tensor or array-like
    k : int
        Which diagonal: above the main one if positive, below if negative.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.diag(tg.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    x = lift(x)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ValueError(f"diag() expects a vector or a matrix, got shape {tuple(x.shape)}")
    n = x.shape[0] + abs(k)
    return apply("diag", (x,), (("k", int(k)), ("shape", (n, n))))


def concatenate(tensors: Iterable[TensorLike], axis: int | None = 0, *, dim: int | None = None) -> Tensor:
    """Join arrays along an existing axis; None flattens them first.

    Parameters
    ----------
    tensors : sequence of Tensor or array-like
    axis : int, optional
        `dim` is a synonym.
    dim : int, optional
        PyTorch's name for `axis`.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.concatenate([tg.tensor([1.0, 2.0]), [3.0]])
    tensor([1., 2., 3.])
    """
    tensors = [lift(x) for x in tensors]
    axis = dim if dim is not None else axis
    if axis is None:
        tensors, axis = [reshape(x, (-1,)) for x in tensors], 0
    if len(tensors) > JOIN:
        return concatenate([concatenate(part, axis) for part in _batches(tensors)], axis)
    ndim = tensors[0].ndim if tensors else 1
    return apply("concatenate", tensors, (("axis", axis_index(axis, ndim) if ndim else 0),))


cat = concatenate

#: Arrays joined by one instruction.  More are joined in batches, so that the programs
#: of the sweep stay small and lists of different lengths share them.
JOIN = 32


def _batches(tensors):
    return [tensors[k : k + JOIN] for k in range(0, len(tensors), JOIN)]


def stack(tensors: Iterable[TensorLike], axis: int = 0, *, dim: int | None = None) -> Tensor:
    """Join arrays of one shape along a new axis.

    Parameters
    ----------
    tensors : sequence of Tensor or array-like
    axis : int, optional
        `dim` is a synonym.
    dim : int, optional
        PyTorch's name for `axis`.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.stack([tg.tensor(1.0), 2.0])
    tensor([1., 2.])
    """
    tensors = [lift(x) for x in tensors]
    axis = dim if dim is not None else axis
    if len(tensors) > JOIN:
        return concatenate([stack(part, axis) for part in _batches(tensors)], axis)
    ndim = tensors[0].ndim if tensors else 0
    return apply("stack", tensors, (("axis", axis_index(axis, ndim + 1)),))


def split(x: TensorLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Split `x` along `axis`, as ``np.split`` does.

    Parameters
    ----------
    x : Tensor or array-like
    indices_or_sections : int or sequence of int
        Number of equal parts, or the positions to cut at.
    axis : int, optional

    Returns
    -------
    list of Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.split(tg.tensor([1.0, 2.0, 3.0, 4.0]), 2)
    [tensor([1., 2.]), tensor([3., 4.])]
    """
    return _split(np.split, x, indices_or_sections, axis)


def array_split(x: TensorLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Split `x` along `axis` into parts of nearly equal extent, as ``np.array_split`` does.

    Parameters
    ----------
    x : Tensor or array-like
    indices_or_sections : int or sequence of int
        Number of parts, or the positions to cut at.
    axis : int, optional

    Returns
    -------
    list of Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.array_split(tg.tensor([1.0, 2.0, 3.0]), 2)
    [tensor([1., 2.]), tensor([3.])]
    """
    return _split(np.array_split, x, indices_or_sections, axis)


def _split(function, x, sections, axis):
    x = lift(x)
    axis = axis_index(axis, x.ndim)
    extent = x.shape[axis]
    if np.ndim(sections):
        cuts = [0, *(as_index(s) for s in sections), extent]
    else:
        cuts = np.cumsum([0, *map(len, function(np.empty(extent), sections))]).tolist()
    return [part(x, axis, start, stop) for start, stop in zip(cuts, cuts[1:])]


def part(x, axis, start, stop, step=None):
    """``x[start:stop:step]`` along `axis`, counted from the front."""
    return x[(slice(None),) * axis + (slice(start, stop, step),)]

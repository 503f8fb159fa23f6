"""Functions that move elements: other shapes, orders and axes; parts, joints, copies at given positions.

What NumPy gives as a view is a view here too (`tapegrad.array.views`); the rest are gathers,
whose index map NumPy makes from an array of positions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import index as as_index
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...common.errors import UnsupportedFunctionError
from ...common.host_functions import host_function
from ...tape.meta import c_strides
from ..differentiable import Differentiable
from ..record import apply, record_aux
from ..typing import ArrayLike, Axis, TensorLike
from ..views import note_view
from .arguments import axis_index, axis_tuple, chosen_axes, lift

if TYPE_CHECKING:
    from ..tensor import Tensor


def reshape(x: TensorLike, *shape: Any) -> Tensor:
    """The same elements in another shape; one extent may be -1."""
    x = lift(x)
    if len(shape) == 1 and isinstance(shape[0], (tuple, list, np.ndarray)):
        shape = tuple(shape[0])
    return _reshaped("reshape", x, np.reshape(x._v, shape))


def _reshaped(row, x, value):
    if value is x._v and type(value) is not float:
        # NumPy gave the array itself (nothing to squeeze): a view of it, so that writes are seen.
        value = value[...]
    return note_view(x, apply(row, (x,), (("shape", value.shape),), value=_scalar(value)))


def _scalar(value):
    return float(value) if value.ndim == 0 and value.dtype.char == "d" else value


def ravel(x: TensorLike, order: str = "C") -> Tensor:
    """All elements in one axis, in the order of C or Fortran ("F"): a view if they are stored so, else a copy (as in NumPy)."""
    x = lift(x)
    if order != "C" and x.ndim > 1:
        if order != "F":
            # A recording sees its arguments in C order.
            raise UnsupportedFunctionError(f"ravel(order={order!r}): where a tensor's elements lie in memory is not kept; give 'C' or 'F'")
        return ravel(transpose(x))
    if type(x._v) is float or x._v.flags.c_contiguous:
        return reshape(x, (-1,))
    return apply("clone", (reshape(x, (-1,)),))


def flatten(x: TensorLike) -> Tensor:
    """`ravel` under PyTorch's name."""
    return reshape(x, (-1,))


def squeeze(x: TensorLike, axis: Axis = None, *, dim: Axis = None) -> Tensor:
    """Without axes of extent 1."""
    x = lift(x)
    return _reshaped("squeeze", x, np.squeeze(np.asarray(x._v), chosen_axes(x, axis, dim)))


def expand_dims(x: TensorLike, axis: int) -> Tensor:
    """With a new axis of extent 1 at `axis` of the result."""
    x = lift(x)
    return _reshaped("expand_dims", x, np.expand_dims(x._v, axis))


unsqueeze = expand_dims


def transpose(x: TensorLike, *axes: Any) -> Tensor:
    """Axes permuted; reversed by default.  ``transpose(i, j)`` swaps two (PyTorch) if there are more."""
    x = lift(x)
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
        axes = axes[0]
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
    """A matrix transposed (a vector or scalar as it is)."""
    x = lift(x)
    if x.ndim > 2:
        raise ValueError(f"t() expects at most 2 dimensions, this tensor has {x.ndim}; use transpose")
    return _permute("t", x, tuple(range(x.ndim))[::-1])


def swapaxes(x: TensorLike, axis1: int, axis2: int) -> Tensor:
    """Two axes exchanged."""
    x = lift(x)
    axes = list(range(x.ndim))
    i, j = axis_index(axis1, x.ndim), axis_index(axis2, x.ndim)
    axes[i], axes[j] = axes[j], axes[i]
    return _permute("transpose", x, axes)


def moveaxis(x: TensorLike, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> Tensor:
    """Axes moved to other positions, as ``np.moveaxis``."""
    x = lift(x)
    source, destination = axis_tuple(source, x.ndim), axis_tuple(destination, x.ndim)
    if len(source) != len(destination):
        raise ValueError("moveaxis() needs as many destinations as sources")
    axes = [k for k in range(x.ndim) if k not in source]
    for to, axis in sorted(zip(destination, source)):
        axes.insert(to, axis)
    return _permute("transpose", x, axes)


def flip(x: TensorLike, axis: Axis = None, *, dims: Axis = None) -> Tensor:
    """The order along `axis` (default: all) reversed."""
    x = lift(x)
    axes = chosen_axes(x, axis, dims)
    axes = tuple(range(x.ndim)) if axes is None else axes
    return note_view(x, apply("flip", (x,), (("axes", axes),), value=np.flip(x._v, axes))) if x.ndim else x


def broadcast_to(x: TensorLike, shape: int | Sequence[int]) -> Tensor:
    """`x` repeated (as a view) to `shape`."""
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
    """`broadcast_to` under PyTorch's name; -1 keeps an extent."""
    shape = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    own = (1,) * (len(shape) - x.ndim) + tuple(x.shape)
    return broadcast_to(x, tuple(o if s == -1 else s for s, o in zip(shape, own)))


def view(row, x, value, strides, offset):
    """Record `value`, the window of `x` with these strides and offset (in elements of `x` in C order), as a view of it."""
    value = np.asarray(value)
    attrs = (("shape", value.shape), ("strides", tuple(strides)))
    return note_view(x, apply(row, (x,), attrs, value=_scalar(value), integer=offset))


def diagonal(x: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Diagonal `offset` of a matrix as a vector; of a stack of matrices along the last axis."""
    x = lift(x)
    value = np.diagonal(np.asarray(x._v), offset, axis1, axis2)
    steps = c_strides(x.shape, 1)
    row, column = axis_index(axis1, x.ndim), axis_index(axis2, x.ndim)
    start = offset * steps[column] if offset >= 0 else -offset * steps[row]
    strides = [s for k, s in enumerate(steps) if k not in (row, column)]
    return view("diagonal", x, value, (*strides, steps[row] + steps[column]), start if value.size else 0)


def diag(x: TensorLike, k: int = 0) -> Tensor:
    """The diagonal of a matrix, or the matrix with a vector on its diagonal."""
    x = lift(x)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ValueError(f"diag() expects a vector or a matrix, got shape {tuple(x.shape)}")
    n = x.shape[0] + abs(k)
    return apply("diag", (x,), (("k", int(k)), ("shape", (n, n))))


def concatenate(tensors: Iterable[TensorLike], axis: int | None = 0, *, dim: int | None = None) -> Tensor:
    """Arrays joined along an existing axis (None: flattened first)."""
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
    """Arrays of one shape joined along a new axis."""
    tensors = [lift(x) for x in tensors]
    axis = dim if dim is not None else axis
    if len(tensors) > JOIN:
        return concatenate([stack(part, axis) for part in _batches(tensors)], axis)
    ndim = tensors[0].ndim if tensors else 0
    return apply("stack", tensors, (("axis", axis_index(axis, ndim + 1)),))


def split(x: TensorLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Parts along `axis`, as ``np.split`` cuts them."""
    return _split(np.split, x, indices_or_sections, axis)


def array_split(x: TensorLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Parts along `axis` of nearly equal extent, as ``np.array_split``."""
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


def moved(row, x, function):
    """A gather whose index map is `function` applied to the array of positions."""
    x = lift(x)
    index = frozen(function(_positions(x.shape)))
    return apply(row, (x, index.reshape(-1)), (("shape", index.shape),))


def frozen(positions):
    """An index map: a C-contiguous int64 array that nobody changes."""
    index = np.array(positions, np.int64, order="C")
    index.flags.writeable = False
    return index


def moved_by(row, x, function, *others):
    """As `moved`, with an index map ``function(*values)`` that depends on values (of `others`)."""
    x = lift(x)
    index = record_aux(function, *others)
    return apply(row, (x, reshape(index, (-1,)) if isinstance(index, Differentiable) else index.reshape(-1)), (("shape", index.shape),))


def repeat(x: TensorLike, repeats: ArrayLike, axis: int | None = None) -> Tensor:
    """Elements repeated, as ``np.repeat``."""
    return moved("repeat", x, lambda p: np.repeat(p, repeats, axis))


def tile(x: TensorLike, reps: int | tuple[int, ...]) -> Tensor:
    """The array repeated, as ``np.tile``."""
    return moved("tile", x, lambda p: np.tile(p, reps))


def roll(x: TensorLike, shift: int | tuple[int, ...], axis: Axis = None) -> Tensor:
    """Elements rolled along axes, as ``np.roll``."""
    return moved("roll", x, lambda p: np.roll(p, shift, axis))


def take(x: TensorLike, indices: TensorLike, axis: int | None = None, mode: Literal["raise", "wrap", "clip"] = "raise") -> Tensor:
    """Elements at integer positions, as ``np.take``; `mode` "wrap" or "clip" brings positions outside back in."""
    x = lift(x)
    return moved_by("gather", x, _taken(x.shape, None if axis is None else as_index(axis), mode), indices)


@host_function
def _taken(at, shape, axis, mode):
    return frozen(np.take(_positions(shape), at, axis, mode=mode))


def _positions(shape):
    return np.arange(math.prod(shape)).reshape(shape)


@host_function
def along_axis(order, shape, axis):
    """The index map of ``np.take_along_axis`` in an array of this shape."""
    return frozen(np.take_along_axis(_positions(shape), order, axis))

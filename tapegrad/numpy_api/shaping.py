"""NumPy's functions that shape, join, cut and pad, on tensors.

What NumPy answers with a view stays a view of the tensor (`tapegrad.array.views`).
What moves elements in any other way is one gather: `rearranged` applies the
NumPy function itself to arrays of positions, so that every parameter means what
it means there, and looks the elements up.
"""

import inspect

import numpy as np

from ..array import functions as F
from .dispatch import any_tracked, constant_of, implements, refuse, values_of

#: What NumPy takes for an array, as a tensor.
as_tensor = F.lift


def untracked(function, *arrays):
    """`function` of the values, as a tensor outside the tape; keeps integer dtypes, and Python's numbers, which are weak."""
    return constant_of(np.asarray(function(*[a if type(a) in (int, float, complex) else np.asarray(values_of(a)) for a in arrays])))


def rearranged(function, *arrays, dtype=None):
    """The elements of `arrays` in the arrangement that `function` gives to arrays of their positions.

    Parameters
    ----------
    function : callable
        Takes one array of positions per thing and gives an array of positions.
    *arrays : Tensor or array-like
        Joined flat, they are what the positions count in.
    dtype : dtype, optional
        Of the result; by default what joining the arrays gives.
    """
    if not any_tracked(arrays):
        return untracked(function, *arrays)
    arrays = [as_tensor(a) if dtype is None else cast(as_tensor(a), dtype) for a in arrays]
    if len(arrays) == 1:
        return F.moved("gather", arrays[0], function)
    ends = np.cumsum([a.size for a in arrays]).tolist()
    index = function(*[np.arange(end - a.size, end).reshape(a.shape) for a, end in zip(arrays, ends)])
    return F.moved("gather", F.concatenate([F.reshape(a, (-1,)) for a in arrays]), lambda p: index)


def cast(t, dtype):
    """`t` in `dtype`, recorded only if that changes something."""
    return t if t.dtype == np.dtype(dtype) else F.astype(t, dtype)


# ---- functions of ours of the same name ----------------------------------------------------


def _as_ours(function):
    """Our function of the same name, whose parameters are NumPy's but for the name of the first; of what follows the values count."""
    ours, first = getattr(F, function.__name__), next(iter(inspect.signature(function).parameters))

    @implements(function)
    def call(*args, **kwargs):
        array, *rest = args or (kwargs.pop(first),)
        return ours(array, *map(values_of, rest), **{name: values_of(value) for name, value in kwargs.items()})


for _function in (
    np.swapaxes, np.moveaxis, np.squeeze, np.expand_dims, np.flip, np.diagonal, np.split, np.array_split, np.tile, np.repeat, np.roll,
    np.sinc, np.i0,
):  # fmt: skip
    _as_ours(_function)


# ---- one array in another shape ------------------------------------------------------


def _is_fortran(a):
    return isinstance(a._v, np.ndarray) and a._v.flags.f_contiguous and not a._v.flags.c_contiguous


def _sizes(shape):
    shape = values_of(shape)
    return tuple(shape) if np.ndim(shape) else (shape,)


@implements(np.reshape)
def _reshape(a, /, shape=None, order="C", *, newshape=None, copy=None):
    a = F.lift(a)
    shape = _sizes(newshape if shape is None else shape)
    if copy is False:
        np.reshape(np.asarray(a._v), shape, order, copy=False)
    if order == "F" or order == "A" and _is_fortran(a):
        result = F.transpose(F.reshape(F.transpose(a), shape[::-1]))
    elif order in ("C", "A"):
        result = F.reshape(a, shape)
    else:
        raise ValueError(f"order must be 'C', 'F' or 'A', got {order!r}")
    return F.clone(result) if copy else result


@implements(np.ravel)
def _ravel(a, order="C"):
    a = F.lift(a)
    if order == "F" or order == "A" and _is_fortran(a):
        return F.ravel(F.transpose(a))
    if order in ("C", "A"):
        return F.ravel(a)
    if order != "K":
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    positions = np.empty_like(np.asarray(a._v), np.int64)
    positions[...] = np.arange(a.size).reshape(a.shape)
    positions = positions.ravel("K")
    if (positions == np.arange(a.size)).all():
        return F.ravel(a)
    return rearranged(lambda p: p.reshape(-1)[positions], a)


implements(np.transpose)(lambda a, axes=None: F.transpose(a, axes if axes is None else _sizes(axes)))
implements(np.broadcast_to)(lambda array, shape, subok=False: F.broadcast_to(array, _sizes(shape)))


@implements(np.broadcast_arrays)
def _broadcast_arrays(*args, subok=False):
    args = [as_tensor(a) for a in args]
    shape = np.broadcast_shapes(*[a.shape for a in args])
    return tuple(a if a.shape == shape else F.broadcast_to(a, shape) for a in args)


@implements(np.meshgrid)
def _meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    shapes = [[-1 if k == i else 1 for k in range(len(xi))] for i in range(len(xi))]
    if indexing == "xy" and len(xi) > 1:
        shapes[0][:2], shapes[1][:2] = (1, -1), (-1, 1)
    grids = [F.reshape(as_tensor(x), shape) for x, shape in zip(xi, shapes)]
    if not sparse:
        grids = _broadcast_arrays(*grids)
    return tuple(F.clone(x) if copy else x for x in grids)


# ---- joining ----------------------------------------------------------------------------


def _cast_by(result, dtype, casting):
    if dtype is None:
        return result
    if not np.can_cast(result.dtype, dtype, casting):
        raise TypeError(f"Cannot cast array data from {result.dtype!r} to {np.dtype(dtype)!r} by the rule {casting!r}")
    return cast(result, dtype)


implements(np.concatenate)(lambda arrays, /, axis=0, *, dtype=None, casting="same_kind": _cast_by(F.concatenate(arrays, axis), dtype, casting))
implements(np.stack)(lambda arrays, axis=0, *, dtype=None, casting="same_kind": _cast_by(F.stack(arrays, axis), dtype, casting))


@implements(np.lib.stride_tricks.sliding_window_view)
def _sliding_window_view(x, window_shape, axis=None, *, subok=False, writeable=False):
    if writeable:
        raise refuse(np.lib.stride_tricks.sliding_window_view, " with writeable=True")
    return rearranged(lambda p: np.lib.stride_tricks.sliding_window_view(p, window_shape, axis), x)


# ---- copies and constants of the same shape -----------------------------------------------


implements(np.copy)(lambda a, order="K", subok=False: F.copied(a, order))


@implements(np.astype)
def _astype(x, dtype, /, *, copy=True, device=None):
    return F.clone(x) if copy and x.dtype == np.dtype(dtype) else cast(x, dtype)


@implements(np.full_like)
def _full_like(a, fill_value, dtype=None, order="K", subok=True, shape=None, **device):
    if not any_tracked(fill_value):
        array = np.full_like(np.asarray(values_of(a, False)), values_of(fill_value), dtype, order, subok, shape, **device)
        return constant_of(array)
    return _full(a.shape if shape is None else shape, fill_value, dtype or a.dtype)


@implements(np.full)
def _full(shape, fill_value, dtype=None, order="C", **device):
    # Only np.full(..., like=tensor) comes here.
    if not any_tracked(fill_value):
        return constant_of(np.full(shape, values_of(fill_value), dtype, order, **device))
    fill_value = as_tensor(fill_value)
    return F.clone(F.broadcast_to(cast(fill_value, dtype or fill_value.dtype), _sizes(shape)))

"""Data movement: views, reshapes, gathers, stacking, assignment.

Adjoints are C-contiguous arrays of their slot's shape, so every view is an
affine map on the flat, C-ordered positions of its operand: `shape`, `strides`
(in elements) and `offset` say which.  Anything irregular is a gather at flat
positions, whose transpose is a scatter-add.
"""

from __future__ import annotations

import numpy as np

from .table import structural


def logical_view(x, shape, strides, offset):
    """The view of `x` whose C-ordered element positions are ``offset + sum(i * strides)``."""
    # NumPy makes it: the same slicing is applied through an array of positions only
    # when the operand is not contiguous; otherwise as_strided on the flat data.
    if not x.flags.c_contiguous:
        x = np.ascontiguousarray(x)
    item = x.itemsize
    return np.lib.stride_tricks.as_strided(
        x.reshape(-1)[offset:] if offset else x.reshape(-1), shape, [s * item for s in strides], writeable=False
    )


def _view_value(x, shape=(), strides=(), offset=0):
    return logical_view(x, shape, strides, offset)


def _view_vjp(g, x, z, shape=(), strides=(), offset=0):
    if not x.shape:
        # Every element of the view is the only element there is.
        return (g.sum(),)
    return (g.place(x.shape, strides, offset),)


#: Rows that are all the same affine view but print as what the user wrote.
VIEWS = {}
for _name, _node, _doc in (
    ("getitem", "Slice", "x[i:j, ..., None]: slices and integers"),
    ("select", "Select", "x[i]: one element"),
    ("broadcast_to", "Expand", "x repeated along new or unit axes"),
    ("diagonal", "Diagonal", "a diagonal of x as a vector"),
    ("as_strided", "AsStrided", "a strided window of the C-ordered elements"),
):
    VIEWS[_name] = structural(_name, 1, _view_value, _view_vjp, node=_node, doc=_doc, dynamic="offset")


def _reshape_vjp(g, x, z, shape=()):
    return (g.reshape(x.shape),)


def _reshape_value(x, shape=()):
    return np.reshape(x, shape)


for _name, _node, _doc in (
    ("reshape", "Reshape", "the same elements in another shape"),
    ("squeeze", "Squeeze", "axes of extent 1 removed"),
    ("expand_dims", "Unsqueeze", "axes of extent 1 added"),
):
    structural(_name, 1, _reshape_value, _reshape_vjp, node=_node, doc=_doc)


def _transpose_vjp(g, x, z, axes=()):
    return (g.transpose(np.argsort(axes).tolist()),)


structural(
    "transpose", 1, lambda x, axes=(): np.transpose(x, axes), _transpose_vjp, node="Permute", doc="axes permuted",
)
structural(
    "t", 1, lambda x, axes=(): np.transpose(x, axes), _transpose_vjp, node="T", doc="a matrix transposed",
)
structural(
    "flip", 1, lambda x, axes=(): np.flip(x, axes), lambda g, x, z, axes=(): (g.flip(axes),), node="Flip",
    doc="the order along axes reversed",
)


def _gather_vjp(g, x, index, z, shape=()):
    if not x.shape:
        return (g.sum(),)
    return (g.scatter(index, x.shape),)


for _name, _node, _doc in (
    ("gather", "Index", "elements at given flat positions: integer-array and mask indexing, take, repeat, tile, roll"),
    ("roll", "Roll", "elements rolled along axes"),
    ("repeat", "Repeat", "elements repeated"),
    ("tile", "Tile", "the array repeated"),
):
    structural(
        _name, 1, lambda x, index, shape=(): np.reshape(np.take(x, index), shape), _gather_vjp,
        node=_node, doc=_doc, constants=(1,),
    )


def _concatenate_vjp(g, *rest, axis=0):
    parts, start, found = rest[:-1], 0, []
    for part in parts:
        stop = start + part.shape[axis]
        found.append(g.narrow(axis, start, stop))
        start = stop
    return tuple(found)


structural(
    "concatenate", -1, lambda *xs, axis=0: np.concatenate(xs, axis=axis), _concatenate_vjp, node="Cat",
    doc="arrays joined along an existing axis",
)


def _stack_vjp(g, *rest, axis=0):
    found = []
    for k, part in enumerate(rest[:-1]):
        found.append(g.narrow(axis, k, k + 1).reshape(part.shape))
    return tuple(found)


structural(
    "stack", -1, lambda *xs, axis=0: np.stack(xs, axis=axis), _stack_vjp, node="Stack",
    doc="arrays joined along a new axis",
)


def _diagflat_value(x, k=0, shape=()):
    return np.diag(x, k)


def _diagflat_vjp(g, x, z, k=0, shape=()):
    offset = k if k >= 0 else -k * shape[1]
    return (g.strided(x.shape, (shape[1] + 1,), offset),)


structural("diag", 1, _diagflat_value, _diagflat_vjp, node="Diag", doc="a matrix with a vector on its diagonal")


def _assigned(x, v, shape, strides, offset):
    x = np.ascontiguousarray(x).copy()
    np.lib.stride_tricks.as_strided(
        x.reshape(-1)[offset:], shape, [s * x.itemsize for s in strides]
    )[...] = v
    return x


def _assign_vjp(g, x, v, z, shape=(), strides=(), offset=0):
    moved = g.strided(shape, strides, offset).own()
    return g.zeroed(shape, strides, offset), moved


structural(
    "setitem", 2, lambda x, v, shape=(), strides=(), offset=0: _assigned(x, v, shape, strides, offset), _assign_vjp,
    node="CopySlices", doc="x with x[i:j] = v", dynamic="offset",
)


def _put_value(x, v, index, shape=()):
    x = np.array(x)
    x.reshape(-1)[index] = np.broadcast_to(v, shape).reshape(-1)
    return x


def _put_vjp(g, x, v, index, z, shape=()):
    moved = g.gather(index, shape)
    return g.zeroed_at(index), moved


structural(
    "put", 2, _put_value, _put_vjp, node="IndexPut", doc="x with x[index_array_or_mask] = v", constants=(2,),
)


def _astype_vjp(g, x, z, dtype="d"):
    # The accumulation casts to the dtype of the operand.
    return (g * 1.0,)


structural(
    "astype", 1, lambda x, dtype="d": np.asarray(x).astype(dtype), _astype_vjp, node="ToCopy",
    doc="conversion between float32 and float64",
)

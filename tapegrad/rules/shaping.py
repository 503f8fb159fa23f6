"""Data movement: views, reshapes, gathers, stacking, assignment.

Adjoints are C-contiguous arrays of their slot's shape, so every view is an
affine map on the flat, C-ordered positions of its operand: `shape`, `strides`
(in elements) and `offset` say which.  Anything irregular is a gather at flat
positions, whose transpose is a scatter-add.

Transposed movements, and additions into part of an array (how an adjoint grows by that of one element or window), are what the
rules of other rows are made of; a user never calls them.  They are rows so that a derivative can be differentiated again.
As rows they give a new array; a replay that needs the old one no more adds in place.
"""

import math

import numpy as np

from ..common.errors import require
from . import shapes as S
from .table import structural


def logical_view(x, shape=(), strides=(), offset=0):
    """The view of `x` whose C-ordered element positions are ``offset + sum(i * strides)``."""
    x = np.asarray(x)
    if not x.flags.c_contiguous:
        view = _slices(x, shape, strides, offset)
        if view is not None:
            return view
        x = np.ascontiguousarray(x)
    return np.lib.stride_tricks.as_strided(
        x.reshape(-1)[offset:] if offset else x.reshape(-1), shape, [s * x.itemsize for s in strides], writeable=False
    )


def _slices(x, shape, strides, offset):
    """That view of an array that is not C-contiguous, if it is made of slices of its axes; else None."""
    if not x.size or 0 in shape:
        return None
    steps = [math.prod(x.shape[k + 1 :]) for k in range(x.ndim)]
    first = [offset // step % extent for step, extent in zip(steps, x.shape)]
    low, high, byte_strides = list(first), list(first), []
    for n, stride in zip(shape, strides):
        if n == 1 or stride == 0:
            byte_strides.append(0)
            continue
        for axis, (step, extent) in enumerate(zip(steps, x.shape)):
            reach = stride // step * (n - 1)
            if stride % step == 0 and low[axis] + min(reach, 0) >= 0 and high[axis] + max(reach, 0) < extent:
                low[axis] += min(reach, 0)
                high[axis] += max(reach, 0)
                byte_strides.append(stride // step * x.strides[axis])
                break
        else:
            return None
    corner = x[tuple(slice(k, None) for k in first)]
    return np.lib.stride_tricks.as_strided(corner, shape, byte_strides, writeable=False)


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
    VIEWS[_name] = structural(
        _name, 1, logical_view, _view_vjp, jvp=lambda t, x, z, shape=(), strides=(), offset=0: t.strided(shape, strides, offset),
        linear=True, node=_node, doc=_doc, dynamic="offset",
        shape=lambda x, shape=(), strides=(), offset=0: (S.window(x, shape, strides, offset), x.char), effect="view",
    )


for _name, _node, _doc in (
    ("reshape", "Reshape", "the same elements in another shape"),
    ("squeeze", "Squeeze", "axes of extent 1 removed"),
    ("expand_dims", "Unsqueeze", "axes of extent 1 added"),
):
    structural(
        _name, 1, lambda x, shape=(): x.reshape(shape) if x.__class__ is np.ndarray else np.reshape(x, shape), lambda g, x, z, shape=(): (g.reshape(x.shape),),
        jvp=lambda t, x, z, shape=(): t.reshape(z.shape), linear=True, node=_node, doc=_doc,
        shape=lambda x, shape=(): (S.counted(x, shape), x.char), effect="view",
    )


for _name, _node, _doc in (("transpose", "Permute", "axes permuted"), ("t", "T", "a matrix transposed")):
    structural(
        _name, 1, lambda x, axes=(): np.transpose(x, axes), lambda g, x, z, axes=(): (g.transpose(np.argsort(axes).tolist()),),
        jvp=lambda t, x, z, axes=(): t.transpose(axes), linear=True, node=_node, doc=_doc,
        shape=lambda x, axes=(): (S.permuted(x, axes), x.char), effect="view",
    )
structural(
    "flip", 1, lambda x, axes=(): np.flip(x, axes), lambda g, x, z, axes=(): (g.flip(axes),),
    jvp=lambda t, x, z, axes=(): t.flip(axes), linear=True, node="Flip", doc="the order along axes reversed",
    shape=lambda x, axes=(): (S.along(x, *axes), x.char), effect="view",
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
        jvp=lambda t, x, index, z, shape=(): t.gather(index, shape) if x.shape else t.broadcast_to(shape), linear=True,
        node=_node, doc=_doc, constants=(1,),
        shape=lambda x, index, shape=(): (S.taken(index, shape), x.char), effect="move",
    )


structural(
    "concatenate", -1, lambda *xs, axis=0: np.concatenate(xs, axis=axis),
    lambda g, *rest, axis=0: tuple(S.taken_apart(g, [part.shape[axis] for part in rest[:-1]], axis)),
    jvp=lambda tangents, *rest, axis=0: S.side_by_side(rest[-1], rest[-1].shape, tangents, [part.shape[axis] for part in rest[:-1]], axis),
    linear=True, node="Cat", doc="arrays joined along an existing axis",
    shape=lambda *xs, axis=0: (S.joined(xs, axis), S.together(*xs)), effect="move",
)


def _stack_value(*xs, axis=0):
    # Of numbers: `np.stack` takes as long as all that records it.
    return np.array(xs) if xs and xs[0].__class__ is float else np.stack(xs, axis=axis)


def _stack_vjp(g, *rest, axis=0):
    return tuple(part.reshape(rest[0].shape) for part in S.taken_apart(g, [1] * (len(rest) - 1), axis))


def _stack_jvp(tangents, *rest, axis=0):
    parts = [None if t is None else t.expand_dims([axis]) for t in tangents]
    return S.side_by_side(rest[-1], rest[-1].shape, parts, [1] * len(parts), axis)


structural(
    "stack", -1, _stack_value, _stack_vjp, jvp=_stack_jvp, linear=True, node="Stack",
    doc="arrays joined along a new axis", shape=lambda *xs, axis=0: (S.stacked(xs, axis), S.together(*xs)), effect="move",
)


def _diagflat_shape(x, k=0, shape=()):
    require(x.ndim == 1 and shape == (x.size + abs(k),) * 2, f"{x.shape} on the diagonal {k} of {shape}")
    return shape, x.char


def _diagonal_window(x, k, shape):
    return x.shape, (shape[1] + 1,), k if k >= 0 else -k * shape[1]


structural(
    "diag", 1, lambda x, k=0, shape=(): np.diag(x, k), lambda g, x, z, k=0, shape=(): (g.strided(*_diagonal_window(x, k, shape)),),
    jvp=lambda t, x, z, k=0, shape=(): z.assemble(shape, [(t, *_diagonal_window(x, k, shape))]), linear=True, node="Diag",
    doc="a matrix with a vector on its diagonal", shape=_diagflat_shape, effect="move",
)


def _assigned(x, v, shape, strides, offset):
    x = np.array(x, order="C")
    if 0 not in shape:
        look(x, shape, strides, offset)[...] = v
    return x


def assigned_shape(x, v, shape=(), strides=(), offset=0):
    """Shape and dtype of `x` with something written to a window of it."""
    S.inside(x.size, S.fitting(v, shape), strides, offset)
    return x.shape, x.char


def _assign_vjp(g, x, v, z, shape=(), strides=(), offset=0):
    moved = g.strided(shape, strides, offset).own()
    return g.zeroed(shape, strides, offset), moved


def _assign_jvp(tangents, x, v, z, shape=(), strides=(), offset=0):
    to_x, to_v = tangents
    whole = [] if to_x is None else [(to_x, x.shape, None, 0)]
    return z.assemble(x.shape, [*whole, (0.0 if to_v is None else to_v, shape, strides, offset)])


structural(
    "setitem", 2, lambda x, v, shape=(), strides=(), offset=0: _assigned(x, v, shape, strides, offset), _assign_vjp,
    jvp=_assign_jvp, linear=True, node="CopySlices", doc="x with x[i:j] = v", dynamic="offset", shape=assigned_shape, effect="write",
)


def _put_value(x, v, index, shape=()):
    x = np.array(x, order="C")
    x.reshape(-1)[index] = np.broadcast_to(v, shape).reshape(-1)
    return x


def _put_shape(x, v, index, shape=()):
    S.taken(index, S.fitting(v, shape))
    return x.shape, x.char


def _put_vjp(g, x, v, index, z, shape=()):
    moved = g.gather(index, shape)
    return g.zeroed_at(index), moved


def _put_jvp(tangents, x, v, index, z, shape=()):
    to_x, to_v = tangents
    base = z.assemble(x.shape, []) if to_x is None else to_x
    return base.put_at(index, None if to_v is None else to_v.broadcast_to(shape))


structural(
    "put", 2, _put_value, _put_vjp, jvp=_put_jvp, linear=True, node="IndexPut", constants=(2,),
    doc="x with x[index_array_or_mask] = v", shape=_put_shape, effect="write",
)


def _astype_shape(x, dtype="d"):
    require(dtype in ("d", "f"), f"the dtype {dtype!r}")
    return x.shape, dtype


structural(
    # Of the adjoint the accumulation casts to the dtype of the operand.
    "astype", 1, lambda x, dtype="d": np.asarray(x).astype(dtype), lambda g, x, z, dtype="d": (g * 1.0,),
    jvp=lambda t, x, z, dtype="d": t * 1.0, linear=True, node="ToCopy",
    doc="conversion between float32 and float64", shape=_astype_shape, effect="elementwise",
)


# ---- transposed, and added into a part --------------------------------------------------------


def distinct(shape, strides):
    """Whether no element is met twice by a window (sufficient, not necessary)."""
    reach = 0
    for step, extent in sorted((abs(s), n) for s, n in zip(strides, shape) if n > 1):
        if step <= reach:
            return False
        reach += step * (extent - 1)
    return True


def look(array, shape, strides, offset):
    """The window of a C-contiguous array, for reading and writing."""
    return np.ndarray(shape, array.dtype, array, offset * array.itemsize, [s * array.itemsize for s in strides])


def place_value(x, shape=(), strides=(), offset=0):
    """Zeros of `shape` with `x` added into the window of these strides and offset (in elements)."""
    x = np.asarray(x)
    result = np.zeros(shape, x.dtype)
    if not x.size:
        return result
    if distinct(x.shape, strides):
        look(result, x.shape, strides, offset)[...] = x
        return result
    return scatter_value(x, window_positions(x.shape, strides) + offset, shape)


def window_positions(shape, strides):
    """Flat positions of the elements of a window, in its order, counted from its first element."""
    positions = np.zeros((), np.int64)
    for extent, step in zip(shape, strides):
        positions = positions[..., None] + np.arange(extent) * step
    return positions.reshape(-1)


def _placed_shape(x, shape=(), strides=(), offset=0):
    S.inside(math.prod(shape), x.shape, strides, offset)
    return tuple(shape), x.char


structural(
    "place", 1, place_value,
    lambda g, x, z, shape=(), strides=(), offset=0: (g.strided(x.shape, strides, offset),),
    jvp=lambda t, x, z, shape=(), strides=(), offset=0: t.placed(shape, strides, offset),
    linear=True, node="Place", doc="zeros with x added into a strided window", dynamic="offset",
    shape=_placed_shape, effect="move", adds=True,
)


def scatter_value(x, index, shape=()):
    """Zeros of `shape` with the elements of `x` added at flat positions `index`."""
    x = np.asarray(x)
    count = int(np.prod(shape, dtype=np.int64))
    return np.bincount(np.ravel(index), x.reshape(-1), count).astype(x.dtype).reshape(shape)


def _scattered_shape(x, index, shape=()):
    S.taken(index, x.shape)
    require(min(shape, default=0) >= 0, f"the shape {shape}")
    return tuple(shape), x.char


structural(
    "scatter", 1, scatter_value, lambda g, x, index, z, shape=(): (g.gather(index, x.shape),),
    jvp=lambda t, x, index, z, shape=(): t.scattered(index, shape),
    linear=True, node="IndexAdd", doc="zeros with x added at given flat positions", constants=(1,),
    shape=_scattered_shape, effect="move", adds=True,
)


def add_window_value(x, v, shape=(), strides=(), offset=0):
    """A copy of `x` with `v` added into the window of these strides and offset (in elements)."""
    result = np.array(x, order="C")
    if 0 in shape:
        return result
    if distinct(shape, strides):
        look(result, shape, strides, offset)[...] += v
        return result
    return add_at_value(result, np.broadcast_to(v, shape), window_positions(shape, strides) + offset)


def add_at_value(x, v, index):
    """A copy of `x` with the elements of `v` added at flat positions `index`."""
    result = np.array(x, order="C")
    np.add.at(result.reshape(-1), np.ravel(index), np.ravel(v))
    return result


def _add_window_jvp(tangents, x, v, z, shape=(), strides=(), offset=0):
    to_x, to_v = tangents
    if to_v is None:
        return to_x
    to_v = to_v.broadcast_to(shape)
    return to_v.placed(x.shape, strides, offset) if to_x is None else to_x.add_window(to_v, strides, offset)


structural(
    "add_window", 2, add_window_value,
    lambda g, x, v, z, shape=(), strides=(), offset=0: (g, g.strided(shape, strides, offset)),
    jvp=_add_window_jvp, linear=True, node="AddWindow", doc="x with v added into a strided window", dynamic="offset",
    shape=assigned_shape, effect="write", adds=True,
)


def _at_shape(x, v, index):
    S.taken(index, v.shape)
    return x.shape, x.char


def _add_at_jvp(tangents, x, v, index, z):
    to_x, to_v = tangents
    if to_v is None:
        return to_x
    return to_v.scattered(index, x.shape) if to_x is None else to_x.add_at(to_v, index)


structural(
    "add_at", 2, add_at_value,
    lambda g, x, v, index, z: (g, g.gather(index, v.shape)),
    jvp=_add_at_jvp, linear=True, node="AddAt", constants=(2,), doc="x with the elements of v added at given flat positions",
    shape=_at_shape, effect="write", adds=True,
)

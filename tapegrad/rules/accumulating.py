"""Additions into part of an array: how an adjoint grows by that of one element or window.

As rows they give a new array; a replay that needs the old one no more adds in place.
"""

import numpy as np

from . import shapes as S
from .shaping import assigned_shape
from .table import structural
from .transposed import distinct, look, window_positions


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

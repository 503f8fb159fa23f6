"""Additions into part of an array: how an adjoint grows by that of one element or window.

As rows they give a new array; a replay that needs the old one no more adds in place.
"""

from __future__ import annotations

import numpy as np

from .table import structural
from .tangents import added
from .transposed import place_value, scatter_value


def _add_window_value(x, v, shape=(), strides=(), offset=0):
    return x + place_value(np.broadcast_to(v, shape), np.shape(x), strides, offset)


def _add_window_jvp(tangents, x, v, z, shape=(), strides=(), offset=0):
    to_x, to_v = tangents
    return added(to_x, None if to_v is None else to_v.broadcast_to(shape).placed(x.shape, strides, offset))


structural(
    "add_window", 2, _add_window_value,
    lambda g, x, v, z, shape=(), strides=(), offset=0: (g, g.strided(shape, strides, offset)),
    jvp=_add_window_jvp, linear=True, node="AddWindow", doc="x with v added into a strided window", dynamic="offset",
)


def _add_at_jvp(tangents, x, v, index, z):
    to_x, to_v = tangents
    return added(to_x, None if to_v is None else to_v.scattered(index, x.shape))


structural(
    "add_at", 2, lambda x, v, index: x + scatter_value(v, index, np.shape(x)),
    lambda g, x, v, index, z: (g, g.gather(index, v.shape)),
    jvp=_add_at_jvp, linear=True, node="AddAt", constants=(2,), doc="x with the elements of v added at given flat positions",
)

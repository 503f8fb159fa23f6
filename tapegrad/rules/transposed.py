"""Transposed data movement, and the product with an absolute zero.

These primitives are what the rules of other rows are made of; a user never
calls them.  They are rows so that a derivative can be differentiated again.
"""

import math

import numpy as np

from ..common.errors import require
from . import lang as L
from . import shapes as S
from .table import elementwise, structural


def absolute_product_value(g, p):
    """``g * p``, zero where either factor is; who runs it ignores floating-point errors."""
    product = np.multiply(g, p)
    # Plain multiplication does it unless something is not finite: then so is the sum.
    if math.isfinite(np.add.reduce(product, None)):
        return product
    return np.where(np.equal(g, 0) | np.equal(p, 0), product.dtype.type(0), product)


elementwise(
    "absolute_product", absolute_product_value, L.absolute_product, (lambda g, p, z: p, lambda g, p, z: g),
    node="AbsoluteMul", doc="x * y, zero where either factor is zero (even beside infinity)",
)


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
    jvp=lambda t, x, z, shape=(), strides=(), offset=0: t[0].placed(shape, strides, offset),
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
    jvp=lambda t, x, index, z, shape=(): t[0].scattered(index, shape),
    linear=True, node="IndexAdd", doc="zeros with x added at given flat positions", constants=(1,),
    shape=_scattered_shape, effect="move", adds=True,
)

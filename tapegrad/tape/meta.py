"""Interned descriptions of values: shape, strides, dtype.

Two values with the same description share one `Meta` object, so that the
signature of an operation is a short tuple of object identities.
"""

from __future__ import annotations

import numpy as np


class Meta:
    """Shape, byte strides and dtype character of a value.

    Attributes
    ----------
    shape, strides : tuple of int
    char : str
        NumPy's dtype character (``"d"`` is float64).
    size, nbytes, itemsize : int
    """

    __slots__ = ("shape", "strides", "char", "itemsize", "size", "nbytes")

    def __init__(self, shape, strides, char, itemsize):
        self.shape = shape
        self.strides = strides
        self.char = char
        self.itemsize = itemsize
        self.size = 1
        for extent in shape:
            self.size *= extent
        self.nbytes = self.size * itemsize

    def __repr__(self):
        return f"Meta({self.char}{list(self.shape)})"


#: The one description of float64 scalars, which live in the records themselves.
SCALAR = Meta((), (), "d", 8)

_KNOWN = {}
_ITEMSIZES = {}


def meta_of(value):
    """The `Meta` of a Python float or of an ndarray."""
    if type(value) is float:
        return SCALAR
    key = (value.shape, value.strides, value.dtype.char)
    known = _KNOWN.get(key)
    if known is None:
        known = _KNOWN[key] = Meta(*key, value.dtype.itemsize)
    return known


def laid_out(shape, char):
    """The `Meta` of a C-contiguous value; that of a float for a float64 without axes."""
    return SCALAR if not shape and char == "d" else c_array(shape, char)


def c_array(shape, char):
    """The `Meta` of a C-contiguous array."""
    itemsize = _ITEMSIZES.get(char) or _ITEMSIZES.setdefault(char, np.dtype(char).itemsize)
    key = (tuple(shape), c_strides(shape, itemsize), char)
    known = _KNOWN.get(key)
    if known is None:
        known = _KNOWN[key] = Meta(*key, itemsize)
    return known


def c_strides(shape, itemsize):
    """Byte strides of a C-contiguous array."""
    strides = []
    for extent in reversed(shape):
        strides.append(itemsize)
        itemsize *= extent
    return tuple(reversed(strides))


def axes_in_memory(meta):
    """The axes of a value from the longest stride to the shortest; for a C-contiguous one as they are counted."""
    return sorted(range(len(meta.shape)), key=lambda k: -abs(meta.strides[k]))

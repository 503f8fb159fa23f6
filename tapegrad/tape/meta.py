"""Interned descriptions of values: shape, strides, dtype.

Two values with the same description share one `Meta` object, so that the
signature of an operation is a short tuple of object identities.
"""

import threading
from weakref import ref

import numpy as np

from ..common.errors import InternalError, require


class Meta:
    """Shape, byte strides and dtype character of a value.

    Attributes
    ----------
    shape, strides : tuple of int
    char : str
        NumPy's dtype character (``"d"`` is float64).
    size, ndim, nbytes, itemsize : int
    dtype : dtype
    weak : bool
        Whether it promotes as a number of Python does: of `SCALAR` only.
    """

    __slots__ = ("shape", "ndim", "strides", "char", "itemsize", "size", "nbytes", "dtype", "weak", "__weakref__")

    def __init__(self, shape, strides, char, itemsize, weak=False):
        self.shape = shape
        self.ndim = len(shape)
        self.weak = weak
        self.strides = strides
        self.char = char
        self.itemsize = itemsize
        self.size = 1
        for extent in shape:
            self.size *= extent
        self.nbytes = self.size * itemsize
        self.dtype = np.dtype(char)

    def __repr__(self):
        return f"Meta({self.char}{list(self.shape)})"


#: The one description of float64 scalars, which live in the records themselves.
SCALAR = Meta((), (), "d", 8, weak=True)

#: By (shape, strides, char); when there are more than `_limit`, those that nothing else refers to are let go.
_KNOWN = {}
_ITEMSIZES = {}
MOST = 1024
_LOCK = threading.Lock()
_limit = MOST


def meta_of(value):
    """The `Meta` of a Python float or of an ndarray."""
    if type(value) is float:
        return SCALAR
    key = (value.shape, value.strides, value.dtype.char)
    return _KNOWN.get(key) or _interned(key, value.dtype.itemsize)


def _interned(key, itemsize):
    global _limit
    with _LOCK:
        meta = _KNOWN.get(key)
        if meta is None:
            if len(_KNOWN) >= _limit:
                for other in list(_KNOWN):
                    held = ref(_KNOWN.pop(other))
                    alive = held()
                    if alive is not None:
                        _KNOWN[other] = alive
                    del alive
                _limit = max(MOST, 2 * len(_KNOWN))
            meta = _KNOWN[key] = Meta(*key, itemsize)
        return meta


def checked(write):
    """`write`, the function that writes instructions (`record`), with every description compared with its value."""

    def checking(row, operands, values, metas, flags, attrs, value, integer, depth=3):
        for v, m in zip(values, metas):
            if m is not meta_of(v):
                raise InternalError(f"{row.name}: an operand {meta_of(v)} of strides {v.strides} is described as {m} of strides {m.strides}")
        t = write(row, operands, values, metas, flags, attrs, value, integer, depth + 1)
        require(t._t is None or t._v.__class__ is float or t._m is meta_of(t._v), f"{row.name}: shape rule disagrees with the computed result")
        return t

    return checking


def laid_out(shape, char):
    """The `Meta` of a C-contiguous value; that of a float for a float64 without axes."""
    return SCALAR if not shape and char == "d" else c_array(shape, char)


def c_array(shape, char):
    """The `Meta` of a C-contiguous array."""
    itemsize = _ITEMSIZES.get(char) or _ITEMSIZES.setdefault(char, np.dtype(char).itemsize)
    key = (tuple(shape), c_strides(shape, itemsize), char)
    return _KNOWN.get(key) or _interned(key, itemsize)


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

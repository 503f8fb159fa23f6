"""The record of one instruction, the few opcodes that are the tape's own, and interned descriptions of values: shape, strides, dtype.

A record is 32 bytes::

    offset  0   int32    opcode
            4   int32    first operand slot   (0: none, the inline constant stands in)
            8   int32    second operand slot
           12   int32    bytecode offset of the user's code (see tape.places)
           16   float64  value of a scalar result
           24   float64  inline constant of a scalar instruction
                or int64 position of the saved objects / integer attribute of an array instruction

Slot *i* is the result of record *i*: instructions are in SSA order and refer
only backwards.  Opcodes from `FIRST_ARRAY` on are array instructions; what
follows FIRST_ARRAY is the number of its signature (primitive, shapes, dtypes,
attributes), and the `CLEARED` bit marks an instruction whose saved values a
backward pass has released.

Two values with the same description share one `Meta` object, so that the
signature of an operation is a short tuple of object identities.
"""

import math
import struct
import threading
from weakref import ref

import numpy as np

from ..common.errors import InternalError, require

#: opcode, first operand, second operand, bytecode offset, value, constant
RECORD = struct.Struct("iiiidd")
#: The same record for an array instruction: the last field is an integer.
ARRAY_RECORD = struct.Struct("iiiidq")
#: Four more operands of the instruction that follows.
CONTINUATION = struct.Struct("iiiiqq")

OPERANDS = (4, 8)
OFFSET_AT = 12
VALUE = 16
CONSTANT = 24

SCALAR_LEAF = 1
FIRST_ARRAY = 1024
#: Above any signature of array instructions:
ARRAY_LEAF = 0x08000000
CONTINUES = 0x08000001
CLEARED = 0x10000000
#: An entry of a functional recording: what it is stands in the trace (`program.trace`), by slot.
TRACED = 0x08000002

#: Marks of a backward pass for instructions that it reaches, and for leaves (or what stands for inputs).
MARK, LEAF_MARK = 1, 2


# ---- descriptions of values ----------------------------------------------------------------------
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
        self.shape, self.strides, self.char, self.itemsize, self.weak = shape, strides, char, itemsize, weak
        self.ndim, self.size, self.dtype = len(shape), math.prod(shape), np.dtype(char)
        self.nbytes = self.size * itemsize

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

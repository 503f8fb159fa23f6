"""Arrays of dual numbers from constructors, which make float64.

`rewrite` hands what constructors return, and the floats of lists, to `promoted`; types are known there: integers and
booleans stay what they are.  What holds dual numbers from the start is here, too.
"""

import numpy as np
from numba import types
from numba.extending import overload, register_jitable

from .builtins import as_dual
from .types import DualType, Token, compiled_only, contains_dual, is_dual_array

#: Constructors of arrays of which no element comes from an argument.
EMPTY = (np.zeros, np.empty, np.ones, np.zeros_like, np.empty_like, np.ones_like, np.eye, np.identity)
#: Constructors that take their dtype from an array, if they are not given one.
LIKE = (np.zeros_like, np.empty_like, np.ones_like)
#: Functions whose result is memory of its own, and made dual after the call.
FRESH = (*EMPTY, np.full, np.full_like, np.array, np.linspace, np.arange, np.copy)

promoted, array = compiled_only("promoted"), compiled_only("array")


@overload(promoted)
def _promoted(token, value):
    """Floats, or an array of them that nothing else refers to, as dual numbers; anything else as it is."""
    if isinstance(value, types.Float):
        return lambda token, value: as_dual(token, value)
    if not isinstance(value, types.Array) or not isinstance(value.dtype, types.Float):
        return lambda token, value: value

    def copied(token, value):
        out = np.empty_like(value, token)
        for i in np.ndindex(value.shape):
            out[i] = value[i]
        return out

    return copied


def holds_floats(dtype):
    """Whether a dtype argument stands for float64, which it does by default."""
    if dtype is None or isinstance(dtype, (types.NoneType, types.Omitted)):
        return True
    if isinstance(dtype, types.Function):
        return dtype.typing_key is float
    if isinstance(dtype, types.StringLiteral):
        return np.dtype(dtype.literal_value).kind == "f"
    return isinstance(dtype, types.DTypeSpec) and isinstance(dtype.dtype, (types.Float, DualType))


@register_jitable
def _filled(out, value):
    for i in np.ndindex(out.shape):
        out[i] = value
    return out


@overload(np.full, target="cpu")
def _full(shape, fill_value, dtype=None):
    if isinstance(fill_value, DualType) and holds_floats(dtype):
        token = Token(fill_value.lanes)
        return lambda shape, fill_value, dtype=None: _filled(np.empty(shape, token), fill_value)


@overload(np.full_like, target="cpu")
def _full_like(a, fill_value, dtype=None):
    if isinstance(a, types.Array) and isinstance(fill_value, DualType) and holds_floats(dtype):
        token = Token(fill_value.lanes)
        return lambda a, fill_value, dtype=None: _filled(np.empty_like(a, token), fill_value)


@overload(array)
def _array(object, dtype=None):
    """``np.array`` of something that may hold dual numbers."""
    if not contains_dual(object) or not holds_floats(dtype):
        return lambda object, dtype=None: np.array(object, dtype)
    if is_dual_array(object):
        return lambda object, dtype=None: object.copy()
    items = list(object) if isinstance(object, types.BaseTuple) else [object.dtype]
    if len(set(items)) > 1:
        return None
    if isinstance(items[0], DualType):
        token = Token(items[0].lanes)

        def numbers(object, dtype=None):
            out = np.empty(len(object), token)
            for i in range(len(object)):
                out[i] = object[i]
            return out

        return numbers
    if isinstance(items[0], (types.List, types.UniTuple)):
        token = Token(items[0].dtype.lanes)

        def rows(object, dtype=None):
            out = np.empty((len(object), len(object[0])), token)
            for i in range(len(object)):
                out[i] = array(object[i])
            return out

        return rows


@overload(np.asarray, target="cpu")
def _asarray(a, dtype=None):
    if is_dual_array(a) and holds_floats(dtype):
        return lambda a, dtype=None: a
    if not isinstance(a, types.Array) and contains_dual(a):
        return lambda a, dtype=None: array(a, dtype)

"""Array constructors that make arrays of dual numbers where NumPy's make float64.

`rewrite` puts a call of ``CONSTRUCTORS[np.zeros](token, n)`` in the place of ``np.zeros(n)`` and so on.
The dtype is looked at here, when types are known: integers and booleans stay what they are.

Numba compiles these functions.  Only programs that `rewrite` made name them, and Python never runs them.
"""

from __future__ import annotations

import numpy as np
from numba.core import types
from numba.extending import overload

from .builtins import as_dual
from .types import DualType, is_real


def _absent(argument):
    return argument is None or isinstance(argument, (types.NoneType, types.Omitted))


def _is_active(element):
    return element == types.float64 or isinstance(element, DualType)


def _holds_floats(dtype):
    """Whether a dtype argument stands for float64, which it does by default."""
    if _absent(dtype):
        return True
    if isinstance(dtype, types.Function):
        return dtype.typing_key is float
    if isinstance(dtype, types.StringLiteral):
        return np.dtype(dtype.literal_value) == np.float64
    return isinstance(dtype, types.DTypeSpec) and _is_active(dtype.dtype)


#: What stands in the place of NumPy's constructors in a rewritten function.
CONSTRUCTORS = {}
#: Functions whose result is made dual after the call.
PROMOTED = (np.linspace, np.arange, np.copy)


def _compiled_only(*functions):
    """Decorator: a function of nopython code, by what it is for the types of its arguments; it stands for these of NumPy."""

    def register(typed):
        def made(*args):
            raise NotImplementedError

        made.__name__ = made.__qualname__ = typed.__name__.strip("_")
        overload(made)(typed)
        CONSTRUCTORS.update(dict.fromkeys(functions, made))
        return made

    return register


@_compiled_only()
def filled(token, shape, value):
    def of_duals(token, shape, value):
        out = np.empty(shape, token)
        for i in np.ndindex(out.shape):
            out[i] = value
        return out

    return of_duals


def _constructor(numpy_function, fill):
    """A constructor of a shape."""

    @_compiled_only(numpy_function)
    def typed(token, shape, dtype=None):
        if not _holds_floats(dtype):
            return lambda token, shape, dtype=None: numpy_function(shape, dtype)
        if fill is None:
            return lambda token, shape, dtype=None: np.empty(shape, token)
        if fill == 0.0:
            return lambda token, shape, dtype=None: np.zeros(shape, token)
        return lambda token, shape, dtype=None: filled(token, shape, fill)


def _constructor_like(numpy_function, fill):
    """A constructor of a prototype."""

    @_compiled_only(numpy_function)
    def typed(token, a, dtype=None):
        if not isinstance(a, types.Array):
            return None
        if _absent(dtype) and not _is_active(a.dtype):
            return lambda token, a, dtype=None: numpy_function(a)
        if not _holds_floats(dtype):
            return lambda token, a, dtype=None: numpy_function(a, dtype)
        return lambda token, a, dtype=None: filled(token, a.shape, fill)


for _function, _fill in ((np.zeros, 0.0), (np.empty, None), (np.ones, 1.0)):
    _constructor(_function, _fill)
for _function, _fill in ((np.zeros_like, 0.0), (np.empty_like, 0.0), (np.ones_like, 1.0)):
    _constructor_like(_function, _fill)


@_compiled_only(np.full)
def make_full(token, shape, fill_value, dtype=None):
    if _holds_floats(dtype) and (is_real(fill_value) or isinstance(fill_value, DualType)):
        return lambda token, shape, fill_value, dtype=None: filled(token, shape, fill_value)
    return lambda token, shape, fill_value, dtype=None: np.full(shape, fill_value, dtype)


@_compiled_only(np.full_like)
def make_full_like(token, a, fill_value, dtype=None):
    if isinstance(a, types.Array) and _absent(dtype) and not _is_active(a.dtype):
        return lambda token, a, fill_value, dtype=None: np.full_like(a, fill_value)
    if isinstance(a, types.Array):
        return lambda token, a, fill_value, dtype=None: make_full(token, a.shape, fill_value, dtype)


@_compiled_only(np.eye, np.identity)
def make_eye(token, n):
    def square(token, n):
        out = np.zeros((n, n), token)
        for i in range(n):
            out[i, i] = 1.0
        return out

    return square


@_compiled_only(np.array)
def make_array(token, values, dtype=None):
    if not _holds_floats(dtype):
        return lambda token, values, dtype=None: np.array(values, dtype)
    if isinstance(values, types.Array):

        def copied(token, values, dtype=None):
            out = np.empty(values.shape, token)
            for i in np.ndindex(values.shape):
                out[i] = values[i]
            return out

        return copied
    if not isinstance(values, (types.List, types.BaseTuple)):
        return None
    items = list(values) if isinstance(values, types.BaseTuple) else [values.dtype]
    if all(isinstance(item, (types.List, types.UniTuple)) for item in items):

        def rows(token, values, dtype=None):
            out = np.empty((len(values), len(values[0])), token)
            for i in range(len(values)):
                if len(values[i]) != len(values[0]):
                    raise ValueError("rows of different lengths")
                for j in range(len(values[i])):
                    out[i, j] = values[i][j]
            return out

        return rows
    if isinstance(values, types.List) or len(set(items)) == 1:

        def numbers(token, values, dtype=None):
            out = np.empty(len(values), token)
            for i in range(len(values)):
                out[i] = values[i]
            return out

        return numbers


@_compiled_only(np.asarray)
def make_asarray(token, values, dtype=None):
    """Of an array of floats it cannot be what it should be, the same memory."""
    if not isinstance(values, types.Array):
        return lambda token, values, dtype=None: make_array(token, values, dtype)
    if isinstance(values.dtype, DualType) and _holds_floats(dtype):
        return lambda token, values, dtype=None: values


@_compiled_only()
def promote_number(token, value):
    """A float as a dual number; anything else as it is."""
    if isinstance(value, types.Float):
        return lambda token, value: as_dual(token, value)
    return lambda token, value: value


@_compiled_only()
def promote_fresh(token, value):
    """An array of floats that nothing else refers to, as an array of dual numbers; anything else as it is."""
    if isinstance(value, types.Array) and value.dtype == types.float64:
        return lambda token, value: make_array(token, value)
    return lambda token, value: value

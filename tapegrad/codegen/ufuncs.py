"""Addresses of the inner loops inside NumPy's and SciPy's ufuncs.

A ufunc is a C struct (``PyUFuncObject`` of NumPy's public ``ufuncobject.h``)
that holds, per signature of types, the address of a loop
``void loop(char **args, npy_intp *dims, npy_intp *steps, void *data)``.  Such a
loop needs no Python: the sweeps call it directly, and run the same machine
code as the eager call.  Each loop is tried against the
ufunc itself before its address is given out.
"""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np

from ..common.errors import InternalError


class _UFuncHead(ctypes.Structure):
    _fields_ = [
        ("ob_refcnt", ctypes.c_ssize_t),
        ("ob_type", ctypes.c_void_p),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
    ]


_LOOP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


def _call(address, data, arrays, dims, steps):
    pointers = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
    dims = (ctypes.c_ssize_t * len(dims))(*dims)
    steps = (ctypes.c_ssize_t * len(steps))(*steps)
    _LOOP(address)(pointers, dims, steps, data)


def is_elementwise(function):
    """Whether `function` is a ufunc that is applied to each element alone: `np.matmul` is a ufunc, too, of whole matrices."""
    return isinstance(function, np.ufunc) and function.signature is None


@cache
def inner_loop(ufunc, types):
    """Address and data pointer of the loop of `ufunc` for `types`.

    Parameters
    ----------
    ufunc : numpy.ufunc
    types : str
        As in ``ufunc.types``, e.g. ``"dd->d"``.

    Returns
    -------
    tuple of int
        ``(address, data)``; `data` may be 0.
    """
    head = _UFuncHead.from_address(id(ufunc))
    index = ufunc.types.index(types)
    if (head.nin, head.nout, head.ntypes) != (ufunc.nin, ufunc.nout, ufunc.ntypes):
        raise InternalError(f"the layout of {ufunc} is not the documented one")
    address, data = head.functions[index], head.data[index] if head.data else None
    _try_loop(ufunc, types, address, data)
    return address, data or 0


def _try_loop(ufunc, types, address, data):
    """Assert that the loop computes what the ufunc computes."""
    inputs, outputs = types.split("->")
    product = ufunc is np.matmul
    # Some domains are the unit interval, others begin at 1.  Factors of different extents, so that a mistaken order would show.
    args = [
        np.arange(1.0, 7.0).reshape(2 + k, 3 - k).astype(c) if product else np.array([0.375, 1.25], c) + np.dtype(c).type(0.5 * k)
        for k, c in enumerate(inputs)
    ]
    computed = np.zeros((2, 2) if product else 2, outputs)
    dims, steps = ([1, 2, 3, 2], [0, 0, 0]) if product else ([2], [])
    steps += [stride for a in (*args, computed) for stride in a.strides]
    _call(address, data, [*args, computed], dims, steps)
    with np.errstate(all="ignore"):
        expected = ufunc(*args)
    if not np.array_equal(computed, expected, equal_nan=True):
        raise InternalError(f"the loop of {ufunc} gives {computed}, the ufunc {expected}")

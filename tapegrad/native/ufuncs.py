"""Addresses of the inner loops inside NumPy's and SciPy's ufuncs.

A ufunc is a C struct (``PyUFuncObject`` of NumPy's public ``ufuncobject.h``)
that holds, per signature of types, the address of a loop
``void loop(char **args, npy_intp *dims, npy_intp *steps, void *data)``.  Such a
loop needs no Python: the sweeps call it directly, and get the same machine
code, and so the same bits, as the eager call.  Each loop is tried against the
ufunc itself before its address is given out.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

import numpy as np


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


@lru_cache(maxsize=None)
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
        raise AssertionError(f"the layout of {ufunc} is not the documented one")
    address, data = head.functions[index], head.data[index] if head.data else None
    _try_loop(ufunc, types, address, data)
    return address, data or 0


def _try_loop(ufunc, types, address, data):
    """Assert that the loop computes what the ufunc computes."""
    inputs, output = types.split("->")
    dtypes = [np.dtype(c) for c in inputs]
    if ufunc.signature is None:
        # Some domains are the unit interval, others begin at 1.
        args = [np.array([0.375, 1.25], dtype=d) + 0.5 * k for k, d in enumerate(dtypes)]
        out = np.zeros(2, np.dtype(output))
        _call(address, data, [*args, out], [2], [a.itemsize for a in (*args, out)])
    elif ufunc is np.matmul:
        args = [np.arange(1, 7, dtype=dtypes[0]).reshape(2, 3), np.arange(2, 8, dtype=dtypes[0]).reshape(3, 2)]
        out = np.zeros((2, 2), np.dtype(output))
        steps = [0, 0, 0] + [s for a in (*args, out) for s in a.strides]
        _call(address, data, [*args, out], [1, 2, 3, 2], steps)
    else:
        raise AssertionError(f"no trial is written for the generalised ufunc {ufunc}")
    with np.errstate(all="ignore"):
        expected = ufunc(*args)
    if not np.array_equal(out, expected, equal_nan=True):
        raise AssertionError(f"the loop of {ufunc} gives {out}, the ufunc {expected}")

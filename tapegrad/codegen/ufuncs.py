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
import re
from functools import cache

import numpy as np
from numpy.linalg import _umath_linalg

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


@cache
def core_dimensions(ufunc):
    """Names of the core dimensions of each operand of a gufunc: ``(inputs, outputs)``, as in its signature."""
    sides = ufunc.signature.replace(" ", "").replace("?", "").split("->")
    return tuple(
        tuple(tuple(n for n in names.split(",") if n) for names in re.findall(r"\(([^)]*)\)", side)) for side in sides
    )


def reduced_svd(rows, columns):
    """NumPy's gufunc of the reduced singular value decomposition; older versions have one for each case."""
    both = getattr(_umath_linalg, "svd_s", None)
    return both or (_umath_linalg.svd_m_s if rows < columns else _umath_linalg.svd_n_s)


def _example(shape, dtype):
    """A well-conditioned array: symmetric and positive definite if it is a square matrix."""
    positions = np.add.outer(np.arange(shape[0]), np.arange(shape[1])) if len(shape) == 2 else np.arange(shape[0])
    return (1.0 / (1.0 + positions) + 3.0 * np.eye(*shape) if len(shape) == 2 else 1.0 + positions).astype(dtype)


def _try_loop(ufunc, types, address, data):
    """Assert that the loop computes what the ufunc computes."""
    inputs, outputs = types.split("->")
    if ufunc.signature is None:
        # Some domains are the unit interval, others begin at 1.
        args = [np.array([0.375, 1.25], np.dtype(c)) + np.dtype(c).type(0.5 * k) for k, c in enumerate(inputs)]
        computed = [np.zeros(2, np.dtype(outputs))]
        dims, steps = [2], [a.itemsize for a in (*args, *computed)]
    else:
        cores, results = core_dimensions(ufunc)
        names = list(dict.fromkeys(name for core in (*cores, *results) for name in core))
        # Different extents, so that a mistaken order would show; p is the lesser of m and n.
        extents = {name: 2 if name == "p" else 3 - k % 2 for k, name in enumerate(names)}
        if ufunc is getattr(_umath_linalg, "svd_m_s", None):
            extents.update(m=2, n=3)  # of older versions, for matrices that are wider than high
        args = [_example([extents[name] for name in core], c) for core, c in zip(cores, inputs)]
        computed = [np.zeros([extents[name] for name in core], c) for core, c in zip(results, outputs)]
        dims, steps = [1, *extents.values()], [0] * (len(args) + len(computed))
        steps += [stride for a in (*args, *computed) for stride in a.strides]
    _call(address, data, [*args, *computed], dims, steps)
    with np.errstate(all="ignore"):
        expected = ufunc(*args)
    for one, other in zip(computed, expected if isinstance(expected, tuple) else (expected,)):
        close = np.array_equal(one, other, equal_nan=True) if ufunc.signature is None else np.allclose(one, other, rtol=1e-4, atol=1e-6)
        if not close:
            raise InternalError(f"the loop of {ufunc} gives {one}, the ufunc {other}")

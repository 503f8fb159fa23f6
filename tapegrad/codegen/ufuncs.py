"""Addresses of loops: those inside NumPy's and SciPy's ufuncs, and those of functions of matrices.

A ufunc is a C struct (``PyUFuncObject`` of NumPy's public ``ufuncobject.h``)
that holds, per signature of types, the address of a loop
``void loop(char **args, npy_intp *dims, npy_intp *steps, void *data)``.  Such a
loop needs no Python: the sweeps call it directly, and run the same machine
code as the eager call.  Each loop is tried against the
ufunc itself before its address is given out.

Functions of matrices are NumPy's `matmul`, and LAPACK's (`codegen.lapack`).  Products go to BLAS through the loop of NumPy's
ufunc, not through the pointers of `scipy.linalg.cython_blas`.  It is as fast (8 x 8: 0.67 against 0.75 µs, 64 x 64: 11.0 against
11.6, 256 x 256: 616 against 597), gives the same numbers as the eager call, and takes what BLAS does not: any strides, stacks,
factors in either order in memory, products with vectors and of a matrix with its own transpose, each by the routine that is best
for it.  A process that only multiplies does not load SciPy.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from ..common.errors import InternalError
from .symbols import capsule


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


#: Function -> core dimensions of the operands and of the results; p is the lesser of m and n.
CORES = {
    "matmul": (("nk", "km"), ("nm",)), "solve": (("mm", "mn"), ("mn",)), "det": (("nn",), ("",)), "logabsdet": (("nn",), ("",)),
    "cholesky": (("nn",), ("nn",)), "svd": (("mn",), ("mp", "p", "pn")),
}  # fmt: skip


@dataclass(frozen=True)
class MatrixLoop:
    """One of these functions for float64 (``"d"``) or float32 (``"f"``)."""

    name: str
    char: str

    def data(self):
        """The address of what the loop is told; it is complete after `address`."""
        return 0 if self.name == "matmul" else _block(self).ctypes.data

    def address(self):
        """The address of the loop."""
        if self.name == "matmul":
            return inner_loop(np.matmul, f"{2 * self.char}->{self.char}")[0]
        from .compile import plain_address
        from .lapack import JOB, LOOPS, ROUTINE

        loop, routine, letter = LOOPS[self.name]
        _block(self)[JOB // 8] = ord(letter)
        _block(self)[ROUTINE // 8] = capsule("scipy.linalg.cython_lapack", ("s" if self.char == "f" else "d") + routine)
        return plain_address(loop)


@cache
def _block(loop):
    block = np.zeros(5, np.int64)
    block[0], block[1:2].view(loop.char)[0], block[4] = np.dtype(loop.char).itemsize, math.nan, id(MemoryError)
    return block

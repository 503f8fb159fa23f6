"""Which functions of matrices programs call, and the loops that compute them: NumPy's `matmul`, and LAPACK (`codegen.lapack`).

Products go to BLAS through the loop of NumPy's ufunc, which is found in the ufunc's published struct (`codegen.ufuncs`), not
through the pointers of `scipy.linalg.cython_blas`.  It is as fast (8 x 8: 0.67 against 0.75 µs, 64 x 64: 11.0 against 11.6, 256 x 256:
616 against 597), gives the same numbers as the eager call, and takes what BLAS does not: any strides, stacks, factors in either order
in memory, products with vectors and of a matrix with its own transpose, each by the routine that is best for it.  A process
that only multiplies does not load SciPy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from .symbols import capsule
from .ufuncs import inner_loop

#: Function -> core dimensions of the operands and of the results; p is the lesser of m and n.
CORES = {
    "matmul": (("nk", "km"), ("nm",)), "solve": (("mm", "mn"), ("mn",)), "det": (("nn",), ("",)), "svd": (("mn",), ("mp", "p", "pn")),
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
        from .lapack import LOOPS, ROUTINE

        loop, routine = LOOPS[self.name]
        _block(self)[ROUTINE // 8] = capsule("scipy.linalg.cython_lapack", ("s" if self.char == "f" else "d") + routine)
        return plain_address(loop)


@cache
def _block(loop):
    block = np.zeros(4, np.int64)
    block[0], block[1:2].view(loop.char)[0], block[2] = np.dtype(loop.char).itemsize, math.nan, ord("S")
    return block

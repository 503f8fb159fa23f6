"""Which functions of matrices programs call, and the loops that compute them: NumPy's `matmul`, and LAPACK (`codegen.lapack`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from .symbols import capsule
from .ufuncs import inner_loop

#: Function -> core dimensions of the operands and of the results; p is the lesser of m and n.
CORES = {
    "matmul": (("nk", "km"), ("nm",)), "inv": (("nn",), ("nn",)), "solve": (("mm", "mn"), ("mn",)), "det": (("nn",), ("",)),
    "slogdet": (("nn",), ("", "")), "cholesky": (("nn",), ("nn",)), "eigh": (("nn",), ("n", "nn")), "svd": (("mn",), ("mp", "p", "pn")),
    "qr": (("mn",), ("mp", "pn")),
}  # fmt: skip


@dataclass(frozen=True)
class MatrixLoop:
    """One of these functions for float64 (``"d"``) or float32 (``"f"``); `upper`: the triangle that is read or made."""

    name: str
    upper: bool
    char: str

    def data(self):
        """The address of what the loop is told; it is complete after `address`."""
        return 0 if self.name == "matmul" else _block(self).ctypes.data

    def address(self):
        """The address of the loop."""
        if self.name == "matmul":
            return inner_loop(np.matmul, f"{2 * self.char}->{self.char}")[0]
        from .compile import plain_address
        from .lapack import FIRST, LOOPS

        loop, *routines = LOOPS[self.name]
        letter = "s" if self.char == "f" else "d"
        _block(self)[FIRST // 8 :][: len(routines)] = [capsule("scipy.linalg.cython_lapack", letter + routine) for routine in routines]
        return plain_address(loop)


@cache
def _block(loop):
    block = np.zeros(9, np.int64)
    block[0] = size = np.dtype(loop.char).itemsize
    block[1:4].view(loop.char)[:: 8 // size] = math.nan, 0.0, 1.0
    flag = loop.upper if loop.name == "cholesky" else loop.name in ("inv", "slogdet")
    block[4:7] = flag, ord("U" if loop.upper else "L"), ord("S" if loop.name == "svd" else "V")
    return block

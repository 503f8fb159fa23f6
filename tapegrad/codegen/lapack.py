"""Factorisations of stacks of matrices, as loops in the form of a ufunc's: ``void loop(char **args, npy_intp *dims, npy_intp *steps, void *data)``.

They call LAPACK by the pointers that SciPy publishes for that (`scipy.linalg.cython_lapack`).  Where it finds no answer (a
singular matrix, a factorisation that does not converge) they write NaN, or the determinant 0.

`dims` is the extent of the stack, then each core dimension once, in the order of `codegen.matrices.CORES`; `steps` has the strides of the stack,
one for each operand and result, then those of their core dimensions; `data` is what `codegen.matrices.MatrixLoop` writes.
"""

from __future__ import annotations

import math

import numpy as np

from .compile import compiled, helper
from .memory import (
    allocate,
    c_function,
    load_double,
    load_float,
    load_int,
    load_int32,
    release,
    store_double,
    store_float,
    store_int,
    store_int32,
)

#: In `data`: bytes of an element; a NaN, zero and one; a word that is not 0 if `flag`; two letters; addresses of the routines.
SIZE, NAN, ZERO, ONE, FLAG, LETTER, JOB, FIRST, SECOND = range(0, 72, 8)
call5, call6, call8, call9, call11, call14 = (c_function(None, "void", *["int64"] * n) for n in (5, 6, 8, 9, 11, 14))


@helper
def _copy(target, down, right, source, source_down, source_right, rows, columns, size):
    """Copy a matrix, between any strides."""
    for j in range(columns):
        for i in range(rows):
            to, at = target + i * down + j * right, source + i * source_down + j * source_right
            if size == 8:
                store_int(to, load_int(at))
            else:
                store_int32(to, load_int32(at))


@helper
def _take(target, args, steps, core, k, member, rows, columns, size):
    """A matrix of operand `k` to an address, in Fortran's order; its core strides are at `core`."""
    source = load_int(args + 8 * k) + member * load_int(steps + 8 * k)
    _copy(target, size, size * rows, source, load_int(core), load_int(core + 8), rows, columns, size)


@helper
def _give(source, args, steps, core, k, member, rows, columns, data, info):
    """A matrix in Fortran's order into operand `k`, or NaN if there is no answer; `source`: its address, and what a column takes."""
    size, failed = load_int(data), load_int32(info) != 0
    target, right = load_int(args + 8 * k) + member * load_int(steps + 8 * k), load_int(core + 8) if columns > 1 else 0
    start, down, along = (data + NAN, 0, 0) if failed else (source, size, size * rows)
    _copy(target, load_int(core), right, start, down, along, rows, columns, size)


@helper
def _clear(a, rows, columns, upper, data):
    """Zero below the diagonal of a matrix in Fortran's order (`upper`), or above it."""
    size = load_int(data)
    for j in range(columns):
        start, stop = (min(j + 1, rows), rows) if upper else (0, min(j, rows))
        _copy(a + size * (j * rows + start), size, 0, data + ZERO, 0, 0, stop - start, 1, size)


@helper
def _number(address, size):
    return load_double(address) if size == 8 else float(load_float(address))


@helper
def _set_number(args, steps, k, member, size, value):
    address = load_int(args + 8 * k) + member * load_int(steps + 8 * k)
    if size == 8:
        store_double(address, value)
    else:
        store_float(address, np.float32(value))


@compiled("void(int64, int64, int64, int64)")
def solve(args, dims, steps, data):
    """Solutions of ``A @ X = B``, or (`FLAG`) inverses."""
    size, inverse, m = load_int(data), load_int(data + FLAG), load_int(dims + 8)
    n, last = (m, 1) if inverse else (load_int(dims + 16), 2)
    core = steps + 8 * (last + 1)
    numbers = allocate(24 + 8 * m + size * m * (m + n))
    info, pivots, a = numbers + 16, numbers + 24, numbers + 24 + 8 * m
    b = a + size * m * m
    store_int32(numbers, m)
    store_int32(numbers + 8, n)
    for k in range(load_int(dims)):
        _take(a, args, steps, core, 0, k, m, m, size)
        if inverse:
            _copy(b, size, size * m, data + ZERO, 0, 0, m, m, size)
            _copy(b, size * (m + 1), 0, data + ONE, 0, 0, m, 1, size)
        else:
            _take(b, args, steps, core + 16, 1, k, m, n, size)
        call8(load_int(data + FIRST), numbers, numbers + 8, a, numbers, pivots, b, numbers, info)
        _give(b, args, steps, core + 16 * last, last, k, m, n, data, info)
    release(numbers)


@compiled("void(int64, int64, int64, int64)")
def determinant(args, dims, steps, data):
    """Determinants, or (`FLAG`) their signs and the logarithms of their absolute values."""
    size, apart, m = load_int(data), load_int(data + FLAG), load_int(dims + 8)
    numbers = allocate(16 + 8 * m + size * m * m)
    info, pivots, a = numbers + 8, numbers + 16, numbers + 16 + 8 * m
    store_int32(numbers, m)
    for k in range(load_int(dims)):
        _take(a, args, steps, steps + 8 * (3 if apart else 2), 0, k, m, m, size)
        call6(load_int(data + FIRST), numbers, numbers, a, numbers, pivots, info)
        sign, logarithm = (0.0, -math.inf) if load_int32(info) != 0 else (1.0, 0.0)
        if sign != 0.0:
            for i in range(m):
                x = _number(a + size * i * (m + 1), size)
                if (load_int32(pivots + 4 * i) != i + 1) != (x < 0.0):
                    sign = -sign
                logarithm += math.log(abs(x))
        if apart:
            _set_number(args, steps, 1, k, size, sign)
            _set_number(args, steps, 2, k, size, logarithm)
        else:
            _set_number(args, steps, 1, k, size, sign * math.exp(logarithm))
    release(numbers)


@compiled("void(int64, int64, int64, int64)")
def cholesky(args, dims, steps, data):
    """Triangular factors, upper ones if `FLAG`."""
    size, n = load_int(data), load_int(dims + 8)
    numbers = allocate(16 + size * n * n)
    info, a = numbers + 8, numbers + 16
    store_int32(numbers, n)
    for k in range(load_int(dims)):
        _take(a, args, steps, steps + 16, 0, k, n, n, size)
        call5(load_int(data + FIRST), data + LETTER, numbers, a, numbers, info)
        _clear(a, n, n, load_int(data + FLAG), data)
        _give(a, args, steps, steps + 32, 1, k, n, n, data, info)
    release(numbers)


@compiled("void(int64, int64, int64, int64)")
def eigh(args, dims, steps, data):
    """Eigenvalues and eigenvectors of symmetric matrices."""
    size, n = load_int(data), load_int(dims + 8)
    room, integers = 1 + 6 * n + 2 * n * n, 3 + 5 * n
    numbers = allocate(32 + 8 * integers + size * (n * n + n + room))
    info, a = numbers + 24, numbers + 32 + 8 * integers
    values, work = a + size * n * n, a + size * n * (n + 1)
    store_int32(numbers, n)
    store_int32(numbers + 8, room)
    store_int32(numbers + 16, integers)
    for k in range(load_int(dims)):
        _take(a, args, steps, steps + 24, 0, k, n, n, size)
        call11(
            load_int(data + FIRST), data + JOB, data + LETTER, numbers, a, numbers, values, work, numbers + 8, numbers + 32, numbers + 16, info
        )
        _give(values, args, steps, steps + 40, 1, k, n, 1, data, info)
        _give(a, args, steps, steps + 48, 2, k, n, n, data, info)
    release(numbers)


@compiled("void(int64, int64, int64, int64)")
def svd(args, dims, steps, data):
    """Reduced singular value decompositions U, s, Vh."""
    size, m, n, p = load_int(data), load_int(dims + 8), load_int(dims + 16), min(load_int(dims + 8), load_int(dims + 16))
    numbers, work = allocate(40 + 64 * p + size * (m * n + m * p + p + p * n)), allocate(8)
    info, a = numbers + 32, numbers + 40 + 64 * p
    u, s, vh = a + size * m * n, a + size * m * (n + p), a + size * (m * (n + p) + p)
    store_int32(numbers, m)
    store_int32(numbers + 8, n)
    store_int32(numbers + 16, p)
    # First it is asked how much memory it wants.
    store_int32(numbers + 24, -1)
    for k in range(-1, load_int(dims)):
        if k >= 0:
            _take(a, args, steps, steps + 32, 0, k, m, n, size)
        call14(
            load_int(data + FIRST), data + JOB, numbers, numbers + 8, a, numbers, s, u, numbers, vh, numbers + 16, work, numbers + 24,
            numbers + 40, info,
        )
        if k < 0:
            store_int32(numbers + 24, int(_number(work, size)))
            release(work)
            work = allocate(size * load_int32(numbers + 24))
        else:
            _give(u, args, steps, steps + 48, 1, k, m, p, data, info)
            _give(s, args, steps, steps + 64, 2, k, p, 1, data, info)
            _give(vh, args, steps, steps + 72, 3, k, p, n, data, info)
    release(work)
    release(numbers)


@compiled("void(int64, int64, int64, int64)")
def qr(args, dims, steps, data):
    """Reduced factors Q and R."""
    size, m, n, p = load_int(data), load_int(dims + 8), load_int(dims + 16), min(load_int(dims + 8), load_int(dims + 16))
    room = 64 * n
    numbers = allocate(40 + size * (m * n + p * n + p + room))
    info, a = numbers + 32, numbers + 40
    r, tau, work = a + size * m * n, a + size * (m * n + p * n), a + size * (m * n + p * n + p)
    store_int32(numbers, m)
    store_int32(numbers + 8, n)
    store_int32(numbers + 16, p)
    store_int32(numbers + 24, room)
    for k in range(load_int(dims)):
        _take(a, args, steps, steps + 24, 0, k, m, n, size)
        call8(load_int(data + FIRST), numbers, numbers + 8, a, numbers, tau, work, numbers + 24, info)
        _copy(r, size, size * p, a, size, size * m, p, n, size)
        _clear(r, p, n, 1, data)
        _give(r, args, steps, steps + 56, 2, k, p, n, data, info)
        call9(load_int(data + SECOND), numbers, numbers + 16, numbers + 16, a, numbers, tau, work, numbers + 24, info)
        _give(a, args, steps, steps + 40, 1, k, m, p, data, info)
    release(numbers)


#: Function -> loop, routines of LAPACK.
LOOPS = {
    "inv": (solve, "gesv"), "solve": (solve, "gesv"), "det": (determinant, "getrf"), "slogdet": (determinant, "getrf"),
    "cholesky": (cholesky, "potrf"), "eigh": (eigh, "syevd"), "svd": (svd, "gesdd"), "qr": (qr, "geqrf", "orgqr"),
}  # fmt: skip

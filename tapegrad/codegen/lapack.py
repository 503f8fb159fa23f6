"""Functions of stacks of matrices, as loops in the form of a ufunc's: ``void loop(char **args, npy_intp *dims, npy_intp *steps,
void *data)``.

They call LAPACK by the pointers that SciPy publishes for that (`scipy.linalg.cython_lapack`).  Where it finds no answer (a
singular matrix, a factorisation that does not converge) they write NaN, or the determinant 0.

`dims` is the extent of the stack, then each core dimension once, in the order of `codegen.ufuncs.CORES`; `steps` has the strides
of the stack, one for each operand and result, then those of their core dimensions; `data` is what `codegen.ufuncs.MatrixLoop`
writes.
"""

import math

from .compile import compiled, helper
from .memory import allocate, c_function, call5, int_at, load_int32, load_number, release, set_int_at, store_int32, store_number
from .python_api import raise_later

#: In `data`: bytes of an element, not 0; a NaN; the letter that says what is wanted; addresses of the routine and of `MemoryError`.
SIZE, NAN, JOB, ROUTINE, NO_MEMORY = range(0, 40, 8)
#: The letter for a lower triangle, and for logarithms.
LOWER = ord("L")
call6, call8, call14 = (c_function(None, "void", *["int64"] * n) for n in (6, 8, 14))


@helper
def _copy(target, down, right, source, source_down, source_right, rows, columns, size):
    """Copy a matrix, between any strides."""
    for j in range(columns):
        for i in range(rows):
            to, at = target + i * down + j * right, source + i * source_down + j * source_right
            if size == 8:
                set_int_at(to, 0, int_at(at, 0))
            else:
                store_int32(to, load_int32(at))


@helper
def _take(target, args, steps, core, k, member, rows, columns, size):
    """A matrix of operand `k` to an address, in Fortran's order; its core strides are at `core`."""
    source = int_at(args, k) + member * int_at(steps, k)
    _copy(target, size, size * rows, source, int_at(core, 0), int_at(core, 1), rows, columns, size)


@helper
def _give(source, args, steps, core, k, member, rows, columns, data, info):
    """A matrix in Fortran's order into operand `k`, or NaN if there is no answer; `source`: its address, and what a column takes."""
    size, failed = int_at(data, 0), load_int32(info) != 0
    target, right = int_at(args, k) + member * int_at(steps, k), int_at(core, 1) if columns > 1 else 0
    start, down, along = (data + NAN, 0, 0) if failed else (source, size, size * rows)
    _copy(target, int_at(core, 0), right, start, down, along, rows, columns, size)


@helper
def _info(numbers, offset, data):
    """Where a routine says whether there is an answer; if there is no memory for its numbers, a word that says that there is none."""
    if numbers != 0:
        return numbers + offset
    raise_later(int_at(data + NO_MEMORY, 0))
    return data


@compiled("void(int64, int64, int64, int64)")
def solve(args, dims, steps, data):
    """Solutions of ``A @ X = B``."""
    size, m, n, core = int_at(data, 0), int_at(dims, 1), int_at(dims, 2), steps + 24
    numbers = allocate(24 + 8 * m + size * m * (m + n))
    info, pivots, a = _info(numbers, 16, data), numbers + 24, numbers + 24 + 8 * m
    b = a + size * m * m
    for k in range(int_at(dims, 0)):
        if numbers != 0:
            set_int_at(numbers, 0, m, 1, n)
            _take(a, args, steps, core, 0, k, m, m, size)
            _take(b, args, steps, core + 16, 1, k, m, n, size)
            call8(int_at(data + ROUTINE, 0), numbers, numbers + 8, a, numbers, pivots, b, numbers, info)
        _give(b, args, steps, core + 32, 2, k, m, n, data, info)
    release(numbers)


@compiled("void(int64, int64, int64, int64)")
def determinant(args, dims, steps, data):
    """Determinants, or the logarithms of their absolute values."""
    size, m = int_at(data, 0), int_at(dims, 1)
    numbers = allocate(16 + 8 * m + size * m * m)
    info, pivots, a = _info(numbers, 8, data), numbers + 16, numbers + 16 + 8 * m
    for k in range(int_at(dims, 0)):
        sign, logarithm = math.nan, 0.0
        if numbers != 0:
            store_int32(numbers, m)
            _take(a, args, steps, steps + 16, 0, k, m, m, size)
            call6(int_at(data + ROUTINE, 0), numbers, numbers, a, numbers, pivots, info)
            sign, logarithm = (0.0, -math.inf) if load_int32(info) != 0 else (1.0, 0.0)
        if sign == 1.0:
            for i in range(m):
                at = a + size * i * (m + 1)
                x = load_number(at, size)
                if (load_int32(pivots + 4 * i) != i + 1) != (x < 0.0):
                    sign = -sign
                logarithm += math.log(abs(x))
        target = int_at(args, 1) + k * int_at(steps, 1)
        result = logarithm if int_at(data + JOB, 0) == LOWER and sign == sign else sign * math.exp(logarithm)
        store_number(target, size, result)
    release(numbers)


@compiled("void(int64, int64, int64, int64)")
def cholesky(args, dims, steps, data):
    """Lower triangular factors of positive definite matrices."""
    size, m = int_at(data, 0), int_at(dims, 1)
    numbers = allocate(16 + size * m * m)
    info, a = _info(numbers, 8, data), numbers + 16
    for k in range(int_at(dims, 0)):
        if numbers != 0:
            store_int32(numbers, m)
            _take(a, args, steps, steps + 16, 0, k, m, m, size)
            call5(int_at(data + ROUTINE, 0), data + JOB, numbers, a, numbers, info)
            for j in range(m):
                for i in range(j):
                    store_number(a + size * (i + j * m), size, 0.0)
        _give(a, args, steps, steps + 32, 1, k, m, m, data, info)
    release(numbers)


@compiled("void(int64, int64, int64, int64)")
def svd(args, dims, steps, data):
    """Reduced singular value decompositions U, s, Vh."""
    size, m, n, p = int_at(data, 0), int_at(dims, 1), int_at(dims, 2), min(int_at(dims, 1), int_at(dims, 2))
    # It works in as much as it would ask for.
    room = p * (4 * p + 7) + 65 * (m + n)
    numbers = allocate(40 + 64 * p + size * (m * n + m * p + p + p * n + room))
    info, a = _info(numbers, 32, data), numbers + 40 + 64 * p
    u, s, vh = a + size * m * n, a + size * m * (n + p), a + size * (m * (n + p) + p)
    for k in range(int_at(dims, 0)):
        if numbers != 0:
            set_int_at(numbers, 0, m, 1, n, 2, p, 3, room, 4, 1)
            _take(a, args, steps, steps + 32, 0, k, m, n, size)
            unbounded = 0.0
            for i in range(m * n):
                x = load_number(a + size * i, size)
                unbounded += x - x
            if unbounded == 0.0:
                # With an infinity it may never end.
                call14(
                    int_at(data + ROUTINE, 0), data + JOB, numbers, numbers + 8, a, numbers, s, u, numbers, vh, numbers + 16,
                    vh + size * p * n, numbers + 24, numbers + 40, info,
                )
        _give(u, args, steps, steps + 48, 1, k, m, p, data, info)
        _give(s, args, steps, steps + 64, 2, k, p, 1, data, info)
        _give(vh, args, steps, steps + 72, 3, k, p, n, data, info)
    release(numbers)


#: Function -> loop, routine of LAPACK, letter.
LOOPS = {
    "solve": (solve, "gesv", "S"), "det": (determinant, "getrf", "S"), "logabsdet": (determinant, "getrf", "L"),
    "cholesky": (cholesky, "potrf", "L"), "svd": (svd, "gesdd", "S"),
}  # fmt: skip

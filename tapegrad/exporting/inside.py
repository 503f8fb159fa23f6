"""What exported code has inside beside its kernel: functions that Numba lowers, for any processor, and that are linked into the module.

`answer` is what C calls.  `run` stands for `interpreter.steps.run`: here a `Run` of a kernel (`kernel.ir`) calls `steps` for each matrix of a
stack.  A step is a function ``(words, args, room)``: the numbers that it was planned with (`exporting.matrices`), the addresses of operands
and results, and the address of memory for matrices.  LAPACK's steps are the routines that the caller sets; where one finds no answer,
the others of the call are left out, its results are NaN, and `answer` gives a status.
"""

import math

from ..codegen.memory import c_function, call3_int, call4, copy_bytes, load_double, load_int, load_int32, store_double, store_int
from ..interpreter.calls import call_loop
from ..interpreter.program import REGISTERS
from ..program import ports
from .targets import right_processor

OK, NULL_ARGUMENT, TOO_SMALL, OTHER_HEADER, OTHER_PROCESSOR, NOT_FINITE, NOT_SET, NO_SOLUTION = range(0, -8, -1)
#: Register of the address of the room, and what begins there: whether LAPACK has found no answer since the call began, what the routines of
#: these steps say (0: nothing), matrices.
ROOM, INFO, MATRICES = REGISTERS - 1, 8, 64
_UPPER, _LOWER, _SIGN, _LOGARITHM = b"ULsl"
exp, log = (c_function(name, "float64", "float64") for name in ("exp", "log"))
call13 = c_function(None, "void", *["int64"] * 13)


def answer(table, checksum, given, workspace, size):
    """The status of a call; `given`: the addresses of arguments and results, in a row.

    `table` has the checksum, the bytes of the workspace, where in it the room and the addresses of results are, the kernel, how many
    arguments, results and routines there are; what `right_processor` is given; the places of the routines' addresses; of each result where
    it is if it is constant (or 0), where it is in the workspace, and its bytes.
    """
    arguments, results, routines = load_int(table + 40), load_int(table + 48), load_int(table + 56)
    if checksum != load_int(table):
        return OTHER_HEADER
    if right_processor(load_int(table + 64), load_int(table + 72)) == 0:
        return OTHER_PROCESSOR
    if given == 0 or workspace == 0:
        return NULL_ARGUMENT
    for k in range(arguments + results):
        if load_int(given + 8 * k) == 0:
            return NULL_ARGUMENT
    if size < load_int(table + 8):
        return TOO_SMALL
    for k in range(routines):
        if load_int(load_int(table + 80 + 8 * k)) == 0:
            return NOT_SET
    block, each = (workspace + 63) & -64, table + 80 + 8 * routines
    room, places = block + load_int(table + 16), block + load_int(table + 24)
    store_int(room, 0)
    for k in range(results):
        store_int(places + 8 * k, block + load_int(each + 24 * k + 8))
    said = call3_int(load_int(table + 32), given, places, block)
    if said != ports.FINE:
        return NO_SOLUTION if load_int(room) != 0 else NOT_FINITE if said == ports.NOT_FINITE else said + 1
    for k in range(results):
        constant, at, nbytes = load_int(each), load_int(each + 8), load_int(each + 16)
        copy_bytes(load_int(given + 8 * (arguments + k)), constant if constant != 0 else block + at, nbytes)
        each += 24
    return OK


def run(program, registers, x, y, z, scratch):
    """Here `program` is where the room lies behind `scratch`, the register of the number that says whether there is a result, or 0, and the
    words of a call."""
    room, done = scratch + load_int(program), load_int(program + 8)
    store_int(registers + 8 * ROOM, room)
    call_loop(registers, program + 16, scratch)
    if done != 0:
        store_double(load_int(registers + 8 * done), 1.0 if load_int(room) == 0 else 0.0)
    return 0


def steps(args, step, strides, place):
    """A loop, in the form of a ufunc's, over one matrix.  A step has its address, its bytes, whether it is a routine, and its words; the
    address of the room is at a `place` of `args`."""
    room = load_int(args + place)
    store_int(room + INFO, 0)
    while load_int(step) != 0:
        if load_int(step + 16) == 0 or load_int32(room + INFO) == 0:
            call3_int(load_int(step), step + 24, args, room)
        step += load_int(step + 8)
    return 0


def take(words, args, room):
    """Copy a matrix, as Fortran's lie, by columns; its numbers have to be finite, for else LAPACK may never end."""
    source, down, right = load_int(args + load_int(words)), load_int(words + 8), load_int(words + 16)
    rows, columns, target, odd = load_int(words + 24), load_int(words + 32), room + load_int(words + 48), 0.0
    for j in range(columns):
        for i in range(rows):
            x = load_double(source + i * down + j * right)
            odd += x - x
            store_double(target + 8 * (i + rows * j), x)
    if odd != 0.0:
        store_int(room + INFO, -1)
    return 0


def give(words, args, room):
    """Copy a matrix, or one of its triangles, to a result."""
    target, down, right = load_int(args + load_int(words)), load_int(words + 8), load_int(words + 16)
    rows, columns, lead = load_int(words + 24), load_int(words + 32), load_int(words + 40)
    source, triangle, failed = room + load_int(words + 48), load_int(words + 56), load_int32(room + INFO) != 0
    if failed:
        store_int(room, 1)
    for j in range(columns):
        for i in range(rows):
            x = math.nan if failed else load_double(source + 8 * (i + lead * j))
            other = (triangle == _UPPER and i > j) or (triangle == _LOWER and i < j)
            store_double(target + i * down + j * right, 0.0 if other else x)
    return 0


def determinant(words, args, room):
    """The determinant of what was factored, its sign or the logarithm of its size."""
    target, n, asked, info = load_int(args + load_int(words)), load_int(words + 24), load_int(words + 64), load_int32(room + INFO)
    sign, logarithm = (1.0, 0.0) if info == 0 else (0.0, -math.inf) if info > 0 else (math.nan, math.nan)
    for i in range(n if info == 0 else 0):
        x = load_double(room + load_int(words + 48) + 8 * i * (n + 1))
        if (load_int32(room + load_int(words + 56) + 4 * i) != i + 1) != (x < 0.0):
            sign = -sign
        logarithm += log(abs(x))
    store_double(target, sign if asked == _SIGN else logarithm if asked == _LOGARITHM else sign * exp(logarithm))
    return 0


def product(words, args, room):
    """A product: by dgemm, if that is set and can take the matrices as they lie, with the words behind its address; else by loops."""
    a, b, c, dgemm = load_int(args), load_int(args + 8), load_int(args + 16), load_int(words + 72)
    if dgemm != 0 and load_int(dgemm) != 0:
        # Fortran's matrices lie by columns: it computes the transposed product.
        one, zero = words + 120, words + 128
        call13(load_int(dgemm), words + 80, words + 88, words + 16, words, words + 8, one, b, words + 96, a, words + 104, zero, c, words + 112)
        return 0
    ai, ap, bp = load_int(words + 24), load_int(words + 32), load_int(words + 40)
    bj, ci, cj = load_int(words + 48), load_int(words + 56), load_int(words + 64)
    for i in range(load_int(words)):
        for j in range(load_int(words + 16)):
            total = 0.0
            for p in range(load_int(words + 8)):
                total += load_double(a + i * ai + p * ap) * load_double(b + p * bp + j * bj)
            store_double(c + i * ci + j * cj, total)
    return 0


def spread(chunk, inputs, outputs, workspace, count):
    """The chunks of a loop, one after another (`codegen.memory` has them computed by several threads)."""
    for k in range(count):
        call4(chunk, inputs, outputs, workspace, k)
    return 0

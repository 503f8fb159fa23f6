"""Functions of matrices in exported code, by the functions of BLAS and LAPACK that its caller sets.

Here a `Run` of a kernel (`kernel.ir`) calls NumPy or LAPACK for a stack of matrices.  There it calls one of the functions below for each
of them.  They have the form of a ufunc's loop, ``(args, dims, steps, letters)``: addresses of the operands and results and, at the end, of
memory (`room`); the extents, and behind them how many words LAPACK is given to work with; strides; what LAPACK is asked for, in letters.
Numba lowers them (`codegen.compile.in_llvm`), and they are linked into the exported module.

LAPACK takes the lower half of an integer of 64 bits, which comes first in the order of bytes of all targets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

import llvmlite.binding as llvm

from ..codegen.compile import helper, in_llvm
from ..codegen.memory import c_function, load_double, load_int, load_int32, store_byte, store_double, store_int, store_int32
from ..codegen.ufuncs import MatrixLoop
from ..common.host_functions import HostFunction
from ..interpreter import program as P
from ..interpreter.calls import Called, call_loop
from ..interpreter.windows import aligned_shape
from ..tape.meta import c_strides

#: What the functions of Fortran take: c, i and d are characters, integers and floats that they read, I and D what they write.
ROUTINES = {
    "dgemm": "cciiiddididDi", "dgesv": "iiDiIDiI", "dgetrf": "iiDiII", "dpotrf": "ciDiI", "dtrtrs": "ccciidiDiI", "dsyevd": "cciDiDDiIiI",
    "dgesdd": "ciiDiDDiDiDiII", "dgeqrf": "iiDiDDiI", "dorgqr": "iiiDidDiI",
}  # fmt: skip
dgemm, dgesv, dgetrf, dpotrf, dtrtrs, dsyevd, dgesdd, dgeqrf, dorgqr = (
    c_function(f"tapegrad_{name}", "void", *["int64"] * len(kinds)) for name, kinds in ROUTINES.items()
)
#: The address of dgemm, or 0: it need not be set.
dgemm_set = c_function("tapegrad_dgemm_set", "int64")

#: In `room`: whether LAPACK has found no answer since the call began, what it says, the letters, numbers for BLAS, matrices.
INFO, LETTERS, NUMBERS, MATRICES = 8, 16, 24, 64
#: Register of its address.
_ROOM = P.REGISTERS - 1
#: Letters.
_PLAIN, _TRANSPOSED, _UPPER, _SIGN, _LOGARITHM = b"NTUsl"


def run(program, registers, x, y, z, scratch):
    """What a kernel calls (`interpreter.steps.run`): here `program` is where the room lies behind `scratch`, the register of the number that
    says whether there is a result, or 0, and the words of a call."""
    room, done = scratch + load_int(program), load_int(program + 8)
    store_int(registers + 8 * _ROOM, room)
    call_loop(registers, program + 16, scratch)
    if done != 0:
        store_double(load_int(registers + 8 * done), 1.0 if load_int(room) == 0 else 0.0)
    return 0


@helper
def _take(target, place, steps, rows, columns):
    """Copy a matrix, as Fortran's lie, by columns; 0.0 if it is finite."""
    source, down, right, odd = load_int(place), load_int(steps), load_int(steps + 8), 0.0
    for j in range(columns):
        for i in range(rows):
            x = load_double(source + i * down + j * right)
            odd += x - x
            store_double(target + 8 * (i + rows * j), x)
    return odd


@helper
def _give(place, steps, source, lead, rows, columns, room):
    """Copy a matrix of which a column takes `lead` numbers to a result; where LAPACK has found no answer, NaN."""
    target, down, right, failed = load_int(place), load_int(steps), load_int(steps + 8), load_int32(room + INFO) != 0
    if failed:
        store_int(room, 1)
    for j in range(columns):
        for i in range(rows):
            store_double(target + i * down + j * right, math.nan if failed else load_double(source + 8 * (i + lead * j)))


@helper
def _clear(place, steps, n, upper):
    """Zeros in the other triangle of a result."""
    target, down, right = load_int(place), load_int(steps), load_int(steps + 8)
    for j in range(n):
        for i in range(n):
            if (i > j) if upper else (i < j):
                store_double(target + i * down + j * right, 0.0)


def product(args, dims, steps, letters):
    """Products: by dgemm if that is set and the matrices lie by rows or columns; else by loops."""
    a, b, c, room = load_int(args), load_int(args + 8), load_int(args + 16), load_int(args + 24)
    m, k, n = load_int(dims), load_int(dims + 8), load_int(dims + 16)
    ai, ap, bp = load_int(steps), load_int(steps + 8), load_int(steps + 16)
    bj, ci, cj = load_int(steps + 24), load_int(steps + 32), load_int(steps + 40)
    a_rows, b_rows = ap == 8 and ai >= 8 * k, bj == 8 and bp >= 8 * n
    a_lies, b_lies = a_rows or ai == 8 and ap >= 8 * m, b_rows or bp == 8 and bj >= 8 * k
    if dgemm_set() != 0 and a_lies and b_lies and cj == 8 and ci >= 8 * n:
        # Fortran's matrices lie by columns: it computes the transposed product.
        store_byte(room + LETTERS, _PLAIN if b_rows else _TRANSPOSED)
        store_byte(room + LETTERS + 1, _PLAIN if a_rows else _TRANSPOSED)
        numbers = room + NUMBERS
        store_int(numbers, (bp if b_rows else bj) // 8)
        store_int(numbers + 8, (ai if a_rows else ap) // 8)
        store_int(numbers + 16, ci // 8)
        store_double(numbers + 24, 1.0)
        store_double(numbers + 32, 0.0)
        dgemm(
            room + LETTERS, room + LETTERS + 1, dims + 16, dims, dims + 8, numbers + 24, b, numbers, a, numbers + 8, numbers + 32, c, numbers + 16
        )  # fmt: skip
    else:
        for i in range(m):
            for j in range(n):
                total = 0.0
                for p in range(k):
                    total += load_double(a + i * ai + p * ap) * load_double(b + p * bp + j * bj)
                store_double(c + i * ci + j * cj, total)


def solve(args, dims, steps, letters):
    """Solutions of ``A @ X = B``."""
    m, n, room = load_int(dims), load_int(dims + 8), load_int(args + 24)
    a, info = room + MATRICES, room + INFO
    b = a + 8 * m * m
    _take(a, args, steps, m, m)
    _take(b, args + 8, steps + 16, m, n)
    dgesv(dims, dims + 8, a, dims, b + 8 * m * n, b, dims, info)
    _give(args + 16, steps + 32, b, m, m, n, room)


def triangular(args, dims, steps, letters):
    """The same for a triangular A."""
    m, n, room = load_int(dims), load_int(dims + 8), load_int(args + 24)
    a, asked, info = room + MATRICES, room + LETTERS, room + INFO
    b = a + 8 * m * m
    _take(a, args, steps, m, m)
    _take(b, args + 8, steps + 16, m, n)
    store_int(asked, letters)
    dtrtrs(asked, asked + 1, asked + 2, dims, dims + 8, a, dims, b, dims, info)
    _give(args + 16, steps + 32, b, m, m, n, room)


def determinant(args, dims, steps, letters):
    """The determinant, its sign or the logarithm of its size."""
    n, target, room = load_int(dims), load_int(args + 8), load_int(args + 16)
    a, info = room + MATRICES, room + INFO
    pivots = a + 8 * n * n
    _take(a, args, steps, n, n)
    dgetrf(dims, dims, a, dims, pivots, info)
    singular = load_int32(info) != 0
    sign, logarithm = (0.0, -math.inf) if singular else (1.0, 0.0)
    for i in range(0 if singular else n):
        x = load_double(a + 8 * i * (n + 1))
        if (load_int32(pivots + 4 * i) != i + 1) != (x < 0.0):
            sign = -sign
        logarithm += math.log(abs(x))
    store_double(target, sign if letters == _SIGN else logarithm if letters == _LOGARITHM else sign * math.exp(logarithm))


def cholesky(args, dims, steps, letters):
    """The triangular factor of a positive definite matrix."""
    n, room = load_int(dims), load_int(args + 16)
    a, asked = room + MATRICES, room + LETTERS
    _take(a, args, steps, n, n)
    store_int(asked, letters)
    dpotrf(asked, dims, a, dims, room + INFO)
    _give(args + 8, steps + 16, a, n, n, n, room)
    _clear(args + 8, steps + 16, n, letters == _UPPER)


def eigh(args, dims, steps, letters):
    """Eigenvalues and eigenvectors of a symmetric matrix."""
    n, words, room = load_int(dims), load_int(dims + 8), load_int(args + 24)
    a, asked, info = room + MATRICES, room + LETTERS, room + INFO
    w = a + 8 * n * n
    work = w + 8 * n
    store_int(asked, letters)
    store_int32(info, 1)
    # With an infinity it may never end.
    if _take(a, args, steps, n, n) == 0.0:
        dsyevd(asked, asked + 1, dims, a, dims, w, work, dims + 8, work + 8 * words, dims + 16, info)
    _give(args + 8, steps + 16, w, n, n, 1, room)
    _give(args + 16, steps + 24, a, n, n, n, room)


def svd(args, dims, steps, letters):
    """The reduced singular value decomposition U, s, Vh."""
    m, n, p, room = load_int(dims), load_int(dims + 8), load_int(dims + 16), load_int(args + 32)
    a, asked, info = room + MATRICES, room + LETTERS, room + INFO
    u, s = a + 8 * m * n, a + 8 * m * (n + p)
    vh, work = s + 8 * p, s + 8 * p * (n + 1)
    store_int(asked, letters)
    store_int32(info, 1)
    if _take(a, args, steps, m, n) == 0.0:
        dgesdd(asked, dims, dims + 8, a, dims, s, u, dims, vh, dims + 16, work, dims + 24, work + 8 * load_int(dims + 24), info)
    _give(args + 8, steps + 16, u, m, m, p, room)
    _give(args + 16, steps + 32, s, p, p, 1, room)
    _give(args + 24, steps + 40, vh, p, p, n, room)


def qr(args, dims, steps, letters):
    """The reduced QR factors of a matrix with at least as many rows as columns."""
    m, n, room = load_int(dims), load_int(dims + 8), load_int(args + 24)
    a, info = room + MATRICES, room + INFO
    tau = a + 8 * m * n
    work = tau + 8 * n
    _take(a, args, steps, m, n)
    dgeqrf(dims, dims + 8, a, dims, tau, work, dims + 16, info)
    _give(args + 16, steps + 32, a, m, n, n, room)
    _clear(args + 16, steps + 32, n, True)
    dorgqr(dims, dims + 8, dims + 8, a, dims, tau, work, dims + 16, info)
    _give(args + 8, steps + 16, a, m, m, n, room)


class Exportable(NamedTuple):
    """One of these functions: the routines that it calls; by the extents, how many numbers it keeps in the room, and what LAPACK works with."""

    function: Callable
    routines: tuple[str, ...]
    numbers: Callable[..., int]
    work: Callable[..., tuple[int, ...]] = lambda *extents: ()


#: By the names of `codegen.ufuncs.CORES` and others; the extents are m, n, p or those of square matrices.
FUNCTIONS = {
    "matmul": Exportable(product, ("dgemm",), lambda *extents: 0),
    "solve": Exportable(solve, ("dgesv",), lambda m, n: m * (m + n + 1)),
    "det": Exportable(determinant, ("dgetrf",), lambda n: n * (n + 1)),
    "triangular": Exportable(triangular, ("dtrtrs",), lambda m, n: m * (m + n)),
    "cholesky": Exportable(cholesky, ("dpotrf",), lambda n: n * n),
    "eigh": Exportable(eigh, ("dsyevd",), lambda n: n * (n + 1), lambda n: (1 + 6 * n + 2 * n * n, 3 + 5 * n)),
    "svd": Exportable(
        svd, ("dgesdd",), lambda m, n, p: m * n + (m + n + 5) * p, lambda m, n, p: (p * (4 * p + 7) + 65 * (m + n),)
    ),
    "qr": Exportable(qr, ("dgeqrf", "dorgqr"), lambda m, n: (m + 1) * n, lambda m, n: (64 * n,)),
}  # fmt: skip
#: Rows that are one of them: its name and the letters, by the attributes.
_ROWS = {
    "logabsdet": lambda: ("det", "l"), "sign_of_det": lambda: ("det", "s"), "cholesky": lambda upper=False: ("cholesky", "LU"[upper]),
    "solve_triangular": lambda trans=0, lower=False, unit=False: ("triangular", "UL"[lower] + "NT"[trans != 0] + "NU"[unit]),
    "eigh": lambda UPLO="L": ("eigh", "V" + UPLO), "svd": lambda: ("svd", "S"), "qr": lambda: ("qr", ""),
}  # fmt: skip


def call_of(run):
    """The name of the function that a `Run` is, the bytes of its room, and the words of its call with a register before them; or None.

    The register is that of the number that says whether there is a result, or 0; the address of the function belongs behind that.
    """
    words = iter(run.program.tolist())

    def taken(count):
        return list(islice(words, count))

    count, spec = taken(5)[-1], run.keeps
    places = [taken(2) for _ in range(count)]
    extents, steps = taken(*taken(1)), taken(*taken(1))
    outer = [taken(count + 1) for _ in range(*taken(1))]
    done, letters = 0, ""
    if isinstance(spec, MatrixLoop):
        name = spec.name
        outer, steps = [*outer, [extents.pop(0), *steps[:count]]], steps[count:]
    elif isinstance(spec, Called) and spec.name in _ROWS and _is_row(spec.function.called):
        name, letters = _ROWS[spec.name](**getattr(spec.function.called, "keywords", {}))
        *places, (done, _) = places
        places, extents, steps, outer = _of_row(name, places, [shape for shape, *_ in spec.arrays[:-1]])
    else:
        return None
    if any(buffer.char != "d" for _, buffer, _ in run.operands) or 0 in (*extents, *(extent for extent, *_ in outer)):
        return None
    work = FUNCTIONS[name].work(*extents)
    nbytes = MATRICES + 8 * (FUNCTIONS[name].numbers(*extents) + sum(work))
    places, extents = [*places, (_ROOM, 0)], [*extents, *work]
    words = [done, int.from_bytes(letters.encode(), "little"), len(places), *chain(*places), len(extents), *extents, len(steps), *steps]
    return name, nbytes, [*words, len(outer), *(word for row in outer for word in (*row, 0))]


def _is_row(function):
    """Whether what a `Run` calls is the value of a row, or a function of ours: those of users may have the same names."""
    return isinstance(function, partial) or isinstance(getattr(function, "function", None), HostFunction)


def _of_row(name, places, shapes):
    """Places, extents, strides and dimensions around, of a call with arrays in order; the parts of a packed result are rows of it."""
    *inputs, out = shapes
    (m, n), row, ((result, _),) = inputs[0][-2:], c_strides(out, 8)[-2:], places[len(inputs) :]
    extents = {"triangular": [m, inputs[-1][-1]], "svd": [m, n, min(m, n)], "qr": [m, n]}.get(name, [n])
    parts = {
        "det": {0: ()}, "eigh": {0: row[1:], 1: row}, "svd": {0: row, m: row[1:], m + 1: row[::-1]}, "qr": {0: row, m: row},
    }.get(name, {0: row})  # fmt: skip
    batch = out if name == "det" else out[:-2]
    strides = [aligned_shape(shape[:-2], c_strides(shape, 8), batch) for shape in inputs] + [c_strides(out, 8)[: len(batch)]] * len(parts)
    steps = [step for shape in inputs for step in c_strides(shape, 8)[-2:]] + [step for steps in parts.values() for step in steps]
    places = [*places[: len(inputs)], *((result, first * (row or (0,))[0]) for first in parts)]
    return places, extents, steps, [[extent, *(each[axis] for each in strides)] for axis, extent in enumerate(batch)]


#: Of a module with a function of Numba's: its name for others.
_ENTRY = """
declare i32 @"{native}"(ptr, ptr, {given})
define {kind} @"{name}"({given}) {{
  %result = alloca i64
  %raised = alloca ptr
  call i32 @"{native}"(ptr %result, ptr %raised, {given})
  ret {returned}
}}
"""
#: Of a module that calls one of `ROUTINES`.
_ROUTINE = """
@{routine} = internal global ptr null
define void @{name}_set_{routine}(ptr %function) {{
  store ptr %function, ptr @{routine}
  ret void
}}
define i64 @tapegrad_{routine}_set() {{
  %function = load i64, ptr @{routine}
  ret i64 %function
}}
define void @tapegrad_{routine}({given}) {{
  %function = load ptr, ptr @{routine}
  call void %function({given})
  ret void
}}
"""


def linked(text, name, names, routines):
    """The text of a module of an exported function with `run`, and with some of `FUNCTIONS` and `ROUTINES`, linked in."""
    text += "".join(_ROUTINE.format(name=name, routine=one, given=_given(len(ROUTINES[one]))) for one in routines)
    module = llvm.parse_assembly(text + "".join(f"declare void @tapegrad_{one}({_given(4)})\n" for one in names))
    functions = [("i64", "i64 0", 6, "run", run), *(("void", "void", 4, one, FUNCTIONS[one].function) for one in names)]
    for kind, returned, count, one, function in functions:
        own, native = in_llvm(function, f"{'void' if kind == 'void' else 'int64'}({', '.join(['int64'] * count)})")
        entry = llvm.parse_assembly(_ENTRY.format(native=native, kind=kind, name=f"tapegrad_{one}", returned=returned, given=_given(count)))
        for each in (own, entry):
            each.triple, each.data_layout = module.triple, module.data_layout
        own.link_in(entry)
        for each in (*own.functions, *own.global_variables):
            if not each.is_declaration and each.name != f"tapegrad_{one}":
                each.linkage = "internal"
        module.link_in(own)
    for each in module.functions:
        if not each.is_declaration and each.name.startswith("tapegrad_"):
            each.linkage = "internal"
    return str(module)


def _given(count):
    return ", ".join(f"i64 %a{k}" for k in range(count))

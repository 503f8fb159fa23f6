"""How functions of matrices are computed in exported code: by LAPACK, which its caller sets, in steps (`exporting.inside`)."""

from functools import partial
from itertools import chain, islice
from math import prod

from ..codegen.ufuncs import CORES, MatrixLoop
from ..common.host_functions import HostFunction
from ..interpreter.calls import Called
from ..interpreter.planner import aligned_shape
from ..tape.layout import c_strides
from .inside import INFO, MATRICES, ROOM

#: What the functions of Fortran take: c, i and d are characters, integers and floats that they read, I and D what they write.
ROUTINES = {
    "dgemm": "cciiiddididDi", "dgesv": "iiDiIDiI", "dgetrf": "iiDiII", "dpotrf": "ciDiI", "dtrtrs": "ccciidiDiI", "dsyevd": "cciDiDDiIiI",
    "dgesdd": "ciiDiDDiDiDiII", "dgeqrf": "iiDiDDiI", "dorgqr": "iiiDidDiI",
}  # fmt: skip
#: The steps of each function.  Small letters are extents, capitals memory, with its shape where it is first named or moved; k and l are how
#: much of it a routine has to work with; a digit is one of the letters that say what is asked for.  Routines end with INFO.
_STEPS = {
    "solve": ["take A:mm", "take B:mn", "dgesv m n A m P:m B m", "give B:mn"],
    "triangular": ["take A:mm", "take B:mn", "dtrtrs 0 1 2 m n A m B m", "give B:mn"],
    "det": ["take A:mm", "dgetrf m m A m P:m", "determinant A:mm P 0"],
    "cholesky": ["take A:mm", "dpotrf 0 m A m", "give A:mm 0"],
    "eigh": ["take A:mm", "dsyevd 0 1 m A m W:m K:k k L:l l", "give W:m1", "give A:mm"],
    "svd": ["take A:mn", "dgesdd 0 m n A m S:p U:mp m V:pn p K:k k L:l", "give U:mp", "give S:p1", "give V:pn"],
    "qr": ["take A:mn", "dgeqrf m n A m T:n K:k k", "give A:nn 0", "dorgqr m n n A m T K k", "give A:mn"],
}
#: The extents k and l by the others.
_WORK = {
    "eigh": lambda m: (1 + 6 * m + 2 * m * m, 3 + 5 * m), "svd": lambda m, n, p: (p * (4 * p + 7) + 65 * (m + n), 8 * p), "qr": lambda m, n: (64 * n,),
}  # fmt: skip
#: Rows that are one of them, with the letters by the attributes.
_ROWS = {
    "logabsdet": lambda: ("det", "l"), "sign_of_det": lambda: ("det", "s"), "cholesky": lambda upper=False: ("cholesky", "LU"[upper]),
    "solve_triangular": lambda trans=0, lower=False, unit=False: ("triangular", "UL"[lower] + "NT"[trans != 0] + "NU"[unit]),
    "eigh": lambda UPLO="L": ("eigh", "V" + UPLO), "svd": lambda: ("svd", "S"), "qr": lambda: ("qr", "U"),
}  # fmt: skip


def call_of(run):
    """What a `Run` is here: the words of `inside.run` but for the first, with names in the place of addresses, and the bytes of the room; or None."""
    words, spec = iter(run.program.tolist()), run.keeps

    def taken(count):
        return list(islice(words, count))

    count = taken(5)[-1]
    places = [taken(2) for _ in range(count)]
    extents, strides = taken(*taken(1)), taken(*taken(1))
    outer = [taken(count + 1) for _ in range(*taken(1))]
    if isinstance(spec, MatrixLoop):
        done, rest = 0, iter(strides[count:])
        outer.append([extents.pop(0), *strides[:count]])
        strides = [(*islice(rest, len(core)), 0, 0) for core in chain(*CORES[spec.name])]
        name, letters = _ROWS[spec.name]() if spec.name in _ROWS else (spec.name, "S")
    elif isinstance(spec, Called) and spec.name in _ROWS and _is_row(spec.function.called):
        name, letters = _ROWS[spec.name](**getattr(spec.function.called, "keywords", {}))
        *places, (done, _) = places
        places, extents, strides, outer = _of_row(name, places, [shape for shape, *_ in spec.arrays[:-1]])
    else:
        return None
    if any(buffer.char != "d" for _, buffer, _ in run.operands) or 0 in (*extents, *(extent for extent, *_ in outer)):
        return None
    steps, nbytes = _steps(name, letters, extents, strides)
    call = ["tapegrad_steps", 8 * len(places), len(places) + 1, *chain(*places), ROOM, 0, len(steps), *steps, 0, len(outer)]
    return [done, *call, *(word for row in outer for word in (*row, 0))], nbytes


def _is_row(function):
    """Whether what a `Run` calls is the value of a row, or a function of ours: those of users may have the same names."""
    return isinstance(function, partial) or isinstance(getattr(function, "function", None), HostFunction)


def _of_row(name, places, shapes):
    """Places, extents, strides and the dimensions around of a call with arrays in order; the parts of a packed result are rows of it."""
    *inputs, out = shapes
    (m, n), row, (result, _) = inputs[0][-2:], c_strides(out, 8)[-2:], places[len(inputs)]
    extents = {"triangular": [m, inputs[-1][-1]], "svd": [m, n, min(m, n)], "qr": [m, n]}.get(name, [m])
    parts = {
        "det": {0: ()}, "eigh": {0: row[1:], 1: row}, "svd": {0: row, m: row[1:], m + 1: row[::-1]}, "qr": {m: row, 0: row},
    }.get(name, {0: row})  # fmt: skip
    batch = out if name == "det" else out[:-2]
    around = [aligned_shape(shape[:-2], c_strides(shape, 8), batch) for shape in inputs] + [c_strides(out, 8)[: len(batch)]] * len(parts)
    strides = [c_strides(shape, 8)[-2:] for shape in inputs] + [(*part, 0, 0) for part in parts.values()]
    places = [*places[: len(inputs)], *((result, sum(row[:1]) * first) for first in parts)]
    return places, extents, strides, [[extent, *(each[axis] for each in around)] for axis, extent in enumerate(batch)]


def _product(m, k, n, ai, ap, bp, bj, ci, cj):
    """The words of a product: those of its loops, then of dgemm, with the numbers 1 and 0 at the end."""
    a_rows, b_rows = ap == 8 and ai >= 8 * k, bj == 8 and bp >= 8 * n
    lies = (a_rows or ai == 8 and ap >= 8 * m) and (b_rows or bp == 8 and bj >= 8 * k) and cj == 8 and ci >= 8 * n
    leads = (bp if b_rows else bj) // 8, (ai if a_rows else ap) // 8, ci // 8
    letters = ord("N" if b_rows else "T"), ord("N" if a_rows else "T")
    return ["tapegrad_product", 160, 0, m, k, n, ai, ap, bp, bj, ci, cj, "dgemm" if lies else 0, *letters, *leads, 0x3FF0000000000000, 0, 0]


def _steps(name, letters, extents, strides):
    """The words of `inside.steps`, and the bytes of the room."""
    if name == "matmul":
        return _product(*extents, *(step for each in strides for step in each[:2])), MATRICES
    known = dict(zip("mnp", extents)) | dict(zip("kl", _WORK[name](*extents) if name in _WORK else ())) | {"1": 1}
    words, memory, nbytes, moved = [], {}, MATRICES, enumerate(strides)
    for step in _STEPS[name]:
        function, *operands = step.split()
        numbers = []
        for operand in operands:
            block, _, shape = operand.partition(":")
            if block.isupper() and block not in memory:
                memory[block], nbytes = (nbytes, known[shape[0]]), nbytes + 8 * prod(known[letter] for letter in shape)
            numbers.append(memory[block][0] if block.isupper() else ord(letters[int(block)]) if block.isdigit() else known[block])
        if function in ROUTINES:
            numbers.append(INFO)
        else:
            block, _, (rows, columns) = operands[0].partition(":")
            place, (down, right, *_) = next(moved)
            numbers = [8 * place, down, right, known[rows], known[columns], memory[block][1], *numbers, 0]
        words += [f"tapegrad_{function}", 24 + 8 * len(numbers), int(function in ROUTINES), *numbers]
    return [*words, 0], nbytes

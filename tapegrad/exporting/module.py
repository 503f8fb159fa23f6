"""The LLVM module of a kernel that stands alone.

The text of a kernel is that which runs here (`kernel.emit`), so that a program of its own computes the same bits.  Tables of constants are
put in, and the functions that it calls from outside (`exporting.inside`).  So is the function that C calls (`inside.answer`).  It asks whether
the caller's header belongs to it, whether this is the processor, whether all addresses are there, the workspace is large enough and LAPACK is
set; and it gives results to the caller only when no guard has failed: until then they are in the workspace.
"""

import zlib
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from ..codegen.compile import linked_with
from ..codegen.library import SPECIAL
from ..common.errors import UnsupportedFunctionError, require
from ..kernel import ir
from ..kernel.emit import Emission
from ..rules import lang as L
from . import inside
from .matrices import ROUTINES, call_of

#: What a call returns besides the number of a guard: name in the header, number, what it says.
STATUSES = {
    "OK": (inside.OK, "the results are written"),
    "NULL_ARGUMENT": (inside.NULL_ARGUMENT, "an argument is NULL"),
    "TOO_SMALL": (inside.TOO_SMALL, "the workspace is too small"),
    "OTHER_HEADER": (inside.OTHER_HEADER, "the header is not that of this object file"),
    "OTHER_PROCESSOR": (inside.OTHER_PROCESSOR, "this processor lacks instructions that the code was made of"),
    "NOT_FINITE": (inside.NOT_FINITE, "a derivative is infinite or not a number"),
    "NOT_SET": (inside.NOT_SET, "a function of LAPACK was not set"),
    "NO_SOLUTION": (inside.NO_SOLUTION, "LAPACK found no answer: a matrix is singular, not positive definite or not finite"),
}
_ALIGNMENT = 64


@dataclass
class CArgument:
    """An argument or result of the exported function: its name in C, what it is, in words, shape and dtype; and the value of a constant result."""

    name: str
    what: str
    shape: tuple
    char: str
    constant: object = None

    nbytes = property(lambda self: int(np.prod(self.shape)) * np.dtype(self.char).itemsize)


class Alone:
    """The module of a kernel with the name and the arguments that it has in C.

    Attributes
    ----------
    text : str
    workspace : int
        Bytes that the caller gives.
    checksum : int
        Of the code, its arguments and the target: what the header is compared by.
    routines : list of str
        Of BLAS and LAPACK, that the caller sets.
    """

    def __init__(self, name, kernel, arguments, results, guards, target, vector_math):
        calls = _calls(kernel)
        emission = Emission(kernel.program, kernel.options)
        text = emission.with_vectors(target.vectors() if vector_math else {})
        sizes = [emission.nbytes, max([inside.MATRICES, *(nbytes for _, nbytes in calls.values())]), 8 * len(results), *(r.nbytes for r in results)]
        room, places, *offsets, end = accumulate(-(-nbytes // _ALIGNMENT) * _ALIGNMENT for nbytes in sizes)
        for table, data in emission.tables.items():
            declared, words = f'@"{table}" = external global [{data.nbytes} x i8]', calls.get(id(data))
            require(declared in text, "llvmlite declares tables in another form")
            constant = _bytes(data.tobytes()) if words is None else _constant([room - emission.scratch, *words[0]])
            text = text.replace(declared, f'@"{table}" = internal constant {constant}, align {_ALIGNMENT}')
        text = text.replace('define i64 @"kernel"(', 'define internal i64 @"kernel"(', 1)
        self.workspace = end + _ALIGNMENT
        described = f"{name} {arguments} {results} {guards} {target}"
        self.checksum = zlib.crc32((text + described).encode()) | zlib.adler32(described.encode()) << 32
        functions = {word.removeprefix("tapegrad_") for words, _ in calls.values() for word in words if isinstance(word, str)}
        self.routines = sorted(functions & ROUTINES.keys())
        needed = [routine for routine in self.routines if routine != "dgemm"]
        table = [self.checksum, self.workspace, room, places, "kernel", len(arguments), len(results), len(needed), "known", "asked", *needed]
        for k, (offset, result) in enumerate(zip(offsets, results)):
            if result.constant is not None:
                text += f"@constant{k} = internal constant {_bytes(np.asarray(result.constant, result.char).tobytes())}, align 8\n"
            table += [0 if result.constant is None else f"constant{k}", offset, result.nbytes]
        text += _CALL.format(name=name, size=self.workspace, checksum=self.checksum, table=_constant(table)) + _messages(name, guards)
        text += target.question() + "".join(_routine(name, routine) for routine in self.routines)
        self.text = _with_functions(text, functions - ROUTINES.keys())


def _with_functions(text, names):
    """The text of a module with `answer`, what its kernel calls, and other functions of `inside` linked into it."""
    declared = {name for name in ("run", "spread") if f'@"tapegrad_{name}"' in text}
    functions = {name: getattr(inside, name) for name in sorted({"answer", *declared, *names})}
    counts = {name: function.__code__.co_argcount for name, function in functions.items()}
    text += "".join(f"declare i64 @tapegrad_{name}({', '.join(['i64'] * count)})\n" for name, count in counts.items() if name not in declared)
    return linked_with(text, {f"tapegrad_{name}": (function, f"int64({', '.join(['int64'] * counts[name])})") for name, function in functions.items()})


#: What C calls.
_CALL = """
define i64 @{name}_workspace() {{
  ret i64 {size}
}}
define i64 @{name}_checksum() {{
  ret i64 {checksum}
}}
@answers = internal constant {table}
define i32 @{name}_call(i64 %checksum, i64 %given, i64 %workspace, i64 %size) {{
  %said = call i64 @tapegrad_answer(i64 ptrtoint (ptr @answers to i64), i64 %checksum, i64 %given, i64 %workspace, i64 %size)
  %status = trunc i64 %said to i32
  ret i32 %status
}}
"""
#: A routine of BLAS or LAPACK, and the function that sets it.
_ROUTINE = """
@{routine} = internal global ptr null
define void @{name}_set_{routine}(ptr %function) {{
  store ptr %function, ptr @{routine}
  ret void
}}
"""
#: One of LAPACK as a step.
_STEP = """
define i64 @tapegrad_{routine}(i64 %words, i64 %args, i64 %room) {{
{lines}
  %function = load ptr, ptr @{routine}
  call void %function({given})
  ret i64 0
}}
"""


def _routine(name, routine):
    kinds, lines = ROUTINES[routine], []
    for k, kind in enumerate(kinds):
        # A number or letter is in the word itself; the others stand in the room.
        lines.append(f"  %{'a' if kind in 'ci' else 'w'}{k} = add i64 %words, {8 * k}")
        if kind not in "ci":
            lines += [f"  %p{k} = inttoptr i64 %w{k} to ptr", f"  %o{k} = load i64, ptr %p{k}", f"  %a{k} = add i64 %room, %o{k}"]
    given = ", ".join(f"i64 %a{k}" for k in range(len(kinds)))
    step = "" if routine == "dgemm" else _STEP.format(routine=routine, lines="\n".join(lines), given=given)
    return _ROUTINE.format(name=name, routine=routine) + step


def _calls(kernel):
    """The calls of functions of matrices (`matrices.call_of`), by the ids of their words; what C has not, NumPy's and SciPy's, is refused."""
    calls = {}
    for statement in ir.walk(kernel.program.body):
        if isinstance(statement, ir.Run):
            calls[id(statement.program)] = call = call_of(statement)
            if call is None:
                raise UnsupportedFunctionError(f"{statement.name} is computed by NumPy, which a C program has not: it cannot be exported")
        elif isinstance(statement, ir.Let):
            for node in L.nodes(statement.expr):
                if node.op in SPECIAL or node.op in L.COMPILED or node.op == "polygamma":
                    raise UnsupportedFunctionError(f"{node.op} is computed by SciPy, which a C program has not: it cannot be exported")
    return calls


def _constant(words):
    """A row of words, names in the place of addresses, as a constant."""
    kinds = ["ptr @" if isinstance(word, str) else "i64 " for word in words]
    return f"<{{ {', '.join(kind.split()[0] for kind in kinds)} }}> <{{ {', '.join(f'{kind}{word}' for kind, word in zip(kinds, words))} }}>"


def _bytes(raw):
    return f'[{len(raw)} x i8] c"' + "".join(f"\\{byte:02X}" for byte in raw) + '"'


def meanings(kernel):
    """What each status above 0 means: a guard that failed."""
    texts = [f"{guard.place}: `{guard.place.text}` went another way than when it was recorded" for guard in kernel.whole.guards]
    if any(isinstance(s, ir.Guard) and s.number == len(texts) for s in ir.walk(kernel.program.body)):
        texts.append("an index is outside of its array, a mask holds another number of elements, or what must be finite is not")
    return texts


def _messages(name, guards):
    """``const char *NAME_message(int status)``."""
    lines = [f"@unknown = internal constant {_bytes(b'no such status' + bytes(1))}", f"define ptr @{name}_message(i32 %status) {{"]
    said = "@unknown"
    for k, (number, text) in enumerate([*STATUSES.values(), *enumerate(guards, 1)]):
        lines.insert(0, f"@message{k} = internal constant {_bytes(text.encode() + bytes(1))}")
        lines += [f"  %is{k} = icmp eq i32 %status, {number}", f"  %said{k} = select i1 %is{k}, ptr @message{k}, ptr {said}"]
        said = f"%said{k}"
    return "\n".join([*lines, f"  ret ptr {said}", "}", ""])

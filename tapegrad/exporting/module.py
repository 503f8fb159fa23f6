"""The LLVM module of a kernel that stands alone.

The text of a kernel is that which runs here (`kernel.emit`), so that a program of its own computes the same bits.  What it has from outside is
put in: tables of constants, the loop over the chunks of a loop that threads would share, products of matrices.  Around it stands the
function that C calls (`_CALL`).  It asks whether the caller's header belongs to it, whether this is the processor, whether all
addresses are there and the workspace is large enough, and gives results to the caller only when no guard has failed: until then they are in
the workspace.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from itertools import accumulate

import llvmlite.binding as llvm
import numpy as np

from ..codegen.compile import in_llvm
from ..codegen.library import SPECIAL
from ..common.errors import UnsupportedFunctionError
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

    @property
    def nbytes(self):
        return int(np.prod(self.shape)) * np.dtype(self.char).itemsize


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
            words = calls.get(id(data))
            text = _with_table(text, table, _bytes(data) if words is None else _constant([room - emission.scratch, *words[0]]))
        text = text.replace('define i64 @"kernel"(', 'define internal i64 @"kernel"(', 1)
        self.workspace = end + _ALIGNMENT
        described = f"{name} {arguments} {results} {guards} {target}"
        self.checksum = zlib.crc32((text + described).encode()) | zlib.adler32(described.encode()) << 32
        functions = {word.removeprefix("tapegrad_") for words, _ in calls.values() for word in words if isinstance(word, str)}
        self.routines = sorted(functions & ROUTINES.keys())
        table = [_signed(self.checksum), self.workspace, room, places, "kernel", len(arguments), len(results)]
        needed = [routine for routine in self.routines if routine != "dgemm"]
        table += [len(needed), *needed]
        for k, (offset, result) in enumerate(zip(offsets, results)):
            if result.constant is not None:
                text += f"@constant{k} = internal constant {_bytes(np.asarray(result.constant, result.char))}, align 8\n"
            table += [0 if result.constant is None else f"constant{k}", offset, result.nbytes]
        text += target.question() + f"@answers = internal constant {_constant(table)}\n" + _call(name, self, arguments, results) + _messages(name, guards)
        text += "".join(_routine(name, routine) for routine in self.routines)
        known = [function for function in ("run", "spread") if f'@"tapegrad_{function}"' in text]
        self.text = _linked(text, {"answer", *functions} - ROUTINES.keys(), known)


def _call(name, module, arguments, results):
    """What C calls: it lays the addresses of all arguments and results in a row for `inside.answer`."""
    parameters, lines = [], []
    for k, argument in enumerate(arguments):
        number = argument.shape == () and argument.char == "d"
        parameters.append(f"double %a{k}" if number else f"ptr %p{k}")
        lines += [f"  %p{k} = alloca double", f"  store double %a{k}, ptr %p{k}"] * number
    count = len(arguments) + len(results)
    parameters += [f"ptr %p{k}" for k in range(len(arguments), count)]
    for k in range(count):
        lines += [f"  %g{k} = getelementptr ptr, ptr %given, i64 {k}", f"  store ptr %p{k}, ptr %g{k}"]
    return _CALL.format(
        name=name, size=module.workspace, checksum=_signed(module.checksum), count=max(1, count), parameters=", ".join(parameters), lines="\n".join(lines)
    )


_CALL = """
define i64 @{name}_workspace() {{
  ret i64 {size}
}}
define i64 @{name}_checksum() {{
  ret i64 {checksum}
}}
define i32 @{name}_call(i64 %checksum, {parameters}, ptr %workspace, i64 %size) {{
  %given = alloca ptr, i64 {count}
{lines}
  %asked = call i1 @right_processor()
  %right = zext i1 %asked to i64
  %all = ptrtoint ptr %given to i64
  %block = ptrtoint ptr %workspace to i64
  %said = call i64 @tapegrad_answer(i64 ptrtoint (ptr @answers to i64), i64 %right, i64 %checksum, i64 %all, i64 %block, i64 %size)
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
#: One of LAPACK as a step: it is called unless a step before it has failed.
_STEP = """
define i64 @tapegrad_{routine}(i64 %words, i64 %args, i64 %room) {{
  %info = add i64 %room, {info}
  %place = inttoptr i64 %info to ptr
  %said = load i32, ptr %place
  %fine = icmp eq i32 %said, 0
  br i1 %fine, label %called, label %left
called:
{lines}
  %function = load ptr, ptr @{routine}
  call void %function({given})
  br label %left
left:
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
    step = "" if routine == "dgemm" else _STEP.format(routine=routine, info=inside.INFO, lines="\n".join(lines), given=given)
    return _ROUTINE.format(name=name, routine=routine) + step


def _linked(text, names, declared):
    """The text of a module with functions of `inside` linked into it, some of which it has declared; no others but those for C can be called."""
    counts = {name: getattr(inside, name).__code__.co_argcount for name in (*sorted(names), *declared)}
    text += "".join(f"declare i64 @tapegrad_{name}({', '.join(['i64'] * counts[name])})\n" for name in sorted(names))
    module = llvm.parse_assembly(text)
    functions = {f"tapegrad_{name}": (getattr(inside, name), f"int64({', '.join(['int64'] * count)})") for name, count in counts.items()}
    own = in_llvm(functions)
    own.triple, own.data_layout = module.triple, module.data_layout
    module.link_in(own)
    for function in module.functions:
        if not function.is_declaration and function.name.startswith("tapegrad_"):
            function.linkage = "internal"
    return str(module)


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


def _with_table(text, name, data):
    """The text with the definition of a table in the place of its declaration."""
    pattern = re.compile(rf'@"{name}" = external global \[\d+ x i8\]')
    text, count = pattern.subn(lambda _: f'@"{name}" = internal constant {data}, align {_ALIGNMENT}', text)
    if count != 1:
        raise UnsupportedFunctionError(f"{name} is declared {count} times")
    return text


def _constant(words):
    """A row of words, names in the place of addresses, as a constant."""
    kinds = ["ptr @" if isinstance(word, str) else "i64 " for word in words]
    return f"<{{ {', '.join(kind.split()[0] for kind in kinds)} }}> <{{ {', '.join(f'{kind}{word}' for kind, word in zip(kinds, words))} }}>"


def _bytes(data):
    raw = np.ascontiguousarray(data).tobytes()
    return f'[{len(raw)} x i8] c"' + "".join(f"\\{byte:02X}" for byte in raw) + '"'


def _signed(word):
    return word - (1 << 64) if word >= 1 << 63 else word


def meanings(kernel):
    """What each status above 0 means: a guard that failed."""
    texts = [f"{guard.place}: `{guard.place.text}` went another way than when it was recorded" for guard in kernel.whole.guards]
    if any(isinstance(s, ir.Guard) and s.number == len(texts) for s in ir.walk(kernel.program.body)):
        texts.append("an index is outside of its array, a mask holds another number of elements, or what must be finite is not")
    return texts


def _messages(name, guards):
    """``const char *NAME_message(int status)``."""
    texts = dict(STATUSES.values()) | dict(enumerate(guards, 1))
    lines, cases = [], []
    for k, (number, text) in enumerate(texts.items()):
        data = np.frombuffer(text.encode() + b"\0", np.uint8)
        lines.append(f"@message{k} = internal constant {_bytes(data)}")
        cases += [f"    i32 {number}, label %m{k}"]
    blocks = [f"m{k}:\n  ret ptr @message{k}" for k in range(len(texts))]
    unknown = f"@unknown = internal constant {_bytes(np.frombuffer(b'no such status' + bytes(1), np.uint8))}"
    body = f"  switch i32 %status, label %none [\n{chr(10).join(cases)}\n  ]\n" + "\n".join(blocks) + "\nnone:\n  ret ptr @unknown"
    return "\n".join([*lines, unknown, f"define ptr @{name}_message(i32 %status) {{", body, "}", ""])

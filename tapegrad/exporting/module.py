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

import numpy as np

from ..codegen.library import SPECIAL
from ..common.errors import UnsupportedFunctionError
from ..kernel import ir
from ..kernel.emit import FINE, NOT_FINITE, Emission
from ..rules import lang as L
from .matrices import FUNCTIONS, call_of, linked

#: What a call returns besides the number of a guard: name in the header, number, what it says.
STATUSES = {
    "OK": (0, "the results are written"),
    "NULL_ARGUMENT": (-1, "an argument is NULL"),
    "TOO_SMALL": (-2, "the workspace is too small"),
    "OTHER_HEADER": (-3, "the header is not that of this object file"),
    "OTHER_PROCESSOR": (-4, "this processor lacks instructions that the code was made of"),
    "NOT_FINITE": (-5, "a derivative is infinite or not a number"),
    "NOT_SET": (-6, "a function of LAPACK was not set"),
    "NO_SOLUTION": (-7, "LAPACK found no answer: a matrix is singular or not positive definite, or something does not converge or is not a number"),
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
        sizes = [emission.nbytes, max([8, *(nbytes for _, nbytes, _ in calls.values())]), *(result.nbytes for result in results)]
        room, *offsets, end = accumulate(-(-nbytes // _ALIGNMENT) * _ALIGNMENT for nbytes in sizes)
        for table, data in emission.tables.items():
            text = _with_table(text, table, _words(room - emission.scratch, *calls[id(data)]) if id(data) in calls else _bytes(data))
        text = text.replace('define i64 @"kernel"(', 'define internal i64 @"kernel"(', 1)
        self.routines = sorted({routine for function, *_ in calls.values() for routine in FUNCTIONS[function].routines})
        if '@"tapegrad_spread"' in text:
            text = re.sub(r'declare void @"tapegrad_spread"\([^)]*\)\n', "", text) + _SPREAD
        self.workspace = end + _ALIGNMENT
        described = f"{name} {arguments} {results} {guards} {target}"
        self.checksum = zlib.crc32((text + described).encode()) | zlib.adler32(described.encode()) << 32
        text += target.question() + self._call(name, arguments, results, room, offsets) + _messages(name, guards)
        self.text = linked(text, name, sorted({function for function, *_ in calls.values()}), self.routines) if calls else text

    def _call(self, name, arguments, results, room, offsets):
        parameters = ["i64 %checksum"]
        body, pointers = [], []
        for k, argument in enumerate(arguments):
            if argument.shape == () and argument.char == "d":
                parameters.append(f"double %a{k}")
                body += [f"  %p{k} = alloca double", f"  store double %a{k}, ptr %p{k}"]
            else:
                parameters.append(f"ptr %p{k}")
                pointers.append(f"%p{k}")
        parameters += [f"ptr %r{k}" for k in range(len(results))] + ["ptr %workspace", "i64 %size"]
        pointers += [f"%r{k}" for k in range(len(results))] + ["%workspace"]
        computed = [k for k, result in enumerate(results) if result.constant is None]
        body += [f"  %inputs = alloca ptr, i64 {max(1, len(arguments))}", f"  %outputs = alloca ptr, i64 {max(1, len(results))}"]
        body += ["  %begin = ptrtoint ptr %workspace to i64", f"  %up = add i64 %begin, {_ALIGNMENT - 1}", f"  %even = and i64 %up, -{_ALIGNMENT}"]
        body += ["  %block = inttoptr i64 %even to ptr", f"  %unsolved = getelementptr i8, ptr %block, i64 {room}", "  store i64 0, ptr %unsolved"]
        for k in range(len(arguments)):
            body += [f"  %ia{k} = getelementptr ptr, ptr %inputs, i64 {k}", f"  store ptr %p{k}, ptr %ia{k}"]
        for k, offset in enumerate(offsets):
            body += [f"  %w{k} = getelementptr i8, ptr %block, i64 {offset}"]
            body += [f"  %oa{k} = getelementptr ptr, ptr %outputs, i64 {k}", f"  store ptr %w{k}, ptr %oa{k}"]
        copies, constants = [], []
        for k, result in enumerate(results):
            source = f"%w{k}" if k in computed else f"@constant{k}"
            if k not in computed:
                constants.append(f"@constant{k} = internal constant {_bytes(np.asarray(result.constant, result.char))}, align 8")
            copies.append(f"  call void @llvm.memcpy.p0.p0.i64(ptr %r{k}, ptr {source}, i64 {result.nbytes}, i1 false)")
        checks = []
        for k, pointer in enumerate(pointers):
            checks += [f"  %n{k} = icmp eq ptr {pointer}, null", f"  br i1 %n{k}, label %null, label %given{k}", f"given{k}:"]
        for routine in self.routines:
            if routine != "dgemm":
                checks += [f"  %{routine} = call i64 @tapegrad_{routine}_set()", f"  %no_{routine} = icmp eq i64 %{routine}, 0"]
                checks += [f"  br i1 %no_{routine}, label %unset, label %has_{routine}", f"has_{routine}:"]
        numbers = {status: number for status, (number, _) in STATUSES.items()}
        return _CALL.format(
            name=name, parameters=", ".join(parameters), checksum=_signed(self.checksum), checks="\n".join(checks), size=self.workspace,
            body="\n".join(body), copies="\n".join(copies), constants="\n".join(constants), fine=FINE, not_finite=NOT_FINITE, **numbers,
        )  # fmt: skip


#: What C calls.
_CALL = """
{constants}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define i64 @{name}_workspace() {{
  ret i64 {size}
}}
define i64 @{name}_checksum() {{
  ret i64 {checksum}
}}
define i32 @{name}_call({parameters}) {{
  %same = icmp eq i64 %checksum, {checksum}
  br i1 %same, label %own, label %other
own:
  %right = call i1 @right_processor()
  br i1 %right, label %arguments, label %wrong
arguments:
{checks}
  %large = icmp uge i64 %size, {size}
  br i1 %large, label %run, label %small
run:
{body}
  %status = call i64 @kernel(ptr %inputs, ptr %outputs, ptr %block)
  %done = icmp eq i64 %status, {fine}
  br i1 %done, label %fine, label %failed
fine:
{copies}
  ret i32 {OK}
failed:
  %infinite = icmp eq i64 %status, {not_finite}
  %following = add i64 %status, 1
  %number = trunc i64 %following to i32
  %said = select i1 %infinite, i32 {NOT_FINITE}, i32 %number
  %count = load i64, ptr %unsolved
  %solved = icmp eq i64 %count, 0
  %why = select i1 %solved, i32 %said, i32 {NO_SOLUTION}
  ret i32 %why
other:
  ret i32 {OTHER_HEADER}
wrong:
  ret i32 {OTHER_PROCESSOR}
null:
  ret i32 {NULL_ARGUMENT}
small:
  ret i32 {TOO_SMALL}
unset:
  ret i32 {NOT_SET}
}}
"""

#: The chunks of a loop, one after another (`codegen.threads` has them computed by several threads).
_SPREAD = """
define internal void @tapegrad_spread(ptr %chunk, ptr %inputs, ptr %outputs, ptr %workspace, i64 %count) {
begin:
  br label %each
each:
  %k = phi i64 [ 0, %begin ], [ %next, %each ]
  call void %chunk(ptr %inputs, ptr %outputs, ptr %workspace, i64 %k)
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %each, label %end
end:
  ret void
}
"""


def _calls(kernel):
    """The calls of functions of matrices, by the ids of their words (`matrices.call_of`); what C has not, NumPy's and SciPy's, is refused."""
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


def _words(distance, function, _, words):
    """The words of `matrices.run`."""
    done, *rest = words
    listed = ", ".join(f"i64 {word}" for word in rest)
    kind = f"<{{ i64, i64, ptr, [{len(rest)} x i64] }}>"
    return f"{kind} <{{ i64 {distance}, i64 {done}, ptr @tapegrad_{function}, [{len(rest)} x i64] [{listed}] }}>"


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

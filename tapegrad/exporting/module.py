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

import numpy as np

from ..codegen.library import SPECIAL
from ..common.errors import UnsupportedFunctionError
from ..kernel import ir
from ..kernel.emit import FINE, NOT_FINITE, Emission
from ..rules import lang as L

#: What a call returns besides the number of a guard: name in the header, number, what it says.
STATUSES = {
    "OK": (0, "the results are written"),
    "NULL_ARGUMENT": (-1, "an argument is NULL"),
    "TOO_SMALL": (-2, "the workspace is too small"),
    "OTHER_HEADER": (-3, "the header is not that of this object file"),
    "OTHER_PROCESSOR": (-4, "this processor lacks instructions that the code was made of"),
    "NOT_FINITE": (-5, "a derivative is infinite or not a number"),
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
    product : bool
        Whether there are products of matrices, for which BLAS can be set.
    """

    def __init__(self, name, kernel, arguments, results, guards, target, vector_math):
        _refuse(kernel)
        emission = Emission(kernel.program, kernel.options)
        text = emission.with_vectors(target.vectors() if vector_math else {})
        for table, data in emission.tables.items():
            text = _with_table(text, table, data)
        text = text.replace('define i64 @"kernel"(', 'define internal i64 @"kernel"(', 1)
        self.product = '@"tapegrad_run"' in text
        if self.product:
            text = re.sub(r'declare i64 @"tapegrad_run"\([^)]*\)\n', "", text) + _PRODUCT.replace("NAME", name)
        if '@"tapegrad_spread"' in text:
            text = re.sub(r'declare void @"tapegrad_spread"\([^)]*\)\n', "", text) + _SPREAD
        offsets, at = [], -(-emission.nbytes // _ALIGNMENT) * _ALIGNMENT
        for result in results:
            offsets.append(at)
            at += -(-result.nbytes // _ALIGNMENT) * _ALIGNMENT
        self.workspace = at + _ALIGNMENT
        described = f"{name} {arguments} {results} {guards} {target}"
        self.checksum = zlib.crc32((text + described).encode()) | zlib.adler32(described.encode()) << 32
        self.text = text + target.question() + self._call(name, arguments, results, offsets) + _messages(name, guards)

    def _call(self, name, arguments, results, offsets):
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
        body += ["  %block = inttoptr i64 %even to ptr"]
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
  ret i32 %said
other:
  ret i32 {OTHER_HEADER}
wrong:
  ret i32 {OTHER_PROCESSOR}
null:
  ret i32 {NULL_ARGUMENT}
small:
  ret i32 {TOO_SMALL}
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

#: A product of two matrices of float64, whose extents and strides in bytes are words of the program of one (`arrays_hosts`): by the dgemm
#: of BLAS, as Fortran calls it, if that was set; else by loops.  Fortran's matrices lie by columns, so it computes the transposed result.
_PRODUCT = """
@NAME_blas = internal global ptr null
@no = internal constant [1 x i8] c"N"
@yes = internal constant [1 x i8] c"T"
@one = internal constant double 1.0
@zero = internal constant double 0.0
define void @NAME_set_dgemm(ptr %function) {
  store ptr %function, ptr @NAME_blas
  ret void
}
define internal i64 @word(i64 %table, i64 %k) alwaysinline {
  %p = inttoptr i64 %table to ptr
  %q = getelementptr i64, ptr %p, i64 %k
  %v = load i64, ptr %q
  ret i64 %v
}
define internal double @product_of(i64 %a, i64 %b, i64 %i, i64 %j, i64 %k, i64 %ai, i64 %ap, i64 %bp, i64 %bj) {
begin:
  %arow = mul i64 %i, %ai
  %bcol = mul i64 %j, %bj
  %a0 = add i64 %a, %arow
  %b0 = add i64 %b, %bcol
  br label %each
each:
  %p = phi i64 [ 0, %begin ], [ %next, %each ]
  %total = phi double [ 0.0, %begin ], [ %sum, %each ]
  %ao = mul i64 %p, %ap
  %bo = mul i64 %p, %bp
  %aa = add i64 %a0, %ao
  %ba = add i64 %b0, %bo
  %apt = inttoptr i64 %aa to ptr
  %bpt = inttoptr i64 %ba to ptr
  %av = load double, ptr %apt
  %bv = load double, ptr %bpt
  %one = fmul double %av, %bv
  %sum = fadd double %total, %one
  %next = add i64 %p, 1
  %more = icmp slt i64 %next, %k
  br i1 %more, label %each, label %end
end:
  ret double %sum
}
define internal i64 @tapegrad_run(i64 %program, i64 %registers, i64 %x, i64 %y, i64 %z, i64 %scratch) {
begin:
  %c = call i64 @word(i64 %registers, i64 0)
  %a = call i64 @word(i64 %registers, i64 1)
  %b = call i64 @word(i64 %registers, i64 2)
  %m = call i64 @word(i64 %program, i64 13)
  %k = call i64 @word(i64 %program, i64 14)
  %n = call i64 @word(i64 %program, i64 15)
  %ai = call i64 @word(i64 %program, i64 20)
  %ap = call i64 @word(i64 %program, i64 21)
  %bp = call i64 @word(i64 %program, i64 22)
  %bj = call i64 @word(i64 %program, i64 23)
  %ci = call i64 @word(i64 %program, i64 24)
  %cj = call i64 @word(i64 %program, i64 25)
  %blas = load ptr, ptr @NAME_blas
  %set = icmp ne ptr %blas, null
  %arow = icmp eq i64 %ap, 8
  %brow = icmp eq i64 %bj, 8
  %crow = icmp eq i64 %cj, 8
  %acol = icmp eq i64 %ai, 8
  %bcol = icmp eq i64 %bp, 8
  %alies = or i1 %arow, %acol
  %blies = or i1 %brow, %bcol
  %lie = and i1 %alies, %blies
  %all = and i1 %lie, %crow
  %use = and i1 %set, %all
  br i1 %use, label %called, label %rows
called:
  %mi = trunc i64 %m to i32
  %ki = trunc i64 %k to i32
  %ni = trunc i64 %n to i32
  %astep = select i1 %arow, i64 %ai, i64 %ap
  %bstep = select i1 %brow, i64 %bp, i64 %bj
  %aturned = select i1 %arow, ptr @no, ptr @yes
  %bturned = select i1 %brow, ptr @no, ptr @yes
  %lda8 = sdiv i64 %astep, 8
  %ldb8 = sdiv i64 %bstep, 8
  %ldc8 = sdiv i64 %ci, 8
  %lda = trunc i64 %lda8 to i32
  %ldb = trunc i64 %ldb8 to i32
  %ldc = trunc i64 %ldc8 to i32
  %words = alloca i32, i64 6
  %w1 = getelementptr i32, ptr %words, i64 1
  %w2 = getelementptr i32, ptr %words, i64 2
  %w3 = getelementptr i32, ptr %words, i64 3
  %w4 = getelementptr i32, ptr %words, i64 4
  %w5 = getelementptr i32, ptr %words, i64 5
  store i32 %ni, ptr %words
  store i32 %mi, ptr %w1
  store i32 %ki, ptr %w2
  store i32 %ldb, ptr %w3
  store i32 %lda, ptr %w4
  store i32 %ldc, ptr %w5
  %at = inttoptr i64 %a to ptr
  %bt = inttoptr i64 %b to ptr
  %ct = inttoptr i64 %c to ptr
  call void %blas(ptr %bturned, ptr %aturned, ptr %words, ptr %w1, ptr %w2, ptr @one, ptr %bt, ptr %w3, ptr %at, ptr %w4, ptr @zero, ptr %ct, ptr %w5)
  ret i64 0
rows:
  %i = phi i64 [ 0, %begin ], [ %inext, %rowed ]
  br label %columns
columns:
  %j = phi i64 [ 0, %rows ], [ %jnext, %columns ]
  %v = call double @product_of(i64 %a, i64 %b, i64 %i, i64 %j, i64 %k, i64 %ai, i64 %ap, i64 %bp, i64 %bj)
  %ro = mul i64 %i, %ci
  %co = mul i64 %j, %cj
  %o = add i64 %ro, %co
  %to = add i64 %c, %o
  %tp = inttoptr i64 %to to ptr
  store double %v, ptr %tp
  %jnext = add i64 %j, 1
  %jmore = icmp slt i64 %jnext, %n
  br i1 %jmore, label %columns, label %rowed
rowed:
  %inext = add i64 %i, 1
  %imore = icmp slt i64 %inext, %m
  br i1 %imore, label %rows, label %end
end:
  ret i64 0
}
"""


def _refuse(kernel):
    """Refuse a kernel that calls what C has not: functions of NumPy and SciPy."""
    for statement in ir.walk(kernel.program.body):
        if isinstance(statement, ir.Run):
            if statement.product is None or any(buffer.char != "d" for _, buffer, _ in statement.operands):
                raise UnsupportedFunctionError(f"{statement.name} is computed by NumPy, which a C program has not: it cannot be exported")
        elif isinstance(statement, ir.Let):
            for node in L.nodes(statement.expr):
                if node.op in SPECIAL or node.op in L.COMPILED or node.op == "polygamma":
                    raise UnsupportedFunctionError(f"{node.op} is computed by SciPy, which a C program has not: it cannot be exported")


def _with_table(text, name, data):
    """The text with the definition of a table in the place of its declaration."""
    pattern = re.compile(rf'@"{name}" = external global \[\d+ x i8\]')
    text, count = pattern.subn(lambda _: f'@"{name}" = internal constant {_bytes(data)}, align {_ALIGNMENT}', text)
    if count != 1:
        raise UnsupportedFunctionError(f"{name} is declared {count} times")
    return text


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

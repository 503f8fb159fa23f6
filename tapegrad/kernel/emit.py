"""A loop program as an LLVM module.

``int64 kernel(int64 *inputs, int64 *outputs, int8 *workspace)`` gets the addresses of
the caller's arrays and of a workspace (aligned to 64 bytes) of `cut.BufferPlan.nbytes`.
It returns -1; or the number of a guard that failed, the least one unless an early
guard ended it; or -2 if an output marked `finite` is not.  It calls the pieces one
after another (`kernel.cut`, `kernel.emit_piece`).

Nopython code enters a kernel by a function that is compiled with it: ``entry(handle, x, g, value)`` is what
`program.handle.entry` is, for a kernel with a value and one gradient as outputs; it needs no memory but the stack.  If the
kernel does not go through, the sweep (whose entry the handle knows) answers, or says which guard failed.

A caller's loop waits for this function, so the kernel's code is in it, and nowhere else: it has no
registers to save, and where the sweep has to answer it is jumped to with the arguments as they came.
Calls by the address of ``kernel`` come here too, with a handle that has no sweep (`_by_address`).

`emit_iterations` writes the iterations of a loop on one path; they call the kernel of that path (`program.stretch.iterations` does the same
in a replay).  That kernel is a function of its own: what it is told of memory, that nothing overlaps and inputs do not change,
holds for a call of it alone, for what an iteration writes is what the next one reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from llvmlite import ir

from ..codegen.emit import I8, I32, I64
from ..codegen.host import vectorise_calls
from ..program.handle import H_SWEEP
from ..program.ports import FINE, NOT_FINITE
from ..program.stretch import P_LISTS, T_BASES, T_STATUS, T_STEPS, T_SUMS
from ..rules import lang as L
from ..rules.loops import CAPTURED_BAR, PARTNER, ROW_NUMBER
from . import ir as K
from .cut import buffers, costs, cut, plan
from .emit_piece import NONE, POINTER, Shared, const, loop_names, repeat
from .spreading import spread

#: Bytes of temporaries up to which memory is not used again, so that loops may share a function.
_SMALL = 1 << 16
#: In the place of the number of a guard: an output is not finite.  Greater than any, and less than `NONE`.
LAST = 2**31 - 2


@dataclass(frozen=True)
class IterationLayout:
    """Where a path has its operands.

    Attributes
    ----------
    inputs, outputs : tuple of (int, int, int)
        Base, offset and stride in bytes, of each.
    constants : tuple of (int, int, int, int)
        Base, offset, stride and bytes, of each output that is always the same.
    sums : tuple of (int, int, int)
        Offset, offset of the sum and length, of each output of which the sum over all iterations is wanted.
    """

    inputs: tuple
    outputs: tuple
    constants: tuple
    sums: tuple


@dataclass(frozen=True)
class CompileOptions:
    """How a kernel is compiled.

    Attributes
    ----------
    fastmath : bool
        Allow LLVM to contract ``a * b + c`` into one rounding, and to reassociate sums and products.  Results then differ
        from those of the sweeps by rounding, and by more where a sum cancels; NaN and infinity keep their meaning.
    limit : int
        About how many LLVM instructions of straight-line code a function may have (see `kernel.cut`).
    entry : bool
        Whether an entry from nopython code is compiled too (`emit_entry`).
    symmetric : bool
        Whether the outputs, side by side, are a symmetric matrix: what is above the diagonal may be copied from below it
        (`kernel.passes.halving`).
    iterations : IterationLayout, optional
        Where the path of a loop has its operands: its iterations are compiled too (`emit_iterations`).
    absolute : bool
        Whether zero times what is not finite is zero in derivatives; else they are plain products, which are quicker.
    """

    fastmath: bool = False
    limit: int = 300
    entry: bool = False
    symmetric: bool = False
    iterations: IterationLayout | None = None
    absolute: bool = False


class Emission:
    """The module of `program`.

    Attributes
    ----------
    text : str
        LLVM's, as it is compiled.
    nbytes, scratch : int
        Of the workspace; and where in it the scratch memory of each `ir.Run` is.
    entry : bool
        Whether there is an entry from nopython code.
    tables
        As of `kernel.emit_piece.Shared`.
    size : int
        Cost of all statements, about in instructions.
    """

    def __init__(self, program, options):
        program = replace(program, body=[*program.body, *_finite(program)])
        temporary = sum(b.nbytes for b in buffers(program.body) if b.role == K.TEMPORARY)
        cost = costs(program.body)
        self.size = sum(cost[id(s)] for s in program.body)
        pieces = cut(program.body, cost, options.limit, temporary > _SMALL, spread(program))
        layout = plan(pieces, program)
        module = ir.Module("kernel")
        shared = Shared(module, program, layout, options, self.size)
        entry = self.entry = options.entry and layout.nbytes <= LIMIT
        main = ir.Function(module, ir.FunctionType(I64, [POINTER] * 3), "main" if entry else "kernel")
        main.linkage = "internal" if entry else ""
        _emit_main(main, program, layout, pieces, shared)
        if entry:
            emit_entry(module, main, layout.nbytes, len(program.inputs) > 1)
        if options.iterations:
            emit_iterations(module, main, options.iterations)
        self.module, self.nbytes, self.tables, self.scratch = module, layout.nbytes, shared.tables, layout.scratch
        self._loops = shared.loops
        self.text = self.with_vectors()

    def with_vectors(self, variants=None):
        """The text, with these functions on vectors (`codegen.host.vectorise_calls`)."""
        return loop_names(vectorise_calls(str(self.module), variants), self._loops)


def _emit_main(main, program, layout, pieces, shared):
    """The code of ``kernel``: the pieces, one after another, and what it returns."""
    b, workspace = ir.IRBuilder(main.append_basic_block("entry")), main.args[2]
    b.store(NONE, workspace)
    for key, offset in layout.slots.items():
        if isinstance(key, tuple):
            b.store(const(0), b.gep(workspace, [const(offset)], source_etype=I8))
    finish = main.append_basic_block("finish")
    for piece in pieces:
        # Memory is used again by the next piece: nothing may move from one to the other.
        shared.call(b, piece, finish, len(pieces) > 1)
    b.branch(finish)
    b.position_at_end(finish)
    if any(isinstance(statement, (K.Guard, K.Run)) for statement in K.walk(program.body)):
        failed, fine = main.append_basic_block("failed"), main.append_basic_block("fine")
        number = b.load(workspace, typ=I32)
        b.cbranch(b.icmp_signed("!=", number, NONE), failed, fine)
        b.position_at_end(failed)
        b.ret(b.select(b.icmp_signed("==", number, ir.Constant(I32, LAST)), const(NOT_FINITE), b.sext(number, I64)))
        b.position_at_end(fine)
    b.ret(const(FINE))


def _finite(program):
    """Statements that test the outputs that have to be finite."""
    statements = []
    for buffer in program.outputs:
        if buffer.finite and buffer.size:
            loop = K.Loop(buffer.size)
            element, carry = K.Load(buffer, K.Index(0, ((loop, 1),))), K.Carry(K.constant(1.0, "?"), reorder=True)
            # What is finite, times zero, is zero.
            carry.next = K.Let(L.arg(carry) & L.eq(L.arg(element) * 0.0, 0.0), "?")
            loop.body, loop.carries = [element, carry.next], [carry]
            statements += [carry.init, loop, K.Guard(LAST, carry.next, True)]
    return statements


#: Bytes of a workspace that may be on the stack.
LIMIT = 1 << 15

_ENTRY = ir.FunctionType(I64, [I64] * 4)
_KERNEL = ir.FunctionType(I64, [POINTER] * 3)


def emit_entry(module, main, nbytes, several):
    """Add ``entry``, and ``kernel`` that calls it, to the module of a kernel.

    Parameters
    ----------
    module : llvmlite.ir.Module
    main : llvmlite.ir.Function
        What ``kernel`` would be without an entry, but called from here only.
    nbytes : int
        Of its workspace, at most `LIMIT`.
    several : bool
        Whether `x` is the address of the addresses of several inputs, not of one.
    """
    function = ir.Function(module, _ENTRY, "entry")
    function.attributes.add("noinline")
    handle, x, g, value = function.args
    b = ir.IRBuilder(function.append_basic_block("begin"))
    inputs, outputs = b.inttoptr(x, POINTER) if several else on_stack(b, I64, 1), on_stack(b, I64, 2)
    workspace = on_stack(b, I8, max(64, nbytes))
    workspace.align = 64
    if not several:
        b.store(b.inttoptr(x, POINTER), inputs)
    for k, address in enumerate((value, g)):
        b.store(b.inttoptr(address, POINTER), b.gep(outputs, [const(k)], source_etype=POINTER))
    status = b.not_(b.call(main, [inputs, outputs, workspace]))
    fine, failed, swept = (function.append_basic_block(name) for name in ("fine", "failed", "swept"))
    b.cbranch(b.icmp_signed("==", status, const(0)), fine, failed)
    b.position_at_end(fine)
    b.ret(status)
    b.position_at_end(failed)
    address = _word(b, b.inttoptr(handle, POINTER), H_SWEEP)
    b.cbranch(b.icmp_signed("==", address, const(0)), fine, swept)
    b.position_at_end(swept)
    b.ret(b.call(b.inttoptr(address, _ENTRY.as_pointer()), list(function.args), tail="tail"))
    _by_address(module, function, several)


def on_stack(b, element, count):
    """Room on the stack."""
    address = b.alloca(element, count)
    # llvmlite gives it the type of a pointer to the element, which a call does not take for an opaque one.
    address.type = POINTER
    return address


def _by_address(module, entry, several):
    """``kernel(inputs, outputs, workspace)`` by the entry: what that returns is the kernel's status, with all bits inverted."""
    function = ir.Function(module, _KERNEL, "kernel")
    b = ir.IRBuilder(function.append_basic_block("begin"))
    inputs, outputs, _ = function.args
    handle = on_stack(b, I64, H_SWEEP + 1)
    b.store(const(0), b.gep(handle, [const(H_SWEEP)], source_etype=I64))
    x = b.ptrtoint(inputs, I64) if several else b.load(inputs, typ=I64)
    value, g = (_word(b, outputs, k) for k in range(2))
    b.ret(b.not_(b.call(entry, [b.ptrtoint(handle, I64), x, g, value])))


_F64 = ir.DoubleType()


def emit_iterations(module, kernel, path):
    """Add ``int64 iterations(int8 *run, int8 *path, int8 *workspace, int64 count)`` to the module of a kernel.

    Parameters
    ----------
    module : llvmlite.ir.Module
    kernel : llvmlite.ir.Function
    path : IterationLayout
    """
    kernel.attributes.add("noinline")
    function = ir.Function(module, ir.FunctionType(I64, [POINTER, POINTER, POINTER, I64]), "iterations")
    run, words, workspace, count = function.args
    first, head, fine, end = (function.append_basic_block(name) for name in ("first", "head", "fine", "end"))
    b = ir.IRBuilder(first)
    tables = [on_stack(b, I64, max(1, len(places))) for places in (path.inputs, path.outputs)]
    used = {base for base, *_ in (*path.inputs, *path.outputs, *path.constants)}
    used = sorted(used | {PARTNER[base] for base in used if base in PARTNER} | {ROW_NUMBER})
    begins, steps = ([_word(b, run, at + base) for base in used] for at in (T_BASES, T_STEPS))
    before = P_LISTS + 3 + 3 * (len(path.inputs) + len(path.outputs))
    sources = [b.inttoptr(_word(b, words, before + 5 * k + 4), POINTER) for k in range(len(path.constants))]
    totals, part = (b.inttoptr(_word(b, run, at), POINTER) for at in (T_SUMS, T_BASES + CAPTURED_BAR))
    b.branch(head)

    b.position_at_end(head)
    done, *places = (b.phi(I64) for _ in (None, *used))
    bases = dict(zip(used, places))
    for table, operands in zip(tables, (path.inputs, path.outputs)):
        for k, place in enumerate(operands):
            b.store(_address(b, bases, *place), b.gep(table, [const(k)], source_etype=I64))
    for (*place, nbytes), source in zip(path.constants, sources):
        target = b.inttoptr(_address(b, bases, *place), POINTER)
        _each(b, nbytes // 8, lambda k, target=target, source=source: [b.store(_number(b, source, k)[1], _number(b, target, k)[0])])
    status = b.call(kernel, [*tables, workspace])
    b.cbranch(b.icmp_signed("==", status, const(FINE)), fine, end)
    begin, ended = first, b.block

    b.position_at_end(fine)
    for offset, of_sum, length in path.sums:
        ends = (b.gep(place, [const(at)], source_etype=I8) for place, at in ((totals, of_sum), (part, offset)))
        _each(b, length, lambda k, ends=tuple(ends): _sum(b, *ends, k))
    following = b.add(done, const(1))
    afterwards = [b.add(bases[PARTNER.get(base, base)], step) for base, step in zip(used, steps)]
    for phi, start, after in zip((done, *places), (const(0), *begins), (following, *afterwards)):
        phi.add_incoming(start, begin)
        phi.add_incoming(after, b.block)
    again = b.block
    b.cbranch(b.icmp_signed("<", following, count), head, end)

    b.position_at_end(end)
    iterations = b.phi(I64)
    iterations.add_incoming(done, ended)
    iterations.add_incoming(following, again)
    b.store(status, b.gep(run, [const(T_STATUS)], source_etype=I64))
    b.ret(iterations)


def _address(b, bases, base, offset, stride):
    """The address of a place in this iteration."""
    address = b.add(bases[base], const(offset))
    return b.add(address, b.mul(bases[ROW_NUMBER], const(stride))) if stride else address


def _word(b, words, k):
    return b.load(b.gep(words, [const(k)], source_etype=I64), typ=I64)


def _number(b, numbers, k):
    """Place and value of a number."""
    place = b.gep(numbers, [k], source_etype=_F64)
    return place, b.load(place, typ=_F64)


def _sum(b, totals, part, k):
    place, total = _number(b, totals, k)
    return [b.store(b.fadd(total, _number(b, part, k)[1]), place)]


def _each(b, length, body):
    """What ``body(k)`` emits, for each `k` below a length."""
    if length:
        repeat(b, const(0), const(length), (), body)

"""A loop program as an LLVM module.

``int64 kernel(int64 *inputs, int64 *outputs, int8 *workspace)`` gets the addresses of
the caller's arrays and of a workspace (aligned to 64 bytes) of `plan.BufferPlan.nbytes`.
It returns -1; or the number of a guard that failed, the least one unless an early
guard ended it; or -2 if an output marked `finite` is not.  It calls the pieces one
after another (`kernel.cut`, `kernel.emit_piece`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from llvmlite import ir

from ..codegen.emit import I8, I32, I64
from ..codegen.vector_math import vectorise_calls
from ..program.handle import H_SWEEP
from ..program.status import FINE, NOT_FINITE
from ..rules import lang as L
from . import ir as K
from .cut import buffers, costs, cut
from .emit_piece import NONE, Shared, const, loop_names
from .emit_values import POINTER
from .plan import plan
from .spreading import spread
from .trampoline import LIMIT, emit_entry
from .turning import emit_turns

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
        Offset, offset of the sum and length, of each output of which the sum over all turns is wanted.
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
        Whether an entry from nopython code is compiled too (`kernel.trampoline`).
    symmetric : bool
        Whether the outputs, side by side, are a symmetric matrix: what is above the diagonal may be copied from below it
        (`kernel.passes.halving`).
    turns : IterationLayout, optional
        Where the path of a loop has its operands: its turns are compiled too (`kernel.turning`).
    """

    fastmath: bool = False
    limit: int = 300
    entry: bool = False
    symmetric: bool = False
    turns: IterationLayout | None = None


class Emission:
    """The module of `program`.

    Attributes
    ----------
    text : str
        LLVM's, as it is compiled.
    nbytes : int
        Of the workspace.
    entry : bool
        Whether there is an entry from nopython code.
    keeps, tables
        As of `kernel.emit_piece.Shared`.
    size : int
        Cost of all statements, about in instructions.
    """

    def __init__(self, program, options):
        program = replace(program, body=[*program.body, *_finite(program)])
        temporary = sum(b.nbytes for b in buffers(program.body) if b.role == K.TEMPORARY)
        cost = costs(program.body)
        self.size = sum(cost[id(s)] for s in program.body)
        pieces = cut(program, options.limit, temporary > _SMALL, cost, spread(program))
        layout = plan(pieces, program)
        module = ir.Module("kernel")
        shared = Shared(module, program, layout, options, self.size)
        entry = self.entry = options.entry and layout.nbytes <= LIMIT
        main = ir.Function(module, ir.FunctionType(I64, [POINTER] * 3), "main" if entry else "kernel")
        main.linkage = "internal" if entry else ""
        self.program, self.b = program, ir.IRBuilder(main.append_basic_block("entry"))
        self.main = main
        self._begin(layout)
        self._pieces(pieces, shared)
        self._end()
        if entry:
            emit_entry(module, main, layout.nbytes, H_SWEEP, len(program.inputs) > 1)
        if options.turns:
            emit_turns(module, main, options.turns)
        self.module, self.nbytes, self.keeps, self.tables = module, layout.nbytes, shared.keeps, shared.tables
        self.text = loop_names(vectorise_calls(str(module)), shared.loops)
        self.lets = [s for s in K.walk(program.body) if isinstance(s, K.Let)]

    def _begin(self, layout):
        b, workspace = self.b, self.main.args[2]
        b.store(NONE, workspace)
        for key, offset in layout.slots.items():
            if isinstance(key, tuple):
                b.store(const(0), b.gep(workspace, [const(offset)], source_etype=I8))

    def _pieces(self, pieces, shared):
        b = self.b
        finish = self.main.append_basic_block("finish")
        for piece in pieces:
            # Memory is used again by the next piece: nothing may move from one to the other.
            shared.call(b, piece, finish, len(pieces) > 1)
        b.branch(finish)
        b.position_at_end(finish)

    def _end(self):
        b = self.b
        if any(isinstance(statement, K.Guard) for statement in K.walk(self.program.body)):
            failed, fine = self.main.append_basic_block("failed"), self.main.append_basic_block("fine")
            number = b.load(self.main.args[2], typ=I32)
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

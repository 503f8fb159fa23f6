"""The turns of a loop on one path, beside the kernel of that path, which they call (`program.stretch.turns` is the same for a replay).

The kernel is a function of its own: what it is told of memory, that nothing overlaps and inputs do not change, holds for a call of it
alone, for what a turn writes is what the next one reads.
"""

from __future__ import annotations

from llvmlite import ir

from ..codegen.emit import I8, I64
from ..program.status import FINE
from ..program.stretch import P_LISTS, T_BASES, T_STATUS, T_STEPS, T_SUMS
from ..rules.loops import CAPTURED_BAR, PARTNER, ROW_NUMBER
from .emit_piece import const
from .emit_values import POINTER
from .trampoline import on_stack

_F64 = ir.DoubleType()


def emit_turns(module, kernel, path):
    """Add ``int64 turns(int8 *run, int8 *path, int8 *workspace, int64 count)`` to the module of a kernel.

    Parameters
    ----------
    module : llvmlite.ir.Module
    kernel : llvmlite.ir.Function
    path : IterationLayout
    """
    kernel.attributes.add("noinline")
    function = ir.Function(module, ir.FunctionType(I64, [POINTER, POINTER, POINTER, I64]), "turns")
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
        _each(b, nbytes // 8, lambda b, k, target=target, source=source: b.store(_number(b, source, k)[1], _number(b, target, k)[0]))
    status = b.call(kernel, [*tables, workspace])
    b.cbranch(b.icmp_signed("==", status, const(FINE)), fine, end)
    begin, ended = first, b.block

    b.position_at_end(fine)
    for offset, of_sum, length in path.sums:
        ends = (b.gep(place, [const(at)], source_etype=I8) for place, at in ((totals, of_sum), (part, offset)))
        _each(b, length, lambda b, k, ends=tuple(ends): _sum(b, *ends, k))
    following = b.add(done, const(1))
    afterwards = [b.add(bases[PARTNER.get(base, base)], step) for base, step in zip(used, steps)]
    for phi, start, after in zip((done, *places), (const(0), *begins), (following, *afterwards)):
        phi.add_incoming(start, begin)
        phi.add_incoming(after, b.block)
    again = b.block
    b.cbranch(b.icmp_signed("<", following, count), head, end)

    b.position_at_end(end)
    turns = b.phi(I64)
    turns.add_incoming(done, ended)
    turns.add_incoming(following, again)
    b.store(status, b.gep(run, [const(T_STATUS)], source_etype=I64))
    b.ret(turns)


def _address(b, bases, base, offset, stride):
    """Of a place in this turn."""
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
    b.store(b.fadd(total, _number(b, part, k)[1]), place)


def _each(b, length, body):
    """``body(b, k)`` for each `k` below a length, as a loop."""
    if not length:
        return
    before, head, after = b.block, b.function.append_basic_block("each"), b.function.append_basic_block("after")
    b.branch(head)
    b.position_at_end(head)
    k = b.phi(I64)
    body(b, k)
    following = b.add(k, const(1))
    k.add_incoming(const(0), before)
    k.add_incoming(following, head)
    b.cbranch(b.icmp_signed("<", following, const(length)), head, after)
    b.position_at_end(after)

"""The scalar value switch: the values of scalar instructions, computed again at a new point.

The counterpart of `native.scalars`, generated from the same rows::

    void values(char *records, int64 low, int64 high)

computes the value of every record from `low` to `high`, all of them scalar
instructions, from the values of its operands.  The arithmetic is that of the
eager operations (IEEE, and the same libm), so a replay at the recorded point
gives the same bits.
"""

from __future__ import annotations

from functools import lru_cache

from llvmlite import ir

from ..rules import lang as L
from ..tape.layout import CONSTANT, OPERANDS, RECORD, VALUE
from .emit import F64, I32, I64, PTR, Emitter, needs_symbols
from .llvm import machine_code
from .scalars import scalar_rows


def _value(row):
    """The value of a scalar row over operands 'x', 'y' and constant 'c'."""
    x, y, c = (L.arg(name) for name in "xyc")
    if row.name == "where":
        return L.Expr.lift(row.expr(c, x, y))
    return L.Expr.lift(row.expr(*(x, y)[: row.arity]))


def _module(special):
    module = ir.Module("scalar_values")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR, I64, I64]), "values")
    records, low, high = function.args
    entry, loop, look, follow, out = (function.append_basic_block(name) for name in "entry loop look follow out".split())
    b = ir.IRBuilder(entry)
    b.branch(loop)

    b.position_at_end(loop)
    i = b.phi(I64, "i")
    i.add_incoming(low, entry)
    b.cbranch(b.icmp_signed(">", i, high), out, look)

    def field(base, offset, type_):
        return b.bitcast(b.gep(base, [ir.Constant(I64, offset)]), type_.as_pointer())

    b.position_at_end(look)
    record = b.gep(records, [b.mul(i, ir.Constant(I64, RECORD.size))])
    op = b.load(field(record, 0, I32))
    slots = [b.zext(b.load(field(record, offset, I32)), I64) for offset in OPERANDS]
    switch = b.switch(op, out)

    for row in scalar_rows(special):
        block = function.append_basic_block(row.name)
        switch.add_case(ir.Constant(I32, row.opcode), block)
        b.position_at_end(block)
        loaded = {}

        def operand(name, loaded=loaded, row=row):
            if name not in loaded:
                if name == "c":
                    place = field(record, CONSTANT, F64)
                else:
                    slot = slots["xy".index(name)]
                    source = b.gep(records, [b.mul(slot, ir.Constant(I64, RECORD.size))])
                    place = field(source, VALUE, F64)
                    if row.arity == 2:
                        inline = field(record, CONSTANT, F64)
                        place = b.select(b.icmp_unsigned("==", slot, ir.Constant(I64, 0)), inline, place)
                loaded[name] = b.load(place)
            return loaded[name]

        b.store(Emitter(b, operand).number(_value(row)), field(record, VALUE, F64))
        b.branch(follow)

    b.position_at_end(follow)
    i.add_incoming(b.add(i, ir.Constant(I64, 1)), follow)
    b.branch(loop)

    b.position_at_end(out)
    b.ret_void()
    return module


@lru_cache(maxsize=None)
def value_switch(special):
    """Address of the compiled switch.

    Parameters
    ----------
    special : bool
        Whether the tape has instructions of rows that call SciPy.
    """
    for row in scalar_rows(special):
        needs_symbols(_value(row))
    return machine_code(f"value switch, special={special}", lambda: str(_module(special)), ["values"])[0]

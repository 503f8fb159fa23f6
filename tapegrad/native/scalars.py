"""The scalar switch: every element-wise row on float64 scalars, in one function.

Generated from the rules table as LLVM IR, compiled once, kept on disk::

    int64 reverse(char *records, double *adjoint, int64 high, int64 low)

walks the records downwards from `high` while they are scalar instructions and
adds each one's contributions to the adjoints of its operands.  It returns the
first index it could not handle, or ``low - 1``.  An instruction whose adjoint
is zero is skipped, which also makes its zero absolute.  Slot 0 stands for "no
operand": its value is the record's inline constant, its adjoint a waste bin.
"""

from __future__ import annotations

from functools import lru_cache

from llvmlite import ir

from ..rules import lang as L
from ..rules.table import ROWS
from ..tape.layout import CONSTANT, FIRST_ARRAY, OPERANDS, RECORD, SCALAR_LEAF, VALUE
from .emit import F64, I32, I64, PTR, Emitter, needs_symbols
from .llvm import machine_code


def scalar_rows(special):
    """The rows that have a scalar instruction: element-wise ones of one or two operands,
    and `where`, whose condition is the inline constant; with or without those of SciPy."""
    rows = [row for row in ROWS if row.elementwise and (row.arity <= 2 or row.name == "where")]
    return [row for row in rows if special or not row.calls_scipy]


def _contribution(emitter, w, partial, b):
    """``w * partial`` with an absolute zero; `w` is known not to be zero."""
    partial = L.Expr.lift(partial)
    if partial.is_const:
        value = partial.args[0]
        if value == 0.0:
            return None
        return w if value == 1.0 else b.fneg(w) if value == -1.0 else b.fmul(w, ir.Constant(F64, value))
    p = emitter.number(partial)
    zero = ir.Constant(F64, 0.0)
    return b.select(b.fcmp_ordered("==", p, zero), zero, b.fmul(w, p))


def _partials(row):
    """Partials of a scalar row over operands 'x', 'y', 'z' and constant 'c'."""
    x, y, z, c = (L.arg(name) for name in "xyzc")
    if row.name == "where":
        return [("x", row.partials[1](c, x, y, z)), ("y", row.partials[2](c, x, y, z))]
    operands = (x, y)[: row.arity]
    return [(name, partial(*operands, z)) for name, partial in zip("xy", row.partials) if partial is not None]


def _module(special):
    module = ir.Module("scalars")
    function = ir.Function(module, ir.FunctionType(I64, [PTR, PTR, I64, I64]), "reverse")
    records, adjoint, high, low = function.args
    for argument in (records, adjoint):
        argument.add_attribute("noalias")
    entry, loop, look, live, follow, out = (
        function.append_basic_block(name) for name in "entry loop look live follow out".split()
    )
    b = ir.IRBuilder(entry)
    b.branch(loop)

    b.position_at_end(loop)
    i = b.phi(I64, "i")
    i.add_incoming(high, entry)
    b.cbranch(b.icmp_signed("<", i, low), out, look)

    def word(index):
        return b.bitcast(b.gep(adjoint, [b.mul(index, ir.Constant(I64, 8))]), F64.as_pointer())

    def field(base, offset, type_):
        return b.bitcast(b.gep(base, [ir.Constant(I64, offset)]), type_.as_pointer())

    b.position_at_end(look)
    record = b.gep(records, [b.mul(i, ir.Constant(I64, RECORD.size))])
    op = b.load(field(record, 0, I32))
    w = b.load(word(i))
    b.cbranch(b.icmp_unsigned(">=", op, ir.Constant(I32, FIRST_ARRAY)), out, live)

    b.position_at_end(live)
    nonzero = b.fcmp_unordered("!=", w, ir.Constant(F64, 0.0))
    dispatch = function.append_basic_block("dispatch")
    b.cbranch(nonzero, dispatch, follow)

    b.position_at_end(dispatch)
    a_slot = b.zext(b.load(field(record, OPERANDS[0], I32)), I64)
    b_slot = b.zext(b.load(field(record, OPERANDS[1], I32)), I64)
    switch = b.switch(op, out)
    switch.add_case(ir.Constant(I32, SCALAR_LEAF), follow)

    for row in scalar_rows(special):
        block = function.append_basic_block(row.name)
        switch.add_case(ir.Constant(I32, row.opcode), block)
        b.position_at_end(block)
        loaded = {}

        def operand(name, loaded=loaded, both=row.arity >= 2):
            if name not in loaded:
                if name == "z":
                    place = field(record, VALUE, F64)
                elif name == "c":
                    place = field(record, CONSTANT, F64)
                else:
                    slot = a_slot if name == "x" else b_slot
                    source = b.gep(records, [b.mul(slot, ir.Constant(I64, RECORD.size))])
                    place = field(source, VALUE, F64)
                    if both and row.name != "where":
                        inline = field(record, CONSTANT, F64)
                        place = b.select(b.icmp_unsigned("==", slot, ir.Constant(I64, 0)), inline, place)
                loaded[name] = b.load(place)
            return loaded[name]

        emitter = Emitter(b, operand)
        contributions = []
        for name, partial in _partials(row):
            value = _contribution(emitter, w, partial, b)
            if value is not None:
                contributions.append((a_slot if name == "x" else b_slot, value))
        for slot, value in contributions:
            where = word(slot)
            b.store(b.fadd(b.load(where), value), where)
        b.branch(follow)

    b.position_at_end(follow)
    i.add_incoming(b.sub(i, ir.Constant(I64, 1)), follow)
    b.branch(loop)

    b.position_at_end(out)
    b.ret(i)
    return module


@lru_cache(maxsize=None)
def reverse_switch(special):
    """Address of the compiled switch.

    Parameters
    ----------
    special : bool
        Whether the tape has instructions of rows that call SciPy.
    """
    if special:
        for row in scalar_rows(special):
            for _, partial in _partials(row):
                needs_symbols(L.Expr.lift(partial))
    return machine_code(f"reverse switch, special={special}", lambda: str(_module(special)), ["reverse"])[0]

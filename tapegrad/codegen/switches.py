"""LLVM IR of the scalar switches (`codegen.of_rows` says what they are).

`Switch` is the frame: the walk over the records, and how an instruction finds its
operands.  A subclass says in which direction it goes, and what a row does.
"""

from __future__ import annotations

from llvmlite import ir

from ..rules import lang as L
from ..rules.table import partials, scalar_rows, value
from ..tape.layout import CONSTANT, FIRST_ARRAY, OPERANDS, RECORD, SCALAR_LEAF, VALUE
from .emit import F64, I32, I64, PTR, Emitter

ZERO = ir.Constant(F64, 0.0)


def _const(value, type_=I64):
    return ir.Constant(type_, value)


class Switch:
    """Builds one switch; the subclasses say in which direction, and what a row does.

    Parameters
    ----------
    special : bool
        With the rows that call SciPy.
    """

    name: str
    down: bool

    def __init__(self, special):
        self.special = special

    # -- places -----------------------------------------------------------------
    def field(self, base, offset, type_):
        return self.b.bitcast(self.b.gep(base, [_const(offset)]), type_.as_pointer())

    def record(self, index):
        return self.b.gep(self.records, [self.b.mul(index, _const(RECORD.size))])

    def _word(self, index):
        return self.b.bitcast(self.b.gep(self.words, [self.b.mul(index, _const(8))]), F64.as_pointer())

    def load(self, index):
        return self.b.load(self._word(index), align=8)

    def store(self, value, index):
        self.b.store(value, self._word(index), align=8)

    # -- arithmetic ---------------------------------------------------------------
    def product(self, emitter, w, partial):
        """``w * partial`` for a `w` that is not zero, with an absolute zero (None: always zero)."""
        b, partial = self.b, L.Expr.lift(partial)
        if partial.is_const:
            value = partial.args[0]
            if value == 0.0:
                return None
            return w if value == 1.0 else b.fneg(w) if value == -1.0 else b.fmul(w, _const(value, F64))
        p = emitter.number(partial)
        return b.select(b.fcmp_ordered("==", p, ZERO), ZERO, b.fmul(w, p))

    # -- the frame ------------------------------------------------------------------
    def block(self, name):
        return self.function.append_basic_block(name)

    def module(self):
        module = ir.Module("scalars")
        self.function = ir.Function(module, ir.FunctionType(I64, [PTR, PTR, I64, I64]), self.name)
        self.records, self.words, first, last = self.function.args
        for argument in (self.records, self.words):
            argument.add_attribute("noalias")
        entry, loop, look, self.follow, self.out = (self.block(n) for n in "entry loop look follow out".split())
        self.b = b = ir.IRBuilder(entry)
        b.branch(loop)

        b.position_at_end(loop)
        self.i = b.phi(I64, "i")
        self.i.add_incoming(first, entry)
        b.cbranch(b.icmp_signed("<" if self.down else ">", self.i, last), self.out, look)
        b.position_at_end(look)
        op = b.load(self.field(self.record(self.i), 0, I32))
        live = self.block("live")
        b.cbranch(b.icmp_unsigned(">=", op, _const(FIRST_ARRAY, I32)), self.out, live)
        b.position_at_end(live)
        self.leaf(op)

        record = self.record(self.i)
        self.slots = {name: b.zext(b.load(self.field(record, offset, I32)), I64) for name, offset in zip("xy", OPERANDS)}
        self.enter()
        switch = b.switch(op, self.out)
        for row in scalar_rows(self.special):
            block = self.block(row.name)
            switch.add_case(_const(row.opcode, I32), block)
            b.position_at_end(block)
            self.row(row, Emitter(b, self._operands(row, record)))

        b.position_at_end(self.follow)
        self.i.add_incoming(b.add(self.i, _const(-1 if self.down else 1)), self.follow)
        b.branch(loop)
        b.position_at_end(self.out)
        b.ret(self.i)
        return module

    def leaf(self, op):
        """Pass leaves by."""
        body = self.block("body")
        self.b.cbranch(self.b.icmp_unsigned("==", op, _const(SCALAR_LEAF, I32)), self.follow, body)
        self.b.position_at_end(body)

    def _operands(self, row, record):
        """Loader of what partials read: operands x and y, result z, inline constant c."""
        b, loaded = self.b, {}

        def operand(name):
            if name not in loaded:
                if name in "zc":
                    pointer = self.field(record, VALUE if name == "z" else CONSTANT, F64)
                else:
                    slot = self.slots[name]
                    pointer = self.field(self.record(slot), VALUE, F64)
                    if row.arity >= 2 and row.name != "where":
                        inline = self.field(record, CONSTANT, F64)
                        pointer = b.select(b.icmp_unsigned("==", slot, _const(0)), inline, pointer)
                loaded[name] = b.load(pointer)
            return loaded[name]

        return operand


class ReverseSwitch(Switch):
    """One adjoint a slot, for ``backward()``."""

    name, down = "reverse", True

    def enter(self):
        b, dispatch = self.b, self.block("dispatch")
        self.w = self.load(self.i)
        b.cbranch(b.fcmp_unordered("!=", self.w, ZERO), dispatch, self.follow)
        b.position_at_end(dispatch)

    def row(self, row, emitter):
        products = [(self.slots[name], self.product(emitter, self.w, p)) for name, p in partials(row)]
        for slot, added in products:
            if added is not None:
                self.store(self.b.fadd(self.load(slot), added), slot)
        self.b.branch(self.follow)


class ValueSwitch(Switch):
    """No word a slot: values are read from records and written there."""

    name, down = "values", False

    def leaf(self, op):
        """There are none."""

    def enter(self):
        """Every instruction is visited."""

    def row(self, row, emitter):
        self.b.store(emitter.number(value(row)), self.field(self.record(self.i), VALUE, F64))
        self.b.branch(self.follow)


KINDS = {kind.name: kind for kind in (ValueSwitch, ReverseSwitch)}

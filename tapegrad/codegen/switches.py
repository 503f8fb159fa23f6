"""LLVM IR of the scalar switches (`codegen.scalars` says what they are).

`Switch` is the frame: the walk over the records, and how an instruction finds its
operands.  A subclass says in which direction it goes, and what a row does.
"""

from __future__ import annotations

from llvmlite import ir

from ..rules import lang as L
from ..rules.scalars import partials, scalar_rows, value
from ..tape.layout import CONSTANT, FIRST_ARRAY, OPERANDS, RECORD, SCALAR_LEAF, VALUE
from .emit import F64, I8, I32, I64, PTR, Emitter


def _const(value, type_=I64):
    return ir.Constant(type_, value)


class Switch:
    """Builds one switch; the subclasses say in which direction, and what a row does.

    Parameters
    ----------
    special : bool
        With the rows that call SciPy.
    lanes : int
        Doubles a slot.
    """

    name: str
    extra: tuple = ()  # arguments after records, words, first, last
    down: bool

    def __init__(self, special, lanes):
        self.lanes = lanes
        self.special = special
        self.vector = F64 if lanes == 1 else ir.VectorType(F64, lanes)
        self.zero = ir.Constant(self.vector, 0.0 if lanes == 1 else None)

    # -- places -----------------------------------------------------------------
    def field(self, base, offset, type_):
        return self.b.bitcast(self.b.gep(base, [_const(offset)]), type_.as_pointer())

    def record(self, index):
        return self.b.gep(self.records, [self.b.mul(index, _const(RECORD.size))])

    def _word(self, index):
        pointer = self.b.gep(self.words, [self.b.mul(index, _const(8 * self.lanes))])
        return self.b.bitcast(pointer, self.vector.as_pointer())

    def load(self, index):
        return self.b.load(self._word(index), align=8)

    def store(self, value, index):
        self.b.store(value, self._word(index), align=8)

    def byte(self, base, index):
        return self.b.gep(base, [index])

    # -- arithmetic ---------------------------------------------------------------
    def splat(self, value):
        if self.lanes == 1:
            return value
        one = self.b.insert_element(ir.Constant(self.vector, ir.Undefined), value, _const(0, I32))
        index = ir.Constant(ir.VectorType(I32, self.lanes), None)
        return self.b.shuffle_vector(one, ir.Constant(self.vector, ir.Undefined), index)

    def product(self, emitter, w, partial, may_be_zero):
        """``w * partial`` with an absolute zero (None: always zero)."""
        b, partial = self.b, L.Expr.lift(partial)
        if partial.is_const:
            value = partial.args[0]
            if value == 0.0:
                return None
            return w if value == 1.0 else b.fneg(w) if value == -1.0 else b.fmul(w, self.splat(_const(value, F64)))
        p = self.splat(emitter.number(partial))
        nothing = b.fcmp_ordered("==", p, self.zero)
        if may_be_zero:
            nothing = b.or_(nothing, b.fcmp_ordered("==", w, self.zero))
        return b.select(nothing, self.zero, b.fmul(w, p))

    # -- the frame ------------------------------------------------------------------
    def block(self, name):
        return self.function.append_basic_block(name)

    def module(self):
        module = ir.Module("scalars")
        types = [PTR, PTR, I64, I64, *([PTR] * len(self.extra))]
        self.function = ir.Function(module, ir.FunctionType(I64, types), self.name)
        self.records, self.words, first, last, *extra = self.function.args
        for argument in (self.records, self.words, *extra):
            argument.add_attribute("noalias")
        for name, argument in zip(self.extra, extra):
            setattr(self, name, argument)
        entry, loop, look, self.follow, self.out = (self.block(n) for n in "entry loop look follow out".split())
        self.b = b = ir.IRBuilder(entry)
        b.branch(loop)

        b.position_at_end(loop)
        self.i = b.phi(I64, "i")
        self.i.add_incoming(first, entry)
        b.cbranch(b.icmp_signed("<" if self.down else ">", self.i, last), self.out, look)
        b.position_at_end(look)
        self.loop = loop
        self.look()
        op = b.load(self.field(self.record(self.i), 0, I32))
        live = self.block("live")
        b.cbranch(b.icmp_unsigned(">=", op, _const(FIRST_ARRAY, I32)), self.out, live)
        b.position_at_end(live)
        self.leaf(op)

        record = self.record(self.i)
        self.slots = {
            name: b.zext(b.load(self.field(record, offset, I32)), I64) for name, offset in zip("xy", OPERANDS)
        }
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

    def skip_cold(self, base, wanted):
        """Go on to the next index unless the byte of this one is `wanted`; past eight zero bytes at once."""
        b, live, cold = self.b, self.block("warm"), self.block("cold")
        b.cbranch(b.icmp_unsigned("==", b.load(self.byte(base, self.i)), _const(wanted, I8)), live, cold)
        b.position_at_end(cold)
        low = b.and_(self.i, _const(-8))
        eight = b.load(b.bitcast(self.byte(base, low), I64.as_pointer()), align=1)
        whole = b.icmp_unsigned("==", eight, _const(0))
        whole = b.and_(whole, b.icmp_unsigned("==", b.and_(self.i, _const(7)), _const(7 if self.down else 0)))
        step = b.select(whole, _const(-8 if self.down else 8), _const(-1 if self.down else 1))
        self.i.add_incoming(b.add(self.i, step), cold)
        b.branch(self.loop)
        b.position_at_end(live)

    def leaf(self, op):
        """Pass leaves by."""
        body = self.block("body")
        self.b.cbranch(self.b.icmp_unsigned("==", op, _const(SCALAR_LEAF, I32)), self.follow, body)
        self.b.position_at_end(body)

    def look(self):
        """Whether to look at the instruction."""

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


class Reverse(Switch):
    """One adjoint a slot, for ``backward()``."""

    name, down = "reverse", True
    may_be_zero = False

    def enter(self):
        b, dispatch = self.b, self.block("dispatch")
        self.w = self.load(self.i)
        b.cbranch(b.fcmp_unordered("!=", self.w, self.zero), dispatch, self.follow)
        b.position_at_end(dispatch)

    def row(self, row, emitter):
        products = [(name, self.product(emitter, self.w, p, self.may_be_zero)) for name, p in partials(row)]
        for name, added in products:
            if added is not None:
                self.contribute(self.slots[name], added)
        self.b.branch(self.follow)

    def contribute(self, slot, value):
        self.store(self.b.fadd(self.load(slot), value), slot)


class Adjoints(Reverse):
    """Several adjoints a slot."""

    name, extra = "adjoints", ("hot",)
    may_be_zero = True

    def look(self):
        self.skip_cold(self.hot, 1)

    def enter(self):
        self.w = self.load(self.i)
        self.store(self.zero, self.i)
        self.b.store(_const(0, I8), self.byte(self.hot, self.i))

    def contribute(self, slot, value):
        super().contribute(slot, value)
        self.b.store(_const(1, I8), self.byte(self.hot, slot))


class Tangents(Switch):
    """Several tangents a slot."""

    name, extra, down = "tangents", ("hot", "marks"), False

    def look(self):
        self.skip_cold(self.marks, 1)

    def enter(self):
        b, dispatch, cold, self.idle = self.b, self.block("dispatch"), self.block("clear"), self.block("idle")
        any_hot = b.or_(*(b.load(self.byte(self.hot, slot)) for slot in self.slots.values()))
        b.cbranch(b.icmp_unsigned("!=", any_hot, _const(0, I8)), dispatch, self.idle)
        b.position_at_end(self.idle)
        was = b.load(self.byte(self.hot, self.i))
        b.cbranch(b.icmp_unsigned("!=", was, _const(0, I8)), cold, self.follow)
        b.position_at_end(cold)
        self.store(self.zero, self.i)
        b.store(_const(0, I8), self.byte(self.hot, self.i))
        b.branch(self.follow)
        b.position_at_end(dispatch)

    def row(self, row, emitter):
        b, total = self.b, None
        for name, partial in partials(row):
            added = self.product(emitter, self.load(self.slots[name]), partial, True)
            if added is not None:
                total = added if total is None else b.fadd(total, added)
        if total is None:
            b.branch(self.idle)
            return
        self.store(total, self.i)
        b.store(_const(1, I8), self.byte(self.hot, self.i))
        b.branch(self.follow)


class Values(Switch):
    """No word a slot: values are read from records and written there."""

    name, down = "values", False

    def leaf(self, op):
        """There are none."""

    def enter(self):
        """Every instruction is visited."""

    def row(self, row, emitter):
        self.b.store(emitter.number(value(row)), self.field(self.record(self.i), VALUE, F64))
        self.b.branch(self.follow)


KINDS = {kind.name: kind for kind in (Values, Reverse, Adjoints, Tangents)}

"""LLVM IR of the scalar switches (`codegen.of_rows` says what they are)."""

from contextlib import nullcontext

from llvmlite import ir

from ..rules import lang as L
from ..rules.table import partials, scalar_rows, value
from ..tape.layout import CONSTANT, FIRST_ARRAY, OPERANDS, RECORD, SCALAR_LEAF, VALUE
from .emit import COMPARE, F64, I1, I32, I64, PTR, Emitter

ZERO = F64(0.0)
#: What a partial derivative may be made of that calls no function.
_ARITHMETIC = {"const", "arg", "add", "sub", "mul", "div", "neg", "select", "and", "or", "not", "isnan", *COMPARE}


def _product(b, emitter, w, partial):
    """``w * partial`` for a `w` that is not zero, with an absolute zero (None: always zero)."""
    partial = L.Expr.lift(partial)
    if partial.is_const:
        number = partial.args[0]
        if number == 0.0:
            return None
        return w if number == 1.0 else b.fneg(w) if number == -1.0 else b.fmul(w, F64(number))
    p = emitter.number(partial)
    return b.select(b.fcmp_ordered("==", p, ZERO), ZERO, b.fmul(w, p))


def module(name, special):
    """The module of a switch: the walk over the records, how an instruction finds its operands, and what each row does.

    Parameters
    ----------
    name : str
        ``"reverse"``, down with one adjoint a slot, or ``"values"``, up: values are read from records and written there.
    special : bool
        With the rows that call SciPy.
    """
    made, reverse = ir.Module("scalars"), name == "reverse"
    function = ir.Function(made, ir.FunctionType(I64, [PTR, PTR, I64, I64]), name)
    records, words, first, last = function.args
    for argument in (records, words):
        argument.add_attribute("noalias")
    entry, loop, look, live, body, dispatch, follow, out = map(function.append_basic_block, "entry loop look live body dispatch follow out".split())
    b = ir.IRBuilder(entry)

    def place(base, index, size, offset, type_):
        return b.bitcast(b.gep(b.gep(base, [b.mul(index, I64(size))]), [I64(offset)]), type_.as_pointer())

    def field(index, offset, type_=F64):
        return place(records, index, RECORD.size, offset, type_)

    def loader(row):
        """Loader of what partials read: operands x and y, result z, inline constant c."""
        loaded = {}

        def operand(key):
            if key not in loaded:
                pointer = field(i, CONSTANT) if key == "c" else field(slots.get(key, i), VALUE)
                if key in slots and row.arity >= 2 and row.name != "where":
                    pointer = b.select(b.icmp_unsigned("==", slots[key], I64(0)), field(i, CONSTANT), pointer)
                loaded[key] = b.load(pointer)
            return loaded[key]

        return operand

    b.branch(loop)
    b.position_at_end(loop)
    i = b.phi(I64, "i")
    i.add_incoming(first, entry)
    b.cbranch(b.icmp_signed("<" if reverse else ">", i, last), out, look)
    b.position_at_end(look)
    op = b.load(field(i, 0, I32))
    b.cbranch(b.icmp_unsigned(">=", op, I32(FIRST_ARRAY)), out, live)
    b.position_at_end(live)
    # Of values there are no leaves, and every instruction is visited.
    b.cbranch(b.icmp_unsigned("==", op, I32(SCALAR_LEAF)) if reverse else I1(0), follow, body)
    b.position_at_end(body)
    slots = {key: b.zext(b.load(field(i, offset, I32)), I64) for key, offset in zip("xy", OPERANDS)}
    w = b.load(place(words, i, 8, 0, F64)) if reverse else F64(1.0)
    b.cbranch(b.fcmp_unordered("!=", w, ZERO), dispatch, follow)
    b.position_at_end(dispatch)
    switch = b.switch(op, out)
    for row in scalar_rows(special):
        block = function.append_basic_block(row.name)
        switch.add_case(I32(row.opcode), block)
        b.position_at_end(block)
        emitter = Emitter(b, loader(row))
        if not reverse:
            b.store(emitter.number(value(row)), field(i, VALUE))
        for key, p in partials(row) if reverse else ():
            # For a constant no function is called: beside its time it would leave the processor's flags of an operation that is not there.
            called = row.arity == 2 and not {node.op for node in L.nodes(L.Expr.lift(p))} <= _ARITHMETIC
            with b.if_then(b.icmp_unsigned("!=", slots[key], I64(0))) if called else nullcontext():
                added = _product(b, Emitter(b, loader(row)) if called else emitter, w, p)
                if added is not None:
                    word = place(words, slots[key], 8, 0, F64)
                    b.store(b.fadd(b.load(word), added), word)
        b.branch(follow)

    b.position_at_end(follow)
    i.add_incoming(b.add(i, I64(-1 if reverse else 1)), follow)
    b.branch(loop)
    b.position_at_end(out)
    b.ret(i)
    return made

"""LLVM IR of array loops and of the scalar switches (`codegen.of_rows` says what they are).

A loop has two functions: ``inner``, one loop over the innermost dimension, whose arguments do not alias, so that LLVM vectorises it; and
``kernel``, which calls it.
"""

from contextlib import nullcontext

import numpy as np
from llvmlite import ir

from ..rules import lang as L
from ..rules.table import partials, scalar_rows, value
from ..tape.layout import CONSTANT, FIRST_ARRAY, OPERANDS, RECORD, SCALAR_LEAF, VALUE
from .emit import COMPARE, F64, I1, I32, I64, PTR, REGISTER, Emitter, convert, load, store

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


def switch_module(name, special):
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


# ---- array loops --------------------------------------------------------------------------


def loop_module(spec):
    """The module of a `LoopSpec`, with the function ``kernel``."""
    made = ir.Module("loop")
    inner = _inner(made, spec)
    _kernel(made, inner, len(spec.pattern), spec.pattern)
    return made


def _combine(b, how, old, new):
    if how == "add":
        return b.fadd(old, new, flags=("reassoc",))
    if how == "mul":
        return b.fmul(old, new, flags=("reassoc",))
    better = b.fcmp_ordered(">" if how == "max" else "<", new, old)
    return b.select(b.or_(better, b.fcmp_unordered("uno", new, new)), new, old)


def _inner(module, spec):
    """The innermost loop as a function with arguments that do not alias."""
    nargs, nin = len(spec.pattern), len(spec.inputs)
    chars = spec.inputs + spec.outputs
    strided = [k for k in range(nargs) if spec.pattern[k] == "s"]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR] * nargs + [I64] + [I64] * len(strided)), "inner")
    function.linkage = "internal"
    function.attributes.add("noinline")
    for k in range(nargs):
        function.args[k].add_attribute("noalias")
    n = function.args[nargs]
    step = {k: function.args[nargs + 1 + j] for j, k in enumerate(strided)}
    # float only if every floating argument is float; integers that are only converted keep all digits.
    converted = not {*chars} & {*"df"} and all(expr.op == "arg" for expr in spec.exprs)
    arithmetic = "q" if converted else "f" if "d" not in chars and "f" in chars else "d"
    ftype = REGISTER[arithmetic]

    def loaded(pointer, char):
        value = load(b, pointer, char)
        return value if char == "?" else convert(b, value, char, arithmetic)

    def stored(value, pointer, char):
        store(b, value, "?" if value.type == I1 else arithmetic, pointer, char)

    entry, head, body, done = (function.append_basic_block(name) for name in ("entry", "head", "body", "done"))
    b = ir.IRBuilder(entry)
    constant = {k: loaded(function.args[k], chars[k]) for k in range(nin) if spec.pattern[k] == "0"}
    held = {}
    for j, how in enumerate(spec.accumulate):
        k = nin + j
        if spec.pattern[k] == "0":
            held[k] = loaded(function.args[k], chars[k]) if how else ir.Constant(ftype, 0)
    b.branch(head)

    b.position_at_end(head)
    i = b.phi(I64, "i")
    i.add_incoming(ir.Constant(I64, 0), entry)
    carried = {}
    for k, start in held.items():
        carried[k] = b.phi(ftype)
        carried[k].add_incoming(start, entry)
    b.cbranch(b.icmp_signed("<", i, n), body, done)

    b.position_at_end(body)

    def pointer(k):
        if spec.pattern[k] == "0":
            return function.args[k]
        offset = b.mul(i, step[k]) if k in step else b.mul(i, ir.Constant(I64, np.dtype(chars[k]).itemsize))
        return b.gep(function.args[k], [offset], inbounds=True)

    emitter = Emitter(b, lambda k: constant[k] if k in constant else loaded(pointer(k), chars[k]), ftype)
    results = {}
    for j, expr in enumerate(spec.exprs):
        value = emitter.emit(expr)
        how, k = spec.accumulate[j], nin + j
        if how and value.type == I1:
            value = b.uitofp(value, ftype)
        if k in held:
            results[k] = _combine(b, how, carried[k], value) if how else emitter.number(expr)
        elif how:
            where = pointer(k)
            stored(_combine(b, how, loaded(where, chars[k]), value), where, chars[k])
        else:
            stored(value, pointer(k), chars[k])
    i.add_incoming(b.add(i, ir.Constant(I64, 1)), b.block)
    for k, phi in carried.items():
        phi.add_incoming(results[k], b.block)
    b.branch(head)

    b.position_at_end(done)
    for k, phi in carried.items():
        stored(phi, function.args[k], chars[k])
    b.ret_void()
    return function


def _kernel(module, inner, nargs, pattern):
    """The kernel itself: what a ufunc's loop is given, as arguments of `inner`."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR.as_pointer(), I64.as_pointer(), I64.as_pointer(), PTR]), "kernel")
    args, dims, steps, _ = function.args
    b = ir.IRBuilder(function.append_basic_block())

    def item(table, k):
        return b.load(b.gep(table, [ir.Constant(I64, k)]))

    strided = [item(steps, k) for k in range(nargs) if pattern[k] == "s"]
    b.call(inner, [*(item(args, k) for k in range(nargs)), item(dims, 0), *strided])
    b.ret_void()

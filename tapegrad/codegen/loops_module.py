"""LLVM IR of an array loop (`codegen.of_rows` says what it is).

Two functions: ``inner``, one loop over the innermost dimension, whose arguments do not alias, so that LLVM vectorises it; and
``kernel``, which calls it.
"""

import numpy as np
from llvmlite import ir

from .emit import I1, I64, PTR, REGISTER, Emitter, convert, load, store


def module(spec):
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

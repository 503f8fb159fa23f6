"""LLVM IR of an array loop (`codegen.loops` says what it is).

Two functions: ``inner``, one loop over the innermost dimension, whose arguments do not alias, so that LLVM vectorises it; and
``kernel``, an odometer over the other dimensions that calls it::

    clear      counts[d] = 0 for each outer dimension d
    run        inner(offsets of the arguments, n, steps)
    advance    d = the last dimension
    bump       counts[d] += 1, offsets += strides[d]; run again if counts[d] < extent[d]
    carry      counts[d] = 0, offsets -= extent[d] * strides[d]; d -= 1, and bump, until no dimension is left
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from .emit import F32, F64, I1, I8, I64, MEMORY, PTR, Emitter

#: NumPy's most dimensions of an array.
DIMENSIONS = 64


def module(spec):
    """The module of a `LoopSpec`, with the function ``kernel``."""
    made = ir.Module("loop")
    inner = _inner(made, spec)
    _outer(made, inner, len(spec.pattern), spec.pattern)
    return made


def _arithmetic(spec):
    """float only if every floating argument is float."""
    return F32 if "d" not in spec.inputs + spec.outputs and "f" in spec.inputs + spec.outputs else F64


def _load(b, pointer, char, ftype):
    value = b.load(b.bitcast(pointer, MEMORY[char].as_pointer()))
    if char == "?":
        return b.icmp_unsigned("!=", value, ir.Constant(I8, 0))
    if char in "bhilq":
        return b.sitofp(value, ftype)
    if char in "BHILQ":
        return b.uitofp(value, ftype)
    if value.type == F32 and ftype == F64:
        return b.fpext(value, F64)
    return value


def _store(b, value, pointer, char):
    memory = MEMORY[char]
    if value.type == I1:
        value = b.zext(value, I8) if char == "?" else b.uitofp(value, memory)
    elif value.type != memory:
        value = b.fptrunc(value, memory) if memory == F32 else b.fpext(value, memory)
    b.store(value, b.bitcast(pointer, memory.as_pointer()))


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
    function = ir.Function(
        module, ir.FunctionType(ir.VoidType(), [PTR] * nargs + [I64] + [I64] * len(strided)), "inner"
    )
    function.linkage = "internal"
    function.attributes.add("noinline")
    for k in range(nargs):
        function.args[k].add_attribute("noalias")
    n = function.args[nargs]
    step = {k: function.args[nargs + 1 + j] for j, k in enumerate(strided)}
    ftype = _arithmetic(spec)

    entry, head, body, done = (function.append_basic_block(name) for name in ("entry", "head", "body", "done"))
    b = ir.IRBuilder(entry)
    constant = {k: _load(b, function.args[k], chars[k], ftype) for k in range(nin) if spec.pattern[k] == "0"}
    held = {}
    for j, how in enumerate(spec.accumulate):
        k = nin + j
        if spec.pattern[k] == "0":
            held[k] = _load(b, function.args[k], chars[k], ftype) if how else ir.Constant(ftype, 0.0)
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

    emitter = Emitter(b, lambda k: constant[k] if k in constant else _load(b, pointer(k), chars[k], ftype), ftype)
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
            _store(b, _combine(b, how, _load(b, where, chars[k], ftype), value), where, chars[k])
        else:
            _store(b, value, pointer(k), chars[k])
    i.add_incoming(b.add(i, ir.Constant(I64, 1)), b.block)
    for k, phi in carried.items():
        phi.add_incoming(results[k], b.block)
    b.branch(head)

    b.position_at_end(done)
    for k, phi in carried.items():
        _store(b, phi, function.args[k], chars[k])
    b.ret_void()
    return function


def _outer(module, inner, nargs, pattern):
    """The kernel itself: an odometer over the outer dimensions."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64.as_pointer()] * 2), "kernel")
    regs, p = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))

    def const(value):
        return ir.Constant(I64, value)

    def param(index):
        return b.load(b.gep(p, [index if isinstance(index, ir.Value) else const(index)]))

    offsets = b.alloca(I64, nargs)
    counts = b.alloca(I64, DIMENSIONS)
    for k in range(nargs):
        base = b.load(b.gep(regs, [param(k)]))
        b.store(b.add(base, param(nargs + k)), b.gep(offsets, [const(k)]))
    n = param(2 * nargs)
    steps = [param(2 * nargs + 1 + k) for k in range(nargs) if pattern[k] == "s"]
    dims = param(3 * nargs + 1)
    table = const(3 * nargs + 2)

    clear, clear_body, run, advance, bump, carry, end = (
        function.append_basic_block(name) for name in "clear clear_body run advance bump carry end".split()
    )
    start = b.block
    b.branch(clear)
    b.position_at_end(clear)
    d = b.phi(I64)
    d.add_incoming(const(0), start)
    b.cbranch(b.icmp_signed("<", d, dims), clear_body, run)
    b.position_at_end(clear_body)
    b.store(const(0), b.gep(counts, [d]))
    d.add_incoming(b.add(d, const(1)), clear_body)
    b.branch(clear)

    b.position_at_end(run)
    pointers = [b.inttoptr(b.load(b.gep(offsets, [const(k)])), PTR) for k in range(nargs)]
    b.call(inner, [*pointers, n, *steps])
    last = b.sub(dims, const(1))
    b.branch(advance)

    b.position_at_end(advance)
    d = b.phi(I64)
    d.add_incoming(last, run)
    b.cbranch(b.icmp_signed("<", d, const(0)), end, bump)

    b.position_at_end(bump)
    row = b.add(table, b.mul(d, const(nargs + 1)))
    extent = param(row)
    count = b.add(b.load(b.gep(counts, [d])), const(1))
    b.store(count, b.gep(counts, [d]))
    strides = [param(b.add(row, const(1 + k))) for k in range(nargs)]
    for k in range(nargs):
        where = b.gep(offsets, [const(k)])
        b.store(b.add(b.load(where), strides[k]), where)
    b.cbranch(b.icmp_signed("<", count, extent), run, carry)

    b.position_at_end(carry)
    b.store(const(0), b.gep(counts, [d]))
    for k in range(nargs):
        where = b.gep(offsets, [const(k)])
        b.store(b.sub(b.load(where), b.mul(extent, strides[k])), where)
    d.add_incoming(b.sub(d, const(1)), carry)
    b.branch(advance)

    b.position_at_end(end)
    b.ret_void()
    return function

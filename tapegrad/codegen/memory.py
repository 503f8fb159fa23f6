"""Raw memory and calls by address, for functions compiled by Numba.

Addresses are int64.  They are always passed as arguments: an address that is a
global constant of a Numba function comes back stale from its disk cache.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from ..common.uninterrupted import Lazily, imported
from .compile import intrinsic

ir: Any = Lazily("llvmlite.ir")


@cache
def _i64():
    return ir.IntType(64)


@cache
def _i32():
    return ir.IntType(32)


@cache
def _byte():
    return ir.IntType(8)


@cache
def _double():
    return ir.DoubleType()


@cache
def _float():
    return ir.FloatType()


def _types(result, *arguments):
    """Numba's signature of these types."""
    types = imported("numba.core.types")
    return getattr(types, result)(*(getattr(types, name) for name in arguments))


def _loader(llvm_type, numba_type, extend=None):
    @intrinsic
    def load(typingctx, address):
        def codegen(context, builder, signature, args):
            value = builder.load(builder.inttoptr(args[0], llvm_type().as_pointer()))
            return value if extend is None else getattr(builder, extend)(value, _i64())

        return _types(numba_type, "int64"), codegen

    return load


def _storer(llvm_type, numba_type, truncate=False):
    @intrinsic
    def store(typingctx, address, value):
        def codegen(context, builder, signature, args):
            value = builder.trunc(args[1], llvm_type()) if truncate else args[1]
            builder.store(value, builder.inttoptr(args[0], llvm_type().as_pointer()))
            return context.get_dummy_value()

        return _types("void", "int64", numba_type), codegen

    return store


load_int = _loader(_i64, "int64")
load_int32 = _loader(_i32, "int64", "sext")
load_byte = _loader(_byte, "int64", "zext")
load_double = _loader(_double, "float64")
load_float = _loader(_float, "float32")
store_int = _storer(_i64, "int64")
store_int32 = _storer(_i32, "int64", truncate=True)
store_byte = _storer(_byte, "int64", truncate=True)
store_double = _storer(_double, "float64")
store_float = _storer(_float, "float32")


def _element_loader(llvm_type, numba_type):
    @intrinsic
    def load(typingctx, base, index):
        def codegen(context, builder, signature, args):
            pointer = builder.inttoptr(args[0], llvm_type().as_pointer())
            return builder.load(builder.gep(pointer, [args[1]], inbounds=True))

        return _types(numba_type, "int64", "int64"), codegen

    return load


def _element_storer(llvm_type, numba_type):
    @intrinsic
    def store(typingctx, base, index, value):
        def codegen(context, builder, signature, args):
            pointer = builder.inttoptr(args[0], llvm_type().as_pointer())
            builder.store(args[2], builder.gep(pointer, [args[1]], inbounds=True))
            return context.get_dummy_value()

        return _types("void", "int64", "int64", numba_type), codegen

    return store


# Element i of the array at an address: in this form LLVM vectorises loops.
int_at = _element_loader(_i64, "int64")
double_at = _element_loader(_double, "float64")
float_at = _element_loader(_float, "float32")
set_int_at = _element_storer(_i64, "int64")
set_double_at = _element_storer(_double, "float64")
set_float_at = _element_storer(_float, "float32")


def _caller(nargs, returns):
    """Call ``int64/void function(int64 * nargs)`` at an address."""
    result = _i64() if returns else ir.VoidType()

    def codegen(context, builder, signature, args):
        ftype = ir.FunctionType(result, [_i64()] * nargs)
        value = builder.call(builder.inttoptr(args[0], ftype.as_pointer()), args[1:])
        return value if returns else context.get_dummy_value()

    return _types("int64" if returns else "void", *["int64"] * (nargs + 1)), codegen


@intrinsic
def call_entry(typingctx, address, handle, x, g):
    """Call the entry of a handle by its native address (Numba's calling convention); its result and the value."""

    def codegen(context, builder, signature, args):
        byte = _byte().as_pointer()
        ftype = ir.FunctionType(_i32(), [byte, byte] + [_i64()] * 4)
        with builder.goto_entry_block():
            result, exception, value = (builder.alloca(_i64()) for _ in range(3))
        places = [builder.bitcast(p, byte) for p in (result, exception)]
        out = builder.ptrtoint(value, _i64())
        builder.call(builder.inttoptr(args[0], ftype.as_pointer()), [*places, *args[1:], out])
        number = builder.load(builder.bitcast(value, _double().as_pointer()))
        return context.make_tuple(builder, signature.return_type, [builder.load(result), number])

    types = imported("numba.core.types")
    return types.Tuple([types.int64, types.float64])(*[types.int64] * 4), codegen


@intrinsic
def call2(typingctx, address, a, b):
    """``void f(a, b)``: a loop kernel on registers and parameters."""
    return _caller(2, False)


@intrinsic
def call4(typingctx, address, a, b, c, d):
    """``void f(a, b, c, d)``: the inner loop of a ufunc."""
    return _caller(4, False)


@intrinsic
def call3_int(typingctx, address, a, b, c):
    """``int64 f(a, b, c)``: a kernel."""
    return _caller(3, True)


@intrinsic
def call4_int(typingctx, address, a, b, c, d):
    """``int64 f(a, b, c, d)``."""
    return _caller(4, True)


@intrinsic
def call5_int(typingctx, address, a, b, c, d, e):
    """``int64 f(a, b, c, d, e)``."""
    return _caller(5, True)


@intrinsic
def call6_int(typingctx, address, a, b, c, d, e, f):
    """``int64 f(a, b, c, d, e, f)``."""
    return _caller(6, True)


@intrinsic
def call_compiled7(typingctx, address, a, b, c, d, e, f, g):
    """A void function of seven int64 that Numba compiled, by its native address.

    Numba's calling convention: a place for the result, a place for an
    exception, then the arguments; the status it returns is 0, for nothing in
    our compiled functions raises.
    """

    def codegen(context, builder, signature, args):
        pointer = _byte().as_pointer()
        ftype = ir.FunctionType(_i32(), [pointer, pointer] + [_i64()] * 7)
        with builder.goto_entry_block():
            result, exception = builder.alloca(_i64()), builder.alloca(_i64())
        places = [builder.bitcast(p, pointer) for p in (result, exception)]
        builder.call(builder.inttoptr(args[0], ftype.as_pointer()), places + list(args[1:]))
        return context.get_dummy_value()

    return _types("void", *["int64"] * 8), codegen


@intrinsic
def acquire(typingctx, address):
    """Atomically turn the word at an address from 0 to 1; whether that was done."""

    def codegen(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], _i64().as_pointer())
        zero, one = ir.Constant(_i64(), 0), ir.Constant(_i64(), 1)
        return builder.extract_value(builder.cmpxchg(pointer, zero, one, "acquire", "monotonic"), 1)

    return _types("boolean", "int64"), codegen


@intrinsic
def set_free(typingctx, address):
    """Atomically make the word at an address 0, after everything written before."""

    def codegen(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], _i64().as_pointer())
        builder.store_atomic(ir.Constant(_i64(), 0), pointer, "release", 8)
        return context.get_dummy_value()

    return _types("void", "int64"), codegen


@intrinsic
def yield_processor(typingctx):
    """Let another thread run."""
    return _external("SwitchToThread" if os.name == "nt" else "sched_yield", False, 0)


def _external(name, result, nargs):
    def codegen(context, builder, signature, args):
        ftype = ir.FunctionType(_i64() if result else ir.VoidType(), [_i64()] * nargs)
        function = builder.module.globals.get(name)
        if function is None:
            function = ir.Function(builder.module, ftype, name)
        value = builder.call(function, args)
        return value if result else context.get_dummy_value()

    return _types("int64" if result else "void", *["int64"] * nargs), codegen


@intrinsic
def allocate(typingctx, nbytes):
    """``malloc``; the address."""
    return _external("malloc", True, 1)


@intrinsic
def allocate_zeros(typingctx, count, size):
    """``calloc``; the address."""
    return _external("calloc", True, 2)


@intrinsic
def release(typingctx, address):
    """``free``."""
    return _external("free", False, 1)


@intrinsic
def copy_bytes(typingctx, target, source, nbytes):
    """``memcpy``."""

    def codegen(context, builder, signature, args):
        ftype = ir.FunctionType(_i64(), [_i64()] * 3)
        function = builder.module.globals.get("memcpy") or ir.Function(builder.module, ftype, "memcpy")
        builder.call(function, args)
        return context.get_dummy_value()

    return _types("void", *["int64"] * 3), codegen


@intrinsic
def differ(typingctx, a, b, nbytes):
    """``memcmp``: not zero if the bytes at two addresses differ."""

    def codegen(context, builder, signature, args):
        result = _i32()
        function = builder.module.globals.get("memcmp")
        if function is None:
            function = ir.Function(builder.module, ir.FunctionType(result, [_i64()] * 3), "memcmp")
        return builder.sext(builder.call(function, args), _i64())

    return _types("int64", *["int64"] * 3), codegen

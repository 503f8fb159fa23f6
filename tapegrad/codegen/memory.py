"""Raw memory and calls by address, for functions compiled by Numba.

Addresses are int64.  They are always passed as arguments: an address that is a
global constant of a Numba function comes back stale from its disk cache.

`digest` is for comparing large arrays with what they were.  It is XXH64 (Y. Collet, xxHash) with `LANES` lanes in place of four,
so that the rounds run in vectors: each word is multiplied, added to its lane, and the lane is rotated and multiplied.  A lane so
depends on the order of its words, and the lanes are merged in their order: what moves, changes the digest wherever it goes.  A
single word that changes always does, for each step is invertible in it.
"""

from __future__ import annotations

import inspect
import os
from functools import cache
from typing import Any

from ..common.uninterrupted import Lazily
from .compile import compiled, helper, inside, intrinsic, numba

ir: Any = Lazily("llvmlite.ir")


@cache
def _llvm(name):
    """The type of LLVM that goes by this name."""
    kinds = {"void": ir.VoidType, "float32": ir.FloatType, "float64": ir.DoubleType}
    return kinds[name]() if name in kinds else ir.IntType(int(name[3:]))


def of_types(codegen, result, *arguments):
    """An intrinsic of these types, which is `codegen` in LLVM."""

    def typed(typingctx, *args):
        types, returned = inside().normalize_signature(f"{result}({', '.join(arguments)})")
        return returned(*types), codegen

    names = ["typingctx", *(f"a{k}" for k in range(len(arguments)))]
    typed.__signature__ = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names])
    return intrinsic(typed)


def c_function(name, result, *arguments, fixed=None):
    """An intrinsic that calls a function of C by name, or (None) by its address, which is the first argument then.

    The types are ``"int64"`` (addresses, too), ``"int32"`` (C's int, an int64 to Numba), ``"float64"`` and, of the result, ``"void"``.
    Of a function that takes any number of arguments so many are `fixed`.
    """

    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(_llvm(result), [_llvm(a) for a in arguments[:fixed]], var_arg=fixed is not None)
        if name is None:
            function, args = builder.inttoptr(args[0], kind.as_pointer()), args[1:]
        else:
            function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        value = builder.call(function, [builder.trunc(a, _llvm("int32")) if k == "int32" else a for a, k in zip(args, arguments)])
        if result == "void":
            return context.get_dummy_value()
        return builder.sext(value, _llvm("int64")) if result == "int32" else value

    address = ["int64"] if name is None else []
    return of_types(codegen, *(k.replace("int32", "int64") for k in (result, *address, *arguments)))


def address_named(name):
    """An intrinsic that gives the address that a name has been defined as (`codegen.symbols`)."""

    def codegen(context, builder, signature, args):
        place = builder.module.globals.get(name) or ir.GlobalVariable(builder.module, _llvm("int64"), name)
        return builder.ptrtoint(place, _llvm("int64"))

    return of_types(codegen, "int64")


def _loader(kind, extend=None, index=()):
    """An intrinsic that reads at an address; `index`: element i of the array there, a form in which LLVM vectorises loops."""

    def codegen(context, builder, signature, args):
        value = builder.load(_pointer(builder, kind, args))
        return value if extend is None else getattr(builder, extend)(value, _llvm("int64"))

    return of_types(codegen, "int64" if extend else kind, "int64", *index)


def _storer(kind, index=()):
    """An intrinsic that writes to an address; see `_loader`."""
    short = kind in ("int8", "int32")

    def codegen(context, builder, signature, args):
        *place, value = args
        builder.store(builder.trunc(value, _llvm(kind)) if short else value, _pointer(builder, kind, place))
        return context.get_dummy_value()

    return of_types(codegen, "void", "int64", *index, "int64" if short else kind)


def _pointer(builder, kind, place):
    address, *index = place
    pointer = builder.inttoptr(address, _llvm(kind).as_pointer())
    return builder.gep(pointer, index, inbounds=True) if index else pointer


load_int = _loader("int64")
load_int32 = _loader("int32", "sext")
load_byte = _loader("int8", "zext")
load_double = _loader("float64")
load_float = _loader("float32")
store_int = _storer("int64")
store_int32 = _storer("int32")
store_byte = _storer("int8")
store_double = _storer("float64")
store_float = _storer("float32")


@helper
def load_number(address, size):
    """A float of so many bytes, 8 or 4."""
    return load_double(address) if size == 8 else float(load_float(address))


@helper
def store_number(address, size, number):
    """The same, written."""
    if size == 8:
        store_double(address, number)
    else:
        store_float(address, number)


int_at = _loader("int64", index=["int64"])
double_at = _loader("float64", index=["int64"])
float_at = _loader("float32", index=["int64"])
set_double_at = _storer("float64", index=["int64"])
set_float_at = _storer("float32", index=["int64"])


@intrinsic
def set_int_at(typingctx, address, *words):
    """``set_int_at(address, k, x, l, y, ...)``: word k from an address on becomes x, word l becomes y, ..."""

    def codegen(context, builder, signature, args):
        items = [builder.extract_value(args[1], k) for k in range(len(words))]
        for index, value in zip(items[::2], items[1::2]):
            builder.store(value, _pointer(builder, "int64", (args[0], index)))
        return context.get_dummy_value()

    return numba.types.void(numba.types.int64, numba.types.StarArgUniTuple(numba.types.int64, len(words))), codegen


def _call_entry(context, builder, signature, args):
    kind = ir.FunctionType(_llvm("int64"), [_llvm("int64")] * 4)
    with builder.goto_entry_block():
        value = builder.alloca(_llvm("float64"))
    status = builder.call(builder.inttoptr(args[0], kind.as_pointer()), [*args[1:], builder.ptrtoint(value, _llvm("int64"))])
    return context.make_tuple(builder, signature.return_type, [status, builder.load(value)])


#: ``call_entry(address, handle, x, g)``: call the entry of a handle by its address; its result and the value.
call_entry = of_types(_call_entry, "Tuple((int64, float64))", *["int64"] * 4)
#: ``void f(a, b, c, d)``, the inner loop of a ufunc, and of five arguments.
call4, call5 = (c_function(None, "void", *["int64"] * n) for n in (4, 5))
#: ``int64 f(a, b, c)``, a kernel, and of more arguments: six has `interpreter.steps.run`.
call3_int, call4_int, call6_int = (c_function(None, "int64", *["int64"] * n) for n in (3, 4, 6))


def _set(order):
    """An intrinsic that sets the word at an address."""

    def codegen(context, builder, signature, args):
        builder.store_atomic(args[1], _pointer(builder, "int64", args[:1]), order, 8)
        return context.get_dummy_value()

    return of_types(codegen, "void", "int64", "int64")


def _exchange(operation):
    """An intrinsic that changes the word at an address by a number, and gives what it was."""
    return of_types(
        lambda _, builder, signature, args: builder.atomic_rmw(operation, _pointer(builder, "int64", args[:1]), args[1], "seq_cst"), *["int64"] * 3
    )


#: The word at an address, sequentially consistent: read, write, and add to or set, which gives what it was.
atomic_load = of_types(lambda _, builder, signature, args: builder.load_atomic(_pointer(builder, "int64", args), "seq_cst", 8), "int64", "int64")
atomic_add, atomic_swap, atomic_store = _exchange("add"), _exchange("xchg"), _set("seq_cst")
#: The same, after everything written before, and no more.
atomic_release = _set("release")
#: Let another thread run.
yield_processor = c_function("SwitchToThread" if os.name == "nt" else "sched_yield", "void")
#: Memory of so many bytes, of so many zeros of a size, and back; addresses.
allocate = c_function("malloc", "int64", "int64")
allocate_zeros = c_function("calloc", "int64", "int64", "int64")
release = c_function("free", "void", "int64")
#: Not zero if the bytes at two addresses differ, of so many.
differ = c_function("memcmp", "int32", *["int64"] * 3)
#: Copy bytes to an address from another.
copy_bytes = c_function("memcpy", "int64", *["int64"] * 3)
#: Fill an address and what comes behind with the same byte, so many.
fill = c_function("memset", "int64", "int64", "int32", "int64")


#: How many blocks are kept, and the bytes of the smallest of these; bytes before a block, which say how many it has.
BLOCKS, KEPT_BLOCK, _BEFORE = 16, 1 << 16, 16


@helper
def new_block(kept, nbytes, zeros):
    """The address of memory for an array of a sweep; 0 if there is none.

    `kept` is the address of `BLOCKS` pairs (bytes, address) of blocks that are not used now, or 0: large memory that is given back to the
    system after each sweep comes page by page at the next one, which takes longer than to compute what is in it.
    """
    nbytes = (nbytes + 7) & -8
    if kept != 0 and nbytes >= KEPT_BLOCK:
        for k in range(BLOCKS):
            if load_int(kept + 16 * k) == nbytes:
                store_int(kept + 16 * k, 0)
                block = load_int(kept + 16 * k + 8)
                if zeros:
                    fill(block, 0, nbytes)
                return block
    block = allocate_zeros(nbytes + _BEFORE, 1) if zeros else allocate(nbytes + _BEFORE)
    if block == 0:
        return 0
    store_int(block, nbytes)
    return block + _BEFORE


@helper
def free_block(kept, block):
    """Give back what `new_block` gave, or nothing (0)."""
    if block == 0:
        return
    nbytes = load_int(block - _BEFORE)
    if kept != 0 and nbytes >= KEPT_BLOCK:
        for k in range(BLOCKS):
            if load_int(kept + 16 * k) == 0:
                store_int(kept + 16 * k, nbytes)
                store_int(kept + 16 * k + 8, block)
                return
    release(block - _BEFORE)


#: Words that a round takes.
LANES = 128
#: The primes of XXH64, as signed numbers.
P1, P2, P3, P4 = (p - (p >> 63 << 64) for p in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63))


@helper
def _round(lane, word):
    turned = lane + word * P2
    return ((turned << 31) | ((turned >> 33) & 0x7FFFFFFF)) * P1


@helper
def _merged(hashed, lane):
    return (hashed ^ _round(0, lane)) * P1 + P4


@compiled("int64(int64, int64)")
def digest(data, nbytes):
    """The digest of `nbytes` bytes at the address `data`."""
    lanes = allocate(8 * LANES)
    for lane in range(LANES):
        set_int_at(lanes, lane, (lane + 1) * P3)
    rows = nbytes // (8 * LANES)
    for row in range(rows):
        start = data + 8 * LANES * row
        for lane in range(LANES):
            set_int_at(lanes, lane, _round(int_at(lanes, lane), int_at(start, lane)))
    hashed = nbytes
    for lane in range(LANES):
        hashed = _merged(hashed, int_at(lanes, lane))
    at = data + 8 * LANES * rows
    for k in range(nbytes // 8 - LANES * rows):
        hashed = _merged(hashed, load_int(at + 8 * k))
    rest = nbytes % 8
    if rest:
        # Its first bytes, in a word of zeros.
        store_int(lanes, 0)
        copy_bytes(lanes, data + nbytes - rest, rest)
        hashed = _merged(hashed, load_int(lanes))
    release(lanes)
    return hashed

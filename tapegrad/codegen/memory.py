"""Raw memory, calls by address, and threads, for functions compiled by Numba and for other machine code.

Addresses are int64.  They are always passed as arguments: an address that is a
global constant of a Numba function comes back stale from its disk cache.

`digest` is for comparing large arrays with what they were.  It is XXH64 (Y. Collet, xxHash) with `LANES` lanes in place of four,
so that the rounds run in vectors: each word is multiplied, added to its lane, and the lane is rotated and multiplied.  A lane so
depends on the order of its words, and the lanes are merged in their order: what moves, changes the digest wherever it goes.  A
single word that changes always does, for each step is invertible in it.

Threads inside of machine code: ``void spread(ptr chunk, ptr inputs, ptr outputs, ptr workspace, int64 count)`` calls ``chunk(inputs, outputs,
workspace, k)`` for each k below `count`; the caller takes part, and `config.threads` says how many do.  The others are the system's threads
(pthreads), which know nothing of Python.  They are made when they are first wanted and stay.  Between calls they look for work for some
100 microseconds, letting others run, and then sleep: to wake one takes 50, so what is spread should take some hundred.

Which thread does which chunk is chance, so each chunk writes to places of its own.  What is to be spread while other work is, by it or by another
thread of Python, is done in order by its caller; so is all where there are no pthreads, and in the child of a fork until it has threads of its own.

How they meet: `call` counts the calls, and a thread that finds a new one comes in (`inside` goes up), sees whether work is still `open`, and takes
chunks by counting `next` up.  The caller closes it when there are no more, and waits until no thread is inside.  So a late thread touches nothing.
"""

from __future__ import annotations

import ctypes
import inspect
import os
from functools import cache
from typing import Any

import numpy as np

from ..common import config
from ..common.uninterrupted import Lazily
from .compile import compiled, helper, inside, intrinsic, numba, plain_address
from .symbols import define

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


#: Threads beside the caller, at most; how often one of them looks for work before it sleeps.
_MOST, _LOOKS = 256, 300

#: Words of the state, by their offsets.  Those that threads change while others read them have lines of the cache for themselves.
_BUSY, _MADE, _WANTED, _CALL, _OPEN, _SLEEPING, _CHUNK, _INPUTS, _OUTPUTS, _WORKSPACE, _COUNT, _THREADS, _HELP, _HANDLE = range(0, 112, 8)
_INSIDE, _NEXT, _MUTEX, _WOKEN, _NUMBERS, _END = 128, 192, 256, 512, 768, 768 + 16 * _MOST

_NAMES = [f"pthread_{name}" for name in "create mutex_init mutex_lock mutex_unlock cond_init cond_wait cond_broadcast".split()]
_create, _mutex_init, _lock, _unlock, _cond_init, _wait, _broadcast = (
    c_function(f"tapegrad_{name}", "int32", *["int64"] * count) for name, count in zip(_NAMES, (4, 2, 1, 1, 2, 2, 1))
)
_MEMORY = np.zeros(_END // 8 + 8, np.int64)
_STATE = _MEMORY[-_MEMORY.ctypes.data % 64 // 8 :]
#: Its address, in machine code.
_state = address_named("tapegrad_spread_state")
#: In the place of the number of threads where there are none but Python's.
_ONE = np.ones(1, np.int64)


@helper
def _share(state):
    """Do chunks until there are no more."""
    chunk, inputs, outputs = load_int(state + _CHUNK), load_int(state + _INPUTS), load_int(state + _OUTPUTS)
    workspace, count = load_int(state + _WORKSPACE), load_int(state + _COUNT)
    k = atomic_add(state + _NEXT, 1)
    while k < count:
        call4(chunk, inputs, outputs, workspace, k)
        k = atomic_add(state + _NEXT, 1)


def _help(thread):
    """The life of a thread; `thread` is the address of the state's, and of the thread's number."""
    state, number, seen = load_int(thread), load_int(thread + 8), -1
    while number >= 0:
        looks = 0
        while atomic_load(state + _CALL) == seen and looks < _LOOKS:
            yield_processor()
            looks += 1
        if atomic_load(state + _CALL) == seen:
            _lock(state + _MUTEX)
            atomic_add(state + _SLEEPING, 1)
            while atomic_load(state + _CALL) == seen:
                _wait(state + _WOKEN, state + _MUTEX)
            atomic_add(state + _SLEEPING, -1)
            _unlock(state + _MUTEX)
        seen = atomic_load(state + _CALL)
        atomic_add(state + _INSIDE, 1)
        if atomic_load(state + _OPEN) != 0 and number < atomic_load(state + _WANTED):
            _share(state)
        atomic_add(state + _INSIDE, -1)
    return 0


def _spread(chunk, inputs, outputs, workspace, count):
    """`spread`."""
    state = _state()
    most = min(min(atomic_load(load_int(state + _THREADS)), count) - 1, _MOST)
    if most <= 0 or atomic_swap(state + _BUSY, 1) != 0:
        for k in range(count):
            call4(chunk, inputs, outputs, workspace, k)
        return
    made = atomic_load(state + _MADE)
    if made == 0:
        _mutex_init(state + _MUTEX, 0)
        _cond_init(state + _WOKEN, 0)
    while made < most:
        thread = state + _NUMBERS + 16 * made
        set_int_at(thread, 0, state, 1, made)
        if _create(state + _HANDLE, 0, load_int(state + _HELP), thread) != 0:
            break
        made += 1
        atomic_store(state + _MADE, made)
    store_int(state + _CHUNK, chunk)
    store_int(state + _INPUTS, inputs)
    store_int(state + _OUTPUTS, outputs)
    store_int(state + _WORKSPACE, workspace)
    store_int(state + _COUNT, count)
    atomic_store(state + _NEXT, 0)
    atomic_store(state + _WANTED, most)
    atomic_store(state + _OPEN, 1)
    atomic_add(state + _CALL, 1)
    if atomic_load(state + _SLEEPING) > 0:
        _lock(state + _MUTEX)
        _broadcast(state + _WOKEN)
        _unlock(state + _MUTEX)
    _share(state)
    atomic_store(state + _OPEN, 0)
    while atomic_load(state + _INSIDE) > 0:
        yield_processor()
    atomic_store(state + _BUSY, 0)


@cache
def spread_address():
    """The address of `spread`."""
    try:
        system = ctypes.CDLL(None)
        places = [ctypes.cast(getattr(system, name), ctypes.c_void_p).value for name in _NAMES]
    except (AttributeError, OSError, TypeError):
        # Not called then, but named.
        places = [1] * len(_NAMES)
    for name, place in zip(_NAMES, places):
        define(f"tapegrad_{name}", place)
    _STATE[_THREADS // 8] = (_ONE if 1 in places or config.portable else config.threads_word).ctypes.data
    _STATE[_HELP // 8] = plain_address(compiled("int64(int64)")(_help))
    define("tapegrad_spread_state", _STATE.ctypes.data)
    if hasattr(os, "register_at_fork"):
        # The child has none of the threads.
        os.register_at_fork(after_in_child=lambda: _STATE.put([word // 8 for word in (_BUSY, _MADE, _OPEN, _SLEEPING, _INSIDE)], 0))
    return plain_address(compiled(f"void({', '.join(['int64'] * 5)})")(_spread))

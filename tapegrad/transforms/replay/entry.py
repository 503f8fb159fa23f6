"""The entry of a compiled function from nopython code, and its Numba type.

`tapegrad.compiled.Compiled` is one int64 to Numba: the address of its *handle*
(`H_*` below).  The code that a user's function gets for ``c(x, g)`` is short, and
knows no address: it reads that of `entry` from the handle.  So a function kept
on disk by ``cache=True`` holds nothing that is stale in the next process.

``c(x, g)`` passes the address of the data of `x`.  If there are further arguments,
``c(x, g, *data)``, what is passed in its place is the address of the addresses of all
inputs, `x` first; the caller makes them on its stack (`_packed`) and compares what they are
with what the handle says they must be.

The workspaces of a handle are taken and given back by atomic flags, without the
interpreter: any number of threads may call, and wait when all are taken.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models, register_default
from numba.core.errors import TypingError
from numba.core.imputils import lower_constant
from numba.core.registry import cpu_target
from numba.core.typing.typeof import typeof_impl
from numba.extending import NativeValue, intrinsic, overload_method, register_jitable, unbox

from ...codegen import memory
from ...codegen.compile import compiled
from ...codegen.handle import (  # fmt: skip
    H_COUNT,
    H_DATA,
    H_DIMENSIONS,
    H_ENTRY,
    H_FAILED,
    H_KERNEL,
    H_MORE,
    H_NBYTES,
    H_SHAPE,
    H_VERSION,
    H_WORKSPACES,
    NUMBER,
    T_BLOCK,
    T_GRADIENT,
    T_PARAMETERS,
    T_VALUE,
    TAKE,
)
from ...codegen.memory import acquire, call3_int, copy_bytes, set_free, store_double, yield_processor
from ...common.errors import GuardError, ShapeError
from ...interpreter.access import helper
from ...program import walk as W
from ...program.walk import replay

#: For the code in users' functions, too, which Numba compiles by itself.
load_int, store_int, call_entry = memory.load_int.real, memory.store_int.real, memory.call_entry.real
#: What the code in users' functions expects of handles and `entry`.
VERSION = 3

#: What `entry` returns, beside ``1 + guard``.
DONE, BROKEN = 0, -1


@helper
def _taken(handle):
    """A workspace of the handle, taken; waits if all are."""
    count, first = load_int(handle + 8 * H_COUNT), load_int(handle + 8 * H_WORKSPACES)
    k, mine = 0, first
    while not acquire(mine):
        k += 1
        mine += 8 * TAKE
        if k == count:
            k, mine = 0, first
            yield_processor()
    return mine


@compiled("int64(int64, int64, int64, int64)")
def entry(handle, x, g, value):
    """Value and gradient at `x` (the address of its data, or of those of all inputs), written to `g` and `value` (addresses).

    Returns `DONE`, or 1 + the number of the guard that saw something else.
    """
    mine = _taken(handle)
    p = load_int(mine + 8 * T_PARAMETERS)
    inputs, more = load_int(p + 8 * W.P_INPUTS), load_int(handle + 8 * H_MORE)
    if more == 0:
        store_int(inputs, x)
    else:
        copy_bytes(inputs, x, 8 + 8 * more)
    store_int(p + 8 * W.P_BACKWARD, 1)
    why = replay(p)
    result = BROKEN
    if why == W.DONE:
        copy_bytes(g, load_int(mine + 8 * T_GRADIENT), load_int(handle + 8 * H_NBYTES))
        store_int(value, load_int(load_int(mine + 8 * T_VALUE)))
        result = DONE
    elif why == W.AT_GUARD:
        result = 1 + load_int(p + 8 * W.P_STOPPED)
        store_int(handle + 8 * H_FAILED, result)
    set_free(mine)
    return result


@compiled("int64(int64, int64, int64, int64)")
def kernel_entry(handle, x, g, value):
    """`entry` by the kernel, for one whose workspace is too large for the stack (`kernel.trampoline`)."""
    mine = _taken(handle)
    block = load_int(mine + 8 * T_BLOCK)
    store_int(block, x)
    store_int(block + 8, value)
    store_int(block + 16, g)
    inputs = block if load_int(handle + 8 * H_MORE) == 0 else x
    status = call3_int(load_int(handle + 8 * H_KERNEL), inputs, block + 8, block + 64)
    set_free(mine)
    return DONE if status == -1 else entry(handle, x, g, value)


class CompiledType(types.Callable):
    """Type of `tapegrad.compiled.Compiled`; a call of it is one of its method ``__call__``.

    Parameters
    ----------
    more : bool
        Whether it is called with further arguments, which make the code of a call longer.
    """

    def __init__(self, more):
        super().__init__("tapegrad.compiled with data" if more else "tapegrad.compiled")

    def _method(self, context):
        return context.resolve_getattr(self, "__call__")

    def get_call_type(self, context, args, kws):
        return context.resolve_function_type(self._method(context), args, kws)

    def get_call_signatures(self):
        return (), True

    def get_impl_key(self, signature):
        return self._method(cpu_target.typing_context).get_impl_key(signature)


COMPILED, WITH_DATA = CompiledType(False), CompiledType(True)


@register_default(CompiledType)
class _Model(models.PrimitiveModel):
    def __init__(self, manager, ty):
        super().__init__(manager, ty, ir.IntType(64))


@unbox(CompiledType)
def _unbox(ty, thing, c):
    number = c.pyapi.object_getattr_string(thing, "handle_address")
    value = c.pyapi.long_as_longlong(number)
    c.pyapi.decref(number)
    return NativeValue(value, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


#: Compiled functions that are globals of users' compiled code, which has their address.
_GLOBALS = []


@lower_constant(CompiledType)
def _constant(context, builder, ty, thing):
    # A dynamic address: Numba refuses to keep the function on disk.
    _GLOBALS.append(thing)
    place = context.add_dynamic_addr(builder, thing.handle_address, info="a function compiled by tapegrad")
    return builder.ptrtoint(place, ir.IntType(64))


@intrinsic
def _handle(typingctx, thing):
    """The address of the handle of a compiled function."""
    return types.int64(thing), lambda context, builder, signature, args: args[0]


@compiled("int64(int64, int64, int64, int64)")
def enter(handle, x, g, value):
    """What code in users' functions does, for calls from Python."""
    status, number = call_entry(load_int(handle + 8 * H_ENTRY), handle, x, g)
    store_double(value, number)
    return status


@intrinsic
def _packed(typingctx, x, data):
    """Addresses of the inputs, and what those after the first are, as words like those at `H_DATA`; both on the stack."""
    word, number = ir.IntType(64), ir.DoubleType()

    def codegen(context, builder, signature, args):
        parts = [args[0], *cgutils.unpack_tuple(builder, args[1])]
        words = 1 + sum(1 + getattr(ty, "ndim", 0) for ty in data)
        table, told = (
            cgutils.alloca_once(builder, word, size=ir.Constant(word, n)) for n in (len(parts), words)
        )  # fmt: skip
        described = []
        for k, (ty, part) in enumerate(zip((x, *data), parts)):
            if isinstance(ty, types.Array):
                array = context.make_array(ty)(context, builder, part)
                address = array.data
                if k:
                    described += [ir.Constant(word, ty.ndim), *cgutils.unpack_tuple(builder, array.shape)]
            else:
                address = cgutils.alloca_once(builder, number)
                builder.store(context.cast(builder, part, ty, types.float64), address)
                described.append(ir.Constant(word, NUMBER))
            builder.store(builder.ptrtoint(address, word), builder.gep(table, [ir.Constant(word, k)]))
        for k, value in enumerate(described):
            builder.store(value, builder.gep(told, [ir.Constant(word, k)]))
        found = [builder.ptrtoint(place, word) for place in (table, told)]
        return context.make_tuple(builder, signature.return_type, [*found, ir.Constant(word, len(described))])

    return types.UniTuple(types.int64, 3)(x, data), codegen


def _typed(x, g, data=()):
    """Raise `TypingError` for arguments that no compiled function takes."""
    for name, a in (("x", x), ("g", g)):
        if not (isinstance(a, types.Array) and a.dtype == types.float64 and a.layout == "C"):
            raise TypingError(f"{name} of a function compiled by tapegrad must be a C-contiguous float64 array, not {a}")
    if not g.mutable:
        raise TypingError("g of a function compiled by tapegrad must be writable: the gradient is written there")
    if g.ndim != x.ndim:
        raise TypingError(f"g of a function compiled by tapegrad must have the shape of x, not {g.ndim} dimensions")
    for k, a in enumerate(data):
        if not (isinstance(a, (types.Float, types.Integer)) or isinstance(a, types.Array) and a.dtype == types.float64 and a.layout == "C"):
            raise TypingError(f"argument {k + 2} of a function compiled by tapegrad must be a number or a C-contiguous float64 array, not {a}")


@register_jitable
def _fit(handle, x, g):
    """Raise unless the function is for `x` and `g`."""
    if load_int(handle + 8 * H_VERSION) != VERSION:
        raise GuardError("this function was compiled with another version of tapegrad: remove Numba's cache of it")
    fits = load_int(handle + 8 * H_DIMENSIONS) == x.ndim
    if fits:
        shape = load_int(handle + 8 * H_SHAPE)
        for k in range(x.ndim):
            extent = load_int(shape + 8 * k)
            fits = fits and x.shape[k] == extent and g.shape[k] == extent
    if not fits:
        raise ShapeError("x and g must have the shape of the x0 that was given to tg.compile")
    if x.ctypes.data == g.ctypes.data and x.size != 0:
        raise ShapeError("x and g are the same array: the gradient would be written over the point")


@register_jitable
def _answered(handle, place, g):
    """The value at the inputs at `place`; the gradient goes into `g`."""
    status, value = call_entry(load_int(handle + 8 * H_ENTRY), handle, place, g.ctypes.data)
    if status != DONE:
        # Numba loses exceptions inside prange: `check` finds them.
        g[...] = float("nan")
        raise GuardError(status - 1, handle)
    return value


# The checks are few instructions; a call would save all of the caller's registers, and pass its arrays in memory.
# They are written out, for in functions of their own, though inlined, a step of descent takes 1.7 times as long.
@overload_method(COMPILED, "__call__", jit_options={"forceinline": True})
def _call(self, x, g):
    _typed(x, g)
    dimensions = x.ndim

    def call(self, x, g):
        handle = _handle(self)
        if load_int(handle + 8 * H_VERSION) != VERSION:
            raise GuardError("this function was compiled with another version of tapegrad: remove Numba's cache of it")
        fits = load_int(handle + 8 * H_DIMENSIONS) == dimensions
        if fits:
            shape = load_int(handle + 8 * H_SHAPE)
            for k in range(dimensions):
                extent = load_int(shape + 8 * k)
                fits = fits and x.shape[k] == extent and g.shape[k] == extent
        if not fits:
            raise ShapeError("x and g must have the shape of the x0 that was given to tg.compile")
        if x.ctypes.data == g.ctypes.data and x.size != 0:
            raise ShapeError("x and g are the same array: the gradient would be written over the point")
        status, value = call_entry(load_int(handle + 8 * H_ENTRY), handle, x.ctypes.data, g.ctypes.data)
        if status != DONE:
            # Numba loses exceptions inside prange: `check` finds them.
            g[...] = float("nan")
            raise GuardError(status - 1, handle)
        return value

    return call


@overload_method(WITH_DATA, "__call__")
def _call_with_data(self, x, g, *data):
    if len(data) == 1 and isinstance(data[0], (types.StarArgTuple, types.StarArgUniTuple)):
        # So Numba gives them when it looks for what it has compiled.
        data = tuple(data[0])
    _typed(x, g, data)
    more = len(data)

    def call(self, x, g, *data):
        handle = _handle(self)
        _fit(handle, x, g)
        if load_int(handle + 8 * H_MORE) != more:
            raise ShapeError("there must be as many arguments after x and g as in the data that was given to tg.compile")
        place, told, words = _packed(x, data)
        expected = load_int(handle + 8 * H_DATA)
        for k in range(words):
            if load_int(told + 8 * k) != load_int(expected + 8 * k):
                raise ShapeError("the arguments after x and g must be numbers and arrays as in the data that was given to tg.compile")
        for k in range(more):
            if load_int(place + 8 + 8 * k) == g.ctypes.data and g.size != 0:
                raise ShapeError("g is also an argument: the gradient would be written over it")
        return _answered(handle, place, g)

    return call


@overload_method(COMPILED, "check")
@overload_method(WITH_DATA, "check")
def _check(self):
    def check(self):
        handle = _handle(self)
        failed = load_int(handle + 8 * H_FAILED)
        if failed != 0:
            store_int(handle + 8 * H_FAILED, 0)
            raise GuardError(failed - 1, handle)

    return check


def register(kind):
    """Let Numba know the class of compiled functions."""
    typeof_impl.register(kind, lambda value, context: WITH_DATA if value.data else COMPILED)

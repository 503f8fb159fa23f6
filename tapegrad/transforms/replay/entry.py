"""Compiled functions in users' nopython code: their Numba type, and what a call of one is.

`transforms.compiled.Compiled` is one int64 to Numba: the address of its *handle*
(`program.handle`).  The code that a user's function gets for ``c(x, g)`` is short, and
knows no address: it reads that of the entry from the handle.  So a function kept
on disk by ``cache=True`` holds nothing that is stale in the next process.

``c(x, g)`` passes the address of the data of `x`.  If there are further arguments,
``c(x, g, *data)``, what is passed in its place is the address of the addresses of all
inputs, `x` first; the caller makes them on its stack (`_packed`) and compares what they are
with what the handle says they must be.

Of a function with other results than one float, ``c(x, out, *data)``, what is compiled is a sum of these, times weights, whose gradient by
the weights they are: `out` stands for the weights, too, which have no part in it.
"""

from llvmlite import ir
from numba import TypingError, types
from numba.extending import NativeValue, intrinsic, models, overload_method, register_jitable, register_model, typeof_impl, unbox

from ...codegen import memory
from ...codegen.numba_inside import cgutils, lower_constant, typing_context
from ...common.errors import GuardError, ShapeError
from ...program.handle import DONE, H_AXES, H_DATA, H_ENTRY, H_FAILED, H_MORE, H_SHAPE, H_VERSION, NUMBER, VERSION

#: For the code in users' functions, too, which Numba compiles by itself.
int_at, set_int_at, call_entry = memory.int_at.real, memory.set_int_at.real, memory.call_entry.real


class CompiledType(types.Callable):
    """Type of `tapegrad.compiled.Compiled`; a call of it is one of its method ``__call__``.

    Parameters
    ----------
    kind : str
        What it is called with: further arguments make the code of a call longer.
    """

    def __init__(self, kind=""):
        super().__init__(f"tapegrad.compiled{kind}")

    def _method(self, context):
        return context.resolve_getattr(self, "__call__")

    def get_call_type(self, context, args, kws):
        return context.resolve_function_type(self._method(context), args, kws)

    def get_call_signatures(self):
        return (), True

    def get_impl_key(self, signature):
        return self._method(typing_context()).get_impl_key(signature)


COMPILED, WITH_DATA, OUTPUTS = CompiledType(), CompiledType(" with data"), CompiledType(" with outputs")


@register_model(CompiledType)
class _EntryModel(models.PrimitiveModel):
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


@intrinsic
def _packed(typingctx, x, data):
    """Addresses of the inputs, and what those after the first are, as words like those at `H_DATA`; both on the stack."""
    word, number = ir.IntType(64), ir.DoubleType()

    def codegen(context, builder, signature, args):
        parts = [args[0], *cgutils.unpack_tuple(builder, args[1])]
        words = 1 + sum(1 + getattr(ty, "ndim", 0) for ty in data)
        table, told = (cgutils.alloca_once(builder, word, size=ir.Constant(word, n)) for n in (len(parts), words))
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


def _typed(data, **arrays):
    """Raise `TypingError` for arguments that no compiled function takes; the last of the `arrays` is written to."""
    for name, a in arrays.items():
        if not (isinstance(a, types.Array) and a.dtype == types.float64 and a.layout == "C"):
            raise TypingError(f"{name} of a function compiled by tapegrad must be a C-contiguous float64 array, not {a}")
    if name != "x" and not a.mutable:
        raise TypingError(f"{name} of a function compiled by tapegrad must be writable: the result is written there")
    if len({each.ndim for each in arrays.values()}) > 1:
        raise TypingError(f"{name} of a function compiled by tapegrad must have the shape of x, not {a.ndim} dimensions")
    for k, a in enumerate(data, 2):
        if not (isinstance(a, (types.Float, types.Integer)) or isinstance(a, types.Array) and a.dtype == types.float64 and a.layout == "C"):
            raise TypingError(f"argument {k} of a function compiled by tapegrad must be a number or a C-contiguous float64 array, not {a}")


def _unstarred(data):
    """The types of further arguments."""
    # So Numba gives them when it looks for what it has compiled.
    return tuple(data[0]) if len(data) == 1 and isinstance(data[0], (types.StarArgTuple, types.StarArgUniTuple)) else data


# The checks are few instructions; a call would save all of the caller's registers, and pass its arrays in memory.  So they are
# inlined by Numba, not by LLVM.


@register_jitable(inline="always")
def _shaped(handle, x, g):
    """Whether the function is for `x` and `g`."""
    if int_at(handle, H_VERSION) != VERSION:
        raise GuardError("this function was compiled with another version of tapegrad: remove Numba's cache of it")
    fits = int_at(handle, H_AXES) == x.ndim
    if fits:
        shape = int_at(handle, H_SHAPE)
        for k in range(x.ndim):
            extent = int_at(shape, k)
            fits = fits and x.shape[k] == extent and g.shape[k] == extent
    return fits


@register_jitable(inline="always")
def _fit(handle, x, g):
    """Raise unless the function is for `x` and `g`."""
    if not _shaped(handle, x, g):
        raise ShapeError("x and g must have the shape of the x0 that was given to tg.compile")
    if x.ctypes.data == g.ctypes.data and x.size != 0:
        raise ShapeError("x and g are the same array: the gradient would be written over the point")


@register_jitable
def _failed(status, handle):
    """Raise what a call answered: a function of its own, for Numba up to 0.66 cannot inline ``raise E(x)`` with a variable `x`."""
    raise GuardError(status - 1, handle)


@register_jitable(inline="always")
def _answered(handle, place, g):
    """The value at the inputs at `place`; the gradient goes into `g`."""
    status, value = call_entry(int_at(handle, H_ENTRY), handle, place, g.ctypes.data)
    if status != DONE:
        # Numba loses exceptions inside prange: `check` finds them.
        g[...] = float("nan")
        _failed(status, handle)
    return value


@register_jitable
def _same(told, handle, words):
    """Raise unless further arguments are what the function was compiled with."""
    expected = int_at(handle, H_DATA)
    for k in range(words):
        if int_at(told, k) != int_at(expected, k):
            raise ShapeError("the arguments must be numbers and arrays of the shapes that were given to tg.compile")


@overload_method(COMPILED, "__call__", jit_options={"forceinline": True})
def _call(self, x, g):
    _typed((), x=x, g=g)

    def call(self, x, g):
        handle = _handle(self)
        _fit(handle, x, g)
        return _answered(handle, x.ctypes.data, g)

    return call


@overload_method(WITH_DATA, "__call__")
def _call_with_data(self, x, g, *data):
    data = _unstarred(data)
    _typed(data, x=x, g=g)
    more = len(data)

    def call(self, x, g, *data):
        handle = _handle(self)
        _fit(handle, x, g)
        if int_at(handle, H_MORE) != more:
            raise ShapeError("there must be as many arguments after x and g as in the data that was given to tg.compile")
        place, told, words = _packed(x, data)
        _same(told, handle, words)
        for k in range(more):
            if int_at(place, 1 + k) == g.ctypes.data and g.size != 0:
                raise ShapeError("g is also an argument: the gradient would be written over it")
        return _answered(handle, place, g)

    return call


@overload_method(OUTPUTS, "__call__")
def _call_with_outputs(self, x, out, *data):
    data = _unstarred(data)
    _typed((), x=x)
    _typed(data, out=out)
    more = 1 + len(data)

    def call(self, x, out, *data):
        handle = _handle(self)
        if not _shaped(handle, out, out):
            raise ShapeError("out must have the shape of the compiled function, c.shape")
        if int_at(handle, H_MORE) != more:
            raise ShapeError("there must be as many arguments after x and out as in the data that was given to tg.compile")
        place, told, words = _packed(out, (x, *data))
        _same(told, handle, words)
        for k in range(more):
            if int_at(place, 1 + k) == out.ctypes.data and out.size != 0:
                raise ShapeError("out is also an argument: the results would be written over it")
        _answered(handle, place, out)
        return out

    return call


@overload_method(COMPILED, "check")
@overload_method(WITH_DATA, "check")
@overload_method(OUTPUTS, "check")
def _check(self):
    def check(self):
        handle = _handle(self)
        failed = int_at(handle, H_FAILED)
        if failed != 0:
            set_int_at(handle, H_FAILED, 0)
            raise GuardError(failed - 1, handle)

    return check


def register(kind, outputs):
    """Let Numba know the classes of compiled functions: of one float, and of others."""
    typeof_impl.register(kind, lambda value, context: WITH_DATA if value.data else COMPILED)
    typeof_impl.register(outputs, lambda value, context: OUTPUTS)

"""The runtime of generated code: memory of one call, and contributions to adjoints.

A call works in an *arena*: a stack, to which loops push what the reverse sweep will read of an iteration, and chunks that hold
the arrays of adjoints.  Arenas are given back to a pool in the module that used them, also when an exception passes, and serve the
next call: fresh pages from the system would cost more than the sweeps that write into them.
"""

import math
from contextlib import contextmanager
from functools import cache

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from ...codegen.emit import Emitter
from ...codegen.library import COMPOSED
from ...codegen.numba_inside import INNER, call_of, cgutils, emit_call, emit_caught, emit_raise, populate_array, target_context
from ...common.errors import OptionError, UnsupportedInNumbaError
from ...rules.lang import Expr, written
from ..scalars import ADDED, FUNCTIONS, UFUNCS, absolute_product, plain, splat
from ..types import F64, I32, I64, DualType, build, common_dual, defined, parts

I8P, I64P = ir.IntType(8).as_pointer(), I64.as_pointer()
#: How many arenas wait for the next call of one function, and how large one may be to wait.
WAITING, LARGEST = 8, 1 << 28
#: Bytes at the start of a chunk: the address of the one before it.
HEAD = 64


class Record:
    """A struct in memory whose fields are attributes: to read one emits a load, to set one a store."""

    FIELDS: dict = {}

    def __init_subclass__(cls):
        cls.POINTER = ir.LiteralStructType(list(cls.FIELDS.values())).as_pointer()
        cls.numba_type = type(f"{cls.__name__}Type", (types.Type,), {})(cls.__name__)
        register_model(type(cls.numba_type))(lambda manager, ty: models.PrimitiveModel(manager, ty, cls.POINTER))

    def __init__(self, builder, pointer):
        vars(self).update(builder=builder, pointer=pointer)

    def place(self, name):
        return cgutils.gep_inbounds(self.builder, self.pointer, 0, [*self.FIELDS].index(name))

    def __getattr__(self, name):
        return self.builder.load(self.place(name))

    def __setattr__(self, name, value):
        self.builder.store(value, self.place(name))


class Arena(Record):
    """Base and capacity of the stack; newest chunk, bytes used of it, its size; where in the stack the newest array is; most bytes of the stack."""

    FIELDS = {"base": I8P, "capacity": I64, "chunk": I8P, "used": I64, "size": I64, "newest": I64, "most": I64}


class Stack(Record):
    """Base, bytes used and capacity of the stack, which LLVM holds in registers; the arena; bytes of arrays since the last `mark`."""

    FIELDS = {"base": I8P, "used": I64, "capacity": I64, "record": Arena.POINTER, "held": I64}

    @property
    def arena(self):
        return Arena(self.builder, self.record)


arena_type, stack_type = Arena.numba_type, Stack.numba_type


def _intrinsic(names, typed):
    """An intrinsic of arguments with these names: ``typed(context, their types) -> (signature, how it is emitted)``."""
    text = f"def call(typingctx, {', '.join(names)}):\n    return typed(typingctx, ({', '.join(names)},))\n"
    return intrinsic(defined(text, "call", {"typed": typed}))


def _on(record, result, *tys):
    """Decorator: an intrinsic of an arena or a stack and others, emitted by ``emit(context, builder, record, others...)``."""

    def decorate(emit):
        def codegen(context, builder, sig, args):
            value = emit(context, builder, record(builder, args[0]), *args[1:])
            return context.get_dummy_value() if value is None else value

        sig = result(record.numba_type, *tys)
        return _intrinsic([f"a{k}" for k in range(len(sig.args))], lambda *_: (sig, codegen))

    return decorate


@contextmanager
def _loop(builder, going):
    """The body of a loop that goes on while ``going()`` emits true."""
    test, body, end = map(builder.append_basic_block, ("test", "body", "end"))
    builder.branch(test)
    builder.position_at_end(test)
    builder.cbranch(going(), body, end)
    builder.position_at_end(body)
    yield
    builder.branch(test)
    builder.position_at_end(end)


def _allocate(context, builder, size):
    """Memory; an exception if there is none."""
    memory = context.nrt.allocate_unchecked(builder, size)
    with builder.if_then(cgutils.is_null(builder, memory), likely=False):
        context.call_conv.return_user_exc(builder, MemoryError, ("no memory for the reverse sweep",))
    return memory


# ---- the arena -----------------------------------------------------------------------------------
def _pool(builder):
    """The slots of the pool."""
    kind = ir.ArrayType(I64, WAITING)
    name = "tapegrad_reverse_arenas"
    if name not in builder.module.globals:
        pool = ir.GlobalVariable(builder.module, kind, name)
        pool.linkage, pool.initializer = "internal", ir.Constant(kind, None)
    return [builder.gep(builder.module.globals[name], [I64(0), I64(k)]) for k in range(WAITING)]


def _take(context, builder):
    """Take an arena from the pool, or make a new one."""
    address = cgutils.alloca_once_value(builder, I64(0))
    for place in _pool(builder):
        with builder.if_then(builder.icmp_unsigned("==", builder.load(address), I64(0))):
            builder.store(builder.atomic_rmw("xchg", place, I64(0), "acquire"), address)
    with builder.if_then(builder.icmp_unsigned("==", builder.load(address), I64(0)), likely=False):
        size = I64(8 * len(Arena.FIELDS))
        new = _allocate(context, builder, size)
        cgutils.memset(builder, new, size, 0)
        builder.store(builder.ptrtoint(new, I64), address)
    arena = Arena(builder, builder.inttoptr(builder.load(address), Arena.POINTER))
    arena.most = I64(0)
    return arena


def _give_back(context, builder, arena):
    """Put an arena into the pool; all chunks but the newest, which is the largest, are freed, and so is one that is too large to wait."""
    newest, free = arena.chunk, context.nrt.free
    with builder.if_then(cgutils.is_not_null(builder, newest)):
        before = builder.bitcast(newest, I8P.as_pointer())
        _free_chunks(context, builder, builder.load(before), ir.Constant(I8P, None))
        builder.store(ir.Constant(I8P, None), before)
    arena.used = I64(HEAD)
    with builder.if_then(builder.icmp_signed(">", builder.add(arena.capacity, arena.size), I64(LARGEST)), likely=False):
        free(builder, newest)
        free(builder, arena.base)
        builder.store(ir.Constant(Arena.POINTER.pointee, None), arena.pointer)
    address = cgutils.alloca_once_value(builder, builder.ptrtoint(arena.pointer, I64))
    for place in _pool(builder):  # what lay there moves on to the next slot
        with builder.if_then(builder.icmp_unsigned("!=", builder.load(address), I64(0))):
            builder.store(builder.atomic_rmw("xchg", place, builder.load(address), "acq_rel"), address)
    with builder.if_then(builder.icmp_unsigned("!=", builder.load(address), I64(0)), likely=False):
        last = Arena(builder, builder.inttoptr(builder.load(address), Arena.POINTER))
        for pointer in (last.chunk, last.base, builder.bitcast(last.pointer, I8P)):
            free(builder, pointer)


def _free_chunks(context, builder, first, last):
    """Free chunks, each of which begins with the address of the one before it, as far as `last`, which stays."""
    each = cgutils.alloca_once_value(builder, first)
    with _loop(builder, lambda: builder.icmp_unsigned("!=", builder.load(each), last)):
        chunk = builder.load(each)
        builder.store(builder.load(builder.bitcast(chunk, I8P.as_pointer())), each)
        context.nrt.free(builder, chunk)


def _forget_frames(context, builder, arena, down_to):
    """Release the arrays that frames above a place still hold; each lies behind the address of the one before it."""
    base = arena.base
    with _loop(builder, lambda: builder.icmp_signed(">", arena.newest, down_to)):
        place = builder.bitcast(builder.gep(base, [arena.newest]), I64P)
        arena.newest = builder.load(builder.gep(place, [I64(-1)]))
        context.nrt.decref(builder, types.MemInfoPointer(types.uint8), builder.inttoptr(builder.load(place), I8P))


@_on(Arena, types.none)
def rewind(context, builder, arena):
    """Let the next iteration reuse the memory of this one's adjoints."""
    arena.used = I64(HEAD)


def caught(dispatcher, count, arena=False):
    """Function of `count` arguments that calls `dispatcher` and returns ``(result, code, information)``, an exception encoded in numbers.

    Compiled code does not release what it holds when an exception passes: `raised` raises it where nothing is held.
    With `arena`, an arena is the first argument of `dispatcher`, and is given back; the peak of its stack comes last.
    """

    def typed(typingctx, arguments):
        first = (arena_type,) if arena else ()
        sig = call_of(dispatcher, (*first, *arguments), typingctx)[1]

        def emit(context, builder, made, args):
            values = [context.cast(builder, v, ty, want) for v, ty, want in zip(args, arguments, sig.args[len(first):])]
            taken = [_take(context, builder) for _ in first]
            status, value = emit_caught(context, builder, dispatcher, sig, [*[each.pointer for each in taken], *values])
            peaks = [each.most for each in taken]
            for each in taken:
                _forget_frames(context, builder, each, I64(0))
                _give_back(context, builder, each)
            code = builder.select(status.is_error, builder.sext(status.code, I64), I64(0))
            return context.make_tuple(builder, made.return_type, [value, code, builder.ptrtoint(status.excinfoptr, I64), *peaks])

        return types.Tuple((sig.return_type, *[types.int64] * (3 if arena else 2)))(*arguments), emit

    return _intrinsic([f"a{k}" for k in range(count)], typed)


@intrinsic
def raised(typingctx, outcome):
    """The result that `caught` has returned, or its exception."""

    def emit(context, builder, sig, args):
        value, code, information = cgutils.unpack_tuple(builder, args[0])
        with builder.if_then(builder.icmp_signed("!=", code, I64(0)), likely=False):
            context.nrt.decref(builder, outcome, args[0])
            emit_raise(context, builder, builder.trunc(code, I32), information)
        context.nrt.incref(builder, sig.return_type, value)
        return value

    return outcome[0](outcome), emit


@intrinsic
def shadow_like(typingctx, stack, a):
    """An array of zeros in the arena, shaped and laid out like an array that owns its memory."""
    ty = a.copy(readonly=False)

    def emit(context, builder, sig, args):
        stack = Stack(builder, args[0])
        arena, source = stack.arena, context.make_array(a)(context, builder, value=args[1])
        count = builder.mul(source.nitems, source.itemsize)
        size = builder.and_(builder.add(count, I64(63)), I64(-64))
        stack.held = builder.add(stack.held, size)
        with builder.if_then(builder.icmp_signed(">", builder.add(arena.used, size), arena.size), likely=False):
            larger = builder.add(builder.shl(arena.size, I64(1)), builder.add(size, I64(4096)))
            fresh = _allocate(context, builder, larger)
            builder.store(arena.chunk, builder.bitcast(fresh, I8P.as_pointer()))
            arena.chunk, arena.used, arena.size = fresh, I64(HEAD), larger
        place = arena.used
        arena.used = builder.add(place, size)
        data = builder.gep(arena.chunk, [place])
        cgutils.memset(builder, data, count, 0)
        shadow = context.make_array(ty)(context, builder)
        populate_array(
            shadow, builder.bitcast(data, shadow.data.type), cgutils.unpack_tuple(builder, source.shape, a.ndim),
            cgutils.unpack_tuple(builder, source.strides, a.ndim), source.itemsize, None,
        )  # fmt: skip
        return shadow._getvalue()

    return ty(stack_type, a), emit


# ---- the stack ------------------------------------------------------------------------------------
@_on(Arena, stack_type)
def new_stack(context, builder, arena):
    stack = Stack(builder, cgutils.alloca_once(builder, Stack.POINTER.pointee, zfill=True))
    stack.base, stack.capacity, stack.record = arena.base, arena.capacity, arena.pointer
    return stack.pointer


@_on(Stack, types.none, types.int64, types.int64)
def reserve(context, builder, stack, count, size):
    """Make room for `count` times `size` more bytes."""
    endless = builder.icmp_unsigned(">", count, I64(1 << 40))  # (the product might overflow; no memory is that large)
    needed = builder.add(stack.used, builder.select(endless, I64(1 << 60), builder.mul(count, size)))
    with builder.if_then(builder.icmp_signed(">", needed, stack.capacity), likely=False):
        larger = builder.add(builder.add(needed, stack.capacity), I64(4096))
        fresh = _allocate(context, builder, larger)
        cgutils.raw_memcpy(builder, fresh, stack.base, stack.used, 1)
        context.nrt.free(builder, stack.base)
        for each in (stack, stack.arena):
            each.base, each.capacity = fresh, larger


@_on(Stack, types.none)
def note(context, builder, stack):
    """Update the peak of the stack."""
    used, most = stack.used, stack.arena.most
    stack.arena.most = builder.select(builder.icmp_signed(">", used, most), used, most)


# ---- segments of a loop ---------------------------------------------------------------------------
MARK = types.UniTuple(types.int64, 3)


@_on(Stack, MARK)
def mark(context, builder, stack):
    """Where the stack and the shadows end now: `usage` counts from here, and `back_to` returns here."""
    stack.held = I64(0)
    return context.make_tuple(builder, MARK, [stack.used, builder.ptrtoint(stack.arena.chunk, I64), stack.arena.used])


@_on(Stack, types.int64, MARK)
def usage(context, builder, stack, mark):
    """Bytes of frames, shadows and arrays in frames since a mark."""
    return builder.add(builder.sub(stack.used, builder.extract_value(mark, 0)), stack.held)


@_on(Stack, types.none, types.int64)
def hold(context, builder, stack, size):
    """Count an array in a frame."""
    stack.held = builder.add(stack.held, size)


@_on(Stack, types.none, MARK)
def back_to(context, builder, stack, mark):
    """Forget the frames and shadows that came after a mark."""
    base, before, end = cgutils.unpack_tuple(builder, mark)
    arena = stack.arena
    _forget_frames(context, builder, arena, base)
    top, newest, before = stack.used, arena.chunk, builder.inttoptr(before, I8P)
    stack.used = builder.select(builder.icmp_signed("<", top, base), top, base)
    arena.used = end
    with builder.if_then(builder.icmp_unsigned("!=", newest, before), likely=False):
        link = builder.bitcast(newest, I8P.as_pointer())
        _free_chunks(context, builder, builder.load(link), before)
        builder.store(before, link)
        arena.used = I64(HEAD)
    stack.held = I64(0)


@numba.njit(**INNER)
def full(usage, limit, iteration, stop):
    """Whether a segment ends."""
    return usage > limit or iteration == stop


@numba.njit(**INNER)
def affordable(count, size, loops, memory, segment, iterations, all_iterations):
    """Raise if `count` checkpoints of `size` bytes exceed half of a loop's share of `memory`, given the bytes and iterations of a segment."""
    if count * size > memory // (2 * loops):
        least = int(2.1 * math.sqrt(float(size) * segment / iterations * max(all_iterations, 2 * count * iterations))) + 2 * (size + segment // iterations) + 1
        raise OptionError(
            "memory=" + str(memory) + " is too small: checkpoints and one segment must each fit in half of a loop's share; give memory="
            + str(loops * least) + " or more"
        )  # fmt: skip


def _hidden(builder, array):
    """The array, as another value for LLVM: Numba prunes pairs of incref and decref, and cannot see the stack."""
    identity = ir.FunctionType(I8P, [I8P])
    owner = builder.asm(identity, "", "=r,0", [builder.extract_value(array, 0)], side_effect=False)
    return builder.insert_value(array, owner, 0)


@cache
def frame(tys):
    """(size in bytes, push, pop) of values of these types, as one struct."""
    context = target_context()
    sizes = [context.get_abi_sizeof(context.data_model_manager[ty].get_data_type()) for ty in tys]
    arrays = [k for k, ty in enumerate(tys) if isinstance(ty, types.Array)]
    offsets, size = {}, 0
    for k in sorted(range(len(tys)), key=lambda k: -sizes[k]):
        size += 8 * (k in arrays)  # where the array before it is
        offsets[k] = size
        size += sizes[k] if sizes[k] < 8 else -(-sizes[k] // 8) * 8
    size = -(-size // 8) * 8
    whole = types.Tuple(tys)

    def place(context, builder, stack, k, top):
        pointer = builder.gep(stack.base, [builder.add(top, I64(offsets[k]))])
        return builder.bitcast(pointer, context.data_model_manager[tys[k]].get_data_type().as_pointer())

    def link(*where):
        return where[1].gep(where[1].bitcast(place(*where), I64P), [I64(-1)])

    @_on(Stack, types.none, whole)
    def push(context, builder, stack, pushed):
        top = stack.used
        for k, ty in enumerate(tys):
            value = builder.extract_value(pushed, k)
            data = context.data_model_manager[ty].as_data(builder, value)
            builder.store(data, place(context, builder, stack, k, top), align=min(8, sizes[k]))
            if k in arrays:
                context.nrt.incref(builder, ty, _hidden(builder, value))
                builder.store(stack.arena.newest, link(context, builder, stack, k, top))
                stack.arena.newest = builder.add(top, I64(offsets[k]))
        stack.used = builder.add(top, I64(size))

    @_on(Stack, whole)
    def pop(context, builder, stack):
        top = stack.used = builder.sub(stack.used, I64(size))
        values = []
        for k in arrays[:1]:
            stack.arena.newest = builder.load(link(context, builder, stack, k, top))
        for k, ty in enumerate(tys):
            data = builder.load(place(context, builder, stack, k, top), align=min(8, sizes[k]))
            value = context.data_model_manager[ty].from_data(builder, data)
            values.append(_hidden(builder, value) if k in arrays else value)
        return context.make_tuple(builder, whole, values)

    return size, push, pop


@numba.njit(**INNER)
def trips(start, stop, step):
    """How many iterations ``range(start, stop, step)`` has."""
    return len(range(start, stop, step))


@numba.njit(**INNER)
def counted(a, n):
    """The number of names an array is unpacked into, which must be that of its elements."""
    if len(a) != n:
        raise ValueError
    return n


# ---- contributions in dual numbers, as text that Numba compiles: forward over reverse -------------------
# Where the forward sweep computes with dual numbers, so does the reverse one: the value of an adjoint is the adjoint, and its tangents are
# products of the Hessian.
_FORMS = {"pow": "(({}) ** ({}))", "abs": "abs({})", "select": "({1} if {0} else {2})"}


@intrinsic
def times(typingctx, a, b):
    """The product of two dual numbers, with absolute zero."""

    def emit(context, builder, sig, args):
        (p, s), (q, t) = (parts(context, builder, dual, x) for x in args)
        zero = builder.fcmp_ordered("==", p, p.type(0.0)), builder.fcmp_ordered("==", q, q.type(0.0))
        value = builder.select(builder.or_(*zero), p.type(0.0), builder.fmul(p, q))
        sides = [absolute_product(builder, tangent, splat(builder, x, dual.lanes)) for tangent, x in ((s, q), (t, p))]
        return build(context, builder, dual, value, builder.fadd(*sides))

    dual = a if isinstance(a, DualType) else b
    return dual(dual, dual), emit


def _expanded(expr, named):
    """An expression with composed operations expanded, but those that are rows: these have the derivatives of the row at kinks of the composition."""
    if expr.op in ("arg", "const"):
        return expr
    args = [_expanded(operand, named) for operand in expr.args]
    return _expanded(COMPOSED[expr.op](*args), named) if expr.op in COMPOSED and expr.op not in named else Expr(expr.op, tuple(args))


def _text(expr, leaves, scope):
    """An expression of the rules' language as text."""
    # Functions of dual numbers by the operation that they are.
    named = {row: function for function, row in (ADDED | UFUNCS | FUNCTIONS).items()} | {"isnan": np.isnan}

    def spelled(op):
        if op in named:
            scope[op] = named[op]
        elif op not in _FORMS:
            raise UnsupportedInNumbaError(f"a second derivative needs {op}, which compiled code does not have for dual numbers; use tg.hvp.")
        return _FORMS.get(op)

    return written(_expanded(expr, named), lambda operand: f"x{leaves.index(operand)}", spelled)


def _of_duals(expr, leaves, names, absolute):
    """Text and names of `contribution` for dual numbers."""
    scope = {"inf": np.inf, "nan": np.nan, "times": times}
    product = f"w * ({_text(expr, leaves, scope)})" if plain(expr) and not absolute else f"times(w, {_text(expr, leaves, scope)})"
    return f"def dual({', '.join(names)}):\n    return {'total + ' * ('total' in names)}{product}\n", scope


# ---- adjoints of scalars ------------------------------------------------------------------------
_CONTRIBUTIONS = {}


def contribution(expr, leaves, accumulates, absolute):
    """Function ``w, leaves... -> w * partial``, or ``sum, w, leaves... -> sum + w * partial``; zero is absolute (`scalars`); if `absolute`, beside NaN too."""
    absolute = absolute and not expr.is_const
    key = (expr.key(), accumulates, absolute)
    if key not in _CONTRIBUTIONS:

        def emit(context, builder, sig, args):
            total = args[0] if accumulates else None
            w, *values = args[accumulates:]
            values = dict(zip(leaves, values))
            if expr.is_const and expr.args[0] in (1.0, -1.0):
                if total is None:
                    return w if expr.args[0] == 1.0 else builder.fneg(w)
                return (builder.fadd if expr.args[0] == 1.0 else builder.fsub)(total, w, flags=("nsz",))
            partial = Emitter(builder, values.__getitem__).number(expr)
            zero = F64(0.0)
            if plain(expr):
                partial = builder.select(builder.fcmp_ordered("==", w, zero), zero, partial) if absolute else partial
                return builder.fmul(w, partial) if total is None else _fused(builder, w, partial, total)
            nothing = builder.or_(builder.fcmp_ordered("==", w, zero), builder.fcmp_ordered("==", partial, zero))
            product = builder.select(nothing, zero, builder.fmul(w, partial))
            return product if total is None else builder.fadd(total, product, flags=("nsz",))

        names = [*(["total"] if accumulates else []), "w", *[f"x{k}" for k in range(len(leaves))]]
        _CONTRIBUTIONS[key] = _of_adjoints(names, emit, lambda: _of_duals(expr, leaves, names, absolute))
    return _CONTRIBUTIONS[key]


def _of_adjoints(names, emit, duals):
    """An intrinsic of numbers: `emit` for floats, what `duals` says if there are dual numbers among them."""

    def typed(typingctx, tys):
        dual = common_dual(*tys)
        if dual is None:
            return types.float64(*[types.float64] * len(tys)), emit
        text, scope = duals()
        function = numba.njit(error_model="numpy", **INNER)(defined(text, "dual", scope))
        return dual(*[dual] * len(tys)), lambda context, builder, sig, args: emit_call(context, builder, function, call_of(function, sig.args)[1], args)

    return _intrinsic(names, typed)


def _fused(builder, a, b, c):
    function = builder.module.declare_intrinsic("llvm.fmuladd", [F64], ir.FunctionType(F64, [F64] * 3))
    return builder.call(function, [a, b, c])


def _quotient(context, builder, sig, args):
    w, y = args
    return builder.select(builder.fcmp_ordered("==", w, F64(0.0)), F64(0.0), builder.fdiv(w, y))


#: Sum of two adjoints; the sign of zero does not matter, so adding to a zero costs nothing.
plus = _of_adjoints("ab", lambda context, builder, sig, args: builder.fadd(*args, flags=("nsz",)), lambda: ("def dual(a, b):\n    return a + b\n", {}))
#: ``w / y``, zero where w is.
quotient = _of_adjoints("wy", _quotient, lambda: ("def dual(w, y):\n    return times(w, 1.0 / y)\n", {"times": times}))

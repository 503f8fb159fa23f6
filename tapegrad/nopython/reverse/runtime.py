"""What generated code calls: memory of one call, and contributions to adjoints.

A call works in an *arena*: a stack, to which loops push what the reverse sweep will read of a turn, and chunks, in which the
arrays of adjoints lie.  Arenas are given back to a pool in the module that used them, also when an exception passes, and serve the
next call: fresh pages from the system would cost more than the sweeps that write into them.
"""

from __future__ import annotations

import math
from functools import cache

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from ...codegen.emit import Emitter
from ...codegen.numba_inside import (
    INNER,
    call_of,
    cgutils,
    emit_caught,
    emit_raise,
    impl_ret_borrowed,
    populate_array,
    target_context,
)
from ...common.errors import OptionError
from ..scalars import plain
from ..types import F64, I32, I64, common_dual
from .second import called, contribution_text, times

I8P = ir.IntType(8).as_pointer()
#: base and capacity of the stack; newest chunk, bytes used of it, its size; where in the stack the newest array is; most bytes of the stack
ARENA = ir.LiteralStructType([I8P, I64, I8P, I64, I64, I64, I64]).as_pointer()
#: base, bytes used and capacity of the stack, which LLVM holds in registers; the arena; bytes of arrays since the last `mark`
STACK = ir.LiteralStructType([I8P, I64, I64, ARENA, I64]).as_pointer()
#: How many arenas wait for the next call of one function, and how large one may be to wait.
WAITING, LARGEST = 8, 1 << 28
#: Bytes at the start of a chunk: the address of the one before it.
HEAD = 64


class ArenaType(types.Type):
    def __init__(self):
        super().__init__("Arena")


class StackType(types.Type):
    def __init__(self):
        super().__init__("Stack")


arena_type, stack_type = ArenaType(), StackType()


@register_model(ArenaType)
class _ArenaModel(models.PrimitiveModel):
    def __init__(self, manager, ty):
        super().__init__(manager, ty, ARENA)


@register_model(StackType)
class _StackModel(models.PrimitiveModel):
    def __init__(self, manager, ty):
        super().__init__(manager, ty, STACK)


def _field(builder, record, k):
    return cgutils.gep_inbounds(builder, record, 0, k)


def _allocate(context, builder, size):
    """Memory; an exception if there is none."""
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(I8P, [I64]), "NRT_Allocate")
    memory = builder.call(function, [size])
    with builder.if_then(cgutils.is_null(builder, memory), likely=False):
        context.call_conv.return_user_exc(builder, MemoryError, ("no memory for the reverse sweep",))
    return memory


def _free(builder, pointer):
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), [I8P]), "NRT_Free")
    builder.call(function, [pointer])


# ---- the arena -----------------------------------------------------------------------------------
def _pool(builder):
    kind = ir.ArrayType(I64, WAITING)
    name = "tapegrad_reverse_arenas"
    if name not in builder.module.globals:
        pool = ir.GlobalVariable(builder.module, kind, name)
        pool.linkage, pool.initializer = "internal", ir.Constant(kind, None)
    return builder.module.globals[name]


def _take(context, builder):
    """An arena that waits in the pool, or a new one."""
    pool, place = _pool(builder), cgutils.alloca_once_value(builder, I64(0))
    for k in range(WAITING):
        with builder.if_then(builder.icmp_unsigned("==", builder.load(place), I64(0))):
            slot = builder.gep(pool, [I64(0), I64(k)])
            builder.store(builder.atomic_rmw("xchg", slot, I64(0), "acquire"), place)
    with builder.if_then(builder.icmp_unsigned("==", builder.load(place), I64(0)), likely=False):
        size = 8 * len(ARENA.pointee.elements)
        record = _allocate(context, builder, I64(size))
        cgutils.memset(builder, record, I64(size), 0)
        builder.store(builder.ptrtoint(record, I64), place)
    arena = builder.inttoptr(builder.load(place), ARENA)
    builder.store(I64(0), _field(builder, arena, 6))
    return arena


def _give_back(builder, arena):
    """Into the pool; all chunks but the newest, which is the largest, are freed, and what is too large to wait."""
    stack, capacity, chunk, used, size = (_field(builder, arena, k) for k in range(5))
    newest = builder.load(chunk)
    with builder.if_then(cgutils.is_not_null(builder, newest)):
        before = builder.bitcast(newest, I8P.as_pointer())
        _free_list(builder, builder.load(before))
        builder.store(ir.Constant(I8P, None), before)
    builder.store(I64(HEAD), used)
    held = builder.add(builder.load(capacity), builder.load(size))
    with builder.if_then(builder.icmp_signed(">", held, I64(LARGEST)), likely=False):
        _free(builder, newest)
        _free(builder, builder.load(stack))
        builder.store(ir.Constant(ARENA.pointee, None), arena)
    place = cgutils.alloca_once_value(builder, builder.ptrtoint(arena, I64))
    for k in range(WAITING):  # what lay in a slot moves on to the next one
        with builder.if_then(builder.icmp_unsigned("!=", builder.load(place), I64(0))):
            slot = builder.gep(_pool(builder), [I64(0), I64(k)])
            builder.store(builder.atomic_rmw("xchg", slot, builder.load(place), "acq_rel"), place)
    with builder.if_then(builder.icmp_unsigned("!=", builder.load(place), I64(0)), likely=False):
        last = builder.inttoptr(builder.load(place), ARENA)
        _free(builder, builder.load(_field(builder, last, 2)))
        _free(builder, builder.load(_field(builder, last, 0)))
        _free(builder, builder.bitcast(last, I8P))


def _free_list(builder, first, last=None):
    """Free chunks, each of which begins with the address of the one before it, as far as `last`, which stays."""
    last = ir.Constant(I8P, None) if last is None else last
    start = builder.block
    test, body, end = (builder.append_basic_block(f"chunks.{part}") for part in ("test", "body", "end"))
    builder.branch(test)
    builder.position_at_end(test)
    each = builder.phi(I8P)
    each.add_incoming(first, start)
    builder.cbranch(builder.icmp_unsigned("==", each, last), end, body)
    builder.position_at_end(body)
    before = builder.load(builder.bitcast(each, I8P.as_pointer()))
    _free(builder, each)
    each.add_incoming(before, body)
    builder.branch(test)
    builder.position_at_end(end)


def _forget_frames(context, builder, arena, down_to):
    """Let go of the arrays that frames above a place still hold; each is kept after the address of the one before it."""
    base, last = builder.load(_field(builder, arena, 0)), _field(builder, arena, 5)
    test, body, end = (builder.append_basic_block(f"frames.{part}") for part in ("test", "body", "end"))
    builder.branch(test)
    builder.position_at_end(test)
    each = builder.load(last)
    builder.cbranch(builder.icmp_signed("<=", each, down_to), end, body)
    builder.position_at_end(body)
    place = builder.bitcast(builder.gep(base, [each]), I64.as_pointer())
    builder.store(builder.load(builder.gep(place, [I64(-1)])), last)
    context.nrt.decref(builder, types.MemInfoPointer(types.uint8), builder.inttoptr(builder.load(place), I8P))
    builder.branch(test)
    builder.position_at_end(end)


def caught(dispatcher, count, arena=False):
    """Function of `count` arguments that calls `dispatcher` and returns ``(result, code, information)``, an exception told by numbers.

    Compiled code does not let go of what it holds when an exception passes: `raised` raises it where nothing is held.
    With `arena`, an arena is the first argument of `dispatcher`, and is given back; the most bytes that its stack had come last.
    """

    def typed(typingctx, arguments):
        first = (arena_type,) if arena else ()
        sig = call_of(dispatcher, (*first, *arguments), typingctx)[1]

        def emit(context, builder, made, args):
            values = [context.cast(builder, v, ty, want) for v, ty, want in zip(args, arguments, sig.args[len(first):])]
            taken = [_take(context, builder) for _ in first]
            status, value = emit_caught(context, builder, dispatcher, sig, [*taken, *values])
            peaks = [builder.load(_field(builder, each, 6)) for each in taken]
            for each in taken:
                _forget_frames(context, builder, each, I64(0))
                _give_back(builder, each)
            code = builder.select(status.is_error, builder.sext(status.code, I64), I64(0))
            return context.make_tuple(builder, made.return_type, [value, code, builder.ptrtoint(status.excinfoptr, I64), *peaks])

        return types.Tuple((sig.return_type, *[types.int64] * (3 if arena else 2)))(*arguments), emit

    names = ", ".join(f"a{k}" for k in range(count))
    scope = {"typed": typed}
    exec(f"def call(typingctx, {names}):\n    return typed(typingctx, ({names},))\n", scope)
    return intrinsic(scope["call"])


@intrinsic
def raised(typingctx, outcome):
    """The result of what `caught` has told of, or its exception."""

    def emit(context, builder, sig, args):
        value, code, information = cgutils.unpack_tuple(builder, args[0])
        with builder.if_then(builder.icmp_signed("!=", code, I64(0)), likely=False):
            context.nrt.decref(builder, outcome, args[0])
            emit_raise(context, builder, builder.trunc(code, I32), information)
        return impl_ret_borrowed(context, builder, sig.return_type, value)

    return outcome[0](outcome), emit


@intrinsic
def shadow_like(typingctx, stack, a):
    """An array of zeros in the arena, shaped and laid out like an array that owns its memory."""
    ty = a.copy(readonly=False)

    def emit(context, builder, sig, args):
        arena = builder.load(_field(builder, args[0], 3))
        source = context.make_array(a)(context, builder, value=args[1])
        count = builder.mul(source.nitems, source.itemsize)
        size = builder.and_(builder.add(count, I64(63)), I64(-64))
        held = _field(builder, args[0], 4)
        builder.store(builder.add(builder.load(held), size), held)
        chunk, used, capacity = (_field(builder, arena, k) for k in (2, 3, 4))
        with builder.if_then(builder.icmp_signed(">", builder.add(builder.load(used), size), builder.load(capacity)), likely=False):
            larger = builder.add(builder.shl(builder.load(capacity), I64(1)), builder.add(size, I64(4096)))
            fresh = _allocate(context, builder, larger)
            builder.store(builder.load(chunk), builder.bitcast(fresh, I8P.as_pointer()))
            builder.store(fresh, chunk)
            builder.store(I64(HEAD), used)
            builder.store(larger, capacity)
        place = builder.load(used)
        builder.store(builder.add(place, size), used)
        data = builder.gep(builder.load(chunk), [place])
        cgutils.memset(builder, data, count, 0)
        shadow = context.make_array(ty)(context, builder)
        populate_array(
            shadow, builder.bitcast(data, shadow.data.type), cgutils.unpack_tuple(builder, source.shape, a.ndim),
            cgutils.unpack_tuple(builder, source.strides, a.ndim), source.itemsize, None,
        )  # fmt: skip
        return shadow._getvalue()

    return ty(stack_type, a), emit


# ---- the stack ------------------------------------------------------------------------------------
@intrinsic
def new_stack(typingctx, arena):
    def emit(context, builder, sig, args):
        stack = cgutils.alloca_once(builder, STACK.pointee, zfill=True)
        for k in (0, 1):
            builder.store(builder.load(_field(builder, args[0], k)), _field(builder, stack, 2 * k))
        builder.store(args[0], _field(builder, stack, 3))
        return stack

    return stack_type(arena_type), emit


@intrinsic
def reserve(typingctx, stack, count, size):
    """Make room for `count` times `size` more bytes."""

    def emit(context, builder, sig, args):
        stack, count, size = args
        base, used, capacity = (_field(builder, stack, k) for k in range(3))
        endless = builder.icmp_unsigned(">", count, I64(1 << 40))  # (the product might overflow; no memory is that large)
        size = builder.select(endless, I64(1 << 60), builder.mul(count, size))
        needed = builder.add(builder.load(used), size)
        with builder.if_then(builder.icmp_signed(">", needed, builder.load(capacity)), likely=False):
            larger = builder.add(builder.add(needed, builder.load(capacity)), I64(4096))
            fresh = _allocate(context, builder, larger)
            cgutils.raw_memcpy(builder, fresh, builder.load(base), builder.load(used), 1)
            _free(builder, builder.load(base))
            arena = builder.load(_field(builder, stack, 3))
            for value, *cells in ((fresh, base, _field(builder, arena, 0)), (larger, capacity, _field(builder, arena, 1))):
                for cell in cells:
                    builder.store(value, cell)
        return context.get_dummy_value()

    return types.none(stack, types.int64, types.int64), emit


@intrinsic
def note(typingctx, stack):
    """Remember how large the stack is, if it was never larger."""

    def emit(context, builder, sig, args):
        used, most = builder.load(_field(builder, args[0], 1)), _field(builder, builder.load(_field(builder, args[0], 3)), 6)
        before = builder.load(most)
        builder.store(builder.select(builder.icmp_signed(">", used, before), used, before), most)
        return context.get_dummy_value()

    return types.none(stack), emit


# ---- segments of a loop ---------------------------------------------------------------------------
@intrinsic
def mark(typingctx, stack):
    """Where the stack and the shadows end now: `usage` counts from here, and `back_to` returns here."""

    def emit(context, builder, sig, args):
        arena = builder.load(_field(builder, args[0], 3))
        builder.store(I64(0), _field(builder, args[0], 4))
        chunk = builder.ptrtoint(builder.load(_field(builder, arena, 2)), I64)
        return context.make_tuple(builder, sig.return_type, [builder.load(_field(builder, args[0], 1)), chunk, builder.load(_field(builder, arena, 3))])

    return types.UniTuple(types.int64, 3)(stack), emit


@intrinsic
def usage(typingctx, stack, mark):
    """Bytes of frames, shadows and arrays in frames since a mark."""

    def emit(context, builder, sig, args):
        used, held = (builder.load(_field(builder, args[0], k)) for k in (1, 4))
        return builder.add(builder.sub(used, builder.extract_value(args[1], 0)), held)

    return types.int64(stack, mark), emit


@intrinsic
def hold(typingctx, stack, size):
    """Count an array in a frame."""

    def emit(context, builder, sig, args):
        held = _field(builder, args[0], 4)
        builder.store(builder.add(builder.load(held), args[1]), held)
        return context.get_dummy_value()

    return types.none(stack, types.int64), emit


@intrinsic
def back_to(typingctx, stack, mark):
    """Forget the frames and shadows that came after a mark."""

    def emit(context, builder, sig, args):
        used, arena = _field(builder, args[0], 1), builder.load(_field(builder, args[0], 3))
        chunk, place = _field(builder, arena, 2), _field(builder, arena, 3)
        base, before, end = cgutils.unpack_tuple(builder, args[1])
        _forget_frames(context, builder, arena, base)
        top, newest, before = builder.load(used), builder.load(chunk), builder.inttoptr(before, I8P)
        builder.store(builder.select(builder.icmp_signed("<", top, base), top, base), used)
        builder.store(end, place)
        with builder.if_then(builder.icmp_unsigned("!=", newest, before), likely=False):
            link = builder.bitcast(newest, I8P.as_pointer())
            _free_list(builder, builder.load(link), before)
            builder.store(before, link)
            builder.store(I64(HEAD), place)
        builder.store(I64(0), _field(builder, args[0], 4))
        return context.get_dummy_value()

    return types.none(stack, mark), emit


@numba.njit(**INNER)
def full(usage, limit, turn, stop):
    """Whether a segment ends."""
    return usage > limit or turn == stop


@numba.njit(**INNER)
def affordable(count, size, loops, memory, segment, turns, all_turns):
    """Raise if so many checkpoints of so many bytes take more than half of `memory`, a share of `loops`, with segments of these bytes and turns."""
    if count * size > memory // (2 * loops):
        least = int(2.1 * math.sqrt(float(size) * segment / turns * max(all_turns, 2 * count * turns))) + 2 * (size + segment // turns) + 1
        raise OptionError(
            "memory=" + str(memory) + " is too little: of the share of each outermost loop half keeps what some turns start from, "
            + "half is for the turns in between; give memory=" + str(loops * least) + " or more"
        )  # fmt: skip


def _hidden(builder, array):
    """The same array, for LLVM another one: Numba prunes pairs of incref and decref, and cannot see the stack."""
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
        pointer = builder.gep(builder.load(_field(builder, stack, 0)), [builder.add(top, I64(offsets[k]))])
        return builder.bitcast(pointer, context.data_model_manager[tys[k]].get_data_type().as_pointer())

    def link(*where):
        return where[1].gep(where[1].bitcast(place(*where), I64.as_pointer()), [I64(-1)])

    def newest(builder, stack):
        return _field(builder, builder.load(_field(builder, stack, 3)), 5)

    @intrinsic
    def push(typingctx, stack, values):
        def emit(context, builder, sig, args):
            used = _field(builder, args[0], 1)
            top = builder.load(used)
            for k, ty in enumerate(tys):
                value, at = builder.extract_value(args[1], k), place(context, builder, args[0], k, top)
                data = context.data_model_manager[ty].as_data(builder, value)
                builder.store(data, at, align=min(8, sizes[k]))
                if k in arrays:
                    context.nrt.incref(builder, ty, _hidden(builder, value))
                    last = newest(builder, args[0])
                    builder.store(builder.load(last), link(context, builder, args[0], k, top))
                    builder.store(builder.add(top, I64(offsets[k])), last)
            builder.store(builder.add(top, I64(size)), used)
            return context.get_dummy_value()

        return types.none(stack, whole), emit

    @intrinsic
    def pop(typingctx, stack):
        def emit(context, builder, sig, args):
            used = _field(builder, args[0], 1)
            top = builder.sub(builder.load(used), I64(size))
            builder.store(top, used)
            values = []
            for k in arrays[:1]:
                builder.store(builder.load(link(context, builder, args[0], k, top)), newest(builder, args[0]))
            for k, ty in enumerate(tys):
                data = builder.load(place(context, builder, args[0], k, top), align=min(8, sizes[k]))
                value = context.data_model_manager[ty].from_data(builder, data)
                values.append(_hidden(builder, value) if k in arrays else value)
            return context.make_tuple(builder, whole, values)

        return whole(stack), emit

    return size, push, pop


@numba.njit(**INNER)
def trips(start, stop, step):
    """How often ``range(start, stop, step)`` turns."""
    if step > 0:
        return (stop - start + step - 1) // step if stop > start else 0
    return (start - stop - step - 1) // -step if stop < start else 0


@numba.njit(**INNER)
def counted(a, n):
    """How many names an array is unpacked into: as many as it has elements."""
    if len(a) != n:
        raise ValueError
    return n


# ---- adjoints of scalars ------------------------------------------------------------------------
_CONTRIBUTIONS = {}


def contribution(expr, leaves, accumulates):
    """Function ``w, leaves... -> w * partial``, or ``sum, w, leaves... -> sum + w * partial``; zero is absolute (`scalars`)."""
    key = (expr.key(), accumulates)
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
            if plain(expr):
                return builder.fmul(w, partial) if total is None else _fused(builder, w, partial, total)
            zero = F64(0.0)
            nothing = builder.or_(builder.fcmp_ordered("==", w, zero), builder.fcmp_ordered("==", partial, zero))
            product = builder.select(nothing, zero, builder.fmul(w, partial))
            return product if total is None else builder.fadd(total, product, flags=("nsz",))

        names = [*(["total"] if accumulates else []), "w", *[f"x{k}" for k in range(len(leaves))]]
        _CONTRIBUTIONS[key] = _of_adjoints(names, emit, lambda: contribution_text(expr, leaves, accumulates))
    return _CONTRIBUTIONS[key]


def _of_adjoints(names, emit, duals):
    """An intrinsic of numbers: `emit` for floats, what `duals` says if there are dual numbers among them."""

    def typed(tys):
        dual = common_dual(*tys)
        if dual is None:
            return types.float64(*[types.float64] * len(tys)), emit
        return dual(*[dual] * len(tys)), called(*duals())

    scope = {"typed": typed}
    exec(f"def add(typingctx, {', '.join(names)}):\n    return typed(({', '.join(names)},))\n", scope)
    return intrinsic(scope["add"])


def _fused(builder, a, b, c):
    function = builder.module.declare_intrinsic("llvm.fmuladd", [F64], ir.FunctionType(F64, [F64] * 3))
    return builder.call(function, [a, b, c])


def _quotient(context, builder, sig, args):
    w, y = args
    return builder.select(builder.fcmp_ordered("==", w, F64(0.0)), F64(0.0), builder.fdiv(w, y))


#: Sum of two adjoints; the sign of zero is of no interest, so adding to a zero costs nothing.
plus = _of_adjoints("ab", lambda context, builder, sig, args: builder.fadd(*args, flags=("nsz",)), lambda: ("def dual(a, b):\n    return a + b\n", {}))
#: ``w / y``, zero where w is.
quotient = _of_adjoints("wy", _quotient, lambda: ("def dual(w, y):\n    return times(w, 1.0 / y)\n", {"times": times}))

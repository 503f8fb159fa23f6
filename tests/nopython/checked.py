"""The stack of reverse mode with checks: what would be written past its end, or read before its start, raises."""

from __future__ import annotations

import functools
from contextlib import contextmanager

import numba
from numba.core import cgutils
from numba.extending import intrinsic

from tapegrad.nopython import key, request
from tapegrad.nopython.reverse import runtime

_frame = runtime.frame


@intrinsic
def held(typingctx, stack):
    """Bytes used of a stack, and its capacity."""

    def emit(context, builder, sig, args):
        return context.make_tuple(builder, sig.return_type, [builder.load(cgutils.gep_inbounds(builder, args[0], 0, k)) for k in (1, 2)])

    return numba.types.UniTuple(numba.int64, 2)(stack), emit


@functools.cache
def checked_frame(tys):
    """`runtime.frame` that raises where it would write or read outside of the stack's memory."""
    size, push, pop = _frame(tys)

    @numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)  # (there is no wrapper of dual numbers)
    def checked_push(stack, values):
        used, capacity = held(stack)
        if used + size > capacity:
            raise RuntimeError("written past the end of the stack")
        push(stack, values)

    @numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)  # (there is no wrapper of dual numbers)
    def checked_pop(stack):
        if held(stack)[0] < size:
            raise RuntimeError("read before the start of the stack")
        return pop(stack)

    return size, checked_push, checked_pop


@contextmanager
def checked():
    """What is compiled inside checks; it is neither found nor kept."""
    runtime.frame, request.digest = checked_frame, lambda *_: (None, [])
    try:
        yield
    finally:
        runtime.frame, request.digest = _frame, key.digest

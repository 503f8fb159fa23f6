"""Python's builtins and the odd functions on dual numbers; ways into and out of them.

`seeded`, `primal` and `component` make and open dual numbers in nopython code.
Functions whose derivative is zero by definition (``math.floor``, ``round``, ``np.sign``,
comparisons, ``isnan``, ``int``) read the value.
"""

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, lower_builtin, overload, register_jitable

from ..codegen.numba_inside import signature
from .scalars import register
from .types import F64, I64, DualType, build, common_dual, is_real, parts


# ---- in and out -------------------------------------------------------------------------
@intrinsic
def primal(typingctx, x):
    """Value of a dual number; real numbers as float64."""
    if not isinstance(x, DualType) and not is_real(x):
        return None

    def emit(context, builder, sig, args):
        if isinstance(sig.args[0], DualType):
            return parts(context, builder, sig.args[0], args[0])[0]
        return context.cast(builder, args[0], sig.args[0], types.float64)

    return types.float64(x), emit


@intrinsic
def component(typingctx, x, lane):
    """Tangent number `lane` of a dual number; 0 of a real number."""

    def emit(context, builder, sig, args):
        if not isinstance(x, DualType):
            return ir.Constant(F64, 0.0)
        return builder.extract_element(parts(context, builder, x, args[0])[1], args[1])

    if isinstance(x, DualType) or is_real(x):
        return types.float64(x, types.int64), emit


@intrinsic
def seeded(typingctx, token, value, lane, tangent):
    """Dual number with a tangent in one lane; in none if there is no such lane."""
    dual = token.dtype

    def emit(context, builder, sig, args):
        _, value, lane, tangent = args
        # An unsigned comparison: negative lanes are not below the count.
        inside = builder.icmp_unsigned("<", lane, ir.Constant(I64, dual.lanes))
        index = builder.select(inside, lane, ir.Constant(I64, 0))
        tangent = builder.select(inside, tangent, ir.Constant(F64, 0.0))
        zeros = ir.Constant(ir.VectorType(F64, dual.lanes), [0.0] * dual.lanes)
        return build(context, builder, dual, value, builder.insert_element(zeros, tangent, index))

    return dual(token, types.float64, types.int64, types.float64), emit


@intrinsic
def as_dual(typingctx, token, x):
    """A number as a dual number."""

    def emit(context, builder, sig, args):
        return context.cast(builder, args[1], sig.args[1], token.dtype)

    if isinstance(token, types.DType) and (x == token.dtype or is_real(x)):
        return token.dtype(token, x), emit


# ---- max and min ------------------------------------------------------------------------
def extremum_of(function):
    """`max` or `min` of a sequence, in pairs, so that ties share here too."""

    def of_items(items):
        if len(items) == 0:
            raise ValueError("max() or min() of an empty sequence")
        extreme = items[0]
        for k in range(1, len(items)):
            extreme = function(extreme, items[k])
        return extreme

    return of_items


def _register_extremum(function, name):
    """Make Numba know `max` or `min` of dual numbers: of several arguments, and of one tuple, list or vector."""
    register(function, name, function, of_arrays=False)
    of_items = register_jitable(extremum_of(function))

    @overload(function, target="cpu")
    def extremum(*items):
        if len(items) > 2 and common_dual(*items) is not None:
            return lambda *items: function(function(items[0], items[1]), *items[2:])
        (of,) = items if len(items) == 1 else (None,)
        if isinstance(of, types.BaseTuple) and len(of) > 1 and common_dual(*of) is not None:
            return lambda *items: function(*items[0])
        if isinstance(of, (types.List, types.Array)) and isinstance(of.dtype, DualType) and getattr(of, "ndim", 1) == 1:
            return lambda *items: of_items(items[0])


_register_extremum(max, "maximum")
_register_extremum(min, "minimum")


# ---- functions of the value alone -------------------------------------------------------
def _of_value(function):
    @overload(function, target="cpu")
    def read(x):
        if isinstance(x, DualType):
            return lambda x: function(primal(x))


for _function in (
    math.floor, math.ceil, math.trunc, math.isnan, math.isinf, math.isfinite, bool, int, round,
    np.isnan, np.isinf, np.isfinite, np.signbit,
):  # fmt: skip
    _of_value(_function)


overload(float, target="cpu")(lambda x: (lambda x: x) if isinstance(x, DualType) else None)


# ---- choices ----------------------------------------------------------------------------
@overload(np.where, target="cpu")
def _where(condition, x, y):
    if common_dual(x, y) is not None and is_real(condition):
        return lambda condition, x, y: x if condition else y


@overload(np.clip, target="cpu")
def _clip(a, a_min, a_max):
    if common_dual(a, a_min, a_max) is not None:

        def clip(a, a_min, a_max):
            raised = a_min if a < a_min else a
            return a_max if raised > a_max else raised

        return clip


@lower_builtin("print_item", DualType)
def _print(context, builder, sig, args):
    value = parts(context, builder, sig.args[0], args[0])[0]
    return context.get_function("print_item", signature(types.none, types.float64))(builder, [value])

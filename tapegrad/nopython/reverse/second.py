"""Contributions to adjoints that are dual numbers, as text that Numba compiles: forward over reverse.

Where the forward sweep computes with dual numbers, so does the reverse one: the value of an adjoint is the adjoint, and its tangents
are products of the Hessian.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numba.extending import intrinsic

from ...codegen.library import COMPOSED
from ...codegen.numba_inside import INNER, call_of, emit_call
from ...common.errors import UnsupportedInNumbaError
from ..scalars import FUNCTIONS, UFUNCS, absolute_product, plain, splat
from ..types import DualType, build, parts

_FORMS = {
    "add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "div": "({} / {})", "neg": "(-{})", "pow": "({} ** {})", "abs": "abs({})",
    "lt": "({} < {})", "le": "({} <= {})", "gt": "({} > {})", "ge": "({} >= {})", "eq": "({} == {})", "ne": "({} != {})",
    "and": "({} and {})", "or": "({} or {})", "not": "(not {})", "select": "({1} if {0} else {2})",
}  # fmt: skip
_NAMED = {row: function for function, row in (UFUNCS | FUNCTIONS).items()} | {"isnan": np.isnan}


@intrinsic
def times(typingctx, a, b):
    """The product of two dual numbers in which zero is absolute."""

    def emit(context, builder, sig, args):
        (p, s), (q, t) = (parts(context, builder, dual, x) for x in args)
        zero = builder.fcmp_ordered("==", p, p.type(0.0)), builder.fcmp_ordered("==", q, q.type(0.0))
        value = builder.select(builder.or_(*zero), p.type(0.0), builder.fmul(p, q))
        sides = [absolute_product(builder, tangent, splat(builder, x, dual.lanes)) for tangent, x in ((s, q), (t, p))]
        return build(context, builder, dual, value, builder.fadd(*sides))

    dual = a if isinstance(a, DualType) else b
    return dual(dual, dual), emit


def _text(expr, leaves, scope):
    """An expression of the rules' language as text."""
    if expr.op == "arg":
        return f"x{leaves.index(expr.args[0])}"
    if expr.op == "const":
        return repr(float(expr.args[0])) if math.isfinite(expr.args[0]) else f"np.{expr.args[0]}".replace("np.-", "-np.")
    if expr.op in COMPOSED:
        return _text(COMPOSED[expr.op](*expr.args), leaves, scope)
    operands = [_text(operand, leaves, scope) for operand in expr.args]
    if expr.op in _FORMS:
        return _FORMS[expr.op].format(*operands)
    if expr.op not in _NAMED:
        raise UnsupportedInNumbaError(f"a second derivative needs {expr.op}, which compiled code does not have for dual numbers; use tg.hvp.")
    scope[expr.op] = _NAMED[expr.op]
    return f"{expr.op}({', '.join(operands)})"


def contribution_text(expr, leaves, accumulates):
    """Text and names of `runtime.contribution` for dual numbers."""
    scope = {"np": np, "times": times}
    product = f"w * {_text(expr, leaves, scope)}" if plain(expr) else f"times(w, {_text(expr, leaves, scope)})"
    names = [*(["total"] if accumulates else []), "w", *[f"x{k}" for k in range(len(leaves))]]
    return f"def dual({', '.join(names)}):\n    return {'total + ' if accumulates else ''}{product}\n", scope


def called(text, scope):
    """What `intrinsic` wants of a function: emission of a call of the function `dual` of a text."""
    exec(text, scope)
    function = numba.njit(error_model="numpy", **INNER)(scope["dual"])

    def emit(context, builder, sig, args):
        return emit_call(context, builder, function, call_of(function, sig.args)[1], args)

    return emit

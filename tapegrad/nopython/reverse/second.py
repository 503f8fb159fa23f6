"""Contributions to adjoints that are dual numbers, as text that Numba compiles: forward over reverse.

Where the forward sweep computes with dual numbers, so does the reverse one: the value of an adjoint is the adjoint, and its
tangents are products of the Hessian.
"""

import numba
import numpy as np
from numba.extending import intrinsic

from ...codegen.library import COMPOSED
from ...codegen.numba_inside import INNER, call_of, emit_call
from ...common.errors import UnsupportedInNumbaError
from ...rules.lang import Expr, written
from ..scalars import FUNCTIONS, UFUNCS, absolute_product, plain, splat
from ..types import DualType, build, defined, parts

_FORMS = {"pow": "(({}) ** ({}))", "abs": "abs({})", "select": "({1} if {0} else {2})"}
_NAMED = {row: function for function, row in (UFUNCS | FUNCTIONS).items()} | {"isnan": np.isnan}


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


def _expanded(expr):
    """An expression with composed operations expanded."""
    if expr.op in ("arg", "const"):
        return expr
    args = [_expanded(operand) for operand in expr.args]
    return _expanded(COMPOSED[expr.op](*args)) if expr.op in COMPOSED else Expr(expr.op, tuple(args))


def _text(expr, leaves, scope):
    """An expression of the rules' language as text."""

    def spelled(op):
        if op in _NAMED:
            scope[op] = _NAMED[op]
        elif op not in _FORMS:
            raise UnsupportedInNumbaError(f"a second derivative needs {op}, which compiled code does not have for dual numbers; use tg.hvp.")
        return _FORMS.get(op)

    return written(_expanded(expr), lambda operand: f"x{leaves.index(operand)}", spelled)


def contribution_text(expr, leaves, accumulates):
    """Text and names of `runtime.contribution` for dual numbers."""
    scope = {"inf": np.inf, "nan": np.nan, "times": times}
    product = f"w * {_text(expr, leaves, scope)}" if plain(expr) else f"times(w, {_text(expr, leaves, scope)})"
    names = [*(["total"] if accumulates else []), "w", *[f"x{k}" for k in range(len(leaves))]]
    return f"def dual({', '.join(names)}):\n    return {'total + ' if accumulates else ''}{product}\n", scope


def called(text, scope):
    """What `intrinsic` wants of a function: emission of a call of the function `dual` of a text."""
    function = numba.njit(error_model="numpy", **INNER)(defined(text, "dual", scope))

    def emit(context, builder, sig, args):
        return emit_call(context, builder, function, call_of(function, sig.args)[1], args)

    return emit

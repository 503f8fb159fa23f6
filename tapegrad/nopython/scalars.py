"""Operations on dual numbers, made from the element-wise rows of the rules table.

The value of an operation is computed by what Numba computes it by for floats, so a
function has the same values with dual numbers as without.  The tangent comes from the
row's partial derivatives, traced as expressions and emitted beside the value; there
is no other list of derivatives.

Zero is absolute where it can matter.  A partial made of operands, results, constants,
sums, products and bounded functions is finite wherever the function is, and multiplies
plainly: one instruction for all lanes.  Any other partial (quotients, powers, roots,
logarithms) may be infinite where the function is finite; there, and where a partial
chooses (``select``, ``sign``), lanes whose tangent or partial is zero give zero.
"""

import math
import operator
from functools import cache

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import lower_builtin

from ..array.closures import partials_of
from ..codegen.emit import Emitter
from ..codegen.library import needs_symbols
from ..codegen.llvm import know_symbols
from ..codegen.numba_inside import AbstractTemplate, call_of, infer_global, npydecl, signature
from ..rules import elementwise, special  # noqa: F401  (they fill the table)
from ..rules.table import BY_FUNCTION, BY_NAME
from .types import F64, I32, DualType, build, common_dual, element, parts

#: Python's operators -> rows; the in-place forms beside them.
OPERATORS = {
    operator.add: "add", operator.sub: "subtract", operator.mul: "multiply", operator.truediv: "divide",
    operator.mod: "remainder", operator.floordiv: "floor_divide", operator.pow: "power",
    operator.neg: "negative", operator.pos: "clone", abs: "absolute",
}  # fmt: skip
IN_PLACE = {getattr(operator, f"i{f.__name__}"): f for f in OPERATORS if hasattr(operator, f"i{f.__name__}")}
COMPARISONS = {operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=", operator.eq: "==", operator.ne: "!="}

#: Functions of `math`: values of rows on numbers, but for two that Numba does not know, and others.
FUNCTIONS = {
    **{row.scalar: row.name for row in BY_NAME.values() if getattr(row.scalar, "__module__", "") == "math" and row.name not in ("cbrt", "fmod")},
    math.fabs: "absolute", math.degrees: "rad2deg", math.radians: "deg2rad", math.hypot: "hypot", math.erfc: "erfc", math.gamma: "gamma",
    math.lgamma: "lgamma", pow: "power",
}  # fmt: skip
#: NumPy's ufuncs that both Numba and the table know.
UFUNCS = {
    f: BY_FUNCTION[f].name for f in npydecl.supported_ufuncs
    if f in BY_FUNCTION and BY_FUNCTION[f].elementwise and BY_FUNCTION[f].arity <= 2
}  # fmt: skip

#: Operations of the language that are bounded or finite wherever their operands are finite.
_FINITE = {"arg", "const", "add", "sub", "mul", "neg", "sin", "cos", "tanh", "abs", "floor", "ceil", "trunc", "rint",
           "sigmoid", "hypot", "copysign", "erf", "arctan", "arctan2"}  # fmt: skip


# ---- typing -----------------------------------------------------------------------------
class DualTemplate(AbstractTemplate):
    """Dual numbers, or arrays of them, and real ones: scalars are float64 or dual; Numba fuses what is written of arrays."""

    arity, result, of_arrays = 1, None, True

    def generic(self, args, kws):
        arrays = [a for a in args if isinstance(a, types.Array)]
        dual = common_dual(*map(element, args)) if len(args) == self.arity and not kws else None
        if dual is None or arrays and not self.of_arrays:
            return None
        if not arrays:
            return signature(self.result or dual, *[self.operand(dual, k, a) for k, a in enumerate(args)])
        layout = "F" if all(a.layout == "F" for a in arrays) else "C"
        return signature(types.Array(self.result or dual, max(a.ndim for a in arrays), layout), *args)

    def operand(self, dual, k, ty):
        return dual if ty == dual else types.float64


class _Power(DualTemplate):
    """Integer exponents stay: Numba raises to them by multiplication."""

    prefer_literal = True

    def operand(self, dual, k, ty):
        if k and isinstance(types.unliteral(ty), types.Integer):
            return ty if isinstance(ty, types.Literal) else types.int64
        return super().operand(dual, k, ty)


def template(function, cls, **attributes):
    """Make Numba try a typing template for `function`, before its own ones."""
    # A template for this target is tried before those for any; NumPy's and Numba's own
    # templates may raise on a dtype they do not know instead of declining.
    cls = type(f"Dual_{getattr(function, '__name__', 'function')}", (cls,), {"metadata": {"target": "cpu"}, **attributes})
    if isinstance(function, np.ufunc):
        cls.key = function
        infer_global(function, types.Function(cls))
    else:
        infer_global(function)(cls)


# ---- emission ---------------------------------------------------------------------------
@cache
def partials(name):
    """The partial derivatives of a row as expressions over operands 0, 1, ... and the result 'z'."""
    row = BY_NAME[name]
    expressions = partials_of(row)
    for expr in expressions.values():
        needs_symbols(expr)
    know_symbols()
    return [expressions.get(k) for k in range(row.arity)]


@cache
def plain(expr):
    """Whether a partial may be multiplied plainly (see the top of this file)."""
    if expr.op not in _FINITE:
        return False
    return expr.op in ("arg", "const") or all(plain(arg) for arg in expr.args)


def splat(b, scalar, lanes):
    vector = ir.VectorType(F64, lanes)
    first = b.insert_element(ir.Constant(vector, ir.Undefined), scalar, I32(0))
    order = ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)
    return b.shuffle_vector(first, ir.Constant(vector, ir.Undefined), order)


def absolute_product(b, tangent, partial):
    zeros = ir.Constant(tangent.type, [0.0] * tangent.type.count)
    nothing = b.fcmp_ordered("==", tangent, zeros)
    flat = b.fcmp_ordered("==", partial, zeros)
    return b.select(b.or_(nothing, flat), zeros, b.fmul(tangent, partial))


def combine(builder, exprs, emitter, tangents, lanes):
    """Sum of partials times tangents; None stands for a tangent of zero."""
    total = None
    for expr, tangent in zip(exprs, tangents):
        if tangent is None or expr is None or (expr.is_const and expr.args[0] == 0.0):
            continue
        scalar = emitter.number(expr)
        partial = splat(builder, scalar, lanes)
        if not plain(expr):
            part = absolute_product(builder, tangent, partial)
            total = part if total is None else builder.fadd(total, part)
        elif total is None:
            total = builder.fmul(tangent, partial)
        else:
            function_type = ir.FunctionType(tangent.type, [tangent.type] * 3)
            name = f"llvm.fmuladd.v{lanes}f64"
            fma = builder.module.globals.get(name) or ir.Function(builder.module, function_type, name)
            total = builder.call(fma, [partial, tangent, total])
    return total


def call(context, builder, function, tys, values):
    """Call what Numba has for `function` on these types; returns value and type."""
    function_type, sig = call_of(function, tys)
    if len(sig.args) == 1 and isinstance(sig.args[0], (types.StarArgTuple, types.StarArgUniTuple)):
        values = [context.make_tuple(builder, types.Tuple(tuple(tys)), values)]
    else:
        values = [context.cast(builder, v, ty, want) for v, ty, want in zip(values, tys, sig.args)]
    return context.get_function(function_type, sig)(builder, values), sig.return_type


def lowering(function, name):
    """Lowering of `function` for dual numbers, by the partials of the row `name`, as `lower_builtin` registers it."""

    def lower(context, builder, sig, args):
        dual = sig.return_type
        values, tangents, tys = [], [], []
        for ty, arg in zip(sig.args, args):
            value, tangent = parts(context, builder, ty, arg) if ty == dual else (arg, None)
            values.append(value)
            tangents.append(tangent)
            tys.append(types.float64 if ty == dual else ty)
        z, result = call(context, builder, function, tys, values)
        z = context.cast(builder, z, result, types.float64)
        values = [context.cast(builder, v, types.unliteral(ty), types.float64) if not isinstance(ty, types.Literal)
                  else ir.Constant(F64, float(ty.literal_value)) for v, ty in zip(values, tys)]
        row = name
        if name == "power" and isinstance(tys[1], types.IntegerLiteral) and tys[1].literal_value == 2:
            row = "power2"
        emitter = Emitter(builder, lambda key: z if key == "z" else values[key])
        return build(context, builder, dual, z, combine(builder, partials(row), emitter, tangents, dual.lanes))

    return lower


def _lowered(function, lower, types_of_operands):
    for tys in types_of_operands:
        lower_builtin(function, *tys)(lower)


#: Types of the operands of an operation, by their number.
_OPERANDS = {1: [(DualType,)], 2: [(DualType, DualType), (DualType, types.Float), (types.Float, DualType)]}


def register(function, name, implementation, cls=DualTemplate, **attributes):
    """Let Numba know `function` of dual numbers, whose values `implementation` gives, by the row `name`."""
    row = BY_NAME[name]
    template(function, _Power if name == "power" else cls, arity=row.arity, **attributes)
    powers = [(DualType, types.Integer), (DualType, types.IntegerLiteral)] if name == "power" else []
    _lowered(function, lowering(implementation, name), _OPERANDS[row.arity] + powers)


def _comparison(symbol):
    def lower(context, builder, sig, args):
        values = [parts(context, builder, ty, a)[0] if isinstance(ty, DualType) else a for ty, a in zip(sig.args, args)]
        compare = builder.fcmp_unordered if symbol == "!=" else builder.fcmp_ordered
        return compare(symbol, *values)

    return lower


def _register_all():
    for function, name in (OPERATORS | UFUNCS).items():
        register(function, name, function, of_arrays=function is not abs)
    for function, base in IN_PLACE.items():
        register(function, OPERATORS[base], base, of_arrays=False)
    for function, name in FUNCTIONS.items():
        register(function, name, function, of_arrays=False)
    for function, symbol in COMPARISONS.items():
        template(function, DualTemplate, arity=2, result=types.boolean)
        _lowered(function, _comparison(symbol), _OPERANDS[2])


def _define_symbols():
    """Register loops of SciPy with LLVM: code that Numba loads from its cache may call them at once."""
    for name in FUNCTIONS.values():
        if BY_NAME[name].calls_scipy:
            partials(name)


_register_all()
_define_symbols()

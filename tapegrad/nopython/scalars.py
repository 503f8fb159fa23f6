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

`seeded`, `primal` and `component` make and open dual numbers in nopython code.
Functions whose derivative is zero by definition (``math.floor``, ``round``, ``np.sign``,
comparisons, ``isnan``, ``int``) read the value.  Functions of rows that Numba does not know are tapegrad's own (``tg.sigmoid``), and
those that a row names with ``numpy=``: their values and derivatives in compiled code follow from the row.
"""

import math
import operator
from functools import cache

import numpy as np
from llvmlite import ir
from numba import NumbaError, types
from numba.extending import intrinsic, lower_builtin, overload, register_jitable

from ..array.functions.elementwise import OF_ROW
from ..array.recorded import partials_of
from ..codegen.emit import Emitter
from ..codegen.library import needs_symbols
from ..codegen.llvm import know_symbols
from ..codegen.numba_inside import AbstractTemplate, call_of, infer_global, npydecl, refresh, signature, typing_context
from ..rules import elementwise, special  # noqa: F401  (they fill the table)
from ..rules import lang as L
from ..rules.table import BY_FUNCTION, BY_NAME, ROWS
from .types import F64, I32, I64, DualType, build, common_dual, element, is_real, parts
from .vectorized import by_loops, of_dual_arrays

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
        # Loops of SciPy are registered with LLVM: code that Numba loads from its cache may call them at once.
        if BY_NAME[name].calls_scipy:
            partials(name)
    for function, symbol in COMPARISONS.items():
        template(function, DualTemplate, arity=2, result=types.boolean)
        _lowered(function, _comparison(symbol), _OPERANDS[2])


_register_all()


# ---- Python's builtins, ways in and out ----------------------------------------------------------
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


for _function in (math.floor, math.ceil, math.trunc, math.isnan, math.isinf, math.isfinite, bool, int, round):
    _of_value(_function)


overload(float, target="cpu")(lambda x: (lambda x: x) if isinstance(x, DualType) else None)


# ---- choices ----------------------------------------------------------------------------
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


# ---- functions of rows that Numba does not know --------------------------------------------------
#: Function -> name of its row.
ADDED = {}


def is_elementwise(function):
    """Whether a function computes each element of its result from those in its place."""
    return isinstance(function, np.ufunc) or function.__hash__ is not None and function in ADDED


def add_rows():
    """Register the functions of all rows of the table with Numba."""
    before = len(ADDED)
    for row in ROWS:
        if row.elementwise and row.arity <= 2 and not row.constants and not row.calls_scipy:
            for function in (*row.numpy, *OF_ROW.get(row.name, ())):
                if function not in ADDED and function not in UFUNCS and function not in FUNCTIONS:
                    ADDED[function] = row.name
                    _add(function, row)
    if len(ADDED) > before:
        refresh()


class _NumberTemplate(DualTemplate):
    """Dual numbers and real ones, or real ones alone."""

    of_arrays = False

    def generic(self, args, kws):
        if len(args) == self.arity and not kws and all(map(is_real, args)):
            return signature(types.float64, *[types.float64] * self.arity) if self.alone else None
        return super().generic(args, kws)


def is_known(function):
    """Whether Numba has been told what a function means."""
    try:
        typing_context().resolve_value_type(function)
    except (ValueError, TypeError, NumbaError):
        return False
    return True


def _add(function, row):
    alone = not is_known(function)  # (Numba computes the values of functions that it knows)
    register(function, row.name, function, _NumberTemplate, alone=alone)
    if alone:
        lower_builtin(function, *[types.Float] * row.arity)(lambda context, builder, sig, args: Emitter(builder, args.__getitem__).number(_value(row)))

    def of_arrays(**operands):
        if alone and all(map(is_real, map(element, operands.values()))) and any(isinstance(ty, types.Array) for ty in operands.values()):
            return by_loops(function, operands, np.float64)
        return of_dual_arrays(function, **operands)

    overload(function, target="cpu")((lambda x: of_arrays(x=x)) if row.arity == 1 else (lambda x, y: of_arrays(x=x, y=y)))


def _value(row):
    """The value of a row as an expression of its operands' positions."""
    return L.Expr.lift(row.expr(*map(L.arg, range(row.arity))))

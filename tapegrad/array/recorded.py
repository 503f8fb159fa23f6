"""The rules' language (`interpreter.rule_array`) on values: arrays and numbers, with NumPy at once; tensors and dual numbers, recorded.

Who runs a rule on them does so under ``np.errstate(all="ignore")``: what is not finite is no news in a derivative.

Partial derivatives of element-wise rows are Python functions of floats, or of float64 arrays, too.  Dual numbers call them for every
operation, where running a rule through `tapegrad.interpreter.rule_array.RuleArray` would cost several times the operation itself.  They
are written out from the same traced expressions as the machine code of the sweeps.
"""

import math
from functools import cache, partial

import numpy as np

from ..common.host_functions import host_function
from ..common.registry import registry
from ..interpreter.rule_array import RuleArray, lanes_of
from ..rules import BY_NAME
from ..rules import lang as L
from ..rules.reductions import absolute_product_value
from .differentiable import Differentiable, below
from .record import apply, normalise, record_aux, trace_of, tracked
from .views import note_view

#: Names of the rules' language -> row that gives the value.
ROW_OF = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "neg": "negative", "pow": "power",
    "abs": "absolute", "mul0": "absolute_product", "select": "where",
}  # fmt: skip
#: Operations without derivative and without a row.
LOGICAL = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not, "isnan": np.isnan,
}  # fmt: skip


#: Rows that multiply.
_PRODUCTS = BY_NAME["multiply"], BY_NAME["absolute_product"]


def row_of(name):
    """The row that gives the value of an element-wise operation of the rules' language, or None."""
    return BY_NAME.get(ROW_OF.get(name, name))


def value_function(name):
    """NumPy function for an element-wise operation of the rules' language."""
    return LOGICAL.get(name) or row_of(name).value


class Recorded(RuleArray):
    """An array or number, computed with at once, or a tensor or dual number, whose operations are recorded.

    Parameters
    ----------
    a : float, ndarray, Tensor or Dual
    lanes : int, optional
        Extent of the leading axis of `a` that the rule does not see.
    """

    __slots__ = ("a", "lanes")

    def __init__(self, a, lanes=None):
        self.a = a if a.__class__ is np.ndarray or isinstance(a, Differentiable) else np.asarray(a)
        self.lanes = lanes

    @property
    def shape(self):
        return self.a.shape if self.lanes is None else self.a.shape[1:]

    @property
    def ndim(self):
        return self.a.ndim - (self.lanes is not None)

    @property
    def recorded(self):
        return isinstance(self.a, Differentiable)

    @property
    def plain(self):
        return not isinstance(self.a, Differentiable)

    @property
    def value(self):
        """What it is, as a tensor holds it, or as a tensor or dual number."""
        return self.a if isinstance(self.a, Differentiable) else normalise(self.a)

    def _call(self, name, operands, attrs=(), integer=0, compute=None):
        return Recorded(called(BY_NAME[name], [x.a for x in operands], attrs, integer, compute), self.lanes)

    def _apply(self, name, *args):
        lanes = lanes_of(args)
        if lanes is None:
            return Recorded(elementwise(name, [x.a if isinstance(x, Recorded) else x for x in args]))
        ndim = max(x.ndim for x in args if isinstance(x, Recorded))
        return Recorded(elementwise(name, [x.aligned(ndim).a if isinstance(x, Recorded) else x for x in args]), lanes)

    def constant(self, array):
        return Recorded(np.asarray(array, self.a.dtype))

    def cast(self, char):
        return self if self.a.dtype.char == char else Recorded(self.a.astype(char), self.lanes)

    def _lift(self, number):
        return number if isinstance(number, Recorded) else Recorded(number)

    def _seen(self, lanes):
        return self if self.lanes == lanes else Recorded(self.a, lanes)

    def _positions(self, index, count):
        positions = undifferentiated(index.a).reshape(-1)
        if self.lanes is not None:
            return Recorded(record_aux(_in_lanes(self.lanes, count), positions))
        # The positions of nothing may not have been kept.
        return Recorded(positions if isinstance(positions, Differentiable) else positions.astype(np.int64, copy=False))


@host_function
def _in_lanes(positions, lanes, count):
    """Flat positions in each of so many arrays of `count` elements, one behind the other."""
    return (np.arange(lanes)[:, None] * count + positions).reshape(-1)


def as_rule_takes(value, constant):
    """An operand as a rule takes it: constants without their tensor, integers and truth values as floats."""
    if isinstance(value, Differentiable):
        if tracked(value):
            return Recorded(value)
        value = value._v
    return Recorded(value if constant or type(value) is float or value.dtype.kind == "f" else value.astype(np.float64))


def _value(x):
    return x._v if isinstance(x, Differentiable) else x


def undifferentiated(x):
    """The operand where no derivative passes: a value, or the live tensor of a functional recording."""
    x = below(x)
    return x if trace_of((x,)) is not None else _value(x)


def called(row, arrays, attrs=(), integer=0, compute=None):
    """A structural row of arrays, tensors or dual numbers; `compute` as of `RuleArray._call`."""
    for a in arrays:
        if isinstance(a, Differentiable):
            break
    else:
        return row.value(*arrays, **row.keywords(attrs, integer)) if compute is None else compute(*arrays)
    value = None
    if compute is None and row.dynamic:
        compute = partial(row.value, **row.keywords(attrs, integer))
    if compute is not None:
        value = normalise(compute(*(np.asarray(_value(a)) for a in arrays)))
    result = apply(row, arrays, attrs, value, integer)
    return note_view(arrays[0], result) if row.effect == "view" else result


def elementwise(name, values):
    """An operation of the rules' language on arrays, numbers, tensors or dual numbers."""
    for v in values:
        if isinstance(v, Differentiable):
            break
    else:
        return _of_constants(value_function(name), values)
    if name in LOGICAL:
        return record_aux(value_function(name), *map(undifferentiated, values))
    row = row_of(name)
    for k in row.refused if name in L.COMPILED else ():
        if isinstance(values[k], Differentiable) and (values[k].__class__ is registry.Dual or trace_of((values[k],)) is None):
            row.refuse(k)
    if name == "select":
        values = [undifferentiated(values[0]), *values[1:]]
    return of_row(row, values)


def of_row(row, values):
    """An element-wise row of arrays, numbers, tensors or dual numbers."""
    for v in values:
        if isinstance(v, Differentiable):
            break
    else:
        return _of_constants(row.value, values)
    if row in _PRODUCTS:
        values, plain_product = _factors(values)
        row = _PRODUCTS[0] if plain_product else row
    return apply(row, values)


def _of_constants(function, values):
    """``function(*values)``; one number repeated stays that."""
    arrays = []
    for v in values:
        if v.__class__ is np.ndarray and v.ndim:
            if not uniform(v):
                return function(*values)
            arrays.append(v)
    if not arrays:
        return function(*values)
    number = function(*[v[(0,) * v.ndim] if isinstance(v, np.ndarray) and v.ndim else v for v in values])
    return np.broadcast_to(number, np.broadcast_shapes(*(v.shape for v in arrays)))


def uniform(array):
    """Whether an array is one number repeated, as its strides say."""
    return array.size > 0 and not any(array.strides)


def _factors(values):
    """The operands of a product, one of them on a tape, and whether a constant among them allows to multiply plainly.

    A number that is repeated for each element is that number.  A product with a finite number other than zero is zero only
    where the other factor is: that it is absolute makes no difference.
    """
    factors = list(values)
    for k, (v, other) in enumerate(zip(values, values[::-1])):
        if isinstance(v, Differentiable):
            continue
        if v.__class__ is float:
            # No infinity and no nan minus itself is zero.
            return factors, v != 0.0 and v - v == 0.0
        if isinstance(v, np.ndarray) and v.dtype == other.dtype and (not v.ndim or uniform(v) and v.shape == np.shape(other)):
            v = factors[k] = float(v[(0,) * v.ndim])
        if np.ndim(v) == 0 and v != 0 and np.isfinite(v):
            return factors, True
    return factors, False


# ---- partial derivatives as functions of floats, or of float64 arrays ----------------------------
#: On floats.  What Python's functions refuse (domain, overflow) raises, and the caller takes the way of arrays.
_ON_FLOATS = {
    "select": "({1} if {0} else {2})", "isnan": "({0} != {0})", "abs": "abs({})",
    **{
        name: f"math.{name}" + "({})"
        for name in "exp exp2 expm1 log log2 log10 log1p sqrt cbrt sin cos tan sinh cosh tanh erf lgamma".split()
    },
    **{f"arc{name}": f"math.a{name}" + "({})" for name in "sin cos tan sinh cosh tanh".split()},
    "pow": "math.pow({}, {})", "arctan2": "math.atan2({}, {})",
    # math.hypot has a method of its own; the absolute value of a complex number is the C library's.
    "hypot": "abs(complex({}, {}))",
    "copysign": "math.copysign({}, {})", "fmod": "math.fmod({}, {})",
    "sign": "(1.0 if {0} > 0.0 else -1.0 if {0} < 0.0 else {0} + 0.0)",
    "sigmoid": "(1.0 if {0} >= 0.0 else math.exp(-abs({0}))) / (1.0 + math.exp(-abs({0})))",
}  # fmt: skip

#: Functions that Python computes in another way than the compiled code: the last bit, or the case of infinity, may differ.
_OWN_BITS = frozenset(["lgamma"])


def _written(expression, lines, indent, *spelled):
    """Lines that compute an expression; returns the text that stands for its value."""
    names = {}

    def bind(text):
        if text not in names:
            names[text] = f"v{len(lines)}"
            lines.append(f"{indent}{names[text]} = {text}")
        return names[text]

    return L.written(expression, lambda operand: operand if operand == "z" else f"x{operand}", *spelled, bind=bind)


#: The operators of arrays: ``and`` asks for one truth value.
_OF_ARRAYS = L.OPERATORS - {"and", "or", "not"}


@cache
def partials_of(row):
    """The partial derivatives of an element-wise row as expressions of its operands' positions and ``"z"``, by position."""
    operands = [L.arg(k) for k in range(row.arity)]
    return {k: L.Expr.lift(row.partials[k](*operands, L.arg("z"))) for k in row.slots(row.arity)}


def _compiled(row, lines, **scope):
    positions = range(row.arity)
    head = f"def rule({', '.join(f'x{k}' for k in positions)}, z, {', '.join(f't{k}' for k in positions)}):"
    text, scope = "\n".join([head, "    total = None", *lines, "    return total"]), {"inf": math.inf, "nan": math.nan} | scope
    exec(compile(text, "<tapegrad rule>", "exec"), scope)
    return scope["rule"]


@cache
def tangent_on_floats(row):
    """``rule(*operands, z, *tangents)``: the tangent of a row's value on floats.

    Returns
    -------
    callable or None
        None if the row has no such form.  Tangents are floats, or arrays of several directions, or None, which is zero.
        Raises ArithmeticError or ValueError where Python's functions do, and where a partial derivative is not finite: a zero counts
        absolutely there.
    """
    if not row.elementwise or row.scalar is None or row.refused:
        return None
    lines = []
    try:
        for k, expression in partials_of(row).items():
            if not _OWN_BITS.isdisjoint(node.op for node in L.nodes(expression)):
                return None
            lines.append(f"    if t{k} is not None:")
            partial = _written(expression, lines, "        ", _ON_FLOATS.__getitem__)
            lines.append(f"        p = {partial}")
            lines.append("        if p - p != 0.0: raise ArithmeticError")
            lines.append(f"        if p != 0.0: total = t{k} * p if total is None else total + t{k} * p")
    except KeyError:
        # Of an operation that has no form on floats.
        return None
    return _compiled(row, lines, math=math)


def _product(t, p):
    """A tangent times a partial derivative, with an absolute zero."""
    # A number that is finite, and not zero, makes no zero.
    return t * p if isinstance(p, float) and p != 0.0 and p - p == 0.0 else absolute_product_value(t, p)


@cache
def tangent_on_arrays(row):
    """As `tangent_on_floats`, where operands and tangents are float64 arrays or floats; what is not finite stays so.

    What it gives may be of fewer axes than the value; who calls it ignores floating-point errors.
    """
    if not row.elementwise or row.refused:
        return None
    # (Python's numbers raise what NumPy's do not.)
    lines, scope = [f"    if x{k}.__class__ is float: x{k} = number(x{k})" for k in range(row.arity)], {"product": _product, "number": np.float64}
    for k, expression in partials_of(row).items():
        if expression.is_const and expression.args[0] == 0.0:
            continue
        lines.append(f"    if t{k} is not None:")
        partial = _written(expression, lines, "        ", "on_{}".format, _OF_ARRAYS)
        scope |= {f"on_{node.op}": value_function(node.op) for node in L.nodes(expression) if node.op not in ("arg", "const")}
        if not expression.is_const:
            part = f"product(t{k}, {partial})"
        else:
            part = {1.0: f"t{k}", -1.0: f"-t{k}"}.get(expression.args[0], f"t{k} * {partial}")
        lines.append(f"        part = {part}")
        lines.append("        total = part if total is None else total + part")
    return _compiled(row, lines, **scope)

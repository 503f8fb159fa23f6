"""Partial derivatives of element-wise rows as Python functions of floats, or of float64 arrays.

Dual numbers call them for every operation, where running a rule through
`tapegrad.interpreter.rule_array.RuleArray` would cost several times the operation itself.  They are
written out from the same traced expressions as the machine code of the sweeps.
"""

import math
from functools import cache

import numpy as np

from ..rules.lang import OPERATORS, Expr, arg, nodes, written
from ..rules.reductions import absolute_product_value
from .recorded import value_function

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

    return written(expression, lambda operand: operand if operand == "z" else f"x{operand}", *spelled, bind=bind)


#: The operators of arrays: ``and`` asks for one truth value.
_OF_ARRAYS = OPERATORS - {"and", "or", "not"}


@cache
def partials_of(row):
    """The partial derivatives of an element-wise row as expressions of its operands' positions and ``"z"``, by position."""
    operands = [arg(k) for k in range(row.arity)]
    return {k: Expr.lift(row.partials[k](*operands, arg("z"))) for k in row.slots(row.arity)}


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
            if not _OWN_BITS.isdisjoint(node.op for node in nodes(expression)):
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
        scope |= {f"on_{node.op}": value_function(node.op) for node in nodes(expression) if node.op not in ("arg", "const")}
        if not expression.is_const:
            part = f"product(t{k}, {partial})"
        else:
            part = {1.0: f"t{k}", -1.0: f"-t{k}"}.get(expression.args[0], f"t{k} * {partial}")
        lines.append(f"        part = {part}")
        lines.append("        total = part if total is None else total + part")
    return _compiled(row, lines, **scope)

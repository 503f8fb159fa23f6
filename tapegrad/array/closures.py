"""Partial derivatives of element-wise rows as Python functions of floats.

Dual numbers of scalars call them for every operation, where running a rule through
`tapegrad.interpreter.rule_array.RuleArray` would cost several times the operation itself.  They are
written out from the same traced expressions as the machine code of the sweeps.
"""

import math
from functools import cache

from ..rules.lang import Expr, arg, nodes, written

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


def _written(expression, lines, indent):
    """Lines that compute an expression; returns the text that stands for its value."""
    names = {}

    def bind(text):
        if text not in names:
            names[text] = f"v{len(lines)}"
            lines.append(f"{indent}{names[text]} = {text}")
        return names[text]

    return written(expression, lambda operand: operand if operand == "z" else f"x{operand}", _ON_FLOATS.__getitem__, bind)


@cache
def partials_of(row):
    """The partial derivatives of an element-wise row as expressions of its operands' positions and ``"z"``, by position."""
    operands = [arg(k) for k in range(row.arity)]
    return {k: Expr.lift(row.partials[k](*operands, arg("z"))) for k in row.slots(row.arity)}


def _compiled(head, lines, tail):
    text, scope = "\n".join([head, *lines, tail]), {"math": math, "inf": math.inf, "nan": math.nan}
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
    if not row.elementwise or row.scalar is None or row.constants:
        return None
    lines = ["    total = None"]
    try:
        for k, expression in partials_of(row).items():
            if not _OWN_BITS.isdisjoint(node.op for node in nodes(expression)):
                return None
            lines.append(f"    if t{k} is not None:")
            partial = _written(expression, lines, "        ")
            lines.append(f"        p = {partial}")
            lines.append("        if p - p != 0.0: raise ArithmeticError")
            lines.append(f"        if p != 0.0: total = t{k} * p if total is None else total + t{k} * p")
    except KeyError:
        # Of an operation that has no form on floats.
        return None
    positions = range(row.arity)
    head = f"def rule({', '.join(f'x{k}' for k in positions)}, z, {', '.join(f't{k}' for k in positions)}):"
    return _compiled(head, lines, "    return total")

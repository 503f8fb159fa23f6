"""Partial derivatives of element-wise rows as Python functions of floats.

Dual numbers of scalars call them for every operation, where running a rule through
`tapegrad.array.eager.Eager` would cost several times the operation itself, and the first
gradient of a short tape (`tapegrad.program.plainly`) for every instruction.  They are
written out from the same traced expressions as the machine code of the sweeps, and
give the same bits.
"""

from __future__ import annotations

import math
from functools import cache

from ..rules.lang import Expr, arg

_OPERATORS = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "div": "{} / {}", "neg": "-{}",
    "lt": "{} < {}", "le": "{} <= {}", "gt": "{} > {}", "ge": "{} >= {}", "eq": "{} == {}", "ne": "{} != {}",
}  # fmt: skip
#: On floats.  What Python's functions refuse (domain, overflow) raises, and the caller takes the way of arrays.
_ON_FLOATS = {
    **_OPERATORS, "and": "({} and {})", "or": "({} or {})", "not": "(not {})", "select": "({1} if {0} else {2})",
    "isnan": "({0} != {0})", "abs": "abs({})",
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
#: What has one result in IEEE arithmetic; NumPy computes other functions of scalars in code of its own.
_EXACT = frozenset([*_OPERATORS, "and", "or", "not", "select", "isnan", "abs", "sqrt", "floor", "ceil", "trunc", "rint"])


class _Unknown(Exception):
    """An operation that has no form on floats."""


def _written(expression, lines, indent):
    """Lines that compute an expression; returns the text that stands for its value."""
    names = {}

    def visit(node):
        if node.op == "arg":
            return node.args[0]
        if node.op == "const":
            return f"({float(node.args[0])!r})" if math.isfinite(node.args[0]) else f"float({str(node.args[0])!r})"
        key = node.key()
        if key not in names:
            operands = [visit(a) for a in node.args]
            form = _ON_FLOATS.get(node.op)
            if form is None:
                raise _Unknown(node.op)
            names[key] = f"v{len(lines)}"
            lines.append(f"{indent}{names[key]} = {form.format(*operands)}")
        return names[key]

    return visit(expression)


def _partials(row):
    """Name of each operand, and the partial derivative of each that has one, as an expression."""
    names = [f"x{k}" for k in range(row.arity)]
    operands = [arg(name) for name in (*names, "z")]
    return names, {k: Expr.lift(row.partials[k](*operands)) for k in row.slots(row.arity)}


def _compiled(head, lines, tail):
    text, scope = "\n".join([head, *lines, tail]), {"math": math}
    exec(compile(text, "<tapegrad rule>", "exec"), scope)
    return scope["rule"]


@cache
def tangent_on_floats(row):
    """``rule(*operands, z, *tangents)``: the tangent of a row's value on floats.

    Returns
    -------
    callable or None
        None if the row has no such form.  A zero tangent or partial counts
        absolutely.  Raises ArithmeticError or ValueError where Python's functions do.
    """
    if not row.elementwise or row.scalar is None or row.constants:
        return None
    names, partials = _partials(row)
    lines = ["    total = 0.0"]
    try:
        for k, expression in partials.items():
            if not _OWN_BITS.isdisjoint(_operations(expression)):
                return None
            lines.append(f"    if t{k} != 0.0:")
            partial = _written(expression, lines, "        ")
            lines.append(f"        p = {partial}")
            lines.append("        if p != 0.0:")
            lines.append(f"            total += t{k} * p")
    except _Unknown:
        return None
    head = f"def rule({', '.join(names)}, z, {', '.join(f't{k}' for k in range(row.arity))}):"
    return _compiled(head, lines, "    return total")


@cache
def adjoints_on_floats(row):
    """``rule(*operands, z, w)``: what the adjoint `w` of a row's value adds to the adjoints of its operands, on floats.

    Returns
    -------
    callable or None
        Gives a float an operand, None where nothing is added; the bits are those
        of the compiled sweep.  None if the row has no such form.  Raises
        ArithmeticError or ValueError where Python's functions do.
    """
    if not row.elementwise or row.arity > 2 or row.name in _OWN_BITS:
        return None
    names, partials = _partials(row)
    if row.scalar is None and not _operations(Expr.lift(row.expr(*map(arg, names)))) <= _EXACT:
        return None
    lines, added = [], ["None"] * row.arity
    try:
        for k, expression in partials.items():
            if not _OWN_BITS.isdisjoint(_operations(expression)):
                return None
            if not expression.is_const:
                partial = _written(expression, lines, "    ")
                lines.append(f"    p{k} = 0.0 if {partial} == 0.0 else w * {partial}")
                added[k] = f"p{k}"
            elif expression.args[0] != 0.0:
                factor = expression.args[0]
                added[k] = "w" if factor == 1.0 else "-w" if factor == -1.0 else f"w * {factor!r}"
    except _Unknown:
        return None
    return _compiled(f"def rule({', '.join(names)}, z, w):", lines, f"    return {', '.join(added)},")


def _operations(expression):
    if expression.op in ("arg", "const"):
        return set()
    return {expression.op}.union(*(_operations(a) for a in expression.args))

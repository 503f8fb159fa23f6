"""The derivative of tanh as one function.

Its rule, ``(1 / cosh(x))**2``, becomes `sech2`, which a kernel computes together with tanh
(`kernel.emit_tanh`)::

    a1 = cosh(a0)                              a1 = cosh(a0)            (nobody reads it: left to `pruning`)
    a2 = 1.0 / a1                              a2 = 1.0 / a1            (likewise)
    a3 = a2 * a2                               a3 = sech2(a0)
"""

from __future__ import annotations

from ...rules import lang as L
from .. import ir


def combine(program):
    """Replace the squares of ``1 / cosh(x)`` in `program`, in place."""
    for statement in ir.walk(program.body):
        if isinstance(statement, ir.Let):
            operand = _operand(statement)
            if operand is not None:
                statement.expr = L.Expr("sech2", (operand,))
    return program


def _operand(let):
    """The x of a value ``(1 / cosh(x))**2``, or None."""
    if let.expr.op != "mul":
        return None
    one, two = (_made(arg, let.char) for arg in let.expr.args)
    if one is not two or one.op != "div" or not (one.args[0].is_const and one.args[0].args[0] == 1.0):
        return None
    below = _made(one.args[1], let.char)
    return below.args[0] if below.op == "cosh" else None


def _made(expr, char):
    """What an operand was computed by, if in the same type."""
    while expr.op == "arg" and isinstance(expr.args[0], ir.Let) and expr.args[0].char == char:
        expr = expr.args[0].expr
    return expr

"""Statements of Numba's IR: what they read, and copies of them.  The only place that looks inside of an expression."""

from __future__ import annotations

import copy

from numba.core import ir
from numba.core.ir_utils import replace_vars_inner


def is_expr(value, op=None):
    return isinstance(value, ir.Expr) and (op is None or value.op == op)


def is_phi(s):
    return isinstance(s, ir.Assign) and is_expr(s.value, "phi")


def reads(s):
    """Names that a statement reads."""
    if isinstance(s, ir.Assign):
        if isinstance(s.value, ir.Var):
            return [s.value.name]
        return [v.name for v in s.value.list_vars()] if is_expr(s.value) else []
    return [v.name for v in s.list_vars()]


def details(expr):
    """What two expressions of the same operands may differ in."""
    return [expr.op, *(str(expr._kws[name]) for name in ("fn", "attr", "index", "immutable_fn") if name in expr._kws)]


def clone(value, table):
    """A copy of a right side, with variables exchanged: name -> Var."""
    if isinstance(value, ir.Var):
        return table.get(value.name, value)
    if not is_expr(value):
        return value
    value = copy.copy(value)
    value._kws = dict(value._kws)
    return replace_vars_inner(value, {a: b for a, b in table.items() if a != b.name})

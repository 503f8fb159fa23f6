"""Element-wise rows on float64 scalars: which have an instruction of their own, and their expressions."""

from __future__ import annotations

from . import lang as L
from .table import ROWS


def scalar_rows(special):
    """The rows that have a scalar instruction (`Row.scalar_instruction`), with or without those that call SciPy."""
    return [row for row in ROWS if row.scalar_instruction and (special or not row.calls_scipy)]


def partials(row):
    """Partials of a scalar row over operands 'x', 'y', 'z' and constant 'c'."""
    x, y, z, c = (L.arg(name) for name in "xyzc")
    if row.name == "where":
        return [("x", row.partials[1](c, x, y, z)), ("y", row.partials[2](c, x, y, z))]
    operands = (x, y)[: row.arity]
    return [(name, partial(*operands, z)) for name, partial in zip("xy", row.partials) if partial is not None]


def value(row):
    """The value of a scalar row over operands 'x', 'y' and constant 'c'."""
    x, y, c = (L.arg(name) for name in "xyc")
    if row.name == "where":
        return L.Expr.lift(row.expr(c, x, y))
    return L.Expr.lift(row.expr(*(x, y)[: row.arity]))

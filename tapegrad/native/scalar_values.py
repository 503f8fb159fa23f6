"""The scalar value switch: the values of scalar instructions, computed again at a new point.

One more direction of `native.scalars`, generated from the same rows::

    int64 values(char *records, double *words, int64 low, int64 high)

computes the value of every record from `low` to `high`, all of them scalar
instructions, from the values of its operands; `words` is not read.  The
arithmetic is that of the eager operations (IEEE, and the same libm), so a replay
at the recorded point gives the same bits.
"""

from __future__ import annotations

from functools import cache

from ..rules import lang as L
from ..tape.layout import VALUE
from .emit import F64, needs_symbols
from .llvm import machine_code
from .scalars import Switch, scalar_rows


def _value(row):
    """The value of a scalar row over operands 'x', 'y' and constant 'c'."""
    x, y, c = (L.arg(name) for name in "xyc")
    if row.name == "where":
        return L.Expr.lift(row.expr(c, x, y))
    return L.Expr.lift(row.expr(*(x, y)[: row.arity]))


class _Values(Switch):
    """No word a slot: values are read from records and written there."""

    name, down = "values", False

    def leaf(self, op):
        """There are none."""

    def enter(self):
        """Every instruction is visited."""

    def row(self, row, emitter):
        self.b.store(emitter.number(_value(row)), self.field(self.record(self.i), VALUE, F64))
        self.b.branch(self.follow)


@cache
def value_switch(special):
    """Address of the compiled switch.

    Parameters
    ----------
    special : bool
        Whether the tape has instructions of rows that call SciPy.
    """
    for row in scalar_rows(special):
        needs_symbols(_value(row))
    return machine_code(f"value switch, special={special}", lambda: str(_Values(special, 1).module()), ["values"])[0]

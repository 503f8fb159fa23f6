"""The scalar switches: every element-wise row on float64 scalars, for values and for adjoints.

Generated from the rules table as LLVM IR, compiled once, kept on disk::

    int64 values(char *records, double *words, int64 low, int64 high)
    int64 reverse(char *records, double *words, int64 high, int64 low)

Each walks the records while they are scalar instructions and returns the first
index it could not handle, or one beyond the end.  `values` computes the value of
every record again, from the values of its operands (all are scalar instructions,
`words` is not read); the arithmetic is that of the eager operations, IEEE and the
same libm, so a replay at the recorded point gives the same bits.  `reverse` goes
down with one adjoint a slot and serves ``backward()``: an instruction whose adjoint
is zero is skipped, which also makes its zero absolute.

Slot 0 stands for "no operand": its value is the record's inline constant, its
adjoint a waste bin.

Opcodes are places in the table of this process, and rows may be added to it at any time: a switch is of the rows that
there are, its key on disk names them with their opcodes and expressions, and the next row makes another switch.  At a
scalar opcode that it does not know it returns the very index it was given; the walks that call it end there
(`interpreter.program.UNKNOWN`).
"""

from __future__ import annotations

from functools import cache

from ..rules import OWN
from ..rules import lang as L
from ..rules.scalars import partials, scalar_rows, value
from ..rules.table import ROWS
from .code import machine_code
from .library import needs_symbols


@cache
def _switch(name, special, last):
    """Address of the switch that is the function `name` of its module (`codegen.switches`).

    `last` is the last row of the table, which only grows: with a row more there is another switch.
    """
    lines = []
    for row in scalar_rows(special):
        lines.append(f"{row.opcode} {row.name}")
        if row in OWN and not special:
            # Its expressions are in the sources of the package.
            continue
        for operand, expr in [("z", value(row))] if name == "values" else partials(row):
            expr = L.Expr.lift(expr)
            needs_symbols(expr)
            lines.append(f"{operand} {expr.key()}")

    def build():
        from . import switches

        return str(switches.KINDS[name](special).module())

    return machine_code("\n".join([f"{name} switch, special={special}", *lines]), build, [name])[0]


def value_switch(special):
    """Address of the switch that computes values; `special`: the tape has rows that call SciPy."""
    return _switch("values", special, ROWS[-1])


def reverse_switch(special):
    """Address of the switch of ``backward()``."""
    return _switch("reverse", special, ROWS[-1])

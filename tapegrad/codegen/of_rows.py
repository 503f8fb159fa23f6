"""Machine code of rows: loops over arrays, and the scalar switches.

A loop computes element-wise expressions over strided operands, with reductions.  It is what the loop inside a ufunc is, ``void
kernel(char **args, npy_intp *dims, npy_intp *steps, void *data)``: one loop over the innermost dimension, of extent ``dims[0]``,
with a pointer and a step in bytes for each argument (inputs, then outputs); `data` is not read.  The other dimensions are those
of the step that calls it (`interpreter.program.CALL`).

The innermost strides are also known when the kernel is made, as a *pattern* of
one letter an argument: ``c`` contiguous, ``0`` constant, ``s`` any other.  So
the inner loop of each kernel is exactly one loop, which LLVM vectorises where
it can.  An output that accumulates (``add``, ``mul``, ``max``, ``min``) and has
pattern ``0`` is kept in a register during the inner loop; sums may be
reassociated, so that they vectorise.

A scalar switch has every element-wise row on float64 scalars; there is one for values and one for adjoints.
They are generated from the rules table as LLVM IR, compiled once, and kept on disk::

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
from ..rules.table import ROWS, partials, scalar_rows, value
from .code import machine_code
from .host import vectorise_calls
from .library import needs_symbols

#: accumulation -> its identity
IDENTITY = {"add": 0.0, "mul": 1.0, "max": float("-inf"), "min": float("inf")}


_ADDRESSES: dict[str, int] = {}


class LoopSpec:
    """The computation of a loop kernel.

    Parameters
    ----------
    exprs : tuple of Expr
        One per output, over operands ``0, 1, ...`` (the inputs).
    inputs, outputs : str
        dtype characters of the arguments.
    pattern : str
        Innermost strides, inputs then outputs.
    accumulate : tuple of str or None
        Per output: None to store, or a key of `IDENTITY`.
    """

    __slots__ = ("exprs", "inputs", "outputs", "pattern", "accumulate")

    def __init__(self, exprs, inputs, outputs, pattern, accumulate):
        self.exprs, self.inputs, self.outputs = exprs, inputs, outputs
        self.pattern, self.accumulate = pattern, accumulate

    def key(self):
        """Text that identifies the kernel."""
        body = ";".join(e.key() for e in self.exprs)
        marks = ",".join(a or "store" for a in self.accumulate)
        return f"{body}|{self.inputs}->{self.outputs}|{self.pattern}|{marks}"

    def address(self):
        """Address of the kernel, compiled (or loaded) when first asked for."""
        key = self.key()
        address = _ADDRESSES.get(key)
        if address is None:
            for expr in self.exprs:
                needs_symbols(expr)

            def build():
                from .row_modules import loop_module

                return vectorise_calls(str(loop_module(self)))

            (address,) = machine_code(f"loop {key}", build, ["kernel"])
            _ADDRESSES[key] = address
        return address


@cache
def _switch(name, special, last):
    """Address of the switch that is the function `name` of its module (`codegen.row_modules`).

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
        from .row_modules import switch_module

        return str(switch_module(name, special))

    return machine_code("\n".join([f"{name} switch, special={special}", *lines]), build, [name])[0]


def value_switch(special):
    """Address of the switch that computes values; `special`: the tape has rows that call SciPy."""
    return _switch("values", special, ROWS[-1])


def reverse_switch(special):
    """Address of the switch of ``backward()``."""
    return _switch("reverse", special, ROWS[-1])

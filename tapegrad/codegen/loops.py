"""Array loops: element-wise expressions over strided operands, with reductions.

A loop kernel is what the loop inside a ufunc is, ``void kernel(char **args, npy_intp *dims, npy_intp *steps, void *data)``:
one loop over the innermost dimension, of extent ``dims[0]``, with a pointer and a step in bytes for each argument (inputs, then
outputs); `data` is not read.  The other dimensions are those of the step that calls it (`interpreter.program.CALL`).

The innermost strides are also known when the kernel is made, as a *pattern* of
one letter an argument: ``c`` contiguous, ``0`` constant, ``s`` any other.  So
the inner loop of each kernel is exactly one loop, which LLVM vectorises where
it can.  An output that accumulates (``add``, ``mul``, ``max``, ``min``) and has
pattern ``0`` is kept in a register during the inner loop; sums may be
reassociated, so that they vectorise.
"""

from __future__ import annotations

from .code import machine_code
from .library import needs_symbols
from .vector_math import vectorise_calls

#: accumulation -> its identity
IDENTITY = {"add": 0.0, "mul": 1.0, "max": float("-inf"), "min": float("inf")}


_ADDRESSES: dict[str, int] = {}


class LoopSpec:
    """What a loop kernel computes.

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
                from .loops_module import module

                return vectorise_calls(str(module(self)))

            (address,) = machine_code(f"loop {key}", build, ["kernel"])
            _ADDRESSES[key] = address
        return address

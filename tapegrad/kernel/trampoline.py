"""The entry of a kernel from nopython code: a function in Numba's calling convention, compiled with the kernel.

``entry(handle, x, g, value)`` is what `replay.entry.entry` is, for a kernel with a value and one
gradient as outputs; it needs no memory but the stack.  If the
kernel does not go through, the sweep (whose entry the handle knows) answers, or says which
guard failed.
"""

from __future__ import annotations

from llvmlite import ir

from ..native.emit import I8, I32, I64
from .emit_values import POINTER

#: Bytes of a workspace that may be on the stack.
LIMIT = 1 << 14


def emit_entry(module, kernel, nbytes, sweep, several):
    """Add ``entry`` to the module of a kernel.

    Parameters
    ----------
    module : llvmlite.ir.Module
    kernel : llvmlite.ir.Function
    nbytes : int
        Of its workspace, at most `LIMIT`.
    sweep : int
        Number of the word of the handle that has the address of the sweep's entry.
    several : bool
        Whether `x` is the address of the addresses of several inputs, not of one.
    """
    signature = ir.FunctionType(I32, [POINTER, POINTER] + [I64] * 4)
    function = ir.Function(module, signature, "entry")
    result, exception, handle, x, g, value = function.args
    b = ir.IRBuilder(function.append_basic_block("begin"))
    inputs, outputs = b.inttoptr(x, POINTER), b.bitcast(b.alloca(POINTER, 2), POINTER)
    block = b.alloca(I8, max(64, nbytes))
    block.align = 64
    workspace = b.bitcast(block, POINTER)
    if not several:
        inputs = b.bitcast(b.alloca(POINTER, 1), POINTER)
        b.store(b.inttoptr(x, POINTER), inputs)
    for k, address in enumerate((value, g)):
        b.store(b.inttoptr(address, POINTER), b.gep(outputs, [ir.Constant(I64, k)], source_etype=POINTER))
    status = b.call(kernel, [inputs, outputs, workspace])
    fine, failed = function.append_basic_block("fine"), function.append_basic_block("failed")
    b.cbranch(b.icmp_signed("==", status, ir.Constant(I64, -1)), fine, failed)
    b.position_at_end(fine)
    b.store(ir.Constant(I64, 0), result)
    b.ret(ir.Constant(I32, 0))
    b.position_at_end(failed)
    place = b.add(handle, ir.Constant(I64, 8 * sweep))
    address = b.load(b.inttoptr(place, POINTER), typ=I64)
    b.ret(b.call(b.inttoptr(address, signature.as_pointer()), list(function.args)))

"""The entry of a kernel from nopython code: a function that is compiled with the kernel.

``entry(handle, x, g, value)`` is what `program.handle.entry` is, for a kernel
with a value and one gradient as outputs; it needs no memory but the stack.  If the kernel
does not go through, the sweep (whose entry the handle knows) answers, or says which guard failed.

A caller's loop waits for this function, so the kernel's code is in it, and nowhere else: it has no
registers to save, and where the sweep has to answer it is jumped to with the arguments as they came.
Calls by the address of ``kernel`` come here too, with a handle that has no sweep (`_by_address`).
"""

from __future__ import annotations

from llvmlite import ir

from ..codegen.emit import I8, I64
from .emit_values import POINTER

#: Bytes of a workspace that may be on the stack.
LIMIT = 1 << 15

_ENTRY = ir.FunctionType(I64, [I64] * 4)
_KERNEL = ir.FunctionType(I64, [POINTER] * 3)


def emit_entry(module, main, nbytes, sweep, several):
    """Add ``entry``, and ``kernel`` that calls it, to the module of a kernel.

    Parameters
    ----------
    module : llvmlite.ir.Module
    main : llvmlite.ir.Function
        What ``kernel`` would be without an entry, but called from here only.
    nbytes : int
        Of its workspace, at most `LIMIT`.
    sweep : int
        Number of the word of the handle that has the address of the sweep's entry.
    several : bool
        Whether `x` is the address of the addresses of several inputs, not of one.
    """
    function = ir.Function(module, _ENTRY, "entry")
    function.attributes.add("noinline")
    handle, x, g, value = function.args
    b = ir.IRBuilder(function.append_basic_block("begin"))
    inputs, outputs = b.inttoptr(x, POINTER) if several else on_stack(b, I64, 1), on_stack(b, I64, 2)
    workspace = on_stack(b, I8, max(64, nbytes))
    workspace.align = 64
    if not several:
        b.store(b.inttoptr(x, POINTER), inputs)
    for k, address in enumerate((value, g)):
        b.store(b.inttoptr(address, POINTER), b.gep(outputs, [ir.Constant(I64, k)], source_etype=POINTER))
    status = b.not_(b.call(main, [inputs, outputs, workspace]))
    fine, failed, swept = (function.append_basic_block(name) for name in ("fine", "failed", "swept"))
    b.cbranch(b.icmp_signed("==", status, ir.Constant(I64, 0)), fine, failed)
    b.position_at_end(fine)
    b.ret(status)
    b.position_at_end(failed)
    word = b.add(handle, ir.Constant(I64, 8 * sweep))
    address = b.load(b.inttoptr(word, POINTER), typ=I64)
    b.cbranch(b.icmp_signed("==", address, ir.Constant(I64, 0)), fine, swept)
    b.position_at_end(swept)
    b.ret(b.call(b.inttoptr(address, _ENTRY.as_pointer()), list(function.args), tail="tail"))
    _by_address(module, function, sweep, several)


def on_stack(b, element, count):
    """Room on the stack."""
    address = b.alloca(element, count)
    # llvmlite gives it the type of a pointer to the element, which a call does not take for an opaque one.
    address.type = POINTER
    return address


def _by_address(module, entry, sweep, several):
    """``kernel(inputs, outputs, workspace)`` by the entry: what that returns is the kernel's status, with all bits inverted."""
    function = ir.Function(module, _KERNEL, "kernel")
    b = ir.IRBuilder(function.append_basic_block("begin"))
    inputs, outputs, _ = function.args
    handle = on_stack(b, I64, sweep + 1)

    def word(table, k):
        return b.gep(table, [ir.Constant(I64, k)], source_etype=I64)

    b.store(ir.Constant(I64, 0), word(handle, sweep))
    x = b.ptrtoint(inputs, I64) if several else b.load(inputs, typ=I64)
    value, g = (b.load(word(outputs, k), typ=I64) for k in range(2))
    b.ret(b.not_(b.call(entry, [b.ptrtoint(handle, I64), x, g, value])))

"""Python's numbers, lists and tuples, read in compiled code by the functions of its C API, which are called by name.

Objects are given by address.  The thread must hold the interpreter's lock, and a reference to what it reads.
"""

from __future__ import annotations

from typing import Any

from ..codegen.compile import intrinsic
from ..common.uninterrupted import Lazily, imported

ir: Any = Lazily("llvmlite.ir")

#: How the types of arguments and results are called in Numba, and their bits in LLVM (0: a double).
_BITS = {"int64": 64, "int32": 32, "float64": 0}


def _function(name, result, *arguments):
    """What an intrinsic gives for the function `name` of the C API."""
    types = imported("numba.core.types")

    def llvm(kind):
        return ir.IntType(_BITS[kind]) if _BITS[kind] else ir.DoubleType()

    def codegen(context, builder, signature, args):
        function = builder.module.globals.get(name)
        if function is None:
            function = ir.Function(builder.module, ir.FunctionType(llvm(result), [llvm(kind) for kind in arguments]), name)
        return builder.call(function, args)

    return getattr(types, result)(*(getattr(types, kind) for kind in arguments)), codegen


@intrinsic
def list_item(typingctx, objects, k):
    """The object at position `k` of a list."""
    return _function("PyList_GetItem", "int64", "int64", "int64")


@intrinsic
def tuple_item(typingctx, objects, k):
    """The object at position `k` of a tuple."""
    return _function("PyTuple_GetItem", "int64", "int64", "int64")


@intrinsic
def float_of(typingctx, number):
    """The value of a float."""
    return _function("PyFloat_AsDouble", "float64", "int64")


@intrinsic
def int_of(typingctx, number):
    """The value of an int."""
    return _function("PyLong_AsLongLong", "int64", "int64")


@intrinsic
def is_int(typingctx, thing):
    """Not 0 for what can be an index: of floats, ints and tuples the ints."""
    return _function("PyIndex_Check", "int32", "int64")


@intrinsic
def is_number(typingctx, thing):
    """Not 0 for numbers."""
    return _function("PyNumber_Check", "int32", "int64")

"""CPython's C API, for functions compiled by Numba: called by name, with objects as addresses.

Only for functions whose signature has an ``object`` (`codegen.compile.compiled`): they have the interpreter's lock, but
for what stands between `unlock` and `lock`.  What is called here is in the stable ABI.
"""

from __future__ import annotations

from typing import Any

from ..common.uninterrupted import Lazily, imported
from .compile import intrinsic

ir: Any = Lazily("llvmlite.ir")

#: ``Py_buffer``, a public structure: its size, and where things are in it.
VIEW = 80
DATA, LENGTH, AXES, FORMAT, EXTENTS = 0, 16, 36, 40, 48
#: What `get_buffer` may ask for: axes, C order and the format; C order, to be written to; an array however it lies.
READ, WRITE, STRIDED = 0x3C, 0x39, 0x18


def _function(name, result, *arguments):
    """An intrinsic that calls `name`; ``int32`` is C's int, to Numba an int64."""
    spelled = {"int64": lambda: ir.IntType(64), "int32": lambda: ir.IntType(32), "float64": lambda: ir.DoubleType(), "void": lambda: ir.VoidType()}

    def codegen(context, builder, signature, args):
        function = builder.module.globals.get(name)
        if function is None:
            function = ir.Function(builder.module, ir.FunctionType(spelled[result](), [spelled[a]() for a in arguments]), name)
        args = [builder.trunc(a, spelled[kind]()) if kind == "int32" else a for a, kind in zip(args, arguments)]
        value = builder.call(function, args)
        if result == "void":
            return context.get_dummy_value()
        return builder.sext(value, spelled["int64"]()) if result == "int32" else value

    types = imported("numba.core.types")
    of = [getattr(types, {"int32": "int64"}.get(name, name)) for name in (result, *arguments)]
    return of[0](*of[1:]), codegen


@intrinsic
def tuple_item(typingctx, items, k):
    """Item `k` of a tuple, not counted; 0 and an exception if there is none."""
    return _function("PyTuple_GetItem", "int64", "int64", "int64")


@intrinsic
def tuple_size(typingctx, items):
    """How many items a tuple has; -1 and an exception if it is none."""
    return _function("PyTuple_Size", "int64", "int64")


@intrinsic
def new_tuple(typingctx, size):
    """A tuple whose items are to be set."""
    return _function("PyTuple_New", "int64", "int64")


@intrinsic
def set_tuple_item(typingctx, items, k, item):
    """Set an item of a new tuple, which takes its reference; not 0 and an exception if that fails."""
    return _function("PyTuple_SetItem", "int32", "int64", "int64", "int64")


@intrinsic
def list_item(typingctx, items, k):
    """Item `k` of a list, not counted; 0 and an exception if there is none."""
    return _function("PyList_GetItem", "int64", "int64", "int64")


@intrinsic
def type_of(typingctx, thing):
    """The type of an object, counted."""
    return _function("PyObject_Type", "int64", "int64")


@intrinsic
def drop(typingctx, thing):
    """Give a reference back."""
    return _function("Py_DecRef", "void", "int64")


@intrinsic
def as_double(typingctx, thing):
    """The number that an object is; -1.0 and an exception if it is none."""
    return _function("PyFloat_AsDouble", "float64", "int64")


@intrinsic
def as_int(typingctx, thing):
    """The integer that an object is; -1 and an exception if it is none."""
    return _function("PyLong_AsLongLong", "int64", "int64")


@intrinsic
def is_int(typingctx, thing):
    """Not 0 for what can be an index: of floats, ints and tuples the ints."""
    return _function("PyIndex_Check", "int32", "int64")


@intrinsic
def is_number(typingctx, thing):
    """Not 0 for numbers."""
    return _function("PyNumber_Check", "int32", "int64")


@intrinsic
def bytes_address(typingctx, text):
    """Where the bytes of a bytes object are; 0 and an exception if it is none."""
    return _function("PyBytes_AsString", "int64", "int64")


@intrinsic
def bytes_size(typingctx, text):
    """How many bytes a bytes object has; -1 and an exception if it is none."""
    return _function("PyBytes_Size", "int64", "int64")


@intrinsic
def new_float(typingctx, value):
    """A Python float."""
    return _function("PyFloat_FromDouble", "int64", "float64")


@intrinsic
def new_int(typingctx, value):
    """A Python int."""
    return _function("PyLong_FromLongLong", "int64", "int64")


@intrinsic
def room_for_view(typingctx):
    """Memory for one ``Py_buffer``, until the function that asks for it returns."""

    def codegen(context, builder, signature, args):
        with builder.goto_entry_block():
            room = builder.alloca(ir.ArrayType(ir.IntType(64), VIEW // 8))
        return builder.ptrtoint(room, ir.IntType(64))

    return imported("numba.core.types").int64(), codegen


@intrinsic
def has_buffer(typingctx, thing):
    """Not 0 for arrays, and for what else has a buffer."""
    return _function("PyObject_CheckBuffer", "int32", "int64")


@intrinsic
def get_buffer(typingctx, thing, view, flags):
    """Fill the ``Py_buffer`` at `view` in; not 0 and an exception if the object is not so."""
    return _function("PyObject_GetBuffer", "int32", "int64", "int64", "int32")


@intrinsic
def release_buffer(typingctx, view):
    """Give what `get_buffer` got back."""
    return _function("PyBuffer_Release", "void", "int64")


@intrinsic
def raised(typingctx):
    """The exception that is set, not counted, or 0."""
    return _function("PyErr_Occurred", "int64")


@intrinsic
def forget(typingctx):
    """Let no exception be set."""
    return _function("PyErr_Clear", "void")


@intrinsic
def unlock(typingctx):
    """Let other threads have the interpreter; what `lock` wants."""
    return _function("PyEval_SaveThread", "int64")


@intrinsic
def lock(typingctx, thread):
    """Wait for the interpreter."""
    return _function("PyEval_RestoreThread", "void", "int64")

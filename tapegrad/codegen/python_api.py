"""CPython's C API, for functions compiled by Numba: called by name, with objects as addresses.

Only for functions whose signature has an ``object`` (`codegen.compile.compiled`): they have the interpreter's lock, but
for what stands between `unlock` and `lock`; others may ask for it (`ensure_interpreter`).  What is called here is in the stable ABI.

The address of an array is asked through the buffer protocol (`address_of` in compiled code, `data_address` from Python).
NumPy's arrays stay where they are as long as they live and are not resized, so an address is valid while a reference to the
array; no view is held meanwhile.
"""

from __future__ import annotations

from typing import Any

from ..common.uninterrupted import Lazily
from .compile import compiled, helper
from .memory import c_function, load_int, of_types

ir: Any = Lazily("llvmlite.ir")

#: ``Py_buffer``, a public structure: its size, and where things are in it.
VIEW = 80
DATA, LENGTH, AXES, FORMAT, EXTENTS = 0, 16, 36, 40, 48
#: Requests to `get_buffer`: axes, C order and the format; writable C order; an array of any layout.
READ, WRITE, STRIDED = 0x3C, 0x39, 0x18

#: Item `k` of a tuple, not counted; 0 and an exception if there is none.
tuple_item = c_function("PyTuple_GetItem", "int64", "int64", "int64")
#: The number of items of a tuple; -1 and an exception for anything else.
tuple_size = c_function("PyTuple_Size", "int64", "int64")
#: A tuple whose items are to be set.
new_tuple = c_function("PyTuple_New", "int64", "int64")
#: Set an item of a new tuple, which takes its reference; not 0 and an exception if that fails.
set_tuple_item = c_function("PyTuple_SetItem", "int32", "int64", "int64", "int64")
#: A tuple of so many things, which it counts.
tuple_of_one, tuple_of_two, tuple_of_three, tuple_of_four = (c_function("PyTuple_Pack", *["int64"] * (count + 2), fixed=1) for count in (1, 2, 3, 4))
#: Item `k` of a list, not counted; 0 and an exception if there is none.
list_item = c_function("PyList_GetItem", "int64", "int64", "int64")
#: The type of an object, counted.
type_of = c_function("PyObject_Type", "int64", "int64")
#: Take a reference, and give one back; of 0, which is no object, there is none.
keep = c_function("Py_IncRef", "void", "int64")
drop = c_function("Py_DecRef", "void", "int64")
#: The number that an object is; -1.0 and an exception if it is none.
as_double = c_function("PyFloat_AsDouble", "float64", "int64")
#: The integer that an object is; -1 and an exception if it is none.
as_int = c_function("PyLong_AsLongLong", "int64", "int64")
#: Not 0 for numbers.
is_number = c_function("PyNumber_Check", "int32", "int64")
#: The address of the bytes of a bytes object; 0 and an exception for anything else.
bytes_address = c_function("PyBytes_AsString", "int64", "int64")
#: The length of a bytes object; -1 and an exception for anything else.
bytes_size = c_function("PyBytes_Size", "int64", "int64")
#: A Python float.
new_float = c_function("PyFloat_FromDouble", "int64", "float64")
#: A Python int.
new_int = c_function("PyLong_FromLongLong", "int64", "int64")


def _ten_words(context, builder, signature, args):
    with builder.goto_entry_block():
        room = builder.alloca(ir.ArrayType(ir.IntType(64), VIEW // 8))
    return builder.ptrtoint(room, ir.IntType(64))


#: Memory for ten words, as many as a ``Py_buffer`` has, until the function that asks for it returns.
ten_words = of_types(_ten_words, "int64")
#: Not 0 for arrays, and for what else has a buffer.
has_buffer = c_function("PyObject_CheckBuffer", "int32", "int64")
#: Fill the ``Py_buffer`` at `view` in; not 0 and an exception if the object is not so.
get_buffer = c_function("PyObject_GetBuffer", "int32", "int64", "int64", "int32")
#: Give what `get_buffer` got back.
release_buffer = c_function("PyBuffer_Release", "void", "int64")
#: The exception that is set, not counted, or 0.
raised = c_function("PyErr_Occurred", "int64")
#: Whether there was an interruption: then its exception is set.
check_signals = c_function("PyErr_CheckSignals", "int32")
#: Let no exception be set.
forget = c_function("PyErr_Clear", "void")
#: Set a MemoryError; it gives 0.
no_memory = c_function("PyErr_NoMemory", "int64")
#: Set an exception of that class.
raise_class = c_function("PyErr_SetNone", "void", "int64")
#: An attribute by its name, counted; 0 and an exception if there is none.
attribute = c_function("PyObject_GetAttr", "int64", "int64", "int64")
#: Not 0 if a comparison holds, of which `EQUAL` is one; -1 and an exception if that fails.
compares = c_function("PyObject_RichCompareBool", "int32", "int64", "int64", "int32")
EQUAL = 2
#: 1 if a str has another one at its start (-1 as the last argument), between two positions; -1 and an exception if one is none.
starts_with = c_function("PyUnicode_Tailmatch", "int64", "int64", "int64", "int64", "int64", "int32")
#: What a function gives for arguments one behind the other at an address, so many by position, and a tuple of the names of the others, or 0.
call_with = c_function("PyObject_Vectorcall", "int64", "int64", "int64", "int64", "int64")
#: A new list; put something at its end, not 0 and an exception if that fails.
new_list = c_function("PyList_New", "int64", "int64")
append = c_function("PyList_Append", "int32", "int64", "int64")
#: The number of items of a list, and of a dict; an item of a dict by its key, not counted; 0, with or without an exception, if there is none.
list_size = c_function("PyList_Size", "int64", "int64")
dict_size = c_function("PyDict_Size", "int64", "int64")
dict_item = c_function("PyDict_GetItemWithError", "int64", "int64", "int64")
#: A new object of a class (whose second argument is 0), tracked by the collector; the ways to let the collector know of it or not, to
#: tell weak references of its end, and to end it.
new_object = c_function("PyType_GenericAlloc", "int64", "int64", "int64")
track = c_function("PyObject_GC_Track", "void", "int64")
untrack = c_function("PyObject_GC_UnTrack", "void", "int64")
is_tracked = c_function("PyObject_GC_IsTracked", "int32", "int64")
clear_weak = c_function("PyObject_ClearWeakRefs", "void", "int64")
delete_object = c_function("PyObject_GC_Del", "void", "int64")
#: The frame that runs, not counted, or 0; of a frame its code, counted, the offset of what it runs, and the frame that called it, counted,
#: or 0.  (Those of frames are not in the stable ABI, but public.)
running_frame = c_function("PyEval_GetFrame", "int64")
code_of = c_function("PyFrame_GetCode", "int64", "int64")
offset_of = c_function("PyFrame_GetLasti", "int32", "int64")
caller_of = c_function("PyFrame_GetBack", "int64", "int64")
#: The identity of the thread that runs, as `threading.get_ident` has it.
thread_ident = c_function("PyThread_get_thread_ident", "int64")
#: The dict of the thread that runs, which nothing outlives that is only there, not counted; or 0.
of_this_thread = c_function("PyThreadState_GetDict", "int64")
#: Whether this thread has the interpreter's lock; have it, whether it has it or not; give it back so; let a thread raise an exception of a
#: class as soon as it runs Python.
has_interpreter = c_function("PyGILState_Check", "int32")
ensure_interpreter = c_function("PyGILState_Ensure", "int32")
release_interpreter = c_function("PyGILState_Release", "void", "int32")
raise_in = c_function("PyThreadState_SetAsyncExc", "int32", "int64", "int64")
#: Let other threads have the interpreter; what `lock` wants.
unlock = c_function("PyEval_SaveThread", "int64")
#: Wait for the interpreter.
lock = c_function("PyEval_RestoreThread", "void", "int64")


@helper
def raise_later(exception):
    """Let this thread raise an exception of a class when it is back in Python."""
    state = ensure_interpreter()
    raise_in(thread_ident(), exception)
    release_interpreter(state)


@helper
def address_of(thing):
    """The address of the data of an array, or of what else has a buffer; -1 and an exception if it has none."""
    view = ten_words()
    if get_buffer(thing, view, STRIDED) != 0:
        return -1
    address = load_int(view + DATA)
    release_buffer(view)
    return address


@compiled("object(object)")
def data_address(array):
    """The address of the data of an ndarray of any layout."""
    address = address_of(array)
    return 0 if address == -1 else new_int(address)

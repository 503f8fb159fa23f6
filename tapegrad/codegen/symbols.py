"""Names of the functions outside that machine code calls.

Those of the C library, of its vectors of functions and of Python LLVM finds in the
process.  Others, SciPy's special functions and compiled functions of our own, are
`define`d before code that names them is loaded.
"""

from __future__ import annotations

import ctypes
import re

from ..common.errors import InternalError, require
from ..common.uninterrupted import imported

#: The external names that machine code may refer to: LLVM's intrinsics, functions of C and of its vectors, Python's in the stable
#: interface of 3.11, which all later versions have (as they have `PyGILState_Check`), and what is `define`d.  So code that is kept runs with
#: any version of them.
_KNOWN = re.compile(
    r"llvm\.[\w.]+|_ZGV\w+|tapegrad_\w+|malloc|calloc|free|mem(cpy|cmp|move|set)|sched_yield|SwitchToThread|fabs|floor|ceil|trunc|rint|sqrt|erf"
    r"|exp(2|10)?|expm1|log(2|10|1p)?|cbrt|a?(sin|cos|tan)h?|sincos|atan2|pow|hypot|fmod|ldexp|lgamma"
    r"|_Py_NoneStruct|Py_(Inc|Dec)Ref|PyErr_(Occurred|Clear|BadArgument|CheckSignals|NoMemory)|PyEval_(Save|Restore)Thread|PyGILState_(Ensure|Release|Check)"
    r"|PyThread_get_thread_ident|PyThreadState_(SetAsyncExc|GetDict)|PyFloat_(As|From)Double|PyLong_(As|From)LongLong|PyNumber_Check"
    r"|PyTuple_([GS]etItem|New|Pack|Size)|PyList_(GetItem|New|Append)|PyObject_(CheckBuffer|GetBuffer|Type|GetAttr|Vectorcall|RichCompareBool|ClearWeakRefs)"
    r"|PyBuffer_Release|PyBytes_(AsString|Size)|PyObject_GC_(Track|UnTrack|IsTracked|Del)|PyType_GenericAlloc|PyErr_SetNone"
    r"|PyEval_GetFrame|PyFrame_Get(Code|Lasti|Back)|PyList_Size|PyDict_(Size|GetItemWithError)|PyUnicode_Tailmatch"
)
#: File name of glibc's functions on vectors.
VECTORS = "libmvec.so.1"
#: Name -> address.
_DEFINED: dict[str, int] = {}
#: Names that LLVM has been told.
_TOLD: set[str] = set()


def define(name, address):
    """Let `name` stand for `address` in code that is loaded from now on."""
    _DEFINED[name] = address


def tell(add_symbol):
    """Tell LLVM, by its `add_symbol`, what has been defined; before it links anything."""
    for name in _DEFINED.keys() - _TOLD:
        add_symbol(name, _DEFINED[name])
        _TOLD.add(name)


def require_known(names):
    """Refuse code that refers to anything else."""
    for name in names:
        require(_KNOWN.fullmatch(name), f"machine code refers to {name!r}")


_name = ctypes.pythonapi.PyCapsule_GetName
_name.argtypes, _name.restype = [ctypes.py_object], ctypes.c_char_p
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p


def capsule(module, name, prototype=None):
    """The address of a C function that one of SciPy's Cython modules publishes.

    A function of several types has a name for each; `prototype` says which one is meant, as C declares it.
    """
    published = imported(module).__pyx_capi__
    for key in (name, *(f"__pyx_fuse_{k}{name}" for k in range(4))):
        if key in published and prototype in (None, _name(published[key]).decode()):
            return _pointer(published[key], _name(published[key]))
    raise InternalError(f"{module} has no {prototype or 'function'} {name}")

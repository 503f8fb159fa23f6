"""Functions compiled by Numba, kept as plain object code that loads without Numba.

To import Numba takes a tenth of a second, so a process that finds its compiled code
in the cache never does.  A function of plain numbers needs nothing of Numba's
runtime: its LLVM IR, with a small entry that CPython calls (`_entry`), is compiled
and kept as the kernels of rows are (`codegen.code`).

What such functions are made of, intrinsics and helpers, is `Deferred`: the Numba
object is built when a function that uses it has to be compiled.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import types
from functools import cache, cached_property
from pathlib import Path

from ..common.uninterrupted import imported

#: How many functions were compiled and loaded since import.
COUNTS = {"compiled": 0, "loaded": 0}

#: Functions made by `compiled` -> (the Python function, address of it as C calls it).
_MADE = {}

#: Variables of Numba's that say nothing about code.
_OTHERS = frozenset(["NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER"])

#: CPython's METH_FASTCALL.
_FASTCALL = 0x80


class Deferred:
    """A part of compiled functions, built when one of them is compiled.

    Parameters
    ----------
    function : callable
    build : callable
        Makes Numba's object from a function.
    """

    def __init__(self, function, build):
        self.function, self._build = function, build

    @cached_property
    def real(self):
        """The object that Numba knows."""
        return self._build(self.function)


def intrinsic(function):
    """Decorator: `numba.extending.intrinsic`, deferred."""
    return Deferred(function, lambda function: imported("numba.extending").intrinsic(function))


def helper(function, **options):
    """Decorator: a function that compiled ones call, not called from Python."""
    return Deferred(function, lambda f: imported("numba").njit(nogil=True, no_cpython_wrapper=True, _nrt=False, **options)(resolved(f)))


def inlined(function):
    """Decorator: a `helper` whose code becomes part of what calls it."""
    return helper(function, forceinline=True)


@cache
def _called(function):
    """A compiled function as one that another calls."""
    return helper(function).real


def resolved(function):
    """`function` with the Numba objects in place of what stands for them among its globals."""
    scope = dict(function.__globals__)
    for name in function.__code__.co_names:
        value = scope.get(name)
        if isinstance(value, Deferred):
            scope[name] = value.real
        elif isinstance(value, types.BuiltinFunctionType) and value in _MADE:
            scope[name] = _called(_MADE[value][0])
    made = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)
    made.__qualname__ = function.__qualname__
    return made


@cache
def _source(module):
    """Digest of the file that a module is; of the package, whose sources are in every key, nothing."""
    if module.startswith(__name__.split(".")[0] + "."):
        return ""
    return hashlib.sha256(Path(sys.modules[module].__file__).read_bytes()).hexdigest()


def compiled(signature):
    """Decorator: compile a function for one signature now, or load it.

    Parameters
    ----------
    signature : str
        A Numba signature of int64 and float64, e.g. ``"int64(int64, float64)"``;
        the result may be void.  An *object* is passed and returned as its address, without a reference that is
        counted of an argument, and with one of a result (0: an exception is set).  A function of objects has the
        interpreter's lock and gives it back by itself (`codegen.python_api`); others run without.
    """

    def decorate(function):
        from .code import machine_code

        key = f"numba {_options()} {function.__module__}.{function.__qualname__} {signature} {_source(function.__module__)}"
        built = []

        def build():
            built.append(True)
            return _module(function, signature)

        call, plain = machine_code(key, build, ["call", "plain"])
        COUNTS["compiled" if built else "loaded"] += 1
        method = _Method(function.__name__.encode(), call, _FASTCALL, (function.__doc__ or "").encode())
        # CPython's description of the function is looked at when the function goes, which may be last of all.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))
        made = _new_function(ctypes.byref(method), None, None)
        _MADE[made] = function, plain
        return made

    return decorate


def plain_address(function):
    """Address of the machine code of a function made by `compiled`, as C would call it."""
    return _MADE[function][1]


class _Method(ctypes.Structure):
    """``PyMethodDef``, a public structure of which CPython makes a function: a call takes 0.17 us, one by ``ctypes.PYFUNCTYPE`` 0.61."""

    _fields_ = [("name", ctypes.c_char_p), ("call", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.argtypes, _new_function.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p], ctypes.py_object


def _options():
    """The options that Numba is given by the environment."""
    return sorted((name, value) for name, value in os.environ.items() if name.startswith("NUMBA_") and name not in _OTHERS)


def _module(function, signature):
    """LLVM IR of a function, with `plain` for C and `call` for CPython."""
    llvm, numba = imported("llvmlite.binding"), imported("numba")
    dispatcher = numba.njit(nogil=True, _nrt=False)(resolved(function))
    dispatcher.compile(signature.replace("object", "int64"))
    (result,) = dispatcher.overloads.values()
    module = llvm.parse_assembly(result.library.get_llvm_str())
    for each in module.functions:
        if each.name == result.fndesc.llvm_func_name:
            each.name = "native"
        elif not each.is_declaration:
            # Numba's own entries, which need its runtime, and helpers: dropped when nobody calls them.
            each.linkage = "internal"
    entry = llvm.parse_assembly(_entry(signature))
    entry.triple, entry.data_layout = module.triple, module.data_layout
    module.link_in(entry)
    module.get_function("native").linkage = "internal"
    return str(module)


#: C type -> LLVM type, function that reads a Python object, function that makes one.
_NUMBERS = {
    "object": ("i64", "", ""),
    "int64": ("i64", "PyLong_AsLongLong", "PyLong_FromLongLong"),
    "float64": ("double", "PyFloat_AsDouble", "PyFloat_FromDouble"),
}


def _entry(signature):
    """IR of ``PyObject *call(PyObject *self, PyObject **args, Py_ssize_t n)``, and of ``plain(...)`` for C."""
    result, _, rest = signature.partition("(")
    arguments = [name.strip() for name in rest.rstrip(")").split(",") if name.strip()]
    kinds = [_NUMBERS[name] for name in arguments]
    out, _, make = _NUMBERS.get(result, _NUMBERS["int64"])
    used = {*kinds, *([_NUMBERS[result]] if result != "void" else [])}
    lines = [f"declare {kind} @{read}(ptr)\ndeclare ptr @{make}({kind})" for kind, read, make in sorted(used) if read]
    given = "".join(f", {kind} %a{k}" for k, (kind, *_) in enumerate(kinds))
    locked = "object" in (result, *arguments)
    lines += [
        "declare ptr @PyErr_Occurred()", "declare i32 @PyErr_BadArgument()", "declare ptr @PyEval_SaveThread()",
        f"declare i32 @native(ptr, ptr{''.join(f', {kind}' for kind, *_ in kinds)})", "declare void @PyEval_RestoreThread(ptr)",
        "declare void @Py_IncRef(ptr)", "@_Py_NoneStruct = external global i8",
        f"define {out} @plain({given[2:]}) {{", "  %result = alloca i64", "  %exception = alloca ptr",
        f"  call i32 @native(ptr %result, ptr %exception{given})", f"  %value = load {out}, ptr %result", f"  ret {out} %value", "}",
        "define ptr @call(ptr %self, ptr %args, i64 %n) {", "  %result = alloca i64", "  %exception = alloca ptr",
        f"  %good = icmp eq i64 %n, {len(kinds)}", "  br i1 %good, label %read, label %bad",
        "bad:", "  call i32 @PyErr_BadArgument()", "  ret ptr null", "read:",
    ]  # fmt: skip
    for k, (kind, read, _) in enumerate(kinds):
        value = f"call {kind} @{read}(ptr %o{k})" if read else f"ptrtoint ptr %o{k} to i64"
        lines += [f"  %p{k} = getelementptr ptr, ptr %args, i64 {k}", f"  %o{k} = load ptr, ptr %p{k}", f"  %a{k} = {value}"]
    lines += [
        "  %error = call ptr @PyErr_Occurred()", "  %fine = icmp eq ptr %error, null", "  br i1 %fine, label %run, label %raised",
        "raised:", "  ret ptr null", "run:", "" if locked else "  %thread = call ptr @PyEval_SaveThread()",
        f"  call i32 @native(ptr %result, ptr %exception{given})", "" if locked else "  call void @PyEval_RestoreThread(ptr %thread)",
    ]  # fmt: skip
    if result == "void":
        lines += ["  call void @Py_IncRef(ptr @_Py_NoneStruct)", "  ret ptr @_Py_NoneStruct", "}"]
    else:
        made = f"call ptr @{make}({out} %value)" if make else "inttoptr i64 %value to ptr"
        lines += [f"  %value = load {out}, ptr %result", f"  %made = {made}", "  ret ptr %made", "}"]
    return "\n".join(lines)

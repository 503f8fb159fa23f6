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
import inspect
import os
import sys
import types
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ..common.memory import without_collection
from ..common.native_types import MethodDef
from ..common.uninterrupted import Lazily, cached_property, imported, uninterrupted
from .symbols import define

numba: Any = Lazily("numba")

#: Functions compiled and loaded since import.
COUNTS = {"compiled": 0, "loaded": 0}

#: Functions made by `compiled` -> address as C calls it; name and signature, by which compiled functions call it.
_MADE = {}

#: Function of Numba's, types of arguments -> signature.
_RESOLVED = {}

#: Functions called so far by each function that is being lowered.
_CALLED = []

#: The functions of `inlined`.
_INLINED = set()

#: Variables of Numba's that say nothing about code.
_OTHERS = frozenset(["NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER"])

#: CPython's METH_FASTCALL.
_FASTCALL = 0x80


@cache
def inside():
    """`numba_inside`, which imports Numba."""
    with uninterrupted:
        from . import numba_inside
    return numba_inside


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
    return Deferred(function, lambda function: numba.extending.intrinsic(function))


def _better(order):
    """`min` or `max` of two numbers: Numba's own are functions that it would compile."""

    def typed(typingctx, a, b):
        kind = typingctx.unify_types(a, b)

        def codegen(context, builder, signature, args):
            first, second = (context.cast(builder, value, given, kind) for value, given in zip(args, signature.args))
            compare = builder.icmp_signed if kind in numba.types.integer_domain else builder.fcmp_ordered
            return builder.select(compare(order, second, first), second, first)

        return kind(a, b), codegen

    return intrinsic(typed)


def _number(name):
    """`int` or `float` of a number, for the same reason."""

    def typed(typingctx, a):
        kind = getattr(numba.types, name)
        return kind(a), lambda context, builder, signature, args: context.cast(builder, args[0], signature.args[0], kind)

    return intrinsic(typed)


#: Replacements of Python's own functions.
_BUILTINS = {"min": _better("<"), "max": _better(">"), "int": _number("int64"), "float": _number("float64")}


def helper(function):
    """Decorator: a function that only compiled ones call, typed and lowered once for all callers."""

    def typed(typingctx, *arguments):
        lowered = _lowered(function, arguments)

        def codegen(context, builder, signature, args):
            _CALLED[-1].append(lowered)
            return inside().emit_lowered_call(context, builder, lowered.description, signature, args)

        return lowered.result(*arguments), codegen

    own = inspect.signature(function)
    context = inspect.Parameter("typingctx", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    typed.__signature__ = own.replace(parameters=[context, *own.parameters.values()])
    return Deferred(function, lambda _: intrinsic(typed).real)


def inlined(function):
    """Decorator: a `helper` that each caller has a copy of, for where calls take as long as what they do."""
    _INLINED.add(function)
    return helper(function)


@cache
def _called(made):
    """A compiled function as one that another calls, by its name."""
    _, symbol, signature = _MADE[made]
    arguments, result = inside().normalize_signature(signature)
    return numba.types.ExternalFunction(symbol, result(*arguments))


def resolved(function):
    """`function` with the Numba objects in place of what stands for them among its globals."""
    scope = dict(function.__globals__)
    for name in function.__code__.co_names:
        value = scope.get(name, _BUILTINS.get(name))
        if isinstance(value, Deferred):
            scope[name] = value.real
        elif isinstance(value, types.BuiltinFunctionType) and value in _MADE:
            scope[name] = _called(value)
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

    return lambda function: compiled_together(function.__qualname__, {function: signature}, signature)[function][0]


def key_of(module, name, signature=""):
    """The key, as of `code.machine_code`, of a function with that signature, or of a piece of several functions."""
    return f"numba {_options()} {module}.{name} {signature} {_source(module)}"


def compiled_together(name, functions, signature=""):
    """Compile functions for one signature each, as one piece of code, or load them.

    Parameters
    ----------
    name : str
        Of the piece, in the module that the functions are of.
    functions : dict
        Function -> signature, as of `compiled`.
    signature : str
        Distinguishes pieces of one name.

    Returns
    -------
    dict
        Function -> the compiled one, and its address as C calls it.
    """
    from .code import machine_code

    (module,) = {function.__module__ for function in functions}
    key = key_of(module, name, signature)
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    symbols = [f"tapegrad_{function.__name__}_{digest}" for function in functions]
    built = []

    def build():
        built.append(True)
        return _text(dict(zip(symbols, functions.items())))

    addresses = machine_code(key, build, [f"{symbol}{ending}" for symbol in symbols for ending in ("_call", "")])
    COUNTS["compiled" if built else "loaded"] += 1
    made = {}
    for (function, signature), symbol, call, plain in zip(functions.items(), symbols, addresses[::2], addresses[1::2]):
        # (A call of what CPython makes of that takes 0.17 us, one by ``ctypes.PYFUNCTYPE`` 0.61.)
        method = MethodDef(function.__name__.encode(), call, _FASTCALL, (function.__doc__ or "").encode())
        # CPython's description of the function is looked at when the function goes, which may be last of all.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))
        builtin = _new_function(ctypes.byref(method), None, None)
        _MADE[builtin] = plain, symbol, signature.replace("object", "int64")
        define(symbol, plain)
        made[function] = builtin, plain
    return made


def plain_address(function):
    """Address of the machine code of a function made by `compiled`, as C would call it."""
    return _MADE[function][0]


_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.argtypes, _new_function.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p], ctypes.py_object


def _options():
    """The options that Numba is given by the environment."""
    return sorted((name, value) for name, value in os.environ.items() if name.startswith("NUMBA_") and name not in _OTHERS)


class _Lowered(NamedTuple):
    """A function in LLVM IR, as Numba lowers it: its own, and what it calls."""

    description: Any
    result: Any
    text: str
    called: tuple


@cache
@without_collection()  # Numba makes many objects, which stay: to search them all for garbage takes a quarter of the time.
def _lowered(function, arguments, result=None):
    """A function for arguments of these types of Numba's."""
    unliteral = numba.types.unliteral

    def resolving(resolve):
        def resolved_once(called, given, keywords):
            """The type that a call returns: resolved once for these types, whatever the constants are."""
            key = called, tuple(map(unliteral, given))
            if keywords:
                return resolve(called, given, keywords)
            if key not in _RESOLVED:
                _RESOLVED[key] = resolve(*key, {})
            return _RESOLVED[key]

        return resolved_once

    # Before the compiler asks for what is new to Numba.
    plain = resolved(function)
    _CALLED.append([])
    try:
        made = inside().lower(plain, arguments, result, resolving, function in _INLINED)
    finally:
        called = _CALLED.pop()
    return _Lowered(*made, tuple(called))


def _joined(*texts):
    """LLVM's module of the texts of several, linked into the first."""
    module, *others = map(imported("llvmlite.binding").parse_assembly, texts)
    for other in others:
        other.triple, other.data_layout = module.triple, module.data_layout
        module.link_in(other)
    return module


def in_llvm(functions):
    """LLVM's module of functions, as Numba lowers them, and of all that they call.

    Parameters
    ----------
    functions : dict
        Name, by which C and others call it -> function and signature, as of `compiled`.
    """
    symbol_of, texts, entries = inside().symbol_of, {}, ""
    for symbol, (function, signature) in functions.items():
        own = _lowered(function, *inside().normalize_signature(signature.replace("object", "int64")))
        entries += _entry(signature, symbol, symbol_of(own.description))
        waiting = [own]
        while waiting:
            lowered = waiting.pop()
            if symbol_of(lowered.description) not in texts:
                texts[symbol_of(lowered.description)] = lowered.text
                waiting += lowered.called
    module = _joined(*texts.values(), entries)
    for each in (*module.functions, *module.global_variables):
        if not each.is_declaration and each.name not in functions:
            each.linkage = "internal"
    return module


def linked_with(text, functions):
    """The text of a module with functions, as `in_llvm` takes them, linked into it; names with ``tapegrad_`` before them are its own."""
    module = _joined(text, str(in_llvm(functions)))
    for each in module.functions:
        if not each.is_declaration and each.name.startswith("tapegrad_"):
            each.linkage = "internal"
    return str(module)


def _text(functions):
    """The text of the module, with an entry for CPython to each."""
    entries = [_python_entry(signature, symbol) for symbol, (_, signature) in functions.items()]
    return str(_joined(str(in_llvm(functions)), *entries))


#: C type -> LLVM type, function that reads a Python object, function that makes one.
_NUMBERS = {
    "object": ("i64", "", ""),
    "int64": ("i64", "PyLong_AsLongLong", "PyLong_FromLongLong"),
    "float64": ("double", "PyFloat_AsDouble", "PyFloat_FromDouble"),
}


def _types(signature):
    """Result and arguments by `_NUMBERS`."""
    result, _, rest = signature.partition("(")
    arguments = [name.strip() for name in rest.rstrip(")").split(",") if name.strip()]
    return result, arguments, [_NUMBERS[name] for name in arguments], _NUMBERS.get(result, _NUMBERS["int64"])


def _entry(signature, symbol, native):
    """IR of `symbol` for C, by what Numba makes of a function."""
    _, _, kinds, (out, *_) = _types(signature)
    given = "".join(f", {kind} %a{k}" for k, (kind, *_) in enumerate(kinds))
    return (
        f"declare i32 @{native}(ptr, ptr{given})\ndefine {out} @{symbol}({given[2:]}) {{\n  %result = alloca i64\n  %exception = alloca ptr\n"
        f"  call i32 @{native}(ptr %result, ptr %exception{given})\n  %value = load {out}, ptr %result\n  ret {out} %value\n}}\n"
    )


def _python_entry(signature, symbol):
    """IR of ``PyObject *call(PyObject *self, PyObject **args, Py_ssize_t n)``, which calls `symbol`."""
    result, arguments, kinds, (out, _, make) = _types(signature)
    used = {*kinds, *([_NUMBERS[result]] if result != "void" else [])}
    lines = [f"declare {kind} @{read}(ptr)\ndeclare ptr @{make}({kind})" for kind, read, make in sorted(used) if read]
    given = ", ".join(f"{kind} %a{k}" for k, (kind, *_) in enumerate(kinds))
    locked = "object" in (result, *arguments)
    lines += [
        "declare ptr @PyErr_Occurred()", "declare i32 @PyErr_BadArgument()", "declare ptr @PyEval_SaveThread()",
        f"declare {out} @{symbol}({given})", "declare void @PyEval_RestoreThread(ptr)",
        "declare void @Py_IncRef(ptr)", "@_Py_NoneStruct = external global i8",
        f"define ptr @{symbol}_call(ptr %self, ptr %args, i64 %n) {{",
        f"  %good = icmp eq i64 %n, {len(kinds)}", "  br i1 %good, label %read, label %bad",
        "bad:", "  call i32 @PyErr_BadArgument()", "  ret ptr null", "read:",
    ]  # fmt: skip
    for k, (kind, read, _) in enumerate(kinds):
        value = f"call {kind} @{read}(ptr %o{k})" if read else f"ptrtoint ptr %o{k} to i64"
        lines += [f"  %p{k} = getelementptr ptr, ptr %args, i64 {k}", f"  %o{k} = load ptr, ptr %p{k}", f"  %a{k} = {value}"]
    lines += [
        "  %error = call ptr @PyErr_Occurred()", "  %fine = icmp eq ptr %error, null", "  br i1 %fine, label %run, label %raised",
        "raised:", "  ret ptr null", "run:", "" if locked else "  %thread = call ptr @PyEval_SaveThread()",
        f"  %value = call {out} @{symbol}({given})", "" if locked else "  call void @PyEval_RestoreThread(ptr %thread)",
    ]  # fmt: skip
    if result == "void":
        lines += ["  call void @Py_IncRef(ptr @_Py_NoneStruct)", "  ret ptr @_Py_NoneStruct", "}"]
    else:
        made = f"call ptr @{make}({out} %value)" if make else "inttoptr i64 %value to ptr"
        lines += [f"  %made = {made}", "  ret ptr %made", "}"]
    return "\n".join(lines)

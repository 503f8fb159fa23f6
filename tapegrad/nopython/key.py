"""The key of compiled code: a digest of all that Numba makes it of, or none where that cannot be said.

Numba freezes what a function reads: bytecode and constants, defaults, cells, globals, attributes of modules, and all functions that are
reached so.  `digest` goes the same way and writes down values, not objects.  What it does not know (an object of a user's class, an
address, a function that `@vectorize` has compiled) gives no key, and such code is compiled in each process anew.  Python's own modules, NumPy, Numba
and this package are known by name: their versions and sources are in every key (`codegen.code`).

Any name in a function's bytecode counts as an attribute of any module that is reached: this finds more than is read, never less.
"""

import hashlib
import os
import sys
import sysconfig
import types as python_types
from contextlib import suppress
from functools import reduce

import numpy as np
from numba import types
from numba.extending import is_jitted

from ..codegen.numba_inside import contents_of_cells, is_own, options, registered_by_others, settings
from ..rules.table import ROWS

_LIBRARIES = frozenset(["numpy", "numba", "llvmlite", "tapegrad"])
_STANDARD = tuple(os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib"))
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
#: Numba arrays below that size are constants of the code; larger ones are addresses.
_LARGEST = 1 << 20


class NoKey(Exception):
    """A value of which compiled code cannot be known by name or content."""


def digest(*values):
    """(the key of code that is made of these values, the dispatchers reached on the way); the key is None if there is none."""
    walk = _KeyWalk()
    try:
        text = repr([np.__version__, settings(), _foreign(walk), *map(walk.value, values)])
    except NoKey:
        return None, walk.reached
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), walk.reached


def content(function):
    """A digest of a user's function and all that it reads, or None; of this process only."""
    try:
        return hashlib.sha256(repr(_KeyWalk().value(function)).encode("utf-8", "surrogatepass")).hexdigest()
    except NoKey:
        return None


def _foreign(walk):
    parts = [part for row in ROWS for each in vars(row).values() for part in (each if isinstance(each, tuple) else (each,))]
    if not all(map(is_own, parts)):
        raise NoKey
    said = registered_by_others()
    if any(meaning is None for _, meaning in said):
        raise NoKey
    return [(walk.value(template.key), getattr(template, "_attr", None), walk.function(meaning)) for template, meaning in said]


def _is_library(name):
    """Whether a module is known by its name: a user's file may have the name of one of Python's."""
    if name not in sys.stdlib_module_names:
        return name in _LIBRARIES
    path = getattr(sys.modules.get(name), "__file__", None)
    return name != "__main__" and (path is None or path.startswith(_STANDARD) and "site-packages" not in path)


def codes_in(code):
    """A code object and those inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, python_types.CodeType):
            yield from codes_in(constant)


class _KeyWalk:
    """One walk over values; each object is written once."""

    def __init__(self):
        self.seen, self.reached = {}, []

    def value(self, value):
        """What stands for a value in the key."""
        kind = type(value)
        if kind in _PLAIN:
            return kind.__name__, repr(value)
        if kind in (tuple, list):
            # (A function in there is called as it is, without notice.)
            if any(is_jitted(each) or isinstance(each, python_types.FunctionType) for each in value):
                raise NoKey
            return kind.__name__, *map(self.value, value)
        if kind is dict:
            return "dict", *map(self.value, value.items())
        if kind is frozenset:
            return "frozenset", *sorted(map(repr, map(self.value, value)))
        if isinstance(value, (np.generic, np.dtype)):
            dtype = getattr(value, "dtype", value)
            if dtype.hasobject or dtype.names:
                raise NoKey
            return kind.__name__, dtype.str, "" if value is dtype else value.tobytes()
        if isinstance(value, types.Type):
            return self.type(value)
        if id(value) in self.seen:
            return "again", self.seen[id(value)][0]
        # (The object is held, so that nothing else gets its place in memory meanwhile.)
        self.seen[id(value)] = len(self.seen), value
        return self._object(value, kind)

    def _object(self, value, kind):
        if kind is np.ndarray:
            if value.dtype.hasobject or value.dtype.names or value.size > _LARGEST:
                raise NoKey
            flags = value.flags
            layout = flags.c_contiguous, flags.f_contiguous, flags.writeable, flags.aligned
            return "array", value.dtype.str, value.shape, layout, hashlib.sha256(value.tobytes()).hexdigest()
        if kind is python_types.ModuleType:
            return "module", value.__name__
        if kind is python_types.CodeType:
            return self.code(value)
        if is_jitted(value) and hasattr(value, "derivative"):
            self.reached.append(value)
            return "derivative", *map(self.value, value.derivative.meaning)
        module = getattr(value.py_func if is_jitted(value) else value, "__module__", None)
        if isinstance(module, str) and _is_library(module.split(".")[0]):
            return self._named(value, module)
        if is_jitted(value):
            self.reached.append(value)
            return "dispatcher", self.value(value.py_func), *map(self.value, options(value))
        if kind is np.ufunc or kind is python_types.BuiltinFunctionType:
            return self._named(value, "numpy", "numpy.random", "scipy.special")
        if kind is python_types.FunctionType:
            return self.function(value)
        if isinstance(value, type) and module != "__main__" and (issubclass(value, BaseException) or hasattr(value, "_field_defaults")):
            # Compiled code names a class by module and name; one of ``__main__`` would be another class in each process.
            return "class", self._named(value, module), getattr(value, "_fields", ()), self.value(getattr(value, "_field_defaults", None))
        raise NoKey

    def _named(self, value, *modules):
        """An object by the name that it has in a module."""
        name = getattr(value, "__qualname__", getattr(value, "__name__", ""))
        for module in modules:
            for path in (name, name.split(".")[-1]):
                with suppress(KeyError, AttributeError):
                    if reduce(getattr, path.split("."), sys.modules[module]) is value:
                        return "named", module, path
        raise NoKey

    def type(self, ty):
        """A type of Numba's, if its form says all of it."""
        if type(ty) is types.Array:
            return "array", self.type(ty.dtype), ty.ndim, ty.layout, ty.mutable, ty.aligned
        if isinstance(ty, types.Omitted):
            return "omitted", self.value(ty.value)
        if isinstance(ty, types.BaseNamedTuple):
            return "tuple", self.value(ty.instance_class), *map(self.type, ty)
        if isinstance(ty, types.BaseTuple):
            return "tuple", type(ty).__name__, *map(self.type, ty)
        if isinstance(ty, types.Literal):
            return "literal", self.value(ty.literal_value)
        if isinstance(ty, types.Number) and getattr(types, str(ty), None) is ty or ty in (types.boolean, types.unicode_type, types.none):
            return "type", str(ty)
        raise NoKey

    def code(self, code):
        lines = code.co_filename, code.co_firstlineno, code.co_linetable
        counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
        names = code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
        return code.co_code, code.co_exceptiontable, *lines, *counts, *names, [*map(self.value, code.co_consts)]

    def function(self, function):
        codes, scope = [*codes_in(function.__code__)], {**function.__builtins__, **function.__globals__}
        # (Attributes may be named by strings: `getattr`.)
        names = sorted({name for code in codes for name in (*code.co_names, *(each for each in code.co_consts if isinstance(each, str)))})
        cells = [self._read(value, names, []) for value in contents_of_cells(function)]
        read = [(name, self._read(scope[name], names, [])) for name in names if name in scope]
        named = function.__module__, function.__qualname__
        return "function", *named, self.code(function.__code__), self.value(function.__defaults__), self.value(function.__kwdefaults__), cells, read

    def _read(self, value, names, modules):
        """A value, and all that may be read of it if it is a module; `modules` are those that were read already."""
        if type(value) is not python_types.ModuleType or value in modules:
            return self.value(value)
        modules.append(value)
        parts = vars(value)
        return value.__name__, [(name, self._read(parts[name], names, modules)) for name in names if name in parts]

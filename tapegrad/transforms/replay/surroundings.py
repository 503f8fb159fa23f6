"""What a recorded function reads besides its arguments, as far as it is looked at.

What a function under `jit` reads is part of what was recorded.  As a courtesy, each call looks at what is cheap and plain to
look at (`NOTICED`), and the function is recorded again if that has changed.  A `Walk` goes over the function, its closure and
defaults, the globals that its code names, and the same of the Python functions among these.  Of each thing it makes a *mark*,
which is equal for equal values, so that two walks can be compared item by item.  `Surroundings` is a walk with a Python
function, `same`, that has a condition for each thing that was met.  Of ``def f(x): return scale * helper(x) @ W``, with `helper`
a function without variables::

    f.__code__ is v1 and f.__defaults__ is v2 and ...      the function itself
    globals['scale'] is v4                                 a number: if it is another object, its value is compared
    globals['helper'] is v5 and v5.__code__ is v6 and ...
    globals['W'] is v9 and v9.tobytes() == v10 and ...     an array of up to `SMALL` bytes

If `same` says no, a second walk is compared with the first one: an equal number in another object is no change.
(`transforms.captured` is a walk that looks deeper, for functions that are run again on the way back.)
"""

from __future__ import annotations

import dis
import functools
import itertools
import sys
import sysconfig
import types
from collections import OrderedDict, defaultdict
from operator import is_not

import numpy as np

from ...array.differentiable import Differentiable
from ...autograd.custom.function import Function
from ...autograd.custom.primitives import Primitive
from ...common.exact import Identity, exact
from ...tape.places import PACKAGE

#: Items of containers that are looked at, for each variable.
ITEMS = 1000
#: Bytes of an array whose contents are compared.
SMALL = 1 << 16
#: How deep functions and containers are nested at most.
DEPTH = 100
#: What a variable is bound to that is not bound.
ABSENT = type("Absent", (), {})()

_CONTAINERS = (list, tuple, dict, defaultdict, OrderedDict)
#: What the class of a primitive may define.
METHODS = ("forward", "setup_context", "backward", "jvp")
FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial)
#: What is compared by type and value (`common.exact`): no classes of the user's, which may say what is equal, or have fields.
_SIMPLE = {int, float, complex, bool, str, bytes, type(None), type(Ellipsis), range}
_OF_ATTRIBUTES = frozenset(["LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "LOAD_SUPER_ATTR", "IMPORT_FROM"])
#: Bit of the flags of a class that is made while the program runs.
_MADE_IN_PYTHON = 1 << 9
_INSTALLED = (PACKAGE, *{sysconfig.get_paths()[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")})

#: What is looked at, and how: the table of docs/functional.md is printed from this.
NOTICED = (
    ("the code of the function", "other code, defaults or keyword defaults"),
    ("globals, closure cells and defaults that its code names", "bound to something else"),
    ("Python functions among these, and what their code names", "as of the function itself; not those of installed packages"),
    ("rules of custom primitives, methods of a `tg.autograd.Function`", "as functions"),
    ("numbers, strings, `None`, ranges, dtypes", "another type or value: `1`, `1.0` and `True` differ, `0.0` and `-0.0` too"),
    ("lists, tuples, named tuples and dicts", f"other items, one by one and in order, the first {ITEMS:_} of each variable"),
    (f"arrays and tensors of up to {SMALL >> 10} KB", "other bytes, shape or dtype"),
    ("larger arrays", "another address, shape, dtype or writability; not their contents"),
    ("attributes in `self.__dict__` of a method", "as variables"),
    ("anything else", "another object; not what is inside"),
)
#: What is not looked at.
UNNOTICED = (
    ("attributes of objects other than `self`, of classes and of modules", "pass the number or the array as an argument"),
    ("contents of arrays above 64 KB, sets, objects of other classes", "pass what changes as an argument"),
    ("random numbers, the time, files, the environment", "draw or read outside, and pass the result as an argument"),
    ("what the function does besides (`print`, writing to a file)", "it happens when the function is recorded, and then not again"),
    ("`np.seterr`, warning filters, print options, decimal contexts", "no part of a replay, which neither raises nor warns"),
)


class Walk:
    """One walk over what a function reads.

    Parameters
    ----------
    function : callable

    Attributes
    ----------
    names, marks : list
        Of everything that was met, in order.
    functions : list of tuple
        Python functions: each with its code, defaults and keyword defaults, and with its variables, which are lists of pairs (name,
        what it was bound to) of closure cells, defaults, keyword defaults and globals.
    containers : list of tuple
        Containers that can change: each with its keys (None of a list), the items that are looked at, and whether these are all.
    arrays : list of (ndarray, tuple)
        With what is compared of their contents.
    tensors : list of (Differentiable, bool, object)
        With `requires_grad` and value.
    """

    def __init__(self, function):
        self.function = function
        self.names, self.marks = [], []
        self.functions, self.containers, self.arrays, self.tensors = [], [], [], []
        #: id -> (number in order, the thing): what has been looked into.
        self._seen = {}
        self._left, self._depth = ITEMS, DEPTH
        self._function("", function)

    def difference(self, now):
        """The name of the first thing that is not in the walk `now` what it is in this one, or None."""
        for name, other, mark, after in zip(self.names, now.names, self.marks, now.marks):
            if name != other or mark != after:
                # What has come is found where something else was.
                return name if other in self.names else other
        longer = max(self.names, now.names, key=len)
        return None if len(self.names) == len(now.names) else longer[min(len(self.names), len(now.names))]

    def _met(self, name, *mark):
        self.names.append(name)
        self.marks.append(mark)

    def _same(self, name, word, *things):
        """Something that is compared by the identity of `things`."""
        self._met(name, word, *map(Identity, things))

    def _first(self, name, thing):
        """Whether `thing` is looked into for the first time; else it is marked as the same."""
        known = self._seen.get(id(thing))
        if known is not None:
            self._met(name, "again", known[0])
            return False
        self._seen[id(thing)] = len(self._seen), thing
        return True

    # -- values --------------------------------------------------------------------
    def _variable(self, name, value):
        before, self._left = self._left, ITEMS
        self._value(name, value)
        self._left = before

    def _value(self, name, value):
        self._depth -= 1
        if type(value) in _SIMPLE or isinstance(value, np.generic):
            self._met(name, *exact(value))
        elif not self._depth:
            self._same(name, "object", value)
        elif isinstance(value, FUNCTIONS) or is_ours(value):
            self._function(name, value)
        elif isinstance(value, type) and issubclass(value, Function):
            self._same(name, "class", value)
            for word in METHODS:
                self._value(f"{name}.{word}", getattr(value, word))
        elif self._is_container(value):
            if self._first(name, value):
                self._items(name, value)
        elif isinstance(value, np.ndarray):
            if self._first(name, value):
                self._array(name, value)
        elif isinstance(value, Differentiable):
            if self._first(name, value):
                self._same(name, type(value), value)
                self._met(f"{name}.requires_grad", value.requires_grad)
                self.tensors.append((value, value.requires_grad, value._v))
                self._variable(name, value._v)
        else:
            self._other(name, value)
        self._depth += 1

    def _is_container(self, value):
        return type(value) in _CONTAINERS or isinstance(value, tuple) and hasattr(type(value), "_fields")

    def _items(self, name, value):
        """The items of a list, tuple or dict."""
        keys = tuple(value)[: self._left] if isinstance(value, (dict, types.MappingProxyType)) else None
        items = tuple(value.values() if keys is not None else value)[: self._left]
        whole = len(items) == len(value)
        self._left -= len(items)
        self._met(name, type(value), len(value) if whole else "many", tuple(map(exact, keys or ())))
        if not isinstance(value, tuple):
            self.containers.append((value, keys, items, whole))
        for key, item in zip(keys or range(len(items)), items):
            self._value(f"{name}[{key!r}]", item)

    def _array(self, name, array):
        contents = self._contents(array)
        self.arrays.append((array, contents))
        self._met(name, type(array), array.shape, array.strides, array.dtype, *contents)

    def _contents(self, array):
        return (array.tobytes(),) if array.nbytes <= SMALL else (array.__array_interface__["data"][0], array.flags.writeable)

    def _other(self, name, value):
        self._same(name, "object", value)

    # -- functions -----------------------------------------------------------------
    def _function(self, name, thing):
        """A function, method or object that is called: its code, and what that names."""
        where = f"{name}." if name else ""
        if not self._first(name, thing):
            return
        if isinstance(thing, types.FunctionType):
            self._same(name or thing.__name__, "function", thing.__code__)
            self._code(where, thing)
        elif isinstance(thing, types.MethodType):
            self._same(name, "method", thing.__self__)
            self._function(name, thing.__func__)
            self._attributes(f"{where}self", thing.__self__)
        elif isinstance(thing, functools.partial):
            self._met(name, "partial", len(thing.args), tuple(thing.keywords))
            self._function(name, thing.func)
            for key, value in [*enumerate(thing.args), *thing.keywords.items()]:
                self._value(f"{where}{key}", value)
        elif is_ours(thing):
            # Of our own objects (transformed functions, primitives) the user's function.
            self._same(name, "object", thing)
            self._function(name, thing.__wrapped__)
            if isinstance(thing, Primitive):
                self._variable(f"{where}rules", thing.rules)
        elif not name and isinstance(vars(type(thing)).get("__call__"), types.FunctionType):
            self._same(name, "object", thing)
            self._function("__call__", vars(type(thing))["__call__"])
            self._attributes("self", thing)
        else:
            self._same(name, "object", thing)

    def _attributes(self, name, thing):
        """Those of the object of a method."""
        attributes = getattr(thing, "__dict__", None)
        if type(attributes) is dict and not isinstance(thing, (type, types.ModuleType)):
            self._variable(name, attributes)

    def _code(self, where, function):
        code, defaults, keywords = function.__code__, function.__defaults__, function.__kwdefaults__
        cells = [(variable, contents_of(cell)) for variable, cell in zip(code.co_freevars, function.__closure__ or ())]
        first = code.co_argcount - len(defaults or ())
        own = [cells, list(zip(code.co_varnames[first : code.co_argcount], defaults or ())), list((keywords or {}).items())]
        scope = [] if installed(function) else [(v, function.__globals__.get(v, ABSENT)) for v in names_of(code)[0]]
        self.functions.append((function, (code, defaults, keywords), [*own, scope]))
        if keywords:
            self.containers.append((keywords, tuple(keywords), tuple(keywords.values()), True))
        for variable, value in itertools.chain(*own):
            self._variable(f"{where}{variable}", value)
        for variable, value in scope:
            self._variable(variable, value)


class Surroundings(Walk):
    """A walk, and whether all that was met is what it was.

    Attributes
    ----------
    same : callable
        May say no although values are equal (`changed` tells).
    read : dict of int to ndarray
        Arrays that were met, and those that own their memory, by id: a recording reads them where they are.
    """

    def __init__(self, function):
        super().__init__(function)
        #: What `same` knows, and the names that it knows it by.
        self._scope, self._known, self.read = {"is_not": is_not, "empty": _empty}, {}, {}
        exec(_SAME.format("\n        and ".join(self._conditions()) or "True"), self._scope)
        self.same = self._scope["same"]

    def changed(self):
        """The name of the first thing that is not what it was, or None; and the walk that has seen that."""
        now = Surroundings(self.function)
        return self.difference(now), now

    def _name(self, thing):
        """The name of `thing` in `same`."""
        known = self._known.setdefault(id(thing), f"v{len(self._known)}")
        self._scope[known] = thing
        return known

    def _conditions(self):
        """What `same` consists of."""
        name = self._name
        for function, parts, (cells, *_, variables) in self.functions:
            scope = function.__globals__
            for word, part in zip(("__code__", "__defaults__", "__kwdefaults__"), parts):
                yield f"{name(function)}.{word} is {name(part)}"
            for cell, (_, value) in zip(function.__closure__ or (), cells):
                yield f"empty({name(cell)})" if value is ABSENT else f"{name(cell)}.cell_contents is {name(value)}"
            for variable, value in variables:
                # What is absent is a builtin, or nothing yet.
                yield f"{variable!r} not in {name(scope)}" if value is ABSENT else f"{name(scope)}[{variable!r}] is {name(value)}"
        for container, keys, items, whole in self.containers:
            if whole:
                yield f"len({name(container)}) == {len(container)}"
            if keys:
                yield f"not any(map(is_not, {name(container)}, {name(keys)}))"
            if items:
                yield f"not any(map(is_not, {name(container)}{'.values()' if keys else ''}, {name(items)}))"
        for tensor, required, value in self.tensors:
            yield f"{name(tensor)}.requires_grad is {required} and {name(tensor)}._v is {name(value)}"
        for array, (first, *writeable) in self.arrays:
            known = name(array)
            yield f"{known}.shape == {array.shape} and {known}.strides == {array.strides} and {known}.dtype is {name(array.dtype)}"
            if writeable:
                yield f"{known}.flags.writeable is {writeable[0]} and {known}.__array_interface__['data'][0] == {first}"
            else:
                yield f"{known}.tobytes() == {name(first)}"
            while isinstance(array, np.ndarray):
                self.read[id(array)] = array
                array = array.base


_SAME = """\
def same():
    try:
        return (
        {}
        )
    except (KeyError, ValueError, AttributeError):
        return False
"""


def is_ours(thing):
    """Whether `thing` is an object of this library that stands for a function of the user's."""
    return package_of(type(thing).__module__) == "tapegrad" and callable(getattr(thing, "__wrapped__", None))


def contents_of(cell):
    """What a closure cell holds."""
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


def _empty(cell):
    return contents_of(cell) is ABSENT


@functools.lru_cache(maxsize=4096)
def names_of(code):
    """Of a code object and those nested in it: the names of global variables, of attributes, and of modules that it imports."""
    variables, attributes, imported = {}, {}, {}
    for instruction in dis.get_instructions(code):
        if instruction.opcode in dis.hasname:
            if instruction.opname in _OF_ATTRIBUTES:
                attributes[instruction.argval] = None
            elif instruction.opname == "IMPORT_NAME":
                imported[instruction.argval] = None
            else:
                variables[instruction.argval] = None
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            for names, nested in zip((variables, attributes, imported), names_of(constant)):
                names.update(dict.fromkeys(nested))
    return tuple(variables), tuple(attributes), tuple(imported)


def package_of(module):
    """The first part of the name of a module; a class may have anything for its ``__module__``."""
    return module.partition(".")[0] if isinstance(module, str) else ""


def installed(thing):
    """Whether a function, class or module belongs to the standard library, an installed package or tapegrad itself."""
    if isinstance(thing, types.ModuleType):
        module, filename = thing.__name__, getattr(thing, "__file__", None)
    elif isinstance(thing, types.FunctionType):
        module, filename = thing.__module__, thing.__code__.co_filename
    else:
        module, filename = thing.__module__, getattr(sys.modules.get(thing.__module__), "__file__", None)
    if module == "builtins" and getattr(thing, "__flags__", _MADE_IN_PYTHON) & _MADE_IN_PYTHON:
        # No builtin: so those are called whose namespace has no name.
        module = ""
    top = package_of(module)
    return top in ("tapegrad", "numpy", "scipy", "builtins") or top in sys.stdlib_module_names and top != "__main__" or (
        (filename or "").startswith(_INSTALLED)
    )

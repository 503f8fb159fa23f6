"""What a function reads besides its arguments, and whether that has changed.

`captured` walks over the closure, the defaults and the attributes of a function, over the globals that its code names, and
over the same of the Python functions that it reaches this way.  Of each value it makes a *mark*, which is equal for equal
values, so that two walks can be compared item by item (`changed`).  Of ``def f(x): return scale * helper(x) @ W``::

    scale         type and value
    helper        its code, and then what it reads itself
    W             shape, dtype and contents
    options       of a list, tuple or dict: length, and then the items, in order
    self.t        of an object: the object itself, and then its attributes

Objects are looked into as deep as the caller says; those of installed packages, and beyond `ITEMS` items, are compared by
identity.  Random generators are no values but streams: they are collected, and `States` keeps and restores where they are.
`Captured.restored` is the function as it was: a copy, with cells and globals of its own, bound to what was kept.
"""

from __future__ import annotations

import array
import contextlib
import dis
import functools
import random
import sys
import sysconfig
import types
from collections import deque

import numpy as np

from ..array.differentiable import Differentiable
from ..common.errors import ModifiedInPlaceError
from ..tape.places import PACKAGE, function_name
from ..tape.watch import stamp

#: Items of containers that are looked at, for each variable.
ITEMS = 1000
#: Bytes of an array that are compared where large ones are not (`captured`).
LARGE = 1 << 16
#: How deep functions, containers and objects are nested at most.
DEPTH = 32

_SIMPLE = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), range, np.generic, np.dtype)
_BYTES = (bytearray, array.array, memoryview)
_GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)
_OF_ATTRIBUTES = frozenset(["LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "LOAD_SUPER_ATTR", "IMPORT_FROM"])
_INSTALLED = tuple({sysconfig.get_paths()[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")})
#: What finds attributes by names that are strings.
_LOOK_UP = frozenset(["getattr", "hasattr", "vars", "__dict__", "eval", "exec", "attrgetter", "methodcaller"])
#: Members every class has.
_CLASS_OWN = {"__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__firstlineno__", "__static_attributes__"}
#: The attribute of a function under which recordings of it are kept (`tapegrad.optimize.keep`).
KEPT = "__tapegrad__"
#: Bit of the flags of a class that is made while the program runs.
_MADE_IN_PYTHON = 1 << 9
#: What a variable is bound to that is not bound.
_ABSENT = type("Absent", (), {})()


def captured(function, objects=0, arguments=(), large=False):
    """What `function` reads besides its arguments now: a `Captured`.

    Parameters
    ----------
    function : callable
    objects : int
        How many levels of objects are looked into, besides the object of a bound method.
    arguments : sequence of (str, object)
        Names and values of arguments that are objects, which may change inside.
    large : bool
        Whether all contents of arrays are compared; else above `LARGE` bytes only where they lie, shape, dtype and writability.
    """
    return Captured(function, objects, arguments, large)


def changed(before, now):
    """The name of the first variable that is not in `now` what it was in `before`, or None."""
    if before.marks == now.marks:
        return None
    for name, other_name, mark, other in zip(before.names, now.names, before.marks, now.marks):
        if mark != other:
            # What has come is found where something else was.
            return name if other_name in before.names else other_name
    longer = max(before.names, now.names, key=len)
    return longer[min(len(before.names), len(now.names))]


def as_it_was(before, function, arguments, when):
    """`function`, or a copy with its variables bound to what they were at the walk `before`; raises if something else has changed.

    `arguments` as of `captured`; `when` says in the error what has happened since.
    """
    if changed(before, before.again(function, arguments)) is None:
        return function
    restored = before.restored()
    name = changed(before, before.again(restored, arguments))
    if name is not None:
        raise ModifiedInPlaceError(
            f"{name!r}, which {function_name(function)!r} reads, has changed {when}. Pass {name!r} as an argument, or change it "
            "after the derivative has been taken"
        )
    return restored


class Captured:
    """One walk; see `captured`.

    Attributes
    ----------
    names, marks : list
        Of everything that was met, in order.
    generators : list
        Random generators that were met.
    """

    def __init__(self, function, objects=0, arguments=(), large=False):
        self.function, self.objects, self.large = function, objects, large
        self.names, self.marks, self.generators = [], [], []
        #: id -> (number in order, the thing: it is kept, so that its id stays its own).
        self._seen = {}
        #: Functions that can be copied, each with what its variables were bound to.
        self._bound = []
        #: What is compared by identity, besides.
        self._held = []
        #: Attributes named by the code that was met, and those of objects and classes that nothing has named yet.
        self._named, self._waiting = set(), []
        self._left, self._memo = ITEMS, {}
        self._function_or_object("", function, DEPTH, objects)
        for name, value in arguments:
            self._variable(name, value, DEPTH, max(objects, 1))
        self._named_attributes()
        del self._named, self._waiting, self._memo

    def again(self, function, arguments=()):
        """A walk like this one over `function`."""
        return Captured(function, self.objects, arguments, self.large)

    def _mark(self, name, *mark):
        self.names.append(name)
        self.marks.append(mark)

    def _first(self, name, thing):
        """Whether `thing` has not been met yet; else it is marked as the same."""
        known = self._seen.get(id(thing))
        if known is not None:
            self._mark(name, "again", known[0])
            return False
        self._seen[id(thing)] = len(self._seen), thing
        return True

    # -- functions ----------------------------------------------------------------
    def _function_or_object(self, name, thing, depth, objects):
        """The function itself: of a bound method or a callable object the attributes count in any case."""
        where = f"{name}." if name else ""
        if isinstance(thing, types.MethodType):
            self._value(f"{where}self", thing.__self__, depth, max(objects, 1))
            self._function(name, thing.__func__, depth, objects)
        elif isinstance(thing, functools.partial):
            self._function_or_object(name, thing.func, depth - 1, objects)
            for k, value in enumerate(thing.args):
                self._value(f"{where}args[{k}]", value, depth - 1, objects)
            for key, value in thing.keywords.items():
                self._value(f"{where}{key}", value, depth - 1, objects)
        elif isinstance(thing, types.FunctionType):
            self._function(name, thing, depth, objects)
        elif _package(type(thing).__module__) == "tapegrad" and hasattr(thing, "__wrapped__"):
            # Of our own objects (primitives, transformed functions) the user's function.
            if depth and self._first(name or "the function", thing):
                self._mark(name or "the function", "object", type(thing), id(thing))
                self._function_or_object(name, thing.__wrapped__, depth - 1, objects)
        else:
            self._value(name or "self", thing, depth, max(objects, 1))

    def _function(self, name, function, depth, objects):
        if not isinstance(function, types.FunctionType):
            self._value(name, function, depth, objects)
            return
        if not depth or not self._first(name, function):
            return
        code, where = function.__code__, f"{name}." if name else ""
        self._held.append(code)
        self._mark(name or code.co_name, "function", id(code))
        cells = [(n, _contents(c)) for n, c in zip(code.co_freevars, function.__closure__ or ())]
        if installed(function):
            # A decorator's: what it calls is in its cells.
            for variable, value in [*cells, ("__wrapped__", getattr(function, "__wrapped__", None))]:
                if isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
                    self._function_or_object(name or variable, value, depth - 1, objects)
            return
        defaults = list(zip(code.co_varnames[: code.co_argcount][::-1], (function.__defaults__ or ())[::-1]))[::-1]
        keywords = list((function.__kwdefaults__ or {}).items())
        attributes = [(key, value) for key, value in function.__dict__.items() if key != KEPT]
        variables, inside, imported = names_of(code)
        scope = [(variable, function.__globals__.get(variable, _ABSENT)) for variable in variables]
        self._named.update(variables, inside)
        parts = (cells, defaults, keywords, attributes, scope)
        kept = [[(key, _copied(value, self._memo)) for key, value in part] for part in parts]
        self._bound.append((function, kept))
        own = [(f"{where}{variable}", value) for variable, value in [*cells, *defaults, *keywords, *attributes]]
        for variable, value in [*own, *scope]:
            if isinstance(value, types.ModuleType):
                self._module(variable, value, inside, depth - 1, objects)
            else:
                self._variable(variable, value, depth - 1, objects)
        for variable in imported:
            if isinstance(sys.modules.get(variable), types.ModuleType):
                self._module(variable, sys.modules[variable], inside, depth - 1, objects)

    def _variable(self, name, value, depth, objects):
        before, self._left = self._left, ITEMS
        self._value(name, value, depth, objects)
        self._left = before

    def _module(self, name, module, inside, depth, objects):
        """Of a module of the user's own the attributes that the code names."""
        self._held.append(module)
        self._mark(name, "module", id(module))
        if not depth or _installed(module.__name__, getattr(module, "__file__", None) or ""):
            return
        for variable in inside:
            if variable in module.__dict__:
                value = module.__dict__[variable]
                if isinstance(value, types.ModuleType):
                    self._module(f"{name}.{variable}", value, inside, depth - 1, objects)
                else:
                    self._variable(f"{name}.{variable}", value, depth - 1, objects)

    # -- values -------------------------------------------------------------------
    def _value(self, name, value, depth, objects):
        if isinstance(value, _SIMPLE):
            # The text of a number tells -0.0 from 0.0, and finds one NaN equal to another.
            self._mark(name, type(value), repr(value) if isinstance(value, (float, complex, np.generic)) else value)
        elif isinstance(value, np.ndarray):
            if self._first(name, value):
                self._array(name, value, depth, objects)
        elif isinstance(value, Differentiable):
            if self._first(name, value):
                self._mark(name, type(value), value.requires_grad)
                self._value(name, value._v, depth, objects)
        elif isinstance(value, _BYTES):
            self._mark(name, type(value), bytes(memoryview(value)))
        elif isinstance(value, _GENERATORS):
            if self._first(name, value):
                self._mark(name, "generator", type(value))
                self.generators.append(value)
        elif isinstance(value, (types.FunctionType, types.MethodType, functools.partial)) or (
            _package(type(value).__module__) == "tapegrad" and callable(getattr(value, "__wrapped__", None))
        ):
            self._function_or_object(name, value, depth, objects)
        elif isinstance(value, types.BuiltinMethodType) and isinstance(value.__self__, _GENERATORS):
            self._value(name, value.__self__, depth, objects)
        elif isinstance(value, (staticmethod, classmethod)):
            self._value(name, value.__func__, depth, objects)
        elif isinstance(value, property):
            self._value(name, value.fget, depth, objects)
        elif self._first(name, value):
            self._container(name, value, depth, objects)

    def _array(self, name, value, depth, objects):
        layout = (type(value), value.shape, value.dtype.str, value.strides)
        if value.dtype.hasobject:
            self._mark(name, *layout, id(value))
            if value.size <= ITEMS:
                self._items(name, value.ravel().tolist(), depth, objects)
        elif self.large or value.nbytes <= LARGE:
            self._mark(name, *layout, id(value) if _frozen(value) else stamp(value))
        else:
            self._mark(name, *layout, value.ctypes.data, value.flags.writeable)

    def _container(self, name, value, depth, objects):
        if isinstance(value, (list, tuple, deque)):
            self._mark(name, type(value), len(value), len(value) <= self._left or id(value))
            self._items(name, value, depth, objects)
        elif isinstance(value, (dict, types.MappingProxyType)):
            self._mark(name, type(value), len(value), len(value) <= self._left or id(value))
            if depth and len(value) <= self._left:
                self._left -= len(value)
                for key, item in value.items():
                    self._value(f"key {key!r} of {name}", key, depth - 1, objects)
                    self._value(f"{name}[{key!r}]", item, depth - 1, objects)
        elif isinstance(value, (set, frozenset)):
            simple = len(value) <= self._left and all(isinstance(item, _SIMPLE) for item in value)
            self._mark(name, type(value), len(value), frozenset((type(i), i) for i in value) if simple else id(value))
        else:
            self._object(name, value, depth, objects)

    def _items(self, name, items, depth, objects):
        if depth and len(items) <= self._left:
            self._left -= len(items)
            for k, item in enumerate(items):
                self._value(f"{name}[{k}]", item, depth - 1, objects)

    def _object(self, name, value, depth, objects):
        if isinstance(value, type):
            self._mark(name, "class", id(value))
            if depth and objects and value not in (type, object):
                self._class(name, value, depth - 1, objects - 1)
            return
        self._mark(name, "object", type(value), id(value))
        kind = type(value)
        if not depth:
            return
        if objects and (kind is types.SimpleNamespace or not _installed_class(kind)):
            attributes = list(getattr(value, "__dict__", {}).items())
            slots = [s for base in kind.__mro__ for s in _listed(base.__dict__.get("__slots__", ()))]
            attributes += [(s, getattr(value, s, None)) for s in slots if s not in ("__dict__", "__weakref__")]
            self._waiting += [(f"{name}.{key}", key, item, depth - 1, objects - 1) for key, item in attributes]
            self._value(kind.__name__, kind, depth - 1, objects)

    def _class(self, name, kind, depth, objects):
        for base in kind.__mro__:
            if _installed_class(base):
                continue
            if base is kind or self._first(name, base):
                for key, member in list(vars(base).items()):
                    if key not in _CLASS_OWN and not isinstance(member, (types.GetSetDescriptorType, types.MemberDescriptorType)):
                        # What makes an instance is called where the class is named.
                        word = kind.__name__ if key in ("__new__", "__init__", "__post_init__") else key
                        self._waiting.append((f"{name}.{key}", word, member, depth, objects))

    def _named_attributes(self):
        """The attributes of objects and classes that are named by some code that was met; what they lead to names more."""
        while True:
            every = not _LOOK_UP.isdisjoint(self._named)
            ready = [one for one in self._waiting if every or one[1] in self._named or one[1].startswith("__")]
            if not ready:
                return
            self._waiting = [one for one in self._waiting if not (every or one[1] in self._named or one[1].startswith("__"))]
            for name, _, value, depth, objects in ready:
                self._variable(name, value, depth, objects)

    # -- as it was ------------------------------------------------------------------
    def restored(self):
        """The function as it was: a copy, and copies of the functions it reaches by variables, bound to what was kept.

        Nothing of the user's is touched.  What lists and dicts held is in copies of them; arrays and objects are the same.
        """
        memo, scopes, empty = {}, {}, []
        for function, (cells, *_) in self._bound:
            scope = scopes.setdefault(id(function.__globals__), dict(function.__globals__))
            closure = tuple(types.CellType() for _ in cells) or None
            copy = types.FunctionType(function.__code__, scope, function.__name__, None, closure)
            copy.__qualname__, copy.__module__, copy.__doc__ = function.__qualname__, function.__module__, function.__doc__
            memo[id(function)] = copy
            empty.append(copy)
        for copy, (_, (cells, defaults, keywords, attributes, scope)) in zip(empty, self._bound):
            for cell, (_, value) in zip(copy.__closure__ or (), cells):
                if value is not _ABSENT:
                    cell.cell_contents = _copied(value, memo)
            copy.__defaults__ = tuple(_copied(value, memo) for _, value in defaults) or None
            copy.__kwdefaults__ = {key: _copied(value, memo) for key, value in keywords} or None
            copy.__dict__.update((key, _copied(value, memo)) for key, value in attributes)
            for variable, value in scope:
                if value is _ABSENT:
                    copy.__globals__.pop(variable, None)
                else:
                    copy.__globals__[variable] = _copied(value, memo)
        return _copied(self.function, memo)


def _copied(value, memo):
    """A value with lists, tuples and dicts of its own, and of functions the copies in `memo` (by id)."""
    if id(value) in memo:
        return memo[id(value)]
    kind = type(value)
    if kind in (list, dict, set) and len(value) <= ITEMS:
        memo[id(value)] = copy = kind()
        if kind is dict:
            copy.update((key, _copied(item, memo)) for key, item in value.items())
        elif kind is set:
            copy.update(value)
        else:
            copy.extend(_copied(item, memo) for item in value)
        return copy
    if kind is tuple and len(value) <= ITEMS:
        items = tuple(_copied(item, memo) for item in value)
        return value if all(a is b for a, b in zip(items, value)) else items
    if kind is types.MethodType and id(value.__func__) in memo:
        return types.MethodType(memo[id(value.__func__)], value.__self__)
    if kind is functools.partial:
        function = _copied(value.func, memo)
        return value if function is value.func else functools.partial(function, *value.args, **value.keywords)
    return value


class States:
    """Where random generators are: those of `np.random` and `random`, and `generators`."""

    def __init__(self, generators):
        self.streams = []
        for generator in [np.random, random, *generators]:
            with contextlib.suppress(NotImplementedError):  # those of the operating system have no state
                self.streams.append((generator, _state(generator)))

    def forget_unmoved(self):
        """Keep the states only of generators that have been drawn from since."""
        self.streams = [(g, state) for g, state in self.streams if not _same_state(_state(g), state)]

    @contextlib.contextmanager
    def restored(self):
        """Inside, the generators are where they were; after it, where they are now."""
        now = [(generator, _state(generator)) for generator, _ in self.streams]
        try:
            for generator, state in self.streams:
                _set_state(generator, state)
            yield
        finally:
            for generator, state in now:
                _set_state(generator, state)


def _state(generator):
    if generator is np.random or isinstance(generator, np.random.RandomState):
        return generator.get_state(legacy=False)
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.state if isinstance(generator, np.random.BitGenerator) else generator.getstate()


def _set_state(generator, state):
    if generator is np.random or isinstance(generator, np.random.RandomState):
        generator.set_state(state)
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, np.random.BitGenerator):
        generator.state = state
    else:
        generator.setstate(state)


def _same_state(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same_state(a[key], b[key]) for key in a)
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b


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


def _contents(cell):
    try:
        return cell.cell_contents
    except ValueError:
        return _ABSENT


def _listed(slots):
    return [slots] if isinstance(slots, str) else list(slots)


def _frozen(value):
    """Whether nobody can write to an array: it is read-only down to the array that owns the memory."""
    while isinstance(value.base, np.ndarray) and not value.flags.writeable:
        value = value.base
    return not value.flags.writeable and (value.base is None or isinstance(value.base, bytes))


def _package(module):
    """The first part of the name of a module; a class may have anything for its ``__module__``."""
    return module.partition(".")[0] if isinstance(module, str) else ""


def _installed(module, filename):
    """Whether code belongs to the standard library, an installed package or tapegrad itself."""
    top = _package(module)
    return top in ("tapegrad", "numpy", "scipy", "builtins") or top in sys.stdlib_module_names and top != "__main__" or (
        filename.startswith(_INSTALLED)
    )


def installed(function):
    """Whether a function belongs to the standard library, an installed package or tapegrad itself."""
    return _installed(_real(function), function.__code__.co_filename) or function.__code__.co_filename.startswith(PACKAGE)


def _real(thing):
    """The module of a function or class made in Python: not of builtins, whose name those have whose namespace has no name."""
    return "" if thing.__module__ == "builtins" else thing.__module__


def _installed_class(kind):
    """Whether a class belongs to an installed package; no class made in Python is a builtin one."""
    module = _real(kind) if kind.__flags__ & _MADE_IN_PYTHON else kind.__module__
    return _installed(module, getattr(sys.modules.get(module), "__file__", None) or "")

"""What a function depends on besides its arguments, and whether it has changed.

A `Surroundings` is taken when a function is recorded: its closure, defaults, the
globals its code names, attributes of modules it names, and the same of the Python
functions, methods and classes it reaches that way; arrays by content, numbers and
strings by equality, containers and objects by their items and attributes.  Before
each replay it is compared; if anything has changed, the function is recorded again.
Of ``def f(x): return scale * np.sin(x) @ W`` there is a list of *checks*::

    name           compared by         what it was
    its defaults   _same_function      defaults and code
    scale          _same_item          2.0, in the globals
    np             _same_item          the module
    np.sin         _same_item          the ufunc, in the module
    W              _same_item          the array itself ...
    W              _same_content       ... and its contents

What only code that is not looked into can say is not seen: the state of installed
packages, and what an object computes for ``obj.name`` from elsewhere.  It is found out
when the function is recorded again (`transforms.replay.function`).

Which globals the code names is read off its bytecode.  The attributes that it names, and the strings in it, count as
names of globals only if it also names something by which a name is looked up (``globals()["scale"]``, `_LOOK_UP`).

A comparison costs some 50 ns for each name, container item and attribute, and for
each captured array that somebody can write to one pass over its memory (`stamp`).
An array that is read-only down to its owner costs nothing: freeze large constants
with ``a.flags.writeable = False``.  Of NumPy, SciPy, the standard library and other
installed packages only the attributes are compared that the function names
(``np.sin``); they are not looked into.
"""

from __future__ import annotations

import array
import builtins
import contextvars
import dis
import functools
import math
import os
import random
import re
import sys
import sysconfig
import types
import weakref
from collections import deque
from operator import is_, is_not

import numpy as np

from ...array.differentiable import Differentiable
from ...tape.watch import stamp
from ..captured import KEPT

_SIMPLE = (int, float, bool, str, bytes, complex, type(None), range, slice)
_FIXED = (types.BuiltinFunctionType, np.ufunc, np.dtype)
_SEQUENCES = (list, tuple, set, frozenset, deque)
_BYTES = (bytearray, array.array, memoryview)
#: Bytes up to which the contents of an array are kept; of a larger one a stamp is.
SMALL = 256
#: Instructions of the bytecode with the name of an attribute; all others that have a name have that of a variable.
_OF_ATTRIBUTES = frozenset(["LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "LOAD_SUPER_ATTR", "IMPORT_FROM"])
#: What finds variables by names that are strings or attributes: functions, and where modules and frames keep their variables.
_LOOK_UP = frozenset(
    ["globals", "locals", "vars", "eval", "exec", "getattr", "__import__", "import_module", "modules", "__dict__", "__globals__",
     "f_globals", "attrgetter"]
)  # fmt: skip
#: How deep containers and objects are looked into, and how deep objects of installed classes.
DEPTH, INSTALLED_DEPTH = 16, 3
_INSTALLED = tuple({sysconfig.get_paths()[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")})


class Surroundings:
    """What `function` depended on at one moment.

    Parameters
    ----------
    function : callable
    static : sequence of (int, object)
        Arguments that are no inputs of the tape: objects may change inside.

    Attributes
    ----------
    arrays : dict of int to ndarray
        Every array found, by id.
    generators : list
        Random generators found: (name, generator).
    """

    def __init__(self, function, static=()):
        self.checks = []
        self.arrays = {}
        self.generators = []
        self._known = {}
        self._callable("", function, DEPTH)
        for k, argument in static:
            self._thing(f"argument {k}", argument, DEPTH)
        self._known = self._groups = None

    def _first(self, thing):
        """Whether `thing` has not been seen yet (it is kept, so that its id stays its own)."""
        if id(thing) in self._known:
            return False
        self._known[id(thing)] = thing
        return True

    def _check(self, name, same, thing, before):
        self.checks.append((name, same, thing, before))

    # -- functions ---------------------------------------------------------------
    def _callable(self, name, function, depth):
        """Anything that can be called: a function, method, partial or object."""
        where = f"{name}." if name else ""
        if isinstance(function, types.MethodType):
            self._thing(f"{where}self", function.__self__, depth)
            function = function.__func__
        if isinstance(function, functools.partial):
            for part in ("func", "args", "keywords"):
                self._thing(f"{where}{part}", getattr(function, part), depth)
            return
        if isinstance(function, types.FunctionType):
            self._function(name, function)
        elif isinstance(function, types.BuiltinFunctionType):
            # A method of an object, or a function of a module.
            self._thing(f"{where}__self__", function.__self__, depth)
        elif not isinstance(function, _FIXED):
            self._thing(name or "the function", function, depth)

    def _function(self, name, function):
        code = function.__code__
        if not self._first(function) or _own(function.__module__):
            return
        where, installed = f"{name}." if name else "", _installed(function.__module__, code.co_filename)
        for variable, cell in zip(code.co_freevars, function.__closure__ or ()):
            value = _contents(cell)
            self._check(f"{where}{variable}", _same_cell, cell, value)
            self._thing(f"{where}{variable}", value, INSTALLED_DEPTH if installed else DEPTH)
        if installed:
            # A decorator's: what it calls is in its cells.
            return
        parts = (function.__defaults__, function.__kwdefaults__, code)
        self._check(name or "its defaults", _same_function, function, parts)
        self._thing(f"{where}__defaults__", parts[0], DEPTH)
        self._thing(f"{where}__kwdefaults__", parts[1], DEPTH)
        scope = function.__globals__
        names, variables = _names(code, scope)
        for variable in variables:
            self._check(variable, _same_item, (scope, variable), scope.get(variable))
            if variable in scope:
                self._named(variable, scope[variable], names)
            elif variable in builtins.__dict__:
                self._check(variable, _same_item, (builtins.__dict__, variable), builtins.__dict__[variable])
                self._thing(variable, builtins.__dict__[variable], DEPTH)
            elif isinstance(sys.modules.get(variable), types.ModuleType):
                # Imported by the function itself.
                self._check(variable, _same_item, (sys.modules, variable), sys.modules[variable])
                self._named(variable, sys.modules[variable], names)
        if function.__dict__:
            self._check(f"{where}__dict__", _same_attributes, function.__dict__, _attributes(function))
            for key, value in _attributes(function).items():
                self._thing(f"{where}{key}", value, DEPTH)

    def _named(self, name, value, names):
        """What a name of the code is bound to."""
        if issubclass(type(value), types.ModuleType):
            self._module(name, value, names)
        else:
            self._thing(name, value, DEPTH)

    def _module(self, name, module, names):
        """The attributes of a module that the code may name."""
        if not self._first(module) or _own(module.__name__):
            return
        installed = _installed(module.__name__, getattr(module, "__file__", None) or "")
        for variable in names:
            if variable in module.__dict__:
                value = module.__dict__[variable]
                self._check(f"{name}.{variable}", _same_item, (module.__dict__, variable), value)
                if not installed or issubclass(type(value), types.ModuleType):
                    self._named(f"{name}.{variable}", value, names)
        if module is os and not {"environ", "getenv"}.isdisjoint(names):
            self._thing("os.environ", os.environ._data, DEPTH)

    # -- values -------------------------------------------------------------------
    def _thing(self, name, value, depth):
        if type(value) in weakref.ProxyTypes:
            # To ask a dead one anything, its class too, raises.
            self._check(name, _same_referent, value, id(_referent(value)))
            self._thing(name, _referent(value), depth)
            return
        if isinstance(value, types.BuiltinFunctionType):
            if not isinstance(value.__self__, (types.ModuleType, type(None))) and self._first(value):
                self._callable(name, value, depth)
            return
        if isinstance(value, (*_SIMPLE, *_FIXED, types.ModuleType)):
            return
        if isinstance(value, np.ndarray):
            if self._first(value):
                self._array(name, value, depth)
                self._attributes(name, value, depth)
        elif isinstance(value, _BYTES):
            self._check(name, _same_bytes, value, bytes(memoryview(value)))
        elif isinstance(value, contextvars.ContextVar):
            self._check(name, _same_context, value, value.get(None))
            self._thing(name, value.get(None), depth)
        elif isinstance(value, weakref.ReferenceType):
            self._check(name, _same_referent, value, id(_referent(value)))
            self._thing(name, _referent(value), depth)
        elif isinstance(value, (np.random.Generator, np.random.RandomState, random.Random)):
            self.generators.append((name, value))
        elif isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
            self._callable(name, value, depth)
        elif isinstance(value, Differentiable):
            if self._first(value):
                self._check(name, _same_tensor, value, _tensor(value))
                if isinstance(value._v, np.ndarray):
                    self.arrays[id(value._v)] = value._v
        elif isinstance(value, (staticmethod, classmethod)):
            self._thing(name, value.__func__, depth)
        elif isinstance(value, property):
            self._thing(name, value.fget, depth)
        elif depth and self._first(value):
            self._container(name, value, depth - 1)

    def _array(self, name, array, depth):
        owner, writeable = array, array.flags.writeable
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
            writeable |= owner.flags.writeable
        self.arrays[id(array)] = array
        self.arrays[id(owner)] = owner
        if array.dtype.kind == "O":
            items = array.tolist() if array.ndim else [array.item()]
            self._check(name, _same_objects, array, items)
            self._thing(name, items, depth)
        elif writeable or owner.base is not None and not isinstance(owner.base, bytes):
            self._check(name, _same_content, array, _content(array))

    def _attributes(self, name, value, depth):
        """The attributes of an instance of a class that was derived from an array or container."""
        if depth and getattr(value, "__dict__", None) is not None:
            self._object(name, value, depth - 1)

    def _container(self, name, value, depth):
        if isinstance(value, (*_SEQUENCES, dict)):
            self._attributes(name, value, depth)
        if isinstance(value, _SEQUENCES):
            if not isinstance(value, (tuple, frozenset)):
                self._check(name, _same_sequence, value, list(value))
            for k, item in enumerate(value):
                self._thing(f"{name}[{k}]", item, depth)
        elif isinstance(value, (dict, types.MappingProxyType)):
            self._check(name, _same_dict, value, dict(value))
            for key, item in value.items():
                self._thing(f"{name}[{key!r}]", item, depth)
        elif isinstance(value, type):
            self._class(name, value, depth)
        else:
            self._object(name, value, depth)

    def _class(self, name, kind, depth):
        for base in kind.__mro__:
            if base is kind or self._first(base):
                if not _installed(base.__module__, getattr(sys.modules.get(base.__module__), "__file__", None) or ""):
                    members = {k: v for k, v in vars(base).items() if k not in _CLASS_OWN}
                    self._check(name, _same_class, base, (members, base.__bases__, _public(vars(base))))
                    for key, member in members.items():
                        self._thing(f"{name}.{key}", member, depth)
        if type(kind) is not type and self._first(type(kind)):
            self._class(f"type({name})", type(kind), depth)

    def _object(self, name, thing, depth):
        if _package(type(thing).__module__) == "numba":
            # A compiled function: it depends on what its Python does; what the compiler keeps beside it changes as it compiles.
            compiled = getattr(thing, "_dispatcher", thing)
            python = getattr(compiled, "py_func", None) or getattr(compiled, "__wrapped__", None)
            if python is not None:
                self._callable(name, python, depth)
                return
        attributes = getattr(thing, "__dict__", None)
        own = _own(type(thing).__module__)
        if not own:
            self._check(name, _same_kind, thing, type(thing))
        if _installed(type(thing).__module__, "") and type(thing) is not types.SimpleNamespace:
            depth = min(depth, INSTALLED_DEPTH)
        if isinstance(attributes, dict):
            if not own:
                self._check(name, _same_dict, attributes, dict(attributes))
            for key, item in attributes.items():
                # Of our own objects (primitives, transformed functions) the user's functions.
                if not own or callable(item):
                    self._thing(f"{name}.{key}", item, depth)
        for slot in _slots(type(thing)) if not own else ():
            value = getattr(thing, slot, None)
            self._check(f"{name}.{slot}", _same_attribute, (thing, slot), value)
            self._thing(f"{name}.{slot}", value, depth)
        if not own and self._first(type(thing)):
            self._class(type(thing).__name__, type(thing), depth)

    # -- comparing ----------------------------------------------------------------
    def _grouped(self):
        """The checks by how they are compared at once: cells and names by identity, everything else one by one."""
        cells = [(thing, before) for _, same, thing, before in self.checks if same is _same_cell]
        names = [(thing, before) for _, same, thing, before in self.checks if same is _same_item]
        others = [check[1:] for check in self.checks if check[1] not in (_same_cell, _same_item)]
        self._groups = ([c for c, _ in cells], [b for _, b in cells], [n for n, _ in names], [b for _, b in names], others)
        return self._groups

    def forgive(self):
        """Leave out what has changed by now: the function itself changes it (a counter, a log)."""
        self.checks = [check for check in self.checks if check[1](check[2], check[3])]
        self._groups = None

    def changed(self):
        """The name of the first thing that has changed, or None."""
        cells, contents, names, bound, others = self._groups or self._grouped()
        try:
            # Nearly always every name is bound to the same object.
            if (
                True not in map(is_not, [cell.cell_contents for cell in cells], contents)
                and True not in map(is_not, [scope.get(name) for scope, name in names], bound)
                and all([same(thing, before) for same, thing, before in others])
            ):
                return None
        except ValueError:
            # A cell is empty now.
            pass
        for name, same, thing, before in self.checks:
            if not same(thing, before):
                return name
        return None


class RandomStates:
    """The states of random generators: `moved` names one that has been drawn from since."""

    def __init__(self, generators):
        self.generators = [("np.random", np.random.mtrand._rand), ("random", random), *generators]
        self.states = [_state(g) for _, g in self.generators]

    def moved(self):
        """The name of a generator whose state has changed, or None."""
        for (name, generator), state in zip(self.generators, self.states):
            if _state(generator) != state:
                return name
        return None


def _state(generator):
    if hasattr(generator, "bit_generator"):
        return repr(generator.bit_generator.state)
    state = generator.get_state() if hasattr(generator, "get_state") else generator.getstate()
    return [part.tobytes() if isinstance(part, np.ndarray) else part for part in state]


def _package(module):
    """The first part of the name of a module; a class may have anything for its ``__module__``."""
    return module.partition(".")[0] if isinstance(module, str) else ""


def _own(module):
    """Whether a module is tapegrad's."""
    return _package(module) == "tapegrad"


def _installed(module, filename):
    """Whether code belongs to the standard library, an installed package or tapegrad itself."""
    top = _package(module)
    return top in ("tapegrad", "numpy", "scipy", "builtins") or top in sys.stdlib_module_names and top != "__main__" or (
        filename.startswith(_INSTALLED)
    )


#: Members every class has.
_CLASS_OWN = {"__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__firstlineno__", "__static_attributes__"}


def _slots(kind):
    found = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        found += [slots] if isinstance(slots, str) else list(slots)
    return [s for s in found if s not in ("__dict__", "__weakref__")]


def _contents(cell):
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _equal(now, before):
    """Whether two values are the same object, or equal numbers or strings of one type."""
    if now is before:
        return True
    kind = type(now)
    if kind is not type(before):
        return False
    if kind is float:
        return now == before and math.copysign(1.0, now) == math.copysign(1.0, before) or now != now and before != before
    if kind is tuple:
        return len(now) == len(before) and all(map(_equal, now, before))
    return isinstance(now, _SIMPLE) and now == before


def _same_cell(cell, before):
    return _equal(_contents(cell), before)


def _same_attribute(where, before):
    return _equal(getattr(*where, None), before)


def _same_function(function, before):
    return function.__defaults__ is before[0] and function.__kwdefaults__ is before[1] and function.__code__ is before[2]


def _same_item(where, before):
    return _equal(where[0].get(where[1]), before)


def _same_sequence(things, before):
    return len(things) == len(before) and (all(map(is_, things, before)) or all(map(_equal, things, before)))


def _same_dict(things, before):
    return len(things) == len(before) and (
        all(map(is_, things, before)) and all(map(is_, things.values(), before.values()))
        or things.keys() == before.keys() and all(_equal(things[k], v) for k, v in before.items())
    )  # fmt: skip


def _attributes(function):
    """The attributes of a function, without ours."""
    return {name: value for name, value in function.__dict__.items() if name != KEPT}


def _same_attributes(things, before):
    return _same_dict({k: v for k, v in things.items() if k != KEPT} if KEPT in things else things, before)


def _public(members):
    """How many members Python has not put there itself."""
    return sum(not name.startswith("_") for name in members)


def _same_class(kind, before):
    known, bases, count = before
    members = vars(kind)
    return kind.__bases__ == bases and _public(members) == count and all(
        members.get(k) is v or _equal(members.get(k), v) for k, v in known.items()
    )


def _same_kind(thing, before):
    return type(thing) is before


def _same_bytes(things, before):
    return memoryview(things) == before if memoryview(things).format == "B" else bytes(memoryview(things)) == before


def _same_context(variable, before):
    return _equal(variable.get(None), before)


def _referent(reference):
    """What a weak reference or a proxy leads to, or None."""
    try:
        return reference() if isinstance(reference, weakref.ReferenceType) else reference.__init__.__self__
    except ReferenceError:
        return None


def _same_referent(reference, before):
    return id(_referent(reference)) == before


def _same_objects(array, before):
    return _same_sequence(array.tolist() if array.ndim else [array.item()], before)


def _tensor(t):
    live = t.requires_grad
    return (live, t._v) if type(t._v) is float else (live, id(t._v), t._v.shape, _content(t._v))


def _same_tensor(t, before):
    return _equal(_tensor(t), before)


def _content(array):
    return (array.shape, array.tobytes() if array.nbytes <= SMALL else stamp(array))


def _same_content(array, before):
    return _content(array) == before


def _named_by(code):
    """Of a code object and those nested in it: the names of variables that are global, those of attributes, and the strings."""
    variables, attributes, strings = [], [], []
    for instruction in dis.get_instructions(code):
        if instruction.opcode in dis.hasname:
            (attributes if instruction.opname in _OF_ATTRIBUTES else variables).append(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, str):
            strings.append(constant)
        elif isinstance(constant, types.CodeType):
            for mine, nested in zip((variables, attributes, strings), _named_by(constant)):
                mine += nested
    return variables, attributes, strings


def _names(code, scope):
    """The names that a code object uses, of globals and of attributes; and those which may be globals."""
    variables, attributes, strings = _named_by(code)
    by_name = not _LOOK_UP.isdisjoint([*variables, *attributes]) or any(_is_look_up(scope.get(v)) for v in variables)
    # Of a string the words, as in ``eval("2 * scale")``.
    words = [word for text in strings for word in re.findall(r"[^\W\d]\w*", text)] if by_name else []
    names = [*variables, *attributes, *words]
    known = [name for name in names if name in scope] if by_name else []
    return list(dict.fromkeys(names)), list(dict.fromkeys([*variables, *known]))


def _is_look_up(value):
    """Whether this is a builtin function that looks names up, whatever it is called here."""
    return isinstance(value, types.BuiltinFunctionType) and value.__module__ == "builtins" and value.__name__ in _LOOK_UP

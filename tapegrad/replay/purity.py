"""What a function depends on besides its arguments, and whether it has changed.

A `Surroundings` is taken when a function is recorded: its closure, defaults, the
globals its code names, and the same of the Python functions it reaches that way;
arrays by identity and content, simple values by equality, containers and objects
by their items and attributes.  Before each replay it is compared; if anything
has changed, the function is recorded again.
"""

from __future__ import annotations

import types
from operator import is_not

import numpy as np

from ..tape.watch import stamp

_SIMPLE = (int, float, bool, str, bytes, complex, type(None), range, slice)
_FIXED = (types.ModuleType, type, types.BuiltinFunctionType, np.ufunc)
#: How deep containers and objects are looked into.
DEPTH = 4


class Surroundings:
    """What `function` depended on at one moment.

    Attributes
    ----------
    arrays : dict of int to ndarray
        Every array found, by id.
    generators : list
        Random generators found: (name, generator).
    """

    def __init__(self, function):
        self.checks = []
        self.arrays = {}
        self.generators = []
        self._known = set()
        self._groups = None
        self._function("", function)
        self._known = None

    # -- taking -----------------------------------------------------------------
    def _function(self, name, function):
        function = getattr(function, "__wrapped__", function)
        owner = getattr(function, "__self__", None)
        function = getattr(function, "__func__", function)
        if owner is not None and not isinstance(owner, _FIXED):
            self._thing(f"{name}self", owner, DEPTH)
        code = getattr(function, "__code__", None)
        if code is None:
            if not isinstance(function, _FIXED) and callable(function):
                self._thing(name or "the function", function, DEPTH)
            return
        if id(function) in self._known:
            return
        self._known.add(id(function))
        where = f"{name}." if name else ""
        for variable, cell in zip(code.co_freevars, function.__closure__ or ()):
            try:
                value = cell.cell_contents
            except ValueError:
                continue
            self.checks.append((f"{where}{variable}", _cell, cell, value))
            self._thing(f"{where}{variable}", value, DEPTH)
        if function.__defaults__:
            self.checks.append((f"{where}__defaults__", _defaults, function, function.__defaults__))
            self._thing(f"{where}__defaults__", function.__defaults__, DEPTH)
        for variable in _names(code):
            if variable in function.__globals__:
                value = function.__globals__[variable]
                self.checks.append((variable, function.__globals__.get, variable, value))
                self._thing(variable, value, DEPTH)

    def _thing(self, name, value, depth):
        if isinstance(value, (*_SIMPLE, *_FIXED)) or id(value) in self._known:
            return
        if isinstance(value, np.ndarray):
            self._known.add(id(value))
            owner = value
            while isinstance(owner.base, np.ndarray):
                owner = owner.base
            self.arrays[id(value)] = value
            self.arrays[id(owner)] = owner
            if value.flags.writeable and value.dtype.kind != "O":
                self.checks.append((name, _content, value, _content(value)))
            return
        if isinstance(value, (np.random.Generator, np.random.RandomState)):
            self.generators.append((name, value))
            return
        if isinstance(value, (types.FunctionType, types.MethodType)):
            if not getattr(value, "__module__", "").startswith("tapegrad."):
                self._function(name, value)
            return
        if depth == 0 or getattr(type(value), "__module__", "").startswith("tapegrad."):
            return
        self._known.add(id(value))
        if isinstance(value, (list, tuple, set, frozenset)):
            if not isinstance(value, tuple):
                self.checks.append((name, _items, value, _items(value)))
            for k, item in enumerate(value):
                self._thing(f"{name}[{k}]", item, depth - 1)
        elif isinstance(value, dict):
            self.checks.append((name, _entries, value, _entries(value)))
            for key, item in value.items():
                self._thing(f"{name}[{key!r}]", item, depth - 1)
        elif isinstance(getattr(value, "__dict__", None), dict):
            self.checks.append((name, _attributes, value, _attributes(value)))
            for key, item in vars(value).items():
                self._thing(f"{name}.{key}", item, depth - 1)

    def forgive(self):
        """Leave out what has changed by now: the function itself changes it (a counter, a log)."""
        self.checks = [(n, read, what, old) for n, read, what, old in self.checks if not _differs(read(what), old)]
        self._groups = None

    # -- comparing ----------------------------------------------------------------
    def _grouped(self):
        """The checks by how they are compared at once: cells and names by identity, what is inside (bytes, lists) by value."""
        cells = [(what, old) for _, read, what, old in self.checks if read is _cell]
        inner = [(read, what, old) for _, read, what, old in self.checks if read in _INSIDE]
        names = [(read, what, old) for _, read, what, old in self.checks if read is not _cell and read not in _INSIDE]
        self._groups = found = (
            [c for c, _ in cells], [old for _, old in cells], [n[:2] for n in names], [n[2] for n in names],
            [i[:2] for i in inner], [i[2] for i in inner],
        )
        return found

    def changed(self):
        """The name of the first thing that has changed, or None."""
        cells, contents, names, bound, inner, inside = self._groups or self._grouped()
        try:
            # Nearly always every name is bound to the same object, with the same inside.
            if (
                True not in map(is_not, [c.cell_contents for c in cells], contents)
                and True not in map(is_not, [read(what) for read, what in names], bound)
                and [read(what) for read, what in inner] == inside
            ):
                return None
        except ValueError:
            # A cell is empty now.
            pass
        for name, read, what, before in self.checks:
            now = read(what)
            if _differs(now, before):
                return name
        return None


def _cell(cell):
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _defaults(function):
    return function.__defaults__


def _content(array):
    return array.tobytes() if array.nbytes <= 256 else stamp(array)


def _items(things):
    return [t if isinstance(t, _SIMPLE) else id(t) for t in things]


def _entries(things):
    return [(k, v if isinstance(v, _SIMPLE) else id(v)) for k, v in things.items()]


def _attributes(thing):
    return _entries(vars(thing))


#: What reads the inside of a thing, as bytes or as a list of simple values and identities.
_INSIDE = (_content, _items, _entries, _attributes)


def _differs(now, before):
    if now is before:
        return False
    if type(now) is not type(before):
        return True
    return not (isinstance(now, (*_SIMPLE, list)) and (now == before or now != now))


def _names(code):
    """The global names a code object and those nested in it use."""
    found = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += _names(constant)
    return dict.fromkeys(found)

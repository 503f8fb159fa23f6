"""What a recorded function reads besides its arguments, as far as it is looked at.

What a function under `jit` reads is part of what was recorded.  As a courtesy, each call looks at what is cheap and plain to
look at (`NOTICED`), and the function is recorded again if that has changed.  `Surroundings` walks over the function once, when
it is recorded, and writes a condition for each thing that it meets; together they are one Python function, `same`.  Of
``def f(x): return scale * helper(x) @ W``, with `helper` a function without variables::

    f.__code__ is v1 and f.__defaults__ is v2 and ...      the function itself
    globals['scale'] is v4                                 a number: if it is another object, its value is compared
    globals['helper'] is v5 and v5.__code__ is v6 and ...
    globals['W'] is v9 and v9.tobytes() == v10 and ...     an array of up to `SMALL` bytes

If `same` says no, a second walk is compared with the first one mark by mark: an equal number in another object is no change.
"""

from __future__ import annotations

import functools
import types
from collections import OrderedDict, defaultdict
from operator import is_not

import numpy as np

from ...array.differentiable import Differentiable
from ..captured import installed, names_of

#: Items of containers that are looked at, for each variable.
ITEMS = 1000
#: Bytes of an array whose contents are compared.
SMALL = 1 << 16
#: Stands for what a variable without a value is bound to.
_ABSENT = object()

_CONTAINERS = (list, tuple, dict, defaultdict, OrderedDict)
_SIMPLE = {int, float, complex, bool, str, bytes, type(None), type(Ellipsis), range}

_OF_NUMPY = {kind for kind in np.sctypeDict.values() if kind not in (np.void, np.object_)}

#: What is looked at, and how: the table of docs/functional.md is printed from this.
NOTICED = (
    ("the code of the function", "other code, defaults or keyword defaults"),
    ("globals, closure cells and defaults that its code names", "bound to something else"),
    ("Python functions among these, and what their code names", "as of the function itself; not those of installed packages"),
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


class Surroundings:
    """One walk over what a function reads.

    Parameters
    ----------
    function : callable

    Attributes
    ----------
    same : callable
        Whether all that was met is what it was; may say no although values are equal (`changed` tells).
    conditions : list of str
        What `same` consists of, in the names of `scope`.
    scope : dict
    arrays : dict of int to ndarray
        Arrays that were met, by id: a recording reads them where they are.
    """

    def __init__(self, function):
        self.function = function
        self.conditions, self.scope, self.arrays = [], {"is_not": is_not, "empty": _empty}, {}
        #: Of everything that was met, its name and a mark that is equal for equal values.
        self.names, self.marks = [], []
        #: id -> name in `scope`; the ids of what has been looked into.
        self._known, self._seen = {}, set()
        self._left = ITEMS
        self._function("", function)
        text = "\n        and ".join(self.conditions) or "True"
        exec(_SAME.format(text), self.scope)
        self.same = self.scope.pop("same")

    def changed(self):
        """The name of the first thing that is not what it was, or None; and the walk that has seen that."""
        now = Surroundings(self.function)
        if now.marks == self.marks and now.names == self.names:
            return None, now
        for name, other, before, after in zip(self.names, now.names, self.marks, now.marks):
            if name != other or before != after:
                return name, now
        longer = max(self.names, now.names, key=len)
        return longer[min(len(self.names), len(now.names))], now

    # -- writing -------------------------------------------------------------------
    def _name(self, thing):
        """The name of `thing` in `scope`."""
        known = self._known.get(id(thing))
        if known is None:
            known = self._known[id(thing)] = f"v{len(self._known)}"
            self.scope[known] = thing
        return known

    def _met(self, name, *mark):
        self.names.append(name)
        self.marks.append(mark)

    def _first(self, name, thing):
        """Whether `thing` is looked into for the first time."""
        if id(thing) in self._seen:
            self._met(name, "again", self._known[id(thing)])
            return False
        self._seen.add(id(thing))
        return True

    def _bound(self, name, place, value):
        """A variable: `place` is an expression that gives what it is bound to."""
        self.conditions.append(f"{place} is {self._name(value)}")
        self._left = ITEMS
        self._value(name, value)

    # -- values --------------------------------------------------------------------
    def _value(self, name, value):
        known = self._name(value)
        if _is_simple(value):
            self._met(name, *_exact(value))
        elif isinstance(value, (types.FunctionType, types.MethodType, functools.partial)) or _ours(value):
            self._function(name, value)
        elif type(value) in _CONTAINERS or isinstance(value, tuple) and hasattr(type(value), "_fields"):
            if self._first(name, value):
                self._items(name, known, value)
        elif isinstance(value, np.ndarray):
            if self._first(name, value):
                self._array(name, known, value)
        elif isinstance(value, Differentiable):
            if self._first(name, value):
                self._met(name, type(value), id(value))
                self._bound(f"{name}.requires_grad", f"{known}.requires_grad", value.requires_grad)
                self._bound(name, f"{known}._v", value._v)
        else:
            self._met(name, "object", id(value))

    def _items(self, name, known, value):
        """The items of a list, tuple or dict."""
        keys = tuple(value)[: self._left] if isinstance(value, dict) else None
        items = tuple(value.values() if keys is not None else value)[: self._left]
        whole = len(items) == len(value)
        self._left -= len(items)
        self._met(name, type(value), len(value) if whole else "many", tuple(map(_mark, keys or ())))
        if not isinstance(value, tuple):
            if whole:
                self.conditions.append(f"len({known}) == {len(value)}")
            if keys:
                self.conditions.append(f"not any(map(is_not, {known}, {self._name(keys)}))")
            if items:
                self.conditions.append(f"not any(map(is_not, {known}{'.values()' if keys else ''}, {self._name(items)}))")
        for key, item in zip(keys or range(len(items)), items):
            self._value(f"{name}[{key!r}]", item)

    def _array(self, name, known, array):
        self.arrays[id(array)] = array
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        self.arrays[id(owner)] = owner
        described = f"{known}.shape == {array.shape} and {known}.strides == {array.strides} and {known}.dtype is {self._name(array.dtype)}"
        kind = type(array), array.shape, array.strides, array.dtype
        if array.nbytes <= SMALL:
            contents = array.tobytes()
            self.conditions.append(f"{described} and {known}.tobytes() == {self._name(contents)}")
            self._met(name, *kind, contents)
        else:
            address, writeable = array.__array_interface__["data"][0], array.flags.writeable
            self.conditions.append(
                f"{described} and {known}.flags.writeable is {writeable} and {known}.__array_interface__['data'][0] == {address}"
            )
            self._met(name, *kind, address, writeable)

    # -- functions -----------------------------------------------------------------
    def _function(self, name, thing):
        """A function, method or object that is called: its code, and what that names."""
        known, where = self._name(thing), f"{name}." if name else ""
        if not self._first(name, thing):
            return
        if isinstance(thing, types.FunctionType):
            self._met(name or thing.__name__, "function", id(thing.__code__))
            self._code(known, where, thing)
        elif isinstance(thing, types.MethodType):
            self._met(name, "method", id(thing.__self__))
            self._function(name, thing.__func__)
            self._attributes(f"{where}self", thing.__self__)
        elif isinstance(thing, functools.partial):
            self._met(name, "partial", len(thing.args), tuple(thing.keywords))
            self._function(name, thing.func)
            for key, value in [*enumerate(thing.args), *thing.keywords.items()]:
                self._value(f"{where}{key}", value)
        elif _ours(thing):
            # Of our own objects (transformed functions, primitives) the user's function.
            self._met(name, "object", id(thing))
            self._function(name, thing.__wrapped__)
        elif not name and isinstance(vars(type(thing)).get("__call__"), types.FunctionType):
            self._met(name, "object", id(thing))
            self._function("__call__", vars(type(thing))["__call__"])
            self._attributes("self", thing)
        else:
            self._met(name, "object", id(thing))

    def _attributes(self, name, thing):
        attributes = getattr(thing, "__dict__", None)
        if type(attributes) is dict and not isinstance(thing, (type, types.ModuleType)):
            self._left = ITEMS
            self._name(attributes)
            self._value(name, attributes)

    def _code(self, known, where, function):
        parts = [f"{known}.{part} is {self._name(getattr(function, part))}" for part in ("__code__", "__defaults__", "__kwdefaults__")]
        self.conditions += parts
        code = function.__code__
        for variable, cell in zip(code.co_freevars, function.__closure__ or ()):
            try:
                value = cell.cell_contents
            except ValueError:
                self.conditions.append(f"empty({self._name(cell)})")
                self._met(f"{where}{variable}", "empty")
                continue
            self._bound(f"{where}{variable}", f"{self._name(cell)}.cell_contents", value)
        count = len(function.__defaults__ or ())
        first = code.co_argcount - count
        for variable, value in zip(code.co_varnames[first : code.co_argcount], function.__defaults__ or ()):
            self._left = ITEMS
            self._value(f"{where}{variable}", value)
        if function.__kwdefaults__:
            self._left = ITEMS
            self._value(f"{where}*", function.__kwdefaults__)
        if installed(function):
            return
        scope = function.__globals__
        names = self._name(scope)
        for variable in names_of(code)[0]:
            if variable in scope:
                self._bound(variable, f"{names}[{variable!r}]", scope[variable])
            else:
                # A builtin, or nothing yet.
                self.conditions.append(f"{variable!r} not in {names}")
                self._met(variable, "absent")


_SAME = """\
def same():
    try:
        return (
        {}
        )
    except (KeyError, ValueError, AttributeError):
        return False
"""


def _ours(thing):
    """Whether `thing` is an object of this library that stands for a function of the user's."""
    return str(type(thing).__module__).startswith("tapegrad.") and callable(getattr(thing, "__wrapped__", None))


def _mark(key):
    """A key of a dict as something that equals only the same key."""
    return _exact(key) if _is_simple(key) else id(key)


def _is_simple(value):
    """Whether `value` is compared by type and value: not if its class is the user's, which may say what is equal, or has fields."""
    kind = type(value)
    return kind in _SIMPLE or isinstance(value, np.dtype) or isinstance(value, np.generic) and kind in _OF_NUMPY


def _exact(value):
    """Type and value; the text of a number tells -0.0 from 0.0, and finds one NaN equal to another."""
    return type(value), repr(value) if isinstance(value, (float, complex, range, np.generic)) else value


def _empty(cell):
    try:
        return cell.cell_contents is _ABSENT
    except ValueError:
        return True

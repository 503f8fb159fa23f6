"""What a function that is run again later read besides its arguments: whether that has changed, and the function as it was.

`Captured` is the walk of `transforms.replay.surroundings`, looking deeper: at all contents of arrays, into sets and buffers,
and at the attributes, named by code that was met, of objects, of classes and of the user's own modules::

    scale         type and value
    helper        its code, and then what it reads itself
    W             shape, dtype and contents
    self.t        of an object: the object itself, and then its attributes

Objects are looked into as deep as the caller says; those of installed packages, and containers of more than `ITEMS` items, are
compared by identity.  Random generators are no values but streams: they are collected.  `Captured.restored` is
the function as it was: a copy, with cells and globals of its own, bound to what was kept.
"""

from __future__ import annotations

import array
import contextlib
import functools
import random
import sys
import types
from collections import deque

import numpy as np

from ..common.errors import ModifiedInPlaceError
from ..common.exact import exact
from ..tape.places import function_name
from ..tape.watch import stamp
from .keep import KEPT
from .replay.surroundings import ABSENT, DEPTH, FUNCTIONS, ITEMS, Walk, contents_of, installed, is_ours, names_of

_CONTAINERS = (list, tuple, dict, deque, types.MappingProxyType)
_BYTES = (bytearray, array.array, memoryview)
_BOUND = (types.BuiltinMethodType, types.MethodWrapperType)
_GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)
#: What finds attributes by names that are strings.
_LOOK_UP = frozenset(["getattr", "hasattr", "vars", "__dict__", "eval", "exec", "attrgetter", "methodcaller"])
#: How many levels of objects are looked into for what has changed, where a function is run again.
OBJECTS = 8
#: Members every class has.
_CLASS_OWN = {"__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__firstlineno__", "__static_attributes__"}


class Captured(Walk):
    """What `function` reads besides its arguments now.

    Parameters
    ----------
    function : callable
    objects : int
        How many levels of objects are looked into, besides the object of a bound method.
    arguments : sequence of (str, object)
        Names and values of arguments that are objects, which may change inside.

    Attributes
    ----------
    generators : list
        Random generators that were met.
    namespaces : list of (object, dict)
        Objects, classes and modules whose attributes are looked at, and these.
    """

    def __init__(self, function, objects=0, arguments=()):
        self.objects, self.arguments, self.generators, self.namespaces = objects, arguments, [], []
        #: Levels of objects that are left; attributes named by the code that was met; those that nothing has named yet.
        self._objects, self._named, self._waiting = objects, set(), []
        super().__init__(function)
        self._objects = max(objects, 1)
        for name, value in arguments:
            self._variable(name, value)
        self._named_attributes()
        del self._named, self._waiting
        memo = {}
        #: Functions that can be copied, each with what its variables were bound to.
        self._kept = [
            (function, [[(key, _copied(value, memo)) for key, value in part] for part in (*variables, _attributes_of(function))])
            for function, _, variables in self.functions
        ]

    def again(self, function):
        """A walk like this one over `function`."""
        return Captured(function, self.objects, self.arguments)

    def as_it_was(self, when):
        """The function, or a copy with its variables bound to what they were; raises if something else has changed.

        `when` says in the error what has happened since.
        """
        if self.difference(self.again(self.function)) is None:
            return self.function
        restored = self.restored()
        name = self.difference(self.again(restored))
        if name is not None:
            raise ModifiedInPlaceError(
                f"{name!r}, which {function_name(self.function)!r} reads, has changed (modified by an inplace operation, or bound "
                f"anew) {when}. Pass {name!r} as an argument, or change it after the derivative has been taken"
            )
        return restored

    # -- functions ----------------------------------------------------------------
    def _function(self, name, thing):
        if not name and not isinstance(thing, FUNCTIONS) and not is_ours(thing):
            # Of a callable object the attributes count in any case.
            self._attributes("self", thing)
        else:
            super()._function(name, thing)

    def _attributes(self, name, thing):
        before, self._objects = self._objects, max(self._objects, 1)
        self._value(name, thing)
        self._objects = before

    def _code(self, where, function):
        if installed(function):
            # A decorator's: what it calls is in its cells.
            cells = [(n, contents_of(c)) for n, c in zip(function.__code__.co_freevars, function.__closure__ or ())]
            for variable, value in [*cells, ("__wrapped__", getattr(function, "__wrapped__", None))]:
                if callable(value) or self._opens(value):
                    self._value(where[:-1] or variable, value)
            return
        variables, inside, imported = names_of(function.__code__)
        self._named.update(variables, inside)
        super()._code(where, function)
        for key, value in _attributes_of(function):
            self._variable(f"{where}{key}", value)
        for variable in imported:
            if isinstance(sys.modules.get(variable), types.ModuleType):
                self._variable(variable, sys.modules[variable])

    # -- values -------------------------------------------------------------------
    def _is_container(self, value):
        return isinstance(value, _CONTAINERS)

    def _items(self, name, value):
        if len(value) > self._left:
            self._same(name, len(value), value)
        else:
            super()._items(name, value)

    def _array(self, name, array):
        super()._array(name, array)
        if array.dtype.hasobject and array.size <= ITEMS:
            self._value(f"{name}.tolist()", array.ravel().tolist())

    def _contents(self, array):
        # An array of objects has their addresses for contents.
        return (id(array) if _frozen(array) or array.dtype.hasobject else stamp(array),)

    def _other(self, name, value):
        if isinstance(value, _BYTES):
            self._met(name, type(value), bytes(memoryview(value)))
        elif isinstance(value, _BOUND) and not isinstance(value.__self__, (type, types.ModuleType, type(None))):
            self._met(name, value.__name__)
            self._value(name, value.__self__)
        elif isinstance(value, (staticmethod, classmethod)):
            self._value(name, value.__func__)
        elif isinstance(value, property):
            self._value(name, value.fget)
        elif not self._first(name, value):
            pass
        elif isinstance(value, _GENERATORS):
            self._met(name, "generator", type(value))
            self.generators.append(value)
        elif isinstance(value, (set, frozenset)) and len(value) <= self._left:
            self._met(name, type(value), frozenset(map(exact, value)))
        else:
            self._same(name, "object", value)
            self._inside(name, value)

    def _inside(self, name, value):
        """Attributes of an object, which are looked at if some code names them."""
        kind = type(value)
        if isinstance(value, types.ModuleType):
            if not installed(value):
                self._waiting += [(f"{name}.{key}", key, item, self._objects, False) for key, item in self._fields(value)]
        elif isinstance(value, type):
            if self._objects and value not in (type, object):
                self._class(name, value)
        elif self._objects and (kind is types.SimpleNamespace or not installed(kind)):
            self._waiting += [(f"{name}.{key}", key, item, self._objects - 1, True) for key, item in self._fields(value)]
            self._value(kind.__name__, kind)
        elif self._opens(value):
            self._variable(name, dict(self._fields(value)))

    def _opens(self, value):
        """Whether to look into an object of an installed package."""
        return False

    def _fields(self, value):
        """Attributes of an object, class or module."""
        self.namespaces.append((value, fields_of(value)))
        return self.namespaces[-1][1].items()

    def _class(self, name, kind):
        for base in kind.__mro__:
            if not installed(base) and (base is kind or self._first(name, base)):
                for key, member in self._fields(base):
                    if key not in _CLASS_OWN and not isinstance(member, (types.GetSetDescriptorType, types.MemberDescriptorType)):
                        # What makes an instance is called where the class is named.
                        word = kind.__name__ if key in ("__new__", "__init__", "__post_init__") else key
                        self._waiting.append((f"{name}.{key}", word, member, self._objects - 1, True))

    def _named_attributes(self):
        """The attributes that are named by some code that was met; what they lead to names more."""
        while True:
            every = not _LOOK_UP.isdisjoint(self._named)
            sorted_out = ready, waiting = [], []
            for one in self._waiting:
                _, word, _, _, looked_up = one
                sorted_out[not (word in self._named or looked_up and (every or word.startswith("__")))].append(one)
            if not ready:
                return
            self._waiting = waiting
            for name, _, value, self._objects, _ in ready:
                self._variable(name, value)

    # -- as it was ------------------------------------------------------------------
    def restored(self):
        """The function as it was: a copy, and copies of the functions it reaches by variables, bound to what was kept.

        Nothing of the user's is touched.  What lists and dicts held is in copies of them; arrays and objects are the same.
        """
        memo, scopes, empty = {}, {}, []
        for function, (cells, *_) in self._kept:
            scope = scopes.setdefault(id(function.__globals__), dict(function.__globals__))
            closure = tuple(types.CellType() for _ in cells) or None
            copy = types.FunctionType(function.__code__, scope, function.__name__, None, closure)
            copy.__qualname__, copy.__module__, copy.__doc__ = function.__qualname__, function.__module__, function.__doc__
            memo[id(function)] = copy
            empty.append(copy)
        for copy, (_, (cells, defaults, keywords, scope, attributes)) in zip(empty, self._kept):
            for cell, (_, value) in zip(copy.__closure__ or (), cells):
                if value is not ABSENT:
                    cell.cell_contents = _copied(value, memo)
            copy.__defaults__ = tuple(_copied(value, memo) for _, value in defaults) or None
            copy.__kwdefaults__ = {key: _copied(value, memo) for key, value in keywords} or None
            copy.__dict__.update((key, _copied(value, memo)) for key, value in attributes)
            for variable, value in scope:
                if value is ABSENT:
                    copy.__globals__.pop(variable, None)
                else:
                    copy.__globals__[variable] = _copied(value, memo)
        return _copied(self.function, memo)


class States:
    """Where random generators are: those of `np.random` and `random`, and `generators`."""

    def __init__(self, generators):
        self.streams = []
        for generator in [np.random, random, *generators]:
            if isinstance(generator, np.random.Generator):
                generator = generator.bit_generator
            if isinstance(generator, np.random.BitGenerator):
                stream = functools.partial(getattr, generator, "state"), functools.partial(setattr, generator, "state")
            elif hasattr(generator, "get_state"):
                stream = functools.partial(generator.get_state, legacy=False), generator.set_state
            else:
                stream = generator.getstate, generator.setstate
            with contextlib.suppress(NotImplementedError):  # those of the operating system have no state
                self.streams.append((*stream, stream[0]()))

    def moved(self):
        """The streams of generators that have been drawn from since."""
        return [stream for stream in self.streams if not _same_state(stream[0](), stream[2])]

    def put_back(self):
        """Put the generators back to where they were."""
        for _, move, state in self.streams:
            move(state)

    @contextlib.contextmanager
    def restored(self):
        """Inside, the generators are where they were; after it, where they are now."""
        now = [(move, where()) for where, move, _ in self.streams]
        try:
            self.put_back()
            yield
        finally:
            for move, state in now:
                move(state)


def _same_state(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same_state(a[key], b[key]) for key in a)
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b


def _copied(value, memo, depth=DEPTH):
    """A value with lists, tuples and dicts of its own, and of functions the copies in `memo` (by id)."""
    if id(value) in memo or not depth:
        return memo.get(id(value), value)
    kind = type(value)
    if kind in (list, dict, set) and len(value) <= ITEMS:
        memo[id(value)] = copy = kind()
        if kind is dict:
            copy.update((key, _copied(item, memo, depth - 1)) for key, item in value.items())
        elif kind is set:
            copy.update(value)
        else:
            copy.extend(_copied(item, memo, depth - 1) for item in value)
        return copy
    if kind is tuple and len(value) <= ITEMS:
        items = tuple(_copied(item, memo, depth - 1) for item in value)
        return value if all(a is b for a, b in zip(items, value)) else items
    if kind is types.MethodType and id(value.__func__) in memo:
        return types.MethodType(memo[id(value.__func__)], value.__self__)
    if kind is functools.partial:
        function = _copied(value.func, memo, depth - 1)
        return value if function is value.func else functools.partial(function, *value.args, **value.keywords)
    return value


def _attributes_of(function):
    return [(key, value) for key, value in function.__dict__.items() if key != KEPT]


def fields_of(value):
    """Attributes of an object, class or module, with those in its slots."""
    slots = [s for base in type(value).__mro__ for s in _listed(base.__dict__.get("__slots__", ()))]
    fields = {s: getattr(value, s, ABSENT) for s in slots if s not in ("__dict__", "__weakref__")}
    return fields | dict(getattr(value, "__dict__", {}))


def _listed(slots):
    return [slots] if isinstance(slots, str) else list(slots)


def _frozen(value):
    """Whether nobody can write to an array: it is read-only down to the array that owns the memory."""
    while isinstance(value.base, np.ndarray) and not value.flags.writeable:
        value = value.base
    return not value.flags.writeable and (value.base is None or isinstance(value.base, bytes))

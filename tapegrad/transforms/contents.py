"""What a function that is run again reads: also the contents of what it reads, and the function as it was.

`Contents` is an `Environment` that looks deeper: at all contents of arrays, into sets and buffers, and at the attributes, named by
code that was met, of objects, of classes and of the user's own modules::

    scale         type and value
    helper        its code, and then what it reads itself
    W             shape, dtype and contents
    self.t        of an object: the object itself, and then its attributes

Objects are looked into as deep as the caller says; those of installed packages, and containers of more than `environment.ITEMS` items, are
compared by identity.  Random generators are no values but streams (`Streams`).  `Contents.restored` is the function as it was: a copy, with cells and
globals of its own, bound to what was kept; `Contents.put_back` makes everything what it was, `Contents.own_put_back`, for a time,
what the function changes itself.
"""

import array
import builtins
import contextlib
import contextvars
import functools
import operator
import random
import sys
import threading
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterator

import numpy as np

from ..array import creation
from ..array.differentiable import Differentiable
from ..common.errors import ModifiedInPlaceError
from ..common.exact import exact
from ..tape.places import function_name
from ..tape.watch import stamp
from .environment import (
    ABSENT,
    FUNCTIONS,
    Environment,
    cells_of,
    contents_of,
    function_of,
    installed,
    names_of,
    package_of,
    slots_of,
)
from .keep import KEPT

_CONTAINERS = (list, tuple, dict, deque, types.MappingProxyType)
#: Builtin classes whose instances hold items; first those that are derived from another one.
_HOLDING = (OrderedDict, dict, list, tuple, set, deque)
_BYTES = (bytearray, array.array, memoryview)
_BOUND = (types.BuiltinMethodType, types.MethodWrapperType)
_GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)
#: What finds attributes by names that are strings.
_LOOK_UP = frozenset(["getattr", "hasattr", "vars", "__dict__", "eval", "exec", "attrgetter", "methodcaller"])
#: How many levels of objects are looked into for what has changed, where a function is run again.
OBJECTS = 8
#: Bytes of an array of which a copy is kept, where what a function changes is to be put back.
COPIED = 1 << 24
#: Members every class has.
_CLASS_OWN = {"__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__firstlineno__", "__static_attributes__"}
#: Modules that draw no random numbers, but for what has one of these names.
_CLOSED = frozenset(["math", "cmath", "operator", "itertools", "functools", "numpy", "numpy.linalg", "tapegrad", "tapegrad.numpy"])
_DRAWING = frozenset([*_LOOK_UP, "random", "scipy", "__import__", "globals", "locals", "modules"])
_NUMBERS = frozenset([int, float, complex, bool, str, type(None), range, np.float64])
#: The builtins before a program replaces one.
_BUILTINS = dict(vars(builtins))
#: Modules of objects that are looked into: of ours that have functions of the user's inside, and containers written in Python.
_OPENED = ("tapegrad.scipy.integrate", "tapegrad.nn", "collections")
#: Packages whose classes do not call methods that a class derived from them defines, but for those that Python calls.
_CALLING_NOTHING = frozenset(["builtins", "abc", "typing", "numpy"])


class Contents(Environment):
    """What `function` reads besides its arguments now, with its contents.

    Parameters
    ----------
    function : callable
    objects : int
        How many levels of objects are looked into, besides the object of a bound method.
    arguments : sequence of (str, object)
        Names and values of arguments that are objects, which may change inside, and of further functions.
    copied : int or None
        Bytes of an array of which a copy is kept, for `put_back`.  None: it is only compared with another one, and not to be restored.

    Attributes
    ----------
    streams : Streams or None
        Where the generators are from which it may draw.
    iterates : bool
        Whether an iterator was met: its contents cannot be seen.
    """

    def __init__(self, function, objects=0, arguments=(), copied=0):
        self.objects, self.arguments, self.copied = objects, arguments, copied
        self.iterates, self._generators = False, []
        #: What the function has changed itself, as it was (`keep_own`).
        self._own = [], []
        #: Levels of objects that are left; attributes named by the code that was met; those that nothing has named yet.
        self._objects, self._named, self._waiting = objects, set(), []
        #: By id: things that can change, with copies; which of them were looked into one by one; objects and their attributes.
        self._copies, self._opened, self._namespaces = {}, set(), []
        super().__init__(function)
        self._objects = max(objects, 1)
        for name, value in arguments:
            self._variable(name, value)
        self._named_attributes()
        del self._named, self._waiting
        if copied is not None:
            # Those that all code can reach need not be met; to look at them takes longer than all the rest.
            draws = not all([is_plain(thing, Differentiable) for thing in (function, *[value for _, value in arguments])])
            self.streams = Streams([*([np.random, random] if draws else ()), *self._generators])

    def again(self, function=None):
        """What `function` reads now, by default its own."""
        return Contents(function or self.function, self.objects, self.arguments, None)

    def same(self):
        """Whether nothing has changed."""
        return self.difference() is None

    def _first(self, name, thing):
        first = super()._first(name, thing)
        if first and self.copied is not None:
            self.iterates = self.iterates or isinstance(thing, Iterator)
            if isinstance(thing, np.ndarray) and thing.nbytes <= self.copied and thing.flags.writeable:
                self._copies[id(thing)] = thing, thing.copy()
            elif isinstance(thing, (list, dict, set, deque)):
                self._copies[id(thing)] = thing, _held(thing)
        return first

    # -- functions ----------------------------------------------------------------
    def _function(self, name, thing):
        if not name and not isinstance(thing, FUNCTIONS) and function_of(thing) is None:
            # Of a callable object the attributes count in any case.
            self._attributes("self", thing)
        else:
            super()._function(name, thing)

    def _attributes(self, name, thing, method=None):
        before, self._objects = self._objects, max(self._objects, 1)
        self._value(name, thing)
        self._objects = before

    def _code(self, where, function):
        if installed(function):
            # A decorator's, or of our own: what it calls is in its cells.
            if function.__closure__:
                defaults, keywords = function.__defaults__ or (), function.__kwdefaults__ or {}
                self.functions.append((function, [cells_of(function), list(enumerate(defaults)), list(keywords.items()), []]))
            for variable, value in [*cells_of(function), ("__wrapped__", getattr(function, "__wrapped__", None))]:
                if callable(value) or _is_opened(value):
                    self._value(where[:-1] or variable, value)
            return
        variables, inside, imported = names_of(function.__code__)
        self._named.update(variables, inside)
        super()._code(where, function)
        for key, value in self._fields(function):
            self._variable(f"{where}{key}", value)
        for variable in imported:
            if isinstance(sys.modules.get(variable), types.ModuleType):
                self._variable(variable, sys.modules[variable])

    # -- values -------------------------------------------------------------------
    def _is_container(self, value):
        return isinstance(value, _CONTAINERS)

    def _items(self, name, value):
        held = value if type(value) in _CONTAINERS else _held(value)
        if len(held) > self._left:
            self._same(name, len(held), value)
        else:
            self._opened.add(id(value))
            self._met(name, type(value))
            super()._items(name, held)
            if isinstance(held, (dict, types.MappingProxyType)):
                self._members(name, held)
        self._inside(name, value)

    def _members(self, name, members):
        """Keys of a dict, or elements of a set: of objects also what is inside."""
        for member in members:
            if type(member) not in _NUMBERS:
                self._value(f"{name}: {type(member).__name__}", member)

    def _array(self, name, array):
        super()._array(name, array)
        self._inside(name, array)

    def _contents(self, array):
        # A large array of objects has their addresses for contents.
        return (id(array) if _frozen(array) or array.dtype.hasobject else stamp(array),)

    def _other(self, name, value):
        if isinstance(value, type):
            # Who has the class, and not only an instance, may make one.
            self._named.add(value.__name__)
        if isinstance(value, _BYTES):
            self._met(name, type(value), bytes(memoryview(value)))
        elif isinstance(value, _BOUND) and not isinstance(value.__self__, (type, types.ModuleType, type(None))):
            self._met(name, value.__name__)
            self._value(name, value.__self__)
        elif isinstance(value, (staticmethod, classmethod)):
            self._value(name, value.__func__)
        elif isinstance(value, property):
            self._value(name, value.fget)
        elif isinstance(value, (functools.partialmethod, functools.cached_property, functools.singledispatchmethod)):
            self._value(name, value.func)
        elif isinstance(value, weakref.ref):
            self._value(name, value())
        elif isinstance(value, contextvars.ContextVar):
            self._value(name, value.get(ABSENT))
        elif not self._first(name, value):
            pass
        elif isinstance(value, _GENERATORS):
            self._met(name, "generator", type(value))
            self._generators.append(value)
        elif isinstance(value, (set, frozenset)) and len(value) <= self._left:
            self._opened.add(id(value))
            self._met(name, type(value), frozenset(map(exact, value)))
            self._members(name, value)
            self._inside(name, value)
        else:
            if isinstance(value, (operator.attrgetter, operator.methodcaller)):
                self._named.add("attrgetter")
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
        elif self._objects and (kind in (types.SimpleNamespace, threading.local) or not installed(kind)):
            self._waiting += [(f"{name}.{key}", key, item, self._objects - 1, True) for key, item in self._fields(value)]
            if self._first(kind.__name__, kind):
                self._same(kind.__name__, "object", kind)
                self._inside(kind.__name__, kind)
        elif _is_opened(value):
            self._variable(name, dict(self._fields(value)))

    def _fields(self, value):
        """Attributes of an object, class, module or function."""
        self._namespaces.append((value, fields_of(value)))
        return self._namespaces[-1][1].items()

    def _class(self, name, kind):
        if any(installed(base) and package_of(base.__module__) not in _CALLING_NOTHING for base in kind.__mro__):
            # Code that is not looked at may call its methods.
            self._named.update(key for base in kind.__mro__ if not installed(base) for key, member in vars(base).items() if isinstance(member, FUNCTIONS))
        for base in (*kind.__mro__, *type(kind).__mro__):
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
    def restored(self, when):
        """The function, or a copy with its variables bound to what they were; raises if something else has changed.

        Nothing of the user's is touched.  What lists, dicts and sets held is in copies of them; arrays and objects are the same.
        `when` says in the error what has happened since.
        """
        if self.same():
            return self.function
        function = self._copy()
        name = self.difference(self.again(function))
        if name is not None:
            raise ModifiedInPlaceError(
                f"{name!r}, which {function_name(self.function)!r} reads, has changed (modified by an inplace operation, or bound "
                f"anew) {when}. Pass {name!r} as an argument, or change it after the derivative has been taken"
            )
        return function

    def _copy(self):
        """A copy of the function, and of those that it reaches by variables, bound to what was kept."""
        memo, scopes, attributes = {}, {}, {id(thing): before for thing, before in self._namespaces}
        for function, (cells, _, _, variables) in self.functions:
            scope = function.__globals__
            if variables:
                scope = scopes.setdefault(id(scope), dict(scope))
            closure = tuple(types.CellType() for _ in cells) or None
            memo[id(function)] = made = types.FunctionType(function.__code__, scope, function.__name__, None, closure)
            made.__qualname__, made.__module__, made.__doc__ = function.__qualname__, function.__module__, function.__doc__
        for function, (cells, defaults, keywords, scope) in self.functions:
            made = memo[id(function)]
            for cell, (_, value) in zip(made.__closure__ or (), cells):
                _bind(cell, {"cell_contents": self._copied(value, memo)})
            made.__defaults__ = tuple(self._copied(value, memo) for _, value in defaults) or None
            made.__kwdefaults__ = {key: self._copied(value, memo) for key, value in keywords} or None
            made.__dict__.update((key, self._copied(value, memo)) for key, value in attributes.get(id(function), {}).items())
            _bind(made.__globals__, {variable: self._copied(value, memo) for variable, value in scope})
        return self._copied(self.function, memo)

    def _copied(self, value, memo):
        """A value as it was: lists, tuples, dicts and sets of its own, and of functions the copies in `memo` (by id)."""
        if id(value) in memo:
            return memo[id(value)]
        kind, opened = type(value), id(value) in self._opened
        if opened and kind in (list, dict, set):
            memo[id(value)] = made = kind()
            before = self._copies[id(value)][1]
            if kind is dict:
                made.update((key, self._copied(item, memo)) for key, item in before.items())
            elif kind is set:
                made.update(before)
            else:
                made.extend(self._copied(item, memo) for item in before)
            return made
        if opened and kind is tuple:
            items = tuple(self._copied(item, memo) for item in value)
            return value if all(a is b for a, b in zip(items, value)) else items
        if kind is types.MethodType and id(value.__func__) in memo:
            return types.MethodType(memo[id(value.__func__)], value.__self__)
        if kind is functools.partial:
            function = self._copied(value.func, memo)
            return value if function is value.func else functools.partial(function, *value.args, **value.keywords)
        return value

    def changed(self):
        """What is not what it was, or None: "a random generator", or a name."""
        return "a random generator" if self.streams.moved() else self.difference()

    def put_back(self, what):
        """Make everything what it was; raises if it cannot be, of `what` was run."""
        if not self.changed():
            return
        self.streams.put_back()
        _put(*self._differing())
        if name := self.changed():
            raise ModifiedInPlaceError(
                f"{what} changes {name!r}, which cannot be put back, and was run to be recorded. Carry it from iteration to iteration, or write a "
                "Python loop"
            )

    def keep_own(self):
        """The function has been called just now: keep what that has changed as it was, for `own_put_back`, and of other arrays no copies."""
        self._own = contents, _ = self._differing()
        written = {id(thing) for thing, _ in contents}
        self._copies = {key: pair for key, pair in self._copies.items() if key in written or not isinstance(pair[0], np.ndarray)}

    @contextlib.contextmanager
    def own_put_back(self):
        """Inside, what the function changes itself (it counts, collects, caches) is what it was at its call; after it, what it is now."""
        contents, bindings = self._own
        now = [(thing, _copy_of(thing)) for thing, _ in contents], [(where, _bound(where, names)) for where, names in bindings]
        try:
            _put(*self._own)
            yield
        finally:
            _put(*now)

    def _differing(self):
        """What is not what it was, of what can be put back: contents (things and copies), and bindings (where, and what names were bound to)."""
        contents = [(thing, before) for thing, before in self._copies.values() if not _holds(thing, before)]
        bindings = []
        for function, (cells, _, _, variables) in self.functions:
            bindings += [(cell, {"cell_contents": value}) for cell, (_, value) in zip(function.__closure__ or (), cells)]
            bindings.append((function.__globals__, dict(variables)))
        bindings += [(thing, dict.fromkeys(fields_of(thing), ABSENT) | before) for thing, before in self._namespaces]
        changed = []
        for where, names in bindings:
            now = _bound(where, names)
            changed.append((where, {name: value for name, value in names.items() if now[name] is not value}))
        return contents, [(where, names) for where, names in changed if names]


class Streams:
    """Where random generators are; that of this library is always one of them."""

    def __init__(self, generators):
        self.streams = []
        for generator in [creation.RANDOM, *generators]:
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

    def forget(self):
        """Keep only those that have been drawn from since."""
        self.streams = self.moved()

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


def is_plain(thing, tensors=(), depth=4):
    """Whether a function or method reads nothing but numbers, arrays, lists of these, and functions like itself and of `_CLOSED` modules.

    So it makes numbers of numbers, and draws from no generator of `random` and `np.random`.  With ``tensors=Differentiable`` it may read tensors.
    """
    kind = type(thing)
    if kind is types.FunctionType:
        variables, attributes, imported = names_of(thing.__code__)
        if imported or not _DRAWING.isdisjoint(variables) or not _DRAWING.isdisjoint(attributes):
            return False
        scope, keywords = thing.__globals__, thing.__kwdefaults__ or {}
        reads = [*[value for _, value in cells_of(thing)], *(thing.__defaults__ or ()), *keywords.values(), *map(scope.get, variables)]
        replaced = [name for name in variables if name not in scope and _BUILTINS.get(name) is not vars(builtins).get(name)]
        return depth > 0 and not replaced and all([is_plain(value, tensors, depth - 1) for value in reads])
    if kind is types.MethodType:
        of = type(thing.__self__)
        members = [member for key, member in vars(of).items() if key not in _CLASS_OWN]
        own = type(of) is type and of.__mro__[1:] == (object,) and hasattr(thing.__self__, "__dict__")
        return depth > 0 and own and all([is_plain(member, tensors, depth - 1) for member in (thing.__func__, *vars(thing.__self__).values(), *members)])
    if kind is types.ModuleType:
        return thing.__name__ in _CLOSED and sys.modules.get(thing.__name__) is thing
    if kind in (list, tuple, dict):
        return depth > 0 and len(thing) <= 32 and all([is_plain(item, tensors, depth - 1) for item in (thing.values() if kind is dict else thing)])
    if kind is np.ndarray:
        return not thing.dtype.hasobject
    return kind in _NUMBERS or thing is ABSENT or isinstance(thing, tensors) and package_of(kind.__module__) == "tapegrad"


def _is_opened(value):
    """Whether to look into an object of this library, or of `collections`."""
    return type(value).__module__.startswith(_OPENED) and not isinstance(value, Differentiable)


def _holding(container):
    """The builtin class that keeps the items of a container, which may be of a class of the user's derived from it."""
    return next(kind for kind in _HOLDING if isinstance(container, kind))


def _held(container):
    """A copy of the items of a container, without calling a method of the user's."""
    kind = _holding(container)
    if issubclass(kind, dict):
        return dict(kind.items(container))
    return (kind if kind in (tuple, set) else list)(kind.__iter__(container))


def _copy_of(thing):
    """What an array or container holds."""
    return thing.copy() if isinstance(thing, np.ndarray) else _held(thing)


def _holds(thing, before):
    """Whether an array or container holds what it held, each item the same object."""
    if isinstance(thing, np.ndarray):
        return np.asarray(thing).tobytes() == np.asarray(before).tobytes()
    now = _held(thing)
    if isinstance(now, set):
        return set(map(id, now)) == set(map(id, before))
    items, others = (list(held.items()) if isinstance(held, dict) else [(None, item) for item in held] for held in (now, before))
    return len(items) == len(others) and all([a is b and c is d for (a, c), (b, d) in zip(items, others)])


def _put(contents, bindings):
    """Let arrays and containers hold, and names be bound to, what is given."""
    for thing, before in contents:
        if isinstance(thing, np.ndarray):
            thing[...] = before
        else:
            kind = _holding(thing)
            kind.clear(thing)
            if issubclass(kind, dict):
                for key, item in before.items():
                    kind.__setitem__(thing, key, item)
            else:
                (kind.update if kind is set else kind.extend)(thing, before)
    for where, names in bindings:
        _bind(where, names)


def _bound(where, names):
    """What names are bound to, of a closure cell, of global variables, or of attributes of an object, class, module or function."""
    if isinstance(where, types.CellType):
        return dict.fromkeys(names, contents_of(where))
    fields = where if type(where) is dict else fields_of(where)
    return {name: fields.get(name, ABSENT) for name in names}


def _bind(where, names):
    """Bind names as `_bound` finds them, or unbind what is absent; without calling a method of the user's, if it can be."""
    scope, kind = where if type(where) is dict else getattr(where, "__dict__", None), type if isinstance(where, type) else object
    for name, value in names.items():
        if type(scope) is not dict or name not in scope and name in slots_of(where):
            kind.__delattr__(where, name) if value is ABSENT else kind.__setattr__(where, name, value)
        elif value is not ABSENT:
            scope[name] = value
        else:
            scope.pop(name, None)


def fields_of(value):
    """Attributes of an object, class, module or function, with those in its slots."""
    return slots_of(value) | {key: item for key, item in getattr(value, "__dict__", {}).items() if key != KEPT}


def _frozen(value):
    """Whether no code can write to an array: it is read-only down to the array that owns the memory."""
    while isinstance(value.base, np.ndarray) and not value.flags.writeable:
        value = value.base
    return not value.flags.writeable and (value.base is None or isinstance(value.base, bytes))

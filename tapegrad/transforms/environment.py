"""What a function reads besides its arguments, and whether that has changed.

What runs a function once and reuses the answer asks here: `jit` and `tg.compile`, optimisers, sums over data,
and, through `transforms.contents`, checkpoints, derivatives that run a function again, and loops.  An `Environment` goes over the
function, its closure and defaults, the globals that its code names, and the same of the Python functions among these.  Of each thing it
notes a name, a condition, and a *mark*, which is equal for equal values::

    def f(x): return scale * helper(x) @ W       (`helper` is a function without variables)

    name      condition                                      mark
    f         f.__code__ is v1 and f.__defaults__ is v2 ...  the code
    scale     globals['scale'] is v4                         type and value
    helper    globals['helper'] is v5                        the code, as of `f`
    W         globals['W'] is v9 and v9.tobytes() == v10     shape, strides, dtype and contents

`same` asks all conditions, as one Python function: it is called whenever a jitted function is.  If it says no, `difference` goes over the function
again and compares marks: an equal number in another object is no change.
"""

import dis
import functools
import itertools
import re
import sys
import sysconfig
import types
from collections import OrderedDict, defaultdict
from operator import is_not

import numpy as np

from ..array.differentiable import Differentiable
from ..autograd.custom.function import Function
from ..autograd.custom.primitives import Primitive
from ..common.exact import Identity, exact
from ..common.uninterrupted import cached_property
from ..tape.places import PACKAGE

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


class Environment:
    """What a function reads besides its arguments, as of now and as far as `jit` looks (the table of docs/functional.md).

    Parameters
    ----------
    function : callable

    Attributes
    ----------
    names, marks : list
        Of everything that was met, in order.
    read : dict of int to ndarray
        Arrays that were met, and those that own their memory, by id: a recording reads them where they are.
    functions : list of tuple
        Python functions, each with its variables: lists of pairs (name, what it was bound to) of closure cells, defaults, keyword
        defaults and globals.
    """

    def __init__(self, function):
        self.function = function
        self.names, self.marks, self.read, self.functions = [], [], {}, []
        #: Conditions with the things that stand for ``{}`` in them; id -> (number in order, the thing): what has been looked into.
        self._conditions, self._seen = [], {}
        self._left, self._depth = ITEMS, DEPTH
        self._function("", function)

    def again(self):
        """What the function reads now."""
        return Environment(self.function)

    def difference(self, now=None):
        """The name of the first thing that is not in `now` (by default what it reads now) what it is in this one, or None."""
        now = now or self.again()
        for name, other, mark, after in zip(self.names, now.names, self.marks, now.marks):
            if name != other or mark != after:
                # What has come is found where something else was.
                return name if other in self.names else other
        longer = max(self.names, now.names, key=len)
        return None if len(self.names) == len(now.names) else longer[min(len(self.names), len(now.names))]

    @cached_property
    def same(self):
        """Whether all conditions hold, as a function.  It may say no although values are equal (`difference` tells)."""
        scope = {"is_not": is_not, "contents_of": contents_of, "absent": ABSENT}

        def named(thing):
            scope[name := f"v{len(scope)}"] = thing
            return name

        conditions = [condition.format(*map(named, things)) for condition, things in self._conditions]
        exec(_SAME.format("\n        and ".join(conditions) or "True"), scope)  # noqa: S102 - names and numbers of ours
        same = scope["same"]
        #: What it asks, for who writes it into a function of his own, and what the names in it are.
        same.conditions, same.scope = conditions, scope
        return same

    def changed_at(self, name):
        """Where the code of one of the functions may change what goes by this name, ``" at file:line"``; empty if that is not seen."""
        words = re.findall(r"\w+", name)[::-1]
        for stores in (True, False):
            for function, _ in self.functions:
                for one in dis.get_instructions(function.__code__):
                    if one.argval in words and one.opname.startswith("STORE" if stores else "LOAD") and "FAST" not in one.opname:
                        return f" at {function.__code__.co_filename}:{one.positions.lineno}"
        return ""

    def _met(self, name, *mark):
        self.names.append(name)
        self.marks.append(mark)

    def _same(self, name, word, *things):
        """Something that is compared by the identity of `things`."""
        self._met(name, word, *map(Identity, things))

    def _if(self, condition, *things):
        """A condition of `same`."""
        self._conditions.append((condition, things))

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
        elif isinstance(value, FUNCTIONS) or function_of(value) is not None:
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
                self._if(f"{{0}}.requires_grad is {value.requires_grad} and {{0}}._v is {{1}}", value, value._v)
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
            self._if_items(value, keys, items, whole)
        for key, item in zip(keys or range(len(items)), items):
            self._value(f"{name}[{key!r}]", item)

    def _if_items(self, container, keys, items, whole):
        if whole:
            self._if(f"len({{0}}) == {len(container)}", container)
        if keys:
            self._if("not any(map(is_not, {0}, {1})) and not any(map(is_not, {0}.values(), {2}))", container, keys, items)
        elif items:
            self._if("not any(map(is_not, {0}, {1}))", container, items)

    def _array(self, name, array):
        contents, items = self._contents(array), ()
        if array.dtype.hasobject and array.nbytes <= SMALL:
            # Its bytes are addresses, at which there may be other objects by now.
            items = tuple(array.ravel().tolist())
            contents = tuple(map(Identity, items)) if len(items) > self._left else ()
            holds, what = "not any(map(is_not, {0}.ravel().tolist(), {2}))", items
        elif len(contents) == 1:
            holds, what = "{0}.tobytes() == {2}", contents[0]
        else:
            holds, what = "({0}.__array_interface__['data'][0], {0}.flags.writeable) == {2}", contents
        self._met(name, type(array), array.shape, array.strides, array.dtype, *contents)
        self._if(f"{{0}}.shape == {array.shape} and {{0}}.strides == {array.strides} and {{0}}.dtype is {{1}} and {holds}", array, array.dtype, what)
        if items and not contents:
            self._value(f"{name}.tolist()", items)
        while isinstance(array, np.ndarray):
            self.read[id(array)] = array
            array = array.base

    def _contents(self, array):
        return (array.tobytes(),) if array.nbytes <= SMALL else (array.__array_interface__["data"][0], array.flags.writeable)

    def _other(self, name, value):
        self._same(name, "object", value)
        self._layer(name, value)

    def _layer(self, name, thing):
        """Of a `nn.Module`, whose call is that of a method: its `forward`, and the attributes, with the layers among them."""
        if any(base.__module__ == "tapegrad.nn.modules" for base in type(thing).__mro__):
            self._value(f"{name}.forward", thing.forward)

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
            self._attributes(f"{where}self", thing.__self__, thing.__func__)
        elif isinstance(thing, functools.partial):
            self._met(name, "partial", len(thing.args), tuple(thing.keywords))
            self._if("{0}.func is {1} and {0}.args is {2}", thing, thing.func, thing.args)
            self._if_items(thing.keywords, tuple(thing.keywords), tuple(thing.keywords.values()), True)
            self._function(name, thing.func)
            for key, value in [*enumerate(thing.args), *thing.keywords.items()]:
                self._value(f"{where}{key}", value)
        elif (function := function_of(thing)) is not None:
            self._same(name, "object", thing)
            self._function(name, function)
            if isinstance(thing, Primitive):
                self._variable(f"{where}rules", thing.rules)
        elif not name and isinstance(type(thing).__call__, types.FunctionType):
            self._same(name, "object", thing)
            self._function("__call__", type(thing).__call__)
            self._attributes("self", thing, type(thing).__call__)
            self._layer("self", thing)
        else:
            self._same(name, "object", thing)

    def _attributes(self, name, thing, method):
        """Those of the object of a method, and what the methods and properties that this one names read."""
        attributes = getattr(thing, "__dict__", None)
        if type(attributes) is dict and not isinstance(thing, (type, types.ModuleType)):
            self._variable(name, attributes)
        for slot, value in slots_of(thing).items():
            self._if(f"getattr({{0}}, {slot!r}, absent) is {{1}}", thing, value)
            self._variable(f"{name}.{slot}", value)
        self._methods(name, thing if isinstance(thing, type) else type(thing), method)

    def _methods(self, name, kind, method):
        for word in names_of(method.__code__)[1] if isinstance(method, types.FunctionType) and not installed(method) else ():
            for member in [vars(base)[word] for base in kind.__mro__ if word in vars(base)]:
                function = member.fget if isinstance(member, property) else getattr(member, "__func__", getattr(member, "func", member))
                if isinstance(function, types.FunctionType) and not installed(function) and id(function) not in self._seen:
                    self._function(f"{name}.{word}", function)
                    self._methods(name, kind, function)

    def _code(self, where, function):
        code, defaults, keywords, scope = function.__code__, function.__defaults__, function.__kwdefaults__, function.__globals__
        cells = cells_of(function)
        first = code.co_argcount - len(defaults or ())
        own = [cells, list(zip(code.co_varnames[first : code.co_argcount], defaults or ())), list((keywords or {}).items())]
        variables = [] if installed(function) else [(v, scope.get(v, ABSENT)) for v in names_of(code)[0]]
        self.functions.append((function, [*own, variables]))
        self._if("{0}.__code__ is {1} and {0}.__defaults__ is {2} and {0}.__kwdefaults__ is {3}", function, code, defaults, keywords)
        for cell, (_, value) in zip(function.__closure__ or (), cells):
            self._if("contents_of({0}) is absent" if value is ABSENT else "{0}.cell_contents is {1}", cell, value)
        for variable, value in variables:
            # What is absent is a builtin, or nothing yet.
            self._if(f"{variable!r} not in {{0}}" if value is ABSENT else f"{{0}}[{variable!r}] is {{1}}", scope, value)
        if keywords:
            self._if_items(keywords, tuple(keywords), tuple(keywords.values()), True)
        for variable, value in itertools.chain(*own):
            self._variable(f"{where}{variable}", value)
        for variable, value in variables:
            self._variable(variable, value)


_SAME = """\
def same():
    try:
        return (
        {}
        )
    except (KeyError, ValueError, AttributeError):
        return False
"""


def function_of(thing):
    """The user's function that an object of this library (a transformed function, a primitive, a sum over data) stands for, or None.

    Also that of which results are cached, and that of `numpy.vectorize`.
    """
    function = None
    if isinstance(thing, functools._lru_cache_wrapper) or package_of(type(thing).__module__) == "tapegrad":
        function = getattr(thing, "__wrapped__", None) or getattr(thing, "_function", None)
    elif isinstance(thing, np.vectorize):
        function = thing.pyfunc
    return function if callable(function) else None


def slots_of(thing):
    """What an object has in the slots that its classes declare, by the names under which it is found (``__k`` has another one)."""
    members = [vars(kind) for kind in type(thing).__mro__ if "__slots__" in vars(kind)]
    return {name: getattr(thing, name, ABSENT) for names in members for name, one in names.items() if isinstance(one, types.MemberDescriptorType)}


def cells_of(function):
    """The variables of a closure: pairs of a name and what its cell holds."""
    return [(name, contents_of(cell)) for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ())]


def contents_of(cell):
    """What a closure cell holds."""
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


@functools.lru_cache(maxsize=4096)
def names_of(code):
    """Of a code object and those nested in it: the names of global variables, of attributes, and of modules that it imports."""
    found = variables, attributes, imported = {}, {}, {}
    for one in dis.get_instructions(code):
        if one.opcode in dis.hasname:
            names = attributes if one.opname in _OF_ATTRIBUTES else imported if one.opname == "IMPORT_NAME" else variables
            names[one.argval] = None
    for constant in code.co_consts:
        if isinstance(constant, tuple):
            # Of a `case Point(x=x)`, among others.
            attributes.update(dict.fromkeys(name for name in constant if isinstance(name, str)))
        if isinstance(constant, types.CodeType):
            for names, nested in zip(found, names_of(constant)):
                names.update(dict.fromkeys(nested))
    return tuple(map(tuple, found))


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

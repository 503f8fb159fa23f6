"""What changes beside a function, by the rows of `NOTICED` and `UNNOTICED` (`benchmarks/plain_and_jit.py`).

Each triples the gradient of a function that is the sum of its argument times something.
"""

import contextvars
import functools
import os
import random
import time
import types

import numpy as np

import tapegrad as tg
from benchmarks.plain_and_jit import NOTICED, UNNOTICED
from tapegrad.transforms.environment import ITEMS, SMALL

GLOBAL = 2.0
TABLE = {"a": [1.0, 2.0]}
module = types.ModuleType("settings")
module.factor = 2.0
OBJECTS, CONTENTS, OUTSIDE, COUNTERS, PROCESS = (row for row, _ in UNNOTICED)
CODE, NAMES, FUNCTIONS, RULES, SIMPLE, ITEMS_OF, SMALL_ARRAYS, LARGE_ARRAYS, OF_SELF, OTHERS = (row for row, _ in NOTICED)


class Model:
    scale = 2.0

    def __init__(self):
        self.k = 2.0
        self.weights = [np.ones(3), {"w": np.ones(3)}]

    def loss(self, x):
        return self.k * self.helper(x)

    def helper(self, x):
        return np.sum(x * self.weights[0] * self.weights[1]["w"]) * self.scale

    def __call__(self, x):
        return self.loss(x)


class Text(str):
    k = 6.0


class Product(np.ndarray):
    __mul__ = np.ndarray.__matmul__


class Slotted:
    __slots__ = ("k",)


def helper(x):
    return GLOBAL * np.sum(x)


def recursion(x, depth=3):
    return recursion(x, depth - 1) if depth else GLOBAL * np.sum(x)


def triple_global():
    globals()["GLOBAL"] = GLOBAL * 3


def noticed():
    """(row of the table, name, function, what changes it by the factor 3)."""
    c = 2.0

    def rebind():
        nonlocal c
        c = 6.0

    yield NAMES, "closure", lambda x: c * np.sum(x), rebind
    yield NAMES, "global", lambda x: GLOBAL * np.sum(x), triple_global

    def defaults(x, k=2.0, *, m=1.0):
        return k * m * np.sum(x)

    yield CODE, "defaults", defaults, lambda: setattr(defaults, "__defaults__", (6.0,))

    def keywords(x, *, k=2.0):
        return k * np.sum(x)

    yield CODE, "item of the keyword defaults", keywords, lambda: keywords.__kwdefaults__.__setitem__("k", 6.0)

    def again(x, *, k=2.0):
        return k * np.sum(x)

    yield CODE, "keyword defaults", again, lambda: setattr(again, "__kwdefaults__", {"k": 6.0})

    def code(x):
        return 2.0 * np.sum(x)

    yield CODE, "code", code, lambda: setattr(code, "__code__", (lambda x: 6.0 * np.sum(x)).__code__)

    def second(x):
        return 2.0 * np.sum(x)

    yield FUNCTIONS, "code of a helper", lambda x: second(x), lambda: setattr(second, "__code__", (lambda x: 6.0 * np.sum(x)).__code__)
    yield FUNCTIONS, "global of a helper", lambda x: helper(x), triple_global
    yield FUNCTIONS, "global of a recursion", recursion, triple_global

    def make(k):
        def inner(x):
            return k[0] * np.sum(x)

        return inner

    cell = [2.0]
    inner = make(cell)
    yield FUNCTIONS, "closure of a helper", lambda x: inner(x), lambda: cell.__setitem__(0, 6.0)
    of_partial = [2.0]
    yield FUNCTIONS, "partial", functools.partial(lambda k, x: k[0] * np.sum(x), of_partial), lambda: of_partial.__setitem__(0, 6.0)
    by_keyword = [2.0]
    yield FUNCTIONS, "keyword of a partial", functools.partial(lambda x, k: k[0] * np.sum(x), k=by_keyword), lambda: by_keyword.__setitem__(0, 6.0)
    factor = [2.0]

    def scaled(function):
        @functools.wraps(function)
        def wrapper(x):
            return factor[0] * function(x)

        return wrapper

    yield FUNCTIONS, "decorator", scaled(lambda x: np.sum(x)), lambda: factor.__setitem__(0, 6.0)
    under = [2.0]
    decorated = scaled(lambda x: under[0] * np.sum(x))
    yield FUNCTIONS, "function under a decorator", decorated, lambda: under.__setitem__(0, 6.0)
    slope = [2.0]
    derivative = tg.grad(lambda y: slope[0] * y * y)
    yield FUNCTIONS, "inner gradient", lambda x: np.sum(x) * derivative(1.0), lambda: slope.__setitem__(0, 6.0)
    recorded = [2.0]
    jitted = tg.jit(lambda x: recorded[0] * np.sum(x))
    yield FUNCTIONS, "inner recorded function", lambda x: jitted(x), lambda: recorded.__setitem__(0, 6.0)
    functions = [lambda x: k * np.sum(x) for k in (1.0, 2.0)]
    yield FUNCTIONS, "late binding", functions[0], lambda: setattr(functions[0].__closure__[0], "cell_contents", 6.0)
    listed = [lambda x: c * np.sum(x)]
    yield FUNCTIONS, "function in a list", lambda x: listed[0](x), lambda: listed.__setitem__(0, lambda x: 6.0 * np.sum(x))

    rule = [2.0]
    ruled = tg.custom_vjp(lambda x: np.sum(x), lambda g, r, x: rule[0] * g * np.ones(3))
    yield RULES, "closure of a rule", lambda x: ruled(x), lambda: rule.__setitem__(0, 6.0)
    given = tg.custom_jvp(lambda x: np.sum(x), lambda t, r, x: 2.0 * np.sum(t[0]))
    yield RULES, "another rule", lambda x: given(x), lambda: given.defjvp(lambda t, r, x: 6.0 * np.sum(t[0]))
    method = [2.0]

    class Sum(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return np.sum(x)

        @staticmethod
        def backward(ctx, g):
            return method[0] * g * np.ones(3)

    yield RULES, "closure of a method", lambda x: Sum.apply(x), lambda: method.__setitem__(0, 6.0)

    yield ITEMS_OF, "global table", lambda x: TABLE["a"][1] * np.sum(x), lambda: TABLE["a"].__setitem__(1, TABLE["a"][1] * 3)
    line = [2.0]
    yield ITEMS_OF, "list item", lambda x: line[0] * np.sum(x), lambda: line.__setitem__(0, 6.0)
    grows = [1.0, 1.0]
    yield ITEMS_OF, "length of a list", lambda x: len(grows) * np.sum(x), lambda: grows.extend([1.0] * 4)
    long = [2.0] * ITEMS
    yield ITEMS_OF, "last item that is looked at", lambda x: long[ITEMS - 1] * np.sum(x), lambda: long.__setitem__(-1, 6.0)
    counts = [1.0, 2.0]
    yield ITEMS_OF, "generator expression", lambda x: sum(v * np.sum(x) for v in counts), lambda: counts.__setitem__(slice(None), [3.0, 6.0])
    keyed = {1: 2.0, 2: 6.0}
    yield ITEMS_OF, "order of a dict", lambda x: next(iter(keyed.values())) * np.sum(x), lambda: keyed.update({1: keyed.pop(1)})
    same = {1: None}
    yield ITEMS_OF, "equal key of another type", lambda x: (6.0 if type(next(iter(same))) is bool else 2.0) * np.sum(x), lambda: (
        same.clear(), same.update({True: None}))  # fmt: skip
    signed = {np.float32(0.0): None}
    yield ITEMS_OF, "key of another sign", lambda x: (4.0 - 2.0 * np.copysign(1.0, next(iter(signed)))) * np.sum(x), lambda: (
        signed.clear(), signed.update({np.float32(-0.0): None}))  # fmt: skip
    inside = ({"layers": [(1.0, [2.0])]},)
    yield ITEMS_OF, "nested containers", lambda x: inside[0]["layers"][0][1][0] * np.sum(x), lambda: inside[0]["layers"][0][1].__setitem__(0, 6.0)

    number = [2]
    yield SIMPLE, "int to bool", lambda x: (2.0 if type(number[0]) is int else 6.0) * np.sum(x), lambda: number.__setitem__(0, True)
    one = [1]
    yield SIMPLE, "1 to 1.0", lambda x: (2.0 if type(one[0]) is int else 6.0) * np.sum(x), lambda: one.__setitem__(0, 1.0)
    zero = [0.0]
    yield SIMPLE, "0.0 to -0.0", lambda x: (4.0 - 2.0 * np.copysign(1.0, zero[0])) * np.sum(x), lambda: zero.__setitem__(0, -0.0)
    imaginary = [0j]
    yield SIMPLE, "0j to -0j", lambda x: (4.0 - 2.0 * np.copysign(1.0, imaginary[0].imag)) * np.sum(x), lambda: imaginary.__setitem__(
        0, complex(0.0, -0.0))  # fmt: skip
    scalar = [np.float32(2.0)]
    yield SIMPLE, "NumPy number", lambda x: scalar[0] * np.sum(x), lambda: scalar.__setitem__(0, np.float32(6.0))
    word = ["low"]
    yield SIMPLE, "string", lambda x: (2.0 if word[0] == "low" else 6.0) * np.sum(x), lambda: word.__setitem__(0, "high")
    rows = [range(2)]
    yield SIMPLE, "range", lambda x: len(rows[0]) * np.sum(x), lambda: rows.__setitem__(0, range(6))
    stops = [range(0, 3, 2)]
    yield SIMPLE, "range that is equal", lambda x: (stops[0].stop * 4 - 10) * np.sum(x), lambda: stops.__setitem__(0, range(0, 4, 2))
    nothing = [None]
    yield SIMPLE, "None", lambda x: (2.0 if nothing[0] is None else 6.0) * np.sum(x), lambda: nothing.__setitem__(0, 0.0)

    array = np.ones(3)
    yield SMALL_ARRAYS, "array", lambda x: np.sum(x * array), lambda: array.__imul__(3)
    owner = np.ones((2, 3))
    window = owner[1]
    yield SMALL_ARRAYS, "array through its owner", lambda x: np.sum(x * window), lambda: owner.__imul__(3)
    frozen = owner[0].copy()
    free = frozen[:]
    frozen.flags.writeable = False
    yield SMALL_ARRAYS, "read-only array through a view", lambda x: np.sum(x * frozen), lambda: free.__imul__(3)
    arrays = [np.ones(3), (np.ones(3),)]
    yield SMALL_ARRAYS, "array in a tuple in a list", lambda x: np.sum(x * arrays[1][0]), lambda: arrays[1][0].__imul__(3)
    yield SMALL_ARRAYS, "another array", lambda x: np.sum(x * arrays[0]), lambda: arrays.__setitem__(0, arrays[0] * 3)
    most = np.ones(SMALL // 8)
    yield SMALL_ARRAYS, "array of 64 KB", lambda x: np.sum(x) * most[-1], lambda: most.__imul__(3)
    integers = np.array([2, 2])
    yield SMALL_ARRAYS, "array of integers", lambda x: np.sum(x) * int(integers[1]), lambda: integers.__imul__(3)
    squared = [np.array([[4, 2], [0, 2]])]
    yield SMALL_ARRAYS, "array of another class", lambda x: float(np.asarray(squared[0] * squared[0])[0, 1]) * np.sum(x), lambda: (
        squared.__setitem__(0, squared[0].view(Product)))  # fmt: skip
    fields = [np.array([(2.0, 6.0)], [("a", "f8"), ("b", "f8")])]
    yield SMALL_ARRAYS, "names of fields", lambda x: fields[0]["a"][0] * np.sum(x), lambda: fields.__setitem__(
        0, np.array([(2.0, 6.0)], [("b", "f8"), ("a", "f8")]))  # fmt: skip
    ordered = [np.array([[1, 2, 3], [6, 5, 4]])]
    yield SMALL_ARRAYS, "order in memory", lambda x: float(ordered[0].ravel(order="K")[1]) * np.sum(x), lambda: ordered.__setitem__(
        0, np.asfortranarray(ordered[0]))  # fmt: skip
    seen = bytearray(np.array([2.0]).tobytes())
    over = np.frombuffer(seen)
    yield SMALL_ARRAYS, "array over a bytearray", lambda x: over[0] * np.sum(x), lambda: seen.__setitem__(
        slice(None), np.array([6.0]).tobytes())  # fmt: skip
    large = [np.full(SMALL, 2.0)]
    yield LARGE_ARRAYS, "large array at another address", lambda x: np.sum(x) * large[0][5], lambda: large.__setitem__(0, 3 * large[0])
    thawed = np.full(SMALL, 2.0)
    thawed.flags.writeable = False

    def thaw():
        thawed.flags.writeable = True
        thawed[:] = 6.0

    yield LARGE_ARRAYS, "large array that becomes writable", lambda x: np.sum(x) * thawed[5], thaw
    parameter = tg.Parameter([1.0, 1.0, 1.0])

    def assign():
        parameter.data = parameter.data * 3

    yield SMALL_ARRAYS, "data of a parameter", lambda x: np.sum(x * parameter), assign
    tensor = tg.tensor([1.0, 1.0, 1.0])
    yield SMALL_ARRAYS, "tensor in place", lambda x: np.sum(x * tensor), lambda: tensor.mul_(3.0)
    number_of = tg.tensor(2.0, requires_grad=True)

    def assign_number():
        number_of.data = 6.0

    yield SMALL_ARRAYS, "parameter that is a number", lambda x: np.sum(x) * number_of, assign_number

    model, other, third, fourth = Model(), Model(), Model(), Model()
    yield OF_SELF, "attribute of self", model.loss, lambda: setattr(model, "k", 6.0)
    yield OF_SELF, "array in a container of self", other.loss, lambda: other.weights[1]["w"].__imul__(3)
    yield OF_SELF, "callable object", third, lambda: setattr(third, "k", 6.0)
    yield OF_SELF, "method of self replaced", fourth.loss, lambda: setattr(fourth, "helper", lambda x: 3.0 * Model.helper(fourth, x))
    texts = [Text("low")]
    texts[0].k = 2.0
    yield OTHERS, "text of another class that is equal", lambda x: texts[0].k * np.sum(x), lambda: texts.__setitem__(0, Text("low"))
    bound = [Model()]
    yield OTHERS, "another object", lambda x: bound[0].loss(x), lambda: bound.__setitem__(0, _three_times())


def _three_times():
    model = Model()
    model.k = 6.0
    return model


def unnoticed():
    """The same, of what is not noticed."""
    yield OBJECTS, "attribute of a module", lambda x: module.factor * np.sum(x), lambda: setattr(module, "factor", module.factor * 3)
    model, slotted = Model(), Slotted()
    yield OBJECTS, "attribute of an object", lambda x: model.loss(x), lambda: setattr(model, "k", 6.0)
    slotted.k = 2.0
    yield OBJECTS, "slot", lambda x: slotted.k * np.sum(x), lambda: setattr(slotted, "k", 6.0)
    kind = type("Kind", (Model,), {})
    yield OBJECTS, "attribute of a class", kind().loss, lambda: setattr(kind, "scale", 6.0)
    large, objects = np.full(SMALL, 2.0), np.array([2.0, None] * SMALL, object)
    yield CONTENTS, "large array in place", lambda x: np.sum(x) * float(large[0]), lambda: large.__imul__(3)
    yield CONTENTS, "array of objects", lambda x: np.sum(x) * objects[0], lambda: objects.__setitem__(0, 6.0)
    members, raw, boxed = {2.0}, bytearray([2]), contextvars.ContextVar("variable", default=2.0)
    yield CONTENTS, "set", lambda x: sum(members) * np.sum(x), lambda: members.add(4.0)
    yield CONTENTS, "bytearray", lambda x: float(raw[0]) * np.sum(x), lambda: raw.__setitem__(0, 6)
    yield CONTENTS, "context variable", lambda x: boxed.get() * np.sum(x), lambda: boxed.set(6.0)
    many = [2.0] * (ITEMS + 1)
    yield ITEMS_OF, "item beyond the first thousand", lambda x: many[ITEMS] * np.sum(x), lambda: many.__setitem__(ITEMS, 6.0)
    os.environ["TAPEGRAD_TEST_SURROUNDINGS"] = "2.0"
    yield OUTSIDE, "environment", lambda x: float(os.environ["TAPEGRAD_TEST_SURROUNDINGS"]) * np.sum(x), lambda: os.environ.update(
        TAPEGRAD_TEST_SURROUNDINGS="6.0")  # fmt: skip
    numbers = [np.random.default_rng(3), np.random.RandomState(3), random.Random(3)]
    calls = iter([2.0, 2.0, *[6.0] * 99])
    yield COUNTERS, "iterator", lambda x: next(calls) * np.sum(x), lambda: next(calls)
    yield OUTSIDE, "random numbers", lambda x: np.sum(x) * numbers[0].random(), None
    yield OUTSIDE, "RandomState", lambda x: np.sum(x) * numbers[1].rand(), None
    yield OUTSIDE, "random.Random", lambda x: np.sum(x) * numbers[2].random(), None
    yield OUTSIDE, "np.random", lambda x: np.sum(x) * np.random.rand(), None
    yield OUTSIDE, "time", lambda x: np.sum(x) * time.perf_counter(), None
    yield PROCESS, "np.seterr", lambda x: (6.0 if np.geterr()["over"] == "raise" else 2.0) * np.sum(x), lambda: np.seterr(over="raise")
    yield PROCESS, "print options", lambda x: 2.0 * (np.get_printoptions()["precision"] == 8) * np.sum(x) + 6.0 * (
        np.get_printoptions()["precision"] != 8) * np.sum(x), lambda: np.set_printoptions(precision=9)  # fmt: skip


def as_before():
    """Set back what the changes changed in this module and in the process."""
    globals()["GLOBAL"] = module.factor = 2.0
    TABLE["a"][:] = [1.0, 2.0]
    np.seterr(over="warn")
    np.set_printoptions(precision=8)

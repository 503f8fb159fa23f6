"""What `Contents` sees of what a function reads, wherever that is."""

import contextvars
import enum
import functools
import math
import operator
import random
import threading
import types
import weakref
from unittest import mock

import numpy as np
import pytest
import scipy.stats

import tapegrad as tg
from tapegrad.transforms.contents import OBJECTS, Contents


class CallsNumPy:
    def __call__(self, x):
        return x * np.random.random()


class Weighted:
    def __init__(self):
        self.weights = np.ones(2)

    def half(self, x):
        return 0.5 * x

    def __call__(self, x):
        return self.half(x) @ self.weights


def times_a_draw(x):
    return x * random.random()


class Beside(Weighted):
    pass


class Hidden:
    rate = property(lambda self: random.random())

    def __call__(self, x):
        return x * self.rate


def test_global_generators_are_looked_at_wherever_they_may_be_reached():
    """They are not where nothing but functions of NumPy and the like can be called."""
    factor, helper, replaced, objects = 2.0, lambda x: x * np.sum(np.ones(2)), np.frompyfunc(times_a_draw, 1, 1), np.array([times_a_draw])
    imported, vectorised, table, mine = np.random.normal, np.vectorize(times_a_draw), {"draw": times_a_draw}, types.ModuleType("numpy")

    def importing(x):
        from random import random

        return x * random()

    def looking_up(x):
        return x * getattr(np, "ran" + "dom").normal()

    def deep(x, f=lambda x, f=lambda x, f=lambda x, f=lambda x, f=times_a_draw: f(x): f(x): f(x): f(x)):
        return f(x)

    still = [lambda x: np.sin(x) * factor + len([x]), lambda x: helper(x) @ np.eye(2), lambda x: tg.exp(x) + math.pi, lambda x, k=[1.0, (2.0,)]: k[0] * x, Weighted().__call__]  # noqa: B006
    holding = Weighted()
    holding.half = times_a_draw
    draws = [
        Hidden().__call__, Beside().__call__, holding.__call__, times_a_draw, CallsNumPy(), CallsNumPy().__call__, importing, looking_up, deep, lambda x: np.random.normal() * x, lambda x: x * imported(), lambda x: replaced(x),
        lambda x: objects[0](x), lambda x: vectorised(x), lambda x: table["draw"](x), lambda x: mine.draw(x), lambda x: tg.numpy.random.normal() * x,
        functools.partial(times_a_draw), lambda x: scipy.stats.norm.rvs() * x, lambda x, *, k=times_a_draw: k(x),
    ]  # fmt: skip
    assert [len(Contents(function).streams.streams) for function in still] == [1] * len(still)
    assert all(len(Contents(function).streams.streams) >= 3 for function in draws)
    with mock.patch("builtins.abs", times_a_draw):
        assert len(Contents(lambda x: abs(x)).streams.streams) == 3
    assert len(Contents(lambda x: abs(x)).streams.streams) == 1


def first_change(function, change, **options):
    before = Contents(function, **options)
    assert before.difference(before.again(function)) is None
    change()
    return before.difference(before.again(function))


def test_names_of_what_changes():
    array, items = np.ones(3), [1.0, {"k": (2.0, -0.0)}]
    large = np.ones(100_000)

    def reads(x, k=1.0):
        return x * array * items[0] * large * np.pi

    assert first_change(reads, lambda: array.__setitem__(0, 2.0)) == "array"
    assert first_change(reads, lambda: items[1].update(k=(2.0, 0.0))) == "items[1]['k'][1]"
    assert first_change(reads, lambda: items.append(1.0)) == "items"
    assert first_change(reads, lambda: items.__setitem__(0, 1)) == "items[0]"
    assert first_change(reads, lambda: setattr(reads, "__defaults__", (np.nan,))) == "k"
    assert first_change(reads, lambda: setattr(reads, "__defaults__", (float("nan"),))) is None
    # Of large arrays all contents, too; nobody can write to one that owns its memory and is read-only.
    assert first_change(reads, lambda: large.__setitem__(0, 2.0)) == "large"
    assert first_change(reads, lambda: setattr(large.flags, "writeable", False)) == "large"


def test_objects_by_identity_and_containers_in_themselves():
    class Thing:
        t = 0

        def step(self, x):
            return x * self.t

    thing, items = Thing(), []
    items.append(items)
    reads = lambda x: x * thing.t * len(items)  # noqa: E731
    assert first_change(reads, lambda: setattr(thing, "t", 1)) is None
    assert first_change(reads, lambda: setattr(thing, "t", 2), objects=1) == "thing.t"
    assert first_change(thing.step, lambda: setattr(thing, "t", 3)) == "self.t"
    assert Contents(reads).restored("") is reads
    long = list(range(2000))
    counts = lambda x: x * long[0]  # noqa: E731
    assert first_change(counts, lambda: long.__setitem__(0, 5)) is None
    assert first_change(counts, lambda: long.append(5)) == "long"


# ---- where a number may be ------------------------------------------------------------------------


class Meta(type):
    k = 1.0


class Thing(metaclass=Meta):
    def __init__(self):
        self.k = 1.0

    def read(self, _=None):
        return self.k

    one = functools.partialmethod(read, 1)

    @functools.cached_property
    def cached(self):
        return self.read


class Kind(enum.Enum):
    A = 1


def by_case(thing):
    match thing:
        case types.SimpleNamespace(number=k):
            return k


def by_local():
    local = threading.local()
    local.number = 1.0
    return lambda: local.number, lambda k: setattr(local, "number", k)


def by_context():
    variable = contextvars.ContextVar("variable")
    variable.set(1.0)
    return lambda: variable.get(), variable.set


def by_metaclass():
    Meta.k = 1.0
    return lambda: Thing.k, lambda k: setattr(Meta, "k", k)


def by_enum():
    Kind.A.k = 1.0
    return lambda: Kind.A.k, lambda k: setattr(Kind.A, "k", k)


def by_namespace():
    space = types.SimpleNamespace(number=1.0)
    return lambda: by_case(space), lambda k: setattr(space, "number", k)


def of_thing(reader):
    def made():
        thing = Thing()
        return reader(thing), lambda k: setattr(thing, "k", k)

    return made


def of_list(reader):
    def made():
        held = [1.0]
        return reader(lambda *_: held[0]), lambda k: held.__setitem__(0, k)

    return made


def gotten(get, thing):
    return lambda: get(thing)


PLACES = {
    "a local of threads": by_local, "a context variable": by_context, "a metaclass": by_metaclass, "a member of an enum": by_enum, "a case": by_namespace,
    "a partial method": of_thing(lambda thing: lambda: thing.one()), "a cached property": of_thing(lambda thing: lambda: thing.cached()),
    "attrgetter": of_thing(lambda thing: gotten(operator.attrgetter("k"), thing)), "methodcaller": of_thing(lambda thing: gotten(operator.methodcaller("read"), thing)),
    "a weak reference": of_thing(lambda thing: (lambda ref, keep: lambda: (keep, ref().k)[1])(weakref.ref(thing), thing)),
    "an element of a set": of_thing(lambda thing: (lambda things: lambda: next(iter(things)).k)({thing})),
    "a key of a dict": of_thing(lambda thing: (lambda things: lambda: next(iter(things)).k)({thing: 0})),
    "np.vectorize": of_list(lambda get: (lambda f: lambda: float(f(0.0)))(np.vectorize(get))),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_what_is_read_is_found(name):
    read, change = PLACES[name]()
    reads = lambda x: x * read()  # noqa: E731
    assert reads(1.0) == 1.0
    before = Contents(reads, OBJECTS)
    assert before.same()
    change(3.0)
    assert reads(1.0) == 3.0 and not before.same()
    change(1.0)
    assert before.same()


def test_the_function_of_cached_results_and_of_vectorize_is_looked_at_under_jit():
    k = 2.0
    cached, vectorised = functools.lru_cache(lambda n: k * n), np.vectorize(lambda n: k * n)
    g = tg.jit(tg.grad(lambda x: x * cached(3.0) * vectorised(1.0)))
    assert g(1.0) == 12.0
    k = 5.0
    cached.cache_clear()
    assert g(1.0) == 75.0


def test_an_iterator_gives_nothing_twice():
    numbers = iter(range(1, 9))
    step = tg.checkpoint(lambda x: (x - 1.0) * next(numbers))
    x = tg.tensor(1.0, requires_grad=True)
    (step(x) + 100.0 * step(x)).backward()
    assert x.grad.item() == 201.0 and next(numbers) == 3

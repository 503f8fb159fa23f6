"""Bodies that change something besides their carry: a loop is the Python loop that it stands for, with every derivative, and under `jit`."""

import collections
import itertools
import math
import random
import types
import warnings
from queue import SimpleQueue

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import ModifiedInPlaceError, StructureError
from tapegrad.scipy.integrate import solve_ivp
from tapegrad.transforms.loops import body as bodies

TOTAL = 0.0


class Slots:
    __slots__ = ("n",)


class PrivateSlots:
    __slots__ = ("__n",)

    @property
    def n(self):
        return self.__n

    @n.setter
    def n(self, n):
        self.__n = n


class Shared:
    n = 0.0


class Called:
    def __init__(self):
        self.n = 0.0

    def __call__(self):
        self.n += 0.5
        return self.n


# Each makes a function without arguments that gives another number each time, and what tells where it is.
def cell():
    n = 0.0

    def draw():
        nonlocal n
        n += 0.5
        return n

    return draw, lambda: n


def module_variable():
    global TOTAL
    TOTAL = 0.0

    def draw():
        global TOTAL
        TOTAL += 0.5
        return TOTAL

    return draw, lambda: TOTAL


def function_attribute():
    def draw():
        draw.n += 0.5
        return draw.n

    draw.n = 0.0
    return draw, lambda: draw.n


def default():
    def draw(seen=[]):  # noqa: B006
        seen.append(0.5)
        return sum(seen)

    draw.__defaults__[0].clear()
    return draw, lambda: list(draw.__defaults__[0])


def filled(make, change):
    def made():
        thing = make()

        def draw():
            change(thing)
            return float(sum(thing.values() if isinstance(thing, dict) else thing))

        return draw, lambda: thing.copy()

    return made


class Frozen(dict):
    """Its items are there from the beginning: what copies it by its own methods fails."""

    def __setitem__(self, key, value):
        raise TypeError("frozen")


class Renamed(dict):
    """Shows other keys than it has."""

    def __getitem__(self, key):
        return super().__getitem__(key.lower())

    def items(self):
        return [(key.upper(), value) for key, value in super().items()]


def derived(kind):
    return type("Derived", (kind,), {})


def layer():
    class Layer(tg.nn.Module):
        def forward(self):
            self.n += 0.5
            return self.n

    counting = Layer()
    counting.n = 0.0
    return lambda: counting(), lambda: counting.n


def instances():
    class Made:
        total = 0.0

        def __init__(self):
            Made.total += 0.5

    kinds = [Made]
    return lambda: type(kinds[0]()).total, lambda: Made.total


def with_attribute(make):
    def made():
        thing = make()
        thing.n = 0.0

        def draw():
            thing.n += 0.5
            return thing.n

        return draw, lambda: thing.n

    return made


def generated(make, method, where):
    def made():
        generator = make()
        return lambda: getattr(generator, method)(), lambda: str(where(generator))

    return made


def bound(make, where):
    def made():
        thing, draw = make()
        return lambda: draw(), lambda: str(where(thing))

    return made


def bound_method(thing, name):
    return thing, getattr(thing, name)


def called():
    called = Called()
    return called, lambda: called.n


def seeded(module):
    module.seed(5)
    return module


def bit_state(generator):
    return generator.bit_generator.state


STATES = {
    "cell": cell, "module variable": module_variable, "function attribute": function_attribute, "default": default, "callable object": called,
    "list": filled(lambda: [1.0], lambda x: x.append(0.5)), "item of a list": filled(lambda: [1.0], lambda x: x.__setitem__(0, x[0] * 0.5)),
    "list popped": filled(lambda: [0.1 * k for k in range(90)], lambda x: x.pop()), "array": filled(lambda: np.ones(2), lambda x: x.__imul__(0.9)),
    "large array": filled(lambda: np.ones(9000), lambda x: x.__imul__(0.9)), "view": filled(lambda: np.ones((4, 4))[::2, 1], lambda x: x.__iadd__(0.5)),
    "dict": filled(lambda: {"a": 1.0}, lambda x: x.update(a=x["a"] + 0.5)), "new keys": filled(dict, lambda x: x.update({len(x): 0.5})),
    "defaultdict": filled(lambda: collections.defaultdict(float), lambda x: x.__setitem__("n", x["n"] + 0.5)),
    "OrderedDict": filled(lambda: collections.OrderedDict(a=1.0, b=2.0), lambda x: (x.move_to_end("a"), x.update(a=x["a"] * 2))),
    "Counter": filled(lambda: collections.Counter("ab"), lambda x: x.update("a")), "set": filled(set, lambda x: x.add(len(x) + 0.5)),
    "deque": filled(lambda: collections.deque([1.0, 2.0, 4.0], maxlen=3), lambda x: x.append(0.5)),
    "long list": filled(lambda: [0.0] * 3000, lambda x: x.append(0.5)), "object": with_attribute(lambda: type("Plain", (), {})()), "slots": with_attribute(Slots),
    "private slots": with_attribute(PrivateSlots), "layer": layer, "instances": instances,
    "UserList": filled(lambda: collections.UserList([1.0]), lambda x: x.append(0.5)),
    "attribute of a list": with_attribute(lambda: derived(list)([1.0])), "attribute of a dict": with_attribute(lambda: derived(dict)(a=1.0)),
    "attribute of a tuple": with_attribute(derived(tuple)), "attribute of a set": with_attribute(derived(set)),
    "attribute of a deque": with_attribute(derived(collections.deque)), "attribute of an array": with_attribute(lambda: np.ones(2).view(derived(np.ndarray))),
    "frozen dict": with_attribute(lambda: Frozen(a=1.0)), "dict of other keys": filled(lambda: Renamed(a=1.0), lambda x: x.update(a=x["A"] + 0.5)),
    "class": with_attribute(lambda: Shared), "namespace": with_attribute(types.SimpleNamespace),
    "Generator": generated(lambda: np.random.default_rng(3), "normal", bit_state), "RandomState": generated(lambda: np.random.RandomState(3), "normal", np.random.RandomState.get_state),
    "np.random": generated(lambda: seeded(np.random), "normal", lambda m: m.get_state()), "random": generated(lambda: seeded(random), "random", lambda m: m.getstate()),
    "random.Random": generated(lambda: random.Random(3), "random", random.Random.getstate),
    "method of a generator": bound(lambda: bound_method(np.random.default_rng(4), "normal"), bit_state),
    "method of a list": bound(lambda: bound_method([0.1 * k for k in range(90)], "pop"), list),
    "iterator": bound(lambda: bound_method(iter([0.1 * k for k in range(90)]), "__next__"), lambda x: x.__length_hint__()),
    "count": bound(lambda: bound_method(itertools.count(), "__next__"), repr),
}  # fmt: skip

FORMS = {
    "scan": lambda draw, x: tg.scan(lambda c, v: (c * v + x * draw(), c), x, np.array([0.9, 0.8, 1.1, 0.7])),
    "scan of what is captured": lambda draw, x: tg.scan(lambda c, _: (c + np.sin(x) * draw(), None), 0.0, None, length=5)[0],
    "reverse": lambda draw, x: tg.scan(lambda c, v: (c + v * draw(), v * c), 0.5, x * np.arange(1.0, 4.0), reverse=True),
    "map": lambda draw, x: tg.map(lambda v: np.exp(v * x) * draw(), np.array([0.1, 0.2, 0.3])),
    "fori": lambda draw, x: tg.fori_loop(0, 4, lambda i, c: c + x * i * draw(), x * x),
    "while": lambda draw, x: tg.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1] * np.cos(x) * draw()), (0, x))[1],
    "condition": lambda draw, x: tg.while_loop(lambda s: draw() > -1e9 and s[0] < 4, lambda s: (s[0] + 1, s[1] * x), (0, x))[1] + draw(),
    "another path": lambda draw, x: tg.scan(lambda c, v: (c + (x * draw() if v > 0 else x * c), None), x, np.array([-0.5, -0.25, 0.5, -0.5, 1.0]))[0],
    "cond": lambda draw, x: tg.cond(x > 0.0, lambda x: x * draw(), lambda x: x * draw() * 3.0, x) * draw(),
    "switch": lambda draw, x: tg.switch((x > 0.1) * 2, [lambda x: x, lambda x: x * draw(), lambda x: x * x], x) + draw(),
    "nested": lambda draw, x: tg.scan(lambda c, v: (tg.fori_loop(0, 2, lambda i, d: d * v + draw(), c), None), x, np.array([0.9, 0.5, x.real]))[0],
    "choice in a loop": lambda draw, x: tg.scan(lambda c, v: (tg.cond(c * v > 0, lambda c: c + draw(), lambda c: c * draw(), c), None), x, np.array([0.5, -1.0, 2.0]))[0],
    "by lane": lambda draw, x: tg.vmap(lambda v: np.sin(v * x) * draw())(np.array([0.4, 0.8, 1.2])),
}  # fmt: skip


def total(results):
    return sum(np.sum(part) for part in (results if isinstance(results, tuple) else (results,)))


def of(name, form):
    """The function, with a state that begins anew in each call, and where the states of its calls are."""
    ends = []

    def f(x):
        draw, where = STATES[name]()
        y = total(FORMS[form](draw, x))
        ends.append(where())
        return y

    return f, ends


def check(name, form):
    f, ends = of(name, form)
    x, h = 0.7, 1e-5
    plain = f(x)
    slope = (f(x + h) - f(x - h)) / (2 * h)
    value, gradient = tg.value_and_grad(f)(x)
    pushed, tangent = tg.jvp(f, (x,), (1.0,))
    there, push = tg.linearize(f, x)
    (sparse,) = tg.sparse_jacobian(lambda x: f(x[0]) * np.ones(1))(np.array([x])).data
    leaf = tg.tensor(x, requires_grad=True)
    y = f(leaf)
    y.backward()
    replayed = tg.jit(tg.value_and_grad(f), kernel="never")
    again = [replayed(at) for at in (x, 0.8, x)]
    message = f"{name}, {form}: {plain} {slope}, {value} {gradient}, {pushed} {tangent}, {there} {push(1.0)} {sparse}, {y} {leaf.grad}, {again}"
    assert np.allclose(again, [(value, gradient), tg.value_and_grad(f)(0.8), (value, gradient)], rtol=1e-12), message
    assert np.allclose([value, pushed, there, y.item()], plain, rtol=1e-12), message
    assert np.allclose([gradient, tangent, push(1.0), sparse, leaf.grad.item()], slope, rtol=1e-5, atol=1e-7), message
    assert all(np.array_equal(end, ends[0]) if isinstance(end, np.ndarray) else end == ends[0] for end in ends), (message, ends)


@pytest.mark.parametrize("form", FORMS)
def test_a_loop_whose_body_changes_something_is_the_python_loop(form):
    for name in ("cell", "Generator", "list", "attribute of a dict"):
        check(name, form)


@pytest.mark.parametrize("transform", [tg.value_and_grad, lambda f: tg.jacfwd(lambda x: (f(x), f(x)))], ids=["reverse", "forward"])
def test_a_body_that_counts_on_a_path_that_a_replay_meets(transform):
    data = np.array([0.5, 2.0, 1.5, 3.0])

    def f(x):
        n = 0

        def body(c, v):
            nonlocal n
            if c > 1.0:
                n += 1
                return c * 0.5 * x + n, None
            return c * v * x, None

        return tg.scan(body, x, data)[0] * x

    g, plain = tg.jit(transform(f)), transform(f)
    for x in (0.1, 0.11, 1.2, 0.9, 0.1, 1.3, 1.2):
        np.testing.assert_allclose(g(x), plain(x), rtol=1e-12)
    with np.errstate(all="ignore"):
        assert plain(1.2)[0] == (f(1.2) if transform is tg.value_and_grad else plain(1.2)[1])


def test_what_cannot_be_put_back_is_refused(monkeypatch):
    monkeypatch.setattr(bodies, "COPIED", 100)
    weights = np.ones(50)

    def body(c, v):
        weights[:] *= 0.5
        return c * v * weights[0], None

    with pytest.raises(ModifiedInPlaceError, match="the body of the scan changes 'weights', .* Carry it"):
        tg.grad(lambda x: tg.scan(body, x, np.ones(3))[0])(0.5)


def test_an_exception_of_the_body_leaves_what_the_python_loop_leaves():
    def f(x, seen):
        def body(c, v):
            seen.append(v)
            if len(seen) == 3:
                raise LookupError(len(seen))
            return c * v, None

        return tg.scan(body, x, np.arange(1.0, 6.0))[0]

    for run in (lambda seen: f(0.5, seen), lambda seen: tg.grad(f)(0.5, seen)):
        seen = []
        with pytest.raises(LookupError, match="3"):
            run(seen)
        assert seen == [1.0, 2.0, 3.0]


def test_what_nobody_looks_into_is_recorded_once():
    """An object of another package."""
    seen = SimpleQueue()
    tg.grad(lambda x: tg.scan(lambda c, v: (c * v, seen.put(None)), x, np.ones(50))[0])(0.5)
    assert seen.qsize() <= 2


def test_a_right_hand_side_that_counts_is_called_at_every_step():
    """What it computes is another number then; SciPy calls it in another order, so they agree as far as the order does not matter."""
    counts = []

    def f(x):
        n = 0

        def slope(t, y):
            nonlocal n
            n += 1
            return -x * y * (1.0 + 1e-3 * (n % 7))

        y = solve_ivp(slope, (0.0, 1.0), np.array([1.0]), rtol=1e-6).y[0, -1]
        counts.append(n)
        return y

    value, gradient = tg.value_and_grad(f)(0.8)
    assert counts[0] > 100 and np.allclose(value, f(0.8), rtol=1e-3) and np.allclose(gradient, -value, rtol=1e-2)


# -- floating-point errors -------------------------------------------------------------------------
def careful(x):
    try:
        return np.log(x) * 2.0
    except (FloatingPointError, RuntimeWarning):
        return x**2


def around(loop):
    def careful_around(xs):
        try:
            return loop(xs)
        except FloatingPointError:
            return np.sum(xs**2)

    return careful_around


CAREFUL = {
    "vmap": lambda xs: np.sum(tg.vmap(careful)(xs) * xs), "map": lambda xs: np.sum(tg.map(careful, xs)), "while": lambda xs: tg.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + careful(xs[c[0]])), (0, 0.0))[1],
    "scan": lambda xs: tg.scan(lambda c, x: (c + careful(x), None), 0.0, xs)[0], "fori": lambda xs: tg.fori_loop(0, 3, lambda i, c: c * careful(xs[i]), 1.0), "cond": lambda xs: tg.cond(xs[0] < 5.0, careful, np.sin, xs[1]),
    "around a scan": around(lambda xs: tg.scan(lambda c, x: (c + np.log(x), None), 0.0, xs)[0]), "around lanes": around(lambda xs: np.sum(tg.vmap(np.log)(xs))),
    "around a choice": around(lambda xs: tg.cond(xs[0] < 5.0, np.log, np.sin, xs[1])),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::tapegrad.errors.PathWarning")
@pytest.mark.parametrize("form", CAREFUL)
@pytest.mark.parametrize("points", [[-1.0, 2.0, -3.0], [2.0, -1.0, 3.0], [2.0, 0.5, 3.0]], ids=["first", "second", "none"])
def test_a_floating_point_error_that_is_caught_takes_its_path(form, points):
    """At each iteration for itself, whichever is recorded first."""
    f, xs = CAREFUL[form], np.array(points)
    with np.errstate(all="raise"):
        value, slopes = f(tg.tensor(xs)), [(f(xs + 1e-6 * e) - f(xs - 1e-6 * e)) / 2e-6 for e in np.eye(3)]
        for results in (tg.value_and_grad(f)(xs), tg.jit(tg.value_and_grad(f))(xs), (f(xs), tg.jacfwd(f)(xs)), (f(xs), tg.vmap(tg.grad(f))(np.stack([xs, xs]))[1])):
            np.testing.assert_allclose(results[0], value)
            np.testing.assert_allclose(results[1], slopes, rtol=1e-5, atol=1e-8)


def test_a_warning_that_is_an_error_and_caught_takes_its_path():
    xs = np.array([2.0, -1.0, 3.0])
    with warnings.catch_warnings(action="error"):
        np.testing.assert_allclose(tg.vmap(tg.grad(careful))(xs), [1.0, -2.0, 2.0 / 3.0])


# -- no iterations ---------------------------------------------------------------------------------
ROWS = np.zeros((0, 3))
EMPTY = {
    "map": (lambda x: tg.map(lambda v: v * x, ROWS), (0, 3), float), "product": (lambda x: tg.map(lambda v: np.sum(v) * x * np.ones(2), ROWS), (0, 2), float),
    "scan": (lambda x: tg.scan(lambda c, v: (c * v[0], c * x), x, ROWS)[1], (0,), float), "length": (lambda x: tg.scan(lambda c, _: (c, c * np.ones((2, 2))), x, length=0)[1], (0, 2, 2), float),
    "integers": (lambda x: tg.map(lambda v: v + 1, np.zeros(0, np.int32)), (0,), np.int32), "single": (lambda x: tg.map(lambda v: v * 2, np.zeros((0, 2), np.float32)), (0, 2), np.float32),
    "nested": (lambda x: tg.map(lambda row: tg.map(lambda v: v * x, row), np.zeros((0, 4))), (0, 4), float),
    "inside": (lambda x: tg.map(lambda v: tg.map(lambda w: w * x * v, np.zeros(0)), np.ones(3)), (3, 0), float), "pole": (lambda x: tg.map(lambda v: x / v, np.zeros(0)), (0,), float),
    "logarithm": (lambda x: tg.map(lambda v: math.log(v), np.zeros(0)), (0,), float), "inverse": (lambda x: tg.map(lambda m: np.linalg.inv(m) * x, np.zeros((0, 2, 2))), (0, 2, 2), float),
    "lanes": (lambda x: tg.vmap(lambda v: x / v)(np.zeros(0)), (0,), float),
}  # fmt: skip


@pytest.mark.parametrize("name", EMPTY)
def test_results_of_no_turns_have_shapes(name):
    form, shape, dtype = EMPTY[name]
    for x in (1.5, tg.tensor(1.5, requires_grad=True)):
        results = form(x)
        assert results.shape == shape and np.dtype(str(results.dtype).split(".")[-1]) == dtype

    def f(x):
        return np.sum(form(x)) + x * x

    for transform in (lambda g: g, tg.jit):
        for T, expected in ((tg.value_and_grad, lambda x: (x * x, 2 * x)), (tg.jacfwd, lambda x: 2 * x), (tg.hessian, lambda x: 2.0)):
            g = transform(T(f))
            assert [np.allclose(g(x), expected(x)) for x in (1.5, -0.5)] == [True, True]
    assert np.allclose(tg.vmap(tg.grad(f))(np.arange(4.0)), 2 * np.arange(4.0))


def test_no_turns_change_nothing_and_containers_stay():
    rng, seen = np.random.default_rng(0), []

    def body(c, v):
        seen.append(rng.normal())
        return c + 1, {"a": (v, None), "b": c}

    for x in (1.0, tg.tensor(1.0, requires_grad=True)):
        carry, results = tg.scan(body, x, np.zeros((0, 2)))
        assert carry is x and results["a"][1] is None and results["a"][0].shape == (0, 2) and results["b"].shape == (0,)
    tg.vmap(lambda v: body(v, v)[0])(np.zeros(0))
    assert not seen and rng.normal() == np.random.default_rng(0).normal()

    def never(*_):
        raise AssertionError

    for loop in (lambda x: tg.fori_loop(3, 1, never, x), lambda x: tg.fori_loop(0, 0, never, x), lambda x: tg.while_loop(lambda c: c < 0, never, x)):
        assert loop(2.0) == 2.0 and tg.value_and_grad(loop)(2.0) == (2.0, 1.0) and tg.jit(tg.grad(loop))(2.0) == 1.0


def test_results_of_no_turns_that_are_not_known():
    with pytest.raises(StructureError, match="has no iterations, .* raises LinAlgError.*Leave the map out"):
        tg.map(lambda v: np.linalg.inv(np.zeros((2, 2))) * v, np.zeros(0))


@pytest.mark.long
@pytest.mark.parametrize("name", STATES)
def test_whatever_is_changed_is_seen_and_put_back(name):
    for form in FORMS:
        check(name, form)

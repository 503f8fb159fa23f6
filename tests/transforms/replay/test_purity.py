"""What a function depends on besides its arguments: the next call is right, or says what it found."""

import array
import builtins
import contextvars
import functools
import os
import random
import sys
import time
import types
import weakref
from contextlib import nullcontext

import numba
import numpy as np
import pytest

import tapegrad as tg
from tapegrad.transforms.functional import grad
from tapegrad.transforms.replay.purity import Surroundings
from tapegrad.transforms.replay.stats import ImpureFunctionWarning
from tests.transforms.replay.agreement import quiet

GLOBAL = 2.0
VARIABLES = globals
#: A global of the names that `mentions` mentions, which none of them reads.
unread = None
TABLE = {"a": [1.0, 2.0]}
module = types.ModuleType("settings")
module.factor = 2.0
module.inner = types.ModuleType("settings.inner")
module.inner.factor = 2.0


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


class Slotted:
    __slots__ = ("k",)


def changes():
    """(name, function, what changes it by the factor 3)."""
    c = 2.0

    def rebind():
        nonlocal c
        c = 6.0

    yield "closure", lambda x: c * np.sum(x), rebind
    yield "global", lambda x: GLOBAL * np.sum(x), lambda: globals().__setitem__("GLOBAL", GLOBAL * 3)
    yield "global table", lambda x: TABLE["a"][1] * np.sum(x), lambda: TABLE["a"].__setitem__(1, TABLE["a"][1] * 3)
    yield "module", lambda x: module.factor * np.sum(x), lambda: setattr(module, "factor", module.factor * 3)
    yield "module in module", lambda x: module.inner.factor * np.sum(x), lambda: setattr(module.inner, "factor", module.inner.factor * 3)
    array = np.ones(3)
    yield "array", lambda x: np.sum(x * array), lambda: array.__imul__(3)
    large = np.ones((3, 1000))
    yield "large array", lambda x: np.sum(x * large[:, 0]), lambda: large.__imul__(3)
    owner = np.ones((2, 3))
    window = owner[1]
    yield "array through its owner", lambda x: np.sum(x * window), lambda: owner.__imul__(3)
    frozen = owner[0]
    frozen.flags.writeable = False
    yield "read-only view", lambda x: np.sum(x * frozen), lambda: owner.__imul__(3)
    arrays = [np.ones(3), (np.ones(3),)]
    yield "array in a tuple in a list", lambda x: np.sum(x * arrays[1][0]), lambda: arrays[1][0].__imul__(3)
    yield "list item", lambda x: np.sum(x * arrays[0]), lambda: arrays.__setitem__(0, arrays[0] * 3)
    objects = np.array([2.0, None], object)
    yield "array of objects", lambda x: np.sum(x) * objects[0], lambda: objects.__setitem__(0, objects[0] * 3)
    model, other, third, fourth = Model(), Model(), Model(), Model()
    yield "attribute of self", model.loss, lambda: setattr(model, "k", 6.0)
    yield "array of self", other.loss, lambda: other.weights[1]["w"].__imul__(3)
    yield "callable object", third, lambda: setattr(third, "k", 6.0)
    yield "class attribute", fourth.loss, lambda: setattr(Model, "scale", Model.scale * 3)
    slotted = Slotted()
    slotted.k = 2.0
    yield "slot", lambda x: slotted.k * np.sum(x), lambda: setattr(slotted, "k", 6.0)

    def make(k):
        def helper(x):
            return k[0] * np.sum(x)

        return helper

    cell = [2.0]
    helper = make(cell)
    yield "closure of a helper", lambda x: helper(x), lambda: cell.__setitem__(0, 6.0)
    cell_of_partial = [2.0]
    yield "partial", functools.partial(lambda k, x: k[0] * np.sum(x), cell_of_partial), lambda: cell_of_partial.__setitem__(0, 6.0)
    factor = [2.0]

    def scaled(function):
        @functools.wraps(function)
        def wrapper(x):
            return factor[0] * function(x)

        return wrapper

    yield "decorator", scaled(lambda x: np.sum(x)), lambda: factor.__setitem__(0, 6.0)

    def defaults(x, k=2.0, *, m=1.0):
        return k * m * np.sum(x)

    yield "defaults", defaults, lambda: setattr(defaults, "__defaults__", (6.0,))

    def keywords(x, *, k=2.0):
        return k * np.sum(x)

    yield "keyword defaults", keywords, lambda: keywords.__kwdefaults__.__setitem__("k", 6.0)
    parameter = tg.Parameter([1.0, 1.0, 1.0])

    def assign():
        parameter.data = parameter.data * 3

    yield "data of a parameter", lambda x: np.sum(x * parameter), assign
    tensor = tg.tensor([1.0, 1.0, 1.0])
    yield "tensor in place", lambda x: np.sum(x * tensor), lambda: tensor.mul_(3.0)
    scalar = tg.tensor(2.0, requires_grad=True)

    def assign_scalar():
        scalar.data = 6.0

    yield "scalar parameter", lambda x: np.sum(x) * scalar, assign_scalar
    inner = grad(lambda y: cell[0] * y * y)
    yield "inner gradient", lambda x: np.sum(x) * inner(1.0), lambda: cell.__setitem__(0, cell[0] * 3)
    counts = [1.0, 2.0]
    yield "generator", lambda x: sum(v * np.sum(x) for v in counts), lambda: counts.__setitem__(slice(None), [3.0, 6.0])
    functions = [lambda x: k * np.sum(x) for k in (1.0, 2.0)]
    yield "late binding", functions[0], lambda: setattr(functions[0].__closure__[0], "cell_contents", 6.0)
    yield from more_changes()
    sign = [0.0]
    yield "sign of zero", lambda x: np.sum(x) * (2.0 - np.copysign(1.0, -sign[0])), lambda: sign.__setitem__(0, -0.0)


class Slope:
    k = 2.0

    def __call__(self, x):
        return self.k * np.sum(x)


class Steeper:
    k = 6.0


def nested_class(x):
    class Local:
        k = GLOBAL

    return Local.k * np.sum(x)


def more_changes():
    """What is reached in ways that are less direct; same form as `changes`."""
    def triple():
        globals()["GLOBAL"] = GLOBAL * 3

    yield "global in a dict of globals", lambda x: globals()["GLOBAL"] * np.sum(x), triple
    yield "global in vars", lambda x: VARIABLES()["GLOBAL"] * np.sum(x), triple
    yield "global of this module", lambda x: sys.modules[__name__].GLOBAL * np.sum(x), triple
    yield "global of this module by its name", lambda x: getattr(sys.modules[__name__], "GLOBAL") * np.sum(x), triple  # noqa: B009
    yield "global that is evaluated", lambda x: eval("2 * GLOBAL") / 2 * np.sum(x), triple
    yield "global of a function", lambda x: triple.__globals__["GLOBAL"] * np.sum(x), triple
    yield "global in a nested class", nested_class, triple
    yield "attribute by its name", lambda x: getattr(module, "factor") * np.sum(x), lambda: setattr(module, "factor", module.factor * 3)  # noqa: B009
    sys.modules["settings_of_purity"] = late = types.ModuleType("settings_of_purity")
    late.factor = 2.0

    def imports(x):
        import settings_of_purity

        return settings_of_purity.factor * np.sum(x)

    yield "module imported inside", imports, lambda: setattr(late, "factor", 6.0)
    os.environ["TAPEGRAD_TEST_PURITY"] = "2.0"
    yield "environment", lambda x: float(os.environ["TAPEGRAD_TEST_PURITY"]) * np.sum(x), lambda: os.environ.update(TAPEGRAD_TEST_PURITY="6.0")
    raw, packed, memory = bytearray([2]), array.array("d", [2.0]), bytearray(np.array([2.0]).tobytes())
    yield "bytearray", lambda x: float(raw[0]) * np.sum(x), lambda: raw.__setitem__(0, 6)
    yield "array of the standard library", lambda x: packed[0] * np.sum(x), lambda: packed.__setitem__(0, 6.0)
    seen = np.frombuffer(memory)
    yield "array over a bytearray", lambda x: seen[0] * np.sum(x), lambda: memory.__setitem__(slice(None), np.array([6.0]).tobytes())
    nested = inner = [2.0]
    for _ in range(8):
        nested = [nested]

    def descends(x):
        found = nested
        while isinstance(found, list):
            found = found[0]
        return found * np.sum(x)

    yield "eight lists deep", descends, lambda: inner.__setitem__(0, 6.0)
    kinds = [type(kind.__name__, (kind,), {}) for kind in (list, dict)]
    for kind in kinds:
        derived = kind()
        derived.k = 2.0
        yield f"attribute of a derived {kind.__name__}", lambda x, d=derived: d.k * np.sum(x), lambda d=derived: setattr(d, "k", 6.0)
    view = np.ones(1).view(type("Named", (np.ndarray,), {}))
    view.k = 2.0
    yield "attribute of a derived array", lambda x: view.k * np.sum(x), lambda: setattr(view, "k", 6.0)
    variable = contextvars.ContextVar("variable", default=2.0)
    yield "context variable", lambda x: variable.get() * np.sum(x), lambda: variable.set(6.0)
    referred = Slope()
    reference = weakref.ref(referred)
    yield "weak reference", lambda x, keep=referred: reference()(x), lambda: setattr(referred, "k", 6.0)
    meant = Slope()
    proxy = weakref.proxy(meant)
    yield "proxy", lambda x, keep=meant: proxy.k * np.sum(x), lambda: setattr(meant, "k", 6.0)
    meta = type("Meta", (type,), {"k": 2.0})
    made = meta("Made", (), {})
    yield "attribute of a metaclass", lambda x: made.k * np.sum(x), lambda: setattr(meta, "k", 6.0)
    low = type("Low", (Slope,), {})
    yield "attribute that shadows that of a base", low(), lambda: setattr(low, "k", 6.0)
    other = type("Other", (Slope,), {})
    yield "bases of a class", other(), lambda: setattr(other, "__bases__", (Steeper, Slope))
    turned = type("Turned", (Slope,), {})()
    yield "class of an object", turned, lambda: setattr(turned, "__class__", type("Turned", (Steeper, Slope), {}))
    table, line, numbers = {"k": 2.0}, [2.0], np.array([2.0])
    get, item, total = table.get, line.__getitem__, numbers.sum
    yield "method of a dict", lambda x: get("k") * np.sum(x), lambda: table.update(k=6.0)
    yield "method of a list", lambda x: item(0) * np.sum(x), lambda: line.__setitem__(0, 6.0)
    yield "method of an array", lambda x: total() * np.sum(x), lambda: numbers.__imul__(3)

    @functools.singledispatch
    def dispatched(x):
        return 2.0 * np.sum(x)

    yield "dispatch", lambda x: dispatched(x), lambda: dispatched.register(object, lambda x: 6.0 * np.sum(x))
    stored = [2.0]

    @functools.lru_cache
    def cached():
        return stored[0]

    def forget():
        stored[0] = 6.0
        cached.cache_clear()

    yield "cached function", lambda x: cached() * np.sum(x), forget


class Holder:
    unread = 3.0

    def __call__(self, p):
        return p["a"] * self.unread


def documented(p):
    """unread"""
    return p["a"] ** 2


def named(*, unread):
    return unread["a"] ** 2


def local(p):
    unread = p["a"]
    return unread**2


def nested(p):
    def inner():
        return p["unread"]

    return inner() * p["a"]


def stores(p):
    made = types.SimpleNamespace()
    made.unread = p["a"]
    return made.unread * 2.0


def imports_one(p):
    from module_of_mentions import unread

    return p["a"] * unread


sys.modules["module_of_mentions"] = types.ModuleType("module_of_mentions")
sys.modules["module_of_mentions"].unread = 2.0
MENTIONS = {
    "key": lambda p: p["unread"] * p["a"], "key of a literal": lambda p: {"unread": p["a"]}["unread"] ** 2, "attribute": Holder(),
    "keyword": lambda p: named(unread=p), "docstring": documented, "local variable": local, "nested function": nested,
    "attribute that is stored": stores, "compared string": lambda p: p["a"] if "a" == "unread" else p["a"] ** 2,
    "f-string": lambda p: p[f"{'un'}read"] + p["a"], "method of a string": lambda p: p["unread".strip()] * p["a"],
    "argument": lambda unread: unread["a"] ** 2, "import": imports_one, "default": lambda p, key="unread": p[key] * p["a"],
}  # fmt: skip


@pytest.mark.parametrize("name", MENTIONS)
def test_a_global_that_is_not_read_is_not_compared(name, monkeypatch):
    g = grad(MENTIONS[name])
    for k in range(6):
        monkeypatch.setitem(globals(), "unread", np.full(3, float(k)))
        g({"a": 1.0 + k, "unread": 2.0})
    # The first call, and comparisons at the second and the fourth.
    assert g.stats().records == 3 and g.stats().replays == 3


@pytest.fixture
def patched(monkeypatch):
    """Replaces an attribute by three times itself."""
    return lambda module, name: monkeypatch.setattr(module, name, lambda *a, old=getattr(module, name): 3.0 * old(*a))


def test_a_function_of_numpy_that_is_replaced_is_seen(patched):
    g = grad(lambda x: np.sum(np.sinc(0.0 * x)) * np.sum(x))
    before = g(np.ones(2))
    for _ in range(4):
        g(np.ones(2))
    patched(np, "sinc")
    after = g(np.ones(2))
    np.testing.assert_allclose((before, after), ([2.0, 2.0], [6.0, 6.0]))
    assert g.stats().fallback == ""


def test_a_builtin_that_is_replaced_or_shadowed_is_seen(monkeypatch):
    g = grad(lambda x: x * divmod(7, 2)[0])
    assert [g(1.0) for _ in range(5)] == [3.0] * 5
    monkeypatch.setattr(builtins, "divmod", lambda a, b: (9.0, 0.0))
    assert g(1.0) == 9.0
    monkeypatch.setitem(globals(), "divmod", lambda a, b: (4.0, 0.0))
    assert g(1.0) == 4.0 and g.stats().fallback == ""


def test_what_an_installed_package_keeps_is_found_out_by_comparison():
    """Documented: it is not looked into, so the next recording that is compared finds it."""
    g = grad(lambda x: x * float(np.get_printoptions()["precision"]))
    with np.printoptions(precision=8):
        assert [g(1.0) for _ in range(5)] == [8.0] * 5
    with np.printoptions(precision=24), quiet() as warned:
        found = [g(1.0) for _ in range(5)]
    assert found[2:] == [24.0] * 3 and len(warned) == 1 and "a constant changed" in g.stats().fallback


@pytest.mark.parametrize("number", range(len(list(changes()))), ids=[n for n, _, _ in changes()])
def test_a_change_is_seen_by_the_next_call(number):
    name, function, change = list(changes())[number]
    # A parameter is a constant under no_grad only.
    with tg.no_grad() if "parameter" in name else nullcontext():
        _is_seen(name, function, change)


def _is_seen(name, function, change):
    g = grad(function)
    x = np.array([1.0, 2.0, 3.0])
    before = g(x)
    for k in range(5):
        np.testing.assert_array_equal(g(x + k), before)
    records = g.stats().records
    with quiet() as warned:
        change()
        after = g(x)
        np.testing.assert_array_equal(g(x + 1), after)
    if name == "sign of zero":
        assert (before == 3.0).all() and (after == 1.0).all()
    else:
        np.testing.assert_allclose(after, 3 * before)
    assert g.stats().records > records and not warned


def test_a_change_to_an_equal_value_is_none():
    k = [float("1.5"), "a", (1, 2.5)]
    g = grad(lambda x: k[0] * x)
    g(1.0), g(1.0)
    k[:] = [float("1.5"), "".join(["a"]), (1, float("2.5"))]
    g(1.0)
    assert g.stats().records == 2


def test_read_only_constants_cost_nothing():
    constant = np.ones(100_000)
    constant.flags.writeable = False
    surroundings = Surroundings(lambda x: constant)
    assert not any(thing is constant for _, _, thing, _ in surroundings.checks)


def test_installed_packages_are_not_looked_into():
    assert len(Surroundings(lambda x: np.linalg.solve(np.eye(3), x)).checks) < 20


def test_a_compiled_function_is_what_its_python_does():
    """What Numba keeps beside it changes whenever it compiles, and is thousands of objects."""
    factor = 2.0
    scaled = numba.njit(lambda x: x * factor)
    tripled = numba.vectorize(lambda x: x * 3.0)
    called = numba.cfunc("float64(float64)")(lambda x: x)
    rule = tg.custom_vjp(lambda x: tripled(scaled(x)), lambda g, result, x: 6.0 * g)
    g = grad(lambda x: np.sum(rule(x)))
    for k in range(5):
        np.testing.assert_array_equal(g(np.ones(2) + k), [6.0, 6.0])
    assert g.stats().records == 3 and scaled.signatures
    assert "scaled.factor" in [name for name, *_ in Surroundings(lambda x: scaled(x)).checks]
    assert max(len(Surroundings(lambda x, f=f: f(x)).checks) for f in (scaled, tripled, called)) < 10


def test_a_dead_proxy_and_a_module_without_a_name_are_no_errors():
    class Odd:
        __module__ = property(lambda self: "odd")

    gone = weakref.proxy(Model())
    holder = types.SimpleNamespace(gone=gone, odd=Odd(), function=weakref.proxy(test_a_change_to_an_equal_value_is_none))
    g = grad(lambda x: x * len(vars(holder)) if gone is not None else x)
    assert [g(float(k)) for k in range(5)] == [3.0] * 5 and g.stats().fallback == ""


GENERATOR = np.random.default_rng(0)
COUNT = 0


def counting(x):
    global COUNT
    COUNT += 1
    return x * COUNT


def drawing_from_files(path):
    def function(x):
        with open(path) as file:
            number = float(file.read())
        with open(path, "w") as file:
            file.write(str(number + 1))
        return x * number

    return function


def impure():
    twister = random.Random(0)
    local = np.random.RandomState(0)
    yield "np.random", lambda x: x * np.random.rand(), "np.random"
    yield "random", lambda x: x * random.random(), "random"
    yield "random.Random", lambda x: x * twister.random(), "twister"
    yield "RandomState", lambda x: x * local.rand(), "local"
    yield "Generator", lambda x: x * GENERATOR.random(), "GENERATOR"
    yield "new Generator", lambda x: x * np.random.default_rng().random(), "a constant changed"
    yield "time", lambda x: x * time.perf_counter(), "a constant changed"
    yield "own counter", counting, "a constant changed"


@pytest.mark.parametrize("number", range(len(list(impure()))), ids=[n for n, _, _ in impure()])
def test_an_impure_function_is_named_and_run_define_by_run(number):
    _, function, what = list(impure())[number]
    g = grad(function)
    with quiet() as warned:
        found = [g(1.0) for _ in range(4)]
    assert len(set(found)) == 4, "a frozen value"
    (warning,) = warned
    assert issubclass(warning.category, ImpureFunctionWarning) and what in str(warning.message)
    assert warning.filename == __file__ and what in g.stats().fallback


@pytest.mark.parametrize("number", range(len(list(impure()))), ids=[n for n, _, _ in impure()])
def test_an_impure_function_is_found_out_before_it_is_a_kernel(number):
    _, function, what = list(impure())[number]
    g = grad(function, kernel="always")
    with quiet() as warned:
        found = [g(1.0) for _ in range(4)]
    assert len(set(found)) == 4 and len(warned) == 1 and what in g.stats().fallback and g.stats().kernel_calls == 0


def test_a_function_that_turns_impure_is_found_out_though_it_is_a_kernel(tmp_path):
    path = tmp_path / "number"
    path.write_text("2.0")
    g = grad(lambda x: x * float(path.read_text()), kernel="always")
    assert [g(1.0) for _ in range(6)] == [2.0] * 6 and g.stats().kernel_calls > 0
    path.write_text("3.0")
    with quiet() as warned:
        found = [g(1.0) for _ in range(6)]
    # The eighth call is compared.
    assert found[1:] == [3.0] * 5 and len(warned) == 1 and "a constant changed" in g.stats().fallback


def test_files(tmp_path):
    (tmp_path / "number").write_text("2.0")
    g = grad(drawing_from_files(tmp_path / "number"))
    with quiet() as warned:
        assert [g(1.0) for _ in range(4)] == [2.0, 3.0, 4.0, 5.0]
    assert len(warned) == 1


def test_a_generator_as_argument_is_found():
    g = grad(lambda x, rng: x * rng.random())
    rng = np.random.default_rng(0)
    with quiet() as warned:
        assert len({g(1.0, rng) for _ in range(4)}) == 4
    assert "argument" in str(warned[0].message)


def test_random_numbers_as_an_argument():
    g = grad(lambda x, noise: np.sum(x * noise))
    rng = np.random.default_rng(0)
    for _ in range(5):
        noise = rng.standard_normal(3)
        np.testing.assert_array_equal(g(np.ones(3), noise), noise)
    assert g.stats().fallback == ""


def test_an_object_as_argument_that_changes_inside():
    g = grad(lambda x, model, k: model(x) * k[0]())
    model, c = Model(), [2.0]
    before = g(np.ones(3), model, [lambda: c[0]])
    function = [lambda: c[0]]
    np.testing.assert_array_equal(g(np.ones(3), model, function), before)
    model.k *= 3
    np.testing.assert_array_equal(g(np.ones(3), model, function), 3 * before)
    model.weights[0] *= 2
    np.testing.assert_array_equal(g(np.ones(3), model, function), 6 * before)
    c[0] = 6.0
    np.testing.assert_array_equal(g(np.ones(3), model, function), 18 * before)
    assert g.stats().fallback == ""

"""What a recorded function is looked at for: each row of `NOTICED` and of `UNNOTICED`, and what `Environment` says of changes.

After each of the `changes` a function has three times its gradient.  Without `jit` the next call is right, always; under `jit` it is
right where the change is noticed, and else what was recorded.
"""

import builtins
import contextlib

import numba
import numpy as np
import pytest

import tapegrad as tg
from benchmarks.plain_and_jit import NOTICED, UNNOTICED
from tapegrad.transforms.contents import Contents
from tapegrad.transforms.environment import SMALL, Environment
from tests.transforms.replay.agreement import quiet
from tests.transforms.replay.changes import ITEMS_OF, Model, as_before, helper, noticed, triple_global, unnoticed


@pytest.fixture(autouse=True)
def process_kept():
    as_before()
    yield
    as_before()


def named(cases):
    return pytest.mark.parametrize("number", range(len(list(cases()))), ids=[case[1] for case in cases()])


def no_grad_for(name):
    """A parameter is a constant under no_grad only."""
    return tg.no_grad() if "parameter" in name else contextlib.nullcontext()


X = np.array([1.0, 2.0, 3.0])


@named(noticed)
@pytest.mark.parametrize("kernel", [None, "never", "always"], ids=["plainly", "by sweeps", "by kernels"])
def test_a_change_is_seen_by_the_next_call(number, kernel):
    row, name, function, change = list(noticed())[number]
    g = tg.grad(function) if kernel is None else tg.jit(tg.grad(function), kernel=kernel)
    with no_grad_for(name), quiet() as warned:
        before = g(X)
        for k in range(4):
            np.testing.assert_array_equal(g(X + k), before)
        assert g.stats().records == (kernel is not None)
        change()
        for k in range(3):
            np.testing.assert_allclose(g(X + k), 3 * before)
    assert not warned and g.stats().records == 2 * (kernel is not None)
    assert g.stats().runs == (8 if kernel is None else 0)


def test_every_row_of_the_tables_has_a_change():
    assert {row for row, *_ in noticed()} == {row for row, _ in NOTICED}
    assert {row for row, *_ in unnoticed()} == {row for row, _ in UNNOTICED} | {ITEMS_OF}


@named(unnoticed)
def test_what_is_not_noticed_is_right_without_jit_and_what_was_recorded_under_it(number):
    _, name, function, change = list(unnoticed())[number]
    g = tg.grad(function)
    before = g(X)
    if change is None:
        assert len({g(X)[0] for _ in range(4)}) == 4
    else:
        change()
        np.testing.assert_allclose(g(X), 3 * before)

    _, name, function, change = list(unnoticed())[number]
    as_before()
    with quiet() as warned:
        g = tg.jit(tg.grad(function))
        before = g(X)
        if change is not None:
            change()
        for k in range(3):
            np.testing.assert_array_equal(g(X + k), before)
    assert not warned and g.stats().records == 1


# -- Environment itself ------------------------------------------------------------------------
@named(noticed)
def test_it_says_what_has_changed(number):
    _, name, function, change = list(noticed())[number]
    with no_grad_for(name):
        before = Environment(function)
        assert before.same() and before.difference() is None
        change()
        assert not before.same()
        now = before.again()
        changed = before.difference(now)
        assert isinstance(changed, str) and changed and now.same() and now.difference() is None


@named(unnoticed)
def test_it_does_not_look_any_deeper(number):
    _, _, function, change = list(unnoticed())[number]
    before = Environment(function)
    if change is not None:
        change()
    assert before.same() and before.difference() is None


def name_of_the_change(function, change):
    before = Environment(function)
    change()
    return before.difference()


def test_names_are_those_of_the_variables():
    table, model = {"rate": [1.0, 2.0]}, Model()
    assert name_of_the_change(lambda x: helper(x) * 2.0, triple_global) == "GLOBAL"
    assert name_of_the_change(lambda x: table["rate"][1] * x, lambda: table["rate"].__setitem__(1, 3.0)) == "table['rate'][1]"
    assert name_of_the_change(model.loss, lambda: setattr(model, "k", 6.0)) == "self['k']"
    assert name_of_the_change(model.loss, lambda: model.weights[1]["w"].__imul__(3.0)) == "self['weights'][1]['w']"

    def inner(x, k=2.0):
        return k * x

    assert name_of_the_change(lambda x: inner(x), lambda: setattr(inner, "__defaults__", (3.0,))) == "inner.k"


def test_equal_values_in_other_objects_are_no_change():
    """`same` may say no, `difference` does not; nothing is recorded for it."""
    k = [float("1.5"), "a", (1, 2.5), {"b": np.ones(2)}, float("nan"), 12345678901234567890, range(3), np.dtype("f8")]
    f = lambda x: k[0] * x if k[1] else x  # noqa: E731
    before, g = Environment(f), tg.jit(tg.grad(f))
    assert g(1.0) == 1.5
    k[:] = [float("1.5"), "".join(["a"]), (1, float("2.5")), {"b": np.ones(2)}, float("nan"), int("12345678901234567890"), range(3),
            np.dtype("f8")]  # fmt: skip
    assert not before.same() and before.difference() is None
    assert g(2.0) == 1.5 and g(3.0) == 1.5 and g.stats().records == 1
    assert g._replayed.environment.same()


def test_a_large_array_may_be_another_object_over_the_same_memory():
    whole = np.zeros(2 * SMALL)
    views = [whole[:SMALL]]
    f = lambda x: x * len(views[0])  # noqa: E731
    before = Environment(f)
    views[0] = whole[:SMALL]
    assert before.difference() is None
    views[0] = whole[1 : SMALL + 1]
    assert before.difference() == "views[0]"


def test_objects_in_an_array_are_looked_at_and_their_addresses_may_be_used_again():
    table = np.array([[None, "a"], [np.ones(2), None]], object)
    table[0, 0] = float("1.5")
    f = lambda x: np.sum(x * table[0, 0] * table[1, 0])  # noqa: E731
    before, g = Environment(f), tg.jit(tg.grad(f))
    assert g(1.0) == g(2.0) == 3.0 and g._replayed.environment.same()
    for k in range(8):
        table[0, 0] = float(k + 2)
        assert g(1.0) == 2.0 * (k + 2)
        assert before.difference().startswith("table")
    table[1, 0][:] = 4.0
    assert g(1.0) == 72.0
    table[0, 0] = float("9.0")
    assert g(1.0) == 72.0 and g.stats().records == 10


def test_a_cell_that_is_empty():
    def make(fill):
        if fill:
            k = 2.0

        def function(x):
            try:
                return k * x
            except NameError:
                return 7.0 * x

        def set_it():
            nonlocal k
            k = 3.0

        return function, set_it

    function, set_it = make(False)
    before, g = Environment(function), tg.jit(tg.grad(function))
    assert before.same() and g(1.0) == g(2.0) == 7.0
    set_it()
    assert not before.same() and before.difference() == "k" and g(1.0) == 3.0
    del function.__closure__[0].cell_contents
    assert g(1.0) == 7.0 and g.stats().records == 3


@pytest.fixture
def scope():
    """A namespace of its own for functions to be global in."""
    return {"np": np, "k": 2.0}


def defined(scope, text="def f(x): return k * x * x"):
    exec(text, scope)
    return tg.jit(tg.grad(scope["f"]))


def test_the_table_of_globals_grows(scope):
    g = defined(scope)
    assert g(3.0) == 12.0
    scope.update({f"name {n}": n for n in range(5000)})
    assert g(3.0) == 12.0 and g.stats().records == 1
    scope["k"] = 7.0
    assert g(3.0) == 42.0


def test_a_global_is_deleted(scope):
    g = defined(scope)
    g(3.0)
    del scope["k"]
    for _ in range(3):
        with pytest.raises(NameError):
            g(3.0)
    scope["k"] = 7.0
    assert [g(3.0), g(3.0)] == [42.0, 42.0]


def test_a_global_is_deleted_and_made_again(scope):
    g = defined(scope)
    g(3.0)
    del scope["k"]
    scope["k"] = 7.0
    assert g(3.0) == 42.0


def test_a_builtin_is_shadowed(scope):
    scope["unused"] = 0
    g = defined(scope, "def f(x): return abs(x) * x")
    assert g(3.0) == 6.0
    del scope["unused"]
    scope["abs"] = lambda x: 7.0 * x
    assert g(3.0) == 42.0
    del scope["abs"]
    assert g(3.0) == 6.0


def test_a_builtin_that_is_replaced_is_not_looked_at_and_right_without_jit(monkeypatch):
    f = lambda x: x * divmod(7, 2)[0]  # noqa: E731
    plain, g = tg.grad(f), tg.jit(tg.grad(f))
    assert plain(1.0) == g(1.0) == 3.0
    monkeypatch.setattr(builtins, "divmod", lambda a, b: (9.0, 0.0))
    assert plain(1.0) == 9.0 and g(1.0) == 3.0


def test_a_function_of_numpy_that_is_replaced_is_right_without_jit(monkeypatch):
    g = tg.grad(lambda x: np.sum(np.sinc(0.0 * x)) * np.sum(x))
    before = g(np.ones(2))
    monkeypatch.setattr(np, "sinc", lambda *a, old=np.sinc: 3.0 * old(*a))
    np.testing.assert_allclose((before, g(np.ones(2))), ([2.0, 2.0], [6.0, 6.0]))


def test_installed_packages_are_not_looked_into():
    assert len(Environment(lambda x: np.linalg.solve(np.eye(3), x)).names) < 20


def test_a_compiled_function_is_one_object():
    """What Numba keeps beside it changes whenever it compiles, and is thousands of objects."""
    factor = 2.0
    scaled, tripled = numba.njit(lambda x: x * factor), numba.vectorize(lambda x: x * 3.0)
    called = numba.cfunc("float64(float64)")(lambda x: x)
    rule = tg.custom_vjp(lambda x: tripled(scaled(x)), lambda g, result, x: 6.0 * g)
    for g in (tg.grad(lambda x: np.sum(rule(x))), tg.jit(tg.grad(lambda x: np.sum(rule(x))))):
        for k in range(3):
            np.testing.assert_array_equal(g(np.ones(2) + k), [6.0, 6.0])
        assert g.stats().records + g.stats().runs == (3 if g.stats().runs else 1)
    assert max(len(Environment(lambda x, f=f: f(x)).names) for f in (scaled, tripled, called)) < 10


def test_containers_that_hold_themselves():
    ring, table = [2.0], {"k": 2.0}
    ring.append(ring)
    table["self"] = table
    f = lambda x: ring[1][1][0] * table["self"]["k"] * x  # noqa: E731
    before = Environment(f)
    assert before.same() and before.difference() is None
    ring[0] = 3.0
    assert before.difference() == "ring[0]"


def test_functions_that_call_each_other():
    def even(x, n):
        return x * k if n == 0 else odd(x, n - 1)

    def odd(x, n):
        return even(x, n - 1)

    k = 2.0
    before = Environment(even)
    assert before.same()
    k = 3.0
    assert before.difference() == "k"


def test_what_the_function_itself_fills_is_noticed_once():
    """A table that is filled at the first run and stays: recorded twice."""
    cache = {}

    def f(x):
        return x * x * cache.setdefault("k", 3.0)

    g = tg.jit(tg.grad(f))
    assert [g(float(k)) for k in range(5)] == [0.0, 6.0, 12.0, 18.0, 24.0] and g.stats().records == 2
    cache["k"] = 4.0
    assert g(1.0) == 8.0 and g.stats().records == 3


def test_objects_that_are_odd_are_no_errors():
    class Odd:
        __module__ = property(lambda self: "odd")

        def __eq__(self, other):
            raise RuntimeError("compared")

        __hash__ = None

        def __bool__(self):
            raise RuntimeError("asked")

    odd, holder = Odd(), {"odd": [Odd()]}
    g = tg.jit(tg.grad(lambda x: x * len(holder) if odd is not None else x))
    assert [g(float(k)) for k in range(3)] == [1.0] * 3 and g.stats().records == 1
    holder["odd"][0] = Odd()
    assert g(1.0) == 1.0 and g.stats().records == 2


def test_arguments_are_static_or_inputs_not_environment():
    g = tg.jit(tg.grad(lambda x, noise: np.sum(x * noise)))
    rng = np.random.default_rng(0)
    for _ in range(5):
        noise = rng.standard_normal(3)
        np.testing.assert_array_equal(g(np.ones(3), noise), noise)
    assert g.stats().records == 1 and g.stats().fallback == ""


def test_a_generator_as_argument_is_right_without_jit():
    g = tg.grad(lambda x, rng: x * rng.random())
    rng = np.random.default_rng(0)
    assert len({g(1.0, rng) for _ in range(4)}) == 4


def test_an_object_as_argument_that_changes_inside_is_right_without_jit():
    model, c = Model(), [2.0]
    g = tg.grad(lambda x, model, k: model(x) * k[0]())
    before = g(np.ones(3), model, [lambda: c[0]])
    model.k *= 3
    np.testing.assert_array_equal(g(np.ones(3), model, [lambda: c[0]]), 3 * before)
    c[0] = 6.0
    np.testing.assert_array_equal(g(np.ones(3), model, [lambda: c[0]]), 9 * before)


def test_files_are_right_without_jit(tmp_path):
    path = tmp_path / "number"
    path.write_text("2.0")

    def function(x):
        number = float(path.read_text())
        path.write_text(str(number + 1))
        return x * number

    g = tg.grad(function)
    assert [g(1.0) for _ in range(4)] == [2.0, 3.0, 4.0, 5.0]
    recorded = tg.jit(tg.grad(function))
    assert [recorded(1.0) for _ in range(4)] == [6.0] * 4 and path.read_text() == "7.0"


def test_what_is_nested_deeply_is_looked_at_down_to_a_depth():
    nested = innermost = [2.0]
    for _ in range(5000):
        nested = [nested]
    shallow = [[nested, 2.0]]
    f = lambda x: x * shallow[0][1] * innermost[0]  # noqa: E731
    before = Environment(f)
    assert before.same() and before.difference() is None
    shallow[0][1] = 3.0
    assert before.difference() == "shallow[0][1]"
    checkpointed = Contents(f)
    innermost[0] = 3.0
    assert checkpointed.difference(checkpointed.again(f)) == "innermost[0]"

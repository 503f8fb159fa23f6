"""Names that a promoted function uses: each change is seen by the next call, though that goes the short way."""

from contextlib import nullcontext

import numpy as np
import pytest

import tapegrad as tg
from tests.transforms.replay import test_purity
from tests.transforms.replay.agreement import quiet

FACTOR, OTHER = 2.0, 5.0


def helper(x):
    return x * x


def promoted(function, *args):
    """A gradient whose calls go the short way into a kernel, and are not due to be compared."""
    g = tg.grad(function, kernel="always")
    for _ in range(9):
        g(*args)
    assert g.stats().kernels == 1 and g._replayed.short.site is not None and not g._replayed.short.swept
    return g


def seen(g, change, after, x=3.0):
    """Change something; the next calls must give `after`."""
    calls = g.stats().kernel_calls
    before = g(x)
    assert g.stats().kernel_calls == calls + 1 and before != after
    change()
    for _ in range(5):
        assert g(x) == after


@pytest.fixture
def scope():
    """A namespace of its own for functions to be global in."""
    return {"np": np, "k": 2.0}


def defined(scope, text="def f(x): return k * x * x"):
    exec(text, scope)
    return scope["f"]


# -- names -----------------------------------------------------------
def test_names_of_an_ordinary_function():
    k = 2.0
    g = promoted(lambda x: k * FACTOR * helper(x), 3.0)
    assert g(3.0) == 24.0


def test_a_global_is_rebound(scope):
    g = promoted(defined(scope), 3.0)
    seen(g, lambda: scope.__setitem__("k", 7.0), 42.0)


def test_a_cell_is_rebound():
    k = 2.0

    def change():
        nonlocal k
        k = 7.0

    seen(promoted(lambda x: k * x * x, 3.0), change, 42.0)


def test_the_table_of_globals_grows(scope):
    g = promoted(defined(scope), 3.0)

    def change():
        scope.update({f"name {n}": n for n in range(1000)})
        scope["k"] = 7.0

    scope.update({f"other {n}": n for n in range(5000)})
    assert g(3.0) == 12.0
    seen(g, change, 42.0)


def test_a_global_is_deleted(scope):
    g = promoted(defined(scope), 3.0)
    del scope["k"]
    for _ in range(3):
        with pytest.raises(NameError):
            g(3.0)
    scope["k"] = 7.0
    assert g(3.0) == 42.0


def test_a_global_is_deleted_and_made_again(scope):
    g = promoted(defined(scope), 3.0)

    def change():
        del scope["k"]
        scope["k"] = 7.0

    seen(g, change, 42.0)


def test_a_builtin_is_shadowed(scope):
    g = promoted(defined(scope, "def f(x): return abs(x) * x"), 3.0)
    seen(g, lambda: scope.__setitem__("abs", lambda x: 7.0 * x), 42.0)


def test_a_builtin_is_shadowed_after_another_name_has_gone(scope):
    scope["unused"] = 0
    g = promoted(defined(scope, "def f(x): return abs(x) * x"), 3.0)

    def change():
        del scope["unused"]
        scope["abs"] = lambda x: 7.0 * x

    seen(g, change, 42.0)


def test_defaults_are_changed():
    def f(x, k=2.0, *, m=1.0):
        return k * m * x * x

    seen(promoted(f, 3.0), lambda: setattr(f, "__defaults__", (7.0,)), 42.0)
    seen(promoted(f, 3.0), lambda: f.__kwdefaults__.__setitem__("m", 2.0), 84.0)
    seen(promoted(f, 3.0), lambda: setattr(f, "__kwdefaults__", {"m": 3.0}), 126.0)


def test_the_code_of_a_function_is_replaced():
    def f(x):
        return x * x

    def inner(x):
        return x * x

    def by_inner(x):
        return inner(x)

    def other(x):
        return 7.0 * x * x

    seen(promoted(f, 3.0), lambda: setattr(f, "__code__", other.__code__), 42.0)
    seen(promoted(by_inner, 3.0), lambda: setattr(inner, "__code__", other.__code__), 42.0)


def test_a_helper_is_rebound(monkeypatch):
    g = promoted(lambda x: 2.0 * helper(x), 3.0)
    seen(g, lambda: monkeypatch.setitem(globals(), "helper", lambda x: 7.0 * x * x), 84.0)


def test_a_captured_array_is_changed_in_place():
    k = np.array([1.0, 2.0])
    g = promoted(lambda x: np.sum(k * x * x), np.ones(2))
    assert g(np.ones(2)).tolist() == [2.0, 4.0]
    k[0] = 5.0
    for _ in range(5):
        assert g(np.ones(2)).tolist() == [10.0, 4.0]


def test_an_array_whose_elements_the_function_reads_is_changed_in_place():
    k = np.array([1.0, 2.0])
    g = promoted(lambda x: k[0] * x * x + k[1] * x, 3.0)
    assert g(3.0) == 8.0
    k[1] = 5.0
    assert [g(3.0) for _ in range(5)] == [11.0] * 5


@pytest.mark.parametrize("number", range(len(list(test_purity.changes()))), ids=[n for n, _, _ in test_purity.changes()])
def test_every_change_that_replays_see_is_seen_by_kernels(number):
    name, function, change = list(test_purity.changes())[number]
    with tg.no_grad() if "parameter" in name else nullcontext():
        _is_seen_by_kernels(name, function, change)


def _is_seen_by_kernels(name, function, change):
    g, x = tg.grad(function, kernel="always"), np.array([1.0, 2.0, 3.0])
    before = g(x)
    for k in range(5):
        np.testing.assert_array_equal(g(x + k), before)
    assert g.stats().kernel_calls > 0
    with quiet() as warned:
        change()
        for k in range(4):
            after = g(x + k)
            if name == "sign of zero":
                assert (before == 3.0).all() and (after == 1.0).all()
            else:
                np.testing.assert_allclose(after, 3 * before)
    assert not warned

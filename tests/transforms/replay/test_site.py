"""The way in: every kind of argument by generated Python and compiled code, against the long way."""

import ctypes
import gc
import sys
import textwrap
import threading
from collections import OrderedDict

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.tree import flatten
from tapegrad.program.replayed import Replay
from tapegrad.transforms.replay.answers import Miss, of_gradients, sort_arguments, values_of
from tapegrad.transforms.replay.site import CallSite
from tests.every import every
from tests.transforms.replay.site_kinds import KINDS, Fields, Pair, made, of_dict, of_mode, of_plane, of_two, site_of


@pytest.fixture(autouse=True)
def no_exception_stays_set():
    yield
    occurred = ctypes.pythonapi.PyErr_Occurred
    occurred.restype = ctypes.c_void_p
    assert occurred() is None


def equal(one, other):
    """The same containers, types, dtypes, shapes and numbers."""
    (these, structure), (those, shape) = flatten(one), flatten(other)
    assert structure == shape and [type(a) for a in these] == [type(a) for a in those]
    for a, b in zip(these, those):
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype and a.shape == b.shape and a.flags.writeable
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_answered_as_the_long_way_does(name):
    g, arguments, kwargs, site = made(name)
    plain = tg.jit(tg.value_and_grad(KINDS[name][0], **KINDS[name][3]), kernel="never")
    for _ in range(3):
        args = arguments()
        answer = site.call(args, kwargs)
        assert type(answer) is not Miss
        equal(answer, g(*args, **kwargs))
        for a, b in zip(flatten(answer)[0], flatten(plain(*args, **kwargs))[0]):
            if not isinstance(a, str):
                np.testing.assert_allclose(a, b, rtol=1e-6 if np.asarray(a).dtype == np.float32 else 1e-13)


class Subclass(np.ndarray):
    pass


class Number(float):
    pass


class Text(str):
    pass


X = np.array([0.5, 2.0])
W = {"w": X, "b": 2.0}
MISSES = {
    "another shape": (of_plane, (X,), (np.zeros(3),)),
    "more axes": (of_plane, (X,), (np.zeros((2, 1)),)),
    "another dtype": (of_plane, (X,), (X.astype(np.float32),)),
    "integers": (of_plane, (X,), (np.array([1, 2]),)),
    "complex": (of_plane, (X,), (X + 0j,)),
    "objects": (of_plane, (X,), (X.astype(object),)),
    "dates": (of_plane, (X,), (np.array(["2020", "2021"], "M8[D]"),)),
    "swapped bytes": (of_plane, (X,), (X.astype(">f8"),)),
    "a subclass": (of_plane, (X,), (X.view(Subclass),)),
    "a list": (of_plane, (X,), ([0.5, 2.0],)),
    "bytes": (of_plane, (X,), (X.tobytes(),)),
    "unaligned": (of_plane, (X,), (np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view("d"),)),
    "a stride": (of_plane, (X,), (np.zeros(4)[::2],)),
    "Fortran order": (of_plane, (np.zeros((2, 2)),), (np.zeros((2, 2)).T[:, :].copy("F"),)),
    "C order": (of_plane, (np.ones((2, 2)).copy("F"),), (np.ones((2, 2)),)),
    "another object in Fortran order": (of_plane, (np.ones((2, 2)).copy("F"),), ([[1.0]],)),
    "int for float": (of_plane, (2.0,), (2,)),
    "bool for float": (of_plane, (2.0,), (True,)),
    "bool for int": (of_plane, (2,), (True,)),
    "np.float64 for float": (of_plane, (2.0,), (np.float64(2.0),)),
    "float for np.float64": (of_plane, (np.float64(2.0),), (2.0,)),
    "np.float32 for np.float64": (of_plane, (np.float64(2.0),), (np.float32(2.0),)),
    "a subclass of float": (of_plane, (2.0,), (Number(2.0),)),
    "a huge int": (of_plane, (2,), (10**400,)),
    "None": (of_plane, (2.0,), (None,)),
    "more arguments": (of_plane, (X,), (X, X)),
    "none": (of_plane, (X,), ()),
    "a tuple for a list": (lambda p: p[0] * p[1], ([1.0, 2.0],), ((1.0, 2.0),)),
    "a longer list": (lambda p: p[0] * p[1], ([1.0, 2.0],), ([1.0, 2.0, 3.0],)),
    "an empty list": (lambda p: p[0] * p[1], ([1.0, 2.0],), ([],)),
    "another class": (lambda p: p.a * p.b, (Fields(1.0, 2.0),), (Pair(1.0, 2.0),)),
    "another order of keys": (of_dict, (W,), ({"b": 2.0, "w": X},)),
    "another key": (of_dict, (W,), ({"w": X, "c": 2.0},)),
    "more keys": (of_dict, (W,), (W | {"c": 1.0},)),
    "an ordered dict": (of_dict, (W,), (OrderedDict(W),)),
    "an equal key that differs": (lambda p: p[1] * p[1], ({1: 2.0},), ({True: 2.0},)),
    "another string": (of_mode, (X, "sum"), (X, "prod")),
    "an equal string of a subclass": (of_mode, (X, "sum"), (X, Text("sum"))),
    "another int": (of_mode, (X, "sum", 2), (X, "sum", 3)),
    "a bool for an int": (of_mode, (X, "sum", 1), (X, "sum", True)),
    "an int for a bool": (of_mode, (X, "sum", True), (X, "sum", 1)),
    "something for None": (of_mode, (X, "sum", 2, None), (X, "sum", 2, 0)),
    "more indices": (lambda x, i: np.sum(x[i]), (X, np.array([0, 1])), (X, np.array([1, 1, 0]))),
    "an index out of range": (lambda x, i: np.sum(x[i]), (X, np.array([0, 1])), (X, np.array([0, 2]))),
    "another slice": (lambda x, i: np.sum(x[i]), (X, slice(0, 2)), (X, slice(0, 1))),
    "another number in a static set": (lambda x, a: np.sum(x) * len(a), (X, frozenset([0.0])), (X, frozenset([-0.0]))),
    "objects in another order": (lambda x, a: np.sum(x) * a[0], (X, np.array([2, "a"], object)), (X, np.array(["a", 2], object))),
    "indices of another dtype": (lambda x, i: np.sum(x[i]), (X, np.array([0, 1])), (X, np.array([0, 1], np.int32))),
}


@every("name", MISSES)
def test_what_is_not_exactly_so_misses(name):
    function, args, others = MISSES[name]
    site = site_of(tg.value_and_grad(tg.jit(function)), args)
    assert type(site.call(args, {})) is not Miss
    assert type(site.call(others, {})) is Miss
    assert type(site.call(args, {"more": 1.0})) is Miss
    assert type(site.call(args, {})) is not Miss


def test_keywords_that_differ_miss():
    g = tg.value_and_grad(tg.jit(of_mode))
    site = site_of(g, (X,), {"mode": "sum", "n": 3})
    assert type(site.call((X,), {"mode": "sum", "n": 3})) is not Miss
    for other in ({"mode": "sum"}, {"n": 3, "mode": "sum"}, {"mode": "sum", "n": 2}, {"mode": "sum", "flag": 3}):
        assert type(site.call((X,), other)) is Miss


def test_equal_statics_that_are_other_objects_are_the_same():
    text, number = "".join(["lo", "ng text"]), 10**20
    site = site_of(tg.value_and_grad(tg.jit(lambda x, a, b: np.sum(x * b) + len(a))), (X, text, number))
    assert type(site.call((X, "".join(["long", " text"]), 10**20 + 0), {})) is not Miss
    assert type(site.call((X, "long texts", number), {})) is Miss


@pytest.mark.parametrize("make", [lambda: frozenset([0.0]), lambda: slice(0, 2), lambda: np.array([2, "a"], object), lambda: 1j, np.int8])
def test_statics_that_no_function_can_tell_apart_are_the_same(make):
    site = site_of(tg.value_and_grad(tg.jit(lambda x, a: np.sum(x) * (2.0 if a is None else 3.0))), (X, make()))
    assert site.call((X, make()), {}) == (7.5, pytest.approx([3.0, 3.0]))
    assert type(site.call((X, None), {})) is Miss


def test_statics_whose_equality_says_little_are_compared_by_identity():
    class Equal:
        def __eq__(self, other):
            return True

        def __hash__(self):
            return 0

    for one, other in (Equal(), Equal()), (lambda x: x, lambda x: x), (np.float32, np.float64):
        site = site_of(tg.value_and_grad(tg.jit(lambda x, a: np.sum(x) * (2.0 if a is one else 3.0))), (X, one))
        for _ in range(2):
            assert site.call((X, one), {})[0] == 5.0
            assert type(site.call((X, other), {})) is Miss


def test_integers_are_inputs():
    site = site_of(tg.value_and_grad(tg.jit(lambda x, i: np.sum(x[i] ** 2))), (X, np.array([0, 1])))
    for indices in (0, 1), (1, 1), (-1, 0):
        value, gradient = site.call((X, np.array(indices)), {})
        expected = np.zeros(2)
        np.add.at(expected, np.array(indices), 2.0 * X[list(indices)])
        assert value == pytest.approx(np.sum(X[list(indices)] ** 2), rel=1e-15)
        np.testing.assert_allclose(gradient, expected, rtol=1e-15)


def test_read_only_arrays_are_read():
    locked = X.copy()
    locked.flags.writeable = False
    site = site_of(tg.value_and_grad(tg.jit(of_plane)), (X,))
    equal(site.call((locked,), {}), site.call((X,), {}))


def test_guards_and_gradients_that_are_not_finite_miss():
    site = site_of(tg.value_and_grad(tg.jit(lambda x: np.sqrt(x) if x >= 0.0 else -x)), (2.0,))
    assert site.call((9.0,), {}) == (3.0, 1.0 / 6.0)
    assert type(site.call((-1.0,), {})) is Miss
    assert type(site.call((0.0,), {})) is Miss
    assert site.call((4.0,), {}) == (2.0, 0.25)


def test_the_environment_are_asked_at_each_call():
    known = [True]
    site = site_of(tg.value_and_grad(tg.jit(of_two)), (X,), same=lambda: known[0])
    assert type(site.call((X,), {})) is not Miss
    known[0] = False
    assert type(site.call((X,), {})) is Miss


def test_an_exception_in_the_check_comes_through():
    def same():
        raise RuntimeError("mine")

    site = site_of(tg.value_and_grad(tg.jit(of_two)), (X,), same=same)
    with pytest.raises(RuntimeError, match="mine"):
        site.call((X,), {})


def test_results_are_new_at_each_call():
    g, arguments, kwargs, site = made("several results")
    (_, first), _ = site.call((X,), {})
    first["twice"][:], first["one"][:] = 7.0, 7.0
    (_, second), gradient = site.call((X,), {})
    np.testing.assert_array_equal(second["twice"], 2.0 * X)
    np.testing.assert_array_equal(second["one"], np.ones(2))
    assert not np.may_share_memory(gradient, second["twice"])


@pytest.mark.parametrize("name", ["nested", "static", "20 floats", "strided", "keywords", "int", "float32 array"])
def test_no_reference_is_lost_or_kept(name):
    _, arguments, kwargs, site = made(name)
    args = arguments()
    objects = [*flatten((args, kwargs))[0], float, np.ndarray, tuple, np.float64, int]
    missing = (*args, object())
    site.call(args, kwargs)

    def count(calls):
        before, blocks = [sys.getrefcount(o) for o in objects], sys.getallocatedblocks()
        for _ in range(calls):
            site.call(args, kwargs)
            site.call(missing, kwargs)
        gc.collect()
        blocks = sys.getallocatedblocks() - blocks
        after = [sys.getrefcount(o) for o in objects]
        return [a - b for a, b in zip(after, before)], blocks

    count(100)
    references, blocks = count(20_000)
    assert not any(references), references
    assert blocks < 100


@pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros(2, np.float32), None, object()])
def test_nothing_is_leaked_where_a_leaf_is_refused(wrong):
    """The leaf before it has been read already: its buffer is given back."""
    x = X.copy()
    site = site_of(tg.value_and_grad(tg.jit(lambda x, y: np.sum(x * y))), (x, X))
    references, blocks = sys.getrefcount(x), sys.getallocatedblocks()
    for _ in range(20_000):
        assert type(site.call((x, wrong), {})) is Miss
    assert sys.getrefcount(x) == references and sys.getallocatedblocks() - blocks < 100
    x.resize(5, refcheck=False)  # nobody has a view of it


def test_threads_give_the_bits_of_one():
    """The kernel's own block is taken by one of them, others have theirs."""
    g = tg.value_and_grad(tg.jit(lambda x: np.sum(np.sin(np.outer(x, x)) @ x)))
    points = [np.random.default_rng(k).random(60) for k in range(8)]
    site = site_of(g, (points[0],))
    expected = [site.call((p,), {}) for p in points]
    wrong = []

    def work(k):
        for _ in range(100):
            value, gradient = site.call((points[k],), {})
            if value != expected[k][0] or not np.array_equal(gradient, expected[k][1]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_other_threads_run_meanwhile():
    """No thread is asked to give the interpreter away, so that another one runs only if the call itself does."""
    x = np.ones((200, 200))
    site = site_of(tg.value_and_grad(tg.jit(lambda x: np.sum(np.sin(x @ x @ x @ x)))), (x,))
    ran, turns = [], threading.Semaphore(0)

    def work():
        turns.acquire()
        ran.append(True)

    thread = threading.Thread(target=work)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)
    try:
        thread.start()
        turns.release()
        held = bool(ran)
        for _ in range(100):
            site.call((x,), {})
            if ran:
                break
        released = bool(ran)
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert released and not held


def test_the_essay_shows_a_site():
    g = tg.value_and_grad(tg.jit(lambda x, p, how: np.sum(x) * p["a"] if how == "left" else x[0]))
    shown = str(site_of(g, (np.zeros(2), {"a": 2.0}, "left")))
    assert textwrap.indent(shown, "    ") in sys.modules[CallSite.__module__].__doc__


def test_names_that_users_choose_cannot_become_code():
    key = "x') or print('"
    g = tg.value_and_grad(tg.jit(lambda p: p[key] * p[key]))
    site = site_of(g, ({key: 3.0},))
    assert site.call(({key: 3.0},), {}) == (9.0, {key: 6.0}) and key not in site.source


#: Kinds whose replays call NumPy: indices are looked at.
BY_NUMPY = {"integer array": "indexed"}


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("name", BY_NUMPY)
def test_replays_that_call_numpy_say_so(name, gradients):
    function, arguments, kwargs, options = KINDS[name]
    replay = Replay(tg.value_and_grad(tg.jit(function), **options).tape(*arguments(), **kwargs), gradients)
    assert not replay.pointer and f"{BY_NUMPY[name]} at " in replay.why and replay.why.endswith("is computed by NumPy")


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("name", [k for k in KINDS if k != "array of one" and k not in BY_NUMPY])
def test_replays_are_executables_like_kernels(name, gradients):
    function, arguments, kwargs, options = KINDS[name]
    g = tg.value_and_grad(tg.jit(function), **options)
    args = arguments()
    tape = g.tape(*args, **kwargs)
    replay = Replay(tape, gradients)
    assert replay.pointer and not replay.why
    _, (structure, marks), _ = sort_arguments(args, kwargs, g._argnums)
    answer = of_gradients(tape, structure, g._argnums, g._one) if gradients else (tape.structure, values_of(tape))
    site = CallSite(structure, marks, replay, answer)
    for _ in range(3):
        args = arguments()
        found, expected = site.call(args, kwargs), g(*args, **kwargs)
        for a, b in zip(flatten(found)[0], flatten(expected if gradients else expected[0])[0]):
            if not isinstance(a, str):
                np.testing.assert_allclose(a, b, rtol=1e-6 if np.asarray(a).dtype == np.float32 else 1e-13)

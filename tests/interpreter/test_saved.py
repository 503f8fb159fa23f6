"""Saved values are found before they are swept: wherever arrays lie by then, and only those of the stretch."""

import gc
import os
import sys
import threading
import weakref

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.codegen.python_api import data_address
from tapegrad.common.errors import ModifiedInPlaceError
from tapegrad.interpreter import native
from tapegrad.interpreter.signature import Signature
from tapegrad.tape.layout import ARRAY_LEAF, ARRAY_RECORD, FIRST_ARRAY
from tapegrad.tape.store import thread_state
from tests.every import every


def leaf(values):
    return tg.tensor(np.asarray(values, float), requires_grad=True)


def plane():
    return np.arange(12.0).reshape(3, 4)


LAYOUTS = {
    "as it is": plane, "transposed": lambda: plane().T, "turned round": lambda: plane()[::-1, ::-2], "a part": lambda: plane()[1:, 2:],
    "without axes": lambda: np.array(1.5), "one number of it": lambda: plane()[1, 2:3].reshape(()), "empty": lambda: np.empty((0, 3)),
    "spread": lambda: np.broadcast_to(np.arange(4.0), (3, 4)), "float32": lambda: plane().astype("f"), "booleans": lambda: plane() > 4,
    "indices": lambda: np.arange(4), "not aligned": lambda: np.zeros(33, np.uint8)[1:].view("d"), "bytes swapped": lambda: plane().astype(">f8"),
    "fields": lambda: np.zeros(2, [("a", "i4"), ("b", "f8")]), "dates": lambda: np.array(["2000-01-01"], "datetime64[D]"),
}  # fmt: skip


@every("of", LAYOUTS.values())
@every("writable", [True, False])
def test_the_address_of_an_array(of, writable):
    array = of()
    if not writable:
        array.flags.writeable = False
    assert data_address(array) == array.ctypes.data
    references = sys.getrefcount(array)
    for _ in range(100):
        data_address(array)
    assert sys.getrefcount(array) == references


@pytest.mark.parametrize("thing", [1.5, None, [1.0], "text"])
def test_what_has_no_memory_of_its_own_is_refused(thing):
    with pytest.raises(TypeError, match="buffer|bytes-like"):
        data_address(thing)


def test_only_the_marked_instructions_of_a_stretch_are_located():
    with tg.Tape() as tape:
        x, number = leaf([1.0, 2.0, 3.0]), tg.tensor(2.5, requires_grad=True)
        first = x * number
        second = first * x
        third = second * second
    store = tape.store
    saved = native.table_of_saved(store)
    saved[:] = -7
    marks = native.new_marks(store)
    marks[second._i] = 1
    native.locate(store, saved, data_address(marks), 1, third._i)
    addresses = saved[: len(store.objects)].tolist()
    expected = [-7] * len(addresses)
    at = store.read(second._i, ARRAY_RECORD)[5]
    expected[at : at + 2] = [data_address(o) for o in store.objects[at : at + 2]]
    assert addresses == expected

    sweep = native.Sweep(third._i + 1, np.ones(third._i + 17, np.uint8)).over_store(store)
    sweep.locate(third._i, 1)
    addresses = sweep.saved
    for k, thing in enumerate(store.objects):
        if type(thing) is float:
            at = len(store.objects) + k
            assert addresses[k] == data_address(addresses) + 8 * at and addresses.view(float)[at] == thing
        else:
            assert addresses[k] == data_address(thing)
    assert {type(thing) for thing in store.objects} == {float, np.ndarray}


def test_the_savers_of_a_store_are_those_whose_signatures_say_so():
    """Also behind a move, and where nothing is recorded because the recording of an operation was broken off."""
    x, v = tg.tensor(2.0, requires_grad=True), leaf([1.0, 2.0, 3.0])
    kept, first = [], thread_state().store
    for k in range(6000):
        y = np.sum(np.exp(v * x) * v) + x * x
        if k % 500 == 0:
            kept.append(y)
            with pytest.raises(ValueError):
                np.add(v, np.ones(5))
    assert kept[0]._t is not first, "nothing has moved"
    store = y._t
    records = store.records()
    numbers = [int(op) - FIRST_ARRAY if FIRST_ARRAY <= op < ARRAY_LEAF else None for op in records["op"]]
    assert store.savers == [slot for slot, n in enumerate(numbers) if n is not None and Signature.ALL[n].saves]
    for t in kept:
        v.grad = x.grad = None
        t.backward(retain_graph=True)
        e = np.exp(2.0 * np.array([1.0, 2.0, 3.0]))
        assert np.allclose(v.grad.numpy(), e * (1.0 + 2.0 * np.array([1.0, 2.0, 3.0])), rtol=1e-13)
        assert np.allclose(x.grad.item(), 4.0 + (e * np.array([1.0, 4.0, 9.0])).sum(), rtol=1e-13)


def test_numbers_alone_need_no_table(monkeypatch):
    calls = []
    monkeypatch.setattr(native.walk, "locate", lambda *args: calls.append(args))
    x = tg.tensor(0.5, requires_grad=True)
    with tg.Tape():
        (np.sin(x) * x + x / 3.0).backward()
    assert x.grad is not None and not calls


@pytest.mark.parametrize("size", [3, 1016, 1 << 16])
def test_a_constant_that_was_resized_is_not_read(size):
    constant, small = np.arange(1000.0) + 1.0, np.arange(8.0)
    x, t = leaf(np.ones(1000)), leaf(np.ones(8))
    y, z = np.sum(x * constant), np.sum(t * small)
    constant.resize(size, refcheck=False)
    small.resize(size, refcheck=False)
    with pytest.raises(ModifiedInPlaceError):
        y.backward()
    z.backward()
    assert t.grad.tolist() == [*range(8)]


def test_a_constant_that_a_hook_moves_is_found_where_it_is():
    constant = np.arange(8.0) + 1.0
    x = leaf(np.ones(8))
    y = x * constant
    z = y * 2.0
    before = data_address(constant)
    blocks = []

    def hook(g):
        constant.resize(1 << 18, refcheck=False)
        blocks.extend(np.full(8, np.nan) for _ in range(100))

    z.register_hook(hook)
    np.sum(z).backward()
    assert data_address(constant) != before
    assert np.array_equal(x.grad.numpy(), 2.0 * (np.arange(8.0) + 1.0))


def test_a_list_of_saved_values_that_grows_while_it_is_swept():
    x, kept = leaf(np.arange(1.0, 9.0)), []

    def hook(g):
        kept.append([x * x for _ in range(3000)])
        gc.collect()

    y = x * x
    y.register_hook(hook)
    z = y * x
    z.register_hook(hook)
    np.sum(z).backward()
    assert np.allclose(x.grad.numpy(), 3.0 * np.arange(1.0, 9.0) ** 2, rtol=1e-14)


def test_what_is_swept_again_may_have_moved():
    values = np.arange(1.0, 5.0)
    x = leaf(values)
    with tg.Tape():
        y = np.sum(x[::-1] * x.reshape(2, 2).T.reshape(4) * 2.0)
        y.backward(retain_graph=True)
        once = x.grad.numpy().copy()
        noise = [np.full(4, np.nan) for _ in range(1000)]
        x.grad = None
        y.backward()
    assert len(noise) == 1000 and np.array_equal(x.grad.numpy(), once)
    swapped = values.reshape(2, 2).T.reshape(4)
    jacobian = np.zeros((4, 4))
    jacobian[range(4), [0, 2, 1, 3]] = values[::-1]
    jacobian[range(4), [3, 2, 1, 0]] += swapped
    assert np.allclose(once, 2.0 * jacobian.sum(0))


def test_a_table_keeps_nothing_alive():
    x = leaf(np.ones(1000))
    with tg.Tape() as tape:
        y = np.sum(np.sin(x * 2.0) * x)
    saved = [weakref.ref(o) for o in tape.store.objects if isinstance(o, np.ndarray) and o is not x._v]
    y.backward()
    del y, tape
    gc.collect()
    assert saved and not any(reference() is not None for reference in saved)


def gradient(seed):
    """A gradient of arrays and numbers, and what it has to be."""
    values = np.random.default_rng(seed).uniform(0.5, 1.5, 40)
    x = leaf(values)
    y = x * 1.0
    for _ in range(30):
        y = y * x[0] + x * 0.25
    expected, power = np.zeros(40), values[0] ** np.arange(31)
    # y = x * x0 ** 30 + 0.25 * x * (1 + x0 + ... + x0 ** 29)
    expected += power[30] + 0.25 * power[:30].sum()
    expected[0] += values.sum() * (30 * power[29] + 0.25 * np.sum(np.arange(1, 30) * power[:29]))
    np.sum(y).backward()
    return x.grad.numpy(), expected


def test_threads_sweep_at_the_same_time():
    results, start = [], threading.Barrier(4)

    def work(number):
        start.wait()
        for k in range(20):
            results.append(gradient(100 * number + k))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 80
    for computed, expected in results:
        assert np.allclose(computed, expected, rtol=1e-12)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_child_sweeps_what_its_parent_has_recorded():
    x = leaf(np.arange(1.0, 9.0))
    y = np.sum(x * x * 0.5)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            y.backward()
            code = 0 if np.array_equal(x.grad.numpy(), np.arange(1.0, 9.0)) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    y.backward()
    assert np.array_equal(x.grad.numpy(), np.arange(1.0, 9.0))


@pytest.mark.parametrize("how", [tg.jacfwd, tg.jacrev])
def test_several_seeds_read_numbers_and_arrays(how):
    values = np.array([1.5, 2.0, 3.0])

    def f(x):
        return x * x[0] + np.sin(x[::-1]) * x

    s, c = np.sin(values[::-1]), np.cos(values[::-1])
    expected = np.diag(values[0] + s) + np.fliplr(np.diag(c * values))
    expected[:, 0] += values
    for g in (how(f), tg.jit(how(f), kernel="never")):
        assert np.allclose(g(values), expected, rtol=1e-14)
        assert np.allclose(g(values), expected, rtol=1e-14)

"""Programs are given back when no tape refers to them, and never before."""

import gc
import threading
import weakref

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.interpreter import signature
from tapegrad.interpreter.signature import Signature
from tapegrad.interpreter.walks import walks
from tapegrad.tape import layout
from tapegrad.tape.store import TapeStore, thread_state
from tests.rules.checker import leaf
from tests.threads import in_threads

#: Signatures that are kept unused, and of a store that goes on to the next generation, in these tests.
MOST = 40


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """The bound is low, on a fresh store; nothing is left of earlier tests but what lives."""
    monkeypatch.setattr(signature, "MOST", MOST)
    monkeypatch.setattr("tapegrad.tape.store.SIGNATURES_REUSED", MOST)
    monkeypatch.setattr(layout, "MOST", MOST)
    state = thread_state()
    state.store = state.anonymous = TapeStore(state)
    # That of the last call of a transformation keeps signatures for the next one.
    state.spare = None
    evict()
    # Twice as many may wait as live: what lives of earlier tests does not count in these.
    earlier, alive = Signature.BY_KEY, Signature.ALL
    monkeypatch.setattr(Signature, "BY_KEY", {})
    monkeypatch.setattr(Signature, "ALL", weakref.WeakValueDictionary())
    monkeypatch.setattr(Signature, "_limit", MOST)
    yield
    evict()
    earlier.update(Signature.BY_KEY)
    alive.update(Signature.ALL)


def evict():
    """All that nobody refers to is given back; returns the numbers that are left."""
    gc.collect()
    Signature._give_back()
    return set(Signature.ALL)


def loss(x):
    return np.sum(np.sin(x[::2]) * x[1::2] + np.mean(x) ** 2)


def slope(x):
    a, b = x[::2], x[1::2]
    found = np.empty_like(x)
    found[::2], found[1::2] = np.cos(a) * b, np.sin(a)
    return found + 2.0 * np.mean(x) * len(a) / len(x)


def point(n):
    return np.linspace(-1.0, 2.0, 2 * n)


def eager(n):
    x = leaf(point(n))
    loss(x).backward()
    return x.grad.numpy()


def forward_only(n):
    loss(leaf(point(n)))


def hessian_product(n):
    x = leaf(np.full(n, 0.5))
    (g,) = tg.autograd.grad(np.sum(x * x * x), x, create_graph=True)
    (h,) = tg.autograd.grad(np.sum(g * g), x)
    assert h.numpy() == pytest.approx(36.0 * np.full(n, 0.5) ** 3)


def in_a_tape(n):
    x = leaf(point(n))
    with tg.Tape() as tape:
        y = loss(x)
    assert len(tape)
    y.backward()


def primitive_of_its_own(n):
    """Rows of the user's, too: one for each primitive."""
    double = tg.primitive(lambda x: 2.0 * x)
    double.defvjp(lambda g, y, x: 2.0 * g)
    np.sum(double(leaf(np.ones(3)))).backward()


KINDS = {
    "eager": eager,
    "create_graph": hessian_product,
    "vjp": lambda n: tg.vjp(loss, point(n))[1](1.0),
    "linearize": lambda n: tg.linearize(loss, point(n))[1](point(n)),
    "tape": in_a_tape,
    "primitives": primitive_of_its_own,
}


@pytest.mark.parametrize("kind", KINDS)
def test_signatures_of_shapes_that_are_gone(kind):
    before = len(evict())
    for n in range(3, 60):
        KINDS[kind](n)
    assert len(Signature.ALL) < before + 4 * MOST
    gc.collect()
    thread_state().store.signatures.clear()
    assert len(evict()) <= before + MOST


def test_two_thousand_shapes():
    before, rows = (len(evict()), len(layout._KNOWN)), Signature._next
    for n in range(2000):
        x = leaf(np.ones((n, 1)))
        (-x).sum().backward()
    assert len(Signature.ALL) < before[0] + 4 * MOST
    assert Signature._next < rows + 4 * MOST
    # Twice as many as live may wait.
    assert len(layout._KNOWN) < 2 * before[1] + 4 * MOST


def test_functions_of_many_shapes():
    """Each shape is a kind of its own, of which a function keeps so many."""
    g = tg.jit(tg.grad(lambda x: np.sum(np.sin(x) * x)), kernel="never")
    for n in range(1, 300):
        # Twice: a function that meets another shape at nearly every call is run plainly.
        for _ in range(2):
            assert g(np.ones(n)) == pytest.approx(np.full(n, np.cos(1.0) + np.sin(1.0)))
    kept = len(evict())
    del g
    assert len(evict()) < kept - 500


def test_a_tape_that_is_alive_keeps_its_own():
    x = leaf(point(4))
    y = loss(x)
    mine = {s.number for s in y._t.signatures.values()}
    for n in range(5, 80):
        with tg.Tape():
            loss(leaf(point(n)))
    assert mine <= evict()
    y.backward()
    assert x.grad.numpy() == pytest.approx(slope(point(4)))


HELD = {
    "vjp": lambda x: lambda f=tg.vjp(loss, x)[1]: f(1.0)[0],
    "linearize": lambda x: lambda f=tg.linearize(loss, x)[1]: [f(e) for e in np.eye(len(x))],
    "replay": lambda x: lambda f=called(tg.jit(tg.grad(loss), kernel="never"), x): f(x),
    "kernel": lambda x: lambda f=called(tg.jit(tg.grad(loss), kernel="always"), x): f(x),
    "jacobian": lambda x: lambda f=called(tg.jacobian(loss), x): f(x),
    "forward": lambda x: lambda f=called(tg.jacfwd(loss), x): f(x),
    "define-by-run": lambda x: lambda: eager(len(x) // 2),
}


def called(f, x):
    f(x + 1.0), f(x)
    return f


@pytest.mark.parametrize("kind", HELD)
def test_what_was_recorded_before_and_what_is_new_after_numbers_are_used_again(kind):
    x = point(5)
    held = HELD[kind](x)
    assert held() == pytest.approx(slope(x))
    for n in range(6, 40):
        eager(n)
    evict()
    assert held() == pytest.approx(slope(x))
    made, numbers = Signature.made, Signature._next
    other = HELD[kind](point(41))
    assert other() == pytest.approx(slope(point(41)))
    assert eager(42) == pytest.approx(slope(point(42)))
    assert held() == pytest.approx(slope(x))
    # There are new ones, with numbers that others had.
    assert Signature.made > made and Signature._next == numbers


def test_a_number_means_what_it_means_now_in_the_other_direction():
    """Tangent programs and kinds of signatures stand in tables of their own."""
    seen = set()
    for n in range(2, 12):
        thread_state().store.signatures.clear()
        evict()
        for f, slopes in ((np.sin, np.cos), (np.exp, np.exp), (lambda x: np.concatenate([x, x])[:n], np.ones_like)):
            x = np.linspace(0.1, 1.0, n)
            assert tg.linearize(f, x)[1](np.ones(n)) == pytest.approx(slopes(x))
        seen.add(max(Signature.ALL, default=0))
    assert max(seen) <= min(seen) + 8


def test_the_row_of_a_tensor_whose_tape_is_gone():
    x = leaf(point(3))
    y = np.sum(np.sin(x))
    z = np.cos(x)
    (y + np.sum(z)).backward()
    for n in range(6, 30):
        eager(n)
    thread_state().store.signatures.clear()
    evict()
    assert z.grad_fn.name() == "CosBackward0"


def test_a_store_that_moves_takes_its_signatures_along():
    x = leaf(point(3))
    y = loss(x)
    store = thread_state().store
    forward_only(7)
    while thread_state().store is store:
        for n in range(3, 9):
            forward_only(n)
        walks.reclaim(store)
    moved = thread_state().store
    assert set(moved.signatures.values()) < set(Signature.ALL.values())
    evict()
    y.backward()
    assert x.grad.numpy() == pytest.approx(slope(point(3)))


def test_threads_that_record_many_shapes_at_once():
    def work(k):
        for n in range(3, 60):
            assert eager(n) == pytest.approx(slope(point(n)))

    in_threads(work, 4)
    assert len(Signature.ALL) < 16 * MOST


def test_descriptions_are_given_back_and_stay_one_object_each():
    x = np.ones((3, 2))
    known = layout.meta_of(x)
    count = 2 * layout._limit
    for n in range(count):
        layout.meta_of(np.empty((n, 0, 7)))
    assert layout.meta_of(np.zeros((3, 2))) is known
    assert sum(m.shape[1:] == (0, 7) for m in layout._KNOWN.values()) < count


def test_nobody_waits_for_what_another_thread_compiles():
    """The other thread may wait itself for what this one holds: the lock of a loop."""
    lock, begun = threading.Lock(), threading.Event()

    class Kernel:
        def address(self):
            begun.set()
            with lock:
                return 7

    class Pending:
        def __init__(self, kernel):
            self.words, self.kernels, self.pending = [0], [(0, kernel)], True

    one, two = Pending(Kernel()), Pending(type("", (), {"address": lambda self: 8})())
    with lock:
        other = threading.Thread(target=lambda: Signature.ready([one]), daemon=True)
        other.start()
        assert begun.wait(60.0)
        Signature.ready([two])
        assert two.words == [8] and not two.pending and one.pending
    other.join(60.0)
    assert one.words == [7] and not one.pending


def test_what_one_tape_has_not_swept_the_next_one_compiles():
    x = tg.tensor([0.5, 1.5], requires_grad=True)
    with tg.Tape():
        np.sin(x) * np.arctan(x)
    with tg.Tape() as tape:
        y = (np.sin(x) * np.arctan(x)).sum()
        assert any(signature.pending or not signature.kernels for signature in tape.store.signatures.values())
    y.backward()
    assert not tape.store.pending
    np.testing.assert_allclose(x.grad.numpy(), np.cos([0.5, 1.5]) * np.arctan([0.5, 1.5]) + np.sin([0.5, 1.5]) / (1 + np.square([0.5, 1.5])))

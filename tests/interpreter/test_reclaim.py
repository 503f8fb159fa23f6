"""A loop that records and never calls backward() runs in bounded memory, and nothing alive is lost."""

import gc
import weakref

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.interpreter.fields import live
from tapegrad.tape.store import WORDS, TapeStore, thread_state
from tests.every import every
from tests.rules.checker import leaf


@pytest.fixture(autouse=True)
def fresh_store():
    """Each test begins on a store of its own."""
    state = thread_state()
    state.store = state.anonymous = TapeStore(state)


def length():
    return len(thread_state().store)


def records():
    return thread_state().store.length


def drop_losses(x, count):
    """Compute and drop; returns how long the tape ever was."""
    longest = 0
    for _ in range(count):
        x * x + x
        longest = max(longest, records())
    return longest


def test_dropped_scalar_losses_are_forgotten():
    x = leaf(2.0)
    assert drop_losses(x, 100_000) < 10_000


def test_dropped_array_losses_are_forgotten_by_their_bytes():
    x = leaf(np.ones(1000))
    longest = most = 0
    for _ in range(5_000):
        np.sum(np.exp(x) * x)
        longest = max(longest, length())
        most = max(most, thread_state().store.memory()["saved"])
    assert longest < 10_000
    assert most < 10e6


LOSSES = {
    "sum": lambda x, v: np.sum(np.exp(v) * v),
    "a scalar that a later rule reads": lambda x, v: (v * (x * 3.0)).sum(),
    "norm": lambda x, v: np.linalg.norm(v),
    "max": lambda x, v: np.max(v),
    "prod": lambda x, v: np.prod(v),
    "std": lambda x, v: np.std(v),
    "logsumexp": lambda x, v: tg.logsumexp(v),
    "elements": lambda x, v: v[0] * v[1] + v[2],
    "maximum": lambda x, v: np.maximum(x, 0.0) + np.minimum(x * x, 100.0) + abs(x),
    "where": lambda x, v: np.where(x > 0, x * 2.0, x),
    "clip": lambda x, v: np.clip(x * 2.0, 0.0, 100.0),
    "clone": lambda x, v: (x * 2.0).clone(),
    "assignment": lambda x, v: assigned(x, v),
    "stack": lambda x, v: tg.stack([x * 2.0, x * 3.0, x, x * x]).sum(),
}


def assigned(x, v):
    out = tg.zeros(3) + v
    out[1] = x * 2.0
    return out.sum()


@pytest.mark.parametrize("name", LOSSES)
def test_dropped_losses_of_every_kind_are_forgotten(name):
    x, v = leaf(2.0), leaf([1.0, 2.0, 3.0])
    longest = 0
    for _ in range(15_000):
        LOSSES[name](x, v)
        longest = max(longest, records())
    assert longest < 10_000


@pytest.mark.parametrize("note", [
    lambda t: t.item(), lambda t: t.detach(), lambda t: t.tolist(), lambda t: t.data, lambda t: t.detach().numpy(),
    lambda t: float(t.detach()), lambda t: f"{t:.3f}", lambda t: t._v,
])  # fmt: skip
def test_a_history_of_values_does_not_keep_the_tape(note):
    x = leaf(2.0)
    history = []
    for _ in range(20_000):
        history.append(note(x * x + x))
    assert records() < 10_000


def alive(t):
    """How many living tensors lie in the slot of a tensor."""
    return [other._i for other in live(t._t)].count(t._i)


@every("name", LOSSES)
@every("wrapped", [lambda t: t, lambda t: t + 0.0, np.sin, lambda t: np.maximum(t, t), lambda t: np.power(t, 1.0), lambda t: -t])
def test_what_is_kept_of_a_tensor_does_not_keep_it_alive(name, wrapped):
    """Whatever is kept of a result besides the tensor, its value or what rules saved, is no tensor on its slot."""
    x, v = leaf(2.0), leaf([1.0, 2.0, 3.0])
    t = wrapped(LOSSES[name](x, v))
    kept = t.item(), t.detach(), t * v, t * t, np.where(v > 0, t, v), t.grad_fn
    assert alive(t) == 1 and kept
    slot, store = t._i, t._t
    another = t
    another += 0.0
    assert alive(another) == 1
    del t, another
    assert slot not in [other._i for other in live(store)]


def test_tensors_of_one_instruction_lie_in_its_slot():
    x = leaf(2.0)
    y = x * x
    y *= x
    z = x * 1.0
    z._become(y)
    assert alive(z) == alive(y) == 2
    slot = y._i
    del y
    drop_losses(x, 10_000)
    z.backward()
    assert slot and x.grad.item() == 12.0 and z.item() == 8.0


def test_an_early_loss_kept_alive_is_right_in_the_end():
    x, v = leaf(2.0), leaf([1.0, 2.0])
    early = (np.exp(v) * x).sum() * x
    assert drop_losses(x, 100_000) < 10_000
    for _ in range(5_000):
        np.sum(np.sin(v) * v)
    assert length() < 10_000
    early.backward()
    assert np.allclose(x.grad.item(), 4.0 * np.exp([1.0, 2.0]).sum(), rtol=1e-14)
    assert np.allclose(v.grad.numpy(), 4.0 * np.exp([1.0, 2.0]), rtol=1e-14)


def test_losses_kept_in_between_are_right():
    x = leaf(3.0)
    kept = {}
    for k in range(30_000):
        y = x * float(k) + x * x
        if k % 1000 == 7:
            kept[k] = y
    del y
    for k, y in kept.items():
        x.grad = None
        y.backward()
        assert x.grad.item() == k + 6.0


def moved(*tensors):
    """Let the store forget so much that everything alive on it moves."""
    stores = {t._t for t in tensors}
    x = leaf(1.0)
    drop_losses(x, 10_000)
    for store in stores:
        assert store.forward is not None, "nothing has moved"
    assert all(t._t is not store for t in tensors for store in stores)


def test_values_and_gradients_after_a_move():
    x, v = leaf(2.0), leaf(np.array([[1.0, 2.0], [3.0, 4.0]]))
    a = x * x
    b = np.exp(v) @ v
    c = tg.concatenate([v, b, v, np.sin(v), v, b], axis=1) * a
    moved(a, b, c)
    assert a.item() == 4.0
    assert b.tolist() == (np.exp(v.detach().numpy()) @ v.detach().numpy()).tolist()
    loss = c.sum() * a  # goes on from what moved
    g = tg.autograd.grad(loss, [x, v, a, b], retain_graph=True)

    x2, v2 = leaf(2.0), leaf(np.array([[1.0, 2.0], [3.0, 4.0]]))
    a2 = x2 * x2
    b2 = np.exp(v2) @ v2
    c2 = tg.concatenate([v2, b2, v2, np.sin(v2), v2, b2], axis=1) * a2
    for mine, theirs in zip(g, tg.autograd.grad(c2.sum() * a2, [x2, v2, a2, b2])):
        assert mine.tolist() == theirs.tolist()


def test_hooks_retained_gradients_and_nodes_after_a_move():
    x = leaf(3.0)
    a = x * x
    b = a * 2.0
    seen = []
    a.register_hook(lambda g: seen.append(("a", g.item())))
    a.retain_grad()
    node = b.grad_fn
    node.register_hook(lambda i, o: seen.append(("node", o[0].item())))
    node.register_prehook(lambda o: seen.append(("before", o[0].item())))
    moved(a, b)
    assert a.grad_fn.name() == "MulBackward0" and node == b.grad_fn
    assert b.grad_fn.next_functions[0][0] == a.grad_fn
    b.retain_grad()
    b.register_hook(lambda g: g * 10.0)
    b.backward()
    assert ("a", 20.0) in seen and ("node", 10.0) in seen and ("before", 10.0) in seen
    assert (a.grad.item(), b.grad.item(), x.grad.item()) == (20.0, 10.0, 120.0)


def test_retains_grad_is_remembered_after_a_move():
    x = leaf(3.0)
    a = x * x
    a.retain_grad()
    moved(a)
    assert a.retains_grad


def test_clearing_and_errors_after_a_move():
    x = leaf(3.0)
    trunk = x * x
    first, second = trunk * 2.0, trunk * 3.0
    alone = x * 7.0
    moved(trunk, first, second, alone)
    first.backward()
    with pytest.raises(RuntimeError, match="second time"):
        second.backward()
    x.grad = None
    alone.backward()
    assert x.grad.item() == 7.0


def test_places_survive_a_move():
    x = leaf(3.0)
    a = x * x
    before = a.grad_fn.metadata["place"]
    moved(a)
    assert a.grad_fn.metadata["place"] == before


def test_a_constant_changed_in_place_is_noticed_after_a_move():
    # (Of a smaller one the tape has a copy.)
    weight, table = leaf(np.ones(1000)), np.full(1000, 3.0)
    loss = (weight * table).sum()
    moved(loss)
    table[0] = 9.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation: 'table'"):
        loss.backward()


def test_partial_results_on_the_stack_alone_survive():
    """While the right operand is computed, the left one is held by the interpreter's stack only."""
    x, v = leaf(2.0), leaf([1.0, 2.0])

    def long_way(t):
        drop_losses(x, 5_000)
        return t

    y = x * x * 3.0 + long_way(x * 5.0) * (x + long_way(x))
    y.backward()
    assert x.grad.item() == 12.0 + 40.0
    z = (np.exp(v) * v).sum() * long_way(v * v).sum()
    z.backward()
    w = np.array([1.0, 2.0])
    want = np.exp(w) * (1 + w) * 5.0 + (np.exp(w) * w).sum() * 2 * w
    assert np.allclose(v.grad.numpy(), want, rtol=1e-14)


def test_an_accumulating_sum_moves_with_its_loop():
    x = leaf(1.5)
    total = leaf(0.0) * 1.0
    for _ in range(20_000):
        x * x * x  # rubbish
        total = total + x
    total.backward()
    assert x.grad.item() == 20_000.0


@pytest.mark.parametrize("rubbish", [False, True])
def test_ten_thousand_live_tensors_stay_differentiable(rubbish):
    x = leaf(2.0)
    alive = []
    for k in range(10_000):
        alive.append(x * float(k))
        if rubbish:
            x * x * x * x * x
    total = leaf(0.0) * 1.0
    for y in alive:
        total = total + y
    g = tg.autograd.grad(total, [x, alive[0], alive[-1]], retain_graph=True)
    assert [t.item() for t in g] == [sum(range(10_000)), 1.0, 1.0]
    for k in (0, 1, 4_999, 9_999):
        assert tg.autograd.grad(alive[k], x, retain_graph=True)[0].item() == k


def test_ten_thousand_live_arrays_stay_differentiable():
    v = leaf([1.0, 2.0])
    alive = []
    for k in range(10_000):
        alive.append(v * float(k))
        np.exp(v) * v
    for k in (0, 1, 4_999, 9_999):
        (g,) = tg.autograd.grad(alive[k].sum(), v)
        assert g.tolist() == [float(k)] * 2


def test_many_operands_survive_moves():
    x = leaf([1.0, 2.0])
    kept = [tg.stack([x * float(k + j) for j in range(11)]) for k in range(50)]
    moved(kept[0], kept[-1])
    for k, y in enumerate(kept):
        (g,) = tg.autograd.grad(y.sum(), x)
        assert g.tolist() == [11.0 * k + 55.0] * 2


def test_saved_arrays_of_dropped_losses_are_let_go():
    x = leaf(np.ones(1000))
    saved = np.full(1000, 2.0)
    gone = weakref.ref(saved)
    x * saved
    del saved
    for _ in range(5_000):
        np.sum(x * x)
    assert gone() is None


def test_leaves_are_not_kept_alive_by_the_tape():
    gone = []
    for k in range(10_000):
        x = leaf(float(k))
        x * x
        if k == 0:
            gone.append(weakref.ref(x))
    assert gone[0]() is None
    assert records() < 10_000


def test_an_explicit_tape_on_top_leaves_the_anonymous_one_bounded():
    x = leaf(2.0)
    y = x * x
    with tg.Tape():
        x * 3.0
    assert drop_losses(x, 20_000) < 10_000
    y.backward()
    assert x.grad.item() == 4.0


def random_program(seed, steps=3_000, alive=12):
    """Values and gradients of a program that keeps a few results, drops others and now and then sweeps."""
    rng = np.random.default_rng(seed)
    x, v = leaf(0.7), leaf([0.3, -0.2, 0.5])
    scalars, arrays, found = [x * 1.0], [v * 1.0], []
    for step in range(steps):
        kind = rng.integers(11)
        s, t = (scalars[rng.integers(len(scalars))] for _ in range(2))
        a, b = (arrays[rng.integers(len(arrays))] for _ in range(2))
        if kind == 0:
            scalars.append(np.tanh(s * t + 0.5))
        elif kind == 1:
            scalars.append(np.where(s > t, s, t * 0.5) - x * 0.1)
        elif kind == 2:
            scalars.append(np.tanh(a @ b))
        elif kind == 3:
            scalars.append(np.tanh(tg.logsumexp(a) + b[int(rng.integers(3))]))
        elif kind == 4:
            arrays.append(np.sin(a * s + b))
        elif kind == 5:
            arrays.append(np.tanh(tg.stack([a, b, v, a * s, b], axis=1).sum(axis=1)))
        elif kind == 6:
            arrays.append(tg.concatenate([a[:1], b[1:2], tg.stack([s])]))
        elif kind == 7:
            copy = a * 1.0
            copy[int(rng.integers(3))] = s
            arrays.append(copy)
        elif kind == 8:
            scalars.append(s.clone() * np.linalg.norm(a) * 0.1)
        elif kind == 9 and step % 7 == 0:
            loss = s * t + (a * b).sum()
            retain = bool(rng.integers(2))
            g = tg.autograd.grad(loss, [x, v], retain_graph=True, allow_unused=True)
            found.append([loss.item(), *(None if d is None else d.tolist() for d in g)])
            if not retain:
                # What this clears must not be used again.
                y = np.exp(x) * np.sum(v * v)
                found.append([d.tolist() for d in tg.autograd.grad(y, [x, v])])
        elif kind == 10:
            for kept in (scalars, arrays):
                while len(kept) > alive or len(kept) > 1 and rng.integers(3):
                    del kept[rng.integers(len(kept))]
        for kept, source in ((scalars, x), (arrays, v)):
            if step % 500 == 499:  # begin anew: the oldest history goes
                kept[:] = [source * 1.0, *(k.detach() * source for k in kept[:2])]
    return found


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_are_the_same_with_and_without_reclaiming(seed, monkeypatch):
    from tapegrad.tape import store

    with tg.Tape():
        want = random_program(seed)
    monkeypatch.setattr(store, "FIRST_CAPACITY", 256)
    state = thread_state()
    state.store = state.anonymous = TapeStore(state)
    assert random_program(seed) == want
    assert len(want) > 20


class _Late:
    """Takes memory when it ends, where it gets what was given back last."""

    def __init__(self, taken):
        self.taken = taken

    def __del__(self):
        self.taken.extend(bytes(size - bytes.__basicsize__) for size in (TapeStore.__basicsize__, 8 * len(WORDS)) for _ in range(200))


def test_a_store_in_a_circle_has_its_words_as_long_as_tensors_are_linked_in_them():
    taken, stores = [], []

    def circle():
        with tg.Tape():
            y = leaf(1.0) * 2.0
            stores.append(weakref.ref(y._t))
            held = []
            # (What is in an array is hidden from the collector, and ends while that takes the circle apart: after the store, before the tensors.)
            held += [held, [y * float(k) for k in range(8)], np.array([_Late(taken)], object)]

    gc.disable()
    try:
        for _ in range(50):
            circle()
        gc.collect()
    finally:
        gc.enable()
    assert taken and not any(store() for store in stores) and not any(map(any, taken))


def test_what_a_finalizer_saves_from_a_circle_goes_on():
    saved = []

    class Saves:
        def __init__(self, tensor):
            self.tensor = tensor

        def __del__(self):
            saved.append(self.tensor * 3.0)
            saved.append(self.tensor)

    def circle():
        with tg.Tape():
            y = leaf(1.5) * 2.0
            saves = Saves(y)
            y.register_hook(lambda g: saves and None)

    circle()
    gc.collect()
    product, y = saved
    assert (product.item(), y.item()) == (9.0, 3.0)
    assert (y * product).item() == 27.0
    seen = []
    y.register_hook(seen.append)
    (y * product).backward()
    assert [g.item() for g in seen] == [18.0]

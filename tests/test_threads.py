"""Threads: each has a tape of its own, leaves are shared, results are those of one thread."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tapegrad as tg
from tests.rules.checker import leaf

THREADS = 8


def at_once(work, count=THREADS):
    """Run ``work(k)`` in as many threads as there are k, starting together."""
    barrier = threading.Barrier(count)

    def run(k):
        barrier.wait()
        return work(k)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def model(w, b, x, k):
    h = np.tanh(x @ w + b)
    for i in range(5):
        h = h * float(i + k) + np.sin(h)
    return (h * h).mean() + tg.logsumexp(h[0]) + w[0, k % 3] * b[1]


W = np.random.default_rng(0).normal(size=(3, 3))
B = np.linspace(-1.0, 1.0, 3)
X = np.random.default_rng(1).normal(size=(5, 3))


@pytest.mark.parametrize("how", ["anonymous", "explicit"])
def test_shared_leaves_same_results_as_serial(how):
    w, b = leaf(W), leaf(B)

    def work(k):
        found = []
        for turn in range(30):
            if how == "explicit":
                with tg.Tape() as tape:
                    loss = model(w, b, X, k + turn)
                assert len(tape) > 10
            else:
                loss = model(w, b, X, k + turn)
            found.append([loss.item(), *(g.tolist() for g in tg.autograd.grad(loss, [w, b]))])
        return found

    serial = [work(k) for k in range(THREADS)]
    assert at_once(work) == serial
    assert w.grad is None and b.grad is None


def test_scalar_loops_same_results_as_serial():
    x, y = leaf(0.3), leaf(0.6)

    def work(k):
        a = x
        for i in range(20_000):
            a = a * 0.5 + y / float(i + k + 1)
        return [a.item(), *(g.item() for g in tg.autograd.grad(a, [x, y]))]

    serial = [work(k) for k in range(4)]
    assert at_once(work, 4) == serial


def test_accumulation_into_shared_leaves_loses_nothing():
    x, v = leaf(2.0), leaf(np.ones(2_000))

    def work(k):
        for _ in range(200):
            (x * 3.0).backward()
            (v * 2.0).sum().backward()

    at_once(work)
    assert x.grad.item() == 3.0 * 200 * THREADS
    assert (v.grad.numpy() == 2.0 * 200 * THREADS).all()


def test_first_use_by_many_threads_at_once():
    """Signatures that no thread has met are planned and compiled while others do the same."""
    v = leaf(np.linspace(0.1, 0.9, 7))

    def work(k):
        y = v
        for n in range(2, 6):
            y = np.concatenate([y, np.sqrt(y[:n])])
        return tg.autograd.grad((np.arctan(y) * np.arange(float(len(y.tolist())))).sum(), v)[0].tolist()

    found = at_once(work)
    assert all(g == found[0] for g in found)


def test_modes_and_dropped_losses_of_one_thread_do_not_touch_another():
    x = leaf(1.5)

    def work(k):
        if k % 2:
            with tg.no_grad():
                return [(x * float(i)).requires_grad for i in range(2_000)].count(True)
        kept = x * x
        for i in range(20_000):
            x * float(i)
        (g,) = tg.autograd.grad(kept, x)
        return g.item()

    assert at_once(work) == [3.0, 0] * (THREADS // 2)


def test_a_thread_that_ends_leaves_its_results_readable():
    x = leaf(2.0)
    (y,) = at_once(lambda k: x * x, 1)
    assert y.item() == 4.0 and y.requires_grad
    assert repr(y) == "tensor(4., grad_fn=<MulBackward0>)"
    with pytest.raises(RuntimeError, match="thread"):
        y.backward()
    with pytest.raises(RuntimeError, match="thread"):
        y + x
    (x * y.detach()).backward()
    assert x.grad.item() == 4.0

"""What a backward pass clears: its root's ancestors, and nothing else."""

import weakref

import numpy as np
import pytest

import tapegrad as tg
from tests.rules.checker import leaf

SECOND = "^Trying to backward through the graph a second time"


def test_an_independent_loss_survives_with_its_saved_values():
    x = leaf(np.ones(1000))
    with tg.Tape() as tape:
        first, second = np.exp(x).sum(), np.sin(np.exp(x * 2.0)).sum()
        assert tape.memory()["saved"] == 2 * 8000  # the results of exp; the second is also the operand of sin
        before = tape.memory()["saved"]
        first.backward()
        assert tape.memory()["saved"] == before - 8000
        assert len(tape) == 6
        x.grad = None
        second.backward()
        assert np.allclose(x.grad.numpy(), 2 * np.exp(2.0) * np.cos(np.exp(2.0)), rtol=1e-13)
        assert tape.memory()["saved"] == 0


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_losses_are_swept_and_dropped_in_any_order(order):
    x, v = leaf(2.0), leaf([1.0, 2.0])
    losses = [(v * x).sum() * float(k) for k in range(3)]
    for k in order:
        x.grad = v.grad = None
        losses[k].backward()
        assert (x.grad.item(), v.grad.tolist()) == (3.0 * k, [2.0 * k] * 2)
        losses[k] = None


def test_a_shared_trunk_raises_and_names_the_line_that_cleared_it():
    x = leaf([1.0, 2.0])
    trunk = np.exp(x)
    first, second = trunk.sum(), (trunk * 2.0).sum()
    first.backward()
    for again in (first, second, trunk.sum()):
        with pytest.raises(RuntimeError, match=SECOND) as caught:
            again.backward()
        assert "test_clear.py" in str(caught.value)


def test_a_trunk_without_saved_values_raises_too():
    x = leaf([1.0, 2.0])
    z = (x + 2.0).sum()
    z.backward()
    with pytest.raises(RuntimeError, match=SECOND):
        z.backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_retain_graph_keeps_the_trunk():
    x = leaf([1.0, 2.0])
    trunk = np.exp(x)
    first, second = trunk.sum(), (trunk * 2.0).sum()
    first.backward(retain_graph=True)
    second.backward()
    assert np.allclose(x.grad.numpy(), 3.0 * np.exp([1.0, 2.0]), rtol=1e-14)
    with pytest.raises(RuntimeError, match=SECOND):
        first.backward()


def test_a_retained_pass_can_be_repeated_and_gives_the_same_bits():
    x = leaf(np.linspace(0.1, 1.0, 50))
    loss = (np.tanh(x) @ np.exp(x)) * x[3]
    found = [tg.autograd.grad(loss, x, retain_graph=True)[0].tolist() for _ in range(3)]
    assert found[0] == found[1] == found[2]


def test_detach_is_a_way_out():
    x = leaf(2.0)
    state = x * 1.0
    for _ in range(5):
        state = (state * x).detach() * x
        state.backward()
    assert np.isfinite(x.grad.item())


def test_grad_clears_as_backward_does():
    x = leaf(2.0)
    y = x * x
    tg.autograd.grad(y, x)
    with pytest.raises(RuntimeError, match=SECOND):
        y.backward()


def test_values_and_names_of_cleared_tensors_stay():
    x = leaf([1.0, 2.0])
    y = np.exp(x)
    z = y.sum()
    other = (x * x).sum()  # keeps the tape in use
    z.backward()
    assert y.tolist() == np.exp([1.0, 2.0]).tolist()
    assert y.grad_fn.name() == "ExpBackward0" and z.grad_fn.name() == "SumBackward0"
    other.backward()
    assert y.grad_fn.name() == "ExpBackward0"
    assert f"{z:.3f}" == f"{np.exp([1.0, 2.0]).sum():.3f}"


def test_saved_arrays_go_with_the_clearing_even_if_the_tensors_stay():
    # (Smaller constants are copied.)
    x = leaf(np.ones(1000))
    c = np.full(1000, 2.0)
    gone = weakref.ref(c)
    y = x * c
    other = (x * x).sum()
    del c
    assert gone() is not None
    y.sum().backward()
    assert gone() is None
    assert y.requires_grad and other.requires_grad


def test_a_failed_backward_clears_nothing():
    x = leaf([1.0, 2.0])
    y = x * x
    with pytest.raises(RuntimeError, match="scalar outputs"):
        y.backward()
    with pytest.raises(RuntimeError, match="shape"):
        y.backward(np.ones(3))
    y.backward(np.ones(2))
    assert x.grad.tolist() == [2.0, 4.0]


def test_a_batch_of_seeds_gives_a_batch_of_gradients():
    x, w = tg.tensor([1.0, 2.0, 3.0], requires_grad=True), tg.tensor(0.5, requires_grad=True)
    unused = tg.tensor(1.0, requires_grad=True)
    y = np.sin(x * w)
    of_x, of_w, nothing = tg.autograd.grad(y, [x, w, unused], np.eye(3), create_graph=True, allow_unused=True, is_grads_batched=True)
    np.testing.assert_allclose(of_x.detach().numpy(), tg.jacobian(lambda x: np.sin(x * 0.5))(np.array([1.0, 2.0, 3.0])))
    np.testing.assert_allclose(of_w.detach().numpy(), np.array([1.0, 2.0, 3.0]) * np.cos([0.5, 1.0, 1.5]))
    assert nothing is None
    np.testing.assert_allclose(tg.autograd.grad(of_w.sum(), w, retain_graph=True)[0].numpy(), -np.sum(np.array([1.0, 4.0, 9.0]) * np.sin([0.5, 1.0, 1.5])))
    seeds = [np.ones((2, 3)), np.array([1.0, 0.0])]
    (of_both,) = tg.autograd.grad([y, y.sum()], x, seeds, is_grads_batched=True)
    np.testing.assert_allclose(of_both.numpy(), 0.5 * np.outer([2.0, 1.0], np.cos([0.5, 1.0, 1.5])))
    with pytest.raises(tg.errors.ClearedTapeError):
        tg.autograd.grad(y, x, np.ones(3))


@pytest.mark.parametrize("seeds", [None, 1.0, np.zeros((0, 3)), [np.eye(3)[:2], np.eye(3)]])
def test_a_batch_of_seeds_needs_one_leading_axis(seeds):
    x = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with pytest.raises(tg.errors.SeedShapeError, match="leading axis"):
        tg.autograd.grad([x * 1.0, x * 2.0] if isinstance(seeds, list) else x * 1.0, x, seeds, is_grads_batched=True)

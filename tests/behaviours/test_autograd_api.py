"""The define-by-run interface around the tape: modes, gradients, hooks, life and death."""

import gc
import os
import re
import sys
import threading
import weakref

import numpy as np
import pytest

import tapegrad as tg
from tests.rules.checker import leaf
from tests.threads import in_a_thread, in_threads

SECOND_TIME = "^Trying to backward through the graph a second time"


def records():
    """Whether an operation is recorded here and now."""
    return (leaf(1.0) * 2).requires_grad


def next_line():
    return sys._getframe(1).f_lineno + 1


# ---------------------------------------------------------------- modes


def test_modes_as_context_managers_nested():
    assert records()
    with tg.no_grad():
        with tg.enable_grad():
            assert records()
            with tg.set_grad_enabled(False):
                assert not records()
                with tg.set_grad_enabled(True):
                    assert records()
                assert not records()
            assert records()
        assert not records()
    assert records()


def test_modes_as_decorators():
    @tg.no_grad()
    def without(a, b=1):
        """Doc."""
        return records(), a, b

    @tg.enable_grad()
    def within():
        return records()

    @tg.set_grad_enabled(False)
    def also_without():
        return records()

    assert without(5, b=6) == (False, 5, 6)
    assert (without.__name__, without.__doc__) == ("without", "Doc.")
    with tg.no_grad():
        assert within()
        assert not records()
    assert not also_without()
    assert records()


def test_no_grad_as_decorator_without_parentheses():
    @tg.no_grad
    def without():
        return records()

    assert not without()
    assert records()


def test_decorated_function_may_call_itself_and_raise():
    @tg.no_grad()
    def down(n):
        assert not records()
        return down(n - 1) if n else 1 / 0

    with pytest.raises(ZeroDivisionError):
        down(3)
    assert records()


def test_set_grad_enabled_acts_at_once_as_a_function():
    try:
        tg.set_grad_enabled(False)
        assert not records()
    finally:
        tg.set_grad_enabled(True)
    assert records()


def test_mode_belongs_to_its_thread():
    with tg.no_grad():
        assert in_a_thread(records) is True
        assert not records()


def test_detach_shares_the_value_and_cuts_the_gradient():
    x = leaf(3.0)
    y = x * x
    (y * y.detach()).backward()
    assert x.grad.item() == 6.0 * 9.0


# ---------------------------------------------------------------- autograd.grad


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: [x], lambda x: (x,)])
def test_grad_takes_one_input_or_a_list_or_a_tuple(wrap):
    x = leaf([1.0, 2.0])
    grads = tg.autograd.grad((x * x).sum(), wrap(x))
    assert isinstance(grads, tuple) and len(grads) == 1
    assert grads[0].tolist() == [2.0, 4.0]
    assert grads[0].requires_grad is False


def test_grad_positional_seed_and_retain_graph():
    x = leaf([1.0, 2.0])
    y = x * x
    for _ in range(2):
        (grad,) = tg.autograd.grad(y, x, tg.tensor([1.0, 10.0]), True)
        assert grad.tolist() == [2.0, 40.0]
    assert x.grad is None


def test_grad_of_several_outputs_is_their_sum():
    x = leaf(3.0)
    (grad,) = tg.autograd.grad([x * x, x * 5], [x], [tg.tensor(2.0), None])
    assert grad.item() == 2 * 6 + 5


def test_grad_of_an_interior_tensor_and_of_the_output_itself():
    x = leaf(3.0)
    y = x * x
    z = y * 5
    assert [g.item() for g in tg.autograd.grad(z, [z, y, x])] == [1.0, 5.0, 30.0]


def test_grad_of_an_unused_input_raises_and_names_its_position():
    x, unused = leaf(2.0), leaf(1.0)
    with pytest.raises(RuntimeError, match=r"(?s)\b1\b.*allow_unused=True") as caught:
        tg.autograd.grad(x * 2, [x, unused])
    assert "not have been used" in str(caught.value)


def test_grad_of_an_unused_input_is_None_if_allowed():
    x, unused = leaf(2.0), leaf(1.0)
    grads = tg.autograd.grad(x * 2, [unused, x, unused], allow_unused=True)
    assert grads[0] is grads[2] is None
    assert grads[1].item() == 2.0


# ---------------------------------------------------------------- autograd.backward


@pytest.mark.parametrize("wrap", [list, tuple])
def test_backward_of_several_tensors(wrap):
    x = leaf([1.0, 2.0])
    tensors = wrap([(x * x).sum(), x * 3])
    tg.autograd.backward(tensors, wrap([None, tg.tensor([1.0, 10.0])]))
    assert x.grad.tolist() == [2.0 + 3.0, 4.0 + 30.0]


def test_backward_positional_retain_graph():
    x = leaf(2.0)
    y = x * x
    tg.autograd.backward(y, None, True)
    y.backward(None, True)
    y.backward(tg.tensor(1.0))
    assert x.grad.item() == 12.0


def test_backward_with_inputs_fills_only_those():
    x, y = leaf(2.0), leaf(3.0)
    (x * y).backward(inputs=[x])
    assert x.grad.item() == 3.0
    assert y.grad is None


# ---------------------------------------------------------------- accumulation


def test_grad_is_a_tensor_of_the_leafs_shape_and_dtype():
    x = tg.tensor(np.ones((2, 3), dtype=np.float32), requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad.shape == (2, 3)
    assert x.grad.numpy().dtype == np.float32
    assert x.grad.is_leaf and not x.grad.requires_grad


@pytest.mark.parametrize("forget", [
    lambda x: x.grad.zero_(), lambda x: setattr(x, "grad", None), lambda x: x.zero_grad(),
])  # fmt: skip
def test_three_ways_to_start_anew(forget):
    x = leaf([1.0, 2.0])
    (x * x).sum().backward()
    forget(x)
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_backward_adds_to_a_grad_that_was_assigned():
    x = leaf([1.0, 2.0])
    x.grad = tg.tensor([10.0, 20.0])
    (x * x).sum().backward()
    assert x.grad.tolist() == [12.0, 24.0]


def test_a_gradient_kept_aside_does_not_share_memory_with_another_leafs():
    x, y = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    (x + y).sum().backward()
    x.grad.zero_()
    assert y.grad.tolist() == [1.0, 1.0]


# ---------------------------------------------------------------- tensor hooks


def test_hooks_run_in_the_order_of_registration_each_on_the_others_result():
    x = leaf(3.0)
    seen = []
    for factor in (10, 100, None):
        def hook(grad, factor=factor):
            seen.append(grad.item())
            return None if factor is None else grad * factor

        x.register_hook(hook)
    (x * 2).backward()
    assert seen == [2.0, 20.0, 2000.0]
    assert x.grad.item() == 2000.0


def test_a_hook_outlives_the_interior_tensor_object():
    x = leaf(3.0)
    y = x * x
    seen = []
    y.register_hook(lambda grad: seen.append(grad.item()))
    z = y * 2
    del y
    z.backward()
    assert seen == [2.0]


def test_a_removed_hook_does_not_run():
    x = leaf(3.0)
    first = x.register_hook(lambda grad: grad * 10)
    x.register_hook(lambda grad: grad + 1)
    first.remove()
    first.remove()
    (x * 2).backward()
    assert x.grad.item() == 3.0


def test_retain_grad_stores_what_the_hooks_return():
    x = leaf(3.0)
    y = x * x
    y.retain_grad()
    y.register_hook(lambda grad: grad * 10)
    (y * 2).backward()
    assert y.grad.item() == 20.0


def test_an_interior_hook_runs_under_autograd_grad():
    x = leaf(3.0)
    y = x * x
    y.register_hook(lambda grad: grad * 10)
    assert tg.autograd.grad(y * 2, x)[0].item() == 120.0


def test_a_hook_needs_a_tensor_that_requires_grad():
    with pytest.raises(RuntimeError, match="gradient"):
        tg.tensor(1.0).register_hook(print)


@pytest.mark.parametrize("bad", [0, 1])
def test_a_hook_that_raises_leaves_every_grad_as_it_was(bad):
    leaves = [leaf(2.0), leaf(3.0)]
    leaves[0].grad = before = tg.tensor(7.0)

    def fail(grad):
        raise ValueError("from the hook")

    leaves[bad].register_hook(fail)
    loss = leaves[0].exp() * 2 + leaves[1].sin() * leaves[1]
    with pytest.raises(ValueError, match="from the hook"):
        loss.backward()
    assert leaves[0].grad is before and before.item() == 7.0
    assert leaves[1].grad is None


# ---------------------------------------------------------------- nodes


def test_node_hook_replaces_the_gradients_of_the_inputs():
    x, y = leaf(2.0), leaf(3.0)
    z = x * y
    seen = []

    def hook(grad_inputs, grad_outputs):
        seen.extend(g.item() for g in (*grad_inputs, *grad_outputs))
        return grad_inputs[0] * 10, grad_inputs[1] * 100

    handle = z.grad_fn.register_hook(hook)
    z.backward(retain_graph=True)
    assert seen == [3.0, 2.0, 1.0]
    assert (x.grad.item(), y.grad.item()) == (30.0, 200.0)
    handle.remove()
    x.grad = y.grad = None
    z.backward()
    assert (x.grad.item(), y.grad.item()) == (3.0, 2.0)


def test_node_prehook_replaces_the_gradients_of_the_outputs():
    x = leaf([1.0, 2.0])
    y = x * 3
    seen = []

    def prehook(grad_outputs):
        seen.append([g.tolist() for g in grad_outputs])
        return (grad_outputs[0] * 2,)

    handle = y.grad_fn.register_prehook(prehook)
    y.sum().backward(retain_graph=True)
    assert seen == [[[1.0, 1.0]]]
    assert x.grad.tolist() == [6.0, 6.0]
    handle.remove()
    y.sum().backward()
    assert x.grad.tolist() == [9.0, 9.0]


def test_a_node_reached_through_next_functions_is_the_same_node():
    x = leaf(2.0)
    y = x.exp()
    z = y * 3
    seen = []
    z.grad_fn.next_functions[0][0].register_hook(lambda *grads: seen.append(1))
    assert z.grad_fn.next_functions[0][0] == y.grad_fn
    z.backward()
    assert seen == [1]


def test_grad_fn_has_a_name_and_is_callable():
    x, y = leaf(2.0), leaf(3.0)
    z = x * y
    assert z.grad_fn.name() == "MulBackward0"
    assert [g.item() for g in z.grad_fn(tg.tensor(10.0))] == [30.0, 20.0]
    assert x.exp().grad_fn(tg.tensor(1.0)).item() == pytest.approx(np.exp(2.0), rel=1e-12)
    assert x.grad is None


# ---------------------------------------------------------------- changes in place


def assert_names(error, *words):
    text = str(error.value)
    for word in (os.path.basename(__file__), *words):
        assert re.search(rf"(?<!\w){re.escape(str(word))}(?!\w)", text), f"{word} not in: {text}"


def test_leaf_changed_between_use_and_backward():
    weight = leaf([1.0, 2.0])
    needed = next_line()
    loss = (weight**2).sum()
    with tg.no_grad():
        changed = next_line()
        weight += 1.0
    with pytest.raises(RuntimeError) as error:
        loss.backward()
    assert_names(error, "weight", needed, changed)
    assert weight.grad is None


def test_constant_changed_after_use_keeps_its_content():
    for size, constant in ((2, tg.tensor), (10_000, tg.tensor), (2, np.array)):
        weight, table = tg.ones(size, requires_grad=True), constant(np.arange(3.0, 3.0 + size))
        loss = (weight * table).sum()
        table[0] = 99.0
        loss.backward()
        assert weight.grad.tolist() == np.arange(3.0, 3.0 + size).tolist()


def test_large_plain_array_changed_after_use():
    size = 10_000
    weight, samples = tg.ones(size, requires_grad=True), np.arange(float(size))
    needed = next_line()
    loss = (weight * samples).sum()
    samples[size // 2] = -1.0
    with pytest.raises(RuntimeError) as error:
        loss.backward()
    assert_names(error, "samples", needed)


def test_changing_what_no_derivative_needs_is_allowed():
    weight, shift = leaf([1.0, 2.0]), tg.tensor([3.0, 4.0])
    loss = (weight + shift).sum()
    shift[0] = 99.0
    with tg.no_grad():
        weight += 1.0
    loss.backward()
    assert weight.grad.tolist() == [1.0, 1.0]


def test_after_a_change_a_new_forward_pass_is_right():
    weight, table = leaf([1.0, 2.0]), tg.tensor([3.0, 4.0])
    (weight * weight * table).sum()
    with tg.no_grad():
        weight += 1.0
    table[0] = 10.0
    (weight * weight * table).sum().backward()
    assert weight.grad.tolist() == [2 * 2.0 * 10.0, 2 * 3.0 * 4.0]


# ---------------------------------------------------------------- retain and clear


def test_an_independent_loss_survives():
    x = leaf([1.0, 2.0])
    first, second = (x**2).sum(), (x**3).sum()
    first.backward()
    assert x.grad.tolist() == [2.0, 4.0]
    second.backward()
    assert x.grad.tolist() == [2.0 + 3.0, 4.0 + 12.0]


def test_a_shared_trunk_that_was_cleared_raises():
    x = leaf([1.0, 2.0])
    trunk = x.exp()
    first, second = trunk.sum(), (trunk * 2).sum()
    first.backward()
    grad = x.grad.tolist()
    with pytest.raises(RuntimeError, match=SECOND_TIME):
        second.backward()
    assert x.grad.tolist() == grad


def test_a_new_use_of_a_cleared_trunk_raises():
    x = leaf([1.0, 2.0])
    trunk = x.exp()
    trunk.sum().backward()
    with pytest.raises(RuntimeError, match=SECOND_TIME):
        (trunk * 3).sum().backward()


def test_losses_dropped_out_of_order():
    x = leaf(2.0)
    losses = [(x * float(k)) * x for k in range(6)]
    for k in (4, 1, 3):
        losses[k] = None
        gc.collect()
    for k in (5, 0, 2):
        x.grad = None
        losses[k].backward()
        assert x.grad.item() == 4.0 * k
        losses[k] = None


def test_a_deep_chain_is_swept_and_dropped_without_recursion():
    x = leaf(1.0)
    y = x
    for _ in range(200_000):
        y = y + x
    y.backward(retain_graph=True)
    assert x.grad.item() == 200_001.0
    del y


def test_a_deep_chain_never_swept_is_dropped_without_recursion():
    x = leaf(1.0)
    y = x
    for _ in range(200_000):
        y = y * x
    alive = weakref.ref(y)
    del y
    gc.collect()
    assert alive() is None
    (x * 3).backward()
    assert x.grad.item() == 3.0


# ---------------------------------------------------------------- threads


def test_an_interior_tensor_of_another_threads_tape_raises():
    x = leaf(2.0)
    y = in_a_thread(lambda: x * 2)
    assert y.item() == 4.0
    with pytest.raises(RuntimeError, match="thread"):
        (y * 3).backward()
    assert x.grad is None


def test_leaves_are_shared_by_threads():
    x = leaf([1.0, 2.0])
    rounds, workers = 50, 4
    barrier = threading.Barrier(workers)
    failures = []

    def work(k):
        try:
            barrier.wait()
            for _ in range(rounds):
                (grad,) = tg.autograd.grad((x * x * float(k)).sum(), x)
                assert grad.tolist() == [2.0 * k, 4.0 * k]
                (x * float(k)).sum().backward()
        except BaseException as error:
            failures.append(error)

    in_threads(work, workers)
    assert failures == []
    assert x.grad.tolist() == [float(rounds * sum(range(workers)))] * 2


# ---------------------------------------------------------------- garbage


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("finish", ["dropped", "backward", "retained", "grad", "hooked"])
def test_tensors_die_without_the_collector(no_collector, finish):
    x = leaf([1.0, 2.0])
    y = x * x
    z = y.exp() + x
    loss = z.sum()
    alive = [weakref.ref(t) for t in (x, y, z, loss)]
    if finish == "backward":
        loss.backward()
    elif finish == "retained":
        loss.backward(retain_graph=True)
    elif finish == "grad":
        tg.autograd.grad(loss, [x, y])
    elif finish == "hooked":
        y.retain_grad()
        z.register_hook(lambda grad: grad * 2)
        z.grad_fn.register_hook(lambda inputs, outputs: None)
        loss.backward()
    del x, y, z, loss
    assert [ref() for ref in alive] == [None] * 4


def test_tapes_die_without_the_collector(no_collector):
    x = leaf([1.0, 2.0])
    with tg.Tape() as tape:
        y = (x * x).sum()
        y.backward()
    alive = weakref.ref(tape)
    assert alive() is tape
    del tape, y
    assert alive() is None

"""`tg.autograd.Function`: the class form, against the same in PyTorch where it is installed."""

import importlib.util

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import MissingRuleError, ModifiedInPlaceError, RuleError
from tapegrad.tape.store import thread_state
from tests.rules.checker import leaf

X, Y = np.array([0.5, 1.5, -2.0]), np.array([2.0, 0.3, 1.1])
forward_mode = pytest.mark.skipif(importlib.util.find_spec("tapegrad.transforms.forward") is None, reason="no forward mode yet")


class MyExp(tg.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        result = np.exp(scale * x)
        ctx.save_for_backward(result)
        ctx.scale = scale
        return result

    @staticmethod
    def backward(ctx, g):
        (result,) = ctx.saved_tensors
        return g * ctx.scale * result, None


class Pair(tg.autograd.Function):
    @staticmethod
    def forward(x, y):
        return x * y, np.sum(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g, total):
        x, y = ctx.saved_tensors
        return (
            g * y + total if ctx.needs_input_grad[0] else None,
            g * x if ctx.needs_input_grad[1] else None,
        )


class ByJvp(tg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return np.sin(x)

    @staticmethod
    def jvp(ctx, tangent):
        return np.cos(ctx.saved_tensors[0]) * tangent


def test_derivatives():
    tg.check(lambda x: MyExp.apply(x, 2), X, reference=lambda x: np.exp(2 * x))
    tg.check(lambda x: MyExp.apply(x, 2), 0.3, reference=lambda x: np.exp(2 * x))
    tg.check(Pair.apply, X, Y, reference=lambda x, y: (x * y, np.sum(x)))
    tg.check(lambda y: Pair.apply(X, y), Y, reference=lambda y: (X * y, np.sum(X)))
    tg.check(ByJvp.apply, X, reference=np.sin)
    tg.check(MyExp.apply, X.astype("f"), 2)


@forward_mode
def test_forward_mode():
    np.testing.assert_allclose(tg.jvp(lambda x: MyExp.apply(x, 2), (X,), (Y,))[1], 2 * np.exp(2 * X) * Y, rtol=1e-12)
    np.testing.assert_allclose(tg.jvp(ByJvp.apply, (X,), (Y,))[1], np.cos(X) * Y, rtol=1e-12)


def test_names_nodes_and_retain():
    x = leaf(X)
    with tg.Tape() as tape:
        y = MyExp.apply(x, 2)
    assert repr(y.grad_fn).startswith("<MyExpBackward0") and "MyExp" in str(tape)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 4 * np.exp(2 * X))


def test_the_context_is_made_for_each_call():
    x = leaf(X)
    first, second = MyExp.apply(x, 2), MyExp.apply(x, 3)
    first.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(2 * X))
    x.grad = None
    second.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * np.exp(3 * X))


def test_needs_input_grad_and_plain_results():
    seen = []

    class Largest(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            value, marked = x.max() * y, x * 0.0
            ctx.where = int(np.argmax(x))
            ctx.save_for_backward(x, y)
            ctx.mark_non_differentiable(marked)
            return value, marked

        @staticmethod
        def backward(ctx, g, none):
            seen.append((ctx.needs_input_grad, none))
            x, y = ctx.saved_tensors
            found = np.zeros(3)
            found[ctx.where] = g * y
            return found, g * x[ctx.where]

    x = leaf(X)
    value, marked = Largest.apply(x, 2.0)
    assert not marked.requires_grad
    value.backward()
    assert seen == [((True, False), None)]
    np.testing.assert_array_equal(x.grad.numpy(), [0.0, 2.0, 0.0])


def test_only_what_is_saved_is_kept_and_a_change_of_it_is_found():
    class Twice(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x, saved):
            if saved:
                ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return 2 * g, None

    x = leaf(X)
    y = Twice.apply(x, False)
    with tg.no_grad():
        x += 1.0
    y.sum().backward()
    y = Twice.apply(x, True)
    with tg.no_grad():
        x += 1.0
    with pytest.raises(ModifiedInPlaceError):
        y.sum().backward()


def test_attributes_that_are_views_of_an_argument_are_copies():
    class Head(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.head = x[:1]
            return x[0] ** 2

        @staticmethod
        def backward(ctx, g):
            found = np.zeros(3)
            found[0] = 2 * ctx.head[0] * g
            return found

    x = leaf(X)
    y = Head.apply(x)
    with tg.no_grad():
        x += 1.0
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1.0, 0.0, 0.0])


def test_a_loop_without_backward_runs_in_bounded_memory():
    class Large(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(np.ones(1 << 14))
            return x * 2

    x = leaf(1.0)
    store = thread_state()
    for _ in range(200):
        Large.apply(x)
        assert store.store.memory()["saved"] < 5 << 20


def test_misuse():
    class Nothing(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    class Few(MyExp):
        @staticmethod
        def backward(ctx, g):
            return g

    class Dirty(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)

    x = leaf(X)
    with pytest.raises(MissingRuleError, match="neither a backward nor a jvp"):
        Nothing.apply(x).sum().backward()
    with pytest.raises(RuleError, match="Few.backward returned 1 cotangents for 2"):
        Few.apply(x, 2).sum().backward()
    with pytest.raises(RuleError, match="mark_dirty"):
        Dirty.apply(x)
    assert x.grad is None
    with pytest.raises(MissingRuleError, match="forward"):
        tg.autograd.Function.apply(x)


def test_the_same_class_in_pytorch():
    torch = pytest.importorskip("torch")

    def cubed(base):
        class Cubed(base):
            @staticmethod
            def forward(ctx, x, factor):
                ctx.save_for_backward(x)
                ctx.factor = factor
                return factor * x**3

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return ctx.factor * 3 * x**2 * g, None

        return Cubed

    ours, theirs = leaf(X), torch.tensor(X, requires_grad=True)
    cubed(tg.autograd.Function).apply(ours, 2.0).sum().backward()
    cubed(torch.autograd.Function).apply(theirs, 2.0).sum().backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-14)


def test_a_method_of_tensors_on_the_arrays_that_it_is_given_is_named():
    class Rectified(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(min=0) if ctx.needs_input_grad[0] else np.maximum(x, 0.0)

        @staticmethod
        def backward(ctx, g):
            return g.clone()

    x = tg.tensor([1.0, -2.0], requires_grad=True)
    with pytest.raises(AttributeError) as raised:
        Rectified.apply(x)
    assert any("x = tg.as_tensor(x) first for x.clamp" in note for note in raised.value.__notes__)
    assert any("raised in Rectified.forward" in note for note in raised.value.__notes__)

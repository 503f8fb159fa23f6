"""S4: the R torch tutorial, with Python's names."""

import re

import numpy as np
import pytest

import tapegrad as tg


def name(node):
    return re.fullmatch(r"<(\w+) object at 0x[0-9a-fA-F]+>", str(node)).group(1)


def chain():
    x1 = tg.ones(2, 2, requires_grad=True)
    x2 = tg.tensor([1.1], requires_grad=True)
    y = x1 * (x2 + 2)
    z = y.pow(2) * 3
    return x1, x2, y, z, z.mean()


def test_S4_1_mean():
    x = tg.ones(2, 2, requires_grad=True)
    y = x.mean()
    assert name(y.grad_fn) == "MeanBackward0"
    y.backward()
    assert x.grad.tolist() == [[0.25, 0.25], [0.25, 0.25]]


def test_S4_2_walk_along_next_functions():
    *_, out = chain()
    node, names = out.grad_fn, []
    for _ in range(4):
        names.append(name(node))
        mul, node = node, node.next_functions[0][0]
    assert names == ["MeanBackward0", "MulBackward0", "PowBackward0", "MulBackward0"]
    left, right = (pair[0] for pair in mul.next_functions)
    assert (name(left), name(right)) == ("AccumulateGrad", "AddBackward0")
    assert name(right.next_functions[0][0]) == "AccumulateGrad"


def test_S4_3_retained_and_leaf_gradients():
    x1, x2, y, z, out = chain()
    z.retain_grad()
    y.retain_grad()
    out.backward()
    np.testing.assert_allclose(z.grad.numpy(), np.full((2, 2), 0.25), rtol=1e-12)
    np.testing.assert_allclose(y.grad.numpy(), np.full((2, 2), 4.65), rtol=1e-12)
    np.testing.assert_allclose(x2.grad.numpy(), [18.6], rtol=1e-12)
    np.testing.assert_allclose(x1.grad.numpy(), np.full((2, 2), 14.415), rtol=1e-12)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 1), (1, 3), (2, 3)])
def test_S4_4_gradient_has_the_shape_of_its_operand(shape):
    a = tg.ones(*shape, requires_grad=True) if shape else tg.tensor(1.0, requires_grad=True)
    # 18.6 = 4 * 4.65 of S4.3, for every kind of broadcasting
    (a * tg.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])).sum().backward()
    assert a.grad.shape == shape
    assert a.grad.sum().item() == 21.0


def fit(steps, zero):
    tg.manual_seed(1)
    x = tg.randn(20, 3)
    y = x @ tg.tensor([[1.0], [-2.0], [0.5]]) + 3.0
    w = tg.zeros(3, 1, requires_grad=True)
    b = tg.zeros(1, requires_grad=True)
    losses, grads = [], []
    for _ in range(steps):
        loss = ((x.matmul(w) + b - y) ** 2).mean()
        loss.backward()
        losses.append(loss.item())
        with tg.no_grad():
            grads.append(b.grad.item())
            w -= 0.1 * w.grad
            b -= 0.1 * b.grad
            if zero:
                w.grad.zero_()
                b.grad.zero_()
    return w, b, losses, grads


def test_S4_5_weights_learn_inside_no_grad():
    w, b, losses, _ = fit(500, zero=True)
    assert losses[-1] < 1e-6 * losses[0]
    np.testing.assert_allclose(w.detach().numpy()[:, 0], [1.0, -2.0, 0.5], atol=1e-2)
    np.testing.assert_allclose(b.detach().numpy(), [3.0], atol=1e-2)
    assert w.is_leaf and w.grad_fn is None and w.requires_grad  # the updates are not recorded


def test_S4_5_gradients_pile_up_without_zeroing():
    *_, piled = fit(2, zero=False)
    *_, fresh = fit(2, zero=True)
    assert piled[0] == fresh[0]
    np.testing.assert_allclose(piled[1], fresh[0] + fresh[1], rtol=1e-12)


def test_S4_6_whole_net_without_naming_intermediates():
    tg.manual_seed(2)
    x, y = tg.randn(10, 4), tg.randn(10, 1)
    w1, b1 = tg.randn(4, 8, requires_grad=True), tg.zeros(1, 8, requires_grad=True)
    w2, b2 = tg.randn(8, 1, requires_grad=True), tg.zeros(1, 1, requires_grad=True)

    y_pred = x.matmul(w1).add(b1).relu().matmul(w2).add(b2)
    loss = (y_pred - y).pow(2).sum()
    loss.backward()

    X, Y, W1, W2 = (t.detach().numpy() for t in (x, y, w1, w2))
    hidden = np.maximum(X @ W1, 0)
    error = 2 * (hidden @ W2 - Y)
    back = (error @ W2.T) * (X @ W1 > 0)
    np.testing.assert_allclose(w2.grad.numpy(), hidden.T @ error, rtol=1e-10)
    np.testing.assert_allclose(b2.grad.numpy(), error.sum(0, keepdims=True), rtol=1e-10)
    np.testing.assert_allclose(w1.grad.numpy(), X.T @ back, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(b1.grad.numpy(), back.sum(0, keepdims=True), rtol=1e-10)

"""S2: the autograd notebook."""

import re

import numpy as np
import pytest

import tapegrad as tg


@pytest.fixture
def bce():
    tg.manual_seed(0)
    x, y = tg.ones(5), tg.zeros(3)
    w = tg.randn(5, 3, requires_grad=True)
    b = tg.randn(3, requires_grad=True)
    z = tg.matmul(x, w) + b
    loss = tg.nn.functional.binary_cross_entropy_with_logits(z, y)
    return x, y, w, b, z, loss


@pytest.fixture
def squares():
    inp = tg.eye(5, requires_grad=True)
    return inp, (inp + 1).pow(2).t()


def pattern(diagonal, elsewhere):
    return np.full((5, 5), elsewhere) + np.eye(5) * (diagonal - elsewhere)


def test_S2_1_grad_fn_prints_with_an_address(bce):
    *_, z, loss = bce
    assert re.fullmatch(r"<AddBackward0 object at 0x[0-9a-f]+>", f"{z.grad_fn}")
    assert re.fullmatch(
        r"<BinaryCrossEntropyWithLogitsBackward0 object at 0x[0-9a-f]+>", f"{loss.grad_fn}"
    )


def test_S2_1_value_of_the_loss(bce):
    *_, z, loss = bce
    expected = np.logaddexp(0, z.detach().numpy()).mean()  # all targets are zero
    assert loss.shape == ()
    np.testing.assert_allclose(loss.item(), expected, rtol=1e-12)


def test_S2_2_backward_fills_both_gradients(bce):
    _, _, w, b, z, loss = bce
    loss.backward()
    expected = 1 / (1 + np.exp(-z.detach().numpy())) / 3
    np.testing.assert_allclose(b.grad.numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(w.grad.numpy(), np.tile(expected, (5, 1)), rtol=1e-12)
    np.testing.assert_array_equal(w.grad.numpy(), np.tile(b.grad.numpy(), (5, 1)))


def test_S2_3_second_backward_raises(bce):
    *_, loss = bce
    loss.backward()
    with pytest.raises(RuntimeError) as caught:
        loss.backward()
    text = str(caught.value)
    assert text.startswith("Trying to backward through the graph a second time")
    assert "freed when you call .backward() or autograd.grad()" in text
    assert "retain_graph=True" in text


def test_S2_3_it_raises_even_where_nothing_was_saved():
    x = tg.ones(2, requires_grad=True)
    z = (x + 2).sum()
    tg.autograd.grad(z, x)
    with pytest.raises(RuntimeError, match="^Trying to backward through the graph a second time"):
        z.backward()
    assert x.grad is None


def test_S2_4_requires_grad_in_place_returns_self():
    x = tg.ones(5)
    assert x.requires_grad is False
    assert x.requires_grad_(True) is x
    assert x.requires_grad is True
    x.sum().backward()
    assert x.grad.tolist() == [1.0] * 5
    assert tg.ones(5).requires_grad_().requires_grad is True


def test_S2_5_true_false_false(bce, capsys):
    x, _, w, b, _, _ = bce
    z = tg.matmul(x, w) + b
    print(z.requires_grad)
    with tg.no_grad():
        z = tg.matmul(x, w) + b
    print(z.requires_grad)
    z = tg.matmul(x, w) + b
    z_det = z.detach()
    print(z_det.requires_grad)
    assert capsys.readouterr().out == "True\nFalse\nFalse\n"
    assert z.requires_grad is True


def test_S2_6_vector_jacobian_product(squares):
    inp, out = squares
    out.backward(tg.ones_like(inp), retain_graph=True)
    np.testing.assert_array_equal(inp.grad.numpy(), pattern(4.0, 2.0))


def test_S2_7_the_same_call_again_accumulates(squares):
    inp, out = squares
    out.backward(tg.ones_like(inp), retain_graph=True)
    out.backward(tg.ones_like(inp), retain_graph=True)
    np.testing.assert_array_equal(inp.grad.numpy(), pattern(8.0, 4.0))


def test_S2_8_zeroed_in_between(squares):
    inp, out = squares
    for _ in range(2):
        out.backward(tg.ones_like(inp), retain_graph=True)
    inp.grad.zero_()
    np.testing.assert_array_equal(inp.grad.numpy(), np.zeros((5, 5)))
    out.backward(tg.ones_like(inp), retain_graph=True)
    np.testing.assert_array_equal(inp.grad.numpy(), pattern(4.0, 2.0))


def test_S2_9_methods_pow_and_t():
    a = tg.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert a.pow(2).tolist() == [[1.0, 4.0, 9.0], [16.0, 25.0, 36.0]]
    assert a.t().tolist() == [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]
    row = tg.tensor([1.0, 2.0], requires_grad=True)
    assert row.t().tolist() == [1.0, 2.0]


def test_S2_9_ones_like():
    a = tg.randn(2, 3, requires_grad=True)
    ones = tg.ones_like(a)
    assert ones.tolist() == [[1.0] * 3] * 2
    assert ones.requires_grad is False


def test_S2_9_eye_and_randn_take_requires_grad():
    e = tg.eye(3, requires_grad=True)
    r = tg.randn(4, 2, requires_grad=True)
    assert e.requires_grad and e.is_leaf and e.tolist() == np.eye(3).tolist()
    assert r.requires_grad and r.is_leaf and r.shape == (4, 2)
    assert tg.eye(3).requires_grad is tg.randn(2).requires_grad is False


def test_S2_9_manual_seed_repeats_randn():
    tg.manual_seed(6)
    first = tg.randn(4, 4).tolist()
    second = tg.randn(4, 4).tolist()
    tg.manual_seed(6)
    assert tg.randn(4, 4).tolist() == first
    assert tg.randn(4, 4).tolist() == second != first

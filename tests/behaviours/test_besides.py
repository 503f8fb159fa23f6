"""What belongs to BEHAVIOURS besides the numbered lines (the documents: test_seed_documents)."""

import numpy as np
import pytest

import tapegrad as tg
from tests.every import every

UNARY = {
    "negate": np.negative, "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "sin": np.sin,
    "cos": np.cos, "tanh": np.tanh, "abs": np.abs, "square": np.square, "expm1": np.expm1,
    "sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod,
    "ravel": np.ravel, "cumsum": lambda a: np.cumsum(a, 0),
}  # fmt: skip
ARGUMENTS = {"cumsum": (0,)}
BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "maximum": np.maximum, "minimum": np.minimum, "matmul": np.matmul, "pow": np.power,
}  # fmt: skip
A = np.array([[0.5, 2.0], [1.5, 0.25]])
B = np.array([[2.0, 1.0], [0.75, 3.0]])


def check(result, expected):
    assert result.requires_grad
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-12)
    grad_seed = tg.ones_like(result)
    result.backward(grad_seed)


@every("name", UNARY)
@every("form", ["function", "method"])
def test_besides_unary_functions_and_methods(name, form):
    x = tg.tensor(A, requires_grad=True)
    arguments = ARGUMENTS.get(name, ())
    if form == "function":
        result = getattr(tg, name)(x, *arguments)
    else:
        result = getattr(x, name)(*arguments)
    check(result, UNARY[name](A))
    assert x.grad.shape == (2, 2)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("form", ["function", "method"])
def test_besides_binary_functions_and_methods(name, form):
    x, y = tg.tensor(A, requires_grad=True), tg.tensor(B, requires_grad=True)
    result = getattr(tg, name)(x, y) if form == "function" else getattr(x, name)(y)
    check(result, BINARY[name](A, B))
    assert x.grad.shape == y.grad.shape == (2, 2)


def test_besides_hook_of_a_leaf_used_twice_sees_the_sum_once():
    x = tg.tensor(3.0, requires_grad=True)
    seen = []
    x.register_hook(lambda grad: seen.append(grad.item()))
    (x * x + 5 * x).backward()
    assert seen == [11.0]


def test_besides_hook_of_a_leaf_runs_under_autograd_grad():
    x = tg.tensor(3.0, requires_grad=True)
    seen = []

    def double(grad):
        seen.append(grad.item())
        return grad * 2

    x.register_hook(double)
    (grad,) = tg.autograd.grad(x * x + 5 * x, x)
    assert seen == [11.0]
    assert grad.item() == 22.0
    assert x.grad is None


PRINTED = [
    (7.0, "tensor(7.)"),
    (-0.125, "tensor(-0.1250)"),
    (3.718281828, "tensor(3.7183)"),
    ([1.0, 2.0], "tensor([1., 2.])"),
    ([1.0, -2.5, 10.125], "tensor([ 1.0000, -2.5000, 10.1250])"),
    ([[0.25, 0.25], [0.25, 0.25]], "tensor([[0.2500, 0.2500],\n        [0.2500, 0.2500]])"),
    ([[1.0, -20.0], [300.0, 4.0]], "tensor([[  1., -20.],\n        [300.,   4.]])"),
    ([1e-5, 1.0], "tensor([1.0000e-05, 1.0000e+00])"),
    ([1.0, float("nan"), float("inf")], "tensor([1., nan, inf])"),
    (np.array([True, False]), "tensor([ True, False])"),
    (np.array([1, -2, 30]), "tensor([ 1, -2, 30])"),
    ([], "tensor([])"),
]


@pytest.mark.parametrize("data, text", PRINTED)
def test_besides_printing_as_pytorch_prints(data, text):
    assert str(tg.tensor(data)) == text
    assert repr(tg.tensor(data)) == text


def test_besides_printing_of_leaves_and_results():
    x = tg.eye(3, requires_grad=True)
    rows = "tensor([[{0}., 0., 0.],\n        [0., {0}., 0.],\n        [0., 0., {0}.]], "
    assert str(x) == rows.format(1) + "requires_grad=True)"
    assert str(x * 2) == rows.format(2) + "grad_fn=<MulBackward0>)"


def test_besides_format_of_a_scalar():
    x = tg.tensor(2.0, requires_grad=True)
    assert f"{x * x:.3f}" == "4.000"
    assert f"{tg.tensor(3.7183):8.2f}" == "    3.72"

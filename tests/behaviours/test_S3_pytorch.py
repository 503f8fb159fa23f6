"""S3: PyTorch's autograd in depth."""

import inspect
import re

import numpy as np
import pytest

import tapegrad as tg
from tests.rules.checker import leaf


def name(node):
    return re.fullmatch(r"<(\w+) object at 0x[0-9a-fA-F]+>", str(node)).group(1)


@pytest.fixture
def abc():
    A, B, E = leaf(2.0), leaf(0.5), leaf(1.0)
    C = A * B
    D = C.exp()
    F = D + E
    return A, B, C, D, E, F


def test_S3_1_attributes_of_a_leaf():
    x = tg.tensor([1.0, 2.0])
    assert x.requires_grad is False
    assert x.grad is None
    assert x.grad_fn is None
    assert x.is_leaf is True
    assert x.data.tolist() == [1.0, 2.0]


def test_S3_1_attributes_of_a_result():
    x = leaf([1.0, 2.0])
    y = x * 2
    assert y.requires_grad is True
    assert y.is_leaf is False
    assert y.grad_fn is not None
    assert y.data.tolist() == [2.0, 4.0]
    assert y.data.requires_grad is False


@pytest.mark.filterwarnings("ignore")
def test_S3_2_gradient_of_a_non_leaf_is_released():
    x = leaf(3.0)
    y = x * x
    (y * 2).backward()
    assert y.grad is None
    assert x.grad.item() == 12.0


def test_S3_2_retain_grad_keeps_it():
    x = leaf(3.0)
    y = x * x
    y.retain_grad()
    (y * 2).backward()
    assert y.grad.item() == 2.0


def test_S3_3_gradients_accumulate():
    x = leaf(3.0)
    (x * x).backward()
    assert x.grad.item() == 6.0
    (x * 5).backward()
    assert x.grad.item() == 11.0


def test_S3_4_autograd_backward_is_the_method():
    x1, x2 = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    (x1**2).sum().backward()
    tg.autograd.backward((x2**2).sum())
    assert x1.grad.tolist() == x2.grad.tolist() == [2.0, 4.0]


def test_S3_4_retain_graph_None_means_as_create_graph():
    x = leaf(2.0)
    z = x * x
    tg.autograd.backward(z, retain_graph=True)
    tg.autograd.backward(z, retain_graph=None)
    with pytest.raises(RuntimeError, match="a second time"):
        tg.autograd.backward(z)


def test_S3_4_grad_variables_is_deprecated():
    x = leaf([1.0, 2.0])
    with pytest.warns((DeprecationWarning, FutureWarning), match="grad_tensors"):
        tg.autograd.backward(x * x, grad_variables=tg.tensor([1.0, 10.0]))
    assert x.grad.tolist() == [2.0, 40.0]


@pytest.mark.parametrize("function, arguments", [
    ("backward", "tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None"),
    ("grad", "outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True"),
])  # fmt: skip
def test_S3_4_and_S3_8_names_order_and_defaults_of_the_arguments(function, arguments):
    signature = inspect.signature(getattr(tg.autograd, function))
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    assert ", ".join(map(str, plain)).startswith(arguments)
    assert function == "backward" or not signature.parameters["allow_unused"].default


def test_S3_5_scalar_backward_as_printed():
    x, y = leaf(2.0), leaf(3.0)
    z = x**2 + y
    z.backward()
    assert " ".join(str(t) for t in (z, x.grad, y.grad)) == (
        "tensor(7., grad_fn=<AddBackward0>) tensor(4.) tensor(1.)"
    )


def test_S3_6_only_scalars_get_an_implicit_seed():
    z = tg.ones(2, requires_grad=True) + 2
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        z.backward()


def test_S3_7_seed_of_ones_and_sum_give_the_same():
    x = tg.ones(2, requires_grad=True)
    z = x + 2
    z.backward(tg.ones_like(z))
    assert x.grad.tolist() == [1.0, 1.0]
    x.grad = None
    (x + 2).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_S3_8_grad_returns_a_tuple():
    x, y = leaf(2.0), leaf(3.0)
    grads = tg.autograd.grad(x * y, [x, y])
    assert isinstance(grads, tuple)
    assert [g.item() for g in grads] == [3.0, 2.0]


def test_S3_9_grad_leaves_the_attribute_alone():
    x = leaf(2.0)
    z = x**2
    grads = tg.autograd.grad(outputs=z, inputs=x)
    assert str(grads) == "(tensor(4.),)"
    assert x.grad is None


def test_S3_10_calling_the_nodes_is_backward():
    x, y = (tg.randn(4, 4, requires_grad=True) for _ in range(2))
    z = x * y
    l = z.sum()
    back_sum = l.grad_fn
    dz = back_sum(tg.tensor(1.0))
    assert dz.tolist() == np.ones((4, 4)).tolist()
    back_mul = back_sum.next_functions[0][0]
    dx, dy = back_mul(dz)
    back_mul.next_functions[0][0](dx)
    back_mul.next_functions[1][0](dy)
    assert x.grad.tolist() == y.tolist()
    assert y.grad.tolist() == x.tolist()
    x.grad = y.grad = None
    l.backward()
    assert x.grad.tolist() == y.tolist()
    assert y.grad.tolist() == x.tolist()


def test_S3_11_next_functions(abc):
    *_, E, F = abc
    pairs = F.grad_fn.next_functions
    assert isinstance(pairs, tuple) and all(isinstance(pair, tuple) for pair in pairs)
    assert [index for _, index in pairs] == [0, 0]
    assert name(pairs[0][0]).startswith("ExpBackward")
    assert name(pairs[1][0]) == "AccumulateGrad"
    assert pairs[1][0].variable is E


@pytest.mark.parametrize("constant", [3.0, tg.tensor(3.0)])
def test_S3_11_a_constant_ends_in_None(constant):
    pairs = (leaf(2.0) * constant).grad_fn.next_functions
    assert name(pairs[0][0]) == "AccumulateGrad"
    assert pairs[1] == (None, 0)


def test_S3_12_value_and_is_leaf(abc):
    A, B, C, D, E, F = abc
    assert str(F) == "tensor(3.7183, grad_fn=<AddBackward0>)"
    assert [t.is_leaf for t in (A, B, C, D, E, F)] == [True, True, False, False, True, False]


def test_S3_12_grad_fn(abc):
    A, _, C, D, _, F = abc
    assert [name(t.grad_fn)[:3] for t in (F, D, C)] == ["Add", "Exp", "Mul"]
    assert name(F.grad_fn) == "AddBackward0"
    assert name(C.grad_fn) == "MulBackward0"
    assert A.grad_fn is None


@pytest.mark.filterwarnings("ignore")
def test_S3_13_gradients(abc):
    A, B, C, D, E, F = abc
    F.backward(retain_graph=True)
    assert [str(t.grad) for t in (A, B, E)] == ["tensor(1.3591)", "tensor(5.4366)", "tensor(1.)"]
    assert C.grad is None
    assert D.grad is None


def test_S3_14_tensor_hook_replaces_the_gradient():
    w = tg.nn.Parameter(tg.tensor([[1.0, 2.0], [3.0, 4.0]]))
    events = []

    def halve(grad):
        events.append(grad.tolist())
        return grad / 2

    w.register_hook(halve)
    loss = (w - 1) ** 2
    events.append("before backward")
    loss.mean().backward()
    events.append("after backward")
    assert events == ["before backward", [[0.0, 0.5], [1.0, 1.5]], "after backward"]
    assert w.grad.tolist() == [[0.0, 0.25], [0.5, 0.75]]


def test_S3_15_operator_hook_then_parameter_hook():
    events = []
    w = tg.nn.Parameter(tg.randn(2, 2))
    w.register_hook(lambda grad: events.append("parameter hook"))

    def operator_hook(*grads):
        events.append("operator hook")

    events.append("first")
    y = w + 1
    y.grad_fn.register_hook(operator_hook)
    y.sum().backward()
    events.append("second")
    z = w + 1
    assert name(z.grad_fn) == "AddBackward0"
    z.sum().backward()
    assert events == ["first", "operator hook", "parameter hook", "second", "parameter hook"]


def test_S3_16_a_hook_that_returns_None_changes_nothing():
    x = leaf([1.0, 2.0])
    called = []
    x.register_hook(lambda grad: called.append(1))
    (x * x).sum().backward()
    assert called == [1]
    assert x.grad.tolist() == [2.0, 4.0]


def test_S3_17_nothing_is_recorded_inside_no_grad():
    w = tg.randn(3, 3, requires_grad=True)
    with tg.Tape() as tape:
        y = w @ w
        before = len(tape)
        with tg.no_grad():
            for _ in range(10):
                y = tg.tanh(y @ w)
        assert len(tape) == before
    assert y.requires_grad is False
    assert y.grad_fn is None
    assert y.is_leaf is True


def test_S3_18_a_parameter_is_a_leaf_that_requires_grad():
    p = tg.nn.Parameter(tg.tensor([1.0, 2.0]))
    assert p.requires_grad is True
    assert p.is_leaf is True
    (p * p).sum().backward()
    assert p.grad.tolist() == [2.0, 4.0]


def test_S3_18_it_prints_as_a_parameter():
    text = str(tg.nn.Parameter(tg.ones(2)))
    assert text == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"

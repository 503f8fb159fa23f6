"""S1: the computation graph of L = 1 - (w2*w1*x1 + w3*w1*x2)."""

import re
from types import SimpleNamespace

import pytest

import tapegrad as tg


def network(**extra):
    values = dict(x1=1.0, x2=2.0, w1=1.0, w2=2.0, w3=3.0, **extra)
    g = SimpleNamespace(**{k: tg.tensor(v, requires_grad=True) for k, v in values.items()})
    g.x3 = g.w1 * g.x1
    g.x4 = g.w1 * g.x2
    g.x5 = g.w2 * g.x3 + g.w3 * g.x4
    g.L = 1 - g.x5
    return g


def name(node):
    return re.fullmatch(r"<(\w+) object at 0x[0-9a-fA-F]+>", str(node)).group(1)


@pytest.mark.parametrize(
    "leaf, slope", [("w1", -8.0), ("w2", -1.0), ("w3", -2.0), ("x1", -2.0), ("x2", -3.0)]
)
def test_S1_1_gradients_of_the_document(leaf, slope):
    g = network()
    assert g.L.item() == -7.0
    g.L.backward()
    assert getattr(g, leaf).grad.item() == slope


def test_S1_2_products_of_two_paths_are_summed():
    g = network()
    g.L.backward()
    w2, w3, x1, x2 = (t.item() for t in (g.w2, g.w3, g.x1, g.x2))
    assert g.w1.grad.item() == -w2 * x1 - w3 * x2


def test_S1_3_grad_fn_of_a_sum_names_addition():
    g = network()
    assert name(g.x5.grad_fn).startswith("AddBackward")
    assert name(g.x3.grad_fn).startswith("MulBackward")


def test_S1_3_grad_fn_of_user_made_tensors_is_None():
    g = network()
    assert g.w1.grad_fn is None
    assert tg.tensor(1.0).grad_fn is None


def test_S1_4_each_tracked_operation_adds_one_instruction_at_once():
    x = tg.tensor(0.5, requires_grad=True)
    with tg.Tape() as tape:
        y = x * x
        for operation in (lambda y: y + x, tg.exp, lambda y: y * y, lambda y: y - x, tg.sin):
            before = len(tape)
            y = operation(y)
            assert len(tape) == before + 1
            assert y.grad_fn is not None


def test_S1_5_backward_destroys_the_graph_by_default():
    g = network()
    g.L.backward()
    with pytest.raises(RuntimeError, match="^Trying to backward through the graph a second time"):
        g.L.backward()


def test_S1_6_retain_variables_is_an_old_name_of_retain_graph():
    g = network()
    with pytest.warns(DeprecationWarning, match="retain_graph"):
        g.L.backward(retain_variables=True)
    g.L.backward()
    assert g.w1.grad.item() == -16.0


def test_S1_7_one_call_reaches_every_leaf():
    g = network()
    leaves = [g.x1, g.x2, g.w1, g.w2, g.w3]
    assert all(leaf.grad is None for leaf in leaves)
    g.L.backward()
    assert all(leaf.grad is not None for leaf in leaves)


def path_product(path):
    return float(path.product)


def test_S1_8_paths_give_the_documents_two_terms():
    with tg.Tape() as tape:
        g = network()
        paths = list(tape.paths(g.L, g.w1))
        # dL/dw1 = -1 * 1 * w2 * x1  +  -1 * 1 * w3 * x2
        assert sorted(path_product(p) for p in paths) == [-6.0, -2.0]


def test_S1_8_sum_over_paths_is_the_gradient():
    with tg.Tape() as tape:
        g = network(w4=5.0)
        sums = {k: sum(path_product(p) for p in tape.paths(g.L, getattr(g, k)))
                for k in ("w1", "w2", "w3", "x1", "x2", "w4")}
        g.L.backward()
    assert sums.pop("w4") == 0
    assert sums == {k: getattr(g, k).grad.item() for k in sums}

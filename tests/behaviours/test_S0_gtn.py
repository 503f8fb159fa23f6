"""S0: a graph with one arc of weight w, in GTN's words, is a tracked scalar here."""

import sys

import pytest

import tapegrad as tg

SECOND_TIME = "^Trying to backward through the graph a second time"


def gtn_example():
    g1 = tg.tensor(1.0, requires_grad=True)
    g2 = tg.tensor(2.0)
    g3 = tg.tensor(3.0, requires_grad=True)
    g4 = tg.negate(tg.subtract(tg.add(g1, g2), g3))
    return g1, g2, g3, g4


def test_S0_1_result_of_constants_alone_has_no_record():
    a, b = tg.tensor(1.0), tg.tensor(2.0)
    with tg.Tape() as tape:
        before = len(tape)
        c = tg.add(a, b)
        assert len(tape) == before
    assert c.item() == 3.0
    assert c.requires_grad is False
    assert c.grad_fn is None


@pytest.mark.parametrize("flags", [(True, False), (False, True), (True, True)])
def test_S0_1_one_tracked_input_is_enough_for_a_record(flags):
    a = tg.tensor(1.0, requires_grad=flags[0])
    b = tg.tensor(2.0, requires_grad=flags[1])
    c = tg.add(a, b)
    assert c.requires_grad is True
    assert [node is not None for node, _ in c.grad_fn.next_functions] == list(flags)


def test_S0_2_the_documents_example():
    g1, _, g3, g4 = gtn_example()
    assert g4.item() == 0.0
    g4.backward()
    assert g1.grad.item() == -1.0
    assert g3.grad.item() == 1.0


def test_S0_3_gradient_of_the_input_that_needs_none():
    _, g2, _, g4 = gtn_example()
    with pytest.raises(RuntimeError, match="does not require (a )?grad"):
        tg.autograd.grad(g4, g2)
    g4.backward()
    assert g2.grad is None


def test_S0_4_grad_before_backward_is_None():
    g1, _, g3, _ = gtn_example()
    assert g1.grad is None
    assert g3.grad is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/statm")
def test_S0_5_memory_falls_during_the_sweep():
    import resource

    size, length = 4_500_000, 10  # 36 MB each: the allocator gives such blocks back at once
    seen = {}

    def watch(step):
        def hook(grad):
            with open("/proc/self/statm") as statm:
                seen[step] = int(statm.read().split()[1]) * resource.getpagesize()

        return hook

    x = h = tg.ones(size, requires_grad=True)
    for step in range(length):
        h = h.sin()
        h.register_hook(watch(step))
    loss = h.sum()
    del h
    loss.backward()
    assert seen[length - 2] - seen[1] > (length // 2) * size * 8
    assert x.grad is not None


def test_S0_6_retained_graph_allows_backward_again():
    g1, _, g3, g4 = gtn_example()
    g4.backward(retain_graph=True)
    g4.backward()
    assert g1.grad.item() == -2.0
    assert g3.grad.item() == 2.0


@pytest.mark.filterwarnings("ignore")
def test_S0_6_interior_grads_are_not_kept():
    g1, g2, g3, _ = gtn_example()
    total = tg.add(g1, g2)
    result = tg.subtract(total, g3)
    result.backward(retain_graph=True)
    result.backward(retain_graph=True)
    assert total.grad is None
    assert result.grad is None
    assert g1.grad.item() == 2.0


def test_S0_7_second_backward_after_a_clearing_one():
    kinds = set()
    for again in (lambda y, x: y.backward(), lambda y, x: tg.autograd.grad(y, x)):
        g1, _, _, g4 = gtn_example()
        g4.backward()
        with pytest.raises(RuntimeError, match=SECOND_TIME) as caught:
            again(g4, g1)
        kinds.add(type(caught.value))
    (kind,) = kinds
    assert kind is not RuntimeError
    assert kind.__module__.startswith("tapegrad")


def test_S0_8_no_recursion_limit():
    x = tg.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(20 * sys.getrecursionlimit()):
        y = tg.negate(y)
    y.backward()
    assert x.grad.item() == 1.0


def test_S0_8_from_any_graph_with_respect_to_all_of_its_inputs():
    g1, g2, g3, _ = gtn_example()
    total = tg.add(g1, g2)
    tg.subtract(total, g3)
    total.backward()
    assert g1.grad.item() == 1.0
    assert g3.grad is None


def test_S0_9_seed_goes_through_add_to_both_inputs():
    a = tg.tensor(1.0, requires_grad=True)
    b = tg.tensor(2.0, requires_grad=True)
    tg.add(a, b).backward(tg.tensor(7.0))
    assert a.grad.item() == 7.0
    assert b.grad.item() == 7.0

"""The document's example, and its sentences about clearing."""

import weakref

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import automata
from tapegrad.automata import operations


def example():
    g1, g2, g3 = automata.Graph(True), automata.Graph(False), automata.Graph(True)
    for g, weight in ((g1, 1.0), (g2, 2.0), (g3, 3.0)):
        g.add_node(True)
        g.add_node(False, True)
        g.add_arc(0, 1, 0, 0, weight)
    return g1, g2, g3, automata.negate(automata.subtract(automata.add(g1, g2), g3))


def test_the_documents_example():
    g1, g2, g3, g4 = example()
    assert g4.item() == 0.0
    g4.backward()
    assert g1.grad().item() == -1.0
    assert g3.grad().item() == 1.0
    with pytest.raises(tg.errors.GradientError, match="calc_grad=False"):
        g2.grad()
    with pytest.raises(RuntimeError):
        g2.grad()


def test_the_flag_is_that_of_any_operand():
    a, b = automata.scalar_graph(1.0), automata.scalar_graph(2.0, calc_grad=False)
    assert automata.add(a, b).calc_grad and not automata.negate(b).calc_grad
    with pytest.raises(tg.errors.GradientError, match="calc_grad=False only"):
        automata.negate(b).backward()


def test_a_graph_is_cleared_unless_it_is_retained():
    g1, _, g3, g4 = example()
    automata.backward(g4)
    with pytest.raises(tg.errors.ClearedTapeError):
        automata.backward(g4)
    g1, _, g3, g4 = example()
    automata.backward(g4, retain_graph=True)
    automata.backward(g4)
    assert (g1.grad().item(), g3.grad().item()) == (-2.0, 2.0)
    g1.zero_grad()
    with pytest.raises(tg.errors.GradientError, match="no gradient"):
        g1.grad()


def test_the_gradient_of_a_computed_graph_is_there_if_asked_for():
    g1, g2, g3, _ = example()
    total = automata.add(g1, g2)
    result = automata.negate(automata.subtract(total, g3))
    total.weights().retain_grad()
    result.backward()
    assert total.grad().item() == -1.0
    total = automata.add(g1, g2)
    automata.negate(total).backward()
    with pytest.raises(tg.errors.GradientError, match="retain_grad"):
        total.grad()


@pytest.mark.parametrize("retain", [False, True])
def test_graphs_alive_fall_during_the_sweep(monkeypatch, retain):
    maps, alive = [], []
    gather = operations.gather

    def noted(weights, arcs):
        maps.append(weakref.ref(arcs))
        return gather(weights, arcs)

    monkeypatch.setattr(operations, "gather", noted)
    steps, labels, length = 200, 200, 8
    graph, other = automata.linear_graph(steps, labels), automata.linear_graph(steps, labels, calc_grad=False)
    topologies = []
    for _ in range(length):
        graph = automata.compose(graph, other)
        topologies.append(weakref.ref(graph.topology))
        graph.weights().register_hook(lambda g: alive.append(sum(m() is not None for m in maps)))
    score = automata.forward_score(graph)
    del graph
    # Of what lies between, the tape holds which arcs come from which; no graph.
    assert [t() is not None for t in topologies[:-1]] == [False] * (length - 1)
    score.backward(retain_graph=retain)
    assert alive == ([length] * length if retain else list(range(length, 0, -1)))
    assert sum(m() is not None for m in maps) == (length if retain else 0)


def test_backward_from_a_graph_of_several_arcs_is_that_of_the_sum_of_its_weights():
    g = automata.linear_graph(2, 2)
    automata.backward(automata.negate(g))
    np.testing.assert_array_equal(g.grad().values, [-1.0] * 4)

"""Lists of graphs, and losses of batches: on threads, with the bits of one thread; and GTN's conventions where they are asked for."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import automata
from tests.automata.random_graphs import check_scores, log_sum, paths, random_graph, weight
from tests.every import every

LOSSES = {
    "ctc": lambda scores, targets, transitions: automata.ctc_loss(scores, targets),
    "asg": automata.asg_loss,
    "crf": lambda scores, targets, transitions: automata.crf_loss(scores, [np.resize(t, len(s)) for s, t in zip(scores, targets)], transitions),
}


@pytest.fixture(autouse=True)
def _threads():
    before = tg.config.threads
    yield
    tg.config.threads = before


def batch(seed=0):
    rng = np.random.default_rng(seed)
    targets = [rng.integers(1, 5, n) for n in (3, 0, 7, 1, 4)]
    return [rng.normal(size=(n, 5)) for n in (9, 4, 15, 1, 6)], targets, rng.normal(size=(5, 5))


@pytest.mark.parametrize("name", ["ctc", "asg", "crf"])
def test_a_batch_has_the_bits_of_one_thread(name):
    scores, targets, transitions = batch()
    scores, targets = (scores[:1] + scores[2:], targets[:1] + targets[2:]) if name == "crf" else (scores, targets)
    loss, found = LOSSES[name], []
    for tg.config.threads in (1, 2, 3, 8):
        leaves = [tg.tensor(x, requires_grad=True) for x in (*scores, transitions)]
        losses = loss(leaves[:-1], targets, leaves[-1])
        losses.backward(np.linspace(1.0, 2.0, len(scores)))
        found.append(np.concatenate([np.asarray(losses.detach()), *(np.asarray(x.grad).ravel() for x in leaves if x.grad is not None)]).tobytes())
    assert len(set(found)) == 1
    single = [np.asarray(loss([s], [t], transitions))[0] for s, t in zip(scores, targets)]
    np.testing.assert_array_equal(np.asarray(losses.detach()), single)


@pytest.mark.parametrize("name", ["ctc", "asg", "crf"])
def test_derivatives_of_a_batch(name):
    scores, targets, transitions = batch()
    scores, targets = [scores[0], scores[4]], [targets[0], targets[4]]
    f = lambda a, b, t: LOSSES[name]([a, b], targets, t).sum() ** 2  # noqa: E731
    report = tg.check(f, *scores, transitions, order=2)
    assert report.passed, report
    jitted = tg.jit(tg.value_and_grad(f, argnums=(0, 1, 2)))
    for shift in (0.0, 0.5):
        value, gradients = jitted(scores[0] + shift, *scores[1:], transitions)
        expected = tg.value_and_grad(f, argnums=(0, 1, 2))(scores[0] + shift, *scores[1:], transitions)
        assert value == pytest.approx(expected[0], rel=1e-13)
        for one, two in zip(gradients, expected[1]):
            np.testing.assert_allclose(one, two, atol=1e-11)
    assert jitted.stats().records == 1


@every("seed", range(30))
def test_lists_of_graphs_are_single_graphs(seed):
    tg.config.threads = 2
    rng = np.random.default_rng(seed)
    first, second = ([random_graph(rng) for _ in range(4)] for _ in range(2))
    both = automata.compose(first, second)
    assert all(automata.equal(c, automata.compose(a, b), ordered=True) for a, b, c in zip(first, second, both))
    assert all(automata.equal(c, automata.compose(first[0], b), ordered=True) for b, c in zip(second, automata.compose(first[0], second)))
    scores = automata.forward_score(first)
    np.testing.assert_allclose([s.item() for s in scores], [log_sum([weight(g, p) for p in paths(g)]) for g in first], rtol=1e-12, atol=1e-12)
    assert [s.item() for s in automata.negate(automata.viterbi_score(first))] == [-automata.viterbi_score(g).item() for g in first]
    automata.backward(scores)
    gradients = [g.grad().values for g in first]
    for g, gradient in zip(first, gradients):
        g.zero_grad()
        check_scores(g, rng)
        g.zero_grad()
        automata.forward_score(g).backward()
        np.testing.assert_array_equal(g.grad().values, gradient)


def test_no_graphs_give_none():
    assert automata.forward_score([]) == automata.compose([], []) == automata.negate([]) == []


def test_wrong_samples_are_named():
    scores, targets, transitions = batch()
    with pytest.raises(tg.errors.GraphError, match="^2 of the batch: label 1 of the target is 9, and there are 5 labels"):
        automata.ctc_loss(scores[:3], [[1], [2], [3, 9]])
    with pytest.raises(tg.errors.ShapeError, match="^1 of the batch: emissions of shape "):
        automata.asg_loss([scores[0], scores[1][:, :4]], [[1], [2]], transitions)
    loop = automata.Graph()
    node = loop.add_node(start=True, accept=True)
    loop.add_arc(node, node, 0)
    with pytest.raises(tg.errors.GraphError, match="^1 of the batch: the graph has a cycle"):
        automata.forward_score([automata.linear_graph(1, 1), loop, automata.linear_graph(1, 1)])
    with pytest.raises(tg.errors.GraphError, match="compose: lists of 1 and 2 graphs"):
        automata.compose([loop], [loop, loop])
    with pytest.raises(tg.errors.GraphError, match="compose: argument 1 is of type float, not a graph"):
        automata.compose([loop, loop], [loop, 1.0])


# -- GTN's conventions ------------------------------------------------------------------------------


def test_arcs_in_another_order_are_equal_unless_order_counts():
    def graph(*labels):
        g = automata.Graph()
        first, last = g.add_node(start=True), g.add_node(accept=True)
        for label in labels:
            g.add_arc(first, last, label)
        return g

    assert automata.equal(graph(0, 1), graph(1, 0)) and not automata.equal(graph(0, 1), graph(1, 0), ordered=True)
    assert automata.equal(graph(0, 1), graph(0, 1), ordered=True) and not automata.equal(graph(0, 1), graph(0, 2), ordered=True)


@pytest.mark.parametrize("function", [automata.forward_score, automata.viterbi_score, automata.viterbi_path])
def test_a_node_that_no_path_reaches_is_refused_on_request(function):
    """As GTN's own tests have it: "throws if a non-start node has no incoming arcs"."""
    g = automata.Graph()
    first, stray, last, aside = g.add_node(start=True), g.add_node(), g.add_node(accept=True), g.add_node()
    g.add_arc(first, last, 0, weight=0.5)
    g.add_arc(stray, last, 0, weight=9.0)
    # No accepting node lies behind it.
    g.add_arc(aside, g.add_node(), 0)
    assert function(g).item() == 0.5
    for graphs in (g, [g]):
        with pytest.raises(tg.errors.GraphError, match="node 1 is no start"):
            function(graphs, connected=True)
    assert function(automata.linear_graph(1, 1), connected=True).item() == 0.0

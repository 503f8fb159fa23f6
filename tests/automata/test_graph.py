"""Graphs themselves: building, weights, comparing, files, pictures, and wrong input."""

import io

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import automata
from tapegrad.errors import GraphError, ShapeError
from tests.automata.random_graphs import random_graph
from tests.every import every
from tests.test_import import fresh


def test_the_package_does_not_load_it():
    assert fresh("import sys, tapegrad; print('tapegrad.automata' in sys.modules, hasattr(tapegrad, 'automata'))").split() == ["False", "False"]


def triangle():
    g = automata.Graph()
    for k in range(3):
        g.add_node(start=k == 0, accept=k == 2)
    g.add_arc(0, 1, 1, weight=0.5)
    g.add_arc(1, 2, 2, 3)
    g.add_arc(0, 2, automata.epsilon, weight=-1.0)
    return g


def test_what_a_graph_says_of_itself():
    g = triangle()
    assert (g.num_nodes(), g.num_arcs(), g.start(), g.accept()) == (3, 3, [0], [2])
    assert g.out(0) == [0, 2] and g.into(2) == [1, 2] and g.out(2) == []
    assert g.labels_to_list() == [1, 2, -1] and g.labels_to_list(ilabel=False) == [1, 3, -1]
    assert [tuple(arc) for arc in g] == [(0, 1, 1, 1, 0.5), (1, 2, 2, 3, 0.0), (0, 2, -1, -1, -1.0)]
    assert repr(g) == "<Graph of 3 nodes and 3 arcs>"
    assert repr(automata.linear_graph(1, 1, calc_grad=False)) == "<Graph of 2 nodes and 1 arcs, calc_grad=False>"
    g.arc_sort()
    g.arc_sort(olabel=True)
    assert g.labels_to_list() == [1, 2, -1]


def test_weights_are_one_tensor():
    g = triangle()
    assert g.weights().requires_grad and g.weights() is g.weights()
    g.set_weights([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(g.values, [1.0, 2.0, 3.0])
    x = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    g.set_weights(x * 2.0)
    automata.forward_score(g).backward()
    # Paths of weight 2 + 4 and 6.
    np.testing.assert_allclose(x.grad, [1.0, 1.0, 1.0])
    h = automata.Graph(calc_grad=False)
    h.add_arc(h.add_node(start=True), h.add_node(accept=True), 0)
    h.set_weights(x[:1])
    assert not h.calc_grad


def test_a_used_graph_does_not_grow():
    for use in (automata.forward_score, automata.negate, lambda g: g.weights()):
        g = triangle()
        use(g)
        for grow in (lambda: g.add_node(), lambda: g.add_arc(0, 1, 0)):
            with pytest.raises(GraphError, match="has been used"):
                grow()
        assert g.num_arcs() == 3
    g = triangle()
    g.set_weights(np.zeros(3))
    assert list(g) and automata.dot(g) and g.add_node() == 3 and g.add_arc(2, 3, 0) == 3


def test_numpys_integers_are_integers():
    g = automata.Graph()
    g.add_node(start=True)
    g.add_node(accept=True)
    assert g.add_arc(np.int64(0), np.int32(1), np.int64(3), np.uint8(4)) == 0
    assert [tuple(arc) for arc in g] == [(0, 1, 3, 4, 0.0)]


@pytest.mark.parametrize("call, kind, words", [
    (lambda g: g.add_arc(0, 3, 0), GraphError, "arc 3: its target is node 3, and the graph has 3 nodes"),
    (lambda g: g.add_arc(-1, 0, 0), GraphError, "arc 3: its source is node -1"),
    (lambda g: g.add_arc(0, 1, -2), GraphError, "arc 3: its ilabel is -2"),
    (lambda g: g.add_arc(0, 1, 0, 0.5), GraphError, "arc 3: its olabel is 0.5: labels are integers"),
    (lambda g: g.add_arc(0, 1, "a"), GraphError, "labels are integers"),
    (lambda g: g.add_arc(0, 1, 0, weight=np.nan), GraphError, "arc 3, 0 -> 1: its weight is NaN"),
    (lambda g: g.add_arc(0, 1, 0, weight=tg.tensor(1.0, requires_grad=True)), GraphError, "set_weights"),
    (lambda g: g.add_arc(0.5, 1, 0), TypeError, "integer"),
    (lambda g: g.set_weights([1.0, np.nan, 2.0]), GraphError, "the weight of arc 1, 1 -> 2, is NaN"),
    (lambda g: g.set_weights(tg.tensor([1.0, 2.0, np.nan], requires_grad=True)), GraphError, "the weight of arc 2, 0 -> 2, is NaN"),
    (lambda g: g.set_weights([1.0]), ShapeError, "1 weights for 3 arcs"),
    (lambda g: g.set_weights(["a", "b", "c"]), tg.errors.DtypeError, "dtype <U1"),
    (lambda g: g.set_weights([1j, 0, 0]), tg.errors.DtypeError, "complex"),
    (lambda g: g.add_arc(0, 1, 10**30), GraphError, "arc 3: its ilabel is 1000000000000000000000000000000: labels are"),
    (lambda g: automata.compose(g, np.zeros(3)), GraphError, "compose: argument 1 is of type ndarray, not a graph"),
    (lambda g: automata.forward_score(tg.tensor(1.0)), GraphError, "forward_score: argument 0 is of type Tensor, not a graph"),
    (lambda g: automata.union([g, 1.0]), GraphError, "argument 1 is of type float, not a graph"),
    (lambda g: automata.dot(g, isymbols="ab"), GraphError, "no name for label 2"),
    (lambda g: g.out(3), GraphError, "there is no node 3"),
    (lambda g: g.into(-1), GraphError, "there is no node -1"),
    (lambda g: g.item(), GraphError, "this one has 3"),
    (lambda g: automata.linear_graph(-1, 2), GraphError, "below 0"),
    (lambda g: automata.linear_graph(2, 2, np.zeros(3)), ShapeError, "3 weights for 4 arcs"),
    (lambda g: automata.add(g, automata.linear_graph(1, 3)), GraphError, "one has 3 nodes, the other 2"),
    (lambda g: automata.add(automata.scalar_graph(1.0), automata.linear_graph(1, 2)), GraphError, "one has 1 arcs, the other 2"),
    (lambda g: automata.subtract(g, automata.project_input(g)), GraphError, "subtract .* olabel of arc 1 is 3 in one and 2 in the other"),
    (lambda g: automata.intersect(g, g), GraphError, "arc 1 of the first graph reads 2 and writes 3"),
    (lambda g: automata.remove(g), GraphError, "arc 2, 0 -> 2, has the label and the weight -1"),
])  # fmt: skip
def test_wrong_input_is_named_and_leaves_the_graph_as_it_was(call, kind, words):
    g = triangle()
    with pytest.raises(kind, match=words):
        call(g)
    assert automata.equal(g, triangle())
    assert g.num_arcs() == 3


def test_graphs_may_come_in_a_list():
    a, b = automata.linear_graph(1, 2), automata.linear_graph(2, 3)
    assert automata.equal(automata.union([a, b]), automata.union(a, b))
    assert automata.equal(automata.concat((a, b)), automata.concat(a, b))
    assert automata.concat().num_nodes() == 1 and automata.union([]).num_nodes() == 0


def test_steps_without_labels_lead_nowhere():
    assert automata.linear_graph(2, 0).num_nodes() == 3
    assert automata.forward_score(automata.linear_graph(2, 0)).item() == -np.inf
    assert automata.forward_score(automata.linear_graph(0, 2)).item() == 0.0


def test_weights_may_be_integers_or_float32():
    for dtype in (int, bool, np.float32):
        assert automata.linear_graph(1, 2, np.array([0, 1], dtype)).weights().dtype == np.float64


def test_removing_pairs_of_labels():
    g = triangle()
    g.set_weights([0.5, 0.0, -1.0])
    left = automata.remove(g, 2, 3)
    assert [tuple(arc) for arc in left] == [(0, 1, 1, 1, 0.5), (0, 2, -1, -1, -1.0)] and left.accept() == [1, 2]
    assert automata.equal(automata.remove(g, 2), g) and automata.equal(automata.remove(g, 2, None), g)


def test_removing_empty_paths_side_by_side_keeps_how_many_there_are():
    g = automata.Graph()
    a, b, c, d = [g.add_node(k == 0, k == 3) for k in range(4)]
    for source, target, label in [(a, b, -1), (a, b, -1), (b, c, 1), (c, d, -1), (c, d, -1), (c, d, -1), (a, d, -1), (b, d, -1)]:
        g.add_arc(source, target, label, weight=0.5 * (label == 1))
    left = automata.remove(g)
    # Two ways to the arc and three behind it; three without it.
    assert left.num_arcs() == 6 and (len(left.start()), len(left.accept())) == (3, 6)
    assert np.isclose(automata.forward_score(left).item(), np.log(6 * np.exp(0.5) + 3)) and automata.viterbi_score(left).item() == 0.5
    automata.forward_score(left).backward()
    np.testing.assert_allclose(g.grad().values[2], 6 * np.exp(0.5) / (6 * np.exp(0.5) + 3))


def test_a_cycle_of_removed_arcs_is_refused():
    for nodes in (1, 2):
        g = automata.Graph()
        for k in range(nodes):
            g.add_node(k == 0, True)
        for k in range(nodes):
            g.add_arc(k, (k + 1) % nodes, -1)
        with pytest.raises(GraphError, match="cycle, so its paths have no end: 0 -> "):
            automata.remove(g)


# -- comparing ----------------------------------------------------------------------------------


def test_equal_and_isomorphic():
    g = triangle()
    assert automata.equal(g, triangle()) and automata.isomorphic(g, triangle())
    other = triangle()
    other.set_weights([0.5, 0.25, -1.0])
    assert not automata.equal(g, other) and not automata.isomorphic(g, other)
    more = triangle()
    more.add_node()
    assert not automata.equal(g, more) and not automata.isomorphic(g, more)


@every("seed", range(40))
def test_renumbered_graphs_are_isomorphic_and_changed_ones_are_not(seed):
    rng = np.random.default_rng(seed)
    g = random_graph(rng)
    names, order = rng.permutation(g.num_nodes()), rng.permutation(g.num_arcs())
    back = np.argsort(names)
    arcs = list(g)
    weights = np.round(g.values)  # with ties

    def renumbered(changed):
        h = automata.Graph()
        for k in back:
            h.add_node(g.topology.start[k], g.topology.accept[k])
        for a in order:
            h.add_arc(names[arcs[a].source], names[arcs[a].target], arcs[a].ilabel, arcs[a].olabel, weights[a] + (changed == a))
        return h

    if g.num_arcs():
        g.set_weights(weights)
    assert automata.isomorphic(g, renumbered(None))
    assert automata.rand_equivalent(g, renumbered(None), samples=10)
    if len(arcs):
        assert not automata.isomorphic(g, renumbered(0))


def test_ties_are_broken_in_each_way_that_is_left():
    """Two triangles and a hexagon: every node has one arc from and to a node of the one colour."""

    def rings(*sizes):
        g, first = automata.Graph(), 0
        for n in sizes:
            for _ in range(n):
                g.add_node()
            for k in range(n):
                g.add_arc(first + k, first + (k + 1) % n, 0)
            first += n
        return g

    assert automata.isomorphic(rings(3, 3), rings(3, 3)) and automata.isomorphic(rings(6), rings(6))
    assert not automata.isomorphic(rings(3, 3), rings(6))


def test_graphs_that_read_the_same_are_equivalent_and_others_are_found():
    a, b = automata.linear_graph(2, 2), automata.linear_graph(1, 2)
    assert automata.rand_equivalent(a, automata.concat(b, b))
    assert not automata.rand_equivalent(a, automata.linear_graph(2, 2, [0.0, 0.0, 0.0, 0.01]))
    assert not automata.rand_equivalent(a, automata.linear_graph(2, 1))


# -- files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_a_file_gives_the_same_graph(seed, tmp_path):
    g = random_graph(np.random.default_rng(seed))
    named = {*g.start(), *g.accept(), *(n for arc in g for n in arc[:2])}
    path = tmp_path / "graph.txt"
    if max(named, default=-1) < g.num_nodes() - 1:
        with pytest.raises(GraphError, match=f"there is a node {g.num_nodes() - 1}"):
            automata.save(g, path)
        assert not path.exists()
        return
    automata.save(g, path)
    again = automata.load(path)
    assert automata.equal(again, g) and [*again] == [*g]
    text = io.StringIO()
    automata.save(g, text)
    assert text.getvalue() == path.read_text()


def test_gtns_format():
    g = automata.load(io.StringIO("0 2\n1\n0 1 5\n2 1 6 7\n2 3 -1 -1 0.25\n\n"), calc_grad=False)
    assert g.start() == [0, 2] and g.accept() == [1] and g.num_nodes() == 4 and not g.calc_grad
    assert [tuple(arc) for arc in g] == [(0, 1, 5, 5, 0.0), (2, 1, 6, 7, 0.0), (2, 3, -1, -1, 0.25)]


@pytest.mark.parametrize("text, words", [
    ("", "line 1: it ends before the nodes in which paths begin"),
    ("0\n", "line 2: it ends before the nodes in which paths end"),
    ("0 0\n1\n", "line 1: node 0 is there twice"),
    ("0\nx\n", "line 2: 'x' is no node"),
    ("0\n-1\n", "line 2: there is no node -1"),
    ("0\n1\n0 1\n", "line 3: '0 1' has 2 columns"),
    ("0\n1\n0 1 2\n0 1 2 3 4 5\n", "line 4: '0 1 2 3 4 5' has 6 columns"),
    ("0\n1\n0 1 a\n", "line 3: 'a' is no label"),
    ("0\n1\n\n0 1 -3\n", "line 4: arc 0: its ilabel is -3"),
    ("0\n1\n0 1 1 1 nan\n", "line 3: arc 0, 0 -> 1: its weight is NaN"),
    ("0\n1\n0 1 1 1 1,5\n", "line 3: '1,5' is no weight"),
    ("0\n1\n0.0 1 1\n", "line 3: '0.0' is no node"),
])  # fmt: skip
def test_a_wrong_file_is_refused_by_line(text, words, tmp_path):
    path = tmp_path / "wrong.txt"
    path.write_text(text)
    with pytest.raises(GraphError, match=f"wrong.txt, {words}"):
        automata.load(path)


# -- pictures ---------------------------------------------------------------------------------------------


def test_text_for_graphviz():
    text = automata.dot(triangle(), isymbols=["", 'a"', "b\\"], osymbols={1: 'a"', 2: "x", 3: "y"})
    assert '0 [shape = circle, penwidth = 2];' in text and "2 [shape = doublecircle];" in text
    assert '0 -> 1 [label = "a\\"/0.5"];' in text and '1 -> 2 [label = "b\\\\:y"];' in text and '0 -> 2 [label = "ε/-1"];' in text


def test_a_picture_has_every_node_and_label(tmp_path):
    pytest.importorskip("matplotlib")
    g = triangle()
    g.add_arc(1, 1, 4)
    g.add_arc(2, 1, 5)
    g.add_arc(2, 1, 6)
    figure = automata.draw(g, tmp_path / "g.png")
    assert (tmp_path / "g.png").read_bytes().startswith(b"\x89PNG")
    (axes,) = figure.axes
    texts = [t.get_text() for t in axes.texts]
    assert sorted(texts) == sorted(["0", "1", "2", "1/0.5", "2:3", "ε/-1", "4", "5\n6"])
    automata.draw(automata.Graph())

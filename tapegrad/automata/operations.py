"""Operations that make graphs from graphs.

Which arcs a result has is found on plain arrays, and is no derivative's business; their weights are those of arcs of the
operands, gathered, or sums of two of them, so derivatives go back by scattering.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..array import functions as F
from ..array.record import guard_on
from ..common.errors import GraphError
from .graph import Graph, Graphs, made, of_graphs, of_lists, require_graphs, sweep_from
from .scores import gather
from .topology import Topology, in_parallel, reaching, words
from .walks import ARCS, EPSILON, NODES, pass_over, search


def backward(graph: Graph | Sequence[Graph], retain_graph: bool = False) -> None:
    """Differentiate the (summed) weights of a graph with respect to all graphs that it was computed from.

    Parameters
    ----------
    graph : Graph or list of Graph
        Of a list, the sum of all weights.
    retain_graph : bool
        Whether `backward` may be called again.  If not, the sweep releases what operations keep for it as it passes, from the last graph to
        the first.

    Returns
    -------
    None

    Raises
    ------
    GradientError
        If the graph was computed only from graphs with ``calc_grad=False``.
    ClearedTapeError
        If an earlier call cleared it.

    Examples
    --------
    >>> from tapegrad import automata
    >>> g = automata.linear_graph(1, 2)
    >>> automata.backward(automata.forward_score(g))
    >>> g.grad().weights()
    tensor([0.5000, 0.5000])
    """
    sweep_from(_listed(graph), retain_graph)


# -- weights ----------------------------------------------------------------------------------------


@of_graphs
def negate(graph: Graph) -> Graph:
    """Negate the weights of a graph.

    Parameters
    ----------
    graph : Graph

    Returns
    -------
    Graph

    Examples
    --------
    >>> from tapegrad import automata
    >>> automata.negate(automata.scalar_graph(2.0)).item()
    -2.0
    """
    return made(graph.topology, -graph.weights())


@of_graphs
def add(first: Graph, second: Graph) -> Graph:
    """Add the weights of two graphs with the same nodes, arcs and labels.

    Parameters
    ----------
    first, second : Graph

    Returns
    -------
    Graph

    Raises
    ------
    GraphError
        If they differ; the message says in what.

    Examples
    --------
    >>> from tapegrad import automata
    >>> automata.add(automata.scalar_graph(2.0), automata.scalar_graph(3.0)).item()
    5.0
    """
    return made(_common("add", first, second), first.weights() + second.weights())


@of_graphs
def subtract(first: Graph, second: Graph) -> Graph:
    """Subtract the weights of two graphs with the same nodes, arcs and labels.

    Parameters
    ----------
    first, second : Graph

    Returns
    -------
    Graph

    Raises
    ------
    GraphError
        If they differ; the message says in what.

    Examples
    --------
    >>> from tapegrad import automata
    >>> automata.subtract(automata.scalar_graph(2.0), automata.scalar_graph(3.0)).item()
    -1.0
    """
    return made(_common("subtract", first, second), first.weights() - second.weights())


def _common(name, first, second):
    """The topology of two graphs that have the same."""
    difference = first.topology.difference(second.topology)
    if difference is not None:
        raise GraphError(f"{name} is of graphs with the same nodes, arcs and labels: {difference}")
    return first.topology


# -- copies -------------------------------------------------------------------------------------------


@of_graphs
def clone(graph: Graph) -> Graph:
    """Copy a graph; derivatives with respect to the copy reach the original.

    Parameters
    ----------
    graph : Graph

    Returns
    -------
    Graph

    Examples
    --------
    >>> from tapegrad import automata
    >>> automata.clone(automata.scalar_graph(2.0)).item()
    2.0
    """
    return made(graph.topology, graph.weights() + 0.0)


@of_graphs
def project_input(graph: Graph) -> Graph:
    """Make each arc write the label that it reads.

    Parameters
    ----------
    graph : Graph

    Returns
    -------
    Graph

    Examples
    --------
    >>> from tapegrad import automata
    >>> g = automata.Graph()
    >>> g.add_arc(g.add_node(start=True), g.add_node(accept=True), 3, 7)
    0
    >>> automata.project_input(g).labels_to_list(ilabel=False)
    [3]
    """
    t = graph.topology
    return made(Topology(t.start, t.accept, t.source, t.target, t.ilabel, t.ilabel), graph.weights() + 0.0)


@of_graphs
def project_output(graph: Graph) -> Graph:
    """Make each arc read the label that it writes.

    Parameters
    ----------
    graph : Graph

    Returns
    -------
    Graph

    Examples
    --------
    >>> from tapegrad import automata
    >>> g = automata.Graph()
    >>> g.add_arc(g.add_node(start=True), g.add_node(accept=True), 3, 7)
    0
    >>> automata.project_output(g).labels_to_list()
    [7]
    """
    t = graph.topology
    return made(Topology(t.start, t.accept, t.source, t.target, t.olabel, t.olabel), graph.weights() + 0.0)


# -- of languages ----------------------------------------------------------------------------------------


def union(*graphs: Graph | Sequence[Graph]) -> Graph:
    """Make a graph that accepts what any of the graphs accepts.

    Parameters
    ----------
    *graphs : Graph
        Or one list of them.

    Returns
    -------
    Graph
        Their nodes and arcs, one graph after the other.

    Examples
    --------
    >>> from tapegrad import automata
    >>> g = automata.linear_graph(1, 2)
    >>> automata.union(g, g)
    <Graph of 4 nodes and 4 arcs>
    """
    graphs = _listed(*graphs)
    start, accept = (np.concatenate([np.zeros(0, bool), *(getattr(g.topology, name) for g in graphs)]) for name in ("start", "accept"))
    return _joined(graphs, start, accept, [])


def concat(*graphs: Graph | Sequence[Graph]) -> Graph:
    """Make a graph that accepts sequences of the graphs, one after the other.

    Parameters
    ----------
    *graphs : Graph
        Or one list of them.

    Returns
    -------
    Graph
        Arcs of `epsilon` and weight 0 join the graphs, after the arcs of all graphs; for no graphs, the graph that accepts the empty sequence.

    Examples
    --------
    >>> from tapegrad import automata
    >>> g = automata.linear_graph(1, 2)
    >>> automata.concat(g, g)
    <Graph of 4 nodes and 5 arcs>
    """
    graphs = _listed(*graphs)
    if not graphs:
        return made(Topology([True], [True], [], [], [], []), np.zeros(0))
    first = _first_nodes(graphs)
    joints = [first[k : k + 2, None] + _pairs(a.topology.accept, b.topology.start) for k, (a, b) in enumerate(zip(graphs, graphs[1:]))]
    number = np.repeat(np.arange(len(graphs)), [g.num_nodes() for g in graphs])
    start, accept = (np.concatenate([getattr(g.topology, name) for g in graphs]) for name in ("start", "accept"))
    return _joined(graphs, start & (number == 0), accept & (number == len(graphs) - 1), joints)


@of_graphs
def closure(graph: Graph) -> Graph:
    """Make a graph that accepts any number of sequences of a graph, one after the other; also none.

    Parameters
    ----------
    graph : Graph

    Returns
    -------
    Graph
        It has the nodes of the graph and, last, one where paths begin and end; arcs of `epsilon` and weight 0 to and from it come last.

    Examples
    --------
    >>> from tapegrad import automata
    >>> automata.closure(automata.linear_graph(1, 2))
    <Graph of 3 nodes and 4 arcs>
    """
    t = graph.topology
    own = made(Topology([True], [True], [], [], [], []), np.zeros(0))
    ends = np.arange(t.num_nodes + 1) == t.num_nodes
    return _joined([graph, own], ends, ends, [_pairs(ends, t.start), _pairs(t.accept, ends)])


def _listed(*graphs):
    """Graphs that were given one by one, or as a list."""
    graphs = graphs[0] if len(graphs) == 1 and isinstance(graphs[0], (list, tuple)) else graphs
    require_graphs("a list of graphs", graphs)
    return graphs


def _first_nodes(graphs):
    return np.cumsum([0, *(g.num_nodes() for g in graphs)])


def _pairs(first, second):
    """All pairs of places where two arrays of booleans are True."""
    a, b = np.flatnonzero(first), np.flatnonzero(second)
    return np.repeat(a, len(b)), np.tile(b, len(a))


def _joined(graphs, start, accept, joints):
    """Graphs side by side, with arcs that read and write nothing between `joints` (sources, targets) behind their arcs."""
    first = _first_nodes(graphs)
    none = np.concatenate([np.zeros(0, np.int64), *(np.full(len(a), EPSILON) for a, _ in joints)])
    t = Topology(
        start, accept,
        np.concatenate([*(k + g.topology.source for k, g in zip(first, graphs)), *(a for a, _ in joints), none[:0]]),
        np.concatenate([*(k + g.topology.target for k, g in zip(first, graphs)), *(b for _, b in joints), none[:0]]),
        *(np.concatenate([*(getattr(g.topology, name) for g in graphs), none]) for name in ("ilabel", "olabel")),
    )  # fmt: skip
    return made(t, F.concatenate([*(g.weights() for g in graphs), np.zeros(len(none))]))


@of_graphs
def remove(graph: Graph, ilabel: int = EPSILON, olabel: int | None = None) -> Graph:
    """Remove the arcs with a label: what follows such an arc then follows the node that the arc came from.

    Parameters
    ----------
    graph : Graph
    ilabel, olabel : int
        The labels that the arcs read and write; `olabel` is `ilabel` by default.

    Returns
    -------
    Graph
        Each node that is left (start nodes, and those to which another arc goes) has the arcs that follow each path of removed arcs from it,
        once for each such path, so both scores are unchanged.  Where several such paths end the graph, the node has a copy for each; only the
        first has outgoing arcs.

    Raises
    ------
    GraphError
        If an arc to be removed has a weight other than 0, which no arc of the result could carry, or such arcs form a cycle, through which
        there are endless paths.

    Examples
    --------
    >>> from tapegrad import automata
    >>> g = automata.linear_graph(1, 2)
    >>> automata.remove(automata.concat(g, g))
    <Graph of 3 nodes and 4 arcs>
    """
    t = graph.topology
    gone = (t.ilabel == ilabel) & (t.olabel == (ilabel if olabel is None else olabel))
    weights, places = graph.weights(), np.flatnonzero(gone)
    heavy = np.asarray(guard_on(lambda values: places[values[places] != 0.0][:1], weights))
    if len(heavy):
        arc = int(heavy[0])
        raise GraphError(
            f"remove: arc {arc}, {t.source[arc]} -> {t.target[arc]}, has the label and the weight {graph.values[arc]:g}, which no arc of the result "
            "could carry; only arcs of weight 0 can be removed"
        )
    Topology(t.start, t.accept, t.source[gone], t.target[gone], t.ilabel[gone], t.olabel[gone]).sorted_nodes  # noqa: B018 (it refuses cycles)
    kept = t.start | (np.bincount(t.target[~gone], minlength=t.num_nodes) > 0)
    numbers = [words(a) for a in (kept, gone)]
    room = 2 * t.num_arcs + 16
    while True:
        ends, out = np.zeros(t.num_nodes, np.int64), np.empty((2, room), np.int64)
        stack = np.empty(t.num_arcs + 1, np.int64)
        arrays = *numbers, t.out.starts, t.out.order, t.target, words(t.accept), stack, ends, out
        count = pass_over(t.num_nodes, *(a.ctypes.data for a in arrays), room)
        if count >= 0:
            break
        room *= 2
    source, arcs = out[:, :count].copy()
    copies = np.where(kept, np.maximum(ends, 1), 0)
    names, arrivals = np.cumsum(copies) - copies, copies[t.target[arcs]]
    source, arcs = np.repeat(source, arrivals), np.repeat(arcs, arrivals)
    which = np.arange(len(arcs)) - np.repeat(np.cumsum(arrivals) - arrivals, arrivals)
    left = Topology(
        np.repeat(t.start, copies), np.repeat(ends > 0, copies), names[source], names[t.target[arcs]] + which, t.ilabel[arcs], t.olabel[arcs]
    )
    return made(left, gather(weights, arcs))


@of_lists
def compose(first: Graphs, second: Graphs) -> Graphs:
    """Compose two transducers: the result reads what `first` reads, and writes what `second` makes of its output.

    Parameters
    ----------
    first, second : Graph or list of Graph
        `tapegrad.config.threads` threads compose the graphs of two lists, or of one with a graph, pair by pair.

    Returns
    -------
    Graph or list of Graph
        It has a path for each pair of paths where the first writes what the second reads; its weight is the sum of theirs.  Nodes on no path
        from start to accept are left out.

    Notes
    -----
    Arcs that write, or read, `epsilon` go along with such an arc of the other graph, or alone; each pair of paths gives one path (GTN's
    filter, which matches first).

    Examples
    --------
    >>> from tapegrad import automata
    >>> emissions, target = automata.linear_graph(3, 2), automata.Graph()
    >>> node = target.add_node(start=True, accept=True)
    >>> target.add_arc(node, node, 1, 5)
    0
    >>> automata.compose(emissions, target).labels_to_list(ilabel=False)
    [5, 5, 5]
    """
    topologies = [(a.topology, b.topology) for a, b in zip(first, second)]
    results = in_parallel(lambda k: composed(*topologies[k]), len(topologies))
    return [made(t, _of_each(a.weights(), i) + _of_each(b.weights(), j)) for a, b, (t, (i, j)) in zip(first, second, results)]


def _of_each(weights, arcs):
    """The weights of these arcs; 0 of arc -1, which there is not."""
    if len(arcs) and arcs.min() < 0:
        weights = F.concatenate([weights, np.zeros(1)])
        arcs = np.where(arcs < 0, weights.size - 1, arcs)
    return gather(weights, arcs)


@of_lists
def intersect(first: Graphs, second: Graphs) -> Graphs:
    """Make a graph that accepts what both graphs accept: `compose` for acceptors.

    Parameters
    ----------
    first, second : Graph or list of Graph
        Acceptors, which write what they read.

    Returns
    -------
    Graph or list of Graph

    Raises
    ------
    GraphError
        If an arc writes another label than it reads.

    Examples
    --------
    >>> from tapegrad import automata
    >>> automata.intersect(automata.linear_graph(2, 2), automata.linear_graph(2, 3))
    <Graph of 3 nodes and 4 arcs>
    """
    for name, graphs in (("first", first), ("second", second)):
        for t in (g.topology for g in graphs):
            other = np.flatnonzero(t.ilabel != t.olabel)
            if len(other):
                raise GraphError(
                    f"intersect: arc {other[0]} of the {name} graph reads {t.ilabel[other[0]]} and writes {t.olabel[other[0]]}; transducers are "
                    "composed (compose), or made acceptors by project_input or project_output"
                )
    return compose(first, second)


def composed(first: Topology, second: Topology):
    """The topology of a composition, and the arcs of both graphs that its arcs are made of (-1: none).

    Parameters
    ----------
    first, second : Topology

    Returns
    -------
    (Topology, list of ndarray)
    """
    starts = _pairs(first.start, second.start)
    width, size = second.num_nodes, first.num_nodes * second.num_nodes
    keys, numbers = (starts[0] * width + starts[1]) * 3, np.zeros(5, np.int64)
    numbers[NODES], out = len(keys), np.empty((4, 0), np.int64)
    # As many as there can be, or what is soon filled; memory that is not written to is none yet.
    arcs = first.num_arcs * second.num_arcs + first.num_arcs * width + first.num_nodes * second.num_arcs
    nodes, room = len(keys) + min(3 * size, 1 << 14), min(3 * arcs, 1 << 20) + 1
    graphs = *first.by_olabel, *second.by_ilabel
    while True:
        table = np.full(1 << (2 * nodes + 16).bit_length(), -1)
        known, found = numbers[NODES], numbers[ARCS]
        keys = np.concatenate([keys[:known], np.empty(nodes - known, np.int64)])
        if room > out.shape[1]:
            out, old = np.empty((4, room), np.int64), out
            out[:, :found] = old[:, :found]
        numbers[3:] = nodes, room
        addresses = [a.ctypes.data for a in (keys, out)]
        if search(numbers.ctypes.data, table.ctypes.data, len(table) - 1, *addresses, width, *(a.ctypes.data for a in graphs)):
            break
        if numbers[NODES] == nodes:
            nodes *= 4
        else:
            room *= 4
    source, target, *arcs = out[:, : numbers[ARCS]]
    pairs = keys[: numbers[NODES]] // 3
    own, other = np.divmod(pairs, max(width, 1))
    accept = first.accept[own] & second.accept[other]
    keeps = reaching(len(pairs), source, target, np.flatnonzero(accept))
    # What leads to an accepting node comes from one that does.
    kept = np.flatnonzero(keeps[target])
    names = np.cumsum(keeps) - 1
    arcs = [a[kept] for a in arcs]
    # Arc -1 has the last label.
    labels = (np.append(label, EPSILON)[a] for label, a in zip((first.ilabel, second.olabel), arcs))
    return Topology(np.flatnonzero(keeps) < len(starts[0]), accept[keeps], names[source[kept]], names[target[kept]], *labels), arcs

"""What the paths of a graph weigh together, and the best of them.

The log score of each node is a primitive, `log_scores`; the derivative is of two kinds of operations: what share of a node comes
by each arc, ``exp`` of a difference of scores, and a sum over paths of such shares, `flow`, which is linear.  `flow` is a primitive whose
derivatives are `flow` again, along arcs or against them; so derivatives of all orders are made of walks over the graph.
No sum of large numbers is taken back: shares lie between 0 and 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..array import functions as F
from ..array.functions.gathers import frozen
from ..array.record import apply, guard_on, record_aux
from ..autograd.custom import primitive
from .graph import Graph, Graphs, made, of_graphs, of_lists, scalar_graph
from .topology import ScorePlan, Topology, reaching
from .walks import against, along, best, forward

_SCALAR = scalar_graph(0.0).topology


@primitive
def log_scores(weights, *, plan):
    """The log score of each node; `weights` are those of all arcs of the plan."""
    scores = np.empty(plan.count)
    plan.walk(forward, plan.initial, np.ascontiguousarray(weights), scores)
    return scores


def _shares(weights, scores, plan):
    """Which share of the score of its target each arc brings; of a node that nothing reaches none."""
    lowest = np.where(scores == -np.inf, 0.0, scores)
    return np.exp(np.take(scores, plan.source) + weights - np.take(lowest, plan.target))


@log_scores.defvjp
def _(g, scores, weights, plan):
    shares = _shares(weights, scores, plan)
    return shares * np.take(flow(shares, g, plan=plan, back=True), plan.target)


@log_scores.defjvp
def _(tangents, scores, weights, plan):
    shares = _shares(weights, scores, plan)
    return flow(shares, F.segment_sum(shares * tangents[0], plan.target, plan.count), plan=plan, back=False)


@primitive
def flow(shares, begins, *, plan, back):
    """What reaches each node of what `begins` there, times the shares of the arcs on the way; `back`: against the arcs."""
    x = np.array(begins)
    plan.walk(against if back else along, np.ascontiguousarray(shares), x)
    return x


def _ends(plan, back):
    """Where arcs come from and go to, as they are walked."""
    return (plan.target, plan.source) if back else (plan.source, plan.target)


@flow.defvjp
def _(g, x, shares, begins, plan, back):
    source, target = _ends(plan, back)
    g = flow(shares, g, plan=plan, back=not back)
    return np.take(g, target) * np.take(x, source), g


@flow.defjvp
def _(tangents, x, shares, begins, plan, back):
    source, target = _ends(plan, back)
    along_arcs = F.segment_sum(tangents[0] * np.take(x, source), target, plan.count)
    return flow(shares, along_arcs + tangents[1], plan=plan, back=back)


def totals(graphs: Sequence[Graph]) -> list[Any]:
    """The log score of each graph, on the tape as a vector of one number."""
    plan = graphs[0].topology.plan if len(graphs) == 1 else ScorePlan([g.topology for g in graphs])
    weights = F.concatenate([*(g.weights() for g in graphs), np.zeros(len(plan.source) - sum(g.num_arcs() for g in graphs))])
    scores = log_scores(weights, plan=plan)
    return [scores[end : end + 1] for end in plan.ends.tolist()]


@of_lists
def forward_score(graph: Graphs, connected: Any = False) -> Graphs:
    """Compute the log-sum-exp of the weights of all paths.

    Parameters
    ----------
    graph : Graph or list of Graph
        Without cycles; the scores of a list are computed on `tapegrad.config.threads` threads.
    connected : bool
        As in `viterbi_path`.

    Returns
    -------
    Graph or list of Graph
        A graph of one arc; its weight is ``-inf`` if no path is accepted.

    Raises
    ------
    GraphError
        If there is a cycle; the message names one.

    Notes
    -----
    For each arc, the gradient is the share of the paths through it; if no path is accepted, it is zero.

    Examples
    --------
    >>> from tapegrad import automata
    >>> g = automata.linear_graph(2, 3)
    >>> round(automata.forward_score(g).item(), 6)
    2.197225
    """
    for one in itertools.compress(graph, connected):
        one.topology.require_connected()
    return [made(_SCALAR, score) for score in totals(graph)]


@of_graphs
def viterbi_score(graph: Graph, connected: bool = False) -> Graph:
    """Compute the weight of the best path.

    Parameters
    ----------
    graph : Graph
        Without cycles.
    connected : bool
        As in `viterbi_path`.

    Returns
    -------
    Graph
        A graph of one arc; its weight is ``-inf`` if no path is accepted.

    Raises
    ------
    GraphError
        If there is a cycle.

    Examples
    --------
    >>> from tapegrad import automata
    >>> automata.viterbi_score(automata.linear_graph(2, 2, [[1.0, 2.0], [5.0, 3.0]])).item()
    7.0
    """
    weights, plan, t = graph.weights(), graph.topology.plan, graph.topology
    if connected:
        t.require_connected()
    arcs = record_aux(lambda values: _best_arcs(values, plan, True), weights)
    score = F.sum(F.where(arcs, weights, 0.0))
    accepted = np.any(reaching(t.num_nodes, t.source, t.target, np.flatnonzero(t.accept)) & t.start)
    return made(_SCALAR, F.reshape(score if accepted else score - np.inf, (1,)))


@of_graphs
def viterbi_path(graph: Graph, connected: bool = False) -> Graph:
    """Find the best path, as a graph that has no other; of equal paths, the one found first.

    Parameters
    ----------
    graph : Graph
        Without cycles.
    connected : bool
        Refuse, as GTN does, a graph with a node that leads to an accepting one, but is no start and has no incoming arc; by default,
        such a node is on no path.

    Returns
    -------
    Graph
        A chain of its arcs; empty if no path is accepted.  Under `tapegrad.jit` the choice of path is guarded.

    Raises
    ------
    GraphError
        If there is a cycle.

    Examples
    --------
    >>> from tapegrad import automata
    >>> path = automata.viterbi_path(automata.linear_graph(2, 2, [[1.0, 2.0], [5.0, 3.0]]))
    >>> path.labels_to_list()
    [1, 0]
    """
    weights, plan = graph.weights(), graph.topology.plan
    if connected:
        graph.topology.require_connected()
    arcs = np.asarray(guard_on(lambda values: _best_arcs(values, plan, False), weights))
    if len(arcs) and arcs[0] < 0:
        return made(Topology([], [], [], [], [], []), gather(weights, arcs[:0]))
    return graph_of_path(graph, arcs)


def graph_of_path(graph: Graph, arcs: Any) -> Graph:
    """The chain of arcs of a graph, one after the other."""
    t, nodes = graph.topology, np.arange(len(arcs) + 1)
    path = Topology(nodes == 0, nodes == len(arcs), nodes[:-1], nodes[1:], t.ilabel[arcs], t.olabel[arcs])
    return made(path, gather(graph.weights(), arcs))


def _best_arcs(values, plan: ScorePlan, marked):
    """The arcs of the best path in order (-1: there is none), or `marked` among all."""
    own = len(values)
    weights = np.concatenate([values, np.zeros(len(plan.source) - own)])
    arrays = np.empty(plan.count), np.empty(plan.count, np.int64), np.empty(plan.count, np.int64)
    (length,) = plan.walk(best, plan.initial, weights, *arrays)
    arcs = arrays[2][: max(length, 0)][::-1]
    arcs = arcs[arcs < own]
    if marked:
        mask = np.zeros(own, bool)
        mask[arcs] = True
        return mask
    return arcs.copy() if length >= 0 else np.array([-1])


def gather(weights, arcs):
    """The weights of these arcs."""
    return apply("gather", (weights, frozen(arcs)), (("shape", arcs.shape),))

"""Whether two graphs are the same: as they are numbered, up to their numbers, or by what they do to sequences at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array.creation import tensor
from ..common.errors import GraphError
from .graph import Graph, made
from .operations import compose, project_input, project_output
from .scores import forward_score, graph_of_path


def equal(first: Graph, second: Graph, ordered: bool = False) -> bool:
    """Test whether two graphs have the same nodes and arcs, with the same weights.

    Parameters
    ----------
    first, second : Graph
    ordered : bool
        Whether the arcs must have the same numbers, as in GTN's `equal`; by default these may differ.

    Returns
    -------
    bool

    Examples
    --------
    >>> from tapegrad import automata
    >>> automata.equal(automata.linear_graph(2, 2), automata.linear_graph(2, 2))
    True
    """
    flags, other = ([g.topology.start.tolist(), g.topology.accept.tolist()] for g in (first, second))
    arcs = list if ordered else sorted
    return flags == other and arcs(first) == arcs(second)


def isomorphic(first: Graph, second: Graph) -> bool:
    """Test whether two graphs are equal up to the numbers of their nodes and arcs.

    Parameters
    ----------
    first, second : Graph

    Returns
    -------
    bool

    Examples
    --------
    >>> from tapegrad import automata
    >>> a, b = automata.linear_graph(1, 2), automata.Graph()
    >>> last, begin = b.add_node(accept=True), b.add_node(start=True)
    >>> b.add_arc(begin, last, 1), b.add_arc(begin, last, 0)
    (0, 1)
    >>> automata.equal(a, b), automata.isomorphic(a, b)
    (False, True)
    """
    if first.num_nodes() != second.num_nodes() or first.num_arcs() != second.num_arcs():
        return False
    arcs, count = [*first, *(a._replace(source=a.source + first.num_nodes(), target=a.target + first.num_nodes()) for a in second)], first.num_nodes()
    flags = [np.concatenate([getattr(g.topology, name) for g in (first, second)]).tolist() for name in ("start", "accept")]
    # Colourings in which nodes that could be each other's image may have one colour; a tie is broken in each way that is left.
    waiting = [_refined(list(zip(*flags)), arcs)]
    while waiting:
        colours = waiting.pop()
        mine, theirs = colours[:count], colours[count:]
        if sorted(mine) != sorted(theirs):
            continue
        tied = next((c for c in mine if mine.count(c) > 1), None)
        if tied is None:
            return True
        node = mine.index(tied)
        for k, colour in enumerate(theirs):
            if colour == tied:
                waiting.append(_refined([-1 if at in (node, count + k) else c for at, c in enumerate(colours)], arcs))
    return False


def _refined(colours, arcs):
    """Colours such that nodes of one colour have as many arcs of each kind to and from nodes of each colour."""
    while True:
        seen = [[c] for c in colours]
        for arc in arcs:
            what = arc.ilabel, arc.olabel, arc.weight
            seen[arc.source].append((0, *what, colours[arc.target]))
            seen[arc.target].append((1, *what, colours[arc.source]))
        names: dict[Any, int] = {}
        finer = [names.setdefault((c, tuple(sorted(rest))), len(names)) for c, *rest in seen]
        if len(names) == len(set(colours)):
            return finer
        colours = finer


def rand_equivalent(first: Graph, second: Graph, samples: int = 100, tol: float = 1e-4, longest: int = 200, seed: int = 0) -> bool:
    """Test whether two graphs give the same score to the input and output labels of random paths of both.

    Parameters
    ----------
    first, second : Graph
    samples : int
        Number of paths to try, half of them from each graph.
    tol : float
        Largest difference of scores that is allowed.
    longest : int
        Number of arcs after which a path is abandoned.
    seed : int

    Returns
    -------
    bool
        False is certain; True means that no difference was found.

    Raises
    ------
    GraphError
        If arcs that neither read nor write form a cycle, which a sequence may pass any number of times.

    Examples
    --------
    >>> from tapegrad import automata
    >>> g = automata.linear_graph(2, 2)
    >>> automata.rand_equivalent(g, automata.remove(automata.concat(automata.linear_graph(1, 2), automata.linear_graph(1, 2))))
    True
    """
    if samples < 1:
        raise GraphError(f"rand_equivalent with samples={samples}: at least one")
    rng = np.random.default_rng(seed)
    first, second = (made(g.topology, tensor(g.values)) for g in (first, second))
    for k in range(samples):
        arcs = _random_path((first, second)[k % 2], rng, longest)
        if arcs is not None:
            path = graph_of_path((first, second)[k % 2], arcs)
            scores = [forward_score(compose(compose(project_input(path), g), project_output(path))).item() for g in (first, second)]
            if scores[0] != scores[1] and not abs(scores[0] - scores[1]) <= tol:
                return False
    return True


def _random_path(graph, rng, longest):
    """The arcs of a path from start to accept; None if it did not get there."""
    start, arcs = graph.start(), []
    if not start:
        return None
    node = int(rng.choice(start))
    while len(arcs) <= longest:
        ways = graph.out(node)
        at = int(rng.integers(0, len(ways) + bool(graph.topology.accept[node]))) if ways or graph.topology.accept[node] else None
        if at is None:
            return None
        if at == len(ways):
            return np.array(arcs, np.int64)
        arcs.append(ways[at])
        node = int(graph.topology.target[ways[at]])
    return None

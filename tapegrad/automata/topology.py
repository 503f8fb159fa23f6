"""What of a graph is no number on a tape: nodes, arcs and labels, as flat arrays, and orders of them that are found when needed.

Graphs share a topology where they have the same; a topology is never changed.
"""

import numpy as np

from ..common import pool
from ..common.errors import GraphError, TapegradError
from ..common.uninterrupted import cached_property
from .walks import EPSILON, bucket, topological


def words(values):
    """An array of int64 without gaps, as compiled walks read it."""
    return np.ascontiguousarray(values, np.int64)


class Arcs:
    """Arcs by the node at one end: those of node v are ``order[starts[v]:starts[v + 1]]``.

    Attributes
    ----------
    starts, order : ndarray of int64
    """

    def __init__(self, count, ends):
        self.starts, self.order = np.empty(count + 2, np.int64), np.empty(len(ends), np.int64)
        bucket(count, len(ends), ends.ctypes.data, self.starts.ctypes.data, self.order.ctypes.data)

    def of(self, node):
        """The arcs of a node."""
        return self.order[self.starts[node] : self.starts[node + 1]]


class ScorePlan:
    """What the recurrences of scores walk over: graphs side by side, each with a node behind it to which an arc of weight 0 goes from each accepting one.

    Attributes
    ----------
    count : int
        Of nodes.
    ends : ndarray
        The nodes behind the graphs.
    nodes : list of ndarray
        Those of each graph, in topological order.
    source, target : ndarray
        Of arcs, those of the graphs first.
    initial : ndarray
        1 where paths begin.
    into : Arcs
    """

    def __init__(self, topologies):
        first = np.cumsum([0, *(t.num_nodes + 1 for t in topologies)])
        self.count, self.ends = int(first[-1]), first[1:] - 1
        self.nodes = in_parallel(lambda k: first[k] + topologies[k].sorted_nodes, len(topologies))
        accepting = [np.flatnonzero(t.accept) for t in topologies]
        self.source = np.concatenate([k + a for arcs in ([t.source for t in topologies], accepting) for k, a in zip(first, arcs)])
        self.target = np.concatenate([*(k + t.target for k, t in zip(first, topologies)), *map(np.full, map(len, accepting), self.ends)])
        self.initial = np.concatenate([np.append(t.start, 0) for t in topologies])
        self.into = Arcs(self.count, self.target)

    def walk(self, step, *arrays):
        """Call a compiled walk for the nodes of each graph, on threads; returns the results."""
        addresses = [a.ctypes.data for a in (self.into.starts, self.into.order, self.source, *arrays)]
        return in_parallel(lambda k: step(len(self.nodes[k]), self.nodes[k].ctypes.data, *addresses), len(self.nodes))


class Topology:
    """Nodes and arcs.

    Parameters
    ----------
    start, accept : array of bool, shape (nodes,)
    source, target, ilabel, olabel : array of int, shape (arcs,)
    """

    def __init__(self, start, accept, source, target, ilabel, olabel):
        self.start, self.accept = np.asarray(start, bool), np.asarray(accept, bool)
        self.source, self.target, self.ilabel, self.olabel = map(words, (source, target, ilabel, olabel))

    num_nodes = property(lambda self: len(self.start))
    num_arcs = property(lambda self: len(self.source))

    @cached_property
    def into(self):
        """Arcs by their target."""
        return Arcs(self.num_nodes, self.target)

    @cached_property
    def out(self):
        """Arcs by their source."""
        return Arcs(self.num_nodes, self.source)

    @cached_property
    def plan(self):
        """What the recurrences of a score walk over."""
        return ScorePlan([self])

    by_ilabel = cached_property(lambda self: self._matched(self.ilabel))
    by_olabel = cached_property(lambda self: self._matched(self.olabel))

    def _matched(self, labels):
        """Arcs as `walks.search` takes them: starts, labels, order and targets, those of a node by label."""
        order = self.out.order
        first, second = self.source[order], labels[order]
        if np.any((first[1:] == first[:-1]) & (second[1:] < second[:-1])):
            order = np.lexsort((labels, self.source))
            second = labels[order]
        return self.out.starts, second, order, self.target

    @cached_property
    def sorted_nodes(self):
        """Nodes in topological order, and one behind them all.

        Raises
        ------
        GraphError
            There is a cycle; the message has one.
        """
        nodes = np.arange(self.num_nodes + 1)
        if np.any(self.source >= self.target):
            incoming = np.bincount(self.target, minlength=self.num_nodes)
            arrays = self.out.starts, self.out.order, self.target, incoming, nodes
            if topological(self.num_nodes, *(a.ctypes.data for a in arrays)) < self.num_nodes:
                raise GraphError(
                    f"the graph has a cycle, so its paths have no end: {self._cycle(incoming > 0)}. Scores are of graphs without, "
                    "and `remove` takes no cycle of arcs away"
                )
        return nodes

    def _cycle(self, left):
        """A cycle among the nodes that are `left`, each of which an arc from another one of them goes to."""
        at, met = int(np.argmax(left)), {}
        while at not in met:
            met[at] = len(met)
            at = next(node for node in self.source[self.into.of(at)].tolist() if left[node])
        names = [str(node) for node in (at, *reversed([*met][met[at] :]))]
        left_out = [f"({len(names) - 13} nodes)"] if len(names) > 20 else []
        return " -> ".join([*names[:8], *left_out, *names[-5:]] if left_out else names)

    def require_connected(self):
        """Refuse a node that leads to an accepting one, but is no start and has no incoming arc."""
        leads = reaching(self.num_nodes, self.source, self.target, np.flatnonzero(self.accept))
        strays = np.flatnonzero(leads & ~self.start & (np.bincount(self.target, minlength=self.num_nodes) == 0))
        if len(strays):
            raise GraphError(
                f"node {strays[0]} is no start, no arc goes to it, and it leads to an accepting node: GTN refuses such a graph; without "
                "connected=True the node is on no path"
            )

    def difference(self, other):
        """What is not the same in another topology, in words; None if nothing is."""
        if self is other:
            return None
        for name in ("num_nodes", "num_arcs"):
            if getattr(self, name) != getattr(other, name):
                return f"one has {getattr(self, name)} {name[4:]}, the other {getattr(other, name)}"
        for name in ("start", "accept", "source", "target", "ilabel", "olabel"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if np.any(mine != theirs):
                at = int(np.argmax(mine != theirs))
                what = "node" if name in ("start", "accept") else "arc"
                return f"{name} of {what} {at} is {mine[at].item()} in one and {theirs[at].item()} in the other"
        return None


def in_parallel(work, count):
    """What ``work(k)`` gives for each graph `k` of a batch, on threads; an error says of which graph."""

    def named(k):
        try:
            return work(k)
        except TapegradError as error:
            raise type(error)(f"{k} of the batch: {error.message}") from None

    return pool.run(work if count == 1 else named, count)


def reaching(count, source, target, ends):
    """For each node whether arcs lead from it to one of `ends`."""
    into, left, nodes = Arcs(count, target), np.ones(count, np.int64), np.empty(count, np.int64)
    left[ends] = 0
    topological(count, *(a.ctypes.data for a in (into.starts, into.order, source, left, nodes)))
    return left == 0


#: One more than the largest label.
LABELS = 1 << 62


def checked_labels(labels, what):
    """Labels as int64; an error for what is none."""
    array = np.asarray(labels)
    if array.size and (array.dtype.kind not in "iu" or array.min() < EPSILON or array.max() >= LABELS):
        wrong = next(n for n in array.ravel().tolist() if not isinstance(n, int) or not EPSILON <= n < LABELS)
        raise GraphError(f"{what} is {wrong!r}: labels are integers, 0, 1, 2, ..., and epsilon, which is {EPSILON}")
    return words(array)

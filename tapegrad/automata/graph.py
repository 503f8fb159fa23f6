"""`Graph`: a weighted automaton whose weights are one tensor."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from operator import index
from typing import Any, NamedTuple, Protocol, TypeAlias, overload

import numpy as np

from ..array import functions as F
from ..array.creation import tensor
from ..array.differentiable import Differentiable
from ..array.record import guard_on, plain, tracked
from ..array.typing import ArrayLike, TensorLike
from ..autograd.gradients import backward as sweep
from ..common.errors import DtypeError, GradientError, GraphError, ShapeError
from ..common.host_functions import host_function
from .topology import LABELS, Topology, checked_labels
from .walks import EPSILON


class Arc(NamedTuple):
    """One arc, with its weight as a number; iterating over a graph yields its arcs.

    Parameters
    ----------
    source, target : int
        Nodes.
    ilabel, olabel : int
        The labels that it reads and writes.
    weight : float

    Examples
    --------
    >>> from tapegrad import automata
    >>> [arc.ilabel for arc in automata.linear_graph(1, 3)]
    [0, 1, 2]
    """

    source: int
    target: int
    ilabel: int
    olabel: int
    weight: float


class Graph:
    """A weighted finite-state acceptor or transducer.

    Parameters
    ----------
    calc_grad : bool
        Whether derivatives with respect to its weights are wanted.

    Notes
    -----
    Build a graph first, by `add_node` and `add_arc`, and then use it: the argument of an operation cannot grow. Nodes and arcs are numbered
    from 0; labels are integers from 0, or `epsilon`.  The weights are one float64 tensor: a leaf, or the result of an operation on graphs.

    Examples
    --------
    >>> from tapegrad import automata
    >>> g = automata.Graph()
    >>> first, last = g.add_node(start=True), g.add_node(accept=True)
    >>> g.add_arc(first, last, 0, weight=1.0), g.add_arc(first, last, 1, weight=3.0)
    (0, 1)
    >>> score = automata.forward_score(g)
    >>> score.item()
    3.1269280110429727
    >>> score.backward()
    >>> g.grad().weights()
    tensor([0.1192, 0.8808])
    """

    def __init__(self, calc_grad: bool = True) -> None:
        self._flag = bool(calc_grad)
        # What is added to, until the graph is used.
        self._start: list[bool] | None = []
        self._accept: list[bool] = []
        self._arcs: list[tuple[int, int, int, int]] = []
        self._numbers: list[float] = []
        self._topology: Topology | None = None
        self._weights: Any = None

    # -- building -------------------------------------------------------------------------------
    def _growing(self, what):
        if self._start is None:
            raise GraphError(f"{what}: the graph has been used, and what was computed from it belongs to its arcs; build it whole first, or another one")
        self._topology = None
        return self._start

    def add_node(self, start: bool = False, accept: bool = False) -> int:
        """Add a node; returns its number.

        Parameters
        ----------
        start, accept : bool
            Whether paths may begin, and end, there.
        """
        nodes = self._growing("add_node")
        nodes.append(bool(start))
        self._accept.append(bool(accept))
        return len(nodes) - 1

    def add_arc(self, source: int, target: int, ilabel: int, olabel: int | None = None, weight: float = 0.0) -> int:
        """Add an arc; returns its number.

        Parameters
        ----------
        source, target : int
            Nodes.
        ilabel, olabel : int
            What it reads and writes, `epsilon` for nothing; it writes what it reads by default.
        weight : float

        Raises
        ------
        GraphError
            There is no such node, a label is none, the weight is not a number, or the graph has been used.
        """
        number, nodes = len(self._arcs), self._growing("add_arc")
        for name, node in (("source", source), ("target", target)):
            if not 0 <= index(node) < len(nodes):
                raise GraphError(f"arc {number}: its {name} is node {node}, and the graph has {len(nodes)} nodes (the first is 0)")
        olabel = ilabel if olabel is None else olabel
        for name, label in (("ilabel", ilabel), ("olabel", olabel)):
            if not isinstance(label, int) or not EPSILON <= label < LABELS:
                checked_labels(label, f"arc {number}: its {name}")
        if isinstance(weight, Differentiable):
            raise GraphError(f"arc {number}: its weight is a tensor; give those of all arcs at once, set_weights(np.stack([...]))")
        if weight != weight:
            raise GraphError(f"arc {number}, {source} -> {target}: its weight is NaN")
        self._numbers.append(float(weight))
        self._arcs.append((index(source), index(target), index(ilabel), index(olabel)))
        return number

    @property
    def topology(self) -> Topology:
        """Nodes, arcs and labels, as arrays that are never changed."""
        if self._topology is None:
            self._topology = Topology(self._start, self._accept, *np.array(self._arcs, np.int64).reshape(-1, 4).T)
        return self._topology

    # -- weights --------------------------------------------------------------------------------
    def weights(self) -> Any:
        """The weights, one for each arc: a tensor on which derivatives depend if `calc_grad`."""
        if self._weights is None:
            self._weights = tensor(np.array(self._numbers), requires_grad=self._flag)
        self._topology, self._start = self.topology, None
        return self._weights

    @property
    def values(self) -> np.ndarray:
        """The weights as an array, to look at."""
        return np.array(self._numbers) if self._weights is None else np.asarray(self._weights.detach())

    def set_weights(self, weights: TensorLike) -> None:
        """Give all arcs their weights.

        Parameters
        ----------
        weights : array-like or Tensor
            As many numbers as there are arcs, in C order.  A tensor is used as it is: derivatives flow through it,
            unless `calc_grad` is False.

        Raises
        ------
        ShapeError
            There are more, or fewer.
        GraphError
            One is NaN.
        """
        numbers = as_weights(weights)
        if numbers.size != self.num_arcs():
            raise ShapeError(f"set_weights: {numbers.size} weights for {self.num_arcs()} arcs")
        nan = int(guard_on(_first_nan(), numbers))
        if nan >= 0:
            raise GraphError(f"set_weights: the weight of arc {nan}, {self.topology.source[nan]} -> {self.topology.target[nan]}, is NaN")
        if isinstance(weights, Differentiable):
            self._weights = numbers if self._flag else numbers.detach()
            self.weights()
        else:
            self._numbers, self._weights = np.asarray(numbers).tolist(), None

    def item(self) -> float:
        """The weight of the only arc.

        Raises
        ------
        GraphError
            There is not one arc.
        """
        if self.num_arcs() != 1:
            raise GraphError(f"item() is of a graph with one arc, and this one has {self.num_arcs()}")
        return float(self.values[0] if self._weights is None else self._weights.item())

    # -- derivatives ------------------------------------------------------------------------------
    @property
    def calc_grad(self) -> bool:
        """Whether derivatives by its weights can be asked for."""
        return self._flag if self._weights is None else tracked(self._weights)

    def grad(self) -> Graph:
        """The derivative by the weights, as a graph of the same arcs.

        Raises
        ------
        GradientError
            `calc_grad` is False, or no backward pass has come by yet.
        """
        if not self.calc_grad:
            raise GradientError("the gradient of a graph that was made with calc_grad=False, or computed from such graphs only")
        gradient = self.weights().grad
        if gradient is None:
            raise GradientError(
                "the graph has no gradient: backward() has not come by, or the graph was computed, whose gradient is let go unless you "
                "call g.weights().retain_grad() first"
            )
        return made(self.topology, gradient)

    def zero_grad(self) -> None:
        """Forget the gradient."""
        if self._weights is not None:
            self._weights.grad = None

    def backward(self, retain_graph: bool = False) -> None:
        """Compute derivatives by all graphs this one was computed from: see `automata.backward`.

        Parameters
        ----------
        retain_graph : bool
        """
        sweep_from([self], retain_graph)

    # -- looking at it --------------------------------------------------------------------------------
    def num_nodes(self) -> int:
        """How many nodes there are."""
        return self.topology.num_nodes

    def num_arcs(self) -> int:
        """How many arcs there are."""
        return self.topology.num_arcs

    def start(self) -> list[int]:
        """The nodes in which paths begin."""
        return np.flatnonzero(self.topology.start).tolist()

    def accept(self) -> list[int]:
        """The nodes in which paths end."""
        return np.flatnonzero(self.topology.accept).tolist()

    def out(self, node: int) -> list[int]:
        """The arcs from a node."""
        return self.topology.out.of(self._node(node)).tolist()

    def into(self, node: int) -> list[int]:
        """The arcs to a node."""
        return self.topology.into.of(self._node(node)).tolist()

    def _node(self, node):
        if not 0 <= index(node) < self.num_nodes():
            raise GraphError(f"there is no node {node}: the graph has {self.num_nodes()} nodes (the first is 0)")
        return index(node)

    def labels_to_list(self, ilabel: bool = True) -> list[int]:
        """The labels of all arcs.

        Parameters
        ----------
        ilabel : bool
            Those that they read, else those that they write.
        """
        return (self.topology.ilabel if ilabel else self.topology.olabel).tolist()

    def arc_sort(self, olabel: bool = False) -> None:
        """Sort the arcs of each node by label, for operations that match them; they do so themselves, and arcs keep their numbers.

        Parameters
        ----------
        olabel : bool
            By what they write, else by what they read.
        """
        getattr(self.topology, "by_olabel" if olabel else "by_ilabel")

    def __iter__(self) -> Iterator[Arc]:
        t = self.topology
        return map(Arc, *(column.tolist() for column in (t.source, t.target, t.ilabel, t.olabel, self.values)))

    def __repr__(self) -> str:
        nodes, arcs = self.num_nodes(), self.num_arcs()
        return f"<Graph of {nodes} nodes and {arcs} arcs{'' if self.calc_grad else ', calc_grad=False'}>"


@host_function
def _first_nan(weights):
    """The place of the first NaN, -1 if there is none."""
    wrong = np.isnan(weights).reshape(-1)
    return np.int64(np.argmax(wrong) if wrong.any() else -1)


def sweep_from(graphs, retain_graph):
    """Differentiate the sum of all weights of graphs."""
    if not all(g.calc_grad for g in graphs):
        raise GradientError("backward() from a graph that was computed from graphs with calc_grad=False only")
    sweep([g.weights() for g in graphs], [np.ones(g.num_arcs()) for g in graphs], retain_graph=retain_graph)


def made(topology: Topology, weights: Any) -> Graph:
    """The graph of a topology and its weights, computed ones or a constant."""
    graph = Graph()
    graph._topology, graph._start = topology, None
    graph._weights = weights if isinstance(weights, Differentiable) else plain(np.asarray(weights, np.float64))
    return graph


def as_weights(numbers: TensorLike) -> Any:
    """Numbers as the weights of arcs: a flat tensor of float64."""
    if not isinstance(numbers, Differentiable):
        array = np.asarray(numbers)
        if array.dtype.kind not in "fiub":
            raise DtypeError(f"weights of dtype {array.dtype}: they are numbers")
        return plain(array.astype(np.float64).reshape(-1))
    flat = F.reshape(numbers, (-1,))
    return flat if flat.dtype == np.float64 else F.astype(flat, np.float64)


#: A graph, or a list of them.
Graphs: TypeAlias = Any


class GraphOperation(Protocol):
    """A function of graphs, or of lists of them, which gives a list."""

    @overload
    def __call__(self, *graphs: Graph | int | None, **options: Any) -> Graph: ...
    @overload
    def __call__(self, *graphs: Any, **options: Any) -> list[Graph]: ...


def of_lists(function: Callable[..., list[Graph]]) -> GraphOperation:
    """Decorator: a function of lists takes graphs, too; a graph beside a list stands for as many. What is no graph is named."""
    signature = inspect.signature(function)
    needed = sum(p.default is p.empty for p in signature.parameters.values())

    @wraps(function)
    def called(*args, **options):
        call = signature.bind(*args, **options)
        call.apply_defaults()
        lengths = {len(a) for a in call.args if isinstance(a, (list, tuple))}
        if len(lengths) > 1:
            raise GraphError(f"{function.__name__}: lists of {' and '.join(map(str, sorted(lengths)))} graphs, which do not go together")
        columns = [a if isinstance(a, (list, tuple)) else [a] * max(lengths, default=1) for a in call.args]
        for row in zip(*columns[:needed]):
            require_graphs(function.__name__, row)
        results = function(*columns) if columns[0] else []
        return results if lengths else results[0]

    return called


def of_graphs(function: Callable[..., Graph]) -> GraphOperation:
    """Decorator: a function of graphs takes lists of them, too."""
    return of_lists(wraps(function)(lambda *columns: [function(*row) for row in zip(*columns)]))


def require_graphs(name, things):
    """Refuse what is not a graph."""
    for k, thing in enumerate(things):
        if not isinstance(thing, Graph):
            raise GraphError(f"{name}: argument {k} is of type {type(thing).__name__}, not a graph")


def scalar_graph(weight: TensorLike, calc_grad: bool = True) -> Graph:
    """Make the graph of two nodes and one arc, with label 0.

    Parameters
    ----------
    weight : float or Tensor
    calc_grad : bool

    Returns
    -------
    Graph

    Examples
    --------
    >>> from tapegrad import automata
    >>> g1, g2, g3 = automata.scalar_graph(1.0), automata.scalar_graph(2.0, calc_grad=False), automata.scalar_graph(3.0)
    >>> g4 = automata.negate(automata.subtract(automata.add(g1, g2), g3))
    >>> g4.backward()
    >>> g1.grad().item(), g3.grad().item()
    (-1.0, 1.0)
    """
    graph = Graph(calc_grad)
    graph.add_node(start=True)
    graph.add_node(accept=True)
    graph.add_arc(0, 1, 0)
    graph.set_weights(F.reshape(weight, (1,)) if isinstance(weight, Differentiable) else [weight])
    return graph


def linear_graph(m: int, n: int, weights: TensorLike | None = None, calc_grad: bool = True) -> Graph:
    """Make a chain of `m` steps, each of which reads one of the labels 0, ..., n - 1.

    Parameters
    ----------
    m, n : int
    weights : array-like or Tensor, shape (m, n), optional
        0 by default.
    calc_grad : bool

    Returns
    -------
    Graph
        Arc ``t * n + k`` goes from node t to node t + 1 and has label k.

    Examples
    --------
    >>> import numpy as np
    >>> from tapegrad import automata
    >>> g = automata.linear_graph(3, 2, np.log([[0.5, 0.5], [0.1, 0.9], [0.2, 0.8]]))
    >>> g
    <Graph of 4 nodes and 6 arcs>
    >>> abs(automata.forward_score(g).item()) < 1e-15
    True
    """
    if index(m) < 0 or index(n) < 0:
        raise GraphError(f"linear_graph of {m} steps and {n} labels: neither can be below 0")
    graph = Graph(calc_grad)
    graph._topology, graph._start = chain(np.tile(np.arange(n), m), m), None
    graph.set_weights(np.zeros(m * n) if weights is None else weights)
    return graph


def chain(labels: ArrayLike, steps: int) -> Topology:
    """Steps that each read one of as many labels."""
    labels, nodes = checked_labels(labels, "a label"), np.arange(steps + 1)
    source = np.repeat(nodes[:-1], len(labels) // max(steps, 1))
    return Topology(nodes == 0, nodes == steps, source, source + 1, labels, labels)


#: The label of an arc that reads, or writes, nothing.
epsilon = EPSILON

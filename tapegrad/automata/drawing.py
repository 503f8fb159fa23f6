"""Pictures of graphs: text for Graphviz, and drawings by matplotlib that do without."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..common.errors import GraphError
from ..common.pictures import new_figure, saved
from ..common.uninterrupted import imported
from .graph import EPSILON, Graph

Symbols = Mapping[int, str] | Sequence[str]


def _names(graph: Graph, isymbols, osymbols, digits):
    """What is written at each arc."""

    def name(label, symbols):
        try:
            return "ε" if label == EPSILON else str(label) if symbols is None else symbols[label]
        except LookupError:
            raise GraphError(f"the symbols have no name for label {label}") from None

    osymbols = isymbols if osymbols is None else osymbols
    for arc in graph:
        reads, writes = name(arc.ilabel, isymbols), name(arc.olabel, osymbols)
        weight = f"{arc.weight:.{digits}g}"
        yield arc, (reads if arc.ilabel == arc.olabel and reads == writes else f"{reads}:{writes}") + f"/{weight}" * (weight not in ("0", "-0"))


def dot(graph: Graph, isymbols: Symbols | None = None, osymbols: Symbols | None = None, digits: int = 4) -> str:
    """Return a graph as text for Graphviz.

    Parameters
    ----------
    graph : Graph
    isymbols, osymbols : mapping or sequence, optional
        Names of input and output labels; `osymbols` is `isymbols` by default.
    digits : int
        Significant digits of the weights.

    Returns
    -------
    str

    Examples
    --------
    >>> from tapegrad import automata
    >>> print(automata.dot(automata.scalar_graph(0.5)))
    digraph {
      rankdir = LR;
      0 [shape = circle, penwidth = 2];
      1 [shape = doublecircle];
      0 -> 1 [label = "0/0.5"];
    }
    """
    t = graph.topology
    lines = [
        f"  {k} [shape = {'doublecircle' if accept else 'circle'}{', penwidth = 2' if start else ''}];"
        for k, (start, accept) in enumerate(zip(t.start, t.accept))
    ]
    for arc, text in _names(graph, isymbols, osymbols, digits):
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'  {arc.source} -> {arc.target} [label = "{quoted}"];')
    return "\n".join(["digraph {", "  rankdir = LR;", *lines, "}"])


def draw(
    graph: Graph, path: str | os.PathLike[str] | None = None, isymbols: Symbols | None = None, osymbols: Symbols | None = None, digits: int = 3
) -> Any:
    """Draw a graph with matplotlib: start nodes with a thick rim, accept nodes with two rims.

    Parameters
    ----------
    graph : Graph
        A small one: each node has its own column or row.
    path : path, optional
        Where to save the picture; the file extension gives its format.
    isymbols, osymbols : mapping or sequence, optional
        Names of input and output labels; `osymbols` is `isymbols` by default.
    digits : int
        Significant digits of the weights.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    MissingPackageError
        If matplotlib is not installed.

    Examples
    --------
    >>> from tapegrad import automata
    >>> automata.draw(automata.linear_graph(2, 2), isymbols="ab")  # doctest: +SKIP
    <Figure size 432x120 with 1 Axes>
    """
    places, t = _places(graph), graph.topology
    texts = defaultdict(list)
    for arc, text in _names(graph, isymbols, osymbols, digits):
        texts[arc.source, arc.target].append(text)
    # Loops stand above their nodes, with what is written at them.
    lines = max([len(parts) for (source, target), parts in texts.items() if source == target], default=0)
    low, high = places.min(axis=0, initial=0.0) - (0.6, 0.5), places.max(axis=0, initial=0.0) + (0.6, 0.5 + 0.12 * lines)
    figure = new_figure("draw (automata.dot(graph) gives text for Graphviz without)", 1.2 * (high - low))
    patches = imported("matplotlib.patches")
    axes = figure.subplots()
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    axes.axis("off")
    for (source, target), parts in texts.items():
        _arrow(axes, patches, places, source, target, "\n".join(parts), (target, source) in texts)
    for node, (x, y) in enumerate(places):
        for radius, width in [(_RADIUS, 1.0 + 1.4 * t.start[node]), (0.78 * _RADIUS, 1.0)][: 1 + t.accept[node]]:
            axes.add_patch(patches.Circle((x, y), radius, facecolor="white", edgecolor="black", linewidth=width, zorder=3))
        axes.text(x, y, str(node), ha="center", va="center", fontsize=9, zorder=4)
    return saved(figure, path, dpi=120)


_RADIUS = 0.17


def _places(graph):
    """Where nodes are drawn: columns by how far they are from a start, along arcs to nodes that are met later; rows within."""
    t, order = graph.topology, graph.start()
    met = set(order)
    for node in order:
        after = [n for n in t.target[graph.out(node)].tolist() if n not in met]
        order += dict.fromkeys(after)
        met.update(after)
    place = {node: k for k, node in enumerate(order)}
    depth = dict.fromkeys(order, 0)
    for node in order:
        for other in t.target[graph.out(node)].tolist():
            if place[other] > place[node]:
                depth[other] = max(depth[other], depth[node] + 1)
    columns = defaultdict(list)
    for node in range(graph.num_nodes()):
        columns[depth.get(node, 0)].append(node)
    places = np.zeros((graph.num_nodes(), 2))
    for column, nodes in columns.items():
        for row, node in enumerate(nodes):
            places[node] = 1.2 * column, 0.5 * (len(nodes) - 1) - row
    return places


def _arrow(axes, patches, places, source, target, text, both):
    """An arrow from node to node, and what stands at it."""
    a, b = places[source], places[target]
    if source == target:
        begin, end, bow, spot, options = a + (-0.11, 0.12), a + (0.11, 0.12), -1.9, a + (0.0, 0.36), {"va": "bottom"}
    else:
        step = b - a
        length = float(np.hypot(*step))
        # Beside another node, or an arrow back, it goes in a bow.
        bow = 0.28 if both or any(_between(p, a, b) for k, p in enumerate(places) if k not in (source, target)) else 0.0
        normal, inset = np.array([step[1], -step[0]]) / length, step / length * (_RADIUS + 0.02)
        # Before the middle, where arrows cross.
        begin, end, spot = a + inset, b - inset, a + (0.5 if bow or not step[1] else 0.4) * step + normal * bow * length / 2
        options = {"va": "center", "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.8}, "zorder": 2}
    axes.add_patch(patches.FancyArrowPatch(begin, end, connectionstyle=f"arc3,rad={bow}", arrowstyle="-|>", mutation_scale=10, color="#444444"))
    axes.text(*spot, text, ha="center", fontsize=8, color="#1f5a99", **options)


def _between(point, a, b):
    step = b - a
    share = float((point - a) @ step / (step @ step))
    return 0.0 < share < 1.0 and float(np.hypot(*(a + share * step - point))) < 2 * _RADIUS

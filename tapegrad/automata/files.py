"""Graphs in files: GTN's text format.

The numbers of start nodes on the first line and of accept nodes on the second, then a line for each arc, ``source target ilabel
[olabel [weight]]``.  There are nodes up to the largest number in the file.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Any, TextIO

from ..common.errors import GraphError
from .graph import Graph


def save(graph: Graph, file: str | os.PathLike[str] | TextIO) -> None:
    """Write a graph as text, with weights that are read back as the same numbers.

    Parameters
    ----------
    graph : Graph
    file : path or text file
        An existing file is replaced.

    Returns
    -------
    None

    Raises
    ------
    GraphError
        If the last nodes have no arc, and no path begins or ends there: the file could not record them.

    Examples
    --------
    >>> import io
    >>> from tapegrad import automata
    >>> file = io.StringIO()
    >>> automata.save(automata.linear_graph(1, 2), file)
    >>> print(file.getvalue())
    0
    1
    0 1 0 0 0.0
    0 1 1 1 0.0
    <BLANKLINE>
    """
    t, ends = graph.topology, [graph.start(), graph.accept()]
    named = max([-1, *ends[0], *ends[1], *t.source.tolist(), *t.target.tolist()])
    if named < t.num_nodes - 1:
        raise GraphError(f"save: the file could not say that there is a node {t.num_nodes - 1}: it has no arc and no path begins or ends there")
    lines = [" ".join(map(str, nodes)) for nodes in ends] + [" ".join(map(repr, arc)) for arc in graph]
    text = "".join(f"{line}\n" for line in lines)
    with _opened(file, "w") as opened:
        opened.write(text)


def load(file: str | os.PathLike[str] | TextIO, calc_grad: bool = True) -> Graph:
    """Read a graph from text.

    Parameters
    ----------
    file : path or text file
    calc_grad : bool

    Returns
    -------
    Graph

    Raises
    ------
    GraphError
        If a line is malformed; the message names file and line.

    Examples
    --------
    >>> import io
    >>> from tapegrad import automata
    >>> automata.load(io.StringIO("0\\n1\\n0 1 5\\n0 1 6 7 -1.5\\n")).labels_to_list(ilabel=False)
    [5, 7]
    """
    with _opened(file, "r") as opened:
        return _read(opened.read(), getattr(opened, "name", "the file"), calc_grad)


def _opened(file, mode):
    return open(file, mode, encoding="utf-8") if isinstance(file, (str, os.PathLike)) else nullcontext(file)


def _read(text, name, calc_grad):
    lines = text.splitlines()
    if len(lines) < 2:
        raise GraphError(f"{name}, line {len(lines) + 1}: it ends before the nodes in which paths {('begin', 'end')[len(lines)]}")
    ends = [_nodes(line, f"{name}, line {k + 1}") for k, line in enumerate(lines[:2])]
    arcs = [_arc(line, f"{name}, line {k}") for k, line in enumerate(lines[2:], 3) if line.strip()]
    graph = Graph(calc_grad)
    start, accept = map(set, ends)
    for node in range(max([-1, *start, *accept, *(n for _, arc in arcs for n in arc[:2])]) + 1):
        graph.add_node(node in start, node in accept)
    for where, arc in arcs:
        try:
            graph.add_arc(*arc)
        except GraphError as error:
            raise GraphError(f"{where}: {error.message}") from None
    return graph


def _nodes(line, where):
    nodes = [_number(int, word, "node", where) for word in line.split()]
    twice = next((n for k, n in enumerate(nodes) if n in nodes[:k]), None)
    if twice is not None:
        raise GraphError(f"{where}: node {twice} is there twice")
    return nodes


def _arc(line, where):
    """Where an arc stands, and what `add_arc` takes."""
    words: list[Any] = line.split()
    if not 3 <= len(words) <= 5:
        raise GraphError(f"{where}: {line.strip()!r} has {len(words)} columns; an arc has three to five: source target ilabel [olabel [weight]]")
    kinds = ("node", "node", "label", "label", "weight")
    return where, [_number(float if kind == "weight" else int, word, kind, where) for word, kind in zip(words, kinds)]


def _number(kind, word, what, where):
    try:
        number = kind(word)
    except ValueError:
        raise GraphError(f"{where}: {word!r} is no {what}") from None
    if what == "node" and number < 0:
        raise GraphError(f"{where}: there is no node {number}")
    return number

"""The pictures of docs/automata.md: what CTC composes, and an edit transducer.

Run it with::

    python examples/graphs.py docs

It needs ``pip install .[examples]``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tapegrad import automata

SYMBOLS = ["-", "a", "b"]


def spelling(labels, blank=0):
    """What CTC takes for a sequence of labels: each once or more, with blanks between where there are any."""
    graph = automata.Graph(calc_grad=False)
    spelt = [blank]
    for label in labels:
        spelt += [label, blank]
    for k, label in enumerate(spelt):
        graph.add_node(start=k == 0, accept=k >= len(spelt) - 2)
        graph.add_arc(k, k, label)
        if k:
            graph.add_arc(k - 1, k, label)
        if k > 1 and label not in (blank, spelt[k - 2]):
            graph.add_arc(k - 2, k, label)
    return graph


def edits():
    """A transducer that writes what it reads, or something else at a cost of 1 for each letter."""
    graph, nothing = automata.Graph(calc_grad=False), automata.epsilon
    node = graph.add_node(start=True, accept=True)
    for x, y, cost in [(1, 1, 0), (2, 2, 0), (1, 2, 1), (2, 1, 1), (1, nothing, 1), (nothing, 1, 1), (2, nothing, 1), (nothing, 2, 1)]:
        graph.add_arc(node, node, x, y, -cost)
    return graph


def main(folder):
    """Draw the pictures into a folder; returns their paths."""
    pictures = {
        "automata_spelling.png": spelling([1, 2]),
        "automata_ctc.png": automata.compose(spelling([1, 2]), automata.linear_graph(4, 3)),
        "automata_edits.png": edits(),
    }
    for name, graph in pictures.items():
        automata.draw(graph, Path(folder, name), isymbols=SYMBOLS)
    return [Path(folder, name) for name in pictures]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", help="where to save the pictures")
    main(parser.parse_args().folder)

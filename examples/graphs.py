"""The pictures of docs/automata.md: what CTC composes, and an edit transducer
===========================================================================

Run it with::

    python examples/graphs.py docs
    python examples/graphs.py --plot composed.png

It needs ``pip install .[examples]``.
"""
# sphinx_gallery_thumbnail_path = "gallery/graphs.png"

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


def main(folder, plot=None):
    """Draw the pictures into a folder, or only what CTC composes, to the file `plot`; returns their paths."""
    pictures = {
        "automata_spelling.png": spelling([1, 2]),
        "automata_ctc.png": automata.compose(spelling([1, 2]), automata.linear_graph(4, 3)),
        "automata_edits.png": edits(),
    }
    drawn = {Path(plot): pictures["automata_ctc.png"]} if plot else {Path(folder, name): graph for name, graph in pictures.items()}
    for path, graph in drawn.items():
        automata.draw(graph, path, isymbols=SYMBOLS)
    return list(drawn)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", default=".", help="where to save the pictures (default: here)")
    parser.add_argument("--plot", metavar="FILE", help="draw only what CTC composes, to FILE")
    options = parser.parse_args()
    main(options.folder, options.plot)

"""What `find` returns: which instructions are one line of a loop.

A structure is a tree.  `Line` is one instruction of the rolled program and
knows which instructions of the original it stands for; `Repeat` is a loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

#: A loop that stands for so many instructions or less each time is written out.
STRAIGHT = 12


@dataclass(eq=False, slots=True)
class Line:
    """One instruction template.

    Attributes
    ----------
    members : ndarray of int64
        Positions of the instructions it stands for, in order of execution, which is their own order.
    """

    members: np.ndarray


@dataclass(eq=False, slots=True)
class Repeat:
    """A loop; it runs at least once each time it is reached.

    Attributes
    ----------
    extent : int, or ndarray of int64
        Iterations; if they are not always the same, one number for each time the loop is reached.
    body : list of Line and Repeat
    """

    extent: object
    body: list


class Structure:
    """The rolled form of a sequence of instructions.

    Parameters
    ----------
    symbols, ends : ndarray of int64
        The tree in preorder: what each node is (a loop from `base` on) and where its part of the list ends.
    base : int
        First number of loops.
    places : ndarray of int64
        The node of each instruction.
    loops, counts : ndarray of int64
        For each time a loop was reached, in order: its node, and its iterations.
    """

    def __init__(self, symbols, ends, base, places, loops, counts):
        self.symbols = symbols
        self.ends = ends
        self.base = base
        self.places = places
        self.loops = loops
        self.counts = counts

    @cached_property
    def nodes(self):
        """The tree: a list of `Line` and `Repeat`."""
        members, bounds = _grouped(self.places, self.symbols.size)
        reached, rows = _grouped(self.loops, self.symbols.size)
        counts = self.counts[reached]
        symbols, ends, base = self.symbols.tolist(), self.ends.tolist(), self.base
        bounds, rows = bounds.tolist(), rows.tolist()

        def build(first, last):
            nodes = []
            while first < last:
                if symbols[first] < base:
                    nodes.append(Line(members[bounds[first] : bounds[first + 1]]))
                else:
                    extent = counts[rows[first] : rows[first + 1]]
                    body = build(first + 1, ends[first])
                    if (extent == extent[0]).all():
                        extent = int(extent[0])
                    if isinstance(extent, int) and _short(extent, body):
                        nodes.extend(Line(line.members[k::extent]) for k in range(extent) for line in body)
                    elif isinstance(extent, int) and extent == 1:
                        nodes.extend(body)
                    else:
                        nodes.append(Repeat(extent, body))
                first = ends[first]
            return nodes

        return build(0, len(symbols))

    def __str__(self):
        text = []

        def show(nodes, indent):
            for node in nodes:
                if isinstance(node, Line):
                    text.append(indent + _shortly(node.members))
                else:
                    extent = node.extent if isinstance(node.extent, int) else f"[{_shortly(node.extent)}]"
                    text.append(f"{indent}repeat {extent}:")
                    show(node.body, indent + "    ")

        show(self.nodes, "")
        return "\n".join(text)


def _short(extent, body):
    return extent * len(body) <= STRAIGHT and all(isinstance(node, Line) for node in body)


def _shortly(numbers):
    numbers = [str(number) for number in (numbers if len(numbers) < 6 else [*numbers[:3], "...", numbers[-1]])]
    return ", ".join(numbers)


def _grouped(keys, size):
    """Positions sorted by key, in order where keys are equal, and where each key begins."""
    order = np.argsort(keys, kind="stable")
    return order, np.concatenate(([0], np.cumsum(np.bincount(keys, minlength=size)))).astype(np.int64)

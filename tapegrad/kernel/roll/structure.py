"""What `find` returns: which instructions are one line of a loop.

A structure is a tree.  `Line` is one instruction of the rolled program and
knows which instructions of the original it stands for; `Repeat` is a loop.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...common.uninterrupted import cached_property

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


class RolledStructure:
    """The rolled form of a sequence of instructions.

    Parameters
    ----------
    top : GrammarLoop
        The sequence, as a loop of one iteration.
    loops : list of GrammarLoop
        The grammar: token ``base + k`` is ``loops[k]``.
    base : int
    """

    def __init__(self, top, loops, base):
        self.top, self.base = top, base
        #: Of each loop: it, where each execution begins, and the number of its first iteration.
        self.loops = []
        for loop in loops:
            begins = np.cumsum(loop.counts) - loop.counts
            firsts = loop.starts[begins, 0]
            order = np.argsort(firsts)
            self.loops.append((loop, firsts[order], begins[order], loop.counts[order]))

    @cached_property
    def nodes(self):
        """The tree: a list of `Line` and `Repeat`."""
        return self._tree(self.top.text, self.top.starts)

    def _tree(self, text, starts):
        """The nodes of a text whose tokens begin at `starts`, a row for each time that it is executed."""
        nodes = []
        for token, at in zip(text.tolist(), np.ascontiguousarray(starts.T)):
            if token < self.base:
                nodes.append(Line(at))
                continue
            loop, firsts, begins, counts = self.loops[token - self.base]
            executions = np.searchsorted(firsts, at)
            extent = counts[executions]
            body = self._tree(loop.text, loop.starts[iterations(begins[executions], extent)])
            if (extent == extent[0]).all():
                extent = int(extent[0])
            if isinstance(extent, int) and _short(extent, body):
                nodes.extend(Line(line.members[k::extent]) for k in range(extent) for line in body)
            elif isinstance(extent, int) and extent == 1:
                nodes.extend(body)
            else:
                nodes.append(Repeat(extent, body))
        return nodes

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


def iterations(firsts, counts, step=1):
    """Numbers of the iterations of executions that begin with `firsts`, in order; a `step` apart."""
    return np.repeat(firsts - step * (np.cumsum(counts) - counts), counts) + step * np.arange(counts.sum())

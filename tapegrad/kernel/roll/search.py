"""The rounds of the search: text to shorter text, until nothing repeats (see the essay of this folder).

What `find` returns is a tree.  `Line` is one instruction of the rolled program and
knows which instructions of the original it stands for; `Repeat` is a loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...common.uninterrupted import cached_property
from .runs import disjoint, find_runs

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
            if isinstance(extent, int) and extent * len(body) <= STRAIGHT and all(isinstance(node, Line) for node in body):
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


def _shortly(numbers):
    numbers = [str(number) for number in (numbers if len(numbers) < 6 else [*numbers[:3], "...", numbers[-1]])]
    return ", ".join(numbers)


def iterations(firsts, counts, step=1):
    """Numbers of the iterations of executions that begin with `firsts`, in order; a `step` apart."""
    return np.repeat(firsts - step * (np.cumsum(counts) - counts), counts) + step * np.arange(counts.sum())


#: Programs and bodies up to this length may stay straight.
LINES = 128

#: What is worth folding, first to last: how many periods, how many lines a run saves, and what part of the
#: text all runs of the class save.
STAGES = (
    (16, 256, 0.0),
    (8, 64, 0.0),
    (4, 3, 1 / 8),
    (4, 3, 1 / 16),
    (4, 3, 1 / 32),
    (4, 32, 1 / 64),
    (4, 3, 1 / 64),
    (3, 3, 1 / 32),
    (4, 32, 0.0),
)

#: Lines that a loop counts for besides its body.
LOOP = 8

#: Rounds of one text, at most (each round folds something).
ROUNDS = 64


@dataclass(eq=False)
class GrammarLoop:
    """A loop of the grammar.

    Attributes
    ----------
    text : ndarray of int64
        Tokens of one iteration.
    weight : int
        Lines of its token: `LOOP`, and those of the text.
    counts : ndarray of int64
        Iterations of each execution.
    starts : ndarray of int64
        For each iteration, one execution's after the other's, where its tokens begin in the program, and its end.
    """

    text: np.ndarray
    weight: int
    counts: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    starts: np.ndarray = None


class Search:
    """Loops found so far, as a grammar.

    Token ``base + k`` stands for repetitions of the text of ``loops[k]``.

    Attributes
    ----------
    loops : list of GrammarLoop
    steps : int
        Tokens looked at, for tests of the cost.
    """

    def __init__(self, code, operands, lines):
        self.code = code
        self.operands = operands
        self.lines = lines
        self.base = int(code.max()) + 1 if code.size else 1
        self.loops = []
        self.steps = np.zeros(1, np.int64)
        self.far = np.full(len(operands), -1, np.int64)

    def structure(self):
        """Search, and make the tree."""
        top = GrammarLoop(self.code, 0, np.ones(1, np.int64), np.arange(self.code.size + 1)[None])
        self.search(top, STAGES[:2])
        # The list grows.
        for loop in self.loops:
            if self.length(loop.text) > self.lines:
                self.search(loop, STAGES)
                loop.weight = LOOP + self.length(loop.text)
        return RolledStructure(top, self.loops, self.base)

    def weights(self, tokens):
        """Lines of each token."""
        each = np.ones(tokens.size, np.int64)
        loops = tokens >= self.base
        each[loops] = np.array([loop.weight for loop in self.loops], np.int64)[tokens[loops] - self.base]
        return each

    def length(self, text):
        """Lines of a text."""
        return int(self.weights(text).sum())

    def search(self, loop, stages):
        """Fold the text of `loop` until nothing is left that is worth it.

        Of `stages`, the first that finds something is taken; all of them if the text is too long otherwise.
        Loops are new tokens for each text.
        """
        tokens = {}
        text = exact = loop.text
        # The second iteration is like those after it.
        first = starts = loop.starts[min(1, len(loop.starts) - 1)]
        for _ in range(ROUNDS):
            weight = np.concatenate(([0], np.cumsum(self.weights(text))))
            runs = find_runs(text, weight, self.steps)
            for stage in stages:
                folded = self.fold(text, starts, exact, weight, runs, stage, tokens)
                if folded is not None:
                    break
            if folded is None:
                if stages is STAGES or self.length(text) <= self.lines:
                    break
                stages = STAGES
            else:
                columns = np.searchsorted(first, starts)
                text, starts, exact, rows = folded
                self.execute(rows, loop.starts, columns)
        loop.text, loop.starts = text, loop.starts[:, np.searchsorted(first, starts)]

    def execute(self, rows, starts, columns):
        """Note executions of loops: rows ``token, first, iterations``, where token t of the text begins at ``starts[:, columns[t]]``."""
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        for of_token in np.split(rows, np.flatnonzero(np.diff(rows[:, 0])) + 1):
            loop, counts = self.loops[of_token[0, 0] - self.base], of_token[:, 2]
            period = loop.text.size
            tokens = iterations(of_token[:, 1], counts, period)[:, None] + np.arange(period + 1)
            begun = starts[:, columns[tokens]].reshape(-1, period + 1)
            loop.counts = np.concatenate([loop.counts, np.tile(counts, len(starts))])
            loop.starts = begun if loop.starts is None else np.concatenate([loop.starts, begun])

    def fold(self, text, starts, exact, weight, runs, stage, tokens):
        """One round: the new text, starts, exact names, and executions of loops; None if nothing is worth folding."""
        size = text.size
        least, gain, share = stage
        runs = runs[(runs[:, 3] >= least) & (runs[:, 4] >= gain)]
        if not len(runs):
            return None
        from .folding import classes, fold, phases, plan  # loads compiled code

        bodies = np.empty((len(runs), 3), np.int64)
        bodies = bodies[: classes(text, weight, runs, _table(len(runs)), bodies)]
        runs = runs[bodies[runs[:, 3], 2] >= share * weight[-1]]
        runs = runs[: disjoint(text, weight, self.base, least, gain, runs, np.zeros(size, np.int8))]
        if not len(runs):
            return None
        offsets = np.concatenate(([0], np.cumsum(bodies[:, 1])))
        score = np.empty((offsets[-1], 2), np.int64)
        seen, phase = np.zeros(len(bodies), np.int64), np.empty(len(bodies), np.int64)
        phases(starts, self.operands, runs, bodies, offsets, self.far, seen, score, phase)
        plans = np.empty((len(runs), 4), np.int64)
        plans = plans[: plan(exact, runs, phase, plans)]
        if not len(plans):
            return None
        plans = np.ascontiguousarray(plans[np.argsort(plans[:, 0])])
        used, first = np.unique(plans[:, 3], return_index=True)
        bodies = np.stack([plans[first, 0], plans[first, 2]], axis=1)
        plans[:, 3] = np.searchsorted(used, plans[:, 3])
        symbols = np.array([self.token(text[first : first + period], tokens) for first, period in bodies.tolist()])
        out, ends, same = (np.empty(size + 1, np.int64) for _ in range(3))
        rows = np.empty((size, 3), np.int64)
        sizes = np.empty(1, np.int64)
        made = fold(text, starts, exact, plans, bodies, symbols, _table(len(plans)), out, rows, ends, same, sizes)
        length = sizes[0]
        return out[:length].copy(), ends[: length + 1].copy(), same[:length].copy(), rows[:made]

    def token(self, text, tokens):
        """The token of the loop over `text`."""
        name = text.tobytes()
        if name not in tokens:
            tokens[name] = self.base + len(self.loops)
            self.loops.append(GrammarLoop(text.copy(), LOOP + self.length(text)))
        return tokens[name]


def _table(entries):
    return np.empty(1 << max(4, (2 * entries).bit_length()), np.int64)

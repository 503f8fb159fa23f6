"""The rounds of the search: text to shorter text, until nothing repeats (see the essay of this folder)."""

from __future__ import annotations

import numpy as np

from ...common.errors import require
from .folding import choose, classes, fold, phases, plan
from .runs import disjoint, find_runs
from .structure import Structure
from .walking import expand, walk

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


class Search:
    """Loops found so far, as a grammar.

    Token ``base + s`` stands for repetitions of ``bodies[s]``.

    Attributes
    ----------
    bodies : list of ndarray of int64
        Tokens of one iteration.
    samples : list of ndarray of int64
        For each body, where the tokens of some iteration begin in the program, and its end.
    weights : list of int
        Lines of each token that is a loop, itself counted as `LOOP`.
    rows : list of ndarray of int64
        ``token, position, iterations`` of the executions of loops.
    steps : int
        Tokens looked at, for tests of the cost.
    """

    def __init__(self, code, operands, lines):
        self.code = code
        self.operands = operands
        self.lines = lines
        self.base = int(code.max()) + 1 if code.size else 1
        self.bodies = []
        self.samples = []
        self.weights = []
        self.rows = []
        self.steps = np.zeros(1, np.int64)
        self.far = np.full(len(operands), -1, np.int64)

    def structure(self):
        """Search, and make the tree."""
        top = self.search(self.code, np.arange(self.code.size + 1), STAGES[:2])
        inside = 0
        while inside < len(self.bodies):
            if self.length(self.bodies[inside]) > self.lines:
                self.bodies[inside] = self.search(self.bodies[inside], self.samples[inside], STAGES)
                self.weights[inside] = LOOP + self.length(self.bodies[inside])
            inside += 1
        return self.tree(top)

    def length(self, text):
        """Lines of a text."""
        loops = text[text >= self.base] - self.base
        return text.size - loops.size + int(np.array(self.weights, np.int64)[loops].sum())

    def search(self, text, starts, stages):
        """Fold `text` until nothing is left that is worth it; returns the last text.

        Of `stages`, the first that finds something is taken; all of them if the text is too long otherwise.
        Loops are new tokens for each text: the numbers of iterations of a loop in a body are those in one
        execution of that body.
        """
        tokens = {}
        exact = text
        for _ in range(ROUNDS):
            weight = self.weigh(text)
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
                text, starts, exact = folded
        return text

    def weigh(self, text):
        """Sums of the weights of the tokens, from 0."""
        each = np.ones(text.size, np.int64)
        loops = text >= self.base
        each[loops] = np.array(self.weights, np.int64)[text[loops] - self.base]
        return np.concatenate(([0], np.cumsum(each)))

    def fold(self, text, starts, exact, weight, runs, stage, tokens):
        """One round: the new text, starts and exact names; None if nothing is worth folding."""
        size = text.size
        least, gain, share = stage
        runs = runs[(runs[:, 3] >= least) & (runs[:, 4] >= gain)]
        bodies = np.empty((len(runs), 3), np.int64)
        bodies = bodies[: classes(text, weight, runs, _table(len(runs)), bodies)]
        runs = runs[bodies[runs[:, 3], 2] >= share * weight[-1]]
        runs = runs[: disjoint(text, weight, self.base, least, gain, runs, np.zeros(size, np.int8))]
        if not len(runs):
            return None
        offsets = np.concatenate(([0], np.cumsum(bodies[:, 1] + 1)))
        score = np.empty((offsets[-1], 3), np.int64)
        seen = np.zeros(len(bodies), np.int64)
        phases(starts, self.operands, runs, bodies, offsets, self.far, seen, score)
        phase = np.empty(len(bodies), np.int64)
        choose(bodies, score, offsets, seen, phase)
        plans = np.empty((len(runs), 4), np.int64)
        plans = plans[: plan(exact, runs, phase, plans)]
        if not len(plans):
            return None
        plans = np.ascontiguousarray(plans[np.argsort(plans[:, 0])])
        used, first = np.unique(plans[:, 3], return_index=True)
        bodies = np.stack([plans[first, 0], plans[first, 2]], axis=1)
        plans[:, 3] = np.searchsorted(used, plans[:, 3])
        symbols = np.array([self.token(text, starts, *body, tokens) for body in bodies.tolist()])
        out, ends, same = (np.empty(size + 1, np.int64) for _ in range(3))
        rows = np.empty((size, 3), np.int64)
        sizes = np.empty(1, np.int64)
        made = fold(
            text, starts, exact, plans, bodies, symbols, _table(len(bodies)), _table(len(plans)), out, rows, ends, same, sizes
        )
        self.rows.append(rows[:made].copy())
        length = sizes[0]
        return out[:length].copy(), ends[: length + 1].copy(), same[:length].copy()

    def token(self, text, starts, first, period, tokens):
        """The token of the loop over ``text[first : first + period]``."""
        body = text[first : first + period]
        name = body.tobytes()
        token = tokens.get(name)
        if token is None:
            tokens[name] = token = self.base + len(self.bodies)
            self.bodies.append(body.copy())
            # The second iteration is like those after it.
            self.samples.append(starts[first + period : first + 2 * period + 1].copy())
            self.weights.append(LOOP + self.length(body))
        return token

    def tree(self, top):
        """The grammar, run."""
        base = self.base
        measured = {}

        def measure(text):
            total, depth = text.size, 1
            for s in (text[text >= base] - base).tolist():
                if s not in measured:
                    measured[s] = measure(self.bodies[s])
                total += measured[s][0]
                depth = max(depth, measured[s][1] + 1)
            return total, depth

        bounds = np.concatenate(([0], np.cumsum([body.size for body in self.bodies]))).astype(np.int64)
        tokens = np.concatenate([np.empty(0, np.int64), *self.bodies])
        total, depth = measure(top)
        symbols, ends = np.empty(total, np.int64), np.empty(total, np.int64)
        stack = np.empty((depth, 3), np.int64)
        expanded = expand(top, bounds, tokens, base, symbols, ends, stack)
        require(expanded == total, f"a rolled tape has {expanded} symbols, not {total}")
        rows = np.concatenate([np.empty((0, 3), np.int64), *self.rows])
        rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
        queues = np.searchsorted(rows[:, 0], base + np.arange(len(self.bodies) + 1))
        counts = np.ascontiguousarray(rows[:, 2])
        places = np.empty(self.code.size, np.int64)
        heads = np.empty(len(self.bodies), np.int64)
        room = self.code.size + 1
        while True:
            loops, numbers = np.empty(room, np.int64), np.empty(room, np.int64)
            reached = walk(symbols, ends, base, queues, counts, places, loops, numbers, heads, stack)
            if reached <= room:
                break
            room = reached
        return Structure(symbols, ends, base, places, loops[:reached], numbers[:reached])


def _table(entries):
    return np.empty(1 << max(4, (2 * entries).bit_length()), np.int64)

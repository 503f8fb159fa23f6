"""Random loop nests, run into lists of instructions."""

import numpy as np


class Nest:
    """A random source program and what it leaves on a tape.

    Attributes
    ----------
    code : list of int
    operands : list of (int, int)
    lines : int
        Instructions of the source.
    """

    def __init__(self, seed, alphabet=None, depth=3, most=20000, ragged=True):
        self.random = np.random.default_rng(seed)
        self.alphabet = alphabet or int(self.random.integers(3, 15))
        self.ragged = ragged
        self.most = most
        self.code = []
        self.operands = []
        self.lines = 0
        self.loops = []
        self.tree = self.body(depth, top=True)
        self.run(self.tree)

    def body(self, depth, top=False):
        random = self.random
        items = []
        for _ in range(int(random.integers(1, 4 if top else 3))):
            items += self.straight()
            if depth > 0:
                inner = self.body(depth - 1)
                low = int(random.integers(4, 40))
                high = low + int(random.integers(1, 20)) if self.ragged and random.random() < 0.4 else low
                items.append((low, high, inner))
        items += self.straight()
        return items

    def straight(self):
        length = int(self.random.integers(1, 12))
        self.lines += length
        return [(int(op), int(back)) for op, back in zip(
            self.random.integers(0, self.alphabet, length), self.random.integers(1, 4, length))]

    def run(self, items):
        for item in items:
            if len(self.code) > self.most:
                return
            if len(item) == 2:
                at = len(self.code)
                self.code.append(item[0])
                self.operands.append((at - 1, at - item[1]))
            else:
                low, high, body = item
                for _ in range(int(self.random.integers(low, high + 1))):
                    self.run(body)

"""Random loop nests, run into lists of instructions; and what rolling made of them, run again."""

import numpy as np

from tapegrad.kernel.roll import Line


class Nest:
    """A random source program and what it leaves on a tape.

    Attributes
    ----------
    code : list of int
    operands : list of (int, int)
    lines : int
        Instructions of the source.
    """

    def __init__(self, seed, alphabet=None, depth=None, most=20000, ragged=0.4):
        self.random = np.random.default_rng(seed)
        self.alphabet = alphabet or int(self.random.integers(3, 15))
        self.ragged = ragged
        self.depth = depth or int(self.random.integers(1, 5))
        # Loops at most this long, so that the whole stays within `most`.
        self.longest = max(6, int((most / 60) ** (1 / self.depth)))
        self.code = []
        self.operands = []
        self.lines = 0
        self.tree = self.body(self.depth, top=True)
        self.run(self.tree)

    def body(self, depth, top=False):
        random = self.random
        items = []
        for _ in range(int(random.integers(1, 4 if top else 3)) if depth else 0):
            items += self.straight()
            low = int(random.integers(4, self.longest))
            high = low + int(random.integers(1, 9)) if random.random() < self.ragged else low
            items.append((low, high, self.body(depth - 1)))
        return items + self.straight()

    def straight(self):
        length = int(self.random.integers(1, 12))
        self.lines += length
        draw = self.random.integers
        return [(int(op), int(back)) for op, back in zip(draw(0, self.alphabet, length), draw(1, 4, length))]

    def run(self, items):
        for item in items:
            if len(item) == 2:
                at = len(self.code)
                self.code.append(item[0])
                self.operands.append((at - 1, at - item[1]))
            else:
                low, high, body = item
                for _ in range(int(self.random.integers(low, high + 1))):
                    self.run(body)

    def __str__(self):
        text = []

        def show(items, indent):
            for item in items:
                if len(item) == 2:
                    text.append(f"{indent}{item[0]}")
                else:
                    text.append(f"{indent}for {item[0]}..{item[1]}:")
                    show(item[2], indent + "    ")

        show(self.tree, "")
        return "\n".join(text)


def lines_of(structure):
    """How many instructions a rolled program has."""

    def count(nodes):
        return sum(1 if isinstance(node, Line) else count(node.body) for node in nodes)

    return count(structure.nodes)


def order_of(structure):
    """Positions of the instructions in the order in which the loops run them: ``0 .. n-1``, if the structure is right."""
    positions = []
    taken = {}

    def following(node):
        taken[id(node)] = at = taken.get(id(node), -1) + 1
        return at

    def run(nodes):
        for node in nodes:
            if isinstance(node, Line):
                positions.append(int(node.members[following(node)]))
            else:
                extent = node.extent if isinstance(node.extent, int) else node.extent[following(node)]
                for _ in range(extent):
                    run(node.body)

    run(structure.nodes)
    return np.array(positions, np.int64)

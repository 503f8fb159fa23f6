"""Random programs of nested loops over scalars, as Python text."""

import numpy as np

_VARIABLES = "abcd"


class Nest:
    """The text of one random program of ``f(x)``, `x` with `SIZE` elements.

    Four variables go from statement to statement; a list `kept` grows, and is read at places of the
    past that advance, go back or jump.  Extents are fixed or depend on the counters.
    """

    SIZE = 24

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.lines = []
        self.counters = []
        self.left = 1500
        for name in _VARIABLES:
            self.line(f"{name} = {self.atom(first=True)}")
        self.line("kept = [x[0], x[1]]")
        for _ in range(self.pick(2, 3, 4)):
            self.loop(1)
        self.statements(1, 2)
        self.line("return a + b * kept[-1] + c * kept[len(kept) // 2], d")
        self.text = "\n".join(["def f(x):", *self.lines])

    def pick(self, *choices):
        return choices[self.random.integers(len(choices))]

    def line(self, text):
        self.lines.append("    " * (len(self.counters) + 1) + text)

    def index(self):
        terms = [f"{self.pick(1, 1, 2, 5)} * {c}" for c in self.counters if self.pick(True, False)]
        return f"({' + '.join([*terms, str(self.random.integers(9))])}) % {self.SIZE}"

    def past(self):
        """A place of the list."""
        return f"kept[{self.pick('-1', '-2', '-3 % len(kept)', f'-1 - {self.index()} % len(kept)', f'{self.index()} % len(kept)')}]"

    def atom(self, first=False):
        kinds = ["x", "x", "number"] if first else ["variable", "variable", "x", "number", "past", "table"]
        kind = self.pick(*kinds)
        if kind == "variable":
            return self.pick(*_VARIABLES)
        if kind == "x":
            return f"x[{self.index()}]"
        if kind == "past":
            return self.past()
        if kind == "table":
            return f"(0.1 + 0.01 * ({self.index()}))"
        return f"{self.random.uniform(0.2, 0.9):.3f}"

    def statements(self, least, most):
        for _ in range(self.random.integers(least, most + 1)):
            kind = self.random.integers(10)
            target, one, two = self.pick(*_VARIABLES), self.atom(), self.atom()
            if kind < 6:
                form = self.pick("{0} * {1}", "np.sin({0} + {1})", "np.tanh({0} - {1})", "np.cos({0}) * {1}", "0.5 * ({0} + {1})")
                self.line(f"{target} = np.sin({form.format(one, two)} + 0.0 * x[0])")
            elif kind < 8:
                self.line(f"kept.append(np.sin({one} + x[{self.index()}]))")
            elif kind < 9:
                self.line(f"if np.cos({self.pick(*_VARIABLES)} * 0.1 + 0.0 * x[0]) > -2.0: {target} = x[2] * {target}")
            else:
                other = self.pick(*_VARIABLES)
                self.line(f"{target}, {other} = {other}, {target}")

    def loop(self, depth):
        counter = f"i{len(self.counters)}"
        extent = str(self.random.integers(2, 14) if depth > 1 else self.random.integers(8, 40))
        if self.counters and self.pick(True, False):
            extent = self.pick(f"{self.counters[-1]} % 5 + 1", f"{self.counters[-1]} + 1", f"max(1, 9 - {self.counters[-1]})")
        self.line(f"for {counter} in range({extent}):")
        self.counters.append(counter)
        self.statements(1, 4)
        if depth < 3 and self.pick(True, True, False):
            self.loop(depth + 1)
            self.statements(0, 2)
        self.counters.pop()


def program(seed):
    """The function of a random nest, and its text."""
    text = Nest(seed).text
    names = {"np": np}
    exec(text, names)
    return names["f"], text

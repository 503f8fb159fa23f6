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


class ArrayNest(Nest):
    """As `Nest`, with two short arrays that are computed, written to by element and by window, and read."""

    def __init__(self, seed):
        super().__init__(seed)
        head, *rest = self.text.split("\n")
        self.text = "\n".join([head, "    u = np.sin(x[0:6])", "    w = x[3:9] * 0.5", *rest[:-1], self._result(rest[-1])])

    def _result(self, line):
        return f"{line} + np.sum(u * w) + u[2]"

    def place(self):
        return f"({self.index()}) % 6"

    def statements(self, least, most):
        super().statements(least, most)
        for _ in range(self.random.integers(0, 3)):
            array, other = self.pick("uw", "wu")
            scalar = self.pick(*_VARIABLES)
            self.line(
                self.pick(
                    f"{array} = np.sin({array} * {scalar} + 0.1 * {other})",
                    f"{array} = {array} + {scalar} * x[2:8]",
                    f"{array} = 0.5 * {other}",
                    f"{array}[{self.place()}] = np.sin({scalar} + 0.0 * x[0])",
                    f"{array}[{self.place()}] = {array}[{self.place()}] * 0.9",
                    f"{array}[1:4] = 0.7 * {other}[2:5]",
                    f"{array}[2:6] = {array}[0:4] * 0.5",
                    f"{scalar} = np.sin({array}[{self.place()}] + {other}[{self.place()}])",
                    f"{scalar} = np.tanh(np.sum({array} * {other}))",
                    f"{scalar} = np.sin(np.sum({array}[{self.place()}:]))",
                )
            )
            if self.pick(True, False, False):
                self.line(f"{array} = np.tanh({array})")


def program(seed, kind=Nest):
    """The function of a random nest, and its text."""
    text = kind(seed).text
    names = {"np": np}
    exec(text, names)
    return names["f"], text

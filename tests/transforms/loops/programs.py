"""Random programs of loops and choices in one another, and whether every way to run them gives what plain Python gives.

    python -m tests.transforms.loops.programs --seed 0 --count 1000 [--first 17] [--ways WORD ... | --turns] [--sources 1]

`made` writes a program by a seed: a function ``f(p)`` of an array of `SIZE` numbers that calls the names of `tg.scan` and its kin from
`ops`, with bodies that capture what stands around them, have carries of several containers, and an `if` here and there.  `run` calls it
at several points, where conditions go several ways, and compares with `Oracle`: the same text, with plain Python loops in `ops`, run on
dual numbers of Python's own floats that are defined here.  Nothing of the package takes part in that.

=========  =========================================================================
"right"    values, gradients and second derivatives are those of the oracle
"edge"     a condition is so near to its edge that rounding decides; nothing is compared
"wrong"    one is another
"refused"  an exception of this library, instead of a number
"crash"    another exception
=========  =========================================================================
"""

import argparse
import collections
import math
import random
import warnings
from dataclasses import dataclass

import numpy as np

import tapegrad as tg
from tests.transforms.loops import plainly

#: Numbers of the argument; of every vector in a program; and of elements in `XS` and rows in `ROWS`, over which loops go.
SIZE, WIDTH = 4, 3
XS = {n: np.round(np.cos(1.3 * np.arange(n) + n), 2) for n in range(7)}
ROWS = np.round(np.sin(np.arange(5.0 * WIDTH)).reshape(5, WIDTH), 2)
TABLE = np.array([0.7, -0.4, 1.1])
#: How deep loops stand in one another, one of these, and how far conditions are from their edge, at least.
DEPTHS, MARGIN = (1, 1, 2, 2, 3), 1e-6
#: What results may be off by, of the largest number.
TOLERANCE = 1e-9


# programs -----------------------------------------------------------------------------------------------------------------


class Writer:
    """Writes the lines of one program; names are never used again, so an inner function may read all that stand around it."""

    def __init__(self, rng):
        self.rng, self.count, self.forms, self.depth = rng, 0, collections.Counter(), rng.choice(DEPTHS)

    def name(self, letter):
        self.count += 1
        return f"{letter}{self.count}"

    def scalar(self, names):
        """An expression of size about 1 of scalars and elements of vectors."""
        a, b = self.atom(names), self.atom(names)
        form = self.rng.choice(
            (
                "np.sin({a} + {c})", "np.tanh({a} * {b})", "0.5 * {a} + {c} * {b}", "{a} / (1.0 + {b} * {b})", "np.exp(-{a} * {a})",
                "np.cos({a}) * {b}", "{c} * {a} - {b}", "np.sqrt(1.0 + {a} * {a})", "{a} * {b} * {c}",
            )
        )  # fmt: skip
        return form.format(a=a, b=b, c=self.number())

    def number(self):
        return self.rng.choice(("0.3", "-0.7", "0.9", "0.4", "RATE"))

    def atom(self, names):
        vectors = [n for n in names if n[0] == "v"]
        if vectors and self.rng.random() < 0.3:
            v = self.rng.choice(vectors)
            whole = [n for n in names if n[0] == "k"]
            if whole and self.rng.random() < 0.5:
                return f"{v}[{self.rng.choice(whole)} % {WIDTH}]"
            return self.rng.choice((f"{v}[{self.rng.randrange(WIDTH)}]", f"np.sum({v})", f"np.sum({v} * TABLE)"))
        # What was made last is read more often than what has been there for long.
        scalars = [n for n in names if n[0] in "sk"]
        name = self.rng.choice(scalars[-4:]) if self.rng.random() < 0.7 else self.rng.choice(scalars)
        return f"(0.1 * {name})" if name[0] == "k" else name

    def vector(self, names):
        vectors = [n for n in names if n[0] == "v"]
        a = self.rng.choice(vectors)
        form = self.rng.choice(
            (
                "np.sin({v}) * {a}", "{v} * TABLE + {a}", "np.tanh({v} + {w})", "{v} * {w} * {c}", "0.5 * ({v} - {a} * {w})", "{v}[::-1] * {c}",
                "ROWS[:3] @ {v} * 0.5", "np.stack([{a}, {c} * {a}, {b}])", "{v} / (1.0 + {w} * {w})",
            )
        )  # fmt: skip
        return form.format(v=a, w=self.rng.choice(vectors), a=self.atom(names), b=self.atom(names), c=self.number())

    def condition(self, names):
        return f"{self.atom(names)} {self.rng.choice('<>')} {self.rng.choice((self.atom(names), '0.2', '-0.1', '0.5'))}"

    # Statements: each gives lines, and the names that it defines.

    def block(self, names, depth, count):
        lines, names = [], list(names)
        for _ in range(count):
            more, made = self.statement(names, depth)
            lines += more
            names += made
        return lines, names

    def statement(self, names, depth):
        forms = ["scalar"] * 3 + ["vector"] * 2 + ["branch"]
        if depth < self.depth:
            forms += ["scan"] * 3 + ["while_loop"] * 2 + ["fori_loop", "cond", "cond", "switch", "map", "associative_scan"]
        form = self.rng.choice(forms)
        self.forms[form] += 1
        return getattr(self, "of_" + form)(names, depth)

    def of_scalar(self, names, depth):
        made = self.name("s")
        return [f"{made} = {self.scalar(names)}"], [made]

    def of_vector(self, names, depth):
        made = self.name("v")
        return [f"{made} = {self.vector(names)}"], [made]

    def of_branch(self, names, depth):
        made = self.name("s")
        lines = [f"if {self.condition(names)}:", f"    {made} = {self.scalar(names)}"]
        if self.rng.random() < 0.3:
            lines += [f"elif {self.condition(names)}:", f"    {made} = {self.scalar(names)}"]
        return [*lines, "else:", f"    {made} = {self.scalar(names)}"], [made]

    def carry(self):
        """Names of the parts of a carry, and a template of the container that holds them."""
        parts = [self.name("s") for _ in range(self.rng.randint(1, 2))] + [self.name("v") for _ in range(self.rng.randint(0, 1))]
        if self.rng.random() < 0.25:
            parts.append(self.name("k"))
        self.rng.shuffle(parts)
        holes = ["{}"] * len(parts)
        kind = self.rng.choice(("plain", "tuple", "list", "dict", "nested", "State"))
        if len(parts) == 1:
            text = self.rng.choice(("{}", "({},)", "{{'a': {}}}"))
        elif kind == "dict":
            text = "{{" + ", ".join(f"'{p[0]}{k}': {{}}" for k, p in enumerate(parts)) + "}}"
        elif kind == "nested":
            text = "({}, [" + ", ".join(holes[1:]) + "])"
        elif kind == "list":
            text = "[" + ", ".join(holes) + "]"
        elif kind == "State" and len(parts) == 2:
            text = "State({}, {})"
        else:
            text = "(" + ", ".join(holes) + ")"
        return parts, text

    def taken(self, parts, text, whole):
        """Lines that take the parts out of a container."""
        if text == "{}":
            return [f"{parts[0]} = {whole}"]
        if text.startswith("{{"):
            keys = [piece.split("'")[1] for piece in text.split(", ")]
            return [f"{part} = {whole}['{key}']" for part, key in zip(parts, keys)]
        return [f"{text.replace('State', '').format(*parts)} = {whole}"]

    def filled(self, parts, text, names, turn=False):
        """The container with expressions, of the kind that each part is of."""
        values = []
        for part in parts:
            if part[0] == "k":
                values.append(f"{part} + {self.rng.randint(1, 2)}" if turn else str(self.rng.randint(0, 3)))
            else:
                values.append(self.rng.choice((self.scalar, self.atom))(names) if part[0] == "s" else self.vector(names))
        # A number from the table and a name of an int may not stand for a float.
        return text.format(*values)

    def function(self, arguments, lines, result):
        name = self.name("f")
        return name, [f"def {name}({arguments}):", *("    " + line for line in [*lines, f"return {result}"])]

    def results(self, names):
        """What a turn gives beside its carry."""
        return self.rng.choice(("None", "{s}", "{s}", "{v}", "({s}, {v})", "{{'y': {s}, 'z': [{v}, None]}}")).format(s=self.scalar(names), v=self.vector(names))

    def read(self, whole):
        """A scalar of all floats in a container."""
        made = self.name("s")
        return [f"{made} = np.tanh(0.3 * summed({whole}))"], [made]

    def of_scan(self, names, depth):
        parts, text = self.carry()
        element, turns, inner = self.name("e"), self.rng.choice((0, 1, 2, 3, 4, 5, 6)), []
        vectors = [n for n in names if n[0] == "v"]
        what = self.rng.choice(("numbers", "numbers", "rows", "vector", "pair", "nothing"))
        x, v = self.name("s"), self.name("v")
        xs, option = {
            "numbers": (f"XS[{turns}] * {self.atom(names)}", ""), "rows": ("ROWS", ""), "vector": (self.rng.choice(vectors), ""),
            "pair": ("{'x': XS[5], 'row': ROWS * " + self.atom(names) + "}", ""), "nothing": ("None", f", length={turns}"),
        }[what]  # fmt: skip
        taken = self.taken(parts, text, "carry")
        if what in ("numbers", "vector"):
            taken, inner = [*taken, f"{x} = {element}"], [x]
        elif what == "rows":
            taken, inner = [*taken, f"{v} = {element}"], [v]
        elif what == "pair":
            taken, inner = [*taken, f"{x}, {v} = {element}['x'], {element}['row']"], [x, v]
        lines, inside = self.block([*names, *parts, *inner], depth + 1, self.rng.randint(0, 2))
        result = self.results(inside) if what in ("rows", "pair", "vector") or turns else "None"
        name, body = self.function(f"carry, {element}", [*taken, *lines], f"{self.filled(parts, text, inside, True)}, {result}")
        whole = self.name("r")
        reverse = ", reverse=True" if self.rng.random() < 0.3 else ""
        call = f"{whole} = ops.scan({name}, {self.filled(parts, text, names)}, {xs}{option}{reverse})"
        more, made = self.read(whole)
        return [*body, call, *more], made

    def of_while_loop(self, names, depth):
        parts, text = self.carry()
        lines, inside = self.block([*names, *parts], depth + 1, self.rng.randint(0, 2))
        t, limit = self.name("s"), self.atom([*names])
        # Each turn adds at least 0.4, so it ends.
        condition = f"lambda both: both[0] < 1.5 + np.sin({limit})"
        step = f"({t} + 0.4 + 0.3 * np.cos({self.atom([*inside, t])}) ** 2, {self.filled(parts, text, inside, True)})"
        name, body = self.function("both", [f"{t}, carry = both", *self.taken(parts, text, "carry"), *lines], step)
        whole = self.name("r")
        start = self.rng.choice(("0.0", f"np.tanh({self.atom(names)})", "3.0"))
        more, made = self.read(whole)
        return [*body, f"{whole} = ops.while_loop({condition}, {name}, ({start}, {self.filled(parts, text, names)}))", *more], made

    def of_fori_loop(self, names, depth):
        parts, text = self.carry()
        k = self.name("k")
        lines, inside = self.block([*names, *parts, k], depth + 1, self.rng.randint(0, 2))
        name, body = self.function(f"{k}, carry", [*self.taken(parts, text, "carry"), *lines], self.filled(parts, text, inside, True))
        lower = self.rng.randint(-1, 2)
        whole = self.name("r")
        more, made = self.read(whole)
        return [*body, f"{whole} = ops.fori_loop({lower}, {lower + self.rng.randint(0, 4)}, {name}, {self.filled(parts, text, names)})", *more], made

    def choices(self, names, depth, count):
        """Functions that return one kind of container, with or without an operand; their names, lines, and the operand."""
        parts, text = self.carry()
        parts = [part if part[0] != "k" else self.name("s") for part in parts]
        operand = self.rng.random() < 0.6
        s = self.name("s")
        lines, functions = [], []
        for _ in range(count):
            more, inside = self.block([*names, s] if operand else names, depth + 1, self.rng.randint(0, 2))
            name, body = self.function(s if operand else "", more, self.filled(parts, text, inside))
            lines, functions = [*lines, *body], [*functions, name]
        return functions, lines, f", {self.scalar(names)}" if operand else ""

    def of_cond(self, names, depth):
        functions, lines, operand = self.choices(names, depth, 2)
        whole = self.name("r")
        more, made = self.read(whole)
        return [*lines, f"{whole} = ops.cond({self.condition(names)}, {', '.join(functions)}{operand})", *more], made

    def of_switch(self, names, depth):
        functions, lines, operand = self.choices(names, depth, self.rng.randint(1, 3))
        whole = self.name("r")
        whole_numbers = [n for n in names if n[0] == "k"]
        index = self.rng.choice(whole_numbers) if whole_numbers else str(self.rng.randint(-1, 3))
        more, made = self.read(whole)
        return [*lines, f"{whole} = ops.switch({index}, [{', '.join(functions)}]{operand})", *more], made

    def of_map(self, names, depth):
        v, made = self.name("v"), self.name("r")
        lines, inside = self.block([*names, v], depth + 1, self.rng.randint(0, 2))
        name, body = self.function(v, lines, self.rng.choice((self.scalar(inside), self.vector(inside), f"({self.scalar(inside)}, {self.vector(inside)})")))
        more, result = self.read(made)
        return [*body, f"{made} = ops.map({name}, ROWS * {self.atom(names)})", *more], result

    def of_associative_scan(self, names, depth):
        made = self.name("v")
        function = self.rng.choice(("lambda a, b: a + b", "lambda a, b: a * b", "lambda a, b: a * b + a + b"))
        reverse = ", reverse=True" if self.rng.random() < 0.3 else ""
        return [f"{made} = np.tanh(ops.associative_scan({function}, {self.vector(names)}{reverse}))"], [made]


State = collections.namedtuple("State", "a b")


def summed(thing):
    """The floats of a container, each with a weight."""
    result = 0.0
    for k, leaf in enumerate(leaf for leaf in plainly.leaves_of(thing) if leaf is not None):
        if type(leaf) is not int and getattr(leaf, "dtype", None) != np.int64:
            result = result + (1.0 - 0.3 * k) * np.sum(leaf)
    return result


@dataclass
class Program:
    """One program: its text, with points at which it is called, in turn."""

    seed: int
    source: str
    points: list
    forms: collections.Counter

    def function(self, ops, numpy=np):
        names = {"ops": ops, "np": numpy, "XS": XS, "ROWS": ROWS, "TABLE": TABLE, "RATE": 0.8, "State": State, "summed": summed, "__name__": "program"}
        exec(compile(self.source, f"<loops, seed {self.seed}>", "exec"), names)
        return names["f"]


def made(seed):
    """The program of this seed."""
    rng = random.Random(f"loops {seed}")
    writer = Writer(rng)
    names = [f"s_{k}" for k in range(SIZE)] + ["v_"]
    lines, after = writer.block(names, 0, rng.randint(1, 4))
    while not writer.forms.keys() - {"scalar", "vector", "branch"}:
        more, made_now = writer.statement(after, 0)
        lines, after = lines + more, after + made_now
    scalars = [n for n in after if n[0] == "s"][-3:]
    body = [f"{', '.join(names[:-1])} = p", f"v_ = p[:{WIDTH}] * 0.8", *lines, f"return {' + '.join(f'{0.5 + k} * {n}' for k, n in enumerate(scalars))}"]
    points = [np.array([round(rng.uniform(-1.2, 1.2), 3) for _ in range(SIZE)]) for _ in range(3)]
    return Program(seed, "def f(p):\n" + "\n".join("    " + line for line in body) + "\n", points, writer.forms)


def programs(seed, count, first=0):
    """`count` programs, from the number `first` on."""
    for number in range(first, first + count):
        yield made(seed * 1_000_003 + number)


# the oracle ---------------------------------------------------------------------------------------------------------------


class Dual:
    """A number and its derivative along one direction; either may be such a number again.  NumPy's functions call its methods."""

    margin = math.inf

    def __init__(self, value, slope):
        self.value, self.slope = value, slope

    # (An array does its elements one by one.)
    def __add__(self, other):
        if isinstance(other, np.ndarray):
            return NotImplemented
        return Dual(self.value + other.value, self.slope + other.slope) if isinstance(other, Dual) else Dual(self.value + other, self.slope)

    def __mul__(self, other):
        if isinstance(other, np.ndarray):
            return NotImplemented
        if isinstance(other, Dual):
            return Dual(self.value * other.value, self.value * other.slope + self.slope * other.value)
        return Dual(self.value * other, self.slope * other)

    def __truediv__(self, other):
        if isinstance(other, np.ndarray):
            return NotImplemented
        return self * (1.0 / other if not isinstance(other, Dual) else other.reciprocal())

    def __sub__(self, other):
        return NotImplemented if isinstance(other, np.ndarray) else self + (-other)

    __radd__, __rmul__ = __add__, __mul__
    __neg__ = lambda self: self * -1.0
    __rsub__ = lambda self, other: -self + other
    __rtruediv__ = lambda self, other: self.reciprocal() * other

    def __pow__(self, other):
        assert other == 2
        return self * self

    def _of(self, function, derivative):
        return Dual(function(self.value), derivative(self.value) * self.slope)

    reciprocal = lambda self: self._of(lambda v: 1.0 / v, lambda v: -1.0 / (v * v))
    sin = lambda self: self._of(np.sin, np.cos)
    cos = lambda self: self._of(np.cos, lambda v: -np.sin(v))
    exp = lambda self: self._of(np.exp, np.exp)
    tanh = lambda self: self._of(np.tanh, lambda v: 1.0 - np.tanh(v) * np.tanh(v))
    sqrt = lambda self: self._of(np.sqrt, lambda v: 0.5 / np.sqrt(v))

    def _number(self):
        return self.value._number() if isinstance(self.value, Dual) else self.value

    def _apart(self, other):
        apart = self._number() - (other._number() if isinstance(other, Dual) else other)
        # The same on both sides, as in ``a < a``, is no matter of rounding.
        Dual.margin = min(Dual.margin, abs(apart) if apart != 0.0 or other is not self else math.inf)
        return apart

    __lt__ = lambda self, other: self._apart(other) < 0.0
    __gt__ = lambda self, other: self._apart(other) > 0.0


class OfDuals:
    """NumPy, whose functions take arrays in which some elements are dual numbers and some are numbers."""

    def __getattr__(self, name):
        function = getattr(np, name)
        if name not in ("sin", "cos", "exp", "tanh", "sqrt"):
            return function
        lifted = np.frompyfunc(lambda x: x if isinstance(x, Dual) else Dual(x, 0.0), 1, 1)
        return lambda x: function(lifted(x) if isinstance(x, np.ndarray) and x.dtype == object else x)


class Oracle:
    """Value, gradient, and Hessian times `direction` of a program by dual numbers, at a point.

    Attributes
    ----------
    margin : float
        How near the two sides of a condition came.
    """

    def __init__(self, program, point, second=True):
        f, n = program.function(plainly, OfDuals()), len(point)
        self.value = float(f(point))
        self.direction = np.cos(np.arange(n))
        Dual.margin = math.inf
        along = lambda k: f(np.array([Dual(x, float(j == k)) for j, x in enumerate(point)], object))
        self.gradient = np.array([slope_of(along(k)) for k in range(n)])
        self.margin = Dual.margin
        if second:
            twice = lambda k: f(np.array([Dual(Dual(x, d), Dual(float(j == k), 0.0)) for j, (x, d) in enumerate(zip(point, self.direction))], object))
            self.product = np.array([slope_of(getattr(twice(k), "slope", 0.0)) for k in range(n)])


def slope_of(number):
    return float(number.slope) if isinstance(number, Dual) else 0.0


# what is compared ---------------------------------------------------------------------------------------------------------


def by_backward(f, points):
    for p in points:
        x = tg.tensor(p, requires_grad=True)
        value = f(x)
        # What does not depend on `p` at all is a number.
        if isinstance(value, tg.Tensor) and value.requires_grad:
            value.backward()
            yield value.detach().numpy(), x.grad.numpy()
        else:
            yield np.asarray(value.detach() if isinstance(value, tg.Tensor) else value), np.zeros(len(p))


def by_tangents(f, points):
    for p in points:
        yield f(p), tg.jacfwd(f)(p)


def recorded(kernel):
    def both(f, points):
        g = tg.jit(tg.value_and_grad(f), kernel=kernel)
        answers = [[g(p) for p in points] for _ in range(3)]
        for again in zip(*answers):
            yield from again

    return both


def compiled(f, points):
    """By `tg.compile`, at the point that it is made for."""
    for p in points:
        gradient = np.full(len(p), np.nan)
        yield tg.compile(f, p)(p, gradient), gradient


def by_second(f, points):
    product = tg.hvp(f)
    for p in points:
        yield f(p), product(p, np.cos(np.arange(len(p))))


def by_second_recorded(f, points):
    product = tg.jit(tg.hvp(f))
    for p in (*points, *points):
        yield f(p), product(p, np.cos(np.arange(len(p))))


#: By name: a generator of values and derivatives at points, how often it calls each point, whether the derivative is the second,
#: and for one in how many programs.
WAYS = {
    "numbers": (lambda f, points: ((f(p), None) for p in points), 1, False, 1),
    "backward": (by_backward, 1, False, 1),
    "forward": (by_tangents, 1, False, 1),
    "jit": (recorded("never"), 3, False, 1),
    "kernel": (recorded("always"), 3, False, 10),
    "compile": (compiled, 1, False, 20),
    "second": (by_second, 1, True, 2),
    "second, jit": (by_second_recorded, 2, True, 10),
}
#: Ways that programs take by turns in a long campaign, where only the cheapest is taken by each: those that find most come often.
BY_TURNS = (
    "backward", "forward", "jit", "backward", "second", "jit", "backward", "forward", "kernel", "backward", "jit", "backward", "forward", "compile",
    "backward", "second", "jit", "backward", "forward", "second, jit",
)  # fmt: skip


@dataclass
class Outcome:
    verdict: str
    text: str = ""


def run(program, ways=None, every=False):
    """Call the program in each of its ways, at each of its points.

    Parameters
    ----------
    ways : iterable of str, optional
        Names in `WAYS`.
    every : bool
        Whether a way is taken that is for one in several programs only.
    """
    oracles = [Oracle(program, p) for p in program.points]
    near = [oracle.margin < MARGIN for oracle in oracles]
    if any(near):
        return Outcome("edge")
    for name in WAYS if ways is None else ways:
        way, times, second, one_in = WAYS[name]
        if not every and program.seed % one_in:
            continue
        f = program.function(tg)
        expected = [oracle for oracle in oracles for _ in range(times)]
        if name == "second, jit":
            expected = [*oracles, *oracles]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", tg.PerformanceWarning)
                warnings.simplefilter("ignore", tg.PathWarning)
                answers = list(way(f, program.points))
        except Exception as error:
            text = f"{name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
            return Outcome("refused" if isinstance(error, tg.errors.TapegradError) else "crash", text)
        for call, ((value, derivative), oracle) in enumerate(zip(answers, expected, strict=True)):
            right = oracle.product if second else oracle.gradient
            if not agrees(value, oracle.value, abs(oracle.value)):
                return Outcome("wrong", f"{name}, call {call}: the value is {value}, should be {oracle.value}")
            if derivative is not None and not agrees(derivative, right, np.max(np.abs([*right, *oracle.gradient]))):
                return Outcome("wrong", f"{name}, call {call}: {np.asarray(derivative).tolist()}, should be {right.tolist()}")
    return Outcome("right")


def agrees(one, other, size):
    return np.shape(one) == np.shape(other) and bool(np.all(np.abs(np.asarray(one, float) - other) <= TOLERANCE * (1.0 + size)))


def main(arguments=None):
    """Make programs, run them, print what they come to."""
    parser = argparse.ArgumentParser(description="Random programs of loops and choices.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--ways", nargs="*", choices=list(WAYS), help="in which they are run, all of them in each")
    parser.add_argument("--turns", action="store_true", help="each runs with plain numbers and in one other way, the next one in the next")
    parser.add_argument("--sources", type=int, default=1, help="how many programs of each verdict are printed, the shortest ones")
    options = parser.parse_args(arguments)
    verdicts, forms, faults = collections.Counter(), collections.Counter(), []
    for number, program in enumerate(programs(options.seed, options.count, options.first), options.first):
        ways = ("numbers", BY_TURNS[number % len(BY_TURNS)]) if options.turns else options.ways
        outcome = run(program, ways, every=ways is not None)
        verdicts[outcome.verdict] += 1
        forms += program.forms
        if outcome.verdict not in ("right", "edge"):
            print(f"{outcome.verdict}, --first {number} --count 1: {outcome.text}", flush=True)
            faults.append((len(program.source), number, outcome, program.source))
    for verdict in verdicts:
        for _, number, outcome, source in sorted(f for f in faults if f[2].verdict == verdict)[: options.sources]:
            print(f"{'-' * 80}\n{verdict}, --first {number} --count 1: {outcome.text}\n\n{source}")
    print(", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()))
    print(", ".join(f"{count} {form}" for form, count in forms.most_common()))
    return int(bool(verdicts.keys() - {"right", "edge"}))


if __name__ == "__main__":
    raise SystemExit(main())

"""Programs at random: bodies of several features under stacks of transformations, as data and as text.

A program is made of a seed.  It is a function ``f0(x, w, k)`` of an argument that is differentiated, an array of floats and one
of integers, whose body is a list of statements; functions ``f1``, ``f2``, ... over it, each of which transforms the one below;
`tg.jit` around one of them, or none; and points to call the last one at.  The text names `np` and `tg`: with NumPy and
tapegrad it is the program under test, with those of `reference` the numbers that it should give.

**To add a feature** write one function and one line:

- a *feature of a body*: a function of `(Body)` that returns the parts of a statement (strings, and lists of statements
  that stand indented between them, in a tuple not indented), with its weight in `FEATURES`.  It may read names by `body.number()`, `body.vector()`, and
  assigns `body.target`, or `body.vectors[0]` if `body.whole`; it keeps shapes and sizes about as they are, so that every statement can be left
  out, which is how programs are made smaller.  What the program needs at the level of the module goes to `body.setup`.
- a *transformation*: a function of `(Stack, f)` that returns the lines of the body of a function `(x, w, k)` over the function named `f`;
  the last line is the result, one expression or several (a value and a derivative), or ``= tg.name(f)``, the transformed function itself.  Its line in `TRANSFORMS` says how
  many derivatives it takes, whether `f` has to return one number, the rank that it adds, and its weight.

If `tg` has a new name, `reference` says what it means, as plainly as it can.  Nothing is left out because tapegrad refuses it:
refusals are counted.
"""

import random
import re
from dataclasses import dataclass, field

#: How many derivatives a stack takes at most, and which sizes of x it may have then (the reference grows like their power).
ORDER, SIZES = 4, {0: 4, 1: 4, 2: 3, 3: 2, 4: 2}


@dataclass
class Program:
    """A program as data; `str` is the text of it, `points` is kept apart."""

    seed: int
    setup: list = field(default_factory=list)
    body: list = field(default_factory=list)  # statements: [feature, part, part, ...]
    first: list = field(default_factory=list)
    result: str = ""
    levels: list = field(default_factory=list)  # [name of the transformation, line, ...], innermost first; {f} is the function below
    jit: int | None = None  # 0: f0 is under jit, 1: f1, ...
    via: str = ""
    points: list = field(default_factory=list)

    def __str__(self):
        lines = [*self.setup, "def f0(x, w, k):", *indented(self.first), *rendered(self.body), f"    return {self.result}"]
        for number, (name, *level) in enumerate([("",), *self.levels]):
            if number and level[-1].startswith("= "):
                name_of = lambda line: line.replace("{f}", f"f{number - 1}").replace("inner", f"inner{number}")  # noqa: B023, E731
                lines += [*map(name_of, level[:-1]), f"f{number} {name_of(level[-1])}  # {name}"]
            elif number:
                lines += [f"def f{number}(x, w, k):  # {name}", *indented([line.replace("{f}", f"f{number - 1}") for line in level])]
            if self.jit == number:
                lines.append(f"f{number} = tg.jit(f{number})")
        return "\n".join([*lines, f"top = f{len(self.levels)}", ""])

    @property
    def features(self):
        """The features of all statements, nested ones too."""

        def walk(statements):
            for name, *parts in statements:
                yield name
                for part in parts:
                    if isinstance(part, (list, tuple)):
                        yield from walk(part)

        return sorted(set(walk(self.body)) - {"change"})

    @property
    def stack(self):
        return [level[0] for level in self.levels]


def indented(lines):
    return ["    " + line for line in lines]


def rendered(statements):
    lines = []
    for _, *parts in statements:
        for part in parts:
            if isinstance(part, tuple):
                lines += [line[4:] for line in rendered(part)]
            else:
                lines += (rendered(part) or ["    pass"]) if isinstance(part, list) else [part]
    return indented(lines)


class Body:
    """What may be read and assigned where a statement stands."""

    def __init__(self, rng, program, numbers, vectors, target, whole, depth=0):
        self.rng, self.program, self.numbers, self.vectors, self.target, self.whole, self.depth = (
            rng, program, numbers, vectors, target, whole, depth,
        )  # fmt: skip
        self.setup = program.setup

    def fresh(self, stem):
        program = self.program
        program.counter = getattr(program, "counter", 0) + 1
        return f"{stem}{program.counter}"

    def inner(self, numbers, vectors, target, whole=False):
        return Body(self.rng, self.program, numbers, vectors, target, whole, self.depth + 1)

    def pick(self, *choices):
        return self.rng.choice(choices)

    def constant(self):
        return self.pick("0.3", "-0.7", "1.2", "0.5", "2", "0.9", "-0.4", "1.5", "1", "3")

    def threshold(self):
        return self.pick("0.1", "-0.2", "0.35", "0.05", "0.6", "-0.45")

    def atom(self):
        kind = self.rng.random()
        if kind < 0.55 and self.numbers:
            return self.rng.choice(self.numbers)
        if kind < 0.75 and self.vectors:
            return f"{self.rng.choice(self.vectors)}[{self.pick('0', '-1')}]"
        if kind < 0.85:
            return self.pick("w[0]", "w[-1]", "w[0]", "w[-1]", "k[0]" if self.program.counts else "w[1]")
        return self.constant()

    def number(self, size=2):
        """An expression of one number."""
        if size <= 0 or self.rng.random() < 0.12:
            return self.atom()
        a, b = self.number(size - 1), self.number(size - 2)
        return self.pick(
            f"np.sin({a})", f"np.cos({a})", f"np.tanh({a} + {b})", f"np.exp(0.3 * np.sin({a}))", f"np.sqrt(1.0 + ({a}) ** 2)", f"np.log1p(({a}) ** 2)",
            f"np.arctan({a})", f"({a}) / (1.0 + ({a}) ** 2)", f"({a} + {b})", f"({a} - {b})", f"({a}) * ({b})", f"({a}) * np.sin({b})",
            f"({a}) / (1.5 + np.cos({b}))", f"np.maximum({a}, {b})", f"np.where({a} > {self.threshold()}, {a}, {b})", f"np.abs({a})",
            f"0.3 * ({a}) ** {self.pick('2', '3', '2.0')}",
        )  # fmt: skip

    def bounded(self):
        """An expression that stays of the size that it has."""
        c = self.target
        return self.pick(
            f"np.sin({self.number(3)}) + 0.5 * {c}", f"np.tanh({self.number(3)}) * 1.2", f"0.8 * {c} + 0.3 * np.cos({self.number(2)})", f"np.sin({c} * {self.number(1)})",
            f"{c} * {self.constant()} / (1.0 + {c} * {c}) + 0.1 * np.sin({self.number(2)})", f"0.4 * {c} * {c} - 0.5 * np.sin({self.number(2)})",
            f"np.sqrt(1.0 + {c} ** 2) - 0.3 * np.tanh({self.number(2)})",
        )  # fmt: skip

    def vector(self, size=2):
        """An expression of an array as long as the vectors."""
        v = self.rng.choice(self.vectors)
        if size <= 0:
            return v
        a, b, c = self.vector(size - 1), self.vector(size - 2), self.number(1)
        return self.pick(
            f"np.sin({a})", f"np.tanh({a} + {b})", f"({a}) * ({b})", f"({a}) * np.cos({c})", f"({a} + {c})", f"({a} - {b})", f"{v}[::-1]", f"np.where({a} > {self.threshold()}, {a}, {b})",
            f"np.cumsum({a})", f"np.exp(0.3 * np.sin({a}))", f"({a}) / (1.0 + ({b}) ** 2)", f"np.arctan({a})", f"np.abs({a})", f"np.maximum({a}, {b})", f"np.sort({a})",
            f"np.clip({a}, -0.8, 0.7)", f"({a}) * np.sum({b})", f"np.roll({a}, 1)", f"np.outer({v}, {b}) @ np.sin({v})",
        )  # fmt: skip

    def condition(self):
        t = self.threshold()
        if self.rng.random() < 0.7:  # which each turn, lane and point may decide in its own way
            return f"{self.rng.choice([self.target, self.target, *self.numbers])} {self.pick('>', '<')} {t}"
        c = self.number(1)
        return self.pick(
            f"{c} > {t}", f"{c} < {t}", f"{c} > {t} and {self.atom()} < 1.1", f"not ({c} <= {t})", f"-0.9 < {c} < {t}", f"np.sin({c}) + 0.05 > {t} * w[0]",
        )  # fmt: skip

    def some(self, least=1, most=2):
        """Statements inside of this one."""
        return [statement(self) for _ in range(self.rng.randint(least, most) if self.program.room > 3 else 1)]


# ---- features of bodies: statements


def plain(body):
    if body.whole and body.rng.random() < 0.5:
        v = body.vectors[0]
        return ["plain", f"{v} = np.tanh({body.vector()}) + 0.3 * {v}"]
    return ["plain", f"{body.target} = {body.bounded()}"]


def branch(body):
    parts = [f"if {body.condition()}:", body.some()]
    if body.rng.random() < 0.25:
        parts += [f"elif {body.condition()}:", body.some(1, 1)]
    return parts + (["else:", body.some(1, 1)] if body.rng.random() < 0.6 else [])


def python_loop(body):
    i, u = body.fresh("i"), body.fresh("u")
    head, more = body.pick((f"for {i} in range({body.pick('2', '3', 'len(w)')}):", [i]), (f"for {u} in w:", [u]), (f"for {u} in {body.vectors[0]}:", [u]))
    inner = body.inner(body.numbers + more, body.vectors, body.target)
    return [head, inner.some()]


def counting(body, c):
    """What each turn of a body changes besides its carry, made before the loop and used in it: where nothing is recorded for later calls."""
    program = body.program
    if program.jit is not None or "sum_over" in program.stack or body.rng.random() < 0.8:
        return [], []
    n = body.fresh("n")
    return [f"{n} = [1.0]"], [["plain", f"{n}[0] *= -0.8", f"{c} = {c} + 0.2 * {n}[0]"]]


def scan(body):
    step, c, u, p = (body.fresh(n) for n in ("step", "c", "u", "p"))
    over = body.pick(body.vectors[0], "w", body.vectors[0], body.pick("k", "w"), f"{body.vectors[0]}[1:]")  # the last may have no elements
    y, after = body.pick(("None", ""), (f"{c} * {u}", "np.sum(ys)"), (f"np.sin({c})", "ys[-1] * ys[0]"), (f"{c} * {u}", "np.sum(ys)"), (f"{p}[:0] * {c}", "np.sum(ys)"))
    if body.rng.random() < 0.25:  # a carry that is a dict, in another order of keys
        inner = body.inner([c, u, "s"], [p], c)
        return [
            f"{p} = {body.vectors[0]}",
            f"def {step}(b, {u}):", [["plain", f"{c}, s = b['b'], b['a']"], *inner.some(), ["plain", f"return dict({body.pick(f'b={c}, a=s * 0.9 + {c}', f'a=s * 0.9 + {c}, b={c})'[:-1])}), {y}"]],
            f"b, ys = tg.scan({step}, {{'b': {body.target}, 'a': {body.atom()} * 1.0}}, {over})",
            f"{body.target} = b['a'] * 0.5 + np.sin(b['b'])" + (f" + 0.1 * np.sin({after})" if after else ""),
        ]  # fmt: skip
    inner, (made, used) = body.inner([c, u], [p], c), counting(body, c)
    return [
        f"{p} = {body.vectors[0]}", *made,
        f"def {step}({c}, {u}):", [*used, *inner.some(), ["plain", f"return {c}, {y}"]],
        f"{body.target}, ys = tg.scan({step}, {body.target}, {over}{body.pick('', '', ', reverse=True')})",
        *([f"{body.target} = {body.target} + 0.1 * np.sin({after})"] if after else []),
    ]  # fmt: skip


def fori_loop(body):
    step, c, i, p = (body.fresh(n) for n in ("step", "c", "i", "p"))
    inner, (made, used) = body.inner([c, i, f"{c} * 0.5"], [p], c), counting(body, c)
    return [
        f"{p} = {body.vectors[0]}", *made, f"def {step}({i}, {c}):", [*used, *inner.some(), ["plain", f"return {c}"]],
        f"{body.target} = tg.fori_loop(0, {body.pick('3', '2', 'len(w)', 'int(abs(k[0])) + 1')}, {step}, {body.target} * 1.0)",
    ]  # fmt: skip


def while_loop(body):
    step, c, i, p = (body.fresh(n) for n in ("step", "c", "i", "p"))
    inner, (made, used) = body.inner([c], [p], c), counting(body, c)
    cond = body.pick("s[0] < 3", f"(s[0] < 4) & (s[1] < {body.pick('0.8', '0.4', '0.15')})", f"s[0] < 5 and abs(s[1]) > {body.pick('0.2', '0.5')}")
    return [
        f"{p} = {body.vectors[0]}", *made, f"def {step}(s):", [["plain", f"{i}, {c} = s"], *used, *inner.some(), ["plain", f"return {i} + 1, {c}"]],
        f"{body.target} = tg.while_loop(lambda s: {cond}, {step}, (0, {body.target} * 1.0))[1]",
    ]  # fmt: skip


def choice(body):
    c = body.target
    one, other = (body.inner(["c", f"{body.vectors[0]}[0]"], body.vectors, "c") for _ in range(2))
    if body.rng.random() < 0.4:  # a branch with a decision inside
        name = body.fresh("one")
        return [f"def {name}(c):", [["plain", "c = c * 1.0"], ["branch", *branch(one)], ["plain", "return c"]],
                f"{c} = tg.cond({body.number(1)} > {body.threshold()}, {name}, lambda c: {other.bounded()}, {c} * 1.0)"]  # fmt: skip
    return [f"{c} = tg.cond({body.number(1)} > {body.threshold()}, lambda c: {one.bounded()}, lambda c: {other.bounded()}, {c} * 1.0)"]


def switch(body):
    c = body.target
    branches = ", ".join(f"lambda c: {body.inner(['c'], body.vectors, 'c').bounded()}" for _ in range(3))
    index = body.pick("k[0] % 3", f"np.sum({body.vectors[0]} > {body.threshold()})", "abs(k[-1])", f"1 * ({c} > {body.threshold()})")
    return [f"{c} = tg.switch({index}, [{branches}], {c} * 1.0)"]


def map_(body):
    name, u, r = body.fresh("each"), body.fresh("u"), body.fresh("r")
    inner = body.inner([r, u], [], r)
    v = body.vectors[0]
    inner.vectors = ["w"]
    call = body.pick(f"tg.map({name}, {v})", f"tg.map({name}, w)", f"tg.vmap({name})({v})", f"tg.vmap({name})(w)", f"tg.map({name}, {v}[1:])")
    return [f"def {name}({u}):", [["plain", f"{r} = {u} * {body.constant()}"], *inner.some(), ["plain", f"return {r}"]], f"{body.target} = {body.target} * 0.5 + np.sin(np.sum({call}))"]


def in_place(body):
    a, v, c = body.fresh("a"), body.vectors[0], body.number(1)
    if body.rng.random() < 0.25:  # constants that are used, overwritten and used again
        first, then = (f"{body.target} = {function}(np.sum({a} * {v})) + 0.4 * {body.target}" for function in ("np.sin", "np.tanh"))
        change = body.pick(f"{a}[0] = {body.constant()}", f"{a} *= {body.constant()}", f"{a}[...] = {body.constant()}", f"{a} += {body.threshold()}")
        return [f"{a} = {body.pick('np', 'tg')}.zeros(len({v}))", (["change", f"{a}[...] = {body.constant()}"],), first, (["change", change],), then]
    change = lambda: body.pick(  # noqa: E731
        f"{a}[0] = {body.number(1)}", f"{a}[-1] *= np.sin({c})", f"{a} += 0.3 * {v}", f"{a}[:1] -= {body.threshold()}", f"{a}[{a} > {body.threshold()}] = 0.2",
        f"{a} *= {body.constant()}", f"{a}[::-1] += 0.1 * {a}", f"{a}[{a} > {body.threshold()}] *= {c}", f"{a}[k % len({a})] = 0.5", f"np.add({a}, {v}, out={a})", f"{a}[...] = np.cos({a})",
    )  # fmt: skip
    made = body.pick(f"{v}.copy()", f"np.zeros_like({v})", f"{v} * 1.0", f"np.sin({v})", f"tg.zeros(len({v}))", f"np.zeros(len({v}))")
    return [f"{a} = {made}", tuple(["change", change()] for _ in range(body.rng.randint(1, 3))), f"{body.target} = np.tanh(np.sum({a} * {body.vector(1)})) + 0.2 * {body.target}"]


def view(body):
    a, b, v = body.fresh("a"), body.fresh("b"), body.vectors[0]
    cut = body.pick(f"{a}[1:]", f"{a}[::-1]", f"{a}[:1]", f"{a}.reshape(-1, 1)", f"{a}[None, :]", f"{a}.T", f"{a}[-1:]", f"{a}.reshape(1, -1)[0]")
    change = body.pick(f"{b} *= {body.number(1)}", f"{b}[...] = np.sin({b})", f"{b} += {body.constant()}", f"{b}[:1] = {body.number(1)}", f"{a}[0] = {body.number(1)}", f"{a} *= {b}.sum()")
    return [f"{a} = {v} * 1.0", f"{b} = {cut}", (["change", change], ["change", f"{a}[0] += 0.3"]), f"{body.target} = np.sin(np.sum({a}) + {body.pick(f'np.sum({b} * {b})', f'np.sum({b})')} * 0.5) + 0.3 * {body.target}"]


def captured(body):
    if body.rng.random() < 0.15:
        return [f"{body.target} = np.sin(np.float32({body.constant()}) * {body.vectors[0]}[0] + {body.number(1)}) + 0.5 * {body.target}"]
    name = body.fresh("C")
    numbers = ", ".join(body.pick("0.5", "-1.0", "2.0", "0.25", "-0.75") for _ in range(4))
    body.setup.append(f"{name} = {body.pick('np.array', 'tg.tensor', 'np.array', 'list', 'tuple')}([{numbers}])")
    v = body.vectors[0]
    if body.setup[-1].startswith(f"{name} = np") or "tensor" in body.setup[-1]:
        return [f"{body.target} = {body.pick(f'np.tanh(np.sum({name}[:{v}.shape[0]] * {v}))', f'np.sin({name}[1] * {body.number(1)})', f'np.sin({name} @ {name} * {body.target})')} + 0.5 * {body.target}"]
    return [f"{body.target} = np.sin({name}[1] * {body.target} + sum({name}))"]


def container(body):
    d, c, v = body.fresh("d"), body.target, body.vectors[0]
    made, read = body.pick(
        (f"{{'b': {c}, 'a': [{v}, {body.number(1)}]}}", f"{d}['b'] * {d}['a'][1] + {d}['a'][0][0]"), (f"[{c}, ({v}, {body.number(1)})]", f"{d}[0] + {d}[1][0][-1] * {d}[1][1]"),
        (f"[u * {body.constant()} for u in {v}]", f"sum({d}) * 0.5 + len({d})"), (f"dict(zip('ab', ({c}, {body.number(1)})))", f"sum(value * (0.5 + j) for j, value in enumerate({d}.values()))"),
        (f"{{j: u for j, u in enumerate({v})}}", f"{d}[0] * {c} + max({d}.values())"),
        (f"{{True: {c} * {body.constant()}, False: {body.number(1)}}}", f"{d}[{c} > {body.threshold()}]"), (f"np.array([{c}, {body.pick(body.number(1), '1.0')}])", body.pick(f"{d} @ {d}", f"{d}[0] * {d}[1]", f"np.sum(np.sin({d}))")),
    )  # fmt: skip
    return [f"{d} = {made}", f"{c} = np.sin({read})"]


def integers(body):
    c, v, q = body.target, body.vectors[0], body.fresh("q")
    if body.rng.random() < 0.08:  # 0 or 1, exact also as float16, which integers of 8 bits make
        return [f"{c} = np.sin({body.number(1)}) * {c} + np.sqrt(np.sign(k[0]) ** 2) * {v}[0]"]
    if body.rng.random() < 0.15:
        change = body.pick(f"{q}[0] += 1", f"{q} *= {q}", f"np.add({q}, 1, out={q})", f"np.add.at({q}, [0, 0], 2)", f"{q}[{q} > 0] = 2")
        return [f"{q} = k.copy()", (["change", change],), f"{c} = np.sin(0.3 * {body.pick(f'{q}[0]', f'np.sum({q})', f'({q} @ k)')}) * {c} + 0.2 * {body.number(1)}"]
    q = body.pick(
        "k @ k", "np.dot(k, k)", f"({v} > {body.threshold()}).astype(int) @ np.arange(len({v}))", f"np.where({v} > {body.threshold()}, 1, 0) @ np.where({v} > 0, 2, 1)", "np.outer(k, k)[0] @ k",
        "(k[:, None] * k @ k)[0]", "k[0] << 1", "k[0] % 3", "k[-1] // 2", f"np.sum({v} > {body.threshold()})", "np.sum(k > 0)", "(k ** 2).sum()", "k[0] * k[-1] - 7", "(k & 3).sum()", "np.sum(k[k > 0])",
        "int(k[0])", "np.max(k)", "np.argmax(k)", "np.cumsum(k)[-1]", "(k[0] > 1) + (k[-1] > 0)", "np.prod(k[:2])", "np.linalg.matrix_power(np.outer(k[:2], k[:2]), 2)[0, 0]", "np.einsum('i,i', k, k)",
        "np.vecdot(k, k)", "(np.outer(k, k) @ k)[-1]", "np.matvec(np.outer(k, k), k)[0]", "np.inner(k, k)", "~k[0]", "(k[0] ^ 5)", "k[0] >> 1", "np.sign(k[0])", "divmod(int(k[0]), 3)[1]", "np.sort(k)[0]",
        "np.count_nonzero(k)",
    )  # fmt: skip
    if body.program.via == "numba":  # where `True + True` is 2, as in Python; NumPy says True
        q = q.replace("(k[0] > 1) + (k[-1] > 0)", "int(k[0] > 1) + int(k[-1] > 0)")
    return [f"{c} = np.sin({body.pick('0.1', '0.7')} * ({q})) * {c} + {body.pick('0.05', '0.2')} * {body.number(1)}"]


def masks(body):
    c, v, m = body.target, body.vectors[0], body.fresh("m")
    t, s = body.threshold(), body.threshold()
    made = body.pick(
        f"{v} > {t}", f"({v} > {t}) & ({v} < 1.2)", f"({v} > {t}) | ({v} < {s})", f"({v} > {t}) ^ (w[0] > 0)", f"~({v} > {t})", f"(np.arange(len({v})) > 0) & ({v} < {s})", f"np.logical_and({v} > {t}, {c} < {s})", f"({v} > {t}).copy()",
    )  # fmt: skip
    return [f"{m} = {made}", f"{c} = np.sin({body.pick(f'np.sum({m} * {v})', f'np.sum(np.where({m}, {v}, -{v} ** 2))', f'np.sum({v}[{m}])', f'{m}.sum() * {c}', f'np.mean({m}) * {c}', f'({m} * 1 @ {v})', f'({m} @ {m}) * {c}', f'np.sum(({v} * {v})[{m}]) + {c} * {m}.any()')}) + 0.5 * {c}"]


def complex_parts(body):
    c, z = body.target, body.fresh("z")
    made = body.pick(f"{c} + 1j * ({body.number(1)})", f"np.exp(1j * {c}) * ({body.number(1)})", f"({c} + 0.5j) * (1.0 - 2j)", f"({c} + 2j) ** 2", f"1.0 / ({c} + 1.5j)")
    read = body.pick(f"np.real({z} * {z})", f"np.imag(np.exp({z}))", f"np.log1p(np.real({z} * np.conj({z})))", f"np.abs({z} + 3.0)", f"({z} * {z}).imag", f"np.real(np.sin({z}))", f"np.imag(np.sqrt({z} + 4.0))", f"{z}.real * {z}.imag")
    return [f"{z} = {made}", f"{c} = np.tanh(0.3 * {read})"]


def custom_rule(body):
    name = body.fresh("P")
    kind = body.pick("vjp", "jvp", "function", "branching")
    if kind == "function":
        body.setup += [
            f"class {name}(tg.autograd.Function):", "    @staticmethod", "    def forward(ctx, a):", "        ctx.save_for_backward(a)", "        return np.sin(a) * a", "    @staticmethod",
            "    def backward(ctx, g):", "        (a,) = ctx.saved_tensors", "        return g * (np.cos(a) * a + np.sin(a))",
        ]  # fmt: skip
        return [f"{body.target} = {name}.apply({body.target} * 1.0) * 0.5 + 0.1 * {body.atom()}"]
    if kind == "branching":
        body.setup += [f"def _{name}(a):", "    return a * a if a > 0.2 else np.sin(a)", f"{name} = tg.custom_vjp(_{name}, lambda g, r, a: (g * (2.0 * a if a > 0.2 else np.cos(a)),))"]
        return [f"{body.target} = np.tanh({name}({body.target} * 1.0))"]
    rule = "tg.custom_vjp(lambda a, b: a * np.sin(b), lambda g, r, a, b: (g * np.sin(b), g * a * np.cos(b)))" if kind == "vjp" else "tg.custom_jvp(lambda a, b: a * np.sin(b), lambda t, r, a, b: t[0] * np.sin(b) + t[1] * a * np.cos(b))"
    body.setup.append(f"{name} = {rule}")
    return [f"{body.target} = {name}({body.target} * 1.0, {body.number(1)} * 1.0)"]


def checkpoint(body):
    name = body.fresh("part")
    inner = body.inner(["c", "u"], ["w"], "c")
    more, as_given = body.pick(("", "1.0"), (", o", "(1.0 if o is w else 2.0)"))
    return [
        f"def {name}(c, u{more}):", [["plain", f"c = c * {as_given}"], *inner.some(), ["plain", "return c"]],
        f"{body.target} = tg.checkpoint({name})({body.target}, {body.vectors[0]}[0]{more and ', w'})",
    ]  # fmt: skip


def caught(body):
    c = body.target
    raised, handler = body.pick(
        (f"if {body.condition()}:\n        raise ValueError('far')", "ValueError"), (f"{c} = {c} * [0.5, 0.7][int(k[0] % 3)]", "IndexError"), (f"{c} = {c} * {{0: 0.5, 1: 0.8}}[int(k[-1] % 3)]", "KeyError"),
        (f"{c} = {c} + 1 / int(k[0])", "ZeroDivisionError"), (f"assert {body.number(1)} > {body.threshold()}", "AssertionError"), (f"{c} = {c} + np.sin(w[int(k[0])])", "IndexError"),
    )  # fmt: skip
    return ["try:", [["plain", *raised.split("\n    ")], *body.some(1, 1)], f"except {handler}:", body.some(1, 1)]


def closure(body):
    name, c = body.fresh("g"), body.target
    inner = body.inner(["u", "s"], ["w"], "u")
    return [f"def {name}(u, s={body.constant()}, *more):", [*inner.some(), ["plain", "return u"]], f"{c} = {name}({c} * 1.0, {body.pick(f's={body.number(1)}', body.number(1))}) * 0.5 + {name}({c} * 0.3)"]


def derivative_inside(body):
    """A derivative in the body, of a function that captures what is being differentiated."""
    name, c = body.fresh("g"), body.target
    inner = body.inner(["u", c], body.vectors, "u")
    inner.vectors = [body.vectors[0]]
    took = body.pick(f"tg.grad({name})({body.number(1)} * 1.0)", f"tg.jvp({name}, ({c} * 1.0,), (0.7,))[1]", f"tg.value_and_grad({name})({c} * 1.0)[1]", f"tg.derivative({name})({c} * 1.0)")
    return [f"def {name}(u):", [["plain", f"return np.sin(u * {inner.atom()}) * {inner.number(2)}"]], f"{c} = np.tanh({took}) + 0.2 * {c}"]


FEATURES = {
    "plain": (4, plain), "branch": (4, branch), "python_loop": (2, python_loop), "scan": (4, scan), "fori_loop": (2.5, fori_loop), "while_loop": (2.5, while_loop), "cond": (2.5, choice),
    "switch": (2, switch), "map": (2.5, map_), "in_place": (2.5, in_place), "view": (2, view), "captured": (2, captured), "container": (2, container), "integers": (3.5, integers),
    "masks": (2.5, masks), "complex": (2, complex_parts), "custom_rule": (2, custom_rule), "checkpoint": (1.5, checkpoint), "caught": (2, caught), "closure": (1.5, closure), "derivative_inside": (1.2, derivative_inside),
}  # fmt: skip
#: What Numba may follow.
NUMBA = {"plain": 4, "branch": 4, "python_loop": 4, "in_place": 3, "view": 2, "captured": 2, "integers": 3, "masks": 2, "closure": 1, "container": 1, "complex": 1, "caught": 1}


#: What takes several turns.
LOOPS = {"python_loop", "scan", "fori_loop", "while_loop", "map", "derivative_inside"}


def statement(body):
    """One of the features; what loops is rarer inside of a loop, and a program has few statements."""
    program = body.program
    program.room -= 1
    weights = program.weights if program.room > 0 else {"plain": 2, "branch": 1} if body.depth < 2 else {"plain": 1}
    if body.depth:
        weights = {name: weight * (0.15 if name in LOOPS else 0.4 if name in ("integers", "masks") else 1.0) for name, weight in weights.items()}
    (name,) = body.rng.choices(list(weights), list(weights.values()))
    parts = FEATURES[name][1](body)
    return parts if name == "plain" else [name, *parts]


# ---- transformations


class Stack:
    """What the one that is being put on top may ask: `scalar` x, how many derivatives, the rank of the result below."""

    def __init__(self, rng, rank_of_x, rank, last, via="", below=()):
        self.rng, self.rank_of_x, self.rank, self.last, self.via, self.below = rng, rank_of_x, rank, last, via, below

    def pick(self, *choices):
        return self.rng.choice(choices)

    def direction(self):
        if self.rank_of_x == 0:
            return self.pick("0.7", "np.cos(x)", "1.0")
        return self.pick("np.ones_like(x)", "np.cos(x)", "0.5 * np.sin(2.0 * x)", "D[:len(x)]" if self.rank_of_x == 1 else "np.ones_like(x)")

    def lanes(self):
        return f"np.stack([x, 0.8 * x, np.sin(x){self.pick('', ', x - 0.3', ', 1.5 * x')}]"


def t_grad(s, f):
    via = s.via
    if not via and s.rng.random() < 0.4:
        return [f"= tg.grad({f})"]
    if via:
        return [f"return tg.grad({f}{via})(x, w, k)"]
    if s.rng.random() < 0.15:
        return as_given("grad", f)
    if s.rank_of_x == 1 and s.rng.random() < 0.35:  # an argument in a container, by any order of keys
        return s.pick(
            [f"g = tg.grad(lambda p: {f}(np.concatenate([p['b'], p['a']['c']]), w, k))({{'b': x[:1], 'a': {{'c': x[1:]}}}})", "return np.concatenate([g['b'], g['a']['c']])"],
            [f"g = tg.grad(lambda p: {f}(np.concatenate([p['a'], p['b']]), w, k))({{'b': x[1:], 'a': x[:1]}})", "return np.concatenate([g['b'], g['a']])"],
            [f"g = tg.grad(lambda p: {f}(p[0] * p[1], w, k))((x, 0.9))", "return g[0] * g[1]"],
            [f"g = tg.grad(lambda p: {f}(np.stack(p), w, k))([u for u in x])", "return np.stack(g)"],
        )  # fmt: skip
    return s.pick([f"return tg.grad({f})(x, w, k)"], [f"return tg.grad(lambda x: {f}(x, w, k))(x)"], [f"return tg.grad({f}, argnums=0)(x, w, k)"], [f"return tg.grad(lambda w, x: {f}(x, w, k), 1)(w, x)"])


def t_value_and_grad(s, f):
    if s.last and not s.via and s.rng.random() < 0.6:
        return [f"= tg.value_and_grad({f})"]
    return ["value, gradient = " + f"tg.value_and_grad({f}{s.via})(x, w, k)", "return value, gradient"]


def as_given(name, f):
    """What is not differentiated arrives as the object that it is."""
    return ["o = (w, k)", f"return tg.{name}(lambda x, o: {f}(x, *o) * (1.0 if o[0] is w else 2.0))(x, o)"]


def t_jacobian(name):
    return lambda s, f: s.pick(as_given(name, f), [f"= tg.{name}({f})"], [f"= tg.{name}({f})"], [f"return tg.{name}({f})(x, w, k)"], [f"return tg.{name}(lambda x: {f}(x, w, k))(x)"])


def t_hvp(s, f):
    return [f"return tg.hvp({f})(x, w, k, {s.direction()})"]


def t_vjp(s, f):
    seed, other = s.pick("np.ones_like(y)", "np.cos(y)"), s.pick("y * 0.5", "np.sin(y)", "np.ones_like(y)")
    return [f"y, back = tg.vjp(lambda x: {f}(x, w, k), x)", f"return y, back({seed})[0], back({other})[0]"]


def t_jvp(s, f):
    return [f"y, dy = tg.jvp(lambda x: {f}(x, w, k), (x,), ({s.direction()},))", "return y, dy"]


def t_jet(s, f):
    return [f"y, series = tg.jet(lambda x: {f}(x, w, k), (x,), ([{s.direction()}, {s.direction()}],))", "return series[0], series[1]"]


def t_linearize(s, f):
    return [f"y, push = tg.linearize(lambda x: {f}(x, w, k), x)", f"return y, push({s.direction()}), push({s.direction()})"]


def t_vmap(s, f):
    lanes, out = s.lanes(), s.pick("", "", ", out_axes=-1", ", out_axes=1" if s.rank else "")
    axis = s.pick("0", "-1", "1") if s.rank_of_x else "0"
    if s.rng.random() < 0.15:
        return [f"g = tg.vmap({f}, (0, None, None){out})", f"return g({lanes}), w, k)"]
    return s.pick(
        [f"return tg.vmap({f}, in_axes=({axis}, None, None){out})({lanes}, axis={axis}), w, k)"], [f"return tg.vmap(lambda x: {f}(x, w, k){out and out.replace(', ', ', ')})({lanes}))"],
        [f"return tg.vmap({f}, in_axes=(None, 0, None){out})(x, np.stack([w, 0.5 * w, w[::-1]]), k)"], [f"return tg.vmap({f}, in_axes=(None, None, 0){out})(x, w, np.stack([k, k + 1, k[::-1]]))"],
        [f"return tg.vmap(lambda u: {f}(x * u, w, k){out})(w)"], [f"return tg.vmap({f}, in_axes=(0, 1, None){out})(np.stack([x, 0.7 * x]), np.stack([w, w - 0.3], axis=1), k)"],
        [f"return tg.vmap(tg.vmap({f}, (None, 0, None)), (0, None, None))({lanes}), np.stack([w, 0.5 * w]), k)"],
    )  # fmt: skip


def t_sum_over(s, f):
    rows = s.pick("R", "R", "{'b': R, 'a': R[:, 0]}")
    row = "r" if rows == "R" else "r['b']"
    # (Of a sum in a sum, one call for each chunk.)
    each = f"{f}(t, {row}[0], k) * np.sum({row})" if "sum_over" in s.below else s.pick(f"sum({f}(t, u, k) for u in {row})", f"np.sum(tg.vmap(lambda u: {f}(t, u, k))({row}), axis=0)") if rows == "R" else f"sum({f}(t, u, k) * v for u, v in zip({row}, r['a']))"
    return [f"return tg.sum_over(lambda t, r: {each}, {rows}, chunk={s.pick(1, 2, 3)})(x)"]


def t_sparse_jacobian(s, f):
    return [f"return tg.sparse_jacobian({f})(x, w, k).toarray()"]


def t_backward(s, f):
    return ["p = tg.tensor(x, requires_grad=True)", f"y = {f}(p, w, k)", "y.backward()", "return p.grad"]


def t_create_graph(s, f):
    return s.pick(
        ["p = tg.tensor(x, requires_grad=True)", f"y = {f}(p, w, k)", "y.backward(create_graph=True)", "z = np.sum(p.grad * p.grad)", "p.grad = None", "z.backward()", "return p.grad"],
        ["p = tg.tensor(x, requires_grad=True)", f"y = {f}(p, w, k)", "(g,) = tg.autograd.grad(y, p, create_graph=True)", "return tg.autograd.grad(np.sum(np.sin(g)), p)[0]"],
    )  # fmt: skip


def t_autograd_grad(s, f):
    head = ["p = tg.tensor(x, requires_grad=True)", f"y = {f}(p, w, k)"]
    return s.pick(
        [*head, f"return tg.autograd.grad(y, p, {s.pick('np.ones(y.shape)', '0.5 * np.ones(y.shape)')})[0]"],
        [*head, "seeds = np.stack([np.ones(y.shape), np.full(y.shape, -0.5), np.full(y.shape, 2.0)])", "return tg.vmap(lambda s: tg.autograd.grad(y, p, s, retain_graph=True)[0])(seeds)"],
        [*head, "pull = tg.jit(lambda s: tg.autograd.grad(y, p, s, retain_graph=True)[0])", "return pull(np.ones(y.shape)), pull(np.full(y.shape, -0.5))"],
    )  # fmt: skip


#: name -> (weight, derivatives that it takes, whether it wants one number, rank that it adds: "x", "xx" by the argument's, "lane" by one; the function)
TRANSFORMS = {
    "grad": (3, 1, True, "=x", t_grad), "value_and_grad": (1.5, 1, True, "=x", t_value_and_grad), "jacfwd": (2, 1, False, "x", t_jacobian("jacfwd")), "jacrev": (2, 1, False, "x", t_jacobian("jacrev")),
    "jacobian": (1.5, 1, False, "x", t_jacobian("jacobian")), "hessian": (2, 2, True, "xx", t_jacobian("hessian")), "hvp": (1.5, 2, True, "=x", t_hvp), "vjp": (2, 1, False, "=x", t_vjp),
    "jvp": (2, 1, False, "", t_jvp), "jet": (1.5, 2, False, "", t_jet), "linearize": (1.5, 1, False, "", t_linearize), "vmap": (3, 0, False, "lane", t_vmap),
    "elementwise_grad": (1.5, 1, False, "=x", t_jacobian("elementwise_grad")), "hessian_diag": (1.5, 2, True, "=x", t_jacobian("hessian_diag")), "laplacian": (1, 2, True, "", t_jacobian("laplacian")),
    "sum_over": (1, 0, False, "", t_sum_over), "sparse_jacobian": (1.5, 1, False, "x", t_sparse_jacobian), "backward": (1.5, 1, True, "=x", t_backward), "create_graph": (1.5, 2, True, "=x", t_create_graph),
    "autograd_grad": (1.5, 1, False, "=x", t_autograd_grad),
}  # fmt: skip
#: What comes mostly on top: refused, or run plainly, inside of other derivatives.
OUTERMOST = {"sparse_jacobian", "backward", "create_graph", "autograd_grad"}


def stack_of(rng, program, rank_of_x, rank, via):
    # (With `via` there are first derivatives: what stands above one is refused, and so is `jit`.)
    depth, order = rng.choices([1, 2, 3, 4], [75, 20, 4, 1] if via else [4, 34, 50, 12])[0], 0
    # Many stacks begin with any two transformations, so that no pair is rare.
    pair = rng.choices(list(TRANSFORMS), k=2) if not via and depth > 1 and rng.random() < 0.48 else []
    # Code of lanes is compiled, which takes long of high derivatives: mostly there are lanes, or such derivatives.
    lanes = rng.random()
    most, barred = (ORDER, {"vmap", "sum_over"}) if lanes < 0.08 else (3, {"vmap", "sum_over"}) if lanes < 0.58 else (1, set()) if lanes < 0.88 else (2, set()) if lanes < 0.99 else (3, set())
    most = max(most, depth) if barred else most
    for number in range(depth):
        names = [
            name
            for name, (_, takes, *_) in TRANSFORMS.items()
            if name not in barred and order + takes + bool(barred) * (depth - number - 1) <= most and (not via or number or name in ("grad", "value_and_grad"))
        ]
        if number < len(pair):
            names = [pair[number]]
        if "sum_over" in program.stack and rng.random() < 0.9:  # of a sum in a sum kernels are compiled at every call
            names = [name for name in names if name != "sum_over"]
        if not names:
            continue
        last = number == depth - 1
        weights = [TRANSFORMS[name][0] * (1.0 if last or name not in OUTERMOST else 0.3) for name in names]
        (name,) = rng.choices(names, weights)
        _, takes, wants_one, adds, made = TRANSFORMS[name]
        lines, inner = [], "{f}"
        if rank and (wants_one or rank > 2):
            lines = [f"def inner(x, w, k): return {rng.choice(['np.sum({f}(x, w, k))', 'np.sum(np.sin({f}(x, w, k)))', 'np.mean({f}(x, w, k) ** 2)', 'np.sum(np.where({f}(x, w, k) > 0.1, 2.0, 1.0) * {f}(x, w, k))'])}"]
            inner, rank = "inner", 0
        body = made(Stack(rng, rank_of_x, rank, last, via if not number else "", program.stack), inner)
        order += takes
        rank = rank_of_x if adds == "=x" else rank + {"x": rank_of_x, "xx": 2 * rank_of_x, "lane": 1, "": 0}[adds]
        if name == "sparse_jacobian" or name == "autograd_grad":
            rank = 2
        results = body[-1].removeprefix("return ")
        if not last and "," in results and results.split(",")[-1].strip().isidentifier() or not last and "back(" in results or not last and "push(" in results or not last and "series[" in results or not last and "pull(" in results:
            # One array for what comes above: the last result, and the others in what they add.
            body[-1:] = [f"results = ({results})", f"return results[-1] + sum({rng.choice(['0.1', '0.5'])} * np.sum(r) for r in results[:-1])"]
        program.levels.append([name, *lines, *body])
    return order


def program_of(seed, kernel="", via=""):
    """The program of a seed; `points` are lists of numbers, at which no decision is close (`drawn`)."""
    rng = random.Random(seed)
    program = Program(seed, via=via)
    kernel = kernel or rng.choices(["never", "auto"], [99, 1])[0]
    weights = NUMBA if via == "numba" else {name: weight for name, (weight, _) in FEATURES.items()}
    program.weights = {name: weight * rng.choice((0.2, 1, 1, 3)) for name, weight in weights.items()}
    rank_of_x = rng.choices([0, 1, 2], [20, 70, 10])[0]
    returns = rng.choice(["number", "number", "vector"]) if via != "numba" else "number"
    order = stack_of(rng, program, rank_of_x, 0 if returns == "number" else 1, f", via={via!r}" if via else "")
    size = rng.randint(1, SIZES[order]) if rank_of_x == 1 else SIZES[order] if rank_of_x else 1
    program.setup = [f"tg.config.kernel = {kernel!r}", "D = np.array([0.5, -1.0, 0.8, 0.3])", "R = np.array([[0.5, -0.3, 0.8], [1.1, 0.4, -0.6], [-0.9, 0.2, 0.7]])"]
    if rank_of_x == 0:
        program.first = [rng.choice(["v = np.stack([x, 0.5 * x, x * x])", "v = x * w", "v = np.array([0.7, -1.1]) * x"]), "c = x * 1.0"]
    elif rank_of_x == 1:
        program.first = [rng.choice(["v = x * 1.0", "v = x[::-1]", "v = np.sin(x)", "v = x[k % len(x)]", "v = np.concatenate([x, x * x])"]), rng.choice(["c = np.sum(x)", "c = x[0]", "c = x[-1] * w[0]", "c = np.mean(x * x)"])]
    else:
        program.first = [rng.choice(["v = x.ravel()", "v = x[0]", "v = x @ x[-1]", "v = x.sum(axis=0)"]), rng.choice(["c = np.sum(x)", "c = x[0, -1]", "c = np.trace(x)"])]
    program.jit = None if rng.random() < (0.9 if via else 0.4) else rng.choice([*range(len(program.levels) + 1), len(program.levels)])
    body = Body(rng, program, ["c"], ["v"], "c", True)
    program.counts = rng.random() < 0.2  # whether integers stand among floats everywhere: loops that convert them take kernels, which take long to make
    program.room = rng.choices([2, 3, 4, 6], [25, 35, 25, 15])[0]
    program.body = [statement(body)]
    while program.room > 0 and len(program.body) < 4:
        program.body.append(statement(body))
    program.result = (
        rng.choice(["c", "c + np.sum(v)", "c * np.sum(v * v)", "np.sin(c) + v[0] * v[-1]"]) if returns == "number" else rng.choice(["v * c", "np.stack([c, v[0] * c, np.sin(c)])", "np.sin(v) + c", "v * v * np.cos(c)"])
    )
    shape = {0: (), 1: (size,), 2: (2, size if size < 3 else 2)}[rank_of_x]
    program.points = list(points(rng, shape))
    if "np.sign(k[0]) ** 2" in str(program):
        program.points[-1] = (*program.points[-1][:3], "int8")
    if program.counts or re.search(r"tg\.scan\(.*, k\b", str(program)):
        # NumPy's functions of integers of 8 bits have three digits, which the reference does not know.
        program.points = [(x, w, k, "int32" if dtype.endswith("int8") else dtype) for x, w, k, dtype in program.points]
    if program.jit is None or program.jit < len(program.levels) and {"vmap", "sum_over"} & set(program.stack):
        del program.points[2:3]
    return program


def points(rng, shape):
    """Where to call: a point, mostly of one sign, so that few paths are met; one of the other sign; one that mixes them; then other shapes and dtypes."""
    def x(shape, scale):
        if not shape:
            return round(rng.uniform(-scale, scale), 3)
        return [x(shape[1:], scale) for _ in range(shape[0])]

    def near(p, change):
        return [near(q, change) for q in p] if isinstance(p, list) else round(change(p), 3)

    m = 3  # sum_over's rows have three numbers
    first = x(shape, 1.5)
    w, k = x((m,), 1.0), [rng.randint(-2, 5) for _ in range(m)]
    if rng.random() < 0.7:
        side = rng.choice((-1.0, 1.0))
        first, w = (near(p, lambda a: side * (abs(a) + 0.1)) for p in (first, w))
    yield first, w, k, "int64"
    yield near(first, lambda a: -a + 0.05), near(w, lambda a: -a), [rng.randint(-2, 5) for _ in range(m)], "int64"
    yield near(first, lambda a: a * rng.choice((-1.0, 1.1)) + 0.02), near(w, lambda a: a * rng.choice((-0.9, 1.0))), [rng.randint(-2, 5) for _ in range(m)], "int64"
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        other, length = shape, m
        if len(shape) == 1 and rng.random() < 0.5:
            other = (max(1, shape[0] + rng.choice((-1, 1)) if shape[0] < 3 else shape[0] - 1),)
        yield x(other, 1.5), x((length,), 1.0), [rng.randint(0, 4) for _ in range(length)], rng.choice(("int64", "int32", "uint8", "int8", "int64"))

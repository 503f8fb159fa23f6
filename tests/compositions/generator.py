"""Programs at random: bodies of several features under stacks of transformations, as data and as text.

A program is made of a seed.  It is a function ``f0(x, w, k)`` of an argument that is differentiated, an array of floats and one
of integers, whose body is a list of statements; functions ``f1``, ``f2``, ... over it, each of which transforms the one below;
`tg.jit` around one of them, or none; and points to call the last one at.  The text names `np` and `tg`: with NumPy and
tapegrad it is the program under test, with those of `reference` the numbers that it should give.

**To add a feature** write one function and one line:

- a *feature of a body*: a function of `(Body)` in `features` that returns the parts of a statement (strings, and lists of statements
  that stand indented between them, in a tuple not indented), with its weight in `LATER`.  It may read names by `body.number()`, `body.vector()`, and
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

from .features import NUMBA, Body, offered, statement

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
    program.offered = offered(seed)
    weights = NUMBA if via == "numba" else {name: weight for name, (weight, _) in program.offered.items()}
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

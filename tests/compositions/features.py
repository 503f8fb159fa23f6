"""Features of the bodies of random programs: functions of a `Body` that write one statement each (see `generator`)."""



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
    """What each turn of a body changes besides its carry, made before the loop and used in it."""
    program = body.program
    if "sum_over" in program.stack or body.rng.random() < 0.8:
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


def names_of_scipy(body):
    c, v, q = body.target, body.vectors[0], body.fresh("q")
    sos = "[[0.2, 0.3, 0.1, 1.0, -0.4, 0.2], [1.0, -0.5, 0.0, 1.0, 0.3, 0.0]]"
    n, metric = f"len({v})", body.pick("", ", 'sqeuclidean'")
    made = body.pick(
        f"tg.scipy.signal.savgol_filter({body.vector(1)}, 3, 1, mode='nearest')", f"tg.scipy.signal.sosfilt(np.array({sos}), {body.vector(1)})",
        f"tg.scipy.ndimage.gaussian_filter1d({body.vector(1)}, {body.pick('0.8', '1.3')})",
        f"tg.scipy.spatial.distance.cdist(np.stack([{v}, {body.vector(1)}], axis=1), np.array([[4.0, 5.0], [-4.0, 6.0]]){metric}) * 0.1",
        f"np.atleast_1d(tg.scipy.optimize.rosen(np.stack([{c}, {body.number(1)}, {v}[0]])) * 0.01)",
        f"tg.scipy.interpolate.PchipInterpolator(np.array([-2.0, -0.5, 0.6, 2.0]), np.stack([{c}, {v}[0], {body.number(1)}, {v}[-1] * 0.5]))({body.pick(f'np.sin({v})', 'np.array([-1.3, 0.2, 0.7, 1.9])')})",
        f"tg.scipy.interpolate.BSpline(np.array([-1.0, -1.0, -1.0, 0.2, 1.0, 1.0, 1.0]), np.stack([{c}, {v}[0], {body.number(1)}, {v}[-1] * 0.5]), 2)({body.pick(f'np.sin({v})', 'np.array([-0.8, 0.1, 0.7])')})",
        f"tg.scipy.interpolate.RegularGridInterpolator((np.array([-1.5, 0.1, 1.4]),), np.stack([{c}, {v}[0] * 2.0, {body.number(1)}]))({body.pick(f'np.sin({v})[:, None]', 'np.array([[-1.2], [0.3], [0.9]])')})",
        f"tg.scipy.sparse.csr_array((np.concatenate([{v} + 3.0, {v}[1:]]), np.concatenate([np.arange({n}), np.arange({n} - 1)]), np.concatenate([np.arange({n}), [2 * {n} - 1]])), shape=({n}, {n})) @ {body.vector(1)}",
        f"tg.scipy.sparse.linalg.spsolve(tg.scipy.sparse.csr_array((np.sin({v}) + 2.0, np.arange({n}), np.arange({n} + 1)), shape=({n}, {n})), {body.vector(1)})",
    )  # fmt: skip
    return [f"{q} = {made}", f"{c} = np.sin(np.sum({q} * {body.pick('0.5', f'{q} * 0.3')})) + 0.4 * {c}"]


def names_of_others(body):
    """What programs written for JAX, PyTorch and autograd bring with them: containers of their own, pairs of rules, writing through ufuncs."""
    c, v, q, n = body.target, body.vectors[0], body.fresh("q"), body.fresh("N")
    kind = body.pick("ufunc", "complex", "positions", "rules", "class", "ravel", "argnums")
    if kind == "ufunc":
        made, read = body.pick(
            (f"{v} * 1.0\nnp.{body.pick('maximum', 'add')}.at({q}, np.array([0, 1, 0]), np.stack([{c}, {body.number(1)}, {v}[-1]]))", f"np.sum(np.sin({q}))"),
            (f"np.{body.pick('multiply', 'add', 'maximum')}({v}, {body.vector(1)}, out={v} * 0.5, where={v} > {body.threshold()})", f"np.sum({q} * {v})"),
            (f"np.{body.pick('sin', 'exp', 'negative')}({v}, out={v} * 1.0, where={v} < {body.threshold()})", f"{q} @ {v}"),
        )  # fmt: skip
    elif kind == "complex":
        made, read = f"np.{body.pick('max', 'min')}({v} + 1j * {body.vector(1)})", body.pick(f"np.real({q} * {q}) + np.imag({q})", f"np.abs({q}) ** 2")
    elif kind == "positions":
        values = f"np.stack([{c}, {v}[0], {body.number(1)}, {v}[-1] * 0.5])"
        made, read = f"tg.scipy.ndimage.map_coordinates({values}, (1.4 + 1.1 * np.sin({v}))[None, :], order=1)", f"np.sum({q} * {v})"
    elif kind == "rules":
        body.setup += [
            "@tg.custom_vjp", f"def {n}(p, s):", "    return p['a'] * np.sin(p['b']) * s",
            f"{n}.defvjp(lambda p, s: (p['a'] * np.sin(p['b']) * s, (p, s)), lambda r, g: ({{'a': g * np.sin(r[0]['b']) * r[1], 'b': g * r[0]['a'] * np.cos(r[0]['b']) * r[1]}}, g * r[0]['a'] * np.sin(r[0]['b'])))",
        ]  # fmt: skip
        made, read = f"{n}({{'a': {c} * 1.0, 'b': {body.number(1)} * 1.0}}, {body.atom()} * 1.0)", f"{q} * {q}"
    elif kind == "class":
        body.setup += ["import dataclasses, collections", "@dataclasses.dataclass", f"class {n}:", "    a: object", "    b: object"]
        start, a, b = body.pick((f"{n}({c} * 1.0, {v} * 1.0)", "p.a", "p.b"), (f"collections.OrderedDict(b={c} * 1.0, a={v} * 1.0)", "p['b']", "p['a']"))
        made, read = f"tg.grad(lambda p: np.sin({a} * {b}[0]) * {a} + np.sum({b} ** 2) * {body.atom()})({start})", f"({a.replace('p', q)} + np.sum({b.replace('p', q)}))"
    elif kind == "ravel":
        made, read = f"tg.tree.ravel({{'a': {c} * 1.0, 'b': {v} * 1.0}})[0]", f"{q} @ np.cos({q})"
    else:
        name = body.pick("-1", "1", "'b'", "-2", "'a'")
        made, read = f"tg.grad(lambda a, b: np.sin(a * b) * b + {body.atom()} * a * a, argnums={name})({c} * 1.0, {body.number(1)} * 1.0)", q
    return [*f"{q} = {made}".split("\n"), f"{c} = np.sin({read}) + 0.4 * {c}"]


FEATURES = {
    "plain": (4, plain), "branch": (4, branch), "python_loop": (2, python_loop), "scan": (4, scan), "fori_loop": (2.5, fori_loop), "while_loop": (2.5, while_loop), "cond": (2.5, choice),
    "switch": (2, switch), "map": (2.5, map_), "in_place": (2.5, in_place), "view": (2, view), "captured": (2, captured), "container": (2, container), "integers": (3.5, integers),
    "masks": (2.5, masks), "complex": (2, complex_parts), "custom_rule": (2, custom_rule), "checkpoint": (1.5, checkpoint), "caught": (2, caught), "closure": (1.5, closure), "derivative_inside": (1.2, derivative_inside),
}  # fmt: skip
#: What came later, for seeds from a number on: programs of earlier seeds stay what they were.
LATER = {50_000_000: {"scipy": (8, names_of_scipy)}, 80_000_000: {"others": (14, names_of_others)}}


def offered(seed):
    """The features that programs of a seed may have."""
    return FEATURES | {name: feature for since, features in LATER.items() if seed >= since for name, feature in features.items()}


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
    parts = body.program.offered[name][1](body)
    return parts if name == "plain" else [name, *parts]

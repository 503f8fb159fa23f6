"""Programs made at random, to compare reverse mode with dual numbers; ``python -m tests.nopython.generated FIRST COUNT`` runs more of them.

From seed `WIDER` on they have more of NumPy's functions, and constants in lists, tuples and dictionaries, which change by way of these.
The tests compare with forward mode; the command with dual numbers that Python computes, which compiles nothing.
"""

from __future__ import annotations

import functools
import linecache
import math
import random
import sys
from types import FunctionType, SimpleNamespace

import numba
import numpy as np

import tapegrad as tg

from .checked import checked

WIDER = 1_000_000
AT = np.array([0.4, -0.8, 1.2, 0.1, -0.3, 0.7])


@numba.njit
def bent(a, b):
    if a > b:
        return a * 0.5 + math.sin(b)
    return math.tanh(a * b)


@numba.njit
def mixed(out, x, c):
    total = 0.0
    for i in range(1, len(x)):
        if out[i] > 2.0:
            return total * 0.5
        out[i] = math.tanh(out[i] * c + x[i - 1])
        total += out[i] * out[i - 1]
    return total


@numba.njit
def folded(out, a, k):
    if k == 0:
        return a
    out[k] = math.tanh(out[k] + a)
    rest = folded(out, math.sin(a) + out[k - 1], k - 1)
    return 0.5 * rest + out[k] * a


class Maker:
    """Writes a function of a vector: numbers a, b, c, arrays y, z and views v of them."""

    HEAD = ()

    def __init__(self, seed):
        self.rng, self.lines, self.turns, self.made = random.Random(seed), [], [], 0

    def index(self):
        r = self.rng
        return f"({r.choice(self.turns)} + {r.randrange(6)}) % 6" if self.turns and r.random() < 0.8 else str(r.randrange(6))

    def number(self, depth=0):
        r = self.rng
        if depth > 2 or r.random() < 0.4:
            return r.choice([r.choice("abc"), f"{r.choice('xyzv')}[{self.index()}]", f"{r.uniform(-1.5, 1.5):.2f}"])
        p, q = self.number(depth + 1), self.number(depth + 1)
        return r.choice([
            f"({p} + {q})", f"({p} - {q})", f"0.5 * {p} * {q}", f"math.sin({p})", f"math.tanh({p})", f"{p} / (1.5 + math.cos({q}))", f"-{p}",
            f"math.exp(-abs({p}))", f"max({p}, {q})", f"math.tanh({p}) ** 2", f"bent({p}, {q})",
        ])  # fmt: skip

    def test(self):
        return f"{self.number(2)} {self.rng.choice('<>')} {self.number(2)}"

    def array(self):
        r = self.rng
        p, q = r.choice("xyzv"), r.choice("xyzv")
        return r.choice([f"np.tanh({p} * {q})", f"0.5 * {p} - {q} * {self.number(3)}", f"np.where({p} > 0.1, {q}, 0.3 * {p})", f"{p}[::-1] * 0.9"])

    def statement(self, depth, loop):
        """Lines of one statement, which may hold others."""
        r, kind = self.rng, self.rng.random()
        target = r.choice("yz")
        if kind < 0.3 or depth > 3:
            return [f"{r.choice('abc')} {r.choice(['=', '=', '+='])} math.tanh({self.number()})"]
        if kind < 0.5:
            return [f"{target}[{self.index()}] {r.choice(['=', '+=', '='])} math.tanh({self.number()})"]
        if kind < 0.56:
            return [r.choice([f"{target} = {self.array()}", f"{target}[:] = {self.array()}", f"{target} *= 0.5 + 0.1 * {self.number(3)}",
                              f"{target}[1:4] = {r.choice('yzv')}[2:5]", f"v = {target}[::-1]", f"v = {target}", f"a += 0.1 * np.sum({self.array()})"])]  # fmt: skip
        if kind < 0.6:
            return [r.choice([f"b = math.tanh(mixed({target}, x, {r.choice('abc')}))", f"c = 0.5 * math.tanh(folded({target}, {r.choice('abc')}, 3))"])]
        if kind < 0.72:
            lines = [f"if {self.test()}:", *self.block(depth, loop)]
            return lines + (["else:", *self.block(depth, loop)] if r.random() < 0.5 else [])
        if kind < 0.76:
            return [r.choice(["a, b, c = b, c, a", "y, z = z, y", "v = z"])]
        if kind < 0.82 and loop:
            return [f"if {self.test()}:", f"    {r.choice(['break', 'continue'])}"]
        if kind < 0.84:
            return [f"if {self.number(2)} > 2.0:", "    return a * b + y[1]"]
        if depth < 3:
            return self.loop(depth)
        return ["c = 0.9 * c + 0.1 * a"]

    def loop(self, depth):
        r = self.rng
        self.made += 1
        k = f"i{self.made}"
        way = r.random()
        if way < 0.2:
            return [f"for e{self.made} in {r.choice('xyz')}:", f"    a = math.tanh(a + e{self.made})", *self.block(depth, True)]
        if way < 0.75:
            head = [f"for {k} in range({r.choice([str(r.randint(0, 5)), '4, 0, -1', '1, 6, 2', *self.turns])}):"]
        else:
            head = [f"{k} = 0", f"while {k} < 4 and {self.number(2)} < 1.0:", f"    {k} += 1"]
        self.turns.append(k)
        body = self.block(depth, True)
        self.turns.pop()
        return head + body

    def block(self, depth, loop):
        lines = ["c = 0.9 * c + 0.1 * a"]
        for _ in range(self.rng.randint(1, 4 if depth < 2 else 2)):
            lines += self.statement(depth + 1, loop)
        return ["    " + line for line in lines]

    def make(self):
        body = []
        while len(body) < 12:
            body += self.statement(0, False)
        head = [*self.HEAD, "a, b, c = x[0], 0.5, x[1] * x[2]", "y = np.zeros(6)", "z = x * 0.5", "v = z"]
        tail = ["s = a * 1.1 + b * 0.7 - c", "for k in range(6):", "    s += y[k] * (k + 1.0) + z[k] * z[k] + 0.3 * v[k]", "return s"]
        return "\n".join(["def f(x):", *["    " + line for line in head + body + tail]]) + "\n"


class Wider(Maker):
    """Writes more: arrays u and w of constants, and what holds them."""

    HEAD = ("w, u = np.ones(6), np.arange(6.0)", "listed, paired, keyed, perhaps = [w, u], (u, w), {0: w, 1: u}, None", "if x[0] > 0.0:", "    perhaps = w")

    def number(self, depth=0):
        return f"{self.rng.choice('uw')}[{self.index()}]" if self.rng.random() < 0.1 else super().number(depth)

    def array(self):
        r = self.rng
        if r.random() < 0.4:
            return super().array()
        p, q = r.choice("xyzv"), r.choice("xyzv")
        return "0.9 * " + r.choice([
            f"np.concatenate(({p}[:3], {q}[3:]))", f"np.hstack(({p}[2:], {q}[:2]))", f"np.append({p}[:5], {self.number(3)})", f"np.roll({p}, 1)",
            f"np.array([0.5 * e - {self.number(3)} for e in {p}])", f"np.cumprod({p})", f"np.flip({p})", f"np.stack(({p}, {q}))[1]",
            f"np.vstack(({p}, {q}))[0]", f"np.column_stack(({p}, {q}))[:, 0]", f"np.outer({p}, {q})[:, 2]", f"np.repeat({p}[1:4], 2)",
            f"np.delete(np.append({p}, a), 2)", f"np.take({p}, np.array([0, 5, 2, 2, 1, 3]))", f"np.triu(np.outer({p}, {q}))[1]", "np.asarray(z)",
        ])  # fmt: skip

    def statement(self, depth, loop):
        r = self.rng
        if r.random() > 0.15:
            return super().statement(depth, loop)
        held = r.choice([f"listed[{r.randrange(2)}]", f"paired[{self.index()} % 2]", f"keyed[{r.randrange(2)}]"])
        self.made += 1
        return r.choice([
            [f"{held}[{self.index()}] += 0.3"], ["if perhaps is not None:", f"    perhaps[{self.index()}] -= 0.2"], ["listed[0], listed[1] = listed[1], listed[0]"],
            [f"t{self.made} = {held}", f"t{self.made}[{self.index()}] *= 0.5"], [f"b, c = np.tanh({r.choice('xyzv')}[2:4])"],
            [f"for (k{self.made},), e{self.made} in np.ndenumerate({r.choice('xyzv')}):", f"    a = math.tanh(a + e{self.made} * w[k{self.made}])"],
            [f"for e{self.made} in {r.choice('xyz')}.flat:", f"    b = math.tanh(b - e{self.made})"], [f"a -= 0.1 * np.ptp({r.choice('xyzv')})"],
        ])  # fmt: skip


class Number:
    """A dual number with a tangent for each element of `AT`, for Python's interpreter and arrays of objects: nothing of it is tapegrad's."""

    def __init__(self, value, tangent=0.0):
        self.value, self.tangent = value, tangent + np.zeros(6)

    def _of(self, value, slope):
        return Number(value, slope * self.tangent)

    def __add__(self, other):
        other = number(other)
        return Number(self.value + other.value, self.tangent + other.tangent)

    def __mul__(self, other):
        other = number(other)
        return Number(self.value * other.value, self.tangent * other.value + other.tangent * self.value)

    def __truediv__(self, other):
        other = number(other)
        return self * other._of(1.0 / other.value, -1.0 / other.value**2)

    __radd__, __rmul__ = __add__, __mul__
    __neg__ = lambda self: self * -1.0
    __sub__ = lambda self, other: self + -number(other)
    __rsub__ = lambda self, other: -self + other
    __rtruediv__ = lambda self, other: number(other) / self
    __pow__ = lambda self, n: self._of(self.value**n, n * self.value ** (n - 1))
    __abs__ = lambda self: self._of(abs(self.value), np.sign(self.value))
    __lt__ = lambda self, other: self.value < number(other).value
    __gt__ = lambda self, other: self.value > number(other).value
    sin = lambda self: self._of(math.sin(self.value), math.cos(self.value))
    cos = lambda self: self._of(math.cos(self.value), -math.sin(self.value))
    exp = lambda self: self._of(math.exp(self.value), math.exp(self.value))
    tanh = lambda self: self._of(math.tanh(self.value), 1.0 - math.tanh(self.value) ** 2)


def number(x):
    return x if isinstance(x, Number) else Number(x)


def largest(a, b):
    """Ties share the derivative."""
    a, b = number(a), number(b)
    return a if a > b else b if b > a else Number(a.value, 0.5 * (a.tangent + b.tangent))


_AS_THEY_ARE = ("tanh where sum concatenate hstack append roll array cumprod flip stack vstack column_stack outer repeat delete take asarray "
                "ndenumerate ones arange").split()  # fmt: skip


def interpreted(f):
    """Value and gradient of a program, by Python."""
    functions = {name: lambda x, name=name: getattr(number(x), name)() for name in ("sin", "cos", "exp", "tanh")}
    arrays = SimpleNamespace(**{name: getattr(np, name) for name in _AS_THEY_ARE}, zeros=lambda n: np.array([Number(0.0) for _ in range(n)]),
                             ptp=lambda a: functools.reduce(largest, a) + functools.reduce(largest, -a), triu=lambda a: a * np.triu(np.ones((6, 6))))  # fmt: skip
    scope = {"np": arrays, "math": SimpleNamespace(**functions), "max": largest}
    for helper in (bent, mixed, folded):
        scope[helper.__name__] = FunctionType(helper.py_func.__code__, scope)
    with np.errstate(all="ignore"):
        result = FunctionType(f.__code__, scope)(np.array([Number(x, unit) for x, unit in zip(AT, np.eye(6))]))
    return result.value, result.tangent


def program(seed):
    """(text, function)"""
    text, name = (Wider if seed >= WIDER else Maker)(seed).make(), f"<program {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {"np": np, "math": math, "bent": bent, "mixed": mixed, "folded": folded}
    exec(compile(text, name, "exec"), scope)
    return text, scope["f"]


def difference(seed, other=None):
    """Largest difference of values and gradients, relative, and the text; `other` gives both by another way than forward mode."""
    text, f = program(seed)
    with checked():
        value, gradient = tg.njit_value_and_grad(f, mode="reverse")(AT)
    expected, duals = (other or (lambda f: tg.njit_value_and_grad(f, mode="forward")(AT)))(f)
    pairs = np.append(gradient, value), np.append(duals, expected)
    # (Of infinite values one mode may have infinite derivatives, and the other NaN.)
    finite, same = map(np.isfinite, pairs)
    if not np.array_equal(finite, same):
        return math.inf, text
    ours, theirs = (each[finite] for each in pairs)
    return np.max(np.abs(ours - theirs), initial=0.0) / np.max(np.abs(theirs), initial=1.0), text


if __name__ == "__main__":
    first, count = map(int, sys.argv[1:])
    wrong = 0
    for seed in range(first, first + count):
        try:
            error, text = difference(seed, interpreted)
        except Exception as failure:
            error, text = math.inf, f"{program(seed)[0]}\n{type(failure).__name__}: {failure}"
        if not error <= 1e-12:
            wrong += 1
            print(f"--- {seed}: {error:.1e}\n{text}", flush=True)
    print(f"{count} programs, {wrong} wrong")

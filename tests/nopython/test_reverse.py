"""Reverse mode of compiled functions: what may be written in them, against differences of the plain function."""

import collections
import gc
import heapq
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.codegen.numba_inside import RAISES
from tapegrad.common.errors import UnsupportedInNumbaError

from .checked import checked
from .generated import WIDER, difference, interpreted

numba = pytest.importorskip("numba")
from numba.core.runtime import rtsys  # noqa: E402
from numba.core.runtime._nrt_python import memsys_enable_stats  # noqa: E402
from numba.experimental import jitclass  # noqa: E402

AT = np.array([0.31, -0.7, 1.9, 0.45, -1.3, 0.8, 1.1, 0.21])
TABLE = np.arange(8.0)


def differences(f, x, h=1e-6):
    return np.array([(f(x + h * e) - f(x - h * e)) / (2.0 * h) for e in np.eye(x.size)])


@numba.njit
def clipped(v, top):
    if v > top:
        return top + 0.1 * (v - top)
    return v


@numba.njit
def two(a, b):
    t = clipped(a * b, 0.5)
    return t, a - b


@numba.njit
def fill(out, x, k=2):
    for i in range(len(x)):
        out[i] = x[i] ** k


@numba.njit
def tree(a, x, k):
    if k == 0:
        return a
    return tree(a * x[k], x, k - 1) * 0.5 + tree(math.sin(a) + 0.3, x, k - 1) * a


@numba.njit
def refill(out, x, k):
    if k >= len(x):
        return 0.0
    out[k] = x[k] * out[k - 1] if k > 0 else x[k]
    rest = refill(out, x, k + 1)
    out[k] = out[k] * 2.0 + rest
    return out[k] * 0.5


def plain(a, k=2):
    return a**k + a


def plain_recursive(x, n):
    if n <= 1:
        return x
    return plain_recursive(x, n - 1) * x + 1.0


@numba.njit
def two_and(a):
    p, q = two(a, 0.3)
    return p * q


def applied(f, a):
    return f(a) * 2.0


def leaving(x):
    s = 1.0
    for i in range(len(x)):
        s += math.sin(x[i])
        if s > 3.0:
            return s * s
        for j in range(10):
            s = s * (1.0 + 0.01 * x[i] * j)
            if s > 1.5:
                s = s / 2.0
                break
            if j == 7:
                continue
            s += 0.1 * x[i]
    return s


def whiles(x):
    s, i = 0.0, 0
    while i < len(x):
        y, k = x[i], 0
        while True:
            y = y * 0.7 + math.cos(y)
            k += 1
            if abs(y) < 0.9 or k > 20:
                break
        s += y * k
        i += 2 if y > 0.5 else 1
    a, b = 1.0, 0.0
    for v in x:
        a, b = b * v + a, a * v
        if a > 30.0:
            break
    else:
        a = a * 2.0
    return s + a * b


def choices(x):
    s = 0.0
    for i in range(len(x) - 1, -1, -1):
        a = x[i]
        if a < -1.0:
            s += a * a
        elif a < 0.0:
            s -= a * s
        elif a < 1.0 and s > 0.5:
            s = math.exp(-s) + a
        else:
            s = s * 0.9 + math.sqrt(a + 1.0)
        s += (a if a > 0 else -2.0 * a) * (s if s < 3 else 1.0) + max(a, 0.3, s) + abs(a)
    return s


def nested(x):
    s = 0.0
    for i in range(len(x)):
        t = x[i]
        for j in range(i):
            t = t * x[j] + 0.1
            for k in range(j, i, 2):
                t -= 0.01 * x[k] * t
        s += t * t
    return s


def overwriting(x):
    y = x.copy()
    for _ in range(3):
        for i in range(1, len(y)):
            y[i] = 0.3 * y[i] * y[i - 1] + math.sin(y[i])
            y[i - 1] += 0.1 * y[i]
    return y[0] * y[len(y) - 1] + y[3]


def aliases(x):
    a = x.copy()
    b, c = a[1:], a[:-1]
    for _ in range(3):
        for i in range(len(b)):
            b[i] = 0.5 * c[i] * a[i] + b[i]
        a[2:] = a[:-2] * 0.5
        b[0] += c[1] * c[1]
    a[1:] = a[:-1]
    a[x > 0.5] = 0.3 * x[0]
    return np.sum(a * b[0])


def slices(x):
    a = x[1:] - x[:-1]
    b = np.zeros((3, len(x)))
    b[0] = x * x
    b[1, 2:] = a[1:] * 3.0
    b[:, 0] = x[1]
    c = b.T[1:3]
    m = x.reshape(2, -1)
    q = m * m[0] + m[:, :1] / (1.0 + m[0] * m[0])
    return np.sum(c * c) + b[2, 0] * np.mean(x) + np.sum(a * a * a) + np.sum(np.tanh(q) * x[0])


def rows(x):
    a = x.reshape(2, 4).copy()
    s = 0.0
    for row in a:
        for v in row:
            s += 0.1 * v * v * s + v
        row *= s
    a[0] = a[1]
    a[:, 1] += a[:, 0] * a[:, 2]
    a[1].fill(x[0])
    return s + np.sum(a * a)


def arrays_in_loops(x):
    s = 0.0
    for k in range(4):
        t = np.zeros(len(x))
        for i in range(len(x)):
            t[i] = x[i] * (k + 1) + s
        u = np.exp(-t * t)
        s += np.sum(u * t) * 0.1
    y, h = x.copy(), 0.05
    for _ in range(5):
        k1 = -y * y + 0.3 * np.sin(y)
        y = y + h * (k1 + np.cos(y + h * k1))
    return s + (y * y).sum()


def swapped(x):
    a, b, c = x[0], x[1], x[2]
    for _ in range(20):
        a, b, c = b * 0.9, c + 0.01 * a * b, math.sin(a)
    u, v = x.copy(), np.zeros(len(x))
    for _ in range(3):
        for j in range(len(x)):
            v[j] = u[j] * u[(j + 1) % len(x)]
        u, v = v, u
    return a + b * c + u[0] + v[1]


def helpers(x):
    k, t, s = 3.0, np.empty(len(x)), 0.0

    def inner(a):
        return a * k

    for i in range(len(x) - 1):
        p, q = two(x[i], x[i + 1])
        s += p * q + clipped(q, 0.2)
    fill(t, x, k=3)
    fill(t[:4], x[4:])
    return s + np.sum(t) + inner(x[0]) * applied(two_and, x[1]) + applied(clipped_at_one, x[2])


def clipped_at_one(a):
    return clipped(a, 1.0) * plain(a) * plain(a, k=3)


def recursion(x):
    out = np.zeros(len(x))
    s = refill(out, x, 0) + tree(x[0], x, 4) + plain_recursive(x[2], 3)
    for i in range(2):
        s += tree(x[i], x, 3) * (s + 1.0)
    return s + np.sum(out * out)


def tuples(x):
    t = (x[0], x[1], 1.0)
    for i in range(4):
        t = (t[1] * x[i], t[2] + t[0], t[0])
    s = t[0] * t[1]
    for v in (x[0], x[1], x[2]):
        s += v * s
    for i, (a, b) in enumerate(zip(x, x[1:])):
        s += a * b * i
    for i in range(3):
        s *= (x[3], x[4], x[5])[i]
    return s


def inactive(x):
    count, table, order = 0, np.zeros(10), np.argsort(x)
    for i in range(10):
        table[i] = i * 0.5
        for j in range(i):
            if (i + j) % 3 == 0:
                count += 1
                table[i] += count
    s = 0.0
    for i in range(len(order)):
        s = s * 0.5 + x[order[i]] * table[i] * x[order[len(order) - 1 - i]]
        order[i] = (order[i] + 1) % 6
    places = [0]
    for i in range(5):
        k = len(places)
        if i not in places:
            s += x[i] * x[k]
        places.append(2 * i)
        s = s * 0.5 + x[len(places)] * s
    return s + x[order[2]] * count + np.sum(x * TABLE)


def of_arrays(x):
    m = x.reshape(2, -1)
    s, t, u = m.sum(axis=0), np.sum(m, 1), np.cumsum(x)
    c = np.concatenate((s, t, u))
    w = np.where(c > 0.3, c * c, -c)
    total = np.sum(w * c) + np.mean(np.clip(x, -0.5, 0.9) * x) + np.trace(np.outer(s, s)) + np.sum(np.diff(x) * x[1:]) + np.dot(x, np.roll(x, 2))
    total += np.prod(x) + np.max(x) * x.min() + np.var(x) + x.std() + np.linalg.norm(x) + np.sum(x[x > 0.25] ** 2)
    g = x[np.argsort(x)]
    f = np.full(3, x[1]) * np.linspace(x[0], x[2], 3)
    return total + np.sum(g * TABLE) + np.sum(f) + np.sum(np.diag(x[:3]) @ x[:3]) + x.astype(np.float64).sum() ** 2


def algebra(x):
    a = np.zeros((3, 3))
    for i in range(3):
        for j in range(3):
            a[i, j] = x[i] * x[j] + (3.0 if i == j else 0.0)
    v = np.array([x[3], x[4] * x[0], x[5]])
    b = np.linalg.solve(a, v)
    low = np.linalg.cholesky(a)
    m = np.linalg.solve(a + low, a @ a)
    return np.sum(b * b) + np.linalg.det(a + low) + np.linalg.inv(a)[0, 1] + np.sum(low * low * low) + np.sum(m * m) + np.dot(v @ a, a @ v)


def interpolation(x):
    xp, fp = np.array([-1.0, 0.0, 0.5 + 0.1 * x[6], 2.0]), np.array([x[0], x[1], x[2] * x[3], x[4]])
    total = np.interp(x[5], xp, fp) + np.sum(np.interp(x, xp, fp) * TABLE)
    k = np.searchsorted(xp, x[5])
    return total + x[k] * x[5]


def storing(x):
    x[0] = x[1] * x[2]
    for i in range(3):
        x[i + 1] = x[i] * x[i + 1]
    x *= 2.0
    return np.sum(x)


# An array that the reverse sweep reads again has been changed meanwhile, by way of something else.
def by_a_list(x):
    y, s = np.full(8, 2.0), 0.0
    kept = [y]
    for i in range(8):
        s += y[i] * x[i] * x[0]
        z = kept[0]
        z[(i + 1) % 8] += 1.5
    return s


def by_a_tuple(x):
    y, s = np.full(8, 2.0), 0.0
    kept = (y, np.ones(8))
    for i in range(8):
        s += y[i] * x[i] * x[0]
        kept[i % 2][(i + 1) % 8] += 1.5
    return s


def by_a_dictionary(x):
    y, s = np.full(8, 2.0), 0.0
    kept = {1: y}
    for i in range(8):
        s += y[i] * x[i] * x[0]
        kept[1][(i + 1) % 8] += 1.5
    return s


def by_an_optional_name(x):
    z, s, y = np.full(8, 2.0), 0.0, None
    if x[0] > 0.0:
        y = z
    for i in range(8):
        s += z[i] * x[i] * x[0]
        if y is not None:
            y[(i + 1) % 8] += 1.5
    return s


def by_elements(x):
    y, s = np.full(8, 2.0), 0.0
    for i in range(8):
        s += y[i] * x[i] * x[0]
        y.flat[(i + 1) % 8] = 1.5
        s += x[np.where(x > 0.5)[0][0]]
    return s


@jitclass([("value", numba.float64)])
class Holder:
    def __init__(self):
        self.value = 1.0

    def item(self, value):
        self.value = value

    def get(self):
        return self.value


def two_of_a_kind(x):
    a, b = Holder(), Holder()
    a.item(5.0)
    c, d = {0.0}, {0.0}
    e = dict()
    f = dict()
    c.add(1.0)
    e[0], f[1] = 1.0, 2.0
    e[2] = 3.0
    return a.get() * x[0] + b.get() * x[1] ** 2 + len(c) * x[2] + len(d) * x[3] + len(e) * x[4] + len(f) * x[5]


def into_a_holder(x):
    a = Holder()
    a.item(x[0])
    return a.get() ** 2


def unpacked(x):
    a, b = x[:2]
    (c, d), e = (a * b, x[2]), x[3]
    for k in range(3):
        p, q = x[k: k + 2] * a
        a, b = a + 0.1 * p * b, b - 0.1 * q * a
    for p, q in x.reshape(4, 2):
        e += p * p * q
    return a * b + c * d * e


PROGRAMS = (unpacked, two_of_a_kind, by_a_list, by_a_tuple, by_a_dictionary, by_an_optional_name, by_elements, leaving, whiles, choices, nested, overwriting, aliases, slices, rows, arrays_in_loops, swapped, helpers, recursion, tuples, inactive,
            of_arrays, algebra, interpolation, storing)  # fmt: skip


#: What Numba compiles for some ten seconds.
DEAR = of_arrays, algebra, rows, interpolation


@pytest.mark.parametrize("f", [pytest.param(f, marks=[pytest.mark.long] if f in DEAR else [], id=f.__name__) for f in PROGRAMS])
def test_gradients_agree_with_differences(f):
    gradient = tg.njit_value_and_grad(f, mode="reverse")
    at = AT.copy()
    value, found = gradient(at)
    assert np.array_equal(at, AT)
    assert math.isclose(value, f(AT.copy()), rel_tol=1e-13)
    assert np.allclose(found, differences(lambda x: f(x.copy()), AT), rtol=2e-7, atol=2e-8)
    assert next(iter(gradient.modes().values()))["mode"] == "reverse"


@pytest.mark.parametrize("seed", [0, 1, WIDER])
def test_programs_made_at_random_agree_with_dual_numbers(seed):
    error, text = difference(seed)
    assert error <= 1e-12, text


@pytest.mark.long
@pytest.mark.parametrize("seed", [*range(3, 100), 1008, 1012, 20020, 20079, 50138, *range(WIDER + 1, WIDER + 98)])
def test_more_programs_made_at_random(seed):
    error, text = difference(seed, interpreted)
    assert error <= 1e-12, text


def powers(x, n):
    s = 0.5
    for i in range(n):
        s = math.sin(s * x[i % 8])
    return s


def guarded(x, n):
    s = 0.5
    for i in range(n):
        s = math.sin(s * x[i % 8])
        if i == 5:
            raise ValueError("five")
    return s


def kept_beside_helpers(x, n):
    s = 0.5
    for i in range(n):  # keeps s, while the helper keeps things of its own on the same stack
        s = math.sin(s + plain_recursive(0.1 * x[i % 8], i % 4))
    return s


def test_the_stack_has_room_for_all_that_is_kept():
    gradient = tg.njit_grad(kept_beside_helpers, mode="reverse")
    with checked():
        gradient(AT, 1)
    for turns in range(100, 400):  # the stack grows at another turn, in the loop or in the helper
        assert np.isfinite(gradient(AT, turns)).all()
    assert np.allclose(gradient(AT, 200), differences(lambda x: kept_beside_helpers(x, 200), AT), rtol=2e-7, atol=2e-8)


def test_loops_that_are_longer_than_memory():
    gradient, stopped = tg.njit_grad(powers, mode="reverse"), tg.njit_grad(guarded, mode="reverse")
    for turns in (10**13, 2**62, 2**63 - 1):
        with pytest.raises(MemoryError, match="reverse sweep"):
            gradient(AT, turns)
        with pytest.raises(ValueError, match="five"):  # room is made as the turns come
            stopped(AT, turns)
    assert np.allclose(gradient(AT, 20), differences(lambda x: powers(x, 20), AT), rtol=2e-7, atol=2e-8)


Parameters = collections.namedtuple("Parameters", "rate table")


def damped(p, start, steps):
    s = start
    for i in range(steps):
        s = s * p.rate + p.table[i % 2] * s * s
    return s


def test_arguments_and_results_of_several_kinds():
    p, start = Parameters(0.5, np.array([0.1, 0.2])), 0.7
    value, (dp, ds) = tg.njit_value_and_grad(damped, (0, 1), mode="reverse")(p, start, 5)
    assert value == damped(p, start, 5)
    flat = differences(lambda v: damped(Parameters(v[0], v[1:3]), v[3], 5), np.array([0.5, 0.1, 0.2, 0.7]))
    assert isinstance(dp, Parameters) and np.allclose([dp.rate, *dp.table, ds], flat, rtol=1e-8)
    by_columns = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    assert np.array_equal(tg.njit_grad(lambda a: np.sum(a * a * a), mode="reverse")(by_columns), 3.0 * by_columns**2)
    assert tg.njit_grad(lambda a, b: a * a * b, (0, 1), mode="reverse")(3, 5) == (30.0, 9.0)
    assert np.array_equal(tg.njit_grad(lambda x: 3.0, mode="reverse")(AT), np.zeros(8))


@pytest.mark.long
def test_products_jacobians_and_gradients_in_arrays_of_the_caller():
    f = tg.njit_vjp(lambda x, c: (x[0] * x[1] * c, x[1:] ** 2), (0, 1))
    value, (dx, dc) = f(np.array([2.0, 3.0]), 5.0, (10, np.array([1.0])))
    assert value[0] == 30.0 and np.array_equal(dx, [150.0, 106.0]) and dc == 60.0
    with pytest.raises(ValueError, match="a seed must have the shape"):
        tg.njit_vjp(lambda x: x * x)(AT, np.ones(3))
    x = AT[:3].copy()

    def stores(x):
        x[1] = x[0] * x[2]
        return x[:2] * x[1]

    assert np.allclose(tg.njit_jacobian(stores, mode="reverse")(x), tg.njit_jacobian(stores, mode="forward")(x), rtol=1e-14)
    out = np.full(3, np.nan)
    assert tg.njit_value_and_grad(lambda x: np.sum(x**2), out=True)(x, out) == np.sum(x**2)
    assert np.allclose(out, 2.0 * x, rtol=1e-15)
    with pytest.raises(ValueError, match="the shape of its argument"):
        tg.njit_value_and_grad(lambda x: np.sum(x**2), out=True)(x, np.empty(2))
    both, memory = tg.njit_value_and_grad(lambda a, b, c: np.sum(a * b) * c[0, 0], (0, 1), out=True), np.arange(12.0)
    for out in (memory[2:5], memory[9:], memory[7:10]):  # memory of an argument, of a constant one, of the other gradient
        with pytest.raises(ValueError, match="memory of its own"):
            both(memory[:3], memory[3:6], memory[10:11].reshape(1, 1), out, memory[6:9])
    assert np.array_equal(memory, np.arange(12.0))
    both(memory[:3], memory[3:6], np.ones((1, 3)), memory[6:9], memory[9:])
    assert np.array_equal(memory[6:], [3.0, 4.0, 5.0, 0.0, 1.0, 2.0])


def rising(x):
    s = 0.0
    for i in range(len(x)):
        s += math.exp(x[i])
        if s > 1e3:
            raise ValueError("too large")
    return s


def test_exceptions_and_divisions_are_those_of_the_function():
    gradient = tg.njit_grad(rising, mode="reverse")
    for _ in range(3):
        with pytest.raises(ValueError, match="too large"):
            gradient(10.0 * np.abs(AT))
        assert np.allclose(gradient(AT), np.exp(AT), rtol=1e-15)

    def inverse(x):
        return 1.0 / x[0]

    with pytest.raises(ZeroDivisionError):
        tg.njit_grad(inverse, mode="reverse")(np.zeros(1))
    assert tg.njit_grad(numba.njit(error_model="numpy")(inverse), mode="reverse")(np.zeros(1))[0] == -np.inf
    assert np.isnan(tg.njit_grad(rising, mode="reverse")(np.array([np.nan]))[0])


@numba.njit
def halved(y, n):
    if n == 4:
        raise ValueError("four", n, y)
    return y if n == 0 else halved(0.5 * y, n - 1)


def named(x, n):
    s = x[0]
    for i in range(n):
        s = s * x[1]
        if s > 100.0:
            raise ValueError("too large", i, s)
    return s + halved(x[0], n)


def quotient(x):
    1.0 / x[0]
    return x[1]


def outside_of_a_list(x):
    [1.0][len(x)]
    return x[1]


def unlike_shapes(x):
    x[:2] + x
    return x[1]


def too_many(x):
    a, b = x
    return b


@pytest.mark.parametrize("f, error", [(quotient, ZeroDivisionError), (outside_of_a_list, IndexError), (unlike_shapes, ValueError), (too_many, ValueError)])
def test_what_nobody_reads_raises_as_in_the_function(f, error):
    for function in (numba.njit(f), tg.njit_grad(f, mode="reverse")):
        with pytest.raises(error):
            function(np.array([0.0, 1.0, 2.0]))


@pytest.mark.skipif(len(RAISES) < 3, reason="this version of Numba itself raises other numbers")
@pytest.mark.parametrize(
    "derivative", [lambda: tg.njit_grad(named, mode="reverse"), lambda: tg.njit_grad(named, mode="forward"), lambda: tg.njit_grad(named, memory=4096),
                   lambda: lambda x, n, h=tg.njit_hvp(named): h(x, n, np.ones(2))],
    ids=["reverse", "forward", "memory", "second"],
)  # fmt: skip
def test_exceptions_say_the_numbers_that_the_function_says(derivative):
    derivative = derivative()
    for x, n, said in ((np.array([0.5, 5.0]), 50, ("too large", 3, 312.5)), (np.array([0.5, 1.0]), 5, ("four", 4, 0.25))):
        for f in (named, derivative):
            with pytest.raises(ValueError) as caught:
                f(x, n)
            assert caught.value.args == said
    assert np.isfinite(derivative(np.array([0.5, 1.0]), 3)).all()


def test_code_is_optimised_once_and_no_garbage_is_collected_meanwhile(monkeypatch):
    from numba.core.codegen import CPUCodeLibrary

    names, optimise = [], CPUCodeLibrary._optimize_final_module

    def noted(library):
        assert not gc.isenabled()
        names.append(library.name)
        optimise(library)

    monkeypatch.setattr(CPUCodeLibrary, "_optimize_final_module", noted)
    assert gc.isenabled()

    def f(x):
        s = 0.0
        for k in range(0, len(x), 2):
            s += np.sum(np.sin(x[: k + 1]) * x[k])
        return s

    tg.njit_grad(f, mode="reverse")(AT)
    assert [name for name in names if "_f" in name] == [name for name in names if name.startswith("grad_of_f")] != []
    assert not any(text in name for name in names for text in ("both", "driver", "kernel", "loops", "trips"))
    with pytest.raises(UnsupportedInNumbaError):
        tg.njit_grad(lambda x: sorted(x)[0], mode="reverse")(AT)
    assert gc.isenabled()


def kept_arrays(x):
    s, t = 0.0, x
    for _ in range(5):
        t = np.exp(t * 0.1)
        s += np.sum(t * t)
    if s > 1e3:
        raise ValueError("too large")
    return s


@pytest.mark.parametrize("f", [rising, pytest.param(kept_arrays, marks=pytest.mark.long)], ids=lambda f: f.__name__)
def test_nothing_is_left_when_the_function_raises(f):
    x, seed = 30.0 * np.abs(AT), 1.0
    product = tg.njit_vjp(f)
    derivatives = [tg.njit_grad(f, mode="reverse"), tg.njit_value_and_grad(f, mode="forward", lanes=8), lambda x: product(x, seed)]
    memsys_enable_stats()
    for derivative in derivatives:
        for turn in range(100_000):
            if turn == 2:
                before, references = rtsys.get_allocation_stats(), sys.getrefcount(x)
            with pytest.raises(ValueError, match="too large"):
                derivative(x)
        after = rtsys.get_allocation_stats()
        assert (after.alloc - before.alloc, sys.getrefcount(x)) == (after.free - before.free, references)


@pytest.mark.long
def test_in_nopython_code_in_parallel_and_from_the_cache_of_numba(tmp_path):
    gradient = tg.njit_grad(whiles, mode="reverse")

    @numba.njit(parallel=True)
    def many(x):
        out = np.empty_like(x)
        for i in numba.prange(len(x)):
            out[i] = gradient(x[i])
        return out

    points = AT + 0.01 * np.arange(64.0)[:, None]
    assert np.array_equal(many(points), [gradient(x) for x in points])
    module = tmp_path / "user.py"
    module.write_text(
        "import numba, numpy as np, tapegrad as tg\n"
        "@numba.njit\ndef again(x, k):\n    return x[0] if k == 0 else again(x, k - 1) * x[k]\n"
        "def f(x):\n    s, t = 0.0, np.zeros(3)\n    while s < 2.0:\n        t += x\n        s += t[0] * again(x, 2) * np.linalg.norm(t)\n"
        "    return s\n"
        "g = tg.njit_value_and_grad(f, mode='reverse')\n"
        "@numba.njit(cache=True)\ndef twice(x):\n    return g(x)[1] + g(x)[1]\n"
        "if __name__ == '__main__':\n"
        "    x = np.array([0.5, 0.6, 0.7])\n    print(*twice(x))\n    print(sum(twice.stats.cache_hits.values()))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [subprocess.run([sys.executable, str(module)], capture_output=True, text=True, env=environment, check=True).stdout.split() for _ in range(2)]
    assert runs[0][:3] == runs[1][:3] and [runs[0][3], runs[1][3]] == ["0", "1"]


def listed(x):
    t = [x[0], x[1] * x[2]]
    return t[0] * t[1]


def cut(x):
    return int(x[0]) * x[1]


def full_of_integers(x):
    return np.full(3, x[0], np.int64)[0] * x[1]


def integers(x):
    return x.astype(np.int64)[0] * x[1]


def sorted_(x):
    return np.sort(x)[0]


def shuffled(x):
    y = x * 2.0
    np.random.shuffle(y)
    return y[0]


def twice_at_a_place(x):
    y = x.copy()
    y[np.array([0, 0])] = x[:2]
    return y[0]


def appended(x):
    t = []
    for v in x:
        t.append(v * v)
    return t[0] + t[1]


def comprehended(x):
    return sum([v * v for v in x])


def extended(x):
    t = [1.0]
    t.extend(x)
    return t[1] ** 2


def heaped(x):
    t = [9.0]
    heapq.heappush(t, x[0] * x[0])
    return t[0]


def added_to_a_set(x):
    t = {1.0}
    t.add(x[0])
    return max(t)


def in_a_list_of_arrays(x):
    t = [np.zeros(3), np.zeros(3)]
    t[1][0] = x[0]
    return t[1][0] ** 2


def in_a_tuple_of_arrays(x):
    t = (np.zeros(2), np.zeros(2))
    for i in range(2):
        t[i][0] = x[i]
    return t[0][0] * t[1][0]


def in_parts(x):
    y = np.zeros(4)
    np.split(y, 2)[0][0] = x[0]
    return y[0] ** 2


@jitclass([("values", numba.float64[:])])
class Box:
    def __init__(self):
        self.values = np.zeros(2)


def in_an_object(x):
    box = Box()
    box.values[0] = x[0]
    return box.values[0] ** 2


def chosen_or_none(x):
    y = np.zeros(3) if x[0] > 0.0 else None
    if y is not None:
        y[0] = x[0]
        return y[0] ** 2
    return 0.0


@pytest.mark.parametrize(
    "f, reason", [
        (listed, "list"), (cut, "integers"), (full_of_integers, "integers"), (integers, "integers"), (sorted_, "No derivative"), (shuffled, "not known"), (twice_at_a_place, "twice"),
        (appended, "not known"), (comprehended, "not known"), (extended, "not known"), (heaped, "not known"), (added_to_a_set, "not known"),
        (in_a_list_of_arrays, "list"), (in_a_tuple_of_arrays, "UniTuple"), (in_parts, "not known"), (in_an_object, "an object"),
        (chosen_or_none, "not followed"), (into_a_holder, "not known"),
    ],
)  # fmt: skip
def test_what_is_not_followed_is_refused_with_its_line(f, reason):
    assert np.isfinite(numba.njit(f)(AT))
    with pytest.raises(UnsupportedInNumbaError, match=reason) as refusal:
        tg.njit_grad(f, mode="reverse")(AT)
    lines = range(f.__code__.co_firstlineno, f.__code__.co_firstlineno + 5)
    assert any(f"test_reverse.py:{line}:" in str(refusal.value) for line in lines)


def test_modes():
    gradient = tg.njit_grad(sorted_)
    assert np.array_equal(gradient(AT), np.eye(8)[4])
    (taken,) = gradient.modes().values()
    assert taken["mode"] == "forward" and "test_reverse.py" in taken["because"]
    few = tg.njit_grad(lambda a, b: a * b, (0, 1))
    assert few(2.0, 3.0) == (3.0, 2.0) and next(iter(few.modes().values()))["mode"] == "forward"
    with pytest.raises(UnsupportedInNumbaError, match="mode"):
        tg.njit_grad(sorted_, mode="backward")
    with pytest.raises(UnsupportedInNumbaError, match="lanes"):
        tg.njit_grad(sorted_, mode="reverse", lanes=4)

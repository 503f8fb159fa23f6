"""Functions as people write them for Numba, of a vector of eight numbers."""

import math

import numba
import numpy as np
from numba.experimental import jitclass

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


def unpacked(x):
    a, b = x[:2]
    (c, d), e = (a * b, x[2]), x[3]
    for k in range(3):
        p, q = x[k: k + 2] * a
        a, b = a + 0.1 * p * b, b - 0.1 * q * a
    for p, q in x.reshape(4, 2):
        e += p * p * q
    return a * b + c * d * e


PROGRAMS = (
    unpacked, two_of_a_kind, by_a_list, by_a_tuple, by_a_dictionary, by_an_optional_name, by_elements, leaving, whiles, choices,
    nested, overwriting, aliases, slices, rows, arrays_in_loops, swapped, helpers, recursion, tuples,
    inactive, of_arrays, algebra, interpolation, storing,
)  # fmt: skip


#: What Numba compiles for some ten seconds.
DEAR = of_arrays, algebra, rows, interpolation

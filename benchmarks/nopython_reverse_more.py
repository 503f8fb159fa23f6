"""Ten more functions for the benchmark of reverse mode, of kinds that the first twelve have not."""

from __future__ import annotations

import math

import numba
import numpy as np


@numba.njit
def softplus(x):
    if x > 30.0:
        return x
    return math.log1p(math.exp(x))


def thomas(x):
    """A tridiagonal system, by elimination without pivots."""
    n = len(x)
    c, d = np.empty(n), np.empty(n)
    c[0], d[0] = -1.0 / (3.0 + x[0]), x[0] / (3.0 + x[0])
    for i in range(1, n):
        m = 1.0 / (3.0 + x[i] * x[i] + c[i - 1])
        c[i] = -m
        d[i] = (x[i] + d[i - 1]) * m
    for i in range(n - 2, -1, -1):
        d[i] -= c[i] * d[i + 1]
    s = 0.0
    for i in range(n):
        s += d[i] * d[i]
    return s


def lennard_jones(x, cutoff):
    """Energy of particles in the plane, with a cutoff."""
    n = len(x) // 2
    e = 0.0
    for i in range(n):
        for j in range(i):
            dx, dy = x[2 * i] - x[2 * j], x[2 * i + 1] - x[2 * j + 1]
            r2 = dx * dx + dy * dy
            if r2 > cutoff:
                continue
            inverse = 1.0 / r2
            six = inverse * inverse * inverse
            e += 4.0 * six * (six - 1.0)
    return e


def mixture(mean, scale, weight, data):
    """Log-likelihood of a mixture of normal distributions."""
    total = 0.0
    logs = np.empty(len(mean))
    for i in range(len(data)):
        top = -1e300
        for k in range(len(mean)):
            z = (data[i] - mean[k]) / scale[k]
            logs[k] = weight[k] - 0.5 * z * z - math.log(scale[k])
            top = max(top, logs[k])
        s = 0.0
        for k in range(len(mean)):
            s += math.exp(logs[k] - top)
        total += top + math.log(s)
    return total


def adaptive(p):
    """A pendulum with friction, by steps as large as the error allows."""
    t, u, v, h = 0.0, p[0], p[1], 0.01
    while t < 20.0:
        a = -p[2] * math.sin(u) - p[3] * v
        u1, v1 = u + h * v, v + h * a
        b = -p[2] * math.sin(u1) - p[3] * v1
        error = abs(0.5 * h * (b - a))
        if error > 1e-3:
            h *= 0.5
            continue
        u, v, t = u + 0.5 * h * (v + v1), v + 0.5 * h * (a + b), t + h
        if error < 2e-4:
            h *= 1.2
    return u * u + v * v


def network(w, x, y):
    """Squared errors of a network with one layer of 16, in loops."""
    total = 0.0
    for n in range(len(x)):
        out = w[64]
        for k in range(16):
            s = w[k] * x[n, 0] + w[16 + k] * x[n, 1] + w[32 + k]
            out += w[48 + k] * softplus(s)
        total += (out - y[n]) ** 2
    return total


def soft_path(cost):
    """Smoothed cost of the best path through a table (dynamic time warping)."""
    n, m = cost.shape
    best = np.full((n + 1, m + 1), 1e6)
    best[0, 0] = 0.0
    for i in range(n):
        for j in range(m):
            a, b, c = best[i, j], best[i + 1, j], best[i, j + 1]
            low = min(a, b, c)
            s = math.exp(low - a) + math.exp(low - b) + math.exp(low - c)
            best[i + 1, j + 1] = cost[i, j] + low - math.log(s)
    return best[n, m]


def kalman(p, seen):
    """Log-likelihood of a filter with two states."""
    x0, x1, p00, p01, p11 = 0.0, 0.0, 1.0, 0.0, 1.0
    total = 0.0
    for t in range(len(seen)):
        x0, x1 = x0 + p[0] * x1, p[1] * x1
        q00 = p00 + 2.0 * p[0] * p01 + p[0] * p[0] * p11 + p[2]
        q01 = p[1] * (p01 + p[0] * p11)
        q11 = p[1] * p[1] * p11 + p[3]
        s = q00 + p[4]
        r = seen[t] - x0
        k0, k1 = q00 / s, q01 / s
        x0, x1 = x0 + k0 * r, x1 + k1 * r
        p00, p01, p11 = q00 - k0 * q00, q01 - k0 * q01, q11 - k1 * q01
        total -= 0.5 * (math.log(s) + r * r / s)
    return total


def lookup(y, at):
    """Energy of a piecewise linear function of a table, at sorted and unsorted places."""
    total = 0.0
    last = len(y) - 2
    for i in range(len(at)):
        k = min(int(at[i] * (last + 1)), last)
        t = at[i] * (last + 1) - k
        v = (1.0 - t) * y[k] + t * y[k + 1]
        total += v * v
    return total


def walks(p, noise):
    """Mean of a function of the end of random walks that stop at a barrier."""
    total = 0.0
    for i in range(noise.shape[0]):
        s = p[0]
        for t in range(noise.shape[1]):
            s += p[1] * s * 0.01 + p[2] * s * 0.1 * noise[i, t]
            if s < p[3]:
                s = p[3] * math.exp(s - p[3])
                break
        total += max(s - 1.0, 0.0)
    return total / noise.shape[0]


def relax(x):
    """Rows of a matrix scaled in turn, with slices."""
    a = np.outer(x, x) + np.eye(len(x))
    for _ in range(3):
        for i in range(len(x)):
            row = a[i]
            row /= np.sum(row * row)
    return np.sum(a * a)


def simulation(p, steps):
    """A chain of oscillators with a parameter each, in steps."""
    n = len(p)
    u, v = np.zeros(n), np.zeros(n)
    u[0] = 1.0
    total = 0.0
    for _ in range(steps):
        for i in range(n):
            left = u[i - 1] if i > 0 else 0.0
            right = u[i + 1] if i < n - 1 else 0.0
            v[i] += 0.01 * (left - 2.0 * u[i] + right - p[i] * u[i] * u[i] * u[i])
        for i in range(n):
            u[i] += 0.01 * v[i]
        total += u[n - 1] * u[n - 1]
    return total


def more_problems() -> dict:
    """Name -> (function, arguments, argnums)."""
    rng = np.random.default_rng(1)
    grid = np.stack(np.meshgrid(np.arange(12.0), np.arange(12.0)), -1).reshape(-1)
    means = (np.linspace(-2.0, 2.0, 5), np.linspace(0.5, 1.5, 5), np.log(np.full(5, 0.2)), rng.normal(size=500))
    return {
        "tridiagonal system, 1e4": (thomas, [rng.normal(size=10000)], 0),
        "Lennard-Jones, 144 with a cutoff": (lennard_jones, [1.2 * grid + 0.1 * rng.normal(size=288), 9.0], 0),
        "mixture, 5 x 500": (mixture, list(means), (0, 1, 2)),
        "adaptive steps": (adaptive, [np.array([1.0, 0.0, 4.0, 0.1])], 0),
        "network in loops, 65 by 200": (network, [rng.normal(size=65), rng.normal(size=(200, 2)), rng.normal(size=200)], 0),
        "soft path, 60 x 60": (soft_path, [rng.uniform(size=(60, 60))], 0),
        "Kalman filter, 1000": (kalman, [np.array([0.9, 0.95, 0.1, 0.2, 0.5]), rng.normal(size=1000)], 0),
        "table of 100, 1e4 places": (lookup, [rng.normal(size=100), rng.uniform(size=10000)], 0),
        "walks to a barrier, 200 x 100": (walks, [np.array([1.0, 0.2, 0.2, 0.7]), rng.normal(size=(200, 100))], 0),
        "rows scaled in turn, 60": (relax, [rng.normal(size=60)], 0),
    }

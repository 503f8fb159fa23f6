"""Values and gradients derived and written by hand: the measure of `benchmarks.kernels`.

NumPy where the work is products of matrices, Numba elsewhere; no approximations.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit
def rosenbrock(x):
    """One loop for value and gradient."""
    g = np.zeros_like(x)
    total = 0.0
    for i in range(x.shape[0] - 1):
        a, b = x[i + 1] - x[i] * x[i], 1.0 - x[i]
        total = total + 100.0 * a * a + b * b
        g[i] += -400.0 * a * x[i] - 2.0 * b
        g[i + 1] += 200.0 * a
    return total, g


@njit
def descend(x, steps):
    """Gradient descent on Rosenbrock's function, the gradient written into one array; returns the values on the way."""
    g, values = np.empty_like(x), np.empty(steps)
    for k in range(steps):
        total = 0.0
        g[0] = 0.0
        for i in range(x.shape[0] - 1):
            a, b = x[i + 1] - x[i] * x[i], 1.0 - x[i]
            total = total + 100.0 * a * a + b * b
            g[i] += -400.0 * a * x[i] - 2.0 * b
            g[i + 1] = 200.0 * a
        values[k] = total
        for i in range(x.shape[0]):
            x[i] -= 1e-4 * g[i]
    return values


@njit
def lotka_volterra(p, steps, h):
    """The discrete adjoint of the Runge-Kutta steps: states are stored, stages computed again."""
    a, b, c, d = p[0], p[1], p[2], p[3]
    us, vs = np.empty(steps + 1), np.empty(steps + 1)
    us[0], vs[0] = p[4], p[5]
    for k in range(steps):
        u, v = us[k], vs[k]
        u1, v1 = (a - b * v) * u, (d * u - c) * v
        x, y = u + h / 2 * u1, v + h / 2 * v1
        u2, v2 = (a - b * y) * x, (d * x - c) * y
        x, y = u + h / 2 * u2, v + h / 2 * v2
        u3, v3 = (a - b * y) * x, (d * x - c) * y
        x, y = u + h * u3, v + h * v3
        u4, v4 = (a - b * y) * x, (d * x - c) * y
        us[k + 1] = u + h / 6 * (u1 + 2.0 * u2 + 2.0 * u3 + u4)
        vs[k + 1] = v + h / 6 * (v1 + 2.0 * v2 + 2.0 * v3 + v4)
    g = np.zeros(6)
    gu, gv = 2.0 * us[steps], 2.0 * vs[steps]
    ga = gb = gc = gd = 0.0
    for k in range(steps - 1, -1, -1):
        u, v = us[k], vs[k]
        u1, v1 = (a - b * v) * u, (d * u - c) * v
        x2, y2 = u + h / 2 * u1, v + h / 2 * v1
        u2, v2 = (a - b * y2) * x2, (d * x2 - c) * y2
        x3, y3 = u + h / 2 * u2, v + h / 2 * v2
        u3, v3 = (a - b * y3) * x3, (d * x3 - c) * y3
        x4, y4 = u + h * u3, v + h * v3
        pu, pv = h / 6 * gu, h / 6 * gv
        ga += pu * x4
        gb -= pu * x4 * y4
        gd += pv * x4 * y4
        gc -= pv * y4
        x, y = pu * (a - b * y4) + pv * d * y4, pv * (d * x4 - c) - pu * b * x4
        su, sv = x, y
        pu, pv = h / 3 * gu + h * x, h / 3 * gv + h * y
        ga += pu * x3
        gb -= pu * x3 * y3
        gd += pv * x3 * y3
        gc -= pv * y3
        x, y = pu * (a - b * y3) + pv * d * y3, pv * (d * x3 - c) - pu * b * x3
        su += x
        sv += y
        pu, pv = h / 3 * gu + h / 2 * x, h / 3 * gv + h / 2 * y
        ga += pu * x2
        gb -= pu * x2 * y2
        gd += pv * x2 * y2
        gc -= pv * y2
        x, y = pu * (a - b * y2) + pv * d * y2, pv * (d * x2 - c) - pu * b * x2
        su += x
        sv += y
        pu, pv = h / 6 * gu + h / 2 * x, h / 6 * gv + h / 2 * y
        ga += pu * u
        gb -= pu * u * v
        gd += pv * u * v
        gc -= pv * v
        gu += su + pu * (a - b * v) + pv * d * v
        gv += sv + pv * (d * u - c) - pu * b * u
    g[0], g[1], g[2], g[3], g[4], g[5] = ga, gb, gc, gd, gu, gv
    return us[steps] ** 2 + vs[steps] ** 2, g


def logistic(w, X, y):
    z = -y * (X @ w)
    e = np.exp(-np.abs(z))
    value = np.mean(np.maximum(z, 0.0) + np.log1p(e))
    slope = np.where(z >= 0.0, 1.0, e) / (1.0 + e)
    return value, (slope * -y / len(y)) @ X


def network(W1, b1, W2, b2, W3, b3, X, labels):
    h1 = np.tanh(X @ W1 + b1)
    h2 = np.tanh(h1 @ W2 + b2)
    z = h2 @ W3 + b3
    z -= z.max(axis=1, keepdims=True)
    e = np.exp(z)
    sums = e.sum(axis=1)
    n = len(labels)
    rows = np.arange(n)
    value = np.mean(np.log(sums) - z[rows, labels])
    g = e / sums[:, None]
    g[rows, labels] -= 1.0
    g /= n
    gW3, gb3 = h2.T @ g, g.sum(axis=0)
    g = (g @ W3.T) * (1.0 - h2 * h2)
    gW2, gb2 = h1.T @ g, g.sum(axis=0)
    g = (g @ W2.T) * (1.0 - h1 * h1)
    return value, (X.T @ g, g.sum(axis=0), gW2, gb2, gW3, gb3)


@njit
def black_scholes(spot, strike, rate, sigma, time):
    """Price, and delta, the derivative by the strike, rho, vega and minus theta, by their closed forms."""
    n = len(spot)
    total = 0.0
    gs, gk, gr, gv, gt = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        root_time = math.sqrt(time[i])
        root = sigma[i] * root_time
        d1 = (math.log(spot[i] / strike[i]) + (rate[i] + 0.5 * sigma[i] * sigma[i]) * time[i]) / root
        d2 = d1 - root
        first, second = 0.5 * (1.0 + math.erf(d1 / math.sqrt(2.0))), 0.5 * (1.0 + math.erf(d2 / math.sqrt(2.0)))
        discount = math.exp(-rate[i] * time[i])
        density = math.exp(-0.5 * d1 * d1) / math.sqrt(2.0 * math.pi)
        total += spot[i] * first - strike[i] * discount * second
        gs[i] = first
        gk[i] = -discount * second
        gr[i] = strike[i] * time[i] * discount * second
        gv[i] = spot[i] * density * root_time
        gt[i] = spot[i] * density * sigma[i] / (2.0 * root_time) + rate[i] * strike[i] * discount * second
    return total, (gs, gk, gr, gv, gt)

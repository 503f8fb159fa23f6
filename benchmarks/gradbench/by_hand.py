"""The gradients of the modules, derived and written by hand: what ours are measured against.

NumPy where the work is whole arrays, Numba where it is loops.  Each takes what
the module's own gradient takes and returns the same.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .modules.gmm import logsumexp


def llsq(x, n):
    """Minus the transposed powers times the residuals."""
    t = np.linspace(-1.0, 1.0, n)
    powers = np.vander(t, len(x), increasing=True)
    return -((np.sign(t) - powers @ x) @ powers)


def lse(x):
    """The softmax."""
    e = np.exp(x - np.max(x))
    return e / np.sum(e)


@njit
def _rates(x, y, a, k, out):
    """rates(x, y + a k) into `out`."""
    out[0] = x[0]
    for i in range(1, len(x)):
        out[i] = x[i] * (y[i - 1] + a * k[i - 1])


@njit
def _pull(x, y, a, k, g, dx, dy, dk):
    """Adjoint of `_rates`: `g` is the adjoint of its result; adds to the others."""
    dx[0] += g[0]
    for i in range(1, len(x)):
        dx[i] += g[i] * (y[i - 1] + a * k[i - 1])
        d = g[i] * x[i]
        dy[i - 1] += d
        dk[i - 1] += a * d


@njit
def ode(x, steps):
    """The discrete adjoint of the Runge-Kutta steps; stages are stored."""
    n = len(x)
    h = 2.0 / steps
    y = np.zeros((steps + 1, n))
    k = np.empty((steps, 4, n))
    for s in range(steps):
        _rates(x, y[s], 0.0, y[s], k[s, 0])
        _rates(x, y[s], h / 2, k[s, 0], k[s, 1])
        _rates(x, y[s], h / 2, k[s, 1], k[s, 2])
        _rates(x, y[s], h, k[s, 2], k[s, 3])
        for i in range(n):
            y[s + 1, i] = y[s, i] + h / 6 * (k[s, 0, i] + 2 * k[s, 1, i] + 2 * k[s, 2, i] + k[s, 3, i])
    dx, dy, dk, unused = np.zeros(n), np.zeros(n), np.empty((4, n)), np.empty(n)
    dy[n - 1] = 1.0
    for s in range(steps - 1, -1, -1):
        for i in range(n):
            dk[0, i] = dk[3, i] = h / 6 * dy[i]
            dk[1, i] = dk[2, i] = h / 3 * dy[i]
        _pull(x, y[s], h, k[s, 2], dk[3], dx, dy, dk[2])
        _pull(x, y[s], h / 2, k[s, 1], dk[2], dx, dy, dk[1])
        _pull(x, y[s], h / 2, k[s, 0], dk[1], dx, dy, dk[0])
        _pull(x, y[s], 0.0, y[s], dk[0], dx, dy, unused)
    return dx


def gmm(alpha, mu, q, low, x, m, gamma):
    """Gradients with respect to alpha, mu, q, low."""
    n, d = x.shape
    k = len(alpha)
    columns, rows = np.triu_indices(d, 1)
    diagonal = np.arange(d)
    Q = np.zeros((k, d, d))
    Q[:, diagonal, diagonal] = np.exp(q)
    Q[:, rows, columns] = low
    away = x[None, :, :] - mu[:, None, :]
    scaled = away @ Q.transpose(0, 2, 1)
    beta = (alpha + q.sum(1))[:, None] - 0.5 * np.einsum("knd,knd->kn", scaled, scaled)
    weights = np.exp(beta - logsumexp(beta, 0))
    of_scaled = -weights[:, :, None] * scaled
    of_Q = of_scaled.transpose(0, 2, 1) @ away
    of_mu = -np.einsum("kni,kij->kj", of_scaled, Q, optimize=True)
    counts = weights.sum(1)
    of_alpha = counts - n * np.exp(alpha - logsumexp(alpha, 0))
    e = np.exp(q)
    of_q = counts[:, None] + of_Q[:, diagonal, diagonal] * e - gamma**2 * e * e + m
    return of_alpha, of_mu, of_q, of_Q[:, rows, columns] - gamma**2 * low


@njit
def _turned(r, x, y, by_r, by_x):
    """Rodrigues' formula into `y`, and its partials; the rotation is not zero."""
    angle = np.sqrt(r[0] * r[0] + r[1] * r[1] + r[2] * r[2])
    v = (r[0] / angle, r[1] / angle, r[2] / angle)
    s, c = np.sin(angle), np.cos(angle)
    w = (v[1] * x[2] - v[2] * x[1], v[2] * x[0] - v[0] * x[2], v[0] * x[1] - v[1] * x[0])
    along = v[0] * x[0] + v[1] * x[1] + v[2] * x[2]
    for i in range(3):
        y[i] = x[i] * c + w[i] * s + v[i] * along * (1 - c)
        for j in range(3):
            by_x[i, j] = v[i] * v[j] * (1 - c) + (c if i == j else 0.0)
    by_x[0, 1] -= v[2] * s
    by_x[0, 2] += v[1] * s
    by_x[1, 0] += v[2] * s
    by_x[1, 2] -= v[0] * s
    by_x[2, 0] -= v[1] * s
    by_x[2, 1] += v[0] * s
    for j in range(3):
        t0 = ((1.0 if j == 0 else 0.0) - v[0] * v[j]) / angle
        t1 = ((1.0 if j == 1 else 0.0) - v[1] * v[j]) / angle
        t2 = ((1.0 if j == 2 else 0.0) - v[2] * v[j]) / angle
        change = t0 * x[0] + t1 * x[1] + t2 * x[2]
        t = (t0, t1, t2)
        of_w = (t1 * x[2] - t2 * x[1], t2 * x[0] - t0 * x[2], t0 * x[1] - t1 * x[0])
        for i in range(3):
            by_angle = -x[i] * s + w[i] * c + v[i] * along * s
            by_r[i, j] = by_angle * v[j] + of_w[i] * s + (t[i] * along + v[i] * change) * (1 - c)


@njit
def ba(cameras, points, weights, features, camera_of, point_of):
    """Values of the Jacobian, and its row pointers and columns."""
    n, m, p = cameras.shape[1], points.shape[1], len(weights)
    pointers, columns, values = np.empty(3 * p + 1, np.int64), np.empty(31 * p, np.int64), np.empty(31 * p)
    x, y, by_r, by_x = np.empty(3), np.empty(3), np.empty((3, 3)), np.empty((3, 3))
    for o in range(p):
        a, b, weight = camera_of[o], point_of[o], weights[o]
        camera = cameras[:, a]
        for j in range(3):
            x[j] = points[j, b] - camera[3 + j]
        _turned(camera[:3], x, y, by_r, by_x)
        focal, k1, k2 = camera[6], camera[9], camera[10]
        u, v = y[0] / y[2], y[1] / y[2]
        radius = u * u + v * v
        bend = 1.0 + k1 * radius + k2 * radius * radius
        slope = k1 + 2.0 * k2 * radius
        for k in range(2):
            here = u if k == 0 else v
            by_u = focal * (slope * 2.0 * u * here + (bend if k == 0 else 0.0))
            by_v = focal * (slope * 2.0 * v * here + (bend if k == 1 else 0.0))
            by_y0, by_y1, by_y2 = by_u / y[2], by_v / y[2], -(by_u * u + by_v * v) / y[2]
            at = 30 * o + 15 * k
            pointers[2 * o + k] = at
            for j in range(3):
                values[at + j] = weight * (by_y0 * by_r[0, j] + by_y1 * by_r[1, j] + by_y2 * by_r[2, j])
                moved = weight * (by_y0 * by_x[0, j] + by_y1 * by_x[1, j] + by_y2 * by_x[2, j])
                values[at + 3 + j] = -moved
                values[at + 11 + j] = moved
            values[at + 6] = weight * here * bend
            values[at + 7] = weight if k == 0 else 0.0
            values[at + 8] = weight if k == 1 else 0.0
            values[at + 9] = weight * focal * here * radius
            values[at + 10] = weight * focal * here * radius * radius
            values[at + 14] = focal * here * bend + camera[7 + k] - features[k, o]
            for j in range(11):
                columns[at + j] = 11 * a + j
            for j in range(3):
                columns[at + 11 + j] = 11 * n + 3 * b + j
            columns[at + 14] = 11 * n + 3 * m + o
        pointers[2 * p + o] = 30 * p + o
        columns[30 * p + o] = 11 * n + 3 * m + o
        values[30 * p + o] = -2.0 * weight
    pointers[3 * p] = 31 * p
    return pointers, columns, values

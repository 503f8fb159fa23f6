"""Adjoints by hand of the programs whose gradients cost most: what a careful person's code takes of the same time."""

from __future__ import annotations

import math

import numba
import numpy as np

by_hand = numba.njit(error_model="numpy")


@by_hand
def lennard_jones(x, cutoff):
    n, e, g = len(x) // 2, 0.0, np.zeros_like(x)
    for i in range(n):
        gx, gy = 0.0, 0.0
        for j in range(i):
            dx, dy = x[2 * i] - x[2 * j], x[2 * i + 1] - x[2 * j + 1]
            r2 = dx * dx + dy * dy
            if r2 > cutoff:
                continue
            inverse = 1.0 / r2
            six = inverse * inverse * inverse
            e += 4.0 * six * (six - 1.0)
            w = -6.0 * (8.0 * six - 4.0) * six * inverse
            gx += w * dx
            gy += w * dy
            g[2 * j] -= w * dx
            g[2 * j + 1] -= w * dy
        g[2 * i] += gx
        g[2 * i + 1] += gy
    return e, g


@by_hand
def simulation(p, steps):
    n = len(p)
    us, v, total = np.zeros((steps + 1, n)), np.zeros(n), 0.0
    us[0, 0] = 1.0
    for t in range(steps):
        u = us[t]
        for i in range(n):
            left = u[i - 1] if i > 0 else 0.0
            right = u[i + 1] if i < n - 1 else 0.0
            v[i] += 0.01 * (left - 2.0 * u[i] + right - p[i] * u[i] * u[i] * u[i])
        for i in range(n):
            us[t + 1, i] = u[i] + 0.01 * v[i]
        total += us[t + 1, n - 1] * us[t + 1, n - 1]
    g, du, dv = np.zeros(n), np.zeros(n), np.zeros(n)
    for t in range(steps - 1, -1, -1):
        u = us[t]
        du[n - 1] += 2.0 * us[t + 1, n - 1]
        for i in range(n):
            dv[i] += 0.01 * du[i]
        for i in range(n - 1, -1, -1):
            w = 0.01 * dv[i]
            if i > 0:
                du[i - 1] += w
            if i < n - 1:
                du[i + 1] += w
            du[i] -= w * (2.0 + 3.0 * p[i] * u[i] * u[i])
            g[i] -= w * u[i] * u[i] * u[i]
    return total, g


@by_hand
def heat(u0):
    n = len(u0)
    us = np.zeros((101, n))
    us[0] = u0
    for t in range(100):
        u, v = us[t], us[t + 1]
        if t > 0:
            v[0], v[n - 1] = us[t - 1, 0], us[t - 1, n - 1]
        for i in range(1, n - 1):
            v[i] = u[i] + 0.2 * (u[i - 1] - 2.0 * u[i] + u[i + 1]) + 0.01 * u[i] * u[i]
    du, dv = 2.0 * us[100], np.zeros(n)
    for t in range(99, -1, -1):
        u = us[t]
        for i in range(n - 2, 0, -1):
            w = du[i]
            du[i] = 0.0
            dv[i - 1] += 0.2 * w
            dv[i + 1] += 0.2 * w
            dv[i] += w * (0.6 + 0.02 * u[i])
        du, dv = dv, du
    return np.sum(us[100] * us[100]), du


@by_hand
def hmm(T, B, seen):
    n, m = T.shape[0], len(seen)
    alphas, news, norms, loglik = np.empty((m, n)), np.empty((m, n)), np.ones(m), 0.0
    for j in range(n):
        alphas[0, j] = B[j, seen[0]] / n
    for t in range(1, m):
        norm = 0.0
        for j in range(n):
            s = 0.0
            for i in range(n):
                s += alphas[t - 1, i] * T[i, j]
            news[t, j] = s * B[j, seen[t]]
            norm += news[t, j]
        loglik += math.log(norm)
        norms[t] = norm
        for j in range(n):
            alphas[t, j] = news[t, j] / norm
    dT, dB, da, ds = np.zeros((n, n)), np.zeros(B.shape), np.zeros(n), np.zeros(n)
    for t in range(m - 1, 0, -1):
        inverse = 1.0 / norms[t]
        dnorm = inverse
        for j in range(n):
            dnorm -= da[j] * alphas[t, j] * inverse
        for j in range(n):
            w, b = da[j] * inverse + dnorm, B[j, seen[t]]
            dB[j, seen[t]] += w * news[t, j] / b
            ds[j] = w * b
        for i in range(n):
            s = 0.0
            for j in range(n):
                dT[i, j] += ds[j] * alphas[t - 1, i]
                s += ds[j] * T[i, j]
            da[i] = s
    for j in range(n):
        dB[j, seen[0]] += da[j] / n
    return loglik, (dT, dB)


@by_hand
def relax(x):
    n = len(x)
    a, sums = np.outer(x, x) + np.eye(n), np.empty(3 * n)
    for k in range(3):
        for i in range(n):
            row = a[i]
            sums[k * n + i] = np.sum(row * row)
            row /= sums[k * n + i]
    total, d = np.sum(a * a), 2.0 * a
    for k in range(2, -1, -1):
        for i in range(n - 1, -1, -1):
            row, w, s, ds = a[i], d[i], sums[k * n + i], 0.0
            for j in range(n):
                ds -= w[j] * row[j] / s
            for j in range(n):
                row[j] *= s
                w[j] = w[j] / s + 2.0 * ds * row[j]
    return total, np.dot(d, x) + np.dot(d.T, x)


@by_hand
def thomas(x):
    n = len(x)
    m, d = np.empty(n), np.empty(n)
    m[0], d[0] = 1.0 / (3.0 + x[0]), x[0] / (3.0 + x[0])
    for i in range(1, n):
        m[i] = 1.0 / (3.0 + x[i] * x[i] - m[i - 1])
        d[i] = (x[i] + d[i - 1]) * m[i]
    e, s = np.empty(n), d[n - 1] * d[n - 1]
    e[n - 1] = d[n - 1]
    for i in range(n - 2, -1, -1):
        e[i] = d[i] + m[i] * e[i + 1]
        s += e[i] * e[i]
    de, dm, g = np.empty(n), np.zeros(n), np.zeros(n)
    w = 2.0 * e[0]
    for i in range(n - 1):
        de[i] = w
        dm[i] = w * e[i + 1]
        w = 2.0 * e[i + 1] + m[i] * w
    de[n - 1] = w
    dd, dq = 0.0, 0.0
    for i in range(n - 1, 0, -1):
        dd += de[i]
        w = -((dm[i] + dq) + dd * (x[i] + d[i - 1])) * m[i] * m[i]
        g[i] = dd * m[i] + 2.0 * x[i] * w
        dd, dq = dd * m[i], -w
    g[0] = 3.0 * m[0] * m[0] * (dd + de[0]) - (dm[0] + dq) * m[0] * m[0]
    return s, g


#: By the names of the benchmark.
BY_HAND = {
    "HMM 20 x 500": hmm, "heat, swap": heat, "tridiagonal system, 1e4": thomas, "Lennard-Jones, 144 with a cutoff": lennard_jones,
    "rows scaled in turn, 60": relax,
}  # fmt: skip

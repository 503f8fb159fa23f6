"""Functions to differentiate as Numba compiles them, with arguments for each; some with an adjoint written by hand."""

from __future__ import annotations

import math

import numba
import numpy as np


def rosenbrock(x):
    s = 0.0
    for i in range(len(x) - 1):
        s += 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
    return s


@numba.njit
def lv_rates(u, v, a, b, c, d):
    return a * u - b * u * v, d * u * v - c * v


def lotka_volterra(x, steps, h):
    u, v, a, b, c, d = x[0], x[1], x[2], x[3], x[4], x[5]
    for _ in range(steps):
        k1u, k1v = lv_rates(u, v, a, b, c, d)
        k2u, k2v = lv_rates(u + 0.5 * h * k1u, v + 0.5 * h * k1v, a, b, c, d)
        k3u, k3v = lv_rates(u + 0.5 * h * k2u, v + 0.5 * h * k2v, a, b, c, d)
        k4u, k4v = lv_rates(u + h * k3u, v + h * k3v, a, b, c, d)
        u += h / 6.0 * (k1u + 2.0 * k2u + 2.0 * k3u + k4u)
        v += h / 6.0 * (k1v + 2.0 * k2v + 2.0 * k3v + k4v)
    return u * u + v


def newton(x):
    s = 0.0
    for i in range(len(x)):
        a = x[i]
        y = 0.5 * (1.0 + a)
        while abs(y * y - a) > 1e-12 * a:
            y = 0.5 * (y + a / y)
        s += y
    return s


def cholesky(x):
    n = len(x)
    A = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            A[i, j] = math.exp(-((x[i] - x[j]) ** 2))
        A[i, i] += 1.0
    M = np.zeros((n, n))
    total = 0.0
    for i in range(n):
        for j in range(i + 1):
            s = A[i, j]
            for k in range(j):
                s -= M[i, k] * M[j, k]
            if i == j:
                M[i, j] = math.sqrt(s)
                total += math.log(M[i, j])
            else:
                M[i, j] = s / M[j, j]
    return total


def hmm(T, B, seen):
    n = T.shape[0]
    alpha = np.empty(n)
    new = np.empty(n)
    for j in range(n):
        alpha[j] = B[j, seen[0]] / n
    loglik = 0.0
    for t in range(1, len(seen)):
        norm = 0.0
        for j in range(n):
            s = 0.0
            for i in range(n):
                s += alpha[i] * T[i, j]
            new[j] = s * B[j, seen[t]]
            norm += new[j]
        loglik += math.log(norm)
        for j in range(n):
            alpha[j] = new[j] / norm
    return loglik


def transcendental(x):
    s = 0.0
    for i in range(len(x)):
        y = math.sin(x[i]) * math.exp(-x[i] * x[i])
        if y > 0.0:
            s += math.log(1.0 + y)
        else:
            s -= y * math.exp(y)
    return s


def nbody(x, mass):
    n = len(mass)
    pos = np.empty((n, 3))
    vel = np.empty((n, 3))
    for i in range(n):
        for c in range(3):
            pos[i, c] = x[3 * i + c]
            vel[i, c] = x[3 * n + 3 * i + c]
    h = 0.001
    for _ in range(100):
        for i in range(n):
            ax = 0.0
            ay = 0.0
            az = 0.0
            for j in range(n):
                if j != i:
                    dx = pos[j, 0] - pos[i, 0]
                    dy = pos[j, 1] - pos[i, 1]
                    dz = pos[j, 2] - pos[i, 2]
                    r2 = dx * dx + dy * dy + dz * dz + 0.01
                    f = mass[j] / (r2 * math.sqrt(r2))
                    ax += f * dx
                    ay += f * dy
                    az += f * dz
            vel[i, 0] += h * ax
            vel[i, 1] += h * ay
            vel[i, 2] += h * az
        for i in range(n):
            for c in range(3):
                pos[i, c] += h * vel[i, c]
    e = 0.0
    for i in range(n):
        for c in range(3):
            e += pos[i, c] ** 2 + 0.5 * vel[i, c] ** 2
    return e


def black_scholes(S, K, T, r, vol):
    d1 = (np.log(S / K) + (r + 0.5 * vol * vol) * T) / (vol * np.sqrt(T))
    d2 = d1 - vol * np.sqrt(T)
    n1 = 0.5 + 0.5 * np.tanh(0.7978845608 * (d1 + 0.044715 * d1 * d1 * d1))
    n2 = 0.5 + 0.5 * np.tanh(0.7978845608 * (d2 + 0.044715 * d2 * d2 * d2))
    return np.sum(S * n1 - K * np.exp(-r * T) * n2)


def logistic(w, X, y):
    z = X @ w
    return np.sum(np.log(1.0 + np.exp(-y * z))) + 0.5 * np.dot(w, w)


def heat(u0):
    n = len(u0)
    u = u0.copy()
    v = np.zeros(n)
    for _ in range(100):
        for i in range(1, n - 1):
            v[i] = u[i] + 0.2 * (u[i - 1] - 2.0 * u[i] + u[i + 1]) + 0.01 * u[i] * u[i]
        u, v = v, u
    return np.sum(u * u)


def maps(x):
    n = len(x)
    y = np.empty(n)
    z = np.empty(n)
    for i in range(n):
        y[i] = x[i] * x[i] + 0.5 * x[i]
    for i in range(n):
        z[i] = y[i] * x[i] - y[i] * y[i]
    s = 0.0
    for i in range(n):
        s += z[i] * y[i]
    return s


# ---- by hand ----------------------------------------------------------------------------------
@numba.njit(error_model="numpy")
def rosenbrock_by_hand(x):
    g = np.zeros(len(x))
    s = 0.0
    for i in range(len(x) - 1):
        a, b = x[i + 1] - x[i] * x[i], 1.0 - x[i]
        s += 100.0 * a * a + b * b
        g[i + 1] += 200.0 * a
        g[i] -= 400.0 * a * x[i] + 2.0 * b
    return s, g


@numba.njit(error_model="numpy")
def cholesky_by_hand(x):
    n = len(x)
    A = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            A[i, j] = math.exp(-((x[i] - x[j]) ** 2))
        A[i, i] += 1.0
    M = np.zeros((n, n))
    total = 0.0
    for i in range(n):
        for j in range(i + 1):
            s = A[i, j]
            for k in range(j):
                s -= M[i, k] * M[j, k]
            M[i, j] = math.sqrt(s) if i == j else s / M[j, j]
        total += math.log(M[i, i])
    D = np.zeros((n, n))
    G = np.zeros((n, n))
    for i in range(n - 1, -1, -1):
        D[i, i] += 1.0 / M[i, i]
        for j in range(i, -1, -1):
            if i == j:
                w = 0.5 * D[i, i] / M[i, i]
            else:
                w = D[i, j] / M[j, j]
                D[j, j] -= w * M[i, j]
            G[i, j] = w
            for k in range(j):
                D[i, k] -= w * M[j, k]
                D[j, k] -= w * M[i, k]
    g = np.zeros(n)
    for i in range(n):
        for j in range(i + 1):
            w = -2.0 * G[i, j] * math.exp(-((x[i] - x[j]) ** 2)) * (x[i] - x[j])
            g[i] += w
            g[j] -= w
    return total, g


def problems() -> dict:
    """The first twelve: name -> (function, arguments, argnums, adjoint by hand or None)."""
    rng = np.random.default_rng(0)
    n = 100000
    T = rng.uniform(0.1, 1.0, (20, 20))
    B = rng.uniform(0.1, 1.0, (20, 8))
    market = [rng.uniform(90, 110, n), rng.uniform(90, 110, n), rng.uniform(0.5, 2.0, n), 0.02, 0.3]
    X = rng.normal(size=(2000, 50))
    return {
        "Rosenbrock 1e3": (rosenbrock, [rng.normal(size=1000)], 0, rosenbrock_by_hand),
        "Rosenbrock 1e5": (rosenbrock, [rng.normal(size=n)], 0, rosenbrock_by_hand),
        "RK4, 6 parameters": (lotka_volterra, [np.array([1.0, 1.5, 1.1, 0.4, 0.4, 0.1]), 1000, 0.01], 0, None),
        "Newton, while": (newton, [rng.uniform(0.5, 50.0, 1000)], 0, None),
        "Cholesky 50": (cholesky, [rng.uniform(0.0, 5.0, 50)], 0, cholesky_by_hand),
        "HMM 20 x 500": (hmm, [T / T.sum(1)[:, None], B / B.sum(1)[:, None], rng.integers(0, 8, 500)], (0, 1), None),
        "exp, sin, log": (transcendental, [rng.normal(size=n)], 0, None),
        "N-body 20 x 100": (nbody, [rng.normal(size=120), rng.uniform(0.5, 1.0, 20)], 0, None),
        "Black-Scholes 1e5": (black_scholes, market, (0, 2, 4), None),
        "logistic, @": (logistic, [rng.normal(size=50) * 0.1, X, np.sign(rng.normal(size=2000))], 0, None),
        "three maps 1e5": (maps, [rng.normal(size=n)], 0, None),
        "heat, swap": (heat, [rng.normal(size=1000)], 0, None),
    }

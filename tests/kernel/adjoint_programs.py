"""Programs whose derivatives are made into tapes: loops, branches, reductions, products, assignments."""

import numpy as np

import tapegrad as tg

RNG = np.random.default_rng(0)


def rosenbrock(x):
    total = 0.0
    for i in range(len(x) - 1):
        total = total + 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
    return total


def rosenbrock_of_arrays(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def lotka_volterra(a, b, c, d, x, y, steps=12, h=0.05):
    def f(x, y):
        return a * x - b * x * y, c * x * y - d * y

    for _ in range(steps):
        k1 = f(x, y)
        k2 = f(x + h / 2 * k1[0], y + h / 2 * k1[1])
        k3 = f(x + h / 2 * k2[0], y + h / 2 * k2[1])
        k4 = f(x + h * k3[0], y + h * k3[1])
        x = x + h / 6 * (k1[0] + 2 * k2[0] + 2 * k3[0] + k4[0])
        y = y + h / 6 * (k1[1] + 2 * k2[1] + 2 * k3[1] + k4[1])
    return x * x + y


def branches(x, y):
    total = x * y
    if x > 0.5:
        total = total + np.sin(x) / y
    for _ in range(3):
        total = np.where(total > 1.0, np.sqrt(total), total**3) + np.maximum(x, y) - np.minimum(x * y, 0.3)
    return total + abs(y) + x**y + 2.0**x + y**-2


def powers(x, y):
    return x**2 + x**3 + y**0.5 + x**1.0 + y**0 + np.hypot(x, y) + np.arctan2(y, x) + np.clip(x, 0.0, 1.0) * y + x / 3 + 3 / y


def reductions(x):
    m = np.mean(x, axis=0)
    centred = x - m
    return np.sum(np.max(centred, axis=1) * np.std(x, axis=1)) + np.log(np.sum(np.exp(x))) + np.prod(x[0]) + np.linalg.norm(x)


def network(w1, b1, w2, b2):
    x = np.linspace(-1.0, 1.0, 15).reshape(5, 3)
    hidden = np.tanh(x @ w1 + b1)
    scores = hidden @ w2 + b2
    return tg.nn.functional.cross_entropy(scores, np.array([0, 1, 1, 0, 1]))


def prefix(x):
    y = tg.zeros(len(x))
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = np.sin(y[i - 1]) + x[i] * x[i]
    y[1:3] = y[2:4] * 2.0
    return np.sum(y * y)


def gathers(x):
    y = np.exp(x)
    y[[0, 2]] = x[[1, 1]] * 3.0
    return np.sum(y[[0, 0, 3]] * np.cumsum(x)[:3]) + np.sum(x[::-1] * y) + y[y > 1.0].sum()


def windows(x):
    return np.sum(np.outer(x, x).diagonal() * x) + np.sum(np.broadcast_to(x, (3, len(x))) ** 2) + np.sum(np.stack([x, x * 2.0]).T[1])


def systems(a, b):
    return np.sum(np.linalg.solve(a @ a.T + np.eye(3), b)) + np.linalg.det(a)


def _draw(*shape):
    return RNG.uniform(0.4, 1.6, shape)


#: name -> (function, arguments)
PROGRAMS = {
    "rosenbrock": (rosenbrock, (_draw(6),)),
    "rosenbrock_of_arrays": (rosenbrock_of_arrays, (_draw(6),)),
    "lotka_volterra": (lotka_volterra, (1.1, 0.4, 0.1, 0.4, 3.0, 2.0)),
    "branches": (branches, (0.8, 1.3)),
    "powers": (powers, (0.7, 1.9)),
    "reductions": (reductions, (_draw(3, 4),)),
    "network": (network, (_draw(3, 4) - 1.0, _draw(4), _draw(4, 2) - 1.0, _draw(2))),
    "prefix": (prefix, (_draw(5),)),
    "gathers": (gathers, (_draw(5),)),
    "windows": (windows, (_draw(4),)),
    "systems": (systems, (_draw(3, 3), _draw(3, 2))),
}

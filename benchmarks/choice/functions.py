"""Fifty functions of mixed numbers of inputs and outputs, and of mixed structure.

Each takes one array and returns a number, an array or a list of numbers.
`FUNCTIONS` has them by name with their structure and the point they are
differentiated at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Case(NamedTuple):
    """One function, what it is made of, and where it is differentiated."""

    structure: str
    function: Callable
    point: np.ndarray


FUNCTIONS: dict[str, Case] = {}


def case(structure: str, *shape: int) -> Callable:
    """Register a function at a point of some shape, with entries between 0.1 and 0.9."""

    def register(function: Callable) -> Callable:
        rng = np.random.default_rng(len(FUNCTIONS))
        FUNCTIONS[function.__name__] = Case(structure, function, rng.uniform(0.1, 0.9, shape))
        return function

    return register


def fixed(*shape: int) -> np.ndarray:
    """A constant array of normal deviates, the same at every call."""
    return np.random.default_rng(shape).normal(size=shape) / np.sqrt(shape[-1])


# ---- loops over numbers ------------------------------------------------------------------


@case("loop", 60)
def rosenbrock_by_loop(x):
    total = 0.0
    for i in range(len(x) - 1):
        total = total + 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
    return total


@case("loop", 1)
def logistic_map(x):
    y, found = 0.4, []
    for _ in range(200):
        y = 4.0 * x[0] * y * (1.0 - y)
        found.append(y)
    return found


@case("loop", 12)
def horner(x):
    total = 0.0
    for k in range(12):
        total = total * 0.7 + x[k]
    return total


@case("loop", 20)
def continued_fraction(x):
    value = x[19]
    for k in range(18, -1, -1):
        value = x[k] + 1.0 / value
    return value


@case("loop", 2)
def newton_root(x):
    y = x[0] + 1.0
    for _ in range(40):
        y = y - (y * y * y - x[0] - x[1] * y) / (3.0 * y * y + x[1])
    return y


@case("loop", 64)
def tree_of_products(x):
    level = [x[k] for k in range(64)]
    while len(level) > 1:
        level = [a * b + a for a, b in zip(level[::2], level[1::2])]
    return level[0]


@case("loop", 30)
def coupled_map_lattice(x):
    y = [x[k] for k in range(30)]
    for _ in range(10):
        z = [3.7 * v * (1.0 - v) for v in y]
        y = [0.8 * z[k] + 0.1 * (z[k - 1] + z[(k + 1) % 30]) for k in range(30)]
    return y


@case("loop", 3)
def recurrence_with_sines(x):
    y, found = x[0], []
    for _ in range(120):
        y = np.sin(x[1] * y) + x[2] * np.exp(-y)
        found.append(y)
    return found


@case("loop", 80)
def banded_by_loop(x):
    return np.stack([x[i + 1] * x[i + 2] - np.sin(x[i]) for i in range(len(x) - 2)])


@case("loop", 6)
def moments_by_loop(x):
    found = []
    for k in range(1, 30):
        total = 0.0
        for i in range(6):
            total = total + x[i] ** k
        found.append(total / 6.0)
    return found


# ---- reductions --------------------------------------------------------------------------


@case("reduction", 500)
def logsumexp(x):
    top = np.max(x)
    return np.log(np.sum(np.exp(x - top))) + top


@case("reduction", 400)
def four_moments(x):
    d = x - np.mean(x)
    return np.stack([np.mean(x), np.mean(d**2), np.mean(d**3), np.mean(d**4)])


@case("reduction", 50)
def softmax(x):
    e = np.exp(x - np.max(x))
    return e / np.sum(e)


@case("reduction", 20, 30)
def norms_of_rows(x):
    return np.sqrt(np.sum(x * x, axis=1))


@case("reduction", 30, 12)
def largest_of_columns(x):
    return np.max(x, axis=0) - np.mean(x, axis=0)


@case("reduction", 100)
def running_sums(x):
    return np.cumsum(x) / np.arange(1.0, 101.0)


@case("reduction", 4)
def sums_of_powers(x):
    t = np.linspace(0.0, 1.0, 300)
    return np.sum(x[:, None] * t, axis=1) * np.sum(np.exp(-np.outer(x, t)), axis=1)


# ---- matrix products ---------------------------------------------------------------------


@case("matrix product", 80)
def wide_layer(x):
    return np.tanh(fixed(20, 80) @ x)


@case("matrix product", 10)
def tall_layer(x):
    return np.tanh(fixed(200, 10) @ x)


@case("matrix product", 20, 30)
def loss_in_weights(w):
    hidden = np.tanh(fixed(40, 20) @ w)
    return np.mean((hidden @ fixed(30) - 0.3) ** 2)


@case("matrix product", 64)
def small_network(x):
    hidden = np.tanh(fixed(32, 64) @ x + 0.1)
    hidden = np.tanh(fixed(32, 32) @ hidden - 0.1)
    return fixed(10, 32) @ hidden


@case("matrix product", 150)
def quadratic_form(x):
    return x @ fixed(150, 150) @ x


@case("matrix product", 12, 8)
def gram_matrix(x):
    return x @ x.T


@case("matrix product", 6, 6)
def fourth_power(a):
    return a @ a @ a @ a


@case("matrix product", 8, 4)
def attention(x):
    scores = np.exp((x @ fixed(4, 4)) @ x.T / 2.0)
    return (scores / np.sum(scores, axis=1, keepdims=True)) @ x


@case("matrix product", 10, 4, 4)
def stack_of_products(x):
    return np.sum(x @ fixed(10, 4, 4), axis=0)


# ---- bottlenecks -------------------------------------------------------------------------


@case("bottleneck", 300)
def through_one_number(x):
    return np.exp(-np.sum(x * x) / 300.0 * np.linspace(0.0, 1.0, 300))


@case("bottleneck", 50)
def through_three_numbers(x):
    t = np.linspace(0.0, 1.0, 80)
    a, b, c = np.mean(x), np.max(x), np.sum(x * x)
    return a + b * t + c * t * t


@case("bottleneck", 64)
def autoencoder(x):
    return fixed(64, 4) @ np.tanh(fixed(4, 64) @ x)


@case("bottleneck", 200)
def two_features_five_scores(x):
    features = fixed(2, 200) @ np.sqrt(x)
    return np.sin(fixed(5, 2) @ features)


# ---- element-wise maps -------------------------------------------------------------------


@case("element-wise", 300)
def damped_sine(x):
    return np.sin(6.0 * x) * np.exp(-x)


@case("element-wise", 20)
def short_map(x):
    return x / (1.0 + x * x) + np.log(x)


@case("element-wise", 4)
def curve_of_four(x):
    t = np.linspace(0.0, 10.0, 2000)
    return x[0] * np.exp(-x[1] * t) * np.cos(x[2] * t + x[3])


@case("element-wise", 9)
def three_gaussians(x):
    t = np.linspace(-3.0, 3.0, 1000)
    total = 0.0
    for k in range(3):
        total = total + x[3 * k] * np.exp(-(((t - x[3 * k + 1]) / x[3 * k + 2]) ** 2))
    return total


@case("element-wise", 200)
def piecewise(x):
    return np.where(x > 0.5, np.sqrt(x), x * x + 0.25)


@case("element-wise", 400)
def banded_on_arrays(x):
    return x[1:-1] * x[2:] - np.sin(x[:-2])


# ---- ordinary differential equations -----------------------------------------------------


def runge_kutta(slope, y, h, steps):
    """States after each of some steps of the classical Runge-Kutta method, on lists of numbers."""
    states = []
    for _ in range(steps):
        a = slope(y)
        b = slope([v + h / 2 * k for v, k in zip(y, a)])
        c = slope([v + h / 2 * k for v, k in zip(y, b)])
        d = slope([v + h * k for v, k in zip(y, c)])
        y = [v + h / 6 * (p + 2.0 * q + 2.0 * r + s) for v, p, q, r, s in zip(y, a, b, c, d)]
        states.append(y)
    return states


@case("ODE", 6)
def hares_and_lynxes(x):
    def slope(y):
        return [(x[0] - x[1] * y[1]) * y[0], (x[2] * y[0] - x[3]) * y[1]]

    return [v for y in runge_kutta(slope, [x[4], x[5]], 0.1, 40) for v in y]


@case("ODE", 3)
def van_der_pol(x):
    states = runge_kutta(lambda y: [y[1], x[0] * (1.0 - y[0] * y[0]) * y[1] - y[0]], [x[1], x[2]], 0.05, 60)
    return states[-1][0]


@case("ODE", 12)
def four_bodies(x):
    position, velocity = x.reshape(4, 3), np.zeros((4, 3))
    for _ in range(10):
        apart = position[:, None, :] - position[None, :, :]
        squared = np.sum(apart * apart, axis=2) + 0.1
        velocity = velocity - 0.05 * np.sum(apart / (squared * np.sqrt(squared))[:, :, None], axis=1)
        position = position + 0.05 * velocity
    return position


@case("ODE", 50)
def heat_on_a_rod(x):
    for _ in range(40):
        x = np.concatenate([x[:1], x[1:-1] + 0.2 * (x[2:] - 2.0 * x[1:-1] + x[:-2]), x[-1:]])
    return x


@case("ODE", 2)
def pendulum(x):
    angle, speed = x[0], x[1]
    for _ in range(200):
        speed = speed - 0.02 * np.sin(angle)
        angle = angle + 0.02 * speed
    return [angle, speed]


@case("ODE", 5)
def reaction_on_arrays(x):
    grid = np.linspace(0.0, 1.0, 60)
    u = x[0] * np.exp(-x[1] * grid)
    for _ in range(25):
        u = u + 0.05 * (x[2] * u * (1.0 - u) - x[3] * u / (x[4] + u))
    return u


# ---- linear algebra ----------------------------------------------------------------------


@case("linear algebra", 10, 10)
def solve_for_ones(a):
    return np.linalg.solve(a + 10.0 * np.eye(10), np.ones(10))


@case("linear algebra", 6, 6)
def inverse(a):
    return np.linalg.inv(a + 6.0 * np.eye(6))


@case("linear algebra", 12, 12)
def log_determinant(a):
    return np.linalg.slogdet(a @ a.T + np.eye(12))[1]


@case("linear algebra", 3)
def gaussian_process(x):
    t = np.linspace(0.0, 1.0, 15)
    kernel = x[0] * np.exp(-(((t[:, None] - t) / x[1]) ** 2)) + (x[2] + 0.1) * np.eye(15)
    factor = np.linalg.cholesky(kernel)
    z = np.linalg.solve(factor, np.cos(t))
    return 0.5 * np.sum(z * z) + np.sum(np.log(np.diagonal(factor)))


@case("linear algebra", 6, 6)
def eigenvalues(a):
    return np.linalg.eigvalsh(a + a.T)


# ---- indexing ----------------------------------------------------------------------------

ORDER = np.random.default_rng(7).permutation(150)


@case("indexing", 150)
def permuted(x):
    return x[ORDER] * x + x[::-1]


@case("indexing", 40)
def written_in_place(x):
    y = np.zeros_like(x)
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = 0.5 * y[i - 1] + x[i] * x[i - 1]
    return y


@case("indexing", 16)
def table_looked_up(x):
    return x[ORDER % 16] * np.sin(x[(ORDER * 7 + 3) % 16])

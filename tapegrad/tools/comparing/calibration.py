"""Fitting the constants of `tapegrad.transforms.choosing.costs` to sweeps measured on this machine.

Small functions, each heavy in some of the counts and of various sizes, are
differentiated in both modes; the constants are those that explain the times
best, in relative terms, none of them negative.  ``python -m tapegrad calibrate``
runs it.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from ...autograd.recording import Recording
from ...common.uninterrupted import imported
from ...transforms.choosing.costs import NAMES, counts, nanoseconds
from ...transforms.jacobians import by_columns, by_rows


def _chain(steps):
    def f(x):
        y = [x[k] for k in range(len(x))]
        for k in range(steps):
            y[k % len(y)] = y[k % len(y)] * y[(k + 1) % len(y)] + 0.5
        return y

    return f


def _curve(steps, every):
    def f(x):
        y, values = x[0], []
        for k in range(steps):
            y = np.cos(y) + np.exp(-y) / (1.0 + y * y) * x[k % len(x)]
            if k % every == 0:
                values.append(y)
        return values

    return f


def _parts(count):
    def f(x):
        return np.stack([x[k % len(x)] * x[(3 * k + 1) % len(x)] for k in range(count)])

    return f


def _tuple_of(count):
    def f(x):
        return [x * (0.5 + k) for k in range(count)]

    return f


def _diffused(steps):
    def f(x):
        for _ in range(steps):
            x = np.concatenate([x[1:] * x[:-1], x[:1]])
        return x

    return f


def _oscillator(steps):
    def f(x):
        position, speed = x[:-1], x[1:]
        for _ in range(steps):
            speed = speed - 0.1 * position * (1.0 + position * position)
            position = position + 0.1 * speed
        return np.stack([position, speed])

    return f


def _filled(x):
    y = np.zeros_like(x)
    for i in range(len(x)):
        y[i] = x[i] * x[i - 1] + 0.5
    return y


def _vectors(n, rng):
    """Functions of a vector of length n."""
    matrix, order = rng.normal(size=(n, n)) / n, rng.permutation(n)
    return [
        lambda x: x[1:-1] * x[2:] - x[:-2],
        lambda x: np.cos(x) * np.exp(-x) + np.log1p(x),
        lambda x: x / (1.0 + x * x) + np.sqrt(x),
        lambda x: x**3 - x**2.5,
        lambda x: np.tanh(matrix @ x) + x,
        lambda x: matrix @ (matrix @ x),
        lambda x: np.sin(matrix[:5] @ x),
        lambda x: matrix[:, :5] @ x[:5],
        lambda x: np.cumsum(x)[::2] * np.sum(x * x),
        lambda x: np.cumprod(x),
        lambda x: x[order] * x,
        lambda x: x[order[: len(x) // 2]] + x[order[len(x) // 2 :]],
        lambda x: np.sum(matrix[:8] * np.sin(x), axis=1),
        lambda x: np.sum(np.outer(x, matrix[0]), axis=0),
        lambda x: np.sum(np.sqrt(x) * x),
        lambda x: np.log(np.sum(np.exp(x))) - np.mean(x**4),
        lambda x: np.stack([np.var(x), np.max(x), np.sum(x * x * x)]),
        lambda x: np.where(x > 0.4, x, x * x),
        lambda x: np.mean(x) * np.exp(-x),
    ]


def _matrices(n):
    """Functions of an (n, n) matrix."""
    fixed = np.random.default_rng(n).normal(size=(7, n, n)) / n
    return [
        lambda x: np.linalg.solve(x + 3.0 * n * np.eye(n), x[0]),
        lambda x: np.linalg.inv(x + 3.0 * n * np.eye(n))[0],
        lambda x: np.linalg.slogdet(x + 3.0 * n * np.eye(n))[1],
        lambda x: np.sum(np.linalg.cholesky(x @ x.T + n * np.eye(n))),
        lambda x: np.linalg.eigvalsh(x + x.T)[0],
        lambda x: x @ fixed[0] @ x,
        lambda x: np.mean(np.tanh(fixed[0] @ x) ** 2),
        lambda x: x.T @ x[0],
        lambda x: np.sum((x @ fixed) ** 2, axis=(1, 2)),
        lambda x: np.sum(x, axis=0) * np.max(x, axis=1),
        lambda x: np.exp(x) / np.sum(np.exp(x), axis=1, keepdims=True),
        lambda x: np.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=2),
        lambda x: x.T * x,
    ]


def _curves(n):
    """Functions of few numbers with n outputs, and the other way round."""
    t = np.linspace(0.1, 1.0, n)
    return [
        (lambda x: x[0] * np.sin(x[1] * t) + x[2] * t, 3),
        (lambda x: x[0] / (x[1] + t) * x[2] - t * x[3], 4),
        (lambda x: (t - x[0]) ** 2 * np.exp(-x[1] * t) + (t / x[2]) ** 2 - x[3] * np.cos(x[4] * t + x[5]), 6),
        (lambda x: np.sum(x[:, None] * np.exp(-np.outer(x, t)), axis=0), 5),
        (lambda x: np.stack([np.sum(x * t), np.sum(x * x), np.max(x) / np.sum(np.sqrt(x))]), n),
    ]


def samples():
    """The functions, and points to differentiate them at: a list of (function, point)."""
    rng = np.random.default_rng(0)
    cases = [(_chain(s), n) for s, n in ((5, 2), (200, 2), (200, 40), (1000, 100), (3000, 5), (3000, 30))]
    cases += [(_curve(s, e), n) for s, e, n in ((10, 20, 2), (100, 1, 3), (300, 3, 1), (1000, 50, 20), (1000, 2000, 5))]
    cases += [(_parts(s), n) for s, n in ((5, 3), (40, 40), (150, 10), (30, 150))]
    cases += [(_tuple_of(s), n) for s, n in ((20, 10), (100, 1), (3, 200))]
    cases += [(_diffused(s), n) for s, n in ((10, 20), (30, 90))]
    cases += [(_oscillator(s), n) for s, n in ((10, 16), (20, 70), (5, 400))]
    cases += [(_filled, n) for n in (10, 60)]
    for n in (10, 30, 100, 360):
        cases += [(f, n) for f in _vectors(n, rng)]
    for n in (3, 8, 14):
        cases += [(f, (n, n)) for f in _matrices(n)]
    for n in (150, 700, 1600, 6000):
        cases += _curves(n)
    return [(f, rng.uniform(0.1, 0.9, shape)) for f, shape in cases]


def measure(recording, repeats, budget=0.02):
    """Seconds of both modes, forward first: the least of several runs that take turns.

    What is timed is what `tg.jacobian` does after recording: the sweeps and
    bringing the result out.

    Parameters
    ----------
    recording : Recording
    repeats : int
        Turns, at least.
    budget : float
        Seconds to go on for, at least.
    """
    modes, best = (by_columns, by_rows), [np.inf, np.inf]
    for mode in modes:
        mode(recording)
    end, turns = perf_counter() + budget, 0
    while turns < repeats or perf_counter() < end:
        for k, mode in enumerate(modes):
            # The first run of a turn finds the caches full of the other's data.
            for _ in range(3):
                start = perf_counter()
                mode(recording)
                best[k] = min(best[k], perf_counter() - start)
        turns += 1
    return best


def measured(repeats=5):
    """Counts (a row for each sample and mode) and nanoseconds."""
    rows, times = [], []
    for function, point in samples():
        recording = Recording(function, (point,), (0,))
        for forward, seconds in zip((True, False), measure(recording, repeats)):
            by_name = counts(recording, forward)
            rows.append([by_name[name] for name in NAMES])
            times.append(seconds * 1e9)
    return np.array(rows), np.array(times)


def fit(rows, times):
    """Constants that explain `times` by `rows`, and the median relative error that remains."""
    least_squares = imported("scipy.optimize").least_squares
    prior = np.array([nanoseconds()[name] for name in NAMES])
    # Relative errors; a constant that the samples say little about stays near its old value.
    relative, hold = rows * prior / times[:, None], 0.1

    def misfit(logs):
        return np.concatenate([np.log(relative @ np.exp(logs)), hold * logs])

    def slopes(logs):
        parts = relative * np.exp(logs)
        return np.concatenate([parts / parts.sum(axis=1, keepdims=True), hold * np.eye(len(logs))])

    solved = least_squares(misfit, np.zeros(len(prior)), slopes, loss="soft_l1", f_scale=0.2)
    constants = np.exp(solved.x) * prior
    error = float(np.median(np.abs(rows @ constants / times - 1.0)))
    return {name: float(f"{value:.3g}") for name, value in zip(NAMES, constants)}, error


def calibrate(repeats=5):
    """Fit the constants of `tapegrad.transforms.choosing.costs` to sweeps measured here.

    Parameters
    ----------
    repeats : int
        Turns of each measurement, at least.

    Returns
    -------
    dict of str to float
        New values of `tapegrad.transforms.choosing.costs.NANOSECONDS`.
    float
        The median relative error of the fit.
    """
    return fit(*measured(repeats))

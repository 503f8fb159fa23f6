"""Two threads beside one, in one large call, and beside the same loops by hand with Numba's ``prange``.

What is read from memory faster than one core computes gains less; so does the loop by hand.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

import numpy as np

import tapegrad as tg
import tapegrad.scipy.special

from .registry import Missing, Row, benchmark, check_agreement
from .timing import measure

RNG = np.random.default_rng(3)
NOISE = RNG.standard_normal((20_000, 50))


def options(count):
    return RNG.uniform(80.0, 120.0, count), RNG.uniform(0.1, 2.0, count)


def black_scholes(p, strikes, times):
    root = p[1] * np.sqrt(times)
    d = (np.log(p[0] / strikes) + (p[2] + 0.5 * p[1] ** 2) * times) / root
    return np.sum(p[0] * tapegrad.scipy.special.ndtr(d) - strikes * np.exp(-p[2] * times) * tapegrad.scipy.special.ndtr(d - root))


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def asian(p, noise):
    step = p[4] / noise.shape[1]
    s = p[0] * np.exp(np.cumsum((p[2] - 0.5 * p[1] ** 2) * step + p[1] * np.sqrt(step) * noise, axis=1))
    return np.exp(-p[2] * p[4]) * np.mean(np.maximum(np.mean(s, axis=1) - p[3], 0.0))


def by_hand():
    """Value and gradient of the three, with adjoints written by hand, in `prange`."""
    import numba

    @numba.njit(parallel=True)
    def of_options(p, strikes, times):
        value, by_spot, by_volatility, by_rate = 0.0, 0.0, 0.0, 0.0
        for i in numba.prange(len(strikes)):
            root = math.sqrt(times[i])
            d = (math.log(p[0] / strikes[i]) + (p[2] + 0.5 * p[1] ** 2) * times[i]) / (p[1] * root)
            e, discounted = d - p[1] * root, strikes[i] * math.exp(-p[2] * times[i])
            first, second = 0.5 * math.erfc(-d / math.sqrt(2.0)), 0.5 * math.erfc(-e / math.sqrt(2.0))
            value += p[0] * first - discounted * second
            by_spot += first
            by_volatility += p[0] * root * math.exp(-0.5 * d * d) / math.sqrt(2.0 * math.pi)
            by_rate += discounted * times[i] * second
        return value, np.array([by_spot, by_volatility, by_rate])

    @numba.njit(parallel=True)
    def of_rosenbrock(x):
        value, gradient = 0.0, np.empty(len(x))
        gradient[-1] = 0.0
        for i in numba.prange(len(x) - 1):
            a, b = x[i + 1] - x[i] * x[i], 1.0 - x[i]
            value += 100.0 * a * a + b * b
            gradient[i] = -400.0 * a * x[i] - 2.0 * b
        for i in numba.prange(len(x) - 1):
            gradient[i + 1] += 200.0 * (x[i + 1] - x[i] * x[i])
        return value, gradient

    @numba.njit(parallel=True)
    def of_asian(p, noise):
        count, steps = noise.shape
        step = p[4] / steps
        root, drift, discount = math.sqrt(step), (p[2] - 0.5 * p[1] ** 2) * step, math.exp(-p[2] * p[4])
        total, by_spot, by_drift, by_noise, paid = 0.0, 0.0, 0.0, 0.0, 0.0
        for i in numba.prange(count):
            s, mean, weighted, driven = 0.0, 0.0, 0.0, 0.0
            walked = 0.0
            for j in range(steps):
                s += drift + p[1] * root * noise[i, j]
                walked += noise[i, j]
                price = p[0] * math.exp(s)
                mean += price
                weighted += price * (j + 1)
                driven += price * walked
            if mean / steps > p[3]:
                total += mean / steps - p[3]
                paid += 1.0
                by_spot += mean / steps / p[0]
                by_drift += weighted / steps
                by_noise += driven / steps
        scale = discount / count
        value, by_drift, by_noise = scale * total, scale * by_drift, scale * by_noise
        by_step = by_drift * (p[2] - 0.5 * p[1] ** 2) + by_noise * p[1] * 0.5 / root
        return value, np.array([
            scale * by_spot, by_noise * root - by_drift * p[1] * step, by_drift * step - p[4] * value, -scale * paid, by_step / steps - p[2] * value,
        ])  # fmt: skip

    return of_options, of_rosenbrock, of_asian


@benchmark(name="threads")
def threads(quick: bool) -> Iterator[Row]:
    """Value and gradient of one large call on two threads and on one; beside prange on two and on one."""
    if tg.config.cores() < 2:
        raise Missing("this process may use one core")
    # Numba reads it when it is imported.
    os.environ["NUMBA_NUM_THREADS"] = "2"
    import numba

    cases = (
        ("Black-Scholes of 400 000 options", black_scholes, (np.array([100.0, 0.2, 0.03]), *options(400_000))),
        ("Rosenbrock, n = 1 000 000", rosenbrock, (np.linspace(-1.0, 1.0, 1_000_000),)),
        ("an Asian option, 20 000 paths of 50 steps", asian, (np.array([100.0, 0.2, 0.03, 100.0, 1.0]), NOISE)),
    )
    before = tg.config.threads
    try:
        for (name, f, args), hand in zip(cases, by_hand()):
            ours = tg.jit(tg.value_and_grad(f), kernel="always")
            ours(*args)
            check_agreement(name, {"tapegrad": ours(*args)[1], "by hand": hand(*args)[1]})

            def on(count, call, args=args):
                def run():
                    tg.config.threads = count
                    numba.set_num_threads(count)
                    call(*args)

                return run

            calls = {f"{who}, {count}": on(count, call) for who, call in (("tapegrad", ours), ("prange", hand)) for count in (1, 2)}
            times = {key: taken.minimum for key, taken in measure(calls, budget=1.0 if quick else 6.0).items()}
            gain, theirs = times["tapegrad, 1"] / times["tapegrad, 2"], times["prange, 1"] / times["prange, 2"]
            detail = {key: f"{value * 1e3:.2f} ms" for key, value in times.items()}
            beside = times["tapegrad, 2"] / times["prange, 2"]
            promise = "0.9 of what a second thread gains prange, or no slower than prange on two"
            yield Row(f"{name}: two threads, beside prange on two", promise, min(theirs / gain, beside), 1.0 / 0.9, detail=detail)
            yield Row(f"{name}: two threads beside one", "not slower, within 10 %", 1.0 / gain, 1.1)
            yield Row(f"{name}: what a second thread gains prange, over what it gains", "", theirs / gain)
    finally:
        tg.config.threads = before

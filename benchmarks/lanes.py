"""Many points at once: `tg.vmap` beside `jax.vmap`, `torch.func` and loops by hand, and threads beside one.

- Value and gradient of Rosenbrock's function of 10 numbers at 10^5 points, by one thread, beside JAX's vmap; with the Hessian, beside writing as
  many bytes.
- The same by two threads, beside two threads of the loop by hand (Numba's `prange`).
- Per-sample gradients of a small network for digits, 128 samples, by the threads that each takes.
- The five Greeks of an option by 10^5 paths of 50 steps: peak memory, beside values alone in plain NumPy; by 10^6 as a program of whole
  arrays under `tg.jit`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator

import numpy as np

import tapegrad as tg

from . import fresh
from .registry import Missing, Row, benchmark, check_agreement, each, jax_pinned, peer, ratio
from .timing import Time, measure


def rosenbrock(np, x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def with_threads(count: int, call: Callable[[], object]) -> Callable[[], object]:
    """A call by so many threads."""

    def run() -> object:
        before, tg.config.threads = tg.config.threads, count
        try:
            return call()
        finally:
            tg.config.threads = before

    return run


def by_points(quick: bool) -> Iterator[Row]:
    """Value and gradient, and the Hessian, at many points by one thread."""
    count = 2_000 if quick else 100_000
    points = np.random.default_rng(0).normal(size=(count, 10))
    f = lambda x: rosenbrock(np, x)
    ours = tg.jit(tg.vmap(tg.value_and_grad(f)))
    calls = {"tapegrad": with_threads(1, lambda: ours(points))}
    what = f"Rosenbrock n = 10 at {count} points, value and gradient"
    try:
        jax = jax_pinned()
        theirs, at = jax.jit(jax.vmap(jax.value_and_grad(lambda x: rosenbrock(jax.numpy, x)))), jax.numpy.asarray(points)
        calls["JAX"] = lambda: jax.block_until_ready(theirs(at))
        check_agreement(what, {"tapegrad": ours(points)[1], "JAX": theirs(at)[1]})
    except Missing:
        pass
    times = {name: time.per(count) for name, time in measure(calls).items()}
    yield Row(f"{what}: a point", "0.025 us", times["tapegrad"].minimum * 1e6, 0.025, "us", times=times)
    if "JAX" in times:
        yield ratio(f"{what}: beside JAX's vmap", "at most 0.4", 0.4, times, "JAX")
    second = tg.jit(tg.vmap(lambda x: (*tg.value_and_grad(f)(x), tg.hessian(f)(x))))
    source, target = np.ones((count, 111)), np.ones((count, 111))
    times = measure({"tapegrad": with_threads(1, lambda: second(points)), "np.copyto": lambda: np.copyto(target, source)})
    yield ratio(f"{what} and Hessian: beside writing as many bytes", "at most 1.5", 1.5, times, "np.copyto")


def beside_prange(quick: bool) -> Iterator[Row]:
    """Two threads beside one, and the same of a loop by hand."""
    # The command has set this to one; Numba reads it when it is imported.
    os.environ["NUMBA_NUM_THREADS"] = "2"
    import numba

    count = 2_000 if quick else 100_000
    points = np.random.default_rng(0).normal(size=(count, 10))
    ours = tg.jit(tg.vmap(tg.value_and_grad(lambda x: rosenbrock(np, x))))

    @numba.njit(parallel=True)
    def by_hand(points, values, gradients):
        for k in numba.prange(len(points)):
            x, g = points[k], gradients[k]
            value = 0.0
            g[9] = 0.0
            for i in range(9):
                a, b = x[i + 1] - x[i] ** 2, 1.0 - x[i]
                value += 100.0 * a * a + b * b
                g[i] = -400.0 * a * x[i] - 2.0 * b
            for i in range(9):
                g[i + 1] += 200.0 * (x[i + 1] - x[i] ** 2)
            values[k] = value

    def hand(threads: int) -> Callable[[], object]:
        def run() -> object:
            numba.set_num_threads(threads)
            values, gradients = np.empty(count), np.empty((count, 10))
            by_hand(points, values, gradients)
            return values, gradients

        return run

    if tg.config.cores() < 2:
        raise Missing("there is one core")
    check_agreement("by hand", {"tapegrad": ours(points)[1], "by hand": hand(2)()[1]})
    times: dict[str, Time] = measure(
        {
            "tapegrad, 1 thread": with_threads(1, lambda: ours(points)), "tapegrad, 2 threads": with_threads(2, lambda: ours(points)),
            "prange, 1 thread": hand(1), "prange, 2 threads": hand(2),
        }
    )  # fmt: skip
    one, two, one_by_hand, two_by_hand = (time.minimum for time in times.values())
    yield Row(
        f"Rosenbrock n = 10 at {count} points: speed-up of prange by two threads over ours", "at most 1 / 0.9",
        (one_by_hand / two_by_hand) / (one / two), 1.0 / 0.9, detail={"ours": one / two, "prange": one_by_hand / two_by_hand}, times=times,
    )  # fmt: skip


def digits(np, p, x, y):
    """The loss of one sample."""
    (w, b), (v, c) = p
    z = np.tanh(x @ w + b) @ v + c
    top = np.max(z)
    return np.log(np.sum(np.exp(z - top))) + top - np.sum(z * y)


def per_sample(quick: bool) -> Iterator[Row]:
    """Per-sample gradients of a network of 64, 32 and 10 units."""
    count, rng = (16 if quick else 128), np.random.default_rng(0)
    p = [(rng.normal(size=(64, 32)) / 8.0, np.zeros(32)), (rng.normal(size=(32, 10)) / 8.0, np.zeros(10))]
    x, y = rng.normal(size=(count, 64)), np.eye(10)[rng.integers(0, 10, count)]
    ours = tg.jit(tg.vmap(tg.grad(lambda p, x, y: digits(np, p, x, y)), in_axes=(None, 0, 0)))
    calls, first = {"tapegrad": lambda: ours(p, x, y)}, {"tapegrad": ours(p, x, y)[0][0]}
    try:
        jax = jax_pinned()
        by_jax = jax.jit(jax.vmap(jax.grad(lambda p, x, y: digits(jax.numpy, p, x, y)), in_axes=(None, 0, 0)))
        there = jax.tree_util.tree_map(jax.numpy.asarray, (p, x, y))
        calls["JAX"], first["JAX"] = (lambda: jax.block_until_ready(by_jax(*there))), by_jax(*there)[0][0]
    except Missing:
        pass
    try:
        torch = peer("torch")
        torch.set_num_threads(1)

        def loss(p, x, y):
            (w, b), (v, c) = p
            z = torch.tanh(x @ w + b) @ v + c
            return torch.logsumexp(z, 0) - (z * y).sum()

        by_torch = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
        at = [tuple(map(torch.tensor, layer)) for layer in p], torch.tensor(x), torch.tensor(y)
        calls["PyTorch"], first["PyTorch"] = (lambda: by_torch(*at)), by_torch(*at)[0][0].numpy()
    except Missing:
        pass
    what = f"per-sample gradients of a network of 64, 32 and 10 units, {count} samples"
    check_agreement(what, first, rtol=1e-7)
    times = measure(calls)
    others = [time.minimum for name, time in times.items() if name != "tapegrad"]
    measured = times["tapegrad"].minimum / min(others) if others else None
    yield Row(f"{what}: beside the better of JAX and torch.func", "at most 0.7", measured, 0.7, times=times, skip="" if others else "no peer")


#: Peak bytes of a second call; of the first one a kernel's memory is left.
PEAK = """
import ctypes, gc, json
import numpy as np, tapegrad as tg

def status(key):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(key))

def payoff(np, p, z):
    s, k, r, v, t = p
    steps = (r - 0.5 * v * v) * (t / {steps}) + v * np.sqrt(t / {steps}) * z
    path = s * np.exp(np.cumsum(steps, axis=-1))
    return np.exp(-r * t) * np.maximum(np.mean(path, axis=-1) - k, 0.0)

p = np.array([100.0, 95.0, 0.03, 0.2, 1.0])
before = status("VmRSS")
z = np.random.default_rng(0).normal(size=({paths}, {steps}))
open("/proc/self/clear_refs", "w").write("5")
{call}
print(json.dumps({{"bytes": status("VmHWM") - before, "result": result}}))
"""
PLAIN = "result = float(np.mean(payoff(np, p, z)))"
GREEKS = """
both = tg.jit(tg.value_and_grad(lambda p, z: np.mean(tg.vmap(lambda z: payoff(np, p, z))(z))))
for _ in range(3):
    result = float(both(p, z)[0])
"""


def monte_carlo(quick: bool) -> Iterator[Row]:
    paths = 10_000 if quick else 100_000
    with tempfile.TemporaryDirectory() as cache:
        programs = {name: PEAK.format(paths=paths, steps=50, call=call) for name, call in (("plain", PLAIN), ("warm", GREEKS), ("ours", GREEKS))}
        found = {name: fresh.run(program, cache) for name, program in programs.items()}
    check_agreement("price", {name: [run["result"]] for name, run in found.items()})
    yield Row(
        f"five Greeks by {paths} paths of 50 steps: peak memory over that of the value in plain NumPy", "at most 1.5",
        found["ours"]["bytes"] / found["plain"]["bytes"], 1.5, detail={name: run["bytes"] / 1e6 for name, run in found.items()},
    )  # fmt: skip


#: As it is written for NumPy, of whole arrays; the second call, and the most bytes of the process.
WHOLE = """
import json, resource, time
import numpy as np, tapegrad as tg

noise = np.random.default_rng(0).standard_normal(({steps}, {paths}))

def price(p):
    start, volatility, rate, strike = p
    s, total = start * np.ones({paths}), 0.0
    for row in noise:
        s = s * np.exp((rate - 0.5 * volatility**2) / {steps} + volatility / {steps} ** 0.5 * row)
        total = total + s
    return np.exp(-rate) * np.mean(np.maximum(total / {steps} - strike, 0.0))

both, p = tg.jit(tg.value_and_grad(price)), np.array([100.0, 0.2, 0.03, 100.0])
both(p)
start = time.perf_counter()
both(p + 0.01)
second = time.perf_counter() - start
print(json.dumps({{"second": second, "bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}}))
"""


def of_whole_arrays(quick: bool) -> Iterator[Row]:
    paths = 100_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory() as cache:
        runs = [fresh.run(WHOLE.format(paths=paths, steps=50), cache) for _ in range(2)]
    what = f"{paths} paths of 50 steps as whole arrays, value and gradient under jit"
    yield Row(f"{what}: the second call", "at most 0.3 s", min(run["second"] for run in runs), 0.3, "s")
    yield Row(f"{what}: the most memory, with 50 numbers a path", "at most 1.6 GB", min(run["bytes"] for run in runs) / 1e9, 1.6, "GB")


@benchmark(name="lanes")
def run(quick: bool) -> Iterator[Row]:
    """`tg.vmap` beside JAX, PyTorch and loops by hand."""
    yield from each(
        ("threads", lambda: beside_prange(quick)), ("points", lambda: by_points(quick)), ("per sample", lambda: per_sample(quick)),
        ("Monte Carlo", lambda: monte_carlo(quick)), ("whole arrays", lambda: of_whole_arrays(quick)),
    )  # fmt: skip

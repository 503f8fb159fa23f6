"""Gradients that are not under `jit`: what a call costs when the function runs every time.

Loops over numbers beside the same loops on Python's floats, where an operation costs what its record does.  Twenty operations on
numbers, where everything around them shows, in a loop of their own (where calls of others come
between, the processor has to learn the interpreter's branches again: some 5 us, printed beside); Runge-Kutta steps,
where only recording and sweeping do, beside `backward()` on tensors; the README's misfit, half of whose work is
NumPy's functions on numbers, beside the plain function and finite differences; element-wise operations on short arrays; a saddle by
gradients in a gradient; second derivatives beside differences of gradients; rows that are written into
a long array beside those of a short one; and the memory of a Monte-Carlo gradient.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

import tapegrad as tg
from tapegrad.demo import read_pelts

from .memory import MB, Sampler, rss
from .per_op import VECTOR, function
from .programs import RATES, lotka_volterra
from .registry import Missing, Row, benchmark, check_agreement, each, peer, torch_pinned
from .timing import measure, of

POINT, STEPS, PATHS, DATES = np.array([0.3, 0.4]), 1_000, 100_000, 50
MARKET = np.array([100.0, 0.25, 0.04])  # spot price, volatility, interest rate


def twenty(sin: Callable = np.sin) -> Callable:
    """Twenty operations on two numbers."""

    def f(x):
        a, b = x[0], x[1]
        for _ in range(5):
            a, b = a * b + 0.5, sin(a) - b
        return a

    return f


def by_torch(make: Callable[[Callable], Callable], x: np.ndarray) -> Callable:
    torch = torch_pinned()
    f = make(torch.sin)

    def call():
        t = torch.tensor(x, requires_grad=True)
        f(t).backward()
        return t.grad.numpy()

    return call


def by_autograd(make: Callable[[Callable], Callable], x: np.ndarray) -> Callable:
    gradient = peer("autograd").grad(make(peer("autograd.numpy").sin))
    return lambda: gradient(x)


def ours(f: Callable, x: np.ndarray) -> dict[str, Callable]:
    """A gradient by a transformation, and by `backward()` on tensors."""
    slope = tg.value_and_grad(f)

    def on_tensors():
        t = tg.tensor(x, requires_grad=True)
        f(t).backward()
        return t.grad.numpy()

    return {"tapegrad": lambda: slope(x)[1], "tapegrad, backward() on tensors": on_tensors}


def timed(make: Callable[[Callable], Callable], x: np.ndarray, budget: float) -> tuple[dict, dict]:
    """Times of a gradient by everybody, and who is missing."""
    calls, missing = ours(make(np.sin), x), {}
    for name, prepare in (("PyTorch", by_torch), ("HIPS autograd", by_autograd)):
        try:
            calls[name] = prepare(make, x)
        except Missing as reason:
            missing[name] = str(reason)
    check_agreement("the gradient", {name: call() for name, call in calls.items()})
    return measure(calls, budget=budget, at_least=3), missing


def small(quick: bool) -> Iterator[Row]:
    budget = 1.0 if quick else 5.0
    times, missing = timed(twenty, POINT, budget)
    alone = measure({"tapegrad": ours(twenty(), POINT)["tapegrad"]}, budget=budget)["tapegrad"]
    yield Row(
        "20 scalar operations: value and gradient", "at most 20 us", alone.minimum * 1e6, 20.0, "us",
        {"in turns with the others": str(times["tapegrad"]), **missing}, times={**times, "tapegrad": alone},
    )  # fmt: skip


def of_nothing(quick: bool) -> Iterator[Row]:
    """What a call costs before the function does anything."""
    slope = tg.value_and_grad(lambda x: x)
    times = measure({"tapegrad": lambda: slope(0.7)}, budget=1.0 if quick else 3.0)
    yield Row("a plain call of a function that does nothing", "at most 6 us", times["tapegrad"].minimum * 1e6, 6.0, "us", times=times)


def runge_kutta(quick: bool) -> Iterator[Row]:
    times, missing = timed(lambda sin: lotka_volterra(STEPS, 0.01), np.array(RATES), 2.0 if quick else 20.0)
    beside = times["tapegrad"].minimum / times["tapegrad, backward() on tensors"].minimum
    yield Row(f"RK4 of {STEPS} steps beside backward() on tensors", "at most 1.1 times as long", beside, 1.1, detail=missing, times=times)


def chain(count: int) -> Callable:
    """So many multiply-adds of a number."""
    factors = [1.0 + 1e-6 * k for k in range(count)]

    def f(y):
        for a in factors:
            y = y * a + 1e-3
        return y

    return f


def over_floats(quick: bool) -> Iterator[Row]:
    """Value and gradient of loops over numbers beside the loops."""
    steps = lotka_volterra(100, 0.01)
    loops = {
        "a chain of 10,000 operations": (chain(5_000), 0.7, 0.7),
        "RK4 of 100 steps": (lambda x: steps([x[k] for k in range(len(RATES))]), np.array(RATES), list(RATES)),
    }  # fmt: skip
    for name, (f, x, floats) in loops.items():
        slope = tg.value_and_grad(f)
        times = measure({"tapegrad": lambda g=slope, x=x: g(x), "the function on floats": lambda f=f, x=floats: f(x)}, budget=1.0 if quick else 5.0)
        ratio = times["tapegrad"].minimum / times["the function on floats"].minimum
        yield Row(f"{name}: value and gradient over the function on floats", "at most 5 times", ratio, 5.0, times=times)


def misfit(years, hares, lynxes) -> Callable:
    """The README's."""

    def f(theta):
        alpha, beta, gamma, delta, u, v = [np.exp(theta[i]) for i in range(6)]
        total = 0.0
        for k in range(len(years)):
            total = total + np.log(u / hares[k]) ** 2 + np.log(v / lynxes[k]) ** 2
            for _ in range(50):
                u, v = u * np.exp((alpha - beta * v) / 50), v * np.exp((delta * u - gamma) / 50)
        return total

    return f


def functions_of_numpy(quick: bool) -> Iterator[Row]:
    f, x = misfit(*read_pelts()), np.log([0.6, 0.03, 0.6, 0.02, 30.0, 4.0])
    slope = tg.value_and_grad(f)

    def differences():
        value = f(x)
        return [(f(x + 1e-7 * unit) - value) / 1e-7 for unit in np.eye(6)]

    calls = {"tapegrad": lambda: slope(x)[1], "finite differences": differences}
    check_agreement("the gradient of the misfit", {name: call() for name, call in calls.items()}, rtol=1e-4)
    times = measure({**calls, "the function": lambda: f(x)}, budget=1.0 if quick else 8.0)
    ratio = times["tapegrad"].minimum / times["the function"].minimum
    yield Row("the README's misfit: value and gradient over the function", "at most 3.5 times", ratio, 3.5, times=times)
    yield from one_operation(quick)


def one_operation(quick: bool, count: int = 1_000) -> Iterator[Row]:
    """Recording np.exp of a number, and a product, both of numbers on a tape."""

    def recorded(operation: Callable) -> float:
        leaf = tg.tensor(0.7, requires_grad=True)
        x = leaf * 1.0
        start = time.perf_counter()
        for _ in range(count):
            operation(x)
        return (time.perf_counter() - start) / count

    taken = {"np.exp": np.exp, "x * x": lambda x: x * x, "a call of a function": lambda x: x, "np.exp of a float": lambda x: np.exp(0.7)}
    turns: dict[str, list[float]] = {name: [] for name in taken}
    for _ in range(50 if quick else 400):
        for name, operation in taken.items():
            turns[name].append(recorded(operation))
    times = {name: of(values) for name, values in turns.items()}
    operator = times["x * x"].minimum - times["a call of a function"].minimum
    yield Row(
        "np.exp of a number on a tape, above an operator", "at most 0.3 us", (times["np.exp"].minimum - operator) * 1e6, 0.3, "us",
        {name: str(value) for name, value in times.items()},
    )  # fmt: skip


def line(a, b):
    """The misfit of a line, in a loop over data: each product is of a parameter and a number."""
    total = 0.0
    for k in range(1_000):
        miss = a * (0.001 * k) + b - 0.5
        total = total + miss * miss
    return total


def leaves(quick: bool) -> Iterator[Row]:
    """Parameters in PyTorch's manner: leaves, which each iteration meets."""

    def backward(library) -> tuple[float, ...]:
        a, b = (library.tensor(value, requires_grad=True) for value in (0.3, 0.2))
        line(a, b).backward()
        return a.grad.item(), b.grad.item()

    calls, missing = {"tapegrad": lambda: backward(tg)}, {}
    try:
        torch = torch_pinned()
        calls["PyTorch"] = lambda: backward(torch)
    except Missing as reason:
        missing["PyTorch"] = str(reason)
    slope = tg.grad(line, (0, 1))
    check_agreement("the slope of a misfit", {"tg.grad": slope(0.3, 0.2), **{name: call() for name, call in calls.items()}}, rtol=1e-4)
    times = measure({**calls, "the function on floats": lambda: line(0.3, 0.2)}, budget=1.0 if quick else 5.0)
    ratio = times["tapegrad"].minimum / times["the function on floats"].minimum
    yield Row("a loop over data with leaves: backward() over the function on floats", "at most 10 times", ratio, 10.0, "x", missing, times=times)


def forward(quick: bool) -> Iterator[Row]:
    """Both modes on the same function of short arrays."""
    f, v = function(), np.ones_like(VECTOR)
    slope = tg.grad(f)
    calls = {"forward": lambda: tg.jvp(f, (VECTOR,), (v,))[1], "reverse": lambda: slope(VECTOR) @ v}
    check_agreement("a directional derivative", {name: call() for name, call in calls.items()})
    times = measure(calls, budget=1.0 if quick else 5.0)
    ratio = times["forward"].minimum / times["reverse"].minimum
    yield Row("array operations, vectors of 14: a directional derivative (jvp) over a gradient", "at most 8 times", ratio, 8.0, times=times)


def arrays(quick: bool) -> Iterator[Row]:
    """Short arrays, where what is around NumPy's functions shows."""
    f = function()
    slope, count = tg.grad(f), len(tg.jit(f, kernel="never").tape(VECTOR))
    times = measure({"tapegrad": lambda: slope(VECTOR), "the function": lambda: f(VECTOR)}, budget=1.0 if quick else 5.0)
    each = times["tapegrad"].minimum / count * 1e6
    yield Row("an array operation, vectors of 14: recorded and swept", "at most 3 us", each, 3.0, "us", {"instructions": count}, times=times)


def height(x, y):
    """Of a saddle, over two numbers."""
    return 0.5 * x * x - 0.5 * y * y + 2.0 * x * y + 0.1 * x**4 - 0.1 * y**4


def highest(slope: Callable) -> Callable:
    """The height over x at the highest y, to which 100 steps up the `slope` lead."""

    def f(x):
        y = 0.0
        for _ in range(100):
            y = y + 0.05 * slope(lambda y: height(x, y))(y)
        return height(x, y)

    return f


def differences_of(f: Callable) -> Callable:
    return lambda x: (f(x + 1e-6) - f(x - 1e-6)) / 2e-6


def saddle(quick: bool) -> Iterator[Row]:
    """A gradient in a gradient, as one writes it first."""
    ours, theirs = tg.grad(highest(tg.grad)), differences_of(highest(differences_of))
    calls = {"tapegrad": lambda: ours(0.4), "finite differences": lambda: theirs(0.4)}
    check_agreement("the slope of the highest points", {name: call() for name, call in calls.items()}, rtol=1e-3)
    times = measure(calls, budget=1.0 if quick else 5.0)
    ratio = times["tapegrad"].minimum / times["finite differences"].minimum
    yield Row("a saddle by gradients in a gradient, over finite differences", "at most 20 times", ratio, 20.0, times=times)


def trajectory(rows: int) -> Callable:
    """A state at `rows` times, written into one array."""

    def f(p):
        x = np.zeros((rows, 3)) * p[0]
        x[0] = p
        for k in range(rows - 1):
            x[k + 1] = x[k] + 0.001 * np.sin(x[k] * p[1]) * x[k]
        return np.sum(x[-1])

    return f


def written(quick: bool) -> Iterator[Row]:
    """What a row costs that is written into an array: as much in a long one as in a short one."""
    short, long = (50, 200) if quick else (500, 4_000)
    p, f, step = np.array([0.5, 0.7, 0.9]), trajectory(short), 1e-6 * np.eye(3)
    differences = np.array([f(p + e) - f(p - e) for e in step]) / 2e-6
    for name, make in (("plain", tg.grad), ("under jit", lambda f: tg.jit(tg.grad(f), kernel="always"))):
        calls = {str(rows): lambda g=make(trajectory(rows)): g(p) for rows in (short, long)}
        check_agreement(f"rows, {name}", {"tapegrad": calls[str(short)](), "differences": differences}, rtol=1e-6)
        times = measure(calls, budget=1.0 if quick else 5.0)
        ratio = times[str(long)].minimum / times[str(short)].minimum * short / long
        yield Row(f"an array written row by row, gradient {name}: a row of {long} over one of {short}", "at most 1.5 times", ratio, 1.5, times=times)


def by_two_passes(f: Callable, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """A product with the Hessian in PyTorch's manner."""
    t = tg.tensor(x, requires_grad=True)
    (slope,) = tg.autograd.grad(f(t), t, create_graph=True)
    return tg.autograd.grad(slope, t, v)[0].numpy()


def second(quick: bool) -> Iterator[Row]:
    """Second derivatives of a loop over numbers, and of array operations, and gradients at several points, beside plain gradients."""
    steps = lotka_volterra(100, 0.01)
    f, x, v = lambda x: steps([x[k] for k in range(len(RATES))]), np.array(RATES), np.ones(len(RATES))
    slope, product, points = tg.grad(f), tg.hvp(f), np.stack([x, 1.01 * x, 0.99 * x])
    whole, w = function(), 1e-5 * np.ones_like(VECTOR)
    slope_of_arrays, product_of_arrays = tg.grad(whole), tg.hvp(whole)
    pairs = {
        "a product with the Hessian of a loop (hvp), over two gradients": (lambda: product(x, v), lambda: (slope(x + 1e-5 * v) - slope(x - 1e-5 * v)) / 2e-5),
        "the same by create_graph=True, over two gradients": (lambda: by_two_passes(f, x, v), lambda: (slope(x + 1e-5 * v) - slope(x - 1e-5 * v)) / 2e-5),
        "array operations, vectors of 14: hvp, over two gradients": (
            lambda: product_of_arrays(VECTOR, w), lambda: (slope_of_arrays(VECTOR + w) - slope_of_arrays(VECTOR - w)) / 2,
        ),
        "vmap of the gradient of a loop, over a call at each of three points": (lambda: tg.vmap(slope)(points), lambda: np.stack(list(map(slope, points)))),
    }  # fmt: skip
    for name, (call, gradients) in pairs.items():
        calls = {"tapegrad": call, "gradients": gradients}
        check_agreement(name, {which: one() for which, one in calls.items()}, rtol=1e-3)
        times = measure(calls, budget=1.0 if quick else 5.0)
        ratio = times["tapegrad"].minimum / times["gradients"].minimum
        yield Row(name, "at most 10 times", ratio, 10.0, times=times)


def asian(normals: np.ndarray) -> Callable:
    """The mean payoff of an option on the mean price, a loop over dates."""
    dates = len(normals)

    def price(market):
        spot, volatility, rate = market[0], market[1], market[2]
        drift, scale = (rate - volatility**2 / 2) / dates, volatility * np.sqrt(1 / dates)
        price, total = spot, 0.0
        for z in normals:
            price = price * np.exp(drift + scale * z)
            total = total + price
        return np.exp(-rate) * np.mean(np.maximum(total / dates - 100.0, 0.0))

    return price


def all_values(paths: int, dates: int) -> int:
    """Bytes of all arrays that one evaluation of `asian` computes."""
    return 8 * paths * (5 * dates + 3)


def peaks(paths: int, dates: int) -> dict[str, int]:
    """The highest resident size in calls 2 and 20, and the size after all, above the start."""
    slope = tg.value_and_grad(asian(np.random.default_rng(0).standard_normal((dates, paths))))
    tg.value_and_grad(asian(np.ones((dates, 10))))(MARKET)  # load what is compiled
    start, highest = rss(), []
    for _ in range(20):
        with Sampler() as sampler:
            slope(MARKET)
        highest.append(max(sampler.sizes) - start)
    return {"2": highest[1], "20": highest[19], "after": rss() - start}


def monte_carlo(quick: bool) -> Iterator[Row]:
    paths = PATHS // 4 if quick else PATHS
    rss()  # raises where it cannot be read
    # In a process of its own: where others have left holes in memory, nothing can be said of one's own.
    command = [sys.executable, "-m", f"{__package__}.plain_calls", str(paths), str(DATES)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise RuntimeError(ended.stderr.strip().splitlines()[-1])
    sizes, values = json.loads(ended.stdout), all_values(paths, DATES)
    for call in ("2", "20"):
        yield Row(
            f"{paths:,} x {DATES} Monte-Carlo: peak above the start in call {call}, over the bytes of all values",
            "at most 1.2 times, the same in both calls", sizes[call] / values, 1.2, "",
            {"peak": f"{sizes[call] / MB:.0f} MB", "all values": f"{values / MB:.0f} MB", "after 20 calls": f"{sizes['after'] / MB:.0f} MB"},
        )  # fmt: skip


@benchmark(name="plain_calls")
def plain_calls(quick: bool) -> Iterator[Row]:
    """Derivatives of functions that run at every call: of nothing, loops over numbers and data, arrays in both modes, a saddle, second ones, Monte-Carlo."""
    yield from each(
        ("loops over numbers", lambda: over_floats(quick)),
        ("a call of nothing", lambda: of_nothing(quick)),
        ("20 scalar operations", lambda: small(quick)),
        ("RK4", lambda: runge_kutta(quick)),
        ("the README's misfit", lambda: functions_of_numpy(quick)),
        ("leaves", lambda: leaves(quick)),
        ("short arrays", lambda: arrays(quick)),
        ("forward mode", lambda: forward(quick)),
        ("a saddle", lambda: saddle(quick)),
        ("second derivatives", lambda: second(quick)),
        ("rows of an array", lambda: written(quick)),
        ("Monte-Carlo", lambda: monte_carlo(quick)),
    )


if __name__ == "__main__":
    print(json.dumps(peaks(int(sys.argv[1]), int(sys.argv[2]))))

"""Second derivatives: products with a Hessian beside one gradient, dense Hessians beside JAX's and beside filling memory, a long tape's.

Products: Rosenbrock's function of 10^5 variables on whole arrays, and the cross entropy of
a network 64-64-10 on a batch of 64; both by kernels, as is the gradient they are
measured against.  Dense Hessian: a logistic regression of 1 000 weights on 500 rows,
whose Hessian has no zeros; Rosenbrock's function of 1 000 variables, whose Hessian is three diagonals.  Warm calls; JAX's are
jitted.  Of the long tape, a function of 48 000 instructions, it is the first call, and the second.
Taylor coefficients: nine orders of a function of one number, at once and by nesting, beside JAX's `jet`.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import numpy as np

import tapegrad as tg

from .programs import rosenbrock, rosenbrock_loop
from .registry import Missing, Row, benchmark, check_agreement, jax_pinned, ratio
from .timing import measure, seconds

#: Calls before times are taken: some are recorded again and compared.
WARM = 40


def network(rng):
    """Cross entropy of a network with one hidden layer, of its weights; and weights."""
    data, labels = rng.standard_normal((64, 64)), rng.integers(0, 10, 64)
    rows = np.arange(64)

    def loss(p):
        hidden = np.tanh(data @ p["w"] + p["b"])
        out = hidden @ p["v"] + p["c"]
        shifted = out - np.max(out, axis=1, keepdims=True)
        return np.mean(np.log(np.sum(np.exp(shifted), axis=1)) - shifted[rows, labels])

    shapes = {"w": (64, 64), "b": (64,), "v": (64, 10), "c": (10,)}
    return loss, {name: 0.1 * rng.standard_normal(shape) for name, shape in shapes.items()}


def along(product, point, direction, gradient):
    """A direction checked against a difference of gradients: largest error, relative."""
    step = 1e-6
    moved = [gradient(_add(point, direction, s * step)) for s in (1.0, -1.0)]
    found, expected = _flat(product(point, direction)), (_flat(moved[0]) - _flat(moved[1])) / (2 * step)
    return float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))


def _add(point, direction, factor):
    if isinstance(point, dict):
        return {name: point[name] + factor * direction[name] for name in point}
    return point + factor * direction


def _flat(thing):
    return np.concatenate([np.ravel(v) for v in thing.values()]) if isinstance(thing, dict) else np.ravel(thing)


def logistic(np, data):
    """The loss of a logistic regression, with the functions of `np`."""
    return lambda w: np.sum(np.logaddexp(0.0, data @ w)) + 0.5 * np.sum(w * w)


@benchmark(name="higher_order")
def higher_order(quick: bool) -> Iterator[Row]:
    """Products with Hessians beside one gradient; a dense Hessian beside JAX's."""
    rng = np.random.default_rng(0)
    count = 10_000 if quick else 100_000
    loss, weights = network(rng)
    cases = {
        f"Rosenbrock, n = {count}": (rosenbrock, rng.uniform(0.5, 1.5, count), rng.standard_normal(count)),
        "network 64-64-10": (loss, weights, {name: rng.standard_normal(w.shape) for name, w in weights.items()}),
    }
    for what, (function, point, direction) in cases.items():
        gradient, product = (tg.jit(make(function), kernel="always") for make in (tg.grad, tg.hvp))
        error = along(product, point, direction, gradient)
        if not error < 1e-4:
            raise AssertionError(f"{what}: the product differs from differences of gradients by {error:.3g}")
        for _ in range(WARM):
            gradient(point)
            product(point, direction)
        times = measure(
            {"gradient": lambda: gradient(point), "product": lambda: product(point, direction)},
            budget=1.0 if quick else 6.0, at_least=5,
        )  # fmt: skip
        for call in (gradient, product):
            if not call.stats().kernel_calls:
                raise AssertionError(f"{what}: not by a kernel\n{call.stats()}")
        promised = not quick or "network" in what
        yield Row(
            f"Hessian-vector product, {what}, beside a gradient by a kernel", "at most 3 gradients" if promised else "",
            times["product"].minimum / times["gradient"].minimum, 3.0 if promised else None,
            detail={name: seconds(time.minimum) for name, time in times.items()} | {"instructions": product.stats().instructions},
        )  # fmt: skip
    yield from dense(quick, rng)
    yield from banded(quick, rng)
    yield from nested(quick, rng)
    yield from long_tape(quick)
    yield from jets(quick)


def nested(quick, rng):
    """Second calls of nested derivatives beside the same composed by hand, under jit."""
    n, turns = 40, 10 if quick else 50
    data = rng.standard_normal((60, n)) / np.sqrt(n)
    loss = logistic(np, data)

    def descent(slope):
        def outer(w):
            y = np.zeros(n)
            for _ in range(turns):
                y = y - 0.1 * slope(w, y)
            return np.sum((y - 1.0) ** 2)

        return outer

    inner = descent(lambda w, y: tg.grad(lambda y: loss(y) + w * np.sum(y * y))(y))
    slope = lambda y: data.T @ (1.0 / (1.0 + np.exp(-(data @ y)))) + y  # noqa: E731
    composed = descent(lambda w, y: slope(y) + 2.0 * w * y)
    x = rng.standard_normal(n)
    cases = {
        "jacfwd(grad(f))": (tg.jacfwd(tg.grad(loss)), tg.jacfwd(slope), x),
        f"grad of {turns} steps of gradient descent": (tg.grad(inner), tg.grad(composed), 0.1),
        f"derivative of {turns} steps of gradient descent": (tg.derivative(inner), tg.grad(composed), 0.1),
    }
    for what, (ours, other, point) in cases.items():
        first, second = {"nested": [], "by hand": []}, {"nested": [], "by hand": []}
        for _ in range(2 if quick else 5):
            calls = {"nested": tg.jit(ours), "by hand": tg.jit(other)}
            for times in (first, second):
                for name, call in calls.items():
                    start = perf_counter()
                    call(point)
                    times[name].append(perf_counter() - start)
            check_agreement(what, {name: np.asarray(call(point)) for name, call in calls.items()})
        best = {name: min(times) for name, times in second.items()}
        yield Row(
            f"second call under jit, {what}", "" if quick else "at most 3 times the composition by hand",
            best["nested"] / best["by hand"], None if quick else 3.0,
            detail={name: seconds(t) for name, t in best.items()} | {f"first call, {name}": seconds(min(t)) for name, t in first.items()},
        )  # fmt: skip


def dense(quick, rng):
    """A dense Hessian beside JAX's."""
    n, rows = (200, 100) if quick else (1000, 500)
    data = rng.standard_normal((rows, n)) / np.sqrt(n)
    w = rng.standard_normal(n)
    hessian = tg.jit(tg.hessian(logistic(np, data)), kernel="always")
    title = f"dense Hessian, logistic regression of {n} weights, beside jax.hessian"
    promise, limit = ("", None) if quick else ("below it", 1.0)
    try:
        jax = jax_pinned()
    except Missing as reason:
        yield Row(title, promise, limit=limit, skip=str(reason))
        return
    theirs = jax.jit(jax.hessian(logistic(jax.numpy, data)))
    calls = {"tapegrad": lambda: hessian(w), "JAX": lambda: np.asarray(theirs(w))}
    check_agreement("dense Hessian", {name: call() for name, call in calls.items()})
    for _ in range(9):
        hessian(w)
    times = measure(calls, budget=2.0 if quick else 20.0, at_least=3)
    yield ratio(title, promise, limit, times, "JAX")


def banded(quick, rng):
    """Dense Hessians with three diagonals, from arrays and from a loop, beside an array of ones of their size."""
    n = 100 if quick else 1000
    x = rng.uniform(0.5, 1.5, n)
    hessians = {what: tg.jit(tg.hessian(f), kernel="always") for what, f in (("arrays", rosenbrock), ("a loop", rosenbrock_loop))}
    calls = {f"tapegrad, {what}": lambda hessian=hessian: hessian(x) for what, hessian in hessians.items()}
    out, written = np.empty((n, n)), "arrays, with out="
    calls[f"tapegrad, {written}"] = lambda: hessians["arrays"](x, out=out)
    check_agreement("Hessian of Rosenbrock", {name: call() for name, call in calls.items()})
    times = measure({**calls, "np.ones": lambda: np.ones((n, n))}, budget=1.0 if quick else 4.0, at_least=20)
    for what, limit in {**dict.fromkeys(hessians, 4.0), written: 3.0}.items():
        yield Row(
            f"dense Hessian of Rosenbrock from {what}, n = {n}, beside np.ones", "" if quick else f"at most {limit:g} times",
            times[f"tapegrad, {what}"].minimum / times["np.ones"].minimum, None if quick else limit,
            detail={name: seconds(time.minimum) for name, time in times.items()},
        )  # fmt: skip


#: What a turn of `irregular` may be.
STEPS = (
    lambda a, b: a + b * 0.5, lambda a, b: np.sin(a), lambda a, b: a - b, lambda a, b: 0.3 * a * b, lambda a, b: np.cos(b),
    lambda a, b: a / (2.0 + b * b),
)  # fmt: skip


def irregular(turns):
    """A function of operations on numbers of which no two stretches are alike."""
    choices = np.random.default_rng(0).integers(0, [[6], [20], [20]], (3, turns)).tolist()

    def f(x):
        values = [x[k] for k in range(20)]
        for kind, one, two in zip(*choices):
            a, b = values[one], values[two]
            values[one] = STEPS[kind](a, b)
        return values[0] + values[7]

    return f


def long_tape(quick):
    """The first and the second Hessian of a long tape, by sweeps."""
    # A turn is one to three instructions.
    turns, x = 3_000 if quick else 29_000, np.linspace(0.1, 0.9, 20)
    # Compiled sweeps are on disk, or made by this.
    tg.jit(tg.hessian(irregular(100)), kernel="never")(x)
    hessian = tg.jit(tg.hessian(irregular(turns)), kernel="never")
    times = []
    for _ in range(2):
        start = perf_counter()
        hessian(x)
        times.append(perf_counter() - start)
    for which, time in zip(("first", "second"), times):
        promise, limit = ("", None) if quick else ("within 1 s", 1.0)
        yield Row(f"Hessian of {5 if quick else 48} 000 instructions by sweeps, {which} call", promise, time, limit, unit="s")


def curved(np):
    """A function of one number with functions of `np`; JAX's `jet` knows them all."""
    return lambda x: np.sin(x) * np.exp(x) / (1.0 + np.tanh(x) * x)


def jets(quick):
    """All derivatives of a function of one number to an order: recorded, plain and first calls, by nesting, and JAX's."""
    order = 4 if quick else 9
    units, f = [1.0] + [0.0] * (order - 1), curved(np)

    def by_nesting(x):
        found, derived = [], f
        for _ in range(order):
            derived = tg.derivative(derived)
            found.append(derived(x))
        return found

    jitted = tg.jit(lambda x: tg.jet(f, (x,), (units,)), kernel="always")
    start = perf_counter()
    tg.jet(f, (0.3,), (units,))
    middle = perf_counter()
    jitted(0.3)
    first = {"plain": middle - start, "jitted": perf_counter() - middle}
    calls = {"tapegrad": lambda: jitted(0.3)[1], "plain": lambda: tg.jet(f, (0.3,), (units,))[1], "nested": lambda: by_nesting(0.3)}
    title, missing = f"{order} Taylor coefficients of a function of one number", None
    try:
        jax = jax_pinned()
        from jax.experimental.jet import jet
    except (Missing, ImportError) as reason:
        missing = str(reason)
    else:
        theirs = jax.jit(lambda x: jet(curved(jax.numpy), (x,), (units,)))
        calls["JAX"] = lambda: jax.block_until_ready(theirs(0.3)[1])
    check_agreement("Taylor coefficients", {name: np.array(call()) for name, call in calls.items()})
    for _ in range(9):
        jitted(0.3)
    times = measure(calls, budget=1.0 if quick else 8.0, at_least=3)
    detail = {name: seconds(time.minimum) for name, time in times.items()}
    if not jitted.stats().kernel_calls:
        raise AssertionError(f"not by a kernel\n{jitted.stats()}")
    if missing is None:
        yield ratio(f"{title}, jitted, beside jax.experimental.jet", "below it", 1.0, {k: times[k] for k in ("tapegrad", "JAX")}, "JAX")
    else:
        yield Row(f"{title}, jitted, beside jax.experimental.jet", "below it", limit=1.0, skip=missing)
    promise, limit = ("", None) if quick else ("at most a tenth", 0.1)
    yield Row(f"{title}, in a plain call, beside nesting", promise, times["plain"].minimum / times["nested"].minimum, limit, detail=detail)
    for which, time in first.items():
        yield Row(f"{title}, {which}, first call", measured=time, unit="s")

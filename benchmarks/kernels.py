"""Value and gradient by kernels, beside gradients written by hand and the other libraries."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numba import njit

import tapegrad as tg

from . import kernels_by_hand as hand
from . import programs
from .programs import rosenbrock, rosenbrock_loop
from .registry import Missing, Row, benchmark, check_agreement, each, jax_pinned, peer, ratio, torch_pinned
from .timing import measure

# -- the functions, as a user writes them ------------------------------------------------
STEPS, H = 1000, 0.02
lotka_volterra = programs.lotka_volterra(STEPS, H)


def logistic(w, X, y):
    """Mean negative log-likelihood; labels are 1 and -1."""
    return np.mean(np.logaddexp(0.0, -y * (X @ w)))


def network(W1, b1, W2, b2, W3, b3, X, labels):
    """Cross-entropy of a network with two hidden layers."""
    h = np.tanh(X @ W1 + b1)
    h = np.tanh(h @ W2 + b2)
    z = h @ W3 + b3
    top = np.max(z, axis=1, keepdims=True)
    log_sum = np.log(np.sum(np.exp(z - top), axis=1)) + top[:, 0]
    return np.mean(log_sum - z[np.arange(len(labels)), labels])


def asian(spot, sigma, rate, drifts, shocks):
    """Mean discounted payoff of an Asian call; each step has a shift of its drift as a variable."""
    steps, dt, strike = len(shocks), 1.0 / len(shocks), 100.0
    log_price, total = np.log(spot), 0.0
    for k in range(steps):
        log_price = log_price + (rate + drifts[k] - 0.5 * sigma * sigma) * dt + sigma * math.sqrt(dt) * shocks[k]
        total = total + np.exp(log_price)
    payoff = np.maximum(total / steps - strike, 0.0)
    return np.exp(-rate) * np.mean(payoff)


def black_scholes(spot, strike, rate, sigma, time):
    """The sum of the prices of many calls."""
    from tapegrad.scipy.special import erf

    root = sigma * np.sqrt(time)
    d1 = (np.log(spot / strike) + (rate + 0.5 * sigma * sigma) * time) / root
    d2 = d1 - root
    first, second = 0.5 * (1.0 + erf(d1 / math.sqrt(2.0))), 0.5 * (1.0 + erf(d2 / math.sqrt(2.0)))
    return np.sum(spot * first - strike * np.exp(-rate * time) * second)


# -- helpers -----------------------------------------------------------------------------
def ours(function: Callable, arguments: tuple, argnums=0) -> Callable:
    """Value and gradient by a kernel; a tape that has none is an error here."""
    call = tg.jit(tg.value_and_grad(function, argnums), kernel="always")
    for _ in range(2):
        call(*arguments)
    stats = call.stats()
    if not stats.kernel_calls or stats.not_lowered or stats.fallback:
        raise RuntimeError(f"{function.__name__} does not run as a kernel:\n{stats}")
    return call


def flat(result) -> np.ndarray:
    """Value and gradients as one array."""
    value, gradients = result
    parts = gradients if isinstance(gradients, (tuple, list)) else (gradients,)
    return np.concatenate([np.ravel(np.asarray(part, np.float64)) for part in (value, *parts)])


def jax_call(function: Callable, arguments: tuple, argnums=0) -> Callable:
    """JAX's compiled value and gradient, NumPy in and out."""
    jax = jax_pinned()
    compiled = jax.jit(jax.value_and_grad(function, argnums))

    def call():
        value, gradients = compiled(*arguments)
        return float(value), jax.tree.map(np.asarray, gradients)

    return call


def rows(what, promises, function, arguments, argnums, others, quick, rtol=1e-7) -> Iterator[Row]:
    """Compare with all `others` (name: a call, or a function that makes one); promises: name -> (words, limit)."""
    call = ours(function, arguments, argnums)
    calls, missing = {"tapegrad": lambda: call(*arguments)}, {}
    for name, make in others.items():
        try:
            calls[name] = make()
        except Missing as why:
            missing[name] = str(why)
    check_agreement(what, {name: flat(one()) for name, one in calls.items()}, rtol)
    times = measure(calls, budget=1.0 if quick else 4.0)
    for name, (words, limit) in promises.items():
        if name in missing:
            yield Row(f"{what}, beside {name}", words, limit=limit, skip=missing[name])
        else:
            yield ratio(f"{what}, beside {name}", words, limit, times, name)


# -- rows --------------------------------------------------------------------------------
def small_call(quick):
    x = np.array([1.2, 0.7])
    call = ours(rosenbrock_loop, (x,))
    calls, missing = {"tapegrad": lambda: call(x), "by hand": lambda: hand.rosenbrock(x)}, ""
    promises = {
        "by hand": ("at most 3 times the call of a function compiled by Numba", 3.0),
        "JAX": ("at most 1/8 of a call of JAX's, NumPy in and out", 1 / 8),
    }
    try:
        calls["JAX"] = jax_call(rosenbrock_loop, (x,))
    except Missing as why:
        missing = str(why)
    check_agreement("small call", {name: flat(one()) for name, one in calls.items()})

    def many(one):
        def run():
            for _ in range(50):
                one()

        return run

    taken = measure({name: many(one) for name, one in calls.items()}, budget=1.0 if quick else 4.0)
    times = {name: time.per(50) for name, time in taken.items()}
    for name, (words, limit) in promises.items():
        what = f"one call, 2 variables, beside {name}"
        yield ratio(what, words, limit, times, name) if name in times else Row(what, words, limit=limit, skip=missing)


def rosenbrocks(quick):
    rng = np.random.default_rng(1)
    x = rng.normal(size=1000)
    others = {"by hand": lambda: lambda: hand.rosenbrock(x)}

    below = "below JAX's time (JAX gets the vectorised formula)"
    others["JAX"] = lambda: jax_call(rosenbrock, (x,))
    yield from rows(
        "Rosenbrock as a loop, n = 1 000", {"by hand": ("at most twice the gradient written by hand", 2.0), "JAX": (below, 1.0)},
        rosenbrock_loop, (x,), 0, others, quick,
    )  # fmt: skip
    x = rng.normal(size=100_000)
    others = {"by hand": lambda: lambda: hand.rosenbrock(x), "JAX": lambda: jax_call(rosenbrock, (x,))}
    yield from rows(
        "Rosenbrock vectorised, n = 100 000",
        {"by hand": ("at most twice the gradient written by hand", 2.0), "JAX": ("below JAX's time", 1.0)},
        rosenbrock, (x,), 0, others, quick,
    )  # fmt: skip


def ode(quick):
    p = np.array(programs.RATES)

    def scan():
        jax = peer("jax")

        def function(p):
            a, b, c, d = p[0], p[1], p[2], p[3]

            def rates(u, v):
                return (a - b * v) * u, (d * u - c) * v

            def step(state, _):
                u, v = state
                u1, v1 = rates(u, v)
                u2, v2 = rates(u + H / 2 * u1, v + H / 2 * v1)
                u3, v3 = rates(u + H / 2 * u2, v + H / 2 * v2)
                u4, v4 = rates(u + H * u3, v + H * v3)
                return (u + H / 6 * (u1 + 2 * u2 + 2 * u3 + u4), v + H / 6 * (v1 + 2 * v2 + 2 * v3 + v4)), None

            (u, v), _ = jax.lax.scan(step, (p[4], p[5]), None, length=STEPS)
            return u * u + v * v

        return jax_call(function, (p,))

    yield from rows(
        "RK4 of Lotka-Volterra, 1 000 steps, 6 gradients",
        {"by hand": ("at most 1.5 times the adjoint written by hand", 1.5), "JAX": ("at most 1/10 of JAX's scan", 0.1)},
        lotka_volterra, (p,), 0, {"by hand": lambda: lambda: hand.lotka_volterra(p, STEPS, H), "JAX": scan}, quick,
    )  # fmt: skip


def learning(quick):
    rng = np.random.default_rng(2)
    X, w = rng.normal(size=(1000, 100)), 0.1 * rng.normal(size=100)
    y = np.where(rng.uniform(size=1000) < 0.5, 1.0, -1.0)

    def by_jax():
        np_ = peer("jax").numpy
        return jax_call(lambda w, X, y: np_.mean(np_.logaddexp(0.0, -y * (X @ w))), (w, X, y))

    def by_torch():
        torch = torch_pinned()
        Xt, yt = torch.tensor(X), torch.tensor(y)

        def call():
            t = torch.tensor(w, requires_grad=True)
            loss = torch.nn.functional.softplus(-yt * (Xt @ t)).mean()
            loss.backward()
            return loss.item(), t.grad.numpy()

        return call

    promises = {
        "by hand": ("at most 1.3 times the gradient written in NumPy", 1.3), "JAX": ("below JAX's time", 1.0),
        "PyTorch": ("below PyTorch's time", 1.0),
    }  # fmt: skip
    others = {"by hand": lambda: lambda: hand.logistic(w, X, y), "JAX": by_jax, "PyTorch": by_torch}
    yield from rows("logistic regression 1 000 x 100", promises, logistic, (w, X, y), 0, others, quick)

    sizes = [(64, 64), (64,), (64, 64), (64,), (64, 10), (10,)]
    parameters = tuple(0.2 * rng.normal(size=s) for s in sizes)
    X, labels = rng.normal(size=(128, 64)), rng.integers(0, 10, size=128)

    def by_jax():
        jax = peer("jax")
        np_ = jax.numpy

        def loss(W1, b1, W2, b2, W3, b3, X):
            h = np_.tanh(np_.tanh(X @ W1 + b1) @ W2 + b2)
            logs = jax.nn.log_softmax(h @ W3 + b3)
            return -np_.mean(logs[np_.arange(len(labels)), labels])

        return jax_call(loss, (*parameters, X), tuple(range(6)))

    def by_torch():
        torch = torch_pinned()
        Xt, target = torch.tensor(X), torch.tensor(labels)

        def call():
            ts = [torch.tensor(p, requires_grad=True) for p in parameters]
            h = torch.tanh(torch.tanh(Xt @ ts[0] + ts[1]) @ ts[2] + ts[3])
            loss = torch.nn.functional.cross_entropy(h @ ts[4] + ts[5], target)
            loss.backward()
            return loss.item(), tuple(t.grad.numpy() for t in ts)

        return call

    others = {"by hand": lambda: lambda: hand.network(*parameters, X, labels), "JAX": by_jax, "PyTorch": by_torch}
    yield from rows(
        "network 64-64-10, batch 128", promises, network, (*parameters, X, labels), tuple(range(6)), others, quick
    )


def finance(quick):
    rng = np.random.default_rng(3)
    shocks = rng.normal(size=(50, 2000 if quick else 10_000))
    arguments = 100.0, 0.2, 0.05, np.zeros(50), shocks

    def scan():
        jax = peer("jax")
        np_ = jax.numpy

        def function(spot, sigma, rate, drifts, shocks):
            steps, dt = shocks.shape[0], 1.0 / shocks.shape[0]

            def step(state, given):
                log_price, total = state
                drift, shock = given
                log_price = log_price + (rate + drift - 0.5 * sigma * sigma) * dt + sigma * math.sqrt(dt) * shock
                return (log_price, total + np_.exp(log_price)), None

            start = (np_.full(shocks.shape[1], np_.log(spot)), np_.zeros(shocks.shape[1]))
            (_, total), _ = jax.lax.scan(step, start, (drifts, shocks))
            return np_.exp(-rate) * np_.mean(np_.maximum(total / steps - 100.0, 0.0))

        return jax_call(function, arguments, (0, 1, 2, 3))

    yield from rows(
        f"Asian option, 50 steps x {shocks.shape[1]:,} paths, 53 gradients", {"JAX": ("below JAX's scan", 1.0)},
        asian, arguments, (0, 1, 2, 3), {"JAX": scan}, quick,
    )  # fmt: skip

    n = 20_000 if quick else 100_000
    options = (
        rng.uniform(80, 120, n), rng.uniform(80, 120, n), rng.uniform(0.01, 0.1, n), rng.uniform(0.1, 0.5, n),
        rng.uniform(0.2, 2.0, n),
    )  # fmt: skip

    def by_jax():
        jax = peer("jax")
        np_ = jax.numpy

        def function(spot, strike, rate, sigma, time):
            root = sigma * np_.sqrt(time)
            d1 = (np_.log(spot / strike) + (rate + 0.5 * sigma * sigma) * time) / root
            cdf = lambda d: 0.5 * (1.0 + jax.scipy.special.erf(d / math.sqrt(2.0)))
            return np_.sum(spot * cdf(d1) - strike * np_.exp(-rate * time) * cdf(d1 - root))

        return jax_call(function, options, (0, 1, 2, 3, 4))

    def by_drjit():
        dr = peer("drjit")
        numbers = peer("drjit.llvm.ad").Float64
        dr.set_thread_count(0)  # no workers: all in this thread

        @dr.freeze
        def gradients(*given):
            given = [numbers(x) for x in given]
            dr.enable_grad(given)
            spot, strike, rate, sigma, time = given
            root = sigma * dr.sqrt(time)
            d1 = (dr.log(spot / strike) + (rate + 0.5 * sigma * sigma) * time) / root
            cdf = lambda d: 0.5 * (1.0 + dr.erf(d / math.sqrt(2.0)))
            total = dr.sum(spot * cdf(d1) - strike * dr.exp(-rate * time) * cdf(d1 - root))
            dr.backward(total)
            return dr.detach(total), [dr.grad(x) for x in given]

        def call():
            total, found = gradients(*map(numbers, options))
            return float(total[0]), tuple(np.asarray(g) for g in found)

        return call

    yield from rows(
        f"Black-Scholes, {n:,} options, 5 gradients each",
        {
            "by hand": ("half of the gradient written by hand in Numba, scalar libm", 0.5), "JAX": ("below JAX's time", 1.0),
            "Dr.Jit": ("below Dr.Jit's time", 1.0),
        },
        black_scholes, options, (0, 1, 2, 3, 4),
        {"by hand": lambda: lambda: hand.black_scholes(*options), "JAX": by_jax, "Dr.Jit": by_drjit}, quick,
    )  # fmt: skip


@njit
def descend(c, x, steps):
    """Gradient descent; returns the values on the way."""
    g, values = np.empty_like(x), np.empty(steps)
    for k in range(steps):
        values[k] = c(x, g)
        for i in range(x.shape[0]):
            x[i] -= 1e-4 * g[i]
    return values


def inside_numba(quick):
    x0 = np.linspace(-1.0, 1.0, 10)
    compiled = tg.compile(rosenbrock_loop, x0)
    calls = {"tapegrad": lambda: descend(compiled, x0.copy(), 1000), "by hand": lambda: hand.descend(x0.copy(), 1000)}
    check_agreement("descent", {name: np.array(one()) for name, one in calls.items()}, 1e-7)
    times = measure(calls, budget=1.0 if quick else 3.0)
    what = "1 000 steps of gradient descent inside @njit, n = 10"
    yield ratio(what, "at most 1.3 times the loop written by hand", 1.3, times, "by hand")


@benchmark(name="kernels")
def kernels(quick: bool) -> Iterator[Row]:
    """Value and full gradient by machine code made from a tape."""
    parts = {
        "one call, 2 variables": small_call, "Rosenbrock": rosenbrocks, "RK4 of Lotka-Volterra": ode, "learning": learning,
        "finance": finance, "gradient descent inside @njit": inside_numba,
    }  # fmt: skip
    yield from each(*((name, lambda part=part: part(quick)) for name, part in parts.items()))

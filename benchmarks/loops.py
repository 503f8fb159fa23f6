"""Loops as one instruction: `tg.scan` and `tg.while_loop`, beside `jax.lax.scan` and the same loop under ``@njit``.

- A scan of a million turns, of a number, and of a dict of arrays with elements, results and a captured vector: the first value and
  gradient in a new process, with a constant that no cache knows, and later ones; and the memory that they take.
- Ten million turns for which there are 64 MiB, beside the value alone.
- An LSTM over a sequence of characters, the cell of GradBench (every gate has weights for each number by itself), of 2 and 4 layers.
- Loops until a condition holds, at 200 points with 200 numbers of turns: beside the value alone, compiled by Numba.
- A differential equation by adaptive steps (`tapegrad.scipy.integrate.solve_ivp`), beside CVODES by CasADi and `odeint` of JAX.
- Twenty layers with an activation of the user's own, a primitive with rules in NumPy, beside the same formula in place.
"""

from __future__ import annotations

import math
import random
import tempfile
import time
from collections.abc import Callable, Iterator

import numpy as np

import tapegrad as tg

from . import fresh
from .registry import Missing, Row, benchmark, check_agreement, each, jax_pinned, peer, ratio
from .timing import measure, of, seconds

MIB = 2.0**20

# a million turns ----------------------------------------------------------------------------------------------------------


def number(ops, np, turns, step):
    """``y + step * sin(y) * x``, and the point."""
    return lambda p: ops.scan(lambda y, _: (y + step * np.sin(y) * p[1], None), p[0], None, length=turns)[0], [0.7, 1.3]


def containers(ops, np, turns, step):
    """A dict of two arrays as carry, elements, results and a captured vector."""
    xs = np.sin(0.01 * np.arange(float(turns)))

    def f(p):
        def body(carry, x):
            place = carry["place"] + step * carry["speed"]
            speed = carry["speed"] - step * np.sin(place) * p[4:6] + step * x
            return {"place": place, "speed": speed}, place[0] * p[6]

        last, ys = ops.scan(body, {"place": p[:2], "speed": p[2:4]}, xs)
        return np.sum(last["place"]) + np.sum(ys) / turns

    return f, [0.3, 0.5, -0.2, 0.4, 1.1, 0.9, 0.7]


#: Seconds of the first and of later values with gradients, and bytes over the start; with `{library}` either library's.
PROGRAM = """
import json, resource, time
import numpy as np
{setup}
from benchmarks import loops
kept = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
f, point = loops.{case}({ops}, {numpy}, {turns}, {step!r})
point = {numpy}.array(point)
taken = []
for _ in range(1 + {later}):
    start = time.perf_counter()
    value, gradient = both(f)(point)
    gradient = np.asarray(gradient).tolist()
    taken.append(time.perf_counter() - start)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({{"first": taken[0], "later": min(taken[1:]), "bytes": 1024 * (peak - kept), "gradient": gradient}}))
"""
#: The transformed function is made once.
OURS = """
import functools
import tapegrad as tg
both = functools.cache(lambda f: tg.jit(tg.value_and_grad(f)))
"""
THEIRS = """
import functools
import jax
jax.config.update("jax_enable_x64", True)
both = functools.cache(lambda f: jax.jit(jax.value_and_grad(f)))
jax.jit(lambda x: x + 1.0)(1.0).block_until_ready()
"""


#: Bytes of a replay of which nothing was there before, beside what `plan` says.  Freed pages go back to the system.
PEAK = """
import ctypes, gc, json
libc = ctypes.CDLL(None)
libc.mallopt(-3, 65536)
import numpy as np, tapegrad as tg

def status(key):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(key))

f = lambda p: tg.scan(lambda y, _: (y + {step!r} * np.sin(y) * p[1], None), p[0], None, length={turns}, memory={budget})[0]
p = np.array([0.7, 1.3])
tape = tg.grad(f).tape(p)
tape.value_and_grad(p)
predicted = tape.plan().peak
tape.kept.clear()
gc.collect()
libc.malloc_trim(0)
open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS")
tape.value_and_grad(p)
print(json.dumps({{"predicted": predicted, "measured": status("VmHWM") - before}}))
"""


def million(case: str, quick: bool) -> Iterator[Row]:
    turns, later = (10_000, 3) if quick else (1_000_000, 10)
    found: dict[str, list] = {"tapegrad": [], "JAX": []}
    with tempfile.TemporaryDirectory() as cache:
        for run in range(3 if quick else 6):
            step = 1e-6 * (1.0 + 1e-3 * random.random())
            for library, setup, ops, numpy in (("tapegrad", OURS, "tg", "np"), ("JAX", THEIRS, "jax.lax", "jax.numpy")):
                if library == "JAX" and (run == 0 or found[library] is None):
                    continue
                program = PROGRAM.format(setup=setup, case=case, ops=ops, numpy=numpy, turns=turns, step=step, later=later)
                try:
                    found[library].append(fresh.run(program, cache))
                except RuntimeError as error:
                    if library == "tapegrad" or "No module" not in str(error):
                        raise
                    found[library] = None
            if found["JAX"] and run:
                check_agreement(case, {name: runs[-1]["gradient"] for name, runs in found.items()})
    # The first process has compiled what every later one loads.
    found = {name: runs[name == "tapegrad" :] for name, runs in found.items() if runs}
    what = f"scan of {turns} turns of {'a number' if case == 'number' else 'a dict of arrays, with xs, ys and a captured vector'}"
    for when, promise, limit in (("first", "within 0.6 s", 0.6), ("later", "within 30 ms", 0.03)):
        times = {name: of([run[when] for run in runs]) for name, runs in found.items()}
        yield Row(f"{what}: {when} value and gradient", promise, times["tapegrad"].minimum, limit, "s", times=times)
    taken = {name: min(run["bytes"] for run in runs) / 1e6 for name, runs in found.items()}
    yield Row(f"{what}: peak over the start", "at most 60 MB", taken["tapegrad"], 60.0, "MB", {"JAX, MB": taken.get("JAX", math.nan)})


def in_a_budget(quick: bool) -> Iterator[Row]:
    """Ten million turns with 64 MiB for the way back, beside the value alone under ``@njit``."""
    import numba

    turns, step, budget = (200_000 if quick else 10_000_000), 1e-7, int(64 * MIB / (50 if quick else 1))

    @numba.njit
    def value(y, x):
        for _ in range(turns):
            y = y + step * math.sin(y) * x
        return y

    def f(p):
        return tg.scan(lambda y, _: (y + step * np.sin(y) * p[1], None), p[0], None, length=turns, memory=budget)[0]

    p = np.array([0.7, 1.3])
    both = tg.jit(tg.value_and_grad(f))
    found = both(p)
    differences = [(value(*(p + h)) - value(*(p - h))) / 2e-6 for h in 1e-6 * np.eye(2)]
    check_agreement("value", {"tapegrad": found[0], "Numba": value(*p)})
    check_agreement("gradient", {"tapegrad": found[1], "differences": differences}, rtol=1e-6)
    times = measure({"tapegrad": lambda: both(p), "value by Numba": lambda: value(*p)}, budget=1.0 if quick else 10.0, at_least=2)
    what = f"scan of {turns} turns, memory={budget / MIB:.3g} MiB"
    yield ratio(f"{what}: value and gradient, over the value by Numba", "at most 2.5 times", 2.5, times, "value by Numba")
    with tempfile.TemporaryDirectory() as cache:
        taken = fresh.run(PEAK.format(turns=turns, step=step, budget=budget), cache)
    beside = {"measured, MB": taken["measured"] / 1e6, "predicted by plan(), MB": taken["predicted"] / 1e6}
    yield Row(f"{what}: peak of a replay, beside the prediction", "within 10 %", taken["measured"] / taken["predicted"], 1.1, "x", beside)


# LSTM ---------------------------------------------------------------------------------------------------------------------

#: Numbers in a character.
BITS = 14


def lstm(ops, np, layers):
    """The objective of GradBench's LSTM by its parameters in one vector, given the sequence."""

    def sigmoid(x):
        return 1.0 / (1.0 + np.exp(-x))

    def cell(weight, bias, hidden, state, x):
        forget = sigmoid(x * weight[0] + bias[0])
        ingate = sigmoid(hidden * weight[1] + bias[1])
        outgate = sigmoid(x * weight[2] + bias[2])
        state = state * forget + ingate * np.tanh(hidden * weight[3] + bias[3])
        return outgate * np.tanh(state), state

    def objective(p, state, inputs, outputs):
        main = np.reshape(p[: 8 * layers * BITS], (2 * layers, 4, BITS))
        extra = np.reshape(p[8 * layers * BITS :], (3, BITS))

        def body(carry, pair):
            x, target = pair[0] * extra[0], pair[1]
            states = []
            for k, (hidden, inner) in enumerate(carry):
                x, inner = cell(main[2 * k], main[2 * k + 1], hidden, inner, x)
                states.append((x, inner))
            x = x * extra[1] + extra[2]
            return states, np.sum(target * (x - np.log(np.sum(np.exp(x)) + 2.0)))

        _, likelihoods = ops.scan(body, [(state[2 * k], state[2 * k + 1]) for k in range(layers)], (inputs, outputs))
        return -np.sum(likelihoods) / (len(likelihoods) * BITS)

    return objective


def of_characters(quick: bool) -> Iterator[Row]:
    length = 128 if quick else 4096
    for layers in (2, 4):
        rng = np.random.default_rng(layers)
        p = 0.3 * rng.normal(size=8 * layers * BITS + 3 * BITS)
        state, characters = rng.random((2 * layers, BITS)), (rng.random((length, BITS)) < 0.3).astype(float)
        arguments = p, state, characters[:-1], characters[1:]
        taken, calls, gradients = {}, {}, {}

        def ours(layers=layers):
            return tg.jit(tg.grad(lstm(tg, np, layers)))

        def theirs(layers=layers):
            jax = jax_pinned()
            gradient = jax.jit(jax.grad(lstm(jax.lax, jax.numpy, layers)))
            return lambda *arguments: gradient(*arguments).block_until_ready()

        for name, make in (("tapegrad", ours), ("JAX", theirs)):
            try:
                start = time.perf_counter()
                calls[name] = make()
                gradients[name] = np.asarray(calls[name](*arguments))
                taken[name] = time.perf_counter() - start
            except Missing:
                continue
        what = f"LSTM of {layers} layers over {length} characters"
        check_agreement(what, gradients, rtol=1e-8)
        yield Row(f"{what}: first gradient", "within 3 s", taken["tapegrad"], 3.0, "s", {name: seconds(t) for name, t in taken.items()})
        times = measure({name: lambda call=call: call(*arguments) for name, call in calls.items()}, budget=2.0 if quick else 10.0, at_least=3)
        if "JAX" in times:
            yield ratio(f"{what}: later gradients, beside JAX's scan", "at most 0.25 of JAX", 0.25, times, "JAX")


# until a condition holds --------------------------------------------------------------------------------------------------


def falling(while_loop, p):
    """The time at which a falling body, with friction, has reached the ground."""
    def body(state):
        t, place, speed = state
        return t + 0.001, place + 0.001 * speed, speed - 0.001 * (9.81 + p[1] * speed * np.abs(speed))

    t, place, speed = while_loop(lambda state: state[1] > 0.0, body, (0.0, p[0], 0.0 * p[0]))
    return t - place / speed


def falling_plain(p):
    t, place, speed = 0.0, p[0], 0.0
    while place > 0.0:
        t, place, speed = t + 0.001, place + 0.001 * speed, speed - 0.001 * (9.81 + p[1] * speed * abs(speed))
    return t - place / speed


def newton(while_loop, p):
    """A root of ``x + a * sin(x) - b``, by damped steps."""
    step = lambda x: x - 0.2 * (x + p[0] * np.sin(x) - p[1]) / (1.0 + p[0] * np.cos(x))
    return while_loop(lambda x: np.abs(x + p[0] * np.sin(x) - p[1]) > 1e-12, step, 1.0 * p[1])


def newton_plain(p):
    x = p[1]
    while abs(x + p[0] * math.sin(x) - p[1]) > 1e-12:
        x = x - 0.2 * (x + p[0] * math.sin(x) - p[1]) / (1.0 + p[0] * math.cos(x))
    return x


def bisection(while_loop, p):
    """Where ``exp(x) * a - b`` is zero; the last step is Newton's, which has the derivative."""
    def body(both):
        low, high = both
        middle = 0.5 * (low + high)
        if np.exp(middle) * p[0] < p[1]:
            return middle, high
        return low, middle

    low, high = while_loop(lambda both: both[1] - both[0] > 1e-6, body, (0.0 * p[0] - 10.0, 0.0 * p[0] + 8.0 * p[1]))
    return low - (np.exp(low) * p[0] - p[1]) / (np.exp(low) * p[0])


def bisection_plain(p):
    low, high = -10.0, 8.0 * p[1]
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        if math.exp(middle) * p[0] < p[1]:
            low = middle
        else:
            high = middle
    return low - (math.exp(low) * p[0] - p[1]) / (math.exp(low) * p[0])


def descent(while_loop, p):
    """The least of ``(x - a) ** 2 + b * (y - x) ** 2 + 0.1 * x ** 4``, until the slope is small."""
    slope = lambda x, y: (2.0 * (x - p[0]) - 2.0 * p[1] * (y - x) + 0.4 * x * x * x, 2.0 * p[1] * (y - x))

    def goes_on(xy):
        dx, dy = slope(*xy)
        return dx * dx + dy * dy > 1e-16

    def body(xy):
        dx, dy = slope(*xy)
        return xy[0] - 0.1 * dx, xy[1] - 0.1 * dy

    x, y = while_loop(goes_on, body, (0.0 * p[0], 0.0 * p[0]))
    return x + y


def descent_plain(p):
    x = y = 0.0
    while True:
        dx, dy = 2.0 * (x - p[0]) - 2.0 * p[1] * (y - x) + 0.4 * x * x * x, 2.0 * p[1] * (y - x)
        if dx * dx + dy * dy <= 1e-16:
            return x + y
        x, y = x - 0.1 * dx, y - 0.1 * dy


#: Bogacki and Shampine's pair of third and second order, for ``y'' = -a * sin(y)`` with friction `b`, until a time.
def adaptive(while_loop, p):
    f = lambda y, v: (v, -p[0] * np.sin(y) - p[1] * v)

    def body(state):
        t, y, v, h = state
        h = np.minimum(h, 5.0 - t)
        a1, b1 = f(y, v)
        a2, b2 = f(y + 0.5 * h * a1, v + 0.5 * h * b1)
        a3, b3 = f(y + 0.75 * h * a2, v + 0.75 * h * b2)
        y1, v1 = y + h * (2.0 * a1 + 3.0 * a2 + 4.0 * a3) / 9.0, v + h * (2.0 * b1 + 3.0 * b2 + 4.0 * b3) / 9.0
        a4, b4 = f(y1, v1)
        error = np.sqrt(
            (h * (-5.0 * a1 / 72.0 + a2 / 12.0 + a3 / 9.0 - a4 / 8.0)) ** 2 + (h * (-5.0 * b1 / 72.0 + b2 / 12.0 + b3 / 9.0 - b4 / 8.0)) ** 2
        )
        factor = np.minimum(5.0, np.maximum(0.2, 0.9 * ((error + 1e-12) / 1e-6) ** (-1.0 / 3.0)))
        if error < 1e-6:
            return t + h, y1, v1, h * factor
        return t, y, v, h * factor

    return while_loop(lambda state: state[0] < 5.0, body, (0.0 * p[0], 1.0 + 0.0 * p[0], 0.0 * p[0], 0.01 + 0.0 * p[0]))[1]


def adaptive_plain(p):
    t, y, v, h = 0.0, 1.0, 0.0, 0.01
    while t < 5.0:
        h = min(h, 5.0 - t)
        a1, b1 = v, -p[0] * math.sin(y) - p[1] * v
        a2 = v + 0.5 * h * b1
        b2 = -p[0] * math.sin(y + 0.5 * h * a1) - p[1] * a2
        a3 = v + 0.75 * h * b2
        b3 = -p[0] * math.sin(y + 0.75 * h * a2) - p[1] * a3
        y1, v1 = y + h * (2.0 * a1 + 3.0 * a2 + 4.0 * a3) / 9.0, v + h * (2.0 * b1 + 3.0 * b2 + 4.0 * b3) / 9.0
        a4, b4 = v1, -p[0] * math.sin(y1) - p[1] * v1
        ea = h * (-5.0 * a1 / 72.0 + a2 / 12.0 + a3 / 9.0 - a4 / 8.0)
        eb = h * (-5.0 * b1 / 72.0 + b2 / 12.0 + b3 / 9.0 - b4 / 8.0)
        error = math.sqrt(ea * ea + eb * eb)
        factor = min(5.0, max(0.2, 0.9 * ((error + 1e-12) / 1e-6) ** (-1.0 / 3.0)))
        if error < 1e-6:
            t, y, v = t + h, y1, v1
        h = h * factor
    return y


#: Each with the value alone in plain Python, and points ``base + k * step`` for k below 200.
UNTIL = {
    "falling body": (falling, falling_plain, (2.0, 0.01), (0.5, 0.001)),
    "Newton": (newton, newton_plain, (0.3, 0.5), (0.002, 0.05)),
    "bisection": (bisection, bisection_plain, (0.5, 1.0), (0.01, 0.2)),
    "gradient descent": (descent, descent_plain, (0.5, 0.3), (0.03, 0.01)),
    "adaptive Runge-Kutta": (adaptive, adaptive_plain, (1.0, 0.1), (0.1, 0.005)),
}
CALLS = 200


def until(name: str, quick: bool) -> Iterator[Row]:
    import numba

    function, plain, base, step = UNTIL[name]
    points = [np.array(base) + k * np.array(step) for k in range(CALLS // (10 if quick else 1))]
    primal = numba.njit(plain)
    both = tg.jit(tg.value_and_grad(lambda p: function(tg.while_loop, p)))
    nothing = tg.jit(tg.value_and_grad(lambda p: p[0] * p[1]))
    start = time.perf_counter()
    found = [both(p) for p in points]
    first = time.perf_counter() - start
    check_agreement(f"{name}, values", {"tapegrad": [value for value, _ in found], "Numba": [primal(p) for p in points]}, rtol=1e-7)
    h = 1e-6
    slopes = [[(primal(p + e) - primal(p - e)) / (2.0 * h) for e in h * np.eye(2)] for p in points]
    if name not in ("falling body", "adaptive Runge-Kutta"):  # whose value jumps by rounding where the number of turns changes
        check_agreement(f"{name}, gradients", {"tapegrad": [slope for _, slope in found], "differences": slopes}, rtol=1e-4)
    times = measure(
        {"tapegrad": lambda: [both(p) for p in points], "value by Numba": lambda: [primal(p) for p in points], "calls": lambda: [nothing(p) for p in points]},
        budget=1.0 if quick else 4.0,
    )
    calls = times.pop("calls").minimum
    stats = both.stats()
    yield Row(
        f"{name} at {len(points)} points: values and gradients without what a call costs, over the values by Numba", "at most 5 times",
        (times["tapegrad"].minimum - calls) / times["value by Numba"].minimum, 5.0,
        detail={"recordings": stats.records, "first calls of all": seconds(first), "cost of a call": seconds(calls / len(points))}, times=times,
    )  # fmt: skip


# differential equations ---------------------------------------------------------------------------------------------------


def predator_prey(quick: bool) -> Iterator[Row]:
    """The misfit of a curve at 21 times, by four rates and two initial values."""
    from tapegrad.scipy.integrate import solve_ivp

    times, p = np.linspace(0.0, 20.0, 21), np.array([0.55, 0.028, 0.84, 0.026, 34.0, 5.9])
    data = np.stack([30.0 + 20.0 * np.cos(0.7 * times), 20.0 - 10.0 * np.cos(0.7 * times)])

    def misfit(p, **tolerances):
        rates = lambda t, y: np.stack([y[0] * (p[0] - p[1] * y[1]), y[1] * (p[3] * y[0] - p[2])])
        return np.sum((solve_ivp(rates, (0.0, 20.0), p[4:], t_eval=times, **tolerances).y - data) ** 2)

    gradient = tg.jit(tg.grad(misfit))
    calls: dict[str, Callable] = {"tapegrad": lambda: gradient(p)}
    start = time.perf_counter()
    gradient(p)
    first = time.perf_counter() - start
    # Where steps are coarse the value jumps when their number changes, which no derivative shows.
    fine = lambda p: misfit(p, rtol=1e-10, atol=1e-10)
    steps = 1e-5 * p * np.eye(6)
    differences = np.array([fine(p + step) - fine(p - step) for step in steps]) / (2e-5 * p)
    check_agreement("gradient of fine steps", {"tapegrad": tg.grad(fine)(p), "differences": differences}, rtol=1e-5)
    for name, make in (("JAX, odeint", by_jax), ("CasADi, CVODES", by_casadi)):
        try:
            calls[name] = make(p, times, data)
            calls[name]()
        except Missing:
            calls.pop(name, None)
    taken = measure(calls, budget=1.0 if quick else 5.0, at_least=3)
    yield Row(
        "solve_ivp, predator and prey at 21 times: gradient by 4 rates and 2 initial values", "within 2 ms", taken["tapegrad"].minimum, 2e-3, "s",
        {"first": seconds(first)}, times=taken,
    )  # fmt: skip


def by_jax(p, times, data):
    jax = jax_pinned()
    from jax.experimental.ode import odeint

    def misfit(p):
        curve = odeint(lambda y, t: jax.numpy.stack([y[0] * (p[0] - p[1] * y[1]), y[1] * (p[3] * y[0] - p[2])]), p[4:], times, rtol=1e-3, atol=1e-6)
        return jax.numpy.sum((curve.T - data) ** 2)

    gradient = jax.jit(jax.grad(misfit))
    return lambda: gradient(p).block_until_ready()


def by_casadi(p, times, data):
    casadi = peer("casadi")
    y, q = casadi.MX.sym("y", 2), casadi.MX.sym("q", 4)
    right = casadi.vertcat(y[0] * (q[0] - q[1] * y[1]), y[1] * (q[3] * y[0] - q[2]))
    options = {"reltol": 1e-3, "abstol": 1e-6}
    solver = casadi.integrator("solver", "cvodes", {"x": y, "p": q, "ode": right}, 0.0, list(times[1:]), options)
    whole = casadi.MX.sym("p", 6)
    curve = casadi.horzcat(whole[4:], solver(x0=whole[4:], p=whole[:4])["xf"])
    gradient = casadi.Function("gradient", [whole], [casadi.gradient(casadi.sumsqr(curve - data), whole)])
    return lambda: gradient(p)


# rules of the user's own --------------------------------------------------------------------------------------------------

LAYERS = 20


@tg.primitive
def mish(x):
    return x * np.tanh(np.log1p(np.exp(x)))


@mish.defvjp
def _mish_vjp(g, result, x):
    softplus = np.log1p(np.exp(x))
    return g * (np.tanh(softplus) + x * (1.0 - np.tanh(softplus) ** 2) / (1.0 + np.exp(-x)))


def own_activation(quick: bool) -> Iterator[Row]:
    """Layers whose activation has rules in NumPy, beside the same formula in place."""
    rng = np.random.default_rng(0)
    weights, biases, x = rng.normal(size=(LAYERS, 16)), rng.normal(size=(LAYERS, 16)), rng.normal(size=16)

    def network(activation):
        def f(weights, biases):
            y = x
            for k in range(LAYERS):
                y = activation(weights[k] * y + biases[k])
            return np.sum(y)

        return tg.jit(tg.grad(f, (0, 1)))

    ours, place = network(mish), network(lambda x: x * np.tanh(np.log1p(np.exp(x))))
    for _ in range(5):
        found = {"its own rule": ours(weights, biases), "in place": place(weights, biases)}
    check_agreement("gradients", {name: np.stack(gradients) for name, gradients in found.items()})
    times = measure({"tapegrad": lambda: ours(weights, biases), "in place": lambda: place(weights, biases)}, budget=1.0 if quick else 3.0)
    yield ratio(f"{LAYERS} layers of an activation with rules in NumPy, over the formula in place", "at most 1.2 times", 1.2, times, "in place")


@benchmark(name="loops")
def loops(quick: bool) -> Iterator[Row]:
    """Loops as one instruction, beside JAX's and beside the value under njit."""
    yield from each(
        ("scan of a number", lambda: million("number", quick)),
        ("scan of a dict of arrays", lambda: million("containers", quick)),
        ("scan in a budget", lambda: in_a_budget(quick)),
        ("LSTM", lambda: of_characters(quick)),
        *((name, lambda name=name: until(name, quick)) for name in UNTIL),
        ("solve_ivp", lambda: predator_prey(quick)),
        ("own activation", lambda: own_activation(quick)),
    )

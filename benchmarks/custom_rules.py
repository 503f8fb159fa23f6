"""Derivative rules of the user's own in a kernel, beside the same formula written in place.

A chain of 20 layers ``softsign(w * x)``, whose activation is a custom primitive: with rules in NumPy, which are recorded through; with
rules that Numba has compiled, which are called as machine code; and with rules in Python, which are called back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

import tapegrad as tg

from .registry import Row, benchmark, check_agreement, each, ratio
from .timing import measure

LAYERS, CALLS = 20, 20


def in_place(x):
    return x / (1.0 + np.abs(x))


def in_numpy() -> Callable:
    return tg.custom_vjp(lambda x: x / (1.0 + np.abs(x)), lambda g, result, x: g / (1.0 + np.abs(x)) ** 2)


def in_numba() -> Callable:
    import numba

    value, rule = numba.njit(lambda x: x / (1.0 + abs(x))), numba.njit(lambda g, result, x: g / (1.0 + abs(x)) ** 2)
    return tg.custom_vjp(tg.primitive(value), rule)


def in_python() -> Callable:
    return tg.custom_vjp(lambda x: x / (1.0 + math.fabs(x)), lambda g, result, x: g / (1.0 + math.fabs(x)) ** 2)


def gradient(activation: Callable) -> Callable:
    def network(x, w):
        for _ in range(LAYERS):
            x = activation(w * x)
        return np.sum(x * x)

    return tg.jit(tg.grad(network), kernel="always")


def calls(of: dict[str, Callable], x) -> dict[str, Callable]:
    """Repeated calls of gradients at `x`, which have kernels and agree."""
    gradients = {name: gradient(activation) for name, activation in of.items()}
    for g in gradients.values():
        g(x, 1.1)
    check_agreement("gradient of the layers", {name: g(x, 1.1) for name, g in gradients.items()})

    def repeated(g):
        def call() -> None:
            for _ in range(CALLS):
                g(x, 1.1)

        return call

    return {name: repeated(g) for name, g in gradients.items()}


def through(n: int, quick: bool) -> Iterator[Row]:
    x = np.linspace(0.1, 1.0, n) if n else 0.3
    taken = measure(calls({"tapegrad": in_numpy(), "in place": in_place}, x), budget=1.0 if quick else 4.0)
    times = {name: time.per(CALLS) for name, time in taken.items()}
    what = f"arrays of {n}" if n else "numbers"
    yield ratio(f"{LAYERS} layers on {what}: rules in NumPy, beside the formula in place", "at most 1.2 times", 1.2, times, "in place")


def called(quick: bool) -> Iterator[Row]:
    activations = {"Numba": in_numba(), "Python": in_python(), "in place": in_place}
    taken = measure(calls(activations, 0.3), budget=1.0 if quick else 4.0)
    base = taken["in place"].minimum
    each_call = {name: (taken[name].minimum - base) / (2 * LAYERS * CALLS) * 1e9 for name in ("Numba", "Python")}
    yield Row("a call of a rule that Numba has compiled", "about 30 ns: at most 60", each_call["Numba"], 60.0, "ns")
    yield Row("a call of a rule in Python", "", each_call["Python"] / 1e3, unit="us")


@benchmark(name="custom_rules")
def custom_rules(quick: bool) -> Iterator[Row]:
    """Custom primitives in kernels: rules in NumPy, compiled by Numba, in Python."""
    yield from each(*((f"arrays of {n}", lambda n=n: through(n, quick)) for n in (0, 16, 1000)), ("rules that are called", lambda: called(quick)))

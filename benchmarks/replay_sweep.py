"""Replaying a recorded function by sweeps: values forward, adjoints backward, each instruction.

Two functions of some 50 000 scalar instructions: one of ten different opcodes,
half of its time in libm, and a Runge-Kutta integration, sums and products only.
No adjoint is zero, so nothing is skipped.  The call from Python is part of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tapegrad as tg

from . import programs
from .registry import Row, benchmark, check_agreement
from .timing import measure

PROMISE = "at most 9 ns per scalar instruction, value and gradient"


def mixed(v, turns: int):
    x, y = v[0], v[1]
    a, b, total = x, y, 0.0
    for _ in range(turns):
        a, b = programs.mixed(a, b, x, y)
        total = total + a * b
    return total


def predators(v, turns: int, h: float = 0.001):
    """Steps of the classical Runge-Kutta method for Lotka and Volterra's equations."""

    def rate(x, y):
        return x * (1.1 - 0.4 * y), y * (0.1 * x - 0.4)

    x, y = v[0], v[1]
    for _ in range(turns):
        k1 = rate(x, y)
        k2 = rate(x + h / 2 * k1[0], y + h / 2 * k1[1])
        k3 = rate(x + h / 2 * k2[0], y + h / 2 * k2[1])
        k4 = rate(x + h * k3[0], y + h * k3[1])
        x = x + h / 6 * (k1[0] + 2 * k2[0] + 2 * k3[0] + k4[0])
        y = y + h / 6 * (k1[1] + 2 * k2[1] + 2 * k3[1] + k4[1])
    return x + y


@benchmark(name="replay_sweep")
def replay_sweep(quick: bool) -> Iterator[Row]:
    """Value and gradient by replay, nanoseconds per scalar instruction."""
    x = np.array([0.3, 0.6])
    for name, function, turns in (("mixed opcodes", mixed, 2400), ("Runge-Kutta steps", predators, 1000)):
        g = tg.jit(tg.value_and_grad(lambda v, function=function, turns=turns: function(v, turns)), kernel="never")
        g(x)
        count = g.stats().instructions
        few = tg.grad(lambda v, function=function: function(v, 5))
        steps = 1e-6 * np.eye(2)
        by_difference = [(function(x + h, 5) - function(x - h, 5)) / 2e-6 for h in steps]
        check_agreement(f"gradient of {name}", {"tapegrad": few(x), "a difference": by_difference}, rtol=1e-6)
        time = measure({"replay": lambda: g(x)}, budget=1.0 if quick else 4.0, at_least=10)["replay"]
        yield Row(
            f"{name}, {count:,} instructions: each",
            PROMISE,
            time.per(count).minimum * 1e9,
            9.0,
            "ns",
            {"whole call": str(time), "repeats": time.repeats},
        )

"""Gradients of compiled functions in reverse mode, beside the functions: twenty-two programs, and one with 2, 20 and 200 parameters."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import numpy as np

import tapegrad as tg

from .nopython_reverse_by_hand import BY_HAND
from .nopython_reverse_by_hand import simulation as simulation_by_hand
from .nopython_reverse_more import more_problems, simulation
from .nopython_reverse_problems import lotka_volterra, problems
from .registry import Row, benchmark, check_agreement
from .timing import measure, seconds

FIRST = "first call over that of the primal"
#: Where more is allowed than elsewhere: the adjoint scatters to three neighbours, and the primal is vectorised.
LIMITS = {"heat, swap": 9.4}


def gradient_over_primal(numba, name: str, function, args: list, argnums, by_hand, limit: float, quick: bool) -> Row:
    """Time of value and gradient over that of the function, both without Python's checks of divisions."""
    primal = numba.njit(error_model="numpy")(function)
    start = time.process_time()
    value = primal(*args)
    primal_first = time.process_time() - start
    both = tg.njit_value_and_grad(primal, argnums, mode="reverse")
    start = time.process_time()
    result, gradient = both(*args)
    first = time.process_time() - start
    chosen, gradients = (argnums, gradient) if isinstance(argnums, tuple) else ((argnums,), (gradient,))
    directions = [np.random.default_rng(2).normal(size=np.shape(args[k])) for k in chosen]
    slope = sum(np.sum(d * g) for d, g in zip(directions, gradients))
    tangents = [d if d.ndim else float(d) for d in directions]
    check_agreement(name, {"gradient": slope, "dual numbers": tg.njit_jvp(function, argnums)(*args, *tangents)[1]}, rtol=1e-9)
    check_agreement(name, {"value": result, "primal": value}, rtol=1e-12)
    calls = {"primal": lambda: primal(*args), "tapegrad, value and gradient": lambda: both(*args)}
    if by_hand is not None:
        calls["by hand"] = lambda: by_hand(*args)
        value_by_hand, by_hand_gradient = by_hand(*args)
        both_gradients = [g if isinstance(g, tuple) else (g,) for g in (gradient, by_hand_gradient)]
        check_agreement(name, {"value": result, "by hand": value_by_hand}, rtol=1e-9)
        for ours, theirs in zip(*both_gradients, strict=True):
            check_agreement(name, {"gradient": ours, "by hand": theirs}, rtol=1e-9)
    times = measure(calls, budget=0.3 if quick else 2.0, at_least=10)
    smallest = {what: t.minimum for what, t in times.items()}
    detail = {what: f"{seconds(t)}" for what, t in smallest.items()}
    detail[FIRST] = f"{first / primal_first:.1f}"
    measured = smallest["tapegrad, value and gradient"] / smallest["primal"]
    return Row(name, f"at most {limit} times the primal", measured, limit, "x", detail)


def in_segments(quick: bool) -> Iterator[Row]:
    """RK4 with 2 MiB for its loop, over the same gradient with all turns on the stack."""
    args, memory = (np.array([1.0, 1.5, 1.1, 0.4, 0.4, 0.1]), 200_000 if quick else 1_000_000, 1e-4), 2**21
    ways = {"all turns kept": tg.njit_grad(lotka_volterra, mode="reverse"), "memory=2 MiB": tg.njit_grad(lotka_volterra, memory=memory)}
    check_agreement("RK4", {name: gradient(*args) for name, gradient in ways.items()}, rtol=0.0)
    times = measure({name: lambda gradient=gradient: gradient(*args) for name, gradient in ways.items()}, budget=0.5 if quick else 3.0, at_least=5)
    peaks = {name: gradient.modes(*args)["peak of the stack, bytes"] for name, gradient in ways.items()}
    detail = {name: f"{seconds(t.minimum)}, {peaks[name] / 2**20:.2f} MiB" for name, t in times.items()}
    name = f"RK4 of {args[1]} steps, 2 MiB"
    yield Row(name, "at most 2.5 times all turns kept", times["memory=2 MiB"].minimum / times["all turns kept"].minimum, 2.5, "x", detail)
    yield Row(f"{name}, peak of the stack", "at most 2 MiB", peaks["memory=2 MiB"] / 2**20, 2.0, "MiB", {})


@benchmark(name="nopython_reverse")
def nopython_reverse(quick: bool) -> Iterator[Row]:
    """Gradients in reverse mode of functions that Numba compiles, over the functions themselves."""
    import numba

    tg.njit_value_and_grad(lambda x: x[0] * x[1], mode="reverse")(np.ones(2))  # the compiler itself
    cases = {**problems(), **{name: (*case, None) for name, case in more_problems().items()}}
    ratios, firsts = [], []
    for name, (function, args, argnums, by_hand) in cases.items():
        row = gradient_over_primal(numba, name, function, args, argnums, by_hand or BY_HAND.get(name), LIMITS.get(name, 3.2), quick)
        ratios.append(row.measured)
        firsts.append(float(row.detail[FIRST]))
        yield row
    yield Row("geometric mean of these", "at most 2.4 times the primal", statistics.geometric_mean(ratios), 2.4)
    mean = statistics.geometric_mean(firsts)
    yield Row(f"{FIRST}, geometric mean of these", "at most 3 times Numba's own compilation", mean, 3.0)
    for n in (2, 20, 200):
        args = [np.linspace(0.5, 1.5, n), 200]
        yield gradient_over_primal(numba, f"simulation with {n} parameters", simulation, args, 0, simulation_by_hand, 3.0, quick)
    yield from in_segments(quick)

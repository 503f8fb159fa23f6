"""Jacobian of a banded map R^1000 -> R^1000, by forward and by reverse mode, beside JAX; and of a map through one number.

The map is written twice: on whole arrays, and as a Python loop over numbers.
JAX's function is jitted and warm; what its first call takes is given apart.
tapegrad's is under `tg.jit`, and warm too.  JAX takes most of a minute to compile the loop of length 1 000:
there is a shorter one too, of which nothing is promised, and in quick mode that alone.

The map R^256 -> R -> R^256 has a Jacobian that is cheapest as a product: that is done by `tg.jacobian`, and by hand, from the
Jacobians of both halves under `tg.jit`.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import numpy as np

import tapegrad as tg

from .registry import Missing, Row, benchmark, check_agreement, jax_pinned
from .timing import measure

LENGTH, SHORT = 1000, 100
WAIST = 256


def on_arrays(np):
    """The map on whole arrays, with the functions of `np`."""
    return lambda x: x[1:-1] * x[2:] - np.sin(x[:-2])


def by_loop(np):
    """The map as a loop over numbers."""
    return lambda x: np.stack([x[i + 1] * x[i + 2] - np.sin(x[i]) for i in range(len(x) - 2)])


def with_jax(make, x):
    """Calls of ``jacfwd`` and ``jacrev``, and the seconds of their first calls."""
    jax = jax_pinned()
    calls, first = {}, {}
    for name in ("jacfwd", "jacrev"):
        function = jax.jit(getattr(jax, name)(make(jax.numpy)))
        start = perf_counter()
        function(x).block_until_ready()
        first[name] = perf_counter() - start
        calls[name] = lambda function=function: np.asarray(function(x))
    return calls, first


@benchmark(name="jacobians")
def jacobians(quick: bool) -> Iterator[Row]:
    """Jacobian of a banded map in both modes, under jit, beside JAX's jacfwd and jacrev."""
    loops = [] if quick else [("a loop over numbers", by_loop, LENGTH)]
    for what, make, length in (("whole arrays", on_arrays, LENGTH), *loops, ("a loop over numbers", by_loop, SHORT)):
        promised = length == LENGTH
        x = np.random.default_rng(0).uniform(0.1, 0.9, length + 2)
        modes = {mode: tg.jit(tg.jacobian(make(np), mode=mode), kernel="always") for mode in ("forward", "reverse")}
        calls = {mode: lambda function=function: function(x) for mode, function in modes.items()}
        missing, first = "", {}
        try:
            peers, first = with_jax(make, x)
            calls |= peers
        except Missing as reason:
            missing = str(reason)
        check_agreement(f"Jacobian on {what}", {name: call() for name, call in calls.items()})
        times = measure(calls, budget=2.0 if quick else 10.0, at_least=5)
        for mine, other in (("forward", "jacfwd"), ("reverse", "jacrev")):
            title = f"{mine} mode beside JAX's {other}, {what}, n = {length}"
            if missing:
                yield Row(title, f"faster than {other}" if promised else "", limit=1.0 if promised else None, skip=missing)
                continue
            yield Row(
                title,
                f"faster than {other}" if promised else "",
                times[mine].minimum / times[other].minimum,
                1.0 if promised else None,
                detail={f"first call of {other}": f"{first[other]:.2f} s"},
                times={"tapegrad": times[mine], f"JAX {other}": times[other]},
            )
    yield through_one_number(quick)


def through_one_number(quick: bool) -> Row:
    """The map that has a waist."""
    points, x = np.linspace(0.0, 1.0, WAIST), np.linspace(0.1, 0.9, WAIST) / 8

    def narrow(x):
        return np.sum(x * x)

    def wide(s):
        return np.exp(-s * points)

    def compiled(f, mode):
        return tg.jit(tg.jacobian(f, mode=mode), kernel="always")

    row, column = compiled(narrow, "reverse"), compiled(wide, "forward")
    calls = {"product by hand": lambda: np.outer(column(narrow(x)), row(x))}
    for mode in ("auto", "forward", "reverse"):
        calls[mode] = lambda whole=compiled(lambda x: wide(narrow(x)), mode): whole(x)
    for call in calls.values():
        for _ in range(3):
            call()
    check_agreement("Jacobian through one number", {name: call() for name, call in calls.items()})
    times = measure(calls, budget=1.0 if quick else 4.0)
    pure = min(times["forward"].minimum, times["reverse"].minimum)
    return Row(
        f"a map through one number, {WAIST} -> 1 -> {WAIST}, beside the product by hand",
        "at most 1.3 times as long",
        times["auto"].minimum / times["product by hand"].minimum,
        1.3,
        detail={"beside the better pure mode": f"{times['auto'].minimum / pure:.2f}x"},
        times={"tapegrad": times["auto"], "product by hand": times["product by hand"]},
    )

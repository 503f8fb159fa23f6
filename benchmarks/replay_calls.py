"""A call of a gradient that has been recorded, beside the other libraries' calls.

Rosenbrock's function as a Python loop over the elements, with 2, 10 and 1 000
variables; float64 NumPy arrays in and out, as an optimiser would call it.  JAX
and CasADi compile the same loop beforehand; with 1 000 variables JAX's compiler
takes minutes for it, so there JAX gets the vectorised formula.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import tapegrad as tg

from .registry import Missing, Row, benchmark, check_agreement, peer, torch_pinned
from .timing import measure, seconds

CALLS = 20  # in one timed call, with few variables


def rosenbrock(x):
    """The function, as a loop; `x` may be anything with elements."""
    total = 0.0
    for i in range(x.shape[0] - 1):
        total = total + 100.0 * (x[i + 1] - x[i] * x[i]) ** 2 + (1.0 - x[i]) ** 2
    return total


def ours(n: int) -> Callable:
    return tg.value_and_grad(rosenbrock, kernel="never")


def by_jax(n: int) -> Callable:
    jax = peer("jax")
    jax.config.update("jax_enable_x64", True)
    if n <= 10:
        function = rosenbrock
    else:
        def function(x):
            return jax.numpy.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    compiled = jax.jit(jax.value_and_grad(function))

    def call(x):
        value, gradient = compiled(x)
        return value, gradient.block_until_ready()

    return call


def by_torch(n: int) -> Callable:
    torch = torch_pinned()

    def call(x):
        t = torch.tensor(x, requires_grad=True)
        value = rosenbrock(t)
        value.backward()
        return value.item(), t.grad.numpy()

    return call


def by_autograd(n: int) -> Callable:
    return peer("autograd").value_and_grad(rosenbrock)


def by_casadi(n: int) -> Callable:
    casadi = peer("casadi")
    x = casadi.SX.sym("x", n)
    value = rosenbrock(x)
    function = casadi.Function("f", [x], [value, casadi.gradient(value, x)])

    def call(point):
        value, gradient = function(point)
        return float(value), gradient.toarray()[:, 0]

    return call


PEERS = {"JAX jit": by_jax, "PyTorch": by_torch, "HIPS autograd": by_autograd, "CasADi": by_casadi}


def repeated(call: Callable, x: np.ndarray, count: int) -> Callable[[], None]:
    def calls() -> None:
        for _ in range(count):
            call(x)

    return calls


@benchmark(part=4, name="replay_calls")
def replay_calls(quick: bool) -> Iterator[Row]:
    """Value and gradient of Rosenbrock's function with 2, 10 and 1 000 variables, a call."""
    for n in (2, 10, 1000):
        x = np.linspace(0.5, 1.5, n)
        calls, missing = {"tapegrad": ours(n)}, {}
        for name, make in PEERS.items():
            try:
                calls[name] = make(n)
            except Missing as error:
                missing[name] = str(error)
        check_agreement(
            f"gradient with {n} variables", {name: np.asarray(call(x)[1]) for name, call in calls.items()}
        )
        # Some calls are recorded again and compared: past them, as in the course of an optimisation.
        for _ in range(200):
            calls["tapegrad"](x)
        count = CALLS if n <= 10 else 1
        times = measure(
            {name: repeated(call, x, count) for name, call in calls.items()},
            budget=(1.0 if quick else 5.0),
            at_least=3,
        )
        taken = {name: time.per(count) for name, time in times.items()}
        own = taken["tapegrad"]
        detail = missing | {name: seconds(time.minimum) for name, time in taken.items() if name != "tapegrad"}
        if n > 10:
            detail["JAX has"] = "the vectorised formula"
        if n == 2:
            yield Row("2 variables: a call", "at most 4 us", own.minimum * 1e6, 4.0, "us", detail)
            if "JAX jit" in taken:
                ratio = own.minimum / taken["JAX jit"].minimum
                yield Row("2 variables: beside a call of JAX jit", "below it", ratio, 1.0)
            else:
                yield Row("2 variables: beside a call of JAX jit", "below it", limit=1.0, skip=missing["JAX jit"])
        else:
            yield Row(f"{n} variables: a call", measured=own.minimum * 1e6, unit="us", detail=detail)

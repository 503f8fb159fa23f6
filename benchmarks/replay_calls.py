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

from .programs import rosenbrock, rosenbrock_loop
from .registry import Missing, Row, benchmark, check_agreement, each, jax_pinned, peer, ratio, torch_pinned
from .timing import measure

FEW, CALLS = 10, 20  # variables, and calls in one timed call with no more than these


def ours(n: int) -> Callable:
    return tg.jit(tg.value_and_grad(rosenbrock_loop), kernel="never")


def by_jax(n: int) -> Callable:
    jax = jax_pinned()
    compiled = jax.jit(jax.value_and_grad(rosenbrock_loop if n <= FEW else rosenbrock))

    def call(x):
        value, gradient = compiled(x)
        return value, gradient.block_until_ready()

    return call


def by_torch(n: int) -> Callable:
    torch = torch_pinned()

    def call(x):
        t = torch.tensor(x, requires_grad=True)
        value = rosenbrock_loop(t)
        value.backward()
        return value.item(), t.grad.numpy()

    return call


def by_autograd(n: int) -> Callable:
    return peer("autograd").value_and_grad(rosenbrock_loop)


def by_casadi(n: int) -> Callable:
    casadi = peer("casadi")
    x = casadi.SX.sym("x", n)
    value = rosenbrock_loop(x)
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


def with_variables(n: int, quick: bool) -> Iterator[Row]:
    """The rows of one number of variables."""
    x = np.linspace(0.5, 1.5, n)
    calls, missing = {"tapegrad": ours(n)}, {}
    for name, make in PEERS.items():
        try:
            calls[name if n <= FEW else f"{name}, the formula on arrays" if name == "JAX jit" else name] = make(n)
        except Missing as error:
            missing[name] = str(error).removeprefix(name.removesuffix(" jit")).strip()
    check_agreement(f"gradient with {n} variables", {name: np.asarray(call(x)[1]) for name, call in calls.items()})
    count = CALLS if n <= FEW else 1
    taken = measure(
        {name: repeated(call, x, count) for name, call in calls.items()}, budget=(1.0 if quick else 5.0), at_least=3
    )
    times = {name: time.per(count) for name, time in taken.items()}
    own = times["tapegrad"].minimum * 1e6
    if n > 2:
        yield Row(f"{n} variables: a call", "", own, unit="us", detail=missing, times=times)
        return
    yield Row("2 variables: a call", "at most 4 us", own, 4.0, "us", missing, times=times)
    what, promise = "2 variables: beside a call of JAX jit", "below it"
    if "JAX jit" in missing:
        yield Row(what, promise, limit=1.0, skip=f"JAX {missing['JAX jit']}")
    else:
        yield ratio(what, promise, 1.0, times, "JAX jit")


@benchmark(name="replay_calls")
def replay_calls(quick: bool) -> Iterator[Row]:
    """Value and gradient of Rosenbrock's function with 2, 10 and 1 000 variables, a call."""
    yield from each(*((f"{n} variables", lambda n=n: with_variables(n, quick)) for n in (2, 10, 1000)))

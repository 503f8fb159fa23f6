"""Thirty calls, and what each takes, counted: functions of the package, and what is recorded and computed.

    python -m tests.ratchet.calls        # prints the counts as JSON, in a fresh process

No clock and no machine is in the numbers: Python functions of the package that a call runs (comprehensions and generators aside, which Pythons run in different ways),
instructions on its tape, bytes that the tape keeps, and, of kernels, the statements that are run, those in loops as often as these turn.
"""

import gc
import inspect
import json
import os
import sys
from pathlib import Path

import numpy as np

import tapegrad as tg
from tapegrad.kernel import ir

PACKAGE = str(Path(tg.__file__).parent) + os.sep
CALLS = {}
#: Functions of some Pythons; others run them in place, as they resume generators otherwise.
COMPREHENSIONS = {"<listcomp>", "<dictcomp>", "<setcomp>"}


def call(make):
    """Decorator: of what gives a function without arguments, to be called often, or that and what holds a tape or a kernel of it."""
    CALLS[make.__name__] = make
    return make


def functions(run):
    """How many Python functions of the package are called while `run` runs."""
    count = 0

    def profile(frame, event, _):
        nonlocal count
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and not code.co_flags & inspect.CO_GENERATOR and code.co_name not in COMPREHENSIONS:
            count += 1

    gc.collect()
    gc.disable()
    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def turned(body):
    """The statements that a body of a loop program runs; a loop with another extent each time counts as one turn."""
    return sum(1 + (turned(s.body) * (s.extent if isinstance(s.extent, int) else 1) if isinstance(s, ir.Loop) else 0) for s in body)


# ---- define-by-run --------------------------------------------------------------------------------
X, Y, A = np.linspace(0.1, 0.9, 50), np.linspace(0.5, 1.5, 50), np.linspace(0.1, 1.0, 400).reshape(20, 20)


def leaf(value):
    return tg.tensor(value, requires_grad=True)


def chain(x, n=100):
    for _ in range(n):
        x = x * 0.99 + 0.01
    return x


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def layers(w, x):
    return np.sum(np.tanh(w @ np.tanh(w @ x)) ** 2)


@call
def scalar_chain_recorded():
    t = leaf(0.5)
    return lambda: chain(t)


@call
def scalar_chain_backward():
    t = leaf(0.5)
    return lambda: chain(t).backward()


@call
def arrays_backward():
    t = leaf(X)
    return lambda: rosenbrock(t).backward()


@call
def layers_backward():
    w = leaf(A)
    return lambda: layers(w, A[0]).backward()


@call
def elements_backward():
    t = leaf(X)
    return lambda: sum(t[k] * t[k + 1] for k in range(20)).backward()


@call
def write_in_place_backward():
    t = leaf(X)

    def run():
        y = t * 2.0
        y[3:7] = t[:4] ** 2
        y.sum().backward()

    return run


@call
def gradient_of_a_gradient():
    t = leaf(X)

    def run():
        (g,) = tg.autograd.grad(rosenbrock(t), (t,), create_graph=True)
        (g * g).sum().backward()

    return run


@call
def training_step():
    w = leaf(A)
    optimizer = tg.optim.Adam([w], lr=1e-3)

    def run():
        optimizer.zero_grad()
        layers(w, A[0]).backward()
        optimizer.step()

    return run


@call
def numpy_functions_recorded():
    t = leaf(A)
    return lambda: np.linalg.norm(np.einsum("ij,jk->ik", t, t)) + np.mean(np.cumsum(np.concatenate([t, t]), axis=0))


@call
def primitive_backward():
    square = tg.custom_vjp(lambda x: x * x, lambda g, result, x: (2.0 * g * x,))
    t = leaf(X)
    return lambda: square(t).sum().backward()


# ---- transformations, recorded anew -----------------------------------------------------------------
@call
def gradient_recorded():
    return lambda: tg.grad(lambda x: rosenbrock(x))(X)


@call
def hessian_recorded():
    return lambda: tg.hessian(lambda x: rosenbrock(x))(X[:6])


@call
def jvp_at_once():
    return lambda: tg.jvp(rosenbrock, (X,), (Y,))


@call
def jet_at_once():
    return lambda: tg.jet(lambda x: np.sin(x) * np.exp(x), (0.3,), ((1.0, 0.0, 0.0),))


@call
def scan_recorded():
    return lambda: tg.grad(lambda x: tg.scan(lambda c, e: (c * e, c), x[0], x)[0])(X)


@call
def checkpointed():
    return lambda: tg.grad(lambda x: tg.checkpoint(rosenbrock)(x * 1.5))(X)


# ---- transformations, called again ------------------------------------------------------------------
def again(transformed, *args, kernel="never"):
    """A function that is recorded, and what has its tape; or its kernel."""
    jitted = tg.jit(transformed, kernel=kernel)
    for _ in range(3):
        jitted(*args)
    return lambda: jitted(*args), jitted.tape(*args) if kernel == "never" else jitted.kernel(*args)


@call
def gradient_of_scalars_again():
    return again(tg.grad(chain), 0.5)


@call
def gradient_of_scalars_kernel():
    return again(tg.grad(chain), 0.5, kernel="always")


@call
def gradient_of_arrays_again():
    return again(tg.grad(rosenbrock), X)


@call
def gradient_of_arrays_kernel():
    return again(tg.grad(rosenbrock), X, kernel="always")


@call
def gradient_of_layers_kernel():
    return again(tg.grad(layers), A, X[:20], kernel="always")


@call
def value_and_gradient_again():
    return again(tg.value_and_grad(layers), A, X[:20])


@call
def values_kernel():
    return again(lambda x: np.exp(-x * x) / (1.0 + np.abs(x)), X, kernel="always")


@call
def jacobian_again():
    return again(tg.jacobian(lambda x: x[1:] * np.sin(x[:-1])), X[:10])[0]


@call
def hessian_again():
    return again(tg.hessian(rosenbrock), X[:10])[0]


@call
def hvp_again():
    return again(tg.hvp(rosenbrock), X, Y)[0]


@call
def scan_again():
    return again(tg.grad(lambda x: tg.scan(lambda c, e: (c * e + 1.0, c), x[0], x)[0]), X)[0]


@call
def while_loop_again():
    return again(tg.grad(lambda x: tg.while_loop(lambda c: c < 100.0, lambda c: c * x, 1.0)), 1.5)[0]


@call
def vmap_again():
    return again(tg.vmap(tg.grad(lambda x: x * np.sin(x))), X)[0]


@call
def objective_minimized():
    return lambda: tg.optimize.minimize(rosenbrock, X[:4], options={"maxiter": 5})


def counts():
    """What the calls take: ``{"name: what": number}``."""
    found = {}
    for name, make in CALLS.items():
        run, *rest = made if isinstance(made := make(), tuple) else (made,)
        for _ in range(3):
            run()
        found[f"{name}: functions"] = functions(run)
        for held in rest:
            program = getattr(held, "program", None)
            if program is None:
                found[f"{name}: instructions"], found[f"{name}: bytes"] = len(held), held.nbytes
            else:
                found[f"{name}: statements"], found[f"{name}: bytes"] = turned(program.body), held.nbytes
    return found


if __name__ == "__main__":
    print(json.dumps(counts()))

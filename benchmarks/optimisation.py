"""Time to solution: Rosenbrock's function as a plain loop, and a logistic regression.

Everybody starts at the same point and ends where no component of the gradient
is larger than 1e-5; whoever does not come near the solution is no competitor.
"First" is the time from a new function to its first solution (recording or
compiling included; the libraries are imported and have solved another function
before), "warm" that of the same again.

The promise is beside those who are given the loop: CasADi, JAX (by its own
``lax.fori_loop``; it takes minutes to compile the thousand turns of the Python loop),
PyTorch and SciPy by differences, both of which run it in Python and are left out where that takes minutes.  Beside
them are shown JAX and PyTorch with the function rewritten as operations on
arrays, for which they are made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import scipy.optimize

import tapegrad as tg

from .registry import Disagreement, Missing, Row, benchmark, peer, torch_pinned
from .timing import seconds

TOLERANCE = 1e-5

#: ``make()`` prepares a new function, and returns what solves the problem.
Make = Callable[[], Callable[[], np.ndarray]]


def with_scipy(value_and_gradient: Callable, x0: np.ndarray) -> np.ndarray:
    """Solve by SciPy's L-BFGS-B, given value and gradient."""
    options = {"ftol": 0.0, "gtol": TOLERANCE, "maxfun": 10**6, "maxiter": 10**6}
    return scipy.optimize.minimize(value_and_gradient, x0, jac=True, method="L-BFGS-B", options=options).x


def by_differences(f: Callable, x0: np.ndarray) -> np.ndarray:
    """Solve by SciPy's L-BFGS-B, by finite differences; they do not get below their own error."""
    options = {"maxfun": 10**8, "maxiter": 10**6, "ftol": 1e-13}
    return scipy.optimize.minimize(f, x0, method="L-BFGS-B", options=options).x


def torch_solver(loss: Callable, x0: np.ndarray) -> Callable[[], np.ndarray]:
    """PyTorch's L-BFGS with its line search."""
    torch = torch_pinned()

    def solve() -> np.ndarray:
        x = torch.tensor(x0, requires_grad=True)
        optimizer = torch.optim.LBFGS(
            [x], max_iter=10_000, max_eval=100_000, tolerance_grad=TOLERANCE, tolerance_change=1e-14, history_size=10,
            line_search_fn="strong_wolfe",
        )  # fmt: skip

        def closure():
            optimizer.zero_grad()
            value = loss(x)
            value.backward()
            return value

        optimizer.step(closure)
        return x.detach().numpy()

    return solve


# -- Rosenbrock ------------------------------------------------------------------------
def loop_of_rosenbrock() -> Callable:
    """A new function each time: nothing is known of it."""

    def rosenbrock(x):
        total = 0.0
        for i in range(len(x) - 1):
            total = total + 100.0 * (x[i + 1] - x[i] * x[i]) ** 2 + (1.0 - x[i]) ** 2
        return total

    return rosenbrock


def arrays_of_rosenbrock(x):
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


def rosenbrock_solvers(n: int) -> dict[str, Make]:
    x0 = np.full(n, 0.5)

    def by_loop():
        f = loop_of_rosenbrock()
        return lambda: tg.optimize.lbfgs(f, x0, gtol=TOLERANCE, ftol=0.0).x

    def by_scipy():
        f = loop_of_rosenbrock()
        options = {"ftol": 0.0, "gtol": TOLERANCE, "maxfun": 10**6, "maxiter": 10**6}
        return lambda: tg.optimize.minimize(f, x0, method="L-BFGS-B", options=options).x

    def by_jax():
        jax = peer("jax")
        jax.config.update("jax_enable_x64", True)
        # A new function: what is compiled is known by the function.
        g = jax.jit(jax.value_and_grad(lambda x: arrays_of_rosenbrock(x)))
        return lambda: with_scipy(lambda x: tuple(map(np.asarray, g(x))), x0)

    def by_lax():
        jax = peer("jax")
        jax.config.update("jax_enable_x64", True)

        def rosenbrock(x):
            def turn(i, total):
                return total + 100.0 * (x[i + 1] - x[i] * x[i]) ** 2 + (1.0 - x[i]) ** 2

            return jax.lax.fori_loop(0, n - 1, turn, 0.0)

        g = jax.jit(jax.value_and_grad(rosenbrock))
        return lambda: with_scipy(lambda x: tuple(map(np.asarray, g(x))), x0)

    def by_casadi():
        casadi = peer("casadi")
        x = casadi.SX.sym("x", n)
        value = 0.0
        for i in range(n - 1):
            value = value + 100.0 * (x[i + 1] - x[i] * x[i]) ** 2 + (1.0 - x[i]) ** 2
        g = casadi.Function("g", [x], [value, casadi.gradient(value, x)])

        def both(point):
            value, gradient = g(point)
            return float(value), np.asarray(gradient).reshape(-1)

        return lambda: with_scipy(both, x0)

    in_python = {
        "PyTorch L-BFGS": lambda: torch_solver(loop_of_rosenbrock(), x0),
        "SciPy, differences": lambda: lambda: by_differences(loop_of_rosenbrock(), x0),
    }
    if n > 200:
        in_python = {}
    return {
        "tapegrad, compiled loop": by_loop,
        "tapegrad, SciPy's L-BFGS-B": by_scipy,
        "CasADi + SciPy": by_casadi,
        "JAX lax.fori_loop + SciPy": by_lax,
        **in_python,
        "SciPy, differences, arrays": lambda: lambda: by_differences(arrays_of_rosenbrock, x0),
        "JAX + SciPy, arrays": by_jax,
        "PyTorch L-BFGS, arrays": lambda: torch_solver(arrays_of_rosenbrock, x0),
    }


# -- logistic regression ----------------------------------------------------------------
PENALTY = 1e-3


def classes(samples: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    """Points, and their sides as -1 and 1."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(samples, features))
    sides = np.sign(points @ rng.normal(size=features) + rng.normal(size=samples))
    return points, sides


def logistic_solvers(samples: int, features: int) -> dict[str, Make]:
    points, sides = classes(samples, features)
    for array in (points, sides):
        array.flags.writeable = False
    x0 = np.zeros(features)

    def loss_of(numpy, points, sides):
        return lambda w: numpy.mean(numpy.logaddexp(0.0, -sides * (points @ w))) + 0.5 * PENALTY * (w @ w)

    def by_loop():
        f = loss_of(np, points, sides)
        return lambda: tg.optimize.lbfgs(f, x0, gtol=TOLERANCE, ftol=0.0).x

    def by_scipy():
        f = loss_of(np, points, sides)
        options = {"ftol": 0.0, "gtol": TOLERANCE, "maxfun": 10**6, "maxiter": 10**6}
        return lambda: tg.optimize.minimize(f, x0, method="L-BFGS-B", options=options).x

    def by_jax():
        jax = peer("jax")
        jax.config.update("jax_enable_x64", True)
        g = jax.jit(jax.value_and_grad(loss_of(jax.numpy, jax.numpy.asarray(points), jax.numpy.asarray(sides))))
        return lambda: with_scipy(lambda w: tuple(map(np.asarray, g(w))), x0)

    def by_torch():
        torch = torch_pinned()
        a, s = torch.tensor(points), torch.tensor(sides)
        softplus = torch.nn.functional.softplus
        return torch_solver(lambda w: softplus(-s * (a @ w)).mean() + 0.5 * PENALTY * (w @ w), x0)

    def by_casadi():
        casadi = peer("casadi")
        w = casadi.MX.sym("w", features)
        z = -casadi.DM(sides) * casadi.mtimes(casadi.DM(points), w)
        value = casadi.sum1(casadi.log1p(casadi.exp(z))) / samples + 0.5 * PENALTY * casadi.dot(w, w)
        g = casadi.Function("g", [w], [value, casadi.gradient(value, w)])

        def both(point):
            value, gradient = g(point)
            return float(value), np.asarray(gradient).reshape(-1)

        return lambda: with_scipy(both, x0)

    return {
        "tapegrad, compiled loop": by_loop,
        "tapegrad, SciPy's L-BFGS-B": by_scipy,
        "SciPy, differences": lambda: lambda: by_differences(loss_of(np, points, sides), x0),
        "JAX + SciPy": by_jax,
        "PyTorch L-BFGS": by_torch,
        "CasADi + SciPy": by_casadi,
    }


# -- measuring -----------------------------------------------------------------------
def timed(makes: dict[str, Make], exact: np.ndarray, repeats: int) -> tuple[dict[str, float], dict[str, float], list[str]]:
    """Seconds to the first solution and to another one, by name; and who is not there."""
    first, warm, missing = {}, {}, []
    for name, make in makes.items():
        try:
            make()()
        except Missing as reason:
            missing.append(str(reason))
            continue
        firsts, again = [], []
        for _ in range(repeats):
            start = time.perf_counter()
            solve = make()
            found = solve()
            firsts.append(time.perf_counter() - start)
            error = float(np.max(np.abs(found - exact)))
            if not error <= 2e-3:
                raise Disagreement(f"{name} ends {error:.2g} from the solution")
            for _ in range(3):
                start = time.perf_counter()
                solve()
                again.append(time.perf_counter() - start)
        first[name], warm[name] = min(firsts), min(again)
    return first, warm, missing


def rows(problem: str, makes: dict[str, Make], exact: np.ndarray, times: float, repeats: int) -> Iterator[Row]:
    """What was promised of a problem, and what was measured: for both ways of tapegrad, the first time and warm."""
    first, warm, missing = timed(makes, exact, repeats)
    ours = [name for name in first if name.startswith("tapegrad")]
    # Those that were given the function rewritten are shown, and no part of the promise.
    others = [name for name in first if name not in ours and not name.endswith(", arrays")]
    factor = f", by {times:g} x" if times > 1 else ""
    for when, measured in (("first solution", first), ("warm", warm)):
        best = min(others, key=measured.get)
        detail = {name: seconds(measured[name]) for name in sorted(measured, key=measured.get)}
        yield Row(
            f"{problem}, {when}: compiled loop beside the fastest other", f"first of all{factor}",
            measured[ours[0]] / measured[best], 1.0 / times, detail={"fastest other": best, **detail},
        )  # fmt: skip
        yield Row(f"{problem}, {when}: tapegrad's SciPy drive beside it", "first of all", measured[ours[1]] / measured[best], 1.0)
        rewritten = [name for name in first if name.endswith(", arrays")]
        if rewritten:
            best = min(rewritten, key=measured.get)
            yield Row(f"{problem}, {when}: compiled loop beside {best}", measured=measured[ours[0]] / measured[best])
    for reason in missing:
        yield Row(f"{problem}: another competitor", skip=reason)


@benchmark(part=8, name="optimisation")
def optimisation(quick: bool) -> Iterator[Row]:
    """Time to solution of two optimisations, beside SciPy, JAX, PyTorch and CasADi."""
    n = 100 if quick else 1000
    repeats = 1 if quick else 5
    yield from rows(f"Rosenbrock as a loop, n = {n}", rosenbrock_solvers(n), np.ones(n), 3.0, repeats)
    samples, features = (500, 10) if quick else (2000, 30)
    solvers = logistic_solvers(samples, features)
    points, sides = classes(samples, features)

    def both(w):
        z = -sides * (points @ w)
        value = np.mean(np.logaddexp(0.0, z)) + 0.5 * PENALTY * (w @ w)
        return value, points.T @ (-sides / (1.0 + np.exp(-z))) / samples + PENALTY * w

    exact = scipy.optimize.minimize(both, np.zeros(features), jac=True, method="L-BFGS-B", options={"ftol": 0.0, "gtol": 1e-10}).x
    yield from rows(f"logistic regression, {samples} x {features}", solvers, exact, 1.0, repeats)

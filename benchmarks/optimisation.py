"""Time to solution: Rosenbrock's function and differential equations as plain loops, a logistic regression, a mixture.

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


# -- hares and lynxes -------------------------------------------------------------------
def lynx_hare_solvers() -> dict[str, Make]:
    """The model of the demo, whose loop has 200 steps of Runge and Kutta."""
    from tapegrad import demo

    _, hares, lynxes = demo.read_pelts()
    x0 = demo.first_guess(hares, lynxes)
    logs = np.log(np.stack([hares, lynxes]))
    centers = np.array([np.log(10.0), np.log(10.0), -1.0, -1.0])

    def new():
        """A new function each time: nothing is known of it."""
        return lambda theta: demo.misfit(theta, hares, lynxes)

    def by_loop():
        f = new()
        return lambda: tg.optimize.lbfgs(f, x0, gtol=TOLERANCE, ftol=0.0).x

    def by_scipy():
        f = new()
        options = {"ftol": 0.0, "gtol": TOLERANCE, "maxfun": 10**6, "maxiter": 10**6}
        return lambda: tg.optimize.minimize(f, x0, method="L-BFGS-B", options=options).x

    def by_lax():
        jax = peer("jax")
        jax.config.update("jax_enable_x64", True)
        jnp = jax.numpy

        def misfit(theta):
            alpha, beta, gamma, delta = (rates := jnp.exp(theta[:4]))
            total = ((alpha - 1.0) / 0.5) ** 2 / 2 + ((gamma - 1.0) / 0.5) ** 2 / 2
            total = total + ((beta - 0.05) / 0.05) ** 2 / 2 + ((delta - 0.05) / 0.05) ** 2 / 2
            total = total + jnp.sum((theta[4:] - centers) ** 2) / 2

            def turn(at, _):
                return demo.step(*at, rates, 1 / demo.STEPS_PER_YEAR), None

            def year(at, seen):
                part = sum(((s - jnp.log(a)) / jnp.exp(w)) ** 2 / 2 + w for s, a, w in zip(seen, at, (theta[6], theta[7])))
                return jax.lax.scan(turn, at, None, length=demo.STEPS_PER_YEAR)[0], part

            _, parts = jax.lax.scan(year, (jnp.exp(theta[4]), jnp.exp(theta[5])), jnp.asarray(logs.T))
            return total + jnp.sum(parts)

        g = jax.jit(jax.value_and_grad(misfit))
        return lambda: with_scipy(lambda x: tuple(map(np.asarray, g(x))), x0)

    def by_casadi():
        casadi = peer("casadi")
        theta = casadi.SX.sym("theta", 8)
        value = written_out(theta, casadi.exp, casadi.log)
        g = casadi.Function("g", [theta], [value, casadi.gradient(value, theta)])

        def both(point):
            value, gradient = g(point)
            return float(value), np.asarray(gradient).reshape(-1)

        return lambda: with_scipy(both, x0)

    def by_torch():
        torch = torch_pinned()
        return torch_solver(lambda theta: written_out(theta, torch.exp, torch.log), x0)

    def written_out(theta, exp, log):
        """`demo.misfit` in the operations of another library."""
        alpha, beta, gamma, delta, u, v = [exp(theta[i]) for i in range(6)]
        total = ((alpha - 1.0) / 0.5) ** 2 / 2 + ((gamma - 1.0) / 0.5) ** 2 / 2
        total = total + ((beta - 0.05) / 0.05) ** 2 / 2 + ((delta - 0.05) / 0.05) ** 2 / 2
        for i in range(4):
            total = total + (theta[4 + i] - float(centers[i])) ** 2 / 2
        wide, narrow = exp(theta[6]), exp(theta[7])
        for k in range(logs.shape[1]):
            total = total + ((float(logs[0, k]) - log(u)) / wide) ** 2 / 2 + theta[6]
            total = total + ((float(logs[1, k]) - log(v)) / narrow) ** 2 / 2 + theta[7]
            for _ in range(demo.STEPS_PER_YEAR if k + 1 < logs.shape[1] else 0):
                u, v = demo.step(u, v, (alpha, beta, gamma, delta), 1 / demo.STEPS_PER_YEAR)
        return total

    return {
        "tapegrad, compiled loop": by_loop,
        "tapegrad, SciPy's L-BFGS-B": by_scipy,
        "CasADi + SciPy": by_casadi,
        "JAX lax.scan + SciPy": by_lax,
        "PyTorch L-BFGS": by_torch,
        "SciPy, differences": lambda: lambda: by_differences(new(), x0),
    }


# -- a mixture of Gaussians -------------------------------------------------------------
def mixture_solvers(samples: int, components: int) -> dict[str, Make]:
    """Maximum likelihood of weights, means and widths of Gaussians on a line."""
    points = groups(samples, components)
    points.flags.writeable = False
    x0 = np.concatenate([np.zeros(components), np.quantile(points, (np.arange(components) + 0.5) / components), np.zeros(components)])

    def likelihood_of(numpy, points):
        def negative_log_likelihood(x):
            logits, means, log_widths = x[:components], x[components : 2 * components], x[2 * components :]
            # Only differences of logits matter: the small square chooses among them.
            white = (points[:, None] - means) * numpy.exp(-log_widths)
            logs = logits - numpy.log(numpy.sum(numpy.exp(logits))) - log_widths - 0.5 * white * white
            return -numpy.mean(numpy.log(numpy.sum(numpy.exp(logs), 1))) + 0.5e-3 * numpy.sum(logits * logits)

        return negative_log_likelihood

    def by_loop():
        f = likelihood_of(np, points)
        return lambda: tg.optimize.lbfgs(f, x0, gtol=TOLERANCE, ftol=0.0).x

    def by_scipy():
        f = likelihood_of(np, points)
        options = {"ftol": 0.0, "gtol": TOLERANCE, "maxfun": 10**6, "maxiter": 10**6}
        return lambda: tg.optimize.minimize(f, x0, method="L-BFGS-B", options=options).x

    def by_jax():
        jax = peer("jax")
        jax.config.update("jax_enable_x64", True)
        g = jax.jit(jax.value_and_grad(likelihood_of(jax.numpy, jax.numpy.asarray(points))))
        return lambda: with_scipy(lambda x: tuple(map(np.asarray, g(x))), x0)

    def by_torch():
        torch = torch_pinned()
        return torch_solver(likelihood_of(torch, torch.tensor(points)), x0)

    def by_casadi():
        casadi = peer("casadi")
        x = casadi.MX.sym("x", 3 * components)
        logits, means, log_widths = x[:components], x[components : 2 * components], x[2 * components :]
        density = 0.0
        weights = casadi.exp(logits) / casadi.sum1(casadi.exp(logits))
        for k in range(components):
            white = (casadi.DM(points) - means[k]) * casadi.exp(-log_widths[k])
            density = density + weights[k] * casadi.exp(-log_widths[k] - 0.5 * white * white)
        value = -casadi.sum1(casadi.log(density)) / samples + 0.5e-3 * casadi.dot(logits, logits)
        g = casadi.Function("g", [x], [value, casadi.gradient(value, x)])

        def both(point):
            value, gradient = g(point)
            return float(value), np.asarray(gradient).reshape(-1)

        return lambda: with_scipy(both, x0)

    return {
        "tapegrad, compiled loop": by_loop,
        "tapegrad, SciPy's L-BFGS-B": by_scipy,
        "SciPy, differences": lambda: lambda: by_differences(likelihood_of(np, points), x0),
        "JAX + SciPy": by_jax,
        "PyTorch L-BFGS": by_torch,
        "CasADi + SciPy": by_casadi,
    }


def groups(samples: int, components: int) -> np.ndarray:
    """Points in groups on a line, wide enough apart to be told from each other."""
    rng = np.random.default_rng(1)
    return np.concatenate([4.0 * k + (0.6 + 0.2 * (k % 3)) * rng.normal(size=samples // components) for k in range(components)])


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
        firsts = []
        for _ in range(repeats):
            start = time.perf_counter()
            solve = make()
            found = solve()
            firsts.append(time.perf_counter() - start)
            error = float(np.max(np.abs(found - exact)))
            if not error <= 2e-3:
                raise Disagreement(f"{name} ends {error:.2g} from the solution")
        first[name], warm[name] = min(firsts), once_more(solve)
    return first, warm, missing


#: Seconds, and solutions, to look for the shortest: functions of ours that are evaluated often become machine code meanwhile.
WARMING = 3.0, 100


def once_more(solve: Callable) -> float:
    """Least seconds of another solution, when the solver is warm."""
    found, begin, turns = np.inf, time.perf_counter(), 0
    while turns < 1 or turns < WARMING[1] and time.perf_counter() < begin + WARMING[0]:
        start = time.perf_counter()
        solve()
        found = min(found, time.perf_counter() - start)
        turns += 1
    return found


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


def stationary(f: Callable, found: np.ndarray) -> np.ndarray:
    """`found`, made exact by Newton steps with central differences of plain evaluations: nobody's derivatives."""
    h, eye = 1e-4, np.eye(len(found))

    def gradient(x):
        return np.array([(8 * (f(x + h * e) - f(x - h * e)) - (f(x + 2 * h * e) - f(x - 2 * h * e))) / (12 * h) for e in eye])

    for _ in range(3):
        hessian = np.array([(gradient(found + h * e) - gradient(found - h * e)) / (2 * h) for e in eye])
        found = found - np.linalg.solve((hessian + hessian.T) / 2, gradient(found))
    return found


@benchmark(part=8, name="optimisation")
def optimisation(quick: bool) -> Iterator[Row]:
    """Time to solution of four optimisations, beside SciPy, JAX, PyTorch and CasADi."""
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

    from tapegrad import demo

    pelts = demo.read_pelts()[1:]
    solvers = lynx_hare_solvers()
    near = by_differences(lambda theta: demo.misfit(theta, *pelts), demo.first_guess(*pelts))
    exact = stationary(lambda theta: demo.misfit(theta, *pelts), near)
    yield from rows("hares and lynxes, 200 Runge-Kutta steps", solvers, exact, 3.0, min(repeats, 2))

    samples, components = (300, 3) if quick else (3000, 4)
    solvers = mixture_solvers(samples, components)
    exact = solvers["SciPy, differences"]()()
    yield from rows(f"mixture of {components} Gaussians, {samples} points", solvers, exact, 1.0, repeats)

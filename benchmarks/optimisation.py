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

from . import timing
from .programs import rosenbrock, rosenbrock_loop
from .registry import Disagreement, Missing, Row, benchmark, each, jax_pinned, peer, torch_pinned
from .timing import Time

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


def compiled_loop(f: Callable, x0: np.ndarray) -> Callable[[], np.ndarray]:
    """Ours, that never returns to Python between steps."""
    return lambda: tg.optimize.lbfgs(f, x0, gtol=TOLERANCE, ftol=0.0).x


def scipy_drive(f: Callable, x0: np.ndarray) -> Callable[[], np.ndarray]:
    """SciPy's L-BFGS-B, called by us."""
    options = {"ftol": 0.0, "gtol": TOLERANCE, "maxfun": 10**6, "maxiter": 10**6}
    return lambda: tg.optimize.minimize(f, x0, method="L-BFGS-B", options=options).x


def jax_solver(f: Callable, x0: np.ndarray) -> Callable[[], np.ndarray]:
    """SciPy's L-BFGS-B, by JAX's value and gradient; `f` is a new function: what is compiled is known by it."""
    jax = jax_pinned()
    g = jax.jit(jax.value_and_grad(f))
    return lambda: with_scipy(lambda x: tuple(map(np.asarray, g(x))), x0)


def casadi_solver(x, value, x0: np.ndarray) -> Callable[[], np.ndarray]:
    """SciPy's L-BFGS-B, by CasADi's value and gradient of an expression of `x`."""
    casadi = peer("casadi")
    g = casadi.Function("g", [x], [value, casadi.gradient(value, x)])

    def both(point):
        value, gradient = g(point)
        return float(value), np.asarray(gradient).reshape(-1)

    return lambda: with_scipy(both, x0)


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
    return lambda x: rosenbrock_loop(x)


def rosenbrock_solvers(n: int) -> dict[str, Make]:
    x0 = np.full(n, 0.5)

    def by_lax():
        jax = jax_pinned()

        def by_turns(x):
            def turn(i, total):
                return total + 100.0 * (x[i + 1] - x[i] * x[i]) ** 2 + (1.0 - x[i]) ** 2

            return jax.lax.fori_loop(0, n - 1, turn, 0.0)

        return jax_solver(by_turns, x0)

    def by_casadi():
        casadi = peer("casadi")
        x = casadi.SX.sym("x", n)
        return casadi_solver(x, rosenbrock_loop(x), x0)

    in_python = {
        "PyTorch L-BFGS": lambda: torch_solver(loop_of_rosenbrock(), x0),
        "SciPy, differences": lambda: lambda: by_differences(loop_of_rosenbrock(), x0),
    }
    if n > 200:
        in_python = {}
    return {
        "tapegrad, compiled loop": lambda: compiled_loop(loop_of_rosenbrock(), x0),
        "tapegrad, SciPy's L-BFGS-B": lambda: scipy_drive(loop_of_rosenbrock(), x0),
        "CasADi + SciPy": by_casadi,
        "JAX lax.fori_loop + SciPy": by_lax,
        **in_python,
        "SciPy, differences, arrays": lambda: lambda: by_differences(rosenbrock, x0),
        "JAX + SciPy, arrays": lambda: jax_solver(lambda x: rosenbrock(x), x0),
        "PyTorch L-BFGS, arrays": lambda: torch_solver(rosenbrock, x0),
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

    def by_jax():
        jax = jax_pinned()
        return jax_solver(loss_of(jax.numpy, jax.numpy.asarray(points), jax.numpy.asarray(sides)), x0)

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
        return casadi_solver(w, value, x0)

    return {
        "tapegrad, compiled loop": lambda: compiled_loop(loss_of(np, points, sides), x0),
        "tapegrad, SciPy's L-BFGS-B": lambda: scipy_drive(loss_of(np, points, sides), x0),
        "SciPy, differences": lambda: lambda: by_differences(loss_of(np, points, sides), x0),
        "JAX + SciPy": by_jax,
        "PyTorch L-BFGS": by_torch,
        "CasADi + SciPy": by_casadi,
    }


# -- hares and lynxes -------------------------------------------------------------------
def lynx_hare_solvers() -> dict[str, Make]:
    """The model of the demo, whose loop has 200 steps of Runge and Kutta."""
    from tapegrad.tools import demo

    _, hares, lynxes = demo.read_pelts()
    x0 = demo.first_guess(hares, lynxes)
    logs = np.log(np.stack([hares, lynxes]))
    centers = np.array([np.log(10.0), np.log(10.0), -1.0, -1.0])

    def new():
        """A new function each time: nothing is known of it."""
        return lambda theta: demo.misfit(theta, hares, lynxes)

    def by_lax():
        jax = jax_pinned()
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

        return jax_solver(misfit, x0)

    def by_casadi():
        casadi = peer("casadi")
        theta = casadi.SX.sym("theta", 8)
        value = written_out(theta, casadi.exp, casadi.log)
        return casadi_solver(theta, value, x0)

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
        "tapegrad, compiled loop": lambda: compiled_loop(new(), x0),
        "tapegrad, SciPy's L-BFGS-B": lambda: scipy_drive(new(), x0),
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
    means = np.quantile(points, (np.arange(components) + 0.5) / components)
    x0 = np.concatenate([np.zeros(components), means, np.zeros(components)])

    def likelihood_of(numpy, points):
        def negative_log_likelihood(x):
            logits, means, log_widths = x[:components], x[components : 2 * components], x[2 * components :]
            # Only differences of logits matter: the small square chooses among them.
            white = (points[:, None] - means) * numpy.exp(-log_widths)
            logs = logits - numpy.log(numpy.sum(numpy.exp(logits))) - log_widths - 0.5 * white * white
            return -numpy.mean(numpy.log(numpy.sum(numpy.exp(logs), 1))) + 0.5e-3 * numpy.sum(logits * logits)

        return negative_log_likelihood

    def by_jax():
        jax = jax_pinned()
        return jax_solver(likelihood_of(jax.numpy, jax.numpy.asarray(points)), x0)

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
        return casadi_solver(x, value, x0)

    return {
        "tapegrad, compiled loop": lambda: compiled_loop(likelihood_of(np, points), x0),
        "tapegrad, SciPy's L-BFGS-B": lambda: scipy_drive(likelihood_of(np, points), x0),
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
def timed(makes: dict[str, Make], exact: np.ndarray, repeats: int) -> tuple[dict[str, Time], dict[str, Time], list[str]]:
    """What the first solution and another one take, by name; and who is not there."""
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
        first[name], warm[name] = timing.of(firsts), once_more(solve)
    return first, warm, missing


#: Seconds, and solutions, to look for the shortest: functions of ours that are evaluated often become machine code meanwhile.
WARMING = 3.0, 100


def once_more(solve: Callable) -> Time:
    """What another solution takes, when the solver is warm."""
    taken, begin = [], time.perf_counter()
    while not taken or len(taken) < WARMING[1] and time.perf_counter() < begin + WARMING[0]:
        start = time.perf_counter()
        solve()
        taken.append(time.perf_counter() - start)
    return timing.of(taken)


def rows(problem: str, makes: dict[str, Make], exact: np.ndarray, times: float, repeats: int) -> Iterator[Row]:
    """What was promised of a problem, and what was measured: for both ways of tapegrad, the first time and warm."""
    first, warm, missing = timed(makes, exact, repeats)
    ours = [name for name in first if name.startswith("tapegrad")]
    # Those that were given the function rewritten are shown, and no part of the promise.
    rewritten = [name for name in first if name.endswith(", arrays")]
    others = [name for name in first if name not in ours and name not in rewritten]
    factor = f", by {times:g} x" if times > 1 else ""
    for when, measured in (("first solution", first), ("warm", warm)):
        least = {name: time.minimum for name, time in measured.items()}
        if not others:
            what = f"{problem}, {when}: compiled loop beside the fastest other"
            yield Row(what, f"first of all{factor}", limit=1.0 / times, skip="no competitor is installed")
            continue
        best = min(others, key=least.get)
        mine, drive = (least[name] / least[best] for name in ours)
        yield Row(
            f"{problem}, {when}: compiled loop beside the fastest other", f"first of all{factor}", mine, 1.0 / times,
            detail={"fastest other": best}, times={name: measured[name] for name in sorted(measured, key=least.get)},
        )  # fmt: skip
        yield Row(f"{problem}, {when}: tapegrad's SciPy drive beside it", "first of all", drive, 1.0)
        if rewritten:
            best = min(rewritten, key=least.get)
            yield Row(f"{problem}, {when}: compiled loop beside {best}", measured=least[ours[0]] / least[best])
    for reason in dict.fromkeys(missing):
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


def by_rosenbrock(quick: bool) -> Iterator[Row]:
    n = 100 if quick else 1000
    yield from rows(f"Rosenbrock as a loop, n = {n}", rosenbrock_solvers(n), np.ones(n), 3.0, 3 if quick else 5)


def by_logistic(quick: bool) -> Iterator[Row]:
    samples, features = (500, 10) if quick else (2000, 30)
    points, sides = classes(samples, features)

    def both(w):
        z = -sides * (points @ w)
        value = np.mean(np.logaddexp(0.0, z)) + 0.5 * PENALTY * (w @ w)
        return value, points.T @ (-sides / (1.0 + np.exp(-z))) / samples + PENALTY * w

    exact = scipy.optimize.minimize(both, np.zeros(features), jac=True, method="L-BFGS-B", options={"ftol": 0.0, "gtol": 1e-10}).x
    solvers = logistic_solvers(samples, features)
    yield from rows(f"logistic regression, {samples} x {features}", solvers, exact, 1.0, 3 if quick else 5)


def by_lynx_hare(quick: bool) -> Iterator[Row]:
    from tapegrad.tools import demo

    pelts = demo.read_pelts()[1:]
    near = by_differences(lambda theta: demo.misfit(theta, *pelts), demo.first_guess(*pelts))
    exact = stationary(lambda theta: demo.misfit(theta, *pelts), near)
    yield from rows("hares and lynxes, 200 Runge-Kutta steps", lynx_hare_solvers(), exact, 3.0, 1 if quick else 2)


def by_mixture(quick: bool) -> Iterator[Row]:
    samples, components = (300, 3) if quick else (3000, 4)
    solvers = mixture_solvers(samples, components)
    exact = solvers["SciPy, differences"]()()
    yield from rows(f"mixture of {components} Gaussians, {samples} points", solvers, exact, 1.0, 3 if quick else 5)


@benchmark(name="optimisation")
def optimisation(quick: bool) -> Iterator[Row]:
    """Time to solution of four optimisations, beside SciPy, JAX, PyTorch and CasADi."""
    problems = {
        "Rosenbrock": by_rosenbrock, "logistic regression": by_logistic, "hares and lynxes": by_lynx_hare, "mixture": by_mixture
    }  # fmt: skip
    yield from each(*((name, lambda rows=rows: rows(quick)) for name, rows in problems.items()))

"""The command line: ``python -m tapegrad demo``, ``info``, ``supported``, ``reference``, ``compare``, ``calibrate``.

`demo` is the library's main job at its smallest: a model written as a plain
Python loop, one gradient by ``backward()`` per evaluation, and an optimiser
that uses it.  It reads a table that is shipped with the package, so it works
right after ``pip install .``.

The model is that of Lotka and Volterra for hares u and lynxes v,

    u' = (alpha - beta v) u,        v' = (-gamma + delta u) v,

stepped by the classical Runge-Kutta method.  The pelts counted in a year are
taken to scatter log-normally around u and v.  The eight unknowns (four rates,
two initial sizes, two widths of the scatter) are positive, so their logarithms
are what is fitted.  The priors are weak ones, those of the Bayesian analysis
the demo compares itself with.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from importlib import resources
from typing import Any

import numpy as np

import tapegrad as tg

from .compare_command import add_commands

NAMES = ("alpha", "beta", "gamma", "delta", "hares in 1900", "lynxes in 1900")
NAMES += ("scatter of hares", "scatter of lynxes")

#: Posterior means of the rates in "Predator-Prey Population Dynamics: the
#: Lotka-Volterra model in Stan" (Bob Carpenter, 2018), from the same table.
PUBLISHED = {"alpha": 0.55, "beta": 0.028, "gamma": 0.80, "delta": 0.024}

STEPS_PER_YEAR = 10


def read_pelts() -> tuple[list[int], np.ndarray, np.ndarray]:
    """Read the years and the pelts of hares and of lynxes, in thousands."""
    path = resources.files("tapegrad") / "data" / "hudson_bay_lynx_hare.csv"
    with path.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    years = [int(row["year"]) for row in rows]
    hares = np.array([float(row["hare"]) for row in rows])
    lynxes = np.array([float(row["lynx"]) for row in rows])
    return years, hares, lynxes


def first_guess(hares: np.ndarray, lynxes: np.ndarray) -> np.ndarray:
    """Read off where to start the search, as logarithms in the order of `NAMES`.

    Small cycles take 2 pi / sqrt(alpha gamma) years, about ten here, around
    the sizes gamma / delta and alpha / beta, the means of the counts.
    """
    rate = 2 * np.pi / 10
    guess = [rate, rate / lynxes.mean(), rate, rate / hares.mean(), hares[0], lynxes[0], 0.5, 0.5]
    return np.log(guess)


def runge_kutta_step(u: Any, v: Any, rates: tuple, h: float) -> tuple[Any, Any]:
    """Advance both populations by a time `h`."""
    alpha, beta, gamma, delta = rates

    def slope(u, v):
        return (alpha - beta * v) * u, (delta * u - gamma) * v

    u1, v1 = slope(u, v)
    u2, v2 = slope(u + h / 2 * u1, v + h / 2 * v1)
    u3, v3 = slope(u + h / 2 * u2, v + h / 2 * v2)
    u4, v4 = slope(u + h * u3, v + h * v3)
    return (
        u + h / 6 * (u1 + 2 * u2 + 2 * u3 + u4),
        v + h / 6 * (v1 + 2 * v2 + 2 * v3 + v4),
    )


def misfit(theta: Any, hares: np.ndarray, lynxes: np.ndarray) -> Any:
    """Negative log-density of data and parameters, up to a constant.

    Parameters
    ----------
    theta : tensor or numpy.ndarray
        Logarithms of the eight unknowns, in the order of `NAMES`.
    hares, lynxes : numpy.ndarray
        Pelts counted, one number a year.
    """
    positive = np.exp(theta)
    alpha, beta, gamma, delta, u, v, scatter_u, scatter_v = [positive[i] for i in range(8)]
    log_hares, log_lynxes = np.log(hares), np.log(lynxes)

    total = ((alpha - 1.0) / 0.5) ** 2 / 2 + ((gamma - 1.0) / 0.5) ** 2 / 2
    total = total + ((beta - 0.05) / 0.05) ** 2 / 2 + ((delta - 0.05) / 0.05) ** 2 / 2
    for i, center in ((4, np.log(10.0)), (5, np.log(10.0)), (6, -1.0), (7, -1.0)):
        total = total + (theta[i] - center) ** 2 / 2

    for year in range(len(hares)):
        if year > 0:
            for _ in range(STEPS_PER_YEAR):
                u, v = runge_kutta_step(u, v, (alpha, beta, gamma, delta), 1 / STEPS_PER_YEAR)
        total = total + ((log_hares[year] - np.log(u)) / scatter_u) ** 2 / 2 + theta[6]
        total = total + ((log_lynxes[year] - np.log(v)) / scatter_v) ** 2 / 2 + theta[7]
    return total


def demo(options: argparse.Namespace) -> int:
    """Fit the model to the pelts and print what came out; 0 if it is as published."""
    from scipy.optimize import minimize

    years, hares, lynxes = read_pelts()
    start_point = first_guess(hares, lynxes)
    evaluations = []

    def value_and_gradient(point: np.ndarray) -> tuple[float, np.ndarray]:
        began = time.perf_counter()
        theta = tg.tensor(point, requires_grad=True)
        loss = misfit(theta, hares, lynxes)
        loss.backward()
        evaluations.append(time.perf_counter() - began)
        return loss.item(), theta.grad.numpy().copy()

    print(f"Hares and lynxes of Hudson Bay, {years[0]}-{years[-1]}: fitting Lotka-Volterra")
    print("by L-BFGS, with gradients from loss.backward() through a plain Python loop of")
    print(f"{STEPS_PER_YEAR * (len(years) - 1)} Runge-Kutta steps.\n")
    began = time.perf_counter()
    result = minimize(
        value_and_gradient, start_point, jac=True, method="L-BFGS-B", options={"maxiter": 500}
    )
    seconds = time.perf_counter() - began

    fitted = dict(zip(NAMES, np.exp(result.x)))
    print(f"{'':18}{'fitted':>10}{'published':>12}")
    for name, value in fitted.items():
        beside = f"{PUBLISHED[name]:12.3f}" if name in PUBLISHED else ""
        print(f"{name:18}{value:10.4f}{beside}")

    direction = np.random.default_rng(0).normal(size=start_point.size)
    _, gradient = value_and_gradient(start_point)
    by_tape = float(gradient @ direction)
    h = 1e-6
    ahead, behind = start_point + h * direction, start_point - h * direction
    difference = misfit(ahead, hares, lynxes) - misfit(behind, hares, lynxes)
    by_difference = float(difference) / (2 * h)
    print(f"\ngradient at the start, along a random direction: {by_tape:.8g}")
    print(f"by a central difference:                         {by_difference:.8g}")

    median = 1e3 * float(np.median(evaluations))
    print(f"\nfirst value and gradient {evaluations[0]:.2f} s, later ones {median:.1f} ms each;")
    print(f"{result.nfev} of them in the fit, which took {seconds:.2f} s in all")

    near = all(abs(fitted[name] / value - 1) < 0.1 for name, value in PUBLISHED.items())
    same_slope = abs(by_tape / by_difference - 1) < 1e-5
    if result.success and near and same_slope:
        return 0
    print(f"\nthis is not the expected result ({result.message})", file=sys.stderr)
    return 1


def info(options: argparse.Namespace) -> int:
    """Print versions and where compiled code is kept."""
    facts = tg.info()
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:<{width}}  {value}")
    return 0


def supported(options: argparse.Namespace) -> int:
    """Print the list of supported functions, the page docs/supported.md."""
    from .supported import page

    print(page(), end="")
    return 0


def reference(options: argparse.Namespace) -> int:
    """Print the reference, the page docs/reference.md."""
    from .reference import page

    print(page(), end="")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run one subcommand; the return value is the exit code of the process."""
    parser = argparse.ArgumentParser(
        prog="python -m tapegrad",
        description="Gradients of plain Python and NumPy code, from a flat tape.",
        epilog=(
            "In a program of your own:\n\n"
            "    import numpy as np\n"
            "    import tapegrad as tg\n\n"
            "    x = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)\n"
            "    y = np.sum(np.sin(x) * x)    # computed at once, and written on the tape\n"
            "    y.backward()                 # the tape is walked from its end\n"
            "    print(x.grad)                # dy/dx\n"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser(
        "demo",
        help="fit an ecological model to real data by loss.backward() (a few seconds)",
        description=(
            "Fits the predator-prey model of Lotka and Volterra to the pelts of hares and "
            "lynxes collected from 1900 to 1920, prints the parameters beside published "
            "ones, checks the gradient against a difference, and says how long it took. "
            "The first run on a machine takes longer: it compiles the sweeps once."
        ),
    ).set_defaults(run=demo)
    commands.add_parser(
        "info",
        help="print versions and where compiled code is kept (for bug reports)",
        description="Prints versions and where compiled code is kept; paste it into bug reports.",
    ).set_defaults(run=info)
    commands.add_parser(
        "supported",
        help="print every supported and every refused function (docs/supported.md)",
        description="Prints the list of functions and primitives, made from the rules table.",
    ).set_defaults(run=supported)
    commands.add_parser(
        "reference",
        help="print the reference, made from the docstrings (docs/reference.md)",
        description="Prints the docstrings of all public names as one page.",
    ).set_defaults(run=reference)
    add_commands(commands)
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())

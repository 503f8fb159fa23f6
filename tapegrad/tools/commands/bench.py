"""``python -m tapegrad bench``: what derivatives cost on this machine, with what is installed.

Three functions of the kinds people write: a loop over numbers, operations on arrays, and
differential equations stepped in a loop (the one of the demo).  Each is evaluated in plain
Python, and differentiated plainly, by sweep, by machine code, and by SciPy's finite differences.
The longer measurements beside other libraries are those of the repository's ``benchmarks/``.
"""

from __future__ import annotations

import time

import numpy as np

from ...common.printing import table
from ...common.uninterrupted import imported
from ...transforms.functional import jit, value_and_grad
from ..comparing.compare import seconds_text, write_json
from ..demo import first_guess, misfit, read_pelts

DESCRIPTION = """\
Measures value and gradient of three functions: a Python loop over numbers, a logistic
regression on arrays, and the differential equations of the demo. Beside the plain
evaluation stand a call of tg.value_and_grad, which runs the function; calls under tg.jit,
by sweep and by machine code (kernel="never", "always"); and SciPy's finite differences.
"""

EPILOG = """\
examples:
  python -m tapegrad bench
  python -m tapegrad bench --seconds 0.2
  python -m tapegrad bench --json - | python -m json.tool

exit codes: 0 if all gradients agree with finite differences, 1 if one does not
"""

#: How near finite differences have to be, relative to the largest component.
TOLERANCE = 1e-4

HEAD = ("function", "inputs", "value", "plain call", "by sweep", "by kernel", "differences", "faster", "disagreement")


def functions():
    """(name, function, point) of each function."""
    _, hares, lynxes = read_pelts()
    rng = np.random.default_rng(0)
    points, weights = rng.normal(size=(1000, 20)), rng.normal(size=20)
    sides = np.sign(points @ weights + rng.normal(size=1000))

    def rosenbrock(x):
        total = 0.0
        for i in range(len(x) - 1):
            total = total + 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
        return total

    def logistic(w):
        return np.mean(np.logaddexp(0.0, -sides * (points @ w)))

    return [
        ("Rosenbrock, a loop", rosenbrock, np.linspace(0.1, 0.9, 100)),
        ("logistic regression", logistic, 0.1 * weights),
        ("Lotka-Volterra fit", lambda theta: misfit(theta, hares, lynxes), first_guess(hares, lynxes)),
    ]


def _least(call, budget):
    """Least seconds of a call, within a budget."""
    least, end, turns = float("inf"), time.perf_counter() + budget, 0
    while turns < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
        turns += 1
    return least


def measure(f, point, budget):
    """Seconds of each way to value and gradient, and how far finite differences are from it, as a dict."""
    approx_fprime = imported("scipy.optimize").approx_fprime

    plain = value_and_grad(f)
    by_sweep, by_kernel = jit(plain, kernel="never"), jit(plain, kernel="always")
    _, gradient = by_sweep(point)
    by_kernel(point)

    def differences():
        return f(point), approx_fprime(point, f)

    apart = max(float(np.max(np.abs(g - gradient))) for g in (by_kernel(point)[1], differences()[1]))
    return {
        "inputs": point.size,
        "value": _least(lambda: f(point), budget),
        "plain": _least(lambda: plain(point), budget),
        "sweep": _least(lambda: by_sweep(point), budget),
        "kernel": _least(lambda: by_kernel(point), budget),
        "differences": _least(differences, budget),
        "disagreement": apart / float(np.max(np.abs(gradient))),
    }


def run_bench(options):
    """The subcommand; returns the exit code."""
    measurements = {name: measure(f, point, options.seconds / 4) for name, f, point in functions()}
    good = all(m["disagreement"] <= TOLERANCE for m in measurements.values())
    if options.json == "-":
        print(write_json(measurements, None))
        return 0 if good else 1
    lines = []
    for name, m in measurements.items():
        times = [seconds_text(m[k]) for k in ("value", "plain", "sweep", "kernel", "differences")]
        faster = f"{m['differences'] / min(m['sweep'], m['kernel']):.0f} x"
        lines.append((name, str(m["inputs"]), *times, faster, f"{m['disagreement']:.0e}"))
    print("value and gradient\n\n" + table(HEAD, lines, numbers=True))
    print("\nfaster: than finite differences, by the better of sweep and kernel")
    if options.json:
        write_json(measurements, options.json)
    return 0 if good else 1


def add_bench(commands, formatter):
    """Add the subcommand to those of ``python -m tapegrad``."""
    parser = commands.add_parser(
        "bench", help="measure what gradients cost on this machine (seconds)", description=DESCRIPTION, epilog=EPILOG,
        formatter_class=formatter,
    )  # fmt: skip
    parser.add_argument("--seconds", type=float, default=0.5, help="to measure each function for (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON to this file; - prints only that")
    parser.set_defaults(run=run_bench)

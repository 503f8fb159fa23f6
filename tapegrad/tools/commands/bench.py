"""``python -m tapegrad bench``: what derivatives cost on this machine, with what is installed.

Three functions of the kinds people write: a loop over numbers, operations on arrays, and
differential equations stepped in a loop (the one of the demo).  Each is evaluated in plain
Python, and differentiated plainly, by sweep, by machine code, and by SciPy's finite differences.
The longer measurements beside other libraries are those of the repository's ``benchmarks/``.
"""

from functools import partial

import numpy as np

from ...common.printing import seconds_text, table
from ...common.uninterrupted import imported
from ...transforms.functional import jit, value_and_grad
from ..comparing.compare import least, told
from ..demo import first_guess, misfit, read_pelts

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
    calls = {"value": f, "plain": plain, "sweep": by_sweep, "kernel": by_kernel}
    seconds = least({name: partial(call, point) for name, call in calls.items()} | {"differences": differences}, budget)
    return {"inputs": point.size, **seconds, "disagreement": apart / float(np.max(np.abs(gradient)))}


def run_bench(options):
    """Measure what gradients cost on this machine (seconds).

    Measures value and gradient of three functions: a Python loop over numbers, a logistic
    regression on arrays, and the differential equations of the demo. Beside the plain
    evaluation stand a call of tg.value_and_grad, which runs the function; calls under tg.jit,
    by sweep and by machine code (kernel="never", "always"); and SciPy's finite differences.

    examples:
      python -m tapegrad bench
      python -m tapegrad bench --seconds 0.2
      python -m tapegrad bench --json - | python -m json.tool

    exit codes: 0 if all gradients agree with finite differences, 1 if one does not
    """
    measurements = {name: measure(f, point, options.seconds) for name, f, point in functions()}
    good = all(m["disagreement"] <= TOLERANCE for m in measurements.values())
    lines = []
    for name, m in measurements.items():
        times = [seconds_text(m[k]) for k in ("value", "plain", "sweep", "kernel", "differences")]
        faster = f"{m['differences'] / min(m['sweep'], m['kernel']):.0f} x"
        lines.append((name, str(m["inputs"]), *times, faster, f"{m['disagreement']:.0e}"))
    said = table(HEAD, lines, numbers=True)
    told(f"value and gradient\n\n{said}\n\nfaster: than finite differences, by the better of sweep and kernel", measurements, options.json)
    return 0 if good else 1

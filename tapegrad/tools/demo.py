"""The demonstration: hares and lynxes of Hudson Bay, by the equations of Lotka and Volterra.

The model is a system of differential equations for hares u and lynxes v,

    u' = (alpha - beta v) u,        v' = (-gamma + delta u) v,

stepped in a plain Python loop by the classical Runge-Kutta method.  The pelts counted
in a year are taken to scatter log-normally around u and v.  The eight unknowns (four
rates, two initial sizes, two widths of the scatter) are positive, so their
logarithms are what is fitted.  The priors are weak ones, those of the Bayesian analysis
the result is compared with.

``python -m tapegrad demo`` prints what `fit` finds; ``examples/lynx_hare.py`` draws it.
The table of pelts is shipped with the package.
"""

import csv
import sys
import time
from functools import partial
from importlib import resources
from itertools import islice

import numpy as np

from ..common.printing import seconds_text as text
from ..fits import fit as fitted
from ..optimize import lbfgs
from ..transforms.functional import grad, jit, value_and_grad
from .comparing.compare import compare, least, on_purpose

NAMES = ("alpha", "beta", "gamma", "delta", "hares in 1900", "lynxes in 1900", "scatter of hares", "scatter of lynxes")

#: Posterior means and standard deviations of the rates in "Predator-Prey Population Dynamics: the
#: Lotka-Volterra model in Stan" (Bob Carpenter, 2018), from the same table.
PUBLISHED = {"alpha": (0.55, 0.07), "beta": (0.028, 0.004), "gamma": (0.80, 0.10), "delta": (0.024, 0.004)}

STEPS_PER_YEAR = 10


def read_pelts():
    """Years, and the pelts of hares and of lynxes, in thousands.

    Examples
    --------
    >>> years, hares, lynxes = read_pelts()
    >>> int(years[0]), float(hares[0]), float(lynxes[0])
    (1900, 30.0, 4.0)
    """
    with (resources.files("tapegrad.tools") / "hudson_bay_lynx_hare.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    return tuple(np.array([kind(row[name]) for row in rows]) for name, kind in (("year", int), ("hare", float), ("lynx", float)))


def first_guess(hares, lynxes):
    """Where to start the search: logarithms, in the order of `NAMES`.

    Small cycles take 2 pi / sqrt(alpha gamma) years, about ten here, around
    the sizes gamma / delta and alpha / beta, the means of the counts.
    """
    rate = 2 * np.pi / 10
    return np.log([rate, rate / lynxes.mean(), rate, rate / hares.mean(), hares[0], lynxes[0], 0.5, 0.5])


def step(u, v, rates, h):
    """Both populations a time `h` later, by the classical Runge-Kutta method."""
    alpha, beta, gamma, delta = rates

    def slope(u, v):
        return (alpha - beta * v) * u, (delta * u - gamma) * v

    u1, v1 = slope(u, v)
    u2, v2 = slope(u + h / 2 * u1, v + h / 2 * v1)
    u3, v3 = slope(u + h / 2 * u2, v + h / 2 * v2)
    u4, v4 = slope(u + h * u3, v + h * v3)
    return u + h / 6 * (u1 + 2 * u2 + 2 * u3 + u4), v + h / 6 * (v1 + 2 * v2 + 2 * v3 + v4)


def sizes(theta, steps):
    """Yield the sizes of both populations now and after each of `steps` steps."""
    *rates, u, v = [np.exp(theta[i]) for i in range(6)]
    yield u, v
    for _ in range(steps):
        u, v = step(u, v, rates, 1 / STEPS_PER_YEAR)
        yield u, v


def misfit(theta, hares, lynxes):
    """Negative log-density of data and parameters, up to a constant.

    Parameters
    ----------
    theta : array of 8
        Logarithms of the unknowns, in the order of `NAMES`.
    hares, lynxes : ndarray
        Pelts counted, one number a year.
    """
    alpha, beta, gamma, delta = [np.exp(theta[i]) for i in range(4)]
    total = ((alpha - 1.0) / 0.5) ** 2 / 2 + ((gamma - 1.0) / 0.5) ** 2 / 2
    total = total + ((beta - 0.05) / 0.05) ** 2 / 2 + ((delta - 0.05) / 0.05) ** 2 / 2
    for i, center in ((4, np.log(10.0)), (5, np.log(10.0)), (6, -1.0), (7, -1.0)):
        total = total + (theta[i] - center) ** 2 / 2
    scatter_u, scatter_v = np.exp(theta[6]), np.exp(theta[7])
    for year, (u, v) in enumerate(islice(sizes(theta, STEPS_PER_YEAR * (len(hares) - 1)), 0, None, STEPS_PER_YEAR)):
        total = total + ((np.log(hares[year]) - np.log(u)) / scatter_u) ** 2 / 2 + theta[6]
        total = total + ((np.log(lynxes[year]) - np.log(v)) / scatter_v) ** 2 / 2 + theta[7]
    return total


def fit(hares, lynxes):
    """The most probable parameters, and how sure they are.

    Returns
    -------
    result : Result
        Of `tg.optimize.lbfgs`; ``result.x`` are logarithms.
    covariance : ndarray of shape (8, 8)
        Of the logarithms: the inverse of the Hessian of `misfit`.
    """
    result = lbfgs(misfit, first_guess(hares, lynxes), args=(hares, lynxes), gtol=1e-5)
    return result, result.covariance()


def as_published(result):
    """Whether each rate is within one published standard deviation of its published mean."""
    parameters = dict(zip(NAMES, np.exp(result.x)))
    return all(abs(parameters[name] - mean) <= deviation for name, (mean, deviation) in PUBLISHED.items())


def profiled(hares, lynxes):
    """The profile of the first rate: the misfit along its logarithm, all other parameters fitted anew at each point."""
    return fitted(misfit, first_guess(hares, lynxes), hares, lynxes, likelihood="nll").profile("p[0]")


def slopes(hares, lynxes):
    """The derivative at the start along a random direction, by the gradient and by a central difference."""
    point, h = first_guess(hares, lynxes), 1e-6
    direction = np.random.default_rng(0).normal(size=point.size)
    ahead, behind = (misfit(point + s * h * direction, hares, lynxes) for s in (1, -1))
    return float(grad(misfit)(point, hares, lynxes) @ direction), float(ahead - behind) / (2 * h)


def _clock(call, *args):
    """What a call gives, and the seconds it took."""
    start = time.perf_counter()
    return call(*args), time.perf_counter() - start


@on_purpose()
def demo():
    """Fit the model, print what came out; returns 0 if it is as published, else 1."""
    years, hares, lynxes = read_pelts()
    start = first_guess(hares, lynxes)
    print(f"Hares and lynxes of Hudson Bay, {years[0]}-{years[-1]}: Lotka-Volterra in a plain Python loop")
    print(f"of {STEPS_PER_YEAR * (len(years) - 1)} Runge-Kutta steps, fitted by tg.optimize.lbfgs.\n", flush=True)

    plain, gradient = value_and_grad(misfit), jit(value_and_grad(misfit))
    _, first = _clock(gradient, start, hares, lynxes)
    (result, covariance), whole = _clock(fit, hares, lynxes)
    calls = {f: partial(f, start, hares, lynxes) for f in (plain, gradient, misfit)}
    seconds = least(calls | {lbfgs: partial(lbfgs, misfit, start, args=(hares, lynxes), gtol=1e-5)}, 0.0)

    values = np.exp(result.x)
    errors = values * np.sqrt(np.diag(covariance))
    print(f"{'':18}{'fitted':>10}{'std. error':>12}{'published':>12}{'deviation':>11}")
    for name, value, error in zip(NAMES, values, errors):
        beside = "".join(f"{number:{width}.3f}" for number, width in zip(PUBLISHED.get(name, ()), (12, 11)))
        print(f"{name:18}{value:10.4f}{error:12.4f}{beside}")
    low, high = np.exp(profiled(hares, lynxes).interval)
    print(f"95 % interval of {NAMES[0]}, by its profile: {low:.4f} to {high:.4f}")
    print(f"\nvalue {result.fun:.6f} after {result.nit} iterations, {result.nfev} evaluations: {result.message}")

    by_tape, by_difference = slopes(hares, lynxes)
    print(f"slope at the start along a random direction: {by_tape:.8g}, by a central difference {by_difference:.8g}\n")
    print(f"value and gradient   plain      {text(seconds[plain]):>8}  (the value alone in plain Python: {text(seconds[misfit])})")
    print(f"under tg.jit         first call {text(first):>8}  (the function runs once, is recorded and compiled)")
    print(f"                     warm       {text(seconds[gradient]):>8}")
    print(f"fit                  first      {text(whole):>8}  (with the standard errors, from tg.hessian)")
    print(f"                     warm       {text(seconds[lbfgs]):>8}\n", flush=True)
    print(compare(misfit, start, hares, lynxes, budget=0.2))

    if result.success and as_published(result) and abs(by_tape / by_difference - 1) < 1e-5:
        return 0
    print(f"\nthis is not the expected result ({result.message})", file=sys.stderr)
    return 1

"""A hundred thousand fits of three parameters to sixty points, beside SciPy's `curve_fit` in a loop."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.optimize

import tapegrad as tg

from .registry import Row, benchmark, check_agreement
from .timing import measure

TIMES = np.linspace(0.0, 4.0, 60)


def decay(p, t):
    return p[0] * np.exp(-p[1] * t) + p[2]


def seen(count):
    """What is fitted: decays with noise."""
    rng = np.random.default_rng(0)
    height, rate, floor = rng.uniform((1.0, 0.5, 0.0), (3.0, 2.0, 1.0), (count, 3)).T[:, :, None]
    return height * np.exp(-rate * TIMES) + floor + 0.01 * rng.normal(size=(count, len(TIMES)))


def ours(y):
    return tg.fit_many(decay, np.ones((len(y), 3)), TIMES, observed=y, in_axes=None)


def theirs(y):
    return [scipy.optimize.curve_fit(lambda t, a, b, c: a * np.exp(-b * t) + c, TIMES, each, [1.0, 1.0, 1.0]) for each in y]


@benchmark(name="many_fits")
def many_fits(quick: bool) -> Iterator[Row]:
    """Fits of three parameters to sixty points: all of them together, and each beside SciPy's."""
    count = 5_000 if quick else 100_000
    y, few = seen(count), 100
    fits, other = ours(y), theirs(y[:few])
    check_agreement("many fits", {"tapegrad": fits.x[:few], "curve_fit": np.stack([x for x, _ in other])}, rtol=1e-5)
    check_agreement(
        "their errors", {"tapegrad": fits.errors[:few], "curve_fit": np.stack([np.sqrt(np.diag(covariance)) for _, covariance in other])}, rtol=1e-3
    )
    times = measure({"tapegrad": lambda: ours(y), "curve_fit": lambda: theirs(y[:few])}, budget=2.0 if quick else 8.0, at_least=5)
    yield Row(f"{count:,} fits of three parameters to 60 points", "at most 2 s", times["tapegrad"].minimum, 2.0, "s", {"converged": int(fits.success.sum())})
    each = {"tapegrad": times["tapegrad"].minimum / count, "curve_fit": times["curve_fit"].minimum / few}
    detail = {f"{name}, us a fit": round(1e6 * value, 2) for name, value in each.items()}
    yield Row("a fit among many, over SciPy's curve_fit", "at most 1/20", each["tapegrad"] / each["curve_fit"], 0.05, detail=detail)

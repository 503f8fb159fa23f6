"""Hamiltonian Monte Carlo, wholly inside `@njit`
==============================================

The sampler is compiled by Numba: random numbers, leapfrog steps and the decision to accept. The
log-density is plain NumPy; `tg.compile` makes of it machine code of value and gradient that the
sampler calls like a function, without coming back to Python.

Two densities are sampled. One is a Gaussian with correlations, whose moments are known: the
sampled ones have to agree within their errors. The other is Neal's funnel, in which the width
of one variable depends on another; its first moments are known too.

Run it with::

    python examples/hamiltonian.py
    python examples/hamiltonian.py --plot hamiltonian.png

It needs ``pip install .[examples]``.
"""
# sphinx_gallery_thumbnail_path = "gallery/hamiltonian.png"

from __future__ import annotations

import argparse
import math
import time

import numba
import numpy as np

import tapegrad as tg


@numba.njit
def hamiltonian_monte_carlo(density, x, draws, step, leaps, seed):
    """Samples of a density.

    Parameters
    ----------
    density : Compiled
        ``density(x, g)`` is the negative log-density at `x`, and writes its gradient into `g`.
    x : array
        Where to begin.
    draws : int
    step : float
        Of the leapfrog, which makes `leaps` steps, drawn anew around this number for each draw.
    seed : int

    Returns
    -------
    samples : array of shape (draws, len(x))
    accepted : float
        Share of the proposals.
    """
    np.random.seed(seed)
    n = len(x)
    samples = np.empty((draws, n))
    g, trial, slope = np.empty(n), np.empty(n), np.empty(n)
    value = density(x, g)
    accepted = 0
    for draw in range(draws):
        momentum = np.random.standard_normal(n)
        before = value + 0.5 * np.sum(momentum * momentum)
        trial[:] = x
        slope[:] = g
        h = step * (0.6 + 0.8 * np.random.random())
        after = value
        for _ in range(leaps):
            momentum -= 0.5 * h * slope
            trial += h * momentum
            after = density(trial, slope)
            momentum -= 0.5 * h * slope
        energy = after + 0.5 * np.sum(momentum * momentum)
        if math.log(np.random.random()) < before - energy:
            x[:] = trial
            g[:] = slope
            value = after
            accepted += 1
        samples[draw] = x
    return samples, accepted / draws


def gaussian(n):
    """A density with correlations, and its covariance."""
    precision = np.diag(np.linspace(1.0, 3.0, n)) + 0.45 * (np.eye(n, k=1) + np.eye(n, k=-1))

    def density(x):
        return 0.5 * x @ (precision @ x)

    return density, np.linalg.inv(precision)


def funnel(x):
    """R. Neal (2003), with a scale of 1 in the neck: x[0] is normal, the others have the deviation exp(x[0] / 2)."""
    total = 0.5 * x[0] ** 2
    for k in range(1, len(x)):
        total = total + 0.5 * x[k] ** 2 * np.exp(-x[0]) + 0.5 * x[0]
    return total


def spread(samples, batches=50):
    """Standard errors of the means of the columns, from means of batches, which are nearly independent."""
    means = np.array([part.mean(axis=0) for part in np.array_split(samples, batches)])
    return means.std(axis=0, ddof=1) / np.sqrt(batches)


def off(samples, expected):
    """How many standard errors the means of the columns are from what they should be, at most."""
    return float(np.max(np.abs(samples.mean(axis=0) - expected) / spread(samples)))


def save_plot(path, samples, widths, covariance):
    """Draw the funnel, and the deviations of the Gaussian beside the true ones."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(samples[:, 1], samples[:, 0], ".", markersize=1.5, alpha=0.3, color="#1f5a99")
    v = np.linspace(-3.5, 3.5, 100)
    for sign in (-2, 2):
        left.plot(sign * np.exp(v / 2), v, color="black", linewidth=0.8)
    left.set(xlim=(-9, 9), ylim=(-3.5, 3.5), xlabel="x[1]", ylabel="x[0]", title="Neal's funnel; lines: two deviations")
    n = len(covariance)
    right.plot(np.sqrt(np.diag(covariance)), "o", color="black", fillstyle="none", label="exact")
    right.plot(widths, ".", color="#b5651d", label="sampled")
    right.set(xlabel="variable", ylabel="standard deviation", title=f"a Gaussian in {n} dimensions", xticks=range(0, n, max(1, n // 6)))
    right.legend(frameon=False)
    figure.savefig(path, dpi=120)


def main(plot=None, draws=20_000, seed=0):
    """Sample, check the moments, draw.

    Parameters
    ----------
    plot : str or Path, optional
        Where to save the picture.
    draws, seed : int

    Returns
    -------
    dict
        ``gaussian`` and ``funnel``: samples; ``off``: the largest distance of a moment from the truth, in standard errors.

    Raises
    ------
    AssertionError
        If that is more than five, or few proposals are accepted.
    """
    density, covariance = gaussian(12)
    begin = time.perf_counter()
    compiled = tg.compile(density, np.zeros(12))
    hamiltonian_monte_carlo(compiled, np.zeros(12), 1, 0.3, 1, seed)
    middle = time.perf_counter()
    samples, accepted = hamiltonian_monte_carlo(compiled, np.zeros(12), draws, 0.35, 8, seed)
    seconds = time.perf_counter() - middle
    print(f"recorded and compiled in {middle - begin:.2f} s")
    print(f"Gaussian: {draws} draws of {8} gradients each in {seconds:.3f} s, {accepted:.0%} accepted")
    products = (samples[:, :, None] * samples[:, None, :]).reshape(draws, -1)
    apart = off(samples, 0.0), off(products, covariance.ravel())
    print(f"means at most {apart[0]:.1f} standard errors from 0, covariances at most {apart[1]:.1f} from the exact ones")

    steep, taken = hamiltonian_monte_carlo(tg.compile(funnel, np.zeros(4)), np.zeros(4), draws, 0.15, 20, seed)
    moments = np.column_stack([steep[:, 0], steep[:, 0] ** 2, steep[:, 1:], steep[:, 1:] * np.exp(-steep[:, :1] / 2)])
    exact = np.array([0.0, 1.0] + 6 * [0.0])
    apart += (off(moments, exact),)
    print(f"funnel: {taken:.0%} accepted, moments at most {apart[2]:.1f} standard errors from the exact ones")
    if plot is not None:
        save_plot(plot, steep, samples.std(axis=0), covariance)
        print(f"picture saved as {plot}")
    assert max(apart) < 5.0, f"a moment is {max(apart):.1f} standard errors off"
    assert min(accepted, taken) > 0.6, f"only {min(accepted, taken):.0%} of the proposals are accepted"
    return {"gaussian": samples, "funnel": steep, "off": max(apart)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=20_000, help="samples to draw (%(default)s)")
    parser.add_argument("--plot", default="hamiltonian.png", help="where to save the picture (%(default)s)")
    options = parser.parse_args()
    main(options.plot, options.draws)

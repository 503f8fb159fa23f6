"""An Asian option and its Greeks by Monte Carlo
=============================================

The option pays how much the mean price over a year lies above the strike. Its price is the
mean over simulated paths, a function of the spot price, the volatility and the interest rate;
the Greeks are the derivatives of that mean, in one gradient, and they are exact for the
paths drawn (the payoff has a kink, but no jump).

Beside it stands the option on the geometric mean, which has a closed form. On the same paths it
is a control variate: what is simulated too high of it is simulated too high of the other. And it
is a check: price and Greeks have to agree with the closed form, whose derivatives come from
the same library.

Run it with::

    python examples/asian_option.py
    python examples/asian_option.py --plot asian_option.png

It needs ``pip install .[examples]``.
"""
# sphinx_gallery_thumbnail_path = "gallery/asian_option.png"

from __future__ import annotations

import argparse

import numpy as np

import tapegrad as tg

STRIKE, YEARS, DATES = 100.0, 1.0, 12
NAMES = ("price", "delta", "vega", "rho")
MARKET = np.array([100.0, 0.25, 0.04])  # spot price, volatility, interest rate


def payoffs(market, normals):
    """Discounted payoffs on the arithmetic and on the geometric mean, one a path.

    Parameters
    ----------
    market : array of 3
        Spot price, volatility, interest rate.
    normals : ndarray of shape (paths, dates)
    """
    spot, volatility, rate = market[0], market[1], market[2]
    h = YEARS / normals.shape[1]
    logs = np.log(spot) + np.cumsum((rate - volatility**2 / 2) * h + volatility * np.sqrt(h) * normals, axis=1)
    discount = np.exp(-rate * YEARS)
    arithmetic = discount * np.maximum(np.mean(np.exp(logs), axis=1) - STRIKE, 0.0)
    geometric = discount * np.maximum(np.exp(np.mean(logs, axis=1)) - STRIKE, 0.0)
    return arithmetic, geometric


def closed_form(market, dates=DATES):
    """Price of the option on the geometric mean: A. G. Z. Kemna, A. C. F. Vorst (1990), for discrete dates."""
    spot, volatility, rate = market[0], market[1], market[2]
    mean_time = YEARS * (dates + 1) / (2 * dates)
    deviation = volatility * np.sqrt(YEARS * (dates + 1) * (2 * dates + 1) / (6 * dates**2))
    mean = np.log(spot) + (rate - volatility**2 / 2) * mean_time
    d = (mean - np.log(STRIKE) + deviation**2) / deviation
    return np.exp(-rate * YEARS) * (np.exp(mean + deviation**2 / 2) * normal_cdf(d) - STRIKE * normal_cdf(d - deviation))


def normal_cdf(x):
    from scipy.special import ndtr

    return ndtr(x)


def estimate(market, normals):
    """Price and Greeks of both options, with their standard errors: two arrays (2, 4).

    The standard errors come from the spread between batches of paths.
    """
    batches = np.array_split(normals, 20)
    # Each is called for every batch: recorded at the first one, and machine code from then on.
    both = [tg.jit(tg.value_and_grad(lambda m, z, k=k: np.mean(payoffs(m, z)[k]))) for k in (0, 1)]
    found = []
    for batch in batches:
        found.append([[value, *gradient] for value, gradient in (g(market, batch) for g in both)])
    return np.array(found)


def with_control(samples, exact):
    """Means and standard errors of the option, plainly and with the control variate: arrays of 4.

    Parameters
    ----------
    samples : ndarray of shape (batches, 2, 4)
        Of both options.
    exact : ndarray of 4
        Price and Greeks of the geometric one.
    """
    plain, control = samples[:, 0], samples[:, 1]
    both = np.stack([plain, control]) - np.stack([plain, control]).mean(axis=1, keepdims=True)
    slope = np.sum(both[0] * both[1], axis=0) / np.sum(both[1] ** 2, axis=0)
    better = plain - slope * (control - exact)
    count = np.sqrt(len(samples))
    return plain.mean(axis=0), plain.std(axis=0, ddof=1) / count, better.mean(axis=0), better.std(axis=0, ddof=2) / count


def save_plot(path, samples, exact):
    """Draw the running estimates of price and Greeks, plain and with the control variate."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    turns = np.arange(4, len(samples) + 1)
    steps = [with_control(samples[:n], exact) for n in turns]
    for k, (axes, name) in enumerate(zip(figure.subplots(2, 2, sharex=True).ravel(), NAMES)):
        for offset, label, color in ((0, "plain", "#999999"), (2, "with control variate", "#1f5a99")):
            mean, error = (np.array([s[offset + part][k] for s in steps]) for part in (0, 1))
            axes.fill_between(turns, mean - 2 * error, mean + 2 * error, color=color, alpha=0.25, linewidth=0)
            axes.plot(turns, mean, color=color, label=label)
        axes.set_title(name)
        if k == 0:
            axes.legend(frameon=False)
        if k > 1:
            axes.set_xlabel("batches of paths")
    figure.suptitle("Asian option: estimates and two standard errors")
    figure.savefig(path, dpi=120)


def main(plot=None, paths=200_000, seed=0):
    """Price, differentiate, check, draw.

    Parameters
    ----------
    plot : str or Path, optional
        Where to save the picture.
    paths, seed : int
        How many paths; of the generator of random numbers.

    Returns
    -------
    dict
        ``price`` and Greeks by name with their standard errors, and ``off``: how many standard errors the simulated
        geometric option is from the closed form, at most.

    Raises
    ------
    AssertionError
        If that is more than four, or the control variate does not make each error at least three times smaller.
    """
    normals = np.random.default_rng(seed).normal(size=(paths, DATES))
    value, slopes = tg.value_and_grad(closed_form)(MARKET)
    exact = np.array([value, *slopes])
    samples = estimate(MARKET, normals)
    mean, error, better, smaller = with_control(samples, exact)
    geometric = samples[:, 1].mean(axis=0)
    geometric_error = samples[:, 1].std(axis=0, ddof=1) / np.sqrt(len(samples))
    print(f"{'':8}{'plain':>10}{'error':>9}{'with control':>14}{'error':>9}{'geometric':>12}{'closed form':>13}")
    for k, name in enumerate(NAMES):
        print(f"{name:8}{mean[k]:10.4f}{error[k]:9.4f}{better[k]:14.4f}{smaller[k]:9.4f}{geometric[k]:12.4f}{exact[k]:13.4f}")
    off = float(np.max(np.abs(geometric - exact) / geometric_error))
    print(f"the simulated geometric option is at most {off:.1f} standard errors from the closed form")
    if plot is not None:
        save_plot(plot, samples, exact)
        print(f"picture saved as {plot}")
    assert off < 4.0, f"{off:.1f} standard errors from the closed form"
    assert np.all(smaller < error / 3), "the control variate does not help"
    return {**{name: (better[k], smaller[k]) for k, name in enumerate(NAMES)}, "off": off}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--paths", type=int, default=200_000, help="paths to simulate (%(default)s)")
    parser.add_argument("--plot", default="asian_option.png", help="where to save the picture (%(default)s)")
    options = parser.parse_args()
    main(options.plot, options.paths)

"""Hares and lynxes: fit differential equations to a century-old table, and draw the fit
=====================================================================================

The model (`tapegrad.demo`) steps the equations of Lotka and Volterra in a plain Python loop.
Here it is fitted, its standard errors are taken from the Hessian, and beside these one rate's interval from its profile; forward
mode is compared with reverse mode on it, and what it predicts is drawn with the uncertainty of its parameters.

Run it with::

    python examples/lynx_hare.py
    python examples/lynx_hare.py --plot lynx_hare.png

It needs ``pip install .[examples]``.
"""
# sphinx_gallery_thumbnail_path = "gallery/lynx_hare.png"

from __future__ import annotations

import argparse

import numpy as np

import tapegrad as tg
from tapegrad.tools.demo import (
    NAMES,
    PUBLISHED,
    STEPS_PER_YEAR,
    as_published,
    first_guess,
    fit,
    misfit,
    profiled,
    read_pelts,
    sizes,
)


def curves(theta, years):
    """Sizes of both populations over time, as an array (2, steps + 1)."""
    return np.array(list(sizes(theta, STEPS_PER_YEAR * (len(years) - 1)))).T


def bands(result, covariance, years, draws, seed=0):
    """The middle 90 % of the curves, over parameters drawn around the fit: arrays (2, steps + 1), low and high."""
    drawn = np.random.default_rng(seed).multivariate_normal(result.x, covariance, size=draws)
    return np.quantile([curves(theta, years) for theta in drawn], [0.05, 0.95], axis=0)


def save_plot(path, years, pelts, fitted, low, high, profile):
    """Draw pelts and fitted curves over time, one against the other, and a profile."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4), layout="constrained")
    over_time, phase, along = figure.subplots(1, 3, width_ratios=[1.7, 1, 1])
    rate = np.exp(profile.values)
    along.plot(rate, profile.rises, ".-", color="#555555", markersize=5)
    for end in np.exp(profile.interval):
        along.axvline(end, color="#1f5a99", linewidth=0.8, linestyle="--")
    along.set(xlabel=NAMES[0], ylabel="twice the rise of the misfit", title="profile of a rate; dashed: 95 %", ylim=(0, None))
    time = np.linspace(years[0], years[-1], fitted.shape[1])
    for k, (name, color) in enumerate((("hares", "#b5651d"), ("lynxes", "#1f5a99"))):
        over_time.fill_between(time, low[k], high[k], color=color, alpha=0.18, linewidth=0)
        over_time.plot(time, fitted[k], color=color, label=name)
        over_time.plot(years, pelts[k], "o", color=color, markersize=4)
    over_time.set(xlabel="year", ylabel="pelts, in thousands", title="Lotka-Volterra, fitted; band: 90 % of fits", ylim=(0, None))
    over_time.set_xticks(np.arange(years[0], years[-1] + 1, 5))
    over_time.legend(frameon=False)
    phase.plot(*fitted, color="#555555", linewidth=1.2)
    phase.plot(*pelts, "o-", color="#1b7f5c", markersize=4, linewidth=0.4)
    for k in (0, 3, 5, 9, 13, 15):
        phase.annotate(str(years[k]), (pelts[0][k], pelts[1][k]), textcoords="offset points", xytext=(5, 3), fontsize=8)
    phase.set(xlabel="hares", ylabel="lynxes", title="one against the other", xlim=(0, 1.15 * max(pelts[0])), ylim=(0, None))
    figure.savefig(path, dpi=120)


def main(plot=None, draws=200):
    """Fit, compare, draw and check.

    Parameters
    ----------
    plot : str or Path, optional
        Where to save the picture.
    draws : int
        Curves from which the bands are made.

    Returns
    -------
    dict
        ``result``, ``errors`` (standard errors of the parameters), ``comparison`` (of the modes) and ``profile``.

    Raises
    ------
    AssertionError
        If a rate is not within one published standard deviation of its published mean.
    """
    years, *pelts = read_pelts()
    result, covariance = fit(*pelts)
    values = np.exp(result.x)
    errors = values * np.sqrt(np.diag(covariance))
    for name, value, error in zip(NAMES, values, errors):
        beside = "   published {} +- {}".format(*PUBLISHED[name]) if name in PUBLISHED else ""
        print(f"{name:18}{value:9.4f} +- {error:.4f}{beside}")
    profile = profiled(*pelts)
    low, high = np.exp(profile.interval)
    print(f"\n95 % interval of {NAMES[0]} by its profile: {low:.4f} to {high:.4f}")
    comparison = tg.compare(misfit, first_guess(*pelts), *pelts)
    print(f"\n{comparison}")
    if plot is not None:
        save_plot(plot, years, pelts, curves(result.x, years), *bands(result, covariance, years, draws), profile)
        print(f"\npicture saved as {plot}")
    assert as_published(result), "the rates are not those published"
    return {"result": result, "errors": errors, "comparison": comparison, "profile": profile}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--plot", default="lynx_hare.png", help="where to save the picture (%(default)s)")
    main(parser.parse_args().plot)

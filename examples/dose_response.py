"""Ten thousand dose-response curves, each fitted with its errors, by `tg.fit_many`
================================================================================

A screening robot gives ten doses of a substance to the cells of each well and reads how many live. The curve is a logistic function of
the logarithm of the dose: from `top` to `bottom`, half-way at the dose `ec50`, with slope `hill`. Wells differ in all four, some substances do
nothing at all, and each reading has an error. The data are simulated, so what comes out can be checked: the 95 % intervals of `log ec50`
have to cover the truth in 95 % of the wells, and a bootstrap of one well, which is one call with a thousand data sets, has to give the
standard error of the fit.
(C. Ritz, F. Baty, J. C. Streibig, D. Gerhard, "Dose-response analysis using R", PLOS ONE, 2015.)

Run it with::

    python examples/dose_response.py
    python examples/dose_response.py --plot dose_response.png

It needs ``pip install .[examples]``.
"""
# sphinx_gallery_thumbnail_path = "gallery/dose_response.png"

from __future__ import annotations

import argparse

import numpy as np
from scipy.special import stdtrit

import tapegrad as tg

#: Micromoles, four readings each; and the standard deviation of a reading.
DOSES, NOISE = np.repeat(np.geomspace(0.01, 100.0, 10), 4), 0.04


def curve(p, dose):
    """How many cells live, as a fraction of those without the substance."""
    return p["bottom"] + (p["top"] - p["bottom"]) / (1.0 + np.exp(p["hill"] * (np.log(dose) - p["log_ec50"])))


def screened(wells, seed=0):
    """The parameters of some wells, and readings of them."""
    rng = np.random.default_rng(seed)
    truth = {
        "top": rng.normal(1.0, 0.05, wells), "bottom": rng.uniform(0.0, 0.3, wells), "hill": rng.uniform(0.7, 2.0, wells),
        "log_ec50": rng.uniform(np.log(0.1), np.log(10.0), wells),
    }  # fmt: skip
    # What one substance in fifty does: nothing.
    idle = np.arange(wells) % 50 == 49
    truth["bottom"] = np.where(idle, truth["top"], truth["bottom"])
    exact = curve({name: value[:, None] for name, value in truth.items()}, DOSES)
    return truth, idle, exact + NOISE * rng.standard_normal((wells, len(DOSES)))


def fitted(readings):
    """A fit for each row of readings."""
    highest, lowest = readings[:, :4].mean(axis=1), readings[:, -4:].mean(axis=1)
    # Begin at the dose whose reading is nearest to the middle.
    middle = np.argmin(np.abs(readings - 0.5 * (highest + lowest)[:, None]), axis=1)
    start = {"top": highest, "bottom": lowest, "hill": 1.0, "log_ec50": np.log(DOSES[middle])}
    bounds = {"hill": (0.1, 10.0), "log_ec50": (np.log(1e-3), np.log(1e3))}
    return tg.fit_many(curve, start, DOSES, observed=readings, in_axes=None, bounds=bounds)


def bootstrapped(fits, well, draws=1000, seed=1):
    """The standard deviation of `log_ec50` of one well, from data sets that are simulated with its fit."""
    one = fits[well]
    deviation = np.sqrt(2.0 * one["cost"] / fits.dof[well])
    noise = np.random.default_rng(seed).standard_normal((draws, len(DOSES)))
    again = fitted(curve(one["params"], DOSES) + deviation * noise)
    return float(np.std(again.params["log_ec50"][again.success], ddof=1))


def draw(fits, readings, wells, path):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    fine = np.geomspace(DOSES[0], DOSES[-1], 200)
    for k, well in enumerate(wells):
        left.plot(DOSES, readings[well], ".", color=f"C{k}", markersize=4)
        left.plot(fine, curve(fits[well]["params"], fine), color=f"C{k}")
    left.set_xscale("log")
    left.set_xlabel("dose (micromoles)")
    left.set_title("alive, in three wells", fontsize=10)
    errors = fits.stderr["log_ec50"]
    right.hist(np.log10(errors[np.isfinite(errors)]), bins=60, range=(-2.0, 1.0), color="C0")
    right.set_xlabel("log10 of the standard error of log ec50")
    right.set_title(f"{len(fits)} wells", fontsize=10)
    figure.savefig(path)


def main(plot=None, wells=10_000):
    truth, idle, readings = screened(wells)
    fits = fitted(readings)
    print(fits)
    fair = fits.success & ~idle & np.isfinite(fits.stderr["log_ec50"])
    off = np.abs(fits.params["log_ec50"] - truth["log_ec50"])[fair] / fits.stderr["log_ec50"][fair]
    covered = float(np.mean(off < stdtrit(fits.dof[fair], 0.975)))
    print(f"the 95 % intervals of log ec50 cover the truth in {100 * covered:.1f} % of {fair.sum()} wells where the substance acts")
    well = int(np.flatnonzero(fair)[0])
    error, spread = float(fits.stderr["log_ec50"][well]), bootstrapped(fits, well)
    print(f"well {well}: standard error {error:.4f}, by a bootstrap {spread:.4f}")
    if plot:
        draw(fits, readings, np.flatnonzero(fair)[:3], plot)
    return {"fits": fits, "covered": covered, "error": error, "spread": spread}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", metavar="FILE", help="draw some curves, and the errors, to a PNG file")
    parser.add_argument("--wells", type=int, default=10_000, help="how many wells (default: %(default)s)")
    options = parser.parse_args()
    main(options.plot, options.wells)

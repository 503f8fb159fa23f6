"""Two peaks that overlap, on a background: a fit with its errors, and whether the peaks are equally wide
======================================================================================================

The data are Gauss3 of NIST's Statistical Reference Datasets: 250 counts in which two Gaussians stand so close that one looks like a shoulder
of the other, above an exponential background. What the fit has to find is certified to eleven digits, values and standard deviations.
Then the same with one width for both, a parameter tied to another: the sum of squares says what that costs, and an F test whether
the data bear it. At last a profile of the distance between the peaks' centres, which needs no algebra: the second centre is
tied to the first and the distance.
(B. Rust, NIST, 1996, https://www.itl.nist.gov/div898/strd/nls/data/gauss3.shtml, public domain.)

Run it with::

    python examples/peak_fit.py
    python examples/peak_fit.py --plot peak_fit.png

It needs ``pip install .[examples]``.
"""
# sphinx_gallery_thumbnail_path = "gallery/peak_fit.png"

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.special import fdtrc

import tapegrad as tg

#: The certified values and standard deviations: background, first peak, second peak.
CERTIFIED = np.array([
    (98.940368970, 0.53005192833), (0.010945879335, 0.00012554058911),
    (100.69553078, 0.81256587317), (111.63619459, 0.35317859757), (23.300500029, 0.36584783023),
    (73.705031418, 1.2091239082), (147.76164251, 0.40488183351), (19.668221230, 0.37806634336),
])  # fmt: skip
START = {
    "background": {"height": 94.9, "decay": 0.009},
    "first": {"height": 90.1, "centre": 113.0, "width": 20.0},
    "second": {"height": 73.8, "centre": 140.0, "width": 20.0},
}


def read():
    """Positions and counts."""
    lines = Path(__file__).with_name("gauss3.dat").read_text().splitlines()
    counts, x = np.array([line.split() for line in lines[60:310]], float).T
    return x, counts


def peak(p, x):
    return p["height"] * np.exp(-(((x - p["centre"]) / p["width"]) ** 2))


def spectrum(p, x):
    background = p["background"]["height"] * np.exp(-p["background"]["decay"] * x)
    return background + peak(p["first"], x) + peak(p["second"], x)


def apart(p, x):
    """The same, by the distance between the centres."""
    second = {**p["second"], "centre": p["first"]["centre"] + p["distance"]}
    return spectrum({**p, "second": second}, x)


def main(plot=None):
    x, counts = read()
    fit = tg.fit(spectrum, START, x, observed=counts)
    print(fit)
    found = np.array([(value, error) for part in START for value, error in zip(fit.params[part].values(), fit.stderr[part].values())])
    off = np.abs(found / CERTIFIED - 1.0).max(axis=0)
    print(f"\nlargest difference from what is certified: {off[0]:.1e} of a value, {off[1]:.1e} of a standard deviation")

    shared = tg.fit(spectrum, START, x, observed=counts, ties={"second.width": lambda p: p["first"]["width"]})
    print("\nwith one width for both peaks:\n")
    print(shared)
    ratio = fit.dof * (shared.cost / fit.cost - 1.0)
    chance = float(fdtrc(1, fit.dof, ratio))
    print(f"\nF = {ratio:.1f} for one parameter less: by chance in {chance:.1e} of such data, so the peaks are not equally wide")

    start = {**{part: dict(fit.params[part]) for part in START}, "distance": 36.0}
    start["second"].pop("centre")
    profile = tg.fit(apart, start, x, observed=counts).profile("distance")
    print(f"\nthe centres are {profile.interval[0]:.3f} to {profile.interval[1]:.3f} apart (95 %, by a profile)")
    if plot:
        fit.plot(plot)
    return {"fit": fit, "shared": shared, "off": off, "ratio": ratio, "chance": chance, "interval": profile.interval}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", metavar="FILE", help="draw data, model, band and residuals to a PNG file")
    main(parser.parse_args().plot)

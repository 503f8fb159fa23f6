"""Posteriors by `tg.sample`: hares and lynxes with an ordinary differential equation inside, and eight schools
============================================================================================================

The first model is that of the Stan case study: rates and first sizes of both populations with their priors, logarithmic errors whose sizes
are parameters, too. The second is the hierarchical model of eight schools, written with standard normal variables as it has to be: effects
are ``mu + tau * z``. Means and standard deviations come out as published.
(B. Carpenter, "Predator-Prey Population Dynamics: the Lotka-Volterra model in Stan", 2018; A. Gelman et al., "Bayesian Data Analysis",
third edition, 2013, 5.5.)

Run it with::

    python examples/posterior.py
    python examples/posterior.py --plot posterior.png

It needs ``pip install .[examples,sample]``.
"""
# sphinx_gallery_thumbnail_path = "gallery/posterior.png"

from __future__ import annotations

import argparse

import numpy as np

import tapegrad as tg
from tapegrad.demo import read_pelts

STEPS = 10  # of Runge and Kutta, a year
#: What the case study gives: means and standard deviations.
PUBLISHED = {
    "alpha": (0.545, 0.064), "beta": (0.028, 0.004), "gamma": (0.803, 0.092), "delta": (0.024, 0.004),
    "hares": (33.960, 2.915), "lynxes": (5.949, 0.533), "sd_hares": (0.250, 0.045), "sd_lynxes": (0.252, 0.044),
}  # fmt: skip
START = {"alpha": 0.5, "beta": 0.03, "gamma": 0.8, "delta": 0.03, "hares": 30.0, "lynxes": 5.0, "sd_hares": 0.3, "sd_lynxes": 0.3}
EFFECTS, ERRORS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]), np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def grown(u, v, p, h):
    """Both populations a step later."""

    def rates(u, v):
        return (p["alpha"] - p["beta"] * v) * u, (p["delta"] * u - p["gamma"]) * v

    u1, v1 = rates(u, v)
    u2, v2 = rates(u + h / 2 * u1, v + h / 2 * v1)
    u3, v3 = rates(u + h / 2 * u2, v + h / 2 * v2)
    u4, v4 = rates(u + h * u3, v + h * v3)
    return u + h / 6 * (u1 + 2 * u2 + 2 * u3 + u4), v + h / 6 * (v1 + 2 * v2 + 2 * v3 + v4)


def lognormal(x, centre, sd):
    return -0.5 * ((np.log(x) - centre) / sd) ** 2 - np.log(sd) - np.log(x)


def pelts(p, hares, lynxes):
    """The logarithm of the posterior density."""
    total = -2.0 * (p["alpha"] - 1.0) ** 2 - 2.0 * (p["gamma"] - 1.0) ** 2 - 200.0 * (p["beta"] - 0.05) ** 2 - 200.0 * (p["delta"] - 0.05) ** 2
    for name in ("sd_hares", "sd_lynxes"):
        total = total + lognormal(p[name], -1.0, 1.0)
    for name in ("hares", "lynxes"):
        total = total + lognormal(p[name], np.log(10.0), 1.0)
    u, v = p["hares"], p["lynxes"]
    for k in range(len(hares)):
        if k:
            for _ in range(STEPS):
                u, v = grown(u, v, p, 1.0 / STEPS)
        total = total + lognormal(hares[k], np.log(u), p["sd_hares"]) + lognormal(lynxes[k], np.log(v), p["sd_lynxes"])
    return total


def schools(p, effects, errors):
    """The logarithm of the posterior density: ``mu`` is normal, ``tau`` half-Cauchy, both of scale 5."""
    prior = -0.5 * (p["mu"] / 5.0) ** 2 - np.log1p((p["tau"] / 5.0) ** 2) - 0.5 * np.sum(p["z"] ** 2)
    return prior - 0.5 * np.sum(((effects - p["mu"] - p["tau"] * p["z"]) / errors) ** 2)


def draw(of_pelts, of_schools, path):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    alpha, gamma = (np.ravel(of_pelts.posterior[name]) for name in ("alpha", "gamma"))
    left.plot(alpha, gamma, ".", markersize=2, alpha=0.4)
    left.plot(PUBLISHED["alpha"][0], PUBLISHED["gamma"][0], "k+", markersize=12, label="published mean")
    left.legend(frameon=False)
    left.set(xlabel="births of hares (alpha)", ylabel="deaths of lynxes (gamma)", title="hares and lynxes")
    right.plot(np.ravel(of_schools.posterior["z"][..., 0]), np.log(np.ravel(of_schools.posterior["tau"])), ".", markersize=2, alpha=0.4)
    right.set(xlabel="z of the first school", ylabel="log tau", title="eight schools")
    figure.savefig(path)


def main(plot=None, draws=1000):
    _, hares, lynxes = read_pelts()
    of_pelts = tg.sample(pelts, START, hares, lynxes, bounds=dict.fromkeys(START, (0.0, None)), draws=draws, seed=1, progress=False)
    start = {"mu": 0.0, "tau": 1.0, "z": np.zeros(8)}
    of_schools = tg.sample(schools, start, EFFECTS, ERRORS, bounds={"tau": (0.0, None)}, draws=2 * draws, seed=2, progress=False)
    print(f"{'':10} {'mean':>8} {'sd':>8}   published")
    for name, (mean, sd) in PUBLISHED.items():
        values = of_pelts.posterior[name]
        print(f"{name:10} {float(values.mean()):8.4f} {float(values.std()):8.4f}   {mean:g} ({sd:g})")
    for name in ("mu", "tau"):
        print(f"{name:10} {float(of_schools.posterior[name].mean()):8.3f} {float(of_schools.posterior[name].std()):8.3f}")
    if plot:
        draw(of_pelts, of_schools, plot)
    return {"pelts": of_pelts, "schools": of_schools}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", metavar="FILE", help="draw pairs of parameters to a PNG file")
    main(parser.parse_args().plot)

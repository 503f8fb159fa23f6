"""Swing up a pendulum on a cart by direct collocation, with `tg.optimize.nlp`
===========================================================================

A motor pushes a cart of 1 kg; a pendulum of 0.3 kg and half a metre hangs from it. In two seconds the
cart is to move by a metre, and the pendulum to stand upright and at rest, with as little force (squared, summed
over time) as possible. States and forces at N times are the variables, the equations of motion between neighbouring times
(trapezoidal rule) are constraints: 5 N variables, 4 N + 4 equations, each with a few variables in it. `nlp` finds
that pattern, and gives the solver sparse Jacobians and the sparse Hessian of the Lagrangian.
(M. Kelly, "An introduction to trajectory optimization: how to do your own direct collocation", SIAM Review, 2017.)

What comes out is checked twice: the forces, held linear between the times, are put into SciPy's `solve_ivp`, which has
to end upright; and the multipliers of the last equations are compared with the slope of the least effort by where the
cart ends.

Run it with::

    python examples/swing_up.py
    python examples/swing_up.py --plot swing_up.png

It needs ``pip install .[examples]``; with ``.[nlp]`` the solver is IPOPT, else SciPy's trust-constr.
"""
# sphinx_gallery_thumbnail_path = "gallery/swing_up.png"

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.integrate import solve_ivp

import tapegrad as tg

#: Seconds; kilograms of cart and pendulum; metres; m/s^2; the strongest force, in newtons; how far the cart may go, in metres.
DURATION, CART, PENDULUM, LENGTH, GRAVITY, STRONGEST, FARTHEST = 2.0, 1.0, 0.3, 0.5, 9.81, 20.0, 2.0


def motion(state, force):
    """The derivative by time of (place, angle, speed, angular speed), each a number or a row."""
    _, angle, speed, turning = state
    s, c = np.sin(angle), np.cos(angle)
    mass = CART + PENDULUM * s**2
    pushed = (force + PENDULUM * s * (LENGTH * turning**2 + GRAVITY * c)) / mass
    swung = -(force * c + PENDULUM * LENGTH * turning**2 * c * s + (CART + PENDULUM) * GRAVITY * s) / (LENGTH * mass)
    return np.stack([speed, turning, pushed, swung])


def effort(path, end):
    """The force squared, summed over time."""
    force = path["force"]
    step = DURATION / (len(force) - 1)
    return step * (np.sum(force**2) - 0.5 * (force[0] ** 2 + force[-1] ** 2))


def equations(path, end):
    """What is zero on a path from rest to rest, upright at place `end`."""
    state, force = path["state"], path["force"]
    step = DURATION / (len(force) - 1)
    slope = motion(state, force)
    return {
        "motion": state[:, 1:] - state[:, :-1] - 0.5 * step * (slope[:, 1:] + slope[:, :-1]),
        "start": state[:, 0],
        "end": state[:, -1] - np.array([end, np.pi, 0.0, 0.0]),
    }


def swing_up(count, end=1.0, start=None, method=None):
    """The path of least effort at `count` times: a `Result`."""
    if start is None:
        line = np.linspace(0.0, 1.0, count)
        start = {"state": np.stack([line * end, line * np.pi, np.zeros(count), np.zeros(count)]), "force": np.zeros(count)}
    free = np.full((3, count), np.inf)
    upper = {"state": np.concatenate([np.full((1, count), FARTHEST), free]), "force": np.full(count, STRONGEST)}
    lower = {name: -limit for name, limit in upper.items()}
    return tg.optimize.nlp(effort, start, [(equations, 0.0, 0.0)], (lower, upper), args=(end,), method=method)


def simulated(force):
    """Where SciPy's integrator ends when these forces push, linear in between."""
    times = np.linspace(0.0, DURATION, len(force))
    moved = solve_ivp(lambda t, state: motion(state, np.interp(t, times, force)), (0.0, DURATION), np.zeros(4), rtol=1e-9, atol=1e-9, max_step=times[1])
    return moved.y[:, -1]


def draw(found, path):
    from matplotlib.figure import Figure

    state, force = found.x["state"], found.x["force"]
    times = np.linspace(0.0, DURATION, len(force))
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    shades = np.linspace(0.15, 1.0, 12)
    for k, shade in zip(np.linspace(0, len(force) - 1, len(shades)).astype(int), shades):
        x, angle = state[0, k], state[1, k]
        tip = x + LENGTH * np.sin(angle), -LENGTH * np.cos(angle)
        left.plot([x, tip[0]], [0.0, tip[1]], color="#1f5a99", alpha=shade, linewidth=2)
        left.plot(*tip, "o", color="#b3541e", alpha=shade)
    left.axhline(0.0, color="0.6", linewidth=0.8)
    left.set_aspect("equal")
    left.set_title("pendulum and cart, later times darker", fontsize=10)
    left.set_xlabel("place (m)")
    right.plot(times, force, color="#1f5a99")
    right.set_title("force (N)", fontsize=10)
    right.set_xlabel("time (s)")
    figure.savefig(path)


def main(plot=None, count=320):
    began = time.perf_counter()
    found = swing_up(count)
    seconds = time.perf_counter() - began
    print(f"{5 * count} variables, {4 * count + 4} equations, by {found.method}: {found.message}, after {found.nit} iterations and {seconds:.2f} s")
    print(f"least effort: {found.fun:.4f} N^2 s; the equations hold to {found.constr_violation:.1e}")
    off = np.abs(simulated(found.x["force"]) - [1.0, np.pi, 0.0, 0.0]).max()
    print(f"simulated with these forces, the end is off by {off:.1e}")
    h = 1e-3
    slope = (swing_up(count, 1.0 + h, found.x).fun - swing_up(count, 1.0 - h, found.x).fun) / (2.0 * h)
    # The constraint has `-end` in it, so the slope is the multiplier's negative.
    multiplier = -found.multipliers[0]["end"][0]
    print(f"the effort per metre at the end: {multiplier:.4f} by its multiplier, {slope:.4f} by differences")
    if plot:
        draw(found, plot)
    return {"found": found, "off": off, "multiplier": multiplier, "slope": slope}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", metavar="FILE", help="draw the path to a PNG file")
    parser.add_argument("--count", type=int, default=320, help="how many times (default: %(default)s)")
    options = parser.parse_args()
    main(options.plot, options.count)

"""Optimal control with an event: steer a rocket so that it lands as far away as possible
======================================================================================

A small rocket starts from a ramp.  Its thrust dies away, air slows it down, and the angle of the thrust is what is controlled, a
polynomial of time.  When it touches the ground is not known beforehand: it is an event, found by the solver of the differential
equation.  The distance at this moment is differentiated through the time of the event, and so a quasi-Newton method
finds the best angles with exact gradients.

Run it with::

    python examples/hop.py
"""
# sphinx_gallery_thumbnail_path = "gallery/hop.png"

from __future__ import annotations

import argparse

import numpy as np

import tapegrad as tg
from tapegrad.scipy.integrate import solve_ivp

#: Metres, seconds and kilograms: gravity, thrust at the start, how long it lasts, drag; the height of the ramp.
GRAVITY, THRUST, LASTS, DRAG, RAMP = 9.81, 30.0, 1.5, 0.01, 2.0


def motion(t, y, knobs):
    """Derivatives of position and velocity, both along the ground and upwards."""
    angle = knobs[0] + knobs[1] * t + knobs[2] * t * t
    thrust = THRUST * np.exp(-t / LASTS)
    drag = DRAG * np.sqrt(y[2] * y[2] + y[3] * y[3] + 1e-12)
    return np.stack([y[2], y[3], thrust * np.cos(angle) - drag * y[2], thrust * np.sin(angle) - drag * y[3] - GRAVITY])


def ground(t, y, knobs):
    """Height above ground, where the flight ends."""
    return y[1]


ground.terminal, ground.direction = True, -1


def fly(knobs):
    """The flight, until the rocket comes down."""
    return solve_ivp(motion, (0.0, 60.0), [0.0, RAMP, 0.0, 0.0], events=ground, args=(knobs,), rtol=1e-6, atol=1e-6)


def landing(knobs):
    """Time and distance at which the rocket comes down."""
    flight = fly(knobs)
    return flight.t_events[0][0], flight.y_events[0][0, 0]


def draw(flights, path):
    """Draw the flights."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
    for name, flight in flights.items():
        axes.plot(flight.y[0], flight.y[1], marker="o", markersize=3, label=f"{name}: {flight.y[0, -1]:.1f} m")
    axes.axhline(0.0, color="grey", linewidth=0.8)
    axes.set(xlabel="distance in m", ylabel="height in m", title="The angle of the thrust, optimised")
    axes.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(plot=None, iterations=12):
    """Find the angles, and print the landing before and after.

    Parameters
    ----------
    plot : path or None
        Where to draw both flights.
    iterations : int

    Returns
    -------
    dict
        ``before`` and ``after``, (time, distance) of the landing, and ``knobs``, the coefficients of the angle.
    """
    start = np.array([0.8, 0.0, 0.0])
    found = tg.optimize.minimize(lambda knobs: -landing(knobs)[1], start, method="BFGS", options={"maxiter": iterations})
    ends = {"before": landing(start), "after": landing(found.x), "knobs": found.x}
    for name in ("before", "after"):
        print(f"{name:7} down after {ends[name][0]:6.3f} s, {ends[name][1]:7.2f} m away")
    print("angle of the thrust: " + " + ".join(f"{knob:.4f} t^{k}" for k, knob in enumerate(found.x)))
    if plot:
        draw({"before": fly(start), "after": fly(found.x)}, plot)
    return ends


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", metavar="FILE", help="draw both flights to a PNG file")
    main(parser.parse_args().plot)

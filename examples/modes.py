"""Three functions on which forward and reverse mode differ, and one in between
============================================================================

Each maker takes a size and returns a function and the tuple of its arguments.
Compare the modes on them with::

    python -m tapegrad compare examples/modes.py:many_to_one --sizes 1,10,100,1000
    python -m tapegrad compare examples/modes.py:one_to_many --sizes 1,10,100,1000 --plot one_to_many.png
    python -m tapegrad compare examples/modes.py:rectangle --sizes 1,3,10,30,100,300,1000 --plot rectangle.png

and draw the picture of docs/modes.md with ``python examples/modes.py --plot docs/modes.png``.
"""
# sphinx_gallery_thumbnail_path = "gallery/modes.png"

from __future__ import annotations

import argparse

import numpy as np

import tapegrad as tg


def many_to_one(n):
    """n inputs, one output: a loss."""

    def loss(x):
        return np.sum(np.sin(x) * x)

    return loss, (np.linspace(0.1, 0.9, n),)


def one_to_many(n):
    """One input, n outputs: a curve that depends on one parameter."""
    times = np.linspace(0.0, 1.0, n)

    def curve(x):
        return np.exp(-x[0] * times) * x[0]

    return curve, (np.array([0.5]),)


def bottleneck(n):
    """n inputs, one number in the middle, n outputs."""
    times = np.linspace(0.0, 1.0, n)

    def through_one_number(x):
        return np.exp(-np.sum(x * x) * times)

    return through_one_number, (np.linspace(0.1, 0.9, n) / np.sqrt(n),)


def rectangle(n, m):
    """n inputs and m outputs, all of them connected."""
    weights = np.cos(np.arange(m * n, dtype=float)).reshape(m, n) / n

    def layer(x):
        return np.tanh(weights @ x)

    return layer, (np.linspace(0.1, 0.9, n),)


if __name__ == "__main__":
    from tapegrad.tools.comparing.plots import plot_scaling

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--plot", metavar="FILE", default="modes.png", help="where to save the picture (%(default)s)")
    plot = parser.parse_args().plot
    found = [tg.compare_scaling(make, [1, 4, 16, 64, 256, 1024]) for make in (many_to_one, one_to_many, bottleneck)]
    for scaling in found:
        print(scaling, end="\n\n")
    plot_scaling(found, plot, "operations")

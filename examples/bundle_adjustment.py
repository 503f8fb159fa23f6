"""Bundle adjustment: cameras and points from where the points appear in the pictures
==================================================================================

Each observation is the pixel at which one camera sees one point. The unknowns are rotation and
position of each camera and the position of each point; the sum of squares of the distances
between observed and predicted pixels is minimised. An observation depends on nine of the
hundreds of unknowns, so the Jacobian is sparse: a few compressed sweeps compute all of it.

The scene is synthetic, so the solution is known: without noise in the pixels the residuals go
to zero, with noise they have to be as large as the noise. The first camera and the distance to
the last are held, because pixels say nothing about where the whole scene is and how large.

Run it with::

    python examples/bundle_adjustment.py
    python examples/bundle_adjustment.py --plot bundle_adjustment.png

It needs ``pip install .[examples]``.
"""
# sphinx_gallery_thumbnail_path = "gallery/bundle_adjustment.png"

from __future__ import annotations

import argparse
import time

import numpy as np

import tapegrad as tg

FOCAL = 500.0  # pixels
NOISE = 0.5  # pixels


def rotated(turns, points):
    """`points` turned around the axes `turns` by angles of their length (B. O. Rodrigues): arrays (n, 3)."""
    square = np.sum(turns**2, axis=1, keepdims=True) + 1e-12
    angle = np.sqrt(square)
    axis = turns / angle
    along = np.sum(axis * points, axis=1, keepdims=True)
    across = np.stack(
        [
            axis[:, 1] * points[:, 2] - axis[:, 2] * points[:, 1],
            axis[:, 2] * points[:, 0] - axis[:, 0] * points[:, 2],
            axis[:, 0] * points[:, 1] - axis[:, 1] * points[:, 0],
        ],
        axis=1,
    )
    return points * np.cos(angle) + across * np.sin(angle) + axis * along * (1.0 - np.cos(angle))


def pixels(cameras, points, which, what):
    """Where camera `which[k]` sees point `what[k]`: (observations, 2).

    Parameters
    ----------
    cameras : array of shape (n, 6)
        Rotation vector and shift of each.
    points : array of shape (m, 3)
    which, what : ndarray of int
    """
    seen = rotated(cameras[which, :3], points[what]) + cameras[which, 3:]
    return FOCAL * seen[:, :2] / seen[:, 2:]


def scene(count, many, rng):
    """Cameras on an arc around a cloud of points, as the first of them sees it; and who sees what."""
    center = np.array([[0.0, 0.0, 6.0]])
    cameras = np.zeros((count, 6))
    cameras[:, 1] = np.linspace(0.0, 1.0, count)
    cameras[:, 3:] = center - rotated(cameras[:, :3], np.repeat(center, count, axis=0))
    points = center + rng.uniform(-1.5, 1.5, size=(many, 3))
    sees = rng.random((count, many)) < 0.6
    sees[[0, -1]] = True  # where a point is can be told from two pictures or more
    which, what = np.nonzero(sees)
    return cameras, points, which, what


def problem(count, many, noise, rng):
    """Residuals of the unknowns, a rough start, and the solution as a pair (cameras, points)."""
    cameras, points, which, what = scene(count, many, rng)
    observed = pixels(cameras, points, which, what) + noise * rng.normal(size=(len(which), 2))
    first, distance = cameras[:1], np.linalg.norm(cameras[-1, 3:])

    def residuals(p):
        shift = p["cameras"][-1:, 3:]
        shift = shift * (distance / np.sqrt(np.sum(shift**2)))
        last = np.concatenate([p["cameras"][-1:, :3], shift], axis=1)
        everyone = np.concatenate([first, p["cameras"][:-1], last])
        return (pixels(everyone, p["points"], which, what) - observed).reshape(-1)

    start = {
        "cameras": cameras[1:] + 0.03 * rng.normal(size=(count - 1, 6)),
        "points": points + 0.2 * rng.normal(size=points.shape),
    }
    return residuals, start, (cameras, points)


def save_plot(path, start, found, truth, before, after):
    """Draw the points from above, and the residuals before and after."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    top, errors = figure.subplots(1, 2, width_ratios=[1.1, 1.2])
    cameras, points = truth
    top.plot(start["points"][:, 0], start["points"][:, 2], ".", color="#cccccc", label="start")
    top.plot(points[:, 0], points[:, 2], "o", color="black", fillstyle="none", markersize=5, label="truth")
    top.plot(found["points"][:, 0], found["points"][:, 2], ".", color="#1f5a99", markersize=4, label="found")
    centers = np.array([-rotated(-c[None, :3], c[None, 3:])[0] for c in cameras])
    top.plot(centers[:, 0], centers[:, 2], "^", color="#b5651d", label="cameras")
    top.set(xlabel="x", ylabel="z", title="the scene from above", aspect="equal")
    top.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    bins = np.geomspace(1e-3, 1e3, 61)
    for values, color, label in ((before, "#cccccc", "start"), (after, "#1f5a99", "found")):
        errors.hist(np.abs(values), bins=bins, color=color, label=label, alpha=0.8)
    errors.set(xscale="log", xlabel="residual, pixels", ylabel="how many", title=f"residuals; noise of {NOISE} pixels")
    errors.legend(frameon=False)
    figure.savefig(path, dpi=120)


def main(plot=None, cameras=8, points=80, seed=0):
    """Solve with and without noise, check, draw.

    Parameters
    ----------
    plot : str or Path, optional
        Where to save the picture.
    cameras, points, seed : int

    Returns
    -------
    dict
        ``result``; ``error``: how far a point is from the truth without noise; ``size``: of the residuals, in units of the noise.

    Raises
    ------
    AssertionError
        If that is not as it should be.
    """
    exact, start, truth = problem(cameras, points, 0.0, np.random.default_rng(seed))
    solved = tg.optimize.least_squares(exact, start, jac=JACOBIAN, x_scale="jac", xtol=1e-14, ftol=1e-14, gtol=1e-12)
    error = float(np.max(np.abs(solved.x["points"] - truth[1])))
    print(f"without noise: every point is found to {error:.1e}")

    residuals, start, truth = problem(cameras, points, NOISE, np.random.default_rng(seed))
    begin = time.perf_counter()
    result = tg.optimize.least_squares(residuals, start, jac=JACOBIAN, x_scale="jac")
    seconds = time.perf_counter() - begin
    before, after = residuals(start), result.fun
    unknowns = sum(part.size for part in start.values())
    # Each unknown takes one square of the noise out of the sum; the length of the last shift has no effect.
    size = float(np.sqrt(np.sum(after**2) / (len(after) - (unknowns - 1))) / NOISE)
    print(f"{len(after)} residuals of {unknowns} unknowns: {np.sqrt(np.mean(before**2)):.1f} pixels at the start, "
          f"{np.sqrt(np.mean(after**2)):.3f} after {result.nfev} evaluations in {seconds:.2f} s")  # fmt: skip
    print(f"estimated noise: {size * NOISE:.3f} pixels, added: {NOISE}")
    if plot is not None:
        save_plot(plot, start, result.x, truth, before, after)
        print(f"picture saved as {plot}")
    assert error < 1e-6, f"without noise a point is {error:.1e} off"
    assert abs(size - 1.0) < 5.0 / np.sqrt(2 * len(after)), f"the residuals are {size:.3f} times the noise"
    return {"result": result, "error": error, "size": size}


#: How the Jacobian is computed.
JACOBIAN = "sparse"

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--plot", default="bundle_adjustment.png", help="where to save the picture (%(default)s)")
    main(parser.parse_args().plot)

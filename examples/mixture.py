"""Maximum likelihood of a mixture of Gaussians, by gradients, beside scikit-learn's
=================================================================================

scikit-learn fits mixtures by expectation and maximisation. Here the likelihood is written down
in NumPy and maximised by L-BFGS: the parameters are a dict of arrays, weights pass through a
softmax, and each covariance is that of a triangular factor with a positive diagonal, so
nothing needs a constraint. Both end in the same maximum.

The data are the lengths and widths of the petals of 150 irises (two of the four columns, so
that it can be drawn).  Run it with::

    python examples/mixture.py
    python examples/mixture.py --plot mixture.png

It needs ``pip install .[examples]``.
"""
# sphinx_gallery_thumbnail_path = "gallery/mixture.png"

from __future__ import annotations

import argparse

import numpy as np

import tapegrad as tg

#: How near the mean log-likelihood and the parameters have to be to scikit-learn's.
LIKELIHOOD_TOLERANCE, TOLERANCE = 1e-8, 1e-3


def load():
    """Lengths and widths of petals, (150, 2), and the species."""
    from sklearn.datasets import load_iris

    iris = load_iris()
    return iris.data[:, 2:], iris.target


def factors(parameters):
    """The triangular factors of the precision matrices: positive on the diagonal, (components, 2, 2)."""
    return np.exp(parameters["log_diagonal"])[:, :, None] * np.eye(2) + parameters["below"][:, None, None] * np.array([[0.0, 0.0], [1.0, 0.0]])


def log_densities(parameters, points):
    """Logarithm of weight times density of each component at each point: (points, components)."""
    apart = points[:, None, :] - parameters["means"]
    white = np.einsum("nkd,kde->nke", apart, factors(parameters))
    log_weights = parameters["logits"] - np.log(np.sum(np.exp(parameters["logits"])))
    return log_weights + np.sum(parameters["log_diagonal"], axis=1) - np.log(2 * np.pi) - 0.5 * np.sum(white**2, axis=2)


def negative_log_likelihood(parameters, points):
    """Mean over the points."""
    logs = log_densities(parameters, points)
    largest = np.max(logs, axis=1)
    return -np.mean(largest + np.log(np.sum(np.exp(logs - largest[:, None]), axis=1)))


def first_guess(points, labels):
    """Components around groups of points, as wide as all of them."""
    groups = range(labels.max() + 1)
    count = len(groups)
    return {
        "logits": np.zeros(count),
        "means": np.array([points[labels == k].mean(axis=0) for k in groups]),
        "log_diagonal": np.tile(-np.log(0.5 * points.std(axis=0)), (count, 1)),
        "below": np.zeros(count),
    }


def described(parameters):
    """Weights, means and covariances, in order of the means."""
    weights = np.exp(parameters["logits"])
    precision = np.array([f @ f.T for f in factors(parameters)])
    order = np.argsort(parameters["means"][:, 0])
    return (weights / weights.sum())[order], parameters["means"][order], np.linalg.inv(precision)[order]


def by_scikit_learn(points, start):
    """Weights, means and covariances by expectation and maximisation from the same start, and the mean log-likelihood."""
    from sklearn.mixture import GaussianMixture

    model = GaussianMixture(
        len(start["means"]), tol=1e-13, max_iter=20000, reg_covar=0.0, means_init=start["means"],
        weights_init=np.full(len(start["means"]), 1 / len(start["means"])),
        precisions_init=np.array([f @ f.T for f in factors(start)]),
    ).fit(points)  # fmt: skip
    order = np.argsort(model.means_[:, 0])
    return model.weights_[order], model.means_[order], model.covariances_[order], model.score(points)


def save_plot(path, points, labels, parameters):
    """Draw the points, and ellipses of one and two standard deviations."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 4.5), layout="constrained")
    axes = figure.subplots()
    colors = ["#1b7f5c", "#b5651d", "#1f5a99"]
    for k, color in enumerate(colors[: labels.max() + 1]):
        axes.plot(*points[labels == k].T, "o", color=color, markersize=4, alpha=0.7)
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = np.array([np.cos(angle), np.sin(angle)])
    weights, means, covariances = described(parameters)
    for k, (weight, mean, covariance) in enumerate(zip(weights, means, covariances)):
        for deviations in (1, 2):
            x, y = mean[:, None] + deviations * np.linalg.cholesky(covariance) @ circle
            axes.plot(x, y, color=colors[k % 3], linewidth=1.4 / deviations)
        axes.annotate(f"{weight:.2f}", mean, ha="center", va="center", fontsize=11, weight="bold")
    axes.set(xlabel="length of petals, cm", ylabel="width of petals, cm", title="Irises: three Gaussians, weights, 1 and 2 deviations")
    figure.savefig(path, dpi=120)


def main(plot=None, every=1):
    """Fit, compare with scikit-learn, draw.

    Parameters
    ----------
    plot : str or Path, optional
        Where to save the picture.
    every : int
        Use each so manieth point.

    Returns
    -------
    dict
        ``result``, and ``apart``: the largest differences of log-likelihood and parameters to scikit-learn's.

    Raises
    ------
    AssertionError
        If one is larger than its tolerance.
    """
    points, labels = load()
    points, labels = points[::every], labels[::every]
    start = first_guess(points, labels)
    result = tg.optimize.lbfgs(negative_log_likelihood, start, args=(points,), gtol=1e-9, ftol=0.0, max_iter=2000)
    found = described(result.x)
    *theirs, likelihood = by_scikit_learn(points, start)
    print(f"log-likelihood {-result.fun:.9f} after {result.nit} iterations in {1e3 * result.seconds['total']:.1f} ms, {likelihood:.9f} by scikit-learn")
    for weight, mean, covariance in zip(*found):
        print(f"weight {weight:.4f}  mean {mean.round(3)}  deviations {np.sqrt(np.diag(covariance)).round(3)}")
    apart = -result.fun - likelihood, max(float(np.max(np.abs(a - b))) for a, b in zip(found, theirs))
    print(f"largest difference of a parameter to scikit-learn's: {apart[1]:.1e}")
    if plot is not None:
        save_plot(plot, points, labels, result.x)
        print(f"picture saved as {plot}")
    assert abs(apart[0]) <= LIKELIHOOD_TOLERANCE, f"the log-likelihoods differ by {apart[0]:.1e}"
    assert apart[1] <= TOLERANCE, f"the parameters differ by {apart[1]:.1e}"
    return {"result": result, "apart": apart}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--plot", default="mixture.png", help="where to save the picture (%(default)s)")
    main(parser.parse_args().plot)

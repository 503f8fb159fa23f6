"""Maximum likelihood of a logistic regression, beside scikit-learn's, with standard errors
========================================================================================

The loss is one line of NumPy. L-BFGS minimises it, and its Hessian, which scikit-learn does not
give, says how sure each coefficient is.  The data are 569 tumours with measurements of their cells.

Run it with::

    python examples/logistic.py
    python examples/logistic.py --plot logistic.png

It needs ``pip install .[examples]``.
"""
# sphinx_gallery_thumbnail_path = "gallery/logistic.png"

from __future__ import annotations

import argparse

import numpy as np

import tapegrad as tg

#: How near the coefficients have to be to scikit-learn's.
TOLERANCE = 1e-4
#: Of the squares of the coefficients, as scikit-learn's ``C=1``.
PENALTY = 1.0


def load(features=10):
    """Measurements, brought to mean 0 and deviation 1; 1 for benign and -1 for malignant; names."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    points = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    return points[:, :features], 2.0 * data.target - 1.0, data.feature_names[:features]


def loss(p, points, sides):
    """Negative log-likelihood with a penalty on the weights."""
    return np.sum(np.logaddexp(0.0, -sides * (points @ p["weights"] + p["bias"]))) + 0.5 * PENALTY * np.sum(p["weights"] ** 2)


def standard_errors(p, points, sides):
    """Of the weights: from the inverse of the Hessian, in which the dict of parameters becomes one vector."""
    count = len(p["weights"])
    flat = np.append(p["weights"], p["bias"])
    hessian = tg.hessian(lambda x: loss({"weights": x[:count], "bias": x[count]}, points, sides))(flat)
    return np.sqrt(np.diag(np.linalg.inv(hessian)))[:count]


def by_scikit_learn(points, sides):
    """Its weights and bias."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1 / PENALTY, tol=1e-10, max_iter=10000).fit(points, sides)
    return model.coef_[0], model.intercept_[0]


def save_plot(path, weights, errors, names):
    """Draw the weights with two standard errors, the surest first."""
    from matplotlib.figure import Figure

    order = np.argsort(np.abs(weights) / errors)
    figure = Figure(figsize=(7, 0.8 + 0.2 * len(names)), layout="constrained")
    axes = figure.subplots()
    sure = np.abs(weights[order]) > 2 * errors[order]
    for mask, color in ((sure, "#1f5a99"), (~sure, "#999999")):
        axes.errorbar(weights[order][mask], np.flatnonzero(mask), xerr=2 * errors[order][mask], fmt="o", color=color, markersize=4)
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(names)), names[order], fontsize=8)
    axes.set(xlabel="weight, with two standard errors (to the right: benign)", title="Which measurements tell tumours apart")
    axes.margins(y=0.06)
    figure.savefig(path, dpi=120)


def main(plot=None, features=10):
    """Fit, compare with scikit-learn, draw.

    Parameters
    ----------
    plot : str or Path, optional
        Where to save the picture.
    features : int
        Measurements to use, of 30; the first ten are means over the cells of a tumour.

    Returns
    -------
    dict
        ``result``, ``errors``, and ``apart``: the largest difference of a coefficient to scikit-learn's.

    Raises
    ------
    AssertionError
        If it is larger than the tolerance.
    """
    points, sides, names = load(features)
    result = tg.optimize.lbfgs(loss, {"weights": np.zeros(features), "bias": 0.0}, args=(points, sides), gtol=1e-7)
    weights, bias = by_scikit_learn(points, sides)
    errors = standard_errors(result.x, points, sides)
    apart = max(float(np.max(np.abs(result.x["weights"] - weights))), abs(result.x["bias"] - bias))
    print(f"loss {result.fun:.6f} after {result.nit} iterations in {1e3 * result.seconds['total']:.1f} ms")
    for k in np.argsort(-np.abs(result.x["weights"]) / errors)[:5]:
        print(f"{names[k]:26}{result.x['weights'][k]:8.3f} +- {errors[k]:.3f}")
    print(f"largest difference of a coefficient to scikit-learn's: {apart:.1e}")
    if plot is not None:
        save_plot(plot, result.x["weights"], errors, names)
        print(f"picture saved as {plot}")
    assert apart <= TOLERANCE, f"the coefficients differ from scikit-learn's by {apart:.1e}"
    return {"result": result, "errors": errors, "apart": apart}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--plot", default="logistic.png", help="where to save the picture (%(default)s)")
    main(parser.parse_args().plot)

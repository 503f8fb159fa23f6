"""Fits: parameters with names and bounds, least squares and likelihoods, and how well the data determine what was fitted.

    `parameters`   names, bounds, ties and scales: between the vector of an optimiser and the containers of a model.
    `models`       what is minimised: residuals, robust losses, likelihoods.
    `solving`      where the cost is least: SciPy's optimisers with exact derivatives, Newton's steps at the end.
    `fitting`      `fit`.
    `uncertainty`  covariances by curvature, and combinations of parameters that the data do not determine.
    `profile`      the cost along one parameter or around two, all others fitted anew.
    `propagation`  `propagate`: the uncertainty of what is computed from the parameters.
    `report`       `Fit`: numbers, the table, the picture.

Imports: optimize, transforms, array, common.
"""

from .fitting import fit
from .propagation import propagate

__all__ = ["fit", "propagate"]

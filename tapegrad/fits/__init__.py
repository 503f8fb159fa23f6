"""Fits: parameters with names and bounds, least squares and likelihoods, and how well the data determine what was fitted.

Imports: common, codegen, array, autograd, program, transforms, optimize.

`parameters`   names, bounds, ties and scales: between the vector of an optimiser and the containers of a model.
`models`       what is minimised: residuals, robust losses, likelihoods.
`solving`      where the cost is least: SciPy's optimisers with exact derivatives, Newton's steps at the end.
`uncertainty`  covariances by curvature, and combinations of parameters that the data do not determine.
`fitting`      `fit`.
`report`       `Fit`: numbers, the table, the picture.
`many`         `fit_many`, `multistart`: many small fits at once.
`profile`      the cost along one parameter or around two, all others fitted anew.
`sampling`     `sample`: draws from a posterior; `nuts` is how nutpie is called.
`propagation`  `propagate`: the uncertainty of what is computed from the parameters.
"""

from .fitting import fit
from .many import FitMany, fit_many, multistart
from .profile import Profile
from .propagation import propagate
from .report import Fit
from .sampling import sample

__all__ = ["Fit", "FitMany", "Profile", "fit", "fit_many", "multistart", "propagate", "sample"]

"""SciPy functions that cannot reach tensors by themselves, under SciPy's names.

Imports: common, array, numpy_api, autograd, program, transforms.

SciPy's ufuncs work on tensors as they are (``scipy.special.erf(t)``).  Functions
that turn their arguments into arrays first are mirrored here: called with a
tensor they record, called with plain numbers and arrays they are SciPy's own.
`tapegrad.scipy.mirrors.MIRRORS` lists them.  Any other name of these modules is
SciPy's own object.
"""

from ..common.public import only_public
from . import fft, integrate, interpolate, linalg, ndimage, optimize, signal, sparse, spatial, special, stats

__all__ = ["fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "spatial", "special", "stats"]
__dir__ = only_public(__name__)

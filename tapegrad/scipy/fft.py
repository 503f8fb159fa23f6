"""Fourier transforms of `scipy.fft` on tensors, real and complex; every other name is SciPy's own.

Arguments about memory and threads (`overwrite_x`, `workers`, `plan`) are accepted and have no effect.
"""

import numpy as np

from ..array.functions.arguments import axis_tuple, named
from .mirrors import mirror, names_of

__all__, __dir__, __getattr__ = names_of(__name__)


def _transform(name):
    function, several, default = getattr(np.fft, name), name[-1] in "2n", (-2, -1) if name[-1] == "2" else None

    def along_one(x, n=None, axis=-1, norm=None, overwrite_x=False, workers=None, *, plan=None):
        """As ``{name}`` of `scipy.fft`."""
        return function(x, n, axis, norm)

    def along_several(x, s=None, axes=default, norm=None, overwrite_x=False, workers=None, *, plan=None):
        """As ``{name}`` of `scipy.fft`."""
        s, axes = (tuple(np.ravel(one).tolist()) if one is not None else None for one in (s, axes))
        return function(x, s, axes and axis_tuple(axes, np.ndim(x)), norm)

    return mirror(named(along_several if several else along_one, name))


globals().update({name: _transform(name) for name in __all__})

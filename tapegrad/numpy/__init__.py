"""NumPy's namespace in which everything works: ``import tapegrad.numpy as np``.

Imports: common, tape, array, numpy_api.

What it has is what NumPy has, under the same names, made when it is first asked for.  On plain data each function is NumPy's
own.  A list that holds tensors is one where NumPy takes an array (`numpy_api.dispatch`), ``np.array`` and ``np.asarray`` take tensors,
and while a function is differentiated what makes arrays of floats makes constant tensors, which can be filled::

    a = np.zeros(3)
    a[0] = t

`names`     what of NumPy is replaced, and the rest.
`makers`    the functions that make arrays, and those that take functions.
`linalg`, `fft`, `random`   the modules of those names.
"""

from typing import TYPE_CHECKING

from . import fft as fft
from . import linalg as linalg
from . import random as random
from .names import namespace

if TYPE_CHECKING:
    from numpy import *  # noqa: F403

#: Of the array API standard, which `array.__array_namespace__` gives this module for.
__array_api_version__ = "2024.12"
__all__, __getattr__, __dir__ = namespace(__name__)

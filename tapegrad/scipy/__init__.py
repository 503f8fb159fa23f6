"""SciPy functions that cannot reach tensors by themselves, under SciPy's names.

SciPy's ufuncs work on tensors as they are (``scipy.special.erf(t)``).  Functions
that turn their arguments into arrays first are mirrored here.
"""

from . import special  # noqa: F401

#: Functions of SciPy mirrored in this package, by their full names there.
MIRRORED = tuple(f"special.{name}" for name in special.__all__)

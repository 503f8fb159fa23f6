"""NumPy's interface to tensors and dual numbers: what ``np.f(t)`` and ``t.f()`` run.

Imports: common, rules, interpreter, array.

`dispatch` receives the calls and holds the tables; the other modules fill them, a family each, and
`refused` says what is not offered and why.  Importing this package registers everything.
"""

from . import complex, dispatch, fourier, linalg, methods, own_code, products, reductions, selecting, shaping  # noqa: F401  # noqa: F401

"""What NumPy offers and tapegrad refuses, with reasons; and what has no derivative.

`REFUSED` names the functions that raise `UnsupportedFunctionError` when they meet
a tensor that requires a gradient; the reason becomes part of the message.
`WITHOUT_DERIVATIVE` names those that answer such a tensor with a plain value, because
the derivative is zero or does not exist.  Anything else gives a tensor that is
differentiated, or fails `tests/numpy_api/test_every_public_function.py`.  A function that
gets a rule loses its line here, and nothing else has to change.
"""

_NO_RULE = "it has no rule yet"
_COMPLEX = "its result is complex, and complex numbers are not supported yet"
_COMPLEX_OUTSIDE = "it turns complex outside the real domain; use the function of the same name in np"
_POLYNOMIAL = "the old polynomial functions have no rules yet; write the polynomial with np.polyval's scheme or sums of powers"
_SET = "which elements stay depends on exact equality of floats; find their positions on .detach().numpy() and index with them"
_COUNTS = "counts do not change with the values, edges do; use .detach().numpy() for the histogram"
_BITS = "it works on the bits of integers"
_FILE = "files hold plain numbers; save .detach().numpy()"
_SPACING = "it is about floating-point numbers, not real ones, and has no derivative"
_LINALG = "this decomposition or solver has no rule yet"
_RANK = "it counts singular values above a threshold; count them on .detach().numpy()"

REFUSED = {
    "numpy.angle": "complex numbers are not supported, and the angle of a real number is a step (np.where(x < 0, np.pi, 0.0))",
    "numpy.bincount": _NO_RULE,
    "numpy.einsum_path": _NO_RULE,
    "numpy.fft.fft": _COMPLEX,
    "numpy.fft.fft2": _COMPLEX,
    "numpy.fft.fftn": _COMPLEX,
    "numpy.fft.hfft": _COMPLEX,
    "numpy.fft.ifft": _COMPLEX,
    "numpy.fft.ifft2": _COMPLEX,
    "numpy.fft.ifftn": _COMPLEX,
    "numpy.fft.ihfft": _COMPLEX,
    "numpy.fft.irfft": _COMPLEX,
    "numpy.fft.irfft2": _COMPLEX,
    "numpy.fft.irfftn": _COMPLEX,
    "numpy.fft.rfft": _COMPLEX,
    "numpy.fft.rfft2": _COMPLEX,
    "numpy.fft.rfftn": _COMPLEX,
    "numpy.histogram": _COUNTS,
    "numpy.histogram2d": _COUNTS,
    "numpy.histogram_bin_edges": _COUNTS,
    "numpy.histogramdd": _COUNTS,
    "numpy.intersect1d": _SET,
    "numpy.lib.scimath.arccos": _COMPLEX_OUTSIDE,
    "numpy.lib.scimath.arcsin": _COMPLEX_OUTSIDE,
    "numpy.lib.scimath.arctanh": _COMPLEX_OUTSIDE,
    "numpy.lib.scimath.log": _COMPLEX_OUTSIDE,
    "numpy.lib.scimath.log10": _COMPLEX_OUTSIDE,
    "numpy.lib.scimath.log2": _COMPLEX_OUTSIDE,
    "numpy.lib.scimath.logn": _COMPLEX_OUTSIDE,
    "numpy.lib.scimath.power": _COMPLEX_OUTSIDE,
    "numpy.lib.scimath.sqrt": _COMPLEX_OUTSIDE,
    "numpy.linalg.eig": "its results are complex; use np.linalg.eigh for symmetric matrices",
    "numpy.linalg.eigvals": "its results are complex; use np.linalg.eigvalsh for symmetric matrices",
    "numpy.nextafter": _SPACING,
    "numpy.packbits": _BITS,
    "numpy.poly": _POLYNOMIAL,
    "numpy.polyadd": _POLYNOMIAL,
    "numpy.polyder": _POLYNOMIAL,
    "numpy.polydiv": _POLYNOMIAL,
    "numpy.polyint": _POLYNOMIAL,
    "numpy.polymul": _POLYNOMIAL,
    "numpy.polysub": _POLYNOMIAL,
    "numpy.roots": _POLYNOMIAL,
    "numpy.save": _FILE,
    "numpy.savetxt": _FILE,
    "numpy.savez": _FILE,
    "numpy.savez_compressed": _FILE,
    "numpy.setdiff1d": _SET,
    "numpy.setxor1d": _SET,
    "numpy.sort_complex": _COMPLEX,
    "numpy.spacing": _SPACING,
    "numpy.union1d": _SET,
    "numpy.unique": _SET,
    "numpy.unique_all": _SET,
    "numpy.unique_counts": _SET,
    "numpy.unique_inverse": _SET,
    "numpy.unique_values": _SET,
    "numpy.unpackbits": _BITS,
}

_POSITIONS = "positions are integers"
_TRUTH = "a truth value is piecewise constant"
_SHAPE = "it depends on shapes and dtypes only"
_TEXT = "text is for reading"
_FILL = "every element is the fill value; a tensor as fill value is differentiated"

WITHOUT_DERIVATIVE = {
    "numpy.imag": "the imaginary part of a real number is 0",
    "numpy.all": _TRUTH,
    "numpy.allclose": _TRUTH,
    "numpy.any": _TRUTH,
    "numpy.argmax": _POSITIONS,
    "numpy.argmin": _POSITIONS,
    "numpy.argpartition": _POSITIONS,
    "numpy.argsort": _POSITIONS,
    "numpy.argwhere": _POSITIONS,
    "numpy.array2string": _TEXT,
    "numpy.array_equal": _TRUTH,
    "numpy.array_equiv": _TRUTH,
    "numpy.array_repr": _TEXT,
    "numpy.array_str": _TEXT,
    "numpy.can_cast": _SHAPE,
    "numpy.common_type": _SHAPE,
    "numpy.count_nonzero": _POSITIONS,
    "numpy.diag_indices_from": _POSITIONS,
    "numpy.digitize": _POSITIONS,
    "numpy.empty_like": _SHAPE,
    "numpy.equal": _TRUTH,
    "numpy.flatnonzero": _POSITIONS,
    "numpy.full_like": _FILL,
    "numpy.greater": _TRUTH,
    "numpy.greater_equal": _TRUTH,
    "numpy.isclose": _TRUTH,
    "numpy.iscomplex": _TRUTH,
    "numpy.iscomplexobj": _SHAPE,
    "numpy.isfinite": _TRUTH,
    "numpy.isin": _TRUTH,
    "numpy.isinf": _TRUTH,
    "numpy.isnan": _TRUTH,
    "numpy.isneginf": _TRUTH,
    "numpy.isposinf": _TRUTH,
    "numpy.isreal": _TRUTH,
    "numpy.isrealobj": _SHAPE,
    "numpy.less": _TRUTH,
    "numpy.less_equal": _TRUTH,
    "numpy.lexsort": _POSITIONS,
    "numpy.linalg.matrix_rank": "a rank is an integer",
    "numpy.logical_and": _TRUTH,
    "numpy.logical_not": _TRUTH,
    "numpy.logical_or": _TRUTH,
    "numpy.logical_xor": _TRUTH,
    "numpy.may_share_memory": _SHAPE,
    "numpy.min_scalar_type": _SHAPE,
    "numpy.nanargmax": _POSITIONS,
    "numpy.nanargmin": _POSITIONS,
    "numpy.ndim": _SHAPE,
    "numpy.nonzero": _POSITIONS,
    "numpy.not_equal": _TRUTH,
    "numpy.ones_like": _SHAPE,
    "numpy.ravel_multi_index": _POSITIONS,
    "numpy.result_type": _SHAPE,
    "numpy.searchsorted": _POSITIONS,
    "numpy.shape": _SHAPE,
    "numpy.shares_memory": _SHAPE,
    "numpy.signbit": _TRUTH,
    "numpy.size": _SHAPE,
    "numpy.tril_indices_from": _POSITIONS,
    "numpy.triu_indices_from": _POSITIONS,
    "numpy.unravel_index": _POSITIONS,
    "numpy.zeros_like": _SHAPE,
}

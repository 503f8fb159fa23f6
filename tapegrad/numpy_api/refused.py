"""Functions of NumPy that tapegrad refuses, with reasons, and those without derivative.

`REFUSED` names the functions that raise `UnsupportedFunctionError` when they meet
a tensor that requires a gradient; the reason becomes part of the message.
`WITHOUT_DERIVATIVE` names those that answer such a tensor with a plain value, because
the derivative is zero or does not exist.  Anything else gives a tensor that is
differentiated, or fails `tests/numpy_api/test_every_public_function.py`.  A function that
gets a rule loses its line here, and nothing else has to change.
"""


def _by_name(reasons):
    """Public name of each function -> why."""
    return {f"numpy.{name}": why for why, names in reasons.items() for name in names.split()}


REFUSED = _by_name({
    "complex numbers have no order to sort by": "sort_complex",
    "counts do not change with the values, edges do; use .detach().numpy() for the histogram": (
        "histogram histogram2d histogram_bin_edges histogramdd"
    ),
    "which elements stay depends on exact equality of floats; find their positions on .detach().numpy() and index with them": (
        "intersect1d setdiff1d setxor1d union1d unique unique_all unique_counts unique_inverse unique_values"
    ),
    "it turns complex outside the real domain; use the function of the same name in np": (
        "lib.scimath.arccos lib.scimath.arcsin lib.scimath.arctanh lib.scimath.log lib.scimath.log10 lib.scimath.log2 "
        "lib.scimath.logn lib.scimath.power lib.scimath.sqrt"
    ),
    "it is about floating-point numbers, not real ones, and has no derivative": "nextafter spacing",
    "it works on the bits of integers": "packbits unpackbits",
    "the old polynomial functions have no rules; evaluate the polynomial by Horner's rule or sums of powers": (
        "poly polyadd polyder polydiv polyint polymul polysub roots"
    ),
    "files hold plain numbers; save .detach().numpy()": "save savetxt savez savez_compressed",
})

WITHOUT_DERIVATIVE = _by_name({
    "the imaginary part of a real number is 0": "imag",
    "a truth value is piecewise constant": (
        "all allclose any array_equal array_equiv equal greater greater_equal isclose iscomplex isfinite isin isinf isnan isnat "
        "isneginf isposinf isreal less less_equal logical_and logical_not logical_or logical_xor not_equal signbit"
    ),
    "positions are integers": (
        "argmax argmin argpartition argsort argwhere count_nonzero diag_indices_from digitize flatnonzero lexsort "
        "nanargmax nanargmin nonzero ravel_multi_index searchsorted tril_indices_from triu_indices_from unravel_index"
    ),
    "text is for reading": "array2string array_repr array_str",
    "it depends on shapes and dtypes only": (
        "can_cast common_type einsum_path empty_like iscomplexobj isrealobj may_share_memory min_scalar_type ndim ones_like "
        "result_type shape shares_memory size zeros_like"
    ),
    "every element is the fill value; a tensor as fill value is differentiated": "full_like",
    "a rank is an integer": "linalg.matrix_rank",
})

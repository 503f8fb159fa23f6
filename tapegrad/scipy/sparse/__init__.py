"""The mirror of `scipy.sparse`: matrices with values on the tape, and `linalg`; every other name is SciPy's own."""

from ..mirrors import names_of
from . import linalg  # noqa: F401
from .values import SparseTensor, coo_array, coo_matrix, csc_array, csc_matrix, csr_array, csr_matrix  # noqa: F401

__all__, __dir__, __getattr__ = names_of(__name__, "SparseTensor", "linalg")

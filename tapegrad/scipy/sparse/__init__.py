"""The mirror of `scipy.sparse`: matrices with values on the tape, and `linalg`; every other name is SciPy's own."""

from ...common.public import only_public
from ..mirrors import MIRRORS, own_names
from . import linalg  # noqa: F401
from .values import SparseTensor, coo_array, coo_matrix, csc_array, csc_matrix, csr_array, csr_matrix  # noqa: F401

__all__ = ["SparseTensor", "linalg", *MIRRORS["scipy.sparse"]]
__dir__ = only_public(__name__)
__getattr__ = own_names("scipy.sparse")

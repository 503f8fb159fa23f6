"""What HIPS autograd differentiates is differentiated here, or refused with a reason."""

import numpy as np

from tapegrad.numpy_api.dispatch import DIRECT, FUNCTIONS, VALUES, name_of
from tapegrad.numpy_api.refused import REFUSED
from tapegrad.rules import BY_FUNCTION
from tests.every import every

#: Functions of autograd.numpy 1.9 that have a derivative there, Fourier transforms (complex) left out.
HIPS = """
    absolute add amax amin angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh array_from_args array_split
    astype atleast_1d atleast_2d atleast_3d broadcast_to clip concatenate_args conjugate cos cosh cross cumsum
    deg2rad degrees diag diagonal diff divide dot dsplit einsum exp exp2 expand_dims expm1 fabs fliplr flipud fmax
    fmin full gradient hsplit hypot imag inner kron linalg.cholesky linalg.det linalg.eig linalg.eigh linalg.inv
    linalg.pinv linalg.slogdet linalg.solve linalg.svd linspace log log10 log1p log2 logaddexp logaddexp2
    make_diagonal matmul max maximum min minimum moveaxis multiply nan_to_num negative outer pad partition power
    prod rad2deg radians ravel real real_if_close reciprocal remainder repeat reshape roll rollaxis rot90 sin sinc
    sinh sort split sqrt square squeeze subtract sum swapaxes tan tanh tensordot tile trace transpose tril triu
    vsplit
""".split()
#: Names that NumPy no longer has.
GONE = {name for name in HIPS if not hasattr(np.linalg if name.startswith("linalg.") else np, name.rpartition(".")[2])}


def test_hardly_any_are_gone():
    assert len(GONE) <= 8, GONE


@every("name", sorted(set(HIPS) - GONE))
def test_has_a_rule_or_a_reason(name):
    function = getattr(np.linalg if name.startswith("linalg.") else np, name.rpartition(".")[2])
    known = {*FUNCTIONS, *BY_FUNCTION, *DIRECT, *VALUES}
    assert function in known or name_of(function) in REFUSED

"""tapegrad: exact derivatives of ordinary Python and NumPy code, at compiled speed.

Operations append instructions to a flat Wengert tape; a compiled sweep walks it
in reverse.  Importing this package compiles nothing and does not import Numba.
"""

__version__ = "0.1.0"

from . import (  # noqa: F401  (they add tensor methods and NumPy functions)
    autograd,
    dual,
    errors,
    implicit,
    indexing,
    inplace,
    methods,
    nn,
    numpy_dispatch,
    numpy_elementwise,
    numpy_linalg,
    numpy_making,
    numpy_products,
    numpy_reductions,
    numpy_selecting,
    numpy_shaping,
    operators,
    optim,
    optimize,
)
from .anomaly import detect_anomaly
from .check import check
from .checkpoint import checkpoint
from .compiled import compile
from .compare import compare
from .compare_scaling import compare_scaling
from .config import info
from .creation import (
    arange,
    as_tensor,
    empty,
    empty_like,
    eye,
    from_numpy,
    full,
    full_like,
    linspace,
    manual_seed,
    ones,
    ones_like,
    rand,
    rand_like,
    randn,
    randn_like,
    zeros,
    zeros_like,
)
from .custom import custom_jvp, custom_vjp, primitive, stop_gradient
from .explain_zero import explain_zero
from .function import Function
from .dual import Dual
from .forward import derivative, jacfwd, jvp
from .functional import elementwise_grad, grad, jit, value_and_grad
from .functional import elementwise_grad as egrad
from .functions import *  # noqa: F401,F403
from .higher.hessians import hessian, hessian_diag, laplacian
from .higher.products import gnvp, hvp
from .jacobians import jacobian, jacrev, linearize, vjp
from .modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .nopython.api import njit_derivative, njit_grad, njit_jacobian, njit_jvp, njit_value_and_grad
from .replay.save import load_tape
from .sparse.api import sparse_hessian, sparse_jacobian, sparsity
from .tape.tape import Tape
from .tensor import Parameter, Tensor, tensor
from .traced import Traced

autograd.Function = Function
del Function

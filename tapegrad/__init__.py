"""tapegrad: exact derivatives of ordinary Python and NumPy code, at compiled speed.

Operations append instructions to a flat Wengert tape; a compiled sweep walks it
in reverse.  This module puts the public names together; CONTRIBUTING.md says what is in which
folder, and through which of them a call passes.  Importing the package
compiles nothing and does not import Numba or SciPy.
"""

from types import SimpleNamespace as _Namespace
from typing import TYPE_CHECKING as _TYPE_CHECKING

from .array import dual as _dual, indexing as _indexing, operators as _operators  # noqa: F401  (methods)
from .array import whole as _whole  # noqa: F401
from .common import config, tracebacks as _tracebacks  # noqa: F401
from .common.registry import registry as _registry
from . import autograd, errors, implicit, nn, numpy_api, optim, optimize, tree, utils  # noqa: F401  (numpy_api adds NumPy's functions)
from .tools import profiling as _profiling  # noqa: F401  (`g.profile`)
from .autograd.anomaly import debug_nans as _debug_nans, detect_anomaly
from .tools.check import check, gradcheck as _gradcheck
from .transforms.checkpoint import checkpoint
from .transforms.compiled import compile
from .tools.comparing.compare import compare
from .tools.comparing.scaling import compare_scaling
from .common.version import __version__
from .array.creation import (
    arange,
    as_tensor,
    empty,
    empty_like,
    eye,
    from_dlpack,
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
from .autograd.custom import custom_jvp, custom_vjp, primitive, stop_gradient
from .tools.explain_jumps import explain_jumps
from .tools.explain_zero import explain_zero
from .tools.showing.page import show
from .tools.installation import info
from .array.dual import Dual
from .array.differentiable import clearer as _clearer
from .array.objects import array
from .transforms.forward import derivative, jvp
from .transforms.functional import elementwise_grad, grad, jit, value_and_grad
from .transforms.functional import elementwise_grad as egrad
from .array.functions import *  # noqa: F401,F403
from .transforms.hessians import gnvp, hessian, hessian_diag, hvp, laplacian
from .common.errors import PathWarning, PerformanceWarning
from .transforms.jacobians import jacfwd, jacobian, jacrev, linearize, vjp
from .transforms.forward import jet
from .many.sums import distribute, mean_over, sum_over
from .transforms.loops.api import associative_scan, cond, fori_loop, map, scan, switch, while_loop
from .tape.modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .nopython.api import njit_derivative, njit_grad, njit_hessian, njit_hvp, njit_jacobian, njit_jvp, njit_value_and_grad, njit_vjp
from .transforms.saving.save import load, load_tape, save
from .transforms.vmap import vmap
from .sparse.api import sparse_hessian, sparse_jacobian, sparsity
from .autograd.tape import Tape
from .fits import fit, fit_many, multistart, propagate, sample
from .fits.fitting import determined as _determined
from .exporting import export, to_python
from .array.tensor import Parameter, Tensor, tensor
from .array.differentiable import Differentiable



def _advice(frame=None):
    """Which mirror of SciPy to call; `tapegrad.scipy` is loaded when the first error asks."""
    from .scipy.mirrors import advice

    return advice(frame)


def _beside_table(ufunc, a, b):
    """``ufunc(a, b)`` with a table of pandas; `tapegrad.pandas` is loaded when the first one stands beside a tensor."""
    from .pandas import calculated

    return calculated(ufunc, a, b)


class _Behind:
    """`kernel.behind`, which writes adjoints and tangents behind a tape, on it; it is loaded by the first derivative inside of another one."""

    def __getattr__(self, name):
        from .kernel import behind

        _registry.later.behind = behind
        return getattr(behind, name)


def _namespace(api_version):
    """The namespace that answers for this version of the array API standard; `tapegrad.numpy` is loaded when another library asks."""
    from .numpy.names import of_version

    return of_version(api_version)


_tracebacks.install()
_registry.later = _Namespace(
    advice=_advice, clearer=_clearer, beside_table=_beside_table, behind=_Behind(), namespace=_namespace, determined=_determined,
    debug_nans=_debug_nans, gradcheck=_gradcheck,
)  # fmt: skip

if not _TYPE_CHECKING:
    # PyTorch's other names, and what to write for those that are not offered.
    __getattr__ = nn.names.getter("tg")

# What `from tapegrad import *` gives, `dir(tapegrad)` shows and docs/reference.md lists.
__all__ = [
    "Dual", "Parameter", "PathWarning", "PerformanceWarning", "Tape", "Tensor", "abs", "absolute", "acos", "acosh", "add",
    "amax", "amin", "arange", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "array", "array_split",
    "as_tensor", "asin", "asinh", "associative_scan", "astype", "atan", "atan2", "atanh", "autograd", "beta", "betaln", "broadcast_to", "cat",
    "cbrt", "ceil", "check", "checkpoint", "clip", "clone", "compare", "compare_scaling", "compile", "concatenate", "cond",
    "copysign", "cos", "cosh", "cumsum", "custom_jvp", "custom_vjp", "deg2rad", "derivative", "detect_anomaly", "diag",
    "diagonal", "digamma", "distribute", "div", "divide", "dot", "egrad", "elementwise_grad", "empty", "empty_like", "enable_grad",
    "entr", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "errors", "exp", "exp2", "expand", "expand_dims", "expit",
    "explain_jumps", "explain_zero",
    "expm1", "export", "eye", "fit", "fit_many", "flatten", "flip", "floor", "floor_divide", "fmax", "fmin", "fmod", "fori_loop", "from_dlpack", "from_numpy",
    "full", "full_like", "gamma", "gammainc", "gammaincc", "gammainccinv", "gammaincinv", "gammaln", "gammasgn", "gnvp", "grad", "heaviside", "hessian",
    "hessian_diag", "hvp", "hypot", "i0", "i0e", "i1", "i1e", "implicit", "info", "is_grad_enabled", "iv", "ive", "j0",
    "j1", "jacfwd", "jacobian", "jacrev", "jet", "jit", "jv", "jvp", "kl_div", "laplacian", "ldexp", "lgamma", "linearize",
    "linspace", "load", "load_tape", "log", "log10", "log1p", "log2", "log_expit", "log_ndtr", "log_softmax", "logaddexp",
    "logaddexp2", "logit", "logsumexp", "manual_seed", "map", "matmul", "max", "maximum", "mean", "mean_over", "min", "minimum", "mod",
    "moveaxis", "mul", "multiply", "multistart", "ndtr", "ndtri", "ndtri_exp", "neg", "negate", "negative", "njit_derivative", "njit_grad",
    "njit_hessian", "njit_hvp", "njit_jacobian", "njit_jvp", "njit_value_and_grad", "njit_vjp", "nn", "no_grad", "norm", "ones", "ones_like",
    "optim", "optimize",
    "outer", "owens_t", "permute", "pow", "power", "primitive", "prod", "propagate", "rad2deg", "rand", "rand_like", "randn", "randn_like", "ravel",
    "reciprocal", "rel_entr", "relu", "remainder", "repeat", "reshape", "rgamma", "rint", "roll", "round", "sample", "save", "scan", "segment_max",
    "segment_mean", "segment_min", "segment_sum", "set_grad_enabled",
    "show", "sigmoid", "sign", "sin", "sinc", "sinh", "softmax", "softplus", "sparse_hessian", "sparse_jacobian", "sparsity",
    "split", "sqrt", "square", "squeeze", "stack", "std", "stdtr", "stdtrit", "stop_gradient", "sub", "subtract", "sum", "sum_over", "swapaxes", "switch", "t",
    "take", "tan", "tanh", "tensor", "tile", "to_python", "trace", "transpose", "tree", "true_divide", "trunc", "unsqueeze", "value_and_grad",
    "var", "vjp", "vmap", "where", "while_loop", "xlog1py", "xlogy", "y0", "y1", "yv", "zeros", "zeros_like",
]  # fmt: skip


def __dir__():
    return sorted([*__all__, "__version__", "__doc__", "__file__", "__path__", "__name__"])

"""HIPS autograd's modules and names: ``import tapegrad.hips as autograd``, ``import tapegrad.hips.numpy as np``.

Imports: common, array, numpy, autograd, transforms, scipy, tools.

`differential_operators`  `grad` and its kin, with autograd's order of arguments.
`extend`                  `primitive`, `defvjp` and their kin, in terms of `tapegrad.primitive`.
`containers`              autograd's ``builtins`` and ``tracer``, ``misc.flatten``, ``misc.optimizers``, ``misc.fixed_points``.
`test_util`               its checks, by `tapegrad.check`.
`convolution`             ``scipy.signal.convolve``, which is another function than SciPy's.

The modules of autograd that are not files here are made below, of what these have and of `tapegrad.numpy` and `tapegrad.scipy`.
Not offered are the classes of its tracer (``Box``, ``VSpace``, ``JVPNode``): a program that has rules for these is one of autograd's own parts.
"""

import sys
import types

from .. import numpy, scipy
from ..array.tensor import Tensor
from ..common.public import only_public
from . import containers, convolution, differential_operators, extend, test_util
from .containers import dict, isinstance, list, tuple, type
from .differential_operators import (
    checkpoint,
    deriv,
    elementwise_grad,
    grad,
    grad_and_aux,
    grad_named,
    hessian,
    hessian_tensor_product,
    hessian_vector_product,
    holomorphic_grad,
    jacobian,
    make_ggnvp,
    make_hvp,
    make_jvp,
    make_vjp,
    multigrad_dict,
    tensor_jacobian_product,
    value_and_grad,
    vector_jacobian_product,
)
from .extend import primitive

__all__ = [
    "builtins", "checkpoint", "deriv", "dict", "differential_operators", "elementwise_grad", "extend", "grad", "grad_and_aux", "grad_named", "hessian",
    "hessian_tensor_product", "hessian_vector_product", "holomorphic_grad", "isinstance", "jacobian", "list", "make_ggnvp", "make_hvp", "make_jvp",
    "make_vjp", "misc", "multigrad_dict", "numpy", "primitive", "scipy", "tensor_jacobian_product", "test_util", "tracer", "tuple", "type", "util",
    "value_and_grad", "vector_jacobian_product",
]  # fmt: skip
__dir__ = only_public(__name__)


def _module(name, names=(), source=None, of=None):
    """A module of autograd's: some names of a module of ours, or all names of another one."""
    module = types.ModuleType(f"{__name__}.{name}", f"autograd.{name}, in terms of tapegrad.")
    for one in names:
        setattr(module, one, getattr(source, one))
    if of is not None:
        module.__getattr__ = lambda name: getattr(of, name)
        module.__dir__ = lambda: dir(of)
        if hasattr(of, "__all__"):
            module.__all__ = [name for name in of.__all__ if hasattr(of, name)]
    _put(name, module)
    return module


def _put(name, module):
    """Let a module, or what stands for one, be imported by a name."""
    sys.modules[f"{__name__}.{name}"] = module
    parent, _, last = name.rpartition(".")
    setattr(sys.modules[f"{__name__}.{parent}" if parent else __name__], last, module)


builtins = _module("builtins", ("dict", "isinstance", "list", "tuple", "type"), containers)
tracer = _module("tracer", ("getval", "isbox", "notrace_primitive", "primitive"), extend)
core = _module("core", ("getval", "isbox", "primitive", "make_vjp", "make_jvp", "defvjp", "defjvp", "def_linear"), extend)
util = _module("util", ("quick_grad_check", "subval", "subvals"), test_util)
wrap_util = _module("wrap_util", ("unary_to_nary",), differential_operators)
misc = _module("misc", ("flatten",), containers)
_module("misc.flatten", ("flatten", "flatten_func"), containers)
# As in autograd, the module has a function of its name.
misc.flatten = containers.flatten
_module("misc.optimizers", ("adam", "rmsprop", "sgd", "unflatten_optimizer"), containers)
_module("misc.fixed_points", ("fixed_point",), containers)
numpy = _module("numpy", of=numpy)
for _name in ("linalg", "fft", "random"):
    _module(f"numpy.{_name}", of=getattr(numpy, _name))
for _name in ("concatenate", "stack", "vstack", "hstack", "dstack", "column_stack"):
    setattr(numpy, _name, containers.of_iterables(getattr(numpy, _name)))
_module("numpy.numpy_boxes", of=types.SimpleNamespace(ArrayBox=Tensor))
scipy = _module("scipy", of=scipy)
for _name in ("integrate", "linalg", "special", "stats", "signal"):
    _module(f"scipy.{_name}", of=getattr(scipy, _name))
scipy.signal.convolve = convolution.convolve
for _name in ("beta", "chi2", "dirichlet", "gamma", "multivariate_normal", "norm", "poisson", "t"):
    _put(f"scipy.stats.{_name}", getattr(scipy.stats, _name))

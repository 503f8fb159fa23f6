"""HIPS autograd's modules and names: ``import tapegrad.hips as autograd``, ``import tapegrad.hips.numpy as np``.

Imports: common, array, numpy, autograd, transforms, scipy, tools.

`differential_operators`  `grad` and its kin, with autograd's order of arguments.
`extend`                  `primitive`, `defvjp` and their kin, in terms of `tapegrad.primitive`.
`containers`              autograd's ``builtins``, ``misc.flatten``, ``misc.optimizers``, ``misc.fixed_points``, and its
                          ``scipy.signal.convolve``, which is another function than SciPy's.
`test_util`               its checks, by `tapegrad.check`.

The modules of autograd that are not files here are made below, of what these have and of `tapegrad.numpy` and `tapegrad.scipy`.
Not offered are the classes of its tracer (``Box``, ``VSpace``, ``JVPNode``): a program that has rules for these is one of autograd's own parts.
"""

import sys
import types
from operator import attrgetter

from .. import numpy, scipy
from ..array.tensor import Tensor
from ..common.public import only_public
from . import containers, differential_operators, extend, test_util
from .containers import dict, isinstance, list, tuple, type
from .differential_operators import *  # noqa: F403
from .extend import primitive

__all__ = [
    *differential_operators.__all__, "builtins", "dict", "differential_operators", "extend", "isinstance", "list", "misc", "numpy", "primitive", "scipy",
    "test_util", "tracer", "tuple", "type", "util",
]  # fmt: skip
__dir__ = only_public(__name__)


def _put(name, module):
    """Let a module, or what stands for one, be imported by a name."""
    sys.modules[f"{__name__}.{name}"] = module
    parent, _, last = name.rpartition(".")
    setattr(sys.modules[f"{__name__}.{parent}" if parent else __name__], last, module)
    return module


def _module(name, source, names=()):
    """A module of autograd's: some names of a module of ours, or all where none is named."""
    module = types.ModuleType(f"{__name__}.{name}", f"autograd.{name}, in terms of tapegrad.")
    for one in names:
        setattr(module, one, getattr(source, one))
    if not names:
        module.__getattr__, module.__dir__ = lambda name: getattr(source, name), lambda: dir(source)
        module.__all__ = [name for name in source.__all__ if hasattr(source, name)]
    return _put(name, module)


builtins = _module("builtins", containers, ("dict", "isinstance", "list", "tuple", "type"))
tracer = _module("tracer", extend, ("getval", "isbox", "notrace_primitive", "primitive"))
core = _module("core", extend, extend.__all__)
# There they are called with the function and its one argument.
core.make_vjp, core.make_jvp = make_vjp.__wrapped__, make_jvp.__wrapped__  # noqa: F405
util = _module("util", test_util, ("quick_grad_check", "subval", "subvals"))
wrap_util = _module("wrap_util", differential_operators, ("unary_to_nary",))
misc = _module("misc", containers, ("flatten",))
_module("misc.flatten", containers, ("flatten", "flatten_func"))
# As in autograd, the module has a function of its name.
misc.flatten = containers.flatten
_module("misc.optimizers", containers, ("adam", "rmsprop", "sgd", "unflatten_optimizer"))
_module("misc.fixed_points", containers, ("fixed_point",))
numpy = _module("numpy", numpy)
for _name in ("concatenate", "stack", "vstack", "hstack", "dstack", "column_stack"):
    setattr(numpy, _name, containers.of_iterables(getattr(numpy, _name)))
_put("numpy.numpy_boxes", types.SimpleNamespace(ArrayBox=Tensor))
scipy = _module("scipy", scipy)
_DISTRIBUTIONS = (f"scipy.stats.{name}" for name in ("beta", "chi2", "dirichlet", "gamma", "multivariate_normal", "norm", "poisson", "t"))
for _name in ("numpy.fft", "numpy.linalg", "numpy.random", "scipy.integrate", "scipy.linalg", "scipy.special", "scipy.stats", *_DISTRIBUTIONS):
    _put(_name, attrgetter(_name)(sys.modules[__name__]))
_module("scipy.signal", scipy.signal).convolve = containers.convolve

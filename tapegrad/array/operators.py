"""The operators of tensors, and of complex ones: ``+ - * / ** % // @``, comparisons, and their reflected forms.

Importing this module puts them on `Differentiable` and `ComplexTensor`.  Those of a `Tensor` for ``+ - * / **``, and the sign, take the short way of
`interpreter.numbers` where they can, and are told here what to do where they cannot; all of these go to `tapegrad.array.record`.
"""

import operator
import sys
from functools import partial

import numpy as np

from ..common.dtypes import NUMBERS
from ..common.observers import LISTENERS, notify
from ..common.registry import attach, registry
from ..common.tree import is_matrix, is_sparse, is_table
from ..interpreter.fields import share
from ..rules import BY_NAME
from ..tape.layout import meta_of
from ..tape.watch import apart, copy_of
from .complex import UFUNCS, ComplexTensor, conjugate
from .differentiable import Differentiable, not_in_pandas
from .dual import at_once
from .functions.gathers import sparse_product
from .record import apply, plain, record_nondiff
from .tensor import Parameter, Tensor


def _accepts(other):
    # xarray's arrays have their own way with a tensor, and keep their labels.
    return isinstance(other, (Differentiable, float, int, np.ndarray, np.generic, list, tuple, complex))


#: Types that need no closer look.
_KNOWN = {*NUMBERS, np.ndarray, Tensor, Parameter}
_NUMBERS = _KNOWN - {np.ndarray}


def _binary(row, a, b):
    """An operator, for a row of two operands."""
    if a.__class__ is float and b.__class__ is Tensor and b._t is None and not b._r and b._v.__class__ is np.ndarray and b._v.ndim:
        # A gradient times a number, for each parameter at each step of an optimiser.
        return plain(row.value(a, b._v))
    if "pandas" in sys.modules:
        not_in_pandas((a, b))
    if (a.__class__ in _KNOWN or _accepts(a)) and (b.__class__ in _KNOWN or _accepts(b)):
        return apply(row, (a, b), short=False)
    if row.name == "matmul" and (is_sparse(a) or is_sparse(b)) or row.name == "multiply" and (is_matrix(a) or is_matrix(b)):
        return sparse_product(a, b)
    return registry.later.beside_table(getattr(np, row.name), a, b) if is_table(a) or is_table(b) else NotImplemented


def _arithmetic(row, reflected):
    def method(self, other):
        a, b = (other, self) if reflected else (self, other)
        if self._is_dual and other.__class__ is not np.ndarray:
            dual = at_once(row, (a, b))
            if dual is not None:
                return dual
        return _binary(row, a, b)

    return method


def _compare(name, ufunc):
    function = getattr(operator, name)

    def method(self, other):
        if other.__class__ not in _NUMBERS:
            if not _accepts(other):
                return registry.later.beside_table(ufunc, self, other) if is_table(other) else NotImplemented
            if "pandas" in sys.modules:
                not_in_pandas((other,))
            other = registry.objects.operand(other)
        if LISTENERS:
            notify(f"comparison ({ufunc.__name__})", self, other)
        result = function(self._v, other._v if isinstance(other, Differentiable) else other)
        if result.__class__ is bool and other.__class__ in (float, int) and self.__class__ is Tensor and (self._t is None or self._t.trace is None):
            return plain(np.asarray(result))
        return record_nondiff(ufunc, (self, other), result)

    return method


def _bitwise(function, reflected):
    def method(self, other):
        if is_table(other):
            pair = (other, self) if reflected else (self, other)
            return registry.later.beside_table(function, *pair)
        pair = self, registry.objects.operand(other)
        if reflected:
            pair = pair[::-1]
        return record_nondiff(function, pair, function(*[getattr(p, "_v", p) for p in pair]))

    return method


def _bitwise_update(function):
    # A number is never changed in Python: the name goes on with another one.
    return lambda self, other: function(self, registry.objects.operand(other), out=self) if self.shape else NotImplemented


def power(a, b):
    """``a ** b``, of which one is differentiable."""
    kind = type(b)
    # A number of NumPy is float64 beside an array, too.
    if (kind is int or kind is float or kind in NUMBERS and type(a._v) is float) and b == 2:
        return apply("power2", (a,))
    return _binary(BY_NAME["power"], a, b)


#: Operators: the rows of binary ones, and the functions of those without derivative.
_ROWS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "mod": "remainder", "floordiv": "floor_divide",
    "matmul": "matmul", "pow": "power",
}  # fmt: skip
_COMPARISONS = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_BITWISE = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "lshift": np.left_shift, "rshift": np.right_shift}


def _described(array):
    """The description of a constant operand; None if it is none that an operation takes as it is."""
    if "pandas" in sys.modules:
        not_in_pandas((array,))
    dtype = array.dtype
    return meta_of(array) if array.ndim and dtype.char == "d" and dtype.isnative and array.flags.aligned else None


def _install_operators():
    """Put the operators on `Differentiable`, and tell native tensors their general ways."""
    methods = {f"__{method}__": _arithmetic(BY_NAME[name], False) for method, name in _ROWS.items()}
    methods |= {f"__r{method}__": _arithmetic(BY_NAME[name], True) for method, name in _ROWS.items()}
    methods |= {f"__{name}__": _compare(name, ufunc) for name, ufunc in _COMPARISONS.items()}
    for name, function in _BITWISE.items():
        methods |= {f"__{name}__": _bitwise(function, False), f"__r{name}__": _bitwise(function, True), f"__i{name}__": _bitwise_update(function)}
    attach(Differentiable, methods | {
        "__neg__": lambda self: apply("negative", (self,)), "__abs__": lambda self: apply("absolute", (self,)),
        "__pos__": lambda self: np.positive(self) if self.ndim else self,
        "__divmod__": lambda self, other: (self // other, self % other), "__rdivmod__": lambda self, other: (other // self, other % self),
        "__invert__": lambda self: record_nondiff(np.invert, (self,), np.invert(self._v)), "__pow__": lambda self, other: power(self, other),
    })  # fmt: skip
    ways = {name: partial(_binary, BY_NAME[name]) for name in ("add", "subtract", "multiply", "divide", "matmul")}
    ways |= {name: lambda a, _, name=name: apply(name, (a,)) for name in ("negative", "absolute")} | {"power": power, "power2": power}
    for name, way in ways.items():
        share(name, way, BY_NAME[name])
    share("describe", _described)
    share("copy", copy_of)
    share("apart", apart)


_install_operators()


# ---- of complex numbers ----------------------------------------------------------------------------


def _of_complex(name, reflected=False):
    function = UFUNCS[name]

    def method(self, other):
        if not (isinstance(other, (ComplexTensor, Differentiable, np.ndarray, np.generic, float, int, complex, list, tuple))):
            return NotImplemented
        other = registry.objects.operand(other)
        return function(other, self) if reflected else function(self, other)

    return method


def _complex_update(name):
    function = _of_complex(name)

    def method(self, other):
        result = function(self, other)
        if not self.ndim or result is NotImplemented:
            # A number is never changed: its name goes on with another one.
            return result
        self[...] = result
        return self

    return method


_OF_COMPLEX = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "power", "matmul": "matmul"}
attach(ComplexTensor, {
    **{f"__{op}__": _of_complex(name) for op, name in _OF_COMPLEX.items()},
    **{f"__r{op}__": _of_complex(name, True) for op, name in _OF_COMPLEX.items()},
    **{f"__i{op}__": _complex_update(name) for op, name in _OF_COMPLEX.items()},
    **{f"__{op}__": UFUNCS[name] for op, name in {"neg": "negative", "pos": "positive", "abs": "absolute"}.items()},
    "__eq__": _of_complex("equal"), "__ne__": _of_complex("not_equal"), **UFUNCS, "conj": conjugate, "abs": UFUNCS["absolute"],
})  # fmt: skip

"""The operators of tensors, and of complex ones: ``+ - * / ** % // @``, comparisons, and their reflected forms; and changes in place: ``+=`` and
friends, ``zero_()``, assignment to `.data`.

Importing this module puts them on `Differentiable` and `ComplexTensor`.  Those of a `Tensor` for ``+ - * / **``, and the sign, take the short way of
`interpreter.numbers` where they can, and are told here what to do where they cannot; all of these go to `tapegrad.array.record`.

On the tape a change in place is a new instruction: the same tensor object
points to it from then on.  Outside the tape (constants, or anything under
``no_grad``) the memory itself changes; then the tensor gets a new key, by which
a backward pass that needs the old value notices, and remembers the line.
"""

import operator
import sys
from functools import partial

import numpy as np

from ..common.dtypes import NUMBERS
from ..common.errors import DtypeError, GradientError
from ..common.observers import LISTENERS, notify
from ..common.registry import attach, registry
from ..common.tree import flatten, is_matrix, is_sparse, is_table
from ..interpreter.fields import share
from ..rules import BY_NAME
from ..tape.layout import meta_of
from ..tape.watch import apart, copy_of
from .assigning import assign_value, before_change, check_distinct, note_change, owner_of, write
from .complex import UFUNCS, ComplexTensor, conjugate
from .differentiable import Differentiable, not_in_pandas
from .dual import at_once
from .functions import astype, reshape, sparse_product
from .record import apply, as_operand, normalise, plain, record_nondiff, recorded, tracked
from .tensor import Parameter, Tensor
from .views import root_of, source_of, steps_of, views_of


# ---- operators -----------------------------------------------------------------------------------
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
    if a.__class__ is complex or b.__class__ is complex:
        return registry.objects.at_door(row, (a, b), (), 0)
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
_COMPARISONS = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal}
_BITWISE = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "lshift": np.left_shift, "rshift": np.right_shift}


def _described(array):
    """The description of a constant operand; None if it is none that an operation takes as it is."""
    if "pandas" in sys.modules:
        not_in_pandas((array,))
    dtype = array.dtype
    return meta_of(array) if array.ndim and dtype.char in "d?" and dtype.isnative and array.flags.aligned else None


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
        if name == "matmul" and is_sparse(other) or name == "multiply" and is_matrix(other):
            return sparse_product(other, self) if reflected else sparse_product(self, other)
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


# ---- changes in place ----------------------------------------------------------------------------
#: What cannot be changed.
_FIXED = frozenset((float, int, bool, str, type(None)))
_ARRAYS = {np.ndarray}


def is_argument(x):
    """Whether `x` is an argument, as it was given, of a function that is being recorded or differentiated."""
    store = x._t
    if store is None:
        return False
    # (A number that an operation gave has no key.)
    return store.leaves.get(getattr(x, "_k", None)) == x._i if store.trace is None else store.trace.is_argument(x)


def unshared(call, args, kwargs, argnums):
    """``call(args, kwargs, kept)``, where `kept` are the arrays that are not differentiated, each with a copy: for what runs a function again.

    Raises if the call changes an argument of `argnums` by another one that shares its memory, or records what a constant tensor is.
    """
    others = [a for k, a in enumerate(args) if a.__class__ not in _FIXED and k not in argnums]
    if kwargs:
        others += kwargs.values()
    if not others:
        return call(args, kwargs)
    own = [args[k] for k in argnums if k < len(args) and args[k].__class__ is np.ndarray]
    leaves = others if {*map(type, others)} == _ARRAYS else flatten(others)[0]
    tensors = [a for a in leaves if a.__class__ is registry.Tensor and not tracked(a)]
    arrays = [a for a in (*leaves, *(t._v for t in tensors)) if isinstance(a, np.ndarray) and a.flags.writeable]
    before = [(a, a.tobytes()) for a in own for b in arrays if np.may_share_memory(a, b)]
    answer = call(args, kwargs, [(a, a.copy()) for a in arrays])
    if before and any([a.tobytes() != contents for a, contents in before]) or tensors and any(map(tracked, tensors)):
        raise argument_changed()
    return answer


def restore(kept):
    """Let arrays hold again what their copies do."""
    for array, copy in kept:
        array[...] = copy


def argument_changed():
    """The error for an argument of a function under a transformation that is changed in place."""
    return GradientError(
        "an argument of a function that is differentiated is changed in place: in NumPy this would change the caller's array, of "
        "which derivatives here need what it holds. Work on a copy of your own, y = x.copy()"
    )


def assign_elements(x, key, value):
    """``x[key] = value`` outside the tape."""
    before_change(x)
    if type(x._v) is float:
        assign_value(x, value)
        return
    x._v[key] = value
    note_change(x)


def fill_(self, value):
    """Set every element to `value` in place; returns self."""
    root = root_of(self)[0]
    # What `.data` gives is written to without a derivative, as in PyTorch.
    if recorded(self, value) and source_of(root) is root:
        self[...] = value
        return self
    assign_elements(self, Ellipsis, value._v if isinstance(value, Differentiable) else value)
    return self


def zero_(self):
    """Set every element to 0 in place; returns self."""
    return fill_(self, 0.0)


def copy_(self, other):
    """Set the elements to those of `other` in place; returns self."""
    return fill_(self, other)


def _set_shape(x, shape):
    """``x.shape = shape``"""
    if is_argument(x) or root_of(x)[0] is not x or views_of(x) or x._t is None and x._r:
        raise GradientError(
            "the shape is set of an argument, of a leaf, or of a tensor that shares memory with others: write a = a.reshape(shape)"
        )
    x._become(reshape(x, shape))


def _changed(x, result):
    """Let `x`, which is recorded, be `result` from now on; returns `x`."""
    root, window = root_of(x)
    if is_argument(root):
        raise argument_changed()
    if result.shape != x.shape:
        raise ValueError(f"the result of shape {tuple(result.shape)} does not fit in place of {tuple(x.shape)}")
    if result.dtype != x.dtype:
        if x.dtype.kind != "f":
            raise DtypeError(f"a result that requires a gradient does not fit in place of dtype {x.dtype}")
        result = astype(result, x.dtype)
    shared = window is not None or views_of(x)
    if shared and x.dtype.kind == "f" and recorded(root, result):
        root, window = owner_of(x)
        steps, start = steps_of(x, window)
        check_distinct(x.shape, steps)
        write(root, result, x.shape, steps, start)
    elif shared:
        x[...] = result
    else:
        x._become(result)
    return x


def _operator(row):
    """``x <op>= other`` for a row: one function each, without a call in between."""

    def update(x, other):
        if not isinstance(other, (Differentiable, float, int, np.ndarray, np.generic, list)):
            # A table counts by position here, as beside an array of NumPy's that is changed in place.
            if not x.shape or not (is_table(other) or hasattr(other, "_places")):
                return NotImplemented
        other = registry.objects.operand(other)
        if not x.shape and root_of(x)[0] is x and (x._t is not None or not x._r) and x.dtype.kind == "f":
            # A number is never changed in Python: the name goes on with another one, and an array of objects may hold the first.
            result = power(x, other) if row.name == "power" else apply(row, (x, other))
            if x._t is not None and x._t.retained and x.retains_grad:
                result.retain_grad()
            return result
        if recorded(x, other):
            root = root_of(x)[0]
            if root._t is None and root._r:
                raise GradientError(
                    "a leaf tensor that requires a gradient (or a view of one) is being used in an in-place operation; "
                    "update weights under tg.no_grad(), or write x = x + ... to go on with a new tensor"
                )
            return _changed(x, power(x, other) if row.name == "power" else apply(row, (x, other)))
        before_change(x)
        other = other._v if isinstance(other, Differentiable) else as_operand(other, row.name) if x.dtype.kind == "f" else other
        if type(x._v) is float:
            assign_value(x, normalise(row.value(x._v, other)))
        else:
            row.value(x._v, other, x._v)
            note_change(x)
        return x

    return update


def _method(name, update):
    def method(self, other):
        result = update(self, other)
        if result is NotImplemented:
            raise TypeError(f"{name}_() does not know an operand of type {type(other).__name__}")
        if result is not self:
            if is_argument(self):
                raise argument_changed()
            if not recorded(self, other):
                before_change(self)
            if result.shape:
                raise ValueError(f"the result of shape {tuple(result.shape)} does not fit in place of a number")
            self._become(result)
        return self

    method.__doc__ = f"`{name}` in place; returns self."
    return method


_UPDATES = {name: _operator(BY_NAME[name]) for name in ("add", "subtract", "multiply", "divide", "power", "remainder")}
_SHORT = {"add_": "add", "sub_": "subtract", "mul_": "multiply", "div_": "divide"}
attach(Differentiable, {f"__i{symbol}__": update for symbol, update in zip(("add", "sub", "mul", "truediv", "pow", "mod"), _UPDATES.values())})
attach(Differentiable, {short: _method(name, _UPDATES[name]) for short, name in _SHORT.items()})
attach(Differentiable, {"zero_": zero_, "fill_": fill_, "copy_": copy_})
for _name in ("add", "subtract", "multiply", "divide", "power"):
    share(f"update {_name}", _UPDATES[_name])
share("changed", _changed)
Differentiable.shape = Differentiable.shape.setter(_set_shape)

"""The rules' language (`interpreter.rule_array`) on values: arrays and numbers, with NumPy at once; tensors and dual numbers, recorded.

Who runs a rule on them does so under ``np.errstate(all="ignore")``: what is not finite is no news in a derivative.
"""

from functools import partial

import numpy as np

from ..common.host_functions import host_function
from ..common.registry import registry
from ..interpreter.rule_array import RuleArray, lanes_of
from ..rules import BY_NAME
from ..rules import lang as L
from .differentiable import Differentiable, below
from .record import apply, normalise, record_aux, trace_of, tracked
from .views import note_view

#: Names of the rules' language -> row that gives the value.
ROW_OF = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "neg": "negative", "pow": "power",
    "abs": "absolute", "mul0": "absolute_product", "select": "where",
}  # fmt: skip
#: Operations without derivative and without a row.
LOGICAL = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not, "isnan": np.isnan,
}  # fmt: skip


#: Rows that multiply.
_PRODUCTS = BY_NAME["multiply"], BY_NAME["absolute_product"]


def row_of(name):
    """The row that gives the value of an element-wise operation of the rules' language, or None."""
    return BY_NAME.get(ROW_OF.get(name, name))


def value_function(name):
    """NumPy function for an element-wise operation of the rules' language."""
    return LOGICAL.get(name) or row_of(name).value


class Recorded(RuleArray):
    """An array or number, computed with at once, or a tensor or dual number, whose operations are recorded.

    Parameters
    ----------
    a : float, ndarray, Tensor or Dual
    lanes : int, optional
        Extent of the leading axis of `a` that the rule does not see.
    """

    __slots__ = ("a", "lanes")

    def __init__(self, a, lanes=None):
        self.a = a if a.__class__ is np.ndarray or isinstance(a, Differentiable) else np.asarray(a)
        self.lanes = lanes

    @property
    def shape(self):
        return self.a.shape if self.lanes is None else self.a.shape[1:]

    @property
    def ndim(self):
        return self.a.ndim - (self.lanes is not None)

    @property
    def recorded(self):
        return isinstance(self.a, Differentiable)

    @property
    def plain(self):
        return not isinstance(self.a, Differentiable)

    @property
    def value(self):
        """What it is, as a tensor holds it, or as a tensor or dual number."""
        return self.a if isinstance(self.a, Differentiable) else normalise(self.a)

    def _call(self, name, operands, attrs=(), integer=0, compute=None):
        row, arrays, value = BY_NAME[name], [x.a for x in operands], None
        for a in arrays:
            if isinstance(a, Differentiable):
                break
        else:
            return Recorded(row.value(*arrays, **row.keywords(attrs, integer)) if compute is None else compute(*arrays), self.lanes)
        if compute is None and row.dynamic:
            compute = partial(row.value, **row.keywords(attrs, integer))
        if compute is not None:
            value = normalise(compute(*(np.asarray(_value(a)) for a in arrays)))
        result = apply(row, arrays, attrs, value, integer)
        return Recorded(note_view(arrays[0], result) if row.effect == "view" else result, self.lanes)

    def _apply(self, name, *args):
        lanes = lanes_of(args)
        if lanes is None:
            return Recorded(elementwise(name, [x.a if isinstance(x, Recorded) else x for x in args]))
        ndim = max(x.ndim for x in args if isinstance(x, Recorded))
        return Recorded(elementwise(name, [x.aligned(ndim).a if isinstance(x, Recorded) else x for x in args]), lanes)

    def constant(self, array):
        return Recorded(np.asarray(array, self.a.dtype))

    def cast(self, char):
        return self if self.a.dtype.char == char else Recorded(self.a.astype(char), self.lanes)

    def _lift(self, number):
        return number if isinstance(number, Recorded) else Recorded(number)

    def _seen(self, lanes):
        return self if self.lanes == lanes else Recorded(self.a, lanes)

    def _positions(self, index, count):
        positions = _undifferentiated(index.a).reshape(-1)
        if self.lanes is not None:
            return Recorded(record_aux(_in_lanes(self.lanes, count), positions))
        # The positions of nothing may not have been kept.
        return Recorded(positions if isinstance(positions, Differentiable) else positions.astype(np.int64, copy=False))


@host_function
def _in_lanes(positions, lanes, count):
    """Flat positions in each of so many arrays of `count` elements, one behind the other."""
    return (np.arange(lanes)[:, None] * count + positions).reshape(-1)


def as_rule_takes(value, constant):
    """An operand as a rule takes it: constants without their tensor, integers and truth values as floats."""
    if isinstance(value, Differentiable):
        if tracked(value):
            return Recorded(value)
        value = value._v
    return Recorded(value if constant or type(value) is float or value.dtype.kind == "f" else value.astype(np.float64))


def _value(x):
    return x._v if isinstance(x, Differentiable) else x


def _undifferentiated(x):
    """The operand where no derivative passes: a value, or the live tensor of a functional recording."""
    x = below(x)
    return x if trace_of((x,)) is not None else _value(x)


def elementwise(name, values):
    """An operation of the rules' language on arrays, numbers, tensors or dual numbers."""
    for v in values:
        if isinstance(v, Differentiable):
            break
    else:
        return _of_constants(value_function(name), values)
    if name in LOGICAL:
        return record_aux(value_function(name), *map(_undifferentiated, values))
    row = row_of(name)
    for k in row.refused if name in L.COMPILED else ():
        if isinstance(values[k], Differentiable) and (values[k].__class__ is registry.Dual or trace_of((values[k],)) is None):
            row.refuse(k)
    if name == "select":
        values = [_undifferentiated(values[0]), *values[1:]]
    return of_row(row, values)


def of_row(row, values):
    """An element-wise row of arrays, numbers, tensors or dual numbers."""
    for v in values:
        if isinstance(v, Differentiable):
            break
    else:
        return _of_constants(row.value, values)
    if row in _PRODUCTS:
        values, plain_product = _factors(values)
        row = _PRODUCTS[0] if plain_product else row
    return apply(row, values)


def _of_constants(function, values):
    """``function(*values)``; one number repeated stays that."""
    arrays = []
    for v in values:
        if v.__class__ is np.ndarray and v.ndim:
            if not uniform(v):
                return function(*values)
            arrays.append(v)
    if not arrays:
        return function(*values)
    number = function(*[v[(0,) * v.ndim] if isinstance(v, np.ndarray) and v.ndim else v for v in values])
    return np.broadcast_to(number, np.broadcast_shapes(*(v.shape for v in arrays)))


def uniform(array):
    """Whether an array is one number repeated, as its strides say."""
    return array.size > 0 and not any(array.strides)


def _factors(values):
    """The operands of a product, one of them on a tape, and whether a constant among them allows to multiply plainly.

    A number that is repeated for each element is that number.  A product with a finite number other than zero is zero only
    where the other factor is: that it is absolute makes no difference.
    """
    factors = list(values)
    for k, (v, other) in enumerate(zip(values, values[::-1])):
        if isinstance(v, Differentiable):
            continue
        if v.__class__ is float:
            # No infinity and no nan minus itself is zero.
            return factors, v != 0.0 and v - v == 0.0
        if isinstance(v, np.ndarray) and v.dtype == other.dtype and (not v.ndim or uniform(v) and v.shape == np.shape(other)):
            v = factors[k] = float(v[(0,) * v.ndim])
        if np.ndim(v) == 0 and v != 0 and np.isfinite(v):
            return factors, True
    return factors, False

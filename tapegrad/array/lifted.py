"""The rules' language on tensors and dual numbers, and on several tangents at once.

A rule is handed objects that offer the language of `tapegrad.rules.lang` and of
`tapegrad.interpreter.symbolic.Sym`.  `Lifted` offers it

* on tensors and dual numbers: each operation is recorded (or carried forward) as
  if the user had written it, so what a rule computes can be differentiated again;
* with *lanes*: an operand may have one leading axis of several tangents, which
  the rule does not see.  What does not depend on a tangent is computed once.

On plain arrays without lanes `tapegrad.array.eager.Eager` does the same faster.
"""

from __future__ import annotations

import numpy as np

from ..common.errors import HigherOrderError
from ..interpreter.contributions import Scattered, Windowed, fills, once
from ..rules import BY_NAME
from ..rules import lang as L
from ..rules.accumulating import add_at_value, add_window_value
from ..rules.linalg import results
from ..rules.products import absolute_matmul_value
from ..rules.shaping import logical_view
from ..rules.transposed import place_value, scatter_value
from ..tape.meta import c_strides
from .differentiable import Differentiable, below
from .eager import REDUCTIONS, ROW_OF, value_function
from .record import apply, apply_two, record_aux, trace_of

_WITHOUT_DERIVATIVE = {*L.COMPARISONS, *L.LOGIC, "isnan"}


def _value(x):
    return x._v if isinstance(x, Differentiable) else x


def _undifferentiated(x):
    """What is computed with where no derivative passes: a value, or the live tensor of a functional recording."""
    x = below(x)
    return x if trace_of((x,)) is not None else _value(x)


def elementwise(name, values):
    """An operation of the rules' language on arrays, numbers, tensors or dual numbers."""
    with np.errstate(all="ignore"):
        if not any(isinstance(v, Differentiable) for v in values):
            return _of_constants(value_function(name), values)
        if name in ("mul", "mul0"):
            values, plain_product = _factors(values)
            name = "mul" if plain_product else name
        if name in _WITHOUT_DERIVATIVE:
            return record_aux(value_function(name), *map(_undifferentiated, values))
        row = BY_NAME.get("where" if name == "select" else ROW_OF.get(name, name))
        if row is None:
            raise HigherOrderError(f"the derivative of {name} in its first argument cannot be differentiated again")
        if len(values) == 2 and not row.constants:
            return apply_two(row, *values)
        if name == "select":
            values = [_undifferentiated(values[0]), *values[1:]]
        return apply(row, values)


def _of_constants(function, values):
    """``function(*values)``; one number repeated stays that."""
    arrays = [v for v in values if isinstance(v, np.ndarray) and v.ndim]
    if arrays and all(uniform(v) for v in arrays):
        number = function(*[v[(0,) * v.ndim] if isinstance(v, np.ndarray) and v.ndim else v for v in values])
        return np.broadcast_to(number, np.broadcast_shapes(*(v.shape for v in arrays)))
    return function(*values)


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
        if isinstance(v, np.ndarray) and v.ndim and uniform(v) and v.shape == np.shape(other) and v.dtype == other.dtype:
            v = factors[k] = float(v[(0,) * v.ndim])
        if np.ndim(v) == 0 and v != 0 and np.isfinite(v):
            return factors, True
    return factors, False


class Lifted(L.Operators):
    """An array, number, tensor or dual number with the operations that rules use.

    Parameters
    ----------
    a : float, ndarray, Tensor or Dual
    lanes : int, optional
        Extent of the leading axis of `a` that the rule does not see.
    """

    __slots__ = ("a", "lanes")
    __array_ufunc__ = None

    def __init__(self, a, lanes=None):
        self.a = a if isinstance(a, Differentiable) else np.asarray(a)
        self.lanes = lanes

    @property
    def lead(self):
        """Number of axes that the rule does not see."""
        return 0 if self.lanes is None else 1

    @property
    def shape(self):
        return self.a.shape[self.lead :]

    @property
    def ndim(self):
        return self.a.ndim - self.lead

    @property
    def size(self):
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def recorded(self):
        """Whether what a rule computes from this may be differentiated again."""
        return isinstance(self.a, Differentiable)

    def _with(self, a):
        return Lifted(a, self.lanes)

    def _front(self, shape):
        return tuple(shape) if self.lanes is None else (self.lanes, *shape)

    def _axes(self, axes):
        return tuple(axis % self.ndim + self.lead for axis in axes)

    def aligned(self, ndim):
        """The array, with axes of extent 1 between the lanes and the rest for `ndim` axes in all."""
        if self.lanes is None or self.ndim == ndim:
            return self.a
        return np.reshape(self.a, (self.lanes, *(1,) * (ndim - self.ndim), *self.shape))

    # -- element-wise ---------------------------------------------------------
    def _apply(self, name, *args):
        ndim = max(x.ndim for x in args if isinstance(x, Lifted))
        values = [x.aligned(ndim) if isinstance(x, Lifted) else x for x in args]
        return Lifted(elementwise(name, values), _lanes(args))

    # -- products -------------------------------------------------------------
    def __matmul__(self, other):
        x, y = self, other
        if x.lanes is None and y.lanes is None:
            return Lifted(_product(x.a, y.a))
        together = _one_product(x, y)
        if together is not None:
            return together
        row, column = x.ndim == 1, y.ndim == 1
        x = x.expand_dims([0]) if row else x
        y = y.expand_dims([1]) if column else y
        ndim = max(x.ndim, y.ndim)
        product = Lifted(_product(x.aligned(ndim), y.aligned(ndim)), _lanes((x, y)))
        shape = product.shape
        if row:
            shape = (*shape[:-2], shape[-1])
        return product.reshape(shape[:-1] if column else shape)

    def constant(self, array):
        return Lifted(np.asarray(array, self.a.dtype))

    def _linalg(self, name, *others):
        operands = (self, *others)
        ndim = max(x.ndim for x in operands)
        arrays = [x.aligned(ndim) for x in operands]
        (value,) = results(name, *(np.asarray(_value(x)) for x in arrays))
        if any(isinstance(x, Differentiable) for x in arrays):
            value = apply(name, arrays, value=value if value.ndim or value.dtype.char != "d" else float(value))
        return Lifted(value, _lanes(operands))

    def inv(self):
        return self._linalg("inv")

    def det(self):
        return self._linalg("det")

    def solve(self, other):
        return self._linalg("solve", other)

    def cofactors(self):
        return self._with(apply("cofactors", (self.a,)))

    def svd(self):
        if isinstance(self.a, Differentiable):
            return [self._with(part) for part in np.linalg.svd(self.a, full_matrices=False)]
        return [self._with(part) for part in results("svd", self.a)]

    # -- movement of data -------------------------------------------------------
    def own(self):
        return self

    def transpose(self, axes):
        return self._with(np.transpose(self.a, (*range(self.lead), *self._axes(axes))))

    def swapaxes(self, i, j):
        return self._with(np.swapaxes(self.a, *self._axes((i, j))))

    def reshape(self, shape):
        return self._with(np.reshape(self.a, self._front(shape)))

    def expand_dims(self, axes):
        return self._with(np.expand_dims(self.a, tuple(axis + self.lead for axis in axes)))

    def flip(self, axes):
        return self._with(np.flip(self.a, self._axes(axes)))

    def broadcast_to(self, shape):
        if tuple(shape) == self.shape:
            return self
        return self._with(np.broadcast_to(self.aligned(len(shape)), self._front(shape)))

    def narrow(self, axis, start, stop):
        (axis,) = self._axes((axis,))
        return self._with(self.a[(slice(None),) * axis + (slice(start, stop),)])

    def _window(self, shape, strides, count):
        """Attributes of a window into an array of `count` elements, for every lane."""
        strides = tuple(strides) if self.lanes is None else (count, *strides)
        return (("shape", self._front(shape)), ("strides", strides))

    def strided(self, shape, strides, offset):
        attrs = self._window(shape, strides, self.size)
        if isinstance(self.a, Differentiable):
            return self._with(apply("as_strided", (self.a,), attrs, integer=offset))
        return self._with(logical_view(self.a, *(v for _, v in attrs), offset).copy())

    def place(self, shape, strides, offset):
        """Contribution: this array added into a window of zeros of `shape`."""
        source, strides = once(self, strides)
        return source.reshape(shape) if fills(source, shape, strides, offset) else Windowed(source, shape, strides, offset)

    def placed(self, shape, strides, offset):
        attrs = self._window(shape, strides, int(np.prod(shape, dtype=np.int64)))
        if isinstance(self.a, Differentiable):
            return self._with(apply("place", (self.a,), attrs, integer=offset))
        return self._with(place_value(self.a, *(v for _, v in attrs), offset))

    def _positions(self, index, count):
        """Flat positions `index` into arrays of `count` elements, for every lane."""
        index = _undifferentiated(index.a)
        if self.lanes is None and not isinstance(index, Differentiable):
            return index.reshape(-1)
        front = np.arange(self.lanes or 1)[:, None] * count
        return record_aux(lambda positions: (front + positions.reshape(-1)).reshape(-1), index)

    def add_window(self, other, strides, offset):
        whole, other = _side_by_side(self, other)
        attrs = (("shape", other.a.shape), whole._window(other.shape, strides, whole.size)[1])
        if isinstance(whole.a, Differentiable) or isinstance(other.a, Differentiable):
            return whole._with(apply("add_window", (whole.a, other.a), attrs, integer=offset))
        return whole._with(add_window_value(whole.a, other.a, *(v for _, v in attrs), offset))

    def add_at(self, other, index):
        whole, other = _side_by_side(self, other)
        positions = whole._positions(index, whole.size)
        if any(isinstance(a, Differentiable) for a in (whole.a, other.a, positions)):
            return whole._with(apply("add_at", (whole.a, other.a, positions)))
        return whole._with(add_at_value(whole.a, other.a, positions))

    def scatter(self, index, shape):
        """Contribution: this array added at flat positions `index` of zeros of `shape`."""
        return Scattered(self, index, shape)

    def scattered(self, index, shape):
        positions = self._positions(index, int(np.prod(shape, dtype=np.int64)))
        shape = self._front(shape)
        if isinstance(self.a, Differentiable) or isinstance(positions, Differentiable):
            return self._with(apply("scatter", (self.a, positions), (("shape", shape),)))
        return self._with(scatter_value(self.a, positions, shape))

    def gather(self, index, shape):
        positions, shape = self._positions(index, self.size), self._front(shape)
        if isinstance(self.a, Differentiable) or isinstance(positions, Differentiable):
            return self._with(apply("gather", (self.a, positions), (("shape", shape),)))
        return self._with(np.reshape(np.take(self.a, positions), shape))

    def zeroed(self, shape, strides, offset):
        attrs = self._window(shape, strides, self.size)
        if isinstance(self.a, Differentiable):
            return self._with(apply("setitem", (self.a, 0.0), attrs, integer=offset))
        return self._with(BY_NAME["setitem"].value(self.a, 0.0, offset=offset, **dict(attrs)))

    def zeroed_at(self, index):
        return self.put_at(index, None)

    def assemble(self, shape, parts):
        """Zeros, in the dtype of this array, with windows ``(value, shape, strides, offset)`` written in order.

        Strides None are those of the whole.
        """
        lanes = _lanes([value for value, *_ in parts])
        whole = Lifted(np.zeros(tuple(shape) if lanes is None else (lanes, *shape), self.a.dtype), lanes)
        for value, extents, strides, offset in parts:
            part = value.aligned(len(extents)) if isinstance(value, Lifted) else value
            if strides is None:
                if isinstance(part, Differentiable) and part.shape == whole.a.shape:
                    whole.a = part
                    continue
                strides = c_strides(shape, 1)
            attrs = whole._window(extents, strides, whole.size)
            if isinstance(part, Differentiable) or isinstance(whole.a, Differentiable):
                whole.a = apply("setitem", (whole.a, part), attrs, integer=offset)
            elif 0 not in extents:
                _strided(whole.a, *(v for _, v in attrs), offset)[...] = part
        return whole

    def put_at(self, index, value):
        """A copy with `value` (None: zero) at the flat positions `index`."""
        lanes = _lanes((self, value))
        whole = self if self.lanes == lanes else Lifted(np.broadcast_to(self.a, (lanes, *self.shape)), lanes)
        positions = whole._positions(index, whole.size)
        elements = 0.0
        if value is not None:
            elements = value if value.lanes == lanes else Lifted(np.broadcast_to(value.a, (lanes, *value.shape)), lanes)
            elements = np.reshape(elements.a, (-1,))
        if any(isinstance(a, Differentiable) for a in (whole.a, elements, positions)):
            return whole._with(apply("put", (whole.a, elements, positions), (("shape", positions.shape),)))
        changed = np.array(whole.a, order="C")
        changed.reshape(-1)[positions] = elements
        return whole._with(changed)

    # -- reductions and scans ---------------------------------------------------
    def reduce(self, how, axis=None, keepdims=False):
        if axis is None:
            axis = range(self.ndim)
        axes = self._axes((axis,) if isinstance(axis, (int, np.integer)) else axis)
        if not axes:
            return self
        return self._with(REDUCTIONS[how](self.a, axis=axes, keepdims=keepdims))

    def sum(self, axis=None, keepdims=False):
        return self.reduce("add", axis, keepdims)

    def scan(self, axis, how="add", reverse=False, exclusive=False):
        (axis,) = self._axes((axis,))
        a = np.flip(self.a, axis) if reverse else self.a
        whole = (np.cumsum if how == "add" else np.cumprod)(a, axis=axis)
        if exclusive:
            whole = _delayed(whole, axis, 0.0 if how == "add" else 1.0)
        return self._with(np.flip(whole, axis) if reverse else whole)

    def recur(self, factors, axis, reverse=False, lag=False, exclusive=False):
        ndim = max(self.ndim, factors.ndim)
        b, f = np.broadcast_arrays(self.aligned(ndim), factors.aligned(ndim))
        lanes = _lanes((self, factors))
        axis = axis % ndim + (lanes is not None)
        result = apply("recurrence", (b, f), (("axis", axis), ("reverse", reverse), ("lag", lag)))
        if exclusive:
            result = elementwise("mul0", (f, result)) if lag else result
            result = np.flip(_delayed(np.flip(result, axis), axis, 0.0), axis) if reverse else _delayed(result, axis, 0.0)
        return Lifted(result, lanes)


def _side_by_side(x, y):
    """Both with the same lanes."""
    lanes = _lanes((x, y))
    return [t if t.lanes == lanes else Lifted(np.broadcast_to(t.a, (lanes, *t.shape)), lanes) for t in (x, y)]


def _product(a, b):
    """The product of matrices of a derivative, in which zero is absolute; recorded where that may be differentiated again."""
    if isinstance(a, Differentiable) or isinstance(b, Differentiable):
        return apply("absolute_matmul", (a, b))
    return absolute_matmul_value(a, b)


def _one_product(x, y):
    """The products of one matrix with what every lane has, as a single product of matrices; None if it is not that."""
    if y.lanes is None and y.ndim == 2 and x.ndim in (1, 2):
        rows = np.reshape(x.a, (x.lanes * x.shape[0], x.shape[1])) if x.ndim == 2 else x.a
        return Lifted(np.reshape(_product(rows, y.a), (x.lanes, *x.shape[:-1], y.shape[-1])), x.lanes)
    if x.lanes is None and x.ndim == 2 and (y.ndim == 1 or y.ndim == 2 and y.shape[-1] == 1):
        vectors = y.a if y.ndim == 1 else np.reshape(y.a, (y.lanes, y.shape[0]))
        return Lifted(np.reshape(_product(vectors, np.transpose(x.a)), (y.lanes, x.shape[0], *y.shape[1:])), y.lanes)
    return None


def _delayed(x, axis, first):
    """`x` moved on by one place along `axis`; the first place becomes `first`."""
    if not x.shape[axis]:
        return x
    shape = list(x.shape)
    shape[axis] = 1
    return np.concatenate([np.full(shape, first, x.dtype), x[(slice(None),) * axis + (slice(None, -1),)]], axis)


def _strided(array, shape, strides, offset):
    """A window into a C-contiguous array, for writing."""
    return np.lib.stride_tricks.as_strided(array.reshape(-1)[offset:], shape, [s * array.itemsize for s in strides])


def _lanes(operands):
    """The lanes of the first that has any."""
    for x in operands:
        if isinstance(x, Lifted) and x.lanes is not None:
            return x.lanes
    return None

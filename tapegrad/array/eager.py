"""A rule run on plain numbers: what a call of a node computes.

`Eager` offers rules the same operations as the planner's symbolic arrays
(`tapegrad.interpreter.symbolic.Sym`) and computes them with NumPy at once.
"""

from __future__ import annotations

import numpy as np

from ..rules import BY_NAME
from ..rules import lang as L
from ..rules.accumulating import add_at_value, add_window_value
from ..rules.linalg import results
from ..rules.products import absolute_matmul_value
from ..rules.scans import recurrence_value
from ..tape.meta import c_strides

#: Names of the rules' language -> row that gives the value.
ROW_OF = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "neg": "negative", "pow": "power",
    "abs": "absolute", "mul0": "absolute_product",
}  # fmt: skip
_DIRECT = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not, "select": np.where, "isnan": np.isnan,
}  # fmt: skip
#: How a reduction of the rules' language is called in NumPy.
REDUCTIONS = {"add": np.sum, "mul": np.prod, "max": np.max, "min": np.min}


def value_function(name):
    """NumPy function for an operation of the rules' language."""
    if name in L.COMPILED_BINARY:
        from ..codegen.library import compiled_function

        return np.vectorize(compiled_function(name), otypes=[float])
    return _DIRECT.get(name) or BY_NAME[ROW_OF.get(name, name)].value


class Eager(L.Operators):
    """An ndarray with the operations that rules use."""

    __slots__ = ("a",)
    __array_ufunc__ = None

    def __init__(self, array):
        self.a = np.asarray(array)

    shape = property(lambda self: self.a.shape)
    ndim = property(lambda self: self.a.ndim)
    size = property(lambda self: self.a.size)

    def _apply(self, name, *args):
        with np.errstate(all="ignore"):
            return Eager(value_function(name)(*[a.a if isinstance(a, Eager) else a for a in args]))

    def __matmul__(self, other):
        return Eager(absolute_matmul_value(self.a, other.a))

    def constant(self, array):
        return Eager(np.asarray(array, self.a.dtype))

    def inv(self):
        return Eager(results("inv", self.a)[0])

    def det(self):
        return Eager(results("det", self.a)[0])

    def solve(self, other):
        return Eager(results("solve", self.a, other.a)[0])

    def svd(self):
        return [Eager(part) for part in results("svd", self.a)]

    def own(self):
        return Eager(self.a.copy())

    def transpose(self, axes):
        return Eager(self.a.transpose(axes))

    def swapaxes(self, i, j):
        return Eager(self.a.swapaxes(i, j))

    def reshape(self, shape):
        return Eager(self.a.reshape(shape))

    def expand_dims(self, axes):
        return Eager(np.expand_dims(self.a, tuple(axes)))

    def flip(self, axes):
        return Eager(np.flip(self.a, axes))

    def broadcast_to(self, shape):
        return Eager(np.broadcast_to(self.a, shape))

    def narrow(self, axis, start, stop):
        return Eager(self.a[(slice(None),) * axis + (slice(start, stop),)])

    def sum(self, axis=None, keepdims=False):
        return self.reduce("add", axis, keepdims)

    def reduce(self, how, axis=None, keepdims=False):
        return Eager(REDUCTIONS[how](self.a, axis=axis, keepdims=keepdims))

    def scan(self, axis, how="add", reverse=False, exclusive=False):
        a = np.flip(self.a, axis) if reverse else self.a
        whole = (np.cumsum if how == "add" else np.cumprod)(a, axis=axis)
        if exclusive:
            lead = (slice(None),) * (axis % a.ndim)
            shifted = np.full_like(whole, 0.0 if how == "add" else 1.0)
            shifted[(*lead, slice(1, None))] = whole[(*lead, slice(None, -1))]
            whole = shifted
        return Eager(np.flip(whole, axis) if reverse else whole)

    def recur(self, factors, axis, reverse=False, lag=False, exclusive=False):
        """First-order linear recurrence ``y[k] = self[k] + factors[k] * y[k - 1]`` along `axis`.

        Parameters
        ----------
        factors : Eager
        axis : int
        reverse : bool
            From the last element to the first.
        lag : bool
            The factor is that of the element before: ``factors[k - 1]``.
        exclusive : bool
            Gives what each element is about to receive instead of the sum: ``y[k - 1]``.
        """
        with np.errstate(all="ignore"):
            return Eager(recurrence_value(self.a, factors.a, axis, reverse, lag, exclusive))

    def _window(self, array, shape, strides, offset):
        return np.lib.stride_tricks.as_strided(
            array.reshape(-1)[offset:], shape, [s * array.itemsize for s in strides]
        )

    def strided(self, shape, strides, offset):
        return Eager(self._window(np.ascontiguousarray(self.a), shape, strides, offset).copy())

    def place(self, shape, strides, offset):
        count = int(np.prod(shape))
        positions = self._window(np.arange(count), self.shape, strides, offset)
        return Eager(np.bincount(positions.reshape(-1), self.a.reshape(-1), count).reshape(shape))

    def scatter(self, index, shape):
        count = int(np.prod(shape))
        return Eager(np.bincount(index.a.reshape(-1), self.a.reshape(-1), count).reshape(shape))

    placed, scattered = place, scatter

    def add_window(self, other, strides, offset):
        return Eager(add_window_value(self.a, other.a, other.shape, strides, offset))

    def add_at(self, other, index):
        return Eager(add_at_value(self.a, other.a, index.a))

    def gather(self, index, shape):
        # The positions of nothing may not have been kept.
        return Eager(self.a.reshape(-1)[index.a.astype(np.int64, copy=False)].reshape(shape))

    def assemble(self, shape, parts):
        whole = np.zeros(shape, self.a.dtype)
        for value, window, strides, offset in parts:
            strides = c_strides(shape, 1) if strides is None else strides
            self._window(whole, window, strides, offset)[...] = value.a if isinstance(value, Eager) else value
        return Eager(whole)

    def put_at(self, index, value):
        changed = np.array(self.a, order="C")
        changed.reshape(-1)[index.a] = 0.0 if value is None else value.a.reshape(-1)
        return Eager(changed)

    def zeroed(self, shape, strides, offset):
        changed = np.array(self.a, order="C")
        self._window(changed, shape, strides, offset)[...] = 0.0
        return Eager(changed)

    def zeroed_at(self, index):
        changed = np.array(self.a, order="C")
        changed.reshape(-1)[index.a] = 0.0
        return Eager(changed)


def unbroadcast(array, shape):
    """`array` summed over the axes along which `shape` was broadcast."""
    lead = array.ndim - len(shape)
    array = array.sum(axis=tuple(range(lead))) if lead else array
    axes = tuple(k for k, (n, m) in enumerate(zip(array.shape, shape)) if m == 1 and n != 1)
    return array.sum(axis=axes, keepdims=True) if axes else array

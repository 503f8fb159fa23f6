"""Shape and dtype of a row's result, by the descriptions of its operands, without any value; and how JVPs are written.

``row.shape(*operands, **attrs)`` is called as ``row.value`` is, with descriptions (`tape.layout.Meta`, or what has the same
fields: `shape`, `ndim`, `size`, `char`, and `weak`, whether it promotes as a number of Python does) in place of arrays, and
says the shape and the dtype character of what `row.value` would give.  It raises where operands do not fit together, or a
window or an index would lie outside of its array.

The JVP of a linear row is the operation itself, applied to the tangent.
"""

import math
import operator
from functools import lru_cache, reduce
from itertools import accumulate

import numpy as np

from ..common.errors import require

# ---- dtypes ---------------------------------------------------------------------------------


def promoted(*operands):
    """The dtype of arithmetic on these, by NumPy's rules."""
    chars = {o.char for o in operands if not o.weak}
    if not chars:
        return "d"
    if len(chars) == 1 and (chars == {"f"} or chars == {"d"}):
        return chars.pop()
    return np.result_type(*(1.0 if o.weak else np.dtype(o.char) for o in operands)).char


def together(*operands):
    """The dtype of arrays that are joined or multiplied: no operand is weak."""
    chars = {o.char for o in operands}
    return chars.pop() if len(chars) == 1 else np.result_type(*chars).char


def floating(*operands):
    """The float dtype in which NumPy computes what gives no integers."""
    return "f" if all(o.char == "f" for o in operands) else "d"


@lru_cache(256)
def reduced_char(ufunc, char):
    """The dtype of a reduction or scan by a ufunc."""
    return char if char in "df" else ufunc.reduce(np.ones(1, char)).dtype.char


@lru_cache(1024)
def asked(value, calls_scipy, chars):
    """The dtype that an element-wise function gives: it is asked, on one element each.

    `chars` has None for weak operands.  To ask SciPy would import it; it has loops for float32 and float64.
    """
    if calls_scipy:
        return "f" if {*chars} - {None} == {"f"} else "d"
    with np.errstate(all="ignore"):
        return np.asarray(value(*(1.0 if c is None else np.ones(1, c) for c in chars))).dtype.char


def of_scipy(row):
    """Whether the value of an element-wise row calls SciPy."""
    return row.calls_scipy or hasattr(row.value, "of_scipy")


def of_elements(row, operands):
    """Shape and dtype of an element-wise row."""
    shape = operands[0].shape
    if any(o.shape != shape for o in operands):
        shape = np.broadcast_shapes(*(o.shape for o in operands))
    return shape, asked(row.value, of_scipy(row), tuple(None if o.weak else o.char for o in operands))


# ---- shapes ---------------------------------------------------------------------------------


def axes_of(x, axis):
    """Axes (None: all of them) as a sorted tuple of non-negative ints."""
    if axis is None:
        return tuple(range(x.ndim))
    axes = (axis,) if isinstance(axis, (int, np.integer)) else axis
    return tuple(sorted(a % x.ndim for a in axes))


def along(x, *axes):
    """The shape of what is done along axes, which have to be some of `x`, none of them twice."""
    if x.ndim or axes not in ((0,), (-1,)):
        positions = {a % x.ndim for a in axes}
        require(len(positions) == len(axes) and all(-x.ndim <= a < x.ndim for a in axes), f"the axes {axes} of {x.ndim}")
    return x.shape


def reduced(x, axis=None, keepdims=False):
    """The shape of a reduction."""
    axes = axes_of(x, axis)
    along(x, *((axis,) if isinstance(axis, (int, np.integer)) else axis or ()))
    return tuple(1 if k in axes else n for k, n in enumerate(x.shape) if keepdims or k not in axes)


def permuted(x, axes):
    """The shape with its axes in another order."""
    require(sorted(k % x.ndim for k in axes) == list(range(x.ndim)), f"the axes {axes} of {x.ndim}")
    return tuple(x.shape[k] for k in axes)


def counted(x, shape):
    """`shape`, another one of the same number of elements."""
    require(math.prod(shape) == x.size and min(shape, default=0) >= 0, f"{x.shape} in the shape {shape}")
    return tuple(shape)


def inside(size, shape, strides, offset):
    """Raise unless a window of these extents, strides and offset (in elements) lies in `size` elements."""
    fits = len(strides) == len(shape) and all(isinstance(n, (int, np.integer)) for n in (*shape, *strides, offset))
    require(fits and min(shape, default=0) >= 0, f"a window {shape} of strides {strides} at {offset}")
    if 0 not in shape:
        reach = [s * (n - 1) for s, n in zip(strides, shape)]
        low, high = offset + sum(r for r in reach if r < 0), offset + sum(r for r in reach if r > 0)
        require(low >= 0 and high < size, f"a window from {low} to {high} in {size} elements")


def window(x, shape, strides, offset):
    """The shape of a window on an array."""
    inside(x.size, shape, strides, offset)
    return tuple(shape)


def fitting(x, shape):
    """`shape`, to which `x` can be broadcast."""
    require(np.broadcast_shapes(x.shape, shape) == tuple(shape), f"{x.shape} broadcast to {shape}")
    return tuple(shape)


def taken(index, shape):
    """`shape`, of as many elements as there are positions."""
    require(index.char == "l" and index.ndim <= 1, "positions that are no vector of int64")
    return counted(index, shape)


def product(a, b):
    """The shape of a product of matrices, stacks of them, or vectors."""
    left, right = a.shape if a.ndim > 1 else (1, *a.shape), b.shape if b.ndim > 1 else (*b.shape, 1)
    require(a.ndim and b.ndim and left[-1] == right[-2], f"the product of {a.shape} and {b.shape}")
    batch = left[:-2] if left[:-2] == right[:-2] else np.broadcast_shapes(left[:-2], right[:-2])
    return (*batch, *(left[-2:-1] if a.ndim > 1 else ()), *(right[-1:] if b.ndim > 1 else ()))


def square(a):
    """The shape of a matrix that has to be square."""
    require(a.ndim > 1 and a.shape[-1] == a.shape[-2], f"a matrix of shape {a.shape}")
    return a.shape


def solution(a, b):
    """The shape of the solution of a system."""
    n = square(a)[-1]
    if b.ndim == 1:
        require(b.shape[0] == n, f"a system of {a.shape} and {b.shape}")
        return (*a.shape[:-2], n)
    require(b.ndim > 1 and b.shape[-2] == n, f"a system of {a.shape} and {b.shape}")
    return (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])


def joined(parts, axis):
    """The shape of arrays joined along an axis."""
    first = along(parts[0], axis)
    axis %= len(first)
    rest = {(*p.shape[:axis], *p.shape[axis + 1 :]) for p in parts}
    require(len(rest) == 1 and len({p.ndim for p in parts}) == 1, f"arrays of shapes {[p.shape for p in parts]} joined")
    return (*first[:axis], sum(p.shape[axis] for p in parts), *first[axis + 1 :])


def stacked(parts, axis):
    """The shape of arrays stacked along a new axis."""
    shape = parts[0].shape
    require(all(p.shape == shape for p in parts), f"arrays of shapes {[p.shape for p in parts]} stacked")
    require(-len(shape) - 1 <= axis <= len(shape), f"the new axis {axis} of {len(shape) + 1}")
    axis %= len(shape) + 1
    return (*shape[:axis], len(parts), *shape[axis:])


def added(*parts):
    """The sum of the parts that are not None (at least one)."""
    return reduce(operator.add, [p for p in parts if p is not None])


def taken_apart(x, extents, axis):
    """The parts of an array along an axis, each so long there."""
    return [x.narrow(axis, stop - extent, stop) for extent, stop in zip(extents, accumulate(extents))]


def side_by_side(like, shape, parts, extents, axis):
    """An array of this shape, in the dtype of `like`, of parts along an axis, each so long there (None: zeros); zeros behind them."""
    windows, start, step = [], 0, math.prod(shape[axis + 1 :])
    for part, extent in zip(parts, extents):
        if part is not None:
            windows.append((part, (*shape[:axis], extent, *shape[axis + 1 :]), None, start * step))
        start += extent
    return like.assemble(shape, windows)

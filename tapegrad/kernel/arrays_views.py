"""Array values of the loop program, and views of them as index arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..common.errors import require
from ..rules import BY_NAME
from ..rules import lang as L
from . import ir


@dataclass(eq=False)
class ArrayRef:
    """An array in a buffer.

    Attributes
    ----------
    buffer : ir.Buffer
    offset : ir.Index
        Of its first element.
    shape, strides : tuple of int
        Strides in elements.
    char : str
        NumPy's dtype character, that of the buffer.
    number : float or None
        The value of every element, if it never changes.
    """

    buffer: ir.Buffer
    offset: ir.Index
    shape: tuple
    strides: tuple
    char: str
    number: float | None = None

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        size = 1
        for n in self.shape:
            size *= n
        return size


def whole(buffer, shape):
    """The C-contiguous array that fills `buffer`."""
    return ArrayRef(buffer, ir.Index(), tuple(shape), c_elements(shape), buffer.char)


def c_elements(shape):
    """Strides of a C-contiguous array, in elements."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def contiguous(shape, strides):
    """Whether elements lie in C order without gaps (the strides of unit axes do not matter)."""
    expected = 1
    if 0 in shape:
        return True
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1:
            if stride != expected:
                return False
            expected *= extent
    return True


# ---- index arithmetic ---------------------------------------------------------------------


def moved(index, base=0, steps=()):
    """`index` (without table) plus `base` and ``sum(coefficient * counter)``."""
    require(index.table is None, "an index by a table is moved")
    total = dict(index.steps)
    for loop, coefficient in steps:
        total[loop] = total.get(loop, 0) + coefficient
    return ir.Index(index.base + base, tuple((loop, c) for loop, c in total.items() if c), None, index.plus)


def added(one, other, body):
    """The sum of two indices without tables; `body` receives the addition of what is loaded."""
    plus = one.plus if other.plus is None else other.plus
    if one.plus is not None and other.plus is not None:
        plus = ir.Let(L.arg(one.plus) + L.arg(other.plus), "l")
        body.append(plus)
    total = moved(ir.Index(one.base, one.steps), other.base, other.steps)
    return ir.Index(total.base, total.steps, None, plus)


def without_table(index, body):
    """`index` without table: what the table says is loaded by a statement in `body`."""
    if index.table is None:
        return index
    table = np.ascontiguousarray(index.table, np.int64)
    load = ir.Load(ir.Buffer(ir.CONSTANT, table.size, "l", data=table), ir.Index(index.base, index.steps))
    body.append(load)
    return added(ir.Index(plus=load), ir.Index(plus=index.plus), body)


# ---- views --------------------------------------------------------------------------------

_FLIP = BY_NAME["flip"]


def view(row, x, attrs, out):
    """The result of a row that looks at its operand as a window on the buffer of `x`, or None if it takes a copy.

    Parameters
    ----------
    row : Row
        One whose effect is ``"view"``.
    x : ArrayRef or ir.Value
    attrs : dict
        They say how: by strides (the dynamic offset is an `ir.Index`), by shape alone, or by axes.
    out : Meta
    """
    if not isinstance(x, ArrayRef):
        return None
    if "strides" in attrs:
        return _window(x, attrs["shape"], attrs["strides"], attrs["offset"])
    if "axes" not in attrs:
        return _reshaped(x, out.shape)
    if row is _FLIP:
        strides, base = list(x.strides), 0
        for axis in attrs["axes"]:
            if x.shape[axis]:
                base += strides[axis] * (x.shape[axis] - 1)
            strides[axis] = -strides[axis]
        return ArrayRef(x.buffer, moved(x.offset, base), x.shape, tuple(strides), x.char)
    axes = attrs["axes"]
    return ArrayRef(x.buffer, x.offset, tuple(x.shape[k] for k in axes), tuple(x.strides[k] for k in axes), x.char)


def _reshaped(x, shape):
    if contiguous(x.shape, x.strides):
        return ArrayRef(x.buffer, x.offset, shape, c_elements(shape), x.char)
    # Unit axes come and go without a copy.
    if [n for n in x.shape if n != 1] != [n for n in shape if n != 1]:
        return None
    strides = [s for n, s in zip(x.shape, x.strides) if n != 1]
    return ArrayRef(x.buffer, x.offset, shape, tuple(strides.pop(0) if n != 1 else 0 for n in shape), x.char)


def _window(x, shape, strides, offset):
    """The window of `x` whose elements have these strides and offset in C order."""
    if 0 in shape:
        return ArrayRef(x.buffer, ir.Index(), shape, c_elements(shape), x.char)
    if contiguous(x.shape, x.strides):
        if x.offset.plus is not None and offset.plus is not None:
            return None
        return ArrayRef(x.buffer, added(x.offset, offset, []), shape, tuple(strides), x.char)
    if offset.plus is not None:
        return None
    # Each step in C order must be one step along the axes of x, wherever it begins.
    counts = [*shape, *(loop.total for loop, _ in offset.steps)]
    steps = [*strides, *(c for _, c in offset.steps)]
    start = np.unravel_index(offset.base, x.shape)
    reach = [[int(s), int(s)] for s in start]
    turned = []
    for n, step in zip(counts, steps):
        if n == 1:
            turned.append((0,) * x.ndim)
            continue
        stop = np.unravel_index(offset.base + step * (n - 1), x.shape)
        change = [int(b - a) for a, b in zip(start, stop)]
        if any(c % (n - 1) for c in change):
            return None
        for r, c in zip(reach, change):
            r[c > 0] += c
        turned.append(tuple(c // (n - 1) for c in change))
    if any(low < 0 or high >= n for (low, high), n in zip(reach, x.shape)):
        return None
    jumps = [int(sum(c * s for c, s in zip(change, x.strides))) for change in turned]
    base = int(sum(i * s for i, s in zip(start, x.strides)))
    loops = [(loop, c) for (loop, _), c in zip(offset.steps, jumps[len(shape) :])]
    return ArrayRef(x.buffer, moved(x.offset, base, loops), shape, tuple(jumps[: len(shape)]), x.char)

"""Array values of the loop program, and views of them as index arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..common.errors import require
from ..interpreter.windows import contiguous, within
from ..rules import lang as L
from ..tape.layout import c_strides
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
        return math.prod(self.shape)


def whole(buffer, shape, offset=None):
    """The C-contiguous array in `buffer`, from its beginning on or from an `ir.Index`."""
    return ArrayRef(buffer, ir.Index() if offset is None else offset, tuple(shape), c_strides(shape, 1), buffer.char)


def here(ref, target):
    """Whether two arrays are the same elements."""
    return target is not None and ref.buffer is target.buffer and ref.offset.same(target.offset) and ref.strides == target.strides


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
        body.append(plus := ir.Let(L.arg(one.plus) + L.arg(other.plus), "l"))
    total = moved(ir.Index(one.base, one.steps), other.base, other.steps)
    return ir.Index(total.base, total.steps, None, plus)


def without_table(index, body):
    """`index` without table: what the table says is loaded by a statement in `body`."""
    if index.table is None:
        return index
    table = np.ascontiguousarray(index.table, np.int64)
    body.append(load := ir.Load(ir.Buffer(ir.CONSTANT, table.size, "l", data=table), ir.Index(index.base, index.steps)))
    return added(ir.Index(plus=load), ir.Index(plus=index.plus), body)


# ---- views --------------------------------------------------------------------------------

def window(x, shape, strides, offset, body):
    """The window of `x` whose elements have these strides and offset (an `ir.Index`) in C order, or None if it is none."""
    if 0 in shape:
        return ArrayRef(x.buffer, ir.Index(), shape, c_strides(shape, 1), x.char)
    if contiguous(x.shape, x.strides, 1):
        return ArrayRef(x.buffer, added(x.offset, offset, body), shape, tuple(strides), x.char)
    if offset.plus is not None:
        return None
    loops, coefficients = zip(*offset.steps) if offset.steps else ((), ())
    inside = within(x.shape, x.strides, (*shape, *(loop.total for loop in loops)), (*strides, *coefficients), offset.base)
    if inside is None:
        return None
    base, jumps = inside
    ndim = len(shape)
    return ArrayRef(x.buffer, moved(x.offset, base, zip(loops, jumps[ndim:])), shape, tuple(jumps[:ndim]), x.char)

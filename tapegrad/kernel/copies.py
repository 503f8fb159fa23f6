"""Copies of many scalars from anywhere to a row of elements, as few loops.

Where a column of references goes through the executions of one template, through
the elements of one argument or through constants in even steps, its elements are one loop: the gradient
``[da, dx[0], dx[1], ..., dx[99]]``, gathered from single adjoints, takes one store and a loop of 100.

`references` cuts columns into pieces, `build` and `spilling` have them copied.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..common.errors import require
from ..interpreter.windows import coalesce
from . import ir
from .arrays_views import moved, without_table
from .columns import ELEMENT, NUMBER

#: Uneven stretches of one owner are one loop over a table if there are more of them than this.
_MOST = 8
#: Stands for constants as the owner of references.
_CONSTANTS = -(1 << 40)


class Piece(NamedTuple):
    """Part of a column that one loop copies.

    Attributes
    ----------
    at : ndarray
        Positions in the column.
    refs : ndarray
        The references there.
    owner : int
        Number of the template; below 0, the argument (counted from -1) or `_CONSTANTS`.
    ranks : ndarray
        Executions of the template, or elements of the argument.
    """

    at: np.ndarray
    refs: np.ndarray
    owner: int
    ranks: np.ndarray

    @property
    def constants(self):
        """Whether it consists of constants."""
        return self.owner == _CONSTANTS


def pieces(references, refs):
    """The column of scalar references `refs`, in pieces."""
    columns = references.columns
    # What comes from outside is below 0, maybe further than there are instructions.
    inside = np.maximum(refs, 0)
    owners, ranks = references.owner[inside], references.rank[inside]
    outside = np.flatnonzero(refs < 0)
    numbers = -1 - refs[outside]
    require(np.isin(columns.kind[numbers], (ELEMENT, NUMBER)).all(), "a copy of what is no scalar")
    element = columns.kind[numbers] == ELEMENT
    owners[outside] = np.where(element, -1 - columns.which[numbers], _CONSTANTS)
    ranks[outside] = np.where(element, columns.at[numbers], 0)
    distinct, first = np.unique(owners, return_index=True)
    result = []
    for owner in distinct[np.argsort(first)].tolist():
        at = np.flatnonzero(owners == owner)
        result += [Piece(part, refs[part], owner, ranks[part]) for part in _even(at, ranks[at])]
    return result


def _even(at, ranks):
    """`at`, cut where the steps of it or of `ranks` change; whole if that is too often."""
    parts, start = [], 0
    steps = np.stack([np.diff(at), np.diff(ranks)])
    for change in (np.flatnonzero((np.diff(steps, axis=1) != 0).any(0)) + 2).tolist():
        # The entry before the change belongs to the stretch that ends there.
        if change > start + 1:
            parts.append(at[start:change])
            start = change
        if len(parts) > _MOST:
            return [at]
    return [*parts, at[start:]]


def along(loop, values):
    """The index of `values` in a loop over them."""
    steps = np.diff(values)
    if not len(steps) or (steps == steps[0]).all():
        step = int(steps[0]) if len(steps) else 0
        return ir.Index(int(values[0]), ((loop, step),) if step else ())
    return ir.Index(0, ((loop, 1),), np.ascontiguousarray(values, np.int64))


def copy_loop(piece, source, at, numbers, target):
    """The loop that copies a piece.

    Parameters
    ----------
    piece : Piece
    source : ir.Buffer or None
        Where its owner's values are, in element `at` and on; None for constants.
    numbers : ndarray
        Values of the constants.
    target : (ir.Buffer, int)
        Buffer, and the element for position 0 of the column.
    """
    buffer, base = target
    loop = ir.Loop(len(piece.at))
    if source is None:
        source, index = ir.Buffer(ir.CONSTANT, len(numbers), "d", data=numbers), ir.Index(0, ((loop, 1),))
    else:
        index = along(loop, at + piece.ranks)
    load = ir.Load(source, index)
    loop.body = [load, ir.Store(buffer, along(loop, base + piece.at), load)]
    return loop


def copy_array(source, target):
    """Statements that copy one ArrayRef to another of its shape, which does not overlap it."""
    statements = []
    extents, strides = coalesce(source.shape, (source.strides, target.strides))
    loops = [ir.Loop(extent) for extent in extents]
    read, write = (
        moved(without_table(ref.offset, statements), 0, zip(loops, steps)) for ref, steps in zip((source, target), strides)
    )
    load = ir.Load(source.buffer, read)
    body = [load, ir.Store(target.buffer, write, load)]
    for loop in reversed(loops):
        loop.body, body = body, [loop]
    return statements + body

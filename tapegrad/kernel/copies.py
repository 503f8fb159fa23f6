"""Copies of many scalars from anywhere to a row of elements, as few loops.

Where a column of references goes through the executions of one template, through
the elements of one argument or through constants in even steps, its elements are one loop: the gradient
``[da, dx[0], dx[1], ..., dx[99]]``, gathered from single adjoints, takes one store and a loop of 100.

`references` cuts columns into pieces and describes each, `build` has them copied.
"""

from __future__ import annotations

import numpy as np

from ..common.errors import require
from .columns import ELEMENT, NUMBER

#: Uneven stretches of one owner are one loop over a table if there are more of them than this.
_MOST = 8
#: Stands for constants as the owner of references.
_CONSTANTS = -(1 << 40)


def pieces(references, refs):
    """The positions of a column of scalar references, in pieces that one loop copies each."""
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
        result += _even(at, ranks[at])
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

"""Which elements statements touch: ranges, and whether two touch the same one.

No pass itself: `simplifying` knows by a `Memory` which element holds which value, `fusing` asks for `span`,
`renaming.contract` and `kernel.spreading` whether iterations are `apart`.
"""

import numpy as np


def form(index):
    """What indices have in common that differ at most in `base`."""
    table = None if index.table is None else id(index.table)
    return frozenset(index.steps), table, index.plus


def span(index, without=()):
    """Least and greatest element named by `index`, the counters of loops in `without` being 0; None if unknown."""
    if index.plus is not None:
        return None
    low = high = index.base
    for loop, step in index.steps:
        if loop not in without:
            most = step * (loop.total - 1)
            low, high = low + min(most, 0), high + max(most, 0)
    if index.table is not None:
        part = index.table[max(low, 0) : high + 1]
        return int(np.min(part)), int(np.max(part))
    return low, high


def apart(indices, loop):
    """Whether by these indices (None: all elements), taken together, no iteration of a loop names an element that another one names.

    So it is if all go forward by the same step, and within an iteration stay inside of that step.
    """
    if any(index is None or index.table is not None or index.plus is not None for index in indices):
        return False
    steps, spans = {dict(index.steps).get(loop, 0) for index in indices}, [span(index, (loop,)) for index in indices]
    return len(steps) == 1 and max(high for _, high in spans) - min(low for low, _ in spans) < abs(*steps)


#: Single elements of a buffer that are told apart when a loop writes some.
SINGLE = 32


class Memory:
    """Values of elements, as known at one place of a body.

    Elements are grouped by the form of their index; within a group different bases are different elements,
    unless the index goes through a table.
    """

    def __init__(self):
        self.groups = {}

    def get(self, buffer, index):
        """The value of an element, or None."""
        groups = self.groups.get(buffer)
        if not groups:
            return None
        group = groups.get(form(index))
        return None if group is None else group.get(index.base, (None, None))[1]

    def put(self, buffer, index, value):
        """Remember the value of an element."""
        groups = self.groups.setdefault(buffer, {})
        groups.setdefault(form(index), {})[index.base] = index, value

    def store(self, buffer, index):
        """Something is written to an element (None: to any): forget what may be the same one."""
        groups = self.groups.get(buffer)
        if not groups:
            return
        if index is None:
            groups.clear()
            return
        own = form(index)
        there = span(index)
        for key, group in list(groups.items()):
            if key == own and index.table is None:
                group.pop(index.base, None)
            elif there is None or not group or key[1] is not None or key[2] is not None:
                del groups[key]
            elif not key[0] and len(group) <= SINGLE:
                for base in [base for base in group if there[0] <= base <= there[1]]:
                    del group[base]
            else:
                first, last = span(group[min(group)][0]), span(group[max(group)][0])
                if there[0] <= last[1] and first[0] <= there[1]:
                    del groups[key]

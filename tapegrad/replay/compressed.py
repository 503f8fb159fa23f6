"""Jacobians from a few compressed directions: columns that share no row travel together.

Which element of the results can depend on which element of the arguments is read
off a finished tape (`pattern`).  Columns (or rows) of the Jacobian that have no
place in common get one colour, greedily; one seed per colour then gives all their
entries, each in a place of its own: exact, and a banded map of any size takes as
many directions as its band is wide.  (A. R. Curtis, M. J. D. Powell and J. K. Reid,
"On the estimation of sparse Jacobian matrices", 1974.)
"""

from __future__ import annotations

import numpy as np

from ..record import normalise
from ..recording import pieces_of, prepared
from ..tape.layout import ARRAY_LEAF
from ..tape.meta import SCALAR
from .trace import ROW

#: Rows that move elements: applied to positions they say where each element comes from.
MOVES = set(
    "getitem select broadcast_to diagonal as_strided reshape squeeze expand_dims transpose t flip gather roll repeat "
    "tile concatenate stack diag setitem put".split()
)
#: Rows that change nothing but the dtype.
SAME = {"astype", "clone"}
#: More instructions, or dependencies, than this are not looked at.
MOST_INSTRUCTIONS, MOST_ENTRIES = 20_000, 2_000_000


def pattern(tape, recording):
    """Which result elements may depend on which argument elements, as a SciPy CSR array, or None (too large).

    Rows count the elements of all outputs, columns those of all inputs of `recording`.
    """
    from scipy.sparse import csr_array, vstack

    if len(tape.records) > MOST_INSTRUCTIONS:
        return None
    total = sum(p.size for p in recording.inputs)
    known = {}
    for begin, size, slot, _ in pieces_of(recording.inputs):
        known[slot] = csr_array((np.ones(size), (np.arange(size), begin + np.arange(size))), shape=(size, total))
    items = {item.slot: item for item in tape.items}
    ops, lefts, rights = (tape.records[name].tolist() for name in ("op", "a", "b"))
    entries = 0
    for slot in range(1, len(ops)):
        if not tape.active[slot] or slot in known:
            continue
        if slot in items:
            found = _of_item(items[slot], known, tape)
        elif 1 < ops[slot] < ARRAY_LEAF:
            found = _union([known[o] for o in (lefts[slot], rights[slot]) if o in known])
        else:
            continue
        known[slot] = found
        entries += found.nnz
        if entries > MOST_ENTRIES:
            return None
    empty = [csr_array((p.size, total)) for p in recording.outputs]
    return csr_array(vstack([known.get(p.slot, e) for p, e in zip(recording.outputs, empty)]))


def _union(parts):
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    total.data[:] = 1.0
    return total


def _shape(tape, reference):
    if reference < 0:
        return np.shape(tape.constants[-1 - reference])
    meta = tape.metas[reference]
    return () if meta is SCALAR else meta.shape


def _of_item(item, known, tape):
    from scipy.sparse import csr_array, vstack

    entry, row, operands = item.entry, item.entry.function, item.operands
    shape = () if entry.meta is SCALAR else entry.meta.shape
    size = int(np.prod(shape, dtype=np.int64))
    live = [k for k in row.slots(len(operands)) if operands[k] in known] if entry.kind == ROW else []
    if row.elementwise or row.name in SAME:
        parts = []
        for k in live:
            own = _shape(tape, operands[k])
            where = np.broadcast_to(np.arange(int(np.prod(own, dtype=np.int64))).reshape(own), shape).reshape(-1)
            parts.append(known[operands[k]][where])
        return _union(parts)
    if row.name in MOVES and all(operands[k] < 0 for k in row.constants if k < len(operands)):
        stack, arrays, start = [csr_array((1, known[operands[live[0]]].shape[1]))], [], 1
        for k, o in enumerate(operands):
            if k in row.constants:
                arrays.append(tape.constants[-1 - o])
                continue
            own = _shape(tape, o)
            count = int(np.prod(own, dtype=np.int64))
            if k in live:
                arrays.append(np.arange(start, start + count).reshape(own))
                stack.append(known[o])
                start += count
            else:
                arrays.append(np.zeros(own, np.int64))
        attrs = dict(entry.attrs)
        if row.dynamic:
            attrs[row.dynamic] = entry.integer
        where = np.asarray(row.value(*arrays, **attrs)).reshape(-1)
        return csr_array(vstack(stack))[where.astype(np.int64)]
    # Anything else may depend on all that its operands depend on.
    columns = np.unique(np.concatenate([known[operands[k]].indices for k in live]))
    width = known[operands[live[0]]].shape[1]
    if size * len(columns) > MOST_ENTRIES:
        raise _TooDense
    places = np.repeat(np.arange(size), len(columns)), np.tile(columns, size)
    return csr_array((np.ones(size * len(columns)), places), shape=(size, width))


class _TooDense(Exception):
    """A dependency has more entries than is worth looking at."""


def colours(structure):
    """Greedy colours of the columns of a CSR array, such that columns of one colour share no row."""
    by_column = structure.tocsc()
    chosen = np.full(structure.shape[1], -1, np.int64)
    indptr, rows = by_column.indptr, by_column.indices
    starts, columns = structure.indptr, structure.indices
    for j in range(structure.shape[1]):
        taken = {int(c) for r in rows[indptr[j] : indptr[j + 1]] for c in chosen[columns[starts[r] : starts[r + 1]]]}
        colour = 0
        while colour in taken:
            colour += 1
        chosen[j] = colour
    return chosen


class Compressed:
    """The seeds and places of one direction of compression.

    Parameters
    ----------
    structure : csr_array
        Rows are the elements that are collected, columns those that are seeded.
    sources, targets : list of Port
        Seeded and collected.
    """

    def __init__(self, structure, sources, targets):
        self.colour = colours(structure)
        self.count = int(self.colour.max(initial=-1)) + 1
        ends = np.cumsum([p.size for p in sources])
        self.seeds = []
        for c in range(self.count):
            parts = np.split((self.colour == c).astype(float), ends[:-1])
            seeds = [normalise(v.reshape(p.shape).astype(p.char)) for v, p in zip(parts, sources)]
            self.seeds.append(prepared(sources, seeds))
        self.places = []
        down = 0
        for target in targets:
            across, row = 0, []
            for source in sources:
                block = structure[down : down + target.size, across : across + source.size].tocoo()
                at = self.colour[across + block.col] * target.size + block.row
                row.append((block.row * source.size + block.col, block.col * target.size + block.row, at))
                across += source.size
            self.places.append(row)
            down += target.size


def compression(tape, recording):
    """``(by columns, by rows)``, each a `Compressed` or None where it saves nothing."""
    try:
        structure = pattern(tape, recording)
    except _TooDense:
        structure = None
    if structure is None or 0 in structure.shape:
        return None, None
    found = []
    turned = structure.T.tocsr()
    for one, sources, targets in (
        (structure, recording.inputs, recording.outputs), (turned, recording.outputs, recording.inputs),
    ):  # fmt: skip
        least = int(np.diff(one.indptr).max(initial=0))
        made = Compressed(one, sources, targets) if least * 4 <= one.shape[1] else None
        found.append(made if made is not None and made.count * 4 <= one.shape[1] else None)
    return tuple(found)

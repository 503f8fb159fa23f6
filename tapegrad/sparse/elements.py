"""A finished tape element by element: what each element of each value is computed from.

Elements are numbered from 0 in the order in which a replay computes them: those of the
arguments first, then instruction by instruction, in C order within an array.  An edge
from one to a later one says that the later may depend on it, differentiably.  What an
instruction does to the elements is known exactly for

element-wise rows       each operand element to the elements it is broadcast to;
data movement           the row itself is applied to positions, and what arrives says where from;
reductions, softmax     all elements of one line (one group) to its results;
scans, recurrences      each element to the one after it;
matrix products         a row of one operand and a column of the other to each element.

Anything else (solves, factorizations, a user's primitive) counts as dense.  Where many
depend on the same many, a *hub* is put between, an element that is no value: a dense
n x n instruction has 2 n edges.  So the graph, and what is read off it (`pattern`), is as
large as the values of the tape together.
"""

from __future__ import annotations

import numpy as np

from ..recording import pieces_of
from ..replay.trace import ROW
from ..tape.layout import ARRAY_LEAF
from ..tape.meta import SCALAR

#: Rows that move elements: applied to positions they say where each element comes from.
MOVES = set(
    "getitem select broadcast_to diagonal as_strided reshape squeeze expand_dims transpose t flip gather roll repeat "
    "tile concatenate stack diag setitem put windows".split()
)
#: Rows that change nothing but the dtype.
SAME = {"astype", "clone"}
#: Rows that make one number of each line of elements.
REDUCTIONS = set("sum mean max min prod var std norm logsumexp".split())
#: Rows that make a line of a line.
LINES = {"softmax", "log_softmax"}
SCANS = {"cumsum", "cumprod", "recurrence"}


class Elements:
    """The graph of a tape.

    Parameters
    ----------
    tape : FinishedTape
    most : int, optional
        Elements and edges from which on to stop, with `TooLarge`.

    Attributes
    ----------
    count : int
    columns : int
        The number of elements of the arguments that are differentiated.
    inputs : (ndarray, ndarray)
        Elements that stand for arguments, and the numbers of their columns.
    results : ndarray
        The element that each element of the results is; -1 where it is none.
    """

    def __init__(self, tape, most=None):
        self.tape, self.most, self.count, self.size = tape, most, 0, 0
        self._first = {}
        self._from, self._to = [], []
        self._enter()
        items = {item.slot: item for item in tape.items}
        ops, lefts, rights = (tape.records[name].tolist() for name in ("op", "a", "b"))
        first, active = self._first, tape.active.tolist()
        sources, targets = [], []
        for slot in range(1, len(ops)):
            if not active[slot] or slot in first:
                continue
            if slot in items:
                self._item(items[slot])
            elif 1 < ops[slot] < ARRAY_LEAF:
                mine = first[slot] = self._new(1)
                for o in (lefts[slot], rights[slot]):
                    if o in first:
                        sources.append(first[o])
                        targets.append(mine)
        self._edges(np.array(sources, np.int64), np.array(targets, np.int64))
        found = []
        for slot, description in tape.outputs:
            if slot and slot in first:
                found.append(first[slot] + np.arange(tape.metas[slot].size))
            else:
                size = tape.metas[slot].size if slot else int(np.size(getattr(description, "_v", description)))
                found.append(np.full(size, -1, np.int64))
        self.results = np.concatenate(found) if found else np.zeros(0, np.int64)

    def edges(self):
        """``(starts, sources)``: element `e` depends on ``sources[starts[e]:starts[e + 1]]``."""
        sources, targets = np.concatenate(self._from), np.concatenate(self._to)
        order = np.argsort(targets, kind="stable")
        starts = np.zeros(self.count + 1, np.int64)
        np.cumsum(np.bincount(targets, minlength=self.count), out=starts[1:])
        return starts, np.ascontiguousarray(sources[order])

    # -- writing -----------------------------------------------------------------
    def _enter(self):
        from ..replay.swept import inputs_of

        ports = inputs_of(self.tape)
        elements, columns = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for begin, size, slot, _ in pieces_of(ports):
            self._first[slot] = self._new(size)
            elements.append(self._first[slot] + np.arange(size))
            columns.append(begin + np.arange(size))
        self.columns = sum(p.size for p in ports)
        self.inputs = np.concatenate(elements), np.concatenate(columns)

    def _new(self, size):
        found = self.count
        self.count += size
        self._grown(size)
        return found

    def _grown(self, by):
        self.size += by
        if self.most is not None and self.size > self.most:
            raise TooLarge

    def _edges(self, sources, targets):
        self._from.append(sources)
        self._to.append(targets)
        self._grown(len(sources))

    def _hubs(self, sources, groups, count):
        """One hub for each of `count` groups of elements; returns their numbers."""
        first = self._new(count)
        self._edges(sources, first + groups)
        return first + np.arange(count)

    def _shape(self, reference):
        if reference < 0:
            return np.shape(self.tape.constants[-1 - reference])
        return self.tape.metas[reference].shape

    # -- one instruction ------------------------------------------------------------
    def _item(self, item):
        entry, row, operands = item.entry, item.entry.function, item.operands
        if entry.kind != ROW:
            return
        live = [k for k in row.slots(len(operands)) if operands[k] in self._first]
        attrs = dict(entry.attrs)
        if row.dynamic:
            attrs[row.dynamic] = entry.integer
        # Of each live operand its elements, in its shape.
        given = {}
        for k in live:
            shape = self._shape(operands[k])
            given[k] = (self._first[operands[k]] + np.arange(_size(shape))).reshape(shape)
        how = self._way(row, operands, attrs)
        sources, targets = how(row, operands, entry, attrs, given)
        # Hubs come before the elements that depend on them.
        mine = self._first[item.slot] = self._new(entry.meta.size)
        for s, t in zip(sources, targets):
            self._edges(np.ravel(s), mine + np.ravel(t))

    def _way(self, row, operands, attrs):
        name = row.name
        if row.elementwise or name in SAME or name == "runge_kutta_stage":
            return self._elementwise
        if name in MOVES and self._fixed(row, operands):
            return self._moved
        if name in ("place", "scatter", "add_windows") and self._fixed(row, operands):
            return self._added
        if name in REDUCTIONS:
            return self._reduced
        if name in LINES:
            return self._lines
        if name in SCANS:
            return self._scanned
        return self._product if name == "matmul" else self._dense

    @staticmethod
    def _fixed(row, operands):
        """Whether its positions are constants of the tape."""
        return all(operands[k] < 0 for k in row.constants if k < len(operands))

    def _elementwise(self, row, operands, entry, attrs, given):
        shape = entry.meta.shape
        places = np.arange(_size(shape))
        return [np.broadcast_to(g, shape) for g in given.values()], [places] * len(given)

    def _moved(self, row, operands, entry, attrs, given):
        arrays = []
        for k, o in enumerate(operands):
            if k in row.constants:
                arrays.append(self.tape.constants[-1 - o])
            else:
                # Position 0 is that of no element.
                arrays.append(given[k] + 1 if k in given else np.zeros(self._shape(o), np.int64))
        origins = np.asarray(row.value(*arrays, **attrs)).reshape(-1).astype(np.int64)
        places = np.flatnonzero(origins)
        return [origins[places] - 1], [places]

    def _added(self, row, operands, entry, attrs, given):
        (elements,) = given.values()
        shape = entry.meta.shape
        positions = np.arange(_size(shape))
        if row.name == "scatter":
            targets = np.ravel(self.tape.constants[-1 - operands[1]])
        else:
            step = positions.itemsize
            window = np.lib.stride_tricks.as_strided(
                positions[attrs["offset"] :], elements.shape, [s * step for s in attrs["strides"]]
            )
            targets = window.reshape(-1) if elements.size else np.zeros(0, np.int64)
        return [elements], [targets]

    def _reduced(self, row, operands, entry, attrs, given):
        (elements,) = given.values()
        axis = attrs.get("axis")
        kept = np.sum(np.zeros(elements.shape), axis=axis, keepdims=True).shape
        groups = np.broadcast_to(np.arange(_size(kept)).reshape(kept), elements.shape)
        return [elements], [groups]

    def _lines(self, row, operands, entry, attrs, given):
        (elements,) = given.values()
        kept = list(elements.shape)
        if kept:
            kept[attrs.get("axis", -1)] = 1
        groups = np.broadcast_to(np.arange(_size(kept)).reshape(kept), elements.shape)
        hubs = self._hubs(elements.reshape(-1), groups.reshape(-1), _size(kept))
        return [hubs[groups]], [np.arange(elements.size)]

    def _scanned(self, row, operands, entry, attrs, given):
        axis, shape = attrs.get("axis"), entry.meta.shape
        lag = attrs.get("lag", False)
        places = np.arange(_size(shape)).reshape(shape)
        if axis is None:
            given, places, axis = {k: g.reshape(-1) for k, g in given.items()}, places.reshape(-1), 0
        # A chain of hubs carries what comes from before, in the direction of the scan: in their order they are numbered.
        lines = np.moveaxis(places, axis, 0)
        if attrs.get("reverse", False):
            lines = lines[::-1]
        order = np.empty(places.size, np.int64)
        order[lines.reshape(-1)] = np.arange(places.size)
        first = self._new(places.size)
        chain = first + order.reshape(places.shape)
        along = np.moveaxis(chain, axis, 0)
        if attrs.get("reverse", False):
            along = along[::-1]
        if len(along):
            self._edges(along[:-1].reshape(-1), along[1:].reshape(-1))
        for k, g in given.items():
            g = np.broadcast_to(g, places.shape)
            if lag and k == 1:
                # Of the factor before.
                g = np.moveaxis(g, axis, 0)
                g = g[::-1] if attrs.get("reverse", False) else g
                self._edges(g[:-1].reshape(-1), along[1:].reshape(-1))
            else:
                self._edges(g.reshape(-1), chain.reshape(-1))
        return [chain], [places]

    def _product(self, row, operands, entry, attrs, given):
        shape = entry.meta.shape
        sources, targets = [], []
        flat = [len(self._shape(o)) == 1 for o in operands]
        # The axes of the result, as those of a product of two matrices.
        full = list(shape)
        if flat[1]:
            full.append(1)
        if flat[0]:
            full.insert(len(full) - 1, 1)
        places = np.arange(_size(shape)).reshape(full)
        for k, elements in given.items():
            if flat[k]:
                elements = elements.reshape((1, -1) if k == 0 else (-1, 1))
            along = -1 if k == 0 else -2
            kept = list(elements.shape)
            kept[along] = 1
            groups = np.arange(_size(kept)).reshape(kept)
            hubs = self._hubs(elements.reshape(-1), np.broadcast_to(groups, elements.shape).reshape(-1), _size(kept))
            sources.append(np.broadcast_to(hubs.reshape(kept), full))
            targets.append(places)
        return sources, targets

    def _dense(self, row, operands, entry, attrs, given):
        elements = np.concatenate([g.reshape(-1) for g in given.values()])
        hub = self._hubs(elements, np.zeros(len(elements), np.int64), 1)
        return [np.broadcast_to(hub, entry.meta.size)], [np.arange(entry.meta.size)]


def _size(shape):
    return int(np.prod(shape, dtype=np.int64))


class TooLarge(Exception):
    """A tape has more elements than is worth looking at."""

"""The pattern of a Jacobian: a finished tape element by element, and the columns that each element depends on.

Each element of a value has a number; the numbers stand in an array of the shape of the
value (`Elements._of`), -1 where nothing that is differentiated has a part in it.  What depends on
one other element only *is* that element, as far as dependence goes, and has its
number: so data movement and functions of one operand make no elements.  An element
that depends on several is a new one, and *edges* say on which.  Elements are numbered in the
order of the tape, so an edge leads from a lower number to a higher one.

What an instruction does is known exactly for

element-wise rows       each operand element to the elements it is broadcast to;
data movement           the row itself is applied to the numbers;
reductions, softmax     all elements of one line (one group) to its results;
scans, recurrences      each element to those after it, by a chain;
matrix products         a row of one operand and a column of the other to each element.

user's primitives       as the tape of their JVP rule, from tangents to tangents.

Anything else (solves, factorizations, a rule that calls Python) counts as dense.  Where many
depend on the same many, an element that is no value stands between (a *hub*): a dense
n x n instruction has 2 n edges.  So the graph, and what is read off it, is no
larger than the values of the tape together.

Two walks up the elements find the pattern.  With *lists*, each element has the list of its
columns, the union of the lists of those it depends on: the time it takes grows with
the dependencies, which are few where the result is worth being called sparse.  If they are not few, *bit
sets* do it: 64 columns are one word of each element, and a tape of E edges with n columns
takes E * n / 64 steps, however dense it is.
"""

import math
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from ...rules.shaping import window_positions
from ...tape.layout import ARRAY_LEAF, SCALAR
from ..ports import inputs_of, pieces_of
from ..trace import ROW
from .walk import spread_bits, spread_lists


class Elements:
    """The graph of a tape.

    Parameters
    ----------
    tape : FinishedTape
    most : int, optional
        Elements, edges and sizes of values from which on to stop, with `TooLarge`.

    Attributes
    ----------
    count : int
    columns : int
        The number of elements of the arguments that are differentiated; they are the first elements.
    results : ndarray
        The number of each element of the results, one after the other.
    """

    def __init__(self, tape, most=None):
        self.tape, self.most, self.size = tape, most, 0
        ports = inputs_of(tape)
        self.columns = self.count = sum(p.size for p in ports)
        self._from, self._to = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        pieces = pieces_of(ports)
        self._of = {slot: at if meta is SCALAR else np.arange(at, at + size).reshape(meta.shape) for at, size, slot, meta in pieces}
        self._walk()
        results = [np.zeros(0, np.int64)]
        for slot, description in tape.outputs:
            numbers = self._of.get(slot)
            if numbers is None:
                size = tape.metas[slot].size if slot else int(np.size(getattr(description, "_v", description)))
                numbers = np.full(size, -1)
            results.append(np.ravel(numbers))
        self.results = np.concatenate(results)

    def edges(self):
        """``(starts, sources)``: element `e` depends on ``sources[starts[e]:starts[e + 1]]``."""
        sources, targets = np.concatenate(self._from), np.concatenate(self._to)
        order = np.argsort(targets, kind="stable")
        starts = np.zeros(self.count + 1, np.int64)
        np.cumsum(np.bincount(targets, minlength=self.count), out=starts[1:])
        return starts, np.ascontiguousarray(sources[order])

    # -- the tape ------------------------------------------------------------------
    def _walk(self):
        of, tape = self._of, self.tape
        items = {item.slot: item for item in tape.items}
        ops, lefts, rights = (tape.records[name].tolist() for name in ("op", "a", "b"))
        sources, targets = [], []
        for slot, active in enumerate(tape.active.tolist()):
            if not active or slot in of:
                continue
            if slot in items:
                if items[slot].entry.kind == ROW:
                    of[slot] = self._item(items[slot])
            elif 1 < ops[slot] < ARRAY_LEAF:
                a, b = of.get(lefts[slot], -1), of.get(rights[slot], -1)
                if a < 0 or a == b:
                    a = b
                elif b >= 0:
                    sources += (a, b)
                    targets += (self.count, self.count)
                    a = self.count
                    self.count += 1
                of[slot] = a
        self._edges(np.array(sources, np.int64), np.array(targets, np.int64))

    def _grown(self, by):
        self.size += by
        if self.most is not None and self.size > self.most:
            raise TooLarge

    def _edges(self, sources, targets):
        self._from.append(sources)
        self._to.append(targets)
        self._grown(len(sources))

    # -- numbers ---------------------------------------------------------------------
    def _union(self, parts):
        """The numbers of what depends on one element of each of several arrays of the same shape."""
        total = parts[0]
        for part in parts[1:]:
            new = (total >= 0) & (part >= 0) & (total != part)
            numbers = np.where(total < 0, part, total)
            many = int(np.count_nonzero(new))
            if many:
                made = np.arange(self.count, self.count + many)
                self.count += many
                self._edges(np.concatenate([total[new], part[new]]), np.concatenate([made, made]))
                numbers[new] = made
            total = numbers
        return total

    def _grouped(self, numbers, groups, shape):
        """The numbers of what depends on all elements of a group, in an array of this shape, an element for each group."""
        numbers, groups, count = np.ravel(numbers), np.ravel(groups), math.prod(shape)
        live = numbers >= 0
        numbers, groups = numbers[live], groups[live]
        result = np.full(count, -1)
        result[groups] = numbers
        several = np.bincount(groups, minlength=count) > 1
        many = int(np.count_nonzero(several))
        if many:
            result[several] = np.arange(self.count, self.count + many)
            self.count += many
            which = several[groups]
            self._edges(numbers[which], result[groups[which]])
        return result.reshape(shape)

    def _shape(self, reference):
        return np.shape(self.tape.constants[-1 - reference]) if reference < 0 else self.tape.metas[reference].shape

    # -- one instruction ------------------------------------------------------------
    def _item(self, item):
        entry, row, operands = item.entry, item.entry.function, item.operands
        attrs = row.keywords(entry.attrs, entry.integer)
        inputs = {k: np.asarray(self._of[operands[k]]) for k in row.slots(len(operands)) if operands[k] in self._of}
        shape = entry.meta.shape
        self._grown(entry.meta.size)
        if not inputs or not entry.meta.size:
            # Arguments without elements.
            return np.full(shape, -1)
        if row.primitive is None:
            result = self._way(row, operands, attrs)(row, operands, shape, attrs, inputs)
        else:
            rules = attrs["call"].rules
            tape = "" if rules is None else rules.tape(True, tuple(inputs))
            result = self._dense(row, operands, shape, attrs, inputs) if isinstance(tape, str) else self._ruled(tape, list(inputs.values()))
        return int(result.reshape(())) if entry.meta is SCALAR else np.reshape(result, shape)

    def _way(self, row, operands, attrs):
        if row.effect == "elementwise":
            return self._elementwise
        # Positions have to be constants of the tape.
        if row.effect in ("view", "move", "write") and all(operands[k] < 0 for k in row.constants):
            return self._added if row.adds else self._moved
        if row.effect == "reduce":
            return self._reduced if "axis" in attrs and len(operands) == 1 else self._dense
        return {"scan": self._scanned, "product": self._product}.get(row.effect, self._dense)

    def _ruled(self, tape, tangents):
        """The numbers of what the tape of a JVP rule makes of those of the tangents, its first arguments."""
        outside = self.tape, self._of
        self.tape = replace(tape, wanted=tuple(k < len(tangents) for k in range(len(tape.inputs))))
        self._of = {slot: tangents[k] for k, slot in enumerate(tape.leaves) if slot and k < len(tangents)}
        self._of.update({slot: int(np.ravel(tangents[k])[at]) for k, at, slot in tape.elements if k < len(tangents)})
        self._walk()
        ((slot, what),) = tape.outputs
        result = np.asarray(self._of.get(slot, np.full(tape.metas[slot].shape if slot else np.shape(what), -1)))
        self.tape, self._of = outside
        return result

    def _elementwise(self, row, operands, shape, attrs, inputs):
        return self._union([np.broadcast_to(g, shape) for g in inputs.values()])

    def _moved(self, row, operands, shape, attrs, inputs):
        arrays = []
        for k, o in enumerate(operands):
            if k in row.constants:
                arrays.append(self.tape.constants[-1 - o])
            else:
                # What comes from nowhere is 0 here.
                arrays.append(inputs[k] + 1 if k in inputs else np.zeros(self._shape(o), np.int64))
        return np.asarray(row.value(*arrays, **attrs)).astype(np.int64) - 1

    def _added(self, row, operands, shape, attrs, inputs):
        # Into the first operand, or into zeros.
        onto = row.effect == "write"
        parts = []
        if 0 in inputs and onto:
            parts.append(inputs[0].reshape(-1))
        if int(onto) in inputs:
            numbers = inputs[int(onto)]
            if row.constants:
                targets = np.ravel(self.tape.constants[-1 - operands[row.constants[0]]])
            else:
                numbers = np.broadcast_to(numbers, attrs["shape"]) if onto else numbers
                targets = window_positions(numbers.shape, attrs["strides"]) + attrs["offset"]
            parts.append(self._grouped(numbers, targets, (math.prod(shape),)))
        return self._union(parts)

    def _reduced(self, row, operands, shape, attrs, inputs):
        (numbers,) = inputs.values()
        groups, lines = _lines_of(numbers.shape, attrs["axis"] if numbers.ndim else None)
        numbers = self._grouped(numbers, groups, lines)
        # Each line may give one number, or a line.
        return np.ravel(numbers)[groups] if shape == groups.shape else numbers

    def _scanned(self, row, operands, shape, attrs, inputs):
        axis, lag = attrs.get("axis"), attrs.get("lag", False)
        inputs = {k: np.ravel(g) if axis is None else np.broadcast_to(g, shape) for k, g in inputs.items()}
        axis = axis or 0

        def lined(a):
            """With the axis of the scan first, in its direction."""
            a = np.moveaxis(a, axis, 0)
            return a[::-1] if attrs.get("reverse", False) else a

        # A chain that is numbered in the direction of the scan: each element, and all that comes before it.
        numbers = np.empty(shape, np.int64)
        chain = lined(numbers)
        chain[...] = np.arange(self.count, self.count + numbers.size).reshape(chain.shape)
        self.count += numbers.size
        self._edges(np.ravel(chain[:-1]), np.ravel(chain[1:]))
        for k, g in inputs.items():
            g = lined(g)
            # With `lag`, y[k] = b[k] + f[k - 1] * y[k - 1]: a factor (operand 1) has a part in the element after its own, and in those behind.
            sources, targets = (g[:-1], chain[1:]) if lag and k == 1 else (g, chain)
            live = sources >= 0
            self._edges(sources[live], targets[live])
        return numbers

    def _product(self, row, operands, shape, attrs, inputs):
        flat = [len(self._shape(o)) == 1 for o in operands]
        # The shape of the result as that of a product of matrices.
        full = list(shape)
        if flat[1]:
            full.append(1)
        if flat[0]:
            full.insert(len(full) - 1, 1)
        parts = []
        for k, numbers in inputs.items():
            if flat[k]:
                numbers = numbers.reshape((1, -1) if k == 0 else (-1, 1))
            parts.append(np.broadcast_to(self._grouped(numbers, *_lines_of(numbers.shape, -1 - k)), full))
        return self._union(parts)

    def _dense(self, row, operands, shape, attrs, inputs):
        numbers = np.concatenate([g.reshape(-1) for g in inputs.values()])
        return np.broadcast_to(self._grouped(numbers, np.zeros(len(numbers), np.int64), (1,)), math.prod(shape))


def _lines_of(shape, axis):
    """For each element the number of its line along `axis` (or axes; None: all), and the shape of the lines."""
    lines = np.sum(np.zeros(shape), axis=axis, keepdims=True).shape
    return np.broadcast_to(np.arange(math.prod(lines)).reshape(lines), shape), lines


class TooLarge(Exception):
    """A tape has more elements than is worth looking at."""


# ---- the pattern ---------------------------------------------------------------------------------
#: Columns that an element has in its list, on average, at most.
LENGTH = 32
#: Words that an element has in one pass, at most.
WORDS = 16
#: Bytes that the bits of all elements have in one pass, about, if a word each is not more.
MEMORY = 1 << 28


def pattern(tape, most=None):
    """Which result elements may depend on which argument elements, as a SciPy CSR array of bool.

    Rows count the elements of all outputs, columns those of all arguments that are differentiated.

    Parameters
    ----------
    tape : FinishedTape
    most : int, optional
        As of `Elements`, and of entries.

    Raises
    ------
    TooLarge
    """
    graph = Elements(tape, most)
    starts, sources = graph.edges()
    entries = by_lists(graph, starts, sources)
    if entries is None:
        if most is not None and graph.count * graph.columns > 64 * most:
            raise TooLarge
        entries = by_bits(graph, starts, sources, most)
    rows, columns = entries
    made = csr_array((np.ones(len(rows), bool), (rows, columns)), shape=(len(graph.results), graph.columns))
    made.sort_indices()
    return made


def by_lists(graph, starts, sources):
    """Rows and columns of the pattern; None if lists would be too long."""
    columns, count = graph.columns, graph.count
    pool = np.empty(columns + LENGTH * (count - columns), np.int64)
    first, mark = np.empty(count + 1, np.int64), np.full(columns, -1, np.int64)
    if spread_lists(columns, starts, sources, first, pool, mark) < 0:
        return None
    rows = np.flatnonzero(graph.results >= 0)
    elements = graph.results[rows]
    lengths = first[elements + 1] - first[elements]
    ends = np.cumsum(lengths)
    # Position k of all lists together is at this position of the pool.
    at = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first[elements] - (ends - lengths), lengths)
    return np.repeat(rows, lengths), pool[at]


def by_bits(graph, starts, sources, most=None):
    """Rows and columns of the pattern, by bit sets; more than `most` are `TooLarge`."""
    columns = graph.columns
    words = max(1, min(WORDS, -(-columns // 64), MEMORY // (8 * graph.count + 8)))
    bits, live = np.zeros((graph.count, words), np.int64), np.flatnonzero(graph.results >= 0)
    entries, total = [np.zeros((2, 0), np.int64)], 0
    for low in range(0, columns, 64 * words):
        bits[:] = 0
        # The first elements are those of the arguments, one for each column.
        at = np.arange(min(64 * words, columns - low))
        bits[low + at, at // 64] = np.left_shift(np.int64(1), at % 64)
        spread_bits(starts, sources, bits)
        of_results = bits[graph.results[live]]
        row, word = np.nonzero(of_results)
        which, bit = np.nonzero(np.unpackbits(of_results[row, word].astype("<i8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little"))
        entries.append(np.stack([live[row[which]], low + 64 * word[which] + bit]))
        total += len(which)
        if most is not None and total > most:
            raise TooLarge
    return np.concatenate(entries, axis=1)

"""The loops that rolling found, with the numbers of their executions.

A `Body` is the list of nodes of one loop (or of the whole program).  Everything
in it is executed `count` times; the *execution number* counts from 0 over the
whole run.  ``runs[k]`` holds for each of them the number of the iteration of the loop
at depth `k` in which it happens, counted over the whole run as well.  Times are
numbers of instructions.

A *spot* says for each execution which element of something is meant: what an
`ir.Index` says, with loops by their depth and tables by their number, so that
equal spots compare equal.  In ``for i in range(2): for j in range(3)`` the body of the inner loop has
count 6 and ``runs = [[0, 0, 0, 1, 1, 1], [0, 1, 2, 3, 4, 5]]``; what reads elements
``10, 11, 12, 20, 21, 22`` is at ``AffineIndex(10, ((0, 10), (1, 1)))``: 10 + 10 i + j.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..common.errors import require
from ..common.uninterrupted import cached_property
from . import ir
from .roll.search import Line


class AffineIndex(NamedTuple):
    """Element ``base + sum(coefficient * counter)``, or the entry of table number `table` at that position."""

    base: int
    steps: tuple = ()  # (depth, coefficient)
    table: int = -1

    def scaled(self, size, offset, tables):
        """The starts of rows of `size` elements, one for each element of this spot, in sequence from element `offset` on."""
        if self.table < 0:
            return AffineIndex(self.base * size + offset, tuple((depth, step * size) for depth, step in self.steps))
        if size == 1 and not offset:
            return self
        return self._replace(table=tables.number(tables.arrays[self.table] * size + offset))


class Tables:
    """Arrays known by number, equal ones once."""

    def __init__(self):
        self.arrays, self._known = [], {}

    def number(self, values):
        """The number of the array `values`."""
        values = np.ascontiguousarray(values)
        key = (values.dtype.char, values.tobytes())
        if key not in self._known:
            self._known[key] = len(self.arrays)
            self.arrays.append(values)
        return self._known[key]


class LoopNode:
    """A loop.

    Attributes
    ----------
    parent : Body
        Where it stands, as node number `position`.
    depth : int
        Number of loops around it.
    body : Body
    of : ndarray
        Its execution (that of the parent) to which each iteration belongs.
    first : ndarray
        First iteration of each execution.
    loop : ir.Loop
    carries : dict
        What it carries, `references.Carried` -> `ir.Carry`.
    """

    def __init__(self, parent, position, extent):
        self.parent, self.position, self.depth = parent, position, len(parent.levels)
        self.ragged = not isinstance(extent, (int, np.integer))
        self.extent = np.ascontiguousarray(extent, np.int64) if self.ragged else int(extent)
        counts = np.broadcast_to(self.extent, (parent.count,))
        require(len(counts) == parent.count and (counts >= 1).all(), "a loop that does not run")
        self.of = np.repeat(np.arange(parent.count), counts)
        self.first = np.cumsum(counts) - counts
        self.loop = ir.Loop(self.extent)
        self.carries = {}
        self.body = Body([*parent.levels, self], len(self.of), [runs[self.of] for runs in parent.runs])

    @cached_property
    def begins(self):
        """Whether each iteration is the first of its execution."""
        begins = np.zeros(len(self.of), bool)
        begins[self.first] = True
        return begins

    @cached_property
    def begun(self):
        """The time at which each execution begins."""
        return self.body.starts[self.first]

    @property
    def step(self):
        """An iteration that another follows in the same execution, or None."""
        if not self.ragged:
            return 0 if self.extent > 1 else None
        long = np.flatnonzero(self.extent > 1)
        return int(self.first[long[0]]) if len(long) else None


class Body:
    """The nodes of a loop, or of the whole program.

    Attributes
    ----------
    levels : list of LoopNode
        The loops around it, outermost first.
    nodes : list of StatementNode and LoopNode
    count : int
        Executions.
    runs : list of ndarray
    """

    def __init__(self, levels, count, outer):
        self.levels, self.count, self.nodes = levels, count, []
        self.runs = [*outer, np.arange(count)] if levels else []
        #: Position -> storages, and what is copied into them before that node.
        self.copies = {}
        self._counters = {}

    def counter(self, depth):
        """The counter of the loop at `depth` in each execution."""
        if depth not in self._counters:
            level = self.levels[depth]
            self._counters[depth] = self.runs[depth] if level.ragged else self.runs[depth] % level.extent
        return self._counters[depth]

    @cached_property
    def starts(self):
        """The time at which each execution begins."""
        node = self.nodes[0]
        return node.members if isinstance(node, StatementNode) else node.begun

    @cached_property
    def execution_number(self):
        """The spot that is the execution number."""
        steps, stride = [], 1
        for level in reversed(self.levels):
            steps.append((level.depth, stride))
            if level.ragged:
                break
            stride *= level.extent
        return AffineIndex(0, tuple((d, s) for d, s in reversed(steps) if self.levels[d].ragged or self.levels[d].extent > 1))

    @cached_property
    def _pairs(self):
        """Of each loop, innermost first: its depth and two executions one iteration of it apart."""
        pairs = []
        for level in reversed(self.levels):
            if level.step is not None:
                one, two = np.searchsorted(self.runs[level.depth], [level.step, level.step + 1])
                pairs.append((level.depth, int(one), int(two)))
        return pairs

    def fit(self, values, tables):
        """The spot whose elements are `values`, one for each execution."""
        base = int(values[0])
        if self.count == 1:
            return AffineIndex(base)
        left, steps = values, []
        for depth, one, two in self._pairs:
            step = int(left[two] - left[one])
            if step:
                left = left - step * self.counter(depth)
                steps.append((depth, step))
        if (left == left[0]).all():
            return AffineIndex(int(left[0]), tuple(reversed(steps)))
        return self.table(values, tables)

    def table(self, values, tables):
        """The spot of a table of `values`, as small as the loops on which they depend allow."""
        ragged = [level.depth for level in self.levels if level.ragged]
        outer = ragged[-1] if ragged else 0
        axes = self.levels[outer:]
        shape = [-1 if level.ragged else level.extent for level in axes]
        grid = np.asarray(values).reshape(shape)
        kept = []
        for axis, level in enumerate(axes):
            head = grid[(slice(None),) * axis + (slice(0, 1),)]
            if not level.ragged and (grid == head).all():
                grid = head
            else:
                kept.append(level.depth)
        steps, stride = [], 1
        for level in reversed(axes):
            if level.depth in kept:
                steps.append((level.depth, stride))
                stride *= grid.shape[level.depth - outer]
        return AffineIndex(0, tuple(reversed(steps)), tables.number(grid.reshape(-1)))

    def index(self, spot, tables):
        """The `ir.Index` of a spot."""
        table = tables.arrays[spot.table] if spot.table >= 0 else None
        return ir.Index(spot.base, tuple((self.levels[d].loop, step) for d, step in spot.steps), table)


class StatementNode:
    """One instruction of a body.

    Attributes
    ----------
    number : int
    body : Body
    position : int
        Its number among the nodes of the body.
    members : ndarray
        The instructions it stands for.
    operands : list
        What each operand is (`references`).
    stored : bool
        Whether its value has a spill buffer.
    spill, offset : ir.Buffer, int
        The spill buffer, and where in it the first execution is.
    storage : storage.Storage or None
        What it shares its place with.
    value : ir.Value or ArrayRef
    """

    __slots__ = ("number", "body", "position", "members", "operands", "stored", "spill", "offset", "storage", "value")

    def __init__(self, number, body, position, members):
        self.number, self.body, self.position, self.members = number, body, position, members
        self.operands = []
        self.stored = False
        self.spill, self.offset, self.storage, self.value = None, 0, None, None


def nest(structure):
    """The bodies and templates of a `roll.structure.RolledStructure`.

    Returns
    -------
    root : Body
    templates : list of StatementNode
        In the order of the tree.
    """
    root, templates = Body([], 1, []), []

    def fill(body, nodes):
        for position, node in enumerate(nodes):
            if isinstance(node, Line):
                require(len(node.members) == body.count, "another number of instructions than of executions")
                body.nodes.append(StatementNode(len(templates), body, position, node.members))
                templates.append(body.nodes[-1])
            else:
                body.nodes.append(LoopNode(body, position, node.extent))
                fill(body.nodes[-1].body, node.body)

    fill(root, structure.nodes)
    return root, templates

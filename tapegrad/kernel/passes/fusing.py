"""Loops of equal extent become one loop.

Statements of a body are placed one after the other, each as early as what it
depends on allows.  Places are counted: loops stand at odd ones, the other
statements between them at even ones.  A loop whose extent an earlier loop has, at
a place that is not too early, joins it.

It may even join a loop that it depends on by memory, if in every iteration it
touches only what that loop has touched in the same iteration or an earlier one
(`in_order`).  Dependence by a value that comes out of a loop always means: after
it.
"""

from __future__ import annotations

from bisect import bisect_left

from .. import ir
from .accesses import span
from .rewriting import reindex

#: Statements of a loop that no other joins any more.
MOST = 300

#: Accesses to one buffer that are told apart.
APART = 48


def fuse(program):
    """Fuse loops everywhere in `program`, in place."""
    program.body = _fused(program.body)
    return program


def _fused(body):
    if sum(isinstance(statement, ir.Loop) for statement in body) > 1:
        body = _Placing().run(body)
    for statement in body:
        if isinstance(statement, ir.Loop):
            statement.body = _fused(statement.body)
    return body


def in_order(first, loop, second, other, inside):
    """Whether no iteration of `loop` touches at index `first` what an earlier one of `other` touches at `second`.

    Both loops have the same extent and stand in the same body; what is asked is whether the second may
    follow the first within each iteration.  `inside` are the loops in their bodies.
    """
    if first is None or second is None or first.plus is not None or second.plus is not None:
        return False
    if loop.extent == 1:
        return True
    one, two = dict(first.steps), dict(second.steps)
    step, same = one.pop(loop, 0), two.pop(other, 0)
    if first.table is not None or second.table is not None:
        # Different elements in different iterations, the same ones in both loops.
        shared = first.table is second.table and first.base == second.base and step == same and not one and not two
        return shared and step != 0 and _distinct(first.table)
    if step != same:
        return False
    # Touched alike are iteration i of the second loop and i + k of the first where step * k lies in this range.
    low = high = second.base - first.base
    for inner in one.keys() | two.keys():
        if inner in one and inner in two and one[inner] == two[inner] and inner not in inside:
            continue
        for steps, sign in ((one, -1), (two, 1)):
            most = sign * steps.get(inner, 0) * (inner.total - 1)
            low, high = low + min(most, 0), high + max(most, 0)
    if step < 0:
        step, low, high = -step, -high, -low
    if step == 0:
        return not low <= 0 <= high
    least, most = max(1, -(-low // step)), min(high // step, loop.extent - 1)
    return least > most


def _distinct(table):
    return len(set(table.tolist())) == len(table)


class _Group:
    """A loop that others may join: its statements, and the loops inside."""

    def __init__(self, loop, size, inside):
        self.loop = loop
        self.size = size
        self.inside = inside


class _Placing:
    def __init__(self):
        self.place = {}
        self.bins = {}
        self.groups = {}
        self.alike = {}
        self.accesses = {}
        self.last = -1
        self.floor = 0

    def run(self, body):
        for statement in body:
            if isinstance(statement, ir.Loop):
                self.loop(statement)
            else:
                self.single(statement)
        result = []
        for place in range(self.last + 2):
            if place % 2:
                result.append(self.groups[place].loop)
            else:
                result += self.bins.get(place, ())
        return result

    # -- what depends on what -------------------------------------------------------
    def after(self, values):
        """The first place where all of `values` can be used."""
        earliest = self.floor
        for value in values:
            place = self.place.get(value)
            if place is not None:
                earliest = max(earliest, place + place % 2)
        return earliest

    def conflicts(self, touched):
        """For each place with an access that must stay before one of `touched`: the pairs of them."""
        found = {}
        for buffer, index, stores in touched:
            bounds = None if index is None else span(index)
            for place, other, wrote, there in self.accesses.get(buffer, ()):
                if (stores or wrote) and not (bounds and there and (there[1] < bounds[0] or bounds[1] < there[0])):
                    found.setdefault(place, []).append((other, index))
        return found

    def remember(self, touched, place):
        for buffer, index, stores in touched:
            known = self.accesses.setdefault(buffer, [])
            known.append((place, index, stores, None if index is None else span(index)))
            if len(known) > 2 * APART:
                # The older half as one: anything, at the latest of their places.
                old = known[:APART]
                known[:APART] = [(max(entry[0] for entry in old), None, any(entry[2] for entry in old), None)]

    # -- placing --------------------------------------------------------------------
    def single(self, statement):
        touched = accesses([statement])
        place = self.after(ir.operands(statement))
        for earlier in self.conflicts(touched):
            place = max(place, earlier)
        place += place % 2
        self.bins.setdefault(place, []).append(statement)
        self.place[statement] = place
        self.remember(touched, place)
        if isinstance(statement, ir.Guard) and statement.early:
            self.floor = max(self.floor, place)

    def loop(self, loop):
        inside = list(ir.walk([loop]))
        own, used = set(inside), []
        for statement in inside:
            if isinstance(statement, ir.Loop):
                own.update(statement.carries)
                for carry in statement.carries:
                    used += [carry.init, carry.next]
                if statement.which is not None and statement.which.plus is not None:
                    used.append(statement.which.plus)
            else:
                used += ir.operands(statement)
        inner = {statement for statement in inside[1:] if isinstance(statement, ir.Loop)}
        touched = accesses(inside)
        early = any(isinstance(statement, ir.Guard) and statement.early for statement in inside)
        hard = self.after(value for value in used if value not in own)
        conflicts = self.conflicts(touched)
        latest = max(conflicts, default=-1)
        joined = None
        if not loop.ragged and not early:
            kind = shape(loop)
            alike = self.alike.setdefault(kind, [])
            first = max(hard, latest)
            for place in alike[bisect_left(alike, first) :]:
                group = self.groups[place]
                if group.size + len(inside) > MOST:
                    continue
                if all(in_order(one, group.loop, two, loop, group.inside | inner) for one, two in conflicts.get(place, ())):
                    joined = place
                    break
        if joined is None:
            place = self.last = self.last + 2
            assert place > max(hard, latest)
            self.groups[place] = _Group(loop, len(inside), inner)
            if not loop.ragged and not early:
                alike.append(place)
        else:
            place = joined
            group = self.groups[place]
            reindex(loop.body, {loop: (group.loop, 1, 0)})
            touched = accesses(inside[1:])
            group.loop.body += loop.body
            group.loop.carries += loop.carries
            group.inside |= inner
            group.size += len(inside)
        for statement in own:
            self.place[statement] = place
        self.remember(touched, place)
        if early:
            self.floor = max(self.floor, place + 1)


def shape(loop):
    """What loops must have in common to be fused: extents of loops and of those inside, and how they vectorise."""
    inner = tuple(sorted({repr(shape(s)) for s in loop.body if isinstance(s, ir.Loop)}))
    extent = loop.extent if not loop.ragged else id(loop)
    # A loop whose iterations wait for each other would keep others from being vectorised.
    return extent, inner, any(not carry.reorder for carry in loop.carries)


def accesses(statements):
    """Triples (buffer, index or None, whether it is written) of what `statements` touch, each once."""
    found = {}
    for statement in statements:
        if isinstance(statement, (ir.Load, ir.Store)):
            if statement.buffer.role != ir.CONSTANT:
                stores = isinstance(statement, ir.Store)
                index = statement.index
                table = None if index.table is None else id(index.table)
                key = statement.buffer, index.base, index.steps, table, index.plus, stores
                found[key] = statement.buffer, index, stores
        elif isinstance(statement, ir.Run):
            for buffer in statement.writes:
                found[buffer, True] = buffer, None, True
            for buffer in statement.reads - statement.writes:
                found[buffer, False] = buffer, None, False
    return list(found.values())

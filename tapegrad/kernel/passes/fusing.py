"""Loops of equal extent become one loop.

Statements of a body are placed one after the other, each as early as what it
depends on allows.  Places are counted: loops stand at odd ones, the other
statements between them at even ones.  A loop whose extent an earlier loop has, at
a place that is not too early, joins it.

It may even join a loop that it depends on by memory, if in every iteration it
touches only what that loop has touched in the same iteration or an earlier one
(`shifts`); if its own iterations have nothing to do with each other, then also
backwards.  Dependence by a value that comes out of a loop always means: after it::

    for i in range(n):                         y1[0] = a9
        t0[i] = a0                             for i in range(n):
    y1[0] = a9                                     t0[i] = a0
    for i in range(n):                             a1 = t0[i]
        a1 = t0[i]                                 y0[i] = a1
        y0[i] = a1

(Afterwards `simplifying` sees that a1 is a0.)

Iterations are written out: at the ends of neighbouring loops of nearly equal extent, which become one, and of short loops.

A loop over n elements and one over the n - 1 differences of neighbours, or a window of an array and its
neighbour, ``y[:-1]`` and ``y[1:]``, cannot be one loop as they are: the extents differ, or the second reads
what the first stores one iteration later.  But iteration i of the second can be beside iteration i + k of the
first.  What has no partner then, at the beginning of the first loop and at the end of one of them, is written
out beside the loops (*peeled*), and what is left is of equal extent::

    for i in range(n):                         y[0] = ...
        y[i] = ...                             for i in range(n - 1):
    for i in range(n):                             y[i + 1] = ...
        y[i + 1] = y[i + 1] + ...              for i in range(n - 1):
                                                   y[i + 1] = y[i + 1] + ...
                                               y[n] = y[n] + ...

Nothing is moved: all iterations are executed in the order in which they were.  Whether the rests may become one
loop is for `fuse` to find out.

`unroll` writes out short loops over elements that a constant table names, so that it is known what these elements are::

    for i in range(2):                         a2 = x0[5]
        a0 = c0[i]                             y0[0] = a2
        a1 = x0[a0]                            a3 = x0[3]
        y0[i] = a1                             y0[1] = a3

So what was stored before may be what is loaded, and stores wait for no others.
"""

from bisect import bisect_left

import numpy as np

from ...common.errors import require
from .. import ir
from .simplifying import simplify
from .statements import Copying, form, reindexed, resolve, rewrite, span

#: Operations, loads and stores of a loop beyond which no other joins it: longer ones are cut (`kernel.cut`).
MOST = 1000

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


def shifts(first, loop, second, other, inside):
    """By how many iterations two accesses to one buffer may meet.

    Iteration i of `other` touches at index `second` what iteration i + k of `loop` touches at index `first`.
    Both loops have the same extent and stand in the same body; `inside` are the loops in their bodies.

    Returns
    -------
    (int, int)
        Least and greatest k; the first greater than the second if they never meet.
    """
    far = loop.extent - 1
    if first is None or second is None or first.plus is not None or second.plus is not None:
        return -far, far
    one, two = dict(first.steps), dict(second.steps)
    step, same = one.pop(loop, 0), two.pop(other, 0)
    if first.table is not None or second.table is not None:
        # Different elements in different iterations, the same ones in both loops.
        shared = first.table is second.table and first.base == second.base and step == same and not one and not two
        return (0, 0) if shared and step != 0 and len({*first.table.tolist()}) == len(first.table) else (-far, far)
    if step != same:
        return -far, far
    # They meet where step * k lies in this range.
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
        return (-far, far) if low <= 0 <= high else (1, 0)
    return max(-far, -(-low // step)), min(far, high // step)


def in_order(first, loop, second, other, inside):
    """Whether `second` of `other` may follow `first` of `loop` within each iteration (see `shifts`)."""
    least, greatest = shifts(first, loop, second, other, inside)
    return least > greatest or greatest <= 0


def at_once(first, loop, second, other, inside):
    """Whether they meet in the same iteration only, if ever."""
    least, greatest = shifts(first, loop, second, other, inside)
    return least > greatest or least == greatest == 0


def operations_of(statements):
    """The operations of expressions, as often as they stand there."""
    return [node.op for let in statements if isinstance(let, ir.Let) for node in ir.nodes(let.expr)]


class _LoopGroup:
    """A loop that others may join.

    Attributes
    ----------
    size : int
        Operations, loads and stores.
    inside : set of Loop
        In its body.
    serial : bool
        Iterations wait for each other; that would keep others from being vectorised.
    dear : bool
        It would be a pity.
    """

    def __init__(self, loop, inside):
        self.loop = loop
        self.inside = {statement for statement in inside[1:] if isinstance(statement, ir.Loop)}
        self.serial = any(not carry.reorder for carry in loop.carries)
        operations = operations_of(inside)
        self.dear = not ir.CHEAP.issuperset(operations)
        self.size = sum(op not in ("arg", "const") for op in operations) + sum(isinstance(s, (ir.Load, ir.Store)) for s in inside)

    def suits(self, other):
        """Whether both as one loop would be no slower than two (``np.exp(np.cumsum(x))`` would take 1.7 times as long)."""
        if self.size + other.size > MOST:
            return False
        return not (self.serial and other.dear and not other.serial or other.serial and self.dear and not self.serial)

    def take(self, other):
        """Make the statements of the other, whose counter is this one's already, part of this."""
        self.loop.body += other.loop.body
        self.loop.carries += other.loop.carries
        self.inside |= other.inside
        self.size += other.size
        self.serial |= other.serial
        self.dear |= other.dear


class _Placing:
    def __init__(self):
        self.position = {}
        self.bins = {}
        self.groups = {}
        self.alike = {}
        self.accesses = {}
        self.last = -1
        self.floor = 0
        self.exported = set()

    def run(self, body):
        home, walked = {}, {statement: list(ir.walk([statement])) for statement in body}
        for statement, inside in walked.items():
            home.update(dict.fromkeys(ir.with_carries(inside), statement))
        used = {statement: {v: None for inner in inside for v in ir.operands(inner)} for statement, inside in walked.items()}
        for statement, values in used.items():
            self.exported.update(v for v in values if v in home and home[v] is not statement)
        for statement in body:
            if isinstance(statement, ir.Loop):
                self.loop(statement, walked[statement], used[statement])
            else:
                self.single(statement)
        result = []
        for position in range(self.last + 2):
            if position % 2:
                result.append(self.groups[position].loop)
            else:
                result += self.bins.get(position, ())
        return result

    # -- what depends on what -------------------------------------------------------
    def after(self, values):
        """The first position at which all of `values` can be used."""
        earliest = self.floor
        for value in values:
            position = self.position.get(value)
            if position is not None:
                earliest = max(earliest, position + position % 2)
        return earliest

    def conflicts(self, touched):
        """For each position with an access that must stay before one of `touched`: the pairs of them."""
        pairs = {}
        for buffer, index, stores in touched:
            bounds = None if index is None else span(index)
            for position, other, wrote, there in self.accesses.get(buffer, ()):
                if (stores or wrote) and not (bounds and there and (there[1] < bounds[0] or bounds[1] < there[0])):
                    pairs.setdefault(position, []).append((other, index))
        return pairs

    def remember(self, touched, position):
        for buffer, index, stores in touched:
            entries = self.accesses.setdefault(buffer, [])
            entries.append((position, index, stores, None if index is None else span(index)))
            if len(entries) > 2 * APART:
                # The older half as one: anything, at the latest of their positions.
                old = entries[:APART]
                entries[:APART] = [(max(entry[0] for entry in old), None, any(entry[2] for entry in old), None)]

    # -- placing --------------------------------------------------------------------
    def single(self, statement):
        touched = accesses([statement])
        position = self.after(ir.operands(statement))
        for earlier in self.conflicts(touched):
            position = max(position, earlier)
        position += position % 2
        self.bins.setdefault(position, []).append(statement)
        self.position[statement] = position
        self.remember(touched, position)
        if isinstance(statement, ir.Guard) and statement.early:
            self.floor = max(self.floor, position)

    def partner(self, new, positions, conflicts, ways):
        """The first of `positions` whose loop `new` may join, and which of the `ways` of counting it needs."""
        for position in positions:
            group = self.groups[position]
            inner = group.inside | new.inside
            if group.suits(new):
                for way in ways:
                    turned = {new.loop: way}
                    if all(
                        second is not None and in_order(first, group.loop, reindexed(second, loops=turned), new.loop, inner)
                        for first, second in conflicts.get(position, ())
                    ):
                        return position, way
        return None, None

    def loop(self, loop, inside, used):
        """Place a loop; `inside`: it and every statement in it; `used`: the values that these use."""
        own = ir.with_carries(inside)
        touched = accesses(inside)
        early = any(isinstance(statement, ir.Guard) and statement.early for statement in inside)
        hard = self.after(value for value in used if value not in own)
        conflicts = self.conflicts(touched)
        latest = max(conflicts, default=-1)
        new = _LoopGroup(loop, inside)
        position, alone = None, loop.ragged or early
        if not alone:
            alike = self.alike.setdefault(shape(loop), [])
            ways = [(loop, 1, 0)]
            if own.isdisjoint(self.exported) and independent(loop, inside, touched, new.inside):
                ways.append((loop, -1, loop.extent - 1))
            position, way = self.partner(new, alike[bisect_left(alike, max(hard, latest)) :], conflicts, ways)
        if position is None:
            position = self.last = self.last + 2
            require(position > max(hard, latest), "a loop is placed before what it depends on")
            self.groups[position] = new
            if not alone:
                alike.append(position)
        else:
            group = self.groups[position]
            for statement in inside[1:]:
                rewrite(statement, {}, {loop: (group.loop, *way[1:])})
            touched = accesses(inside[1:])
            group.take(new)
        for statement in own:
            self.position[statement] = position
        self.remember(touched, position)
        if early:
            self.floor = max(self.floor, position + 1)


def independent(loop, inside, touched, inner):
    """Whether the iterations of `loop` can be run in any order."""
    if loop.carries or any(isinstance(statement, (ir.Guard, ir.Run)) for statement in inside):
        return False
    stored = [(buffer, index) for buffer, index, stores in touched if stores]
    pairs = ((one, two) for buffer, one in stored for other, two, _ in touched if other is buffer)
    return len(touched) <= APART and all(at_once(one, loop, two, loop, inner) for one, two in pairs)


def shape(loop):
    """What loops must have in common to be fused: extents, also of the loops inside."""
    inner = tuple(sorted({repr(shape(s)) for s in loop.body if isinstance(s, ir.Loop)}))
    return loop.extent if not loop.ragged else id(loop), inner


def accesses(statements):
    """Triples (buffer, index or None, whether it is written) of what `statements` touch, each once."""
    by_key = {}
    for statement in statements:
        for buffer, index, stores in ir.touched(statement):
            if buffer.role != ir.CONSTANT:
                by_key[buffer, stores, index and (index.base, form(index))] = buffer, index, stores
    return list(by_key.values())


# ---- iterations written out ---------------------------------------------------------------

#: Iterations that are peeled at one end, at most.
PEELED = 2
#: Iterations of a loop, at least.
LONG = 32
#: Statements of a loop, at most.
LENGTH = 200
#: How often loops that are one already may meet others.
ROUNDS = 4


def peel(program):
    """Peel iterations of loops of `program`, in place, and fuse what meets; returns whether there was anything."""
    new = {}
    if not _peeled(program.body, new):
        return False
    simplify(program, new)
    fuse(program)
    return True


def _peeled(body, new):
    changed, before, parts = False, None, {}
    for statement in body:
        if not isinstance(statement, ir.Loop):
            continue
        changed |= _peeled(statement.body, new)
        if not _plain(statement):
            before = None
            continue
        apart = None if before is None else _apart(before, statement)
        if apart is None:
            before = statement
            continue
        extent = min(before.extent - apart, statement.extent)
        parts[before], parts[statement] = _cut(before, apart, extent, new), _cut(statement, 0, extent, new)
        # A loop is peeled once.
        before = None
    if parts:
        body[:] = [part for statement in body for part in parts.get(statement, (statement,))]
    return changed or bool(parts)


def _plain(loop):
    """Whether a loop can be peeled, and another could join it."""
    fits = not loop.ragged and loop.extent >= LONG and len(loop.body) <= LENGTH and all(carry.reorder for carry in loop.carries)
    return fits and not any(isinstance(s, (ir.Loop, ir.Run, ir.Guard)) for s in loop.body)


def _apart(first, second):
    """By how many iterations `first` has to be ahead for them to be one loop; None if they cannot be, or are best left alone."""
    if abs(first.extent - second.extent) > PEELED:
        return None
    own = ir.own([first])
    if any(not own.isdisjoint(ir.operands(statement)) for statement in ir.walk([second])):
        return None
    touched, shared, met = {}, False, set()
    for buffer, index, stores in accesses(first.body):
        touched.setdefault(buffer, []).append((index, stores))
    for buffer, index, stores in accesses(second.body):
        for other, wrote in touched.get(buffer, ()):
            shared = True
            if stores or wrote:
                shift = shifts(other, first, index, second, ())
                if shift[0] <= shift[1]:
                    met.update(shift)
    apart = max(0, *met) if met else 0
    if not shared or apart > PEELED or apart == 0 and first.extent == second.extent:
        return None
    if met - {apart} and not ir.CHEAP.issuperset(operations_of([*first.body, *second.body])):
        # Iterations would wait for one another, and what is dear could not be vectorised.
        return None
    return apart


def _cut(loop, start, extent, new):
    """The first `start` iterations of `loop` by themselves, a loop over `extent` iterations, and the others by themselves."""
    copying, result = Copying(new), []
    now = copying.iterations(loop, range(start), [resolve(carry.init, new) for carry in loop.carries], result)
    result.append(copying.loop(loop, extent, start, now))
    copying.iterations(loop, range(start + extent, loop.extent), [carry.next for carry in result[-1].carries], result)
    new.update(copying.copies)
    return result


#: Statements that a loop becomes, at most.
UNROLLED = 128


def unroll(program):
    """Unroll such loops of `program`, in place; returns what stands for their values (`simplify`)."""
    new, body = {}, []
    for statement in program.body:
        if not _unrolls(statement):
            body.append(statement)
            continue
        copying, straight = Copying(new), []
        copying.iterations(statement, range(statement.extent), [], straight)
        for part in straight:
            if _named(part) and not part.index.plus.index.steps:
                named = part.index.plus
                part.index = ir.Index(part.index.base + int(np.ravel(named.buffer.data)[named.index.base]))
        body += straight
        new.update(copying.copies)
    program.body = body
    return new


def _unrolls(loop):
    small = isinstance(loop, ir.Loop) and not loop.ragged and not loop.carries and loop.extent * len(loop.body) <= UNROLLED
    return small and all(isinstance(s, (ir.Load, ir.Store)) for s in loop.body) and any(map(_named, loop.body))


def _named(statement):
    """Whether the element is that which a constant, which stays what it is, has the number of."""
    index, plus = statement.index, statement.index.plus
    if index.table is not None or not isinstance(plus, ir.Load) or plus.buffer.role != ir.CONSTANT or plus.buffer.data.flags.writeable:
        return False
    return plus.index.table is None and plus.index.plus is None

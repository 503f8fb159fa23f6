"""Loops of which the second reads what the first stores in its next iteration.

A window of an array and its neighbour, ``y[:-1]`` and ``y[1:]``, give two loops of equal
extent: one stores to ``y[i]``, the other adds to ``y[i + 1]``.  They cannot be one loop as
they are.  But iteration i of the second can be beside iteration i + 1 of the first.  So the
first iteration of the first loop, and the last of the second, are written out beside the loops
(*peeled*), and what is left meets in equal iterations::

    for i in range(n):                         y[0] = ...
        y[i] = ...                             for i in range(n - 1):
    for i in range(n):                             y[i + 1] = ...
        y[i + 1] = y[i + 1] + ...              for i in range(n - 1):
                                                   y[i + 1] = y[i + 1] + ...
                                               y[n] = y[n] + ...

Nothing is moved: all iterations are executed in the order in which they were.  Whether
the rests may become one loop is for `fusing` to find out.
"""

from __future__ import annotations

from collections import ChainMap
from copy import copy

from .. import ir
from .fusing import accesses, shifts
from .rewriting import resolve, rewrite

#: Iterations that are peeled, at most.
MOST = 2
#: Iterations of a loop, at least.
LONG = 32
#: Statements of a loop, at most.
LENGTH = 200


def peel(program):
    """Peel iterations of loops of `program`, in place.

    Returns
    -------
    dict or None
        Replacements of values, to be given to `simplify`; None if nothing was peeled.
    """
    new = {}
    return new if _peeled(program.body, new) else None


def _peeled(body, new):
    changed, before, parts = False, None, {}
    for statement in body:
        if not isinstance(statement, ir.Loop):
            continue
        changed |= _peeled(statement.body, new)
        if not _plain(statement):
            before = None
            continue
        apart = _apart(before, statement) if before is not None else 0
        if apart:
            parts[before], parts[statement] = _without_first(before, apart, new), _without_last(statement, apart, new)
        # A loop is peeled once.
        before = None if apart else statement
    if parts:
        body[:] = [part for statement in body for part in parts.get(statement, (statement,))]
    return changed or bool(parts)


def _plain(loop):
    """Whether a loop can be peeled, and another could join it."""
    return (
        not loop.ragged
        and loop.extent >= LONG
        and len(loop.body) <= LENGTH
        and all(carry.reorder for carry in loop.carries)
        and not any(isinstance(s, (ir.Loop, ir.Run, ir.Guard)) for s in loop.body)
    )


def _apart(first, second):
    """By how many iterations `first` has to be ahead for them to be one loop; 0 if that is not it."""
    if first.extent != second.extent:
        return 0
    own = ir.own([first])
    if any(not own.isdisjoint(ir.operands(statement)) for statement in ir.walk([second])):
        return 0
    touched = {}
    for buffer, index, stores in accesses(first.body):
        touched.setdefault(buffer, []).append((index, stores))
    met = set()
    for buffer, index, stores in accesses(second.body):
        for other, wrote in touched.get(buffer, ()):
            if stores or wrote:
                shift = shifts(other, first, index, second, ())
                if shift is None or shift[0] < shift[1]:
                    return 0
                if shift[0] == shift[1]:
                    met.add(shift[0])
    (apart,) = met if len(met) == 1 else (0,)
    return apart if 0 < apart <= MOST else 0


def _without_first(loop, count, new):
    """The first iterations of `loop` by themselves, and a loop over the others."""
    copying, result = _Copying(new), []
    now = copying.iterations(loop, range(count), [resolve(carry.init, new) for carry in loop.carries], result)
    result.append(copying.loop(loop, loop.extent - count, count, now))
    new.update(copying.copies)
    return result


def _without_last(loop, count, new):
    """A loop over all but the last iterations of `loop`, and these by themselves."""
    copying = _Copying(new)
    result = [copying.loop(loop, loop.extent - count, 0, [carry.init for carry in loop.carries])]
    copying.iterations(loop, range(loop.extent - count, loop.extent), [c.next for c in result[0].carries], result)
    new.update(copying.copies)
    return result


class _Copying:
    """Copies of what is in a loop that can be peeled.

    Parameters
    ----------
    new : dict
        Values that others stand for already.

    Attributes
    ----------
    copies : dict
        Values, and the last copies of them.
    """

    def __init__(self, new):
        self.copies = {}
        self.new = ChainMap(self.copies, new)

    def body(self, loop, counter):
        """Copies of the statements of `loop`; `counter` as in `reindexed`."""
        result = []
        for statement in loop.body:
            result.append(copy(statement))
            rewrite(result[-1], self.new, {loop: counter})
            self.copies[statement] = result[-1]
        return result

    def loop(self, loop, extent, first, inits):
        """A loop over `extent` iterations of `loop`, from `first` on."""
        other = ir.Loop(extent)
        other.carries = [ir.Carry(resolve(init, self.new), reorder=c.reorder) for c, init in zip(loop.carries, inits)]
        self.copies.update(zip(loop.carries, other.carries))
        other.body = self.body(loop, (other, 1, first))
        for carry, own in zip(loop.carries, other.carries):
            own.next = resolve(carry.next, self.new)
        return other

    def iterations(self, loop, numbers, now, result):
        """Append the iterations `numbers` of `loop` to `result`.

        `now` are the values of its carries before them; returns those after them.
        """
        for k in numbers:
            self.copies.update(zip(loop.carries, now))
            result += self.body(loop, (None, 1, k))
            now = [resolve(carry.next, self.new) for carry in loop.carries]
        return now

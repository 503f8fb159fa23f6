"""The tapes of one function for one kind of arguments: a tree keyed by what guards saw.

Two tapes that saw the same outcomes at their first guards have the same
instructions up to there.  So when a replay stops at a guard, the outcome it saw
leads to the tapes that went on from the same outcome; if there is none, the
function has to be recorded.  Of a function with ``if x > 0`` and, only where that holds, ``if x > 9``::

    x > 0 ?  --True-->  x > 9 ?  --True-->   tape A
             --False->  tape C   --False-->  tape B

A replay of A at x = 5 stops at its second guard; `Tapes.after` leads to B.
"""

from __future__ import annotations

from ...program.pool import Pool
from .kernels import Kernels


class _Node:
    """The tapes that agree so far; `recent` is one of them."""

    __slots__ = ("children", "recent")

    def __init__(self):
        self.children = {}
        self.recent = None


class Kept(Pool):
    """A finished tape in use: its pool of workspaces, its kernels, and when it was used last."""

    def __init__(self, tape, options, first=False):
        super().__init__(tape)
        self.kernels = Kernels(tape, options, first)
        self.used = 0
        self.replay = self.short = None


class Tapes:
    """All tapes for one kind of arguments, at most `limit` (the least recently used goes)."""

    def __init__(self, limit):
        self.limit = limit
        self.all = []
        self.root = _Node()
        self.clock = 0

    def add(self, kept):
        """Keep a tape."""
        if len(self.all) >= self.limit:
            # The tape tried first was used last, although a call of its site does not say so.
            if self.root.recent in self.all:
                self.touch(self.root.recent)
            self.all.remove(min(self.all, key=lambda k: k.used))
            self.root = _Node()
            for other in self.all:
                self._insert(other)
        self.all.append(kept)
        self._insert(kept)
        self.touch(kept)

    def _insert(self, kept):
        node = self.root
        node.recent = kept
        for guard in kept.tape.guards:
            node = node.children.setdefault(guard.seen, _Node())
            node.recent = kept

    def touch(self, kept):
        """Note that `kept` was used now."""
        self.clock += 1
        kept.used = self.clock

    def first(self):
        """The tape to try first, or None."""
        return self.root.recent

    def after(self, kept, guard, seen):
        """A tape that agrees with `kept` before `guard` and saw `seen` there, or None."""
        node = self.root
        for earlier in kept.tape.guards[:guard]:
            # Meanwhile another thread may have dropped `kept`.
            node = node.children.get(earlier.seen)
            if node is None:
                return None
        node = node.children.get(seen)
        return node.recent if node is not None else None

    def prefer(self, kept):
        """Try `kept` first next time."""
        self.touch(kept)
        self.root.recent = kept

"""What the body of a loop changes besides its carry: random generators, counters, lists, arrays that it captures.

A body is recorded once for each path, and more often where a first recording did not do; in the Python loop it runs in every turn.
That is the same as long as it changes nothing.  So what it reads is looked at before and after (`transforms.captured`).  If
something is another thing then, it is put back to what it was, and the loop runs as the Python loop that it stands for, turn by turn.
Under `jit` nothing is looked at: there a body is under the contract of `jit`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from copy import copy

import numpy as np

from ...array.differentiable import Differentiable
from ...common.errors import ModifiedInPlaceError
from ...tape.places import function_name
from ...tape.store import thread_state
from ..captured import OBJECTS, Captured, States, fields_of
from ..replay.surroundings import ABSENT
from .body import Unrecordable

#: Bytes of an array of which a copy is kept.
COPIED = 1 << 24


class _Read(Captured):
    """What functions read, also by objects of ours: methods for differential equations, modules."""

    def _opens(self, value):
        return type(value).__module__.startswith(("tapegrad.scipy.integrate", "tapegrad.nn")) and not isinstance(value, Differentiable)


class State(_Read):
    """What functions read, to be put back.

    Parameters
    ----------
    functions : sequence of callable
    what : str
        How they are named in messages.
    """

    def __init__(self, functions, what):
        #: Things with copies; whether an iterator was met, which nobody can look into.
        self._copies, self.what = [], what
        self.jit = any(tape.store.trace is not None and not tape.store.trace.depth for tape in thread_state().tapes)
        self.iterates = False
        super().__init__(functions[0], OBJECTS, [(function_name(function), function) for function in functions[1:]])
        self._states = States(self.generators)
        self.namespaces += [(function, fields_of(function)) for function, *_ in self.functions]

    def _first(self, name, thing):
        first = super()._first(name, thing)
        self.iterates = self.iterates or isinstance(thing, Iterator) and not self.jit
        small = isinstance(thing, np.ndarray) and thing.flags.writeable and thing.nbytes <= COPIED
        if first and (small or isinstance(thing, (list, dict, set, deque))):
            self._copies.append((thing, copy(thing)))
        return first

    def changed(self):
        """The name of the first thing that is not what it was, or None."""
        return "a random generator" if self._states.moved() else self.difference(_Read(self.function, self.objects, self.arguments))

    def put_back(self):
        """Make everything what it was; raises if it cannot be."""
        if not self.changed():
            return
        self._states.put_back()
        for thing, before in self._copies:
            if isinstance(thing, np.ndarray):
                thing[...] = before
            else:
                thing.clear()
                (thing.extend if isinstance(thing, (list, deque)) else thing.update)(before)
        for function, _, (cells, _, _, scope) in self.functions:
            for cell, (_, value) in zip(function.__closure__ or (), cells):
                _bind(cell, {"cell_contents": value})
            function.__globals__.update(scope)
            for name, _ in filter(lambda pair: pair[1] is ABSENT, scope):
                del function.__globals__[name]
        for thing, before in self.namespaces:
            now = fields_of(thing)
            _bind(thing, {name: before.get(name, ABSENT) for name in now | before if now.get(name, ABSENT) is not before.get(name, ABSENT)})
        if name := self.changed():
            raise ModifiedInPlaceError(
                f"{self.what} changes {name!r}, which cannot be put back, and was run to be recorded. Carry it from turn to turn, or write a loop of Python's"
            )

    def run(self, recorded, plainly):
        """`recorded()`, or what `plainly()` gives if that cannot be, or changes something (not asked under `jit`)."""
        if not self.iterates:
            try:
                result = recorded()
                if self.jit or not self.changed():
                    return result
            except Unrecordable:
                pass
            except Exception:
                if self.jit or not self.changed():
                    raise
            if not self.jit:
                self.put_back()
        return plainly()


def _bind(thing, values):
    for name, value in values.items():
        if value is ABSENT:
            delattr(thing, name)
        else:
            setattr(thing, name, value)

"""An objective as optimisers want it: value and gradient at a vector, at once, by replay.

The first evaluation goes the long way (`replay.function`): the function is recorded.
At the second one its replay is compared with what the Python function itself gives
(`optimize.proof`).  From then on `handle` gives loops and SciPy's methods the
compiled way to the tape used last; where a guard sees something else, `record` finds
the tape of that path, or records it.  What the function depends on besides its
arguments is compared when an optimisation begins, and after user code has run
(`suspect`); in between nothing but our own code runs.
"""

from __future__ import annotations

import time

import numpy as np

from ..errors import NonFiniteError, StructureError
from ..functional import Transformed
from ..tape.meta import SCALAR
from .keep import kept as kept_with
from .layout import Layout
from .proof import spare_a_recording


class Counts:
    """What an optimisation has cost so far.

    Attributes
    ----------
    evaluations : int
        Of the value with its gradient.
    records : int
        Times that the user's function ran to be recorded.
    seconds : float
        In evaluations that were not answered by compiled code.
    """

    def __init__(self):
        self.evaluations = 0
        self.records = 0
        self.seconds = 0.0


class Objective:
    """`function(x, *args)` with its gradient, for vectors like that of `x0`.

    Parameters
    ----------
    function : callable
        Takes the containers of `x0`, returns one number.  What `tg.value_and_grad` returned is taken
        as the function it is of, together with what it has recorded.
    x0 : float, array_like, or containers of them
    args : tuple
        Further arguments.

    Attributes
    ----------
    layout : Layout
    counts : Counts
    """

    def __init__(self, function, x0, args=()):
        self.args = args if isinstance(args, tuple) else (args,)
        self.layout = Layout(x0)
        if isinstance(function, Transformed):
            self.function, self.replayed = function.__wrapped__, function._replayed
            if self.replayed.argnums != (0,) or self.replayed.has_aux or not self.replayed.scalar:
                raise StructureError("the function must be differentiated with respect to its first argument, without has_aux")
        else:
            if not callable(function):
                raise StructureError(f"expected a function to minimise, got {type(function).__name__}")
            self.function, self.replayed = function, kept_with(function, "value_and_grad", _replayed)
        self.counts = Counts()
        self._before = self.replayed.stats.records
        self._handles, self._current, self._suspect = {}, None, True
        self._unproved = True
        self._since = 0
        self._value = np.empty(1)
        self._entry = None

    # -- compiled -------------------------------------------------------------------
    def suspect(self):
        """User code has run: compare the surroundings of the function before the next evaluation."""
        self._suspect = True

    def handle(self):
        """The address of the current handle (`optimize.entry`), or 0 if the next evaluation has to go the long way."""
        current = self._current
        if current is None or self._unproved:
            return 0
        if self._suspect:
            self._suspect = False
            if current.kind.given_up or current.surroundings.changed() is not None:
                self.close()
                return 0
        current.workspace.refresh()
        return current.address

    def evaluate(self, x, g):
        """The value at vector `x`; the gradient goes into `g`."""
        handle = self.handle()
        if handle:
            from ..replay.entry import enter
            from ..sweep.native import data_address

            status = enter(handle, data_address(x), data_address(g), data_address(self._value))
            if status == self._entry.DONE:
                self.note(1)
                return float(self._value[0])
        return self.record(x, g)

    def note(self, count):
        """Note evaluations by compiled code."""
        self.counts.evaluations += count
        self.replayed.stats.sweeps += count
        self._since += count

    # -- the long way -----------------------------------------------------------------
    def record(self, x, g):
        """`evaluate` by the replayed function, which records where it has to."""
        start = time.perf_counter()
        args = (self.layout.container(x), *self.args)
        if self._current is not None:
            # A path is given up that changes at nearly every call: those answered by compiled code count too.
            kind = self._current.kind
            for _ in range(min(self._since, 32) if kind.recent else 0):
                kind.note(False)
        self._since = 0
        spare_a_recording(self.replayed, self.function, args)
        outcome = self.replayed.call(args, {})
        value = float(outcome.values[0])
        for part, a, b in zip((p for p in outcome.gradients if p is not None), self.layout.offsets, self.layout.offsets[1:]):
            g[a:b] = part.reshape(-1)
        self._adopt(args)
        self.counts.evaluations += 1
        self.counts.records = self.replayed.stats.records - self._before
        self.counts.seconds += time.perf_counter() - start
        return value

    def _adopt(self, args):
        """Go on with the tape that answered the last call, if compiled code can."""
        inputs, key, _ = self.replayed._sorted(args, {})
        kind = self.replayed.kinds.get(key)
        kept = kind.tapes.first() if kind is not None and not kind.given_up else None
        if kept is None:
            self._current = None
            return
        found = self._handles.get(id(kept))
        if found is None or found.surroundings is not kind.surroundings:
            found = self._handles[id(kept)] = _Handle(kind, kept, inputs, self.layout)
        self._current = found if found.address else None
        self._unproved = kind.calls < 2
        if self._entry is None:
            from . import entry

            self._entry = entry

    def close(self):
        """Give the workspaces back."""
        for handle in self._handles.values():
            handle.kept.give(handle.workspace)
        self._handles, self._current = {}, None

    # -- numbers that are none -----------------------------------------------------------
    def refuse(self, x, value, g, hint=""):
        """Raise `NonFiniteError` that names the operation from which the value or gradient is not finite at `x`."""
        if not np.isfinite(value):
            what = f"the value is {value}"
        else:
            k = int(np.flatnonzero(~np.isfinite(g))[0])
            what = f"the derivative by {self.layout.name_of(k).replace('x0', 'x', 1)} is {g[k]}"
        raise NonFiniteError(f"{what} at x = {self._point(x)} (evaluation {self.counts.evaluations}): {self._culprit(x)}{hint}")

    def _culprit(self, x):
        from ..anomaly import first_anomaly

        found = first_anomaly(self.function, (self.layout.container(x.copy()), *self.args))
        return found or "each operation by itself gives finite numbers; start elsewhere, or give bounds"

    def _point(self, x):
        with np.printoptions(precision=6, threshold=8, edgeitems=3):
            return str(self.layout.container(x)) if self.layout.structure.kind is not None else str(x)


class _Handle:
    """A workspace of a tape, as compiled code calls it (`optimize.entry`).

    `address` is 0 if compiled code cannot call it: an instruction needs the interpreter, or the value is no float64.
    """

    def __init__(self, kind, kept, inputs, layout):
        from ..native.compile import native_address
        from ..sweep.native import data_address
        from . import entry as E

        self.kind, self.kept, self.surroundings = kind, kept, kind.surroundings
        self.workspace = workspace = kept.take()
        self.address = 0
        slot, found = kept.tape.outputs[0]
        if workspace.hosts or workspace.in_python or slot and found is not SCALAR:
            return
        #: Kept alive: the values of the further arguments, whose addresses the workspace has.
        self._inputs = inputs
        for k, array in enumerate(inputs):
            workspace.inputs[k] = data_address(array)
        self._constant = np.array(0.0 if slot else float(getattr(found, "_v", found)))
        count = len(layout.shapes)
        words = self._words = np.zeros(E.HEAD + E.LEAF * count, np.int64)
        words[E.H_ENTRY], words[E.H_PARAMETERS] = native_address(E.replayed), workspace.pointer
        words[E.H_VALUE] = workspace.address_of(slot) if slot else data_address(self._constant)
        words[E.H_COUNT] = count
        leaves = words[E.HEAD :].reshape(count, E.LEAF)
        for k, (a, b) in enumerate(zip(layout.offsets, layout.offsets[1:])):
            leaves[k] = 8 * a, 8 * (b - a), data_address(workspace.gradients[k])
        self.address = data_address(words)


def _replayed(function):
    from ..replay.function import Replayed

    return Replayed(function, (0,))

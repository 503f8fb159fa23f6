"""An objective as optimisers want it: value and gradient at a vector, at once, by replay.

The first evaluation goes the long way (`transforms.replay.function`): the function is recorded.
At the second one its replay is compared with what the Python function itself gives
(`optimize.proof`).  From then on `handle` gives loops and SciPy's methods the
compiled way to the tape used last, by its kernel when it has one (`transforms.replay.promotion`: after
many evaluations, or at once); where a guard sees something else, `record` finds
the tape of that path, or records it.  What the function depends on besides its
arguments is compared when an optimisation begins, and after user code has run
(`suspect`); in between nothing but our own code runs.
"""

from __future__ import annotations

import math
import time

import numpy as np

from ..autograd.anomaly import first_anomaly
from ..common.errors import NonFiniteError, StructureError
from ..transforms.functional import Jitted, Transformed, value_and_grad
from ..transforms.replay.arguments import sort_arguments
from ..transforms.replay.promotion import checked_policy
from .keep import kept as kept_with
from .layout import Layout
from .proof import spare_a_recording, stands_for


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
        Takes the containers of `x0`, returns one number.  What `tg.value_and_grad` or `tg.jit` returned is taken
        as the function it is of, together with what it has recorded and when it becomes a kernel.
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
        if isinstance(function, Jitted):
            function = kept_with(function, "value_and_grad", value_and_grad)
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
        self._entry = self._data_address = None

    # -- compiled -------------------------------------------------------------------
    def suspect(self):
        """User code has run: compare the surroundings of the function before the next evaluation."""
        self._suspect = True

    def handle(self):
        """The address of the current handle (`program.handle`), or 0 if the next evaluation has to go the long way."""
        current = self._current
        if current is None or self._unproved:
            return 0
        if self._suspect:
            self._suspect = False
            if current.kind.given_up or current.surroundings.changed() is not None:
                self.close()
                return 0
        current.promote(self.replayed)
        return current.address

    def until_kernel(self):
        """After how many evaluations by sweep the tape becomes a kernel (inf: never)."""
        current = self._current
        if current is None or current.kernel is not None:
            return math.inf
        kernels = current.kept.kernels
        return max(1, kernels.due[True] - kernels.calls[True] - 1)

    def evaluate(self, x, g):
        """The value at vector `x`; the gradient goes into `g`."""
        value = self._answer(x, g)
        return self.record(x, g) if value is None else value

    def _answer(self, x, g):
        """`evaluate` by compiled code, or None."""
        handle = self.handle()
        if not handle:
            return None
        data_address = self._data_address
        if self._entry.evaluate(handle, data_address(x), data_address(g), data_address(self._value)) != self._entry.DONE:
            return None
        self.note(1)
        return float(self._value[0])

    def note(self, count):
        """Note evaluations by compiled code."""
        current, stats = self._current, self.replayed.stats
        self.counts.evaluations += count
        self._since += count
        if current is not None and current.kernel is not None:
            stats.kernel_calls += count
        else:
            stats.sweeps += count
            if current is not None:
                current.kept.kernels.calls[True] += count

    # -- the long way -----------------------------------------------------------------
    def record(self, x, g):
        """`evaluate` by the replayed function, which records where it has to."""
        start = time.perf_counter()
        args = (self.layout.container(x), *self.args)
        if self._unproved and self._current is not None:
            value = self._proved(x, g, args)
            if value is not None:
                self.counts.seconds += time.perf_counter() - start
                return value
        if self._current is not None:
            # A path is given up that changes at nearly every call: those answered by compiled code count too.
            kind = self._current.kind
            for _ in range(min(self._since, 32) if kind.recent else 0):
                kind.note(False)
        self._since = 0
        spare_a_recording(self.replayed, self.function, args)
        outcome = self.replayed.call(args, {})
        value = np.asarray(outcome.values[0], float).item()
        for part, a, b in zip((p for p in outcome.gradients if p is not None), self.layout.offsets, self.layout.offsets[1:]):
            g[a:b] = part.reshape(-1)
        self._adopt(args)
        self.counts.evaluations += 1
        self.counts.records = self.replayed.stats.records - self._before
        self.counts.seconds += time.perf_counter() - start
        return value

    def _proved(self, x, g, args):
        """`evaluate` by compiled code for the first time, and whether that is what the function gives: the value, or None."""
        kind = self._current.kind
        if kind.calls + 1 != kind.check_at:
            return None
        before, self._unproved = self.counts.evaluations, False
        value = self._answer(x, g)
        if value is not None and stands_for(self.function, args, [value]):
            kind.calls += 1
            kind.check_at *= 2
            self.suspect()
            return value
        self._unproved, self.counts.evaluations = True, before
        return None

    def _adopt(self, args):
        """Go on with the tape that answered the last call, if compiled code can."""
        inputs, key, _ = sort_arguments(args, {}, self.replayed.argnums)
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
            # Compiled code is loaded once there is something to run.
            from ..interpreter.native import data_address
            from ..program import handle

            self._entry, self._data_address = handle, data_address

    def close(self):
        """Give the workspaces back."""
        for handle in self._handles.values():
            handle.replay.close()
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
        found = first_anomaly(self.function, (self.layout.container(x.copy()), *self.args))
        return found or "each operation by itself gives finite numbers; start elsewhere, or give bounds"

    def _point(self, x):
        with np.printoptions(precision=6, threshold=8, edgeitems=3):
            return str(self.layout.container(x)) if self.layout.structure.kind is not None else str(x)


class _Handle:
    """A tape as compiled code calls it (`program.handle`): its replay, and its kernel if it has one.

    `address` is 0 if compiled code cannot call it: an instruction needs the interpreter, or the value is no float64.
    """

    def __init__(self, kind, kept, inputs, layout):
        from ..program.handle import Handle
        from ..program.replayed import Replay

        self.kind, self.kept, self.surroundings = kind, kept, kind.surroundings
        self.address, self.kernel = 0, None
        self.replay = Replay(kept.tape, pool=kept)
        if self.replay.why or self.replay.outputs[0] != ((), "d"):
            return
        count = len(layout.shapes)
        #: Where the tape was used last.
        self._inputs = [np.array(a) for a in inputs[:count]] + inputs[count:]
        self._handle = Handle(self.replay, [8 * a for a in layout.offsets[:count]], self._inputs[count:])
        self.address = self._handle.pointer

    def promote(self, replayed):
        """Go on with the tape's kernel if it has one, or if it is time to make it (`transforms.replay.promotion`)."""
        kernels = self.kept.kernels
        if self.kernel is not None or self.kept.tape.outputs[0][0] == 0:
            return
        if kernels.get(True) is None and kernels.calls[True] + 1 >= kernels.due[True]:
            found = self.replay.answer(self._inputs)[1]
            if found is not None:
                name = getattr(replayed.function, "__name__", type(replayed.function).__name__)
                kernels.note(True, self._inputs, found[:1], found[1:], replayed.stats, name)
        kernel = kernels.get(True)
        if kernel is not None:
            self._handle.prefer(kernel)
            self.kernel = kernel


def _replayed(function):
    from ..transforms.replay.function import Replayed

    return Replayed(function, (0,), policy=checked_policy(None))

"""An objective as optimisers want it: value and gradient at a vector, at once, by replay.

The first evaluations go the long way (`transforms.replay.function`): the function is recorded, and run
plainly beside, to see whether the recording stands for it (`optimize.proof`).  From then on `handle` gives loops and SciPy's methods the
compiled way to the tape used last, by its kernel when it has one (`transforms.replay.function`); where a guard sees something else,
`record` finds the tape of that path, or records it.  What the function depends on besides its
arguments is looked at when an optimisation begins, and after user code has run
(`suspect`); in between nothing but our own code runs.
"""

from __future__ import annotations

import math
import time

import numpy as np

from ..autograd.anomaly import first_anomaly
from ..common.errors import NonFiniteError, StructureError
from ..tape.places import placed_name
from ..transforms.functional import Transformed, options_of
from ..transforms.keep import kept as kept_with
from ..transforms.replay.arguments import sort_arguments
from .layout import Layout
from .proof import FIRST, own_options, stands


class Counts:
    """What an optimisation has cost so far.

    Attributes
    ----------
    evaluations : int
        Of the value with its gradient.
    records, runs : int
        Times that the user's function ran to be recorded, and plainly.
    replays : int
        Evaluations that were answered without it.
    seconds : float
        In evaluations that were not answered by compiled code.
    """

    def __init__(self):
        self.evaluations = 0
        self.records = self.runs = self.replays = 0
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
        options, recorded = options_of(function), None
        if isinstance(function, Transformed):
            asked = function._replayed
            if asked.argnums not in ((), (0,)) or asked.has_aux or not asked.scalar:
                raise StructureError("the function must be differentiated with respect to its first argument, without has_aux")
            function = function.__wrapped__
            if asked.jit is not None and asked.argnums:
                recorded = asked
        if not callable(function):
            raise StructureError(f"expected a function to minimise, got {type(function).__name__}")
        from ..transforms.replay.function import Replayed  # it loads what replays

        options = options or own_options()
        self.function = function
        self.replayed = recorded or kept_with(function, ("value_and_grad", options), lambda function: Replayed(function, (0,), jit=options))
        self.counts = Counts()
        self._before = self.replayed.stats.records, self.replayed.stats.runs
        self._handles, self._current, self._suspect = {}, None, True
        #: Evaluations that are still to be run plainly, too; whether all are run plainly.
        self._unproved, self.differs = FIRST, False
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
            if self.replayed.plain or not self.replayed.surroundings.same():
                self.close()
                return 0
        current.promote(self.replayed)
        return current.address

    def until_kernel(self):
        """After how many evaluations by sweep the tape becomes a kernel (inf: never)."""
        current = self._current
        if current is None or current.kernel is not None:
            return math.inf
        return max(1, current.kept.kernels.left(True))

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
        self.counts.replays += count
        # A function is given up of which nearly every call is recorded: those answered by compiled code count, too.
        self.replayed.quiet += count
        if current is not None and current.kernel is not None:
            stats.kernel_calls += count
        else:
            stats.sweeps += count
            if current is not None:
                current.kept.kernels.visits[True] += count

    # -- the long way -----------------------------------------------------------------
    def record(self, x, g):
        """`evaluate` by the replayed function, which records where it has to."""
        start, replays = time.perf_counter(), self.replayed.stats.replays
        args = (self.layout.container(x), *self.args)
        if self.differs:
            outcome = self.replayed.run(args, {}, True)
        else:
            outcome = self.replayed.call(args, {})
            if self._unproved and not self.replayed.plain:
                self._unproved -= 1
                outcome = self._proved(outcome, args)
            if not self.differs:
                self._adopt(args)
        value = np.asarray(outcome.values[0], float).item()
        for part, a, b in zip((p for p in outcome.gradients if p is not None), self.layout.offsets, self.layout.offsets[1:]):
            g[a:b] = np.reshape(part, -1)
        counts, stats = self.counts, self.replayed.stats
        counts.evaluations += 1
        counts.replays += stats.replays > replays
        counts.records, counts.runs = stats.records - self._before[0], stats.runs - self._before[1]
        counts.seconds += time.perf_counter() - start
        return value

    def _proved(self, outcome, args):
        """`outcome`, of a replay, if the function itself gives the same; else what that gives."""
        plainly = stands(self.replayed, outcome, args, True)
        if plainly is None:
            self.replayed.as_left()
            self.suspect()
            return outcome
        self.differs = True
        self.close()
        return plainly

    def stands(self, x):
        """Whether the recording gives at `x` what the function itself does; if not, it is run plainly from now on."""
        if self.differs or self.replayed.plain:
            return True
        args = (self.layout.container(x.copy()), *self.args)
        self._proved(self.replayed.call(args, {}), args)
        self.counts.runs = self.replayed.stats.runs - self._before[1]
        return not self.differs

    def _adopt(self, args):
        """Go on with the tape that answered the last call, if compiled code can."""
        inputs, key, _ = sort_arguments(args, {}, self.replayed.argnums)
        kind = self.replayed.kinds.get(key)
        kept = kind.recent if kind is not None else None
        if kept is None:
            self._current = None
            return
        found = self._handles.get(id(kept))
        if found is None:
            found = self._handles[id(kept)] = _Handle(kept, inputs, self.layout)
        self._current = found if found.address else None
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

    def __init__(self, kept, inputs, layout):
        from ..program.handle import Handle
        from ..program.replayed import Replay

        self.kept = kept
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
        """Go on with the tape's kernel if it has one, or if it is time to make it (`transforms.replay.function`)."""
        kept, kernels = self.kept, self.kept.kernels
        if self.kernel is not None or kept.tape.outputs[0][0] == 0:
            return
        if kernels.left(True) <= 1:
            from ..transforms.replay.running import Outcome

            results = self.replay.answer(self._inputs)[1]
            if results is not None:
                outcome = Outcome(results[:1], kept.tape.structure, results[1:])
                kernels.note(True, self._inputs, outcome, replayed.stats, placed_name(replayed.function))
        kernel = kernels.get(True)
        if kernel is not None:
            self._handle.prefer(kernel)
            self.kernel = kernel

